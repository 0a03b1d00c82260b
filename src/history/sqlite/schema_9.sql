-- Schema 9: the processes of a launch's last restarts. See `sample/restart.rs`.

CREATE TABLE process (
    launch     INTEGER NOT NULL REFERENCES launch(id) ON DELETE CASCADE,
    name       TEXT NOT NULL,
    restart    INTEGER NOT NULL,
    rank       INTEGER NOT NULL,
    world_size INTEGER NOT NULL,
    PRIMARY KEY (launch, name)
) STRICT;

CREATE INDEX process_by_restart ON process (launch, restart, rank);
