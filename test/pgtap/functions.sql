-- The functions that applications rely on: names, arguments, defaults, results
-- and promises to the planner, as the interface states them. This may only
-- grow.
\set ON_ERROR_STOP on
SET client_min_messages = warning;
SET intervalstyle = postgres;
BEGIN;
CREATE TEMP TABLE contract (n int GENERATED ALWAYS AS IDENTITY, name text, arguments text, result text);
INSERT INTO contract (name, arguments, result) VALUES
    ('create_queue',
     $$queue text, policy text DEFAULT 'fair'::text, buckets integer DEFAULT 16, lease interval DEFAULT '00:00:30'::interval, max_attempts integer DEFAULT 20, backoff_base interval DEFAULT '00:00:01'::interval, backoff_max interval DEFAULT '01:00:00'::interval, max_ready bigint DEFAULT 1000000, max_ready_per_group bigint DEFAULT 10000, max_depth bigint DEFAULT NULL::bigint, keep_done interval DEFAULT NULL::interval, durable_leases boolean DEFAULT false, charge text DEFAULT 'cost'::text, notify boolean DEFAULT false, expire_after interval DEFAULT NULL::interval, backoff_jitter double precision DEFAULT 0.1, default_priority bigint DEFAULT 4, group_required boolean DEFAULT false, if_not_exists boolean DEFAULT false, max_lost integer DEFAULT 5, class_weights double precision[] DEFAULT NULL::double precision[], subgroups boolean DEFAULT false$$,
     'void'),
    ('alter_queue',
     $$queue text, buckets integer DEFAULT NULL::integer, lease interval DEFAULT NULL::interval, max_attempts integer DEFAULT NULL::integer, backoff_base interval DEFAULT NULL::interval, backoff_max interval DEFAULT NULL::interval, max_ready bigint DEFAULT NULL::bigint, max_ready_per_group bigint DEFAULT NULL::bigint, max_depth bigint DEFAULT NULL::bigint, keep_done interval DEFAULT NULL::interval, durable_leases boolean DEFAULT NULL::boolean, charge text DEFAULT NULL::text, notify boolean DEFAULT NULL::boolean, expire_after interval DEFAULT NULL::interval, backoff_jitter double precision DEFAULT NULL::double precision, default_priority bigint DEFAULT NULL::bigint, group_required boolean DEFAULT NULL::boolean, max_lost integer DEFAULT NULL::integer, class_weights double precision[] DEFAULT NULL::double precision[], subgroups boolean DEFAULT NULL::boolean$$,
     'void'),
    ('drop_queue', 'queue text', 'boolean'),
    ('purge', 'queue text', 'bigint'),
    ('purge_group', 'queue text, group_key text', 'bigint'),
    ('forget_key', 'queue text, unique_key text', 'boolean'),
    ('forget_keys', 'queue text', 'bigint'),
    ('pause', 'queue text', 'void'),
    ('pause_group', 'queue text, group_key text', 'void'),
    ('resume', 'queue text', 'void'),
    ('resume_group', 'queue text, group_key text', 'void'),
    ('maintain', 'queue text', 'bigint'),
    ('enqueue',
     $$queue text, payload jsonb, group_key text DEFAULT ''::text, priority bigint DEFAULT NULL::bigint, cost double precision DEFAULT 1, run_at timestamp with time zone DEFAULT NULL::timestamp with time zone, unique_key text DEFAULT NULL::text, on_duplicate text DEFAULT 'keep'::text, max_attempts integer DEFAULT NULL::integer, lease interval DEFAULT NULL::interval, headers jsonb DEFAULT NULL::jsonb, expires_at timestamp with time zone DEFAULT NULL::timestamp with time zone, unique_for interval DEFAULT NULL::interval, delay interval DEFAULT NULL::interval, after bigint[] DEFAULT NULL::bigint[], on_dead text DEFAULT 'hold'::text, name text DEFAULT NULL::text, max_lost integer DEFAULT NULL::integer, subgroup_key text DEFAULT NULL::text$$,
     'bigint'),
    ('enqueue_many',
     $$queue text, payloads jsonb[], group_keys text[] DEFAULT NULL::text[], priorities bigint[] DEFAULT NULL::bigint[], costs double precision[] DEFAULT NULL::double precision[], run_ats timestamp with time zone[] DEFAULT NULL::timestamp with time zone[], unique_keys text[] DEFAULT NULL::text[], on_duplicate text DEFAULT 'keep'::text, unique_for interval DEFAULT NULL::interval, names text[] DEFAULT NULL::text[], subgroup_keys text[] DEFAULT NULL::text[]$$,
     'bigint[]'),
    ('set_group', 'queue text, group_key text, weight double precision DEFAULT NULL::double precision, max_leased integer DEFAULT NULL::integer, rate double precision DEFAULT NULL::double precision, burst integer DEFAULT NULL::integer', 'void'),
    ('reset_group', 'queue text, group_key text', 'boolean'),
    ('set_group_defaults', 'queue text, weight double precision DEFAULT NULL::double precision, max_leased integer DEFAULT NULL::integer, rate double precision DEFAULT NULL::double precision, burst integer DEFAULT NULL::integer', 'void'),
    ('set_subgroup', 'queue text, group_key text, subgroup_key text, weight double precision DEFAULT NULL::double precision, max_leased integer DEFAULT NULL::integer, rate double precision DEFAULT NULL::double precision, burst integer DEFAULT NULL::integer', 'void'),
    ('reset_subgroup', 'queue text, group_key text, subgroup_key text', 'boolean'),
    ('pause_subgroup', 'queue text, group_key text, subgroup_key text', 'void'),
    ('resume_subgroup', 'queue text, group_key text, subgroup_key text', 'void'),
    ('set_subgroup_defaults', 'queue text, weight double precision DEFAULT NULL::double precision, max_leased integer DEFAULT NULL::integer, rate double precision DEFAULT NULL::double precision, burst integer DEFAULT NULL::integer', 'void'),
    ('subscribe', 'topic text, queue text', 'void'),
    ('unsubscribe', 'topic text, queue text', 'boolean'),
    ('publish',
     $$topic text, payload jsonb, group_key text DEFAULT ''::text, priority bigint DEFAULT NULL::bigint, cost double precision DEFAULT 1, run_at timestamp with time zone DEFAULT NULL::timestamp with time zone, unique_key text DEFAULT NULL::text, on_duplicate text DEFAULT 'keep'::text, max_attempts integer DEFAULT NULL::integer, lease interval DEFAULT NULL::interval, headers jsonb DEFAULT NULL::jsonb, expires_at timestamp with time zone DEFAULT NULL::timestamp with time zone, unique_for interval DEFAULT NULL::interval, delay interval DEFAULT NULL::interval, name text DEFAULT NULL::text, max_lost integer DEFAULT NULL::integer, subgroup_key text DEFAULT NULL::text$$,
     'integer'),
    ('schedule',
     $$name text, queue text, cron text, payload jsonb DEFAULT '{}'::jsonb, group_key text DEFAULT ''::text, priority bigint DEFAULT NULL::bigint, cost double precision DEFAULT 1, headers jsonb DEFAULT NULL::jsonb, timezone text DEFAULT 'UTC'::text, catch_up text DEFAULT 'one'::text, overlap boolean DEFAULT false, active boolean DEFAULT true, task_name text DEFAULT NULL::text, subgroup_key text DEFAULT NULL::text$$,
     'timestamp with time zone'),
    ('unschedule', 'name text', 'boolean'),
    ('claim',
     $$queue text, max_tasks integer DEFAULT 1, lease interval DEFAULT NULL::interval, session uuid DEFAULT NULL::uuid, wait interval DEFAULT '00:00:00'::interval, buckets integer[] DEFAULT NULL::integer[], group_keys text[] DEFAULT NULL::text[]$$,
     'SETOF fairq.task'),
    ('claim_any',
     $$queues text[], max_tasks integer DEFAULT 1, lease interval DEFAULT NULL::interval, session uuid DEFAULT NULL::uuid, wait interval DEFAULT '00:00:00'::interval$$,
     'SETOF fairq.queue_task'),
    ('ack', 'receipt uuid, result jsonb DEFAULT NULL::jsonb', 'boolean'),
    ('ack_many', 'receipts uuid[]', 'SETOF uuid'),
    ('ack_and_claim',
     $$queue text, receipts uuid[], max_tasks integer DEFAULT 1, lease interval DEFAULT NULL::interval, session uuid DEFAULT NULL::uuid, wait interval DEFAULT '00:00:00'::interval$$,
     'SETOF fairq.task'),
    ('nack', 'receipt uuid, error text DEFAULT NULL::text, delay interval DEFAULT NULL::interval, final boolean DEFAULT false', 'boolean'),
    ('nack_many', 'receipts uuid[], errors text[] DEFAULT NULL::text[], delay interval DEFAULT NULL::interval, final boolean DEFAULT false',
     'SETOF uuid'),
    ('set_progress', 'receipt uuid, progress jsonb', 'boolean'),
    ('extend', 'receipt uuid, lease interval DEFAULT NULL::interval', 'timestamp with time zone'),
    ('extend_many', 'receipts uuid[], lease interval DEFAULT NULL::interval', 'SETOF uuid'),
    ('release', $$receipt uuid, delay interval DEFAULT '00:00:00'::interval$$, 'boolean'),
    ('release_many', $$receipts uuid[], delay interval DEFAULT '00:00:00'::interval$$, 'SETOF uuid'),
    ('pop',
     $$queue text, max_tasks integer DEFAULT 1, wait interval DEFAULT '00:00:00'::interval, buckets integer[] DEFAULT NULL::integer[], group_keys text[] DEFAULT NULL::text[]$$,
     'SETOF fairq.task'),
    ('await', $$queue text, id bigint, timeout interval DEFAULT '00:00:30'::interval$$, 'fairq.outcome'),
    ('wait', $$IN queue text, IN timeout interval DEFAULT '00:00:30'::interval$$, NULL),
    ('wait_any', $$IN queues text[], IN timeout interval DEFAULT '00:00:30'::interval$$, NULL),
    ('open_session', $$name text DEFAULT NULL::text, ttl interval DEFAULT '00:00:10'::interval, bound boolean DEFAULT false$$, 'uuid'),
    ('heartbeat', 'session uuid', 'boolean'),
    ('close_session', 'session uuid', 'integer'),
    ('my_buckets', 'queue text, session uuid', 'integer[]'),
    ('peek', 'queue text, max_tasks integer DEFAULT 10', 'SETOF fairq.task'),
    ('get_task', 'queue text, id bigint', 'SETOF fairq.task_status'),
    ('get_task_by_key', 'queue text, unique_key text', 'SETOF fairq.task_status'),
    ('get_done_task', 'queue text, id bigint, done_at timestamp with time zone DEFAULT NULL::timestamp with time zone', 'SETOF fairq.task_done'),
    ('get_task_position', 'queue text, id bigint', 'fairq.task_position'),
    ('tasks', 'queue text, state text DEFAULT NULL::text, group_key text DEFAULT NULL::text, name text DEFAULT NULL::text', 'SETOF fairq.task_status'),
    ('cancel', 'queue text, id bigint', 'boolean'),
    ('reset_stats', 'queue text', 'void'),
    ('set_node', 'node integer, force boolean DEFAULT false', 'void'),
    ('front', 'queue text', 'SETOF fairq.class_front'),
    ('raise_floor', 'queue text, class integer, block numeric', 'boolean'),
    ('revive', 'queue text, id bigint', 'bigint'),
    ('revive_group', 'queue text, group_key text', 'bigint'),
    ('revive_all', 'queue text', 'bigint');

