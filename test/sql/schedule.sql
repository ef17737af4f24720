-- What time does to a queue: tasks that wait for their time, retries with
-- backoff, leases that run out. The background worker does it, or
-- fairq.maintain(); the tests hold with and without a worker.
-- The queues of this file start with "sch".
\i test/sql/include/helpers.sql
\pset format unaligned
\pset null (null)

-- run_at: not claimable before.
SELECT fairq.create_queue('sch', buckets => 1);
SELECT fairq.enqueue('sch', '"tomorrow"', run_at => now() + interval '1 day') AS id \gset
SELECT count(fairq.enqueue('sch', '"past"', run_at => now() - interval '1 day'));
SELECT count(fairq.enqueue('sch', '"now"', run_at => now()));
SELECT count(fairq.enqueue('sch', '"any"', run_at => NULL));
SELECT pg_temp.all_of('sch');
SELECT payload, state, attempts, run_at > now() + interval '23 h' AS run_at, lease_until, address FROM fairq.get_task('sch', :id);
SELECT string_agg(payload::text, ' ') FROM fairq.peek('sch');
SELECT string_agg(payload::text, ' ') FROM fairq.claim('sch', 10);
SELECT count(*) FROM fairq.claim('sch', 10);
SELECT count(*) FROM fairq.claim('sch', 10, group_keys => '{""}');
SELECT ready, leased, scheduled, dead FROM fairq.queue_stats WHERE queue = 'sch';
-- A time that never comes.
SELECT pg_temp.try($$ SELECT fairq.enqueue('sch', '1', run_at => 'infinity') $$);
SELECT pg_temp.try($$ SELECT fairq.enqueue_many('sch', '{1,2}', run_ats => '{now,infinity}') $$);
SELECT count(fairq.enqueue('sch', '"long ago"', run_at => '-infinity'));
SELECT payload FROM fairq.claim('sch');
-- When its time has come it is ready: as if it were enqueued then.
SELECT count(fairq.cancel('sch', id)) FROM fairq.tasks('sch');
SELECT count(fairq.enqueue('sch', to_jsonb(n), run_at => clock_timestamp() + interval '1 h')) FROM generate_series(1, 5) n;
SELECT count(fairq.enqueue('sch', '"at once"'));
SELECT payload FROM fairq.claim('sch', 10);
UPDATE fairq.q_sch SET run_at = now() - payload::text::int * interval '10 ms' WHERE state = 's';
CALL pg_temp.maintain_until('sch', $$ count(*) = 5 FROM fairq.peek('sch', 10) $$);
SELECT string_agg(payload::text, ' '), bool_and(enqueued_at < clock_timestamp()), min(attempt), max(attempt) FROM fairq.claim('sch', 10);
SELECT bool_and(run_at <= clock_timestamp()) FROM fairq.tasks('sch') WHERE payload <> '"at once"';
-- run_ats: each its own, or one for all; null is none.
SELECT count(fairq.cancel('sch', id)) FROM fairq.tasks('sch');
SELECT fairq.enqueue_many('sch', '{1,2,3}', run_ats => ARRAY[now() + interval '1 h', NULL, now() - interval '1 h']) AS ids \gset
SELECT payload, state FROM fairq.tasks('sch') ORDER BY id;
SELECT cardinality(fairq.enqueue_many('sch', '{4,5}', run_ats => ARRAY[now() + interval '1 h']));
SELECT cardinality(fairq.enqueue_many('sch', '{6}', '{a,b}', run_ats => ARRAY[NULL::timestamptz]));
SELECT payload, group_key, state FROM fairq.tasks('sch') ORDER BY id;

-- What may be done with a task that waits.
SELECT fairq.purge_group('sch', 'a');
SELECT fairq.cancel('sch', id) FROM fairq.tasks('sch') WHERE payload = '4';
SELECT fairq.revive_all('sch');
SELECT payload, state FROM fairq.tasks('sch', 'scheduled') ORDER BY id;
SELECT fairq.purge('sch');
SELECT pg_temp.all_of('sch');
SELECT ready, scheduled, dead FROM fairq.queue_stats WHERE queue = 'sch';

