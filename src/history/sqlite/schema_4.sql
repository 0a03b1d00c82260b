-- Schema 4: the launches of a run. A name that another job uses again denotes another run.

ALTER TABLE run ADD COLUMN declared_name TEXT; -- the name its first job declared; NULL: same as `name`

-- A larger id was recorded later.
CREATE TABLE launch (
    id       INTEGER PRIMARY KEY,
    run      INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,
    job      TEXT NOT NULL,             -- the name that its ranks send
    restarts INTEGER NOT NULL,          -- highest restart count declared
    UNIQUE (run, job)
) STRICT;
