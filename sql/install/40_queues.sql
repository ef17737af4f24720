CREATE OR REPLACE FUNCTION fairq.create_queue(queue text,
    policy text DEFAULT 'fair', buckets int DEFAULT 16,
    lease interval DEFAULT '30 s', max_attempts int DEFAULT 20,
    backoff_base interval DEFAULT '1 s', backoff_max interval DEFAULT '1 h',
    max_ready bigint DEFAULT 1000000, max_ready_per_group bigint DEFAULT 10000,
    max_depth bigint DEFAULT NULL, keep_done interval DEFAULT NULL,
    durable_leases boolean DEFAULT false, charge text DEFAULT 'cost', notify boolean DEFAULT false,
    expire_after interval DEFAULT NULL,
    backoff_jitter double precision DEFAULT 0.1, default_priority bigint DEFAULT 4,
    group_required boolean DEFAULT false, if_not_exists boolean DEFAULT false,
    max_lost int DEFAULT 5, class_weights double precision[] DEFAULT NULL,
    subgroups boolean DEFAULT false)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_create_queue';
COMMENT ON FUNCTION fairq.create_queue IS 'Create a queue, which belongs to the caller.';

CREATE OR REPLACE FUNCTION fairq.alter_queue(queue text,
    buckets int DEFAULT NULL, lease interval DEFAULT NULL, max_attempts int DEFAULT NULL,
    backoff_base interval DEFAULT NULL, backoff_max interval DEFAULT NULL,
    max_ready bigint DEFAULT NULL, max_ready_per_group bigint DEFAULT NULL,
    max_depth bigint DEFAULT NULL, keep_done interval DEFAULT NULL,
    durable_leases boolean DEFAULT NULL, charge text DEFAULT NULL, notify boolean DEFAULT NULL,
    expire_after interval DEFAULT NULL,
    backoff_jitter double precision DEFAULT NULL, default_priority bigint DEFAULT NULL,
    group_required boolean DEFAULT NULL, max_lost int DEFAULT NULL,
    class_weights double precision[] DEFAULT NULL, subgroups boolean DEFAULT NULL)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_alter_queue';
COMMENT ON FUNCTION fairq.alter_queue IS 'Change settings of a queue; null leaves one as it is.';

CREATE OR REPLACE FUNCTION fairq.drop_queue(queue text)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_drop_queue';
COMMENT ON FUNCTION fairq.drop_queue IS 'Drop a queue with all its tasks, those that are done included; returns false if there is none.';

CREATE OR REPLACE FUNCTION fairq.purge(queue text)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_purge';
COMMENT ON FUNCTION fairq.purge IS 'Remove every task of a queue that is not leased, the dead included; returns how many.';

CREATE OR REPLACE FUNCTION fairq.purge_group(queue text, group_key text)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_purge_group';
COMMENT ON FUNCTION fairq.purge_group IS 'Remove every task of one group that is not leased, the dead included; returns how many.';

CREATE OR REPLACE FUNCTION fairq.forget_key(queue text, unique_key text)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_forget_key';
COMMENT ON FUNCTION fairq.forget_key IS 'Forget a unique key that is remembered (unique_for), so that a task of it can be made anew; returns whether it was.';

CREATE OR REPLACE FUNCTION fairq.forget_keys(queue text)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_forget_keys';
COMMENT ON FUNCTION fairq.forget_keys IS 'Forget all unique keys of a queue that are remembered (unique_for); returns how many.';

CREATE OR REPLACE FUNCTION fairq.pause(queue text)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_pause';
COMMENT ON FUNCTION fairq.pause IS 'Pause a queue: claims return nothing of it until fairq.resume().';

CREATE OR REPLACE FUNCTION fairq.resume(queue text)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_resume';
COMMENT ON FUNCTION fairq.resume IS 'Let claims from a paused queue go on.';

CREATE OR REPLACE FUNCTION fairq.pause_group(queue text, group_key text)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_pause_group';
COMMENT ON FUNCTION fairq.pause_group IS 'Pause a group: claims return none of its tasks until fairq.resume_group().';

CREATE OR REPLACE FUNCTION fairq.resume_group(queue text, group_key text)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_resume_group';
COMMENT ON FUNCTION fairq.resume_group IS 'Let claims of the tasks of a paused group go on.';

CREATE OR REPLACE FUNCTION fairq.maintain(queue text)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_maintain';
COMMENT ON FUNCTION fairq.maintain IS 'Do by hand what the background worker does for a queue; returns how many tasks that were.';

CREATE OR REPLACE FUNCTION fairq_internal.row_written()
RETURNS trigger LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_row_written';
COMMENT ON FUNCTION fairq_internal.row_written IS 'Row trigger of the tables of queues: tells the engine of rows that are written by SQL, COPY or logical replication.';
