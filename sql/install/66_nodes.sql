-- The number of this database as a node: at most one row; none means 0.
CREATE TABLE fairq_internal.node (
    number pg_catalog.int4 NOT NULL CHECK (number OPERATOR(pg_catalog.>=) 0 AND number OPERATOR(pg_catalog.<=) 32767),
    single pg_catalog.bool NOT NULL DEFAULT true PRIMARY KEY CHECK (single)
);
SELECT pg_catalog.pg_extension_config_dump('fairq_internal.node', '');
REVOKE ALL ON fairq_internal.node FROM PUBLIC;

CREATE FUNCTION fairq_internal.node_written()
RETURNS trigger LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_node_written';

CREATE TRIGGER fairq_node_written
    AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON fairq_internal.node
    FOR EACH STATEMENT EXECUTE FUNCTION fairq_internal.node_written();
ALTER TABLE fairq_internal.node ENABLE ALWAYS TRIGGER fairq_node_written;

CREATE FUNCTION fairq.set_node(node int)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_set_node';

CREATE FUNCTION fairq.this_node()
RETURNS int LANGUAGE C STABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'fairq_this_node';
