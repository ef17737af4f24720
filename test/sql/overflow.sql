-- Tasks for which there is no room wait in the overflow: max_ready and
-- max_ready_per_group; max_depth.
\i test/sql/include/helpers.sql
SELECT fairq.create_queue('ovf', max_ready_per_group => 3, buckets => 4);
CREATE FUNCTION pg_temp.depths(queue text) RETURNS TABLE (ready bigint, leased bigint, scheduled bigint, overflow bigint, dead bigint)
LANGUAGE sql AS $$ SELECT s.ready, s.leased, s.scheduled, s.overflow, s.dead FROM fairq.queue_stats s WHERE s.queue = depths.queue $$;
CREATE FUNCTION pg_temp.by_group(queue text) RETURNS TABLE (group_key text, states text)
LANGUAGE sql AS $$ SELECT t.group_key, string_agg(t.state || coalesce(' at ' || (t.address IS NOT NULL)::text, ''), ', ' ORDER BY t.id) FROM fairq.tasks(by_group.queue) t GROUP BY 1 ORDER BY 1 $$;

-- What is beyond the room of a group has no address; another group has its own room.
SELECT fairq.enqueue_many('ovf', ARRAY(SELECT to_jsonb(n) FROM generate_series(1, 5) n), '{bob}') IS NOT NULL;
SELECT fairq.enqueue('ovf', '"a1"', 'alice') > 0;
SELECT * FROM pg_temp.by_group('ovf');
SELECT * FROM pg_temp.depths('ovf');
-- In order: while the group has tasks in the overflow its new ones go there.
SELECT count(*) FROM fairq.pop('ovf', 2, group_keys => '{bob}');
SELECT fairq.enqueue('ovf', '6', 'bob') > 0;
SELECT payload FROM fairq.pop('ovf', 3, group_keys => '{bob}') ORDER BY payload;
SELECT payload FROM fairq.pop('ovf', 10, group_keys => '{bob}') ORDER BY payload;
SELECT payload FROM fairq.pop('ovf', 10);
SELECT * FROM pg_temp.depths('ovf');

-- Rolled back: neither here nor there.
BEGIN;
SELECT cardinality(fairq.enqueue_many('ovf', ARRAY(SELECT to_jsonb(n) FROM generate_series(1, 9) n), '{bob}'));
ROLLBACK;
SELECT fairq.enqueue('ovf', '1', 'bob') > 0;
SELECT * FROM pg_temp.by_group('ovf');
-- A savepoint that is rolled back gives the room back.
BEGIN;
SAVEPOINT s;
SELECT cardinality(fairq.enqueue_many('ovf', ARRAY(SELECT to_jsonb(n) FROM generate_series(1, 9) n), '{bob}'));
ROLLBACK TO s;
SELECT cardinality(fairq.enqueue_many('ovf', '{2,3}'::jsonb[], '{bob}'));
COMMIT;
SELECT * FROM pg_temp.by_group('ovf');

-- Cancel and purge of what is in the overflow.
SELECT cardinality(fairq.enqueue_many('ovf', '{4,5,6}'::jsonb[], '{bob}'));
SELECT fairq.cancel('ovf', id) FROM fairq.tasks('ovf', 'overflow') ORDER BY id LIMIT 1;
SELECT payload, address, state FROM fairq.tasks('ovf', 'overflow') ORDER BY id;
SELECT fairq.purge_group('ovf', 'alice'), fairq.purge_group('ovf', 'bob');
SELECT * FROM pg_temp.depths('ovf');
-- There is room again, when a claim has found that there is nothing left of bob's in the overflow.
SELECT count(*) FROM fairq.pop('ovf');
SELECT cardinality(fairq.enqueue_many('ovf', '{1,2,3}'::jsonb[], '{bob}'));
SELECT * FROM pg_temp.by_group('ovf');
SELECT fairq.purge('ovf');

-- Put back tasks keep their room; scheduled ones wait for it.
SELECT cardinality(fairq.enqueue_many('ovf', '{1,2,3}'::jsonb[], '{carol}'));
SELECT count(*) FROM fairq.claim('ovf', 3);
SELECT cardinality(fairq.enqueue_many('ovf', '{4,5,6}'::jsonb[], '{carol}'));
SELECT count(*) FROM fairq.leases l, fairq.nack(l.receipt, delay => '0') WHERE l.queue = 'ovf';
SELECT * FROM pg_temp.by_group('ovf');
SELECT fairq.enqueue('ovf', '7', 'carol', run_at => clock_timestamp() + '1 ms') > 0;
CALL pg_temp.maintain_until('ovf', $$ scheduled = 0 FROM pg_temp.depths('ovf') $$);
SELECT payload, state FROM fairq.tasks('ovf', group_key => 'carol') WHERE payload = '7';
SELECT fairq.purge('ovf');
-- What waits in the overflow alone shows how long it waits.
SELECT cardinality(fairq.enqueue_many('ovf', '{1,2,3,4,5,6}'::jsonb[], '{carol}'));
SELECT count(*) FROM fairq.pop('ovf', 3);
SELECT ready, overflow, oldest_ready_age < '1 h' AS waits FROM fairq.queue_stats WHERE queue = 'ovf';
SELECT fairq.purge('ovf');

