-- as: owner
-- A CHECK moves the table away under the enqueue that evaluates it, and has other queues opened in its place.
CREATE FUNCTION attack.trick() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	IF attack.first_time() THEN
		ALTER TABLE fairq.q_theirs SET SCHEMA attack;
		PERFORM attack.try('SELECT fairq.peek(''theirs'')'), attack.try('SELECT fairq.peek(''still'')'), attack.try('SELECT fairq.peek(''durable'')'),
			attack.try('SELECT fairq.peek(''work'')');
	END IF;
	RETURN true;
END
$$;
ALTER TABLE fairq.q_theirs ADD CHECK (attack.trick()) NOT VALID;
\set ON_ERROR_STOP off
SELECT fairq.enqueue_many('theirs', array_fill('1'::jsonb, ARRAY[3000]), costs => '{1000000}', group_keys => '{a}');
