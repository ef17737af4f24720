-- What queues are, as a proxy copies it to another node: settings, owner, what others may
-- do with the tables, settings of groups, topics. For who may read all of these.
CREATE OR REPLACE FUNCTION fairq_internal.queue_definitions(OUT queue text, OUT definition jsonb)
RETURNS SETOF record LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET intervalstyle = 'postgres'
AS $$
    SELECT q.queue, jsonb_build_object(
        'settings', to_jsonb(q) - 'queue',
        'owner', pg_get_userbyid(c.relowner),
        'grants', coalesce((
            SELECT jsonb_agg(g.grant ORDER BY g.grant)
            FROM unnest('{q_,done_,ids_of_}'::text[]) AS prefix
            JOIN pg_class r ON r.relname = prefix || q.queue AND r.relnamespace = c.relnamespace AND r.relowner = c.relowner
            CROSS JOIN aclexplode(r.relacl) AS a
            CROSS JOIN LATERAL (SELECT jsonb_build_object('prefix', prefix, 'privilege', a.privilege_type,
                'grantable', a.is_grantable, 'role', CASE WHEN a.grantee <> 0 THEN pg_get_userbyid(a.grantee) END) AS grant) g
            WHERE a.grantee <> r.relowner), '[]'),
        'groups', coalesce((
            SELECT jsonb_object_agg(s.group_key, to_jsonb(s) - '{queue,group_key,subgroup_key}'::text[])
            FROM fairq.group_setting s WHERE s.queue = q.queue AND s.subgroup_key IS NULL), '{}'),
        'subgroups', coalesce((
            SELECT jsonb_agg(to_jsonb(s) - 'queue' ORDER BY s.group_key, s.subgroup_key)
            FROM fairq.group_setting s WHERE s.queue = q.queue AND s.subgroup_key IS NOT NULL), '[]'),
        'topics', coalesce((
            SELECT jsonb_agg(t.topic ORDER BY t.topic) FROM fairq.topic t WHERE t.queue = q.queue), '[]'))
    FROM fairq.queue q
    JOIN pg_class c ON c.relname = 'q_' || q.queue AND c.relkind = 'r'
    WHERE c.relnamespace = 'fairq'::regnamespace
$$;
COMMENT ON FUNCTION fairq_internal.queue_definitions IS 'All queues as another node can make them: settings, owner, grants, settings of groups, topics.';

-- Make a queue what a definition says: the whole queue if there is none, and else the
-- groups' settings and topics that it lacks; with anew all but its policy, and nothing
-- more than that but grants. Everything is done as the caller. Settings that this version
-- does not have are left out.
CREATE OR REPLACE FUNCTION fairq_internal.define_queue(name text, definition jsonb, anew boolean)
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    s jsonb := definition -> 'settings';
    role text;
    creates boolean := NOT EXISTS (SELECT FROM fairq.queue q WHERE q.queue = name);
    g record;