-- Policy time: by run_at, whenever it was enqueued and became ready.
SELECT fairq.create_queue('sch time', policy => 'time', buckets => 1);
SELECT count(fairq.enqueue('sch time', to_jsonb(n), group_key => 'g' || n % 2, priority => n, run_at => now() - n * interval '1 min')) FROM generate_series(1, 4) n;
SELECT count(fairq.enqueue('sch time', '"last"'));
SELECT count(fairq.enqueue('sch time', '"soon"', run_at => clock_timestamp() + interval '0.1 s'));
CALL pg_temp.maintain_until('sch time', $$ count(*) = 6 FROM fairq.peek('sch time', 10) $$);
SELECT string_agg(payload #>> '{}', ' ') FROM fairq.claim('sch time', 10);
-- Policy priority: the priority counts, once it is due.
SELECT fairq.create_queue('sch priority', policy => 'priority', buckets => 1);
SELECT count(fairq.enqueue('sch priority', to_jsonb(n), priority => -n, run_at => clock_timestamp() + n * interval '20 ms')) FROM generate_series(1, 4) n;
CALL pg_temp.maintain_until('sch priority', $$ count(*) = 4 FROM fairq.peek('sch priority', 10) $$);
SELECT string_agg(payload #>> '{}', ' ') FROM fairq.claim('sch priority', 10);

-- nack with a delay: back after just that, with a fresh place.
SELECT fairq.create_queue('sch nack', buckets => 1, max_attempts => 3, backoff_base => '1 h', backoff_max => '10 h');
SELECT count(fairq.enqueue('sch nack', to_jsonb(n), group_key => 'bob')) FROM generate_series(1, 5) n;
CREATE TEMP TABLE claimed AS SELECT * FROM fairq.claim('sch nack', 4);
SELECT fairq.nack(pg_temp.receipt(1), 'in a day', '1 day'), fairq.nack(pg_temp.receipt(2), delay => '0.1 s'), fairq.nack(pg_temp.receipt(3), 'at once', '0');
SELECT pg_temp.try($$ SELECT fairq.nack(pg_temp.receipt(4), delay => '-1 s') $$);
SELECT pg_temp.try($$ SELECT fairq.nack(pg_temp.receipt(4), delay => '11 years') $$);
SELECT payload, attempts, last_error, group_key, run_at - now() BETWEEN interval '23:59:50' AND interval '24:00:00' AS in_a_day, lease_until, address
    FROM fairq.tasks('sch nack', 'scheduled') WHERE payload = '1';
CALL pg_temp.maintain_until('sch nack', $$ count(*) = 3 FROM fairq.peek('sch nack', 10) $$);
SELECT pg_temp.all_of('sch nack');
-- 3 went behind 5, and 2 behind it when its time had come.
SELECT string_agg(payload::text || '/' || attempt, ' ') FROM fairq.claim('sch nack', 10);
-- The last attempt: dead, whatever the delay.
UPDATE fairq."q_sch nack" SET max_attempts = 1 WHERE payload = '4';
SELECT fairq.nack(pg_temp.receipt(4), 'over', '1 day');
SELECT payload, state, attempts, last_error FROM fairq.tasks('sch nack', 'dead');

-- nack without a delay: the queue's backoff. After attempt n it is base * 2^(n-1) with a jitter of a tenth, and never more than backoff_max.
SELECT fairq.create_queue('sch backoff', buckets => 1, max_attempts => 0, backoff_base => '10 s', backoff_max => '1000 s');
SELECT cardinality(fairq.enqueue_many('sch backoff', array_agg(to_jsonb(n)))) FROM generate_series(0, 1199) n;
UPDATE fairq."q_sch backoff" SET attempts = payload::int / 100;
SELECT now() AS before \gset
SELECT count(*) FROM fairq.nack_many(ARRAY(SELECT receipt FROM fairq.claim('sch backoff', 10000)), '{no}');
SELECT attempts, count(*), least(10 * 2 ^ (attempts - 1), 1000) AS wait,
       bool_and(state = 'scheduled') AS scheduled,
       min(seconds) >= 0.9 * least(10 * 2 ^ (attempts - 1), 1000) AS not_less,
       max(seconds) <= least(1.1 * 10 * 2 ^ (attempts - 1), 1000) + 30 AS not_more,
       CASE WHEN 10 * 2 ^ (attempts - 1) < 1000 THEN max(seconds) - min(seconds) > 0.01 * 10 * 2 ^ (attempts - 1) END AS spread
    FROM (SELECT *, extract(epoch FROM run_at - :'before'::timestamptz)::float8 AS seconds FROM fairq.tasks('sch backoff')) t
    GROUP BY attempts ORDER BY attempts;
SELECT ready, leased, scheduled, nacked FROM fairq.queue_stats WHERE queue = 'sch backoff';
-- No more than backoff_max, by what the rows say of themselves: all of one statement have one time.
SELECT fairq.create_queue('sch most', buckets => 1, max_attempts => 0, backoff_base => '1000 h', backoff_max => '1 h');
SELECT cardinality(fairq.enqueue_many('sch most', array_agg(to_jsonb(n)))) FROM generate_series(1, 500) n;
SELECT count(*) FROM fairq.nack_many(ARRAY(SELECT receipt FROM fairq.claim('sch most', 10000)));
SELECT max(run_at) <= clock_timestamp() + interval '1 h' AS not_more, min(run_at) >= now() + interval '53 min' AS not_less FROM fairq.tasks('sch most');
-- Attempts beyond counting.
UPDATE fairq."q_sch most" SET attempts = 2147483646, run_at = now() WHERE payload = '1';
CALL pg_temp.maintain_until('sch most', $$ count(*) = 1 FROM fairq.peek('sch most', 10) $$);
SELECT attempt, fairq.nack(receipt) FROM fairq.claim('sch most');
SELECT attempts, state, run_at < now() + interval '1 h 1 min' AS not_more FROM fairq.tasks('sch most') WHERE payload = '1';
-- backoff 0: at once. A new backoff holds from the next nack on.
SELECT fairq.alter_queue('sch nack', backoff_base => '0');
SELECT count(fairq.cancel('sch nack', id)) FROM fairq.tasks('sch nack');
SELECT count(fairq.enqueue('sch nack', '1'));
SELECT fairq.nack(receipt) FROM fairq.claim('sch nack');
SELECT pg_temp.all_of('sch nack');
SELECT fairq.alter_queue('sch nack', backoff_base => '1 h');
SELECT fairq.nack(receipt) FROM fairq.claim('sch nack');
SELECT pg_temp.all_of('sch nack'), (SELECT run_at > now() + interval '100 min' FROM fairq.tasks('sch nack')) AS later;

-- A lease that runs out is a loss: the task waits its backoff, or is dead.
SELECT fairq.create_queue('sch expiry', buckets => 1, max_lost => 2, backoff_base => '1 h');
SELECT count(fairq.enqueue('sch expiry', to_jsonb(n), max_lost => n)) FROM generate_series(1, 2) n;
TRUNCATE claimed;
INSERT INTO claimed SELECT * FROM fairq.claim('sch expiry', 2, lease => '1 microsecond');
CALL pg_temp.maintain_until('sch expiry', $$ count(*) = 0 FROM fairq.leases WHERE queue = 'sch expiry' $$);
SELECT payload, state, attempts, lost, pg_temp.masked(last_error), run_at > now() + interval '50 min' AS run_at, address FROM fairq.tasks('sch expiry') ORDER BY id;
SELECT fairq.ack(receipt), fairq.release(receipt), fairq.nack(receipt), fairq.extend(receipt) FROM claimed;
SELECT ready, leased, scheduled, dead, expired, nacked, dead_total FROM fairq.queue_stats WHERE queue = 'sch expiry';
-- A lease that is being settled does not run out before its transaction ends.
SELECT fairq.create_queue('sch settling', buckets => 1, backoff_base => '0');
SELECT count(fairq.enqueue('sch settling', '1'));
BEGIN;
SELECT fairq.ack(receipt) FROM fairq.claim('sch settling', lease => '1 s');
SELECT pg_sleep(1.5);
SELECT fairq.maintain('sch settling');
SELECT state FROM fairq.leases WHERE queue = 'sch settling';
COMMIT;
SELECT pg_temp.all_of('sch settling');
-- A claim that was rolled back is no attempt, though its lease has run out meanwhile.
SELECT count(fairq.enqueue('sch settling', '2'));
-- (The worker, which would put it back before that, cannot write the table.)
BEGIN;
LOCK TABLE fairq."q_sch settling" IN SHARE MODE;
SELECT attempt FROM fairq.claim('sch settling', lease => '1 microsecond');
SELECT pg_sleep(0.2);
ROLLBACK;
SELECT fairq.maintain('sch settling') <= 0;
SELECT payload, attempt FROM fairq.claim('sch settling');

-- Transactions.
SELECT fairq.create_queue('sch tra', buckets => 1);
BEGIN;
SELECT count(fairq.enqueue('sch tra', '1', run_at => now() + interval '1 h'));
ROLLBACK;
SELECT pg_temp.all_of('sch tra');
SELECT count(fairq.enqueue('sch tra', to_jsonb(n))) FROM generate_series(1, 2) n;
TRUNCATE claimed;
INSERT INTO claimed SELECT * FROM fairq.claim('sch tra', 2);
BEGIN;
SELECT fairq.nack(pg_temp.receipt(1), delay => '1 h');
SAVEPOINT a;
SELECT fairq.nack(pg_temp.receipt(2), delay => '1 h');
ROLLBACK TO a;
SELECT fairq.ack(pg_temp.receipt(2));
ROLLBACK;
SELECT pg_temp.all_of('sch tra');
BEGIN;
SELECT fairq.nack(pg_temp.receipt(1), delay => '1 h');
SAVEPOINT a;
SELECT fairq.nack(pg_temp.receipt(2), delay => '1 h');
ROLLBACK TO a;
SELECT fairq.ack(pg_temp.receipt(2));
COMMIT;
SELECT pg_temp.all_of('sch tra');
SELECT scheduled, nacked, acked FROM fairq.queue_stats WHERE queue = 'sch tra';

-- SQL of the user's: another time for a task that waits, a task that waits from the start.
UPDATE fairq."q_sch tra" SET run_at = now();
CALL pg_temp.maintain_until('sch tra', $$ count(*) = 1 FROM fairq.peek('sch tra', 10) $$);
SELECT payload, attempt FROM fairq.claim('sch tra');
INSERT INTO fairq."q_sch tra" (id, enqueued_at, priority, cost, attempts, state, run_at, group_key, payload)
    VALUES (100000, now(), 0, 1, 0, 's', now() + interval '1 h', 'bob', '"inserted"'),
           (100001, now(), 0, 1, 0, 's', now() + interval '1 day', 'bob', '"tomorrow"');
SELECT scheduled FROM fairq.queue_stats WHERE queue = 'sch tra';
UPDATE fairq."q_sch tra" SET run_at = clock_timestamp() WHERE id = 100000;
CALL pg_temp.maintain_until('sch tra', $$ count(*) = 1 FROM fairq.peek('sch tra', 10) $$);
SELECT payload, group_key, attempt FROM fairq.claim('sch tra', 10);
SELECT scheduled FROM fairq.queue_stats WHERE queue = 'sch tra';

-- A paused queue: time goes on, claims do not.
SELECT fairq.create_queue('sch paused', buckets => 1);
SELECT fairq.pause('sch paused');
SELECT count(fairq.enqueue('sch paused', '1', run_at => clock_timestamp() + interval '50 ms'));
CALL pg_temp.maintain_until('sch paused', $$ count(*) = 1 FROM fairq.tasks('sch paused', 'ready') $$);
SELECT count(*) FROM fairq.claim('sch paused');
SELECT fairq.resume('sch paused');
CALL pg_temp.maintain_until('sch paused', $$ count(*) = 1 FROM fairq.peek('sch paused', 10) $$);
SELECT payload FROM fairq.claim('sch paused');

-- A dead task that is revived is ready, whatever its time was.
SELECT count(fairq.enqueue('sch paused', '2', max_attempts => 1, run_at => now() - interval '1 h'));
SELECT fairq.nack(receipt, delay => '1 h') FROM fairq.claim('sch paused');
SELECT fairq.revive_all('sch paused');
SELECT payload, attempt FROM fairq.claim('sch paused');

-- Many due at one time, more than one pass moves.
SELECT fairq.create_queue('sch many', backoff_base => '1 h');
SELECT cardinality(fairq.enqueue_many('sch many', array_agg(to_jsonb(n)), array_agg('g' || n % 10), run_ats => ARRAY[clock_timestamp() + interval '0.2 s']))
    FROM generate_series(1, 5000) n;
CALL pg_temp.maintain_until('sch many', $$ count(*) = 5000 FROM fairq.peek('sch many', 10000) $$);
SELECT count(*), count(DISTINCT payload), count(DISTINCT address) FROM fairq.claim('sch many', 10000, lease => '1 microsecond');
CALL pg_temp.maintain_until('sch many', $$ count(*) = 5000 AND (SELECT leased = 0 FROM fairq.queue_stats WHERE queue = 'sch many') FROM fairq.tasks('sch many', 'scheduled') $$);
SELECT ready, leased, scheduled, expired FROM fairq.queue_stats WHERE queue = 'sch many';

-- maintain: how many tasks it moved.
SELECT fairq.create_queue('sch maintain');
SELECT fairq.maintain('sch maintain');
SELECT fairq.maintain(queue => 'sch maintain');
PREPARE maintain_one AS SELECT fairq.maintain($1);
EXECUTE maintain_one('sch maintain');
PREPARE enqueue_at AS SELECT fairq.enqueue($1, $2, run_at => $3) IS NOT NULL;
EXECUTE enqueue_at('sch maintain', '1', '2100-01-01');
SELECT name, parameter_types FROM pg_prepared_statements ORDER BY name COLLATE "C";
SELECT fairq.maintain('sch maintain');
SELECT pg_temp.try($$ SELECT fairq.maintain('sch unknown') $$);
SELECT pg_temp.try($$ SELECT fairq.maintain(NULL) $$);
BEGIN READ ONLY;
SELECT pg_temp.try($$ SELECT fairq.maintain('sch maintain') $$);
COMMIT;

SELECT bool_and(fairq.drop_queue(queue)) FROM fairq.queues WHERE queue LIKE 'sch%';
SELECT queue FROM fairq.queues;
SELECT queue, count(*) FROM fairq.leases GROUP BY queue;
