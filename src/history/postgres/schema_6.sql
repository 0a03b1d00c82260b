-- Schema 6: the processes of a launch's last restarts. See `sample/restart.rs`.

CREATE TABLE process (
    launch     bigint NOT NULL REFERENCES launch ON DELETE CASCADE,
    name       text COLLATE "C" NOT NULL,
    restart    bigint NOT NULL,
    rank       bigint NOT NULL,
    world_size bigint NOT NULL,
    PRIMARY KEY (launch, name)
);
CREATE INDEX process_restart ON process (launch, restart, rank);
