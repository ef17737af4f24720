-- as: owner
-- Code that notifies on the channels of others, also from the worker.
CREATE FUNCTION attack.shout() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_notify(channel, repeat('x', 7000) || n)
		FROM unnest(ARRAY['fairq_still', 'fairq_work', 'fairq_', repeat('n', 63), E'\u00e4"\\;--']) channel, generate_series(1, 20) n;
	RETURN true;
END
$$;
SELECT fairq.alter_queue('theirs', notify => true);
ALTER TABLE fairq.q_theirs ADD CHECK (attack.shout()) NOT VALID;
ALTER TABLE fairq.done_theirs ADD CHECK (attack.shout()) NOT VALID;
LISTEN fairq_theirs;
LISTEN fairq_still;
SELECT attack.shout();
