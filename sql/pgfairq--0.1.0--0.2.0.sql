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
-- Give the tables of a queue that was made by an earlier version what this one needs.
-- Repeatable. What an owner has done to a table may make it fail, and the table may be
-- locked: then this queue waits for it, and not the update of the extension.
CREATE OR REPLACE FUNCTION fairq_internal.update_queue(name text)
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '2s'
AS $$
DECLARE
    queue_table regclass := to_regclass(format('fairq.%I', 'q_' || name));
    done_table regclass := (SELECT a.oid FROM pg_class a JOIN pg_class q ON q.relowner = a.relowner
        WHERE a.oid = to_regclass(format('fairq.%I', 'done_' || name)) AND a.relkind = 'r' AND q.oid = queue_table);
BEGIN
    EXECUTE format('ALTER TABLE %s ADD COLUMN IF NOT EXISTS expires_at timestamptz', queue_table);
    IF (SELECT atttypid FROM pg_attribute WHERE attrelid = queue_table AND attname = 'expires_at') <> 'timestamptz'::regtype THEN
        RAISE EXCEPTION 'column "expires_at" of table %, of the owner''s making, has another type', queue_table
            USING ERRCODE = 'invalid_table_definition';
    END IF;
    IF to_regclass(format('fairq.%I', 'expiry_of_' || name)) IS NULL THEN
        EXECUTE format('CREATE INDEX %I ON %s USING btree (expires_at)'
            ' WHERE expires_at IS NOT NULL AND state <> %L', 'expiry_of_' || name, queue_table, 'd');
    END IF;
    IF done_table IS NULL THEN
        RETURN;
    END IF;
    IF EXISTS (SELECT FROM pg_constraint WHERE conrelid = done_table AND conname = 'archived_of_' || name) THEN
        EXECUTE format('ALTER TABLE %s RENAME CONSTRAINT %I TO %I', done_table, 'archived_of_' || name, 'when_done_of_' || name);
    END IF;
    -- One with a column "result" of the owner's own making keeps that, and has no results.
    IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = done_table AND attname = 'result' AND NOT attisdropped) THEN
        EXECUTE format('ALTER TABLE %s ADD result jsonb', done_table);
        IF to_regclass(format('fairq.%I', 'id_done_of_' || name)) IS NULL THEN
            EXECUTE format('CREATE INDEX %I ON %s (id)', 'id_done_of_' || name, done_table);
        END IF;
    END IF;
END
$$;
REVOKE ALL ON FUNCTION fairq_internal.update_queue(text) FROM PUBLIC;

-- All queues, each by itself.
CREATE OR REPLACE FUNCTION fairq_internal.update_queues()
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    name text;
BEGIN
    FOR name IN SELECT q.queue FROM fairq.queue q
        JOIN pg_class c ON c.relname = 'q_' || q.queue AND c.relkind = 'r' AND c.relnamespace = 'fairq'::regnamespace ORDER BY 1
    LOOP
        BEGIN
            PERFORM fairq_internal.update_queue(name);
        EXCEPTION WHEN OTHERS THEN
            RAISE WARNING 'queue "%" is not updated, and cannot be used: %', name, SQLERRM
                USING ERRCODE = SQLSTATE, HINT = format('Other queues are. Undo what was done to its table, and call fairq_internal.update_queue(%L).', name);
        END;
    END LOOP;
END
$$;
REVOKE ALL ON FUNCTION fairq_internal.update_queues() FROM PUBLIC;
SELECT fairq_internal.update_queues();

-- Types that 0.1.0 lacks: the update script makes them from here.
CREATE TYPE fairq.queue_task AS (
    queue pg_catalog.text,
    id pg_catalog.int8,
    receipt pg_catalog.uuid,
    group_key pg_catalog.text,
    payload pg_catalog.jsonb,
    headers pg_catalog.jsonb,
    priority pg_catalog.int8,
    attempt pg_catalog.int4,
    enqueued_at pg_catalog.timestamptz,
    lease_until pg_catalog.timestamptz,
    address fairq.address,
    expires_at pg_catalog.timestamptz
);

CREATE TYPE fairq.outcome AS (
    state pg_catalog.text,
    result pg_catalog.jsonb,
    last_error pg_catalog.text,
    done_at pg_catalog.timestamptz
);

CREATE TYPE fairq.task_done AS (
    id pg_catalog.int8,
    enqueued_at pg_catalog.timestamptz,
    claimed_at pg_catalog.timestamptz,
    done_at pg_catalog.timestamptz,
    run_at pg_catalog.timestamptz,
    priority pg_catalog.int8,
    cost pg_catalog.float4,
    attempts pg_catalog.int4,
    outcome pg_catalog.text,
    group_key pg_catalog.text,
    payload pg_catalog.jsonb,
    headers pg_catalog.jsonb,
    unique_key pg_catalog.text,
    last_error pg_catalog.text,
    result pg_catalog.jsonb
);

-- ---------------------------------------------------------------------------
-- What is as in a new database
-- ---------------------------------------------------------------------------

-- Unique keys that are remembered for a time, of all queues. A key may have several
-- rows, of which the last counts. They go with the settings of the queue.
CREATE TABLE fairq_internal.remembered_key (
    queue pg_catalog.text COLLATE pg_catalog."C" NOT NULL REFERENCES fairq.queue ON DELETE CASCADE,
    unique_key pg_catalog.text COLLATE pg_catalog."C" NOT NULL,
    task pg_catalog.int8 NOT NULL,
    until pg_catalog.timestamptz NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05, vacuum_truncate = off);
CREATE INDEX remembered_key_by_key ON fairq_internal.remembered_key USING btree (queue, unique_key);
CREATE INDEX remembered_key_by_until ON fairq_internal.remembered_key USING btree (queue, until);
SELECT pg_catalog.pg_extension_config_dump('fairq_internal.remembered_key', '');

-- It has no primary key: a publication of all tables must not refuse a queue's end.
ALTER TABLE fairq_internal.remembered_key REPLICA IDENTITY FULL;

-- As with fairq.group_setting: only a deletion of the queue is looked after.
ALTER TABLE fairq_internal.remembered_key DISABLE TRIGGER ALL;
REVOKE ALL ON fairq_internal.remembered_key FROM PUBLIC;

CREATE OR REPLACE FUNCTION fairq_internal.remembered_key_written()
RETURNS trigger LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_remembered_key_written';

CREATE TRIGGER fairq_remembered_key_written
    AFTER INSERT OR UPDATE ON fairq_internal.remembered_key
    FOR EACH ROW EXECUTE FUNCTION fairq_internal.remembered_key_written();
ALTER TABLE fairq_internal.remembered_key ENABLE ALWAYS TRIGGER fairq_remembered_key_written;
-- Which held tasks wait for the end of which others, of all queues. Written by the engine.
-- In schema fairq, under a name before those of queues, and without a foreign key: so
-- a dump has these rows before the tasks, and no task is let run before they are there.
CREATE TABLE fairq.dependency (
    queue pg_catalog.text COLLATE pg_catalog."C" NOT NULL,
    task pg_catalog.int8 NOT NULL,
    predecessor pg_catalog.int8 NOT NULL,
    on_dead pg_catalog."char" NOT NULL,
    failed pg_catalog.bool NOT NULL DEFAULT false,
    CONSTRAINT dependency_by_predecessor PRIMARY KEY (queue, predecessor, task)
) WITH (autovacuum_vacuum_scale_factor = 0.05, vacuum_truncate = off);
CREATE INDEX dependency_by_task ON fairq.dependency USING btree (queue, task, predecessor);
SELECT pg_catalog.pg_extension_config_dump('fairq.dependency', '');
REVOKE ALL ON fairq.dependency FROM PUBLIC;

CREATE OR REPLACE FUNCTION fairq_internal.dependency_written()
RETURNS trigger LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_dependency_written';

CREATE TRIGGER fairq_dependency_written
    AFTER INSERT OR UPDATE OR DELETE ON fairq.dependency
    FOR EACH ROW EXECUTE FUNCTION fairq_internal.dependency_written();
ALTER TABLE fairq.dependency ENABLE ALWAYS TRIGGER fairq_dependency_written;
CREATE OR REPLACE FUNCTION fairq.create_queue(queue text,
    policy text DEFAULT 'fair', buckets int DEFAULT 16,
    lease interval DEFAULT '30 s', max_attempts int DEFAULT 20,
    backoff_base interval DEFAULT '1 s', backoff_max interval DEFAULT '1 h',
    max_ready bigint DEFAULT 1000000, max_ready_per_group bigint DEFAULT 10000,
    max_depth bigint DEFAULT NULL, keep_done interval DEFAULT NULL,
    durable_leases boolean DEFAULT false, charge text DEFAULT 'cost', notify boolean DEFAULT false,
    expire_after interval DEFAULT NULL,
    backoff_jitter double precision DEFAULT 0.1, default_priority bigint DEFAULT 4,
    group_required boolean DEFAULT false, if_not_exists boolean DEFAULT false)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_create_queue';

CREATE OR REPLACE FUNCTION fairq.alter_queue(queue text,
    buckets int DEFAULT NULL, lease interval DEFAULT NULL, max_attempts int DEFAULT NULL,
    backoff_base interval DEFAULT NULL, backoff_max interval DEFAULT NULL,
    max_ready bigint DEFAULT NULL, max_ready_per_group bigint DEFAULT NULL,
    max_depth bigint DEFAULT NULL, keep_done interval DEFAULT NULL,
    durable_leases boolean DEFAULT NULL, charge text DEFAULT NULL, notify boolean DEFAULT NULL,
    expire_after interval DEFAULT NULL,
    backoff_jitter double precision DEFAULT NULL, default_priority bigint DEFAULT NULL,
    group_required boolean DEFAULT NULL)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_alter_queue';

CREATE OR REPLACE FUNCTION fairq.drop_queue(queue text)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_drop_queue';

CREATE OR REPLACE FUNCTION fairq.purge(queue text)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_purge';

CREATE OR REPLACE FUNCTION fairq.purge_group(queue text, group_key text)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_purge_group';

CREATE OR REPLACE FUNCTION fairq.forget_key(queue text, unique_key text)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_forget_key';

CREATE OR REPLACE FUNCTION fairq.forget_keys(queue text)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_forget_keys';

CREATE OR REPLACE FUNCTION fairq.pause(queue text)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_pause';

CREATE OR REPLACE FUNCTION fairq.resume(queue text)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_resume';

CREATE OR REPLACE FUNCTION fairq.pause_group(queue text, group_key text)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_pause_group';

CREATE OR REPLACE FUNCTION fairq.resume_group(queue text, group_key text)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_resume_group';

CREATE OR REPLACE FUNCTION fairq.maintain(queue text)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_maintain';

CREATE OR REPLACE FUNCTION fairq_internal.row_written()
RETURNS trigger LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_row_written';
CREATE OR REPLACE FUNCTION fairq.set_group(queue text, group_key text,
    weight double precision DEFAULT NULL, max_leased int DEFAULT NULL,
    rate double precision DEFAULT NULL, burst int DEFAULT NULL)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_set_group';

CREATE OR REPLACE FUNCTION fairq.reset_group(queue text, group_key text)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_reset_group';

CREATE OR REPLACE FUNCTION fairq.set_group_defaults(queue text,
    weight double precision DEFAULT NULL, max_leased int DEFAULT NULL,
    rate double precision DEFAULT NULL, burst int DEFAULT NULL)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_set_group_defaults';
CREATE OR REPLACE FUNCTION fairq.enqueue(queue text, payload jsonb,
    group_key text DEFAULT '', priority bigint DEFAULT NULL, cost double precision DEFAULT 1,
    run_at timestamptz DEFAULT NULL,
    unique_key text DEFAULT NULL, on_duplicate text DEFAULT 'keep',
    max_attempts int DEFAULT NULL, lease interval DEFAULT NULL, headers jsonb DEFAULT NULL,
    expires_at timestamptz DEFAULT NULL, unique_for interval DEFAULT NULL,
    delay interval DEFAULT NULL, after bigint[] DEFAULT NULL, on_dead text DEFAULT 'hold')
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_enqueue';

CREATE OR REPLACE FUNCTION fairq.enqueue_many(queue text, payloads jsonb[],
    group_keys text[] DEFAULT NULL, priorities bigint[] DEFAULT NULL,
    costs double precision[] DEFAULT NULL, run_ats timestamptz[] DEFAULT NULL,
    unique_keys text[] DEFAULT NULL, on_duplicate text DEFAULT 'keep',
    unique_for interval DEFAULT NULL)
RETURNS bigint[] LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_enqueue_many';
CREATE OR REPLACE FUNCTION fairq.subscribe(topic text, queue text)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_subscribe';

