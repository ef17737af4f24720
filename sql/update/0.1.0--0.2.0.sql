\echo Use "ALTER EXTENSION pgfairq UPDATE" to load this file. \quit

-- From 0.1.0 to 0.2.0. The Makefile puts the fragments of the install script in the
-- place of the lines that begin with \include: functions and views are made as there.

CREATE SCHEMA fairq_internal;
GRANT USAGE ON SCHEMA fairq_internal TO PUBLIC;

-- ---------------------------------------------------------------------------
-- What is not for applications has a schema of its own
-- ---------------------------------------------------------------------------

ALTER FUNCTION fairq.address_in SET SCHEMA fairq_internal;
ALTER FUNCTION fairq.address_out SET SCHEMA fairq_internal;
ALTER FUNCTION fairq.address_recv SET SCHEMA fairq_internal;
ALTER FUNCTION fairq.address_send SET SCHEMA fairq_internal;
ALTER FUNCTION fairq.address_eq SET SCHEMA fairq_internal;
ALTER FUNCTION fairq.address_ne SET SCHEMA fairq_internal;
ALTER FUNCTION fairq.address_lt SET SCHEMA fairq_internal;
ALTER FUNCTION fairq.address_le SET SCHEMA fairq_internal;
ALTER FUNCTION fairq.address_gt SET SCHEMA fairq_internal;
ALTER FUNCTION fairq.address_ge SET SCHEMA fairq_internal;
ALTER FUNCTION fairq.address_cmp SET SCHEMA fairq_internal;
ALTER FUNCTION fairq.address_sortsupport SET SCHEMA fairq_internal;
ALTER FUNCTION fairq.address_hash SET SCHEMA fairq_internal;
ALTER FUNCTION fairq.address_hash_extended SET SCHEMA fairq_internal;
ALTER FUNCTION fairq.row_written SET SCHEMA fairq_internal;
ALTER FUNCTION fairq.durable_lease_written SET SCHEMA fairq_internal;
ALTER FUNCTION fairq.stats_of_buckets SET SCHEMA fairq_internal;
ALTER FUNCTION fairq.live_leases SET SCHEMA fairq_internal;
ALTER FUNCTION fairq.open_sessions SET SCHEMA fairq_internal;
ALTER FUNCTION fairq.dead_of_queues SET SCHEMA fairq_internal;

-- ---------------------------------------------------------------------------
-- What changes its arguments or columns goes first
-- ---------------------------------------------------------------------------

-- What others have built upon a function (views, defaults, functions in SQL) is not ours to
-- drop, nor a reason to stay behind. Such a function stays, under another name and as no
-- part of the extension, and only says that it is gone.
CREATE FUNCTION fairq_internal.retire(retired regprocedure)
RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    was text := replace(retired::text, '_0_1(', '(');
    f pg_proc;
    users text;
BEGIN
    EXECUTE format('DROP FUNCTION %s', retired);
EXCEPTION WHEN dependent_objects_still_exist THEN
    GET STACKED DIAGNOSTICS users = PG_EXCEPTION_DETAIL;
    SELECT * INTO f FROM pg_proc WHERE oid = retired;
    IF f.proname !~ '_0_1$' THEN
        f.proname := f.proname || '_0_1';
        EXECUTE format('ALTER FUNCTION %s RENAME TO %I', retired, f.proname);
    END IF;
    EXECUTE format('CREATE OR REPLACE FUNCTION fairq.%I(%s) RETURNS %s LANGUAGE plpgsql AS %L',
        f.proname, pg_get_function_arguments(retired), pg_get_function_result(retired),
        format('BEGIN RAISE EXCEPTION %L USING ERRCODE = %L, HINT = %L; END', was || ' is gone with version 0.1.0',
            'undefined_function', 'Call that of this version.'));
    EXECUTE format('ALTER EXTENSION pgfairq DROP FUNCTION %s', retired);
    RAISE WARNING 'function % is gone, and others are built upon it', was
        USING DETAIL = users, HINT = format('Have them call that of this version, and drop %s, which they have in its place.', retired);
END
$$;

SELECT fairq_internal.retire('fairq.create_queue(text, text, int, interval, int, interval, interval, bigint, bigint, bigint, interval, boolean, text, boolean)');
SELECT fairq_internal.retire('fairq.alter_queue(text, int, interval, int, interval, interval, bigint, bigint, bigint, interval, boolean, text, boolean)');
SELECT fairq_internal.retire('fairq.purge(text, text)');
SELECT fairq_internal.retire('fairq.pause(text, text)');
SELECT fairq_internal.retire('fairq.resume(text, text)');
SELECT fairq_internal.retire('fairq.set_group(text, text, real, int, real, int)');
SELECT fairq_internal.retire('fairq.set_group_defaults(text, real, int, real, int)');
SELECT fairq_internal.retire('fairq.enqueue(text, jsonb, text, bigint, real, timestamptz, text, text, int, interval, jsonb)');
SELECT fairq_internal.retire('fairq.enqueue_many(text, jsonb[], text[], bigint[], real[], timestamptz[], text[], text)');
SELECT fairq_internal.retire('fairq.publish(text, jsonb, text, bigint, real, timestamptz, text, text, int, interval, jsonb)');
SELECT fairq_internal.retire('fairq.ack(uuid)');
SELECT fairq_internal.retire('fairq.nack(uuid, text, interval)');
SELECT fairq_internal.retire('fairq.nack_many(uuid[], text[], interval)');
SELECT fairq_internal.retire('fairq.release(uuid)');
SELECT fairq_internal.retire('fairq.release_many(uuid[])');
SELECT fairq_internal.retire('fairq.revive(text, bigint)');
ALTER FUNCTION fairq.stats_of_queues() RENAME TO stats_of_queues_0_1; -- until its view is replaced
SELECT fairq_internal.retire('fairq.reset_stats(text)');
ALTER FUNCTION fairq.stats_of_groups() RENAME TO stats_of_groups_0_1; -- until its view is replaced
ALTER FUNCTION fairq.done_of_queues() RENAME TO done_of_queues_0_1; -- until its view is replaced

