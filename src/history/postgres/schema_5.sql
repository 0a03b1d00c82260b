-- Schema 5: several jobs compute what a score is made of.

ALTER TABLE job ADD COLUMN result bytea; -- of a job 'rows:SCORE:FROM-TO', as postcard writes `score::PurityRows`
