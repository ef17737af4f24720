-- ---------------------------------------------------------------------------
-- fairq.address: a task's place in the fair order
-- ---------------------------------------------------------------------------

CREATE TYPE fairq.address;

CREATE FUNCTION fairq_internal.address_in(pg_catalog.cstring) RETURNS fairq.address
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_in';
COMMENT ON FUNCTION fairq_internal.address_in IS 'Text input of fairq.address.';

CREATE FUNCTION fairq_internal.address_out(fairq.address) RETURNS pg_catalog.cstring
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_out';
COMMENT ON FUNCTION fairq_internal.address_out IS 'Text output of fairq.address.';

CREATE FUNCTION fairq_internal.address_recv(pg_catalog.internal) RETURNS fairq.address
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_recv';
COMMENT ON FUNCTION fairq_internal.address_recv IS 'Binary input of fairq.address.';

CREATE FUNCTION fairq_internal.address_send(fairq.address) RETURNS pg_catalog.bytea
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_send';
COMMENT ON FUNCTION fairq_internal.address_send IS 'Binary output of fairq.address.';

CREATE TYPE fairq.address (
    INPUT = fairq_internal.address_in,
    OUTPUT = fairq_internal.address_out,
    RECEIVE = fairq_internal.address_recv,
    SEND = fairq_internal.address_send,
    INTERNALLENGTH = 24,
    ALIGNMENT = double,
    STORAGE = plain
);

-- What an address consists of.

CREATE FUNCTION fairq.bucket(fairq.address) RETURNS pg_catalog.int4
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_bucket';
COMMENT ON FUNCTION fairq.bucket IS 'Return the bucket of an address: which of the queue''s independent parts it is in.';

CREATE FUNCTION fairq.class(fairq.address) RETURNS pg_catalog.int4
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_class';
COMMENT ON FUNCTION fairq.class IS 'Return the priority class of an address, 0 to 9, the lower first.';

CREATE FUNCTION fairq.block(fairq.address) RETURNS pg_catalog.numeric
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_block';
COMMENT ON FUNCTION fairq.block IS 'Return the block of an address: the virtual time at which the task is to start.';

CREATE FUNCTION fairq.slot(fairq.address) RETURNS pg_catalog.int8
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_slot';
COMMENT ON FUNCTION fairq.slot IS 'Return the slot of an address: the number of its group, which decides between tasks of one block.';

-- Comparison. These functions cannot fail and tell nothing but their result,
-- so they are leakproof: an index serves queries on tables with row security.

CREATE FUNCTION fairq_internal.address_eq(fairq.address, fairq.address) RETURNS pg_catalog.bool
    LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_eq';
COMMENT ON FUNCTION fairq_internal.address_eq IS 'Implementation of the operator = of addresses.';

CREATE FUNCTION fairq_internal.address_ne(fairq.address, fairq.address) RETURNS pg_catalog.bool
    LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_ne';
COMMENT ON FUNCTION fairq_internal.address_ne IS 'Implementation of the operator <> of addresses.';

CREATE FUNCTION fairq_internal.address_lt(fairq.address, fairq.address) RETURNS pg_catalog.bool
    LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_lt';
COMMENT ON FUNCTION fairq_internal.address_lt IS 'Implementation of the operator < of addresses.';

CREATE FUNCTION fairq_internal.address_le(fairq.address, fairq.address) RETURNS pg_catalog.bool
    LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_le';
COMMENT ON FUNCTION fairq_internal.address_le IS 'Implementation of the operator <= of addresses.';

CREATE FUNCTION fairq_internal.address_gt(fairq.address, fairq.address) RETURNS pg_catalog.bool
    LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_gt';
COMMENT ON FUNCTION fairq_internal.address_gt IS 'Implementation of the operator > of addresses.';

CREATE FUNCTION fairq_internal.address_ge(fairq.address, fairq.address) RETURNS pg_catalog.bool
    LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_ge';
COMMENT ON FUNCTION fairq_internal.address_ge IS 'Implementation of the operator >= of addresses.';

CREATE FUNCTION fairq_internal.address_cmp(fairq.address, fairq.address) RETURNS pg_catalog.int4
    LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_cmp';
