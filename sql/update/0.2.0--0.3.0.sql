\echo Use "ALTER EXTENSION pgfairq UPDATE" to load this file. \quit

-- From 0.2.0 to 0.3.0. compose.awk puts the functions, views and comments of the install
-- script in the place of the line that begins with \replace.

-- ---------------------------------------------------------------------------
-- What changes its arguments or columns goes first
-- ---------------------------------------------------------------------------

\include sql/update/retire.sql
SELECT fairq_internal.retire(oid, '0.2.0') FROM pg_catalog.pg_proc
    WHERE pronamespace OPERATOR(pg_catalog.=) 'fairq'::pg_catalog.regnamespace
    AND proname OPERATOR(pg_catalog.=) ANY ('{create_queue,alter_queue,enqueue,enqueue_many,publish,schedule,tasks,set_node}'::pg_catalog.name[]);

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

-- Not with the column, for any role may have a table with a column of this row type.
ALTER TABLE fairq.queue ADD COLUMN max_lost pg_catalog.int4;
UPDATE fairq.queue SET max_lost = 5;
ALTER TABLE fairq.queue ALTER COLUMN max_lost SET DEFAULT 5, ALTER COLUMN max_lost SET NOT NULL;
ALTER TABLE fairq.queue ADD COLUMN class_weights pg_catalog.float8[];
ALTER TABLE fairq.queue
    ADD COLUMN subgroups pg_catalog.bool, ADD COLUMN subgroup_weight pg_catalog.float4,
    ADD COLUMN subgroup_max_leased pg_catalog.int4, ADD COLUMN subgroup_rate pg_catalog.float4,
    ADD COLUMN subgroup_burst pg_catalog.int4;
UPDATE fairq.queue SET subgroups = false, subgroup_weight = 1, subgroup_max_leased = 0,
    subgroup_rate = 0, subgroup_burst = 0;
ALTER TABLE fairq.queue
    ALTER COLUMN subgroups SET DEFAULT false, ALTER COLUMN subgroups SET NOT NULL,
    ALTER COLUMN subgroup_weight SET DEFAULT 1, ALTER COLUMN subgroup_weight SET NOT NULL,
    ALTER COLUMN subgroup_max_leased SET DEFAULT 0, ALTER COLUMN subgroup_max_leased SET NOT NULL,
    ALTER COLUMN subgroup_rate SET DEFAULT 0, ALTER COLUMN subgroup_rate SET NOT NULL,
    ALTER COLUMN subgroup_burst SET DEFAULT 0, ALTER COLUMN subgroup_burst SET NOT NULL;
ALTER TABLE fairq.schedule
    ADD COLUMN task_name pg_catalog.text, ADD COLUMN subgroup_key pg_catalog.text;
ALTER TABLE fairq.group_setting ADD COLUMN subgroup_key pg_catalog.text COLLATE pg_catalog."C";
ALTER TABLE fairq.group_setting DROP CONSTRAINT group_setting_pkey;
ALTER TABLE fairq.group_setting
    ADD CONSTRAINT group_setting_key UNIQUE NULLS NOT DISTINCT (queue, group_key, subgroup_key);
ALTER TABLE fairq.group_setting REPLICA IDENTITY FULL;
ALTER TABLE fairq_internal.node ADD COLUMN membership pg_catalog.text NOT NULL DEFAULT 'alone'
    CHECK (membership OPERATOR(pg_catalog.=) ANY ('{alone,active,draining,dropped}'::pg_catalog.text[]));
\include sql/install/72_id_lineage.sql
INSERT INTO fairq_internal.id_lineage (queue) SELECT queue FROM fairq.queue;

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

-- One queue that cannot be updated is no reason for the others to stay behind.
\include sql/install/71_updating.sql
SELECT fairq_internal.update_queues();

-- ---------------------------------------------------------------------------
-- What is as in a new database
-- ---------------------------------------------------------------------------

\replace sql/pgfairq--0.3.0.sql

SELECT fairq_internal.retire('fairq_internal.stats_of_queues_0_2'::pg_catalog.regproc, '0.2.0');
SELECT fairq_internal.retire('fairq_internal.stats_of_groups_0_2'::pg_catalog.regproc, '0.2.0');
SELECT fairq_internal.retire('fairq_internal.stats_of_buckets_0_2'::pg_catalog.regproc, '0.2.0');
SELECT fairq_internal.retire('fairq_internal.live_leases_0_2'::pg_catalog.regproc, '0.2.0');
SELECT fairq_internal.retire('fairq_internal.open_sessions_0_2'::pg_catalog.regproc, '0.2.0');
SELECT fairq_internal.retire('fairq_internal.dead_of_queues_0_2'::pg_catalog.regproc, '0.2.0');
SELECT fairq_internal.retire('fairq_internal.done_of_queues_0_2'::pg_catalog.regproc, '0.2.0');

DROP FUNCTION fairq_internal.retire;
GRANT SELECT ON fairq.queue_histograms, fairq.name_stats, fairq.name_histograms,
    fairq.subgroup_stats, fairq.subgroup_settings TO PUBLIC;

\include sql/install/84_internal_functions.sql
