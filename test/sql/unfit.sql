-- An owner who has spoilt the table of his queue gets errors; who looks at all
-- queues sees the others, and what shared memory knows of this one.
-- Seen to fail without can_be_opened() in visible_queues_open(), and without the
-- exception block in dead_of_queues(): each view is an error then.
\set VERBOSITY terse
\pset format unaligned
\pset tuples_only on
CREATE FUNCTION pg_temp.look() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT 'queue_stats: ' || string_agg(concat_ws(' ', queue, ready, leased, dead, enqueued, oldest_ready_age IS NOT NULL), ', ' ORDER BY queue) FROM fairq.queue_stats WHERE queue LIKE 'unfit%'
    UNION ALL SELECT 'group_stats: ' || string_agg(concat_ws(' ', queue, group_key, ready, leased), ', ' ORDER BY queue) FROM fairq.group_stats WHERE queue LIKE 'unfit%'
    UNION ALL SELECT 'bucket_stats: ' || string_agg(DISTINCT queue, ', ') FROM fairq.bucket_stats WHERE queue LIKE 'unfit%'
    UNION ALL SELECT 'leases: ' || string_agg(queue, ', ' ORDER BY queue) FROM fairq.leases WHERE queue LIKE 'unfit%'
    UNION ALL SELECT 'dead_tasks: ' || string_agg(queue, ', ' ORDER BY queue) FROM fairq.dead_tasks WHERE queue LIKE 'unfit%'
    UNION ALL SELECT 'done_tasks: ' || string_agg(queue, ', ' ORDER BY queue) FROM fairq.done_tasks WHERE queue LIKE 'unfit%'
    UNION ALL SELECT 'queues: ' || string_agg(queue, ', ' ORDER BY queue) FROM fairq.queues WHERE queue LIKE 'unfit%'
$$;
SELECT fairq.create_queue(queue, max_attempts => 1, buckets => 1, lease => '1 h', keep_done => '1 day', durable_leases => queue = 'unfit 2') FROM unnest('{unfit 1,unfit 2,unfit 3}'::text[]) queue;
SELECT count(fairq.enqueue(queue, '1', group_key => 'g')) FROM fairq.queues, generate_series(1, 4) WHERE queue LIKE 'unfit%';
SELECT count(fairq.ack(receipt)) FROM fairq.queues, fairq.claim(queue) WHERE queue LIKE 'unfit%';
SELECT count(fairq.nack(receipt)) FROM fairq.queues, fairq.claim(queue) WHERE queue LIKE 'unfit%';
SELECT count(receipt) FROM fairq.queues, fairq.claim(queue) WHERE queue LIKE 'unfit%';
SELECT pg_temp.look();

CREATE TRIGGER unfit BEFORE UPDATE ON fairq."q_unfit 2" FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger();
SELECT fairq.peek('unfit 2');
SELECT pg_temp.look();
-- So in a session that has never seen it.
\connect
\set VERBOSITY terse
SELECT queue, ready, leased, dead, oldest_ready_age IS NOT NULL FROM fairq.queue_stats WHERE queue LIKE 'unfit%' ORDER BY queue;
SELECT queue, count(*) FROM fairq.leases WHERE queue LIKE 'unfit%' GROUP BY queue ORDER BY queue;
SELECT queue FROM fairq.dead_tasks WHERE queue LIKE 'unfit%' ORDER BY queue;
-- A transaction goes on as it was.
BEGIN;
SELECT fairq.enqueue('unfit 1', '2') > 0, count(*) FROM fairq.queue_stats WHERE queue LIKE 'unfit%';
SELECT count(*) FROM fairq.claim('unfit 1', 10);
ROLLBACK;
SELECT queue, ready, leased FROM fairq.queue_stats WHERE queue = 'unfit 1';

-- Row security, to one whom it concerns.
CREATE ROLE regress_fairq_unfit;
GRANT SELECT ON fairq."q_unfit 1", fairq."q_unfit 3" TO regress_fairq_unfit;
ALTER TABLE fairq."q_unfit 3" ENABLE ROW LEVEL SECURITY;
SET ROLE regress_fairq_unfit;
SELECT queue FROM fairq.dead_tasks WHERE queue LIKE 'unfit%' ORDER BY queue;
RESET ROLE;

DROP TRIGGER unfit ON fairq."q_unfit 2";
ALTER TABLE fairq."q_unfit 3" DISABLE ROW LEVEL SECURITY;
SELECT queue, ready, leased, dead FROM fairq.queue_stats WHERE queue LIKE 'unfit%' ORDER BY queue;

-- Columns that are read without asking whether they are null.
-- Seen to fail without the look at NOT NULL in examine_columns(): the server crashes.
ALTER TABLE fairq."q_unfit 3" ALTER group_key DROP NOT NULL;
INSERT INTO fairq."q_unfit 3" (id, enqueued_at, state, payload, priority, cost, attempts, address) VALUES (1000, now(), 'r', '{}', 0, 1, 0, '(0,1,1)');
SELECT count(*) FROM fairq.claim('unfit 3');
SELECT fairq.enqueue('unfit 3', '1');
ALTER TABLE fairq."q_unfit 3" ALTER group_key SET NOT NULL, ALTER payload DROP NOT NULL;
SELECT count(*) FROM fairq.claim('unfit 3');
ALTER TABLE fairq."q_unfit 3" ALTER payload SET NOT NULL;
SELECT count(*) FROM fairq.claim('unfit 3', 10);
SELECT count(fairq.drop_queue(queue)) FROM fairq.queues WHERE queue LIKE 'unfit%';
DROP ROLE regress_fairq_unfit;
