-- What the extension consists of: views, types, operators, settings, the table
-- of a queue, and the privileges on them.
\set ON_ERROR_STOP on
SET client_min_messages = warning;
BEGIN;
SELECT no_plan();

-- The extension.
SELECT is(extversion, '0.3.0', 'version') FROM pg_extension WHERE extname = 'pgfairq';
SELECT is(extrelocatable, false, 'it cannot be relocated') FROM pg_extension WHERE extname = 'pgfairq';
SELECT is((SELECT array_agg(c::regclass::text ORDER BY c::regclass::text) FROM unnest(extconfig) c), ARRAY['fairq.dependency', 'fairq.group_setting', 'fairq.queue', 'fairq.schedule', 'fairq.topic', 'fairq_internal.arrived', 'fairq_internal.departing', 'fairq_internal.node', 'fairq_internal.remembered_key'], 'pg_dump carries the settings of queues, schedules, and what waits for what')
    FROM pg_extension WHERE extname = 'pgfairq';
SELECT isnt(obj_description(oid, 'pg_extension'), NULL, 'it has a comment') FROM pg_extension WHERE extname = 'pgfairq';

-- Its objects.
CREATE TEMP VIEW members AS
    SELECT d.classid, d.objid, i.* FROM pg_depend d, LATERAL pg_identify_object(classid, objid, 0) i
        WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
            AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'pgfairq');
SELECT ok((SELECT count(*) FROM members WHERE type = 'function') > 30, 'it has functions');
SELECT is_empty('SELECT type, identity FROM members WHERE schema IS DISTINCT FROM ''fairq'' AND schema IS DISTINCT FROM ''fairq_internal'' AND (type, identity) NOT IN ((''schema'', ''fairq''), (''schema'', ''fairq_internal''))',
    'nothing lives outside schemas fairq and fairq_internal');
SELECT is_empty('SELECT type, identity FROM members WHERE type IN (''cast'', ''event trigger'', ''foreign-data wrapper'', ''language'', ''access method'', ''publication'')',
    'it brings nothing that works on the whole database');