-- What is there for people beside these: what an address, an id or a uuid consists of.
CREATE TEMP TABLE supporting (name text);
INSERT INTO supporting VALUES ('bucket'), ('class'), ('block'), ('slot'), ('group_id'), ('this_node'), ('node_of_id'), ('node_of_receipt'), ('node_of_session');

SELECT plan((17 + 8 * (SELECT count(*) FROM contract))::int);

CREATE TEMP TABLE present AS
    SELECT p.*, pg_get_function_arguments(p.oid) AS arguments, pg_get_function_result(p.oid) AS result, l.lanname
        FROM pg_proc p JOIN pg_language l ON l.oid = prolang WHERE pronamespace = 'fairq'::regnamespace;
CREATE TEMP TABLE internal AS
    SELECT p.*, l.lanname FROM pg_proc p JOIN pg_language l ON l.oid = prolang WHERE pronamespace = 'fairq_internal'::regnamespace;
CREATE TEMP VIEW every AS SELECT oid, proname, prosecdef, proconfig, probin, proacl, lanname FROM present
    UNION ALL SELECT oid, proname, prosecdef, proconfig, probin, proacl, lanname FROM internal;

SELECT is((SELECT count(*) FROM present p WHERE p.proname = c.name), 1::bigint, c.name || ' is there, and is not overloaded')
    FROM contract c ORDER BY n;
