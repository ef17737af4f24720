-- The type fairq.address: formats, order, hashing, accessors.
-- The comparison operators are in schema fairq as well, their functions in fairq_internal.
SET search_path = public, fairq, fairq_internal;

-- What is written, and what is read back.
SELECT a, bucket(a), class(a), block(a), slot(a)
FROM (VALUES
    (1, '(0,0,0)'::fairq.address),
    (2, '(3,12,7)'),
    (3, '(3,12.5,7)'),
    (4, '(3,0:12.5,7)'),
    (5, '(3,9:12.5,7)'),
    (6, '(1023,9:9223372036854775807.9999999998,9223372036854775807)'),
    (7, '(1023,9223372036854775807,0)'),
    (8, '(0,-9223372036854775808,0)'),
    (9, '(0,-9223372036854775807.9999999998,0)'),
    (10, '(0,-0.5,0)'),
    (11, '(0,-1.5,0)'),
    (12, '(0,-1,0)'),
    (13, '(0,0.05,0)'),
    (14, '(0,-7.05,0)'),
    (15, '(0,0.0000000002,0)'),
    (16, '(0,-0.0000000002,0)')
) AS t (n, a) ORDER BY n;

-- One address written in other ways.
SELECT t, t::fairq.address AS a
FROM (VALUES
    (1, ' ( 3 , 1 : 12.5 , 7 ) '),
    (2, E'\t(3\n,\r1:12.5,7)\n'),
    (3, '(+3,+1:+12.5,+7)'),
    (4, '(-0,-0:-0,-0)'),
    (5, '(0,-0.0,0)'),
    (6, '(003,01:0012.500,007)'),
    (7, '(0,12.000,0)'),
    (8, '(00000000000000000000000000000003,4,5)'),
    -- 2^-32 in all its digits, and 18 or more of them
    (9, '(0,0.00000000023283064365386962890625,0)'),
    (10, '(0,0.10000000000000000000000000000000000000000000,0)'),
    -- half a unit is 0.0000000001164153218...: above counts as one, below as none
    (11, '(0,0.000000000116415322,0)'),
    (12, '(0,0.000000000116415321,0)'),
    (13, '(0,-0.000000000116415322,0)'),
    (14, '(0,-0.000000000116415321,0)'),
    -- what rounds up to one is carried
    (15, '(0,0.9999999999,0)'),
    (16, '(0,41.99999999999999999999999999,0)'),
    (17, '(0,-0.9999999999,0)'),
    (18, '(0,-9223372036854775807.9999999999,0)'),
    (19, '(0,9223372036854775806.9999999999,0)')
) AS v (n, t) ORDER BY n;

-- What is not an address, and why.
SELECT '(1,2)'::fairq.address;
SELECT '(1024,2,3)'::fairq.address;

