-- Schema 1. Absent cells of a blob are NaN; all numbers in blobs are little-endian.

CREATE TABLE run (
    id          INTEGER PRIMARY KEY,
    name        TEXT NOT NULL UNIQUE,
    declaration TEXT NOT NULL,          -- JSON, as serde writes `run::Run`
    started     REAL NOT NULL,          -- seconds since 1970-01-01 UTC
    finished    REAL                    -- NULL until the run finishes
) STRICT;

-- A larger id was recorded later.
CREATE TABLE point (
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
    warnings          TEXT NOT NULL,    -- JSON list of strings
    estimator         TEXT NOT NULL,
    neighbours        INTEGER NOT NULL,
    seed              INTEGER NOT NULL, -- bits of an unsigned 64-bit number
    catalogue_version INTEGER NOT NULL,
    seconds           REAL NOT NULL,
    UNIQUE (run, split, step)
) STRICT;

-- Either `value` or `undefined` is set.
CREATE TABLE value (
    point          INTEGER NOT NULL REFERENCES point(id) ON DELETE CASCADE,
    position       INTEGER NOT NULL,    -- index in catalogue order
    score          TEXT NOT NULL,
    value          REAL,
    standard_error REAL,
    undefined      TEXT,
    per_concept    BLOB,                -- k f64
    PRIMARY KEY (point, score)
) STRICT, WITHOUT ROWID;

CREATE TABLE matrix (
    point INTEGER NOT NULL REFERENCES point(id) ON DELETE CASCADE,
    score TEXT NOT NULL,
    cells BLOB NOT NULL,                -- k * k f32, row-major
    PRIMARY KEY (point, score)
) STRICT;
