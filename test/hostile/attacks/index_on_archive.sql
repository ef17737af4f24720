-- as: creator
-- A second index that might be the archive's, with a predicate that is code.
CREATE INDEX ON fairq.done_theirs (done_at, id) WHERE attack.sneaky('predicate of the archive');
