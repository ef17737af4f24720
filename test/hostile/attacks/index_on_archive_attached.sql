-- as: owner
-- An index on the archive, attached to a partitioned one, without CREATE on schema fairq.
CREATE TABLE attack.p (LIKE fairq.done_theirs) PARTITION BY RANGE (id);
CREATE INDEX ON attack.p (done_at, id) WHERE attack.sneaky('attached predicate of the archive');
ALTER TABLE attack.p ATTACH PARTITION fairq.done_theirs DEFAULT;
ALTER TABLE attack.p DETACH PARTITION fairq.done_theirs;
DROP TABLE attack.p;
