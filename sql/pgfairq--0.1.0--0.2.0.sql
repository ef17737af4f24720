\echo Use "ALTER EXTENSION pgfairq UPDATE" to load this file. \quit

-- From 0.1.0 to 0.2.0.

CREATE SCHEMA fairq_internal;
COMMENT ON SCHEMA fairq_internal IS 'pgfairq: what is not for applications';
GRANT USAGE ON SCHEMA fairq_internal TO PUBLIC;

-- ---------------------------------------------------------------------------
-- What changes its arguments, columns or name goes first
-- ---------------------------------------------------------------------------

DROP FUNCTION fairq.create_queue(text, text, int, interval, int, interval, interval, bigint, bigint, bigint, interval, boolean, text, boolean);
DROP FUNCTION fairq.alter_queue(text, int, interval, int, interval, interval, bigint, bigint, bigint, interval, boolean, text, boolean);
DROP FUNCTION fairq.purge(text, text);
DROP FUNCTION fairq.pause(text, text);
DROP FUNCTION fairq.resume(text, text);
DROP FUNCTION fairq.set_group(text, text, real, int, real, int);
DROP FUNCTION fairq.set_group_defaults(text, real, int, real, int);
DROP FUNCTION fairq.enqueue(text, jsonb, text, bigint, real, timestamptz, text, text, int, interval, jsonb);
DROP FUNCTION fairq.enqueue_many(text, jsonb[], text[], bigint[], real[], timestamptz[], text[], text);
DROP FUNCTION fairq.publish(text, jsonb, text, bigint, real, timestamptz, text, text, int, interval, jsonb);
DROP FUNCTION fairq.ack(uuid);
DROP FUNCTION fairq.release(uuid);
DROP FUNCTION fairq.release_many(uuid[]);
DROP FUNCTION fairq.revive(text, bigint);
ALTER FUNCTION fairq.stats_of_queues() RENAME TO stats_of_queues_0_1; -- until its view is replaced
DROP FUNCTION fairq.reset_stats(text);
ALTER FUNCTION fairq.done_of_queues() RENAME TO done_of_queues_0_1; -- until its view is replaced

-- ---------------------------------------------------------------------------
-- Tables
-- ---------------------------------------------------------------------------

ALTER TABLE fairq.queue RENAME COLUMN max_tasks TO max_depth;
ALTER VIEW fairq.queues RENAME COLUMN max_tasks TO max_depth;
ALTER TABLE fairq.queue
    ADD COLUMN expire_after pg_catalog.interval,
    ADD COLUMN backoff_jitter pg_catalog.float8 NOT NULL DEFAULT 0.1,
    ADD COLUMN default_priority pg_catalog.int8 NOT NULL DEFAULT 4,
    ADD COLUMN group_required pg_catalog.bool NOT NULL DEFAULT false;

-- Tasks that are given no priority have the one that they had.
UPDATE fairq.queue SET default_priority = 0;

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

ALTER TYPE fairq.task ADD ATTRIBUTE expires_at pg_catalog.timestamptz;
ALTER TYPE fairq.task_status ADD ATTRIBUTE expires_at pg_catalog.timestamptz;

DO $$
DECLARE
    name text;
BEGIN
    FOR name IN SELECT q.queue FROM fairq.queue q
                JOIN pg_catalog.pg_class c ON c.relname = 'q_' || q.queue AND c.relkind = 'r'
                WHERE c.relnamespace = 'fairq'::pg_catalog.regnamespace
    LOOP
        EXECUTE pg_catalog.format('ALTER TABLE fairq.%I ADD expires_at pg_catalog.timestamptz', 'q_' || name);
        EXECUTE pg_catalog.format('CREATE INDEX %I ON fairq.%I USING btree (expires_at)'
            ' WHERE expires_at IS NOT NULL AND state OPERATOR(pg_catalog.<>) %L', 'expiry_of_' || name, 'q_' || name, 'd');
    END LOOP;
END
$$;

