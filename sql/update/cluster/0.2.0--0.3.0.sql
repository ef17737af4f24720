\echo Use "ALTER EXTENSION pgfairq_cluster UPDATE" to load this file. \quit

-- From 0.2.0 to 0.3.0, at a proxy. compose.awk puts the functions, views and comments of
-- the install script in the place of the line that begins with \replace.

-- ---------------------------------------------------------------------------
-- What changes its arguments or columns goes first
-- ---------------------------------------------------------------------------

\include sql/update/retire.sql
SELECT fairq_internal.retire(oid, '0.2.0') FROM pg_catalog.pg_proc
    WHERE pronamespace OPERATOR(pg_catalog.=) 'fairq'::pg_catalog.regnamespace
    AND proname OPERATOR(pg_catalog.=) ANY ('{create_queue,alter_queue,enqueue,enqueue_many,publish,schedule,tasks,worker_node}'::pg_catalog.name[]);

-- The twins, which are found by name when a call is made: all are made anew below. And the
-- functions that views read, until these are replaced: their columns may change.
DO $$
DECLARE
    f regprocedure;
    name text;
BEGIN
    FOR f IN
        SELECT p.oid FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_language l ON l.oid = p.prolang
        WHERE p.pronamespace = 'fairq_internal'::regnamespace AND l.lanname = 'plproxy'
    LOOP
        EXECUTE pg_catalog.format('DROP FUNCTION %s', f);
    END LOOP;
    FOR f, name IN
        SELECT p.oid, p.proname FROM pg_catalog.pg_proc p
        WHERE p.pronamespace = 'fairq_internal'::regnamespace AND (p.proname LIKE 'rows\_of\_%' OR p.proname = 'reports_of_nodes')
    LOOP
        EXECUTE pg_catalog.format('ALTER FUNCTION %s RENAME TO %I', f, name || '_0_2');
    END LOOP;
END
$$;

ALTER TYPE fairq.task
    ADD ATTRIBUTE name pg_catalog.text CASCADE,
    ADD ATTRIBUTE subgroup_key pg_catalog.text CASCADE;
ALTER TYPE fairq.queue_task
    ADD ATTRIBUTE name pg_catalog.text CASCADE,
    ADD ATTRIBUTE subgroup_key pg_catalog.text CASCADE;
ALTER TYPE fairq.task_status
    ADD ATTRIBUTE name pg_catalog.text CASCADE,
    ADD ATTRIBUTE lost pg_catalog.int4 CASCADE,
    ADD ATTRIBUTE max_lost pg_catalog.int4 CASCADE,
    ADD ATTRIBUTE history pg_catalog.jsonb CASCADE,
    ADD ATTRIBUTE subgroup_key pg_catalog.text CASCADE;
ALTER TYPE fairq.task_done
    ADD ATTRIBUTE name pg_catalog.text CASCADE,
    ADD ATTRIBUTE lost pg_catalog.int4 CASCADE,
    ADD ATTRIBUTE history pg_catalog.jsonb CASCADE,
    ADD ATTRIBUTE subgroup_key pg_catalog.text CASCADE;

-- Where nothing was said, groups had four of more than eight nodes, and keep them: unique
-- keys are there. They have all now, so it is written down.
ALTER TABLE fairq.spread
    ALTER COLUMN queue DROP NOT NULL,
    ADD CHECK (queue IS NOT NULL OR group_key IS NULL);
INSERT INTO fairq.spread (queue, width)
    SELECT NULL, 4 FROM fairq.node n WHERE n.state OPERATOR(pg_catalog.=) 'active'
    HAVING pg_catalog.count(*) OPERATOR(pg_catalog.>) 8;

-- ---------------------------------------------------------------------------
-- What is as in a new database
-- ---------------------------------------------------------------------------

\replace sql/pgfairq_cluster--0.3.0.sql

DO $$
DECLARE
    f regprocedure;
BEGIN
    FOR f IN
        SELECT p.oid FROM pg_catalog.pg_proc p
        WHERE p.pronamespace = 'fairq_internal'::regnamespace AND p.proname LIKE '%\_0\_2'
    LOOP
        PERFORM fairq_internal.retire(f, '0.2.0');
    END LOOP;
END
$$;
DROP FUNCTION fairq_internal.retire;
GRANT SELECT ON fairq.queue_histograms, fairq.name_stats, fairq.name_histograms TO PUBLIC;
SELECT fairq_internal.make_twins();

-- Connections get their names: the trigger writes the options of the server anew.
UPDATE fairq.node SET state = state;

\include sql/cluster/84_internal_functions.sql
