-- as: owner
-- The same without CREATE on schema fairq: a partitioned table makes the index for him.
CREATE TABLE attack.p (LIKE fairq.q_theirs) PARTITION BY RANGE (id);
CREATE INDEX ON attack.p (id) WHERE attack.sneaky('attached predicate');
ALTER TABLE attack.p ATTACH PARTITION fairq.q_theirs DEFAULT;
ALTER TABLE attack.p DETACH PARTITION fairq.q_theirs;
DROP TABLE attack.p;
