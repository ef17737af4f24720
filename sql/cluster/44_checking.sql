-- What differs between the nodes. Administration goes from node to node by their numbers,
-- so the first that has a queue has the last that was said of it: to repair is to go on.
-- Nothing is taken away that has tasks: a queue that is missing somewhere is created there.

-- Do one thing, if it is to be done; what has come of it.
CREATE FUNCTION fairq_internal.repair(statement text, wanted boolean)
RETURNS text LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF wanted IS NOT TRUE OR statement IS NULL THEN
        RETURN 'no';
    END IF;
    EXECUTE statement;
    RETURN 'yes';
EXCEPTION WHEN OTHERS THEN
    RETURN 'no: ' || SQLERRM;
END
$$;

-- What is wrong with the server of a node; no row: nothing.
CREATE FUNCTION fairq_internal.server_problems(number int)
RETURNS SETOF text LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    facts jsonb;
    own text := (SELECT extversion FROM pg_extension WHERE extname = 'pgfairq_cluster');
    says int;
    other int;
BEGIN
    facts := fairq_internal.node_facts(number);
    IF (facts ->> 'proxy')::boolean OR facts ->> 'version' IS NULL THEN
        RETURN NEXT 'the database is not a node: it does not have the extension pgfairq';
        RETURN;
    END IF;
    IF facts ->> 'version' <> own THEN
        RETURN NEXT format('has version %s, and the proxy %s%s', facts ->> 'version', own,
            CASE WHEN fairq_internal.version_fits(facts ->> 'version', own) THEN ', which is tolerated' ELSE '' END);
    END IF;
    IF (facts ->> 'standby')::boolean THEN
        RETURN NEXT 'is a standby: target_session_attrs=read-write finds the primary';
    END IF;
    says := fairq_internal.node_number(number);
    IF says <> number THEN
        RETURN NEXT format('says that it is node %s', says);
    END IF;
    FOR other IN SELECT n.node FROM fairq.node n WHERE n.node < number ORDER BY 1 LOOP
        BEGIN
            IF fairq_internal.node_facts(other) @> jsonb_build_object('system', facts -> 'system', 'started', facts -> 'started') THEN
                RETURN NEXT format('is the same server as node %s', other);
            END IF;
        EXCEPTION WHEN connection_failure THEN
            NULL;
        END;
    END LOOP;
    PERFORM FROM fairq_internal.node_load(number);
EXCEPTION WHEN OTHERS THEN
    RETURN NEXT SQLERRM;
END
$$;

-- Schedules that are missing at a node, or run where they should not, or nowhere.
CREATE FUNCTION fairq_internal.check_schedules(well int[], repair boolean,
    OUT node int, OUT object text, OUT problem text, OUT repaired text)
RETURNS SETOF record LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    definitions jsonb := '{}';
    d record;
    own jsonb;
    statement text;
BEGIN
    FOR d IN SELECT unnest(well) AS number LOOP
        definitions := definitions || jsonb_build_object(d.number::text,
            (SELECT coalesce(jsonb_object_agg(s ->> 'name', s), '{}') FROM fairq_internal.node_schedule_definitions(d.number) s));
    END LOOP;
    FOR d IN
        SELECT s.name, s.definition, n AS number, p.node AS noted FROM unnest(well) n
        CROSS JOIN (SELECT DISTINCT ON (one.key) one.key AS name, one.value AS definition
            FROM jsonb_each(definitions) e, jsonb_each(e.value) one ORDER BY one.key, e.key::int) s
        LEFT JOIN fairq.schedule_node p ON p.name = s.name ORDER BY 1, 3
    LOOP
        own := definitions -> d.number::text -> d.name;
        node := d.number;
        object := format('schedule "%s"', d.name);
        IF own IS NULL THEN
            problem := 'is missing';
            statement := format('SELECT fairq_internal.node_define_schedule(%s, %L)', d.number, d.definition);
        ELSIF (own ->> 'active')::boolean AND d.noted IS DISTINCT FROM d.number THEN
            problem := coalesce(format('runs here, and should at node %s', d.noted), 'runs here, and should not');
            statement := format('SELECT fairq_internal.node_stop_schedule(%s, %L)', d.number, d.name);
        ELSIF NOT (own ->> 'active')::boolean AND d.noted = d.number THEN
            problem := 'does not run here, and should';
            statement := format('SELECT fairq_internal.node_start_schedule(%s, %L, NULL)', d.number, d.name);
        ELSE
            CONTINUE;
        END IF;
        repaired := fairq_internal.repair(statement, repair);
        RETURN NEXT;
    END LOOP;
