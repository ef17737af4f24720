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
COMMENT ON FUNCTION fairq.front IS 'Return how far a queue has got in virtual time: its next task and its floor, for each class with ready tasks.';

CREATE FUNCTION fairq.raise_floor(queue text, class int, block numeric)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_raise_floor';
COMMENT ON FUNCTION fairq.raise_floor IS 'Raise the virtual time at which groups without tasks start in a class, up to its first ready task; return whether it was lower.';

-- As fairq.wait_any, for a proxy, through which only a SELECT gets.
CREATE FUNCTION fairq_internal.wait_ready(queues text[], timeout interval DEFAULT '1 s')
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_wait_ready';
COMMENT ON FUNCTION fairq_internal.wait_ready IS 'Wait, for five seconds at most, until something may be claimable in any of the queues; return whether it may.';

-- What a proxy asks that sends workers to nodes.
CREATE FUNCTION fairq_internal.attendance(queues text[], session uuid, OUT ready bigint, OUT waiting int, OUT working int)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1
AS 'MODULE_PATHNAME', 'fairq_attendance';
COMMENT ON FUNCTION fairq_internal.attendance IS 'How many tasks of some queues are ready, how many sessions wait for tasks, and how many work on some, without that of the worker who asks.';
