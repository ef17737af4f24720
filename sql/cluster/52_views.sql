-- The rows that a view has at the nodes: each with the number of its node, and those of
-- the nodes that are out of reach. The columns that a node is asked for are these. Its
-- roles and tables are text, for they need not exist here.
CREATE FUNCTION fairq_internal.rows_of_queues(
    OUT queue text, OUT owner text, OUT relation text, OUT policy text, OUT buckets int, OUT lease interval,
    OUT max_attempts int, OUT backoff_base interval, OUT backoff_max interval, OUT max_ready bigint,
    OUT max_ready_per_group bigint, OUT max_depth bigint, OUT keep_done interval, OUT durable_leases boolean,
    OUT charge text, OUT notify boolean, OUT group_weight real, OUT group_max_leased int, OUT group_rate real,
    OUT group_burst int, OUT paused boolean, OUT expire_after interval, OUT backoff_jitter float8,
    OUT default_priority bigint, OUT group_required boolean, OUT max_lost int, OUT class_weights float8[],
    OUT subgroups boolean, OUT subgroup_weight real, OUT subgroup_max_leased int, OUT subgroup_rate real,
    OUT subgroup_burst int, OUT node int, OUT missing int[])
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 30
AS 'MODULE_PATHNAME', 'fairq_cluster_rows_of_view';

CREATE FUNCTION fairq_internal.rows_of_queue_stats(
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
    OUT near_lease_end bigint, OUT node int, OUT missing int[])
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 30
AS 'MODULE_PATHNAME', 'fairq_cluster_rows_of_view';

CREATE FUNCTION fairq_internal.rows_of_queue_histograms(
    OUT queue text, OUT kind text, OUT le float8, OUT count bigint, OUT sum float8, OUT node int, OUT missing int[])
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1200
AS 'MODULE_PATHNAME', 'fairq_cluster_rows_of_view';

CREATE FUNCTION fairq_internal.rows_of_name_stats(
    OUT queue text, OUT name text, OUT other boolean,
    OUT enqueued bigint, OUT done bigint, OUT failed bigint, OUT lost bigint, OUT dead bigint,
    OUT wait_p50 interval, OUT wait_p95 interval, OUT wait_p99 interval,
    OUT run_p50 interval, OUT run_p95 interval, OUT run_p99 interval, OUT node int, OUT missing int[])
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 150
AS 'MODULE_PATHNAME', 'fairq_cluster_rows_of_view';

CREATE FUNCTION fairq_internal.rows_of_name_histograms(
    OUT queue text, OUT name text, OUT other boolean, OUT kind text, OUT le float8, OUT count bigint, OUT sum float8,
    OUT node int, OUT missing int[])
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 6000
AS 'MODULE_PATHNAME', 'fairq_cluster_rows_of_view';

CREATE FUNCTION fairq_internal.rows_of_group_stats(
    OUT queue text, OUT group_key text, OUT ready bigint, OUT overflow bigint, OUT leased bigint,
    OUT weight real, OUT max_leased int, OUT rate real, OUT burst int, OUT tokens float8, OUT paused boolean,
    OUT served bigint, OUT served_cost float8, OUT expected_share float8,
    OUT oldest_wait interval, OUT run_time interval, OUT all_served_cost float8, OUT group_id uuid, OUT node int, OUT missing int[])
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 300
AS 'MODULE_PATHNAME', 'fairq_cluster_rows_of_view';

CREATE FUNCTION fairq_internal.rows_of_group_settings(
    OUT queue text, OUT group_key text, OUT weight real, OUT max_leased int, OUT rate real, OUT burst int,
    OUT paused boolean, OUT group_id uuid, OUT node int, OUT missing int[])
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 300
AS 'MODULE_PATHNAME', 'fairq_cluster_rows_of_view';

