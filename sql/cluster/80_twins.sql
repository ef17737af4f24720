-- The twin of a function: the call at one node, which PL/Proxy carries. All are made
-- here, from the functions above, so each is the same call with a place before it.
-- Columns are named, so that a node of another version may have more.
CREATE FUNCTION fairq_internal.make_twins()
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    f record;
    arguments text;
    parameters text;
    columns text;
BEGIN
    FOR f IN
        SELECT p.*, t.typtype, t.typrelid FROM pg_proc p JOIN pg_type t ON t.oid = p.prorettype
        WHERE p.pronamespace = 'fairq'::regnamespace AND p.prokind = 'f' AND p.prosrc LIKE 'fairq\_cluster\_%'
    LOOP
        SELECT coalesce(string_agg(', ' || format_type(type, NULL), '' ORDER BY n), ''),
            coalesce(string_agg('$' || n + 1, ', ' ORDER BY n), '')
            INTO arguments, parameters
            FROM unnest(f.proargtypes::oid[]) WITH ORDINALITY AS argument (type, n);
        -- a value alone is cheaper to plan at the node than rows
        columns := CASE WHEN f.proretset THEN '* FROM' ELSE '' END;
        IF f.typtype = 'c' THEN
            SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) || ' FROM' INTO columns
                FROM pg_attribute a WHERE a.attrelid = f.typrelid AND a.attnum > 0 AND NOT a.attisdropped;
        END IF;
        EXECUTE format('CREATE OR REPLACE FUNCTION fairq_internal.%I(int%s) RETURNS %s%s LANGUAGE plproxy VOLATILE AS %L',
            'at_' || f.proname, arguments, CASE WHEN f.proretset THEN 'SETOF ' ELSE '' END,
            format_type(f.prorettype, NULL),
            format('CLUSTER ''pgfairq''; RUN ON $1; SELECT %s fairq.%I(%s);', columns, f.proname, parameters));
        EXECUTE format('COMMENT ON FUNCTION fairq_internal.%I IS %L', 'at_' || f.proname,
            format('fairq.%s, called at the node of a place.', f.proname));
    END LOOP;

    -- Of a view: a twin of what returns its rows, with its columns but the last two.
    FOR f IN
        SELECT p.proname, substr(p.proname, length('rows_of_') + 1) AS view, p.proargnames, p.proallargtypes
        FROM pg_proc p
        WHERE p.pronamespace = 'fairq_internal'::regnamespace AND p.prosrc = 'fairq_cluster_rows_of_view'
    LOOP
        SELECT string_agg(format('%I::%s AS %1$I', name, format_type(type, NULL)), ', ' ORDER BY n),
            string_agg(format(', OUT %I %s', name, format_type(type, NULL)), '' ORDER BY n)
            INTO columns, arguments
            FROM unnest(f.proargnames, f.proallargtypes) WITH ORDINALITY AS argument (name, type, n)
            WHERE n <= cardinality(f.proargnames) - 2;
        EXECUTE format('CREATE OR REPLACE FUNCTION fairq_internal.%I(int%s) RETURNS SETOF record LANGUAGE plproxy VOLATILE AS %L',
            'at_' || f.proname, arguments,
            format('CLUSTER ''pgfairq''; RUN ON $1; SELECT %s FROM fairq.%I;', columns, f.view));
        EXECUTE format('COMMENT ON FUNCTION fairq_internal.%I IS %L', 'at_' || f.proname,
            format('The rows of fairq.%s at the node of a place.', f.view));
        EXECUTE format('COMMENT ON FUNCTION fairq_internal.%I IS %L', f.proname,
            format('The rows of fairq.%s at all nodes, each with the number of its node.', f.view));
    END LOOP;
END
$$;

SELECT fairq_internal.make_twins();

-- The first call on each connection. When a proxy closes it, the node is to end the call
-- that is under way on it: it looks whether the connection is there, once a second.
CREATE FUNCTION fairq_internal.at_this_node(int)
RETURNS int LANGUAGE plproxy VOLATILE
AS $$
    CLUSTER 'pgfairq'; RUN ON $1;
    SELECT fairq.this_node() FROM (SELECT CASE WHEN pg_catalog.current_setting('client_connection_check_interval') OPERATOR(pg_catalog.=) '0'
        THEN pg_catalog.set_config('client_connection_check_interval', '1s', false) END OFFSET 0) checks;
$$;

CREATE FUNCTION fairq_internal.at_wait_ready(int, text[], interval)
RETURNS boolean LANGUAGE plproxy VOLATILE
AS $$ CLUSTER 'pgfairq'; RUN ON $1; SELECT fairq_internal.wait_ready($2, $3); $$;

-- What an enqueue asks of nodes besides.
CREATE FUNCTION fairq_internal.at_tasks_here(int, text, bigint[])
RETURNS bigint[] LANGUAGE plproxy VOLATILE
AS $$ CLUSTER 'pgfairq'; RUN ON $1; SELECT fairq_internal.tasks_here($2, $3); $$;

-- What a claim asks of nodes besides.
CREATE FUNCTION fairq_internal.at_front(int, text, OUT class int, OUT ready bigint, OUT front float8, OUT floor float8, OUT shares bool)
RETURNS SETOF record LANGUAGE plproxy VOLATILE
AS $$ CLUSTER 'pgfairq'; RUN ON $1; SELECT class, ready, front::float8 AS front, floor::float8 AS floor,
    (SELECT class_weights IS NOT NULL FROM fairq.queue q WHERE q.queue OPERATOR(pg_catalog.=) $2) AS shares FROM fairq.front($2); $$;

CREATE FUNCTION fairq_internal.at_raise_floor(int, text, int, float8)
RETURNS bool LANGUAGE plproxy VOLATILE
AS $$ CLUSTER 'pgfairq'; RUN ON $1; SELECT fairq.raise_floor($2, $3, $4::numeric); $$;
