-- What pgfairq_cluster consists of: at a proxy an application finds what it finds at a
-- node. The database has pgfairq; what that consists of is noted, and then it is dropped.
\set ON_ERROR_STOP on
SET client_min_messages = warning;
SET intervalstyle = postgres;
BEGIN;
SELECT no_plan();

CREATE VIEW public.there_functions AS
    SELECT proname::text AS name, pg_get_function_arguments(p.oid) AS arguments, pg_get_function_result(p.oid) AS result,
        prokind, provolatile, proparallel, proisstrict, prorows
    FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace WHERE nspname = 'fairq';
CREATE VIEW public.there_columns AS
    SELECT c.relname::text AS relation, c.relkind, a.attname::text AS name, a.attnum AS n, format_type(a.atttypid, a.atttypmod) AS type,
        col_description(c.oid, a.attnum) AS comment, c.oid AS relid
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    JOIN pg_namespace s ON s.oid = c.relnamespace WHERE s.nspname = 'fairq' AND c.relkind IN ('v', 'c');
CREATE TEMP TABLE node_functions AS SELECT * FROM public.there_functions;
CREATE TEMP TABLE node_columns AS SELECT * FROM public.there_columns;
SELECT cmp_ok((SELECT count(*) FROM node_functions), '>', 40::bigint, 'a node has functions');
SELECT cmp_ok((SELECT count(*) FROM node_columns), '>', 150::bigint, 'and views and types');

-- A database is the one or the other.
SELECT throws_ok('CREATE EXTENSION pgfairq_cluster CASCADE', '55000', 'a database that has the extension pgfairq cannot be a proxy', 'a node cannot be a proxy');
DROP EXTENSION pgfairq;
CREATE EXTENSION pgfairq_cluster CASCADE;
SELECT throws_ok('CREATE EXTENSION pgfairq', '55000', 'a database that has the extension pgfairq_cluster cannot be a node', 'and a proxy no node');

-- Functions. What administers a node is called there.
CREATE TEMP TABLE not_at_proxy (name text);
INSERT INTO not_at_proxy VALUES ('set_node'), ('this_node'), ('front'), ('raise_floor');
CREATE TEMP TABLE only_at_proxy (name text);
INSERT INTO only_at_proxy SELECT unnest('{add_node,drain_node,undrain_node,drop_node,move_tasks,set_spread,reset_spread,check_cluster,worker_node,worker_node_any,nodes_of_group}'::text[]);
SELECT set_eq('SELECT name FROM there_functions EXCEPT SELECT name FROM only_at_proxy', 'SELECT name FROM node_functions EXCEPT SELECT name FROM not_at_proxy',
    'the functions: those of a node, and what administers nodes');
SELECT results_eq('SELECT * FROM there_functions WHERE name NOT IN (SELECT name FROM only_at_proxy) ORDER BY name',
    'SELECT * FROM node_functions WHERE name NOT IN (SELECT name FROM not_at_proxy) ORDER BY name',
    'with the same arguments, defaults, results and promises');