SELECT is(p.arguments, c.arguments, c.name || ' has the stated arguments and defaults')
    FROM contract c LEFT JOIN present p ON p.proname = c.name ORDER BY n;
SELECT is(p.result, c.result, c.name || ' returns what is stated') FROM contract c LEFT JOIN present p ON p.proname = c.name ORDER BY n;
SELECT is(p.provolatile, 'v', c.name || ' is volatile') FROM contract c LEFT JOIN present p ON p.proname = c.name ORDER BY n;
SELECT is(p.proparallel, 'u', c.name || ' is parallel unsafe') FROM contract c LEFT JOIN present p ON p.proname = c.name ORDER BY n;
SELECT is(p.proisstrict, false, c.name || ' is called on null input: null stands for a default or is an error')
    FROM contract c LEFT JOIN present p ON p.proname = c.name ORDER BY n;
SELECT is(p.prosecdef, false, c.name || ' runs with the rights of its caller') FROM contract c LEFT JOIN present p ON p.proname = c.name ORDER BY n;
SELECT ok(has_function_privilege('public', p.oid, 'EXECUTE'), c.name || ' may be called by everyone')
    FROM contract c LEFT JOIN present p ON p.proname = c.name ORDER BY n;
SELECT set_eq('SELECT proname::text FROM present', 'SELECT name FROM contract UNION ALL SELECT name FROM supporting',
    'there are no functions for people but these');
