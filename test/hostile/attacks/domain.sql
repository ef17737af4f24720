-- as: owner
-- Columns of domains whose checks are code, also such as get theirs later.
CREATE DOMAIN attack.d AS int CHECK (attack.ran('domain'));
CREATE DOMAIN attack.later AS int;
ALTER TABLE fairq.q_theirs ADD COLUMN mine attack.d DEFAULT 1, ADD COLUMN later attack.later DEFAULT 1;
ALTER TABLE fairq.done_theirs ADD COLUMN mine attack.d, ADD COLUMN later attack.later;
ALTER DOMAIN attack.later ADD CHECK (attack.ran('domain that was changed') AND attack.escape());
ALTER DOMAIN attack.later SET DEFAULT attack.ran('default of a domain')::int;
