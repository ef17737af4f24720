-- What a node is to the cluster stands in the node's own table, too. So a node that is
-- drained or dropped refuses what is new from a proxy that does not know of it yet, such as
-- a hot standby that lags behind its primary.
CREATE FUNCTION fairq_internal.node_membership(node int)
RETURNS text LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_of_node';

CREATE FUNCTION fairq_internal.at_node_membership(int)
RETURNS text LANGUAGE plproxy VOLATILE
AS $$ CLUSTER 'pgfairq'; RUN ON $1; SELECT fairq_internal.membership(); $$;

CREATE FUNCTION fairq_internal.node_set_membership(node int, membership text)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_of_node';

CREATE FUNCTION fairq_internal.at_node_set_membership(int, text)
RETURNS void LANGUAGE plproxy VOLATILE
AS $$ CLUSTER 'pgfairq'; RUN ON $1; SELECT fairq_internal.set_membership($2); $$;

CREATE FUNCTION fairq_internal.node_proxy_calls(node int, among text[])
RETURNS text[] LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_of_node';

CREATE FUNCTION fairq_internal.at_node_proxy_calls(int, text[])
RETURNS text[] LANGUAGE plproxy VOLATILE
AS $$ CLUSTER 'pgfairq'; RUN ON $1; SELECT fairq_internal.proxy_calls($2); $$;

-- Calls that began before a node was marked end: true. False: one has not in the time that
-- there is, half a minute or lock_timeout.
CREATE FUNCTION fairq_internal.await_calls(number int)
RETURNS boolean LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    until timestamptz := clock_timestamp() + least(nullif(current_setting('lock_timeout')::interval, '0'), '30 s');
    calls text[];
BEGIN
    calls := fairq_internal.node_proxy_calls(number, NULL);
    WHILE calls <> '{}' LOOP
        IF clock_timestamp() > until THEN
            RETURN false;
        END IF;
        PERFORM pg_sleep(0.02);
        calls := fairq_internal.node_proxy_calls(number, calls);
    END LOOP;
    RETURN true;
EXCEPTION WHEN undefined_function THEN
    RETURN true; -- the node has the version before, of which mark_node() has warned
END
$$;

-- A node that cannot be told (false) is not in the way of what is done with the list: the
-- other proxies go by that.
CREATE FUNCTION fairq_internal.mark_node(number int, membership text)
RETURNS boolean LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM fairq_internal.node_set_membership(number, membership);
    RETURN true;
EXCEPTION WHEN connection_failure OR undefined_function THEN
    RAISE WARNING 'node % could not be told that it is %: %', number, membership, SQLERRM
        USING ERRCODE = SQLSTATE, DETAIL = 'It goes by what it was told before.',
        HINT = 'Call fairq.check_cluster(repair => true) when the node is there, with pgfairq of this version.';
    RETURN false;
END
$$;

-- A node gets nothing new any more, also by calls that began before.
CREATE FUNCTION fairq_internal.begin_drain(number int)
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF fairq_internal.mark_node(number, 'draining') AND NOT fairq_internal.await_calls(number) THEN
        RAISE WARNING 'calls of proxies are still under way at node %', number
            USING ERRCODE = 'lock_not_available', DETAIL = 'They may bring tasks until they end.',
            HINT = 'fairq.drop_node() waits for them.';
    END IF;
EXCEPTION WHEN connection_failure THEN
    NULL; -- it has been told, and is gone
END
$$;

-- A node that has no tasks, and gets none any more: first it refuses also those that wait
-- for one of its own, then calls under way end, then it is looked at.
CREATE FUNCTION fairq_internal.close_node(number int)
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    load record;
BEGIN
    PERFORM fairq_internal.mark_node(number, 'dropped');
    IF NOT fairq_internal.await_calls(number) THEN
        RAISE EXCEPTION 'calls of proxies are still under way at node %', number
            USING ERRCODE = 'lock_not_available', HINT = 'Try again. Or say lost => true, if the server is lost for good.';
    END IF;
    SELECT * INTO load FROM fairq_internal.node_load(number);
    IF load.ready + load.leased + load.waiting > 0 THEN
        RAISE EXCEPTION 'node % has % tasks, of which % are leased', number, load.ready + load.leased + load.waiting, load.leased
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Call fairq.move_tasks(), and wait for the leases to end. Or say lost => true, if the server is lost for good.';
    END IF;
EXCEPTION WHEN OTHERS THEN
    PERFORM fairq_internal.mark_node(number, 'draining');
    RAISE;
END
$$;

-- Nodes that were told something else than the list says.
CREATE FUNCTION fairq_internal.check_memberships(well int[], repair boolean,
    OUT node int, OUT object text, OUT problem text, OUT repaired text)
RETURNS SETOF record LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    n record;
    says text;
BEGIN
    FOR n IN SELECT l.node AS number, l.state FROM fairq.node l WHERE l.node = ANY (well) ORDER BY 1 LOOP
        BEGIN
            says := fairq_internal.node_membership(n.number);
        EXCEPTION WHEN undefined_function THEN
            CONTINUE; -- of the version before, which is tolerated
        END;
        CONTINUE WHEN says = n.state;
        node := n.number;
        object := 'membership';
        problem := format('says that it is %s, and the list that it is %s', says, n.state);
        repaired := fairq_internal.repair(format('SELECT fairq_internal.node_set_membership(%s, %L)', n.number, n.state), repair);
        RETURN NEXT;
    END LOOP;
END
$$;
