-- What sqlsmith is let loose on: queues with tasks in every state, and a
-- catalog that shows it little but our functions. Run as superuser in an empty
-- database; the role sqlsmith is made for it.
\set ON_ERROR_STOP on
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pgfairq;
DO $$ BEGIN CREATE ROLE sqlsmith LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
GRANT CREATE ON SCHEMA fairq TO sqlsmith;

-- The queues are the role's own, so that no privilege stands in its way.
SET ROLE sqlsmith;
SELECT fairq.create_queue('fair', buckets => 4, lease => '1 h', max_attempts => 3);
SELECT fairq.create_queue('priority', policy => 'priority', buckets => 1, lease => '1 h');
SELECT fairq.create_queue('time', policy => 'time', lease => '1 h', max_attempts => 0);
SELECT fairq.create_queue('one_attempt', buckets => 2, lease => '1 h', max_attempts => 1);
SELECT fairq.create_queue('empty');
SELECT count(fairq.enqueue(queue, to_jsonb(n), 'g' || n % 7, n % 5, 1 + n % 3, headers => '{"h": [1, "x"]}'))
    FROM fairq.queues, generate_series(1, 60) n WHERE queue <> 'empty';
RESET ROLE;
CREATE SCHEMA smith;
CREATE TABLE smith.leased AS SELECT queue, c.* FROM fairq.queues, LATERAL fairq.claim(queue, 12) c;
SELECT count(fairq.nack(receipt, 'no luck', '0')) FROM fairq.claim('one_attempt', 6);

-- Values for arguments. sqlsmith takes them from the columns of what it finds in FROM. There is no interval below an hour:
-- an extend is not undone, and a lease that ran out would not be what it was.
CREATE TABLE smith.material (queue text, group_key text, policy text, state text, payload jsonb, payloads jsonb[], group_keys text[],
    priorities bigint[], costs double precision[], buckets int[], max_tasks int, id bigint, receipt uuid, receipts uuid[], lease interval,
    at timestamptz, ats timestamptz[], cost double precision, yes boolean, address fairq.address);
INSERT INTO smith.material
    SELECT q.queue, (ARRAY['', 'g1', 'g2', 'nobody', repeat('x', 1024)])[1 + n % 5], (ARRAY['fair', 'priority', 'time', 'other'])[1 + n % 4],
        (ARRAY['ready', 'leased', 'dead', 'held'])[1 + n % 4], to_jsonb(n), ARRAY[to_jsonb(n), '{}', 'null'], ARRAY['g1', 'g2', NULL],
        ARRAY[n, 0, 1], ARRAY[0.5, 1, 2], ARRAY[0, 1], n, l.id, l.receipt, ARRAY[l.receipt, gen_random_uuid()],
        make_interval(hours => 1 + n), now() + make_interval(secs => n), ARRAY[now(), 'infinity'],
        n::double precision / 3, n % 2 = 0, l.address
    FROM generate_series(0, 11) n
        CROSS JOIN (VALUES ('fair'), ('priority'), ('time'), ('one_attempt'), ('empty'), ('unknown'), (NULL)) q(queue)
        LEFT JOIN LATERAL (SELECT * FROM smith.leased l WHERE l.queue = q.queue ORDER BY l.id OFFSET n LIMIT 1) l ON true;
ANALYZE smith.material;

-- sqlsmith does not call functions that return sets, and seldom any with many arguments. So for each of ours there is one that
-- counts the rows, one that takes the receipts, and one without arguments that picks them from the table above.
DO $$
DECLARE
    f record;
    body text;
