-- The number of this database as a node: at most one row; none means 0.
CREATE TABLE fairq_internal.node (
    number pg_catalog.int4 NOT NULL CHECK (number OPERATOR(pg_catalog.>=) 0 AND number OPERATOR(pg_catalog.<=) 32767),
    single pg_catalog.bool NOT NULL DEFAULT true PRIMARY KEY CHECK (single)
);
SELECT pg_catalog.pg_extension_config_dump('fairq_internal.node', '');
REVOKE ALL ON fairq_internal.node FROM PUBLIC;
COMMENT ON TABLE fairq_internal.node IS 'The number of this database as a node; written by fairq.set_node()';

CREATE FUNCTION fairq_internal.node_written()
RETURNS trigger LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_node_written';
COMMENT ON FUNCTION fairq_internal.node_written() IS
'Trigger of fairq_internal.node: tells the engine that the number has changed.';

CREATE TRIGGER fairq_node_written
    AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON fairq_internal.node
    FOR EACH STATEMENT EXECUTE FUNCTION fairq_internal.node_written();
ALTER TABLE fairq_internal.node ENABLE ALWAYS TRIGGER fairq_node_written;

CREATE FUNCTION fairq.set_node(node int)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_set_node';
COMMENT ON FUNCTION fairq.set_node(int) IS
'Give this database a number, from 0 to 32767, that its ids, receipts and sessions say from the commit on.';

CREATE FUNCTION fairq.this_node()
RETURNS int LANGUAGE C STABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'fairq_this_node';
COMMENT ON FUNCTION fairq.this_node() IS
'The number that this database was given by fairq.set_node(); 0 if none.';

CREATE FUNCTION fairq.node_of_id(id bigint)
RETURNS int LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'fairq_node_of_id';
COMMENT ON FUNCTION fairq.node_of_id(bigint) IS
'The number of the node that a task is of, by its id; null if no node gives such an id.';

CREATE FUNCTION fairq.node_of_receipt(receipt uuid)
RETURNS int LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'fairq_node_of_uuid';
COMMENT ON FUNCTION fairq.node_of_receipt(uuid) IS
'The number of the node that a lease is of, by its receipt; null if it is no receipt.';

CREATE FUNCTION fairq.node_of_session(session uuid)
RETURNS int LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'fairq_node_of_uuid';
COMMENT ON FUNCTION fairq.node_of_session(uuid) IS
'The number of the node that a session is of; null if it is no session.';
