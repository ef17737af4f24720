\echo Use "ALTER EXTENSION pgfairq UPDATE" to load this file. \quit

-- From 0.1.0 to 0.2.0. In the order of the fragments in sql/install.

-- ---------------------------------------------------------------------------
-- Schemas
-- ---------------------------------------------------------------------------

CREATE SCHEMA fairq_internal;
COMMENT ON SCHEMA fairq_internal IS 'pgfairq: what is not for applications';
GRANT USAGE ON SCHEMA fairq_internal TO PUBLIC;

-- ---------------------------------------------------------------------------
-- Groups and topics
-- ---------------------------------------------------------------------------

-- pg_restore may load these tables before fairq.queue: an archive does not say that
-- they refer to it. So only a deletion there is looked after.
ALTER TABLE fairq.group_setting DISABLE TRIGGER ALL;
ALTER TABLE fairq.topic DISABLE TRIGGER ALL;

-- ---------------------------------------------------------------------------
-- Producing
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

DROP FUNCTION fairq.enqueue_many(text, jsonb[], text[], bigint[], real[], timestamptz[], text[], text);
CREATE FUNCTION fairq.enqueue_many(queue text, payloads jsonb[],
    group_keys text[] DEFAULT NULL, priorities bigint[] DEFAULT NULL,
    costs real[] DEFAULT NULL, run_ats timestamptz[] DEFAULT NULL,
    unique_keys text[] DEFAULT NULL, on_duplicate text DEFAULT 'keep',
    unique_for interval DEFAULT NULL)
RETURNS bigint[] LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_enqueue_many';
COMMENT ON FUNCTION fairq.enqueue_many(text, jsonb[], text[], bigint[], real[], timestamptz[], text[], text, interval) IS
'Enqueue tasks; returns their ids in the order given. Arrays have one dimension and the same length; an array of length 1 stands for all, and a null element for the default, but a payload may not be null. An empty array is of length 0: beside others of length 1 nothing is enqueued. Keys are taken in their own order, whatever that of the arrays; unique_for is for all of them. Needs INSERT. Else, and for errors, as fairq.enqueue().';

-- ---------------------------------------------------------------------------
-- Views
-- ---------------------------------------------------------------------------

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

-- ---------------------------------------------------------------------------
-- Tasks that expire
-- ---------------------------------------------------------------------------

ALTER TABLE fairq.queue ADD expire_after pg_catalog.interval;
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

DROP FUNCTION fairq.create_queue(text, text, int, interval, int, interval, interval, bigint, bigint, bigint, interval, boolean, text, boolean);
CREATE FUNCTION fairq.create_queue(queue text,
    policy text DEFAULT 'fair', buckets int DEFAULT 16,
    lease interval DEFAULT '30 s', max_attempts int DEFAULT 20,
    backoff_base interval DEFAULT '1 s', backoff_max interval DEFAULT '1 h',
    max_ready bigint DEFAULT 1000000, max_ready_per_group bigint DEFAULT 10000,
    max_tasks bigint DEFAULT NULL, keep_done interval DEFAULT NULL,
    durable_leases boolean DEFAULT false, charge text DEFAULT 'cost', notify boolean DEFAULT false,
    expire_after interval DEFAULT NULL)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_create_queue';
COMMENT ON FUNCTION fairq.create_queue(text, text, int, interval, int, interval, interval, bigint, bigint, bigint, interval, boolean, text, boolean, interval) IS
'Create a queue, owned by the caller, who needs CREATE on schema fairq. policy: fair (weighted fair queueing between groups, within classes of priority 0 to 9), priority (lowest first) or time; buckets: 1 to 1024 independent parts; lease: how long a claim lasts; max_attempts: then a task is dead, 0 for no limit; backoff_base, backoff_max: the wait after a failed attempt; max_ready, max_ready_per_group: under policy fair, tasks beyond so many that are ready wait in the overflow; max_tasks: enqueue is refused beyond so many that are not dead, null or 0 for no limit; durable_leases: leases survive a crash; charge: what tasks count for, cost or the seconds that tasks of the group take; notify: NOTIFY fairq_<queue> when something becomes claimable; keep_done: how long finished tasks are kept in the table fairq.done_<queue>, null or 0 for not at all; expire_after: a task without an expires_at has so long from its enqueue, or from its run_at if that is later, null or 0 for ever. Errors: 42710 if there is a queue of the name, or another relation of the name of its table or its archive, 42501, 22023 for a bad value.';

