-- as: owner
-- Both tables have parents, and children.
CREATE TABLE attack.parent (id bigint NOT NULL, CONSTRAINT parent_check CHECK (attack.ran('inherited check')));
ALTER TABLE fairq.q_theirs ADD CONSTRAINT parent_check CHECK (attack.ran('inherited check'));
ALTER TABLE fairq.q_theirs INHERIT attack.parent;
CREATE TABLE attack.child () INHERITS (fairq.done_theirs);
CREATE TABLE attack.grandparent (id bigint NOT NULL);
ALTER TABLE fairq.done_theirs INHERIT attack.grandparent;
CREATE TABLE attack.child_of_queue () INHERITS (fairq.q_theirs);
INSERT INTO attack.child_of_queue SELECT * FROM fairq.q_theirs;