-- Archives get a column and an index. One with a column "result" of the owner's own
-- making keeps that, and has no results.
DO $$
DECLARE
    name text;
BEGIN
    FOR name IN SELECT q.queue FROM fairq.queue q
                JOIN pg_catalog.pg_class c ON c.relname = 'q_' || q.queue
                JOIN pg_catalog.pg_class a ON a.relname = 'done_' || q.queue AND a.relkind = 'r'
                WHERE c.relnamespace = 'fairq'::pg_catalog.regnamespace
                AND a.relnamespace = 'fairq'::pg_catalog.regnamespace AND a.relowner = c.relowner
                AND NOT EXISTS (SELECT FROM pg_catalog.pg_attribute
                                WHERE attrelid = a.oid AND attname = 'result' AND NOT attisdropped)
    LOOP
        EXECUTE pg_catalog.format('ALTER TABLE fairq.%I ADD result pg_catalog.jsonb', 'done_' || name);
        IF pg_catalog.to_regclass(pg_catalog.format('fairq.%I', 'archived_id_of_' || name)) IS NULL THEN
            EXECUTE pg_catalog.format('CREATE INDEX %I ON fairq.%I (id)', 'archived_id_of_' || name, 'done_' || name);
        END IF;
    END LOOP;
END
$$;

CREATE TYPE fairq.outcome AS (
    state pg_catalog.text,
    result pg_catalog.jsonb,
    last_error pg_catalog.text,
    done_at pg_catalog.timestamptz
);
COMMENT ON TYPE fairq.outcome IS 'How a task has ended: state is acked, dead, cancelled or expired, or its present state if it has not; result is what its worker gave fairq.ack(), and done_at when it did';

-- ---------------------------------------------------------------------------
-- Remembered keys
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
ALTER TABLE fairq_internal.remembered_key REPLICA IDENTITY FULL;

-- As with fairq.group_setting: only a deletion of the queue is looked after.
ALTER TABLE fairq_internal.remembered_key DISABLE TRIGGER ALL;
REVOKE ALL ON fairq_internal.remembered_key FROM PUBLIC;
COMMENT ON TABLE fairq_internal.remembered_key IS 'Unique keys that are remembered, as unique_for of fairq.enqueue() says, with the task of each; written by the engine alone';

CREATE FUNCTION fairq_internal.remembered_key_written()
RETURNS trigger LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_remembered_key_written';
COMMENT ON FUNCTION fairq_internal.remembered_key_written() IS
'Row trigger of fairq_internal.remembered_key: tells the engine of rows, also of those that a restore writes.';

CREATE TRIGGER fairq_remembered_key_written
    AFTER INSERT OR UPDATE ON fairq_internal.remembered_key
    FOR EACH ROW EXECUTE FUNCTION fairq_internal.remembered_key_written();
ALTER TABLE fairq_internal.remembered_key ENABLE ALWAYS TRIGGER fairq_remembered_key_written;

-- ---------------------------------------------------------------------------
-- Schedules
-- ---------------------------------------------------------------------------

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
COMMENT ON TABLE fairq.schedule IS 'Schedules; written by fairq.schedule() and by whoever runs them, read through the view fairq.schedules';

CREATE FUNCTION fairq_internal.schedule_written()
RETURNS trigger LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_schedule_written';
COMMENT ON FUNCTION fairq_internal.schedule_written() IS
'Statement trigger of fairq.schedule: wakes the worker when a definition was written, be it by a restore.';

CREATE FUNCTION fairq_internal.schedule_inserted()
RETURNS trigger LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_schedule_inserted';
COMMENT ON FUNCTION fairq_internal.schedule_inserted() IS
'Row trigger of fairq.schedule: the owner is the role of that name, whatever its oid was where the row comes from.';

CREATE TRIGGER fairq_schedule_inserted
    BEFORE INSERT ON fairq.schedule
    FOR EACH ROW EXECUTE FUNCTION fairq_internal.schedule_inserted();
ALTER TABLE fairq.schedule ENABLE ALWAYS TRIGGER fairq_schedule_inserted;

