-- Adding, draining and dropping nodes. For the owner of the extension's tables, who may
-- also alter PL/Proxy's server.
CREATE FUNCTION fairq_internal.require_owner(what text)
RETURNS void LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT pg_has_role((SELECT relowner FROM pg_class WHERE oid = 'fairq.node'::regclass), 'USAGE') THEN
        RAISE EXCEPTION 'permission denied for function fairq.%', what
            USING ERRCODE = 'insufficient_privilege', HINT = 'Use the role that has created the extension pgfairq_cluster.';
    END IF;
    IF pg_is_in_recovery() THEN
        RAISE EXCEPTION 'cannot execute fairq.%() during recovery', what
            USING ERRCODE = 'read_only_sql_transaction', HINT = 'Call it at the primary of the proxies.';
    END IF;
END
$$;

-- What waits for a lock makes others wait that come after it. So this one is asked for for
-- a fifth of a second at a time, and let go for another: whoever has it for long, with a
-- transaction that stays open, holds up the administrator and nobody else.
CREATE FUNCTION fairq_internal.try_lock_nodes()
RETURNS boolean LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '200ms'
AS $$
BEGIN
    LOCK TABLE fairq.node IN EXCLUSIVE MODE;
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END
$$;

-- The lock that changes of the list of nodes take. It lets calls of applications read the
-- list; what is created and altered at all nodes waits, so a new node misses none of it.
CREATE FUNCTION fairq_internal.lock_nodes()
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    began timestamptz := clock_timestamp();
    patience interval := least(nullif(current_setting('lock_timeout')::interval, '0'), '1 min');
    holders text;
BEGIN
    WHILE NOT fairq_internal.try_lock_nodes() LOOP
        IF clock_timestamp() > began + patience THEN
            SELECT string_agg(DISTINCT l.pid::text, ', ') INTO holders FROM pg_locks l
                WHERE l.relation = 'fairq.node'::regclass AND l.granted AND l.pid <> pg_backend_pid()
                AND l.mode IN ('RowShareLock', 'ExclusiveLock', 'RowExclusiveLock', 'AccessExclusiveLock');
            RAISE EXCEPTION 'the list of nodes is in use'
                USING ERRCODE = 'lock_not_available', DETAIL = format('Processes that have it locked: %s.', coalesce(holders, 'none any more')),
                HINT = 'A transaction that has called fairq.schedule() has it until its end. End it, or try again.';
        END IF;
        PERFORM pg_sleep(0.2);
    END LOOP;
END
$$;

-- A version is of the first two numbers. A node may be one ahead or one behind, so that
-- nodes and proxies are updated one after the other: columns are named in each call.
CREATE FUNCTION fairq_internal.version_fits(version text, other text)
RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT split_part(version, '.', 1) = split_part(other, '.', 1)
        AND abs(split_part(version, '.', 2)::int - split_part(other, '.', 2)::int) <= 1
$$;

-- A connection string as it is kept: checked, and with what it does not say of silent
-- servers. PL/Proxy adds the user, which it can only do to keywords and values.
CREATE FUNCTION fairq_internal.complete_connection(connection text)
RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    word text;
BEGIN
    IF connection !~ '^\s*\w+\s*=' THEN
        RAISE EXCEPTION 'invalid value for argument "connection": "%"', regexp_replace(connection, ':[^:/@]*@', ':...@')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Give keywords and values, like ''host=db1,db2 dbname=app target_session_attrs=read-write''.';
    END IF;
    word := (regexp_match(connection, '\m(user|password|passfile|sslpassword|oauth_client_secret|scram_client_key|scram_server_key)\s*='))[1];
    IF word IS NOT NULL THEN
        RAISE EXCEPTION 'the connection of a node must not have "%"', word
            USING ERRCODE = 'invalid_parameter_value', DETAIL = 'Every role can read the options of a server, and calls are made at the nodes as the role that makes them here.',
            HINT = 'Use CREATE USER MAPPING FOR a role SERVER pgfairq OPTIONS (password ''...''), or a password file.';
    END IF;
    IF connection ~ '\mhost(addr)?\s*=\s*(''[^'']*,|[^'' ]*,)' AND connection !~ '\mtarget_session_attrs\s*=' THEN
        RAISE NOTICE 'the connection has several hosts and no target_session_attrs'
            USING HINT = 'With target_session_attrs=read-write calls go to the primary, whichever host that is.';
    END IF;
    SELECT connection || coalesce(string_agg(format(' %s=%s', d.word, d.value), '' ORDER BY n), '') INTO connection
        FROM (VALUES (1, 'connect_timeout', '2'), (2, 'keepalives_idle', '5'), (3, 'keepalives_interval', '2'),
            (4, 'keepalives_count', '3'), (5, 'tcp_user_timeout', '3000')) d(n, word, value)
        WHERE connection !~ format('\m%s\s*=', d.word);
    RETURN connection;
END
$$;