CREATE OR REPLACE FUNCTION fairq.unsubscribe(topic text, queue text)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_unsubscribe';

CREATE OR REPLACE FUNCTION fairq.publish(topic text, payload jsonb,
    group_key text DEFAULT '', priority bigint DEFAULT NULL, cost double precision DEFAULT 1,
    run_at timestamptz DEFAULT NULL, unique_key text DEFAULT NULL, on_duplicate text DEFAULT 'keep',
    max_attempts int DEFAULT NULL, lease interval DEFAULT NULL, headers jsonb DEFAULT NULL,
    expires_at timestamptz DEFAULT NULL, unique_for interval DEFAULT NULL,
    delay interval DEFAULT NULL)
RETURNS int LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_publish';
CREATE OR REPLACE FUNCTION fairq.claim(queue text, max_tasks int DEFAULT 1,
    lease interval DEFAULT NULL, session uuid DEFAULT NULL, wait interval DEFAULT '0',
    buckets int[] DEFAULT NULL, group_keys text[] DEFAULT NULL)
RETURNS SETOF fairq.task LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_claim';

CREATE OR REPLACE FUNCTION fairq.claim_any(queues text[], max_tasks int DEFAULT 1,
    lease interval DEFAULT NULL, session uuid DEFAULT NULL, wait interval DEFAULT '0')
RETURNS SETOF fairq.queue_task LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_claim_any';

CREATE OR REPLACE FUNCTION fairq.ack(receipt uuid, result jsonb DEFAULT NULL)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_ack';

CREATE OR REPLACE FUNCTION fairq.ack_many(receipts uuid[])
RETURNS SETOF uuid LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_ack_many';

CREATE OR REPLACE FUNCTION fairq.ack_and_claim(queue text, receipts uuid[], max_tasks int DEFAULT 1,
    lease interval DEFAULT NULL, session uuid DEFAULT NULL, wait interval DEFAULT '0')
RETURNS SETOF fairq.task LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_ack_and_claim';

CREATE OR REPLACE FUNCTION fairq.nack(receipt uuid, error text DEFAULT NULL, delay interval DEFAULT NULL,
    final boolean DEFAULT false)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_nack';

CREATE OR REPLACE FUNCTION fairq.nack_many(receipts uuid[], errors text[] DEFAULT NULL, delay interval DEFAULT NULL,
    final boolean DEFAULT false)
RETURNS SETOF uuid LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_nack_many';

CREATE OR REPLACE FUNCTION fairq.set_progress(receipt uuid, progress jsonb)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_set_progress';

CREATE OR REPLACE FUNCTION fairq.extend(receipt uuid, lease interval DEFAULT NULL)
RETURNS timestamptz LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_extend';

CREATE OR REPLACE FUNCTION fairq.extend_many(receipts uuid[], lease interval DEFAULT NULL)
RETURNS SETOF uuid LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_extend_many';

CREATE OR REPLACE FUNCTION fairq.release(receipt uuid, delay interval DEFAULT '0')
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_release';

CREATE OR REPLACE FUNCTION fairq.release_many(receipts uuid[], delay interval DEFAULT '0')
RETURNS SETOF uuid LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_release_many';

CREATE OR REPLACE FUNCTION fairq.pop(queue text, max_tasks int DEFAULT 1, wait interval DEFAULT '0',
    buckets int[] DEFAULT NULL, group_keys text[] DEFAULT NULL)
RETURNS SETOF fairq.task LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_pop';

CREATE OR REPLACE PROCEDURE fairq.wait(queue text, timeout interval DEFAULT '30 s')
LANGUAGE C
AS 'MODULE_PATHNAME', 'fairq_wait';

CREATE OR REPLACE PROCEDURE fairq.wait_any(queues text[], timeout interval DEFAULT '30 s')
LANGUAGE C
AS 'MODULE_PATHNAME', 'fairq_wait_any';

CREATE OR REPLACE FUNCTION fairq.await(queue text, id bigint, timeout interval DEFAULT '30 s')
RETURNS fairq.outcome LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_await';
CREATE OR REPLACE FUNCTION fairq.open_session(name text DEFAULT NULL, ttl interval DEFAULT '10 s', bound boolean DEFAULT false)
RETURNS uuid LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_open_session';

CREATE OR REPLACE FUNCTION fairq.heartbeat(session uuid)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_heartbeat';

CREATE OR REPLACE FUNCTION fairq.close_session(session uuid)
RETURNS int LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_close_session';

CREATE OR REPLACE FUNCTION fairq.my_buckets(queue text, session uuid)
RETURNS int[] LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_my_buckets';

CREATE OR REPLACE FUNCTION fairq_internal.open_sessions(
    OUT session uuid, OUT name text, OUT role regrole, OUT opened_at timestamptz,
    OUT ttl interval, OUT alive_until timestamptz, OUT bound boolean, OUT pid int, OUT leases int)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_open_sessions';
-- The number of this database as a node: at most one row; none means 0.
CREATE TABLE fairq_internal.node (
    number pg_catalog.int4 NOT NULL CHECK (number OPERATOR(pg_catalog.>=) 0 AND number OPERATOR(pg_catalog.<=) 32767),
    single pg_catalog.bool NOT NULL DEFAULT true PRIMARY KEY CHECK (single)
);
SELECT pg_catalog.pg_extension_config_dump('fairq_internal.node', '');
REVOKE ALL ON fairq_internal.node FROM PUBLIC;

CREATE FUNCTION fairq_internal.node_written()
RETURNS trigger LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_node_written';

CREATE TRIGGER fairq_node_written
    AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON fairq_internal.node
    FOR EACH STATEMENT EXECUTE FUNCTION fairq_internal.node_written();
ALTER TABLE fairq_internal.node ENABLE ALWAYS TRIGGER fairq_node_written;

CREATE FUNCTION fairq.set_node(node int)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_set_node';

CREATE FUNCTION fairq.this_node()
RETURNS int LANGUAGE C STABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'fairq_this_node';

CREATE FUNCTION fairq.node_of_id(id bigint)
RETURNS int LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'fairq_node_of_id';

CREATE FUNCTION fairq.node_of_receipt(receipt uuid)
RETURNS int LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'fairq_node_of_uuid';

CREATE FUNCTION fairq.node_of_session(session uuid)
RETURNS int LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'fairq_node_of_uuid';
CREATE TYPE fairq.class_front AS (
    class pg_catalog.int4,
    ready pg_catalog.int8,
    waiting pg_catalog.int4,
    front pg_catalog.numeric,
    floor pg_catalog.numeric
);

CREATE FUNCTION fairq.front(queue text)
RETURNS SETOF fairq.class_front LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1
AS 'MODULE_PATHNAME', 'fairq_front';

CREATE FUNCTION fairq.raise_floor(queue text, class int, block numeric)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_raise_floor';

-- As fairq.wait_any, for a proxy, through which only a SELECT gets.
CREATE FUNCTION fairq_internal.wait_ready(queues text[], timeout interval DEFAULT '1 s')
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_wait_ready';
-- The schedules: what is enqueued, when, and as whom. No index but that on names, and half
-- of each page free: a tick writes a heap-only tuple.
CREATE TABLE fairq.schedule (
    name pg_catalog.text COLLATE pg_catalog."C" NOT NULL PRIMARY KEY,
    queue pg_catalog.text COLLATE pg_catalog."C" NOT NULL,
    owner pg_catalog.text COLLATE pg_catalog."C" NOT NULL,
    owner_oid pg_catalog.oid NOT NULL,
    cron pg_catalog.text NOT NULL,
    timezone pg_catalog.text NOT NULL,
    payload pg_catalog.jsonb NOT NULL,
    group_key pg_catalog.text NOT NULL,
    priority pg_catalog.int8,
    cost pg_catalog.float8 NOT NULL,
    headers pg_catalog.jsonb,
    catch_up pg_catalog.text NOT NULL,
    overlap pg_catalog.bool NOT NULL,
    active pg_catalog.bool NOT NULL,
    anchor pg_catalog.timestamptz NOT NULL,
    next_run pg_catalog.timestamptz,
    last_run pg_catalog.timestamptz,
    last_task pg_catalog.int8,
    skipped pg_catalog.int8 NOT NULL DEFAULT 0,
    failures pg_catalog.int4 NOT NULL DEFAULT 0,
    last_error pg_catalog.text,
    last_error_at pg_catalog.timestamptz
) WITH (fillfactor = 50, toast_tuple_target = 256);
SELECT pg_catalog.pg_extension_config_dump('fairq.schedule', '');
REVOKE ALL ON fairq.schedule FROM PUBLIC;

CREATE OR REPLACE FUNCTION fairq_internal.schedule_written()
RETURNS trigger LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_schedule_written';

CREATE OR REPLACE FUNCTION fairq_internal.schedule_inserted()
RETURNS trigger LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_schedule_inserted';

CREATE TRIGGER fairq_schedule_inserted
    BEFORE INSERT ON fairq.schedule
    FOR EACH ROW EXECUTE FUNCTION fairq_internal.schedule_inserted();
ALTER TABLE fairq.schedule ENABLE ALWAYS TRIGGER fairq_schedule_inserted;

CREATE TRIGGER fairq_schedule_written
    AFTER INSERT OR UPDATE OF queue, cron, timezone, active ON fairq.schedule
    FOR EACH STATEMENT EXECUTE FUNCTION fairq_internal.schedule_written();
ALTER TABLE fairq.schedule ENABLE ALWAYS TRIGGER fairq_schedule_written;

CREATE OR REPLACE FUNCTION fairq.schedule(name text, queue text, cron text, payload jsonb DEFAULT '{}',
    group_key text DEFAULT '', priority bigint DEFAULT NULL, cost double precision DEFAULT 1,
    headers jsonb DEFAULT NULL, timezone text DEFAULT 'UTC', catch_up text DEFAULT 'one',
    overlap boolean DEFAULT false, active boolean DEFAULT true)
RETURNS timestamptz LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_schedule';

CREATE OR REPLACE FUNCTION fairq.unschedule(name text)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_unschedule';

CREATE OR REPLACE FUNCTION fairq_internal.cron_next(cron text, timezone text, after timestamptz, anchor timestamptz)
RETURNS timestamptz LANGUAGE C STABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'fairq_cron_next';

CREATE OR REPLACE FUNCTION fairq_internal.schedule_owner(owner text, owner_oid oid)
RETURNS oid LANGUAGE C STABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'fairq_schedule_owner';

-- What a task carries is for who could enqueue it, not for pg_monitor.
CREATE OR REPLACE VIEW fairq.schedules WITH (security_barrier) AS
SELECT s.name, s.queue,
    COALESCE(pg_catalog.pg_get_userbyid(o.oid), s.owner)::pg_catalog.text AS owner,
    s.cron, s.timezone, s.catch_up, s.overlap, s.active,
    s.next_run, s.last_run, s.last_task, s.skipped, s.failures, s.last_error, s.last_error_at,
    s.group_key, s.priority, s.cost,
    CASE WHEN m.member THEN s.payload END AS payload,
    CASE WHEN m.member THEN s.headers END AS headers
FROM fairq.schedule s
CROSS JOIN LATERAL (SELECT fairq_internal.schedule_owner(s.owner, s.owner_oid) AS oid) o
CROSS JOIN LATERAL (SELECT COALESCE(pg_catalog.pg_has_role(o.oid, 'USAGE'),
    pg_catalog.pg_has_role('pg_read_all_data', 'USAGE')) AS member) m
WHERE m.member OR pg_catalog.pg_has_role('pg_monitor', 'USAGE');
GRANT SELECT ON fairq.schedules TO PUBLIC;
-- What queues are, as a proxy copies it to another node: settings, owner, what others may
-- do with the tables, settings of groups, topics. For who may read all of these.
CREATE OR REPLACE FUNCTION fairq_internal.queue_definitions(OUT queue text, OUT definition jsonb)
RETURNS SETOF record LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET intervalstyle = 'postgres'
AS $$
    SELECT q.queue, jsonb_build_object(
        'settings', to_jsonb(q) - 'queue',
        'owner', pg_get_userbyid(c.relowner),
        'grants', coalesce((
            SELECT jsonb_agg(g.grant ORDER BY g.grant)
            FROM unnest('{q_,done_,ids_of_}'::text[]) AS prefix
            JOIN pg_class r ON r.relname = prefix || q.queue AND r.relnamespace = c.relnamespace AND r.relowner = c.relowner
            CROSS JOIN aclexplode(r.relacl) AS a
            CROSS JOIN LATERAL (SELECT jsonb_build_object('prefix', prefix, 'privilege', a.privilege_type,
                'grantable', a.is_grantable, 'role', CASE WHEN a.grantee <> 0 THEN pg_get_userbyid(a.grantee) END) AS grant) g
            WHERE a.grantee <> r.relowner), '[]'),
        'groups', coalesce((
            SELECT jsonb_object_agg(s.group_key, to_jsonb(s) - '{queue,group_key}'::text[])
            FROM fairq.group_setting s WHERE s.queue = q.queue), '{}'),
        'topics', coalesce((
            SELECT jsonb_agg(t.topic ORDER BY t.topic) FROM fairq.topic t WHERE t.queue = q.queue), '[]'))
    FROM fairq.queue q
    JOIN pg_class c ON c.relname = 'q_' || q.queue AND c.relkind = 'r'
    WHERE c.relnamespace = 'fairq'::regnamespace