CREATE TRIGGER fairq_schedule_written
    AFTER INSERT OR UPDATE OF queue, cron, timezone, active ON fairq.schedule
    FOR EACH STATEMENT EXECUTE FUNCTION fairq_internal.schedule_written();
ALTER TABLE fairq.schedule ENABLE ALWAYS TRIGGER fairq_schedule_written;

CREATE FUNCTION fairq.schedule(name text, queue text, cron text, payload jsonb DEFAULT '{}',
    group_key text DEFAULT '', priority bigint DEFAULT NULL, cost double precision DEFAULT 1,
    headers jsonb DEFAULT NULL, timezone text DEFAULT 'UTC', catch_up text DEFAULT 'one',
    overlap boolean DEFAULT false, active boolean DEFAULT true)
RETURNS timestamptz LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_schedule';
COMMENT ON FUNCTION fairq.schedule(text, text, text, jsonb, text, bigint, double precision, jsonb, text, text, boolean, boolean) IS
'Have a task enqueued again and again; returns the next time, null if the schedule is not active. A schedule of that name is replaced, by its owner. name: 1 to 255 bytes; cron: minute, hour, day of the month, month and day of the week, or six fields with the second first, or @hourly, @daily, @weekly, @monthly, @yearly, or @every 15 s; timezone: what clock that is about; payload, group_key, priority, cost, headers: as in fairq.enqueue(), and headers get schedule and tick; catch_up: after a time without a worker run none of the ticks that were missed, one for all of them, or all, up to 1000; overlap: false has no task enqueued while the last one of this schedule waits or runs; active: false stops it. Tasks are enqueued as the owner, who needs INSERT. Errors: 42704 for an unknown queue, 42501, 22023, 53400 (pgfairq.max_schedules).';

CREATE FUNCTION fairq.unschedule(name text)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_unschedule';
COMMENT ON FUNCTION fairq.unschedule(text) IS
'Remove a schedule; tasks that it has enqueued stay. Returns false if there is none. For its owner. Errors: 42501, 22023.';

CREATE FUNCTION fairq_internal.cron_next(cron text, timezone text, after timestamptz, anchor timestamptz)
RETURNS timestamptz LANGUAGE C STABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'fairq_cron_next';
COMMENT ON FUNCTION fairq_internal.cron_next(text, text, timestamptz, timestamptz) IS
'The first tick of a cron expression after a time; anchor: what @every counts from. For tests. Errors: 22023.';

CREATE FUNCTION fairq_internal.schedule_owner(owner text, owner_oid oid)
RETURNS oid LANGUAGE C STABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'fairq_schedule_owner';
COMMENT ON FUNCTION fairq_internal.schedule_owner(text, oid) IS
'The role that a row of fairq.schedule names; null: there is none.';

-- What a task carries is for who could enqueue it, not for pg_monitor.
CREATE VIEW fairq.schedules WITH (security_barrier) AS
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
COMMENT ON VIEW fairq.schedules IS
'What is enqueued again and again, and how that goes: those of one''s own roles, to pg_monitor all, without payload and headers.';
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
GRANT SELECT ON fairq.schedules TO PUBLIC;

-- ---------------------------------------------------------------------------
-- Functions that are new, or changed
-- ---------------------------------------------------------------------------

