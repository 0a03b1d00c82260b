-- Times are in seconds since 1970-01-01 UTC where they are numbers. Names are compared and sorted by their bytes. Columns
-- `checksum` are NULL, because the database checks its pages itself.

CREATE TABLE run (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name          text COLLATE "C" NOT NULL UNIQUE,
    declared_name text COLLATE "C",            -- the name its first job declared; NULL: same as `name`
    project       text COLLATE "C" NOT NULL,   -- of the token that declared it
    declaration   text NOT NULL,               -- JSON, as serde writes `run::Run`
    labels        text NOT NULL,               -- JSON: those of the declaration, for searches
    concepts      bigint NOT NULL,             -- k
    started       double precision NOT NULL,
    finished      double precision,            -- NULL until the run finishes
    outcome       text,                        -- JSON, as serde writes `RunOutcome`; NULL until a rank ends otherwise, or the run ends
    title         text,                        -- shown in place of the run's name; NULL: the name
    note          text,
    checksum      bigint,
    touched       timestamptz NOT NULL DEFAULT now(), -- when a job last said something, to the minute
    changed       timestamptz NOT NULL DEFAULT clock_timestamp() -- when anything above but `touched` changed
);
CREATE INDEX run_changed ON run (changed);
CREATE INDEX run_unfinished ON run (id) WHERE finished IS NULL;
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

CREATE TABLE point (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run         bigint NOT NULL REFERENCES run ON DELETE CASCADE,
    split       text COLLATE "C" NOT NULL,
    step        bigint NOT NULL,
    ordinal     bigint NOT NULL,               -- of the pass among those of its step and attempt
    time        double precision NOT NULL,
    launch      bigint,                        -- of the attempt that made it; NULL where unknown
    restart     bigint,
    rows_seen   bigint NOT NULL,
    provisional boolean NOT NULL,
    incomplete  boolean NOT NULL,
    body        bytea NOT NULL,                -- the other fields, as postcard writes `stored::Head`
    checksum    bigint,
    superseded  bigint NOT NULL DEFAULT 0,     -- 0: of the newest branch; otherwise the point's own id
    thinned     boolean NOT NULL DEFAULT false, -- its matrices were removed
    UNIQUE (run, split, step, superseded)
);

-- What `retain.rs` looks through every minute: a few points of each split.
CREATE INDEX point_whole ON point (run, split) WHERE NOT thinned;

-- Either `value` or `undefined` is set.
CREATE TABLE value (
    point          bigint NOT NULL REFERENCES point ON DELETE CASCADE,
    score          text COLLATE "C" NOT NULL,
    value          double precision,
    standard_error double precision,
    undefined      text,
    body           bytea NOT NULL,             -- `stored::Rest`
    lists          bytea,                      -- `stored::Lists`
    checksum       bigint,
    PRIMARY KEY (point, score)
);

CREATE TABLE matrix (
    point    bigint NOT NULL REFERENCES point ON DELETE CASCADE,
    score    text COLLATE "C" NOT NULL,
    cells    bytea NOT NULL,                   -- `stored::Matrices`
    checksum bigint,
    PRIMARY KEY (point, score)
);

-- The state of each split's curve, which lists, metrics and comparisons read.
CREATE TABLE curve (
    run     bigint NOT NULL REFERENCES run ON DELETE CASCADE,
    split   text COLLATE "C" NOT NULL,
    time    double precision,                  -- of the newest finished evaluation
    filling boolean NOT NULL DEFAULT false,    -- the newest point is provisional
    body    bytea,                             -- the newest evaluations, as postcard writes `recent::Recent`
    verdict text,                              -- JSON, as serde writes `diagnosis::Verdict`, as the sidecar judged
    changed timestamptz NOT NULL,
    PRIMARY KEY (run, split)
);
CREATE INDEX curve_changed ON curve (changed);
CREATE INDEX curve_split ON curve (split, changed);
-- Its numbers do not shrink.
ALTER TABLE curve ALTER body SET STORAGE EXTERNAL;

-- The states of alert rules, as sidecars judged them. A larger id was pushed later.
CREATE TABLE alert (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run       bigint NOT NULL REFERENCES run ON DELETE CASCADE,
    split     text COLLATE "C" NOT NULL,
    rule      text COLLATE "C" NOT NULL,
    active    boolean NOT NULL,                -- pending or firing
    since     double precision NOT NULL,
    body      text NOT NULL,                   -- JSON, as in `standings` of /api/v1/alerts
    is_newest boolean NOT NULL DEFAULT true    -- of its rule, run and split
);
CREATE UNIQUE INDEX alert_newest ON alert (run, split, rule) WHERE is_newest;
CREATE INDEX alert_active ON alert (run) WHERE is_newest AND active;
CREATE INDEX alert_since ON alert (since DESC);
CREATE INDEX alert_run ON alert (run, id);

-- Passes that were settled without a complete point. A larger id was recorded later.
CREATE TABLE unscored (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run       bigint NOT NULL REFERENCES run ON DELETE CASCADE,
    split     text COLLATE "C" NOT NULL,
    step      bigint NOT NULL,
    ordinal   bigint NOT NULL,
    time      double precision NOT NULL,
    outcome   text NOT NULL,                   -- as `settled::Ending` is named
    reason    text NOT NULL,
    rows_seen bigint NOT NULL,
    launch    bigint,                          -- of the attempt; NULL where unknown
    restart   bigint,
    checksum  bigint,
    UNIQUE (run, split, step)
);

-- Who pushes numbered entries, and the last that was applied.
CREATE TABLE source (
    id      text COLLATE "C" PRIMARY KEY,
    project text COLLATE "C" NOT NULL,
    applied bigint NOT NULL DEFAULT 0,
    heard   timestamptz NOT NULL DEFAULT now() -- when it last pushed or asked
);

-- The runs that a source knows by names of its own.
CREATE TABLE origin (
    source    text COLLATE "C" NOT NULL REFERENCES source ON DELETE CASCADE,
    local_run text COLLATE "C" NOT NULL,
    run       bigint NOT NULL REFERENCES run ON DELETE CASCADE,
    rank      bigint,                          -- the lowest that has declared itself
    job       text NOT NULL DEFAULT '',        -- its job: the scheduler's id, else the launch's name
    host      text NOT NULL DEFAULT '',        -- and its machine
    PRIMARY KEY (source, local_run)
);
CREATE INDEX origin_run ON origin (run);

-- Written again and again to see whether a write succeeds.
CREATE TABLE probe (
    id     integer PRIMARY KEY,
    at     timestamptz NOT NULL DEFAULT now(),
    filler bytea NOT NULL
);
ALTER TABLE probe ALTER filler SET STORAGE PLAIN;
