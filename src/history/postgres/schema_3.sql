-- Schema 3.

-- What comparisons of many runs read of the newest finished evaluations of each split: some scores, each as a whole.
CREATE TABLE recent (
    run   bigint NOT NULL REFERENCES run ON DELETE CASCADE,
    split text COLLATE "C" NOT NULL,
    body  bytea NOT NULL,                      -- as postcard writes `recent::Recent`
    PRIMARY KEY (run, split)
);
-- Its numbers do not shrink.
ALTER TABLE recent ALTER body SET STORAGE EXTERNAL;