-- A task whose row is in the overflow is released to its place.
SELECT fairq.alter_queue('ovf', max_ready_per_group => 2);
SELECT cardinality(fairq.enqueue_many('ovf', '{1,2,3}'::jsonb[], '{rose}'));
SELECT count(*) FROM fairq.pop('ovf', 2);
SELECT payload, fairq.release(receipt) FROM fairq.claim('ovf');
SELECT payload, fairq.release(receipt) FROM fairq.claim('ovf');
SELECT fairq.purge('ovf'), fairq.alter_queue('ovf', max_ready_per_group => 3);

-- Classes have rooms of their own.
SELECT fairq.enqueue('ovf', to_jsonb(n), 'dave', priority => p) > 0 AS enqueued, count(*) FROM generate_series(1, 4) n, generate_series(0, 1) p GROUP BY 1;
SELECT priority, state, count(*) FROM fairq.tasks('ovf') GROUP BY 1, 2 ORDER BY 1, 2;
SELECT fairq.purge('ovf');

-- The queue as a whole: a newcomer gets no address either, and has its turn all the same.
SELECT fairq.alter_queue('ovf', max_ready => 4, max_ready_per_group => 1000);
SELECT cardinality(fairq.enqueue_many('ovf', ARRAY(SELECT to_jsonb(n) FROM generate_series(1, 6) n), '{bob}'));
SELECT fairq.enqueue('ovf', '"a"', 'alice') > 0;
SELECT * FROM pg_temp.by_group('ovf');
SELECT payload FROM fairq.pop('ovf', 4) ORDER BY payload;
SELECT payload FROM fairq.pop('ovf', 4) ORDER BY payload;
SELECT * FROM pg_temp.depths('ovf');

-- With SQL: a row that is written into the overflow is claimed like any other, and
-- those that are deleted there are not missed.
SELECT fairq.alter_queue('ovf', max_ready => 1000000, max_ready_per_group => 2);
INSERT INTO fairq.q_ovf (id, enqueued_at, priority, cost, attempts, state, group_key, payload)
SELECT -n, now(), 0, 1, 0, 'o', 'carol', to_jsonb(n) FROM generate_series(1, 5) n;
SELECT payload FROM fairq.pop('ovf', 2) ORDER BY payload;
DELETE FROM fairq.q_ovf WHERE payload IN ('1', '2');
SELECT payload FROM fairq.pop('ovf', 9) ORDER BY payload;
SELECT * FROM pg_temp.depths('ovf');
SELECT fairq.enqueue('ovf', '1', 'carol') > 0;
SELECT count(*) FROM fairq.pop('ovf');