$$;

-- Make a queue what a definition says: the whole queue if there is none, and else the
-- groups' settings and topics that it lacks; with anew all but its policy, and nothing
-- more than that but grants. Everything is done as the caller. Settings that this version
-- does not have are left out.
CREATE OR REPLACE FUNCTION fairq_internal.define_queue(name text, definition jsonb, anew boolean)
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    s jsonb := definition -> 'settings';
    role text;
    creates boolean := NOT EXISTS (SELECT FROM fairq.queue q WHERE q.queue = name);
    g record;
BEGIN
    FOR role IN
        SELECT definition ->> 'owner' UNION SELECT r ->> 'role' FROM jsonb_array_elements(definition -> 'grants') r
    LOOP
        CONTINUE WHEN role IS NULL OR EXISTS (SELECT FROM pg_roles WHERE rolname = role);
        RAISE EXCEPTION 'role "%" does not exist', role
            USING ERRCODE = 'undefined_object', DETAIL = format('Queue "%s" is of that role, or granted to it.', name),
            HINT = 'Create the role at this node, and try again.';
    END LOOP;
    IF creates OR anew THEN
        EXECUTE (SELECT format('SELECT fairq.%I(%L', f, name) || (
            SELECT coalesce(string_agg(format(', %I => %L', key, coalesce(value, '0')), ''), '') || ')' FROM jsonb_each_text(s)
            WHERE (value IS NOT NULL OR NOT creates) AND key = ANY ((SELECT p.proargnames FROM pg_proc p
                WHERE p.pronamespace = 'fairq'::regnamespace AND p.proname = f)::text[]))
            FROM (VALUES (CASE WHEN creates THEN 'create_queue' ELSE 'alter_queue' END)) v(f));
        PERFORM fairq.set_group_defaults(name, (s ->> 'group_weight')::float8, (s ->> 'group_max_leased')::int,
            (s ->> 'group_rate')::float8, (s ->> 'group_burst')::int);
        IF (s ->> 'paused')::boolean THEN
            PERFORM fairq.pause(name);
        ELSIF anew THEN
            PERFORM fairq.resume(name);
        END IF;
    END IF;
    IF anew THEN
        PERFORM fairq.reset_group(name, o.group_key) FROM fairq.group_setting o
            WHERE o.queue = name AND definition -> 'groups' -> o.group_key IS DISTINCT FROM to_jsonb(o) - '{queue,group_key}'::text[];
        PERFORM fairq.unsubscribe(o.topic, name) FROM fairq.topic o WHERE o.queue = name AND NOT definition -> 'topics' ? o.topic;
    END IF;
    FOR g IN
        SELECT d.key, d.value AS v FROM jsonb_each(definition -> 'groups') d
        WHERE NOT EXISTS (SELECT FROM fairq.group_setting o WHERE o.queue = name AND o.group_key = d.key)
    LOOP
        PERFORM fairq.set_group(name, g.key, (g.v ->> 'weight')::float8, (g.v ->> 'max_leased')::int,
            (g.v ->> 'rate')::float8, (g.v ->> 'burst')::int);
        IF (g.v ->> 'paused')::boolean THEN
            PERFORM fairq.pause_group(name, g.key);
        END IF;
    END LOOP;
    PERFORM fairq.subscribe(t, name) FROM jsonb_array_elements_text(definition -> 'topics') t
        WHERE NOT EXISTS (SELECT FROM fairq.topic o WHERE o.queue = name AND o.topic = t);
    PERFORM fairq_internal.give_queue(name, definition ->> 'owner', definition -> 'grants');
END
$$;

-- Give the tables of a queue to a role, and others what is granted to them. A definition
-- is what another node says, and that may be anybody's: nothing of it becomes SQL. And a
-- table is not given from one role to another, as which the first would run code that it
-- has attached: but a superuser, the caller, and who may act as the other gives it.
CREATE OR REPLACE FUNCTION fairq_internal.give_queue(name text, owner text, grants jsonb)
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    r record;
BEGIN
    FOR r IN
        SELECT c.oid::regclass AS relation, c.relowner FROM pg_class c
        WHERE c.relnamespace = 'fairq'::regnamespace AND c.relkind = 'r'
        AND c.relname IN ('q_' || name, 'done_' || name) AND c.relowner::regrole <> quote_ident(owner)::regrole
    LOOP
        IF r.relowner <> current_user::regrole AND NOT pg_has_role(r.relowner, quote_ident(owner)::regrole, 'MEMBER') THEN
            RAISE EXCEPTION 'table "%" belongs to role "%", and is not given to role "%"', r.relation, pg_get_userbyid(r.relowner), owner
                USING ERRCODE = 'insufficient_privilege', HINT = 'If it is to be, use ALTER TABLE: code that is attached to the table runs as the new owner then.';
        END IF;
        EXECUTE format('ALTER TABLE %s OWNER TO %I', r.relation, owner);
    END LOOP;
    FOR r IN SELECT g.value FROM jsonb_array_elements(grants) g
        WHERE g.value ->> 'prefix' IN ('q_', 'done_', 'ids_of_') IS NOT TRUE OR g.value ->> 'privilege'
            IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER', 'MAINTAIN', 'USAGE') IS NOT TRUE
    LOOP
        RAISE EXCEPTION 'invalid grant in the definition of queue "%": %', name, left(r.value::text, 200)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'See what is at the node that says so: it may be hostile.';
    END LOOP;
    FOR r IN
        SELECT c.oid::regclass AS relation, c.relkind, g ->> 'privilege' AS privilege, g ->> 'role' AS role, (g ->> 'grantable')::boolean AS grantable
        FROM jsonb_array_elements(grants) g
        JOIN pg_class c ON c.relname = (g ->> 'prefix') || name AND c.relnamespace = 'fairq'::regnamespace
    LOOP
        EXECUTE format('GRANT %s ON %s %s TO %s%s', r.privilege, CASE r.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, r.relation,
            coalesce(quote_ident(r.role), 'PUBLIC'), CASE WHEN r.grantable THEN ' WITH GRANT OPTION' ELSE '' END);
    END LOOP;
END
$$;
CREATE OR REPLACE FUNCTION fairq.peek(queue text, max_tasks int DEFAULT 10)
RETURNS SETOF fairq.task LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_peek';

CREATE OR REPLACE FUNCTION fairq.get_task(queue text, id bigint)
RETURNS SETOF fairq.task_status LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1
AS 'MODULE_PATHNAME', 'fairq_get_task';

CREATE OR REPLACE FUNCTION fairq.tasks(queue text, state text DEFAULT NULL, group_key text DEFAULT NULL)
RETURNS SETOF fairq.task_status LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1000
AS 'MODULE_PATHNAME', 'fairq_tasks';

CREATE OR REPLACE FUNCTION fairq.get_task_by_key(queue text, unique_key text)
RETURNS SETOF fairq.task_status LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1
AS 'MODULE_PATHNAME', 'fairq_get_task_by_key';

CREATE OR REPLACE FUNCTION fairq.get_done_task(queue text, id bigint, done_at timestamptz DEFAULT NULL)
RETURNS SETOF fairq.task_done LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1
AS 'MODULE_PATHNAME', 'fairq_get_done_task';

-- A part of a queue or of its archive that takes as long however many there are: for pages of
-- the dashboard, each of which begins where the one before has ended.
CREATE OR REPLACE FUNCTION fairq_internal.tasks_page(queue text, after_id bigint, max_rows int, max_tasks int,
    state text, group_key text, OUT ids bigint[], OUT last_id bigint)
RETURNS record LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_tasks_page';

CREATE OR REPLACE FUNCTION fairq_internal.done_page(queue text, before timestamptz, before_id bigint, max_rows int, max_tasks int,
    outcome text, group_key text, OUT ids bigint[], OUT times timestamptz[], OUT last_time timestamptz, OUT last_id bigint)
RETURNS record LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_done_page';

CREATE OR REPLACE FUNCTION fairq.cancel(queue text, id bigint)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cancel';

CREATE OR REPLACE FUNCTION fairq.revive(queue text, id bigint)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_revive';

CREATE OR REPLACE FUNCTION fairq.revive_group(queue text, group_key text)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_revive_group';

CREATE OR REPLACE FUNCTION fairq.revive_all(queue text)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_revive_all';

CREATE OR REPLACE FUNCTION fairq_internal.stats_of_queues(
    OUT queue text, OUT ready bigint, OUT leased bigint, OUT scheduled bigint,
    OUT overflow bigint, OUT held bigint, OUT dead bigint, OUT oldest_ready_age interval,
    OUT enqueued bigint, OUT claimed bigint, OUT acked bigint, OUT nacked bigint,
    OUT released bigint, OUT expired bigint, OUT cancelled bigint, OUT dead_total bigint,
    OUT swept bigint,
    OUT enqueue_rate float8, OUT claim_rate float8, OUT ack_rate float8,
    OUT wait_p50 interval, OUT wait_p95 interval, OUT wait_p99 interval,
    OUT run_p50 interval, OUT run_p95 interval, OUT run_p99 interval,
    OUT payload_avg bigint, OUT payload_p50 bigint, OUT payload_p95 bigint, OUT payload_max bigint,
    OUT stats_reset timestamptz, OUT expired_tasks bigint, OUT deduplicated bigint, OUT snoozed bigint)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_stats_of_queues';

CREATE OR REPLACE FUNCTION fairq.reset_stats(queue text)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_reset_stats';

CREATE OR REPLACE FUNCTION fairq_internal.stats_of_buckets(
    OUT queue text, OUT bucket int, OUT class int, OUT ready bigint, OUT complete boolean,
    OUT next_address fairq.address, OUT frontier fairq.address)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 100
AS 'MODULE_PATHNAME', 'fairq_stats_of_buckets';

CREATE OR REPLACE FUNCTION fairq_internal.stats_of_groups(
    OUT queue text, OUT group_key text, OUT ready bigint, OUT overflow bigint, OUT leased bigint,
    OUT weight real, OUT max_leased int, OUT rate real, OUT burst int, OUT tokens float8, OUT paused boolean,
    OUT served bigint, OUT served_cost float8, OUT share float8, OUT expected_share float8, OUT share_error float8,
    OUT oldest_wait interval, OUT run_time interval, OUT all_served_cost float8)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 100
AS 'MODULE_PATHNAME', 'fairq_stats_of_groups';

CREATE OR REPLACE FUNCTION fairq.get_task_position(queue text, id bigint)
RETURNS fairq.task_position LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_get_task_position';

CREATE OR REPLACE FUNCTION fairq_internal.live_leases(
    OUT queue text, OUT id bigint, OUT receipt uuid, OUT lease_until timestamptz,
    OUT attempt int, OUT state text, OUT pid int)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 100
AS 'MODULE_PATHNAME', 'fairq_live_leases';

CREATE OR REPLACE FUNCTION fairq_internal.done_of_queues(
    OUT queue text, OUT id bigint, OUT enqueued_at timestamptz, OUT claimed_at timestamptz, OUT done_at timestamptz,
    OUT run_at timestamptz, OUT priority bigint, OUT cost real, OUT attempts int, OUT outcome text, OUT group_key text,
    OUT payload jsonb, OUT headers jsonb, OUT unique_key text, OUT last_error text, OUT result jsonb)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1000
AS 'MODULE_PATHNAME', 'fairq_done_of_queues';

-- All dead tasks of the queues that the caller may read.
CREATE OR REPLACE FUNCTION fairq_internal.dead_of_queues(
    OUT queue text, OUT id bigint, OUT group_key text, OUT payload jsonb, OUT headers jsonb,
    OUT priority bigint, OUT attempts int, OUT enqueued_at timestamptz, OUT last_error text)
