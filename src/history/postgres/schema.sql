-- Absent cells of a blob are NaN; all numbers in blobs are little-endian. Times are in seconds since
-- 1970-01-01 UTC where they are numbers. Names are compared and sorted by their bytes.

CREATE TABLE run (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name          text COLLATE "C" NOT NULL UNIQUE,
    declared_name text COLLATE "C",            -- the name its first job declared; NULL: same as `name`
    project       text COLLATE "C" NOT NULL,   -- of the token that declared it
    declaration   text NOT NULL,               -- JSON, as serde writes `run::Run`
    labels        text NOT NULL,               -- JSON: those of the declaration, for searches
    concepts      integer NOT NULL,            -- k
    started       double precision NOT NULL,
    finished      double precision,            -- NULL until the run finishes
    title         text,                        -- shown in place of the run's name; NULL: the name
    note          text,
    touched       timestamptz NOT NULL DEFAULT now() -- when a job last said something, to the minute
);
CREATE INDEX run_started ON run (started DESC, id DESC);
CREATE INDEX run_declared ON run (declared_name) WHERE declared_name IS NOT NULL;

-- A larger id was recorded later.
CREATE TABLE launch (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run      bigint NOT NULL REFERENCES run ON DELETE CASCADE,
    job      text COLLATE "C" NOT NULL,        -- the name that its ranks send
    restarts bigint NOT NULL,                  -- highest restart count declared
    UNIQUE (run, job)
);
CREATE INDEX launch_job ON launch (job);

-- The ranks that have declared themselves, of each launch's newest restart.
CREATE TABLE rank (
    launch   bigint NOT NULL REFERENCES launch ON DELETE CASCADE,
    rank     bigint NOT NULL,
    restart  bigint NOT NULL,
    client   text NOT NULL,
    finished double precision,                 -- NULL until the rank finishes
    PRIMARY KEY (launch, rank)
);

-- The processes of a launch's last restarts. See `sample/restart.rs`.
CREATE TABLE process (
    launch     bigint NOT NULL REFERENCES launch ON DELETE CASCADE,
    name       text COLLATE "C" NOT NULL,
    restart    bigint NOT NULL,
    rank       bigint NOT NULL,
    world_size bigint NOT NULL,
    PRIMARY KEY (launch, name)
);
CREATE INDEX process_restart ON process (launch, restart, rank);

CREATE TABLE point (
    id                bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run               bigint NOT NULL REFERENCES run ON DELETE CASCADE,
    split             text COLLATE "C" NOT NULL,
    step              bigint NOT NULL,
    epoch             double precision,
    time              double precision NOT NULL,
    rows              bigint NOT NULL,
    rows_seen         bigint NOT NULL,
    provisional       boolean NOT NULL,
    incomplete        boolean NOT NULL,
    tie_fraction      double precision NOT NULL,
    warnings          text NOT NULL,           -- JSON list of strings
    estimator         text NOT NULL,
    neighbours        bigint NOT NULL,
    seed              bigint NOT NULL,         -- bits of an unsigned 64-bit number
    catalogue_version bigint NOT NULL,
    seconds           double precision NOT NULL,
    change_errors     text NOT NULL,           -- JSON list of [score, standard error of its change]
    concept_rows      text NOT NULL,           -- JSON list of k counts; empty: all rows
    launch            bigint,                  -- of the attempt that made it; NULL where unknown
    restart           bigint,
    thinned           boolean NOT NULL DEFAULT false, -- its matrices were removed
    superseded        bigint NOT NULL DEFAULT 0, -- 0: of the newest branch; otherwise the point's own id
    ordinal           bigint NOT NULL DEFAULT 1, -- of the pass among those of its step and attempt
    repeated_rows     bigint NOT NULL DEFAULT 0, -- copies of the scored rows
    UNIQUE (run, split, step, superseded)
);

-- What `retain.rs` looks through every minute: a few points of each split.
CREATE INDEX point_whole ON point (run, split) WHERE NOT thinned;

-- Either `value` or `undefined` is set.
CREATE TABLE value (
    point          bigint NOT NULL REFERENCES point ON DELETE CASCADE,
    position       integer NOT NULL,           -- index in catalogue order
    score          text COLLATE "C" NOT NULL,
    value          double precision,
    standard_error double precision,
    undefined      text,
    per_concept    bytea,                      -- k f64
    curve          bytea,                      -- pairs of f64: threshold, value
    age            double precision,           -- of the oldest part, in seconds
    left_out       text,                       -- JSON, as serde writes `point::LeftOut`; NULL: nothing
    p_value        double precision,
    per_concept_q  bytea,                      -- k f64
    PRIMARY KEY (point, score)
);

CREATE TABLE matrix (
    point   bigint NOT NULL REFERENCES point ON DELETE CASCADE,
    score   text COLLATE "C" NOT NULL,
    cells   bytea NOT NULL,                    -- k * k f32, row-major
    ages    bytea,                             -- like `cells`, in seconds
    cells_q bytea,                             -- like `cells`
    PRIMARY KEY (point, score)
);

-- What comparisons of many runs read of the newest finished evaluations of each split: some scores, each as a whole.
CREATE TABLE recent (
    run   bigint NOT NULL REFERENCES run ON DELETE CASCADE,
    split text COLLATE "C" NOT NULL,
    body  bytea NOT NULL,                      -- as postcard writes `recent::Recent`
    PRIMARY KEY (run, split)
);
-- Its numbers do not shrink.
ALTER TABLE recent ALTER body SET STORAGE EXTERNAL;

-- Passes that were settled without a complete point. A larger id was recorded later.
CREATE TABLE unscored (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run       bigint NOT NULL REFERENCES run ON DELETE CASCADE,
    split     text COLLATE "C" NOT NULL,
    step      bigint NOT NULL,
    time      double precision NOT NULL,
    outcome   text NOT NULL,                   -- as `settled::Ending` is named
    reason    text NOT NULL,
    rows_seen bigint NOT NULL,
    launch    bigint,                          -- of the attempt; NULL where unknown
    restart   bigint,
    ordinal   bigint NOT NULL DEFAULT 1,
    UNIQUE (run, split, step)
);

-- What has changed, for those who follow; kept for an hour. A transaction has a smaller xid than one that begins to write
-- later, but may commit after it: see `change.rs`.
CREATE TABLE change (
    id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    xid   xid8 NOT NULL DEFAULT pg_current_xact_id(),
    at    timestamptz NOT NULL DEFAULT now(),
    run   text COLLATE "C" NOT NULL,           -- its name: the run may be gone
    kind  text NOT NULL,                       -- as `change::Changed` is named
    split text,
    step  bigint
);
CREATE INDEX change_order ON change (xid, id);
CREATE INDEX change_at ON change (at);

-- Who pushes numbered entries, and the last that was applied.
CREATE TABLE source (
    id      text COLLATE "C" PRIMARY KEY,
    project text COLLATE "C" NOT NULL,
    applied bigint NOT NULL DEFAULT 0
);

-- The runs that a source knows by names of its own.
CREATE TABLE origin (
    source    text COLLATE "C" NOT NULL REFERENCES source ON DELETE CASCADE,
    local_run text COLLATE "C" NOT NULL,
    run       bigint NOT NULL REFERENCES run ON DELETE CASCADE,
    PRIMARY KEY (source, local_run)
);
CREATE INDEX origin_run ON origin (run);
