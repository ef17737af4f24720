-- as: owner
-- A CHECK renames a column of the table, and has the queue looked at anew.
CREATE FUNCTION attack.trick() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	IF attack.first_time() THEN
		ALTER TABLE fairq.q_theirs RENAME COLUMN payload TO payload2;
		PERFORM attack.try('SELECT fairq.peek(''theirs'')');
	END IF;
	RETURN true;
END
$$;
ALTER TABLE fairq.q_theirs ADD CHECK (attack.trick()) NOT VALID;
\set ON_ERROR_STOP off
SELECT fairq.enqueue_many('theirs', array_fill(to_jsonb(repeat('A', 100)), ARRAY[3000]));
