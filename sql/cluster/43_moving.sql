-- Moving the tasks of a node that is drained. Each batch is for one node and goes in three
-- steps, each in force before the next: out of the queue at its node, into the queue of the
-- other, forgotten at the first. What was begun and not ended is ended first, by whoever
-- comes next (see sql/install/73_moving.sql).

-- Bring a batch to its node. False: that is out of reach, or was when it answered.
CREATE FUNCTION fairq_internal.deliver(source int, batch uuid, target int, name text)
RETURNS boolean LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    tasks jsonb := fairq_internal.node_departing_tasks(source, batch);
BEGIN
    BEGIN
        IF tasks IS NOT NULL THEN
            PERFORM fairq_internal.node_arrive(target, batch, name, tasks);
        END IF;
    EXCEPTION WHEN connection_failure THEN
        RAISE WARNING 'node % is out of reach: % tasks of node % are on their way to it', target, jsonb_array_length(tasks), source
            USING ERRCODE = 'connection_failure', HINT = 'Call fairq.move_tasks() or fairq.check_cluster(repair => true) when it is there.';
        RETURN false;
    END;
    PERFORM fairq_internal.node_forget_departed(source, batch);
    RETURN true;
END
$$;

-- End what was begun with a batch of a queue; false: it is to be tried again.
CREATE FUNCTION fairq_internal.finish_move(source int, batch uuid, target int, name text)
RETURNS boolean LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM fairq.node n WHERE n.node = target) THEN
        PERFORM fairq_internal.node_depart_no_more(source, batch);
        RETURN false;
    END IF;
    RETURN fairq_internal.deliver(source, batch, target, name);
END
$$;

-- One queue does not keep the others: what the owner has attached to its table may refuse
-- its tasks. Called where an error of one queue is caught.
CREATE FUNCTION fairq_internal.stays(name text, source int, state text, message text)
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE WARNING 'could not move the tasks of queue "%" from node %: %', name, source, message
        USING ERRCODE = state, HINT = 'Other queues are moved. Remove what refuses the tasks, and call fairq.move_tasks() again.';
END
$$;

-- End what was begun at a node; returns how many tasks have arrived, and which queues
-- have refused theirs.
CREATE FUNCTION fairq_internal.finish_moves(source int, OUT moved bigint, OUT refused text[])
RETURNS record LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    d record;
BEGIN
    moved := 0;
    refused := '{}';
    FOR d IN SELECT * FROM fairq_internal.node_departures(source) LOOP
        BEGIN
            IF fairq_internal.finish_move(source, d.batch, d.target, d.queue) THEN
                moved := moved + d.tasks;
            END IF;
        EXCEPTION WHEN connection_failure THEN
            RAISE;
        WHEN OTHERS THEN
            PERFORM fairq_internal.stays(d.queue, source, SQLSTATE, SQLERRM);
            refused := refused || d.queue;
        END;
    END LOOP;
END
$$;

-- One at a time for a node: two would only take each other's tasks to be gone.
CREATE FUNCTION fairq_internal.lock_moves(source int)
RETURNS void LANGUAGE sql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$ SELECT pg_advisory_xact_lock(hashtextextended('fairq.move_tasks', source)) $$;

-- Is the node there that tasks of a queue are to leave for?
CREATE FUNCTION fairq_internal.may_depart(source int, name text, target int)
RETURNS boolean LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM fairq_internal.node_facts(target);
    RETURN true;
EXCEPTION WHEN connection_failure THEN
    RAISE WARNING 'node % is out of reach: tasks of queue "%" that would go there stay at node %', target, name, source
        USING ERRCODE = 'connection_failure', HINT = 'Call fairq.move_tasks() again when it is there.';
    RETURN false;
END
$$;

-- Tasks that would go to a node that is out of reach stay where they are claimed: so it is
-- asked before each batch leaves for it, and once it does not answer no more leave for it.
CREATE FUNCTION fairq_internal.move_queue(source int, name text, batch int)
RETURNS bigint LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    skip bigint[] := '{}';
    away int[] := '{}';
    part record;
    departed bigint[];
    batch_name uuid;
    moved bigint := 0;
