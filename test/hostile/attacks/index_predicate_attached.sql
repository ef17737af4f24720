-- as: owner
-- An index with a predicate without CREATE on schema fairq: a partitioned table makes it.
CREATE TABLE attack.p (LIKE fairq.q_theirs) PARTITION BY RANGE (id);
CREATE INDEX ON attack.p (id) WHERE attack.sneaky('attached predicate');
ALTER TABLE attack.p ATTACH PARTITION fairq.q_theirs DEFAULT;
ALTER TABLE attack.p DETACH PARTITION fairq.q_theirs;
DROP TABLE attack.p;
