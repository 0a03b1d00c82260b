-- Schema 5: what a mean leaves out, p-values, and rows with known labels.

ALTER TABLE point ADD COLUMN concept_rows TEXT NOT NULL DEFAULT '[]'; -- JSON list of k counts; empty: all rows
ALTER TABLE value ADD COLUMN left_out TEXT;      -- JSON, as serde writes `point::LeftOut`; NULL: nothing
ALTER TABLE value ADD COLUMN p_value REAL;
ALTER TABLE value ADD COLUMN per_concept_q BLOB; -- k f64
ALTER TABLE matrix ADD COLUMN cells_q BLOB;      -- k * k f32 like `cells`
