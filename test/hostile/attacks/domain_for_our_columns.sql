-- as: owner
-- Our own columns become domains over their types.
CREATE DOMAIN attack.t AS text CHECK (attack.ran('domain of text'));
CREATE DOMAIN attack.j AS jsonb CHECK (attack.ran('domain of jsonb'));
CREATE DOMAIN attack.a AS fairq.address CHECK (attack.ran('domain of address'));
ALTER TABLE fairq.q_theirs ALTER COLUMN last_error TYPE attack.t, ALTER COLUMN headers TYPE attack.j;
ALTER TABLE fairq.done_theirs ALTER COLUMN last_error TYPE attack.t, ALTER COLUMN payload TYPE attack.j;
