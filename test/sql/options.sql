-- What a queue says of tasks that do not say it themselves, and what a task or a
-- release may say instead: default_priority, group_required, backoff_jitter, delay;
-- if_not_exists. The queues of this file start with "opt".
--
-- Seen to fail: let arguments_check_task() take 0 for a priority that is not
-- given; leave its check of group_required out, or arguments_task() the one that
-- delay and run_at are not both given; have put_back_at_place() called with a delay, too;
-- leave backoff_jitter out of backoff().
\i test/sql/include/helpers.sql
\pset format unaligned
\pset tuples_only on
\pset null (null)

-- default_priority: 4 unless it is said, so that there is room above and below.
SELECT fairq.create_queue('opt', buckets => 1);
SELECT backoff_jitter, default_priority, group_required FROM fairq.queues WHERE queue = 'opt';
SELECT count(fairq.enqueue('opt', '"none"')), count(fairq.enqueue('opt', '"null"', priority => NULL)),
    cardinality(fairq.enqueue_many('opt', '{1,2}', priorities => '{NULL,5}')), count(fairq.enqueue('opt', '"above"', priority => 3));
SELECT payload, priority, fairq.class(address) FROM fairq.claim('opt', 10);
SELECT fairq.alter_queue('opt', default_priority => 9);
SELECT count(fairq.enqueue('opt', '"nine"'));
SELECT payload, priority FROM fairq.pop('opt', 10);
SELECT fairq.alter_queue('opt', default_priority => 10);
SELECT fairq.create_queue('opt wrong', default_priority => -1);
SELECT fairq.create_queue('opt priority', policy => 'priority', default_priority => -9223372036854775808);
SELECT count(fairq.enqueue('opt priority', '1')), count(fairq.enqueue('opt priority', '2', priority => 9223372036854775807));
SELECT payload, priority FROM fairq.pop('opt priority', 2);
-- Each queue that is published to has its own.
SELECT fairq.subscribe('opt', 'opt'), fairq.subscribe('opt', 'opt priority'), fairq.publish('opt', '"published"');
SELECT queue, priority FROM unnest('{opt,opt priority}'::text[]) queue, LATERAL fairq.pop(queue, 10) ORDER BY queue;
-- What rows have that were there before the default changed is what they had.
SELECT count(fairq.enqueue('opt', '"before"')), fairq.alter_queue('opt', default_priority => 2);
SELECT priority FROM fairq.pop('opt', 10);

-- group_required
SELECT fairq.create_queue('opt groups', group_required => true);
SELECT fairq.enqueue('opt groups', '1');
SELECT fairq.enqueue('opt groups', '1', group_key => NULL);
SELECT fairq.enqueue('opt groups', '1', group_key => '');
SELECT fairq.enqueue_many('opt groups', '{1,2}');
SELECT fairq.enqueue_many('opt groups', '{1,2}', group_keys => '{a,NULL}');
SELECT fairq.subscribe('opt.groups', 'opt groups'), fairq.publish('opt.groups', '1');
SELECT fairq.enqueue('opt groups', '1', group_key => 'grün') > 0, cardinality(fairq.enqueue_many('opt groups', '{1,2}', group_keys => '{漢}'));
SELECT fairq.alter_queue('opt groups', group_required => false);
SELECT count(fairq.enqueue('opt groups', '1'));
SELECT group_key, count(*) FROM fairq.tasks('opt groups') GROUP BY group_key ORDER BY group_key COLLATE "C";

-- delay, beside run_at. A task cannot be due before it is enqueued, whatever the clock does meanwhile.
SELECT fairq.create_queue('opt delay', buckets => 1, backoff_base => '1 h', backoff_max => '10 h', lease => '1 h');
SELECT fairq.enqueue('opt delay', '1', run_at => now(), delay => '1 s');
SELECT fairq.publish('opt', '1', run_at => now(), delay => '0');
SELECT fairq.enqueue('opt delay', '1', delay => '-1 s');
SELECT count(fairq.enqueue('opt delay', '"hour"', delay => '1 h')), count(fairq.enqueue('opt delay', '"none"', delay => NULL)),
    count(fairq.enqueue('opt delay', '"zero"', delay => '0')), count(fairq.enqueue('opt delay', '"run_at"', run_at => '2020-01-01', delay => NULL));
SELECT payload, state, run_at - enqueued_at BETWEEN interval '59 min' AND interval '61 min' AS in_an_hour FROM fairq.tasks('opt delay') ORDER BY id;
SELECT fairq.publish('opt', '"published"', delay => '1 h');
SELECT payload, state FROM fairq.tasks('opt', 'scheduled') ORDER BY id;

