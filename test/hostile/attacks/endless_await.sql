-- as: owner
-- Waits without end, with results that are none: in his own queue, in a transaction
-- that stays open, and in the code that runs when others use it.
ALTER TABLE fairq.done_theirs RENAME COLUMN result TO kept;
ALTER TABLE fairq.done_theirs ADD result int DEFAULT 1;
CREATE FUNCTION attack.wait() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	PERFORM fairq.await('theirs', id, '200 ms') FROM fairq.tasks('theirs') LIMIT 1;
	RETURN true;
END
$$;
ALTER TABLE fairq.done_theirs ADD CHECK (attack.wait()) NOT VALID;
SET statement_timeout = '2 s';
BEGIN;
\set ON_ERROR_STOP off
SELECT fairq.await('theirs', fairq.enqueue('theirs', '1', run_at => '2100-01-01'), '1 h');
ROLLBACK;
SELECT fairq.enqueue('theirs', '1', run_at => '2100-01-01') AS id \gset
SELECT fairq.await('theirs', :id, '10 years');
INSERT INTO fairq.done_theirs (id, enqueued_at, done_at, priority, cost, attempts, outcome, group_key, payload) VALUES (:id, now(), now(), 0, 1, 0, 'nothing of ours', '', '1');
SELECT fairq.await('theirs', :id, '1 s');