RETURNS SETOF record LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    name text;
BEGIN
    FOR name IN SELECT q.queue FROM fairq.queue q
                JOIN pg_catalog.pg_class c ON c.relname = 'q_' || q.queue
                WHERE c.relnamespace = 'fairq'::pg_catalog.regnamespace
                AND pg_catalog.has_table_privilege(c.oid, 'SELECT')
                ORDER BY q.queue
    LOOP
        -- An owner who has made the table unfit, has it locked, or has row security
        -- or code on it that fails, does not keep us from the others'.
        BEGIN
            EXECUTE pg_catalog.format('LOCK TABLE ONLY fairq.%I IN ACCESS SHARE MODE NOWAIT', 'q_' || name);
            RETURN QUERY SELECT name, t.id, t.group_key, t.payload, t.headers,
                t.priority, t.attempts, t.enqueued_at, t.last_error
                FROM fairq.tasks(name, 'dead'::pg_catalog.text, NULL::pg_catalog.text) t; -- no other function's arguments
        EXCEPTION WHEN invalid_table_definition OR insufficient_privilege OR configuration_limit_exceeded OR lock_not_available THEN
            NULL;
        WHEN OTHERS THEN
            RAISE WARNING 'dead tasks of queue "%" are left out: %', name, SQLERRM USING ERRCODE = SQLSTATE;
        END;
    END LOOP;
END
$$;
-- Tasks that leave for another node. A task is taken out of its queue and written here in
-- one transaction, under a batch that names the node that gets it; that node enqueues the
-- batch and notes its name in another; then it is forgotten here. So whoever carries it
-- may die between any two steps, and whoever comes next repeats the last one: a batch
-- whose name is noted is not enqueued again, not even by a call that was lost long ago.
-- No transaction is prepared: no lock is held while a server is away.
CREATE TABLE fairq_internal.departing (
    queue pg_catalog.text COLLATE pg_catalog."C" NOT NULL REFERENCES fairq.queue ON DELETE CASCADE,
    id pg_catalog.int8 NOT NULL,
    batch pg_catalog.uuid NOT NULL,
    target pg_catalog.int4 NOT NULL,
    turn pg_catalog.int8 NOT NULL,
    task pg_catalog.jsonb NOT NULL,
    PRIMARY KEY (queue, id)
);
CREATE INDEX departing_by_batch ON fairq_internal.departing USING btree (batch, turn);
SELECT pg_catalog.pg_extension_config_dump('fairq_internal.departing', '');

-- As with fairq.group_setting: only a deletion of the queue is looked after.
ALTER TABLE fairq_internal.departing DISABLE TRIGGER ALL;
REVOKE ALL ON fairq_internal.departing FROM PUBLIC;

CREATE TABLE fairq_internal.arrived (
    batch pg_catalog.uuid NOT NULL PRIMARY KEY,
    arrived_at pg_catalog.timestamptz NOT NULL DEFAULT pg_catalog.now()
);
SELECT pg_catalog.pg_extension_config_dump('fairq_internal.arrived', '');
REVOKE ALL ON fairq_internal.arrived FROM PUBLIC;

-- Run a statement as the owner of a queue, in a restricted context: what the owner has
-- attached to the table does not run as the caller. $1 is the argument.
CREATE OR REPLACE FUNCTION fairq_internal.as_owner(queue text, statement text, argument jsonb)
RETURNS SETOF jsonb LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_as_owner';

-- Which of these tasks the queue has. A task that was moved has the number of another node.
CREATE OR REPLACE FUNCTION fairq_internal.tasks_here(queue text, ids bigint[])
RETURNS bigint[] LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_tasks_here';

-- Tasks of a queue that may leave, in their order, but for those to be skipped: not leased,
-- and neither waiting for others nor waited for.
CREATE OR REPLACE FUNCTION fairq_internal.tasks_to_move(name text, most int, skip bigint[],
    OUT id bigint, OUT group_key text, OUT unique_key text)
RETURNS SETOF record LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    skip := skip || array(SELECT l.id FROM fairq_internal.live_leases() l WHERE l.queue = name)
        || array(SELECT unnest(ARRAY[d.task, d.predecessor]) FROM fairq.dependency d WHERE d.queue = name);
    RETURN QUERY SELECT (t ->> 0)::bigint, t ->> 1, t ->> 2 FROM fairq_internal.as_owner(name, format(
        'SELECT jsonb_build_array(t.id, t.group_key, t.unique_key) FROM ('
        ' (SELECT q.id, q.group_key, q.unique_key, 1 AS part, q.address FROM fairq.%1$I q WHERE q.address IS NOT NULL'
        '  AND q.id NOT IN (SELECT value::bigint FROM jsonb_array_elements_text($1)) ORDER BY q.address LIMIT %2$s)'
        ' UNION ALL'
        ' (SELECT q.id, q.group_key, q.unique_key, 2, NULL FROM fairq.%1$I q WHERE q.address IS NULL'
        '  AND q.id NOT IN (SELECT value::bigint FROM jsonb_array_elements_text($1)) ORDER BY q.id LIMIT %2$s)'
        ') t ORDER BY t.part, t.address, t.id LIMIT %2$s', 'q_' || name, most), to_jsonb(skip)) t;
END
$$;

-- Take tasks out of a queue for a node; returns which. A row is deleted first, and no
-- lease is granted on it from then on; if there is one already, or another task of its
-- unique key stays here, or another waits for it, that task stays, too. The lock keeps out
-- whoever would make others wait for one that leaves, and all queues that have such: so it
-- comes last, when no code of the owner's is run any more (casts, triggers, index predicates).
CREATE OR REPLACE FUNCTION fairq_internal.depart(name text, ids bigint[], batch uuid, target int)
RETURNS bigint[] LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    stay bigint[] := '{}';
    keys jsonb;
    statement text := format(
        'WITH chosen AS MATERIALIZED (SELECT q.id FROM fairq.%1$I q'
        ' WHERE q.id IN (SELECT value::bigint FROM jsonb_array_elements_text($1)) FOR UPDATE SKIP LOCKED)'
        ' DELETE FROM fairq.%1$I q USING chosen WHERE q.id = chosen.id'
        ' RETURNING to_jsonb(q) - ''{address,payload,headers}''::text[]'
        ' || jsonb_build_object(''payload'', q.payload::text, ''headers'', q.headers::text)', 'q_' || name);
BEGIN
    LOOP
        stay := stay || array(SELECT unnest(ARRAY[d.task, d.predecessor]) FROM fairq.dependency d WHERE d.queue = name);
        ids := array(SELECT i FROM unnest(ids) WITH ORDINALITY AS given (i, n) WHERE i <> ALL (stay) ORDER BY n);
        BEGIN
            INSERT INTO fairq_internal.departing (queue, id, batch, target, turn, task)
                SELECT name, given.i, batch, target, given.n, t
                FROM fairq_internal.as_owner(name, statement, to_jsonb(ids)) t
                JOIN unnest(ids) WITH ORDINALITY AS given (i, n) ON given.i = (t ->> 'id')::bigint;
            stay := array(SELECT l.id FROM fairq_internal.live_leases() l WHERE l.queue = name AND l.id = ANY (ids));
            SELECT jsonb_agg(DISTINCT d.task -> 'unique_key') INTO keys FROM fairq_internal.departing d
                WHERE d.batch = depart.batch AND d.task ->> 'unique_key' IS NOT NULL AND d.task ->> 'state' <> 'd';
            IF keys IS NOT NULL THEN
                stay := stay || array(SELECT d.id FROM fairq_internal.as_owner(name, format(
                        'SELECT to_jsonb(q.unique_key) FROM fairq.%I q WHERE q.state <> ''d'' AND q.unique_key COLLATE "C"'
                        ' IN (SELECT value COLLATE "C" FROM jsonb_array_elements_text($1))', 'q_' || name), keys) k
                    JOIN fairq_internal.departing d ON d.task -> 'unique_key' = k AND d.task ->> 'state' <> 'd'
                    WHERE d.batch = depart.batch);
            END IF;
            LOCK TABLE fairq.dependency IN SHARE ROW EXCLUSIVE MODE;
            stay := stay || array(SELECT i FROM fairq.dependency d, unnest(ARRAY[d.task, d.predecessor]) i
                WHERE d.queue = name AND i = ANY (ids));
            EXIT WHEN stay = '{}';
            RAISE SQLSTATE 'FQ001'; -- back to where no task has left
        EXCEPTION WHEN SQLSTATE 'FQ001' THEN
            NULL;
        END;
    END LOOP;
    RETURN array(SELECT d.id FROM fairq_internal.departing d WHERE d.batch = depart.batch ORDER BY d.turn);
END
$$;

-- The batches that have left, and one of them as it travels.
CREATE OR REPLACE FUNCTION fairq_internal.departures(OUT batch uuid, OUT target int, OUT queue text, OUT tasks bigint)
RETURNS SETOF record LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT d.batch, d.target, d.queue, count(*) FROM fairq_internal.departing d
    GROUP BY d.batch, d.target, d.queue ORDER BY d.queue, min(d.id)
$$;

CREATE OR REPLACE FUNCTION fairq_internal.departing_tasks(batch uuid)
RETURNS jsonb LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT jsonb_agg(d.task ORDER BY d.turn) FROM fairq_internal.departing d WHERE d.batch = $1
$$;

CREATE OR REPLACE FUNCTION fairq_internal.forget_departed(batch uuid)
RETURNS bigint LANGUAGE sql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH gone AS (DELETE FROM fairq_internal.departing d WHERE d.batch = $1 RETURNING 1) SELECT count(*) FROM gone
$$;

-- Enqueue a batch of another node, once. Its tasks keep their ids, by which users know
-- them and what they have led to, and which no node gives again; what was ready is
-- held until the worker looks at it, right after the commit, and gives it a place in this
-- queue's order, behind another task of its unique key if there is one.
CREATE OR REPLACE FUNCTION fairq_internal.arrive(batch uuid, name text, tasks jsonb)
RETURNS bigint LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    relation regclass := (SELECT q.relation FROM fairq.queues q WHERE q.queue = name);
    columns text;
    expressions text;
BEGIN
    INSERT INTO fairq_internal.arrived (batch) VALUES (batch) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    DELETE FROM fairq_internal.arrived a WHERE a.arrived_at < now() - interval '7 days';
    SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum), string_agg(CASE attname
            WHEN 'id' THEN '(t ->> ''id'')::bigint'
            WHEN 'address' THEN 'NULL'
            WHEN 'state' THEN 'CASE WHEN t ->> ''state'' IN (''s'', ''d'') THEN r.state ELSE ''h'' END'
            WHEN 'payload' THEN '(t ->> ''payload'')::jsonb'
            WHEN 'headers' THEN '(t ->> ''headers'')::jsonb'
            ELSE 'r.' || quote_ident(attname) END, ', ' ORDER BY attnum)
        INTO columns, expressions
        FROM pg_attribute WHERE attrelid = relation AND attnum > 0 AND NOT attisdropped AND attgenerated = '';
    RETURN count(*) FROM fairq_internal.as_owner(name, format(
        'INSERT INTO %1$s (%2$s) SELECT %3$s FROM jsonb_array_elements($1) WITH ORDINALITY AS e (t, n)'
        ' CROSS JOIN LATERAL jsonb_populate_record(NULL::%1$s, t) r ORDER BY n RETURNING to_jsonb(id)',
        relation, columns, expressions), tasks);
END
$$;

-- Tasks that have left for a node that is no more come back to their queue.
CREATE OR REPLACE FUNCTION fairq_internal.depart_no_more(batch uuid)
RETURNS bigint LANGUAGE sql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH gone AS (DELETE FROM fairq_internal.departing d WHERE d.batch = $1 RETURNING d.queue, d.turn, d.task)
    SELECT coalesce(sum(fairq_internal.arrive(gen_random_uuid(), b.queue, b.tasks)), 0)::bigint
    FROM (SELECT queue, jsonb_agg(task ORDER BY turn) AS tasks FROM gone GROUP BY queue) b
$$;
-- Schedules that move from one node to another. One stops when a tick that is under way
-- has committed; what it returns says when the next one is, and the other node goes on
-- from there. One that runs already is left as it is.
CREATE OR REPLACE FUNCTION fairq_internal.stop_schedule(name text)
RETURNS jsonb LANGUAGE sql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
    UPDATE fairq.schedule s SET active = false WHERE s.name = $1
    RETURNING jsonb_build_object('next_run', s.next_run, 'last_run', s.last_run, 'anchor', s.anchor, 'skipped', s.skipped)
$$;

