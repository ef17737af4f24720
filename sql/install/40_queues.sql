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

CREATE FUNCTION fairq.drop_queue(queue text)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_drop_queue';
COMMENT ON FUNCTION fairq.drop_queue(text) IS
'Drop a queue with all its tasks and its archive. For its owner. Returns false if there is none. Waits for transactions that use the queue. Errors: 42501, 22023.';

CREATE FUNCTION fairq.purge(queue text, group_key text DEFAULT NULL)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_purge';
COMMENT ON FUNCTION fairq.purge(text, text) IS
'Remove every task that is not leased, of one group, or of all if group_key is null, the dead included. Needs DELETE. Returns how many. Reads the whole table. If the queue has an archive they are in it as cancelled, or as dead. Errors: 42704, 42501, 22023.';

CREATE FUNCTION fairq.pause(queue text, group_key text DEFAULT NULL)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_pause';
COMMENT ON FUNCTION fairq.pause(text, text) IS
'Pause a queue: claims return nothing until fairq.resume(). Tasks can still be enqueued, and leases settled. For its owner. group_key: pause that group only; null: the queue. Errors: 42704, 42501, 22023, 53400 (too many groups with settings).';

CREATE FUNCTION fairq.resume(queue text, group_key text DEFAULT NULL)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_resume';
COMMENT ON FUNCTION fairq.resume(text, text) IS
'Let claims from a paused queue (group_key null), or of a paused group, go on. For its owner. Errors: 42704, 42501, 22023, 53400 (too many groups with settings).';

CREATE FUNCTION fairq.maintain(queue text)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_maintain';
COMMENT ON FUNCTION fairq.maintain(text) IS
'Do by hand what the background worker does: put back the tasks of leases that have run out, make due tasks ready, move tasks out of the overflow, and look for held tasks that nothing holds any more. Returns how many that were; it ends when they are 10000 in all, or a few thousand more. Old rows of the archive are removed, too, and not counted; 10000 of them end it as well. It also goes on with the sweep, which looks for tasks that were not handed over. For servers without a free worker process. Needs SELECT and UPDATE. Errors: 42704, 42501, 22023.';

CREATE FUNCTION fairq.row_written()
RETURNS trigger LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_row_written';
COMMENT ON FUNCTION fairq.row_written() IS
'Row trigger of queue tables: tells the engine of rows that are written by SQL, COPY or logical replication.';

