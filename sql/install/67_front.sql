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

-- What a proxy asks that sends workers to nodes.
CREATE FUNCTION fairq_internal.attendance(queues text[], session uuid, OUT ready bigint, OUT waiting int, OUT working int)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1
AS 'MODULE_PATHNAME', 'fairq_attendance';