CREATE FUNCTION fairq.create_queue(queue text,
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
COMMENT ON FUNCTION fairq.create_queue(text, text, int, interval, int, interval, interval, bigint, bigint, bigint, interval, boolean, text, boolean, interval, double precision, bigint, boolean, boolean) IS
'Create a queue, owned by the caller, who needs CREATE on schema fairq. policy: fair (weighted fair queueing between groups, within classes of priority 0 to 9), priority (lowest first) or time; buckets: 1 to 1024 independent parts; lease: how long a claim lasts; max_attempts: then a task is dead, 0 for no limit; backoff_base, backoff_max: the wait after a failed attempt; max_ready, max_ready_per_group: under policy fair, tasks beyond so many that are ready wait in the overflow; max_depth: enqueue is refused beyond so many that are not dead, null or 0 for no limit; durable_leases: leases survive a crash; charge: what tasks count for, cost or the seconds that tasks of the group take; notify: NOTIFY fairq_<queue> when something becomes claimable; keep_done: how long finished tasks are kept in the table fairq.done_<queue>, null or 0 for not at all; expire_after: a task without an expires_at has so long from its enqueue, or from its run_at if that is later, null or 0 for ever; backoff_jitter: 0 to 1, how much of that wait is left to chance, either way; default_priority: of tasks that are given none; group_required: a task has to have a group key; if_not_exists: a queue of the name is left as it is. Errors: 42710 if there is a queue of the name, or another relation of the name of its table or its archive, 42501, 22023 for a bad value.';

CREATE FUNCTION fairq.alter_queue(queue text,
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
COMMENT ON FUNCTION fairq.alter_queue(text, int, interval, int, interval, interval, bigint, bigint, bigint, interval, boolean, text, boolean, interval, double precision, bigint, boolean) IS
'Change settings of a queue; null leaves one as it is, 0 takes the limit of max_depth, keep_done or expire_after away. Its policy and its name cannot be changed. For its owner. In force for statements that begin after the commit. buckets: new tasks go to so many, those that are in others stay and are claimed as before. keep_done: a shorter time has what is older removed; with 0 nothing is archived any more and what is there stays. expire_after: for tasks that are enqueued from then on. Errors: 42704 for an unknown queue, 42501, 22023, 53400 (pgfairq.max_lanes is too low for so many buckets; nothing is changed), 42710 (keep_done: a relation has the name of the archive).';

CREATE FUNCTION fairq.purge(queue text)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_purge';
COMMENT ON FUNCTION fairq.purge(text) IS
'Remove every task of a queue that is not leased, the dead included. Needs DELETE. Returns how many. Reads the whole table. If the queue has an archive they are in it as cancelled, or as dead. Errors: 42704, 42501, 22023.';

CREATE FUNCTION fairq.purge_group(queue text, group_key text)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_purge_group';
COMMENT ON FUNCTION fairq.purge_group(text, text) IS
'As fairq.purge(), for the tasks of one group. Needs DELETE. Returns how many. Errors: 42704, 42501, 22023.';

CREATE FUNCTION fairq.pause(queue text)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_pause';
COMMENT ON FUNCTION fairq.pause(text) IS
'Pause a queue: claims return nothing until fairq.resume(). Tasks can still be enqueued, and leases settled. For its owner. Errors: 42704, 42501, 22023.';

CREATE FUNCTION fairq.resume(queue text)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_resume';
COMMENT ON FUNCTION fairq.resume(text) IS
'Let claims from a paused queue go on. For its owner. Errors: 42704, 42501, 22023.';

CREATE FUNCTION fairq.pause_group(queue text, group_key text)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_pause_group';
COMMENT ON FUNCTION fairq.pause_group(text, text) IS
'Pause a group: claims return none of its tasks until fairq.resume_group(). For the owner of the queue. Errors: 42704, 42501, 22023, 53400 (too many groups with settings).';

CREATE FUNCTION fairq.resume_group(queue text, group_key text)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_resume_group';
COMMENT ON FUNCTION fairq.resume_group(text, text) IS
'Let claims of the tasks of a paused group go on. For the owner of the queue. Errors: 42704, 42501, 22023, 53400 (too many groups with settings).';

CREATE FUNCTION fairq.set_group(queue text, group_key text,
    weight double precision DEFAULT NULL, max_leased int DEFAULT NULL,
    rate double precision DEFAULT NULL, burst int DEFAULT NULL)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_set_group';
COMMENT ON FUNCTION fairq.set_group(text, text, double precision, int, double precision, int) IS
'Say what a group may have; null leaves one as it is. weight: its share between groups that have work, from 0.001 to 1000, for tasks that get their place from then on; max_leased: at most so many of its tasks in flight, 0 for no limit; rate: at most so many claims of its tasks a second, 0 for no limit; burst: and so many at once after a pause, 0 for as many as rate. In force for claims when it is committed. For the owner of the queue. Errors: 42704, 42501, 22023, 53400 (too many groups with settings).';

CREATE FUNCTION fairq.reset_group(queue text, group_key text)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_reset_group';
COMMENT ON FUNCTION fairq.reset_group(text, text) IS
'Take away what a group was given: it has the defaults of the queue again, and is not paused. Returns false if it had nothing of its own. In force for claims when it is committed. For the owner of the queue. Errors: 42704, 42501, 22023.';

CREATE FUNCTION fairq.set_group_defaults(queue text,
    weight double precision DEFAULT NULL, max_leased int DEFAULT NULL,
    rate double precision DEFAULT NULL, burst int DEFAULT NULL)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_set_group_defaults';
COMMENT ON FUNCTION fairq.set_group_defaults(text, double precision, int, double precision, int) IS
'Say what those groups of a queue may have each that were not given something else by fairq.set_group(), with the same arguments. For the owner of the queue. Errors: 42704, 42501, 22023, 53400 (too many groups with settings).';

CREATE FUNCTION fairq.enqueue(queue text, payload jsonb,
    group_key text DEFAULT '', priority bigint DEFAULT NULL, cost double precision DEFAULT 1,
    run_at timestamptz DEFAULT NULL,
    unique_key text DEFAULT NULL, on_duplicate text DEFAULT 'keep',
    max_attempts int DEFAULT NULL, lease interval DEFAULT NULL, headers jsonb DEFAULT NULL,
    expires_at timestamptz DEFAULT NULL, unique_for interval DEFAULT NULL,
    delay interval DEFAULT NULL)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_enqueue';
COMMENT ON FUNCTION fairq.enqueue(text, jsonb, text, bigint, double precision, timestamptz, text, text, int, interval, jsonb, timestamptz, interval, interval) IS
'Enqueue a task; returns its id. It exists when and only when the transaction commits. group_key: whom it counts for, up to 1024 bytes; priority: 0 to 9 under policy fair, any under policy priority, lower first, null for the queue''s default_priority; cost: from 0.001 to 1000000, what it counts for; run_at: not claimable before, a time in the past is now; delay: the same from now on; max_attempts and lease: instead of the queue''s; expires_at: never begun after, then it ends as expired; infinity: never, whatever the queue''s expire_after. Needs INSERT. unique_key: what the task is about, 1 to 1024 bytes; if a task of the key waits, its id is returned, and it is left as it is (on_duplicate keep) or made what this call gives (replace); if one is in flight, the new one is held until that is done, or keeps or replaces the one that is held. Waits for other producers of the same key. Errors: 42704, 42501, 22023, 53400 (the queue has max_depth tasks, or one of the settings pgfairq.max_queues, max_groups and max_lanes is reached).';

CREATE FUNCTION fairq.enqueue_many(queue text, payloads jsonb[],
    group_keys text[] DEFAULT NULL, priorities bigint[] DEFAULT NULL,
    costs double precision[] DEFAULT NULL, run_ats timestamptz[] DEFAULT NULL,
    unique_keys text[] DEFAULT NULL, on_duplicate text DEFAULT 'keep',
    unique_for interval DEFAULT NULL)
RETURNS bigint[] LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_enqueue_many';
COMMENT ON FUNCTION fairq.enqueue_many(text, jsonb[], text[], bigint[], double precision[], timestamptz[], text[], text, interval) IS
'Enqueue tasks; returns their ids in the order given. Arrays have one dimension and the same length; an array of length 1 stands for all, and a null element for the default, but a payload may not be null. An empty array is of length 0: beside others of length 1 nothing is enqueued. Keys are taken in their own order, whatever that of the arrays. Needs INSERT. Else, and for errors, as fairq.enqueue().';

CREATE FUNCTION fairq.publish(topic text, payload jsonb,
    group_key text DEFAULT '', priority bigint DEFAULT NULL, cost double precision DEFAULT 1,
    run_at timestamptz DEFAULT NULL, unique_key text DEFAULT NULL, on_duplicate text DEFAULT 'keep',
    max_attempts int DEFAULT NULL, lease interval DEFAULT NULL, headers jsonb DEFAULT NULL,
    expires_at timestamptz DEFAULT NULL, unique_for interval DEFAULT NULL,
    delay interval DEFAULT NULL)
RETURNS int LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_publish';
COMMENT ON FUNCTION fairq.publish(text, jsonb, text, bigint, double precision, timestamptz, text, text, int, interval, jsonb, timestamptz, interval, interval) IS
'Enqueue a task in every queue with a subscription that the topic matches, one in each; returns in how many. topic: words joined by ''.'', up to 255 bytes, without * and #. The other arguments are those of fairq.enqueue(), and as good for each of the queues. Needs INSERT on all of them. Errors: 22023 for a bad topic or an argument that one of the queues does not take, 42501, and those of fairq.enqueue(); the message names the queue, and no queue has a task then.';

CREATE FUNCTION fairq.ack(receipt uuid, result jsonb DEFAULT NULL)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_ack';
COMMENT ON FUNCTION fairq.ack(uuid, jsonb) IS
'The task is done: remove it, if the transaction commits. result: what came of it, kept in the archive with the task, for fairq.await(). Returns false if the lease is no longer the caller''s; of all transactions that ack a task at most one commits with true. Needs DELETE. Errors: 42501, 22023, 55000 (there is a result, and the queue has no archive or one without a column for it), and what the archive''s constraints raise.';

CREATE FUNCTION fairq.release(receipt uuid, delay interval DEFAULT '0')
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_release';
COMMENT ON FUNCTION fairq.release(uuid, interval) IS
'Give the task back to its place; no attempt is counted. delay: not claimable before that is over, and in a new place then. Returns false if the lease is no longer the caller''s. Needs SELECT and UPDATE. Errors: 42501, 22023.';

CREATE FUNCTION fairq.release_many(receipts uuid[], delay interval DEFAULT '0')
RETURNS SETOF uuid LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_release_many';
COMMENT ON FUNCTION fairq.release_many(uuid[], interval) IS
'As fairq.release(), for many; returns the receipts that were released. Needs SELECT and UPDATE. Errors: 42501, 22023.';

CREATE FUNCTION fairq.await(queue text, id bigint, timeout interval DEFAULT '30 s')
RETURNS fairq.outcome LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_await';
COMMENT ON FUNCTION fairq.await(text, bigint, interval) IS
'Wait until a task has ended, and return how: state (acked, dead, cancelled or expired), result, last_error and done_at; after timeout (0 to 10 years; 0: look, without waiting) its present state (ready, leased, scheduled, overflow or held). Of a task that ended before, the archive knows; null if there is no such task, or nothing remembers it. The statement''s snapshot is held meanwhile. Needs SELECT. Errors: 42704 (also if the queue is dropped while it waits), 42501, 22023, 25001 (the task was written by this very transaction), 25006 (it would have to wait on a standby).';

CREATE FUNCTION fairq.revive(queue text, id bigint)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_revive';
COMMENT ON FUNCTION fairq.revive(text, bigint) IS
'Make a dead task ready again with all attempts: held if another one of its unique key is in flight, and not at all if one waits. Returns how many. Needs SELECT and UPDATE. Errors: 42704, 42501, 22023, 53400 (too many groups or lanes).';

CREATE FUNCTION fairq.revive_group(queue text, group_key text)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_revive_group';
COMMENT ON FUNCTION fairq.revive_group(text, text) IS
'As fairq.revive(), for all dead tasks of a group. Returns how many. Reads the whole table. Needs SELECT and UPDATE. Errors: as fairq.revive().';

CREATE FUNCTION fairq.revive_all(queue text)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_revive_all';
COMMENT ON FUNCTION fairq.revive_all(text) IS
'As fairq.revive(), for all dead tasks of a queue. Returns how many. Reads the whole table. Needs SELECT and UPDATE. Errors: as fairq.revive().';

CREATE FUNCTION fairq.stats_of_queues(
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
COMMENT ON FUNCTION fairq.stats_of_queues() IS
'What is behind the view fairq.queue_stats';

CREATE FUNCTION fairq.reset_stats(queue text)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_reset_stats';
COMMENT ON FUNCTION fairq.reset_stats(text) IS
'Count anew what the view fairq.queue_stats shows of a queue, but for how many tasks there are. Done at once, a rollback does not undo it. For the owner of the queue. Errors: 42704, 42501, 22023.';

CREATE FUNCTION fairq.done_of_queues(
    OUT queue text, OUT id bigint, OUT enqueued_at timestamptz, OUT claimed_at timestamptz, OUT done_at timestamptz,
    OUT run_at timestamptz, OUT priority bigint, OUT cost real, OUT attempts int, OUT outcome text, OUT group_key text,
    OUT payload jsonb, OUT headers jsonb, OUT unique_key text, OUT last_error text, OUT result jsonb)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1000
AS 'MODULE_PATHNAME', 'fairq_done_of_queues';
COMMENT ON FUNCTION fairq.done_of_queues() IS
'What is behind the view fairq.archived_tasks';

CREATE OR REPLACE FUNCTION fairq.dead_of_queues(
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
        -- An owner who has made his table unfit, or has row security on it,
        -- does not keep us from the others'.
        BEGIN
            RETURN QUERY SELECT name, t.id, t.group_key, t.payload, t.headers,
                t.priority, t.attempts, t.enqueued_at, t.last_error
                FROM fairq.tasks(name, 'dead'::pg_catalog.text, NULL::pg_catalog.text) t; -- no other function's arguments
        EXCEPTION WHEN invalid_table_definition OR insufficient_privilege OR configuration_limit_exceeded THEN
            NULL;
        END;
    END LOOP;
END
$$;
COMMENT ON FUNCTION fairq.dead_of_queues() IS
'What is behind the view fairq.dead_tasks';

-- ---------------------------------------------------------------------------
-- Views
-- ---------------------------------------------------------------------------

CREATE OR REPLACE VIEW fairq.queues AS
SELECT q.queue, c.relowner::pg_catalog.regrole AS owner, c.oid::pg_catalog.regclass AS relation,
    q.policy, q.buckets, q.lease, q.max_attempts, q.backoff_base, q.backoff_max,
    q.max_ready, q.max_ready_per_group, q.max_depth, q.keep_done, q.durable_leases, q.charge, q.notify,
    q.group_weight, q.group_max_leased, q.group_rate, q.group_burst, q.paused, q.expire_after,
    q.backoff_jitter, q.default_priority, q.group_required
FROM fairq.queue q
JOIN pg_catalog.pg_class c ON c.relname::pg_catalog.text OPERATOR(pg_catalog.=) ('q_' OPERATOR(pg_catalog.||) q.queue)
    AND c.relnamespace OPERATOR(pg_catalog.=) 'fairq'::pg_catalog.regnamespace;
COMMENT ON VIEW fairq.queues IS 'The queues of this database and their settings';

CREATE OR REPLACE VIEW fairq.queue_stats AS SELECT * FROM fairq.stats_of_queues();
COMMENT ON VIEW fairq.queue_stats IS
'For each queue how many tasks are in each state, how long the longest waiting at the front, of groups that may be claimed from, has waited; what happened since stats_reset; how much of it a second in the last minute; how long tasks waited to be claimed and ran until they were acknowledged (quantiles, up to 6.25 % above the true ones); and how many bytes payloads have. Of a queue whose table is locked exclusively what would have to be read there is null. Shows the queues that one may read, to pg_monitor all.';

CREATE OR REPLACE VIEW fairq.archived_tasks AS SELECT * FROM fairq.done_of_queues();
COMMENT ON VIEW fairq.archived_tasks IS
'The finished tasks that are kept in archives, of the archives that one may read: outcome acked, cancelled or dead, attempts, when claimed and done. Reads their tables, and waits for locks on them.';

DROP FUNCTION fairq.stats_of_queues_0_1();
DROP FUNCTION fairq.done_of_queues_0_1();

-- ---------------------------------------------------------------------------
-- Workers of several queues
-- ---------------------------------------------------------------------------

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
COMMENT ON TYPE fairq.queue_task IS 'A task as a claimer of several queues gets it: the queue it is of, then the columns of fairq.task';

CREATE FUNCTION fairq.claim_any(queues text[], max_tasks int DEFAULT 1,
    lease interval DEFAULT NULL, session uuid DEFAULT NULL, wait interval DEFAULT '0')
RETURNS SETOF fairq.queue_task LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_claim_any';
COMMENT ON FUNCTION fairq.claim_any(text[], int, interval, uuid, interval) IS
'As fairq.claim(), for a worker of several queues: lease up to max_tasks (1 to 100000) tasks of all of them together, from the queues in the order given, from each in its order. queues: the names of 1 to 32 queues; one that is named again counts once. Returns the tasks with their queues and receipts. lease, session, wait: as for fairq.claim(); a task of any of the queues ends the wait. Needs SELECT and UPDATE on each queue, which is checked, as is that each exists, before anything is leased. Errors: as fairq.claim().';

CREATE PROCEDURE fairq.wait_any(queues text[], timeout interval DEFAULT '30 s')
LANGUAGE C
AS 'MODULE_PATHNAME', 'fairq_wait_any';
COMMENT ON PROCEDURE fairq.wait_any(text[], interval) IS
'As fairq.wait(), for several queues, 1 to 32: return when something may be claimable in any of them, or after timeout (0 to 10 years). Needs SELECT on each. Errors: as fairq.wait().';

-- ---------------------------------------------------------------------------
-- What else is said in other words
-- ---------------------------------------------------------------------------

COMMENT ON FUNCTION fairq.maintain(text) IS
'Do by hand what the background worker does: put back the tasks of leases that have run out, make due tasks ready, move tasks out of the overflow, and look for held tasks that nothing holds any more. Returns how many that were; it ends when they are 10000 in all, or a few thousand more. Old rows of the archive are removed, too, and not counted; 10000 of them end it as well. It also goes on with the sweep, which looks for tasks that were not handed over. For servers without a free worker process. Needs SELECT and UPDATE. Errors: 42704, 42501, 22023.';
COMMENT ON TABLE fairq.group_setting IS 'Settings of groups; written by fairq.set_group(), fairq.pause_group() and fairq.resume_group(), shown by the view fairq.group_settings';
COMMENT ON FUNCTION fairq.ack_many(uuid[]) IS
'As fairq.ack(), for many, without results; returns the receipts that were acknowledged. Needs DELETE. Errors: as fairq.ack().';
COMMENT ON FUNCTION fairq.nack(uuid, text, interval) IS
'The attempt failed: put the task back with a fresh address, after a wait, or to the dead if that was its last attempt. error is kept as last_error. delay: how long it waits before it is ready again; null: the queue''s backoff, backoff_base * 2^(n-1) after attempt n with the queue''s backoff_jitter, up to backoff_max. Returns false if the lease is no longer the caller''s. Needs SELECT and UPDATE. Errors: 42501, 22023.';
COMMENT ON FUNCTION fairq.pop(text, int, interval, int[], text[]) IS
'Claim and acknowledge in the caller''s transaction: if it commits the tasks are done, if it rolls back or its connection is lost they are back in their place at once. Returns the tasks. Needs SELECT and DELETE. Else, and for errors, as fairq.claim(); 40001 if another transaction changes the row with SQL at that moment.';
COMMENT ON VIEW fairq.group_settings IS
'What groups were given by fairq.set_group() and fairq.pause_group(); null is the default of the queue. Shows the queues that one may read, to pg_monitor all.';
