-- as: owner
-- What is left behind when they are gone.
CREATE TABLE attack.parent (id bigint NOT NULL);
ALTER TABLE fairq.q_theirs INHERIT attack.parent;
ALTER TABLE fairq.q_theirs NO INHERIT attack.parent;
CREATE TABLE attack.child () INHERITS (fairq.q_theirs);
DROP TABLE attack.child;
