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
AS 'MODULE_PATHNAME', 'fairq_cluster_look_at_node';

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

CREATE FUNCTION fairq_internal.node_define_queue(node int, name text, definition jsonb, anew boolean)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_of_node';

CREATE FUNCTION fairq_internal.at_node_define_queue(int, text, jsonb, boolean)
RETURNS void LANGUAGE plproxy VOLATILE
AS $$ CLUSTER 'pgfairq'; RUN ON $1; SELECT fairq_internal.define_queue($2, $3, $4); $$;

CREATE FUNCTION fairq_internal.node_number(node int)
RETURNS int LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_of_server';

CREATE FUNCTION fairq_internal.at_node_number(int)
RETURNS int LANGUAGE plproxy VOLATILE
AS $$ CLUSTER 'pgfairq'; RUN ON $1; SELECT fairq.this_node(); $$;

CREATE FUNCTION fairq_internal.node_queue_names(node int)
RETURNS SETOF text LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_of_node';

CREATE FUNCTION fairq_internal.at_node_queue_names(int)
RETURNS SETOF text LANGUAGE plproxy VOLATILE
AS $$ CLUSTER 'pgfairq'; RUN ON $1; SELECT q.queue FROM fairq.queues q ORDER BY 1; $$;

CREATE FUNCTION fairq_internal.node_tasks_to_move(node int, name text, most int, skip bigint[],
    OUT id bigint, OUT group_key text, OUT unique_key text)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_of_node';

CREATE FUNCTION fairq_internal.at_node_tasks_to_move(int, text, int, bigint[],
    OUT id bigint, OUT group_key text, OUT unique_key text)
RETURNS SETOF record LANGUAGE plproxy VOLATILE
AS $$ CLUSTER 'pgfairq'; RUN ON $1; SELECT t.id, t.group_key, t.unique_key FROM fairq_internal.tasks_to_move($2, $3, $4) t; $$;

CREATE FUNCTION fairq_internal.node_depart(node int, name text, ids bigint[], batch uuid, target int)
RETURNS bigint[] LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_of_node';

CREATE FUNCTION fairq_internal.at_node_depart(int, text, bigint[], uuid, int)
RETURNS bigint[] LANGUAGE plproxy VOLATILE
AS $$ CLUSTER 'pgfairq'; RUN ON $1; SELECT fairq_internal.depart($2, $3, $4, $5); $$;

CREATE FUNCTION fairq_internal.node_departures(node int, OUT batch uuid, OUT target int, OUT queue text, OUT tasks bigint)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_of_node';

CREATE FUNCTION fairq_internal.at_node_departures(int, OUT batch uuid, OUT target int, OUT queue text, OUT tasks bigint)
RETURNS SETOF record LANGUAGE plproxy VOLATILE
AS $$ CLUSTER 'pgfairq'; RUN ON $1; SELECT d.batch, d.target, d.queue, d.tasks FROM fairq_internal.departures() d; $$;

CREATE FUNCTION fairq_internal.node_departing_tasks(node int, batch uuid)
RETURNS jsonb LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_of_node';

CREATE FUNCTION fairq_internal.at_node_departing_tasks(int, uuid)
RETURNS jsonb LANGUAGE plproxy VOLATILE
AS $$ CLUSTER 'pgfairq'; RUN ON $1; SELECT fairq_internal.departing_tasks($2); $$;

CREATE FUNCTION fairq_internal.node_arrive(node int, batch uuid, name text, tasks jsonb)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_of_node';

CREATE FUNCTION fairq_internal.at_node_arrive(int, uuid, text, jsonb)
RETURNS bigint LANGUAGE plproxy VOLATILE
AS $$ CLUSTER 'pgfairq'; RUN ON $1; SELECT fairq_internal.arrive($2, $3, $4); $$;

CREATE FUNCTION fairq_internal.node_forget_departed(node int, batch uuid)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_of_node';

CREATE FUNCTION fairq_internal.at_node_forget_departed(int, uuid)
RETURNS bigint LANGUAGE plproxy VOLATILE
AS $$ CLUSTER 'pgfairq'; RUN ON $1; SELECT fairq_internal.forget_departed($2); $$;

CREATE FUNCTION fairq_internal.node_depart_no_more(node int, batch uuid)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_of_node';

CREATE FUNCTION fairq_internal.at_node_depart_no_more(int, uuid)
RETURNS bigint LANGUAGE plproxy VOLATILE
AS $$ CLUSTER 'pgfairq'; RUN ON $1; SELECT fairq_internal.depart_no_more($2); $$;

-- The node that gets a task, as if it were enqueued now.
CREATE FUNCTION fairq_internal.place_task(queue text, group_key text, unique_key text)
RETURNS int LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_place_task';