CREATE OR REPLACE FUNCTION fairq_internal.start_schedule(name text, times jsonb)
RETURNS boolean LANGUAGE sql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH started AS (
        UPDATE fairq.schedule s SET active = true,
            next_run = coalesce((times ->> 'next_run')::timestamptz, fairq_internal.cron_next(s.cron, s.timezone, now(), s.anchor)),
            last_run = coalesce((times ->> 'last_run')::timestamptz, s.last_run),
            anchor = coalesce((times ->> 'anchor')::timestamptz, s.anchor),
            skipped = coalesce((times ->> 'skipped')::bigint, s.skipped)
        WHERE s.name = $1 AND NOT s.active RETURNING 1)
    SELECT EXISTS (SELECT FROM started)
$$;

-- All schedules, as another node can have them, and one of them, which does not run there.
CREATE OR REPLACE FUNCTION fairq_internal.schedule_definitions()
RETURNS SETOF jsonb LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$ SELECT to_jsonb(s) - '{last_task,failures,last_error,last_error_at}'::text[] FROM fairq.schedule s ORDER BY s.name $$;

CREATE OR REPLACE FUNCTION fairq_internal.define_schedule(definition jsonb)
RETURNS boolean LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = definition ->> 'owner') THEN
        RAISE EXCEPTION 'role "%" does not exist', definition ->> 'owner'
            USING ERRCODE = 'undefined_object', DETAIL = format('Schedule "%s" is of that role.', definition ->> 'name'),
            HINT = 'Create the role at this node, and try again.';
    END IF;
    INSERT INTO fairq.schedule (name, queue, owner, owner_oid, cron, timezone, payload, group_key, priority, cost, headers,
            catch_up, overlap, active, anchor, next_run, last_run, skipped)
        SELECT r.name, r.queue, r.owner, r.owner_oid, r.cron, r.timezone, coalesce(r.payload, 'null'), r.group_key, r.priority, r.cost, r.headers,
            r.catch_up, r.overlap, false, r.anchor, r.next_run, r.last_run, r.skipped
        FROM jsonb_populate_record(NULL::fairq.schedule, definition) r
        ON CONFLICT DO NOTHING;
    RETURN FOUND;
END
$$;
CREATE OR REPLACE VIEW fairq.queues AS
SELECT q.queue, c.relowner::pg_catalog.regrole AS owner, c.oid::pg_catalog.regclass AS relation,
    q.policy, q.buckets, q.lease, q.max_attempts, q.backoff_base, q.backoff_max,
    q.max_ready, q.max_ready_per_group, q.max_depth, q.keep_done, q.durable_leases, q.charge, q.notify,
    q.group_weight, q.group_max_leased, q.group_rate, q.group_burst, q.paused, q.expire_after,
    q.backoff_jitter, q.default_priority, q.group_required
FROM fairq.queue q
JOIN pg_catalog.pg_class c ON c.relname::pg_catalog.text OPERATOR(pg_catalog.=) ('q_' OPERATOR(pg_catalog.||) q.queue)
    AND c.relnamespace OPERATOR(pg_catalog.=) 'fairq'::pg_catalog.regnamespace;

CREATE OR REPLACE VIEW fairq.queue_stats AS SELECT * FROM fairq_internal.stats_of_queues();

CREATE OR REPLACE VIEW fairq.group_stats AS SELECT * FROM fairq_internal.stats_of_groups();

CREATE OR REPLACE VIEW fairq.group_settings AS
SELECT s.queue, s.group_key, s.weight, s.max_leased, s.rate, s.burst, s.paused
FROM fairq.group_setting s
JOIN fairq.queues q ON q.queue OPERATOR(pg_catalog.=) s.queue
WHERE pg_catalog.has_table_privilege(q.relation::pg_catalog.oid, 'SELECT')
    OR pg_catalog.pg_has_role('pg_monitor', 'USAGE');

CREATE OR REPLACE VIEW fairq.bucket_stats AS SELECT * FROM fairq_internal.stats_of_buckets();

CREATE OR REPLACE VIEW fairq.leases AS SELECT * FROM fairq_internal.live_leases();

CREATE OR REPLACE VIEW fairq.sessions AS SELECT * FROM fairq_internal.open_sessions();

CREATE OR REPLACE VIEW fairq.dead_tasks AS SELECT * FROM fairq_internal.dead_of_queues();

CREATE OR REPLACE VIEW fairq.topics AS
SELECT t.topic, t.queue
FROM fairq.topic t
JOIN fairq.queues q ON q.queue OPERATOR(pg_catalog.=) t.queue;

CREATE OR REPLACE VIEW fairq.dependencies WITH (security_barrier) AS
SELECT d.queue, d.task, d.predecessor,
    CASE d.on_dead WHEN 'h' THEN 'hold' WHEN 'c' THEN 'cancel' ELSE 'run' END AS on_dead, d.failed
FROM fairq.dependency d
JOIN fairq.queues q ON q.queue OPERATOR(pg_catalog.=) d.queue
WHERE pg_catalog.has_table_privilege(q.relation::pg_catalog.oid, 'SELECT')
    OR pg_catalog.pg_has_role('pg_monitor', 'USAGE');

-- The table of a queue named "tasks" would have this name: it cannot keep done tasks.
CREATE OR REPLACE VIEW fairq.done_tasks AS SELECT * FROM fairq_internal.done_of_queues();
-- What is not for applications is for the extension's owner, unless everybody has to have
-- it: the functions of type address, which its operators call as whoever compares; those
-- whose rows views return, which call them as whoever reads; what a proxy or a client calls
-- as the role of its user; and the trigger of queues, which whoever creates or restores a
-- queue puts on its table. Each looks at privileges itself. Other triggers need no grant to fire.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA fairq_internal FROM PUBLIC;
DO $$
DECLARE
    f regprocedure;
BEGIN
    FOR f IN
        SELECT p.oid FROM pg_catalog.pg_proc p
        WHERE p.pronamespace OPERATOR(pg_catalog.=) 'fairq_internal'::pg_catalog.regnamespace
        AND (p.proname OPERATOR(pg_catalog.~) '^address_' OR p.proname OPERATOR(pg_catalog.=) ANY (
            '{stats_of_queues,stats_of_groups,stats_of_buckets,live_leases,open_sessions,dead_of_queues,done_of_queues,schedule_owner,tasks_here,wait_ready,tasks_page,done_page,row_written}'))
    LOOP
        EXECUTE pg_catalog.format('GRANT EXECUTE ON FUNCTION %s TO PUBLIC', f);
    END LOOP;
END
$$;
-- What \d+ and \df+ say of each object: one sentence, and a few words for a column.
-- Arguments, privileges and errors are in doc/reference.md. No function has an overload,
-- so none is named by its arguments.

COMMENT ON SCHEMA fairq IS 'pgfairq: task queues that are fair between groups';
COMMENT ON SCHEMA fairq_internal IS 'pgfairq: what is not for applications';

-- ---------------------------------------------------------------------------
-- Queues
-- ---------------------------------------------------------------------------

COMMENT ON FUNCTION fairq.create_queue IS 'Create a queue, which belongs to the caller.';
COMMENT ON FUNCTION fairq.alter_queue IS 'Change settings of a queue; null leaves one as it is.';
COMMENT ON FUNCTION fairq.drop_queue IS 'Drop a queue with all its tasks, those that are done included; returns false if there is none.';
COMMENT ON FUNCTION fairq.purge IS 'Remove every task of a queue that is not leased, the dead included; returns how many.';
COMMENT ON FUNCTION fairq.purge_group IS 'Remove every task of one group that is not leased, the dead included; returns how many.';
COMMENT ON FUNCTION fairq.forget_key IS 'Forget a unique key that is remembered (unique_for), so that a task of it can be made anew; returns whether it was.';
COMMENT ON FUNCTION fairq.forget_keys IS 'Forget all unique keys of a queue that are remembered (unique_for); returns how many.';
COMMENT ON FUNCTION fairq.pause IS 'Pause a queue: claims return nothing of it until fairq.resume().';
COMMENT ON FUNCTION fairq.resume IS 'Let claims from a paused queue go on.';
COMMENT ON FUNCTION fairq.pause_group IS 'Pause a group: claims return none of its tasks until fairq.resume_group().';
COMMENT ON FUNCTION fairq.resume_group IS 'Let claims of the tasks of a paused group go on.';
COMMENT ON FUNCTION fairq.set_group IS 'Set the weight, the limit of tasks in flight and the rate of a group; null leaves one as it is.';
COMMENT ON FUNCTION fairq.reset_group IS 'Take away what a group was given, a pause included; returns false if it had nothing of its own.';
COMMENT ON FUNCTION fairq.set_group_defaults IS 'Set what each group of a queue has that was not given something else; null leaves a setting as it is.';
COMMENT ON FUNCTION fairq.maintain IS 'Do by hand what the background worker does for a queue; returns how many tasks that were.';
COMMENT ON FUNCTION fairq.reset_stats IS 'Count anew what the view fairq.queue_stats shows of a queue.';
COMMENT ON FUNCTION fairq.set_node IS 'Give this database a number, from 0 to 32767, that its ids, receipts and sessions say from the commit on.';
COMMENT ON FUNCTION fairq.this_node IS 'The number that this database was given by fairq.set_node(); 0 if none.';
COMMENT ON FUNCTION fairq.node_of_id IS 'The number of the node that a task is of, by its id; null if no node gives such an id.';
COMMENT ON FUNCTION fairq.node_of_receipt IS 'The number of the node that a lease is of, by its receipt; null if it is no receipt.';
COMMENT ON FUNCTION fairq.node_of_session IS 'The number of the node that a session is of; null if it is no session.';
COMMENT ON FUNCTION fairq.front IS 'Return how far a queue has got in virtual time: its next task and its floor, for each class with ready tasks.';
COMMENT ON FUNCTION fairq.raise_floor IS 'Raise the virtual time at which groups without tasks start in a class, up to its first ready task; return whether it was lower.';
COMMENT ON FUNCTION fairq_internal.wait_ready IS 'Wait, for a second at most, until something may be claimable in any of the queues; return whether it may.';

-- ---------------------------------------------------------------------------
-- Producing
-- ---------------------------------------------------------------------------

COMMENT ON FUNCTION fairq.enqueue IS 'Enqueue a task, which exists when the transaction commits; returns its id.';
COMMENT ON FUNCTION fairq.enqueue_many IS 'Enqueue several tasks; returns their ids in the order given.';
COMMENT ON FUNCTION fairq.subscribe IS 'Have a queue get a task of everything that is published to a topic.';
COMMENT ON FUNCTION fairq.unsubscribe IS 'End the subscription of a queue to a topic; returns false if there is none.';
COMMENT ON FUNCTION fairq.publish IS 'Enqueue a task in every queue that is subscribed to the topic; returns in how many.';
COMMENT ON FUNCTION fairq.schedule IS 'Make or replace a schedule, by which a task is enqueued again and again; returns its next time.';
COMMENT ON FUNCTION fairq.unschedule IS 'Remove a schedule, but not the tasks it has enqueued; returns false if there is none.';

-- ---------------------------------------------------------------------------
-- Consuming
-- ---------------------------------------------------------------------------

COMMENT ON FUNCTION fairq.claim IS 'Lease up to max_tasks tasks of a queue, in its order; returns them with their receipts.';
COMMENT ON FUNCTION fairq.claim_any IS 'Lease up to max_tasks tasks of several queues, from the queues in the order given; returns them with their receipts.';
COMMENT ON FUNCTION fairq.ack IS 'Say that a task is done, with a result if there is one; returns false if the lease is lost.';
COMMENT ON FUNCTION fairq.ack_many IS 'Say that tasks are done; returns the receipts that were good.';
COMMENT ON FUNCTION fairq.ack_and_claim IS 'Say that tasks are done and claim others in one call; returns the tasks that were claimed.';
COMMENT ON FUNCTION fairq.nack IS 'Say that an attempt failed, so that the task is tried again, or is dead: after the last attempt, or at once if final; returns false if the lease is lost.';
COMMENT ON FUNCTION fairq.nack_many IS 'Say that attempts failed, with an error for each or one for all, and whether there is another; returns the receipts that were good.';
COMMENT ON FUNCTION fairq.set_progress IS 'Write into the headers of a leased task how far it is; returns false if the lease is lost, or the headers are no object.';
COMMENT ON FUNCTION fairq.extend IS 'Let a lease end so long from now; returns when that is, null if the lease is lost.';
COMMENT ON FUNCTION fairq.extend_many IS 'Let leases end so long from now; returns the receipts that were good.';
COMMENT ON FUNCTION fairq.release IS 'Give a task back without counting an attempt, at once or after a delay; returns false if the lease is lost.';
COMMENT ON FUNCTION fairq.release_many IS 'Give tasks back without counting an attempt, at once or after a delay; returns the receipts that were good.';
COMMENT ON FUNCTION fairq.pop IS 'Claim and acknowledge tasks in the caller''s transaction: a rollback puts them back; returns the tasks.';
COMMENT ON PROCEDURE fairq.wait IS 'Wait until something may be claimable in a queue, or until the timeout.';
COMMENT ON PROCEDURE fairq.wait_any IS 'Wait until something may be claimable in one of several queues, or until the timeout.';
COMMENT ON FUNCTION fairq.await IS 'Wait until a task has ended, or until the timeout; returns its outcome or its present state.';

