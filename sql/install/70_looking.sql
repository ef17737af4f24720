CREATE FUNCTION fairq.peek(queue text, max_tasks int DEFAULT 10)
RETURNS SETOF fairq.task LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_peek';
COMMENT ON FUNCTION fairq.peek(text, int) IS
'What fairq.claim() would return next, in order, without leasing it: receipt and lease_until are null. Tasks of groups that are paused, or can have none more in flight, are left out; of a group that may have one more there may be several, and tasks that were set aside and wait for their turn are not shown. Returns up to max_tasks (1 to 100000) tasks. Needs SELECT. Errors: 42704, 42501, 22023.';

CREATE FUNCTION fairq.get_task(queue text, id bigint)
RETURNS SETOF fairq.task_status LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1
AS 'MODULE_PATHNAME', 'fairq_get_task';
COMMENT ON FUNCTION fairq.get_task(text, bigint) IS
'Returns one task in whatever state; no row if there is none. Needs SELECT. Errors: 42704, 42501, 22023.';

CREATE FUNCTION fairq.tasks(queue text, state text DEFAULT NULL, group_key text DEFAULT NULL)
RETURNS SETOF fairq.task_status LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1000
AS 'MODULE_PATHNAME', 'fairq_tasks';
COMMENT ON FUNCTION fairq.tasks(text, text, text) IS
'Returns all tasks, or those of one state (ready, leased, scheduled, overflow, held, dead) or one group, in no order. Needs SELECT. Reads the whole table. Errors: 42704, 42501, 22023.';

CREATE FUNCTION fairq.cancel(queue text, id bigint)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cancel';
COMMENT ON FUNCTION fairq.cancel(text, bigint) IS
'Remove a task: it will not run again, and if it is leased the lease is lost. Returns false if there is none. Waits for a transaction that is settling it. Needs DELETE. Errors: 42704, 42501, 22023.';

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

CREATE FUNCTION fairq.stats_of_buckets(
    OUT queue text, OUT bucket int, OUT class int, OUT ready bigint, OUT complete boolean,
    OUT next_address fairq.address, OUT frontier fairq.address)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 100
AS 'MODULE_PATHNAME', 'fairq_stats_of_buckets';
COMMENT ON FUNCTION fairq.stats_of_buckets() IS
'What is behind the view fairq.bucket_stats';

CREATE FUNCTION fairq.stats_of_groups(
    OUT queue text, OUT group_key text, OUT ready bigint, OUT overflow bigint, OUT leased bigint,
    OUT weight real, OUT max_leased int, OUT rate real, OUT burst int, OUT tokens float8, OUT paused boolean,
    OUT served bigint, OUT served_cost float8, OUT share float8, OUT expected_share float8, OUT share_error float8,
    OUT oldest_wait interval, OUT run_time interval)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 100
AS 'MODULE_PATHNAME', 'fairq_stats_of_groups';
COMMENT ON FUNCTION fairq.stats_of_groups() IS
'What is behind the view fairq.group_stats';

CREATE FUNCTION fairq.get_task_position(queue text, id bigint)
RETURNS fairq.task_position LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_get_task_position';
COMMENT ON FUNCTION fairq.get_task_position(text, bigint) IS
'How many ready tasks are ahead of a task, and about when it will start if tasks are claimed as they were in the last minute (null if none was), and not before the limits of its group let it (null if it is paused). exact: the tasks ahead were counted; up to 10000 are, beyond that it is an estimate, so that it costs the same however long the queue is. What comes later and is served earlier is not foreseen. Of a scheduled task starts_at is when it is due, of one in the overflow, held or dead both are null. Returns null if there is no such task. Needs SELECT. Errors: 42704, 42501, 22023.';

CREATE FUNCTION fairq.live_leases(
    OUT queue text, OUT id bigint, OUT receipt uuid, OUT lease_until timestamptz,
    OUT attempt int, OUT state text, OUT pid int)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 100
AS 'MODULE_PATHNAME', 'fairq_live_leases';
COMMENT ON FUNCTION fairq.live_leases() IS
'What is behind the view fairq.leases';

CREATE FUNCTION fairq.done_of_queues(
    OUT queue text, OUT id bigint, OUT enqueued_at timestamptz, OUT claimed_at timestamptz, OUT done_at timestamptz,
    OUT run_at timestamptz, OUT priority bigint, OUT cost real, OUT attempts int, OUT outcome text, OUT group_key text,
    OUT payload jsonb, OUT headers jsonb, OUT unique_key text, OUT last_error text, OUT result jsonb)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1000
AS 'MODULE_PATHNAME', 'fairq_done_of_queues';
COMMENT ON FUNCTION fairq.done_of_queues() IS
'What is behind the view fairq.archived_tasks';

-- All dead tasks of the queues that the caller may read.
CREATE FUNCTION fairq.dead_of_queues(
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