-- Refuse a server that cannot be the node.
CREATE FUNCTION fairq_internal.check_server(number int)
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    facts jsonb := fairq_internal.node_facts(number);
    own text := (SELECT extversion FROM pg_extension WHERE extname = 'pgfairq_cluster');
    other int;
BEGIN
    IF (facts ->> 'proxy')::boolean THEN
        RAISE EXCEPTION 'the server of node % is a proxy', number
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'A node is a database that has the extension pgfairq.';
    ELSIF facts ->> 'version' IS NULL THEN
        RAISE EXCEPTION 'the server of node % does not have pgfairq in that database', number
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Put pgfairq into its shared_preload_libraries, and run CREATE EXTENSION pgfairq and fairq.set_node() there.';
    ELSIF NOT fairq_internal.version_fits(facts ->> 'version', own) THEN
        RAISE EXCEPTION 'the server of node % has version % of pgfairq, and the proxy has %', number, facts ->> 'version', own
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Update the one that is behind: they may be one version apart.';
    ELSIF (facts ->> 'standby')::boolean THEN
        RAISE EXCEPTION 'the server of node % is a standby', number
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Name all hosts of the node, and target_session_attrs=read-write.';
    END IF;
    FOR other IN SELECT n.node FROM fairq.node n WHERE n.system = facts ->> 'system' AND n.node <> number LOOP
        BEGIN
            CONTINUE WHEN fairq_internal.node_facts(other) -> 'started' <> facts -> 'started';
        EXCEPTION WHEN connection_failure THEN
            CONTINUE; -- it is not this one, which is there
        END;
        RAISE EXCEPTION 'the server of node % is that of node %', number, other
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Correct the connection.';
    END LOOP;
    PERFORM FROM fairq_internal.node_load(number);
    UPDATE fairq.node n SET system = facts ->> 'system' WHERE n.node = number AND n.system IS DISTINCT FROM facts ->> 'system';
END
$$;

-- The queues of the nodes that can be reached, each as the first node that has it says;
-- and those that cannot.
CREATE FUNCTION fairq_internal.cluster_queues(but int, OUT queue text, OUT definition jsonb, OUT node int)
RETURNS SETOF record LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    number int;
    found_queues text[] := '{}';
BEGIN
    FOR number IN SELECT n.node FROM fairq.node n WHERE n.node IS DISTINCT FROM but ORDER BY n.node LOOP
        BEGIN
            RETURN QUERY SELECT d.queue, d.definition, number FROM fairq_internal.node_queue_definitions(number) d
                WHERE d.queue <> ALL (found_queues);
            found_queues := found_queues || array(SELECT d.queue FROM fairq_internal.node_queue_definitions(number) d);
        EXCEPTION WHEN connection_failure THEN
            RAISE WARNING 'node % is out of reach', number
                USING ERRCODE = 'connection_failure', DETAIL = 'Queues that only that node has are not seen.';
        END;
    END LOOP;
END
$$;

-- In which words two definitions of a queue differ; null: in none. Unless all is said,
-- what one has more of settings of groups and subgroups, and topics, is no difference. What
-- is said of subgroups counts where groups are divided, and of a node whose version has them.
CREATE FUNCTION fairq_internal.definitions_differ(one jsonb, other jsonb, everything boolean)
RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT string_agg(word, ', ' ORDER BY word) FROM (
        SELECT s.key AS word FROM jsonb_each(one -> 'settings') s
            WHERE other -> 'settings' ? s.key AND other -> 'settings' -> s.key <> s.value
            AND (s.key NOT LIKE 'subgroup\_%' OR (one -> 'settings' ->> 'subgroups')::boolean)
        UNION ALL
        SELECT 'owner' WHERE one -> 'owner' <> other -> 'owner'
        UNION ALL
        SELECT 'grants' WHERE everything AND NOT other -> 'grants' @> (one -> 'grants')
        UNION ALL
        SELECT 'topics' WHERE everything AND one -> 'topics' <> other -> 'topics'
        UNION ALL
        SELECT format('group "%s"', key) FROM jsonb_each(one -> 'groups') g
            FULL JOIN jsonb_each(other -> 'groups') o USING (key)
            WHERE g.value <> o.value OR everything AND (g.value IS NULL OR o.value IS NULL)
        UNION ALL
        SELECT format('subgroup "%s" of group "%s"', d ->> 'subgroup_key', d ->> 'group_key')
            FROM jsonb_array_elements(one -> 'subgroups') g
            FULL JOIN jsonb_array_elements(other -> 'subgroups') o
                ON g.value ->> 'group_key' = o.value ->> 'group_key' AND g.value ->> 'subgroup_key' = o.value ->> 'subgroup_key'
            CROSS JOIN LATERAL coalesce(g.value, o.value) d
            WHERE (one -> 'settings' ->> 'subgroups')::boolean AND other ? 'subgroups'
            AND (g.value <> o.value OR everything AND (g.value IS NULL OR o.value IS NULL))) differences
$$;

