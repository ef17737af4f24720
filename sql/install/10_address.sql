-- ---------------------------------------------------------------------------
-- fairq.address: a task's place in the fair order
-- ---------------------------------------------------------------------------

CREATE TYPE fairq.address;

CREATE FUNCTION fairq.address_in(pg_catalog.cstring) RETURNS fairq.address
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_in';
COMMENT ON FUNCTION fairq.address_in(pg_catalog.cstring) IS 'text input of fairq.address';

CREATE FUNCTION fairq.address_out(fairq.address) RETURNS pg_catalog.cstring
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_out';
COMMENT ON FUNCTION fairq.address_out(fairq.address) IS 'text output of fairq.address';

CREATE FUNCTION fairq.address_recv(pg_catalog.internal) RETURNS fairq.address
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_recv';
COMMENT ON FUNCTION fairq.address_recv(pg_catalog.internal) IS 'binary input of fairq.address';

CREATE FUNCTION fairq.address_send(fairq.address) RETURNS pg_catalog.bytea
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_send';
COMMENT ON FUNCTION fairq.address_send(fairq.address) IS 'binary output of fairq.address';

CREATE TYPE fairq.address (
    INPUT = fairq.address_in,
    OUTPUT = fairq.address_out,
    RECEIVE = fairq.address_recv,
    SEND = fairq.address_send,
    INTERNALLENGTH = 24,
    ALIGNMENT = double,
    STORAGE = plain
);
COMMENT ON TYPE fairq.address IS
    'a task''s place in the fair order, written (bucket,block,slot) or (bucket,class:block,slot)';

-- What an address consists of.

CREATE FUNCTION fairq.bucket(fairq.address) RETURNS pg_catalog.int4
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_bucket';
COMMENT ON FUNCTION fairq.bucket(fairq.address) IS
    'the bucket of an address: which of the queue''s independent parts it is in';

CREATE FUNCTION fairq.class(fairq.address) RETURNS pg_catalog.int4
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_class';
COMMENT ON FUNCTION fairq.class(fairq.address) IS
    'the priority class of an address, 0 to 9, the lower first';

CREATE FUNCTION fairq.block(fairq.address) RETURNS pg_catalog.numeric
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_block';
COMMENT ON FUNCTION fairq.block(fairq.address) IS
    'the block of an address: the virtual time at which the task is to start, as the text form shows it';

CREATE FUNCTION fairq.slot(fairq.address) RETURNS pg_catalog.int8
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_slot';
COMMENT ON FUNCTION fairq.slot(fairq.address) IS
    'the slot of an address: the number of its group, which decides between tasks of one block';

-- Comparison. These functions cannot fail and tell nothing but their result,
-- so they are leakproof: an index serves queries on tables with row security.

CREATE FUNCTION fairq.address_eq(fairq.address, fairq.address) RETURNS pg_catalog.bool
    LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_eq';
COMMENT ON FUNCTION fairq.address_eq(fairq.address, fairq.address) IS 'implementation of = operator';

CREATE FUNCTION fairq.address_ne(fairq.address, fairq.address) RETURNS pg_catalog.bool
    LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_ne';
COMMENT ON FUNCTION fairq.address_ne(fairq.address, fairq.address) IS 'implementation of <> operator';

CREATE FUNCTION fairq.address_lt(fairq.address, fairq.address) RETURNS pg_catalog.bool
    LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_lt';
COMMENT ON FUNCTION fairq.address_lt(fairq.address, fairq.address) IS 'implementation of < operator';

CREATE FUNCTION fairq.address_le(fairq.address, fairq.address) RETURNS pg_catalog.bool
    LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_le';
COMMENT ON FUNCTION fairq.address_le(fairq.address, fairq.address) IS 'implementation of <= operator';

CREATE FUNCTION fairq.address_gt(fairq.address, fairq.address) RETURNS pg_catalog.bool
    LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_gt';
COMMENT ON FUNCTION fairq.address_gt(fairq.address, fairq.address) IS 'implementation of > operator';

CREATE FUNCTION fairq.address_ge(fairq.address, fairq.address) RETURNS pg_catalog.bool
    LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_ge';
COMMENT ON FUNCTION fairq.address_ge(fairq.address, fairq.address) IS 'implementation of >= operator';

CREATE FUNCTION fairq.address_cmp(fairq.address, fairq.address) RETURNS pg_catalog.int4
    LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_cmp';
COMMENT ON FUNCTION fairq.address_cmp(fairq.address, fairq.address) IS
    'less-equal-greater comparison of addresses: bucket, class, block, slot';

CREATE FUNCTION fairq.address_sortsupport(pg_catalog.internal) RETURNS pg_catalog.void
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_sortsupport';
COMMENT ON FUNCTION fairq.address_sortsupport(pg_catalog.internal) IS 'sort support for fairq.address';

