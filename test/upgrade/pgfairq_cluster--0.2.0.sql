\echo Use "CREATE EXTENSION pgfairq_cluster" to load this file. \quit

-- Both extensions have the schemas fairq and fairq_internal: a database is a node or a proxy.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname = 'pgfairq') THEN
        RAISE EXCEPTION 'a database that has the extension pgfairq cannot be a proxy'
            USING ERRCODE = 'object_not_in_prerequisite_state',
            HINT = 'Create pgfairq_cluster in a database of its own, and give that database''s name to the applications.';
    END IF;
END
$$;

CREATE SCHEMA fairq;
GRANT USAGE ON SCHEMA fairq TO PUBLIC;

CREATE SCHEMA fairq_internal;
GRANT USAGE ON SCHEMA fairq_internal TO PUBLIC;

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

CREATE TYPE fairq.task AS (
    id pg_catalog.int8,
    receipt pg_catalog.uuid,
    group_key pg_catalog.text,
    payload pg_catalog.jsonb,
    headers pg_catalog.jsonb,
    priority pg_catalog.int8,
    attempt pg_catalog.int4,
    enqueued_at pg_catalog.timestamptz,
    lease_until pg_catalog.timestamptz,
    address fairq.address,
    expires_at pg_catalog.timestamptz
);

CREATE TYPE fairq.task_status AS (
    id pg_catalog.int8,
    state pg_catalog.text,
    group_key pg_catalog.text,
    payload pg_catalog.jsonb,
    headers pg_catalog.jsonb,
    priority pg_catalog.int8,
    cost pg_catalog.float4,
    attempts pg_catalog.int4,
    max_attempts pg_catalog.int4,
    enqueued_at pg_catalog.timestamptz,
    run_at pg_catalog.timestamptz,
    lease_until pg_catalog.timestamptz,
    address fairq.address,
    unique_key pg_catalog.text,
    last_error pg_catalog.text,
    expires_at pg_catalog.timestamptz,
    lease pg_catalog.interval
);

CREATE TYPE fairq.task_position AS (
    state pg_catalog.text,
    ahead pg_catalog.int8,
    starts_at pg_catalog.timestamptz,
    exact pg_catalog.bool
);

-- Types that 0.1.0 lacks: the update script makes them from here.
CREATE TYPE fairq.queue_task AS (
    queue pg_catalog.text,
    id pg_catalog.int8,
    receipt pg_catalog.uuid,
    group_key pg_catalog.text,
    payload pg_catalog.jsonb,
    headers pg_catalog.jsonb,
    priority pg_catalog.int8,
    attempt pg_catalog.int4,
    enqueued_at pg_catalog.timestamptz,
    lease_until pg_catalog.timestamptz,
    address fairq.address,
    expires_at pg_catalog.timestamptz
);

CREATE TYPE fairq.outcome AS (
    state pg_catalog.text,
    result pg_catalog.jsonb,
    last_error pg_catalog.text,
    done_at pg_catalog.timestamptz
);

CREATE TYPE fairq.task_done AS (
    id pg_catalog.int8,
    enqueued_at pg_catalog.timestamptz,
    claimed_at pg_catalog.timestamptz,
    done_at pg_catalog.timestamptz,
    run_at pg_catalog.timestamptz,
    priority pg_catalog.int8,
    cost pg_catalog.float4,
    attempts pg_catalog.int4,
    outcome pg_catalog.text,
    group_key pg_catalog.text,
    payload pg_catalog.jsonb,
    headers pg_catalog.jsonb,
    unique_key pg_catalog.text,
    last_error pg_catalog.text,
    result pg_catalog.jsonb
);
-- The nodes: servers that have the queues. A node's place is the number by which PL/Proxy
-- has its connection; it stays, so what a backend knows is never of another node.
CREATE TABLE fairq.node (
    node pg_catalog.int4 NOT NULL PRIMARY KEY CHECK (node >= 0 AND node <= 32767),
    place pg_catalog.int4 NOT NULL UNIQUE CHECK (place >= 0),
    connection pg_catalog.text NOT NULL,
    state pg_catalog.text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'draining')),
    system pg_catalog.text -- which server and database it is, as they say
);
SELECT pg_catalog.pg_extension_config_dump('fairq.node', '');
REVOKE ALL ON fairq.node FROM PUBLIC;
GRANT SELECT (node, place, state) ON fairq.node TO PUBLIC;

-- To how many nodes the tasks of a queue go, or of a group of it. Where there is no row,
-- to all up to 8, and else to 4. Where nodes are named, to these: a group that has a limit
-- keeps its node when others are added.
CREATE TABLE fairq.spread (
    queue pg_catalog.text COLLATE pg_catalog."C" NOT NULL,
    group_key pg_catalog.text COLLATE pg_catalog."C",
    width pg_catalog.int4 NOT NULL CHECK (width > 0),
    nodes pg_catalog.int4[]
);
CREATE UNIQUE INDEX spread_by_queue ON fairq.spread USING btree (queue, group_key) NULLS NOT DISTINCT;
CREATE INDEX spread_by_group ON fairq.spread USING btree (group_key);
SELECT pg_catalog.pg_extension_config_dump('fairq.spread', '');
REVOKE ALL ON fairq.spread FROM PUBLIC;
GRANT SELECT ON fairq.spread TO PUBLIC;

-- What PL/Proxy connects with: as the current role, whose password is of a user mapping
-- or a password file.
CREATE SERVER pgfairq FOREIGN DATA WRAPPER plproxy OPTIONS (modular_mapping '1', p0 'host=/nonexistent');
GRANT USAGE ON FOREIGN SERVER pgfairq TO PUBLIC;
CREATE USER MAPPING FOR PUBLIC SERVER pgfairq;

-- The server has what the table has. A change of it is also how all backends learn of a
-- change of the table, at the same moment as PL/Proxy does.
CREATE FUNCTION fairq_internal.node_written()
RETURNS trigger LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    p int;
    places int;
    had text[];
    options text[] := '{}';
BEGIN
    IF TG_RELID <> 'fairq.node'::regclass THEN
        RAISE EXCEPTION 'fairq_internal.node_written() is a trigger of "fairq.node" alone'
            USING ERRCODE = 'trigger_protocol_violated', HINT = 'Drop the trigger that calls it.';
    END IF;
    -- one at least, which PL/Proxy wants
    SELECT coalesce(max(n.place), 0) + 1 INTO places FROM fairq.node n;
    SELECT array(SELECT split_part(option, '=', 1) FROM unnest(s.srvoptions) option) INTO had
        FROM pg_foreign_server s WHERE s.srvname = 'pgfairq';
    FOR p IN SELECT generate_series(0, greatest(places, cardinality(had)) - 1) LOOP
        IF p < places THEN
            options := options || format('%s p%s %L', CASE WHEN 'p' || p = ANY (had) THEN 'SET' ELSE 'ADD' END, p,
                coalesce((SELECT n.connection FROM fairq.node n WHERE n.place = p), 'host=/nonexistent'));
        ELSIF 'p' || p = ANY (had) THEN
            options := options || format('DROP p%s', p);
        END IF;
    END LOOP;
    EXECUTE format('ALTER SERVER pgfairq OPTIONS (%s)', array_to_string(options, ', '));
    RETURN NULL;
END
$$;

CREATE TRIGGER fairq_node_written
    AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON fairq.node
    FOR EACH STATEMENT EXECUTE FUNCTION fairq_internal.node_written();
ALTER TABLE fairq.node ENABLE ALWAYS TRIGGER fairq_node_written;

CREATE FUNCTION fairq.nodes_of_group(queue text, group_key text)
RETURNS int[] LANGUAGE C STABLE STRICT PARALLEL RESTRICTED
AS 'MODULE_PATHNAME', 'fairq_nodes_of_group';
-- Who may use a server may make a user mapping of his own for it, and say in it that he is
-- another role there. What the proxy's host is let in as without a password, or has in a
-- password file, would be everybody's. So only the server's owner gives a user.
CREATE FUNCTION fairq_internal.user_mapping_written()
RETURNS event_trigger LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_event_trigger_ddl_commands() c
            JOIN pg_user_mappings m ON m.umid = c.objid AND m.srvname = 'pgfairq'
            JOIN pg_foreign_server s ON s.oid = m.srvid
            WHERE EXISTS (SELECT FROM unnest(m.umoptions) option WHERE option LIKE 'user=%')
            AND NOT pg_has_role(s.srvowner, 'USAGE')) THEN
        RAISE EXCEPTION 'permission denied to set a user for server "pgfairq"'
            USING ERRCODE = 'insufficient_privilege', DETAIL = 'Calls are made at the nodes as the role that makes them here.',
            HINT = 'Leave option "user" out, or have the owner of the server create the user mapping.';
    END IF;
END
$$;

CREATE EVENT TRIGGER fairq_user_mapping_written ON ddl_command_end
    WHEN TAG IN ('CREATE USER MAPPING', 'ALTER USER MAPPING')
    EXECUTE FUNCTION fairq_internal.user_mapping_written();
ALTER EVENT TRIGGER fairq_user_mapping_written ENABLE ALWAYS;
CREATE OR REPLACE FUNCTION fairq.enqueue(queue text, payload jsonb,
    group_key text DEFAULT '', priority bigint DEFAULT NULL, cost double precision DEFAULT 1,
    run_at timestamptz DEFAULT NULL,
    unique_key text DEFAULT NULL, on_duplicate text DEFAULT 'keep',
    max_attempts int DEFAULT NULL, lease interval DEFAULT NULL, headers jsonb DEFAULT NULL,
    expires_at timestamptz DEFAULT NULL, unique_for interval DEFAULT NULL,
    delay interval DEFAULT NULL, after bigint[] DEFAULT NULL, on_dead text DEFAULT 'hold')
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_enqueue';

CREATE OR REPLACE FUNCTION fairq.enqueue_many(queue text, payloads jsonb[],
    group_keys text[] DEFAULT NULL, priorities bigint[] DEFAULT NULL,
    costs double precision[] DEFAULT NULL, run_ats timestamptz[] DEFAULT NULL,
    unique_keys text[] DEFAULT NULL, on_duplicate text DEFAULT 'keep',
    unique_for interval DEFAULT NULL)
RETURNS bigint[] LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_enqueue_many';

CREATE OR REPLACE FUNCTION fairq.subscribe(topic text, queue text)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_subscribe';

CREATE OR REPLACE FUNCTION fairq.unsubscribe(topic text, queue text)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_unsubscribe';

CREATE OR REPLACE FUNCTION fairq.publish(topic text, payload jsonb,
    group_key text DEFAULT '', priority bigint DEFAULT NULL, cost double precision DEFAULT 1,
    run_at timestamptz DEFAULT NULL, unique_key text DEFAULT NULL, on_duplicate text DEFAULT 'keep',
    max_attempts int DEFAULT NULL, lease interval DEFAULT NULL, headers jsonb DEFAULT NULL,
    expires_at timestamptz DEFAULT NULL, unique_for interval DEFAULT NULL,
    delay interval DEFAULT NULL)
RETURNS int LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_publish';

CREATE OR REPLACE FUNCTION fairq.claim(queue text, max_tasks int DEFAULT 1,
    lease interval DEFAULT NULL, session uuid DEFAULT NULL, wait interval DEFAULT '0',
    buckets int[] DEFAULT NULL, group_keys text[] DEFAULT NULL)
RETURNS SETOF fairq.task LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_cluster_claim';

CREATE OR REPLACE FUNCTION fairq.claim_any(queues text[], max_tasks int DEFAULT 1,
    lease interval DEFAULT NULL, session uuid DEFAULT NULL, wait interval DEFAULT '0')
RETURNS SETOF fairq.queue_task LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_cluster_claim_any';

CREATE OR REPLACE FUNCTION fairq.ack(receipt uuid, result jsonb DEFAULT NULL)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_ack';

CREATE OR REPLACE FUNCTION fairq.ack_many(receipts uuid[])
RETURNS SETOF uuid LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_cluster_ack_many';

CREATE OR REPLACE FUNCTION fairq.ack_and_claim(queue text, receipts uuid[], max_tasks int DEFAULT 1,
    lease interval DEFAULT NULL, session uuid DEFAULT NULL, wait interval DEFAULT '0')
RETURNS SETOF fairq.task LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_cluster_ack_and_claim';

CREATE OR REPLACE FUNCTION fairq.nack(receipt uuid, error text DEFAULT NULL, delay interval DEFAULT NULL,
    final boolean DEFAULT false)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_nack';

CREATE OR REPLACE FUNCTION fairq.nack_many(receipts uuid[], errors text[] DEFAULT NULL, delay interval DEFAULT NULL,
    final boolean DEFAULT false)
RETURNS SETOF uuid LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_cluster_nack_many';

CREATE OR REPLACE FUNCTION fairq.set_progress(receipt uuid, progress jsonb)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_set_progress';

CREATE OR REPLACE FUNCTION fairq.extend(receipt uuid, lease interval DEFAULT NULL)
RETURNS timestamptz LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_extend';

CREATE OR REPLACE FUNCTION fairq.extend_many(receipts uuid[], lease interval DEFAULT NULL)
RETURNS SETOF uuid LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_cluster_extend_many';

CREATE OR REPLACE FUNCTION fairq.release(receipt uuid, delay interval DEFAULT '0')
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_release';

CREATE OR REPLACE FUNCTION fairq.release_many(receipts uuid[], delay interval DEFAULT '0')
RETURNS SETOF uuid LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_cluster_release_many';

CREATE OR REPLACE FUNCTION fairq.pop(queue text, max_tasks int DEFAULT 1, wait interval DEFAULT '0',
    buckets int[] DEFAULT NULL, group_keys text[] DEFAULT NULL)
RETURNS SETOF fairq.task LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_cluster_pop';

CREATE OR REPLACE PROCEDURE fairq.wait(queue text, timeout interval DEFAULT '30 s')
LANGUAGE C
AS 'MODULE_PATHNAME', 'fairq_cluster_wait';

CREATE OR REPLACE PROCEDURE fairq.wait_any(queues text[], timeout interval DEFAULT '30 s')
LANGUAGE C
AS 'MODULE_PATHNAME', 'fairq_cluster_wait_any';

CREATE OR REPLACE FUNCTION fairq.await(queue text, id bigint, timeout interval DEFAULT '30 s')
RETURNS fairq.outcome LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_await';

CREATE OR REPLACE FUNCTION fairq.open_session(name text DEFAULT NULL, ttl interval DEFAULT '10 s', bound boolean DEFAULT false)
RETURNS uuid LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_open_session';

CREATE OR REPLACE FUNCTION fairq.heartbeat(session uuid)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_heartbeat';

CREATE OR REPLACE FUNCTION fairq.close_session(session uuid)
RETURNS int LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_close_session';

CREATE OR REPLACE FUNCTION fairq.my_buckets(queue text, session uuid)
RETURNS int[] LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_my_buckets';

CREATE FUNCTION fairq.node_of_id(id bigint)
RETURNS int LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'fairq_node_of_id';

CREATE FUNCTION fairq.node_of_receipt(receipt uuid)
RETURNS int LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'fairq_node_of_uuid';

CREATE FUNCTION fairq.node_of_session(session uuid)
RETURNS int LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'fairq_node_of_uuid';
CREATE OR REPLACE FUNCTION fairq.create_queue(queue text,
    policy text DEFAULT 'fair', buckets int DEFAULT 16,
    lease interval DEFAULT '30 s', max_attempts int DEFAULT 20,
    backoff_base interval DEFAULT '1 s', backoff_max interval DEFAULT '1 h',
    max_ready bigint DEFAULT 1000000, max_ready_per_group bigint DEFAULT 10000,
    max_depth bigint DEFAULT NULL, keep_done interval DEFAULT NULL,
    durable_leases boolean DEFAULT false, charge text DEFAULT 'cost', notify boolean DEFAULT false,
    expire_after interval DEFAULT NULL,
    backoff_jitter double precision DEFAULT 0.1, default_priority bigint DEFAULT 4,
    group_required boolean DEFAULT false, if_not_exists boolean DEFAULT false)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_create_queue';

CREATE OR REPLACE FUNCTION fairq.alter_queue(queue text,
    buckets int DEFAULT NULL, lease interval DEFAULT NULL, max_attempts int DEFAULT NULL,
    backoff_base interval DEFAULT NULL, backoff_max interval DEFAULT NULL,
    max_ready bigint DEFAULT NULL, max_ready_per_group bigint DEFAULT NULL,
    max_depth bigint DEFAULT NULL, keep_done interval DEFAULT NULL,
    durable_leases boolean DEFAULT NULL, charge text DEFAULT NULL, notify boolean DEFAULT NULL,
    expire_after interval DEFAULT NULL,
    backoff_jitter double precision DEFAULT NULL, default_priority bigint DEFAULT NULL,
    group_required boolean DEFAULT NULL)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_alter_queue';

