-- Schema 4: points of older branches stay beside those of the newest.

ALTER TABLE point ADD COLUMN superseded bigint NOT NULL DEFAULT 0; -- 0: of the newest branch; otherwise the point's own id
ALTER TABLE point DROP CONSTRAINT point_run_split_step_key;
ALTER TABLE point ADD UNIQUE (run, split, step, superseded);

-- As `branch.rs` says: by a later attempt at the step or before, or, where the attempt is unknown, by any that came later.
UPDATE point SET superseded = id WHERE id IN (
    SELECT id FROM (
        SELECT id, launch, restart, time,
            max(launch * 4294967296 + restart) OVER before AS newest,
            max(CASE WHEN launch IS NOT NULL THEN time END) OVER before AS newest_time
        FROM point WINDOW before AS (PARTITION BY run, split ORDER BY step)
    ) made WHERE CASE WHEN launch IS NULL THEN time < newest_time ELSE launch * 4294967296 + restart < newest END
);

-- The newest values of splits that showed those of an older branch.
DELETE FROM latest WHERE EXISTS (
    SELECT FROM point WHERE point.run = latest.run AND point.split = latest.split AND superseded > 0
);
INSERT INTO latest (run, split, score, step, epoch, time, provisional, incomplete, value, standard_error, undefined)
SELECT DISTINCT ON (run, split, score) run, split, score, step, epoch, time, provisional, incomplete, value,
    standard_error, undefined
FROM point JOIN value ON value.point = point.id
WHERE superseded = 0 AND (run, split) IN (SELECT run, split FROM point WHERE superseded > 0)
ORDER BY run, split, score, step DESC;

-- Read from the points until the next one is stored.
DELETE FROM recent WHERE EXISTS (
    SELECT FROM point WHERE point.run = recent.run AND point.split = recent.split AND superseded > 0
);