SELECT set_eq('SELECT proname::text FROM internal', $$VALUES
    ('address_in'), ('address_out'), ('address_recv'), ('address_send'),
    ('address_eq'), ('address_ne'), ('address_lt'), ('address_le'), ('address_gt'), ('address_ge'), ('address_cmp'),
    ('address_sortsupport'), ('address_hash'), ('address_hash_extended'),
    ('row_written'), ('durable_lease_written'), ('remembered_key_written'), ('dependency_written'), ('schedule_written'), ('schedule_inserted'), ('schedule_owner'), ('cron_next'), ('node_written'),
    ('stats_of_queues'), ('histograms_of_queues'), ('stats_of_names'), ('histograms_of_names'), ('stats_of_buckets'), ('stats_of_groups'), ('stats_of_subgroups'), ('live_leases'), ('dead_of_queues'), ('done_of_queues'), ('open_sessions'), ('wait_ready'), ('attendance'),
    ('tasks_page'), ('done_page'),
    ('queue_definitions'), ('define_queue'), ('give_queue'), ('update_queue'), ('update_queues'),
    ('tasks_here'), ('as_owner'), ('tasks_to_move'), ('depart'), ('departures'), ('departing_tasks'), ('forget_departed'), ('arrive'), ('depart_no_more'),
    ('stop_schedule'), ('start_schedule'), ('schedule_definitions'), ('define_schedule'),
    ('membership'), ('set_membership'), ('proxy_calls'), ('lineage')$$,
    'and no others but these');
-- What everybody may call of them, and why. A function that is added is not for everybody.
CREATE TEMP TABLE everybodys (name text, reason text);
INSERT INTO everybodys SELECT proname, 'the operators of type address call it as whoever compares' FROM internal WHERE proname ~ '^address_';
INSERT INTO everybodys VALUES
    ('stats_of_queues', 'view queue_stats, and a proxy''s view nodes'), ('histograms_of_queues', 'view queue_histograms'), ('stats_of_names', 'view name_stats'), ('histograms_of_names', 'view name_histograms'), ('stats_of_groups', 'view group_stats'), ('stats_of_subgroups', 'view subgroup_stats'), ('stats_of_buckets', 'view bucket_stats'),
    ('live_leases', 'view leases'), ('open_sessions', 'view sessions'), ('dead_of_queues', 'view dead_tasks'), ('done_of_queues', 'view done_tasks'),
    ('schedule_owner', 'view schedules'), ('tasks_here', 'a proxy calls it for an enqueue'), ('wait_ready', 'a proxy and the clients wait with it'), ('attendance', 'a proxy calls it for a worker'),
    ('tasks_page', 'the dashboard reads with it, as its role'), ('done_page', 'the dashboard reads with it, as its role'),
    ('row_written', 'whoever creates or restores a queue makes the trigger');
SELECT set_eq('SELECT proname::text FROM internal WHERE has_function_privilege(''public'', oid, ''EXECUTE'')', 'SELECT name FROM everybodys',
    'of these everybody may call what is on the list, and nothing else');