CREATE FUNCTION fairq_internal.rows_of_subgroup_stats(
    OUT queue text, OUT group_key text, OUT subgroup_key text, OUT overflow bigint, OUT leased bigint,
    OUT weight real, OUT max_leased int, OUT rate real, OUT burst int, OUT tokens float8, OUT paused boolean,
    OUT served bigint, OUT served_cost float8, OUT share float8, OUT expected_share float8, OUT run_time interval,
    OUT group_id uuid, OUT subgroup_id uuid, OUT node int, OUT missing int[])
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 300
AS 'MODULE_PATHNAME', 'fairq_cluster_rows_of_view';

CREATE FUNCTION fairq_internal.rows_of_subgroup_settings(
    OUT queue text, OUT group_key text, OUT subgroup_key text, OUT weight real, OUT max_leased int, OUT rate real,
    OUT burst int, OUT paused boolean, OUT group_id uuid, OUT subgroup_id uuid, OUT node int, OUT missing int[])
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 300
AS 'MODULE_PATHNAME', 'fairq_cluster_rows_of_view';

CREATE FUNCTION fairq_internal.rows_of_bucket_stats(
    OUT queue text, OUT bucket int, OUT class int, OUT ready bigint, OUT complete boolean,
    OUT next_address fairq.address, OUT frontier fairq.address, OUT node int, OUT missing int[])
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 300
AS 'MODULE_PATHNAME', 'fairq_cluster_rows_of_view';

CREATE FUNCTION fairq_internal.rows_of_leases(
    OUT queue text, OUT id bigint, OUT receipt uuid, OUT lease_until timestamptz,
    OUT attempt int, OUT state text, OUT pid int, OUT node int, OUT missing int[])
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 300
AS 'MODULE_PATHNAME', 'fairq_cluster_rows_of_view';

CREATE FUNCTION fairq_internal.rows_of_sessions(
    OUT session uuid, OUT name text, OUT role text, OUT opened_at timestamptz,
    OUT ttl interval, OUT alive_until timestamptz, OUT bound boolean, OUT pid int, OUT leases int,
    OUT client text, OUT quarantine boolean, OUT node int, OUT missing int[])
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 30
AS 'MODULE_PATHNAME', 'fairq_cluster_rows_of_view';

CREATE FUNCTION fairq_internal.rows_of_dead_tasks(
    OUT queue text, OUT id bigint, OUT group_key text, OUT payload jsonb, OUT headers jsonb,
    OUT priority bigint, OUT attempts int, OUT enqueued_at timestamptz, OUT last_error text,
    OUT name text, OUT lost int, OUT history jsonb, OUT subgroup_key text, OUT node int, OUT missing int[])
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1000
AS 'MODULE_PATHNAME', 'fairq_cluster_rows_of_view';

CREATE FUNCTION fairq_internal.rows_of_done_tasks(
    OUT queue text, OUT id bigint, OUT enqueued_at timestamptz, OUT claimed_at timestamptz, OUT done_at timestamptz,
    OUT run_at timestamptz, OUT priority bigint, OUT cost real, OUT attempts int, OUT outcome text, OUT group_key text,
    OUT payload jsonb, OUT headers jsonb, OUT unique_key text, OUT last_error text, OUT result jsonb,
    OUT name text, OUT lost int, OUT history jsonb, OUT subgroup_key text, OUT node int, OUT missing int[])
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 3000
AS 'MODULE_PATHNAME', 'fairq_cluster_rows_of_view';

CREATE FUNCTION fairq_internal.rows_of_topics(OUT topic text, OUT queue text, OUT node int, OUT missing int[])
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 30
AS 'MODULE_PATHNAME', 'fairq_cluster_rows_of_view';

CREATE FUNCTION fairq_internal.rows_of_dependencies(
    OUT queue text, OUT task bigint, OUT predecessor bigint, OUT on_dead text, OUT failed boolean,
    OUT node int, OUT missing int[])
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 300
AS 'MODULE_PATHNAME', 'fairq_cluster_rows_of_view';

