-- The number of this database as a node, and what it is to a cluster: at most one row;
-- none means 0, alone.
CREATE TABLE fairq_internal.node (
    number pg_catalog.int4 NOT NULL CHECK (number OPERATOR(pg_catalog.>=) 0 AND number OPERATOR(pg_catalog.<=) 32767),
    single pg_catalog.bool NOT NULL DEFAULT true PRIMARY KEY CHECK (single),
    membership pg_catalog.text NOT NULL DEFAULT 'alone'
        CHECK (membership OPERATOR(pg_catalog.=) ANY ('{alone,active,draining,dropped}'::pg_catalog.text[]))
);
SELECT pg_catalog.pg_extension_config_dump('fairq_internal.node', '');
REVOKE ALL ON fairq_internal.node FROM PUBLIC;

CREATE FUNCTION fairq_internal.node_written()
RETURNS trigger LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_node_written';
COMMENT ON FUNCTION fairq_internal.node_written IS 'Trigger of fairq_internal.node: tells the engine that the number has changed.';

CREATE TRIGGER fairq_node_written
    AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON fairq_internal.node
    FOR EACH STATEMENT EXECUTE FUNCTION fairq_internal.node_written();
ALTER TABLE fairq_internal.node ENABLE ALWAYS TRIGGER fairq_node_written;

CREATE OR REPLACE FUNCTION fairq.set_node(node int, force boolean DEFAULT false)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_set_node';
COMMENT ON FUNCTION fairq.set_node IS 'Give this database a number, from 0 to 32767, that its ids, receipts and sessions say from the commit on.';

CREATE FUNCTION fairq.this_node()
RETURNS int LANGUAGE C STABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'fairq_this_node';
COMMENT ON FUNCTION fairq.this_node IS 'The number that this database was given by fairq.set_node(); 0 if none.';

-- Proxies say here what the node is to their cluster. A node that is drained or dropped
-- gets nothing new from any proxy, also from one whose list is an old one.
CREATE OR REPLACE FUNCTION fairq_internal.membership()
RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$ SELECT coalesce((SELECT n.membership FROM fairq_internal.node n), 'alone') $$;
COMMENT ON FUNCTION fairq_internal.membership IS 'What this node is to a cluster: alone, active, draining or dropped.';

CREATE OR REPLACE FUNCTION fairq_internal.set_membership(membership text)
RETURNS void LANGUAGE sql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
    INSERT INTO fairq_internal.node AS n (number, membership) VALUES (0, $1)
    ON CONFLICT (single) DO UPDATE SET membership = excluded.membership WHERE n.membership <> excluded.membership
$$;
COMMENT ON FUNCTION fairq_internal.set_membership IS 'Note what this node is to a cluster; a proxy calls it.';

-- Calls of proxies that are under way and have a queue's table locked to write to it: they
-- may have begun before what the node is now was committed. Of some, those that still are.
CREATE OR REPLACE FUNCTION fairq_internal.proxy_calls(among text[] DEFAULT NULL)
RETURNS text[] LANGUAGE sql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT coalesce(array_agg(DISTINCT call), '{}') FROM (
        SELECT l.pid || ' ' || l.virtualtransaction AS call FROM pg_locks l
        JOIN pg_class c ON c.oid = l.relation AND c.relnamespace = 'fairq'::regnamespace AND c.relname LIKE 'q\_%'
        LEFT JOIN pg_stat_activity a ON a.pid = l.pid
        WHERE l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
        AND l.granted AND l.mode = 'RowExclusiveLock' AND l.pid <> pg_backend_pid()
        -- whose name is not to be seen may be one
        AND coalesce(a.application_name LIKE 'pgfairq proxy, node %', true)) calls
    WHERE among IS NULL OR call = ANY (among)
$$;
COMMENT ON FUNCTION fairq_internal.proxy_calls IS 'Calls of proxies that are writing to a queue now; of some, those that still are.';
