-- Workers of several queues: claim_any and wait_any, by one session.
-- The queues of this file start with "any".
--
-- To see it fail:
-- - let claim_from_queues give each queue all of max_tasks (a batch of 3 has 5);
-- - open a queue only when it is looked at (tasks of the first one are claimed although
--   the last one is unknown, or may not be claimed from);
-- - let arguments_queues keep what is named twice (more than 32), or not count.

CREATE FUNCTION pg_temp.try(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    result text;
    hint text;
BEGIN
    EXECUTE statement INTO result;
    RETURN coalesce('ok ' || nullif(result, ''), 'ok');
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
    RETURN SQLSTATE || ': ' || SQLERRM || coalesce(E'\n  hint: ' || nullif(hint, ''), '');
END
$$;
\pset format unaligned
\pset null (null)
-- The queues anew, with tasks 1 to 4 each, of the groups a, a, a, b.
CREATE PROCEDURE pg_temp.refill() LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fairq.drop_queue('any ' || n), fairq.create_queue('any ' || n, buckets => 1, lease => '1 h') FROM generate_series(1, 3) n;
    COMMIT;
    PERFORM fairq.enqueue('any ' || n, to_jsonb(m), group_key => CASE WHEN m < 4 THEN 'a' ELSE 'b' END)
        FROM generate_series(1, 3) n, generate_series(1, 4) m;
END
$$;
CALL pg_temp.refill();
SELECT fairq.create_queue('any empty', lease => '1 h');

-- From the queues in the order given, from each in its order, and not more than
-- max_tasks of all of them.
SELECT queue, payload FROM fairq.claim_any('{any 2,any 1}');
SELECT queue, payload FROM fairq.claim_any('{any empty,any 2,any 1}', 5);
SELECT queue, payload FROM fairq.claim_any('{any empty,any 2,any 1}', 3);
SELECT queue, payload FROM fairq.claim_any('{any 3,any 2,any 1}', 100);
SELECT queue, payload FROM fairq.claim_any('{any 3,any 2,any 1,any empty}', 100);

-- What a row tells is what a claim of that queue does, after its name.
CALL pg_temp.refill();
SELECT c.queue, c.group_key, c.payload, c.headers, c.priority, c.attempt, c.enqueued_at = t.enqueued_at AS enqueued_at,
       c.lease_until = t.lease_until AS lease_until, c.address OPERATOR(fairq.=) t.address AS address, t.state
    FROM fairq.claim_any('{any 1}', lease => '2 h') c, LATERAL fairq.get_task(c.queue, c.id) t;
SELECT queue, l.state, lease_until BETWEEN now() + interval '1 h 55 min' AND clock_timestamp() + interval '2 h' AS lease_until
    FROM fairq.leases l WHERE queue LIKE 'any%';
-- Receipts are settled as ever, and a rollback gives the leases back.
SELECT queue, fairq.ack(receipt) FROM fairq.claim_any('{any 2,any 3}', 5);
BEGIN;
SELECT count(*) FROM fairq.claim_any('{any 1,any 2,any 3}', 100);
ROLLBACK;
SELECT queue, payload, attempt FROM fairq.claim_any('{any 1,any 2,any 3}', 100);
SELECT fairq.release(receipt) FROM fairq.leases WHERE queue LIKE 'any%';

-- A queue that is named again counts once, at its first place.
SELECT queue, payload FROM fairq.claim_any('{any 3,any 1,any 3,any 3,any 1}', 100);
SELECT count(fairq.release(receipt)) FROM fairq.leases WHERE queue LIKE 'any%';
SELECT queue, payload FROM fairq.claim_any(array_fill('any 1'::text, ARRAY[1000]));
SELECT count(fairq.release(receipt)) FROM fairq.leases WHERE queue LIKE 'any%';

-- A paused queue, and a group that is, are passed over.
SELECT fairq.pause('any 1'), fairq.pause_group('any 3', 'a');
SELECT queue, payload FROM fairq.claim_any('{any 1,any 3}', 100);
SELECT fairq.resume('any 1'), fairq.resume_group('any 3', 'a');
SELECT count(fairq.release(receipt)) FROM fairq.leases WHERE queue LIKE 'any%';

-- Under a session; without one that lives there is nothing.
SELECT fairq.open_session('any', '1 h') AS session \gset
SELECT queue, payload FROM fairq.claim_any('{any 3,any 2}', 4, session => :'session');
SELECT queue, count(*) FROM fairq.leases WHERE queue LIKE 'any%' GROUP BY queue ORDER BY queue;
SELECT fairq.close_session(:'session');
SELECT count(*) FROM fairq.leases WHERE queue LIKE 'any%';
SELECT regexp_replace(pg_temp.try(format('SELECT count(*) FROM fairq.claim_any(''{any 1}'', session => %L)', :'session')), '"[-0-9a-f]{36}"', '"..."');

-- The queues are checked before anything is leased: they are named ...
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.claim_any(NULL) $$);
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.claim_any('{}') $$);
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.claim_any('{any 1,NULL}') $$);
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.claim_any('{{any 1},{any 2}}') $$);
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.claim_any('{any 1,""}') $$);
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.claim_any(array_append(ARRAY(SELECT 'any ' || n FROM generate_series(1, 32) n), 'any 33')) $$);
-- ... of those 32 not all are there ...
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.claim_any(ARRAY(SELECT 'any ' || n FROM generate_series(1, 32) n)) $$);
-- (what an error undoes is counted as claimed all the same)
SELECT claimed FROM fairq.queue_stats WHERE queue = 'any 1' \gset before_
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.claim_any('{any 1,any 2,any unknown}', 100) $$);
-- ... and may be claimed from.
CREATE ROLE regress_fairq_any;
GRANT SELECT, UPDATE ON fairq."q_any 1", fairq."q_any 2" TO regress_fairq_any;
GRANT SELECT ON fairq."q_any 3" TO regress_fairq_any;
SET ROLE regress_fairq_any;
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.claim_any('{any 1,any 2,any 3}') $$);
RESET ROLE;
SELECT claimed - :before_claimed AS claimed FROM fairq.queue_stats WHERE queue = 'any 1';
SELECT count(*), min(attempt) FROM fairq.claim_any('{any 1,any 2,any 3}', 100);
SELECT count(fairq.release(receipt)) FROM fairq.leases WHERE queue LIKE 'any%';
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.claim_any('{any 1}', 0) $$);
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.claim_any('{any 1}', 100001) $$);
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.claim_any('{any 1}', lease => '0') $$);
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.claim_any('{any 1}', wait => '-1 s') $$);
-- NULL is the default.
SELECT queue, payload FROM fairq.claim_any('{any 1}', NULL, NULL, NULL, NULL);

