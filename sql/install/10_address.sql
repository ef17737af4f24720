-- ---------------------------------------------------------------------------
-- fairq.address: a task's place in the fair order
-- ---------------------------------------------------------------------------

CREATE TYPE fairq.address;

CREATE FUNCTION fairq_internal.address_in(pg_catalog.cstring) RETURNS fairq.address
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_in';

CREATE FUNCTION fairq_internal.address_out(fairq.address) RETURNS pg_catalog.cstring
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_out';

CREATE FUNCTION fairq_internal.address_recv(pg_catalog.internal) RETURNS fairq.address
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_recv';

CREATE FUNCTION fairq_internal.address_send(fairq.address) RETURNS pg_catalog.bytea
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_send';

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

CREATE FUNCTION fairq.class(fairq.address) RETURNS pg_catalog.int4
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_class';

CREATE FUNCTION fairq.block(fairq.address) RETURNS pg_catalog.numeric
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_block';

CREATE FUNCTION fairq.slot(fairq.address) RETURNS pg_catalog.int8
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_slot';

-- Comparison. These functions cannot fail and tell nothing but their result,
-- so they are leakproof: an index serves queries on tables with row security.

CREATE FUNCTION fairq_internal.address_eq(fairq.address, fairq.address) RETURNS pg_catalog.bool
    LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_eq';

CREATE FUNCTION fairq_internal.address_ne(fairq.address, fairq.address) RETURNS pg_catalog.bool
    LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_ne';

CREATE FUNCTION fairq_internal.address_lt(fairq.address, fairq.address) RETURNS pg_catalog.bool
    LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_lt';

CREATE FUNCTION fairq_internal.address_le(fairq.address, fairq.address) RETURNS pg_catalog.bool
    LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_le';

CREATE FUNCTION fairq_internal.address_gt(fairq.address, fairq.address) RETURNS pg_catalog.bool
    LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_gt';

CREATE FUNCTION fairq_internal.address_ge(fairq.address, fairq.address) RETURNS pg_catalog.bool
    LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_ge';

CREATE FUNCTION fairq_internal.address_cmp(fairq.address, fairq.address) RETURNS pg_catalog.int4
    LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_cmp';

CREATE FUNCTION fairq_internal.address_sortsupport(pg_catalog.internal) RETURNS pg_catalog.void
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_sortsupport';

CREATE FUNCTION fairq_internal.address_hash(fairq.address) RETURNS pg_catalog.int4
    LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_hash';

CREATE FUNCTION fairq_internal.address_hash_extended(fairq.address, pg_catalog.int8) RETURNS pg_catalog.int8
    LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'fairq_address_hash_extended';

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
