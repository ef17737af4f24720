-- as: owner
-- CHECK constraints on the queue and the archive.
ALTER TABLE fairq.q_theirs ADD CHECK (attack.ran('check')), ADD CHECK (attack.sneaky('constant in a check'));
ALTER TABLE fairq.done_theirs ADD CHECK (attack.ran('check of the archive') AND attack.escape());
