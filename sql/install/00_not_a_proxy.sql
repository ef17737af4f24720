-- pgfairq_cluster has the same schemas: a database is a node or a proxy.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname OPERATOR(pg_catalog.=) 'pgfairq_cluster') THEN
        RAISE EXCEPTION 'a database that has the extension pgfairq_cluster cannot be a node'
            USING ERRCODE = 'object_not_in_prerequisite_state',
            HINT = 'Create pgfairq in a database of its own, and add that to the nodes with fairq.add_node().';
    END IF;
END
$$;