SELECT is_empty('SELECT type, identity FROM members WHERE obj_description(objid, classid::regclass::name) IS NULL
    AND NOT (type = ''type'' AND (identity LIKE ''%[]'' OR objid IN (SELECT reltype FROM pg_class)))', 'every object has a comment');
SELECT is_empty('SELECT c.oid::regclass FROM pg_class c WHERE relnamespace = ''fairq''::regnamespace AND relkind IN (''r'', ''v'', ''S'', ''m'', ''p'')
    AND NOT EXISTS (SELECT FROM members WHERE objid = c.oid)', 'there are no other relations in the schema before there are queues');
SELECT is_empty('SELECT relname FROM pg_class WHERE relnamespace = ''fairq''::regnamespace AND (relname LIKE ''q\_%'' OR relname LIKE ''done\_%'') AND relname <> ''done_tasks''',
    'no relation has a name that a queue could want, or its done table, but for the view of all done tasks');

-- Views, with at least these columns.
CREATE TEMP TABLE contract (view text, name text, type text);
INSERT INTO contract
    SELECT 'queues', n, t FROM unnest('{queue,policy,buckets,lease,max_attempts,backoff_base,backoff_max,max_ready,max_ready_per_group,max_depth,keep_done,durable_leases,charge,notify,group_weight,group_max_leased,group_rate,group_burst,paused,backoff_jitter,default_priority,group_required,max_lost,class_weights,subgroups,subgroup_weight,subgroup_max_leased,subgroup_rate,subgroup_burst}'::text[],
        '{text,text,integer,interval,integer,interval,interval,bigint,bigint,bigint,interval,boolean,text,boolean,real,integer,real,integer,boolean,double precision,bigint,boolean,integer,double precision[],boolean,real,integer,real,integer}'::text[]) c(n, t)
    UNION ALL
    SELECT 'queue_stats', n, 'bigint' FROM unnest('{ready,leased,scheduled,overflow,held,dead,enqueued,claimed,acked,nacked,released,expired,cancelled,dead_total,swept,deduplicated,snoozed,near_lease_end}'::text[]) n
    UNION ALL
    SELECT 'queue_stats', n, 'bigint' FROM unnest('{payload_avg,payload_p50,payload_p95,payload_max}'::text[]) n
    UNION ALL
    SELECT 'queue_stats', n, 'double precision' FROM unnest('{enqueue_rate,claim_rate,ack_rate}'::text[]) n
    UNION ALL
    SELECT 'queue_stats', n, 'interval' FROM unnest('{wait_p50,wait_p95,wait_p99,run_p50,run_p95,run_p99}'::text[]) n
    UNION ALL
    VALUES ('queue_stats', 'queue', 'text'), ('queue_stats', 'oldest_ready_age', 'interval'), ('queue_stats', 'stats_reset', 'timestamp with time zone'),
        ('bucket_stats', 'queue', 'text'), ('bucket_stats', 'bucket', 'integer'), ('bucket_stats', 'class', 'integer'), ('bucket_stats', 'ready', 'bigint'),
        ('group_stats', 'queue', 'text'), ('group_stats', 'group_key', 'text'), ('group_stats', 'ready', 'bigint'), ('group_stats', 'overflow', 'bigint'),
        ('group_stats', 'leased', 'bigint'), ('group_stats', 'weight', 'real'), ('group_stats', 'max_leased', 'integer'), ('group_stats', 'rate', 'real'),
        ('group_stats', 'burst', 'integer'), ('group_stats', 'tokens', 'double precision'), ('group_stats', 'paused', 'boolean'), ('group_stats', 'served', 'bigint'),
        ('group_stats', 'share', 'double precision'), ('group_stats', 'expected_share', 'double precision'), ('group_stats', 'share_error', 'double precision'),
        ('group_stats', 'oldest_wait', 'interval'), ('group_stats', 'run_time', 'interval'), ('group_stats', 'group_id', 'uuid'),
        ('queue_histograms', 'queue', 'text'), ('queue_histograms', 'kind', 'text'), ('queue_histograms', 'le', 'double precision'), ('queue_histograms', 'count', 'bigint'),
        ('queue_histograms', 'sum', 'double precision'),
        ('name_stats', 'queue', 'text'), ('name_stats', 'name', 'text'), ('name_stats', 'other', 'boolean'), ('name_stats', 'enqueued', 'bigint'), ('name_stats', 'done', 'bigint'),
        ('name_stats', 'failed', 'bigint'), ('name_stats', 'lost', 'bigint'), ('name_stats', 'dead', 'bigint'), ('name_stats', 'wait_p50', 'interval'), ('name_stats', 'wait_p95', 'interval'),
        ('name_stats', 'wait_p99', 'interval'), ('name_stats', 'run_p50', 'interval'), ('name_stats', 'run_p95', 'interval'), ('name_stats', 'run_p99', 'interval'),
        ('name_histograms', 'queue', 'text'), ('name_histograms', 'name', 'text'), ('name_histograms', 'other', 'boolean'), ('name_histograms', 'kind', 'text'),
        ('name_histograms', 'le', 'double precision'), ('name_histograms', 'count', 'bigint'), ('name_histograms', 'sum', 'double precision'),
        ('group_settings', 'queue', 'text'), ('group_settings', 'group_key', 'text'), ('group_settings', 'weight', 'real'), ('group_settings', 'max_leased', 'integer'),
        ('group_settings', 'rate', 'real'), ('group_settings', 'burst', 'integer'), ('group_settings', 'paused', 'boolean'), ('group_settings', 'group_id', 'uuid'),
        ('subgroup_settings', 'queue', 'text'), ('subgroup_settings', 'group_key', 'text'), ('subgroup_settings', 'subgroup_key', 'text'), ('subgroup_settings', 'weight', 'real'),
        ('subgroup_settings', 'max_leased', 'integer'), ('subgroup_settings', 'rate', 'real'), ('subgroup_settings', 'burst', 'integer'), ('subgroup_settings', 'paused', 'boolean'),
        ('subgroup_settings', 'group_id', 'uuid'), ('subgroup_settings', 'subgroup_id', 'uuid'),
        ('subgroup_stats', 'queue', 'text'), ('subgroup_stats', 'group_key', 'text'), ('subgroup_stats', 'subgroup_key', 'text'), ('subgroup_stats', 'overflow', 'bigint'),
        ('subgroup_stats', 'leased', 'bigint'), ('subgroup_stats', 'weight', 'real'), ('subgroup_stats', 'max_leased', 'integer'), ('subgroup_stats', 'rate', 'real'),
        ('subgroup_stats', 'burst', 'integer'), ('subgroup_stats', 'tokens', 'double precision'), ('subgroup_stats', 'paused', 'boolean'), ('subgroup_stats', 'served', 'bigint'),
        ('subgroup_stats', 'served_cost', 'double precision'), ('subgroup_stats', 'share', 'double precision'), ('subgroup_stats', 'expected_share', 'double precision'),
        ('subgroup_stats', 'run_time', 'interval'), ('subgroup_stats', 'group_id', 'uuid'), ('subgroup_stats', 'subgroup_id', 'uuid'),
        ('leases', 'queue', 'text'), ('leases', 'id', 'bigint'), ('leases', 'receipt', 'uuid'), ('leases', 'lease_until', 'timestamp with time zone'),
        ('leases', 'attempt', 'integer'), ('leases', 'pid', 'integer'),
        ('sessions', 'session', 'uuid'), ('sessions', 'name', 'text'), ('sessions', 'ttl', 'interval'), ('sessions', 'bound', 'boolean'),
        ('sessions', 'alive_until', 'timestamp with time zone'), ('sessions', 'pid', 'integer'), ('sessions', 'leases', 'integer'), ('sessions', 'client', 'text'), ('sessions', 'quarantine', 'boolean'),
        ('topics', 'topic', 'text'), ('topics', 'queue', 'text'),
        ('dependencies', 'queue', 'text'), ('dependencies', 'task', 'bigint'), ('dependencies', 'predecessor', 'bigint'), ('dependencies', 'on_dead', 'text'), ('dependencies', 'failed', 'boolean'),
        ('schedules', 'name', 'text'), ('schedules', 'queue', 'text'), ('schedules', 'owner', 'text'), ('schedules', 'cron', 'text'), ('schedules', 'timezone', 'text'),
        ('schedules', 'catch_up', 'text'), ('schedules', 'overlap', 'boolean'), ('schedules', 'active', 'boolean'), ('schedules', 'next_run', 'timestamp with time zone'),
        ('schedules', 'last_run', 'timestamp with time zone'), ('schedules', 'last_task', 'bigint'), ('schedules', 'skipped', 'bigint'), ('schedules', 'failures', 'integer'),
        ('schedules', 'last_error', 'text'), ('schedules', 'last_error_at', 'timestamp with time zone'), ('schedules', 'group_key', 'text'), ('schedules', 'priority', 'bigint'),
        ('schedules', 'cost', 'double precision'), ('schedules', 'payload', 'jsonb'), ('schedules', 'headers', 'jsonb'), ('schedules', 'task_name', 'text'), ('schedules', 'subgroup_key', 'text'),
        ('dead_tasks', 'queue', 'text'), ('dead_tasks', 'id', 'bigint'), ('dead_tasks', 'group_key', 'text'), ('dead_tasks', 'payload', 'jsonb'),
        ('dead_tasks', 'attempts', 'integer'), ('dead_tasks', 'last_error', 'text'), ('dead_tasks', 'name', 'text'), ('dead_tasks', 'lost', 'integer'), ('dead_tasks', 'history', 'jsonb'), ('dead_tasks', 'subgroup_key', 'text'),
        ('done_tasks', 'queue', 'text'), ('done_tasks', 'id', 'bigint'), ('done_tasks', 'outcome', 'text'), ('done_tasks', 'group_key', 'text'),
        ('done_tasks', 'payload', 'jsonb'), ('done_tasks', 'attempts', 'integer'), ('done_tasks', 'enqueued_at', 'timestamp with time zone'),
        ('done_tasks', 'claimed_at', 'timestamp with time zone'), ('done_tasks', 'done_at', 'timestamp with time zone'), ('done_tasks', 'last_error', 'text'),
        ('done_tasks', 'result', 'jsonb'), ('done_tasks', 'name', 'text'), ('done_tasks', 'lost', 'integer'), ('done_tasks', 'history', 'jsonb'), ('done_tasks', 'subgroup_key', 'text');
SELECT views_are('fairq', ARRAY['queues', 'queue_stats', 'queue_histograms', 'name_stats', 'name_histograms', 'group_stats', 'group_settings', 'subgroup_stats', 'subgroup_settings', 'bucket_stats', 'leases', 'sessions', 'dead_tasks', 'done_tasks', 'topics', 'schedules', 'dependencies']);
SELECT col_type_is('fairq', view, name, type, format('view %s has column %s of type %s', view, name, type)) FROM contract ORDER BY view, name;
-- \d+ says what each is for, and each of its columns.
SELECT is_empty($$SELECT c.oid::regclass, obj_description(c.oid, 'pg_class') FROM pg_class c WHERE relnamespace = 'fairq'::regnamespace AND relkind = 'v'
    AND (coalesce(obj_description(c.oid, 'pg_class'), '') !~ '^[A-Z].{15,}\.$' OR obj_description(c.oid, 'pg_class') ~ '\.\s' OR length(obj_description(c.oid, 'pg_class')) > 160)$$,
    'the comment on every view is one sentence');
SELECT is_empty($$SELECT t.oid::regtype, obj_description(t.oid, 'pg_type') FROM pg_type t LEFT JOIN pg_class c ON c.oid = typrelid
    WHERE typnamespace = 'fairq'::regnamespace AND (typtype = 'b' AND typelem = 0 OR relkind = 'c')
    AND (coalesce(obj_description(t.oid, 'pg_type'), '') !~ '^[A-Z].{15,}\.$' OR obj_description(t.oid, 'pg_type') ~ '\.\s' OR length(obj_description(t.oid, 'pg_type')) > 160)$$,
    'and on every type');
SELECT is_empty($$SELECT c.oid::regclass, attname, col_description(c.oid, attnum) FROM pg_class c JOIN pg_attribute ON attrelid = c.oid
    WHERE relnamespace = 'fairq'::regnamespace AND relkind IN ('v', 'c') AND attnum > 0 AND NOT attisdropped
    AND coalesce(col_description(c.oid, attnum), '') !~ '^.{6,119}[^.]$'$$, 'every column of them has a comment, of some words');
SELECT table_privs_are('fairq', view, 'pg_monitor', ARRAY['SELECT'], format('pg_monitor may read view %s, and no more', view)) FROM (SELECT DISTINCT view FROM contract) c ORDER BY view;

-- Privileges.
SELECT schema_privs_are('fairq', 'public', ARRAY['USAGE'], 'everyone may use the schema, nobody but who is told may create in it');
SELECT is_empty('SELECT c.oid::regclass, a.* FROM pg_class c, aclexplode(relacl) a WHERE relnamespace = ''fairq''::regnamespace AND grantee = 0 AND privilege_type <> ''SELECT''',
    'PUBLIC may read at most');
SELECT tables_are('fairq', ARRAY['group_setting', 'queue', 'topic', 'durable_lease', 'schedule', 'dependency']);
SELECT table_privs_are('fairq', t, 'public', ARRAY['SELECT'], t || ' is written through functions only') FROM unnest('{queue,topic}'::text[]) t;
SELECT table_privs_are('fairq', 'durable_lease', 'public', '{}'::text[], 'what leases are worth is nobody''s to read');
SELECT table_privs_are('fairq', 'dependency', 'public', ARRAY[]::text[], 'what waits for what is read through a view');
SELECT is((SELECT array_agg(tgenabled) FROM pg_trigger WHERE tgrelid = 'fairq.dependency'::regclass), '{A}'::"char"[], 'the engine learns of its rows, by replication too');
SELECT table_privs_are('fairq', 'schedule', 'public', ARRAY[]::text[], 'what schedules enqueue is not everybody''s to read');
SELECT is_empty('SELECT indexrelid FROM pg_index WHERE indrelid = ''fairq.durable_lease''::regclass', 'leases have no index');
SELECT is((SELECT array_agg(tgenabled) FROM pg_trigger WHERE tgrelid = 'fairq.durable_lease'::regclass), '{A}'::"char"[], 'rows that do not come from the engine are kept out, by replication too');

-- Types.
CREATE FUNCTION pg_temp.attributes(type regtype) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attnum)
        FROM pg_attribute JOIN pg_type t ON attrelid = typrelid WHERE t.oid = type AND attnum > 0 AND NOT attisdropped
$$;
SELECT is(pg_temp.attributes('fairq.task'),
    'id bigint, receipt uuid, group_key text, payload jsonb, headers jsonb, priority bigint, attempt integer, enqueued_at timestamp with time zone, lease_until timestamp with time zone, address fairq.address, expires_at timestamp with time zone, name text, subgroup_key text',
    'type task');
SELECT is(pg_temp.attributes('fairq.queue_task'), 'queue text, ' || pg_temp.attributes('fairq.task'), 'type queue_task: the queue, then the columns of task');
SELECT is(pg_temp.attributes('fairq.task_status'),
    'id bigint, state text, group_key text, payload jsonb, headers jsonb, priority bigint, cost real, attempts integer, max_attempts integer, enqueued_at timestamp with time zone, run_at timestamp with time zone, lease_until timestamp with time zone, address fairq.address, unique_key text, last_error text, expires_at timestamp with time zone, lease interval, name text, lost integer, max_lost integer, history jsonb, subgroup_key text',
    'type task_status');
SELECT is(pg_temp.attributes('fairq.task_done'),
    'id bigint, enqueued_at timestamp with time zone, claimed_at timestamp with time zone, done_at timestamp with time zone, run_at timestamp with time zone, priority bigint, cost real, attempts integer, outcome text, group_key text, payload jsonb, headers jsonb, unique_key text, last_error text, result jsonb, name text, lost integer, history jsonb, subgroup_key text',
    'type task_done');
SELECT is(pg_temp.attributes('fairq.outcome'), 'state text, result jsonb, last_error text, done_at timestamp with time zone', 'type outcome');
SELECT is(pg_temp.attributes('fairq.class_front'), 'class integer, ready bigint, waiting integer, front numeric, floor numeric', 'type class_front');
SELECT is((typtype, typlen, typbyval, typalign, typstorage)::text, '(b,24,f,d,p)', 'type address is of fixed size') FROM pg_type WHERE oid = 'fairq.address'::regtype;
SELECT isnt((typinput = 0 OR typoutput = 0 OR typreceive = 0 OR typsend = 0), true, 'type address goes in and out as text and binary') FROM pg_type WHERE oid = 'fairq.address'::regtype;
SELECT set_eq($$SELECT amname::text FROM pg_opclass JOIN pg_am a ON a.oid = opcmethod WHERE opcintype = 'fairq.address'::regtype AND opcdefault AND opcnamespace = 'fairq'::regnamespace$$,
    ARRAY['btree', 'hash'], 'type address has a default btree and a default hash operator class');
SELECT set_eq($$SELECT oprname::text || ' ' || oprresult::regtype FROM pg_operator WHERE oprleft = 'fairq.address'::regtype AND oprright = 'fairq.address'::regtype AND oprnamespace = 'fairq'::regnamespace$$,
    ARRAY['= boolean', '<> boolean', '< boolean', '<= boolean', '> boolean', '>= boolean'], 'type address has these operators');
SELECT is_empty($$SELECT oprname FROM pg_operator WHERE oprleft = 'fairq.address'::regtype AND (oprcom = 0 OR oprnegate = 0 OR oprrest = 0 OR oprjoin = 0)$$,
    'each with commutator, negator and estimators');
SELECT is_empty($$SELECT opcname FROM pg_opclass WHERE opcnamespace = 'fairq'::regnamespace AND NOT amvalidate(oid)$$, 'the operator classes are valid');
SELECT function_returns('fairq', 'bucket', ARRAY['fairq.address'], 'integer');
SELECT function_returns('fairq', 'class', ARRAY['fairq.address'], 'integer');
SELECT function_returns('fairq', 'block', ARRAY['fairq.address'], 'numeric');
SELECT function_returns('fairq', 'slot', ARRAY['fairq.address'], 'bigint');

-- Settings.
SELECT set_has('SELECT name FROM pg_settings WHERE name LIKE ''pgfairq.%''',
    'VALUES (''pgfairq.max_queues''), (''pgfairq.max_lanes''), (''pgfairq.max_groups''), (''pgfairq.max_leases''), (''pgfairq.max_workers''), (''pgfairq.max_sessions''), (''pgfairq.max_names''), (''pgfairq.sweep_interval''), (''pgfairq.max_schedules''), (''pgfairq.node_probe_interval''), (''pgfairq.node_timeout'')', 'there are these settings');
SELECT is_empty('SELECT name FROM pg_settings WHERE name LIKE ''pgfairq.%'' AND coalesce(short_desc, '''') = ''''', 'each has a description');
SELECT is_empty('SELECT name FROM pg_settings WHERE name LIKE ''pgfairq.%'' AND context <> CASE WHEN name IN (''pgfairq.calls_in_transaction'', ''pgfairq.node_timeout'') THEN ''user'' WHEN name IN (''pgfairq.sweep_interval'', ''pgfairq.max_schedules'', ''pgfairq.node_probe_interval'') THEN ''sighup'' ELSE ''postmaster'' END', 'each is fixed at server start, but for five');
SELECT is(current_setting('pgfairq.max_queues') || ' ' || current_setting('pgfairq.max_lanes') || ' ' || current_setting('pgfairq.max_groups') || ' ' || current_setting('pgfairq.max_leases')
    || ' ' || current_setting('pgfairq.max_workers') || ' ' || current_setting('pgfairq.max_sessions') || ' ' || current_setting('pgfairq.max_names') || ' ' || current_setting('pgfairq.sweep_interval') || ' ' || current_setting('pgfairq.max_schedules'), '256 4096 1048576 1048576 8 1024 1024 10s 10000', 'their defaults') FROM pg_settings WHERE name = 'pgfairq.max_queues' AND source = 'default';
SELECT throws_ok('SET pgfairq.no_such_setting = 1', '42602', NULL, 'the prefix is ours');

-- The table of a queue.
CREATE ROLE pgtap_fairq_owner;
GRANT CREATE ON SCHEMA fairq TO pgtap_fairq_owner;
SET ROLE pgtap_fairq_owner;
SELECT lives_ok('SELECT fairq.create_queue(''Tap queue'')', 'a queue is created');
RESET ROLE;
SELECT has_table('fairq', 'q_Tap queue', 'its table is q_ and the name');
SELECT table_owner_is('fairq', 'q_Tap queue', 'pgtap_fairq_owner', 'it belongs to its creator');
SELECT is((SELECT (relkind, relpersistence, relrowsecurity)::text FROM pg_class WHERE oid = 'fairq."q_Tap queue"'::regclass), '(r,p,f)', 'it is an ordinary table');
SELECT is_empty('SELECT 1 FROM pg_depend WHERE deptype IN (''e'', ''x'') AND objid = ''fairq."q_Tap queue"''::regclass', 'it is none of the extension''s, so pg_dump carries its rows');
SELECT is_empty('SELECT a.* FROM pg_class c, aclexplode(relacl) a WHERE c.oid = ''fairq."q_Tap queue"''::regclass AND grantee <> relowner', 'nobody else has privileges on it');
CREATE TEMP TABLE columns (name text, type text, needed boolean);
INSERT INTO columns VALUES ('id', 'bigint', true), ('address', 'fairq.address', false), ('state', '"char"', true), ('group_key', 'text', true), ('priority', 'bigint', true),
    ('cost', 'real', true), ('payload', 'jsonb', true), ('headers', 'jsonb', false), ('enqueued_at', 'timestamp with time zone', true),
    ('run_at', 'timestamp with time zone', false), ('attempts', 'integer', true), ('max_attempts', 'integer', false), ('lease', 'interval', false),
    ('unique_key', 'text', false), ('last_error', 'text', false), ('expires_at', 'timestamp with time zone', false),
    ('name', 'text', false), ('lost', 'integer', false), ('max_lost', 'integer', false), ('history', 'jsonb', false), ('subgroup_key', 'text', false);
SELECT bag_eq('SELECT attname::text, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute WHERE attrelid = ''fairq."q_Tap queue"''::regclass AND attnum > 0 AND NOT attisdropped',
    'TABLE columns', 'it has these columns');
SELECT col_is_pk('fairq', 'q_Tap queue', 'id', 'id is the primary key');
SELECT set_has('SELECT pg_get_expr(indpred, indrelid) FROM pg_index WHERE indrelid = ''fairq."q_Tap queue"''::regclass AND NOT indisprimary AND NOT indisunique
    AND indkey::text = (SELECT attnum::text FROM pg_attribute WHERE attrelid = indrelid AND attname = ''address'')', 'VALUES (''(address IS NOT NULL)'')', 'address has a partial index');
SELECT set_has('SELECT pg_get_expr(indpred, indrelid) FROM pg_index WHERE indrelid = ''fairq."q_Tap queue"''::regclass AND NOT indisprimary AND NOT indisunique
    AND indkey::text = (SELECT attnum::text FROM pg_attribute WHERE attrelid = indrelid AND attname = ''run_at'')', 'VALUES (''(state = ''''s''''::"char")'')', 'so has run_at');
SELECT set_has('SELECT pg_get_expr(indpred, indrelid) FROM pg_index WHERE indrelid = ''fairq."q_Tap queue"''::regclass
    AND indkey::text = (SELECT attnum::text FROM pg_attribute WHERE attrelid = indrelid AND attname = ''expires_at'')', 'VALUES (''((expires_at IS NOT NULL) AND (state <> ''''d''''::"char"))'')', 'and expires_at');
SELECT is((SELECT count(*) FROM pg_index WHERE indrelid = 'fairq."q_Tap queue"'::regclass), 7::bigint, 'there is no index but these and those of the overflow, of unique keys and of what is held');
SELECT is((SELECT array_agg(tgenabled) FROM pg_trigger WHERE tgrelid = 'fairq."q_Tap queue"'::regclass), '{A}'::"char"[], 'one trigger, which replication fires too');
SELECT isnt((SELECT objid FROM pg_depend WHERE classid = 'pg_class'::regclass AND deptype = 'a' AND refobjid = 'fairq."q_Tap queue"'::regclass
    AND refobjsubid = (SELECT attnum FROM pg_attribute WHERE attrelid = refobjid AND attname = 'id')
    AND objid IN (SELECT oid FROM pg_class WHERE relkind = 'S')), NULL, 'the sequence of ids belongs to column id');
-- Ids come in the order of enqueues, within a session.
SELECT ok(fairq.enqueue('Tap queue', '1') < fairq.enqueue('Tap queue', '2'), 'ids ascend');

-- The table of its done tasks.
SELECT hasnt_table('fairq', 'done_Tap queue', 'there is no done table unless it is asked for');
SELECT lives_ok('SELECT fairq.alter_queue(''Tap queue'', keep_done => ''1 day'')', 'it is asked for');
SELECT has_table('fairq', 'done_Tap queue', 'its table is done_ and the name');
SELECT table_owner_is('fairq', 'done_Tap queue', 'pgtap_fairq_owner', 'it belongs to the owner of the queue, whoever asked for it');
SELECT is((SELECT (relkind, relpersistence, relrowsecurity)::text FROM pg_class WHERE oid = 'fairq."done_Tap queue"'::regclass), '(r,p,f)', 'it is an ordinary table');
SELECT is_empty('SELECT 1 FROM pg_depend WHERE deptype IN (''e'', ''x'') AND objid = ''fairq."done_Tap queue"''::regclass', 'it is none of the extension''s, so pg_dump carries its rows');
SELECT is_empty('SELECT a.* FROM pg_class c, aclexplode(relacl) a WHERE c.oid = ''fairq."done_Tap queue"''::regclass AND grantee <> relowner', 'nobody else has privileges on it');
TRUNCATE columns;
INSERT INTO columns VALUES ('id', 'bigint', true), ('outcome', 'text', true), ('group_key', 'text', true), ('priority', 'bigint', true), ('cost', 'real', true),
    ('attempts', 'integer', true), ('enqueued_at', 'timestamp with time zone', true), ('claimed_at', 'timestamp with time zone', false),
    ('done_at', 'timestamp with time zone', true), ('run_at', 'timestamp with time zone', false), ('payload', 'jsonb', true), ('headers', 'jsonb', false),
    ('unique_key', 'text', false), ('last_error', 'text', false), ('result', 'jsonb', false), ('name', 'text', false), ('lost', 'integer', false), ('history', 'jsonb', false), ('subgroup_key', 'text', false);
SELECT bag_eq('SELECT attname::text, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute WHERE attrelid = ''fairq."done_Tap queue"''::regclass AND attnum > 0 AND NOT attisdropped',
    'TABLE columns', 'it has these columns');
SELECT col_is_pk('fairq', 'done_Tap queue', ARRAY['done_at', 'id'], 'its primary key is in the order of time');
SELECT has_index('fairq', 'done_Tap queue', 'id_done_of_Tap queue', ARRAY['id'], 'a task is found by its id');
SELECT is((SELECT count(*) FROM pg_index WHERE indrelid = 'fairq."done_Tap queue"'::regclass), 2::bigint, 'it has no other index');
SELECT is((SELECT count(*) FROM pg_trigger WHERE tgrelid = 'fairq."done_Tap queue"'::regclass), 0::bigint, 'and no trigger');
SELECT is((SELECT count(*) FROM pg_depend WHERE deptype = 'a' AND objid = 'fairq."done_Tap queue"'::regclass AND refobjid = 'fairq."q_Tap queue"'::regclass), 1::bigint,
    'it goes with the queue''s table');

SELECT is(fairq.drop_queue('Tap queue'), true, 'the queue is dropped');
SELECT hasnt_table('fairq', 'q_Tap queue', 'and its table with it');
SELECT is_empty('SELECT relname FROM pg_class WHERE relnamespace = ''fairq''::regnamespace AND relname LIKE ''%Tap queue%''', 'and all that belonged to it');

SELECT * FROM finish();
ROLLBACK;