CREATE FUNCTION fairq_internal.rows_of_schedules(
    OUT name text, OUT queue text, OUT owner text, OUT cron text, OUT timezone text, OUT catch_up text,
    OUT overlap boolean, OUT active boolean, OUT next_run timestamptz, OUT last_run timestamptz,
    OUT last_task bigint, OUT skipped bigint, OUT failures int, OUT last_error text, OUT last_error_at timestamptz,
    OUT group_key text, OUT priority bigint, OUT cost float8, OUT payload jsonb, OUT headers jsonb,
    OUT task_name text, OUT subgroup_key text, OUT node int, OUT missing int[])
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 30
AS 'MODULE_PATHNAME', 'fairq_cluster_rows_of_view';

-- What is the same at all nodes, unless fairq.check_cluster() says that it is not, is shown
-- as the node has it that has the lowest number of those in reach.
CREATE VIEW fairq.queues AS
SELECT DISTINCT ON (queue) queue, owner, relation, policy, buckets, lease, max_attempts, backoff_base, backoff_max,
    max_ready, max_ready_per_group, max_depth, keep_done, durable_leases, charge, notify, group_weight, group_max_leased,
    group_rate, group_burst, paused, expire_after, backoff_jitter, default_priority, group_required, missing, max_lost, class_weights,
    subgroups, subgroup_weight, subgroup_max_leased, subgroup_rate, subgroup_burst
FROM fairq_internal.rows_of_queues()
ORDER BY queue, node;

CREATE VIEW fairq.group_settings AS
SELECT DISTINCT ON (queue, group_key) queue, group_key, weight, max_leased, rate, burst, paused, missing, group_id
FROM fairq_internal.rows_of_group_settings()
ORDER BY queue, group_key, node;

CREATE VIEW fairq.subgroup_settings AS
SELECT DISTINCT ON (queue, group_key, subgroup_key) queue, group_key, subgroup_key, weight, max_leased, rate, burst, paused,
    group_id, subgroup_id, missing
FROM fairq_internal.rows_of_subgroup_settings()
ORDER BY queue, group_key, subgroup_key, node;

CREATE VIEW fairq.topics AS
SELECT DISTINCT topic, queue, missing FROM fairq_internal.rows_of_topics();

-- One node has a schedule that is active.
CREATE VIEW fairq.schedules AS
SELECT DISTINCT ON (name) name, queue, owner, cron, timezone, catch_up, overlap, active, next_run, last_run, last_task,
    skipped, failures, last_error, last_error_at, group_key, priority, cost, payload, headers, missing, task_name, subgroup_key
FROM fairq_internal.rows_of_schedules()
ORDER BY name, active DESC, last_run DESC NULLS LAST, node;

-- A node that cannot say how many tasks there are makes the sum null. Quantiles are those
-- of the node that has the greatest: not below the true ones.
CREATE VIEW fairq.queue_stats AS
SELECT queue,
    CASE WHEN bool_and(ready IS NOT NULL) THEN sum(ready)::bigint END AS ready,
    CASE WHEN bool_and(leased IS NOT NULL) THEN sum(leased)::bigint END AS leased,
    CASE WHEN bool_and(scheduled IS NOT NULL) THEN sum(scheduled)::bigint END AS scheduled,
    CASE WHEN bool_and(overflow IS NOT NULL) THEN sum(overflow)::bigint END AS overflow,
    CASE WHEN bool_and(held IS NOT NULL) THEN sum(held)::bigint END AS held,
    CASE WHEN bool_and(dead IS NOT NULL) THEN sum(dead)::bigint END AS dead,
    max(oldest_ready_age) AS oldest_ready_age,
    sum(enqueued)::bigint AS enqueued, sum(claimed)::bigint AS claimed, sum(acked)::bigint AS acked,
    sum(nacked)::bigint AS nacked, sum(released)::bigint AS released, sum(expired)::bigint AS expired,
    sum(cancelled)::bigint AS cancelled, sum(dead_total)::bigint AS dead_total, sum(swept)::bigint AS swept,
    sum(enqueue_rate) AS enqueue_rate, sum(claim_rate) AS claim_rate, sum(ack_rate) AS ack_rate,
    max(wait_p50) AS wait_p50, max(wait_p95) AS wait_p95, max(wait_p99) AS wait_p99,
    max(run_p50) AS run_p50, max(run_p95) AS run_p95, max(run_p99) AS run_p99,
    (sum(payload_avg * enqueued::numeric) / nullif(sum(enqueued) FILTER (WHERE payload_avg IS NOT NULL), 0))::bigint AS payload_avg,
    max(payload_p50) AS payload_p50, max(payload_p95) AS payload_p95, max(payload_max) AS payload_max,
    min(stats_reset) AS stats_reset, sum(expired_tasks)::bigint AS expired_tasks,
    sum(deduplicated)::bigint AS deduplicated, sum(snoozed)::bigint AS snoozed,
    min(missing) AS missing, sum(near_lease_end)::bigint AS near_lease_end
