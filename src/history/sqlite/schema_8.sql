-- Schema 8: points of older branches stay beside those of the newest. A constraint of a table cannot be changed, so the
-- table is replaced. References to it are by its name.

CREATE TABLE point_8 (
    id                INTEGER PRIMARY KEY,
    run               INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,
    split             TEXT NOT NULL,
    step              INTEGER NOT NULL,
    epoch             REAL,
    time              REAL NOT NULL,
    rows              INTEGER NOT NULL,
    rows_seen         INTEGER NOT NULL,
    provisional       INTEGER NOT NULL,
    incomplete        INTEGER NOT NULL,
    tie_fraction      REAL NOT NULL,
    warnings          TEXT NOT NULL,
    estimator         TEXT NOT NULL,
    neighbours        INTEGER NOT NULL,
    seed              INTEGER NOT NULL,
    catalogue_version INTEGER NOT NULL,
    seconds           REAL NOT NULL,
    change_errors     TEXT NOT NULL DEFAULT '[]',
    concept_rows      TEXT NOT NULL DEFAULT '[]',
    launch            INTEGER,
    restart           INTEGER,
    scores            INTEGER NOT NULL DEFAULT 0,
    checksum          INTEGER NOT NULL DEFAULT 0,
    superseded        INTEGER NOT NULL DEFAULT 0, -- 0: of the newest branch; otherwise the point's own id
    UNIQUE (run, split, step, superseded)
) STRICT;

INSERT INTO point_8 (id, run, split, step, epoch, time, rows, rows_seen, provisional, incomplete, tie_fraction, warnings,
    estimator, neighbours, seed, catalogue_version, seconds, change_errors, concept_rows, launch, restart, scores, checksum)
SELECT id, run, split, step, epoch, time, rows, rows_seen, provisional, incomplete, tie_fraction, warnings,
    estimator, neighbours, seed, catalogue_version, seconds, change_errors, concept_rows, launch, restart, scores, checksum
FROM point ORDER BY id;

DROP TABLE point;
ALTER TABLE point_8 RENAME TO point;

-- What the size limit removes first.
CREATE INDEX point_superseded ON point (id) WHERE superseded > 0;

-- As `branch.rs` says: by a later attempt at the step or before, or, where the attempt is unknown, by any that came later.
UPDATE point SET superseded = id WHERE id IN (
    SELECT id FROM (
        SELECT id, launch, restart, time,
            max(launch * 4294967296 + restart) OVER before AS newest,
            max(iif(launch IS NULL, NULL, time)) OVER before AS newest_time
        FROM point WINDOW before AS (PARTITION BY run, split ORDER BY step)
    ) WHERE iif(launch IS NULL, time < newest_time, launch * 4294967296 + restart < newest)
);
