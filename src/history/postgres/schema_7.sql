-- Schema 7: passes of one step, and rows that are copies.

ALTER TABLE point ADD COLUMN ordinal bigint NOT NULL DEFAULT 1;    -- of the pass among those of its step and attempt
ALTER TABLE unscored ADD COLUMN ordinal bigint NOT NULL DEFAULT 1;
ALTER TABLE point ADD COLUMN repeated_rows bigint NOT NULL DEFAULT 0;    -- copies of the scored rows
