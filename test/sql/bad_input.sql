-- Bad input: every function with every argument, one at a time, as bad as its
-- type allows; then arguments that do not go together. Whatever was tried, the
-- tasks and leases are what they were. The queues of this file start with "bad".
\pset format unaligned
\pset tuples_only on
\pset null (null)

-- Try a statement without effect: its error with hint, or null if it is none.
CREATE FUNCTION pg_temp.try(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    hint text;
BEGIN
    EXECUTE statement;
    RAISE EXCEPTION 'undo' USING ERRCODE = 'UNDOO';
EXCEPTION
    WHEN SQLSTATE 'UNDOO' THEN
        RETURN NULL;
    WHEN OTHERS THEN
        GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
        RETURN SQLSTATE || ': ' || SQLERRM || coalesce(' -- ' || nullif(hint, ''), '');
END
$$;

-- Ready, leased and dead tasks in a queue of each policy.
SELECT count(fairq.create_queue('bad ' || policy, policy, buckets => 2, lease => '1 h', max_attempts => 2))
    FROM unnest('{fair,priority,time}'::text[]) policy;
SELECT fairq.create_queue('bad sub', subgroups => true);
SELECT count(fairq.enqueue('bad ' || policy, to_jsonb(n), group_key => 'g' || n % 3, priority => n % 4, headers => '{"h": 1}'))
    FROM unnest('{fair,priority,time}'::text[]) policy, generate_series(1, 12) n;
CREATE TEMP TABLE leased AS SELECT policy, c.* FROM unnest('{fair,priority,time}'::text[]) policy, LATERAL fairq.claim('bad ' || policy, 4) c;
SELECT fairq.alter_queue('bad fair', max_attempts => 1);
SELECT count(fairq.nack(receipt, 'dead', '0')) FROM fairq.claim('bad fair', 2);
CREATE VIEW pg_temp.everything AS
    SELECT q.queue, t.id, t.state, t.group_key, t.payload, t.headers, t.priority, t.cost, t.attempts, t.max_attempts, t.enqueued_at,
           t.run_at, t.lease_until IS NOT NULL AS has_lease, t.address, t.unique_key, t.last_error
        FROM fairq.queues q, LATERAL fairq.tasks(q.queue) t WHERE q.queue LIKE 'bad%';
CREATE TEMP TABLE before AS SELECT * FROM pg_temp.everything;
CREATE TEMP TABLE leases_before AS SELECT queue, id, receipt, attempt, state FROM fairq.leases WHERE queue LIKE 'bad%';
CREATE TEMP TABLE queues_before AS SELECT * FROM fairq.queues;
CREATE TEMP TABLE stats_before AS SELECT queue, ready, leased, dead, enqueued, acked, nacked, released, cancelled, dead_total
    FROM fairq.queue_stats WHERE queue LIKE 'bad%';
SELECT queue, state, count(*) FROM before GROUP BY 1, 2 ORDER BY 1, 2;

-- A good call of every function: what each argument is when another one is bad.
SELECT fairq.subscribe('bad.#', 'bad fair');
SELECT fairq.open_session('bad', '1 h') AS session \gset
CREATE TEMP TABLE given (argument text, value text);
INSERT INTO given VALUES ('queue', '''bad fair'''), ('divided', '''bad sub'''), ('session', quote_literal(:'session')),
    ('id', (SELECT id FROM before WHERE queue = 'bad fair' AND state = 'ready' ORDER BY id LIMIT 1)),
    ('receipt', quote_literal((SELECT receipt FROM leased WHERE policy = 'fair' ORDER BY id LIMIT 1))),
    ('receipts', quote_literal(ARRAY(SELECT receipt FROM leased WHERE policy = 'fair' ORDER BY id)));
\i test/sql/include/good_calls.sql
DELETE FROM good WHERE function = 'reset_stats';       -- is not undone; in stats.sql
-- With nothing bad each of them is accepted.
SELECT statement, pg_temp.try(statement) FROM good_call WHERE function <> 'reset_stats' AND pg_temp.try(statement) IS NOT NULL ORDER BY function COLLATE "C";

-- What is bad, by the type of the argument.
CREATE TEMP TABLE bad (type regtype, value text);
INSERT INTO bad VALUES
    ('text', 'NULL'), ('text', ''''''), ('text', '''bad unknown'''), ('text', 'repeat(''x'', 49)'),
    ('text', 'repeat(''é'', 25)'), ('text', 'repeat(''漢'', 40)'), ('text', 'repeat(''x'', 2000000)'), ('text', '''FAIR'''),
    ('text', '''%s%n%d'''), ('text', 'E''\\x00'''),
    ('jsonb', 'NULL'), ('jsonb', '''{'''), ('jsonb', '''"\u0000"'''), ('jsonb', '''"\ud800"'''),
    ('integer', 'NULL'), ('integer', '0'), ('integer', '-1'), ('integer', '1025'), ('integer', '100001'),
    ('integer', '2147483647'), ('integer', '-2147483648'), ('integer', '''12345678901'''), ('integer', '''many'''),
    ('bigint', 'NULL'), ('bigint', '0'), ('bigint', '-1'), ('bigint', '10'), ('bigint', '9223372036854775807'),
    ('bigint', '-9223372036854775808'), ('bigint', '''1e30'''),
    ('double precision', 'NULL'), ('double precision', '0'), ('double precision', '-1'), ('double precision', '''NaN'''), ('double precision', '''Infinity'''),
    ('double precision', '''-Infinity'''), ('double precision', '1e-38'), ('double precision', '1e38'), ('double precision', '0.00099'), ('double precision', '1000001'), ('double precision', '1e39'), ('double precision', '1e300'), ('double precision', '''1e309'''), ('double precision', '1.0000001'),
    ('numeric', 'NULL'), ('numeric', '0'), ('numeric', '-0.0000000001'), ('numeric', '''NaN'''), ('numeric', '''Infinity'''), ('numeric', '''-Infinity'''), ('numeric', '2305843009213693951.5'), ('numeric', '2305843009213693952'), ('numeric', '18446744073709551616'), ('numeric', '-18446744073709551616'), ('numeric', '1e131071'), ('numeric', '1e-16383'), ('numeric', '''one'''),
    ('interval', 'NULL'), ('interval', '''0'''), ('interval', '''-1 s'''), ('interval', '''-1 microsecond'''),
    ('interval', '''11 years'''), ('interval', '''178000000 years'''), ('interval', '''-178000000 years'''),
    ('interval', '''2147483647 days'''), ('interval', '''1 day -24 h'''), ('interval', '''1 mon -40 days'''),
    ('interval', '''2147483646 mons 2147483647 days 2562047788:00:54.775807'''),
    ('interval', '''-2147483648 mons -2147483648 days -2562047788:00:54.775807'''), ('interval', '''soon'''),
    ('timestamptz', 'NULL'), ('timestamptz', '''infinity'''), ('timestamptz', '''-infinity'''), ('timestamptz', '''4714-11-24 BC'''),
    ('uuid', 'NULL'), ('uuid', '''00000000-0000-0000-0000-000000000000'''), ('uuid', '''ffffffff-ffff-ffff-ffff-ffffffffffff'''),
    ('uuid', '''no receipt'''),
    ('boolean', 'NULL'), ('boolean', 'true'), ('boolean', 'false'),
    ('jsonb[]', 'NULL'), ('jsonb[]', '''{}'''), ('jsonb[]', '''{NULL}'''), ('jsonb[]', '''{1,NULL}'''),
    ('jsonb[]', '''{{1,2},{3,4}}'''), ('jsonb[]', '''[5:5]={1}'''),
    ('text[]', 'NULL'), ('text[]', '''{}'''), ('text[]', '''{a,b,c}'''), ('text[]', '''{NULL,b}'''), ('text[]', '''{{a,b},{c,d}}'''),
    ('text[]', 'ARRAY[repeat(''x'', 1025)]'), ('text[]', 'ARRAY[''a'', repeat(''漢'', 342)]'),
    ('bigint[]', 'NULL'), ('bigint[]', '''{}'''), ('bigint[]', '''{1,2,3}'''), ('bigint[]', '''{NULL,1}'''), ('bigint[]', '''{{1,2}}'''),
    ('bigint[]', '''{-1}'''), ('bigint[]', '''{0,10}'''), ('bigint[]', '''{9223372036854775807}'''),
    ('double precision[]', 'NULL'), ('double precision[]', '''{}'''), ('double precision[]', '''{1,2,3}'''), ('double precision[]', '''{NULL,1}'''), ('double precision[]', '''{{1,2}}'''),
    ('double precision[]', '''{0}'''), ('double precision[]', '''{1,NaN}'''), ('double precision[]', '''{Infinity}'''), ('double precision[]', '''{-1}'''), ('double precision[]', '''{1e300}'''),
    ('timestamptz[]', 'NULL'), ('timestamptz[]', '''{}'''), ('timestamptz[]', '''{NULL}'''), ('timestamptz[]', '''{infinity}'''),
    ('timestamptz[]', '''{{epoch}}'''),
    ('integer[]', 'NULL'), ('integer[]', '''{}'''), ('integer[]', '''{NULL}'''), ('integer[]', '''{-1}'''), ('integer[]', '''{2}'''),
    ('integer[]', '''{0,2147483647}'''), ('integer[]', '''{{0},{1}}'''), ('integer[]', 'array_fill(0, ARRAY[100000])'),
    ('uuid[]', 'NULL'), ('uuid[]', '''{}'''), ('uuid[]', '''{NULL}'''),
    ('uuid[]', '''{00000000-0000-0000-0000-000000000000,ffffffff-ffff-ffff-ffff-ffffffffffff}'''),
    ('uuid[]', '''{{00000000-0000-0000-0000-000000000000}}'''), ('uuid[]', '''{no receipt}'''),
    ('uuid[]', 'array_fill(gen_random_uuid(), ARRAY[100000])'),
    ('uuid[]', '(SELECT array_append(array_agg(receipt), NULL) FROM leased)');

-- Every function of the interface, every argument, every bad value of its type.
CREATE TEMP TABLE tried AS
    SELECT p.proname AS function, a.n, a.name AS argument, b.value,
           format(CASE prokind WHEN 'p' THEN 'CALL fairq.%I(%s)' ELSE 'SELECT * FROM fairq.%I(%s)' END, p.proname,
                  concat_ws(', ', format('%I => %s', a.name, b.value),
                            (SELECT string_agg(format('%I => %s', g.argument, g.value), ', ') FROM good g
                                WHERE g.function = p.proname AND g.argument <> a.name))) AS statement
        FROM pg_proc p, unnest(p.proargnames, p.proargtypes::oid[]) WITH ORDINALITY a(name, type, n)
            JOIN bad b ON b.type = a.type
        WHERE p.pronamespace = 'fairq'::regnamespace AND EXISTS (SELECT FROM good g WHERE g.function = p.proname);
ALTER TABLE tried ADD result text;
UPDATE tried SET result = pg_temp.try(statement);
-- None of the functions, none of their arguments was left out, but for reset_stats, and group_id, which takes any text.
SELECT p.oid::regprocedure, a FROM pg_proc p, unnest(p.proargnames) a
    WHERE p.pronamespace = 'fairq'::regnamespace AND p.proargmodes IS NULL AND p.proargnames IS NOT NULL
        AND NOT EXISTS (SELECT FROM tried t WHERE t.function = p.proname AND t.argument = a);
SELECT count(DISTINCT function) AS functions, count(DISTINCT (function, argument)) AS arguments, count(*) AS statements FROM tried;
-- No internal error, and every one of ours comes with a hint.
SELECT statement, result FROM tried WHERE result ~ '^(XX|58|F0|P0|57)';
SELECT statement, result FROM tried WHERE result ~ '^(22023|42704|42710|42501|0A000|53|54|55)' AND result !~ ' -- ';
-- What was refused, and how; the many that only differ in the function in one line.
SELECT format(E'%s => %s\n    %s\n        %s', argument, regexp_replace(value, '^(.{60}).*', '\1...'), regexp_replace(result, '(x|漢|é){40,}', '\1...', 'g'),
              string_agg(function, ' ' ORDER BY function COLLATE "C"))
    FROM (SELECT function, argument, value, regexp_replace(result, 'fairq\.' || function || '\(\)', 'fairq.*()') AS result FROM tried WHERE result IS NOT NULL) t
    GROUP BY argument, value, result ORDER BY argument COLLATE "C", value COLLATE "C", result COLLATE "C";
-- What was accepted.
SELECT format('%s => %s: %s', argument, string_agg(regexp_replace(value, '^(.{60}).*', '\1...'), ', ' ORDER BY value COLLATE "C"), functions)
    FROM (SELECT argument, value, string_agg(function, ' ' ORDER BY function COLLATE "C") AS functions FROM tried WHERE result IS NULL GROUP BY argument, value) t
    GROUP BY argument, functions ORDER BY argument COLLATE "C", functions COLLATE "C";

-- The policies priority and time: what they take as priority and cost.
SELECT policy, priority, pg_temp.try(format('SELECT fairq.enqueue(%L, ''1'', priority => %s)', 'bad ' || policy, priority))
    FROM unnest('{priority,time}'::text[]) policy, unnest('{0,-1,10,9223372036854775807,-9223372036854775808}'::numeric[]) priority;
SELECT policy, cost, pg_temp.try(format('SELECT fairq.enqueue(%L, ''1'', cost => %L)', 'bad ' || policy, cost))
    FROM unnest('{priority,time}'::text[]) policy, unnest('{0,-1,NaN,Infinity}'::float8[]) cost;

-- Arrays that do not go together.
SELECT statement, pg_temp.try(statement) FROM (VALUES
    (1, $v$SELECT fairq.enqueue_many('bad fair', '{1,2}', '{a,b,c}')$v$),
    (2, $v$SELECT fairq.enqueue_many('bad fair', '{1,2,3}', '{a,b}', '{1,2,3}')$v$),
    (3, $v$SELECT fairq.enqueue_many('bad fair', '{1,2}', costs => '{1,2,3,4}')$v$),
    (4, $v$SELECT fairq.enqueue_many('bad fair', '{1,2}', '{}')$v$),
    (5, $v$SELECT fairq.enqueue_many('bad fair', '{}', '{a,b}')$v$),
    (6, $v$SELECT fairq.enqueue_many('bad fair', '{1,2}', '{a,b}', '{0}', '{1,2}')$v$),
    (7, $v$SELECT fairq.enqueue_many('bad fair', ARRAY['1','2']::text[])$v$),
    (8, $v$SELECT fairq.enqueue_many('bad fair', '[1,2]'::jsonb)$v$),
    (9, $v$SELECT fairq.nack_many(ARRAY(SELECT receipt FROM leased), '{a,b}', '0')$v$),
    (10, $v$SELECT fairq.nack_many(ARRAY(SELECT receipt FROM leased), '{}', '0')$v$),
    (11, $v$SELECT fairq.nack_many(ARRAY(SELECT receipt FROM leased), '{a}', '0')$v$),
    (12, $v$SELECT fairq.nack_many(ARRAY(SELECT receipt FROM leased), '{{a},{b}}', '0')$v$),
    (13, $v$SELECT fairq.ack_many(ARRAY(SELECT receipt::text FROM leased))$v$),
    (14, $v$SELECT fairq.ack((SELECT receipt::text FROM leased LIMIT 1))$v$),
    (15, $v$SELECT fairq.claim('bad fair', max_task => 1)$v$),
    (16, $v$SELECT fairq.claim('bad fair', 1, 1)$v$),
    (17, $v$SELECT fairq.claim('bad fair', 1.5)$v$),
    (18, $v$SELECT fairq.claim()$v$),
    (19, $v$SELECT fairq.enqueue('bad fair')$v$),
    (20, $v$SELECT fairq.enqueue('bad fair', 'not json')$v$)) v(n, statement) ORDER BY n;

-- Published to queues of which one does not take the task.
SELECT fairq.subscribe('bad.#', 'bad priority'), fairq.subscribe('bad.#', 'bad time');
SELECT pg_temp.try($v$SELECT fairq.publish('bad', '1', priority => 10)$v$), pg_temp.try($v$SELECT fairq.publish('bad', '1', run_at => 'infinity')$v$);
SELECT fairq.publish('bad', '1', priority => 10);

-- Receipts that are not what they seem: of another queue, with one bit changed, but for those that name the node.
SELECT count(*) FROM leased, generate_series(0, 127) bit,
    LATERAL (SELECT encode(set_bit(decode(replace(receipt::text, '-', ''), 'hex'), bit, 1 - get_bit(decode(replace(receipt::text, '-', ''), 'hex'), bit)), 'hex')::uuid) f(forged)
    WHERE bit NOT BETWEEN 32 AND 47 AND (fairq.ack(forged) OR fairq.nack(forged, delay => '0') OR fairq.release(forged) OR fairq.extend(forged) IS NOT NULL);
-- An error in the middle of many: all or nothing, without a savepoint of anyone's.
SELECT fairq.ack(receipt), 1 / (id - (SELECT max(id) FROM leased)) FROM leased ORDER BY id;
SELECT fairq.enqueue('bad fair', to_jsonb(n), priority => n) FROM generate_series(5, 15) n;
SELECT fairq.enqueue_many('bad fair', array_agg(to_jsonb(n)), costs => array_agg(6 - n)) FROM generate_series(1, 10) n;
SELECT fairq.nack_many(array_append(array_agg(receipt), NULL), delay => '0') FROM leased;
SELECT count(*) FROM generate_series(1, 5) n, LATERAL fairq.ack_and_claim('bad fair', ARRAY(SELECT receipt FROM leased), 3 - n);

-- In a parallel worker, where a function that is wrongly said to be safe calls us.
CREATE FUNCTION bad_claim() RETURNS bigint LANGUAGE sql PARALLEL SAFE AS $$ SELECT count(*) FROM fairq.claim('bad fair') $$;
CREATE FUNCTION bad_enqueue() RETURNS bigint LANGUAGE sql PARALLEL SAFE AS $$ SELECT fairq.enqueue('bad fair', '1') $$;
SELECT count(set_config(name, 'on', false)) FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query');
\set VERBOSITY terse
SELECT bad_claim();
SELECT bad_enqueue();
\set VERBOSITY default
SELECT count(set_config(name, 'off', false)) FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query');
DROP FUNCTION bad_claim(), bad_enqueue();

-- Nothing was lost, nothing half done.
TABLE before EXCEPT SELECT * FROM pg_temp.everything;
SELECT * FROM pg_temp.everything EXCEPT TABLE before;
TABLE leases_before EXCEPT SELECT queue, id, receipt, attempt, state FROM fairq.leases;
SELECT queue, id, receipt, attempt, state FROM fairq.leases WHERE queue LIKE 'bad%' EXCEPT TABLE leases_before;
SELECT queue, policy, buckets, lease, max_attempts, paused FROM queues_before EXCEPT SELECT queue, policy, buckets, lease, max_attempts, paused FROM fairq.queues;
SELECT queue, policy, buckets, lease, max_attempts, paused FROM fairq.queues EXCEPT SELECT queue, policy, buckets, lease, max_attempts, paused FROM queues_before;
TABLE stats_before EXCEPT SELECT queue, ready, leased, dead, enqueued, acked, nacked, released, cancelled, dead_total FROM fairq.queue_stats;
-- Every lease is still good, every ready task can be had, every dead one revived.
SELECT policy, count(*), bool_and(fairq.ack(receipt)) FROM leased GROUP BY policy ORDER BY policy;
SELECT queue, count(c.id), bool_and(fairq.ack(c.receipt)) FROM queues_before, LATERAL fairq.claim(queue, 100) c GROUP BY queue ORDER BY queue;
SELECT fairq.revive_all('bad fair');
SELECT count(*), bool_and(fairq.ack(receipt)) FROM fairq.claim('bad fair', 100);
SELECT count(*) FROM pg_temp.everything;

-- The session is still there, and those that were opened without need.
SELECT fairq.heartbeat(:'session');
SELECT count(*) > 0, sum(fairq.close_session(session)) FROM fairq.sessions;
SELECT count(*) FROM fairq.sessions WHERE alive_until IS NOT NULL;
SELECT bool_and(fairq.drop_queue(queue)) FROM fairq.queues WHERE queue LIKE 'bad%';
SELECT queue FROM fairq.queues;
SELECT queue, count(*) FROM fairq.leases GROUP BY queue;
