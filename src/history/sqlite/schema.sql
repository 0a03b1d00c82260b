-- Absent cells of a blob are NaN; all numbers in blobs are little-endian. Times are in seconds since 1970-01-01 UTC.
-- A checksum is over the row's other columns as `row_checksum.rs` reads them.

CREATE TABLE run (
    id            INTEGER PRIMARY KEY,
    name          TEXT NOT NULL UNIQUE,
    declaration   TEXT NOT NULL,        -- JSON, as serde writes `run::Run`
    started       REAL NOT NULL,
    finished      REAL,                 -- NULL until the run finishes
    outcome       TEXT,                 -- JSON, as serde writes `RunOutcome`; NULL until a rank ends otherwise, or the run ends
    declared_name TEXT,                 -- the name its first job declared; NULL: same as `name`
    checksum      INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX run_started ON run (started);

-- What people say about runs.
CREATE TABLE remark (
    run      INTEGER PRIMARY KEY REFERENCES run(id) ON DELETE CASCADE,
    title    TEXT,                      -- shown in place of the run's name; NULL: the name
    note     TEXT,
    checksum INTEGER NOT NULL           -- also over the run's name
) STRICT;

-- The launches of a run. A larger id was recorded later.
CREATE TABLE launch (
    id       INTEGER PRIMARY KEY,
    run      INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,
    job      TEXT NOT NULL,             -- the name that its ranks send
    restarts INTEGER NOT NULL,          -- highest restart count declared
    UNIQUE (run, job)
) STRICT;

-- The ranks that have declared themselves, of each launch's newest restart.
CREATE TABLE rank (
    launch   INTEGER NOT NULL REFERENCES launch(id) ON DELETE CASCADE,
    rank     INTEGER NOT NULL,
    restart  INTEGER NOT NULL,
    client   TEXT NOT NULL,
    finished REAL,                      -- NULL until the rank finishes
    PRIMARY KEY (launch, rank)
) STRICT, WITHOUT ROWID;

-- The processes of a launch's last restarts. See `sample/restart.rs`.
CREATE TABLE process (
    launch     INTEGER NOT NULL REFERENCES launch(id) ON DELETE CASCADE,
    name       TEXT NOT NULL,
    restart    INTEGER NOT NULL,
    rank       INTEGER NOT NULL,
    world_size INTEGER NOT NULL,
    PRIMARY KEY (launch, name)
) STRICT;
CREATE INDEX process_by_restart ON process (launch, restart, rank);

-- A larger id was recorded later. No checksum covers the columns behind it: `superseded` can be checked by itself, `ordinal`
-- only decides which pass of a step is the newest, and `repeated_rows` only explains N.
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
    change_errors     TEXT NOT NULL DEFAULT '[]', -- JSON list of [score, standard error of its change]
    concept_rows      TEXT NOT NULL DEFAULT '[]', -- JSON list of k counts; empty: all rows
    launch            INTEGER,          -- of the attempt that made it; NULL where unknown
    restart           INTEGER,
    scores            INTEGER NOT NULL DEFAULT 0, -- its rows in `value`
    checksum          INTEGER NOT NULL DEFAULT 0, -- also over the run's name
    superseded        INTEGER NOT NULL DEFAULT 0, -- 0: of the newest branch; otherwise the point's own id
    ordinal           INTEGER NOT NULL DEFAULT 1, -- of the pass among those of its step and attempt
    repeated_rows     INTEGER NOT NULL DEFAULT 0, -- copies of the scored rows
    UNIQUE (run, split, step, superseded)
) STRICT;
-- The size limit removes these first.
CREATE INDEX point_superseded ON point (id) WHERE superseded > 0;

-- Either `value` or `undefined` is set.
CREATE TABLE value (
    point          INTEGER NOT NULL REFERENCES point(id) ON DELETE CASCADE,
    position       INTEGER NOT NULL,    -- index in catalogue order
    score          TEXT NOT NULL,
    value          REAL,
    standard_error REAL,
    undefined      TEXT,
    per_concept    BLOB,                -- k f64
    curve          BLOB,                -- pairs of f64: threshold, value
    age            REAL,                -- of the oldest part, in seconds; NULL where all are of the point's own sample
    left_out       TEXT,                -- JSON, as serde writes `point::LeftOut`; NULL: nothing
    p_value        REAL,
    per_concept_q  BLOB,                -- k f64
    checksum       INTEGER NOT NULL DEFAULT 0, -- also over the point's checksum
    PRIMARY KEY (point, score)
) STRICT, WITHOUT ROWID;

CREATE TABLE matrix (
    point    INTEGER NOT NULL REFERENCES point(id) ON DELETE CASCADE,
    score    TEXT NOT NULL,
    cells    BLOB NOT NULL,             -- k * k f32, row-major
    ages     BLOB,                      -- like `cells`, in seconds
    cells_q  BLOB,                      -- like `cells`
    checksum INTEGER NOT NULL DEFAULT 0, -- also over the point's checksum
    PRIMARY KEY (point, score)
) STRICT;

-- Passes that were settled without a complete point. A larger id was recorded later.
CREATE TABLE unscored (
    id        INTEGER PRIMARY KEY,
    run       INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,
    split     TEXT NOT NULL,
    step      INTEGER NOT NULL,
    time      REAL NOT NULL,
    outcome   TEXT NOT NULL,            -- as `settled::Ending` is named
    reason    TEXT NOT NULL,
    rows_seen INTEGER NOT NULL,
    launch    INTEGER,                  -- of the attempt; NULL where unknown
    restart   INTEGER,
    checksum  INTEGER NOT NULL,         -- also over the run's name
    ordinal   INTEGER NOT NULL DEFAULT 1, -- not under the checksum
    UNIQUE (run, split, step)
) STRICT;
