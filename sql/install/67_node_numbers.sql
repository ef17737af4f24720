CREATE FUNCTION fairq.node_of_id(id bigint)
RETURNS int LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'fairq_node_of_id';
COMMENT ON FUNCTION fairq.node_of_id IS 'The number of the node that a task is of, by its id; null if no node gives such an id.';

CREATE FUNCTION fairq.node_of_receipt(receipt uuid)
RETURNS int LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'fairq_node_of_uuid';
COMMENT ON FUNCTION fairq.node_of_receipt IS 'The number of the node that a lease is of, by its receipt; null if it is no receipt.';

CREATE FUNCTION fairq.node_of_session(session uuid)
RETURNS int LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'fairq_node_of_uuid';
COMMENT ON FUNCTION fairq.node_of_session IS 'The number of the node that a session is of; null if it is no session.';