COMMENT ON FUNCTION fairq_internal.address_cmp IS 'Comparison of addresses: bucket, class, block, slot.';

CREATE FUNCTION fairq_internal.address_sortsupport(pg_catalog.internal) RETURNS pg_catalog.void
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_sortsupport';
COMMENT ON FUNCTION fairq_internal.address_sortsupport IS 'Sort support for fairq.address.';

CREATE FUNCTION fairq_internal.address_hash(fairq.address) RETURNS pg_catalog.int4
    LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_hash';
COMMENT ON FUNCTION fairq_internal.address_hash IS 'Hash of an address.';

CREATE FUNCTION fairq_internal.address_hash_extended(fairq.address, pg_catalog.int8) RETURNS pg_catalog.int8
    LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_hash_extended';
COMMENT ON FUNCTION fairq_internal.address_hash_extended IS 'Hash of an address, with a seed.';

CREATE OPERATOR fairq.= (
    LEFTARG = fairq.address, RIGHTARG = fairq.address, FUNCTION = fairq_internal.address_eq,
    COMMUTATOR = OPERATOR(fairq.=), NEGATOR = OPERATOR(fairq.<>),
    RESTRICT = pg_catalog.eqsel, JOIN = pg_catalog.eqjoinsel, HASHES, MERGES
);

CREATE OPERATOR fairq.<> (
    LEFTARG = fairq.address, RIGHTARG = fairq.address, FUNCTION = fairq_internal.address_ne,
    COMMUTATOR = OPERATOR(fairq.<>), NEGATOR = OPERATOR(fairq.=),
    RESTRICT = pg_catalog.neqsel, JOIN = pg_catalog.neqjoinsel
);

CREATE OPERATOR fairq.< (
    LEFTARG = fairq.address, RIGHTARG = fairq.address, FUNCTION = fairq_internal.address_lt,
    COMMUTATOR = OPERATOR(fairq.>), NEGATOR = OPERATOR(fairq.>=),
    RESTRICT = pg_catalog.scalarltsel, JOIN = pg_catalog.scalarltjoinsel
);

CREATE OPERATOR fairq.<= (
    LEFTARG = fairq.address, RIGHTARG = fairq.address, FUNCTION = fairq_internal.address_le,
    COMMUTATOR = OPERATOR(fairq.>=), NEGATOR = OPERATOR(fairq.>),
    RESTRICT = pg_catalog.scalarlesel, JOIN = pg_catalog.scalarlejoinsel
);

CREATE OPERATOR fairq.> (
    LEFTARG = fairq.address, RIGHTARG = fairq.address, FUNCTION = fairq_internal.address_gt,
    COMMUTATOR = OPERATOR(fairq.<), NEGATOR = OPERATOR(fairq.<=),
    RESTRICT = pg_catalog.scalargtsel, JOIN = pg_catalog.scalargtjoinsel
);

CREATE OPERATOR fairq.>= (
    LEFTARG = fairq.address, RIGHTARG = fairq.address, FUNCTION = fairq_internal.address_ge,
    COMMUTATOR = OPERATOR(fairq.<=), NEGATOR = OPERATOR(fairq.<),
    RESTRICT = pg_catalog.scalargesel, JOIN = pg_catalog.scalargejoinsel
);

-- Equal addresses are equal bytes, so a B-tree may deduplicate them.
CREATE OPERATOR CLASS fairq.address_ops
    DEFAULT FOR TYPE fairq.address USING btree AS
    OPERATOR 1 fairq.<,
    OPERATOR 2 fairq.<=,
    OPERATOR 3 fairq.=,
    OPERATOR 4 fairq.>=,
    OPERATOR 5 fairq.>,
    FUNCTION 1 fairq_internal.address_cmp(fairq.address, fairq.address),
    FUNCTION 2 fairq_internal.address_sortsupport(pg_catalog.internal),
    FUNCTION 4 pg_catalog.btequalimage(pg_catalog.oid);

CREATE OPERATOR CLASS fairq.address_ops
    DEFAULT FOR TYPE fairq.address USING hash AS
    OPERATOR 1 fairq.=,
    FUNCTION 1 fairq_internal.address_hash(fairq.address),
    FUNCTION 2 fairq_internal.address_hash_extended(fairq.address, pg_catalog.int8);