CREATE OR REPLACE FUNCTION fairq.drop_queue(queue text)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_drop_queue';

CREATE OR REPLACE FUNCTION fairq.purge(queue text)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_purge';

CREATE OR REPLACE FUNCTION fairq.purge_group(queue text, group_key text)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_purge_group';

CREATE OR REPLACE FUNCTION fairq.forget_key(queue text, unique_key text)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_forget_key';

CREATE OR REPLACE FUNCTION fairq.forget_keys(queue text)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_forget_keys';

CREATE OR REPLACE FUNCTION fairq.pause(queue text)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_pause';

CREATE OR REPLACE FUNCTION fairq.resume(queue text)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_resume';

CREATE OR REPLACE FUNCTION fairq.pause_group(queue text, group_key text)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_pause_group';

CREATE OR REPLACE FUNCTION fairq.resume_group(queue text, group_key text)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_resume_group';

CREATE OR REPLACE FUNCTION fairq.maintain(queue text)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_maintain';

CREATE OR REPLACE FUNCTION fairq.set_group(queue text, group_key text,
    weight double precision DEFAULT NULL, max_leased int DEFAULT NULL,
    rate double precision DEFAULT NULL, burst int DEFAULT NULL)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_set_group';

CREATE OR REPLACE FUNCTION fairq.reset_group(queue text, group_key text)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_reset_group';

CREATE OR REPLACE FUNCTION fairq.set_group_defaults(queue text,
    weight double precision DEFAULT NULL, max_leased int DEFAULT NULL,
    rate double precision DEFAULT NULL, burst int DEFAULT NULL)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_set_group_defaults';

CREATE OR REPLACE FUNCTION fairq.schedule(name text, queue text, cron text, payload jsonb DEFAULT '{}',
    group_key text DEFAULT '', priority bigint DEFAULT NULL, cost double precision DEFAULT 1,
    headers jsonb DEFAULT NULL, timezone text DEFAULT 'UTC', catch_up text DEFAULT 'one',
    overlap boolean DEFAULT false, active boolean DEFAULT true)
RETURNS timestamptz LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_schedule';

CREATE OR REPLACE FUNCTION fairq.unschedule(name text)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_unschedule';

-- Calls at one node, by its number, that administration is made of. Each has its twin at
-- a place, which PL/Proxy carries: an error is the node's own, or says that the node is
-- out of reach.

-- Who the server is. It need not be the node that it should be, nor have pgfairq at all.
-- A copy of a server says the same of its system, but not when it was started.
CREATE FUNCTION fairq_internal.node_facts(node int)
RETURNS jsonb LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_of_server';

CREATE FUNCTION fairq_internal.at_node_facts(int)
RETURNS jsonb LANGUAGE plproxy VOLATILE
AS $$
    CLUSTER 'pgfairq'; RUN ON $1;
    SELECT pg_catalog.jsonb_build_object(
        'version', (SELECT extversion FROM pg_catalog.pg_extension WHERE extname = 'pgfairq'),
        'proxy', EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname = 'pgfairq_cluster'),
        'standby', pg_catalog.pg_is_in_recovery(),
        'system', (SELECT pg_catalog.concat(c.system_identifier, '/', d.oid) FROM pg_catalog.pg_control_system() c, pg_catalog.pg_database d
            WHERE d.datname = pg_catalog.current_database()),
        'started', pg_catalog.pg_postmaster_start_time());
$$;

-- How much there is at a node; refused where the library is not preloaded.
CREATE FUNCTION fairq_internal.node_load(node int, OUT ready bigint, OUT leased bigint, OUT waiting bigint)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1
AS 'MODULE_PATHNAME', 'fairq_cluster_of_node';

CREATE FUNCTION fairq_internal.at_node_load(int, OUT ready bigint, OUT leased bigint, OUT waiting bigint)
RETURNS SETOF record LANGUAGE plproxy VOLATILE
AS $$
    CLUSTER 'pgfairq'; RUN ON $1;
    SELECT coalesce(sum(s.ready), 0)::bigint AS ready, coalesce(sum(s.leased), 0)::bigint AS leased,
        coalesce(sum(s.scheduled + s.overflow + s.held + s.dead), 0)::bigint AS waiting
    FROM fairq_internal.stats_of_queues() s;
$$;

CREATE FUNCTION fairq_internal.node_queue_definitions(node int, OUT queue text, OUT definition jsonb)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_of_node';

CREATE FUNCTION fairq_internal.at_node_queue_definitions(int, OUT queue text, OUT definition jsonb)
RETURNS SETOF record LANGUAGE plproxy VOLATILE
AS $$ CLUSTER 'pgfairq'; RUN ON $1; SELECT d.queue, d.definition FROM fairq_internal.queue_definitions() d; $$;

CREATE FUNCTION fairq_internal.node_define_queue(node int, name text, definition jsonb, anew boolean)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_of_node';

CREATE FUNCTION fairq_internal.at_node_define_queue(int, text, jsonb, boolean)
RETURNS void LANGUAGE plproxy VOLATILE
AS $$ CLUSTER 'pgfairq'; RUN ON $1; SELECT fairq_internal.define_queue($2, $3, $4); $$;

CREATE FUNCTION fairq_internal.node_number(node int)
RETURNS int LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_of_server';

CREATE FUNCTION fairq_internal.at_node_number(int)
RETURNS int LANGUAGE plproxy VOLATILE
AS $$ CLUSTER 'pgfairq'; RUN ON $1; SELECT fairq.this_node(); $$;

CREATE FUNCTION fairq_internal.node_queue_names(node int)
RETURNS SETOF text LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_of_node';

CREATE FUNCTION fairq_internal.at_node_queue_names(int)
RETURNS SETOF text LANGUAGE plproxy VOLATILE
AS $$ CLUSTER 'pgfairq'; RUN ON $1; SELECT q.queue FROM fairq.queues q ORDER BY 1; $$;

CREATE FUNCTION fairq_internal.node_tasks_to_move(node int, name text, most int, skip bigint[],
    OUT id bigint, OUT group_key text, OUT unique_key text)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_of_node';

CREATE FUNCTION fairq_internal.at_node_tasks_to_move(int, text, int, bigint[],
    OUT id bigint, OUT group_key text, OUT unique_key text)
RETURNS SETOF record LANGUAGE plproxy VOLATILE
AS $$ CLUSTER 'pgfairq'; RUN ON $1; SELECT t.id, t.group_key, t.unique_key FROM fairq_internal.tasks_to_move($2, $3, $4) t; $$;

CREATE FUNCTION fairq_internal.node_depart(node int, name text, ids bigint[], batch uuid, target int)
RETURNS bigint[] LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_of_node';

CREATE FUNCTION fairq_internal.at_node_depart(int, text, bigint[], uuid, int)
RETURNS bigint[] LANGUAGE plproxy VOLATILE
AS $$ CLUSTER 'pgfairq'; RUN ON $1; SELECT fairq_internal.depart($2, $3, $4, $5); $$;

CREATE FUNCTION fairq_internal.node_departures(node int, OUT batch uuid, OUT target int, OUT queue text, OUT tasks bigint)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_of_node';

CREATE FUNCTION fairq_internal.at_node_departures(int, OUT batch uuid, OUT target int, OUT queue text, OUT tasks bigint)
RETURNS SETOF record LANGUAGE plproxy VOLATILE
AS $$ CLUSTER 'pgfairq'; RUN ON $1; SELECT d.batch, d.target, d.queue, d.tasks FROM fairq_internal.departures() d; $$;

CREATE FUNCTION fairq_internal.node_departing_tasks(node int, batch uuid)
RETURNS jsonb LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_of_node';

CREATE FUNCTION fairq_internal.at_node_departing_tasks(int, uuid)
RETURNS jsonb LANGUAGE plproxy VOLATILE
AS $$ CLUSTER 'pgfairq'; RUN ON $1; SELECT fairq_internal.departing_tasks($2); $$;

CREATE FUNCTION fairq_internal.node_arrive(node int, batch uuid, name text, tasks jsonb)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_of_node';

CREATE FUNCTION fairq_internal.at_node_arrive(int, uuid, text, jsonb)
RETURNS bigint LANGUAGE plproxy VOLATILE
AS $$ CLUSTER 'pgfairq'; RUN ON $1; SELECT fairq_internal.arrive($2, $3, $4); $$;

CREATE FUNCTION fairq_internal.node_forget_departed(node int, batch uuid)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_of_node';

CREATE FUNCTION fairq_internal.at_node_forget_departed(int, uuid)
RETURNS bigint LANGUAGE plproxy VOLATILE
AS $$ CLUSTER 'pgfairq'; RUN ON $1; SELECT fairq_internal.forget_departed($2); $$;

CREATE FUNCTION fairq_internal.node_depart_no_more(node int, batch uuid)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_of_node';

CREATE FUNCTION fairq_internal.at_node_depart_no_more(int, uuid)
RETURNS bigint LANGUAGE plproxy VOLATILE
AS $$ CLUSTER 'pgfairq'; RUN ON $1; SELECT fairq_internal.depart_no_more($2); $$;

-- The node that gets a task, as if it were enqueued now.
CREATE FUNCTION fairq_internal.place_task(queue text, group_key text, unique_key text)
RETURNS int LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_place_task';
-- Adding, draining and dropping nodes. For the owner of the extension's tables, who may
-- also alter PL/Proxy's server.
CREATE FUNCTION fairq_internal.require_owner(what text)
RETURNS void LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT pg_has_role((SELECT relowner FROM pg_class WHERE oid = 'fairq.node'::regclass), 'USAGE') THEN
        RAISE EXCEPTION 'permission denied for function fairq.%', what
            USING ERRCODE = 'insufficient_privilege', HINT = 'Use the role that has created the extension pgfairq_cluster.';
    END IF;
    IF pg_is_in_recovery() THEN
        RAISE EXCEPTION 'cannot execute fairq.%() during recovery', what
            USING ERRCODE = 'read_only_sql_transaction', HINT = 'Call it at the primary of the proxies.';
    END IF;
END
$$;

-- What waits for a lock makes others wait that come after it. So this one is asked for for
-- a fifth of a second at a time, and let go for another: whoever has it for long, with a
-- transaction that stays open, holds up the administrator and nobody else.
CREATE FUNCTION fairq_internal.try_lock_nodes()
RETURNS boolean LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '200ms'
AS $$
BEGIN
    LOCK TABLE fairq.node IN EXCLUSIVE MODE;
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END
$$;

-- The lock that changes of the list of nodes take. It lets calls of applications read the
-- list; what is created and altered at all nodes waits, so a new node misses none of it.
CREATE FUNCTION fairq_internal.lock_nodes()
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    began timestamptz := clock_timestamp();
    patience interval := least(nullif(current_setting('lock_timeout')::interval, '0'), '1 min');
    holders text;
BEGIN
    WHILE NOT fairq_internal.try_lock_nodes() LOOP
        IF clock_timestamp() > began + patience THEN
            SELECT string_agg(DISTINCT l.pid::text, ', ') INTO holders FROM pg_locks l
                WHERE l.relation = 'fairq.node'::regclass AND l.granted AND l.pid <> pg_backend_pid()
                AND l.mode IN ('RowShareLock', 'ExclusiveLock', 'RowExclusiveLock', 'AccessExclusiveLock');
            RAISE EXCEPTION 'the list of nodes is in use'
                USING ERRCODE = 'lock_not_available', DETAIL = format('Processes that have it locked: %s.', coalesce(holders, 'none any more')),
                HINT = 'A transaction that has called fairq.schedule() has it until its end. End it, or try again.';
        END IF;
        PERFORM pg_sleep(0.2);
    END LOOP;
END
$$;

-- A version is of the first two numbers. A node may be one ahead or one behind, so that
-- nodes and proxies are updated one after the other: columns are named in each call.
CREATE FUNCTION fairq_internal.version_fits(version text, other text)
RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT split_part(version, '.', 1) = split_part(other, '.', 1)
        AND abs(split_part(version, '.', 2)::int - split_part(other, '.', 2)::int) <= 1
$$;

-- A connection string as it is kept: checked, and with what it does not say of silent
-- servers. PL/Proxy adds the user, which it can only do to keywords and values.
CREATE FUNCTION fairq_internal.complete_connection(connection text)
RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    word text;
BEGIN
    IF connection !~ '^\s*\w+\s*=' THEN
        RAISE EXCEPTION 'invalid value for argument "connection": "%"', regexp_replace(connection, ':[^:/@]*@', ':...@')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Give keywords and values, like ''host=db1,db2 dbname=app target_session_attrs=read-write''.';
    END IF;
    word := (regexp_match(connection, '\m(user|password|passfile|sslpassword|oauth_client_secret|scram_client_key|scram_server_key)\s*='))[1];
    IF word IS NOT NULL THEN
        RAISE EXCEPTION 'the connection of a node must not have "%"', word
            USING ERRCODE = 'invalid_parameter_value', DETAIL = 'Every role can read the options of a server, and calls are made at the nodes as the role that makes them here.',
            HINT = 'Use CREATE USER MAPPING FOR a role SERVER pgfairq OPTIONS (password ''...''), or a password file.';
    END IF;
    IF connection ~ '\mhost(addr)?\s*=\s*(''[^'']*,|[^'' ]*,)' AND connection !~ '\mtarget_session_attrs\s*=' THEN
        RAISE NOTICE 'the connection has several hosts and no target_session_attrs'
            USING HINT = 'With target_session_attrs=read-write calls go to the primary, whichever host that is.';
    END IF;
    SELECT connection || coalesce(string_agg(format(' %s=%s', d.word, d.value), '' ORDER BY n), '') INTO connection
        FROM (VALUES (1, 'connect_timeout', '2'), (2, 'keepalives_idle', '5'), (3, 'keepalives_interval', '2'),
            (4, 'keepalives_count', '3'), (5, 'tcp_user_timeout', '10000')) d(n, word, value)
        WHERE connection !~ format('\m%s\s*=', d.word);
    RETURN connection;
END
$$;

-- Refuse a server that cannot be the node.
CREATE FUNCTION fairq_internal.check_server(number int)
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    facts jsonb := fairq_internal.node_facts(number);
    own text := (SELECT extversion FROM pg_extension WHERE extname = 'pgfairq_cluster');
    other int;
BEGIN
    IF (facts ->> 'proxy')::boolean THEN
        RAISE EXCEPTION 'the server of node % is a proxy', number
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'A node is a database that has the extension pgfairq.';
    ELSIF facts ->> 'version' IS NULL THEN
        RAISE EXCEPTION 'the server of node % does not have pgfairq in that database', number
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Put pgfairq into its shared_preload_libraries, and run CREATE EXTENSION pgfairq and fairq.set_node() there.';
    ELSIF NOT fairq_internal.version_fits(facts ->> 'version', own) THEN
        RAISE EXCEPTION 'the server of node % has version % of pgfairq, and the proxy has %', number, facts ->> 'version', own
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Update the one that is behind: they may be one version apart.';
    ELSIF (facts ->> 'standby')::boolean THEN
        RAISE EXCEPTION 'the server of node % is a standby', number
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Name all hosts of the node, and target_session_attrs=read-write.';
    END IF;
    FOR other IN SELECT n.node FROM fairq.node n WHERE n.system = facts ->> 'system' AND n.node <> number LOOP
        BEGIN
            CONTINUE WHEN fairq_internal.node_facts(other) -> 'started' <> facts -> 'started';
        EXCEPTION WHEN connection_failure THEN
            CONTINUE; -- it is not this one, which is there
        END;
        RAISE EXCEPTION 'the server of node % is that of node %', number, other
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Correct the connection.';
    END LOOP;
    PERFORM FROM fairq_internal.node_load(number);
    UPDATE fairq.node n SET system = facts ->> 'system' WHERE n.node = number AND n.system IS DISTINCT FROM facts ->> 'system';
END
$$;

-- The queues of the nodes that can be reached, each as the first node that has it says;
-- and those that cannot.
CREATE FUNCTION fairq_internal.cluster_queues(but int, OUT queue text, OUT definition jsonb, OUT node int)
RETURNS SETOF record LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    number int;
    found_queues text[] := '{}';
BEGIN
    FOR number IN SELECT n.node FROM fairq.node n WHERE n.node IS DISTINCT FROM but ORDER BY n.node LOOP
        BEGIN
            RETURN QUERY SELECT d.queue, d.definition, number FROM fairq_internal.node_queue_definitions(number) d
                WHERE d.queue <> ALL (found_queues);
            found_queues := found_queues || array(SELECT d.queue FROM fairq_internal.node_queue_definitions(number) d);
        EXCEPTION WHEN connection_failure THEN
            RAISE WARNING 'node % is out of reach', number
                USING ERRCODE = 'connection_failure', DETAIL = 'Queues that only that node has are not seen.';
        END;
    END LOOP;
END
$$;