-- ---------------------------------------------------------------------------
-- Sessions
-- ---------------------------------------------------------------------------

COMMENT ON FUNCTION fairq.open_session IS 'Open a session, the sign of life of a worker; returns its name for claims and heartbeats.';
COMMENT ON FUNCTION fairq.heartbeat IS 'Keep a session alive for another ttl; returns false if it is over, and its leases are lost.';
COMMENT ON FUNCTION fairq.close_session IS 'End a session and give its leases back without counting an attempt; returns how many.';
COMMENT ON FUNCTION fairq.my_buckets IS 'Return the buckets of a queue that are dealt to a session.';

-- ---------------------------------------------------------------------------
-- Looking
-- ---------------------------------------------------------------------------

COMMENT ON FUNCTION fairq.peek IS 'Return what fairq.claim() would return next, in order, without leasing it.';
COMMENT ON FUNCTION fairq.get_task IS 'Return one task in whatever state, or no row if there is none.';
COMMENT ON FUNCTION fairq.get_task_by_key IS 'Return the task that has a unique key and is not dead, or no row if there is none.';
COMMENT ON FUNCTION fairq.get_done_task IS 'Return what is kept of a done task, of several of one id that of a time or the latest; no row if nothing is.';
COMMENT ON FUNCTION fairq.get_task_position IS 'Return how many ready tasks are ahead of a task, and about when it will start.';
COMMENT ON FUNCTION fairq.tasks IS 'Return all tasks of a queue, or those of one state or one group, in no order.';
COMMENT ON FUNCTION fairq.cancel IS 'Remove a task, whose lease is lost if it has one; returns false if there is no such task.';
COMMENT ON FUNCTION fairq.revive IS 'Make a dead task ready again, with all its attempts; returns how many that were.';
COMMENT ON FUNCTION fairq.revive_group IS 'Make all dead tasks of a group ready again, with all their attempts; returns how many.';
COMMENT ON FUNCTION fairq.revive_all IS 'Make all dead tasks of a queue ready again, with all their attempts; returns how many.';

-- ---------------------------------------------------------------------------
-- Addresses
-- ---------------------------------------------------------------------------

COMMENT ON TYPE fairq.address IS 'A task''s place in the fair order, written (bucket,block,slot) or (bucket,class:block,slot).';
COMMENT ON FUNCTION fairq.bucket IS 'Return the bucket of an address: which of the queue''s independent parts it is in.';
COMMENT ON FUNCTION fairq.class IS 'Return the priority class of an address, 0 to 9, the lower first.';
COMMENT ON FUNCTION fairq.block IS 'Return the block of an address: the virtual time at which the task is to start.';
COMMENT ON FUNCTION fairq.slot IS 'Return the slot of an address: the number of its group, which decides between tasks of one block.';
COMMENT ON OPERATOR fairq.= (fairq.address, fairq.address) IS 'equal';
COMMENT ON OPERATOR fairq.<> (fairq.address, fairq.address) IS 'not equal';
COMMENT ON OPERATOR fairq.< (fairq.address, fairq.address) IS 'comes before';
COMMENT ON OPERATOR fairq.<= (fairq.address, fairq.address) IS 'comes before or is equal';
COMMENT ON OPERATOR fairq.> (fairq.address, fairq.address) IS 'comes after';
COMMENT ON OPERATOR fairq.>= (fairq.address, fairq.address) IS 'comes after or is equal';
COMMENT ON OPERATOR CLASS fairq.address_ops USING btree IS 'the fair order: bucket, class, block, slot';
COMMENT ON OPERATOR FAMILY fairq.address_ops USING btree IS 'the fair order: bucket, class, block, slot';
COMMENT ON OPERATOR CLASS fairq.address_ops USING hash IS 'equality of addresses';
COMMENT ON OPERATOR FAMILY fairq.address_ops USING hash IS 'equality of addresses';

-- ---------------------------------------------------------------------------
-- What functions return
-- ---------------------------------------------------------------------------

COMMENT ON TYPE fairq.task IS 'A task as a claimer gets it.';
COMMENT ON COLUMN fairq.task.id IS 'its id, for its whole life';
COMMENT ON COLUMN fairq.task.receipt IS 'names the lease; null from fairq.peek()';
COMMENT ON COLUMN fairq.task.group_key IS 'whom it counts for';
COMMENT ON COLUMN fairq.task.payload IS 'what it is about';
COMMENT ON COLUMN fairq.task.headers IS 'what else its producer gave';
COMMENT ON COLUMN fairq.task.priority IS 'its class or number, lower first';
COMMENT ON COLUMN fairq.task.attempt IS 'which attempt this is, from 1';
COMMENT ON COLUMN fairq.task.enqueued_at IS 'when it was enqueued';
COMMENT ON COLUMN fairq.task.lease_until IS 'when the lease ends, under a session unless a heartbeat comes; null from fairq.pop() and fairq.peek()';
COMMENT ON COLUMN fairq.task.address IS 'its place in the order';
COMMENT ON COLUMN fairq.task.expires_at IS 'it is not begun then or later; null: it does not expire';

COMMENT ON TYPE fairq.queue_task IS 'A task as a claimer of several queues gets it: the queue it is of, then the columns of fairq.task.';
COMMENT ON COLUMN fairq.queue_task.queue IS 'the queue it is of';
COMMENT ON COLUMN fairq.queue_task.id IS 'its id, one in its queue';
COMMENT ON COLUMN fairq.queue_task.receipt IS 'names the lease';
COMMENT ON COLUMN fairq.queue_task.group_key IS 'whom it counts for';
COMMENT ON COLUMN fairq.queue_task.payload IS 'what it is about';
COMMENT ON COLUMN fairq.queue_task.headers IS 'what else its producer gave';
COMMENT ON COLUMN fairq.queue_task.priority IS 'its class or number, lower first';
COMMENT ON COLUMN fairq.queue_task.attempt IS 'which attempt this is, from 1';
COMMENT ON COLUMN fairq.queue_task.enqueued_at IS 'when it was enqueued';
COMMENT ON COLUMN fairq.queue_task.lease_until IS 'when the lease ends, under a session unless a heartbeat comes';
COMMENT ON COLUMN fairq.queue_task.address IS 'its place in the order';
COMMENT ON COLUMN fairq.queue_task.expires_at IS 'it is not begun then or later; null: it does not expire';

COMMENT ON TYPE fairq.task_status IS 'A task as the queue knows it.';
COMMENT ON COLUMN fairq.task_status.id IS 'its id, for its whole life';
COMMENT ON COLUMN fairq.task_status.state IS 'ready, leased, scheduled, overflow, held or dead';
COMMENT ON COLUMN fairq.task_status.group_key IS 'whom it counts for';
COMMENT ON COLUMN fairq.task_status.payload IS 'what it is about';
COMMENT ON COLUMN fairq.task_status.headers IS 'what else its producer gave';
COMMENT ON COLUMN fairq.task_status.priority IS 'its class or number, lower first';
COMMENT ON COLUMN fairq.task_status.cost IS 'what it counts for in the share of its group';
COMMENT ON COLUMN fairq.task_status.attempts IS 'how many attempts have ended';
COMMENT ON COLUMN fairq.task_status.max_attempts IS 'after how many it is dead; 0: no limit';
COMMENT ON COLUMN fairq.task_status.enqueued_at IS 'when it was enqueued';
COMMENT ON COLUMN fairq.task_status.run_at IS 'when it is due, or last was; null: never';
COMMENT ON COLUMN fairq.task_status.lease_until IS 'when its lease ends, under a session unless a heartbeat comes; null if it is not leased';
COMMENT ON COLUMN fairq.task_status.address IS 'its place in the order; null if it has none, or has it in memory only';
COMMENT ON COLUMN fairq.task_status.unique_key IS 'of its key one task waits at most; null: none';
COMMENT ON COLUMN fairq.task_status.last_error IS 'of the last attempt that gave one';
COMMENT ON COLUMN fairq.task_status.expires_at IS 'it is not begun then or later; null: it does not expire';
COMMENT ON COLUMN fairq.task_status.lease IS 'for how long it is leased; null: as the queue has it';

COMMENT ON TYPE fairq.task_done IS 'What is kept of a task that is done.';
COMMENT ON COLUMN fairq.task_done.id IS 'its id, for its whole life';
COMMENT ON COLUMN fairq.task_done.enqueued_at IS 'when it was enqueued';
COMMENT ON COLUMN fairq.task_done.claimed_at IS 'when it was claimed last; null: never';
COMMENT ON COLUMN fairq.task_done.done_at IS 'when it was done';
COMMENT ON COLUMN fairq.task_done.run_at IS 'when it was due last; null: never';
COMMENT ON COLUMN fairq.task_done.priority IS 'its class or number, lower first';
COMMENT ON COLUMN fairq.task_done.cost IS 'what it counted for in the share of its group';
COMMENT ON COLUMN fairq.task_done.attempts IS 'how many attempts there were';
COMMENT ON COLUMN fairq.task_done.outcome IS 'acked, cancelled, dead or expired';
COMMENT ON COLUMN fairq.task_done.group_key IS 'whom it counted for';
COMMENT ON COLUMN fairq.task_done.payload IS 'what it was about';
COMMENT ON COLUMN fairq.task_done.headers IS 'what else its producer gave';
COMMENT ON COLUMN fairq.task_done.unique_key IS 'of its key one task waits at most; null: none';
COMMENT ON COLUMN fairq.task_done.last_error IS 'of the last attempt that gave one';
COMMENT ON COLUMN fairq.task_done.result IS 'what fairq.ack() was given';

COMMENT ON TYPE fairq.outcome IS 'How a task has ended, or its present state if it has not.';
COMMENT ON COLUMN fairq.outcome.state IS 'acked, dead, cancelled or expired; else its present state';
COMMENT ON COLUMN fairq.outcome.result IS 'what fairq.ack() was given';
COMMENT ON COLUMN fairq.outcome.last_error IS 'of the last attempt that failed';
COMMENT ON COLUMN fairq.outcome.done_at IS 'when it was done, as the queue has kept it';

COMMENT ON TYPE fairq.task_position IS 'A task''s place in the queue.';
COMMENT ON COLUMN fairq.task_position.state IS 'ready, leased, scheduled, overflow, held or dead';
COMMENT ON COLUMN fairq.task_position.ahead IS 'how many ready tasks come before it; null if it is neither ready nor leased';
COMMENT ON COLUMN fairq.task_position.starts_at IS 'about when it will start; null if nothing tells';
COMMENT ON COLUMN fairq.task_position.exact IS 'whether the tasks ahead were counted, not estimated';

COMMENT ON TYPE fairq.class_front IS 'How far a class of a queue has got in virtual time.';
COMMENT ON COLUMN fairq.class_front.class IS 'priority class, 0 to 9; 0 under the policies priority and time';
COMMENT ON COLUMN fairq.class_front.ready IS 'tasks at hand that a claim would come to: all of them, or as many as memory has of the first';
COMMENT ON COLUMN fairq.class_front.waiting IS 'how many sessions wait for tasks of the queue';
COMMENT ON COLUMN fairq.class_front.front IS 'block of the address of the next task; null if none is ready';
COMMENT ON COLUMN fairq.class_front.floor IS 'virtual time: where a group without tasks starts; null if the policy is not fair';

-- ---------------------------------------------------------------------------
-- Views
-- ---------------------------------------------------------------------------

