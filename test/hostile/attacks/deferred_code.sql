-- as: owner
-- Code that is put off until the restricted context has been left: deferred triggers, cursors, portals.
CREATE TABLE attack.t (x int);
CREATE FUNCTION attack.fire() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM attack.ran('deferred trigger'); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER later AFTER INSERT ON attack.t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION attack.fire();
CREATE FUNCTION attack.later() RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	held refcursor := 'attack_cursor';
	ignored boolean;
BEGIN
	PERFORM attack.try('INSERT INTO attack.t VALUES (1)'), attack.try('SET CONSTRAINTS ALL DEFERRED');
	BEGIN
		OPEN held SCROLL FOR SELECT attack.ran('cursor') FROM generate_series(1, 100);
		FETCH held INTO ignored;
	EXCEPTION WHEN OTHERS THEN
		NULL;
	END;
	RETURN true;
END
$$;
ALTER TABLE fairq.q_theirs ADD CHECK (attack.later()) NOT VALID;
ALTER TABLE fairq.done_theirs ADD CHECK (attack.later()) NOT VALID;
