-- Schema 7: passes of one step.

ALTER TABLE point ADD COLUMN ordinal bigint NOT NULL DEFAULT 1;    -- of the pass among those of its step and attempt
ALTER TABLE unscored ADD COLUMN ordinal bigint NOT NULL DEFAULT 1;
