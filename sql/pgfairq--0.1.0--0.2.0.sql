\echo Use "ALTER EXTENSION pgfairq UPDATE" to load this file. \quit

-- From 0.1.0 to 0.2.0. In the order of the fragments in sql/install.

-- ---------------------------------------------------------------------------
-- Groups and topics
-- ---------------------------------------------------------------------------

-- pg_restore may load these tables before fairq.queue: an archive does not say that
-- they refer to it. So only a deletion there is looked after.
ALTER TABLE fairq.group_setting DISABLE TRIGGER ALL;
ALTER TABLE fairq.topic DISABLE TRIGGER ALL;

-- ---------------------------------------------------------------------------
-- Views
-- ---------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION fairq.dead_of_queues(
    OUT queue text, OUT id bigint, OUT group_key text, OUT payload jsonb, OUT headers jsonb,
    OUT priority bigint, OUT attempts int, OUT enqueued_at timestamptz, OUT last_error text)
RETURNS SETOF record LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    name text;
BEGIN
    FOR name IN SELECT q.queue FROM fairq.queue q
                JOIN pg_catalog.pg_class c ON c.relname = 'q_' || q.queue
                WHERE c.relnamespace = 'fairq'::pg_catalog.regnamespace
                AND pg_catalog.has_table_privilege(c.oid, 'SELECT')
                ORDER BY q.queue
    LOOP
        -- An owner who has made his table unfit, or has row security on it,
        -- does not keep us from the others'.
        BEGIN
            RETURN QUERY SELECT name, t.id, t.group_key, t.payload, t.headers,
                t.priority, t.attempts, t.enqueued_at, t.last_error
                FROM fairq.tasks(name, 'dead'::pg_catalog.text, NULL::pg_catalog.text) t; -- no other function's arguments
        EXCEPTION WHEN invalid_table_definition OR insufficient_privilege OR configuration_limit_exceeded THEN
            NULL;
        END;
    END LOOP;
END
$$;