-- 32 queues are no more than may be.
SELECT count(fairq.create_queue('any more ' || n, buckets => 1)) FROM generate_series(1, 32) n;
SELECT fairq.enqueue('any more 32', '"last"', group_key => 'z') IS NOT NULL AS last;
SELECT queue, payload FROM fairq.claim_any(ARRAY(SELECT 'any more ' || n FROM generate_series(1, 32) n), 2, wait => '1 min');
SELECT count(*) FROM fairq.claim_any(ARRAY(SELECT 'any more ' || n FROM generate_series(1, 32) n), 2, wait => '10 ms');
SELECT count(fairq.drop_queue('any more ' || n)) FROM generate_series(1, 32) n;

-- In a transaction whose snapshot is older than the tasks; in one that reads only.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM pg_class WHERE false;
SELECT count(*) FROM fairq.claim_any('{any 3,any 2}', 100);
ROLLBACK;
BEGIN READ ONLY;
SELECT fairq.claim_any('{any 1}');
ROLLBACK;

-- wait_any: at once while there is something in any of them, else after the timeout.
CALL fairq.wait_any('{any empty,any 3}', '10 min');
CALL fairq.wait_any('{any empty}', '10 ms');
CALL fairq.wait_any('{any empty,any empty}', '0');
CALL fairq.wait_any(NULL);
CALL fairq.wait_any('{}');
CALL fairq.wait_any('{any 1,NULL}');
CALL fairq.wait_any('{any 1,any unknown}');
CALL fairq.wait_any('{any empty}', '-1 s');
SET ROLE regress_fairq_any;
CALL fairq.wait_any('{any 1,any 3}', '10 min');
CALL fairq.wait_any('{any 1,any empty}', '0');
RESET ROLE;
BEGIN;
SELECT fairq.enqueue('any 1', '1') IS NOT NULL AS in_transaction;
CALL fairq.wait_any('{any 1}', '0');
ROLLBACK;

DROP OWNED BY regress_fairq_any;
DROP ROLE regress_fairq_any;
SELECT queue, fairq.drop_queue(queue) FROM fairq.queues WHERE queue LIKE 'any%' ORDER BY queue;
