-- How far a queue has got in virtual time, and raising its floor; and wait_ready, for proxies.
-- The queues of this file start with "front". With other sessions: test/specs/concurrent_front.spec;
-- over restarts: test/t/faults_front.pl.
--
-- Seen to fail, in sql_front.c:
-- - leave out the bound by the first ready task in fairq_raise_floor: what is capped is
--   not, and "b" is served last;
-- - look at the queue though it is paused;
-- - leave out the bound of wait_ready's timeout: the file does not end.
\i test/sql/include/helpers.sql
\pset format unaligned
\pset null (null)

-- A queue without tasks: one row. Then one for each class that has any.
SELECT fairq.create_queue('front q', buckets => 4, lease => '1 h', default_priority => 0);
SELECT * FROM fairq.front('front q');
SELECT count(fairq.enqueue('front q', to_jsonb(n), 'a', priority => 3 * (n % 2), cost => 1.5)) FROM generate_series(1, 10) n;
SELECT * FROM fairq.front('front q');
-- What it says is what a claim comes to, as it goes on; the floor follows.
CREATE TEMP TABLE seen (n int, front numeric, claimed numeric, class int, claimed_class int, ready bigint);
DO $$
DECLARE
    f fairq.class_front;
    t fairq.task;
BEGIN
    FOR n IN 1 .. 10 LOOP
        SELECT * INTO f FROM fairq.front('front q') ORDER BY class LIMIT 1;
        SELECT * INTO t FROM fairq.claim('front q');
        INSERT INTO seen VALUES (n, f.front, fairq.block(t.address), f.class, fairq.class(t.address), f.ready);
    END LOOP;
END
$$;
SELECT n, front, class, ready, (front, class) IS NOT DISTINCT FROM (claimed, claimed_class) AS as_claimed FROM seen ORDER BY n;
SELECT * FROM fairq.front('front q');
-- What is given back is ready again, at its place.
SELECT count(fairq.release(receipt)) FROM fairq.leases WHERE queue = 'front q' AND id IN (5, 6);
SELECT class, ready, front FROM fairq.front('front q');
SELECT count(fairq.ack(receipt)) FROM fairq.claim('front q', 10);
-- Nothing of a queue that is paused can be claimed.
SELECT fairq.enqueue('front q', '1', 'new') > 0 AS enqueued;
SELECT fairq.pause('front q');
SELECT class, ready, front FROM fairq.front('front q');
SELECT fairq.resume('front q');
SELECT class, ready FROM fairq.front('front q');

-- The floor of a class without tasks is raised, to the last digit, and never lowered.
SELECT fairq.create_queue('front r', buckets => 1, lease => '1 h', default_priority => 0);
SELECT fairq.raise_floor('front r', 0, 0) AS "0", fairq.raise_floor('front r', 0, 1000.7654321098) AS "1000", fairq.raise_floor('front r', 0, 1000) AS "less",
       fairq.raise_floor('front r', 0, 1000.7654321098) AS "again", fairq.raise_floor('front r', 9, 7) AS "class 9";
SELECT * FROM fairq.front('front r');
-- Who comes starts there; in another class where that has got.
SELECT count(fairq.enqueue('front r', '1', g, p)) FROM (VALUES ('a', 0), ('a', 0), ('b', 0), ('a', 9), ('a', 1)) v(g, p);
SELECT group_key, priority, fairq.block(address) FROM fairq.tasks('front r') ORDER BY id;

-- With tasks ready it goes no further than the first of them, whatever is asked for: places stay
-- what they are, and who comes is served in turn with those who were there.
SELECT fairq.drop_queue('front r'), fairq.create_queue('front r', buckets => 1, lease => '1 h', default_priority => 0);
SELECT count(fairq.enqueue('front r', to_jsonb(n), 'a')) FROM generate_series(1, 8) n;
SELECT array_agg(fairq.block(address)) FROM fairq.claim('front r', 3);
SELECT fairq.raise_floor('front r', 0, 1000), fairq.raise_floor('front r', 0, 1000);
SELECT front, floor FROM fairq.front('front r');
SELECT count(fairq.enqueue('front r', to_jsonb(n), 'b')) FROM generate_series(1, 5) n;
SELECT array_agg(fairq.block(address) ORDER BY id) AS blocks FROM fairq.tasks('front r', 'ready') WHERE group_key = 'a';
CREATE TEMP TABLE served (n int GENERATED ALWAYS AS IDENTITY, group_key text);
DO $$
BEGIN
    FOR n IN 1 .. 10 LOOP
        INSERT INTO served (group_key) SELECT group_key FROM fairq.claim('front r');
    END LOOP;
END
$$;
SELECT string_agg(group_key, '' ORDER BY n) FROM served;
-- Now there is nothing: what is leased is behind.
SELECT fairq.raise_floor('front r', 0, 1000);
SELECT front, floor FROM fairq.front('front r');