-- In which words two definitions of a queue differ; null: in none. Unless all is said,
-- what one has more of groups' settings and topics is no difference.
CREATE FUNCTION fairq_internal.definitions_differ(one jsonb, other jsonb, everything boolean)
RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT string_agg(word, ', ' ORDER BY word) FROM (
        SELECT s.key AS word FROM jsonb_each(one -> 'settings') s
            WHERE other -> 'settings' ? s.key AND other -> 'settings' -> s.key <> s.value
        UNION ALL
        SELECT 'owner' WHERE one -> 'owner' <> other -> 'owner'
        UNION ALL
        SELECT 'grants' WHERE everything AND NOT other -> 'grants' @> (one -> 'grants')
        UNION ALL
        SELECT 'topics' WHERE everything AND one -> 'topics' <> other -> 'topics'
        UNION ALL
        SELECT format('group "%s"', key) FROM jsonb_each(one -> 'groups') g
            FULL JOIN jsonb_each(other -> 'groups') o USING (key)
            WHERE g.value <> o.value OR everything AND (g.value IS NULL OR o.value IS NULL)) differences
$$;

-- Give a node the queues of the others. One that differs is refused.
CREATE FUNCTION fairq_internal.copy_queues(number int)
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    own jsonb := (SELECT jsonb_object_agg(queue, definition) FROM fairq_internal.node_queue_definitions(number));
    q record;
    differences text;
    others text[] := '{}';
    alone text;
BEGIN
    FOR q IN SELECT * FROM fairq_internal.cluster_queues(number) LOOP
        differences := fairq_internal.definitions_differ(q.definition, own -> q.queue, false);
        IF differences IS NOT NULL THEN
            RAISE EXCEPTION 'queue "%" of node % differs from that of node %', q.queue, number, q.node
                USING ERRCODE = 'object_not_in_prerequisite_state', DETAIL = format('They differ in: %s.', differences),
                HINT = 'Make it the same, or drop it there.';
        END IF;
        PERFORM fairq_internal.node_define_queue(number, q.queue, q.definition, false);
        others := others || q.queue;
    END LOOP;
    SELECT string_agg(format('"%s"', k), ', ' ORDER BY k) INTO alone FROM jsonb_object_keys(own) k WHERE k <> ALL (others);
    IF alone IS NOT NULL AND EXISTS (SELECT FROM fairq.node n WHERE n.node <> number) THEN
        RAISE WARNING 'queues that only node % has: %', number, alone
            USING HINT = 'Give them to all nodes with fairq.check_cluster(repair => true), or drop them.';
    END IF;
END
$$;

-- The row is written first, which none but us sees: what is asked of the new node goes
-- the way of all calls. All that is done there may be repeated.
CREATE FUNCTION fairq.add_node(node int, connection text)
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
    PERFORM fairq_internal.require_owner('add_node');
    IF node IS NULL OR node < 0 OR node > 32767 THEN
        RAISE EXCEPTION 'invalid value for argument "node": "%"', node
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Give the number that the server says with fairq.this_node(), 0 to 32767.';
    ELSIF connection IS NULL THEN
        RAISE EXCEPTION 'argument "connection" must not be null'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Give a connection string, like ''host=db1 dbname=app''.';
    END IF;
    PERFORM fairq_internal.lock_nodes();
    IF EXISTS (SELECT FROM fairq.node n WHERE n.node = add_node.node) THEN
        RAISE EXCEPTION 'the cluster has a node % already', node
            USING ERRCODE = 'duplicate_object', HINT = 'Give the server another number with fairq.set_node(); or change the connection in table fairq.node.';
    END IF;
    INSERT INTO fairq.node (node, place, connection)
        SELECT add_node.node, min(free), fairq_internal.complete_connection(add_node.connection)
        FROM generate_series(0, (SELECT count(*)::int FROM fairq.node)) free
        WHERE NOT EXISTS (SELECT FROM fairq.node n WHERE n.place = free);
    PERFORM fairq_internal.check_server(node);
    PERFORM fairq_internal.copy_queues(node);
    PERFORM fairq_internal.copy_schedules(node);
END
$$;
REVOKE ALL ON FUNCTION fairq.add_node(int, text) FROM PUBLIC;

-- The number of a node that there is.
CREATE FUNCTION fairq_internal.require_node(node int)
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
    IF node IS NULL OR NOT EXISTS (SELECT FROM fairq.node n WHERE n.node = require_node.node) THEN
        RAISE EXCEPTION 'the cluster has no node %', coalesce(node::text, 'null')
            USING ERRCODE = 'undefined_object', HINT = 'Table fairq.node has those that there are.';
    END IF;
END
$$;

-- From the commit on new tasks and sessions go to the others. The tasks that are there are
-- claimed as before, or moved by fairq.move_tasks().
CREATE FUNCTION fairq.drain_node(node int)
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
    PERFORM fairq_internal.require_owner('drain_node');
    PERFORM fairq_internal.lock_nodes();
    PERFORM fairq_internal.require_node(node);
    IF NOT EXISTS (SELECT FROM fairq.node n WHERE n.node <> drain_node.node AND n.state = 'active') THEN
        RAISE EXCEPTION 'node % is the last one that gets new tasks', node
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Add a node with fairq.add_node() first.';
    END IF;
    UPDATE fairq.node n SET state = 'draining' WHERE n.node = drain_node.node AND n.state <> 'draining';
    PERFORM fairq_internal.move_schedules(node, false);
END
$$;
REVOKE ALL ON FUNCTION fairq.drain_node(int) FROM PUBLIC;

CREATE FUNCTION fairq.undrain_node(node int)
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
    PERFORM fairq_internal.require_owner('undrain_node');
    PERFORM fairq_internal.lock_nodes();
    PERFORM fairq_internal.require_node(node);
    UPDATE fairq.node n SET state = 'active' WHERE n.node = undrain_node.node AND n.state <> 'active';
END
$$;
REVOKE ALL ON FUNCTION fairq.undrain_node(int) FROM PUBLIC;
-- Moving the tasks of a node that is drained. Each batch is for one node and goes in three
-- steps, each in force before the next: out of the queue at its node, into the queue of the
-- other, forgotten at the first. What was begun and not ended is ended first, by whoever
-- comes next (see sql/install/73_moving.sql).

-- Bring a batch to its node. False: that is out of reach, or was when it answered.
CREATE FUNCTION fairq_internal.deliver(source int, batch uuid, target int, name text)
RETURNS boolean LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    tasks jsonb := fairq_internal.node_departing_tasks(source, batch);
BEGIN
    BEGIN
        IF tasks IS NOT NULL THEN
            PERFORM fairq_internal.node_arrive(target, batch, name, tasks);
        END IF;
    EXCEPTION WHEN connection_failure THEN
        RAISE WARNING 'node % is out of reach: % tasks of node % are on their way to it', target, jsonb_array_length(tasks), source
            USING ERRCODE = 'connection_failure', HINT = 'Call fairq.move_tasks() or fairq.check_cluster(repair => true) when it is there.';
        RETURN false;
    END;
    PERFORM fairq_internal.node_forget_departed(source, batch);
    RETURN true;
END
$$;

-- End what was begun with a batch of a queue; false: it is to be tried again.
CREATE FUNCTION fairq_internal.finish_move(source int, batch uuid, target int, name text)
RETURNS boolean LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM fairq.node n WHERE n.node = target) THEN
        PERFORM fairq_internal.node_depart_no_more(source, batch);
        RETURN false;
    END IF;
    RETURN fairq_internal.deliver(source, batch, target, name);
END
$$;

-- One queue does not keep the others: what the owner has attached to its table may refuse
-- its tasks. Called where an error of one queue is caught.
CREATE FUNCTION fairq_internal.stays(name text, source int, state text, message text)
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE WARNING 'could not move the tasks of queue "%" from node %: %', name, source, message
        USING ERRCODE = state, HINT = 'Other queues are moved. Remove what refuses the tasks, and call fairq.move_tasks() again.';
END
$$;

-- End what was begun at a node; returns how many tasks have arrived, and which queues
-- have refused theirs.
CREATE FUNCTION fairq_internal.finish_moves(source int, OUT moved bigint, OUT refused text[])
RETURNS record LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    d record;
BEGIN
    moved := 0;
    refused := '{}';
    FOR d IN SELECT * FROM fairq_internal.node_departures(source) LOOP
        BEGIN
            IF fairq_internal.finish_move(source, d.batch, d.target, d.queue) THEN
                moved := moved + d.tasks;
            END IF;
        EXCEPTION WHEN connection_failure THEN
            RAISE;
        WHEN OTHERS THEN
            PERFORM fairq_internal.stays(d.queue, source, SQLSTATE, SQLERRM);
            refused := refused || d.queue;
        END;
    END LOOP;
END
$$;

-- One at a time for a node: two would only take each other's tasks to be gone.
CREATE FUNCTION fairq_internal.lock_moves(source int)
RETURNS void LANGUAGE sql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$ SELECT pg_advisory_xact_lock(hashtextextended('fairq.move_tasks', source)) $$;

CREATE FUNCTION fairq_internal.move_queue(source int, name text, batch int)
RETURNS bigint LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    skip bigint[] := '{}';
    part record;
    departed bigint[];
    batch_name uuid;
    moved bigint := 0;
BEGIN
    LOOP
        FOR part IN
            SELECT p.target, array_agg(p.id ORDER BY p.n) AS ids FROM (
                SELECT t.id, t.n, fairq_internal.place_task(name, t.group_key, t.unique_key) AS target
                FROM fairq_internal.node_tasks_to_move(source, name, batch, skip) WITH ORDINALITY AS t (id, group_key, unique_key, n)) p
            GROUP BY p.target
        LOOP
            batch_name := gen_random_uuid();
            departed := fairq_internal.node_depart(source, name, part.ids, batch_name, part.target);
            IF fairq_internal.deliver(source, batch_name, part.target, name) THEN
                moved := moved + cardinality(departed);
            END IF;
            skip := skip || array(SELECT unnest(part.ids) EXCEPT SELECT unnest(departed));
        END LOOP;
        EXIT WHEN NOT FOUND;
    END LOOP;
    RETURN moved;
END
$$;

CREATE FUNCTION fairq.move_tasks(node int, batch int DEFAULT 1000)
RETURNS bigint LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    name text;
    moved bigint;
    refused text[];
    stay record;
BEGIN
    PERFORM fairq_internal.require_owner('move_tasks');
    PERFORM fairq_internal.require_node(node);
    IF batch IS NULL OR batch < 1 OR batch > 100000 THEN
        RAISE EXCEPTION 'invalid value for argument "batch": "%"', batch
            USING ERRCODE = 'invalid_parameter_value', HINT = 'It must be from 1 to 100000.';
    END IF;
    PERFORM fairq_internal.lock_moves(node);
    IF NOT EXISTS (SELECT FROM fairq.node n WHERE n.node = move_tasks.node AND n.state = 'draining') THEN
        RAISE EXCEPTION 'node % is not being drained', node
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Call fairq.drain_node() first: new tasks would come while others leave.';
    END IF;
    SELECT * INTO moved, refused FROM fairq_internal.finish_moves(node);
    FOR name IN SELECT * FROM fairq_internal.node_queue_names(node) LOOP
        CONTINUE WHEN name = ANY (refused);
        BEGIN
            moved := moved + fairq_internal.move_queue(node, name, batch);
        EXCEPTION WHEN connection_failure THEN
            RAISE;
        WHEN OTHERS THEN
            PERFORM fairq_internal.stays(name, node, SQLSTATE, SQLERRM);
        END;
    END LOOP;
    SELECT * INTO stay FROM fairq_internal.node_load(node);
    IF stay.ready + stay.leased + stay.waiting > 0 THEN
        RAISE NOTICE 'node % has % tasks still, of which % are leased', node, stay.ready + stay.leased + stay.waiting, stay.leased
            USING DETAIL = 'Tasks in flight end where they are; and so do those that wait for others, those that others wait for, and those whose unique key has a task in flight.',
            HINT = 'Call fairq.move_tasks() again later.';
    END IF;
    RETURN moved;
END
$$;
REVOKE ALL ON FUNCTION fairq.move_tasks(int, int) FROM PUBLIC;

-- What is at a node that is given up. Tasks on their way to it have arrived, or it is
-- known that they have not: what has arrived there may be done already.
CREATE FUNCTION fairq.drop_node(node int, lost boolean DEFAULT false)
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    load record;
    other int;
    away bigint;
BEGIN
    PERFORM fairq_internal.require_owner('drop_node');
    PERFORM fairq_internal.lock_nodes();
    PERFORM fairq_internal.require_node(node);
    IF lost IS NOT TRUE THEN
        IF NOT EXISTS (SELECT FROM fairq.node n WHERE n.node = drop_node.node AND n.state = 'draining') THEN
            RAISE EXCEPTION 'node % gets new tasks', node
                USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Call fairq.drain_node() first, and fairq.move_tasks().';
        END IF;
        FOR other IN SELECT n.node FROM fairq.node n ORDER BY 1 LOOP
            PERFORM fairq_internal.lock_moves(other);
            SELECT sum(d.tasks) INTO away FROM fairq_internal.node_departures(other) d WHERE other = node OR d.target = node;
            IF away > 0 THEN
                RAISE EXCEPTION '% tasks are on their way from node %', away, other
                    USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Call fairq.move_tasks() for that node, or fairq.check_cluster(repair => true).';
            END IF;
        END LOOP;
        SELECT * INTO load FROM fairq_internal.node_load(node);
        IF load.ready + load.leased + load.waiting > 0 THEN
            RAISE EXCEPTION 'node % has % tasks, of which % are leased', node, load.ready + load.leased + load.waiting, load.leased
                USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Call fairq.move_tasks(), and wait for the leases to end. Or say lost => true, if the server is lost for good.';
        END IF;
    END IF;
    DELETE FROM fairq.node n WHERE n.node = drop_node.node;
    IF EXISTS (SELECT FROM fairq.node n WHERE n.state = 'active') THEN
        PERFORM fairq_internal.move_schedules(node, true);
    END IF;
END
$$;
REVOKE ALL ON FUNCTION fairq.drop_node(int, boolean) FROM PUBLIC;
-- What differs between the nodes. Administration goes from node to node by their numbers,
-- so the first that has a queue has the last that was said of it: to repair is to go on.
-- Nothing is taken away that has tasks: a queue that is missing somewhere is created there.

-- Do one thing, if it is to be done; what has come of it.
CREATE FUNCTION fairq_internal.repair(statement text, wanted boolean)
RETURNS text LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF wanted IS NOT TRUE OR statement IS NULL THEN
        RETURN 'no';
    END IF;
    EXECUTE statement;
    RETURN 'yes';
EXCEPTION WHEN OTHERS THEN
    RETURN 'no: ' || SQLERRM;
END
$$;

-- What is wrong with the server of a node; no row: nothing.
CREATE FUNCTION fairq_internal.server_problems(number int)
RETURNS SETOF text LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    facts jsonb;
    own text := (SELECT extversion FROM pg_extension WHERE extname = 'pgfairq_cluster');
    says int;
    other int;
BEGIN
    facts := fairq_internal.node_facts(number);
    IF (facts ->> 'proxy')::boolean OR facts ->> 'version' IS NULL THEN
        RETURN NEXT 'the database is not a node: it does not have the extension pgfairq';
        RETURN;
    END IF;
    IF facts ->> 'version' <> own THEN
        RETURN NEXT format('has version %s, and the proxy %s%s', facts ->> 'version', own,
            CASE WHEN fairq_internal.version_fits(facts ->> 'version', own) THEN ', which is tolerated' ELSE '' END);
    END IF;
    IF (facts ->> 'standby')::boolean THEN
        RETURN NEXT 'is a standby: target_session_attrs=read-write finds the primary';
    END IF;
    says := fairq_internal.node_number(number);
    IF says <> number THEN
        RETURN NEXT format('says that it is node %s', says);
    END IF;
    FOR other IN SELECT n.node FROM fairq.node n WHERE n.node < number ORDER BY 1 LOOP
        BEGIN
            IF fairq_internal.node_facts(other) @> jsonb_build_object('system', facts -> 'system', 'started', facts -> 'started') THEN
                RETURN NEXT format('is the same server as node %s', other);
            END IF;
        EXCEPTION WHEN connection_failure THEN
            NULL;
        END;
    END LOOP;
    PERFORM FROM fairq_internal.node_load(number);
EXCEPTION WHEN OTHERS THEN
    RETURN NEXT SQLERRM;
END
$$;

-- Schedules that are missing at a node, or run where they should not, or nowhere.
CREATE FUNCTION fairq_internal.check_schedules(well int[], repair boolean,
    OUT node int, OUT object text, OUT problem text, OUT repaired text)
RETURNS SETOF record LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    definitions jsonb := '{}';
    d record;
    own jsonb;
    statement text;
