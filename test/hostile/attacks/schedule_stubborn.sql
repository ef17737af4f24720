-- as: owner
-- Ticks that take long and are not cancelled: the code catches that. It ends after some seconds here, for the worker would be held up until it is ended (doc/security.md).
CREATE FUNCTION attack.stubborn(headers jsonb) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	IF coalesce(headers ? 'schedule', false) THEN
		FOR n IN 1 .. 3 LOOP
			BEGIN
				PERFORM pg_catalog.pg_sleep(1);
			EXCEPTION WHEN query_canceled THEN
				NULL;
			END;
		END LOOP;
	END IF;
	RETURN true;
END
$$;
ALTER TABLE fairq.q_theirs ADD CHECK (attack.stubborn(headers)) NOT VALID;
SELECT fairq.schedule('stubborn ' || n, 'theirs', '* * * * * *', overlap => true) FROM generate_series(1, 20) n;
SELECT pg_sleep(2);
