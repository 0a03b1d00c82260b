-- Times are in seconds since 1970-01-01 UTC. A checksum is over the row's other columns, in the order of `stored.rs`.

CREATE TABLE run (
    id            INTEGER PRIMARY KEY,
    name          TEXT NOT NULL UNIQUE,
    project       TEXT NOT NULL,        -- of the token that declared it
    declared_name TEXT,                 -- the name its first job declared; NULL: same as `name`
    declaration   TEXT NOT NULL,        -- JSON, as serde writes `run::Run`
    labels        TEXT NOT NULL,        -- JSON: those of the declaration, for searches
    concepts      INTEGER NOT NULL,     -- k
    started       REAL NOT NULL,
    finished      REAL,                 -- NULL until the run finishes
    outcome       TEXT,                 -- JSON, as serde writes `RunOutcome`; NULL until a rank ends otherwise, or the run ends
    title         TEXT,                 -- shown in place of the run's name; NULL: the name
    note          TEXT,
    checksum      INTEGER               -- NULL only within the transaction that creates the run
) STRICT;
CREATE INDEX run_started ON run (started);

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

-- A larger id was recorded later. No checksum covers `superseded`, which can be checked by itself.
CREATE TABLE point (
    id          INTEGER PRIMARY KEY,
    run         INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,
    split       TEXT NOT NULL,
    step        INTEGER NOT NULL,
    ordinal     INTEGER NOT NULL,     -- of the pass among those of its step and attempt
    time        REAL NOT NULL,
    launch      INTEGER,              -- of the attempt that made it; NULL where unknown
    restart     INTEGER,
    rows_seen   INTEGER NOT NULL,
    provisional INTEGER NOT NULL,
    incomplete  INTEGER NOT NULL,
    body        BLOB NOT NULL,        -- the other fields, as postcard writes `stored::Head`
    checksum    INTEGER NOT NULL,     -- also over the run's name
    superseded  INTEGER NOT NULL,     -- 0: of the newest branch; otherwise the point's own id
    UNIQUE (run, split, step, superseded)
) STRICT;
-- The size limit removes these first.
CREATE INDEX point_superseded ON point (id) WHERE superseded > 0;

-- Either `value` or `undefined` is set.
CREATE TABLE value (
    point          INTEGER NOT NULL REFERENCES point(id) ON DELETE CASCADE,
    score          TEXT NOT NULL,
    value          REAL,
    standard_error REAL,
    undefined      TEXT,
    body           BLOB NOT NULL,     -- `stored::Rest`
    lists          BLOB,              -- `stored::Lists`
    checksum       INTEGER NOT NULL,  -- also over the point's checksum
    PRIMARY KEY (point, score)
) STRICT, WITHOUT ROWID;

CREATE TABLE matrix (
    point    INTEGER NOT NULL REFERENCES point(id) ON DELETE CASCADE,
    score    TEXT NOT NULL,
    cells    BLOB NOT NULL,           -- `stored::Matrices`
    checksum INTEGER NOT NULL,        -- also over the point's checksum
    PRIMARY KEY (point, score)
) STRICT;

-- Passes that were settled without a complete point. A larger id was recorded later.
CREATE TABLE unscored (
    id        INTEGER PRIMARY KEY,
    run       INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,
    split     TEXT NOT NULL,
    step      INTEGER NOT NULL,
    ordinal   INTEGER NOT NULL,
    time      REAL NOT NULL,
    outcome   TEXT NOT NULL,          -- as `settled::Ending` is named
    reason    TEXT NOT NULL,
    rows_seen INTEGER NOT NULL,
    launch    INTEGER,                -- of the attempt; NULL where unknown
    restart   INTEGER,
    checksum  INTEGER NOT NULL,       -- also over the run's name
    UNIQUE (run, split, step)
) STRICT;
