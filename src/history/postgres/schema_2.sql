-- Schema 2: passes whose ranks are on several hosts. What can be sent again or computed again is unlogged: it is lost
-- when the server crashes.

-- The newest attempt that has sent to a split.
CREATE TABLE sending (
    run     bigint NOT NULL REFERENCES run ON DELETE CASCADE,
    split   text COLLATE "C" NOT NULL,
    launch  bigint NOT NULL,
    restart bigint NOT NULL,
    PRIMARY KEY (run, split)
);

CREATE TABLE pass (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run         bigint NOT NULL REFERENCES run ON DELETE CASCADE,
    split       text COLLATE "C" NOT NULL,
    launch      bigint NOT NULL,
    restart     bigint NOT NULL,
    step        bigint NOT NULL,
    world_size  integer NOT NULL,
    opened      timestamptz NOT NULL,          -- the deadline counts from here
    closed      timestamptz,                   -- NULL: parts are missing
    needs_whole boolean NOT NULL DEFAULT false, -- a part with a cut-off does not count
    done        timestamptz,                   -- NULL until no job of it is left
    UNIQUE (run, split, step, launch, restart)
);
CREATE INDEX pass_open ON pass (opened) WHERE closed IS NULL;
CREATE INDEX pass_done ON pass (done) WHERE done IS NOT NULL;

CREATE UNLOGGED TABLE part (
    pass   bigint NOT NULL REFERENCES pass ON DELETE CASCADE,
    source text COLLATE "C" NOT NULL,
    ended  integer[] NOT NULL,                 -- ranks, ascending
    cutoff bigint,                             -- bits of an unsigned 64-bit number; NULL: nothing was left out
    body   bytea NOT NULL,                     -- as `sample::Part` writes itself
    PRIMARY KEY (pass, source)
);
-- Its numbers do not shrink.
ALTER TABLE part ALTER body SET STORAGE EXTERNAL;

CREATE TABLE job (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pass        bigint NOT NULL REFERENCES pass ON DELETE CASCADE,
    kind        text COLLATE "C" NOT NULL,     -- 'fast', 'tests' or 'slow:SCORE'
    done        boolean NOT NULL DEFAULT false,
    waiting     timestamptz NOT NULL DEFAULT now(), -- since then
    lease       text,                          -- NULL: it waits
    lease_until timestamptz,
    worker      text,
    failures    integer NOT NULL DEFAULT 0,
    UNIQUE (pass, kind)
);
CREATE INDEX job_open ON job (id) WHERE NOT done;

-- Of a split's newest evaluation: what the error of the next change needs, and where the next parts may be cut.
CREATE UNLOGGED TABLE influence (
    run         bigint NOT NULL REFERENCES run ON DELETE CASCADE,
    split       text COLLATE "C" NOT NULL,
    body        bytea,                         -- as postcard writes `score::Influences`
    next_cutoff bigint,                        -- bits of an unsigned 64-bit number; NULL: none
    PRIMARY KEY (run, split)
);

-- How all workers compute: one row, which hubs write when they start.
CREATE TABLE computing (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    settings text NOT NULL                     -- JSON, as serde writes `estimate::Settings`
);
