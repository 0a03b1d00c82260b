-- Schema 6: passes without a complete point, the attempt that made a point, ranks, and checksums.
-- A checksum is over the row's other columns as `seal.rs` reads them; no row is without one.

ALTER TABLE run ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;

ALTER TABLE point ADD COLUMN launch INTEGER;  -- of the attempt that made it; NULL: older than schema 6
ALTER TABLE point ADD COLUMN restart INTEGER;
ALTER TABLE point ADD COLUMN scores INTEGER NOT NULL DEFAULT 0;   -- its rows in `value`
ALTER TABLE point ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0; -- also over the run's name
ALTER TABLE value ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0; -- also over the point's checksum
ALTER TABLE matrix ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0; -- also over the point's checksum

-- Passes that were settled without a complete point. A larger id was recorded later.
CREATE TABLE unscored (
    id        INTEGER PRIMARY KEY,
    run       INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,
    split     TEXT NOT NULL,
    step      INTEGER NOT NULL,
    time      REAL NOT NULL,            -- seconds since 1970-01-01 UTC
    outcome   TEXT NOT NULL,            -- as `unscored::Ending` is named
    reason    TEXT NOT NULL,
    rows_seen INTEGER NOT NULL,
    launch    INTEGER,                  -- of the attempt; NULL where unknown
    restart   INTEGER,
    checksum  INTEGER NOT NULL,         -- also over the run's name
    UNIQUE (run, split, step)
) STRICT;

-- The ranks that have declared themselves, of each launch's newest restart.
CREATE TABLE rank (
    launch   INTEGER NOT NULL REFERENCES launch(id) ON DELETE CASCADE,
    rank     INTEGER NOT NULL,
    restart  INTEGER NOT NULL,
    client   TEXT NOT NULL,
    finished REAL,                      -- seconds since 1970-01-01 UTC; NULL until the rank finishes
    PRIMARY KEY (launch, rank)
) STRICT, WITHOUT ROWID;
