-- Schema 10: passes of one step. No checksum covers the number: it only decides which pass of a step is the newest.

ALTER TABLE point ADD COLUMN ordinal INTEGER NOT NULL DEFAULT 1;    -- of the pass among those of its step and attempt
ALTER TABLE unscored ADD COLUMN ordinal INTEGER NOT NULL DEFAULT 1;
