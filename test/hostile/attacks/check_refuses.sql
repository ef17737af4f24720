-- as: owner
-- Nothing can be written to his queue, nor to its archive.
ALTER TABLE fairq.q_theirs ADD CHECK (attack.ran('refuses') AND false) NOT VALID;
ALTER TABLE fairq.done_theirs ADD CHECK (false) NOT VALID;
