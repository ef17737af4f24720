-- as: owner
-- may wait: users
-- Tasks that have expired, in all states and by SQL too, with an end that is refused; and more that others do not see yet.
CREATE FUNCTION attack.refuse(outcome text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	PERFORM attack.ran('end as ' || outcome);
	RETURN outcome <> 'expired' OR 1 / 0 = 1;
END
$$;
SELECT count(fairq.enqueue('theirs', '1', expires_at => '1970-01-01', group_key => (n % 7)::text)) FROM generate_series(1, 10000) n;
SELECT count(fairq.enqueue('theirs', '1', expires_at => clock_timestamp() + n * interval '1 ms')) FROM generate_series(1, 2000) n;
SELECT fairq.alter_queue('theirs', expire_after => '1 microsecond');
SELECT count(fairq.enqueue('theirs', '1', unique_key => n::text, run_at => '2100-01-01')) FROM generate_series(1, 1000) n;
UPDATE fairq.q_theirs SET expires_at = '-infinity';
UPDATE fairq.q_theirs SET expires_at = now() + interval '100 ms' WHERE state <> 'd';
ALTER TABLE fairq.done_theirs ADD CHECK (attack.refuse(outcome)) NOT VALID;
SELECT pg_sleep(1);
\set ON_ERROR_STOP off
SELECT fairq.maintain('theirs');
SELECT fairq.claim('theirs', 100);
BEGIN;
SELECT count(fairq.enqueue('theirs', '1', expires_at => '1970-01-01')) FROM generate_series(1, 5000) n;
UPDATE fairq.q_theirs SET expires_at = '1970-01-01';
