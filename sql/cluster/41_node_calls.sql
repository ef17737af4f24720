-- Calls at one node, by its number, that administration is made of. Each has its twin at
-- a place, which PL/Proxy carries: an error is the node's own, or says that the node is
-- out of reach.

-- Who the server is. It need not be the node that it should be, nor have pgfairq at all.
-- A copy of a server says the same of its system, but not when it was started.
CREATE FUNCTION fairq_internal.node_facts(node int)
RETURNS jsonb LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_of_server';

CREATE FUNCTION fairq_internal.at_node_facts(int)
RETURNS jsonb LANGUAGE plproxy VOLATILE
AS $$
    CLUSTER 'pgfairq'; RUN ON $1;
    SELECT pg_catalog.jsonb_build_object(
        'version', (SELECT extversion FROM pg_catalog.pg_extension WHERE extname = 'pgfairq'),
        'proxy', EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname = 'pgfairq_cluster'),
        'standby', pg_catalog.pg_is_in_recovery(),
        'system', (SELECT pg_catalog.concat(c.system_identifier, '/', d.oid) FROM pg_catalog.pg_control_system() c, pg_catalog.pg_database d
            WHERE d.datname = pg_catalog.current_database()),
        'started', pg_catalog.pg_postmaster_start_time());
$$;

-- How much there is at a node; refused where the library is not preloaded.
CREATE FUNCTION fairq_internal.node_load(node int, OUT ready bigint, OUT leased bigint, OUT waiting bigint)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1
AS 'MODULE_PATHNAME', 'fairq_cluster_of_node';

CREATE FUNCTION fairq_internal.at_node_load(int, OUT ready bigint, OUT leased bigint, OUT waiting bigint)
RETURNS SETOF record LANGUAGE plproxy VOLATILE
AS $$
    CLUSTER 'pgfairq'; RUN ON $1;
    SELECT coalesce(sum(s.ready), 0)::bigint AS ready, coalesce(sum(s.leased), 0)::bigint AS leased,
        coalesce(sum(s.scheduled + s.overflow + s.held + s.dead), 0)::bigint AS waiting
    FROM fairq_internal.stats_of_queues() s;
$$;

CREATE FUNCTION fairq_internal.node_queue_definitions(node int, OUT queue text, OUT definition jsonb)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_of_node';

CREATE FUNCTION fairq_internal.at_node_queue_definitions(int, OUT queue text, OUT definition jsonb)
RETURNS SETOF record LANGUAGE plproxy VOLATILE
AS $$ CLUSTER 'pgfairq'; RUN ON $1; SELECT d.queue, d.definition FROM fairq_internal.queue_definitions() d; $$;

CREATE FUNCTION fairq_internal.node_define_queue(node int, name text, definition jsonb)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_of_node';

CREATE FUNCTION fairq_internal.at_node_define_queue(int, text, jsonb)
RETURNS void LANGUAGE plproxy VOLATILE
AS $$ CLUSTER 'pgfairq'; RUN ON $1; SELECT fairq_internal.define_queue($2, $3); $$;
