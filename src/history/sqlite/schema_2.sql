-- Schema 2: the standard errors that rise rules use, and the curve behind a score.

ALTER TABLE point ADD COLUMN change_errors TEXT NOT NULL DEFAULT '[]'; -- JSON list of [score, standard error of its change]
ALTER TABLE value ADD COLUMN curve BLOB;                               -- pairs of f64: threshold, value