-- In order within a transaction, even if there is room again meanwhile.
BEGIN;
SELECT cardinality(fairq.enqueue_many('ovf', '{1,2,3}'::jsonb[], '{dora}'));
SELECT fairq.alter_queue('ovf', max_ready_per_group => 10);
SELECT fairq.enqueue('ovf', '4', 'dora') > 0;
COMMIT;
SELECT payload FROM fairq.pop('ovf', 9);
-- A limit that is none, while there is overflow.
SELECT fairq.alter_queue('ovf', max_ready_per_group => 2);
SELECT cardinality(fairq.enqueue_many('ovf', '{1,2,3,4}'::jsonb[], '{dora}'));
SELECT fairq.alter_queue('ovf', max_ready_per_group => 9223372036854775807, max_ready => 9223372036854775807);
SELECT payload FROM fairq.pop('ovf', 9);
SELECT fairq.alter_queue('ovf', max_ready_per_group => 2, max_ready => 1000000);
-- So does one that becomes another group's, also in the transaction that enqueued it.
BEGIN;
SELECT fairq.enqueue('ovf', '1', 'eve', unique_key => 'k') = fairq.enqueue('ovf', '1', 'dora', unique_key => 'k', on_duplicate => 'replace') AS same;
COMMIT;
SELECT cardinality(fairq.enqueue_many('ovf', '{2,3}'::jsonb[], '{eve}'));
SELECT * FROM pg_temp.by_group('ovf');
SELECT count(*) FROM fairq.pop('ovf', 9);
-- What a transaction has kept is not left behind when the same one claims others.
SELECT cardinality(fairq.enqueue_many('ovf', '{1,2}'::jsonb[], '{fay}')), fairq.enqueue('ovf', '3', 'fay', unique_key => 'k') > 0 AS enqueued;
BEGIN;
SELECT fairq.enqueue('ovf', '3', 'fay', unique_key => 'k') > 0 AS kept;
SELECT count(*) FROM fairq.pop('ovf', 9);
SELECT fairq.maintain('ovf') >= 0;
COMMIT;
SELECT payload FROM fairq.pop('ovf', 9);
-- Tasks that are cancelled.
SELECT cardinality(fairq.enqueue_many('ovf', '{1,2,3,4}'::jsonb[], '{dora}'));
SELECT count(fairq.cancel('ovf', id)) FROM fairq.tasks('ovf', 'ready');
SELECT payload FROM fairq.pop('ovf', 9);
-- The dead come back as far as there is room.
SELECT cardinality(fairq.enqueue_many('ovf', '{1,2}'::jsonb[], '{dora}'));
SELECT cardinality(fairq.enqueue_many('ovf', '{3,4}'::jsonb[], '{carol}'));
UPDATE fairq.q_ovf SET state = 'd', address = NULL, group_key = 'dora';
SELECT fairq.revive_all('ovf');
SELECT * FROM pg_temp.depths('ovf');
SELECT count(*) FROM fairq.pop('ovf', 2);
SELECT count(*) FROM fairq.pop('ovf', 9);
-- There are ten classes; a row of another one would never be found.
INSERT INTO fairq.q_ovf (id, enqueued_at, priority, cost, attempts, state, group_key, payload, run_at)
VALUES (-9, now(), 10, 1, 0, 's', 'carol', '1', now());

-- VACUUM FULL and TRUNCATE.
SELECT cardinality(fairq.enqueue_many('ovf', ARRAY(SELECT to_jsonb(n) FROM generate_series(1, 6) n), '{bob}'));
VACUUM FULL fairq.q_ovf;
SELECT payload FROM fairq.pop('ovf', 2) ORDER BY payload;
SELECT payload FROM fairq.pop('ovf', 2) ORDER BY payload;
TRUNCATE fairq.q_ovf;
CALL pg_temp.maintain_until('ovf', $$ (ready, overflow) = (0, 0) FROM pg_temp.depths('ovf') $$);
SELECT * FROM pg_temp.depths('ovf');
SELECT cardinality(fairq.enqueue_many('ovf', '{1,2}'::jsonb[], '{bob}'));
SELECT * FROM pg_temp.by_group('ovf');

-- The index is needed.
DROP INDEX fairq.overflow_of_ovf;
SELECT fairq.enqueue('ovf', '1');
DROP TABLE fairq.q_ovf;

-- The other policies have no overflow.
SELECT fairq.create_queue('ovf', 'priority', max_ready => 5);
SELECT fairq.create_queue('ovf', 'time', max_ready_per_group => 5);
SELECT fairq.create_queue('ovf', 'priority', max_depth => 3);
SELECT fairq.alter_queue('ovf', max_ready => 5);

-- max_depth: all but the dead, those of open transactions too.
SELECT cardinality(fairq.enqueue_many('ovf', '{1,2}'::jsonb[]));
SELECT fairq.enqueue('ovf', '3', run_at => 'tomorrow') > 0;
SELECT fairq.enqueue('ovf', '4');
SELECT count(*) FROM fairq.pop('ovf');
SELECT fairq.enqueue_many('ovf', '{1,2}'::jsonb[]);
BEGIN;
SELECT fairq.enqueue('ovf', '4') > 0;
SAVEPOINT s;
SELECT fairq.enqueue('ovf', '5');
ROLLBACK TO s;
ROLLBACK;
SELECT fairq.enqueue('ovf', '4', max_attempts => 1) > 0;
SELECT count(*) FROM (SELECT fairq.nack(receipt, 'no', '0') FROM fairq.claim('ovf', 2)) x;
SELECT * FROM pg_temp.depths('ovf');
SELECT fairq.enqueue('ovf', '5') > 0;
SELECT fairq.enqueue('ovf', '6');
SELECT fairq.alter_queue('ovf', max_depth => 0);
SELECT max_depth FROM fairq.queues WHERE queue = 'ovf';
SELECT fairq.enqueue('ovf', '6') > 0;
SELECT fairq.drop_queue('ovf');
