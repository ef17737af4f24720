-- as: owner
-- A CHECK that tries to become somebody else.
ALTER TABLE fairq.q_theirs ADD CHECK (attack.ran('check') AND attack.escape());