-- A group at its limit is not ready. One that may go on has its turn where the others are
-- by then, and then its next: that is the front when it is first, also alone.
SELECT fairq.create_queue('front limit', buckets => 1, lease => '1 h', default_priority => 0);
SELECT fairq.set_group('front limit', 'a', max_leased => 2);
SELECT count(fairq.enqueue('front limit', to_jsonb(n), 'a')) FROM generate_series(1, 6) n;
SELECT fairq.block(address) FROM fairq.claim('front limit', 6) ORDER BY 1;
SELECT ready, front FROM fairq.front('front limit');
SELECT fairq.raise_floor('front limit', 0, 500);
SELECT count(fairq.enqueue('front limit', '1', 'b', cost => 100)) FROM generate_series(1, 3) n;
SELECT fairq.block(address) FROM fairq.claim('front limit', 2) ORDER BY 1;
SELECT ready, front FROM fairq.front('front limit');
SELECT count(fairq.ack(l.receipt)) FROM fairq.leases l, LATERAL fairq.get_task(l.queue, l.id) t WHERE l.queue = 'front limit' AND group_key = 'a';
SELECT group_key, fairq.block(address) FROM fairq.claim('front limit');
SELECT ready, front FROM fairq.front('front limit');
SELECT fairq.raise_floor('front limit', 0, 650);
SELECT front, floor FROM fairq.front('front limit');
SELECT group_key, fairq.block(address) FROM fairq.claim('front limit');
SELECT group_key, fairq.block(address) FROM fairq.claim('front limit');
SELECT ready, front FROM fairq.front('front limit');
-- Tasks of the overflow have no place yet.
SELECT fairq.create_queue('front over', buckets => 1, lease => '1 h', max_ready_per_group => 2, default_priority => 0);
SELECT count(fairq.enqueue('front over', to_jsonb(n), 'a')) FROM generate_series(1, 6) n;
SELECT ready, front FROM fairq.front('front over');

-- The other policies have an order of numbers, and no virtual time: nothing to raise.
SELECT count(fairq.create_queue('front ' || p, p, lease => '1 h')) FROM unnest('{priority,time}'::text[]) p;
SELECT count(fairq.enqueue('front priority', '1', priority => n)) FROM generate_series(7, 9) n;
SELECT count(fairq.enqueue('front time', '1', run_at => '2020-01-01 00:00:01+00'));
SELECT * FROM fairq.front('front priority');
SELECT class, ready, front = fairq.block(address), front > 0, floor FROM fairq.front('front time'), fairq.peek('front time');
SELECT p, fairq.raise_floor('front ' || p, 0, 1000) FROM unnest('{priority,time}'::text[]) p;

-- wait_ready answers at once when there is something, and after a second at the latest when
-- there is not; also in a transaction that goes on.
SELECT fairq_internal.wait_ready('{front q}'), fairq_internal.wait_ready('{front limit,front q}', '0');
SELECT count(*) FROM fairq.pop('front q', 100);
BEGIN;
SELECT fairq_internal.wait_ready('{front limit,front q}', '0'), fairq_internal.wait_ready('{front q}', '1 h'), fairq_internal.wait_ready('{front q}', NULL);
SELECT fairq.enqueue('front q', '1') > 0 AS enqueued;
SELECT fairq_internal.wait_ready('{front limit,front q}', '0');
COMMIT;
SELECT fairq_internal.wait_ready('{front limit,front q}', '0');
SELECT pg_temp.try('SELECT fairq_internal.wait_ready(' || a || ')')
    FROM unnest(ARRAY['NULL', '''{}''', '''{NULL}''', '''{front none}''', '''{front q}'', ''-1 s''', '''{front q}'', ''11 years''', 'ARRAY(SELECT n::text FROM generate_series(1, 33) n)']) a;

-- What a worker goes by that chooses a node: a queue that is not there counts as empty, unless there is none.
SELECT * FROM fairq_internal.attendance('{front q}', NULL);
SELECT * FROM fairq_internal.attendance('{front none,front q}', NULL);
SELECT pg_temp.try($$ SELECT * FROM fairq_internal.attendance('{front none,front nowhere}', NULL) $$);

-- Who may do what: a reader looks and waits, who may claim raises floors, too.
CREATE ROLE front_reader;
CREATE ROLE front_worker;
CREATE ROLE front_producer;
GRANT SELECT ON fairq."q_front q" TO front_reader;
GRANT SELECT, UPDATE ON fairq."q_front q" TO front_worker;
GRANT INSERT ON fairq."q_front q" TO front_producer;
CREATE FUNCTION pg_temp.all_three() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT s || ': ' || pg_temp.try(s) FROM (VALUES ($s$SELECT count(*) FROM fairq.front('front q')$s$), ($s$SELECT fairq.raise_floor('front q', 7, 0)$s$),
        ($s$SELECT fairq_internal.wait_ready('{front q}', '0')$s$)) v(s)
$$;
SET ROLE front_reader;
SELECT pg_temp.all_three();
SET ROLE front_worker;
SELECT pg_temp.all_three();
SET ROLE front_producer;
SELECT pg_temp.all_three();
RESET ROLE;

SELECT count(fairq.drop_queue(queue)) FROM fairq.queues WHERE queue LIKE 'front%';
DROP ROLE front_reader, front_worker, front_producer;