BEGIN
    FOR d IN SELECT unnest(well) AS number LOOP
        definitions := definitions || jsonb_build_object(d.number::text,
            (SELECT coalesce(jsonb_object_agg(s ->> 'name', s), '{}') FROM fairq_internal.node_schedule_definitions(d.number) s));
    END LOOP;
    FOR d IN
        SELECT s.name, s.definition, n AS number, p.node AS noted FROM unnest(well) n
        CROSS JOIN (SELECT DISTINCT ON (one.key) one.key AS name, one.value AS definition
            FROM jsonb_each(definitions) e, jsonb_each(e.value) one ORDER BY one.key, e.key::int) s
        LEFT JOIN fairq.schedule_node p ON p.name = s.name ORDER BY 1, 3
    LOOP
        own := definitions -> d.number::text -> d.name;
        node := d.number;
        object := format('schedule "%s"', d.name);
        IF own IS NULL THEN
            problem := 'is missing';
            statement := format('SELECT fairq_internal.node_define_schedule(%s, %L)', d.number, d.definition);
        ELSIF (own ->> 'active')::boolean AND d.noted IS DISTINCT FROM d.number THEN
            problem := coalesce(format('runs here, and should at node %s', d.noted), 'runs here, and should not');
            statement := format('SELECT fairq_internal.node_stop_schedule(%s, %L)', d.number, d.name);
        ELSIF NOT (own ->> 'active')::boolean AND d.noted = d.number THEN
            problem := 'does not run here, and should';
            statement := format('SELECT fairq_internal.node_start_schedule(%s, %L, NULL)', d.number, d.name);
        ELSE
            CONTINUE;
        END IF;
        repaired := fairq_internal.repair(statement, repair);
        RETURN NEXT;
    END LOOP;
END
$$;

CREATE FUNCTION fairq.check_cluster(repair boolean DEFAULT false,
    OUT node int, OUT object text, OUT problem text, OUT repaired text)
RETURNS SETOF record LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    well int[] := '{}';
    number int;
    problems text[];
    d record;
    definitions jsonb := '{}';
    first int;
    reference jsonb;
    own jsonb;
BEGIN
    IF repair THEN
        PERFORM fairq_internal.require_owner('check_cluster');
        PERFORM fairq_internal.lock_nodes();
    END IF;
    FOR number IN SELECT n.node FROM fairq.node n ORDER BY 1 LOOP
        problems := array(SELECT fairq_internal.server_problems(number));
        RETURN QUERY SELECT number, 'server'::text, p, 'no'::text FROM unnest(problems) p;
        CONTINUE WHEN EXISTS (SELECT FROM unnest(problems) p WHERE p !~ 'tolerated$');
        well := well || number;
        definitions := definitions || jsonb_build_object(number::text,
            (SELECT coalesce(jsonb_object_agg(q.queue, q.definition), '{}') FROM fairq_internal.node_queue_definitions(number) q));
    END LOOP;
    FOR number IN SELECT unnest(well) LOOP
        FOR d IN SELECT * FROM fairq_internal.node_departures(number) LOOP
            node := number;
            object := format('queue "%s"', d.queue);
            problem := format('%s tasks are on their way to node %s', d.tasks, d.target);
            repaired := fairq_internal.repair(format('SELECT fairq_internal.lock_moves(%1$s), fairq_internal.finish_move(%1$s, %2$L, %3$s, %4$L)',
                number, d.batch, d.target, d.queue), repair);
            RETURN NEXT;
        END LOOP;
    END LOOP;
    FOR d IN
        SELECT q AS queue, n AS number FROM unnest(well) n
        CROSS JOIN (SELECT DISTINCT jsonb_object_keys(value) AS q FROM jsonb_each(definitions)) queues ORDER BY 1, 2
    LOOP
        SELECT n INTO first FROM unnest(well) n WHERE definitions -> n::text ? d.queue ORDER BY 1 LIMIT 1;
        reference := definitions -> first::text -> d.queue;
        own := definitions -> d.number::text -> d.queue;
        node := d.number;
        object := format('queue "%s"', d.queue);
        problem := CASE WHEN own IS NULL THEN 'is missing'
            ELSE format('differs from that of node %s: %s', first, fairq_internal.definitions_differ(reference, own, true)) END;
        CONTINUE WHEN problem IS NULL OR problem ~ ': $';
        repaired := CASE WHEN own -> 'settings' -> 'policy' <> reference -> 'settings' -> 'policy' THEN 'no: a policy cannot be changed'
            ELSE fairq_internal.repair(format('SELECT fairq_internal.node_define_queue(%s, %L, %L, true)', d.number, d.queue, reference), repair) END;
        RETURN NEXT;
    END LOOP;
    RETURN QUERY SELECT * FROM fairq_internal.check_schedules(well, repair);
END
$$;
REVOKE ALL ON FUNCTION fairq.check_cluster(boolean) FROM PUBLIC;
-- All nodes have a schedule, and it is active at one: at which is noted here, so that it
-- is known also when that node is lost.
CREATE TABLE fairq.schedule_node (
    name pg_catalog.text COLLATE pg_catalog."C" NOT NULL PRIMARY KEY,
    node pg_catalog.int4 NOT NULL
);
SELECT pg_catalog.pg_extension_config_dump('fairq.schedule_node', '');
REVOKE ALL ON fairq.schedule_node FROM PUBLIC;

CREATE FUNCTION fairq_internal.place_schedule(name text)
RETURNS int LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_place_schedule';

CREATE FUNCTION fairq_internal.node_stop_schedule(node int, name text)
RETURNS jsonb LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_of_node';

CREATE FUNCTION fairq_internal.at_node_stop_schedule(int, text)
RETURNS jsonb LANGUAGE plproxy VOLATILE
AS $$ CLUSTER 'pgfairq'; RUN ON $1; SELECT fairq_internal.stop_schedule($2); $$;

CREATE FUNCTION fairq_internal.node_start_schedule(node int, name text, times jsonb)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_of_node';

CREATE FUNCTION fairq_internal.at_node_start_schedule(int, text, jsonb)
RETURNS boolean LANGUAGE plproxy VOLATILE
AS $$ CLUSTER 'pgfairq'; RUN ON $1; SELECT fairq_internal.start_schedule($2, $3); $$;

CREATE FUNCTION fairq_internal.node_schedule_definitions(node int)
RETURNS SETOF jsonb LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_of_node';

CREATE FUNCTION fairq_internal.at_node_schedule_definitions(int)
RETURNS SETOF jsonb LANGUAGE plproxy VOLATILE
AS $$ CLUSTER 'pgfairq'; RUN ON $1; SELECT s FROM fairq_internal.schedule_definitions() s; $$;

CREATE FUNCTION fairq_internal.node_define_schedule(node int, definition jsonb)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_of_node';

CREATE FUNCTION fairq_internal.at_node_define_schedule(int, jsonb)
RETURNS boolean LANGUAGE plproxy VOLATILE
AS $$ CLUSTER 'pgfairq'; RUN ON $1; SELECT fairq_internal.define_schedule($2); $$;

-- Give a node the schedules of the others, which it does not run.
CREATE FUNCTION fairq_internal.copy_schedules(number int)
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    other int;
BEGIN
    FOR other IN SELECT n.node FROM fairq.node n WHERE n.node <> number ORDER BY 1 LOOP
        BEGIN
            PERFORM fairq_internal.node_define_schedule(number, s) FROM fairq_internal.node_schedule_definitions(other) s;
            RETURN;
        EXCEPTION WHEN connection_failure THEN
            CONTINUE;
        END;
    END LOOP;
END
$$;

-- The schedules that a node runs go to others: first they stop there, then they start at
-- the next with the times that they had. A lost node is not asked: what it has run is not
-- known, so they go on from now, and no tick is given twice. To repeat it goes on.
CREATE FUNCTION fairq_internal.move_schedules(number int, lost boolean)
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    s record;
    target int;
    times jsonb;
BEGIN
    FOR s IN SELECT n.name FROM fairq.schedule_node n WHERE n.node = number ORDER BY 1 LOOP
        target := fairq_internal.place_schedule(s.name);
        BEGIN
            times := CASE WHEN NOT lost THEN fairq_internal.node_stop_schedule(number, s.name) END;
            PERFORM fairq_internal.node_start_schedule(target, s.name, times);
            UPDATE fairq.schedule_node n SET node = target WHERE n.name = s.name;
        EXCEPTION WHEN connection_failure THEN
            RAISE WARNING 'schedule "%" of node % did not move: %', s.name, number, SQLERRM
                USING ERRCODE = 'connection_failure', HINT = 'Call fairq.drain_node() again when the node is there, or fairq.drop_node() if it is lost.';
        WHEN OTHERS THEN
            RAISE WARNING 'schedule "%" of node % did not move: %', s.name, number, SQLERRM
                USING ERRCODE = SQLSTATE, HINT = 'Others have. Call fairq.drain_node() again when the cause is gone.';
        END;
    END LOOP;
END
$$;
-- To how many nodes the tasks of a queue go, or of one of its groups.
CREATE FUNCTION fairq.set_spread(queue text, width int, group_key text DEFAULT NULL)
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
    PERFORM fairq_internal.require_owner('set_spread');
    IF queue IS NULL THEN
        RAISE EXCEPTION 'argument "queue" must not be null'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Give the name of a queue.';
    ELSIF width IS NULL OR width < 1 OR width > 32767 THEN
        RAISE EXCEPTION 'invalid value for argument "width": "%"', width
            USING ERRCODE = 'invalid_parameter_value', HINT = 'It must be 1 or more. fairq.reset_spread() takes it away.';
    END IF;
    PERFORM fairq_internal.lock_nodes();
    UPDATE fairq.spread s SET width = set_spread.width, nodes = NULL
        WHERE s.queue = set_spread.queue AND s.group_key IS NOT DISTINCT FROM set_spread.group_key;
    IF NOT FOUND THEN
        INSERT INTO fairq.spread (queue, group_key, width) VALUES (queue, group_key, width);
    END IF;
END
$$;
REVOKE ALL ON FUNCTION fairq.set_spread(text, int, text) FROM PUBLIC;

