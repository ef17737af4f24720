-- as: owner
-- Calls in savepoints that are rolled back, within calls of others.
CREATE FUNCTION attack.trick() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	IF current_setting('attack.depth', true) = 'in' THEN
		RETURN true;
	END IF;
	PERFORM set_config('attack.depth', 'in', true);
	FOR i IN 1 .. 3 LOOP
		BEGIN
			PERFORM fairq.enqueue_many('theirs', array_fill('1'::jsonb, ARRAY[50]));
			PERFORM fairq.ack(receipt) FROM fairq.claim('theirs', 3);
			PERFORM fairq.claim('theirs', 3);
			RAISE EXCEPTION 'back';
		EXCEPTION WHEN OTHERS THEN
			NULL;
		END;
	END LOOP;
	PERFORM set_config('attack.depth', 'out', true);
	RETURN true;
END
$$;
ALTER TABLE fairq.q_theirs ADD CHECK (attack.trick()) NOT VALID;
ALTER TABLE fairq.done_theirs ADD CHECK (attack.trick()) NOT VALID;
SELECT fairq.enqueue_many('theirs', array_fill('1'::jsonb, ARRAY[20]));