BEGIN
    FOR f IN SELECT p.oid, proname, pg_get_function_identity_arguments(p.oid) AS arguments, proretset, prorettype::regtype AS type,
                    a.passed, a.picked
             FROM pg_catalog.pg_proc p,
                  LATERAL (SELECT string_agg('$' || n, ', ' ORDER BY n) AS passed,
                                  string_agg(CASE WHEN name = 'run_at' OR name = 'session' AND proname IN ('claim', 'claim_any', 'ack_and_claim') THEN 'NULL'
                                                  WHEN name = 'session' THEN '(SELECT session FROM fairq.sessions LIMIT 1)'
                                                  WHEN name = 'name' THEN 'm.policy' WHEN name = 'ttl' THEN 'm.lease' WHEN name IN ('bound', 'final', 'force') THEN 'm.yes'
                                                  WHEN name IN ('wait', 'on_duplicate', 'backoff_base', 'backoff_max', 'keep_done', 'durable_leases', 'charge', 'notify',
                                                                'max_depth', 'backoff_jitter', 'default_priority', 'group_required', 'if_not_exists', 'expire_after', 'subgroups',
                                                                'timezone', 'catch_up', 'overlap', 'active') THEN 'DEFAULT'
                                                  WHEN name IN ('max_ready', 'max_ready_per_group', 'max_lost', 'class_weights', 'names', 'task_name', 'subgroup_keys', 'run_ats', 'expires_at', 'unique_for', 'after', 'on_dead', 'result', 'weight', 'max_leased', 'rate', 'burst') THEN 'NULL'
                                                  WHEN name = 'subgroup_key' THEN CASE WHEN proname LIKE '%subgroup' THEN 'm.policy' ELSE 'NULL' END
                                                  WHEN name IN ('error', 'unique_key', 'topic') THEN 'm.policy' WHEN name = 'unique_keys' THEN 'm.group_keys' WHEN name = 'errors' THEN 'm.group_keys[1:1]'
                                                  WHEN name IN ('headers', 'progress') THEN 'm.payload' WHEN name = 'done_at' THEN 'm.at' WHEN name = 'max_attempts' THEN 'm.max_tasks'
                                                  WHEN name = 'priority' THEN 'm.max_tasks % 10'
                                                  WHEN name = 'queues' THEN 'ARRAY[m.queue, ''fair'', m.queue]'
                                                  WHEN name IN ('delay', 'timeout') THEN '''0'''
                                                  WHEN name = 'cron' THEN '''@yearly''' WHEN name = 'node' THEN '0'
                                                  WHEN name = 'class' THEN 'm.max_tasks % 12' WHEN name = 'block' THEN 'm.cost::numeric'
                                                  WHEN type = 'integer'::regtype AND name = 'buckets' THEN 'NULL'
                                                  ELSE 'm.' || name END, ', ' ORDER BY n) AS picked
                           FROM unnest(proargnames, proargtypes::oid[]) WITH ORDINALITY a(name, type, n)) a
             WHERE pronamespace = 'fairq'::regnamespace AND prokind = 'f' AND pronargs > 0 AND proargnames IS NOT NULL AND proargmodes IS NULL
    LOOP
        IF f.proretset THEN
            EXECUTE format('CREATE FUNCTION smith.%I(%s) RETURNS bigint LANGUAGE sql AS %L', 'count_of_' || f.proname, f.arguments,
                           format('SELECT pg_catalog.count(*) FROM fairq.%I(%s)', f.proname, f.passed));
        END IF;
        IF f.type = 'fairq.task'::regtype THEN
            EXECUTE format('CREATE FUNCTION smith.%I(%s) RETURNS uuid[] LANGUAGE sql AS %L', 'receipts_of_' || f.proname, f.arguments,
                           format('SELECT pg_catalog.array_agg(t.receipt) FROM fairq.%I(%s) t', f.proname, f.passed));
        END IF;
        -- DEFAULT stands for leaving the argument out: null does the same.
        body := format('SELECT %s(fairq.%I(%s)%s) FROM (SELECT * FROM smith.material ORDER BY pg_catalog.random() LIMIT 1) m',
                       'pg_catalog.to_jsonb', f.proname, replace(f.picked, 'DEFAULT', 'NULL'), '');
        EXECUTE format('CREATE FUNCTION smith.%I() RETURNS jsonb LANGUAGE sql AS %L', 'some_' || f.proname,
                       CASE WHEN f.type = 'void'::regtype THEN replace(body, 'pg_catalog.to_jsonb', 'pg_catalog.pg_typeof') || '; SELECT NULL::jsonb' ELSE body END);
    END LOOP;
END
$$;
-- And what it can have in FROM.
REVOKE SELECT ON fairq.queues, fairq.queue_stats FROM PUBLIC;
DO $$
DECLARE
    view regclass;
BEGIN
    FOREACH view IN ARRAY '{fairq.queues,fairq.queue_stats}'::regclass[] LOOP
        EXECUTE format('CREATE VIEW smith.%I AS SELECT %s FROM %s', (SELECT relname FROM pg_class WHERE oid = view),
                       (SELECT string_agg(quote_ident(attname) || CASE WHEN atttypid = 'interval'::regtype THEN '::text' ELSE '' END, ', ')
                            FROM pg_attribute WHERE attrelid = view AND attnum > 0), view);
    END LOOP;
END
$$;
SELECT fairq.open_session('smith', '1 h');
CREATE VIEW smith.claimed AS SELECT * FROM fairq.claim('fair', 5);
CREATE VIEW smith.popped AS SELECT * FROM fairq.pop('priority', 5);
CREATE VIEW smith.peeked AS SELECT * FROM fairq.peek('time', 20);
CREATE VIEW smith.tasks AS SELECT * FROM fairq.tasks('one_attempt');
CREATE VIEW smith.dead AS SELECT * FROM fairq.tasks('one_attempt', 'dead');

-- The catalog as sqlsmith sees it, by its search_path: our functions, and a few to put arguments together.
CREATE SCHEMA smith_catalog;
CREATE VIEW smith_catalog.pg_proc AS
    SELECT * FROM pg_catalog.pg_proc
        WHERE (pronamespace IN ('fairq'::regnamespace, 'smith'::regnamespace)
                OR pronamespace = 'pg_catalog'::regnamespace AND proname IN ('count', 'sum', 'bool_and', 'string_agg', 'row_number', 'now', 'clock_timestamp',
                    'gen_random_uuid', 'abs', 'int4larger', 'random'))
            AND NOT ('internal'::regtype = ANY (proargtypes::oid[]) OR 'cstring'::regtype = ANY (proargtypes::oid[]));
GRANT USAGE ON SCHEMA smith, smith_catalog TO sqlsmith;
GRANT SELECT ON ALL TABLES IN SCHEMA smith, smith_catalog TO sqlsmith;
DO $$
BEGIN
    EXECUTE format('ALTER ROLE sqlsmith IN DATABASE %I SET search_path = smith_catalog, pg_catalog, fairq, smith', current_database());
    EXECUTE format('ALTER ROLE sqlsmith IN DATABASE %I SET track_functions = ''all''', current_database());
END
$$;

-- What must be the same afterwards: sqlsmith rolls back whatever it does.
CREATE TABLE smith.before AS
    SELECT q.queue, t.id, t.state, t.group_key, t.payload, t.attempts, t.address::text FROM fairq.queues q, LATERAL fairq.tasks(q.queue) t;
