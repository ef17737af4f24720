-- as: owner
-- Ticks that take as long as they are let, and many of them: they are cancelled, and the others' schedules go on.
CREATE FUNCTION attack.slow(headers jsonb) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	LOOP
		EXIT WHEN NOT coalesce(headers ? 'schedule', false);
		PERFORM attack.first_time();
	END LOOP;
	RETURN true;
END
$$;
ALTER TABLE fairq.q_theirs ADD CHECK (attack.slow(headers)) NOT VALID;
SELECT fairq.schedule('slow ' || n, 'theirs', '* * * * * *', overlap => true, catch_up => 'all') FROM generate_series(1, 200) n;
SELECT pg_sleep(3);