CREATE FUNCTION fairq.reset_spread(queue text, group_key text DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
    PERFORM fairq_internal.require_owner('reset_spread');
    PERFORM fairq_internal.lock_nodes();
    DELETE FROM fairq.spread s
        WHERE s.queue = reset_spread.queue AND s.group_key IS NOT DISTINCT FROM reset_spread.group_key;
    RETURN FOUND;
END
$$;
REVOKE ALL ON FUNCTION fairq.reset_spread(text, text) FROM PUBLIC;
CREATE OR REPLACE FUNCTION fairq.peek(queue text, max_tasks int DEFAULT 10)
RETURNS SETOF fairq.task LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_cluster_peek';

CREATE OR REPLACE FUNCTION fairq.get_task(queue text, id bigint)
RETURNS SETOF fairq.task_status LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1
AS 'MODULE_PATHNAME', 'fairq_cluster_get_task';

CREATE OR REPLACE FUNCTION fairq.tasks(queue text, state text DEFAULT NULL, group_key text DEFAULT NULL)
RETURNS SETOF fairq.task_status LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1000
AS 'MODULE_PATHNAME', 'fairq_cluster_tasks';

CREATE OR REPLACE FUNCTION fairq.get_task_by_key(queue text, unique_key text)
RETURNS SETOF fairq.task_status LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1
AS 'MODULE_PATHNAME', 'fairq_cluster_get_task_by_key';

CREATE OR REPLACE FUNCTION fairq.get_done_task(queue text, id bigint, done_at timestamptz DEFAULT NULL)
RETURNS SETOF fairq.task_done LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1
AS 'MODULE_PATHNAME', 'fairq_cluster_get_done_task';

CREATE OR REPLACE FUNCTION fairq.cancel(queue text, id bigint)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_cancel';

CREATE OR REPLACE FUNCTION fairq.revive(queue text, id bigint)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_revive';

CREATE OR REPLACE FUNCTION fairq.revive_group(queue text, group_key text)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_revive_group';

CREATE OR REPLACE FUNCTION fairq.revive_all(queue text)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_revive_all';

CREATE OR REPLACE FUNCTION fairq.reset_stats(queue text)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_reset_stats';

CREATE OR REPLACE FUNCTION fairq.get_task_position(queue text, id bigint)
RETURNS fairq.task_position LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cluster_get_task_position';

-- The rows that a view has at the nodes: each with the number of its node, and those of
-- the nodes that are out of reach. The columns that a node is asked for are these. Its
-- roles and tables are text, for they need not exist here.
CREATE FUNCTION fairq_internal.rows_of_queues(
    OUT queue text, OUT owner text, OUT relation text, OUT policy text, OUT buckets int, OUT lease interval,
    OUT max_attempts int, OUT backoff_base interval, OUT backoff_max interval, OUT max_ready bigint,
    OUT max_ready_per_group bigint, OUT max_depth bigint, OUT keep_done interval, OUT durable_leases boolean,
    OUT charge text, OUT notify boolean, OUT group_weight real, OUT group_max_leased int, OUT group_rate real,
    OUT group_burst int, OUT paused boolean, OUT expire_after interval, OUT backoff_jitter float8,
    OUT default_priority bigint, OUT group_required boolean, OUT node int, OUT missing int[])
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 30
AS 'MODULE_PATHNAME', 'fairq_cluster_rows_of_view';

CREATE FUNCTION fairq_internal.rows_of_queue_stats(
    OUT queue text, OUT ready bigint, OUT leased bigint, OUT scheduled bigint,
    OUT overflow bigint, OUT held bigint, OUT dead bigint, OUT oldest_ready_age interval,
    OUT enqueued bigint, OUT claimed bigint, OUT acked bigint, OUT nacked bigint,
    OUT released bigint, OUT expired bigint, OUT cancelled bigint, OUT dead_total bigint,
    OUT swept bigint,
    OUT enqueue_rate float8, OUT claim_rate float8, OUT ack_rate float8,
    OUT wait_p50 interval, OUT wait_p95 interval, OUT wait_p99 interval,
    OUT run_p50 interval, OUT run_p95 interval, OUT run_p99 interval,
    OUT payload_avg bigint, OUT payload_p50 bigint, OUT payload_p95 bigint, OUT payload_max bigint,
    OUT stats_reset timestamptz, OUT expired_tasks bigint, OUT deduplicated bigint, OUT snoozed bigint,
    OUT node int, OUT missing int[])
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 30
AS 'MODULE_PATHNAME', 'fairq_cluster_rows_of_view';

CREATE FUNCTION fairq_internal.rows_of_group_stats(
    OUT queue text, OUT group_key text, OUT ready bigint, OUT overflow bigint, OUT leased bigint,
    OUT weight real, OUT max_leased int, OUT rate real, OUT burst int, OUT tokens float8, OUT paused boolean,
    OUT served bigint, OUT served_cost float8, OUT expected_share float8,
    OUT oldest_wait interval, OUT run_time interval, OUT all_served_cost float8, OUT node int, OUT missing int[])
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 300
AS 'MODULE_PATHNAME', 'fairq_cluster_rows_of_view';

CREATE FUNCTION fairq_internal.rows_of_group_settings(
    OUT queue text, OUT group_key text, OUT weight real, OUT max_leased int, OUT rate real, OUT burst int,
    OUT paused boolean, OUT node int, OUT missing int[])
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 300
AS 'MODULE_PATHNAME', 'fairq_cluster_rows_of_view';

CREATE FUNCTION fairq_internal.rows_of_bucket_stats(
    OUT queue text, OUT bucket int, OUT class int, OUT ready bigint, OUT complete boolean,
    OUT next_address fairq.address, OUT frontier fairq.address, OUT node int, OUT missing int[])
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 300
AS 'MODULE_PATHNAME', 'fairq_cluster_rows_of_view';

CREATE FUNCTION fairq_internal.rows_of_leases(
    OUT queue text, OUT id bigint, OUT receipt uuid, OUT lease_until timestamptz,
    OUT attempt int, OUT state text, OUT pid int, OUT node int, OUT missing int[])
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 300
AS 'MODULE_PATHNAME', 'fairq_cluster_rows_of_view';

CREATE FUNCTION fairq_internal.rows_of_sessions(
    OUT session uuid, OUT name text, OUT role text, OUT opened_at timestamptz,
    OUT ttl interval, OUT alive_until timestamptz, OUT bound boolean, OUT pid int, OUT leases int,
    OUT node int, OUT missing int[])
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 30
AS 'MODULE_PATHNAME', 'fairq_cluster_rows_of_view';

CREATE FUNCTION fairq_internal.rows_of_dead_tasks(
    OUT queue text, OUT id bigint, OUT group_key text, OUT payload jsonb, OUT headers jsonb,
    OUT priority bigint, OUT attempts int, OUT enqueued_at timestamptz, OUT last_error text,
    OUT node int, OUT missing int[])
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1000
AS 'MODULE_PATHNAME', 'fairq_cluster_rows_of_view';

CREATE FUNCTION fairq_internal.rows_of_done_tasks(
    OUT queue text, OUT id bigint, OUT enqueued_at timestamptz, OUT claimed_at timestamptz, OUT done_at timestamptz,
    OUT run_at timestamptz, OUT priority bigint, OUT cost real, OUT attempts int, OUT outcome text, OUT group_key text,
    OUT payload jsonb, OUT headers jsonb, OUT unique_key text, OUT last_error text, OUT result jsonb,
    OUT node int, OUT missing int[])
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 3000
AS 'MODULE_PATHNAME', 'fairq_cluster_rows_of_view';

CREATE FUNCTION fairq_internal.rows_of_topics(OUT topic text, OUT queue text, OUT node int, OUT missing int[])
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 30
AS 'MODULE_PATHNAME', 'fairq_cluster_rows_of_view';

CREATE FUNCTION fairq_internal.rows_of_dependencies(
    OUT queue text, OUT task bigint, OUT predecessor bigint, OUT on_dead text, OUT failed boolean,
    OUT node int, OUT missing int[])
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 300
AS 'MODULE_PATHNAME', 'fairq_cluster_rows_of_view';

CREATE FUNCTION fairq_internal.rows_of_schedules(
    OUT name text, OUT queue text, OUT owner text, OUT cron text, OUT timezone text, OUT catch_up text,
    OUT overlap boolean, OUT active boolean, OUT next_run timestamptz, OUT last_run timestamptz,
    OUT last_task bigint, OUT skipped bigint, OUT failures int, OUT last_error text, OUT last_error_at timestamptz,
    OUT group_key text, OUT priority bigint, OUT cost float8, OUT payload jsonb, OUT headers jsonb,
    OUT node int, OUT missing int[])
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 30
AS 'MODULE_PATHNAME', 'fairq_cluster_rows_of_view';

-- What is the same at all nodes, unless fairq.check_cluster() says that it is not, is shown
-- as the node has it that has the lowest number of those in reach.
CREATE VIEW fairq.queues AS
SELECT DISTINCT ON (queue) queue, owner, relation, policy, buckets, lease, max_attempts, backoff_base, backoff_max,
    max_ready, max_ready_per_group, max_depth, keep_done, durable_leases, charge, notify, group_weight, group_max_leased,
    group_rate, group_burst, paused, expire_after, backoff_jitter, default_priority, group_required, missing
FROM fairq_internal.rows_of_queues()
ORDER BY queue, node;

CREATE VIEW fairq.group_settings AS
SELECT DISTINCT ON (queue, group_key) queue, group_key, weight, max_leased, rate, burst, paused, missing
FROM fairq_internal.rows_of_group_settings()
ORDER BY queue, group_key, node;

CREATE VIEW fairq.topics AS
SELECT DISTINCT topic, queue, missing FROM fairq_internal.rows_of_topics();

-- One node has a schedule that is active.
CREATE VIEW fairq.schedules AS
SELECT DISTINCT ON (name) name, queue, owner, cron, timezone, catch_up, overlap, active, next_run, last_run, last_task,
    skipped, failures, last_error, last_error_at, group_key, priority, cost, payload, headers, missing
FROM fairq_internal.rows_of_schedules()
ORDER BY name, active DESC, last_run DESC NULLS LAST, node;

-- A node that cannot say how many tasks there are makes the sum null. Quantiles are those
-- of the node that has the greatest: not below the true ones.
CREATE VIEW fairq.queue_stats AS
SELECT queue,
    CASE WHEN bool_and(ready IS NOT NULL) THEN sum(ready)::bigint END AS ready,
    CASE WHEN bool_and(leased IS NOT NULL) THEN sum(leased)::bigint END AS leased,
    CASE WHEN bool_and(scheduled IS NOT NULL) THEN sum(scheduled)::bigint END AS scheduled,
    CASE WHEN bool_and(overflow IS NOT NULL) THEN sum(overflow)::bigint END AS overflow,
    CASE WHEN bool_and(held IS NOT NULL) THEN sum(held)::bigint END AS held,
    CASE WHEN bool_and(dead IS NOT NULL) THEN sum(dead)::bigint END AS dead,
    max(oldest_ready_age) AS oldest_ready_age,
    sum(enqueued)::bigint AS enqueued, sum(claimed)::bigint AS claimed, sum(acked)::bigint AS acked,
    sum(nacked)::bigint AS nacked, sum(released)::bigint AS released, sum(expired)::bigint AS expired,
    sum(cancelled)::bigint AS cancelled, sum(dead_total)::bigint AS dead_total, sum(swept)::bigint AS swept,
    sum(enqueue_rate) AS enqueue_rate, sum(claim_rate) AS claim_rate, sum(ack_rate) AS ack_rate,
    max(wait_p50) AS wait_p50, max(wait_p95) AS wait_p95, max(wait_p99) AS wait_p99,
    max(run_p50) AS run_p50, max(run_p95) AS run_p95, max(run_p99) AS run_p99,
    (sum(payload_avg * enqueued::numeric) / nullif(sum(enqueued) FILTER (WHERE payload_avg IS NOT NULL), 0))::bigint AS payload_avg,
    max(payload_p50) AS payload_p50, max(payload_p95) AS payload_p95, max(payload_max) AS payload_max,
    min(stats_reset) AS stats_reset, sum(expired_tasks)::bigint AS expired_tasks,
    sum(deduplicated)::bigint AS deduplicated, sum(snoozed)::bigint AS snoozed, min(missing) AS missing
FROM fairq_internal.rows_of_queue_stats()
GROUP BY queue;

-- A share is of what all nodes have served of a queue while the group had work there.
CREATE VIEW fairq.group_stats AS
SELECT queue, group_key, ready, overflow, leased, weight, max_leased, rate, burst, tokens, paused, served, served_cost,
    share, expected_share, share - expected_share AS share_error, oldest_wait, run_time, all_served_cost, missing
FROM (
    SELECT g.*, CASE WHEN all_served_cost > 0 THEN served_cost / all_served_cost END AS share,
        CASE WHEN NOT fair THEN NULL WHEN all_served_cost > 0 THEN due / all_served_cost
            ELSE weight / sum(weight) OVER (PARTITION BY queue) END AS expected_share
    FROM (
        SELECT queue, group_key, sum(ready)::bigint AS ready, sum(overflow)::bigint AS overflow, sum(leased)::bigint AS leased,
            (array_agg(weight ORDER BY node))[1] AS weight, (array_agg(max_leased ORDER BY node))[1] AS max_leased,
            (array_agg(rate ORDER BY node))[1] AS rate, (array_agg(burst ORDER BY node))[1] AS burst,
            sum(tokens) AS tokens, (array_agg(paused ORDER BY node))[1] AS paused,
            sum(served)::bigint AS served, sum(served_cost) AS served_cost, max(oldest_wait) AS oldest_wait,
            sum(run_time) AS run_time, sum(all_served_cost) AS all_served_cost,
            sum(expected_share * all_served_cost) AS due, bool_or(expected_share IS NOT NULL) AS fair, min(missing) AS missing
        FROM fairq_internal.rows_of_group_stats()
        GROUP BY queue, group_key) g) s;

CREATE VIEW fairq.bucket_stats AS
SELECT queue, bucket, class, ready, complete, next_address, frontier, node, missing FROM fairq_internal.rows_of_bucket_stats();

CREATE VIEW fairq.leases AS
SELECT queue, id, receipt, lease_until, attempt, state, pid, missing FROM fairq_internal.rows_of_leases();

CREATE VIEW fairq.sessions AS
SELECT session, name, role, opened_at, ttl, alive_until, bound, pid, leases, node, missing FROM fairq_internal.rows_of_sessions();

CREATE VIEW fairq.dead_tasks AS
SELECT queue, id, group_key, payload, headers, priority, attempts, enqueued_at, last_error, missing
FROM fairq_internal.rows_of_dead_tasks();

CREATE VIEW fairq.done_tasks AS
SELECT queue, id, enqueued_at, claimed_at, done_at, run_at, priority, cost, attempts, outcome, group_key, payload, headers,
    unique_key, last_error, result, missing
FROM fairq_internal.rows_of_done_tasks();

CREATE VIEW fairq.dependencies AS
SELECT queue, task, predecessor, on_dead, failed, missing FROM fairq_internal.rows_of_dependencies();

GRANT SELECT ON fairq.queues, fairq.group_settings, fairq.topics, fairq.schedules, fairq.queue_stats, fairq.group_stats,
    fairq.bucket_stats, fairq.leases, fairq.sessions, fairq.dead_tasks, fairq.done_tasks, fairq.dependencies TO PUBLIC;
-- What the nodes say of themselves. One that is out of reach has a row all the same.
CREATE FUNCTION fairq_internal.node_report(node int, OUT version text, OUT ready bigint, OUT leased bigint, OUT waiting bigint,
    OUT sessions bigint, OUT connections bigint, OUT standbys int, OUT standby_lag interval)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1
AS 'MODULE_PATHNAME', 'fairq_cluster_of_node';

CREATE FUNCTION fairq_internal.at_node_report(int, OUT version text, OUT ready bigint, OUT leased bigint, OUT waiting bigint,
    OUT sessions bigint, OUT connections bigint, OUT standbys int, OUT standby_lag interval)
RETURNS SETOF record LANGUAGE plproxy VOLATILE
AS $$
    CLUSTER 'pgfairq'; RUN ON $1;
    SELECT (SELECT e.extversion FROM pg_catalog.pg_extension e WHERE e.extname = 'pgfairq') AS version,
        coalesce(sum(s.ready), 0)::bigint AS ready, coalesce(sum(s.leased), 0)::bigint AS leased,
        coalesce(sum(s.scheduled + s.overflow + s.held + s.dead), 0)::bigint AS waiting,
        (SELECT count(*) FROM fairq_internal.open_sessions()) AS sessions,
        (SELECT count(*) FROM pg_catalog.pg_stat_activity a
            WHERE a.datname = pg_catalog.current_database() AND a.usename IS NOT NULL) AS connections,
        (SELECT count(*)::int FROM pg_catalog.pg_stat_replication r) AS standbys,
        (SELECT max(r.replay_lag) FROM pg_catalog.pg_stat_replication r) AS standby_lag
    FROM fairq_internal.stats_of_queues() s;
$$;

CREATE FUNCTION fairq_internal.reports_of_nodes(OUT node int, OUT state text, OUT reachable boolean, OUT version text,
    OUT ready bigint, OUT leased bigint, OUT waiting bigint, OUT sessions bigint, OUT connections bigint, OUT standbys int, OUT standby_lag interval, OUT problem text)
RETURNS SETOF record LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    FOR node, state IN SELECT n.node, n.state FROM fairq.node n ORDER BY 1 LOOP
        reachable := true;
        version := NULL; ready := NULL; leased := NULL; waiting := NULL; sessions := NULL; connections := NULL; standbys := NULL; standby_lag := NULL; problem := NULL;
        BEGIN
            SELECT r.version, r.ready, r.leased, r.waiting, r.sessions, r.connections, r.standbys, r.standby_lag
                INTO version, ready, leased, waiting, sessions, connections, standbys, standby_lag
                FROM fairq_internal.node_report(node) r;
        EXCEPTION
            WHEN query_canceled THEN
                RAISE;
            WHEN connection_failure THEN
                reachable := false;
                problem := SQLERRM;
            WHEN OTHERS THEN
                problem := SQLERRM;
        END;
        RETURN NEXT;
    END LOOP;
END
$$;

CREATE VIEW fairq.nodes AS
SELECT node, state, reachable, version, ready, leased, waiting, sessions, connections, standbys, standby_lag, problem FROM fairq_internal.reports_of_nodes();
GRANT SELECT ON fairq.nodes TO PUBLIC;

-- The node that a worker is to connect to: the one with the fewest connections of those
-- that are there, and not one that is drained if there is another. Connections are in the
-- options of the server, which everyone may read; they have no passwords.
CREATE FUNCTION fairq.worker_node(queue text)
RETURNS TABLE (node int, connection text) LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    IF worker_node.queue IS NULL THEN
        RAISE EXCEPTION 'argument "queue" must not be null'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Give the name of a queue.';
    END IF;
    PERFORM FROM fairq.queues q WHERE q.queue = worker_node.queue;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'queue "%" does not exist', worker_node.queue
            USING ERRCODE = 'undefined_object', HINT = 'The view fairq.queues has those that there are.';
    END IF;
    SELECT r.node INTO node FROM fairq_internal.reports_of_nodes() r WHERE r.reachable AND r.problem IS NULL
        ORDER BY r.state, r.connections, random() LIMIT 1;
    IF node IS NULL THEN
        RAISE EXCEPTION 'no node is in reach'
            USING ERRCODE = 'connection_failure', HINT = 'Try again; the view fairq.nodes says what is wrong.';
    END IF;
    SELECT substr(o.option, strpos(o.option, '=') + 1) INTO connection
        FROM pg_foreign_server s, unnest(s.srvoptions) o (option), fairq.node n
        WHERE s.srvname = 'pgfairq' AND n.node = worker_node.node AND split_part(o.option, '=', 1) = 'p' || n.place;
    RETURN NEXT;
END
$$;
-- The twin of a function: the call at one node, which PL/Proxy carries. All are made
-- here, from the functions above, so each is the same call with a place before it.
-- Columns are named, so that a node of another version may have more.
CREATE FUNCTION fairq_internal.make_twins()
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    f record;
    arguments text;
    parameters text;
    columns text;
BEGIN
    FOR f IN
        SELECT p.*, t.typtype, t.typrelid FROM pg_proc p JOIN pg_type t ON t.oid = p.prorettype
        WHERE p.pronamespace = 'fairq'::regnamespace AND p.prokind = 'f' AND p.prosrc LIKE 'fairq\_cluster\_%'
    LOOP
        SELECT coalesce(string_agg(', ' || format_type(type, NULL), '' ORDER BY n), ''),
            coalesce(string_agg('$' || n + 1, ', ' ORDER BY n), '')
            INTO arguments, parameters
            FROM unnest(f.proargtypes::oid[]) WITH ORDINALITY AS argument (type, n);
        -- a value alone is cheaper to plan at the node than rows
        columns := CASE WHEN f.proretset THEN '* FROM' ELSE '' END;
        IF f.typtype = 'c' THEN
            SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) || ' FROM' INTO columns
                FROM pg_attribute a WHERE a.attrelid = f.typrelid AND a.attnum > 0 AND NOT a.attisdropped;
        END IF;
        EXECUTE format('CREATE OR REPLACE FUNCTION fairq_internal.%I(int%s) RETURNS %s%s LANGUAGE plproxy VOLATILE AS %L',
            'at_' || f.proname, arguments, CASE WHEN f.proretset THEN 'SETOF ' ELSE '' END,
            format_type(f.prorettype, NULL),
            format('CLUSTER ''pgfairq''; RUN ON $1; SELECT %s fairq.%I(%s);', columns, f.proname, parameters));
        EXECUTE format('COMMENT ON FUNCTION fairq_internal.%I IS %L', 'at_' || f.proname,
            format('fairq.%s, called at the node of a place.', f.proname));
    END LOOP;

    -- Of a view: a twin of what returns its rows, with its columns but the last two.
    FOR f IN
        SELECT p.proname, substr(p.proname, length('rows_of_') + 1) AS view, p.proargnames, p.proallargtypes
        FROM pg_proc p
        WHERE p.pronamespace = 'fairq_internal'::regnamespace AND p.prosrc = 'fairq_cluster_rows_of_view'
    LOOP
        SELECT string_agg(format('%I::%s AS %1$I', name, format_type(type, NULL)), ', ' ORDER BY n),
            string_agg(format(', OUT %I %s', name, format_type(type, NULL)), '' ORDER BY n)
            INTO columns, arguments
            FROM unnest(f.proargnames, f.proallargtypes) WITH ORDINALITY AS argument (name, type, n)
            WHERE n <= cardinality(f.proargnames) - 2;
        EXECUTE format('CREATE OR REPLACE FUNCTION fairq_internal.%I(int%s) RETURNS SETOF record LANGUAGE plproxy VOLATILE AS %L',
            'at_' || f.proname, arguments,
            format('CLUSTER ''pgfairq''; RUN ON $1; SELECT %s FROM fairq.%I;', columns, f.view));
        EXECUTE format('COMMENT ON FUNCTION fairq_internal.%I IS %L', 'at_' || f.proname,
            format('The rows of fairq.%s at the node of a place.', f.view));
        EXECUTE format('COMMENT ON FUNCTION fairq_internal.%I IS %L', f.proname,
            format('The rows of fairq.%s at all nodes, each with the number of its node.', f.view));
    END LOOP;
END
$$;

SELECT fairq_internal.make_twins();

CREATE FUNCTION fairq_internal.at_this_node(int)
RETURNS int LANGUAGE plproxy VOLATILE
AS $$ CLUSTER 'pgfairq'; RUN ON $1; SELECT fairq.this_node(); $$;

