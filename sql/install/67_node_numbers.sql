CREATE FUNCTION fairq.node_of_id(id bigint)
RETURNS int LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'fairq_node_of_id';

CREATE FUNCTION fairq.node_of_receipt(receipt uuid)
RETURNS int LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'fairq_node_of_uuid';

CREATE FUNCTION fairq.node_of_session(session uuid)
RETURNS int LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'fairq_node_of_uuid';