-- ---------------------------------------------------------------------------
-- Tables
-- ---------------------------------------------------------------------------

ALTER TABLE fairq.queue RENAME COLUMN max_tasks TO max_depth;
ALTER VIEW fairq.queues RENAME COLUMN max_tasks TO max_depth;
ALTER TABLE fairq.queue
    ADD COLUMN expire_after pg_catalog.interval,
    ADD COLUMN backoff_jitter pg_catalog.float8,
    ADD COLUMN default_priority pg_catalog.int8,
    ADD COLUMN group_required pg_catalog.bool;

-- Not with the column, for any role may have a table with a column of this row type. Tasks
-- that are given no priority have the one that they had.
UPDATE fairq.queue SET backoff_jitter = 0.1, default_priority = 0, group_required = false;
ALTER TABLE fairq.queue
    ALTER COLUMN backoff_jitter SET DEFAULT 0.1, ALTER COLUMN backoff_jitter SET NOT NULL,
    ALTER COLUMN default_priority SET DEFAULT 4, ALTER COLUMN default_priority SET NOT NULL,
    ALTER COLUMN group_required SET DEFAULT false, ALTER COLUMN group_required SET NOT NULL;

-- pg_restore may load these tables before fairq.queue: an archive does not say that
-- they refer to it. So only a deletion there is looked after.
ALTER TABLE fairq.group_setting DISABLE TRIGGER ALL;
ALTER TABLE fairq.topic DISABLE TRIGGER ALL;

-- Settings of groups that say nothing have no row.
DELETE FROM fairq.group_setting s USING fairq.queue q
    WHERE q.queue OPERATOR(pg_catalog.=) s.queue AND NOT s.paused
    AND coalesce(s.weight, q.group_weight) OPERATOR(pg_catalog.=) q.group_weight
    AND coalesce(s.max_leased, q.group_max_leased) OPERATOR(pg_catalog.=) q.group_max_leased
    AND coalesce(s.rate, q.group_rate) OPERATOR(pg_catalog.=) q.group_rate
    AND coalesce(s.burst, q.group_burst) OPERATOR(pg_catalog.=) q.group_burst;

-- ---------------------------------------------------------------------------
-- Types, and the tables of queues
-- ---------------------------------------------------------------------------

-- With tables of these types, which are others'.
ALTER TYPE fairq.task ADD ATTRIBUTE expires_at pg_catalog.timestamptz CASCADE;
ALTER TYPE fairq.task_status ADD ATTRIBUTE expires_at pg_catalog.timestamptz CASCADE;
ALTER TYPE fairq.task_status ADD ATTRIBUTE lease pg_catalog.interval CASCADE;

-- The view of all done tasks has the name that the table of a queue "tasks" would have.
DO $$
BEGIN
    IF pg_catalog.to_regclass('fairq.done_tasks') IS NOT NULL THEN
        ALTER TABLE fairq.done_tasks RENAME TO tasks_done;
        UPDATE fairq.queue SET keep_done = NULL WHERE queue OPERATOR(pg_catalog.=) 'tasks';
        RAISE WARNING 'table "fairq.done_tasks" is renamed to "fairq.tasks_done", and the queue "tasks" no longer keeps done tasks'
            USING HINT = 'The view fairq.done_tasks has this name now. To keep done tasks move them to a queue of another name.';
    END IF;
END
$$;
ALTER VIEW fairq.archived_tasks RENAME TO done_tasks;

-- One queue that cannot be updated is no reason for the others to stay behind.
\include sql/install/71_updating.sql
SELECT fairq_internal.update_queues();

\include sql/install/31_types_0_2.sql

-- ---------------------------------------------------------------------------
-- What is as in a new database
-- ---------------------------------------------------------------------------

\include sql/install/58_remembered_keys.sql
\include sql/install/59_dependencies.sql
\include sql/install/40_queues.sql
\include sql/install/45_groups.sql
\include sql/install/50_producing.sql
\include sql/install/55_topics.sql
\include sql/install/60_consuming.sql
\include sql/install/65_sessions.sql
\include sql/install/66_nodes.sql

\include sql/install/67_node_numbers.sql
\include sql/install/67_front.sql
\include sql/install/68_schedules.sql
\include sql/install/69_definitions.sql
\include sql/install/70_looking.sql
\include sql/install/73_moving.sql
\include sql/install/74_moving_schedules.sql
\include sql/install/80_views.sql
\include sql/install/84_internal_functions.sql
\include sql/install/90_comments.sql

-- A view that is new.
GRANT SELECT ON fairq.dependencies TO PUBLIC;

SELECT fairq_internal.retire('fairq.stats_of_queues_0_1()');
SELECT fairq_internal.retire('fairq.stats_of_groups_0_1()');
SELECT fairq_internal.retire('fairq.done_of_queues_0_1()');
DROP FUNCTION fairq_internal.retire(regprocedure);