DROP FUNCTION fairq.alter_queue(text, int, interval, int, interval, interval, bigint, bigint, bigint, interval, boolean, text, boolean);
CREATE FUNCTION fairq.alter_queue(queue text,
    buckets int DEFAULT NULL, lease interval DEFAULT NULL, max_attempts int DEFAULT NULL,
    backoff_base interval DEFAULT NULL, backoff_max interval DEFAULT NULL,
    max_ready bigint DEFAULT NULL, max_ready_per_group bigint DEFAULT NULL,
    max_tasks bigint DEFAULT NULL, keep_done interval DEFAULT NULL,
    durable_leases boolean DEFAULT NULL, charge text DEFAULT NULL, notify boolean DEFAULT NULL,
    expire_after interval DEFAULT NULL)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_alter_queue';
COMMENT ON FUNCTION fairq.alter_queue(text, int, interval, int, interval, interval, bigint, bigint, bigint, interval, boolean, text, boolean, interval) IS
'Change settings of a queue; null leaves one as it is, 0 takes the limit of max_tasks, keep_done or expire_after away. Its policy and its name cannot be changed. For its owner. In force for statements that begin after the commit. buckets: new tasks go to so many, those that are in others stay and are claimed as before. keep_done: a shorter time has what is older removed; with 0 nothing is archived any more and what is there stays. expire_after: for tasks that are enqueued from then on. Errors: 42704 for an unknown queue, 42501, 22023, 53400 (pgfairq.max_lanes is too low for so many buckets; nothing is changed), 42710 (keep_done: a relation has the name of the archive).';

DROP FUNCTION fairq.enqueue(text, jsonb, text, bigint, real, timestamptz, text, text, int, interval, jsonb);
CREATE FUNCTION fairq.enqueue(queue text, payload jsonb,
    group_key text DEFAULT '', priority bigint DEFAULT 0, cost real DEFAULT 1,
    run_at timestamptz DEFAULT NULL,
    unique_key text DEFAULT NULL, on_duplicate text DEFAULT 'keep',
    max_attempts int DEFAULT NULL, lease interval DEFAULT NULL, headers jsonb DEFAULT NULL,
    expires_at timestamptz DEFAULT NULL, unique_for interval DEFAULT NULL)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_enqueue';
COMMENT ON FUNCTION fairq.enqueue(text, jsonb, text, bigint, real, timestamptz, text, text, int, interval, jsonb, timestamptz, interval) IS
'Enqueue a task; returns its id. It exists when and only when the transaction commits. group_key: whom it counts for, up to 1024 bytes; priority: 0 to 9 under policy fair, any under policy priority, lower first; cost: from 0.001 to 1000000, what it counts for; run_at: not claimable before, a time in the past is now; max_attempts and lease: instead of the queue''s; expires_at: never begun after, then it ends as expired; infinity: never, whatever the queue''s expire_after. Needs INSERT. unique_key: what the task is about, 1 to 1024 bytes; if a task of the key waits, its id is returned, and it is left as it is (on_duplicate keep) or made what this call gives (replace); if one is in flight, the new one is held until that is done, or keeps or replaces the one that is held. unique_for: the key is remembered so long, also when its task has ended; until then calls with the key return the id of that task and make no other. Waits for other producers of the same key. Errors: 42704, 42501, 22023, 53400 (the queue has max_tasks tasks, or one of the settings pgfairq.max_queues, max_groups and max_lanes is reached).';

DROP FUNCTION fairq.publish(text, jsonb, text, bigint, real, timestamptz, text, text, int, interval, jsonb);
CREATE FUNCTION fairq.publish(topic text, payload jsonb,
    group_key text DEFAULT '', priority bigint DEFAULT 0, cost real DEFAULT 1,
    run_at timestamptz DEFAULT NULL, unique_key text DEFAULT NULL, on_duplicate text DEFAULT 'keep',
    max_attempts int DEFAULT NULL, lease interval DEFAULT NULL, headers jsonb DEFAULT NULL,
    expires_at timestamptz DEFAULT NULL, unique_for interval DEFAULT NULL)