CREATE FUNCTION pg_temp.refusal(t text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    message text;
    detail text;
    hint text;
BEGIN
    RETURN 'accepted: ' || t::fairq.address::text;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    RETURN pg_catalog.concat_ws(' ', SQLSTATE, message, nullif(detail, ''), CASE WHEN hint <> '' THEN '(hint)' END);
END $$;

SELECT pg_temp.refusal(t)
FROM unnest(ARRAY[
    '', ' ', 'x', '()', '(', '(,,)', '(1)', '1,2,3', '(1,2,3', '1,2,3)', '(1,2,3,4)', '(1,2,3))', '((1,2,3)', '(1,2,3)x', '[1,2,3]',
    '(1,2:3)', '(1:2,3,4)', '(1,2,3:4)', '(1,2:3:4,5)', '(1,:2,3)', '(1,2:,3)', '(1;2;3)', '(1 2,3,4)', '(1,2,3 4)',
    '(a,1,1)', '(1,a,1)', '(1,1,a)', '(,1,1)', '(1,,1)', '(1,1,)', '(0x1,1,1)', '(1,1e3,1)', '(1,NaN,1)', '(1,Infinity,1)', '(1,1_000,1)',
    '(--1,1,1)', '(1,- 1,1)', '(1,-,1)', '(1,+-1,1)', '(1,.5,1)', '(1,5.,1)', '(1,5.5.5,1)', '(1,5 .5,1)', '(1,5. 5,1)', '(1,-.5,1)',
    '(1.0,1,1)', '(1,1.0:1,1)', '(1,1,1.0)', 'NULL',
    '(1024,1,1)', '(-1,1,1)', '(65536,1,1)', '(4294967296,1,1)', '(18446744073709551616,1,1)', '(99999999999999999999999999,1,1)',
    '(1,10:1,1)', '(1,-1:1,1)', '(1,256:1,1)', '(1,18446744073709551616:1,1)',
    '(1,9223372036854775808,1)', '(1,-9223372036854775809,1)', '(1,18446744073709551615,1)', '(1,-18446744073709551615,1)',
    '(1,18446744073709551616,1)', '(1,18446744073709551617.5,1)', '(1,-99999999999999999999999999,1)',
    '(1,9223372036854775807.9999999999,1)', '(1,-9223372036854775808.5,1)', '(1,-9223372036854775808.0000000002,1)',
    '(1,18446744073709551615.9999999999,1)', '(1,-18446744073709551615.9999999999,1)', '(1,-18446744073709551615.5,1)',
    '(1,1,9223372036854775808)', '(1,1,-1)', '(1,1,18446744073709551616)', '(1,1,-18446744073709551616)',
    -- junk is junk, even if a part of it is out of range too
    '(1024,1,1', '(1024,1,x)'
]) WITH ORDINALITY AS u (t, n) ORDER BY n;

-- Casts go through the text form; nothing else is taken for an address.
SELECT '(1,2,3)'::text::fairq.address, '(1,2,3)'::varchar::fairq.address, '(1,1:2.5,3)'::fairq.address::text,
    NULL::fairq.address IS NULL AS null, ARRAY['(1,2,3)', NULL, '(1,1:2.5,3)']::fairq.address[];
SELECT 1::fairq.address;
SELECT bucket(NULL), class(NULL), block(NULL), slot(NULL), NULL::fairq.address = '(1,2,3)';

-- How it is stored; and the binary form.
SELECT typlen, typbyval, typalign, typstorage, pg_column_size('(1,2,3)'::fairq.address)
FROM pg_type WHERE oid = 'fairq.address'::regtype;
SELECT a, address_send(a)
FROM unnest(ARRAY['(0,0,0)', '(258,3:4.5,6)', '(1,-0.5,2)', '(1023,9:9223372036854775807.9999999998,9223372036854775807)',
                  '(0,-9223372036854775808,0)']::fairq.address[]) AS a;

-- Order: bucket, class, block, slot. Every address is compared with every one.
CREATE TEMP TABLE extremes (n int, a fairq.address);
INSERT INTO extremes
SELECT row_number() OVER (), t::fairq.address
FROM unnest(ARRAY[
    '(0,-9223372036854775808,0)', '(0,-9223372036854775808,9223372036854775807)', '(0,-9223372036854775807.9999999998,0)',
    '(0,-2,5)', '(0,-1.75,4)', '(0,-1.25,0)', '(0,-1,3)', '(0,-0.0000000002,2)', '(0,0,0)', '(0,0,1)', '(0,0,4294967296)',
    '(0,0.0000000002,0)', '(0,0.0000000005,0)', '(0,0.5,0)', '(0,0.75,0)', '(0,1,0)', '(0,9223372036854775807,0)',
    '(0,9223372036854775807.9999999998,0)', '(0,9223372036854775807.9999999998,9223372036854775807)',
    '(0,1:-9223372036854775808,0)', '(0,1:5,0)', '(0,2:4,9)', '(0,9:-1,0)', '(1,0,0)', '(1,0.5,0)', '(2,0,0)', '(255,0,0)', '(256,0,0)',
    '(1023,9:9223372036854775807.9999999998,9223372036854775807)'
]) AS t;
SELECT count(*) AS pairs,
    count(*) FILTER (WHERE (x.a < y.a) = (x.n < y.n)) AS lt,
    count(*) FILTER (WHERE (x.a <= y.a) = (x.n <= y.n)) AS le,
    count(*) FILTER (WHERE (x.a = y.a) = (x.n = y.n)) AS eq,
    count(*) FILTER (WHERE (x.a <> y.a) = (x.n <> y.n)) AS ne,
    count(*) FILTER (WHERE (x.a >= y.a) = (x.n >= y.n)) AS ge,
    count(*) FILTER (WHERE (x.a > y.a) = (x.n > y.n)) AS gt,
    count(*) FILTER (WHERE address_cmp(x.a, y.a) = sign(x.n - y.n)) AS cmp
FROM extremes x, extremes y;

-- Addresses at random, often alike in most of their parts. The block is
-- given by the exact value that it must stand for.
SELECT setseed(0.5);
CREATE TEMP TABLE random_address AS
WITH part AS MATERIALIZED (
    SELECT n,
        (CASE WHEN random() < 0.5 THEN random() * 2 ELSE random() * 1023 END)::int AS bucket,
        (CASE WHEN random() < 0.5 THEN 0 ELSE random() * 9 END)::int AS class,
        (CASE (random() * 4)::int
            WHEN 0 THEN (random() * 4)::int - 2
            WHEN 1 THEN ((random() - 0.5) * 1e6)::bigint
            WHEN 2 THEN ((random() - 0.5) * 1.8e19)::bigint
            WHEN 3 THEN (CASE WHEN random() < 0.5 THEN -9223372036854775808 ELSE 9223372036854775807 END)::bigint
            ELSE 1 END)::numeric AS whole,
        (CASE (random() * 4)::int
            WHEN 0 THEN 0
            WHEN 1 THEN (random() * 4)::bigint
            WHEN 2 THEN 4294967295 - (random() * 4)::bigint
            WHEN 3 THEN (random() * 100)::int * 42949673::bigint
            ELSE floor(random() * 4294967296) END)::bigint AS units,
        (CASE WHEN random() < 0.5 THEN (random() * 3)::bigint ELSE (random() * 9.2e18)::bigint END) AS slot
    FROM generate_series(1, 10000) AS n)
SELECT n, bucket, class, whole, least(units, 4294967295) AS units, slot,
    whole + least(units, 4294967295) * 0.00000000023283064365386962890625 AS value
FROM part;
ALTER TABLE random_address ADD a fairq.address;
UPDATE random_address SET a = format('(%s,%s:%s,%s)', bucket, class, value, slot)::fairq.address;

-- Each part is what it was made from, bit by bit.
SELECT count(*), count(DISTINCT a) > 4000 AS many
FROM random_address
WHERE bucket(a) = bucket AND class(a) = class AND slot(a) = slot
    AND ('x' || encode(substr(address_send(a), 4, 8), 'hex'))::bit(64)::bigint = whole
    AND ('x' || encode(substr(address_send(a), 12, 4), 'hex'))::bit(32)::bigint & 4294967295 = units;

-- What is written reads back as the same, is within half a unit of the
-- value, has ten digits at most, and one digit less would not do.
SELECT count(*)
FROM random_address
WHERE a::text::fairq.address = a AND address_send(a::text::fairq.address) = address_send(a)
    AND a::text = format(CASE WHEN class = 0 THEN '(%1$s,%3$s,%4$s)' ELSE '(%1$s,%2$s:%3$s,%4$s)' END, bucket, class, block(a), slot)
    AND abs(block(a) - value) < 0.000000000116415321826934814453125
    AND scale(block(a)) <= 10 AND scale(block(a)) = min_scale(block(a))
    AND CASE WHEN scale(block(a)) = 0 THEN units = 0
        WHEN round(value, scale(block(a)) - 1) > 9223372036854775807.99999999976 THEN true
        ELSE block(format('(0,%s,0)', round(value, scale(block(a)) - 1))::fairq.address) <> block(a) END;

-- A sort gives the order of the parts.
SELECT count(*)
FROM (SELECT rank() OVER (ORDER BY a) AS r1, rank() OVER (ORDER BY bucket, class, value, slot) AS r2 FROM random_address) s
WHERE r1 = r2;

-- So does the index, filled by the rows one by one and as a whole.
CREATE TEMP TABLE indexed (a fairq.address);
CREATE INDEX indexed_one_by_one ON indexed (a);
INSERT INTO indexed SELECT a FROM random_address ORDER BY n;
ANALYZE indexed;
CREATE FUNCTION pg_temp.wrong() RETURNS bigint LANGUAGE sql AS $$
    SELECT count(*)
    FROM (SELECT a, row_number() OVER () AS n FROM (SELECT a FROM indexed ORDER BY a OFFSET 0) i) i
    FULL JOIN (SELECT a, row_number() OVER (ORDER BY bucket, class, value, slot) AS n FROM random_address) s USING (n)
    WHERE (i.a = s.a) IS NOT TRUE
$$;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT a FROM indexed ORDER BY a;
SELECT pg_temp.wrong();
CREATE INDEX indexed_as_a_whole ON indexed (a);
DROP INDEX indexed_one_by_one;
EXPLAIN (COSTS OFF) SELECT a FROM indexed ORDER BY a;
SELECT pg_temp.wrong();

-- Ranges: what the index finds is what a look at every row finds.
EXPLAIN (COSTS OFF) SELECT count(*) FROM indexed WHERE a >= '(1,0,0)' AND a < '(1,1,1)';
CREATE TEMP TABLE range_count AS
SELECT x.n, y.n AS m,
    (SELECT count(*) FROM indexed WHERE a >= x.a AND a < y.a) AS ge_lt,
    (SELECT count(*) FROM indexed WHERE a > x.a AND a <= y.a) AS gt_le,
    (SELECT count(*) FROM indexed WHERE a = x.a) AS eq
FROM extremes x, extremes y WHERE x.n % 3 = 0 AND y.n % 4 = 0;
RESET enable_seqscan;
SET enable_indexscan = off;
SET enable_indexonlyscan = off;
SELECT count(*) AS ranges, bool_or(ge_lt > 0) AS some, bool_or(eq > 0) AS some_equal,
    bool_and(ge_lt = (SELECT count(*) FROM indexed WHERE a >= x.a AND a < y.a)) AS ge_lt,
    bool_and(gt_le = (SELECT count(*) FROM indexed WHERE a > x.a AND a <= y.a)) AS gt_le,
    bool_and(eq = (SELECT count(*) FROM indexed WHERE a = x.a)) AS eq
FROM range_count r JOIN extremes x ON x.n = r.n JOIN extremes y ON y.n = r.m;
RESET enable_indexscan;
RESET enable_indexonlyscan;
RESET enable_bitmapscan;

-- The index keeps equal addresses once.
CREATE TEMP TABLE equal (a fairq.address);
INSERT INTO equal SELECT '(1,2,3)' FROM generate_series(1, 10000);
CREATE INDEX equal_deduplicated ON equal (a);
CREATE INDEX equal_not_deduplicated ON equal (a) WITH (deduplicate_items = off);
SELECT pg_relation_size('equal_deduplicated') < pg_relation_size('equal_not_deduplicated') / 2 AS deduplicated;
CREATE UNIQUE INDEX ON equal (a);

-- Joins: by hash and by merge, against the parts.
CREATE TEMP TABLE expected_pairs AS
SELECT count(*) FROM random_address x JOIN random_address y USING (bucket, class, value, slot);
SET enable_nestloop = off;
SET enable_mergejoin = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM random_address x JOIN random_address y ON x.a = y.a;
SELECT count(*) > 10000 AS some, count(*) = (SELECT * FROM expected_pairs) AS right
FROM random_address x JOIN random_address y ON x.a = y.a;
RESET enable_mergejoin;
SET enable_hashjoin = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM random_address x JOIN random_address y ON x.a = y.a;
SELECT count(*) = (SELECT * FROM expected_pairs) AS right
FROM random_address x JOIN random_address y ON x.a = y.a;
RESET enable_nestloop;
RESET enable_hashjoin;

-- Grouping by hash and by sort.
CREATE TEMP TABLE expected_groups AS
SELECT count(*) FROM (SELECT FROM random_address GROUP BY bucket, class, value, slot) g;
SET enable_sort = off;
EXPLAIN (COSTS OFF) SELECT a FROM random_address GROUP BY a;
SELECT count(*) = (SELECT * FROM expected_groups) AS right FROM (SELECT a FROM random_address GROUP BY a) g;
RESET enable_sort;
SET enable_hashagg = off;
SELECT count(*) = (SELECT * FROM expected_groups) AS right FROM (SELECT a FROM random_address GROUP BY a) g;
RESET enable_hashagg;

-- The hash: the extended one without a seed agrees with the plain one, a seed
-- changes it, and neighbours get different ones.
SELECT count(*)
FROM random_address
WHERE address_hash_extended(a, 0) & 4294967295 = address_hash(a)::bigint & 4294967295
    AND address_hash_extended(a, 1) <> address_hash_extended(a, 0)
    AND address_hash(a::text::fairq.address) = address_hash(a);
SELECT count(DISTINCT address_hash(a)) > 0.99 * count(DISTINCT a) AS spread FROM random_address;

-- A hash index, and partitions by hash.
CREATE INDEX random_address_hash ON random_address USING hash (a);
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT n FROM random_address WHERE a = '(1,2,3)';
SELECT count(*) FROM random_address x WHERE EXISTS (SELECT FROM random_address y WHERE y.a = x.a AND y.n = x.n);
RESET enable_seqscan;
RESET enable_bitmapscan;
CREATE TEMP TABLE parted (a fairq.address) PARTITION BY HASH (a);
CREATE TEMP TABLE parted_0 PARTITION OF parted FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TEMP TABLE parted_1 PARTITION OF parted FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO parted SELECT a FROM random_address;
SELECT min(c) > 4000 AS even FROM (SELECT count(*) AS c FROM parted GROUP BY tableoid) t;

-- Through a file in binary format, and back.
\getenv directory PG_ABS_BUILDDIR
\cd :directory
\copy (SELECT n, a FROM random_address) TO 'results/address.bin' (FORMAT binary)
CREATE TEMP TABLE copied (n int, a fairq.address);
\copy copied FROM 'results/address.bin' (FORMAT binary)
SELECT count(*) FROM copied c JOIN random_address r USING (n) WHERE c.a = r.a AND address_send(c.a) = address_send(r.a);

-- Binary junk: too short, too long, bucket, class and slot out of range.
CREATE TEMP TABLE junk (a fairq.address);
\copy (SELECT '\x'::bytea) TO 'results/address.bin' (FORMAT binary)
\copy junk FROM 'results/address.bin' (FORMAT binary)
\copy (SELECT '\x00000000000000000000000000000000000000000000'::bytea) TO 'results/address.bin' (FORMAT binary)
\copy junk FROM 'results/address.bin' (FORMAT binary)
\copy (SELECT '\x000000000000000000000000000000000000000000000000'::bytea) TO 'results/address.bin' (FORMAT binary)
\copy junk FROM 'results/address.bin' (FORMAT binary)
\copy (SELECT '\x0400000000000000000000000000000000000000000000'::bytea) TO 'results/address.bin' (FORMAT binary)
\copy junk FROM 'results/address.bin' (FORMAT binary)
\copy (SELECT '\xffff000000000000000000000000000000000000000000'::bytea) TO 'results/address.bin' (FORMAT binary)
\copy junk FROM 'results/address.bin' (FORMAT binary)
\copy (SELECT '\x00000a0000000000000000000000000000000000000000'::bytea) TO 'results/address.bin' (FORMAT binary)
\copy junk FROM 'results/address.bin' (FORMAT binary)
\copy (SELECT '\x0000000000000000000000000000008000000000000000'::bytea) TO 'results/address.bin' (FORMAT binary)
\copy junk FROM 'results/address.bin' (FORMAT binary)
\copy (SELECT '\x03ff098000000000000000000000017fffffffffffffff'::bytea) TO 'results/address.bin' (FORMAT binary)
\copy junk FROM 'results/address.bin' (FORMAT binary)
SELECT * FROM junk;

-- The catalogs: operator classes are sound and the default ones, operators
-- know each other, everything has a comment.
SELECT amname, opcname, opcdefault, amvalidate(c.oid)
FROM pg_opclass c JOIN pg_am m ON m.oid = opcmethod
WHERE opcintype = 'fairq.address'::regtype ORDER BY amname;
SELECT o.oid::regoperator, oprcom::regoperator AS commutator, oprnegate::regoperator AS negator, oprrest, oprjoin, oprcanmerge, oprcanhash
FROM pg_operator o WHERE oprleft = 'fairq.address'::regtype ORDER BY oprname COLLATE "C";
SELECT proname, provolatile, proisstrict, proparallel, proleakproof
FROM pg_proc
WHERE pronamespace IN ('fairq'::regnamespace, 'fairq_internal'::regnamespace)
    AND (proname LIKE 'address%' OR proname IN ('bucket', 'class', 'block', 'slot'))
ORDER BY proname COLLATE "C";
SELECT pg_describe_object(classid, objid, 0) AS without_comment
FROM (SELECT 'pg_type'::regclass AS classid, oid AS objid FROM pg_type WHERE oid = 'fairq.address'::regtype
    UNION ALL SELECT 'pg_proc'::regclass, oid FROM pg_proc
        WHERE pronamespace IN ('fairq'::regnamespace, 'fairq_internal'::regnamespace)
            AND (proname LIKE 'address%' OR proname IN ('bucket', 'class', 'block', 'slot'))
    UNION ALL SELECT 'pg_operator'::regclass, oid FROM pg_operator WHERE oprnamespace = 'fairq'::regnamespace
    UNION ALL SELECT 'pg_opclass'::regclass, oid FROM pg_opclass WHERE opcnamespace = 'fairq'::regnamespace
    UNION ALL SELECT 'pg_opfamily'::regclass, oid FROM pg_opfamily WHERE opfnamespace = 'fairq'::regnamespace) o
WHERE obj_description(objid, classid::regclass::name) IS NULL;

-- Sorting and grouping do not need the schema in the search path, and the
-- operators can be named.
RESET search_path;
SELECT a FROM unnest('{"(2,1,1)","(1,2,1)","(1,1,2)","(1,1,2)"}'::fairq.address[]) AS a GROUP BY a ORDER BY a;
SELECT '(1,2,3)'::fairq.address OPERATOR(fairq.<) '(1,2.5,3)' AS lt;