CREATE FUNCTION fairq.address_hash(fairq.address) RETURNS pg_catalog.int4
    LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_hash';
COMMENT ON FUNCTION fairq.address_hash(fairq.address) IS 'hash of an address';

CREATE FUNCTION fairq.address_hash_extended(fairq.address, pg_catalog.int8) RETURNS pg_catalog.int8
    LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_hash_extended';
COMMENT ON FUNCTION fairq.address_hash_extended(fairq.address, pg_catalog.int8) IS
    'hash of an address, with a seed';

CREATE OPERATOR fairq.= (
    LEFTARG = fairq.address, RIGHTARG = fairq.address, FUNCTION = fairq.address_eq,
    COMMUTATOR = OPERATOR(fairq.=), NEGATOR = OPERATOR(fairq.<>),
    RESTRICT = pg_catalog.eqsel, JOIN = pg_catalog.eqjoinsel, HASHES, MERGES
);
COMMENT ON OPERATOR fairq.= (fairq.address, fairq.address) IS 'equal';

CREATE OPERATOR fairq.<> (
    LEFTARG = fairq.address, RIGHTARG = fairq.address, FUNCTION = fairq.address_ne,
    COMMUTATOR = OPERATOR(fairq.<>), NEGATOR = OPERATOR(fairq.=),
    RESTRICT = pg_catalog.neqsel, JOIN = pg_catalog.neqjoinsel
);
COMMENT ON OPERATOR fairq.<> (fairq.address, fairq.address) IS 'not equal';

CREATE OPERATOR fairq.< (
    LEFTARG = fairq.address, RIGHTARG = fairq.address, FUNCTION = fairq.address_lt,
    COMMUTATOR = OPERATOR(fairq.>), NEGATOR = OPERATOR(fairq.>=),
    RESTRICT = pg_catalog.scalarltsel, JOIN = pg_catalog.scalarltjoinsel
);
COMMENT ON OPERATOR fairq.< (fairq.address, fairq.address) IS 'comes before';

CREATE OPERATOR fairq.<= (
    LEFTARG = fairq.address, RIGHTARG = fairq.address, FUNCTION = fairq.address_le,
    COMMUTATOR = OPERATOR(fairq.>=), NEGATOR = OPERATOR(fairq.>),
    RESTRICT = pg_catalog.scalarlesel, JOIN = pg_catalog.scalarlejoinsel
);
COMMENT ON OPERATOR fairq.<= (fairq.address, fairq.address) IS 'comes before or is equal';

CREATE OPERATOR fairq.> (
    LEFTARG = fairq.address, RIGHTARG = fairq.address, FUNCTION = fairq.address_gt,
    COMMUTATOR = OPERATOR(fairq.<), NEGATOR = OPERATOR(fairq.<=),
    RESTRICT = pg_catalog.scalargtsel, JOIN = pg_catalog.scalargtjoinsel
);
COMMENT ON OPERATOR fairq.> (fairq.address, fairq.address) IS 'comes after';

CREATE OPERATOR fairq.>= (
    LEFTARG = fairq.address, RIGHTARG = fairq.address, FUNCTION = fairq.address_ge,
    COMMUTATOR = OPERATOR(fairq.<=), NEGATOR = OPERATOR(fairq.<),
    RESTRICT = pg_catalog.scalargesel, JOIN = pg_catalog.scalargejoinsel
);
COMMENT ON OPERATOR fairq.>= (fairq.address, fairq.address) IS 'comes after or is equal';

-- Equal addresses are equal bytes, so a B-tree may deduplicate them.
CREATE OPERATOR CLASS fairq.address_ops
    DEFAULT FOR TYPE fairq.address USING btree AS
    OPERATOR 1 fairq.<,
    OPERATOR 2 fairq.<=,
    OPERATOR 3 fairq.=,
    OPERATOR 4 fairq.>=,
    OPERATOR 5 fairq.>,
    FUNCTION 1 fairq.address_cmp(fairq.address, fairq.address),
    FUNCTION 2 fairq.address_sortsupport(pg_catalog.internal),
    FUNCTION 4 pg_catalog.btequalimage(pg_catalog.oid);
COMMENT ON OPERATOR CLASS fairq.address_ops USING btree IS
    'the fair order: bucket, class, block, slot';
COMMENT ON OPERATOR FAMILY fairq.address_ops USING btree IS
    'the fair order: bucket, class, block, slot';

CREATE OPERATOR CLASS fairq.address_ops
    DEFAULT FOR TYPE fairq.address USING hash AS
    OPERATOR 1 fairq.=,
    FUNCTION 1 fairq.address_hash(fairq.address),
    FUNCTION 2 fairq.address_hash_extended(fairq.address, pg_catalog.int8);
COMMENT ON OPERATOR CLASS fairq.address_ops USING hash IS 'equality of addresses';
COMMENT ON OPERATOR FAMILY fairq.address_ops USING hash IS 'equality of addresses';