BEGIN
    LOOP
        FOR part IN
            SELECT p.target, array_agg(p.id ORDER BY p.n) AS ids FROM (
                SELECT t.id, t.n, fairq_internal.place_task(name, t.group_key, t.unique_key) AS target
                FROM fairq_internal.node_tasks_to_move(source, name, batch, skip) WITH ORDINALITY AS t (id, group_key, unique_key, n)) p
            GROUP BY p.target
        LOOP
            IF part.target <> ALL (away) AND NOT fairq_internal.may_depart(source, name, part.target) THEN
                away := away || part.target;
            END IF;
            departed := '{}';
            IF part.target <> ALL (away) THEN
                batch_name := gen_random_uuid();
                departed := fairq_internal.node_depart(source, name, part.ids, batch_name, part.target);
                IF fairq_internal.deliver(source, batch_name, part.target, name) THEN
                    moved := moved + cardinality(departed);
                ELSE
                    away := away || part.target;
                END IF;
            END IF;
            skip := skip || array(SELECT unnest(part.ids) EXCEPT SELECT unnest(departed));
        END LOOP;
        EXIT WHEN NOT FOUND OR NOT EXISTS (SELECT FROM fairq.node n WHERE n.state = 'active' AND n.node <> ALL (away));
    END LOOP;
    RETURN moved;
END
$$;

CREATE FUNCTION fairq.move_tasks(node int, batch int DEFAULT 1000)
RETURNS bigint LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    name text;
    moved bigint;
    refused text[];
    stay record;
BEGIN
    PERFORM fairq_internal.require_owner('move_tasks');
    PERFORM fairq_internal.require_node(node);
    IF batch IS NULL OR batch < 1 OR batch > 100000 THEN
        RAISE EXCEPTION 'invalid value for argument "batch": "%"', batch
            USING ERRCODE = 'invalid_parameter_value', HINT = 'It must be from 1 to 100000.';
    END IF;
    PERFORM fairq_internal.lock_moves(node);
    IF NOT EXISTS (SELECT FROM fairq.node n WHERE n.node = move_tasks.node AND n.state = 'draining') THEN
        RAISE EXCEPTION 'node % is not being drained', node
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Call fairq.drain_node() first: new tasks would come while others leave.';
    END IF;
    SELECT * INTO moved, refused FROM fairq_internal.finish_moves(node);
    FOR name IN SELECT * FROM fairq_internal.node_queue_names(node) LOOP
        CONTINUE WHEN name = ANY (refused);
        BEGIN
            moved := moved + fairq_internal.move_queue(node, name, batch);
        EXCEPTION WHEN connection_failure THEN
            RAISE;
        WHEN OTHERS THEN
            PERFORM fairq_internal.stays(name, node, SQLSTATE, SQLERRM);
        END;
    END LOOP;
    SELECT * INTO stay FROM fairq_internal.node_load(node);
    IF stay.ready + stay.leased + stay.waiting > 0 THEN
        RAISE NOTICE 'node % has % tasks still, of which % are leased', node, stay.ready + stay.leased + stay.waiting, stay.leased
            USING DETAIL = 'Tasks in flight end where they are; and so do those that wait for others, those that others wait for, and those whose unique key has a task in flight.',
            HINT = 'Call fairq.move_tasks() again later.';
    END IF;
    RETURN moved;
END
$$;
REVOKE ALL ON FUNCTION fairq.move_tasks(int, int) FROM PUBLIC;

-- What is at a node that is given up. Tasks on their way to it have arrived, or it is
-- known that they have not: what has arrived there may be done already.
CREATE FUNCTION fairq.drop_node(node int, lost boolean DEFAULT false)
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    other int;
    away bigint;
BEGIN
    PERFORM fairq_internal.require_owner('drop_node');
    PERFORM fairq_internal.lock_nodes();
    PERFORM fairq_internal.require_node(node);
    IF lost IS NOT TRUE THEN
        IF NOT EXISTS (SELECT FROM fairq.node n WHERE n.node = drop_node.node AND n.state = 'draining') THEN
            RAISE EXCEPTION 'node % gets new tasks', node
                USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Call fairq.drain_node() first, and fairq.move_tasks().';
        END IF;
        FOR other IN SELECT n.node FROM fairq.node n ORDER BY 1 LOOP
            PERFORM fairq_internal.lock_moves(other);
            SELECT sum(d.tasks) INTO away FROM fairq_internal.node_departures(other) d WHERE other = node OR d.target = node;
            IF away > 0 THEN
                RAISE EXCEPTION '% tasks are on their way from node %', away, other
                    USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Call fairq.move_tasks() for that node, or fairq.check_cluster(repair => true).';
            END IF;
        END LOOP;
        PERFORM fairq_internal.close_node(node);
    END IF;
    DELETE FROM fairq.node n WHERE n.node = drop_node.node;
    IF EXISTS (SELECT FROM fairq.node n WHERE n.state = 'active') THEN
        PERFORM fairq_internal.move_schedules(node, true);
    END IF;
END
$$;
REVOKE ALL ON FUNCTION fairq.drop_node(int, boolean) FROM PUBLIC;