COMMENT ON VIEW fairq.queues IS 'The queues of this database and their settings.';
COMMENT ON COLUMN fairq.queues.queue IS 'its name';
COMMENT ON COLUMN fairq.queues.owner IS 'the owner of its table';
COMMENT ON COLUMN fairq.queues.relation IS 'its table';
COMMENT ON COLUMN fairq.queues.policy IS 'what it is ordered by: fair, priority or time';
COMMENT ON COLUMN fairq.queues.buckets IS 'how many independent parts it has';
COMMENT ON COLUMN fairq.queues.lease IS 'how long a claim lasts unless the claim or the task says otherwise';
COMMENT ON COLUMN fairq.queues.max_attempts IS 'after how many a task is dead; 0: no limit';
COMMENT ON COLUMN fairq.queues.backoff_base IS 'the wait after the first attempt that fails; it doubles with each';
COMMENT ON COLUMN fairq.queues.backoff_max IS 'the longest wait after an attempt that failed';
COMMENT ON COLUMN fairq.queues.max_ready IS 'how many tasks are ready at most; more wait in the overflow';
COMMENT ON COLUMN fairq.queues.max_ready_per_group IS 'how many tasks of a group are ready at most; more wait in the overflow';
COMMENT ON COLUMN fairq.queues.max_depth IS 'how many tasks it takes, but for the dead; null: no limit';
COMMENT ON COLUMN fairq.queues.keep_done IS 'how long done tasks are kept; null: not at all';
COMMENT ON COLUMN fairq.queues.durable_leases IS 'whether leases survive a crash and a failover';
COMMENT ON COLUMN fairq.queues.charge IS 'what a task counts for in the share of its group: cost or seconds';
COMMENT ON COLUMN fairq.queues.notify IS 'whether NOTIFY is sent when something becomes claimable';
COMMENT ON COLUMN fairq.queues.group_weight IS 'the weight of groups that have none of their own';
COMMENT ON COLUMN fairq.queues.group_max_leased IS 'the limit of tasks in flight of groups that have none of their own; 0: none';
COMMENT ON COLUMN fairq.queues.group_rate IS 'the claims a second of groups that have no rate of their own; 0: no limit';
COMMENT ON COLUMN fairq.queues.group_burst IS 'the burst of groups that have none of their own; 0: as many as the rate';
COMMENT ON COLUMN fairq.queues.paused IS 'whether claims return nothing of it';
COMMENT ON COLUMN fairq.queues.expire_after IS 'how long a task has that was given no expires_at; null: for ever';
COMMENT ON COLUMN fairq.queues.backoff_jitter IS 'how much of a wait is left to chance, from 0 to 1';
COMMENT ON COLUMN fairq.queues.default_priority IS 'the priority of tasks that are given none';
COMMENT ON COLUMN fairq.queues.group_required IS 'whether a task has to have a group key';

COMMENT ON VIEW fairq.queue_stats IS 'For each queue that one may read, to pg_monitor for all: how many tasks there are in each state, and what happened since stats_reset.';
COMMENT ON COLUMN fairq.queue_stats.queue IS 'its name';
COMMENT ON COLUMN fairq.queue_stats.ready IS 'tasks that can be claimed now, if limits let them';
COMMENT ON COLUMN fairq.queue_stats.leased IS 'tasks in flight';
COMMENT ON COLUMN fairq.queue_stats.scheduled IS 'tasks that wait for their time';
COMMENT ON COLUMN fairq.queue_stats.overflow IS 'tasks that wait for room';
COMMENT ON COLUMN fairq.queue_stats.held IS 'tasks that wait behind another one of their unique key';
COMMENT ON COLUMN fairq.queue_stats.dead IS 'tasks whose attempts are used up';
COMMENT ON COLUMN fairq.queue_stats.oldest_ready_age IS 'how long ago the oldest task at the front was enqueued; null if none is ready';
COMMENT ON COLUMN fairq.queue_stats.enqueued IS 'how many were enqueued';
COMMENT ON COLUMN fairq.queue_stats.claimed IS 'how many were claimed';
COMMENT ON COLUMN fairq.queue_stats.acked IS 'how many were acknowledged';
COMMENT ON COLUMN fairq.queue_stats.nacked IS 'how many attempts were said to have failed';
COMMENT ON COLUMN fairq.queue_stats.released IS 'how many were given back without an attempt';
COMMENT ON COLUMN fairq.queue_stats.expired IS 'how many leases ran out, those of sessions included';
COMMENT ON COLUMN fairq.queue_stats.cancelled IS 'how many were removed by fairq.cancel()';
COMMENT ON COLUMN fairq.queue_stats.dead_total IS 'how many used up their attempts';
COMMENT ON COLUMN fairq.queue_stats.swept IS 'how many the sweep had to find: 0, or something is wrong';
COMMENT ON COLUMN fairq.queue_stats.enqueue_rate IS 'tasks enqueued a second in the last minute';
COMMENT ON COLUMN fairq.queue_stats.claim_rate IS 'tasks claimed a second in the last minute';
COMMENT ON COLUMN fairq.queue_stats.ack_rate IS 'tasks acknowledged a second in the last minute';
COMMENT ON COLUMN fairq.queue_stats.wait_p50 IS 'how long tasks had waited when they were claimed: 50 % no longer';
COMMENT ON COLUMN fairq.queue_stats.wait_p95 IS 'how long tasks had waited when they were claimed: 95 % no longer';
COMMENT ON COLUMN fairq.queue_stats.wait_p99 IS 'how long tasks had waited when they were claimed: 99 % no longer';
COMMENT ON COLUMN fairq.queue_stats.run_p50 IS 'how long tasks ran from the claim to the ack: 50 % no longer';
COMMENT ON COLUMN fairq.queue_stats.run_p95 IS 'how long tasks ran from the claim to the ack: 95 % no longer';
COMMENT ON COLUMN fairq.queue_stats.run_p99 IS 'how long tasks ran from the claim to the ack: 99 % no longer';
COMMENT ON COLUMN fairq.queue_stats.payload_avg IS 'bytes of a payload, on average';
COMMENT ON COLUMN fairq.queue_stats.payload_p50 IS 'bytes of a payload: 50 % have no more';
COMMENT ON COLUMN fairq.queue_stats.payload_p95 IS 'bytes of a payload: 95 % have no more';
COMMENT ON COLUMN fairq.queue_stats.payload_max IS 'bytes of the largest payload';
COMMENT ON COLUMN fairq.queue_stats.stats_reset IS 'when counting began';
COMMENT ON COLUMN fairq.queue_stats.expired_tasks IS 'how many ended because their expires_at had come';
COMMENT ON COLUMN fairq.queue_stats.deduplicated IS 'how many calls with a unique key made no task';
COMMENT ON COLUMN fairq.queue_stats.snoozed IS 'how many were released with a delay';

COMMENT ON VIEW fairq.group_stats IS 'For each group with work, in the queues that one may read, to pg_monitor in all: its tasks, its limits and its share.';
COMMENT ON COLUMN fairq.group_stats.queue IS 'the queue';
COMMENT ON COLUMN fairq.group_stats.group_key IS 'the group; a key above 48 bytes is cut';
COMMENT ON COLUMN fairq.group_stats.ready IS 'its tasks that can be claimed now, if limits let them';
COMMENT ON COLUMN fairq.group_stats.overflow IS 'its tasks that wait for room';
COMMENT ON COLUMN fairq.group_stats.leased IS 'its tasks in flight';
COMMENT ON COLUMN fairq.group_stats.weight IS 'the weight in force; null: the policy has none';
COMMENT ON COLUMN fairq.group_stats.max_leased IS 'the limit of tasks in flight; null: none';
COMMENT ON COLUMN fairq.group_stats.rate IS 'the limit of claims a second; null: none';
COMMENT ON COLUMN fairq.group_stats.burst IS 'how many claims may come at once; null: no limit';
COMMENT ON COLUMN fairq.group_stats.tokens IS 'how many claims its rate allows just now';
COMMENT ON COLUMN fairq.group_stats.paused IS 'whether claims return none of its tasks';
COMMENT ON COLUMN fairq.group_stats.served IS 'tasks claimed since it was idle last';
COMMENT ON COLUMN fairq.group_stats.served_cost IS 'what they were charged: costs, or seconds';
COMMENT ON COLUMN fairq.group_stats.share IS 'its part of what was served while it had work';
COMMENT ON COLUMN fairq.group_stats.expected_share IS 'its part by the weights; null if the policy has none';
COMMENT ON COLUMN fairq.group_stats.share_error IS 'share less expected_share';
COMMENT ON COLUMN fairq.group_stats.oldest_wait IS 'how long the first of its ready tasks has waited at most';
COMMENT ON COLUMN fairq.group_stats.run_time IS 'how long its tasks have run since it was idle last, in all';
COMMENT ON COLUMN fairq.group_stats.all_served_cost IS 'what the queue has served in its classes while it had work, as served_cost';

COMMENT ON VIEW fairq.group_settings IS 'What groups were given, in the queues that one may read, to pg_monitor in all; null is the default of the queue.';
COMMENT ON COLUMN fairq.group_settings.queue IS 'the queue';
COMMENT ON COLUMN fairq.group_settings.group_key IS 'the group';
COMMENT ON COLUMN fairq.group_settings.weight IS 'its share between groups that have work';
COMMENT ON COLUMN fairq.group_settings.max_leased IS 'at most so many of its tasks in flight; 0: no limit';
COMMENT ON COLUMN fairq.group_settings.rate IS 'at most so many claims a second; 0: no limit';
COMMENT ON COLUMN fairq.group_settings.burst IS 'so many at once after a while with fewer; 0: as many as rate';
COMMENT ON COLUMN fairq.group_settings.paused IS 'whether claims return none of its tasks';

COMMENT ON VIEW fairq.bucket_stats IS 'For each bucket and class in use what the engine has of it in memory, of the queues that one may read, to pg_monitor of all.';
COMMENT ON COLUMN fairq.bucket_stats.queue IS 'the queue';
COMMENT ON COLUMN fairq.bucket_stats.bucket IS 'the bucket';
COMMENT ON COLUMN fairq.bucket_stats.class IS 'the priority class';
COMMENT ON COLUMN fairq.bucket_stats.ready IS 'entries in its window';
COMMENT ON COLUMN fairq.bucket_stats.complete IS 'whether the window has all there is';
COMMENT ON COLUMN fairq.bucket_stats.next_address IS 'the first address in the window';
COMMENT ON COLUMN fairq.bucket_stats.frontier IS 'from where on the index is read; null if that is not needed';

COMMENT ON VIEW fairq.leases IS 'The tasks in flight of the queues that one may read, to pg_monitor of all.';
COMMENT ON COLUMN fairq.leases.queue IS 'the queue';
COMMENT ON COLUMN fairq.leases.id IS 'the task';
COMMENT ON COLUMN fairq.leases.receipt IS 'names the lease';
COMMENT ON COLUMN fairq.leases.lease_until IS 'when it ends, under a session unless a heartbeat comes';
COMMENT ON COLUMN fairq.leases.attempt IS 'which attempt this is, from 1';
COMMENT ON COLUMN fairq.leases.state IS 'held, settling or expired';
COMMENT ON COLUMN fairq.leases.pid IS 'the backend that claimed';

COMMENT ON VIEW fairq.sessions IS 'The sessions of one''s own roles in this database, to pg_monitor all.';
COMMENT ON COLUMN fairq.sessions.session IS 'the session';
COMMENT ON COLUMN fairq.sessions.name IS 'what it was called when it was opened';
COMMENT ON COLUMN fairq.sessions.role IS 'who opened it';
COMMENT ON COLUMN fairq.sessions.opened_at IS 'when it was opened';
COMMENT ON COLUMN fairq.sessions.ttl IS 'how long it lives without a heartbeat';
COMMENT ON COLUMN fairq.sessions.alive_until IS 'when it ends unless a heartbeat comes; null: it is over';
COMMENT ON COLUMN fairq.sessions.bound IS 'whether it ends with the connection that opened it';
COMMENT ON COLUMN fairq.sessions.pid IS 'the backend that opened it';
COMMENT ON COLUMN fairq.sessions.leases IS 'how many leases it has';

COMMENT ON VIEW fairq.dead_tasks IS 'The tasks whose attempts are used up, of the queues that one may read.';
COMMENT ON COLUMN fairq.dead_tasks.queue IS 'the queue';
COMMENT ON COLUMN fairq.dead_tasks.id IS 'the task';
COMMENT ON COLUMN fairq.dead_tasks.group_key IS 'whom it counts for';
COMMENT ON COLUMN fairq.dead_tasks.payload IS 'what it is about';
COMMENT ON COLUMN fairq.dead_tasks.headers IS 'what else its producer gave';
COMMENT ON COLUMN fairq.dead_tasks.priority IS 'its class or number';
COMMENT ON COLUMN fairq.dead_tasks.attempts IS 'how many have failed';
COMMENT ON COLUMN fairq.dead_tasks.enqueued_at IS 'when it was enqueued';
COMMENT ON COLUMN fairq.dead_tasks.last_error IS 'of the last attempt that gave one';

