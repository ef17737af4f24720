-- All nodes have a schedule, and it is active at one: at which is noted here, so that it
-- is known also when that node is lost.
CREATE TABLE fairq.schedule_node (
    name pg_catalog.text COLLATE pg_catalog."C" NOT NULL PRIMARY KEY,
    node pg_catalog.int4 NOT NULL
);
SELECT pg_catalog.pg_extension_config_dump('fairq.schedule_node', '');
REVOKE ALL ON fairq.schedule_node FROM PUBLIC;

CREATE FUNCTION fairq_internal.place_schedule(name text)
RETURNS int LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_place_schedule';

CREATE FUNCTION fairq_internal.node_stop_schedule(node int, name text)
RETURNS jsonb LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_of_node';

CREATE FUNCTION fairq_internal.at_node_stop_schedule(int, text)
RETURNS jsonb LANGUAGE plproxy VOLATILE
AS $$ CLUSTER 'pgfairq'; RUN ON $1; SELECT fairq_internal.stop_schedule($2); $$;

CREATE FUNCTION fairq_internal.node_start_schedule(node int, name text, times jsonb)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_of_node';

CREATE FUNCTION fairq_internal.at_node_start_schedule(int, text, jsonb)
RETURNS boolean LANGUAGE plproxy VOLATILE
AS $$ CLUSTER 'pgfairq'; RUN ON $1; SELECT fairq_internal.start_schedule($2, $3); $$;

CREATE FUNCTION fairq_internal.node_schedule_definitions(node int)
RETURNS SETOF jsonb LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_of_node';

CREATE FUNCTION fairq_internal.at_node_schedule_definitions(int)
RETURNS SETOF jsonb LANGUAGE plproxy VOLATILE
AS $$ CLUSTER 'pgfairq'; RUN ON $1; SELECT s FROM fairq_internal.schedule_definitions() s; $$;

CREATE FUNCTION fairq_internal.node_define_schedule(node int, definition jsonb)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_of_node';

CREATE FUNCTION fairq_internal.at_node_define_schedule(int, jsonb)
RETURNS boolean LANGUAGE plproxy VOLATILE
AS $$ CLUSTER 'pgfairq'; RUN ON $1; SELECT fairq_internal.define_schedule($2); $$;

-- Give a node the schedules of the others, which it does not run.
CREATE FUNCTION fairq_internal.copy_schedules(number int)
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    other int;
BEGIN
    FOR other IN SELECT n.node FROM fairq.node n WHERE n.node <> number ORDER BY 1 LOOP
        BEGIN
            PERFORM fairq_internal.node_define_schedule(number, s) FROM fairq_internal.node_schedule_definitions(other) s;
            RETURN;
        EXCEPTION WHEN connection_failure THEN
            CONTINUE;
        END;
    END LOOP;
END
$$;

-- The schedules that a node runs go to others: first they stop there, then they start at
-- the next with the times that they had. A lost node is not asked: what it has run is not
-- known, so they go on from now, and no tick is given twice. To repeat it goes on.
CREATE FUNCTION fairq_internal.move_schedules(number int, lost boolean)
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    s record;
    target int;
    times jsonb;
BEGIN
    FOR s IN SELECT n.name FROM fairq.schedule_node n WHERE n.node = number ORDER BY 1 LOOP
        target := fairq_internal.place_schedule(s.name);
        BEGIN
            times := CASE WHEN NOT lost THEN fairq_internal.node_stop_schedule(number, s.name) END;
            PERFORM fairq_internal.node_start_schedule(target, s.name, times);
            UPDATE fairq.schedule_node n SET node = target WHERE n.name = s.name;
        EXCEPTION WHEN connection_failure THEN
            RAISE WARNING 'schedule "%" of node % did not move: %', s.name, number, SQLERRM
                USING ERRCODE = 'connection_failure', HINT = 'Call fairq.drain_node() again when the node is there, or fairq.drop_node() if it is lost.';
        WHEN OTHERS THEN
            RAISE WARNING 'schedule "%" of node % did not move: %', s.name, number, SQLERRM
                USING ERRCODE = SQLSTATE, HINT = 'Others have. Call fairq.drain_node() again when the cause is gone.';
        END;
    END LOOP;
END
$$;
