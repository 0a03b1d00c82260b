-- Schema 3: the age of a score's parts. NULL when all were computed on the point's own sample.

ALTER TABLE value ADD COLUMN age REAL;   -- of the oldest part, in seconds
ALTER TABLE matrix ADD COLUMN ages BLOB; -- k * k f32 like `cells`, in seconds