COMMENT ON VIEW fairq.done_tasks IS 'The done tasks that queues have kept, in the tables that one may read.';
COMMENT ON COLUMN fairq.done_tasks.queue IS 'the queue';
COMMENT ON COLUMN fairq.done_tasks.id IS 'the task';
COMMENT ON COLUMN fairq.done_tasks.enqueued_at IS 'when it was enqueued';
COMMENT ON COLUMN fairq.done_tasks.claimed_at IS 'when it was claimed last; null if it was not leased when it ended';
COMMENT ON COLUMN fairq.done_tasks.done_at IS 'when it was acknowledged or removed';
COMMENT ON COLUMN fairq.done_tasks.run_at IS 'when it was due; null: at once';
COMMENT ON COLUMN fairq.done_tasks.priority IS 'its class or number';
COMMENT ON COLUMN fairq.done_tasks.cost IS 'what it counted for';
COMMENT ON COLUMN fairq.done_tasks.attempts IS 'which attempt succeeded; else how many failed';
COMMENT ON COLUMN fairq.done_tasks.outcome IS 'acked, cancelled, dead or expired';
COMMENT ON COLUMN fairq.done_tasks.group_key IS 'whom it counted for';
COMMENT ON COLUMN fairq.done_tasks.payload IS 'what it was about';
COMMENT ON COLUMN fairq.done_tasks.headers IS 'what else its producer gave';
COMMENT ON COLUMN fairq.done_tasks.unique_key IS 'its key; null: none';
COMMENT ON COLUMN fairq.done_tasks.last_error IS 'of the last attempt that gave one';
COMMENT ON COLUMN fairq.done_tasks.result IS 'what fairq.ack() was given';

COMMENT ON VIEW fairq.topics IS 'The subscriptions of the queues of this database.';
COMMENT ON COLUMN fairq.topics.topic IS 'the topic, with the wildcards * and #';
COMMENT ON COLUMN fairq.topics.queue IS 'the queue that is subscribed';

COMMENT ON VIEW fairq.dependencies IS 'Which held tasks wait for the end of which others, in the queues that one may read, to pg_monitor in all.';
COMMENT ON COLUMN fairq.dependencies.queue IS 'the queue of both tasks';
COMMENT ON COLUMN fairq.dependencies.task IS 'the id of the task that waits';
COMMENT ON COLUMN fairq.dependencies.predecessor IS 'the id of the task whose end it waits for';
COMMENT ON COLUMN fairq.dependencies.on_dead IS 'what it means that this one has failed: hold, cancel or run';
COMMENT ON COLUMN fairq.dependencies.failed IS 'whether it has: it was dead, was cancelled, or has expired';

COMMENT ON VIEW fairq.schedules IS 'The schedules of one''s own roles and how they go, to pg_monitor all, without payload and headers.';
COMMENT ON COLUMN fairq.schedules.name IS 'its name, one in the database';
COMMENT ON COLUMN fairq.schedules.queue IS 'the queue in which tasks are enqueued, by name';
COMMENT ON COLUMN fairq.schedules.owner IS 'the role as which tasks are enqueued';
COMMENT ON COLUMN fairq.schedules.cron IS 'when, as it was given';
COMMENT ON COLUMN fairq.schedules.timezone IS 'by what clock';
COMMENT ON COLUMN fairq.schedules.catch_up IS 'which ticks are run that were missed: none, one or all';
COMMENT ON COLUMN fairq.schedules.overlap IS 'whether a task is enqueued while the last one waits or runs';
COMMENT ON COLUMN fairq.schedules.active IS 'whether there are ticks at all';
COMMENT ON COLUMN fairq.schedules.next_run IS 'the next tick; null if it is not active';
COMMENT ON COLUMN fairq.schedules.last_run IS 'when a task was enqueued last';
COMMENT ON COLUMN fairq.schedules.last_task IS 'the id of that task';
COMMENT ON COLUMN fairq.schedules.skipped IS 'ticks at which the last task was still there';
COMMENT ON COLUMN fairq.schedules.failures IS 'ticks in a row, up to now, that failed';
COMMENT ON COLUMN fairq.schedules.last_error IS 'SQLSTATE and message of the last failure since the schedule was made or replaced';
COMMENT ON COLUMN fairq.schedules.last_error_at IS 'when that was';
COMMENT ON COLUMN fairq.schedules.group_key IS 'of its tasks';
COMMENT ON COLUMN fairq.schedules.priority IS 'of its tasks; null is the default';
COMMENT ON COLUMN fairq.schedules.cost IS 'of its tasks';
COMMENT ON COLUMN fairq.schedules.payload IS 'of its tasks; null to who may not act as the owner';
COMMENT ON COLUMN fairq.schedules.headers IS 'of its tasks, without what a tick adds; null to who may not act as the owner';

-- ---------------------------------------------------------------------------
-- What is not for applications
-- ---------------------------------------------------------------------------

COMMENT ON TABLE fairq.queue IS 'Settings of queues; written by fairq.create_queue() and fairq.alter_queue(), read through the view fairq.queues.';
COMMENT ON TABLE fairq.group_setting IS 'Settings of groups; written by fairq.set_group() and fairq.pause_group(), read through the view fairq.group_settings.';
COMMENT ON TABLE fairq.topic IS 'Subscriptions of queues; written by fairq.subscribe() and fairq.unsubscribe(), read through the view fairq.topics.';
COMMENT ON TABLE fairq.schedule IS 'Schedules; written by fairq.schedule() and by whoever runs them, read through the view fairq.schedules.';
COMMENT ON TABLE fairq.dependency IS 'Which tasks wait for which others, as after of fairq.enqueue() says; written by the engine alone, read through the view fairq.dependencies.';
COMMENT ON TABLE fairq.durable_lease IS 'Leases that survive a crash and a failover; written by the engine alone, and may have no index.';
COMMENT ON TABLE fairq_internal.remembered_key IS 'Unique keys that are remembered for unique_for of fairq.enqueue(), with the task of each; written by the engine alone.';
COMMENT ON TABLE fairq_internal.node IS 'The number of this database as a node; written by fairq.set_node().';

COMMENT ON FUNCTION fairq_internal.address_in IS 'Text input of fairq.address.';
COMMENT ON FUNCTION fairq_internal.address_out IS 'Text output of fairq.address.';
COMMENT ON FUNCTION fairq_internal.address_recv IS 'Binary input of fairq.address.';
COMMENT ON FUNCTION fairq_internal.address_send IS 'Binary output of fairq.address.';
COMMENT ON FUNCTION fairq_internal.address_eq IS 'Implementation of the operator = of addresses.';
COMMENT ON FUNCTION fairq_internal.address_ne IS 'Implementation of the operator <> of addresses.';
COMMENT ON FUNCTION fairq_internal.address_lt IS 'Implementation of the operator < of addresses.';
COMMENT ON FUNCTION fairq_internal.address_le IS 'Implementation of the operator <= of addresses.';
COMMENT ON FUNCTION fairq_internal.address_gt IS 'Implementation of the operator > of addresses.';
COMMENT ON FUNCTION fairq_internal.address_ge IS 'Implementation of the operator >= of addresses.';
COMMENT ON FUNCTION fairq_internal.address_cmp IS 'Comparison of addresses: bucket, class, block, slot.';
COMMENT ON FUNCTION fairq_internal.address_sortsupport IS 'Sort support for fairq.address.';
COMMENT ON FUNCTION fairq_internal.address_hash IS 'Hash of an address.';
COMMENT ON FUNCTION fairq_internal.address_hash_extended IS 'Hash of an address, with a seed.';
COMMENT ON FUNCTION fairq_internal.row_written IS 'Row trigger of the tables of queues: tells the engine of rows that are written by SQL, COPY or logical replication.';
COMMENT ON FUNCTION fairq_internal.durable_lease_written IS 'Row trigger of fairq.durable_lease: keeps out rows that are written by SQL, COPY or logical replication.';
COMMENT ON FUNCTION fairq_internal.dependency_written IS 'Row trigger of fairq.dependency: tells the engine of rows, also of those that a restore writes.';
COMMENT ON FUNCTION fairq_internal.remembered_key_written IS 'Row trigger of fairq_internal.remembered_key: tells the engine of rows, also of those that a restore writes.';
COMMENT ON FUNCTION fairq_internal.schedule_written IS 'Statement trigger of fairq.schedule: wakes the worker when a definition was written, be it by a restore.';
COMMENT ON FUNCTION fairq_internal.schedule_inserted IS 'Row trigger of fairq.schedule: the owner is the role of that name, whatever its oid was where the row comes from.';
COMMENT ON FUNCTION fairq_internal.schedule_owner IS 'Return the role that a row of fairq.schedule names, or null if there is none.';
COMMENT ON FUNCTION fairq_internal.node_written IS 'Trigger of fairq_internal.node: tells the engine that the number has changed.';
COMMENT ON FUNCTION fairq_internal.queue_definitions IS 'All queues as another node can make them: settings, owner, grants, settings of groups, topics.';
COMMENT ON FUNCTION fairq_internal.define_queue IS 'Make a queue, or what it lacks, as another node has defined it.';
COMMENT ON FUNCTION fairq_internal.update_queue IS 'Give the tables of a queue that an earlier version has made what this one needs.';
COMMENT ON FUNCTION fairq_internal.update_queues IS 'Do that for all queues; one that cannot be updated is named in a warning.';
COMMENT ON FUNCTION fairq_internal.give_queue IS 'Give the tables of a queue to a role, and grants on them to others.';
COMMENT ON TABLE fairq_internal.departing IS 'Tasks on their way to another node, out of their queue.';
COMMENT ON TABLE fairq_internal.arrived IS 'The batches of tasks that have come from other nodes in the last days.';
COMMENT ON FUNCTION fairq_internal.as_owner IS 'Run a statement as the owner of a queue, in a restricted context.';
COMMENT ON FUNCTION fairq_internal.tasks_to_move IS 'Tasks of a queue that may leave for another node, in their order.';
COMMENT ON FUNCTION fairq_internal.depart IS 'Take tasks out of a queue for another node; returns which.';
COMMENT ON FUNCTION fairq_internal.departures IS 'The batches of tasks that are on their way to other nodes.';
COMMENT ON FUNCTION fairq_internal.tasks_here IS 'Return those of the ids whose tasks the queue has.';
COMMENT ON FUNCTION fairq_internal.departing_tasks IS 'The tasks of a batch that is on its way, as they travel.';
COMMENT ON FUNCTION fairq_internal.forget_departed IS 'Forget a batch that has arrived.';
COMMENT ON FUNCTION fairq_internal.arrive IS 'Enqueue a batch of another node, once.';
COMMENT ON FUNCTION fairq_internal.depart_no_more IS 'Put a batch back into its queue whose node is no more.';
COMMENT ON FUNCTION fairq_internal.stop_schedule IS 'Stop a schedule that goes to another node; returns its times.';
COMMENT ON FUNCTION fairq_internal.start_schedule IS 'Start a schedule that has come from another node, with its times or from now on.';
COMMENT ON FUNCTION fairq_internal.schedule_definitions IS 'All schedules as another node can have them.';
COMMENT ON FUNCTION fairq_internal.define_schedule IS 'Make a schedule of another node, which does not run here.';
COMMENT ON FUNCTION fairq_internal.cron_next IS 'Return the first tick of a cron expression after a time, for tests; anchor is what @every counts from.';
COMMENT ON FUNCTION fairq_internal.stats_of_queues IS 'What is behind the view fairq.queue_stats.';
COMMENT ON FUNCTION fairq_internal.stats_of_groups IS 'What is behind the view fairq.group_stats.';
COMMENT ON FUNCTION fairq_internal.stats_of_buckets IS 'What is behind the view fairq.bucket_stats.';
COMMENT ON FUNCTION fairq_internal.live_leases IS 'What is behind the view fairq.leases.';
COMMENT ON FUNCTION fairq_internal.open_sessions IS 'What is behind the view fairq.sessions.';
COMMENT ON FUNCTION fairq_internal.tasks_page IS 'Name tasks with ids above one, of so many that are looked at, and the id to go on from, null at the end.';
COMMENT ON FUNCTION fairq_internal.done_page IS 'Name done tasks before a time and an id, of so many that are looked at, and where to go on, null at the end.';
COMMENT ON FUNCTION fairq_internal.dead_of_queues IS 'What is behind the view fairq.dead_tasks.';
COMMENT ON FUNCTION fairq_internal.done_of_queues IS 'What is behind the view fairq.done_tasks.';

-- A view that is new.
GRANT SELECT ON fairq.dependencies TO PUBLIC;

SELECT fairq_internal.retire('fairq.stats_of_queues_0_1()');
SELECT fairq_internal.retire('fairq.stats_of_groups_0_1()');
SELECT fairq_internal.retire('fairq.done_of_queues_0_1()');
DROP FUNCTION fairq_internal.retire(regprocedure);
