-- Producing: enqueue and enqueue_many with every argument.
-- The queues of this file start with "pro".
\i test/sql/include/helpers.sql
\pset format unaligned
\pset null (null)
SELECT fairq.create_queue('pro');

-- Defaults: one payload, nothing else.
SELECT fairq.enqueue('pro', '{"file": "a.txt"}') AS id \gset
SELECT state, group_key, payload, headers, priority, cost, attempts, max_attempts, run_at, lease_until, unique_key, last_error,
       address IS NOT NULL AS has_address, id = :id AS has_id,
       enqueued_at BETWEEN now() - interval '1 min' AND clock_timestamp() AS enqueued_now
    FROM fairq.get_task('pro', :id) \gx

-- NULL for an optional argument is its default: but for their ids and places
-- the two tasks are the same.
SELECT fairq.enqueue('pro', '{"file": "a.txt"}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL) AS other \gset
SELECT count(DISTINCT (state, group_key, payload, headers, priority, cost, attempts, max_attempts, run_at, lease_until,
                       unique_key, last_error))
    FROM fairq.tasks('pro') WHERE id IN (:id, :other);
SELECT :other > :id AS later_id;
SELECT fairq.purge('pro');

-- All arguments by place, and by name in another order.
SELECT fairq.enqueue('pro', '1', 'bob', 3, 2.5, NULL, NULL, 'keep', 4, '1 min', '{"trace": "x"}') AS id \gset
SELECT fairq.enqueue(headers => '{"trace": "x"}', lease => '1 min', max_attempts => 4, on_duplicate => 'keep', unique_key => NULL,
    run_at => NULL, cost => 2.5, priority => 3, group_key => 'bob', payload => '1', queue => 'pro') AS other \gset
SELECT state, group_key, payload, headers, priority, cost, attempts, max_attempts, run_at, unique_key, last_error,
       fairq.class(address)
    FROM fairq.tasks('pro') WHERE id IN (:id, :other);
SELECT group_key, payload, headers, priority, attempt, lease_until BETWEEN now() AND now() + interval '61 s' AS one_minute
    FROM fairq.claim('pro', 10);
SELECT count(fairq.cancel('pro', id)) FROM fairq.tasks('pro');

-- An untyped parameter finds its type, as a driver sends it.
PREPARE enqueue_two AS SELECT fairq.enqueue($1, $2) IS NOT NULL;
EXECUTE enqueue_two('pro', '{"two": 2}');
PREPARE enqueue_all AS SELECT fairq.enqueue($1, $2, group_key => $3, priority => $4, cost => $5, run_at => $6, unique_key => $7,
    on_duplicate => $8, max_attempts => $9, lease => $10, headers => $11) IS NOT NULL;
EXECUTE enqueue_all('pro', '{"all": 11}', 'alice', '1', '2', NULL, NULL, 'keep', '3', '00:04', '{"h": 1}');
PREPARE enqueue_several AS SELECT cardinality(fairq.enqueue_many($1, $2, $3, $4, $5, $6, $7, $8));
EXECUTE enqueue_several('pro', ARRAY['{"several": 1}', '{"several": 2}']::jsonb[], '{a,b}', '{1,2}', '{1.5,2.5}', NULL, NULL, 'keep');
SELECT name, parameter_types FROM pg_prepared_statements ORDER BY name COLLATE "C";
SELECT payload, group_key, priority, cost, max_attempts, headers FROM fairq.tasks('pro') ORDER BY id;
SELECT fairq.purge('pro');

-- The payload is whatever jsonb there is, and comes back as it went in.
CREATE TEMP TABLE sent (n int, payload jsonb);
INSERT INTO sent VALUES (1, 'null'), (2, 'true'), (3, '0'), (4, '-1.50e300'), (5, '""'), (6, '"\u00e9\n\"漢😀"'), (7, '[]'), (8, '{}'),
    (9, '[1, [2, {"three": [4]}]]'), (10, '{"": {"": ""}}'), (11, to_jsonb(repeat('long ', 1000))),
    (12, (SELECT jsonb_object_agg(i, md5(i::text)) FROM generate_series(1, 30000) i));
SELECT count(fairq.enqueue('pro', payload, headers => jsonb_build_object('n', n, 'copy', payload))) FROM sent;
CREATE TEMP TABLE got AS SELECT * FROM fairq.claim('pro', 100);
SELECT n, sent.payload = got.payload AS payload, got.headers -> 'copy' = sent.payload AS headers, pg_column_size(sent.payload) > 1000000 AS huge
    FROM sent LEFT JOIN got ON (headers ->> 'n')::int = n ORDER BY n;
SELECT count(*) FROM fairq.ack_many(ARRAY(SELECT receipt FROM got));
SELECT count(*) FROM fairq.tasks('pro');

-- Group keys: any text up to 1024 bytes, compared byte by byte.
SELECT count(fairq.enqueue('pro', to_jsonb(n), group_key => g)) FROM (VALUES (1, ''), (2, ' '), (3, 'Bob'), (4, 'bob'), (5, 'bob '),
    (6, U&'\00E9'), (7, U&'e\0301'), (8, E'a\nb'), (9, repeat('x', 1024)), (10, repeat('漢', 341) || 'x'), (11, 'NULL'), (12, '*')) v(n, g);
SELECT n, count(c.id), min(c.payload::text)
    FROM (VALUES (1, ''), (2, ' '), (3, 'Bob'), (4, 'bob'), (5, 'bob '), (6, U&'\00E9'), (7, U&'e\0301'), (8, E'a\nb'),
                 (9, repeat('x', 1024)), (10, repeat('漢', 341) || 'x'), (11, 'NULL'), (12, '*')) v(n, g),
         LATERAL fairq.claim('pro', 100, group_keys => ARRAY[g]) c
    GROUP BY n ORDER BY n;
SELECT count(fairq.cancel('pro', id)) FROM fairq.tasks('pro');
SELECT replace(pg_temp.try($$ SELECT fairq.enqueue('pro', '1', group_key => repeat('x', 1025)) $$), repeat('x', 1025), 'xxx...');
SELECT regexp_replace(pg_temp.try($$ SELECT fairq.enqueue('pro', '1', group_key => repeat('漢', 342)) $$), '漢{100,}', '漢...');

-- Priority under policy fair is the class.
SELECT count(fairq.enqueue('pro', to_jsonb(n), priority => n)) FROM generate_series(0, 9) n;
SELECT bool_and(fairq.class(address) = priority AND priority = payload::int) FROM fairq.tasks('pro');
SELECT pg_temp.try($$ SELECT fairq.enqueue('pro', '1', priority => -1) $$);
SELECT pg_temp.try($$ SELECT fairq.enqueue('pro', '1', priority => 10) $$);
SELECT fairq.purge('pro');

-- Costs from 0.001 to 1000000.
SELECT count(fairq.enqueue('pro', to_jsonb(c), cost => c)) FROM unnest('{0.001,0.5,1,1000000}'::real[]) c;
SELECT payload, cost FROM fairq.tasks('pro') ORDER BY id;
SELECT pg_temp.try($$ SELECT fairq.enqueue('pro', '1', cost => 0.0009) $$);
-- And cost by weight to 1000000: what is more would use virtual time up in the life of a server.
SELECT fairq.set_group('pro', 'light', weight => 0.001);
SELECT fairq.enqueue('pro', '1', 'light', cost => 1000) IS NOT NULL AS enqueued;
SELECT pg_temp.try($$ SELECT fairq.enqueue('pro', '1', 'light', cost => 1001) $$);
SELECT pg_temp.try($$ SELECT fairq.enqueue_many('pro', '{1,2}', '{light,other}', costs => '{1000000}') $$);
SELECT cardinality(fairq.enqueue_many('pro', '{1,2}', '{light,other}', costs => '{1000,1000000}'));
-- Where the weight is lowered afterwards, that is what is charged.
SELECT fairq.set_group('pro', 'other', weight => 0.001);
SELECT fairq.nack(receipt, delay => '0') FROM fairq.claim('pro', 10, group_keys => '{other}');
SELECT fairq.enqueue('pro', '3', 'other') IS NOT NULL AS enqueued;
SELECT max(fairq.block(address)) - min(fairq.block(address)) AS charged FROM fairq.tasks('pro') WHERE group_key = 'other';
SELECT pg_temp.try($$ SELECT fairq.enqueue('pro', '1', cost => 1000001) $$);
SELECT pg_temp.try($$ SELECT fairq.enqueue('pro', '1', cost => 0) $$);
SELECT pg_temp.try($$ SELECT fairq.enqueue('pro', '1', cost => -1) $$);
SELECT pg_temp.try($$ SELECT fairq.enqueue('pro', '1', cost => 'NaN') $$);
SELECT pg_temp.try($$ SELECT fairq.enqueue('pro', '1', cost => 'Infinity') $$);
SELECT fairq.purge('pro');

-- A task's own max_attempts and lease take precedence over the queue's.
SELECT fairq.create_queue('pro own', lease => '10 min', max_attempts => 5, buckets => 1);
SELECT fairq.enqueue('pro own', '"queue"') AS id \gset
SELECT fairq.enqueue('pro own', '"own"', max_attempts => 1, lease => '2 h') AS other \gset
SELECT fairq.enqueue('pro own', '"no limit"', max_attempts => 0) AS third \gset
SELECT payload, lease_until BETWEEN now() + interval '9 min' AND now() + interval '11 min' AS ten_minutes,
       lease_until BETWEEN now() + interval '119 min' AND now() + interval '121 min' AS two_hours,
       fairq.nack(receipt, delay => '0') AS nacked
    FROM fairq.claim('pro own', 10) ORDER BY id;
SELECT payload, state, attempts, max_attempts FROM fairq.tasks('pro own') ORDER BY id;

-- Unique keys have a file of their own: unique_keys.sql.
SELECT pg_temp.try($$ SELECT fairq.enqueue('pro', '1', on_duplicate => 'ignore') $$);
SELECT pg_temp.try($$ SELECT fairq.enqueue_many('pro', '{1}', on_duplicate => 'ignore') $$);
SELECT count(*) FROM fairq.tasks('pro');
-- enqueue_many: ids in the order given.
SELECT fairq.enqueue_many('pro', '{10,20,30}', '{a,b,a}', '{0,5,9}', '{1,2,3}') AS ids \gset
SELECT n, payload, group_key, priority, cost, state, attempts, max_attempts
    FROM unnest(:'ids'::bigint[]) WITH ORDINALITY i(id, n) JOIN fairq.tasks('pro') USING (id) ORDER BY n;
SELECT fairq.purge('pro');
-- One for all.
SELECT fairq.enqueue_many('pro', '{10,20,30}', '{bob}', '{7}', '{0.5}') AS ids \gset
SELECT n, payload, group_key, priority, cost
    FROM unnest(:'ids'::bigint[]) WITH ORDINALITY i(id, n) JOIN fairq.tasks('pro') USING (id) ORDER BY n;
SELECT fairq.purge('pro');
-- One payload for all groups.
SELECT fairq.enqueue_many('pro', '{10}', '{a,b,c}') AS ids \gset
SELECT n, payload, group_key FROM unnest(:'ids'::bigint[]) WITH ORDINALITY i(id, n) JOIN fairq.tasks('pro') USING (id) ORDER BY n;
SELECT fairq.purge('pro');
-- NULL for an array, or in one, is the default.
SELECT fairq.enqueue_many('pro', '{10,20}', NULL, NULL, NULL, NULL, NULL, NULL) AS ids \gset
SELECT n, payload, group_key, priority, cost
    FROM unnest(:'ids'::bigint[]) WITH ORDINALITY i(id, n) JOIN fairq.tasks('pro') USING (id) ORDER BY n;
SELECT fairq.purge('pro');
SELECT fairq.enqueue_many('pro', '{10,20}', '{NULL,b}', '{1,NULL}', '{NULL,2}') AS ids \gset
SELECT n, payload, group_key, priority, cost
    FROM unnest(:'ids'::bigint[]) WITH ORDINALITY i(id, n) JOIN fairq.tasks('pro') USING (id) ORDER BY n;
SELECT fairq.purge('pro');
-- None.
SELECT fairq.enqueue_many('pro', '{}');
SELECT fairq.enqueue_many('pro', '{}', '{}', '{}', '{}');
SELECT fairq.enqueue_many('pro', '{}', '{bob}');
SELECT count(*) FROM fairq.tasks('pro');
-- An array need not start at 1.
SELECT cardinality(fairq.enqueue_many('pro', '[0:2]={1,2,3}', '[7:9]={a,b,c}'));
SELECT payload, group_key FROM fairq.tasks('pro') ORDER BY id;
SELECT fairq.purge('pro');
-- One wrong element, and none is there.
SELECT pg_temp.try($$ SELECT fairq.enqueue_many('pro', '{1,2,3}', priorities => '{1,2,10}') $$);
SELECT pg_temp.try($$ SELECT fairq.enqueue_many('pro', '{1,NULL,3}') $$);
SELECT pg_temp.try($$ SELECT fairq.enqueue_many('pro', '{1,2,3}', '{a,b}') $$);
SELECT count(*) FROM fairq.tasks('pro');
-- Many at once: all of them, each id once, ids in the order given.
SELECT fairq.enqueue_many('pro', array_agg(to_jsonb(n)), array_agg((n % 100)::text)) AS ids FROM generate_series(1, 20000) n \gset
SELECT count(*), count(DISTINCT id), bool_and(payload::int = n AND group_key = (n % 100)::text),
       (SELECT bool_and(later) FROM (SELECT id > lag(id, 1, 0::bigint) OVER (ORDER BY n) AS later
                                     FROM unnest(:'ids'::bigint[]) WITH ORDINALITY i(id, n)) s) AS ascending
    FROM unnest(:'ids'::bigint[]) WITH ORDINALITY i(id, n) JOIN fairq.tasks('pro') USING (id);
SELECT count(DISTINCT address) FROM fairq.tasks('pro');
SELECT count(DISTINCT id), count(DISTINCT receipt), sum(payload::bigint) FROM fairq.claim('pro', 100000);
SELECT count(fairq.cancel('pro', id)) FROM fairq.tasks('pro');

-- In one statement for each row of another table, and as part of one that goes wrong.
SELECT count(fairq.enqueue('pro', to_jsonb(n), group_key => 'g' || n % 3)) FROM generate_series(1, 1000) n;
SELECT fairq.enqueue('pro', to_jsonb(n)), 1 / (500 - n) FROM generate_series(1, 1000) n;
SELECT group_key, count(*), count(DISTINCT address) FROM fairq.tasks('pro') GROUP BY group_key ORDER BY group_key;
SELECT ready, enqueued FROM fairq.queue_stats WHERE queue = 'pro own';

-- What most rows have takes no room in them, and is there: written in full they
-- are larger, and the same.
SELECT fairq.create_queue('pro size');
SELECT count(fairq.enqueue('pro size', '1', 'g', n % 100 / 99)) FROM generate_series(0, 1999) n;
SELECT pg_relation_size('fairq."q_pro size"') AS size, sum(hashtext(t::text)) AS rows FROM fairq."q_pro size" t \gset
VACUUM FULL fairq."q_pro size";
SELECT :size < 0.85 * pg_relation_size('fairq."q_pro size"') AS smaller, sum(hashtext(t::text)) = :rows AS same FROM fairq."q_pro size" t;
SELECT count(*), count(*) FILTER (WHERE priority = 1), min(attempt), max(attempt) FROM fairq.claim('pro size', 2000);

SELECT bool_and(fairq.drop_queue(queue)) FROM fairq.queues WHERE queue LIKE 'pro%';
SELECT queue FROM fairq.queues;