FROM fairq_internal.rows_of_queue_stats()
GROUP BY queue;

-- Histograms are added up.
CREATE VIEW fairq.queue_histograms AS
SELECT queue, kind, le, sum(count)::bigint AS count, sum(sum) AS sum, min(missing) AS missing
FROM fairq_internal.rows_of_queue_histograms()
GROUP BY queue, kind, le
ORDER BY queue, kind DESC, le;

-- So is what became of the tasks of a name; quantiles are as in queue_stats. A name that
-- has a line at one node may be among the others at another one.
CREATE VIEW fairq.name_stats AS
SELECT queue, name, other, sum(enqueued)::bigint AS enqueued, sum(done)::bigint AS done,
    sum(failed)::bigint AS failed, sum(lost)::bigint AS lost, sum(dead)::bigint AS dead,
    max(wait_p50) AS wait_p50, max(wait_p95) AS wait_p95, max(wait_p99) AS wait_p99,
    max(run_p50) AS run_p50, max(run_p95) AS run_p95, max(run_p99) AS run_p99, min(missing) AS missing
FROM fairq_internal.rows_of_name_stats()
GROUP BY queue, name, other;

CREATE VIEW fairq.name_histograms AS
SELECT queue, name, other, kind, le, sum(count)::bigint AS count, sum(sum) AS sum, min(missing) AS missing
FROM fairq_internal.rows_of_name_histograms()
GROUP BY queue, name, other, kind, le
ORDER BY queue, name, kind DESC, le;

-- A share is of what all nodes have served of a queue while the group had work there.
CREATE VIEW fairq.group_stats AS
SELECT queue, group_key, ready, overflow, leased, weight, max_leased, rate, burst, tokens, paused, served, served_cost,
    share, expected_share, share - expected_share AS share_error, oldest_wait, run_time, all_served_cost, missing, group_id
FROM (
    SELECT g.*, CASE WHEN all_served_cost > 0 THEN served_cost / all_served_cost END AS share,
        CASE WHEN NOT fair THEN NULL WHEN all_served_cost > 0 THEN due / all_served_cost
            ELSE weight / sum(weight) OVER (PARTITION BY queue) END AS expected_share
    FROM (
        SELECT queue, group_id, min(group_key) AS group_key, sum(ready)::bigint AS ready, sum(overflow)::bigint AS overflow, sum(leased)::bigint AS leased,
            (array_agg(weight ORDER BY node))[1] AS weight, (array_agg(max_leased ORDER BY node))[1] AS max_leased,
            (array_agg(rate ORDER BY node))[1] AS rate, (array_agg(burst ORDER BY node))[1] AS burst,
            sum(tokens) AS tokens, (array_agg(paused ORDER BY node))[1] AS paused,
            sum(served)::bigint AS served, sum(served_cost) AS served_cost, max(oldest_wait) AS oldest_wait,
            sum(run_time) AS run_time, sum(all_served_cost) AS all_served_cost,
            sum(expected_share * all_served_cost) AS due, bool_or(expected_share IS NOT NULL) AS fair, min(missing) AS missing
        FROM fairq_internal.rows_of_group_stats()
        GROUP BY queue, group_id) g) s;