SELECT is_empty('SELECT p.proname FROM internal p WHERE p.prorettype IN (''trigger''::regtype, ''event_trigger''::regtype) AND p.proname <> ''row_written'' AND has_function_privilege(''public'', p.oid, ''EXECUTE'')',
    'and no trigger function but that of queues');
SELECT is_empty($$SELECT DISTINCT p.proname FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid AND d.classid = 'pg_rewrite'::regclass
    JOIN internal p ON p.oid = d.refobjid AND d.refclassid = 'pg_proc'::regclass WHERE NOT has_function_privilege('public', p.oid, 'EXECUTE')$$,
    'everybody may call what a view calls');
-- \df+ says in one sentence what a function is for; doc/reference.md has the rest.
SELECT is_empty($$SELECT oid::regprocedure, obj_description(oid, 'pg_proc') FROM every
    WHERE coalesce(obj_description(oid, 'pg_proc'), '') !~ '^[A-Z].{15,}\.$' OR obj_description(oid, 'pg_proc') ~ '\.\s' OR length(obj_description(oid, 'pg_proc')) > 160$$,
    'the comment on every function is one sentence');
SELECT is_empty('SELECT oid::regprocedure FROM every WHERE prosecdef AND NOT coalesce(proconfig::text ~ ''search_path=(""|pg_catalog, pg_temp)'', false)',
    'a security definer function has a search_path of its own');
SELECT is_empty('SELECT oid::regprocedure FROM every WHERE lanname IN (''sql'', ''plpgsql'') AND NOT coalesce(proconfig::text LIKE ''%search_path=%'', false)',
    'so has every function that is not in C');
SELECT is_empty('SELECT oid::regprocedure FROM every WHERE lanname NOT IN (''c'', ''plpgsql'', ''sql'')', 'no function is in a language that has to be installed');
SELECT is_empty('SELECT oid::regprocedure FROM every WHERE lanname = ''c'' AND probin <> ''$libdir/pgfairq''', 'all C functions are in our library');
SELECT is_empty('SELECT oid::regprocedure FROM present WHERE prokind <> CASE WHEN proname IN (''wait'', ''wait_any'') THEN ''p'' ELSE ''f'' END', 'wait and wait_any are procedures, all others are functions');
SELECT is_empty('SELECT oid::regprocedure FROM pg_proc WHERE pronamespace IN (''fairq''::regnamespace, ''fairq_internal''::regnamespace) AND (proname LIKE ''address%'' OR proname IN (''bucket'', ''class'', ''block'', ''slot''))
    AND (provolatile, proparallel, proisstrict) <> (''i'', ''s'', true)', 'the functions of the type address are immutable, strict and parallel safe');
SELECT is_empty('SELECT oid::regprocedure FROM present WHERE proname NOT IN (''bucket'', ''class'', ''block'', ''slot'', ''group_id'', ''this_node'', ''node_of_id'', ''node_of_receipt'', ''node_of_session'') AND provolatile <> ''v''',
    'all others are volatile');
SELECT is_empty('SELECT oid::regprocedure FROM present WHERE (proname LIKE ''node_of_%'' OR proname = ''group_id'') AND (provolatile, proparallel, proisstrict) <> (''i'', ''s'', true)',
    'but those that read a number of a node, and the id of a group, which are immutable, strict and parallel safe');
SELECT is_empty('SELECT oid::regprocedure FROM present p JOIN contract c ON p.proname = c.name WHERE proargmodes IS NOT NULL OR provariadic <> 0',
    'no function has OUT or VARIADIC arguments');
-- Every argument after the first two has a default; so have all but the queue, the receipt and what the verb is about.
SELECT is_empty('SELECT oid::regprocedure FROM present p JOIN contract c ON p.proname = c.name WHERE pronargs - pronargdefaults > CASE WHEN proname IN (''schedule'', ''raise_floor'') OR proname LIKE ''%\_subgroup'' THEN 3 ELSE 2 END',
    'every argument after the first two has a default; a schedule has to have a time as well, a floor a class, and a subgroup its key');
SELECT is_empty('SELECT oid::regprocedure FROM present p JOIN contract c ON p.proname = c.name WHERE ''-'' = ANY (proargnames) OR cardinality(proargnames) <> pronargs',
    'every argument has a name');

SELECT * FROM finish();
ROLLBACK;
