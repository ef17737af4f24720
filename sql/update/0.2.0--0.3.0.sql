\echo Use "ALTER EXTENSION pgfairq UPDATE" to load this file. \quit

-- From 0.2.0 to 0.3.0. compose.awk puts the functions, views and comments of the install
-- script in the place of the line that begins with \replace.

-- ---------------------------------------------------------------------------
-- What changes its arguments or columns goes first
-- ---------------------------------------------------------------------------

DROP FUNCTION fairq.create_queue;
DROP FUNCTION fairq.alter_queue;
DROP FUNCTION fairq.enqueue;
DROP FUNCTION fairq.enqueue_many;
DROP FUNCTION fairq.publish;
DROP FUNCTION fairq.schedule;
DROP FUNCTION fairq.tasks;

-- Functions that views read, until these are replaced: their columns may change.
ALTER FUNCTION fairq_internal.stats_of_queues RENAME TO stats_of_queues_0_2;
ALTER FUNCTION fairq_internal.stats_of_groups RENAME TO stats_of_groups_0_2;
ALTER FUNCTION fairq_internal.stats_of_buckets RENAME TO stats_of_buckets_0_2;
ALTER FUNCTION fairq_internal.live_leases RENAME TO live_leases_0_2;
ALTER FUNCTION fairq_internal.open_sessions RENAME TO open_sessions_0_2;
ALTER FUNCTION fairq_internal.dead_of_queues RENAME TO dead_of_queues_0_2;
ALTER FUNCTION fairq_internal.done_of_queues RENAME TO done_of_queues_0_2;

-- ---------------------------------------------------------------------------
-- Tables and types, and the tables of queues
-- ---------------------------------------------------------------------------

ALTER TABLE fairq.queue ADD COLUMN max_lost pg_catalog.int4 NOT NULL DEFAULT 5;
ALTER TABLE fairq.schedule ADD COLUMN task_name pg_catalog.text;

ALTER TYPE fairq.task ADD ATTRIBUTE name pg_catalog.text;
ALTER TYPE fairq.queue_task ADD ATTRIBUTE name pg_catalog.text;
ALTER TYPE fairq.task_status
    ADD ATTRIBUTE name pg_catalog.text,
    ADD ATTRIBUTE lost pg_catalog.int4,
    ADD ATTRIBUTE max_lost pg_catalog.int4,
    ADD ATTRIBUTE history pg_catalog.jsonb;
ALTER TYPE fairq.task_done
    ADD ATTRIBUTE name pg_catalog.text,
    ADD ATTRIBUTE lost pg_catalog.int4,
    ADD ATTRIBUTE history pg_catalog.jsonb;

-- One queue that cannot be updated is no reason for the others to stay behind.
\include sql/install/71_updating.sql
SELECT fairq_internal.update_queues();

-- ---------------------------------------------------------------------------
-- What is as in a new database
-- ---------------------------------------------------------------------------

\replace sql/pgfairq--0.3.0.sql

DROP FUNCTION fairq_internal.stats_of_queues_0_2;
DROP FUNCTION fairq_internal.stats_of_groups_0_2;
DROP FUNCTION fairq_internal.stats_of_buckets_0_2;
DROP FUNCTION fairq_internal.live_leases_0_2;
DROP FUNCTION fairq_internal.open_sessions_0_2;
DROP FUNCTION fairq_internal.dead_of_queues_0_2;
DROP FUNCTION fairq_internal.done_of_queues_0_2;

GRANT SELECT ON fairq.queue_histograms TO PUBLIC;

\include sql/install/84_internal_functions.sql