-- As of groups: of what the nodes have served of the group that have tasks of the subgroup,
-- which each says with the shares of its rows.
CREATE VIEW fairq.subgroup_stats AS
SELECT queue, group_key, subgroup_key, overflow, leased, weight, max_leased, rate, burst, tokens, paused, served, served_cost,
    share, CASE WHEN all_served_cost > 0 THEN due / all_served_cost
        ELSE weight / sum(weight) OVER (PARTITION BY queue, group_id) END AS expected_share, run_time,
    group_id, subgroup_id, missing
FROM (
    SELECT queue, group_id, subgroup_id, min(group_key) AS group_key, min(subgroup_key) AS subgroup_key, sum(overflow)::bigint AS overflow, sum(leased)::bigint AS leased,
        (array_agg(weight ORDER BY node))[1] AS weight, (array_agg(max_leased ORDER BY node))[1] AS max_leased,
        (array_agg(rate ORDER BY node))[1] AS rate, (array_agg(burst ORDER BY node))[1] AS burst,
        sum(tokens) AS tokens, (array_agg(paused ORDER BY node))[1] AS paused,
        sum(served)::bigint AS served, sum(served_cost) AS served_cost,
        coalesce(sum(served_cost) / nullif(sum(all_served_cost), 0), min(share)) AS share, sum(run_time) AS run_time,
        sum(all_served_cost) AS all_served_cost, sum(expected_share * all_served_cost) AS due, min(missing) AS missing
    FROM (
        SELECT *, max(served_cost / nullif(share, 0)) OVER (PARTITION BY node, queue, group_id) AS all_served_cost
        FROM fairq_internal.rows_of_subgroup_stats()) r
    GROUP BY queue, group_id, subgroup_id) s;

CREATE VIEW fairq.bucket_stats AS
SELECT queue, bucket, class, ready, complete, next_address, frontier, node, missing FROM fairq_internal.rows_of_bucket_stats();

CREATE VIEW fairq.leases AS
SELECT queue, id, receipt, lease_until, attempt, state, pid, missing FROM fairq_internal.rows_of_leases();

CREATE VIEW fairq.sessions AS
SELECT session, name, role, opened_at, ttl, alive_until, bound, pid, leases, node, missing, client, quarantine
FROM fairq_internal.rows_of_sessions();

CREATE VIEW fairq.dead_tasks AS
SELECT queue, id, group_key, payload, headers, priority, attempts, enqueued_at, last_error, missing, name, lost, history, subgroup_key
FROM fairq_internal.rows_of_dead_tasks();

CREATE VIEW fairq.done_tasks AS
SELECT queue, id, enqueued_at, claimed_at, done_at, run_at, priority, cost, attempts, outcome, group_key, payload, headers,
    unique_key, last_error, result, missing, name, lost, history, subgroup_key
FROM fairq_internal.rows_of_done_tasks();

CREATE VIEW fairq.dependencies AS
SELECT queue, task, predecessor, on_dead, failed, missing FROM fairq_internal.rows_of_dependencies();

GRANT SELECT ON fairq.queues, fairq.group_settings, fairq.topics, fairq.schedules, fairq.queue_stats, fairq.queue_histograms, fairq.name_stats, fairq.name_histograms, fairq.group_stats,
    fairq.subgroup_stats, fairq.subgroup_settings,
    fairq.bucket_stats, fairq.leases, fairq.sessions, fairq.dead_tasks, fairq.done_tasks, fairq.dependencies TO PUBLIC;