CREATE FUNCTION fairq_internal.at_wait_ready(int, text[], interval)
RETURNS boolean LANGUAGE plproxy VOLATILE
AS $$ CLUSTER 'pgfairq'; RUN ON $1; SELECT fairq_internal.wait_ready($2, $3); $$;

-- What an enqueue asks of nodes besides.
CREATE FUNCTION fairq_internal.at_tasks_here(int, text, bigint[])
RETURNS bigint[] LANGUAGE plproxy VOLATILE
AS $$ CLUSTER 'pgfairq'; RUN ON $1; SELECT fairq_internal.tasks_here($2, $3); $$;

-- What a claim asks of nodes besides.
CREATE FUNCTION fairq_internal.at_front(int, text, OUT class int, OUT ready bigint, OUT front float8, OUT floor float8)
RETURNS SETOF record LANGUAGE plproxy VOLATILE
AS $$ CLUSTER 'pgfairq'; RUN ON $1; SELECT class, ready, front::float8 AS front, floor::float8 AS floor FROM fairq.front($2); $$;

CREATE FUNCTION fairq_internal.at_raise_floor(int, text, int, float8)
RETURNS bool LANGUAGE plproxy VOLATILE
AS $$ CLUSTER 'pgfairq'; RUN ON $1; SELECT fairq.raise_floor($2, $3, $4::numeric); $$;
-- What is not for applications is for the owner, unless everybody has to have it: the
-- functions of type address, which its operators call as whoever compares; and the ways of
-- what everybody may call to the nodes, which look at privileges there.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA fairq_internal FROM PUBLIC;
DO $$
DECLARE
    f regprocedure;
BEGIN
    FOR f IN
        SELECT p.oid FROM pg_catalog.pg_proc p
        WHERE p.pronamespace = 'fairq_internal'::regnamespace
        AND (p.proname ~ '^(address_|rows_of_|at_rows_of_)'
            OR p.proname = ANY ('{reports_of_nodes,node_report,at_node_report,at_this_node,at_wait_ready,at_tasks_here,at_front,at_raise_floor}')
            OR EXISTS (SELECT FROM pg_catalog.pg_proc a
                WHERE a.pronamespace = 'fairq'::regnamespace AND p.proname = 'at_' || a.proname))
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO PUBLIC', f);
    END LOOP;