RETURNS int LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_publish';
COMMENT ON FUNCTION fairq.publish(text, jsonb, text, bigint, real, timestamptz, text, text, int, interval, jsonb, timestamptz, interval) IS
'Enqueue a task in every queue with a subscription that the topic matches, one in each; returns in how many. topic: words joined by ''.'', up to 255 bytes, without * and #. The other arguments are those of fairq.enqueue(), and as good for each of the queues. Needs INSERT on all of them. Errors: 22023 for a bad topic or an argument that one of the queues does not take, 42501, and those of fairq.enqueue(); the message names the queue, and no queue has a task then.';

CREATE OR REPLACE VIEW fairq.queues AS
SELECT q.queue, c.relowner::pg_catalog.regrole AS owner, c.oid::pg_catalog.regclass AS relation,
    q.policy, q.buckets, q.lease, q.max_attempts, q.backoff_base, q.backoff_max,
    q.max_ready, q.max_ready_per_group, q.max_tasks, q.keep_done, q.durable_leases, q.charge, q.notify,
    q.group_weight, q.group_max_leased, q.group_rate, q.group_burst, q.paused, q.expire_after
FROM fairq.queue q
JOIN pg_catalog.pg_class c ON c.relname::pg_catalog.text OPERATOR(pg_catalog.=) ('q_' OPERATOR(pg_catalog.||) q.queue)
    AND c.relnamespace OPERATOR(pg_catalog.=) 'fairq'::pg_catalog.regnamespace;

-- Through another name, so that users' views on this one stay.
ALTER FUNCTION fairq.stats_of_queues() RENAME TO stats_of_queues_0_1;
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
    OUT stats_reset timestamptz, OUT expired_tasks bigint, OUT deduplicated bigint)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_stats_of_queues';
COMMENT ON FUNCTION fairq.stats_of_queues() IS
'What is behind the view fairq.queue_stats';

CREATE OR REPLACE VIEW fairq.queue_stats AS SELECT * FROM fairq.stats_of_queues();
DROP FUNCTION fairq.stats_of_queues_0_1();

-- ---------------------------------------------------------------------------
-- Results
-- ---------------------------------------------------------------------------

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

DROP FUNCTION fairq.ack(uuid);
CREATE FUNCTION fairq.ack(receipt uuid, result jsonb DEFAULT NULL)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_ack';
COMMENT ON FUNCTION fairq.ack(uuid, jsonb) IS
'The task is done: remove it, if the transaction commits. result: what came of it, kept in the archive with the task, for fairq.await(). Returns false if the lease is no longer the caller''s; of all transactions that ack a task at most one commits with true. Needs DELETE. Errors: 42501, 22023, 55000 (there is a result, and the queue has no archive or one without a column for it), and what the archive''s constraints raise.';

COMMENT ON FUNCTION fairq.ack_many(uuid[]) IS
'As fairq.ack(), for many, without results; returns the receipts that were acknowledged. Needs DELETE. Errors: as fairq.ack().';

CREATE FUNCTION fairq.await(queue text, id bigint, timeout interval DEFAULT '30 s')
RETURNS fairq.outcome LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_await';
COMMENT ON FUNCTION fairq.await(text, bigint, interval) IS
'Wait until a task has ended, and return how: state (acked, dead, cancelled or expired), result, last_error and done_at; after timeout (0 to 10 years; 0: look, without waiting) its present state (ready, leased, scheduled, overflow or held). Of a task that ended before, the archive knows; null if there is no such task, or nothing remembers it. The statement''s snapshot is held meanwhile. Needs SELECT. Errors: 42704 (also if the queue is dropped while it waits), 42501, 22023, 25001 (the task was written by this very transaction), 25006 (it would have to wait on a standby).';

ALTER FUNCTION fairq.done_of_queues() RENAME TO done_of_queues_0_1;
CREATE FUNCTION fairq.done_of_queues(
    OUT queue text, OUT id bigint, OUT enqueued_at timestamptz, OUT claimed_at timestamptz, OUT done_at timestamptz,
    OUT run_at timestamptz, OUT priority bigint, OUT cost real, OUT attempts int, OUT outcome text, OUT group_key text,
    OUT payload jsonb, OUT headers jsonb, OUT unique_key text, OUT last_error text, OUT result jsonb)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1000
AS 'MODULE_PATHNAME', 'fairq_done_of_queues';
COMMENT ON FUNCTION fairq.done_of_queues() IS
'What is behind the view fairq.archived_tasks';

CREATE OR REPLACE VIEW fairq.archived_tasks AS SELECT * FROM fairq.done_of_queues();
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
