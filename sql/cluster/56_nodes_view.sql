-- What the nodes say of themselves. One that is out of reach has a row all the same.
CREATE FUNCTION fairq_internal.node_report(node int, OUT version text, OUT ready bigint, OUT leased bigint, OUT waiting bigint,
    OUT sessions bigint, OUT connections bigint, OUT standbys int, OUT standby_lag interval)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1
AS 'MODULE_PATHNAME', 'fairq_cluster_look_at_node';

CREATE FUNCTION fairq_internal.at_node_report(int, OUT version text, OUT ready bigint, OUT leased bigint, OUT waiting bigint,
    OUT sessions bigint, OUT connections bigint, OUT standbys int, OUT standby_lag interval)
RETURNS SETOF record LANGUAGE plproxy VOLATILE
AS $$
    CLUSTER 'pgfairq'; RUN ON $1;
    SELECT (SELECT e.extversion FROM pg_catalog.pg_extension e WHERE e.extname = 'pgfairq') AS version,
        coalesce(sum(s.ready), 0)::bigint AS ready, coalesce(sum(s.leased), 0)::bigint AS leased,
        coalesce(sum(s.scheduled + s.overflow + s.held + s.dead), 0)::bigint AS waiting,
        (SELECT count(*) FROM fairq_internal.open_sessions()) AS sessions,
        (SELECT count(*) FROM pg_catalog.pg_stat_activity a
            WHERE a.datname = pg_catalog.current_database() AND a.usename IS NOT NULL) AS connections,
        (SELECT count(*)::int FROM pg_catalog.pg_stat_replication r) AS standbys,
        (SELECT max(r.replay_lag) FROM pg_catalog.pg_stat_replication r) AS standby_lag
    FROM fairq_internal.stats_of_queues() s;
$$;

CREATE FUNCTION fairq_internal.reports_of_nodes(OUT node int, OUT state text, OUT reachable boolean, OUT version text,
    OUT ready bigint, OUT leased bigint, OUT waiting bigint, OUT sessions bigint, OUT connections bigint, OUT standbys int, OUT standby_lag interval, OUT problem text)
RETURNS SETOF record LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    FOR node, state IN SELECT n.node, n.state FROM fairq.node n ORDER BY 1 LOOP
        reachable := true;
        version := NULL; ready := NULL; leased := NULL; waiting := NULL; sessions := NULL; connections := NULL; standbys := NULL; standby_lag := NULL; problem := NULL;
        BEGIN
            SELECT r.version, r.ready, r.leased, r.waiting, r.sessions, r.connections, r.standbys, r.standby_lag
                INTO version, ready, leased, waiting, sessions, connections, standbys, standby_lag
                FROM fairq_internal.node_report(node) r;
        EXCEPTION
            WHEN query_canceled THEN
                RAISE;
            WHEN connection_failure THEN
                reachable := false;
                problem := SQLERRM;
            WHEN OTHERS THEN
                problem := SQLERRM;
        END;
        RETURN NEXT;
    END LOOP;
END
$$;

CREATE VIEW fairq.nodes AS
SELECT node, state, reachable, version, ready, leased, waiting, sessions, connections, standbys, standby_lag, problem FROM fairq_internal.reports_of_nodes();
GRANT SELECT ON fairq.nodes TO PUBLIC;

-- The node that a worker is to be at, as route_worker.c says.
CREATE FUNCTION fairq_internal.attended_node(queues text[], session uuid, but int[], OUT node int, OUT ready bigint, OUT ask_after interval)
LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_attended_node';

CREATE FUNCTION fairq_internal.at_attendance(int, text[], uuid, OUT ready bigint, OUT waiting int, OUT working int)
RETURNS SETOF record LANGUAGE plproxy VOLATILE
AS $$ CLUSTER 'pgfairq'; RUN ON $1; SELECT ready, waiting, working FROM fairq_internal.attendance($2, $3); $$;

-- Connections are in the options of the server, which everyone may read; they have no
-- passwords.
CREATE FUNCTION fairq.worker_node_any(queues text[], session uuid DEFAULT NULL, but int[] DEFAULT NULL)
RETURNS TABLE (node int, connection text, ready bigint, ask_after interval) LANGUAGE sql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT a.node, substr(o.option, strpos(o.option, '=') + 1), a.ready, a.ask_after
    FROM fairq_internal.attended_node(worker_node_any.queues, worker_node_any.session, worker_node_any.but) a
    JOIN fairq.node n ON n.node = a.node, pg_foreign_server s, unnest(s.srvoptions) o (option)
    WHERE s.srvname = 'pgfairq' AND split_part(o.option, '=', 1) = 'p' || n.place
$$;

CREATE FUNCTION fairq.worker_node(queue text, session uuid DEFAULT NULL, but int[] DEFAULT NULL)
RETURNS TABLE (node int, connection text, ready bigint, ask_after interval) LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    IF worker_node.queue IS NULL THEN
        RAISE EXCEPTION 'argument "queue" must not be null'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Give the name of a queue.';
    END IF;
    RETURN QUERY SELECT * FROM fairq.worker_node_any(ARRAY[worker_node.queue], worker_node.session, worker_node.but);
END
$$;
