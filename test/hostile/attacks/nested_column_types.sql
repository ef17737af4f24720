-- as: creator
-- Code in the table gives it back with other columns: dropped and made anew under the old name.
CREATE FUNCTION attack.trick() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	IF attack.first_time() THEN
		ALTER TABLE fairq.q_theirs RENAME TO q_old;
		CREATE TABLE fairq.q_theirs (id text, payload int, address text);
		RAISE LOG 'nested: %', attack.try('SELECT fairq.enqueue(''theirs'', ''1'')');
		RAISE LOG 'nested: %', attack.try('SELECT fairq.peek(''theirs'')');
		DROP TABLE fairq.q_theirs;
		CREATE VIEW fairq.q_theirs AS SELECT * FROM fairq.q_old;
		RAISE LOG 'nested: %', attack.try('SELECT fairq.peek(''theirs'')');
		DROP VIEW fairq.q_theirs;
		ALTER TABLE fairq.q_old RENAME TO q_theirs;
	END IF;
	RETURN true;
END
$$;
ALTER TABLE fairq.q_theirs ADD CHECK (attack.trick()) NOT VALID;
\set ON_ERROR_STOP off
SELECT fairq.enqueue_many('theirs', array_fill('1'::jsonb, ARRAY[3000]));