-- Give a node the queues of the others. One that differs is refused.
CREATE FUNCTION fairq_internal.copy_queues(number int)
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    own jsonb := (SELECT jsonb_object_agg(queue, definition) FROM fairq_internal.node_queue_definitions(number));
    q record;
    differences text;
    others text[] := '{}';
    alone text;
BEGIN
    FOR q IN SELECT * FROM fairq_internal.cluster_queues(number) LOOP
        differences := fairq_internal.definitions_differ(q.definition, own -> q.queue, false);
        IF differences IS NOT NULL THEN
            RAISE EXCEPTION 'queue "%" of node % differs from that of node %', q.queue, number, q.node
                USING ERRCODE = 'object_not_in_prerequisite_state', DETAIL = format('They differ in: %s.', differences),
                HINT = 'Make it the same, or drop it there.';
        END IF;
        PERFORM fairq_internal.node_define_queue(number, q.queue, q.definition, false);
        others := others || q.queue;
    END LOOP;
    SELECT string_agg(format('"%s"', k), ', ' ORDER BY k) INTO alone FROM jsonb_object_keys(own) k WHERE k <> ALL (others);
    IF alone IS NOT NULL AND EXISTS (SELECT FROM fairq.node n WHERE n.node <> number) THEN
        RAISE WARNING 'queues that only node % has: %', number, alone
            USING HINT = 'Give them to all nodes with fairq.check_cluster(repair => true), or drop them.';
    END IF;
END
$$;

-- The row is written first, which none but us sees: what is asked of the new node goes
-- the way of all calls. All that is done there may be repeated.
CREATE FUNCTION fairq.add_node(node int, connection text)
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
    PERFORM fairq_internal.require_owner('add_node');
    IF node IS NULL OR node < 0 OR node > 32767 THEN
        RAISE EXCEPTION 'invalid value for argument "node": "%"', node
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Give the number that the server says with fairq.this_node(), 0 to 32767.';
    ELSIF connection IS NULL THEN
        RAISE EXCEPTION 'argument "connection" must not be null'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Give a connection string, like ''host=db1 dbname=app''.';
    END IF;
    PERFORM fairq_internal.lock_nodes();
    IF EXISTS (SELECT FROM fairq.node n WHERE n.node = add_node.node) THEN
        RAISE EXCEPTION 'the cluster has a node % already', node
            USING ERRCODE = 'duplicate_object', HINT = 'Give the server another number with fairq.set_node(); or change the connection in table fairq.node.';
    END IF;
    INSERT INTO fairq.node (node, place, connection)
        SELECT add_node.node, min(free), fairq_internal.complete_connection(add_node.connection)
        FROM generate_series(0, (SELECT count(*)::int FROM fairq.node)) free
        WHERE NOT EXISTS (SELECT FROM fairq.node n WHERE n.place = free);
    PERFORM fairq_internal.check_server(node);
    PERFORM fairq_internal.copy_queues(node);
    PERFORM fairq_internal.copy_schedules(node);
    PERFORM fairq_internal.mark_node(node, 'active');
END
$$;
REVOKE ALL ON FUNCTION fairq.add_node(int, text) FROM PUBLIC;

-- The number of a node that there is.
CREATE FUNCTION fairq_internal.require_node(node int)
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
    IF node IS NULL OR NOT EXISTS (SELECT FROM fairq.node n WHERE n.node = require_node.node) THEN
        RAISE EXCEPTION 'the cluster has no node %', coalesce(node::text, 'null')
            USING ERRCODE = 'undefined_object', HINT = 'Table fairq.node has those that there are.';
    END IF;
END
$$;

-- First the node refuses new tasks and sessions, and from the commit on they go to the
-- others. The tasks that are there are claimed as before, or moved by fairq.move_tasks().
CREATE FUNCTION fairq.drain_node(node int)
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
    PERFORM fairq_internal.require_owner('drain_node');
    PERFORM fairq_internal.lock_nodes();
    PERFORM fairq_internal.require_node(node);
    IF NOT EXISTS (SELECT FROM fairq.node n WHERE n.node <> drain_node.node AND n.state = 'active') THEN
        RAISE EXCEPTION 'node % is the last one that gets new tasks', node
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Add a node with fairq.add_node() first.';
    END IF;
    PERFORM fairq_internal.begin_drain(node);
    UPDATE fairq.node n SET state = 'draining' WHERE n.node = drain_node.node AND n.state <> 'draining';
    PERFORM fairq_internal.move_schedules(node, false);
END
$$;
REVOKE ALL ON FUNCTION fairq.drain_node(int) FROM PUBLIC;

CREATE FUNCTION fairq.undrain_node(node int)
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
    PERFORM fairq_internal.require_owner('undrain_node');
    PERFORM fairq_internal.lock_nodes();
    PERFORM fairq_internal.require_node(node);
    PERFORM fairq_internal.mark_node(node, 'active');
    UPDATE fairq.node n SET state = 'active' WHERE n.node = undrain_node.node AND n.state <> 'active';
END
$$;
REVOKE ALL ON FUNCTION fairq.undrain_node(int) FROM PUBLIC;