BEGIN
    FOR role IN
        SELECT definition ->> 'owner' UNION SELECT r ->> 'role' FROM jsonb_array_elements(definition -> 'grants') r
    LOOP
        CONTINUE WHEN role IS NULL OR EXISTS (SELECT FROM pg_roles WHERE rolname = role);
        RAISE EXCEPTION 'role "%" does not exist', role
            USING ERRCODE = 'undefined_object', DETAIL = format('Queue "%s" is of that role, or granted to it.', name),
            HINT = 'Create the role at this node, and try again.';
    END LOOP;
    IF creates OR anew THEN
        EXECUTE (SELECT format('SELECT fairq.%I(%L', f, name) || (
            SELECT coalesce(string_agg(format(', %I => %L', key, CASE WHEN key <> 'class_weights' THEN coalesce(value, '0') ELSE coalesce(translate(value, '[]', '{}'), '{}') END), ''), '') || ')' FROM jsonb_each_text(s)
            WHERE (value IS NOT NULL OR NOT creates) AND key = ANY ((SELECT p.proargnames FROM pg_proc p
                WHERE p.pronamespace = 'fairq'::regnamespace AND p.proname = f)::text[]))
            FROM (VALUES (CASE WHEN creates THEN 'create_queue' ELSE 'alter_queue' END)) v(f));
        PERFORM fairq.set_group_defaults(name, (s ->> 'group_weight')::float8, (s ->> 'group_max_leased')::int,
            (s ->> 'group_rate')::float8, (s ->> 'group_burst')::int);
        IF (s ->> 'subgroups')::boolean THEN
            PERFORM fairq.set_subgroup_defaults(name, (s ->> 'subgroup_weight')::float8, (s ->> 'subgroup_max_leased')::int,
                (s ->> 'subgroup_rate')::float8, (s ->> 'subgroup_burst')::int);
        END IF;
        IF (s ->> 'paused')::boolean THEN
            PERFORM fairq.pause(name);
        ELSIF anew THEN
            PERFORM fairq.resume(name);
        END IF;
    END IF;
    IF anew THEN
        PERFORM fairq.reset_group(name, o.group_key) FROM fairq.group_setting o
            WHERE o.queue = name AND o.subgroup_key IS NULL
            AND definition -> 'groups' -> o.group_key IS DISTINCT FROM to_jsonb(o) - '{queue,group_key,subgroup_key}'::text[];
        PERFORM fairq.reset_subgroup(name, o.group_key, o.subgroup_key) FROM fairq.group_setting o
            WHERE o.queue = name AND o.subgroup_key IS NOT NULL AND (s ->> 'subgroups')::boolean
            AND NOT coalesce(definition -> 'subgroups', '[]') @> jsonb_build_array(to_jsonb(o) - 'queue');
        PERFORM fairq.unsubscribe(o.topic, name) FROM fairq.topic o WHERE o.queue = name AND NOT definition -> 'topics' ? o.topic;
    END IF;
    FOR g IN
        SELECT d.key, d.value AS v FROM jsonb_each(definition -> 'groups') d
        WHERE NOT EXISTS (SELECT FROM fairq.group_setting o
            WHERE o.queue = name AND o.group_key = d.key AND o.subgroup_key IS NULL)
    LOOP
        PERFORM fairq.set_group(name, g.key, (g.v ->> 'weight')::float8, (g.v ->> 'max_leased')::int,
            (g.v ->> 'rate')::float8, (g.v ->> 'burst')::int);
        IF (g.v ->> 'paused')::boolean THEN
            PERFORM fairq.pause_group(name, g.key);
        END IF;
    END LOOP;
    FOR g IN
        SELECT d.v FROM jsonb_array_elements(definition -> 'subgroups') d (v), fairq.queue q
        WHERE q.queue = name AND q.subgroups AND NOT EXISTS (SELECT FROM fairq.group_setting o
            WHERE o.queue = name AND o.group_key = d.v ->> 'group_key' AND o.subgroup_key = d.v ->> 'subgroup_key')
    LOOP
        PERFORM fairq.set_subgroup(name, g.v ->> 'group_key', g.v ->> 'subgroup_key', (g.v ->> 'weight')::float8,
            (g.v ->> 'max_leased')::int, (g.v ->> 'rate')::float8, (g.v ->> 'burst')::int);
        IF (g.v ->> 'paused')::boolean THEN
            PERFORM fairq.pause_subgroup(name, g.v ->> 'group_key', g.v ->> 'subgroup_key');
        END IF;
    END LOOP;
    PERFORM fairq.subscribe(t, name) FROM jsonb_array_elements_text(definition -> 'topics') t
        WHERE NOT EXISTS (SELECT FROM fairq.topic o WHERE o.queue = name AND o.topic = t);
    PERFORM fairq_internal.give_queue(name, definition ->> 'owner', definition -> 'grants');
END
$$;
COMMENT ON FUNCTION fairq_internal.define_queue IS 'Make a queue, or what it lacks, as another node has defined it.';

-- Give the tables of a queue to a role, and others what is granted to them. A definition
-- is what another node says, and that may be anybody's: nothing of it becomes SQL. And a
-- table is not given from one role to another, as which the first would run code that it
-- has attached: but a superuser, the caller, and who may act as the other gives it.
CREATE OR REPLACE FUNCTION fairq_internal.give_queue(name text, owner text, grants jsonb)
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    r record;
BEGIN
    FOR r IN
        SELECT c.oid::regclass AS relation, c.relowner FROM pg_class c
        WHERE c.relnamespace = 'fairq'::regnamespace AND c.relkind = 'r'
        AND c.relname IN ('q_' || name, 'done_' || name) AND c.relowner::regrole <> quote_ident(owner)::regrole
    LOOP
        IF r.relowner <> current_user::regrole AND NOT pg_has_role(r.relowner, quote_ident(owner)::regrole, 'MEMBER') THEN
            RAISE EXCEPTION 'table "%" belongs to role "%", and is not given to role "%"', r.relation, pg_get_userbyid(r.relowner), owner
                USING ERRCODE = 'insufficient_privilege', HINT = 'If it is to be, use ALTER TABLE: code that is attached to the table runs as the new owner then.';
        END IF;
        EXECUTE format('ALTER TABLE %s OWNER TO %I', r.relation, owner);
    END LOOP;
    FOR r IN SELECT g.value FROM jsonb_array_elements(grants) g
        WHERE g.value ->> 'prefix' IN ('q_', 'done_', 'ids_of_') IS NOT TRUE OR g.value ->> 'privilege'
            IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER', 'MAINTAIN', 'USAGE') IS NOT TRUE
    LOOP
        RAISE EXCEPTION 'invalid grant in the definition of queue "%": %', name, left(r.value::text, 200)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'See what is at the node that says so: it may be hostile.';
    END LOOP;
    FOR r IN
        SELECT c.oid::regclass AS relation, c.relkind, g ->> 'privilege' AS privilege, g ->> 'role' AS role, (g ->> 'grantable')::boolean AS grantable
        FROM jsonb_array_elements(grants) g
        JOIN pg_class c ON c.relname = (g ->> 'prefix') || name AND c.relnamespace = 'fairq'::regnamespace
    LOOP
        EXECUTE format('GRANT %s ON %s %s TO %s%s', r.privilege, CASE r.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, r.relation,
            coalesce(quote_ident(r.role), 'PUBLIC'), CASE WHEN r.grantable THEN ' WITH GRANT OPTION' ELSE '' END);
    END LOOP;
END
$$;
COMMENT ON FUNCTION fairq_internal.give_queue IS 'Give the tables of a queue to a role, and grants on them to others.';
