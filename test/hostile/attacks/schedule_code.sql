-- as: owner
-- Code that runs in the ticks of one's own schedules and of others': as the owner of the queue, and it cannot become anybody else.
CREATE FUNCTION attack.tick(headers jsonb) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	IF coalesce(headers ? 'schedule', false) THEN
		PERFORM attack.ran('tick of ' || (headers->>'schedule')), attack.escape();
		PERFORM attack.try('DELETE FROM fairq.schedule'), attack.try('UPDATE fairq.schedule SET owner = ''postgres'', owner_oid = 10');
		PERFORM attack.try('SELECT fairq.schedule(''code'', ''theirs'', ''* * * * * *'', headers => ''{"x": 1}'')');
		PERFORM attack.try('SELECT fairq.unschedule(''code 3'')'), attack.try('SELECT fairq.unschedule(''victim'')'), attack.try('SELECT fairq.maintain(''theirs'')');
		PERFORM attack.try('SELECT pg_catalog.pg_advisory_lock(7)');
	END IF;
	RETURN true;
END
$$;
ALTER TABLE fairq.q_theirs ADD CHECK (attack.tick(headers)) NOT VALID;
SELECT fairq.schedule('code ' || n, 'theirs', '* * * * * *', overlap => true) FROM generate_series(1, 5) n;
-- What a function for the key, and an error of a megabyte, does to the row and the log.
ALTER TABLE fairq.q_theirs ALTER last_error SET DEFAULT repeat('x', 10), ADD CHECK (payload <> '"large"' OR (payload->>repeat('e', 1000000))::int = 1);
SELECT fairq.schedule('large', 'theirs', '* * * * * *', '"large"', overlap => true);
SELECT pg_sleep(2);