-- Snooze: no attempt, no error, not before; and with a fresh place.
CREATE TEMP TABLE claimed AS SELECT * FROM fairq.claim('opt delay', 3);
SELECT payload, attempt FROM claimed ORDER BY id;
SELECT payload, fairq.release(receipt, '2 h') FROM claimed WHERE payload = '"none"';
SELECT payload, fairq.release(receipt, delay => NULL) FROM claimed WHERE payload = '"zero"';
SELECT payload, fairq.release(receipt, '1 h') FROM claimed WHERE payload = '"none"';
SELECT payload, state, attempts, last_error, run_at - now() BETWEEN interval '119 min' AND interval '121 min' AS in_two_hours FROM fairq.tasks('opt delay') ORDER BY id;
SELECT released, snoozed, nacked FROM fairq.queue_stats WHERE queue = 'opt delay';
SELECT fairq.release(NULL, '1 h');
SELECT fairq.release(receipt, '-1 s') FROM claimed;
SELECT fairq.release(receipt, '11 years') FROM claimed LIMIT 1;
SELECT fairq.release_many(NULL, '1 h');
-- Rolled back, the lease goes on.
BEGIN;
SELECT fairq.release(receipt, '1 h') FROM claimed WHERE payload = '"run_at"';
SELECT state FROM fairq.tasks('opt delay') WHERE payload = '"run_at"';
ROLLBACK;
SELECT state FROM fairq.tasks('opt delay') WHERE payload = '"run_at"';
TRUNCATE claimed;
INSERT INTO claimed SELECT * FROM fairq.claim('opt delay', 10);
SELECT count(*) FROM fairq.release_many(ARRAY(SELECT receipt FROM fairq.leases WHERE queue = 'opt delay') || ARRAY[NULL]::uuid[], '1 h');
SELECT count(*) FROM fairq.release_many(ARRAY(SELECT receipt FROM fairq.leases WHERE queue = 'opt delay') || gen_random_uuid(), '1 h');
SELECT state, count(*), sum(attempts) FROM fairq.tasks('opt delay') GROUP BY 1;
-- It is the same task when it is due: attempt 1. A held task of its key waits for it.
SELECT fairq.purge('opt delay');
SELECT count(fairq.enqueue('opt delay', '"first"', unique_key => 'k'));
TRUNCATE claimed;
INSERT INTO claimed SELECT * FROM fairq.claim('opt delay');
SELECT count(fairq.enqueue('opt delay', '"second"', unique_key => 'k'));
SELECT fairq.release(receipt, '1 h') FROM claimed;
SELECT payload, state FROM fairq.tasks('opt delay') ORDER BY id;
UPDATE fairq."q_opt delay" SET run_at = now() WHERE state = 's';
CALL pg_temp.maintain_until('opt delay', $$EXISTS (SELECT FROM fairq.tasks('opt delay') WHERE state = 'ready')$$);
SELECT payload, attempt, fairq.ack(receipt) FROM fairq.claim('opt delay', 10);
SELECT payload, attempt FROM fairq.claim('opt delay', 10);
-- One whose row was moved to another state with SQL is not snoozed.
SELECT fairq.purge('opt delay'), count(fairq.enqueue('opt delay', '"moved"'));
TRUNCATE claimed;
INSERT INTO claimed SELECT * FROM fairq.claim('opt delay');
UPDATE fairq."q_opt delay" SET state = 'd', address = NULL WHERE payload = '"moved"';
SELECT fairq.release(receipt, '1 h') FROM claimed;
SELECT payload, state FROM fairq.tasks('opt delay') WHERE payload = '"moved"';

-- backoff_jitter: all of the wait, or nothing of it, is left to chance.
CREATE PROCEDURE pg_temp.fail(jitter float8) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fairq.drop_queue('opt delay'), fairq.create_queue('opt delay', backoff_base => '1 h', backoff_max => '10 h', backoff_jitter => jitter);
    PERFORM fairq.enqueue_many('opt delay', array_agg(to_jsonb(i))) FROM generate_series(1, 500) i;
    COMMIT;
    PERFORM fairq.nack(receipt) FROM fairq.claim('opt delay', 500);
END
$$;
CREATE VIEW pg_temp.minutes AS SELECT extract(epoch FROM run_at - now()) / 60 AS wait FROM fairq.tasks('opt delay', 'scheduled');
CALL pg_temp.fail(0);
SELECT count(*), min(wait) > 58, max(wait) <= 60 FROM pg_temp.minutes;
CALL pg_temp.fail(1);
SELECT count(*), min(wait) < 15, max(wait) BETWEEN 105 AND 120 FROM pg_temp.minutes;
CALL pg_temp.fail(0.1);
SELECT count(*), min(wait) BETWEEN 52 AND 57, max(wait) BETWEEN 62 AND 66 FROM pg_temp.minutes;
SELECT fairq.alter_queue('opt delay', backoff_jitter => 1.01);
SELECT fairq.alter_queue('opt delay', backoff_jitter => 'NaN');
SELECT fairq.create_queue('opt wrong', backoff_jitter => -0.1);

-- if_not_exists: what is there stays as it is.
SELECT fairq.create_queue('opt', policy => 'time', buckets => 7, if_not_exists => true);
SELECT fairq.create_queue('opt', if_not_exists => false);
SELECT fairq.create_queue('opt', if_not_exists => NULL);
SELECT policy, buckets, default_priority FROM fairq.queues WHERE queue = 'opt';
SELECT fairq.create_queue('opt new', buckets => 3, if_not_exists => true);
SELECT buckets FROM fairq.queues WHERE queue = 'opt new';
-- A table that is no queue's is in the way all the same.
CREATE TABLE fairq."q_opt other" ();
SELECT fairq.create_queue('opt other', if_not_exists => true);
DROP TABLE fairq."q_opt other";
SELECT fairq.create_queue('opt', default_priority => 11, if_not_exists => true);

-- Numbers come as drivers send them.
PREPARE float_cost AS SELECT fairq.enqueue('opt', '1', cost => $1);
SELECT parameter_types FROM pg_prepared_statements WHERE name = 'float_cost';
SELECT count(fairq.enqueue('opt', '1', cost => 1.5::double precision)), count(fairq.enqueue('opt', '1', cost => 2)), count(fairq.enqueue('opt', '1', cost => 2.5));
SELECT fairq.enqueue('opt', '1', cost => 1e300);
SELECT fairq.enqueue_many('opt', '{1}', costs => ARRAY['-Infinity'::double precision]);
SELECT fairq.set_group('opt', 'g', weight => 0.001::double precision, rate => 0.00001::double precision), fairq.set_group_defaults('opt', weight => 1000::double precision);
SELECT fairq.set_group('opt', 'g', weight => 1e300);
SELECT count(fairq.drop_queue(queue)) FROM fairq.queues WHERE queue LIKE 'opt%';
