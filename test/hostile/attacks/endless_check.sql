-- as: owner
-- may wait: users
-- A CHECK that takes as long as it is let, but for the worker, which it would hold up until that is ended (doc/security.md).
CREATE FUNCTION attack.slow() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	IF current_setting('application_name') NOT LIKE 'hostile%' THEN
		RETURN true;
	END IF;
	LOOP
		PERFORM attack.first_time();
	END LOOP;
END
$$;
ALTER TABLE fairq.q_theirs ADD CHECK (attack.slow()) NOT VALID;
ALTER TABLE fairq.done_theirs ADD CHECK (attack.slow()) NOT VALID;