END
$$;
COMMENT ON SCHEMA fairq IS 'pgfairq: task queues that are fair between groups';
COMMENT ON SCHEMA fairq_internal IS 'pgfairq: what is not for applications';
COMMENT ON FUNCTION fairq.create_queue IS 'Create a queue, which belongs to the caller.';
COMMENT ON FUNCTION fairq.alter_queue IS 'Change settings of a queue; null leaves one as it is.';
COMMENT ON FUNCTION fairq.drop_queue IS 'Drop a queue with all its tasks, those that are done included; returns false if there is none.';
COMMENT ON FUNCTION fairq.purge IS 'Remove every task of a queue that is not leased, the dead included; returns how many.';
COMMENT ON FUNCTION fairq.purge_group IS 'Remove every task of one group that is not leased, the dead included; returns how many.';
COMMENT ON FUNCTION fairq.forget_key IS 'Forget a unique key that is remembered (unique_for), so that a task of it can be made anew; returns whether it was.';
COMMENT ON FUNCTION fairq.forget_keys IS 'Forget all unique keys of a queue that are remembered (unique_for); returns how many.';
COMMENT ON FUNCTION fairq.pause IS 'Pause a queue: claims return nothing of it until fairq.resume().';
COMMENT ON FUNCTION fairq.resume IS 'Let claims from a paused queue go on.';
COMMENT ON FUNCTION fairq.pause_group IS 'Pause a group: claims return none of its tasks until fairq.resume_group().';
COMMENT ON FUNCTION fairq.resume_group IS 'Let claims of the tasks of a paused group go on.';
COMMENT ON FUNCTION fairq.set_group IS 'Set the weight, the limit of tasks in flight and the rate of a group; null leaves one as it is.';
COMMENT ON FUNCTION fairq.reset_group IS 'Take away what a group was given, a pause included; returns false if it had nothing of its own.';
COMMENT ON FUNCTION fairq.set_group_defaults IS 'Set what each group of a queue has that was not given something else; null leaves a setting as it is.';
COMMENT ON FUNCTION fairq.maintain IS 'Do by hand what the background worker does for a queue; returns how many tasks that were.';
COMMENT ON FUNCTION fairq.reset_stats IS 'Count anew what the view fairq.queue_stats shows of a queue.';
COMMENT ON FUNCTION fairq.node_of_id IS 'The number of the node that a task is of, by its id; null if no node gives such an id.';
COMMENT ON FUNCTION fairq.node_of_receipt IS 'The number of the node that a lease is of, by its receipt; null if it is no receipt.';
COMMENT ON FUNCTION fairq.node_of_session IS 'The number of the node that a session is of; null if it is no session.';
COMMENT ON FUNCTION fairq.enqueue IS 'Enqueue a task, which exists when the transaction commits; returns its id.';
COMMENT ON FUNCTION fairq.enqueue_many IS 'Enqueue several tasks; returns their ids in the order given.';
COMMENT ON FUNCTION fairq.subscribe IS 'Have a queue get a task of everything that is published to a topic.';
COMMENT ON FUNCTION fairq.unsubscribe IS 'End the subscription of a queue to a topic; returns false if there is none.';
COMMENT ON FUNCTION fairq.publish IS 'Enqueue a task in every queue that is subscribed to the topic; returns in how many.';
COMMENT ON FUNCTION fairq.schedule IS 'Make or replace a schedule, by which a task is enqueued again and again; returns its next time.';
COMMENT ON FUNCTION fairq.unschedule IS 'Remove a schedule, but not the tasks it has enqueued; returns false if there is none.';
COMMENT ON FUNCTION fairq.claim IS 'Lease up to max_tasks tasks of a queue, in its order; returns them with their receipts.';
COMMENT ON FUNCTION fairq.claim_any IS 'Lease up to max_tasks tasks of several queues, from the queues in the order given; returns them with their receipts.';
COMMENT ON FUNCTION fairq.ack IS 'Say that a task is done, with a result if there is one; returns false if the lease is lost.';
COMMENT ON FUNCTION fairq.ack_many IS 'Say that tasks are done; returns the receipts that were good.';
COMMENT ON FUNCTION fairq.ack_and_claim IS 'Say that tasks are done and claim others in one call; returns the tasks that were claimed.';
COMMENT ON FUNCTION fairq.nack IS 'Say that an attempt failed, so that the task is tried again, or is dead: after the last attempt, or at once if final; returns false if the lease is lost.';
COMMENT ON FUNCTION fairq.nack_many IS 'Say that attempts failed, with an error for each or one for all, and whether there is another; returns the receipts that were good.';
COMMENT ON FUNCTION fairq.set_progress IS 'Write into the headers of a leased task how far it is; returns false if the lease is lost, or the headers are no object.';
COMMENT ON FUNCTION fairq.extend IS 'Let a lease end so long from now; returns when that is, null if the lease is lost.';
COMMENT ON FUNCTION fairq.extend_many IS 'Let leases end so long from now; returns the receipts that were good.';
COMMENT ON FUNCTION fairq.release IS 'Give a task back without counting an attempt, at once or after a delay; returns false if the lease is lost.';
COMMENT ON FUNCTION fairq.release_many IS 'Give tasks back without counting an attempt, at once or after a delay; returns the receipts that were good.';
COMMENT ON FUNCTION fairq.pop IS 'Claim and acknowledge tasks in the caller''s transaction: a rollback puts them back; returns the tasks.';
COMMENT ON PROCEDURE fairq.wait IS 'Wait until something may be claimable in a queue, or until the timeout.';
COMMENT ON PROCEDURE fairq.wait_any IS 'Wait until something may be claimable in one of several queues, or until the timeout.';
COMMENT ON FUNCTION fairq.await IS 'Wait until a task has ended, or until the timeout; returns its outcome or its present state.';
COMMENT ON FUNCTION fairq.open_session IS 'Open a session, the sign of life of a worker; returns its name for claims and heartbeats.';
COMMENT ON FUNCTION fairq.heartbeat IS 'Keep a session alive for another ttl; returns false if it is over, and its leases are lost.';
COMMENT ON FUNCTION fairq.close_session IS 'End a session and give its leases back without counting an attempt; returns how many.';
COMMENT ON FUNCTION fairq.my_buckets IS 'Return the buckets of a queue that are dealt to a session.';
COMMENT ON FUNCTION fairq.peek IS 'Return what fairq.claim() would return next, in order, without leasing it.';
COMMENT ON FUNCTION fairq.get_task IS 'Return one task in whatever state, or no row if there is none.';
COMMENT ON FUNCTION fairq.get_task_by_key IS 'Return the task that has a unique key and is not dead, or no row if there is none.';
COMMENT ON FUNCTION fairq.get_done_task IS 'Return what is kept of a done task, of several of one id that of a time or the latest; no row if nothing is.';
COMMENT ON FUNCTION fairq.get_task_position IS 'Return how many ready tasks are ahead of a task, and about when it will start.';
COMMENT ON FUNCTION fairq.tasks IS 'Return all tasks of a queue, or those of one state or one group, in no order.';
COMMENT ON FUNCTION fairq.cancel IS 'Remove a task, whose lease is lost if it has one; returns false if there is no such task.';
COMMENT ON FUNCTION fairq.revive IS 'Make a dead task ready again, with all its attempts; returns how many that were.';
COMMENT ON FUNCTION fairq.revive_group IS 'Make all dead tasks of a group ready again, with all their attempts; returns how many.';
COMMENT ON FUNCTION fairq.revive_all IS 'Make all dead tasks of a queue ready again, with all their attempts; returns how many.';
COMMENT ON TYPE fairq.address IS 'A task''s place in the fair order, written (bucket,block,slot) or (bucket,class:block,slot).';
COMMENT ON FUNCTION fairq.bucket IS 'Return the bucket of an address: which of the queue''s independent parts it is in.';
COMMENT ON FUNCTION fairq.class IS 'Return the priority class of an address, 0 to 9, the lower first.';
COMMENT ON FUNCTION fairq.block IS 'Return the block of an address: the virtual time at which the task is to start.';
COMMENT ON FUNCTION fairq.slot IS 'Return the slot of an address: the number of its group, which decides between tasks of one block.';
COMMENT ON OPERATOR fairq.= (fairq.address, fairq.address) IS 'equal';
COMMENT ON OPERATOR fairq.<> (fairq.address, fairq.address) IS 'not equal';
COMMENT ON OPERATOR fairq.< (fairq.address, fairq.address) IS 'comes before';
COMMENT ON OPERATOR fairq.<= (fairq.address, fairq.address) IS 'comes before or is equal';
COMMENT ON OPERATOR fairq.> (fairq.address, fairq.address) IS 'comes after';
COMMENT ON OPERATOR fairq.>= (fairq.address, fairq.address) IS 'comes after or is equal';
COMMENT ON OPERATOR CLASS fairq.address_ops USING btree IS 'the fair order: bucket, class, block, slot';
COMMENT ON OPERATOR FAMILY fairq.address_ops USING btree IS 'the fair order: bucket, class, block, slot';
COMMENT ON OPERATOR CLASS fairq.address_ops USING hash IS 'equality of addresses';
COMMENT ON OPERATOR FAMILY fairq.address_ops USING hash IS 'equality of addresses';
COMMENT ON TYPE fairq.task IS 'A task as a claimer gets it.';
COMMENT ON COLUMN fairq.task.id IS 'its id, for its whole life';
COMMENT ON COLUMN fairq.task.receipt IS 'names the lease; null from fairq.peek()';
COMMENT ON COLUMN fairq.task.group_key IS 'whom it counts for';
COMMENT ON COLUMN fairq.task.payload IS 'what it is about';
COMMENT ON COLUMN fairq.task.headers IS 'what else its producer gave';
COMMENT ON COLUMN fairq.task.priority IS 'its class or number, lower first';
COMMENT ON COLUMN fairq.task.attempt IS 'which attempt this is, from 1';
COMMENT ON COLUMN fairq.task.enqueued_at IS 'when it was enqueued';
COMMENT ON COLUMN fairq.task.lease_until IS 'when the lease ends, under a session unless a heartbeat comes; null from fairq.pop() and fairq.peek()';
COMMENT ON COLUMN fairq.task.address IS 'its place in the order';
COMMENT ON COLUMN fairq.task.expires_at IS 'it is not begun then or later; null: it does not expire';
COMMENT ON TYPE fairq.queue_task IS 'A task as a claimer of several queues gets it: the queue it is of, then the columns of fairq.task.';
COMMENT ON COLUMN fairq.queue_task.queue IS 'the queue it is of';
COMMENT ON COLUMN fairq.queue_task.id IS 'its id, one in its queue';
COMMENT ON COLUMN fairq.queue_task.receipt IS 'names the lease';
COMMENT ON COLUMN fairq.queue_task.group_key IS 'whom it counts for';
COMMENT ON COLUMN fairq.queue_task.payload IS 'what it is about';
COMMENT ON COLUMN fairq.queue_task.headers IS 'what else its producer gave';
COMMENT ON COLUMN fairq.queue_task.priority IS 'its class or number, lower first';
COMMENT ON COLUMN fairq.queue_task.attempt IS 'which attempt this is, from 1';
COMMENT ON COLUMN fairq.queue_task.enqueued_at IS 'when it was enqueued';
COMMENT ON COLUMN fairq.queue_task.lease_until IS 'when the lease ends, under a session unless a heartbeat comes';
COMMENT ON COLUMN fairq.queue_task.address IS 'its place in the order';
COMMENT ON COLUMN fairq.queue_task.expires_at IS 'it is not begun then or later; null: it does not expire';
COMMENT ON TYPE fairq.task_status IS 'A task as the queue knows it.';
COMMENT ON COLUMN fairq.task_status.id IS 'its id, for its whole life';
COMMENT ON COLUMN fairq.task_status.state IS 'ready, leased, scheduled, overflow, held or dead';
COMMENT ON COLUMN fairq.task_status.group_key IS 'whom it counts for';
COMMENT ON COLUMN fairq.task_status.payload IS 'what it is about';
COMMENT ON COLUMN fairq.task_status.headers IS 'what else its producer gave';
COMMENT ON COLUMN fairq.task_status.priority IS 'its class or number, lower first';
COMMENT ON COLUMN fairq.task_status.cost IS 'what it counts for in the share of its group';
COMMENT ON COLUMN fairq.task_status.attempts IS 'how many attempts have ended';
COMMENT ON COLUMN fairq.task_status.max_attempts IS 'after how many it is dead; 0: no limit';
COMMENT ON COLUMN fairq.task_status.enqueued_at IS 'when it was enqueued';
COMMENT ON COLUMN fairq.task_status.run_at IS 'when it is due, or last was; null: never';
COMMENT ON COLUMN fairq.task_status.lease_until IS 'when its lease ends, under a session unless a heartbeat comes; null if it is not leased';
COMMENT ON COLUMN fairq.task_status.address IS 'its place in the order; null if it has none, or has it in memory only';
COMMENT ON COLUMN fairq.task_status.unique_key IS 'of its key one task waits at most; null: none';
COMMENT ON COLUMN fairq.task_status.last_error IS 'of the last attempt that gave one';
COMMENT ON COLUMN fairq.task_status.expires_at IS 'it is not begun then or later; null: it does not expire';
COMMENT ON COLUMN fairq.task_status.lease IS 'for how long it is leased; null: as the queue has it';
COMMENT ON TYPE fairq.task_done IS 'What is kept of a task that is done.';
COMMENT ON COLUMN fairq.task_done.id IS 'its id, for its whole life';
COMMENT ON COLUMN fairq.task_done.enqueued_at IS 'when it was enqueued';
COMMENT ON COLUMN fairq.task_done.claimed_at IS 'when it was claimed last; null: never';
COMMENT ON COLUMN fairq.task_done.done_at IS 'when it was done';
COMMENT ON COLUMN fairq.task_done.run_at IS 'when it was due last; null: never';
COMMENT ON COLUMN fairq.task_done.priority IS 'its class or number, lower first';
COMMENT ON COLUMN fairq.task_done.cost IS 'what it counted for in the share of its group';
COMMENT ON COLUMN fairq.task_done.attempts IS 'how many attempts there were';
COMMENT ON COLUMN fairq.task_done.outcome IS 'acked, cancelled, dead or expired';
COMMENT ON COLUMN fairq.task_done.group_key IS 'whom it counted for';
COMMENT ON COLUMN fairq.task_done.payload IS 'what it was about';
COMMENT ON COLUMN fairq.task_done.headers IS 'what else its producer gave';
COMMENT ON COLUMN fairq.task_done.unique_key IS 'of its key one task waits at most; null: none';
COMMENT ON COLUMN fairq.task_done.last_error IS 'of the last attempt that gave one';
COMMENT ON COLUMN fairq.task_done.result IS 'what fairq.ack() was given';
COMMENT ON TYPE fairq.outcome IS 'How a task has ended, or its present state if it has not.';
COMMENT ON COLUMN fairq.outcome.state IS 'acked, dead, cancelled or expired; else its present state';
COMMENT ON COLUMN fairq.outcome.result IS 'what fairq.ack() was given';
COMMENT ON COLUMN fairq.outcome.last_error IS 'of the last attempt that failed';
COMMENT ON COLUMN fairq.outcome.done_at IS 'when it was done, as the queue has kept it';
COMMENT ON TYPE fairq.task_position IS 'A task''s place in the queue.';
COMMENT ON COLUMN fairq.task_position.state IS 'ready, leased, scheduled, overflow, held or dead';
COMMENT ON COLUMN fairq.task_position.ahead IS 'how many ready tasks come before it; null if it is neither ready nor leased';
COMMENT ON COLUMN fairq.task_position.starts_at IS 'about when it will start; null if nothing tells';
COMMENT ON COLUMN fairq.task_position.exact IS 'whether the tasks ahead were counted, not estimated';
COMMENT ON VIEW fairq.queues IS 'The queues of this database and their settings.';
COMMENT ON COLUMN fairq.queues.queue IS 'its name';
COMMENT ON COLUMN fairq.queues.owner IS 'the owner of its table';
COMMENT ON COLUMN fairq.queues.relation IS 'its table';
COMMENT ON COLUMN fairq.queues.policy IS 'what it is ordered by: fair, priority or time';
COMMENT ON COLUMN fairq.queues.buckets IS 'how many independent parts it has';
COMMENT ON COLUMN fairq.queues.lease IS 'how long a claim lasts unless the claim or the task says otherwise';
COMMENT ON COLUMN fairq.queues.max_attempts IS 'after how many a task is dead; 0: no limit';
COMMENT ON COLUMN fairq.queues.backoff_base IS 'the wait after the first attempt that fails; it doubles with each';
COMMENT ON COLUMN fairq.queues.backoff_max IS 'the longest wait after an attempt that failed';
COMMENT ON COLUMN fairq.queues.max_ready IS 'how many tasks are ready at most; more wait in the overflow';
COMMENT ON COLUMN fairq.queues.max_ready_per_group IS 'how many tasks of a group are ready at most; more wait in the overflow';
COMMENT ON COLUMN fairq.queues.max_depth IS 'how many tasks it takes, but for the dead; null: no limit';
COMMENT ON COLUMN fairq.queues.keep_done IS 'how long done tasks are kept; null: not at all';
COMMENT ON COLUMN fairq.queues.durable_leases IS 'whether leases survive a crash and a failover';
COMMENT ON COLUMN fairq.queues.charge IS 'what a task counts for in the share of its group: cost or seconds';
COMMENT ON COLUMN fairq.queues.notify IS 'whether NOTIFY is sent when something becomes claimable';
COMMENT ON COLUMN fairq.queues.group_weight IS 'the weight of groups that have none of their own';
COMMENT ON COLUMN fairq.queues.group_max_leased IS 'the limit of tasks in flight of groups that have none of their own; 0: none';
COMMENT ON COLUMN fairq.queues.group_rate IS 'the claims a second of groups that have no rate of their own; 0: no limit';
COMMENT ON COLUMN fairq.queues.group_burst IS 'the burst of groups that have none of their own; 0: as many as the rate';
COMMENT ON COLUMN fairq.queues.paused IS 'whether claims return nothing of it';
COMMENT ON COLUMN fairq.queues.expire_after IS 'how long a task has that was given no expires_at; null: for ever';
COMMENT ON COLUMN fairq.queues.backoff_jitter IS 'how much of a wait is left to chance, from 0 to 1';
COMMENT ON COLUMN fairq.queues.default_priority IS 'the priority of tasks that are given none';
COMMENT ON COLUMN fairq.queues.group_required IS 'whether a task has to have a group key';
COMMENT ON VIEW fairq.queue_stats IS 'For each queue that one may read, to pg_monitor for all: how many tasks there are in each state, and what happened since stats_reset.';
COMMENT ON COLUMN fairq.queue_stats.queue IS 'its name';
COMMENT ON COLUMN fairq.queue_stats.ready IS 'tasks that can be claimed now, if limits let them';
COMMENT ON COLUMN fairq.queue_stats.leased IS 'tasks in flight';
COMMENT ON COLUMN fairq.queue_stats.scheduled IS 'tasks that wait for their time';
COMMENT ON COLUMN fairq.queue_stats.overflow IS 'tasks that wait for room';
COMMENT ON COLUMN fairq.queue_stats.held IS 'tasks that wait behind another one of their unique key';
COMMENT ON COLUMN fairq.queue_stats.dead IS 'tasks whose attempts are used up';
COMMENT ON COLUMN fairq.queue_stats.oldest_ready_age IS 'how long ago the oldest task at the front was enqueued; null if none is ready';
COMMENT ON COLUMN fairq.queue_stats.enqueued IS 'how many were enqueued';
COMMENT ON COLUMN fairq.queue_stats.claimed IS 'how many were claimed';
COMMENT ON COLUMN fairq.queue_stats.acked IS 'how many were acknowledged';
COMMENT ON COLUMN fairq.queue_stats.nacked IS 'how many attempts were said to have failed';
COMMENT ON COLUMN fairq.queue_stats.released IS 'how many were given back without an attempt';
COMMENT ON COLUMN fairq.queue_stats.expired IS 'how many leases ran out, those of sessions included';
COMMENT ON COLUMN fairq.queue_stats.cancelled IS 'how many were removed by fairq.cancel()';
COMMENT ON COLUMN fairq.queue_stats.dead_total IS 'how many used up their attempts';
COMMENT ON COLUMN fairq.queue_stats.swept IS 'how many the sweep had to find: 0, or something is wrong';
COMMENT ON COLUMN fairq.queue_stats.enqueue_rate IS 'tasks enqueued a second in the last minute';
COMMENT ON COLUMN fairq.queue_stats.claim_rate IS 'tasks claimed a second in the last minute';
COMMENT ON COLUMN fairq.queue_stats.ack_rate IS 'tasks acknowledged a second in the last minute';
COMMENT ON COLUMN fairq.queue_stats.wait_p50 IS 'how long tasks had waited when they were claimed: 50 % no longer';
COMMENT ON COLUMN fairq.queue_stats.wait_p95 IS 'how long tasks had waited when they were claimed: 95 % no longer';
COMMENT ON COLUMN fairq.queue_stats.wait_p99 IS 'how long tasks had waited when they were claimed: 99 % no longer';
COMMENT ON COLUMN fairq.queue_stats.run_p50 IS 'how long tasks ran from the claim to the ack: 50 % no longer';
COMMENT ON COLUMN fairq.queue_stats.run_p95 IS 'how long tasks ran from the claim to the ack: 95 % no longer';
COMMENT ON COLUMN fairq.queue_stats.run_p99 IS 'how long tasks ran from the claim to the ack: 99 % no longer';
COMMENT ON COLUMN fairq.queue_stats.payload_avg IS 'bytes of a payload, on average';
COMMENT ON COLUMN fairq.queue_stats.payload_p50 IS 'bytes of a payload: 50 % have no more';
COMMENT ON COLUMN fairq.queue_stats.payload_p95 IS 'bytes of a payload: 95 % have no more';
COMMENT ON COLUMN fairq.queue_stats.payload_max IS 'bytes of the largest payload';
COMMENT ON COLUMN fairq.queue_stats.stats_reset IS 'when counting began';
COMMENT ON COLUMN fairq.queue_stats.expired_tasks IS 'how many ended because their expires_at had come';
COMMENT ON COLUMN fairq.queue_stats.deduplicated IS 'how many calls with a unique key made no task';
COMMENT ON COLUMN fairq.queue_stats.snoozed IS 'how many were released with a delay';
COMMENT ON VIEW fairq.group_stats IS 'For each group with work, in the queues that one may read, to pg_monitor in all: its tasks, its limits and its share.';
COMMENT ON COLUMN fairq.group_stats.queue IS 'the queue';
COMMENT ON COLUMN fairq.group_stats.group_key IS 'the group; a key above 48 bytes is cut';
COMMENT ON COLUMN fairq.group_stats.ready IS 'its tasks that can be claimed now, if limits let them';
COMMENT ON COLUMN fairq.group_stats.overflow IS 'its tasks that wait for room';
COMMENT ON COLUMN fairq.group_stats.leased IS 'its tasks in flight';
COMMENT ON COLUMN fairq.group_stats.weight IS 'the weight in force; null: the policy has none';
COMMENT ON COLUMN fairq.group_stats.max_leased IS 'the limit of tasks in flight; null: none';
COMMENT ON COLUMN fairq.group_stats.rate IS 'the limit of claims a second; null: none';
COMMENT ON COLUMN fairq.group_stats.burst IS 'how many claims may come at once; null: no limit';
COMMENT ON COLUMN fairq.group_stats.tokens IS 'how many claims its rate allows just now';
COMMENT ON COLUMN fairq.group_stats.paused IS 'whether claims return none of its tasks';
COMMENT ON COLUMN fairq.group_stats.served IS 'tasks claimed since it was idle last';
COMMENT ON COLUMN fairq.group_stats.served_cost IS 'what they were charged: costs, or seconds';
COMMENT ON COLUMN fairq.group_stats.share IS 'its part of what was served while it had work';
COMMENT ON COLUMN fairq.group_stats.expected_share IS 'its part by the weights; null if the policy has none';
COMMENT ON COLUMN fairq.group_stats.share_error IS 'share less expected_share';
COMMENT ON COLUMN fairq.group_stats.oldest_wait IS 'how long the first of its ready tasks has waited at most';
COMMENT ON COLUMN fairq.group_stats.run_time IS 'how long its tasks have run since it was idle last, in all';
COMMENT ON COLUMN fairq.group_stats.all_served_cost IS 'what the queue has served in its classes while it had work, as served_cost';
COMMENT ON VIEW fairq.group_settings IS 'What groups were given, in the queues that one may read, to pg_monitor in all; null is the default of the queue.';
COMMENT ON COLUMN fairq.group_settings.queue IS 'the queue';
COMMENT ON COLUMN fairq.group_settings.group_key IS 'the group';
COMMENT ON COLUMN fairq.group_settings.weight IS 'its share between groups that have work';
COMMENT ON COLUMN fairq.group_settings.max_leased IS 'at most so many of its tasks in flight; 0: no limit';
COMMENT ON COLUMN fairq.group_settings.rate IS 'at most so many claims a second; 0: no limit';
COMMENT ON COLUMN fairq.group_settings.burst IS 'so many at once after a while with fewer; 0: as many as rate';
COMMENT ON COLUMN fairq.group_settings.paused IS 'whether claims return none of its tasks';
COMMENT ON VIEW fairq.bucket_stats IS 'For each bucket and class in use what the engine has of it in memory, of the queues that one may read, to pg_monitor of all.';
COMMENT ON COLUMN fairq.bucket_stats.queue IS 'the queue';
COMMENT ON COLUMN fairq.bucket_stats.bucket IS 'the bucket';
COMMENT ON COLUMN fairq.bucket_stats.class IS 'the priority class';
COMMENT ON COLUMN fairq.bucket_stats.ready IS 'entries in its window';
COMMENT ON COLUMN fairq.bucket_stats.complete IS 'whether the window has all there is';
COMMENT ON COLUMN fairq.bucket_stats.next_address IS 'the first address in the window';
COMMENT ON COLUMN fairq.bucket_stats.frontier IS 'from where on the index is read; null if that is not needed';
COMMENT ON VIEW fairq.leases IS 'The tasks in flight of the queues that one may read, to pg_monitor of all.';
COMMENT ON COLUMN fairq.leases.queue IS 'the queue';
COMMENT ON COLUMN fairq.leases.id IS 'the task';
COMMENT ON COLUMN fairq.leases.receipt IS 'names the lease';
COMMENT ON COLUMN fairq.leases.lease_until IS 'when it ends, under a session unless a heartbeat comes';
COMMENT ON COLUMN fairq.leases.attempt IS 'which attempt this is, from 1';
COMMENT ON COLUMN fairq.leases.state IS 'held, settling or expired';
COMMENT ON COLUMN fairq.leases.pid IS 'the backend that claimed';
COMMENT ON VIEW fairq.sessions IS 'The sessions of one''s own roles in this database, to pg_monitor all.';
COMMENT ON COLUMN fairq.sessions.session IS 'the session';
COMMENT ON COLUMN fairq.sessions.name IS 'what it was called when it was opened';
COMMENT ON COLUMN fairq.sessions.role IS 'who opened it';
COMMENT ON COLUMN fairq.sessions.opened_at IS 'when it was opened';
COMMENT ON COLUMN fairq.sessions.ttl IS 'how long it lives without a heartbeat';
COMMENT ON COLUMN fairq.sessions.alive_until IS 'when it ends unless a heartbeat comes; null: it is over';
COMMENT ON COLUMN fairq.sessions.bound IS 'whether it ends with the connection that opened it';
COMMENT ON COLUMN fairq.sessions.pid IS 'the backend that opened it';
COMMENT ON COLUMN fairq.sessions.leases IS 'how many leases it has';
COMMENT ON VIEW fairq.dead_tasks IS 'The tasks whose attempts are used up, of the queues that one may read.';
COMMENT ON COLUMN fairq.dead_tasks.queue IS 'the queue';
COMMENT ON COLUMN fairq.dead_tasks.id IS 'the task';
COMMENT ON COLUMN fairq.dead_tasks.group_key IS 'whom it counts for';
COMMENT ON COLUMN fairq.dead_tasks.payload IS 'what it is about';
COMMENT ON COLUMN fairq.dead_tasks.headers IS 'what else its producer gave';
COMMENT ON COLUMN fairq.dead_tasks.priority IS 'its class or number';
COMMENT ON COLUMN fairq.dead_tasks.attempts IS 'how many have failed';
COMMENT ON COLUMN fairq.dead_tasks.enqueued_at IS 'when it was enqueued';
COMMENT ON COLUMN fairq.dead_tasks.last_error IS 'of the last attempt that gave one';
COMMENT ON VIEW fairq.done_tasks IS 'The done tasks that queues have kept, in the tables that one may read.';
COMMENT ON COLUMN fairq.done_tasks.queue IS 'the queue';
COMMENT ON COLUMN fairq.done_tasks.id IS 'the task';
COMMENT ON COLUMN fairq.done_tasks.enqueued_at IS 'when it was enqueued';
COMMENT ON COLUMN fairq.done_tasks.claimed_at IS 'when it was claimed last; null if it was not leased when it ended';
COMMENT ON COLUMN fairq.done_tasks.done_at IS 'when it was acknowledged or removed';
COMMENT ON COLUMN fairq.done_tasks.run_at IS 'when it was due; null: at once';
COMMENT ON COLUMN fairq.done_tasks.priority IS 'its class or number';
COMMENT ON COLUMN fairq.done_tasks.cost IS 'what it counted for';
COMMENT ON COLUMN fairq.done_tasks.attempts IS 'which attempt succeeded; else how many failed';
COMMENT ON COLUMN fairq.done_tasks.outcome IS 'acked, cancelled, dead or expired';
COMMENT ON COLUMN fairq.done_tasks.group_key IS 'whom it counted for';
COMMENT ON COLUMN fairq.done_tasks.payload IS 'what it was about';
COMMENT ON COLUMN fairq.done_tasks.headers IS 'what else its producer gave';
COMMENT ON COLUMN fairq.done_tasks.unique_key IS 'its key; null: none';
COMMENT ON COLUMN fairq.done_tasks.last_error IS 'of the last attempt that gave one';
COMMENT ON COLUMN fairq.done_tasks.result IS 'what fairq.ack() was given';
COMMENT ON VIEW fairq.topics IS 'The subscriptions of the queues of this database.';
COMMENT ON COLUMN fairq.topics.topic IS 'the topic, with the wildcards * and #';
COMMENT ON COLUMN fairq.topics.queue IS 'the queue that is subscribed';
COMMENT ON VIEW fairq.dependencies IS 'Which held tasks wait for the end of which others, in the queues that one may read, to pg_monitor in all.';
COMMENT ON COLUMN fairq.dependencies.queue IS 'the queue of both tasks';
COMMENT ON COLUMN fairq.dependencies.task IS 'the id of the task that waits';
COMMENT ON COLUMN fairq.dependencies.predecessor IS 'the id of the task whose end it waits for';
COMMENT ON COLUMN fairq.dependencies.on_dead IS 'what it means that this one has failed: hold, cancel or run';
COMMENT ON COLUMN fairq.dependencies.failed IS 'whether it has: it was dead, was cancelled, or has expired';
COMMENT ON VIEW fairq.schedules IS 'The schedules of one''s own roles and how they go, to pg_monitor all, without payload and headers.';
COMMENT ON COLUMN fairq.schedules.name IS 'its name, one in the database';
COMMENT ON COLUMN fairq.schedules.queue IS 'the queue in which tasks are enqueued, by name';
COMMENT ON COLUMN fairq.schedules.owner IS 'the role as which tasks are enqueued';
COMMENT ON COLUMN fairq.schedules.cron IS 'when, as it was given';
COMMENT ON COLUMN fairq.schedules.timezone IS 'by what clock';
COMMENT ON COLUMN fairq.schedules.catch_up IS 'which ticks are run that were missed: none, one or all';
COMMENT ON COLUMN fairq.schedules.overlap IS 'whether a task is enqueued while the last one waits or runs';
COMMENT ON COLUMN fairq.schedules.active IS 'whether there are ticks at all';
COMMENT ON COLUMN fairq.schedules.next_run IS 'the next tick; null if it is not active';
COMMENT ON COLUMN fairq.schedules.last_run IS 'when a task was enqueued last';
COMMENT ON COLUMN fairq.schedules.last_task IS 'the id of that task';
COMMENT ON COLUMN fairq.schedules.skipped IS 'ticks at which the last task was still there';
COMMENT ON COLUMN fairq.schedules.failures IS 'ticks in a row, up to now, that failed';
COMMENT ON COLUMN fairq.schedules.last_error IS 'SQLSTATE and message of the last failure since the schedule was made or replaced';
COMMENT ON COLUMN fairq.schedules.last_error_at IS 'when that was';
COMMENT ON COLUMN fairq.schedules.group_key IS 'of its tasks';
COMMENT ON COLUMN fairq.schedules.priority IS 'of its tasks; null is the default';
COMMENT ON COLUMN fairq.schedules.cost IS 'of its tasks';
COMMENT ON COLUMN fairq.schedules.payload IS 'of its tasks; null to who may not act as the owner';
COMMENT ON COLUMN fairq.schedules.headers IS 'of its tasks, without what a tick adds; null to who may not act as the owner';
COMMENT ON FUNCTION fairq_internal.address_in IS 'Text input of fairq.address.';
COMMENT ON FUNCTION fairq_internal.address_out IS 'Text output of fairq.address.';
COMMENT ON FUNCTION fairq_internal.address_recv IS 'Binary input of fairq.address.';
COMMENT ON FUNCTION fairq_internal.address_send IS 'Binary output of fairq.address.';
COMMENT ON FUNCTION fairq_internal.address_eq IS 'Implementation of the operator = of addresses.';
COMMENT ON FUNCTION fairq_internal.address_ne IS 'Implementation of the operator <> of addresses.';
COMMENT ON FUNCTION fairq_internal.address_lt IS 'Implementation of the operator < of addresses.';
COMMENT ON FUNCTION fairq_internal.address_le IS 'Implementation of the operator <= of addresses.';
COMMENT ON FUNCTION fairq_internal.address_gt IS 'Implementation of the operator > of addresses.';
COMMENT ON FUNCTION fairq_internal.address_ge IS 'Implementation of the operator >= of addresses.';
COMMENT ON FUNCTION fairq_internal.address_cmp IS 'Comparison of addresses: bucket, class, block, slot.';
COMMENT ON FUNCTION fairq_internal.address_sortsupport IS 'Sort support for fairq.address.';
COMMENT ON FUNCTION fairq_internal.address_hash IS 'Hash of an address.';
COMMENT ON FUNCTION fairq_internal.address_hash_extended IS 'Hash of an address, with a seed.';
COMMENT ON FUNCTION fairq_internal.node_written IS 'Trigger of fairq_internal.node: tells the engine that the number has changed.';
COMMENT ON SCHEMA fairq IS 'pgfairq_cluster: queues that are spread over several servers';
COMMENT ON TABLE fairq.node IS 'The servers that have the queues.';
COMMENT ON TABLE fairq.spread IS 'To how many nodes the tasks of queues and groups go, where that was said.';
COMMENT ON FUNCTION fairq_internal.make_twins IS 'Makes of each function that is called at nodes, and each view, its call at one node.';
COMMENT ON TABLE fairq.schedule_node IS 'At which node a schedule is active.';
COMMENT ON FUNCTION fairq.set_spread IS 'Set to how many nodes the tasks of a queue go, or of one of its groups.';
COMMENT ON FUNCTION fairq.reset_spread IS 'Take away what was set for a queue, or for one of its groups, by fairq.set_spread() or by a limit.';
COMMENT ON FUNCTION fairq.add_node IS 'Add a server to the nodes of the cluster, with the queues that the others have.';
COMMENT ON FUNCTION fairq.drain_node IS 'Give a node no new tasks and sessions.';
COMMENT ON FUNCTION fairq.undrain_node IS 'Give a node new tasks and sessions again.';
COMMENT ON COLUMN fairq.queues.missing IS 'the nodes that are out of reach, which the view is without';
COMMENT ON COLUMN fairq.queue_stats.missing IS 'the nodes that are out of reach, which the view is without';
COMMENT ON COLUMN fairq.group_stats.missing IS 'the nodes that are out of reach, which the view is without';
COMMENT ON COLUMN fairq.group_settings.missing IS 'the nodes that are out of reach, which the view is without';
COMMENT ON COLUMN fairq.bucket_stats.missing IS 'the nodes that are out of reach, which the view is without';
COMMENT ON COLUMN fairq.leases.missing IS 'the nodes that are out of reach, which the view is without';
COMMENT ON COLUMN fairq.sessions.missing IS 'the nodes that are out of reach, which the view is without';
COMMENT ON COLUMN fairq.dead_tasks.missing IS 'the nodes that are out of reach, which the view is without';
COMMENT ON COLUMN fairq.done_tasks.missing IS 'the nodes that are out of reach, which the view is without';
COMMENT ON COLUMN fairq.topics.missing IS 'the nodes that are out of reach, which the view is without';
COMMENT ON COLUMN fairq.dependencies.missing IS 'the nodes that are out of reach, which the view is without';
COMMENT ON COLUMN fairq.schedules.missing IS 'the nodes that are out of reach, which the view is without';
COMMENT ON COLUMN fairq.bucket_stats.node IS 'the node';
COMMENT ON COLUMN fairq.sessions.node IS 'the node';
COMMENT ON FUNCTION fairq_internal.at_wait_ready IS 'fairq_internal.wait_ready, called at the node of a place.';
COMMENT ON FUNCTION fairq_internal.at_this_node IS 'fairq.this_node, called at the node of a place.';
COMMENT ON FUNCTION fairq_internal.node_written IS 'Trigger on fairq.node: brings the options of the server pgfairq into step.';
COMMENT ON SERVER pgfairq IS 'What PL/Proxy connects to: the connections of fairq.node, by their places.';
COMMENT ON FUNCTION fairq_internal.node_facts IS 'Who the server of a node is, which need not be that node.';
COMMENT ON FUNCTION fairq_internal.at_node_facts IS 'fairq_internal.node_facts, at the node of a place.';
COMMENT ON FUNCTION fairq_internal.node_load IS 'How many tasks there are at a node.';
COMMENT ON FUNCTION fairq_internal.at_node_load IS 'fairq_internal.node_load, at the node of a place.';
COMMENT ON FUNCTION fairq_internal.node_queue_definitions IS 'fairq_internal.queue_definitions of a node.';
COMMENT ON FUNCTION fairq_internal.at_node_queue_definitions IS 'fairq_internal.node_queue_definitions, at the node of a place.';
COMMENT ON FUNCTION fairq_internal.node_define_queue IS 'Calls fairq_internal.define_queue at a node.';
COMMENT ON FUNCTION fairq_internal.at_node_define_queue IS 'fairq_internal.node_define_queue, at the node of a place.';
COMMENT ON FUNCTION fairq_internal.require_owner IS 'Refuses a role that does not own the tables of the extension, and a standby.';
COMMENT ON FUNCTION fairq_internal.try_lock_nodes IS 'Lock the list of nodes if that takes less than a fifth of a second; returns whether.';
COMMENT ON FUNCTION fairq_internal.lock_nodes IS 'Lets only one transaction change the list of nodes.';
COMMENT ON FUNCTION fairq_internal.version_fits IS 'Whether two versions may work together.';
COMMENT ON FUNCTION fairq_internal.complete_connection IS 'Checks a connection string, and says in it what it does not of silent servers.';
COMMENT ON FUNCTION fairq_internal.check_server IS 'Refuses a server that cannot be the node.';
COMMENT ON FUNCTION fairq_internal.cluster_queues IS 'The queues of the nodes that can be reached.';
COMMENT ON FUNCTION fairq_internal.definitions_differ IS 'In which words two definitions of a queue differ; null: in none.';
COMMENT ON FUNCTION fairq_internal.copy_queues IS 'Gives a node the queues of the others.';
COMMENT ON FUNCTION fairq_internal.require_node IS 'Refuses a number that is none of a node.';
COMMENT ON FUNCTION fairq_internal.user_mapping_written IS 'Event trigger: only the owner of server pgfairq says that a role is another one at the nodes.';
COMMENT ON EVENT TRIGGER fairq_user_mapping_written IS 'Only the owner of server pgfairq says that a role is another one at the nodes.';
COMMENT ON FUNCTION fairq.move_tasks IS 'Move the tasks of a node that is drained to the others; returns how many.';
COMMENT ON FUNCTION fairq.drop_node IS 'Take a node off the list: one that has no tasks any more, or is lost for good.';
COMMENT ON FUNCTION fairq.check_cluster IS 'What differs between the nodes, or was left half done; and mend it.';
COMMENT ON FUNCTION fairq_internal.node_number IS 'The number that the server of a node says.';
COMMENT ON FUNCTION fairq_internal.at_node_number IS 'fairq_internal.node_number, at the node of a place.';
COMMENT ON FUNCTION fairq_internal.node_queue_names IS 'The names of the queues of a node.';
COMMENT ON FUNCTION fairq_internal.at_node_queue_names IS 'fairq_internal.node_queue_names, at the node of a place.';
COMMENT ON FUNCTION fairq_internal.node_tasks_to_move IS 'Calls fairq_internal.tasks_to_move at a node.';
COMMENT ON FUNCTION fairq_internal.at_node_tasks_to_move IS 'fairq_internal.node_tasks_to_move, at the node of a place.';
COMMENT ON FUNCTION fairq_internal.node_depart IS 'Calls fairq_internal.depart at a node.';
COMMENT ON FUNCTION fairq_internal.at_node_depart IS 'fairq_internal.node_depart, at the node of a place.';
COMMENT ON FUNCTION fairq_internal.node_departures IS 'Calls fairq_internal.departures at a node.';
COMMENT ON FUNCTION fairq_internal.at_node_departures IS 'fairq_internal.node_departures, at the node of a place.';
COMMENT ON FUNCTION fairq_internal.node_departing_tasks IS 'Calls fairq_internal.departing_tasks at a node.';
COMMENT ON FUNCTION fairq_internal.at_node_departing_tasks IS 'fairq_internal.node_departing_tasks, at the node of a place.';
COMMENT ON FUNCTION fairq_internal.node_arrive IS 'Calls fairq_internal.arrive at a node.';
COMMENT ON FUNCTION fairq_internal.at_node_arrive IS 'fairq_internal.node_arrive, at the node of a place.';
COMMENT ON FUNCTION fairq_internal.node_forget_departed IS 'Calls fairq_internal.forget_departed at a node.';
COMMENT ON FUNCTION fairq_internal.at_node_forget_departed IS 'fairq_internal.node_forget_departed, at the node of a place.';
COMMENT ON FUNCTION fairq_internal.node_depart_no_more IS 'Calls fairq_internal.depart_no_more at a node.';
COMMENT ON FUNCTION fairq_internal.at_node_depart_no_more IS 'fairq_internal.node_depart_no_more, at the node of a place.';
COMMENT ON FUNCTION fairq_internal.place_task IS 'The node that gets a task of a group, and of a unique key.';
COMMENT ON FUNCTION fairq_internal.deliver IS 'Brings a batch of tasks to its node; false if that is out of reach.';
COMMENT ON FUNCTION fairq_internal.finish_move IS 'Brings a batch that has left a node to its own; returns whether it has arrived.';
COMMENT ON FUNCTION fairq_internal.stays IS 'Says in a warning that tasks of a queue stay at their node, and why.';
COMMENT ON FUNCTION fairq_internal.finish_moves IS 'Brings all batches that have left a node to theirs; returns how many tasks have arrived, and which queues refused them.';
COMMENT ON FUNCTION fairq_internal.lock_moves IS 'Lets only one transaction move the tasks of a node.';
COMMENT ON FUNCTION fairq_internal.move_queue IS 'Moves the tasks of one queue of a node; returns how many have arrived.';
COMMENT ON FUNCTION fairq_internal.repair IS 'Runs a statement if that is wanted; says what has come of it.';
COMMENT ON FUNCTION fairq_internal.server_problems IS 'What is wrong with the server of a node.';
COMMENT ON FUNCTION fairq.nodes_of_group IS 'The numbers of the nodes that get new tasks of a group.';
COMMENT ON FUNCTION fairq_internal.at_tasks_here IS 'fairq_internal.tasks_here, called at the node of a place.';
COMMENT ON FUNCTION fairq_internal.at_front IS 'fairq.front, called at the node of a place.';
COMMENT ON FUNCTION fairq_internal.at_raise_floor IS 'fairq.raise_floor, called at the node of a place.';
COMMENT ON FUNCTION fairq_internal.place_schedule IS 'The node that runs a schedule.';
COMMENT ON FUNCTION fairq_internal.node_stop_schedule IS 'Calls fairq_internal.stop_schedule at a node.';
COMMENT ON FUNCTION fairq_internal.at_node_stop_schedule IS 'fairq_internal.node_stop_schedule, at the node of a place.';
COMMENT ON FUNCTION fairq_internal.node_start_schedule IS 'Calls fairq_internal.start_schedule at a node.';
COMMENT ON FUNCTION fairq_internal.at_node_start_schedule IS 'fairq_internal.node_start_schedule, at the node of a place.';
COMMENT ON FUNCTION fairq_internal.node_schedule_definitions IS 'Calls fairq_internal.schedule_definitions at a node.';
COMMENT ON FUNCTION fairq_internal.at_node_schedule_definitions IS 'fairq_internal.node_schedule_definitions, at the node of a place.';
COMMENT ON FUNCTION fairq_internal.node_define_schedule IS 'Calls fairq_internal.define_schedule at a node.';
COMMENT ON FUNCTION fairq_internal.at_node_define_schedule IS 'fairq_internal.node_define_schedule, at the node of a place.';
COMMENT ON FUNCTION fairq_internal.copy_schedules IS 'Gives a node the schedules of the others, which do not run there.';
COMMENT ON FUNCTION fairq_internal.move_schedules IS 'Gives the schedules that a node runs to others.';
COMMENT ON FUNCTION fairq_internal.check_schedules IS 'Schedules that are missing at a node, or run where they should not, or nowhere.';
COMMENT ON VIEW fairq.nodes IS 'The nodes of the cluster, and what they say of themselves.';
COMMENT ON COLUMN fairq.nodes.node IS 'number';
COMMENT ON COLUMN fairq.nodes.state IS 'active, or draining: it gets no new tasks';
COMMENT ON COLUMN fairq.nodes.reachable IS 'whether it has answered';
COMMENT ON COLUMN fairq.nodes.version IS 'of pgfairq; null, as what follows, if it is not known';
COMMENT ON COLUMN fairq.nodes.ready IS 'tasks that are ready, of the queues that the caller may read';
COMMENT ON COLUMN fairq.nodes.leased IS 'tasks that are leased';
COMMENT ON COLUMN fairq.nodes.waiting IS 'tasks that are scheduled, in the overflow, held or dead';
COMMENT ON COLUMN fairq.nodes.sessions IS 'sessions that the caller may see';
COMMENT ON COLUMN fairq.nodes.connections IS 'connections to its database, those of proxies included';
COMMENT ON COLUMN fairq.nodes.standbys IS 'standbys that are connected to it';
COMMENT ON COLUMN fairq.nodes.standby_lag IS 'how far behind the last of them is; null if it is not, or the caller may not see it';
COMMENT ON COLUMN fairq.nodes.problem IS 'why it has not answered as it should';
COMMENT ON FUNCTION fairq.worker_node IS 'The node that a worker of a queue is to connect to, and how.';
COMMENT ON FUNCTION fairq_internal.node_report IS 'What a node says of itself.';
COMMENT ON FUNCTION fairq_internal.at_node_report IS 'fairq_internal.node_report, at the node of a place.';
COMMENT ON FUNCTION fairq_internal.reports_of_nodes IS 'What is behind the view fairq.nodes.';
