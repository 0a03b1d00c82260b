-- Schema 10: passes of one step, and rows that are copies. No checksum covers these numbers: the first only decides which
-- pass of a step is the newest, the second only explains N.

ALTER TABLE point ADD COLUMN ordinal INTEGER NOT NULL DEFAULT 1;    -- of the pass among those of its step and attempt
ALTER TABLE unscored ADD COLUMN ordinal INTEGER NOT NULL DEFAULT 1;
ALTER TABLE point ADD COLUMN repeated_rows INTEGER NOT NULL DEFAULT 0;    -- copies of the scored rows
