-- Queues: create, alter, pause and resume, purge, drop, and the view of them.
-- The queues of this file start with "que", but for those with odd names.
\i test/sql/include/helpers.sql
\pset format unaligned
\pset tuples_only on

-- Defaults.
SELECT fairq.create_queue('que defaults');
\x on
SELECT queue, policy, buckets, lease, max_attempts, backoff_base, backoff_max, max_ready, max_ready_per_group,
       max_depth, keep_done, durable_leases, paused
    FROM fairq.queues WHERE queue = 'que defaults';
\x off

-- NULL for an optional argument is its default.
SELECT fairq.create_queue('que nulls', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
SELECT count(*), count(DISTINCT (policy, buckets, lease, max_attempts, backoff_base, backoff_max, max_ready,
                                 max_ready_per_group, max_depth, keep_done, durable_leases, paused))
    FROM fairq.queues WHERE queue IN ('que defaults', 'que nulls');

-- All arguments by place, and by name.
SELECT fairq.create_queue('que places', 'priority', 3, '1 min', 7, '2 s', '2 h', 1000000, 10000, NULL, NULL, false);
SELECT fairq.create_queue(queue => 'que names', policy => 'time', buckets => 1024, lease => '10 years', max_attempts => 0,
    backoff_base => '10 years', backoff_max => '10 years', max_ready => 1000000, max_ready_per_group => 10000,
    max_depth => NULL, keep_done => NULL, durable_leases => false);
SELECT fairq.create_queue('que least', buckets => 1, lease => '1 microsecond', max_attempts => 2147483647, backoff_base => '0', backoff_max => '0');
SELECT queue, policy, buckets, lease, max_attempts, backoff_base, backoff_max FROM fairq.queues WHERE queue LIKE 'que %' ORDER BY queue COLLATE "C";

-- An untyped parameter finds its type, as a driver sends it.
PREPARE create_one AS SELECT fairq.create_queue($1, policy => $2, buckets => $3, lease => $4, max_attempts => $5,
    backoff_base => $6, backoff_max => $7, max_ready => $8, max_ready_per_group => $9, max_depth => $10, keep_done => $11,
    durable_leases => $12);
EXECUTE create_one('que prepared', 'fair', '2', '00:02', '9', '1 s', '1 h', '1000000', '10000', NULL, NULL, 'f');
PREPARE alter_one AS SELECT fairq.alter_queue($1, buckets => $2, lease => $3, max_attempts => $4, backoff_base => $5,
    backoff_max => $6, max_ready => $7, max_ready_per_group => $8, max_depth => $9, keep_done => $10, durable_leases => $11);
EXECUTE alter_one('que prepared', '2', '00:03', '10', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
SELECT policy, buckets, lease, max_attempts FROM fairq.queues WHERE queue = 'que prepared';
PREPARE pause_one AS SELECT fairq.pause($1);
EXECUTE pause_one('que prepared');
SELECT paused FROM fairq.queues WHERE queue = 'que prepared';
PREPARE resume_one AS SELECT fairq.resume($1);
EXECUTE resume_one('que prepared');
SELECT paused FROM fairq.queues WHERE queue = 'que prepared';
PREPARE purge_one AS SELECT fairq.purge_group($1, $2);
EXECUTE purge_one('que prepared', NULL);
PREPARE drop_one AS SELECT fairq.drop_queue($1);
EXECUTE drop_one('que prepared');
EXECUTE drop_one('que prepared');
SELECT name, parameter_types FROM pg_prepared_statements ORDER BY name COLLATE "C";

-- What cannot be had is refused, and leaves nothing behind.
SELECT pg_temp.try($$ SELECT fairq.create_queue('que defaults') $$);
SELECT pg_temp.try($$ SELECT fairq.create_queue('que wrong', policy => 'lifo') $$);
SELECT pg_temp.try($$ SELECT fairq.create_queue('que wrong', policy => 'Fair') $$);
SELECT pg_temp.try($$ SELECT fairq.create_queue('que wrong', policy => '') $$);
SELECT pg_temp.try($$ SELECT fairq.create_queue('que wrong', buckets => 0) $$);
SELECT pg_temp.try($$ SELECT fairq.create_queue('que wrong', buckets => 1025) $$);
SELECT pg_temp.try($$ SELECT fairq.create_queue('que wrong', lease => '0') $$);
SELECT pg_temp.try($$ SELECT fairq.create_queue('que wrong', lease => '-1 s') $$);
SELECT pg_temp.try($$ SELECT fairq.create_queue('que wrong', lease => '11 years') $$);
SELECT pg_temp.try($$ SELECT fairq.create_queue('que wrong', max_attempts => -1) $$);
SELECT pg_temp.try($$ SELECT fairq.create_queue('que wrong', backoff_base => '-2 s') $$);
SELECT pg_temp.try($$ SELECT fairq.create_queue('que wrong', backoff_base => '11 years') $$);
SELECT pg_temp.try($$ SELECT fairq.create_queue('que wrong', backoff_max => '-2 h') $$);
SELECT pg_temp.try($$ SELECT fairq.create_queue('que wrong', backoff_max => '11 years') $$);
SELECT pg_temp.try($$ SELECT fairq.create_queue('que wrong', max_ready => 0) $$);
SELECT pg_temp.try($$ SELECT fairq.create_queue('que wrong', 'priority', max_ready_per_group => 10) $$);
SELECT pg_temp.try($$ SELECT fairq.create_queue('que wrong', max_depth => -1) $$);
SELECT pg_temp.try($$ SELECT fairq.create_queue('que wrong', keep_done => '-1 day') $$);
SELECT pg_temp.try($$ SELECT fairq.create_queue('que wrong', keep_done => '11 years') $$);
SELECT count(*) FROM fairq.queues WHERE queue = 'que wrong';
SELECT count(*) FROM pg_class WHERE relname LIKE '%que wrong%';
SELECT fairq.drop_queue('que wrong');

-- An unknown queue.
SELECT pg_temp.try($$ SELECT fairq.alter_queue('que unknown', lease => '1 s') $$);
SELECT pg_temp.try($$ SELECT fairq.purge('que unknown') $$);
SELECT pg_temp.try($$ SELECT fairq.pause('que unknown') $$);
SELECT pg_temp.try($$ SELECT fairq.resume('que unknown') $$);
SELECT pg_temp.try($$ SELECT fairq.drop_queue('que unknown') $$);

-- Alter: each setting alone, the rest left as it is.
SELECT fairq.alter_queue('que defaults');
SELECT fairq.alter_queue('que defaults', lease => '5 min');
SELECT lease, max_attempts FROM fairq.queues WHERE queue = 'que defaults';
SELECT fairq.alter_queue('que defaults', max_attempts => 3);
SELECT lease, max_attempts FROM fairq.queues WHERE queue = 'que defaults';
SELECT fairq.alter_queue('que defaults', backoff_base => '2 s');
SELECT lease, max_attempts, backoff_base, backoff_max FROM fairq.queues WHERE queue = 'que defaults';
SELECT fairq.alter_queue('que defaults', backoff_max => '2 h');
SELECT lease, max_attempts, backoff_base, backoff_max FROM fairq.queues WHERE queue = 'que defaults';
SELECT fairq.alter_queue('que defaults', durable_leases => true);
SELECT lease, durable_leases FROM fairq.queues WHERE queue = 'que defaults';
SELECT fairq.alter_queue('que defaults', durable_leases => false);
SELECT lease, durable_leases FROM fairq.queues WHERE queue = 'que defaults';
SELECT fairq.alter_queue('que defaults', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
SELECT lease, max_attempts, backoff_base, backoff_max FROM fairq.queues WHERE queue = 'que defaults';
SELECT fairq.alter_queue('que defaults', buckets => 8);
SELECT buckets, lease, max_attempts FROM fairq.queues WHERE queue = 'que defaults';
SELECT fairq.alter_queue('que defaults', buckets => 16);
SELECT pg_temp.try($$ SELECT fairq.alter_queue('que defaults', lease => '0') $$);
SELECT pg_temp.try($$ SELECT fairq.alter_queue('que defaults', max_attempts => -1) $$);
SELECT pg_temp.try($$ SELECT fairq.alter_queue('que defaults', backoff_base => '-2 s') $$);
SELECT pg_temp.try($$ SELECT fairq.alter_queue('que defaults', backoff_max => '-2 h') $$);
SELECT pg_temp.try($$ SELECT fairq.alter_queue('que defaults', max_ready => 0) $$);
SELECT pg_temp.try($$ SELECT fairq.alter_queue('que defaults', max_ready_per_group => -1) $$);
SELECT pg_temp.try($$ SELECT fairq.alter_queue('que defaults', max_depth => -1) $$);
SELECT pg_temp.try($$ SELECT fairq.alter_queue('que defaults', keep_done => '-1 day') $$);
SELECT pg_temp.try($$ SELECT fairq.alter_queue('que defaults', policy => 'time') $$);
-- One wrong setting: none of the others is taken either.
SELECT pg_temp.try($$ SELECT fairq.alter_queue('que defaults', lease => '7 min', max_attempts => -1) $$);
SELECT lease, max_attempts FROM fairq.queues WHERE queue = 'que defaults';

-- A new lease and a new max_attempts hold for tasks that are there already.
SELECT count(fairq.enqueue('que defaults', '"altered"'));
SELECT fairq.alter_queue('que defaults', lease => '2 h', max_attempts => 1);
SELECT receipt, lease_until BETWEEN now() + '110 min' AND now() + '130 min' AS two_hours FROM fairq.claim('que defaults')
\gset altered_
\echo :altered_two_hours
SELECT fairq.nack(:'altered_receipt', delay => '0');
SELECT state, attempts FROM fairq.tasks('que defaults');

-- Pause: nothing is claimed, all else goes on.
SELECT fairq.create_queue('que paused', buckets => 1, lease => '1 h');
SELECT count(fairq.enqueue('que paused', to_jsonb(n))) FROM generate_series(1, 6) n;
CREATE TEMP TABLE claimed AS SELECT * FROM fairq.claim('que paused', 4);
SELECT fairq.pause('que paused');
SELECT fairq.pause('que paused');
SELECT paused FROM fairq.queues WHERE queue = 'que paused';
SELECT count(*) FROM fairq.claim('que paused', 10);
SELECT count(*) FROM fairq.pop('que paused', 10);
SELECT count(*) FROM fairq.peek('que paused');
SELECT count(fairq.enqueue('que paused', '7'));
SELECT fairq.ack(receipt) FROM claimed WHERE payload = '1';
SELECT count(*) FROM fairq.ack_and_claim('que paused', ARRAY(SELECT receipt FROM claimed WHERE payload = '2'), 10);
SELECT fairq.release(receipt) FROM claimed WHERE payload = '3';
SELECT fairq.extend(receipt) IS NOT NULL FROM claimed WHERE payload = '4';
SELECT state, string_agg(payload::text, ' ' ORDER BY payload) FROM fairq.tasks('que paused') GROUP BY state ORDER BY state;
SELECT fairq.resume('que paused');
SELECT fairq.resume('que paused');
SELECT paused FROM fairq.queues WHERE queue = 'que paused';
SELECT string_agg(payload::text, ' ') FROM fairq.peek('que paused');
SELECT string_agg(payload::text, ' ') FROM fairq.claim('que paused', 10);
SELECT fairq.ack(receipt) FROM claimed WHERE payload = '4';
-- A single group is another matter, and a null is nobody's key.
SELECT pg_temp.try($$ SELECT fairq.pause_group('que paused', 'bob') $$);
SELECT pg_temp.try($$ SELECT fairq.resume_group('que paused', group_key => 'bob') $$);
SELECT fairq.pause_group('que paused', group_key => NULL);
SELECT fairq.resume_group('que paused', NULL);
SELECT paused FROM fairq.queues WHERE queue = 'que paused';

-- Purge: every task that is not leased; or those of one group.
SELECT fairq.create_queue('que purged', max_attempts => 1, lease => '1 h');
SELECT fairq.purge('que purged');
SELECT cardinality(fairq.enqueue_many('que purged', array_agg(to_jsonb(n)), array_agg((ARRAY['', 'a', 'b'])[1 + n % 3])))
    FROM generate_series(0, 8) n;
SELECT fairq.nack(receipt, delay => '0') FROM fairq.claim('que purged', group_keys => '{b}');
TRUNCATE claimed;
INSERT INTO claimed SELECT * FROM fairq.claim('que purged', group_keys => '{a}');
SELECT group_key, state, count(*) FROM fairq.tasks('que purged') GROUP BY 1, 2 ORDER BY 1, 2;
SELECT fairq.purge_group('que purged', 'nobody');
SELECT fairq.purge_group('que purged', group_key => '');
SELECT fairq.purge_group('que purged', 'a');
SELECT group_key, state, count(*) FROM fairq.tasks('que purged') GROUP BY 1, 2 ORDER BY 1, 2;
SELECT fairq.purge_group('que purged', NULL);
SELECT group_key, state, count(*) FROM fairq.tasks('que purged') GROUP BY 1, 2 ORDER BY 1, 2;
SELECT fairq.ack(receipt) FROM claimed;
SELECT count(*) FROM fairq.tasks('que purged');
SELECT count(fairq.enqueue('que purged', '"after"'));
SELECT payload FROM fairq.claim('que purged', 10);

-- Drop: with tasks in it, with leases. What comes under the name later is another queue.
SELECT fairq.create_queue('que dropped', buckets => 2);
SELECT count(fairq.enqueue('que dropped', to_jsonb(n))) FROM generate_series(1, 3) n;
TRUNCATE claimed;
INSERT INTO claimed SELECT * FROM fairq.claim('que dropped');
SELECT fairq.drop_queue('que dropped');
SELECT to_regclass('fairq."q_que dropped"');
SELECT pg_temp.try($$ SELECT * FROM fairq.claim('que dropped') $$);
SELECT fairq.ack(receipt), fairq.release(receipt), fairq.nack(receipt, delay => '0'), fairq.extend(receipt) IS NULL FROM claimed;
SELECT count(*) FROM fairq.leases WHERE queue = 'que dropped';
SELECT count(*) FROM fairq.queue_stats WHERE queue = 'que dropped';
SELECT fairq.drop_queue('que dropped');
SELECT fairq.create_queue('que dropped', policy => 'priority', buckets => 1);
SELECT count(*) FROM fairq.claim('que dropped', 10);
SELECT fairq.ack(receipt) FROM claimed;
SELECT ready, leased, dead, enqueued, claimed, acked FROM fairq.queue_stats WHERE queue = 'que dropped';
SELECT count(fairq.enqueue('que dropped', '"new"', priority => -1));
SELECT payload, priority, attempt FROM fairq.claim('que dropped', 10);

-- Any name of 1 to 48 bytes will do.
CREATE TEMP TABLE odd (n int GENERATED ALWAYS AS IDENTITY, name text);
INSERT INTO odd (name) VALUES
    ('Emails'), ('emails'), ('fichiers-à-traiter'), ('a.b'), ('with "double quotes"'), ('it''s quoted'), (' spaces '), (' '),
    ('back\slash'), (E'new\nline'), (E'tab\tand\rreturn'), ('%s %I %% $1 :x'), ('a; DROP TABLE b --'), ('select'), ('null'),
    ('q_x'), ('"'), (''''), ('0'), ('漢字とかな'), ('😀'), ('$$'), (repeat('x', 48)), (repeat('x', 47) || 'y'), (repeat('漢', 16)),
    (repeat('"', 48)), (repeat(' ', 48)), (U&'\00E9'), (U&'e\0301');
SELECT count(fairq.create_queue(name)) = count(*) FROM odd;
SELECT count(*) = (SELECT count(*) FROM odd) FROM fairq.queues JOIN odd ON name = queue;
SELECT n, name FROM odd WHERE to_regclass(format('fairq.%I', 'q_' || name)) IS NULL;
SELECT count(fairq.enqueue(name, to_jsonb(n))) = count(*) FROM odd;
SELECT count(fairq.pause(name)), count(fairq.resume(name)), count(fairq.alter_queue(name, lease => '1 h')) FROM odd;
CREATE TEMP TABLE of_odd AS SELECT n, c.* FROM odd, LATERAL fairq.claim(name, 10) c;
SELECT n, to_jsonb(odd.name), octet_length(odd.name), payload, fairq.ack(receipt), count(*) OVER (PARTITION BY n)
    FROM odd LEFT JOIN of_odd USING (n) ORDER BY n;
SELECT count(fairq.enqueue(name, to_jsonb(n))) = count(*) FROM odd;
SELECT sum(fairq.purge(name)) = count(*) FROM odd;
SELECT bool_and(fairq.drop_queue(name)) FROM odd;
SELECT bool_or(fairq.drop_queue(name)) FROM odd;
SELECT n, name FROM odd WHERE to_regclass(format('fairq.%I', 'q_' || name)) IS NOT NULL;
-- Shorter or longer will not do.
SELECT pg_temp.try($$ SELECT fairq.create_queue('') $$);
SELECT pg_temp.try($$ SELECT fairq.create_queue(repeat('x', 49)) $$);
SELECT pg_temp.try($$ SELECT fairq.create_queue(repeat('漢', 16) || 'x') $$);
SELECT regexp_replace(pg_temp.try($$ SELECT fairq.create_queue(repeat('x', 100000)) $$), 'x{40,}', 'xxx...');

-- A queue may be named like the index or the sequence of another.
SELECT fairq.create_queue('que');
SELECT created FROM unnest('{que_pkey,que_pkey1,que_id,que_id_seq,que_address,que_address_idx,que_idx,que_key,que_seq}'::text[]) name,
    LATERAL pg_temp.try(format('SELECT fairq.create_queue(%L)', name)) created WHERE created <> 'ok';
SELECT created FROM pg_class,
    LATERAL pg_temp.try(format('SELECT fairq.create_queue(%L)', substr(relname, 3))) created
    WHERE relnamespace = 'fairq'::regnamespace AND relname LIKE 'q\_que%' AND relkind IN ('i', 'S')
        AND length(relname) < 40 AND created <> 'ok';
-- A table that is in the way is left alone.
CREATE TABLE fairq."q_que in the way" (i int);
SELECT pg_temp.try($$ SELECT fairq.create_queue('que in the way') $$);
SELECT fairq.drop_queue('que in the way');
SELECT count(*) FROM fairq.queues WHERE queue = 'que in the way';
DROP TABLE fairq."q_que in the way";
SELECT fairq.create_queue('que in the way');

-- Nothing stays behind.
SELECT bool_and(fairq.drop_queue(queue)) FROM fairq.queues WHERE queue LIKE 'que%';
SELECT queue FROM fairq.queues;
SELECT relname FROM pg_class WHERE relnamespace = 'fairq'::regnamespace AND relname LIKE '%que %';
SELECT queue, count(*) FROM fairq.leases GROUP BY queue;