END
$$;

CREATE FUNCTION fairq.check_cluster(repair boolean DEFAULT false,
    OUT node int, OUT object text, OUT problem text, OUT repaired text)
RETURNS SETOF record LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    well int[] := '{}';
    number int;
    problems text[];
    d record;
    definitions jsonb := '{}';
    first int;
    reference jsonb;
    own jsonb;
BEGIN
    IF repair THEN
        PERFORM fairq_internal.require_owner('check_cluster');
        PERFORM fairq_internal.lock_nodes();
    END IF;
    FOR number IN SELECT n.node FROM fairq.node n ORDER BY 1 LOOP
        problems := array(SELECT fairq_internal.server_problems(number));
        RETURN QUERY SELECT number, 'server'::text, p, 'no'::text FROM unnest(problems) p;
        CONTINUE WHEN EXISTS (SELECT FROM unnest(problems) p WHERE p !~ 'tolerated$');
        well := well || number;
        definitions := definitions || jsonb_build_object(number::text,
            (SELECT coalesce(jsonb_object_agg(q.queue, q.definition), '{}') FROM fairq_internal.node_queue_definitions(number) q));
    END LOOP;
    FOR number IN SELECT unnest(well) LOOP
        FOR d IN SELECT * FROM fairq_internal.node_departures(number) LOOP
            node := number;
            object := format('queue "%s"', d.queue);
            problem := format('%s tasks are on their way to node %s', d.tasks, d.target);
            repaired := fairq_internal.repair(format('SELECT fairq_internal.lock_moves(%1$s), fairq_internal.finish_move(%1$s, %2$L, %3$s, %4$L)',
                number, d.batch, d.target, d.queue), repair);
            RETURN NEXT;
        END LOOP;
    END LOOP;
    FOR d IN
        SELECT q AS queue, n AS number FROM unnest(well) n
        CROSS JOIN (SELECT DISTINCT jsonb_object_keys(value) AS q FROM jsonb_each(definitions)) queues ORDER BY 1, 2
    LOOP
        SELECT n INTO first FROM unnest(well) n WHERE definitions -> n::text ? d.queue ORDER BY 1 LIMIT 1;
        reference := definitions -> first::text -> d.queue;
        own := definitions -> d.number::text -> d.queue;
        node := d.number;
        object := format('queue "%s"', d.queue);
        problem := CASE WHEN own IS NULL THEN 'is missing'
            ELSE format('differs from that of node %s: %s', first, fairq_internal.definitions_differ(reference, own, true)) END;
        CONTINUE WHEN problem IS NULL OR problem ~ ': $';
        repaired := CASE WHEN own -> 'settings' -> 'policy' <> reference -> 'settings' -> 'policy' THEN 'no: a policy cannot be changed'
            ELSE fairq_internal.repair(format('SELECT fairq_internal.node_define_queue(%s, %L, %L, true)', d.number, d.queue, reference), repair) END;
        RETURN NEXT;
    END LOOP;
    RETURN QUERY SELECT * FROM fairq_internal.check_memberships(well, repair);
    RETURN QUERY SELECT * FROM fairq_internal.check_schedules(well, repair);
END
$$;
REVOKE ALL ON FUNCTION fairq.check_cluster(boolean) FROM PUBLIC;
