CREATE OR REPLACE FUNCTION fairq.peek(queue text, max_tasks int DEFAULT 10)
RETURNS SETOF fairq.task LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_peek';
COMMENT ON FUNCTION fairq.peek IS 'Return what fairq.claim() would return next, class by class and in order, without leasing it.';

CREATE OR REPLACE FUNCTION fairq.get_task(queue text, id bigint)
RETURNS SETOF fairq.task_status LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1
AS 'MODULE_PATHNAME', 'fairq_get_task';
COMMENT ON FUNCTION fairq.get_task IS 'Return one task in whatever state, or no row if there is none.';

CREATE OR REPLACE FUNCTION fairq.tasks(queue text, state text DEFAULT NULL, group_key text DEFAULT NULL, name text DEFAULT NULL)
RETURNS SETOF fairq.task_status LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1000
AS 'MODULE_PATHNAME', 'fairq_tasks';
COMMENT ON FUNCTION fairq.tasks IS 'Return all tasks of a queue, or those of one state or one group, in no order.';

CREATE OR REPLACE FUNCTION fairq.get_task_by_key(queue text, unique_key text)
RETURNS SETOF fairq.task_status LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1
AS 'MODULE_PATHNAME', 'fairq_get_task_by_key';
COMMENT ON FUNCTION fairq.get_task_by_key IS 'Return the task that has a unique key and is not dead, or no row if there is none.';

CREATE OR REPLACE FUNCTION fairq.get_done_task(queue text, id bigint, done_at timestamptz DEFAULT NULL)
RETURNS SETOF fairq.task_done LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1
AS 'MODULE_PATHNAME', 'fairq_get_done_task';
COMMENT ON FUNCTION fairq.get_done_task IS 'Return what is kept of a done task, of several of one id that of a time or the latest; no row if nothing is.';

-- A part of a queue or of its archive that takes as long however many there are: for pages of
-- the dashboard, each of which begins where the one before has ended.
CREATE OR REPLACE FUNCTION fairq_internal.tasks_page(queue text, after_id bigint, max_rows int, max_tasks int,
    state text, group_key text, OUT ids bigint[], OUT last_id bigint)
RETURNS record LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_tasks_page';
COMMENT ON FUNCTION fairq_internal.tasks_page IS 'Name tasks with ids above one, of so many that are looked at, and the id to go on from, null at the end.';

CREATE OR REPLACE FUNCTION fairq_internal.done_page(queue text, before timestamptz, before_id bigint, max_rows int, max_tasks int,
    outcome text, group_key text, OUT ids bigint[], OUT times timestamptz[], OUT last_time timestamptz, OUT last_id bigint)
RETURNS record LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_done_page';
COMMENT ON FUNCTION fairq_internal.done_page IS 'Name done tasks before a time and an id, of so many that are looked at, and where to go on, null at the end.';

CREATE OR REPLACE FUNCTION fairq.cancel(queue text, id bigint)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cancel';
COMMENT ON FUNCTION fairq.cancel IS 'Remove a task, whose lease is lost if it has one; returns false if there is no such task.';

CREATE OR REPLACE FUNCTION fairq.revive(queue text, id bigint)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_revive';
COMMENT ON FUNCTION fairq.revive IS 'Make a dead task ready again, with all its attempts; returns how many that were.';

CREATE OR REPLACE FUNCTION fairq.revive_group(queue text, group_key text)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_revive_group';
COMMENT ON FUNCTION fairq.revive_group IS 'Make all dead tasks of a group ready again, with all their attempts; returns how many.';

CREATE OR REPLACE FUNCTION fairq.revive_all(queue text)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_revive_all';
COMMENT ON FUNCTION fairq.revive_all IS 'Make all dead tasks of a queue ready again, with all their attempts; returns how many.';

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
    OUT stats_reset timestamptz, OUT expired_tasks bigint, OUT deduplicated bigint, OUT snoozed bigint,
    OUT near_lease_end bigint)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_stats_of_queues';
COMMENT ON FUNCTION fairq_internal.stats_of_queues IS 'What is behind the view fairq.queue_stats.';

CREATE OR REPLACE FUNCTION fairq_internal.histograms_of_queues(
    OUT queue text, OUT kind text, OUT le float8, OUT count bigint, OUT sum float8)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 400
AS 'MODULE_PATHNAME', 'fairq_histograms_of_queues';
COMMENT ON FUNCTION fairq_internal.histograms_of_queues IS 'What is behind the view fairq.queue_histograms.';

CREATE OR REPLACE FUNCTION fairq_internal.stats_of_names(
    OUT queue text, OUT name text, OUT other boolean,
    OUT enqueued bigint, OUT done bigint, OUT failed bigint, OUT lost bigint, OUT dead bigint,
    OUT wait_p50 interval, OUT wait_p95 interval, OUT wait_p99 interval,
    OUT run_p50 interval, OUT run_p95 interval, OUT run_p99 interval)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 50
AS 'MODULE_PATHNAME', 'fairq_stats_of_names';
COMMENT ON FUNCTION fairq_internal.stats_of_names IS 'What is behind the view fairq.name_stats.';

CREATE OR REPLACE FUNCTION fairq_internal.histograms_of_names(
    OUT queue text, OUT name text, OUT other boolean, OUT kind text, OUT le float8, OUT count bigint, OUT sum float8)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 2000
AS 'MODULE_PATHNAME', 'fairq_histograms_of_names';
COMMENT ON FUNCTION fairq_internal.histograms_of_names IS 'What is behind the view fairq.name_histograms.';

