-- as: owner
-- The table goes to another schema, and gets names there of which two letters cannot be cut.
SELECT fairq.claim('theirs', 3);
ALTER TABLE fairq.q_theirs SET SCHEMA attack;
ALTER TABLE attack.q_theirs RENAME TO x;
ALTER TABLE fairq.done_theirs SET SCHEMA attack;
ALTER TABLE attack.done_theirs RENAME TO y;
