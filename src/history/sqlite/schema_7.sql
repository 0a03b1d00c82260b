-- Schema 7: what people say about runs.

CREATE TABLE remark (
    run      INTEGER PRIMARY KEY REFERENCES run(id) ON DELETE CASCADE,
    title    TEXT,            -- shown in place of the run's name; NULL: the name
    note     TEXT,
    checksum INTEGER NOT NULL -- also over the run's name
) STRICT;

CREATE INDEX run_started ON run (started);