CREATE OR REPLACE FUNCTION fairq.reset_stats(queue text)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_reset_stats';
COMMENT ON FUNCTION fairq.reset_stats IS 'Count anew what the views fairq.queue_stats, fairq.queue_histograms, fairq.name_stats and fairq.name_histograms show of a queue.';

CREATE OR REPLACE FUNCTION fairq_internal.stats_of_buckets(
    OUT queue text, OUT bucket int, OUT class int, OUT ready bigint, OUT complete boolean,
    OUT next_address fairq.address, OUT frontier fairq.address)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 100
AS 'MODULE_PATHNAME', 'fairq_stats_of_buckets';
COMMENT ON FUNCTION fairq_internal.stats_of_buckets IS 'What is behind the view fairq.bucket_stats.';

CREATE OR REPLACE FUNCTION fairq_internal.stats_of_groups(
    OUT queue text, OUT group_key text, OUT ready bigint, OUT overflow bigint, OUT leased bigint,
    OUT weight real, OUT max_leased int, OUT rate real, OUT burst int, OUT tokens float8, OUT paused boolean,
    OUT served bigint, OUT served_cost float8, OUT share float8, OUT expected_share float8, OUT share_error float8,
    OUT oldest_wait interval, OUT run_time interval, OUT all_served_cost float8, OUT group_id uuid)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 100
AS 'MODULE_PATHNAME', 'fairq_stats_of_groups';
COMMENT ON FUNCTION fairq_internal.stats_of_groups IS 'What is behind the view fairq.group_stats.';

-- One row a subgroup with work, in queues whose groups are divided.
CREATE OR REPLACE FUNCTION fairq_internal.stats_of_subgroups(
    OUT queue text, OUT group_key text, OUT subgroup_key text, OUT overflow bigint, OUT leased bigint,
    OUT weight real, OUT max_leased int, OUT rate real, OUT burst int, OUT tokens float8, OUT paused boolean,
    OUT served bigint, OUT served_cost float8, OUT share float8, OUT expected_share float8, OUT run_time interval,
    OUT group_id uuid, OUT subgroup_id uuid)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 100
AS 'MODULE_PATHNAME', 'fairq_stats_of_subgroups';
COMMENT ON FUNCTION fairq_internal.stats_of_subgroups IS 'What is behind the view fairq.subgroup_stats.';

CREATE OR REPLACE FUNCTION fairq.get_task_position(queue text, id bigint)
RETURNS fairq.task_position LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_get_task_position';
COMMENT ON FUNCTION fairq.get_task_position IS 'Return how many tasks are ahead of a task, and about when it will start.';

CREATE OR REPLACE FUNCTION fairq_internal.live_leases(
    OUT queue text, OUT id bigint, OUT receipt uuid, OUT lease_until timestamptz,
    OUT attempt int, OUT state text, OUT pid int)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 100
AS 'MODULE_PATHNAME', 'fairq_live_leases';
COMMENT ON FUNCTION fairq_internal.live_leases IS 'What is behind the view fairq.leases.';

CREATE OR REPLACE FUNCTION fairq_internal.done_of_queues(
    OUT queue text, OUT id bigint, OUT enqueued_at timestamptz, OUT claimed_at timestamptz, OUT done_at timestamptz,
    OUT run_at timestamptz, OUT priority bigint, OUT cost real, OUT attempts int, OUT outcome text, OUT group_key text,
    OUT payload jsonb, OUT headers jsonb, OUT unique_key text, OUT last_error text, OUT result jsonb,
    OUT name text, OUT lost int, OUT history jsonb, OUT subgroup_key text)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1000
AS 'MODULE_PATHNAME', 'fairq_done_of_queues';
COMMENT ON FUNCTION fairq_internal.done_of_queues IS 'What is behind the view fairq.done_tasks.';

-- All dead tasks of the queues that the caller may read.
CREATE OR REPLACE FUNCTION fairq_internal.dead_of_queues(
    OUT queue text, OUT id bigint, OUT group_key text, OUT payload jsonb, OUT headers jsonb,
    OUT priority bigint, OUT attempts int, OUT enqueued_at timestamptz, OUT last_error text,
    OUT name text, OUT lost int, OUT history jsonb, OUT subgroup_key text)
RETURNS SETOF record LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    one text;
BEGIN
    FOR one IN SELECT q.queue FROM fairq.queue q
                JOIN pg_catalog.pg_class c ON c.relname = 'q_' || q.queue
                WHERE c.relnamespace = 'fairq'::pg_catalog.regnamespace
                AND pg_catalog.has_table_privilege(c.oid, 'SELECT')
                ORDER BY q.queue
    LOOP
        -- An owner who has made the table unfit, has it locked, or has row security
        -- or code on it that fails, does not keep us from the others'.
        BEGIN
            EXECUTE pg_catalog.format('LOCK TABLE ONLY fairq.%I IN ACCESS SHARE MODE NOWAIT', 'q_' || one);
            RETURN QUERY SELECT one, t.id, t.group_key, t.payload, t.headers,
                t.priority, t.attempts, t.enqueued_at, t.last_error, t.name, t.lost, t.history, t.subgroup_key
                FROM fairq.tasks(one, 'dead'::pg_catalog.text, NULL::pg_catalog.text, NULL::pg_catalog.text) t; -- no other function's arguments
        EXCEPTION WHEN invalid_table_definition OR insufficient_privilege OR configuration_limit_exceeded OR lock_not_available THEN
            NULL;
        WHEN OTHERS THEN
            RAISE WARNING 'dead tasks of queue "%" are left out: %', one, SQLERRM USING ERRCODE = SQLSTATE;
        END;
    END LOOP;
END
$$;
COMMENT ON FUNCTION fairq_internal.dead_of_queues IS 'What is behind the view fairq.dead_tasks.';
