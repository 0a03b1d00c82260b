-- Schema 2: what rules for rises are judged by, and the curve behind a score.

ALTER TABLE point ADD COLUMN change_errors TEXT NOT NULL DEFAULT '[]'; -- JSON list of [score, standard error of its change]
ALTER TABLE value ADD COLUMN curve BLOB;                               -- pairs of f64: threshold, value
