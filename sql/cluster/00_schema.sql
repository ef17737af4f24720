-- Both extensions have the schemas fairq and fairq_internal: a database is a node or a proxy.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname = 'pgfairq') THEN
        RAISE EXCEPTION 'a database that has the extension pgfairq cannot be a proxy'
            USING ERRCODE = 'object_not_in_prerequisite_state',
            HINT = 'Create pgfairq_cluster in a database of its own, and give that database''s name to the applications.';
    END IF;
END
$$;

\include sql/install/00_schema.sql

\include sql/install/10_address.sql

\include sql/install/12_group_id.sql

\include sql/install/30_types.sql

\include sql/install/31_types_0_2.sql