SELECT is_empty('SELECT p.oid::regprocedure FROM pg_proc p WHERE pronamespace = ''fairq''::regnamespace AND NOT has_function_privilege(''public'', p.oid, ''EXECUTE'')
    AND proname::text NOT IN (SELECT name FROM only_at_proxy)', 'everybody may call them: nodes look at privileges');
-- What everybody may call of what is not for applications, and why. A function that is added is not for everybody.
CREATE TEMP TABLE internal AS SELECT * FROM pg_proc WHERE pronamespace = 'fairq_internal'::regnamespace;
CREATE TEMP TABLE everybodys (name text, reason text);
INSERT INTO everybodys SELECT proname, 'the operators of type address call it as whoever compares' FROM internal WHERE proname ~ '^address_';
INSERT INTO everybodys SELECT 'at_' || f.name, 'carries a call that everybody may make' FROM there_functions f
    WHERE EXISTS (SELECT FROM internal p WHERE p.proname = 'at_' || f.name AND p.prosrc ~ ('fairq\.' || f.name || '\('));
INSERT INTO everybodys SELECT p.name || c.relation, 'view ' || c.relation FROM (SELECT DISTINCT relation FROM there_columns WHERE relkind = 'v') c, unnest('{rows_of_,at_rows_of_}'::text[]) p (name)
    WHERE c.relation <> 'nodes';
INSERT INTO everybodys VALUES ('reports_of_nodes', 'view nodes'), ('node_report', 'view nodes'), ('at_node_report', 'view nodes'),
    ('at_this_node', 'asked before the first call'), ('at_wait_ready', 'a claim that waits'), ('at_tasks_here', 'an enqueue with predecessors'),
    ('at_front', 'a claim'), ('at_raise_floor', 'a claim'), ('attended_node', 'worker_node'), ('at_attendance', 'worker_node');
SELECT set_eq('SELECT proname::text FROM internal WHERE has_function_privilege(''public'', oid, ''EXECUTE'')', 'SELECT name FROM everybodys',
    'of the others everybody may call what is on the list, and nothing else');
SELECT is_empty('SELECT p.oid::regprocedure FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang WHERE pronamespace IN (''fairq''::regnamespace, ''fairq_internal''::regnamespace)
    AND (prosecdef OR (l.lanname IN (''sql'', ''plpgsql'') AND NOT coalesce(''search_path=pg_catalog, pg_temp'' = ANY (proconfig), false)))',
    'none runs as its owner, and none with the search path of the caller');
SELECT is_empty('SELECT f.name FROM there_functions f WHERE f.prokind = ''f'' AND EXISTS (SELECT FROM pg_proc p WHERE p.proname = f.name AND p.prosrc LIKE ''fairq\_cluster\_%'')
    AND NOT EXISTS (SELECT FROM pg_proc t WHERE t.proname = ''at_'' || f.name AND t.pronamespace = ''fairq_internal''::regnamespace)', 'each has its twin');

-- Types, and views with a column more. Roles and tables of nodes are text.
SELECT results_eq('SELECT relation, n, name, type, comment FROM there_columns WHERE relkind = ''c'' ORDER BY 1, 2',
    'SELECT relation, n, name, type, comment FROM node_columns WHERE relkind = ''c'' AND relation <> ''class_front'' ORDER BY 1, 2', 'the types');
SELECT is_empty('SELECT typname FROM pg_type WHERE typnamespace IN (''fairq''::regnamespace, ''fairq_internal''::regnamespace) AND NOT typisdefined', 'none is a shell');
SELECT set_eq('SELECT DISTINCT relation FROM there_columns WHERE relkind = ''v'' AND relation <> ''nodes''', 'SELECT DISTINCT relation FROM node_columns WHERE relkind = ''v''', 'the views');
SELECT set_eq('SELECT relation, name, type FROM node_columns WHERE relkind = ''v'' EXCEPT SELECT relation, name, type FROM there_columns',
    $$VALUES ('queues', 'owner', 'regrole'), ('queues', 'relation', 'regclass'), ('sessions', 'role', 'regrole')$$, 'their columns, but for what is of a node');
SELECT set_eq('SELECT relation, name, type FROM there_columns WHERE relkind = ''v'' AND relation <> ''nodes'' EXCEPT SELECT relation, name, type FROM node_columns',
    $$SELECT relation, 'missing' AS name, 'integer[]' AS type FROM node_columns WHERE relkind = 'v'
    UNION VALUES ('queues', 'owner', 'text'), ('queues', 'relation', 'text'), ('sessions', 'role', 'text'), ('bucket_stats', 'node', 'integer'), ('sessions', 'node', 'integer')$$,
    'and what is of several');
-- What a later version has added comes after "missing", where an update can add it.
SELECT is_empty('SELECT t.relation, t.name FROM (SELECT relation, name, row_number() OVER (PARTITION BY relation ORDER BY n) AS n FROM there_columns WHERE name NOT IN (''missing'', ''node'') OR relation NOT IN (SELECT relation FROM node_columns WHERE relkind = ''v'')) t
    JOIN (SELECT relation, name, row_number() OVER (PARTITION BY relation ORDER BY n) AS n FROM node_columns) n USING (relation, name) WHERE t.n <> n.n', 'the columns of a node are in their order');
SELECT set_eq('SELECT DISTINCT relation FROM there_columns WHERE relkind = ''v'' AND relation <> ''nodes''', 'SELECT relation FROM there_columns WHERE relkind = ''v'' AND name = ''missing'' AND relation <> ''nodes''', 'and each says which nodes are missing');
SELECT is_empty('SELECT relation FROM there_columns WHERE relkind = ''v'' AND NOT has_table_privilege(''public'', relid, ''SELECT'')', 'everybody may select from the views');

-- Its objects.
CREATE TEMP VIEW members AS
    SELECT d.classid, d.objid, i.* FROM pg_depend d, LATERAL pg_identify_object(classid, objid, 0) i
        WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
            AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'pgfairq_cluster');
SELECT is_empty('SELECT type, identity FROM members WHERE schema IS DISTINCT FROM ''fairq'' AND schema IS DISTINCT FROM ''fairq_internal''
    AND (type, identity) NOT IN ((''schema'', ''fairq''), (''schema'', ''fairq_internal''), (''server'', ''pgfairq''), (''event trigger'', ''fairq_user_mapping_written''))
    AND type <> ''trigger''', 'nothing lives outside schemas fairq and fairq_internal but the server, and what guards its user mappings');
SELECT is_empty('SELECT type, identity FROM members WHERE obj_description(objid, classid::regclass::name) IS NULL
    AND type <> ''trigger'' AND NOT (type = ''type'' AND (identity LIKE ''%[]'' OR objid IN (SELECT reltype FROM pg_class)))', 'every object has a comment');
SELECT is_empty('SELECT relation, name FROM there_columns WHERE comment IS NULL', 'and every column of its views and types');
SELECT is((SELECT array_agg(c::regclass::text ORDER BY c::regclass::text) FROM unnest(extconfig) c), ARRAY['fairq.node', 'fairq.schedule_node', 'fairq.spread'], 'pg_dump carries the nodes')
    FROM pg_extension WHERE extname = 'pgfairq_cluster';

-- Privileges of everybody.
CREATE ROLE proxy_nobody;
SELECT set_eq('SELECT attname::text FROM pg_attribute WHERE attrelid = ''fairq.node''::regclass AND attnum > 0 AND NOT has_column_privilege(''proxy_nobody'', attrelid, attnum, ''SELECT'')',
    $$VALUES ('connection'), ('system')$$, 'the connections are not for everybody');
SELECT ok(NOT has_table_privilege('proxy_nobody', 'fairq.node', 'INSERT, UPDATE, DELETE, TRUNCATE') AND NOT has_table_privilege('proxy_nobody', 'fairq.spread', 'INSERT, UPDATE, DELETE, TRUNCATE'),
    'nor may everybody change them');
SELECT ok(NOT has_schema_privilege('proxy_nobody', 'fairq', 'CREATE') AND NOT has_schema_privilege('proxy_nobody', 'fairq_internal', 'CREATE'), 'or create anything in the schemas');

SELECT * FROM finish();
ROLLBACK;
