-- as: owner
-- What defaults and checks call is changed, and dropped with CASCADE, after it was used.
CREATE FUNCTION attack.f() RETURNS boolean LANGUAGE sql AS 'SELECT attack.ran(''f'')';
ALTER TABLE fairq.q_theirs ADD COLUMN mine boolean DEFAULT attack.f(), ADD CHECK (attack.f());
SELECT fairq.enqueue('theirs', '1');
CREATE OR REPLACE FUNCTION attack.f() RETURNS boolean LANGUAGE sql AS 'SELECT attack.sneaky(''changed'') AND attack.escape()';
SELECT fairq.enqueue('theirs', '1');
DROP FUNCTION attack.f() CASCADE;
