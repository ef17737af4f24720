-- What every function of the interface promises: to the planner, and about whose rights
-- it has. Names, arguments, defaults and results are in doc/reference.md alone, which the
-- suite readme compares with the server; there they may only grow.
\set ON_ERROR_STOP on
SET client_min_messages = warning;
BEGIN;
-- What is not of tasks and queues: what an address, an id or a uuid consists of.
CREATE TEMP TABLE supporting (name text);
INSERT INTO supporting VALUES ('bucket'), ('class'), ('block'), ('slot'), ('group_id'), ('this_node'), ('node_of_id'), ('node_of_receipt'), ('node_of_session');

CREATE TEMP TABLE present AS
    SELECT p.*, l.lanname FROM pg_proc p JOIN pg_language l ON l.oid = prolang WHERE pronamespace = 'fairq'::regnamespace;
CREATE TEMP TABLE internal AS
    SELECT p.*, l.lanname FROM pg_proc p JOIN pg_language l ON l.oid = prolang WHERE pronamespace = 'fairq_internal'::regnamespace;
CREATE TEMP VIEW every AS SELECT oid, proname, prosecdef, proconfig, probin, proacl, lanname FROM present
    UNION ALL SELECT oid, proname, prosecdef, proconfig, probin, proacl, lanname FROM internal;

CREATE TEMP TABLE contract AS SELECT * FROM present WHERE proname NOT IN (SELECT name FROM supporting);
SELECT plan((18 + 5 * (SELECT count(*) FROM contract))::int);

SELECT is_empty('SELECT proname FROM present GROUP BY proname HAVING count(*) > 1', 'no function is overloaded');
SELECT is_empty('SELECT name FROM supporting EXCEPT SELECT proname::text FROM present', 'all that is beside the interface is there');
SELECT is(provolatile, 'v', proname || ' is volatile') FROM contract ORDER BY proname;
SELECT is(proparallel, 'u', proname || ' is parallel unsafe') FROM contract ORDER BY proname;
SELECT is(proisstrict, false, proname || ' is called on null input: null stands for a default or is an error') FROM contract ORDER BY proname;
SELECT is(prosecdef, false, proname || ' runs with the rights of its caller') FROM contract ORDER BY proname;
SELECT ok(has_function_privilege('public', oid, 'EXECUTE'), proname || ' may be called by everyone') FROM contract ORDER BY proname;
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
SELECT is_empty('SELECT oid::regprocedure FROM contract WHERE proargmodes IS NOT NULL OR provariadic <> 0',
    'no function has OUT or VARIADIC arguments');
-- Every argument after the first two has a default; so have all but the queue, the receipt and what the verb is about.
SELECT is_empty('SELECT oid::regprocedure FROM contract WHERE pronargs - pronargdefaults > CASE WHEN proname IN (''schedule'', ''raise_floor'') OR proname LIKE ''%\_subgroup'' THEN 3 ELSE 2 END',
    'every argument after the first two has a default; a schedule has to have a time as well, a floor a class, and a subgroup its key');
SELECT is_empty('SELECT oid::regprocedure FROM contract WHERE ''-'' = ANY (proargnames) OR cardinality(proargnames) <> pronargs',
    'every argument has a name');

SELECT * FROM finish();
ROLLBACK;
