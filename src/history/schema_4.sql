-- Schema 4: whose a run is. A name used again by another job is another run.

ALTER TABLE run ADD COLUMN declared_name TEXT; -- that its first job asked for; NULL: `name`

-- A larger id came later.
CREATE TABLE launch (
    id       INTEGER PRIMARY KEY,
    run      INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,
    job      TEXT NOT NULL,             -- as its ranks name it
    restarts INTEGER NOT NULL,          -- the most that were declared
    UNIQUE (run, job)
) STRICT;
