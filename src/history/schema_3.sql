-- Schema 3: how old the parts of a score are. NULL where all are of the point's own sample.

ALTER TABLE value ADD COLUMN age REAL;   -- of the oldest part, in seconds
ALTER TABLE matrix ADD COLUMN ages BLOB; -- k * k f32 like `cells`, in seconds
