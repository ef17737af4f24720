\echo Use "CREATE EXTENSION pgfairq" to load this file. \quit

CREATE SCHEMA fairq;
COMMENT ON SCHEMA fairq IS 'pgfairq: task queues that are fair between groups';
GRANT USAGE ON SCHEMA fairq TO PUBLIC;

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
-- The settings of queues. A queue is a row here and a table fairq.q_<name>.
CREATE TABLE fairq.queue (
    queue pg_catalog.text COLLATE pg_catalog."C" NOT NULL PRIMARY KEY,
    policy pg_catalog.text NOT NULL DEFAULT 'fair',
    buckets pg_catalog.int4 NOT NULL DEFAULT 16,
    lease pg_catalog.interval NOT NULL DEFAULT '30 s',
    max_attempts pg_catalog.int4 NOT NULL DEFAULT 20,
    backoff_base pg_catalog.interval NOT NULL DEFAULT '1 s',
    backoff_max pg_catalog.interval NOT NULL DEFAULT '1 h',
    max_ready pg_catalog.int8 NOT NULL DEFAULT 1000000,
    max_ready_per_group pg_catalog.int8 NOT NULL DEFAULT 10000,
    max_tasks pg_catalog.int8,
    keep_done pg_catalog.interval,
    durable_leases pg_catalog.bool NOT NULL DEFAULT false,
    charge pg_catalog.text NOT NULL DEFAULT 'cost',
    notify pg_catalog.bool NOT NULL DEFAULT false,
    group_weight pg_catalog.float4 NOT NULL DEFAULT 1,
    group_max_leased pg_catalog.int4 NOT NULL DEFAULT 0,
    group_rate pg_catalog.float4 NOT NULL DEFAULT 0,
    group_burst pg_catalog.int4 NOT NULL DEFAULT 0,
    paused pg_catalog.bool NOT NULL DEFAULT false
);
SELECT pg_catalog.pg_extension_config_dump('fairq.queue', '');
REVOKE ALL ON fairq.queue FROM PUBLIC;
GRANT SELECT ON fairq.queue TO PUBLIC;
COMMENT ON TABLE fairq.queue IS 'Settings of queues; written by fairq.create_queue() and fairq.alter_queue(), read through the view fairq.queues';

-- The leases of queues with durable_leases, of all queues of the database. Part of the
-- extension, so no dump has its rows: a lease is of this server and its standbys.
CREATE TABLE fairq.durable_lease (
    queue pg_catalog.regclass NOT NULL,
    attempt pg_catalog.int4 NOT NULL,
    task pg_catalog.int8 NOT NULL,
    lease_until pg_catalog.timestamptz NOT NULL,
    claimed_at pg_catalog.timestamptz NOT NULL,
    receipt pg_catalog.uuid NOT NULL,
    of_session pg_catalog.bool NOT NULL
) WITH (fillfactor = 90, vacuum_truncate = off);
REVOKE ALL ON fairq.durable_lease FROM PUBLIC;
COMMENT ON TABLE fairq.durable_lease IS 'The leases of queues with durable_leases, so that they survive a crash and a failover; written by the engine alone, to be seen in the view fairq.leases. May have no index.';

CREATE FUNCTION fairq.durable_lease_written()
RETURNS trigger LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_durable_lease_written';
COMMENT ON FUNCTION fairq.durable_lease_written() IS
'Row trigger of fairq.durable_lease: keeps out rows that are written by SQL, COPY or logical replication.';

CREATE TRIGGER fairq_durable_lease_written
    BEFORE INSERT OR UPDATE ON fairq.durable_lease
    FOR EACH ROW EXECUTE FUNCTION fairq.durable_lease_written();
ALTER TABLE fairq.durable_lease ENABLE ALWAYS TRIGGER fairq_durable_lease_written;

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
    address fairq.address
);
COMMENT ON TYPE fairq.task IS 'A task as a claimer gets it: attempt counts from 1, receipt names the lease, which ends at lease_until: infinity under a session, null from fairq.pop() and fairq.peek()';

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
    last_error pg_catalog.text
);
COMMENT ON TYPE fairq.task_status IS 'A task as the queue knows it: attempts counts those that ended in ack, nack or expiry, lease_until is null unless it is leased';

CREATE TYPE fairq.task_position AS (
    state pg_catalog.text,
    ahead pg_catalog.int8,
    starts_at pg_catalog.timestamptz,
    exact pg_catalog.bool
);
COMMENT ON TYPE fairq.task_position IS 'A task''s place: how many ready tasks are ahead of it, about when it will start, and whether they were counted or estimated';

CREATE FUNCTION fairq.create_queue(queue text,
    policy text DEFAULT 'fair', buckets int DEFAULT 16,
    lease interval DEFAULT '30 s', max_attempts int DEFAULT 20,
    backoff_base interval DEFAULT '1 s', backoff_max interval DEFAULT '1 h',
    max_ready bigint DEFAULT 1000000, max_ready_per_group bigint DEFAULT 10000,
    max_tasks bigint DEFAULT NULL, keep_done interval DEFAULT NULL,
    durable_leases boolean DEFAULT false, charge text DEFAULT 'cost', notify boolean DEFAULT false)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_create_queue';
COMMENT ON FUNCTION fairq.create_queue(text, text, int, interval, int, interval, interval, bigint, bigint, bigint, interval, boolean, text, boolean) IS
'Create a queue, owned by the caller, who needs CREATE on schema fairq. policy: fair (weighted fair queueing between groups, within classes of priority 0 to 9), priority (lowest first) or time; buckets: 1 to 1024 independent parts; lease: how long a claim lasts; max_attempts: then a task is dead, 0 for no limit; backoff_base, backoff_max: the wait after a failed attempt; max_ready, max_ready_per_group: under policy fair, tasks beyond so many that are ready wait in the overflow; max_tasks: enqueue is refused beyond so many that are not dead, null or 0 for no limit; durable_leases: leases survive a crash; charge: what tasks count for, cost or the seconds that tasks of the group take; notify: NOTIFY fairq_<queue> when something becomes claimable; keep_done: how long finished tasks are kept in the table fairq.done_<queue>, null or 0 for not at all. Errors: 42710 if there is a queue of the name, or another relation of the name of its table or its archive, 42501, 22023 for a bad value.';

CREATE FUNCTION fairq.alter_queue(queue text,
    buckets int DEFAULT NULL, lease interval DEFAULT NULL, max_attempts int DEFAULT NULL,
    backoff_base interval DEFAULT NULL, backoff_max interval DEFAULT NULL,
    max_ready bigint DEFAULT NULL, max_ready_per_group bigint DEFAULT NULL,
    max_tasks bigint DEFAULT NULL, keep_done interval DEFAULT NULL,
    durable_leases boolean DEFAULT NULL, charge text DEFAULT NULL, notify boolean DEFAULT NULL)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_alter_queue';
COMMENT ON FUNCTION fairq.alter_queue(text, int, interval, int, interval, interval, bigint, bigint, bigint, interval, boolean, text, boolean) IS
'Change settings of a queue; null leaves one as it is, 0 takes the limit of max_tasks or keep_done away. Its policy and its name cannot be changed. For its owner. In force for statements that begin after the commit. buckets: new tasks go to so many, those that are in others stay and are claimed as before. keep_done: a shorter time has what is older removed; with 0 nothing is archived any more and what is there stays. Errors: 42704 for an unknown queue, 42501, 22023, 53400 (pgfairq.max_lanes is too low for so many buckets; nothing is changed), 42710 (keep_done: a relation has the name of the archive).';

CREATE FUNCTION fairq.drop_queue(queue text)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_drop_queue';
COMMENT ON FUNCTION fairq.drop_queue(text) IS
'Drop a queue with all its tasks and its archive. For its owner. Returns false if there is none. Waits for transactions that use the queue. Errors: 42501, 22023.';

CREATE FUNCTION fairq.purge(queue text, group_key text DEFAULT NULL)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_purge';
COMMENT ON FUNCTION fairq.purge(text, text) IS
'Remove every task that is not leased, of one group, or of all if group_key is null, the dead included. Needs DELETE. Returns how many. Reads the whole table. If the queue has an archive they are in it as cancelled, or as dead. Errors: 42704, 42501, 22023.';

CREATE FUNCTION fairq.pause(queue text, group_key text DEFAULT NULL)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_pause';
COMMENT ON FUNCTION fairq.pause(text, text) IS
'Pause a queue: claims return nothing until fairq.resume(). Tasks can still be enqueued, and leases settled. For its owner. group_key: pause that group only; null: the queue. Errors: 42704, 42501, 22023, 53400 (too many groups with settings).';

CREATE FUNCTION fairq.resume(queue text, group_key text DEFAULT NULL)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_resume';
COMMENT ON FUNCTION fairq.resume(text, text) IS
'Let claims from a paused queue (group_key null), or of a paused group, go on. For its owner. Errors: 42704, 42501, 22023, 53400 (too many groups with settings).';

CREATE FUNCTION fairq.maintain(queue text)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_maintain';
COMMENT ON FUNCTION fairq.maintain(text) IS
'Do by hand what the background worker does: put back the tasks of leases that have run out, make due tasks ready, move tasks out of the overflow, and look for held tasks that nothing holds any more. Returns how many that were; it ends when they are 10000 in all, or a few thousand more. Old rows of the archive are removed, too, and not counted; 10000 of them end it as well. It also goes on with the sweep, which looks for tasks that nobody handed over. For servers without a free worker process. Needs SELECT and UPDATE. Errors: 42704, 42501, 22023.';

CREATE FUNCTION fairq.row_written()
RETURNS trigger LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_row_written';
COMMENT ON FUNCTION fairq.row_written() IS
'Row trigger of queue tables: tells the engine of rows that are written by SQL, COPY or logical replication.';

-- What groups were given: null is the queue's default. It goes with the
-- settings of the queue.
CREATE TABLE fairq.group_setting (
    queue pg_catalog.text COLLATE pg_catalog."C" NOT NULL REFERENCES fairq.queue ON DELETE CASCADE,
    group_key pg_catalog.text COLLATE pg_catalog."C" NOT NULL,
    weight pg_catalog.float4,
    max_leased pg_catalog.int4,
    rate pg_catalog.float4,
    burst pg_catalog.int4,
    paused pg_catalog.bool NOT NULL DEFAULT false,
    PRIMARY KEY (queue, group_key)
);
SELECT pg_catalog.pg_extension_config_dump('fairq.group_setting', '');
REVOKE ALL ON fairq.group_setting FROM PUBLIC;
COMMENT ON TABLE fairq.group_setting IS 'Settings of groups; written by fairq.set_group(), fairq.pause() and fairq.resume(), shown by the view fairq.group_settings';

CREATE FUNCTION fairq.set_group(queue text, group_key text,
    weight real DEFAULT NULL, max_leased int DEFAULT NULL,
    rate real DEFAULT NULL, burst int DEFAULT NULL)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_set_group';
COMMENT ON FUNCTION fairq.set_group(text, text, real, int, real, int) IS
'Say what a group may have; null leaves one as it is. weight: its share between groups that have work, from 0.001 to 1000, for tasks that get their place from then on; max_leased: at most so many of its tasks in flight, 0 for no limit; rate: at most so many claims of its tasks a second, 0 for no limit; burst: and so many at once after a pause, 0 for as many as rate. In force for claims when it is committed. For the owner of the queue. Errors: 42704, 42501, 22023, 53400 (too many groups with settings).';

CREATE FUNCTION fairq.set_group_defaults(queue text,
    weight real DEFAULT NULL, max_leased int DEFAULT NULL,
    rate real DEFAULT NULL, burst int DEFAULT NULL)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_set_group_defaults';
COMMENT ON FUNCTION fairq.set_group_defaults(text, real, int, real, int) IS
'Say what those groups of a queue may have each that were not given something else by fairq.set_group(), with the same arguments. For the owner of the queue. Errors: 42704, 42501, 22023, 53400 (too many groups with settings).';
CREATE FUNCTION fairq.enqueue(queue text, payload jsonb,
    group_key text DEFAULT '', priority bigint DEFAULT 0, cost real DEFAULT 1,
    run_at timestamptz DEFAULT NULL,
    unique_key text DEFAULT NULL, on_duplicate text DEFAULT 'keep',
    max_attempts int DEFAULT NULL, lease interval DEFAULT NULL, headers jsonb DEFAULT NULL)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_enqueue';
COMMENT ON FUNCTION fairq.enqueue(text, jsonb, text, bigint, real, timestamptz, text, text, int, interval, jsonb) IS
'Enqueue a task; returns its id. It exists when and only when the transaction commits. group_key: whom it counts for, up to 1024 bytes; priority: 0 to 9 under policy fair, any under policy priority, lower first; cost: from 0.001 to 1000000, what it counts for; run_at: not claimable before, a time in the past is now; max_attempts and lease: instead of the queue''s. Needs INSERT. unique_key: what the task is about, 1 to 1024 bytes; if a task of the key waits, its id is returned, and it is left as it is (on_duplicate keep) or made what this call gives (replace); if one is in flight, the new one is held until that is done, or keeps or replaces the one that is held. Waits for other producers of the same key. Errors: 42704, 42501, 22023, 53400 (the queue has max_tasks tasks, or one of the settings pgfairq.max_queues, max_groups and max_lanes is reached).';

CREATE FUNCTION fairq.enqueue_many(queue text, payloads jsonb[],
    group_keys text[] DEFAULT NULL, priorities bigint[] DEFAULT NULL,
    costs real[] DEFAULT NULL, run_ats timestamptz[] DEFAULT NULL,
    unique_keys text[] DEFAULT NULL, on_duplicate text DEFAULT 'keep')
RETURNS bigint[] LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_enqueue_many';
COMMENT ON FUNCTION fairq.enqueue_many(text, jsonb[], text[], bigint[], real[], timestamptz[], text[], text) IS
'Enqueue tasks; returns their ids in the order given. Arrays have one dimension and the same length; an array of length 1 stands for all, and a null element for the default, but a payload may not be null. An empty array is of length 0: beside others of length 1 nothing is enqueued. Keys are taken in their own order, whatever that of the arrays. Needs INSERT. Else, and for errors, as fairq.enqueue().';

-- Which queues want what is published. A subscription goes with the settings of
-- its queue.
CREATE TABLE fairq.topic (
    topic pg_catalog.text COLLATE pg_catalog."C" NOT NULL,
    queue pg_catalog.text COLLATE pg_catalog."C" NOT NULL REFERENCES fairq.queue ON DELETE CASCADE,
    PRIMARY KEY (queue, topic)
);
SELECT pg_catalog.pg_extension_config_dump('fairq.topic', '');
REVOKE ALL ON fairq.topic FROM PUBLIC;
GRANT SELECT ON fairq.topic TO PUBLIC;
COMMENT ON TABLE fairq.topic IS 'Subscriptions of queues to topics; written by fairq.subscribe() and fairq.unsubscribe(), read through the view fairq.topics';

CREATE FUNCTION fairq.subscribe(topic text, queue text)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_subscribe';
COMMENT ON FUNCTION fairq.subscribe(text, text) IS
'From the commit on a queue gets a task of everything published to a topic. topic: words joined by ''.'', where the word * stands for any one word and # for any number of words, also none; up to 255 bytes. Does nothing if the queue has that subscription. For the owner of the queue. Errors: 22023 for a bad topic, 42704, 42501.';

CREATE FUNCTION fairq.unsubscribe(topic text, queue text)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_unsubscribe';
COMMENT ON FUNCTION fairq.unsubscribe(text, text) IS
'End the subscription of a queue to a topic, which is named as it was subscribed to. Returns false if there is none. Tasks that are in the queue stay. For the owner of the queue. Errors: 22023 for a bad topic, 42704, 42501.';

CREATE FUNCTION fairq.publish(topic text, payload jsonb,
    group_key text DEFAULT '', priority bigint DEFAULT 0, cost real DEFAULT 1,
    run_at timestamptz DEFAULT NULL, unique_key text DEFAULT NULL, on_duplicate text DEFAULT 'keep',
    max_attempts int DEFAULT NULL, lease interval DEFAULT NULL, headers jsonb DEFAULT NULL)
RETURNS int LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_publish';
COMMENT ON FUNCTION fairq.publish(text, jsonb, text, bigint, real, timestamptz, text, text, int, interval, jsonb) IS
'Enqueue a task in every queue with a subscription that the topic matches, one in each; returns in how many. topic: words joined by ''.'', up to 255 bytes, without * and #. The other arguments are those of fairq.enqueue(), and as good for each of the queues. Needs INSERT on all of them. Errors: 22023 for a bad topic or an argument that one of the queues does not take, 42501, and those of fairq.enqueue(); the message names the queue, and no queue has a task then.';
CREATE FUNCTION fairq.claim(queue text, max_tasks int DEFAULT 1,
    lease interval DEFAULT NULL, session uuid DEFAULT NULL, wait interval DEFAULT '0',
    buckets int[] DEFAULT NULL, group_keys text[] DEFAULT NULL)
RETURNS SETOF fairq.task LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_claim';
COMMENT ON FUNCTION fairq.claim(text, int, interval, uuid, interval, int[], text[]) IS
'Lease up to max_tasks (1 to 100000) tasks, in the queue''s order; fewer only if there are no more that may be claimed, or no more leases. lease: how long, instead of the task''s or the queue''s; buckets: only from these; group_keys: only of these, at the price of walking over the others. Returns the tasks with their receipts. Writes nothing, but for durable leases; a rollback gives the leases back. session: the leases live as long as it does, or as lease says if that is less. Needs SELECT and UPDATE. wait: while there is nothing to claim, up to 10 years; the statement''s snapshot is held meanwhile. Errors: 42704 (also if the queue is dropped while it waits), 42501, 22023, 53400 (pgfairq.max_leases is reached and nothing was leased, or pgfairq.max_limits or max_groups is reached), 55000 (the session is over, or a bucket is another session''s).';

CREATE FUNCTION fairq.ack(receipt uuid)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_ack';
COMMENT ON FUNCTION fairq.ack(uuid) IS
'The task is done: remove it, if the transaction commits. Returns false if the lease is no longer the caller''s; of all transactions that ack a task at most one commits with true. Needs DELETE. Errors: 42501, 22023, and what the archive''s constraints raise.';

CREATE FUNCTION fairq.ack_many(receipts uuid[])
RETURNS SETOF uuid LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_ack_many';
COMMENT ON FUNCTION fairq.ack_many(uuid[]) IS
'As fairq.ack(), for many; returns the receipts that were acknowledged. Needs DELETE. Errors: as fairq.ack().';

CREATE FUNCTION fairq.ack_and_claim(queue text, receipts uuid[], max_tasks int DEFAULT 1,
    lease interval DEFAULT NULL, session uuid DEFAULT NULL, wait interval DEFAULT '0')
RETURNS SETOF fairq.task LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_ack_and_claim';
COMMENT ON FUNCTION fairq.ack_and_claim(text, uuid[], int, interval, uuid, interval) IS
'Acknowledge the receipts, as fairq.ack_many(), then claim from the queue, as fairq.claim(), in one call, and return the tasks claimed. Receipts that are no longer the caller''s are passed over; use fairq.ack_many() to know which. wait: as for fairq.claim(), but only if none was acknowledged: acknowledgements take effect at the commit, so a call that has made one does not wait. Needs SELECT, UPDATE and DELETE. Errors: as fairq.claim().';

CREATE FUNCTION fairq.nack(receipt uuid, error text DEFAULT NULL, delay interval DEFAULT NULL)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_nack';
COMMENT ON FUNCTION fairq.nack(uuid, text, interval) IS
'The attempt failed: put the task back with a fresh address, after a wait, or to the dead if that was its last attempt. error is kept as last_error. delay: how long it waits before it is ready again; null: the queue''s backoff, backoff_base * 2^(n-1) after attempt n with a jitter of 10 %, up to backoff_max. Returns false if the lease is no longer the caller''s. Needs SELECT and UPDATE. Errors: 42501, 22023.';

CREATE FUNCTION fairq.nack_many(receipts uuid[], errors text[] DEFAULT NULL, delay interval DEFAULT NULL)
RETURNS SETOF uuid LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_nack_many';
COMMENT ON FUNCTION fairq.nack_many(uuid[], text[], interval) IS
'As fairq.nack(), for many, with an error for each or one for all; returns the receipts that were put back. Needs SELECT and UPDATE. Errors: 42501, 22023.';

CREATE FUNCTION fairq.extend(receipt uuid, lease interval DEFAULT NULL)
RETURNS timestamptz LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_extend';
COMMENT ON FUNCTION fairq.extend(uuid, interval) IS
'Let the lease end so long from now (null: the task''s or the queue''s lease); returns when, null if it is no longer the caller''s. In force at once, a rollback does not undo it. Needs SELECT and UPDATE. Errors: 42501, 22023.';

CREATE FUNCTION fairq.extend_many(receipts uuid[], lease interval DEFAULT NULL)
RETURNS SETOF uuid LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_extend_many';
COMMENT ON FUNCTION fairq.extend_many(uuid[], interval) IS
'As fairq.extend(), for many; returns the receipts that were extended. Needs SELECT and UPDATE. Errors: 42501, 22023.';

CREATE FUNCTION fairq.release(receipt uuid)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_release';
COMMENT ON FUNCTION fairq.release(uuid) IS
'Give the task back to its place; no attempt is counted. Returns false if the lease is no longer the caller''s. Needs SELECT and UPDATE. Errors: 42501, 22023.';

CREATE FUNCTION fairq.release_many(receipts uuid[])
RETURNS SETOF uuid LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_release_many';
COMMENT ON FUNCTION fairq.release_many(uuid[]) IS
'As fairq.release(), for many; returns the receipts that were released. Needs SELECT and UPDATE. Errors: 42501, 22023.';

CREATE FUNCTION fairq.pop(queue text, max_tasks int DEFAULT 1, wait interval DEFAULT '0',
    buckets int[] DEFAULT NULL, group_keys text[] DEFAULT NULL)
RETURNS SETOF fairq.task LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_pop';
COMMENT ON FUNCTION fairq.pop(text, int, interval, int[], text[]) IS
'Claim and acknowledge in the caller''s transaction: if it commits the tasks are done, if it rolls back or its connection is lost they are back in their place at once. Returns the tasks. Needs SELECT and DELETE. Else, and for errors, as fairq.claim(); 40001 if somebody else changes the row with SQL at that moment.';

CREATE PROCEDURE fairq.wait(queue text, timeout interval DEFAULT '30 s')
LANGUAGE C
AS 'MODULE_PATHNAME', 'fairq_wait';
COMMENT ON PROCEDURE fairq.wait(text, interval) IS
'Return when something may be claimable, or after timeout (0 to 10 years). To be called on its own: it ends its transaction and holds neither snapshot nor locks while it waits. Needs SELECT. Errors: 42704 (also if the queue is dropped meanwhile), 42501, 22023, 25001 (in a transaction that is under way), 25006 (in a read-only transaction).';

CREATE FUNCTION fairq.open_session(name text DEFAULT NULL, ttl interval DEFAULT '10 s', bound boolean DEFAULT false)
RETURNS uuid LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_open_session';
COMMENT ON FUNCTION fairq.open_session(text, interval, boolean) IS
'Open a session, a worker''s liveness, and return it. Takes no privilege. It is over when no heartbeat comes for ttl (above 0, up to 10 years), and if bound also when the connection that opened it closes. Opened at once, a rollback does not undo it. Errors: 22023, 53400 (too many sessions).';

CREATE FUNCTION fairq.heartbeat(session uuid)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_heartbeat';
COMMENT ON FUNCTION fairq.heartbeat(uuid) IS
'A sign of life: the session goes on for another ttl from now. Returns false if it is over: stop working, its leases are lost. In force at once, a rollback does not undo it. Works in a read-only transaction, too. For the role that opened it. Errors: 42501, 22023.';

CREATE FUNCTION fairq.close_session(session uuid)
RETURNS int LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_close_session';
COMMENT ON FUNCTION fairq.close_session(uuid) IS
'End a session, when the transaction commits: its leases are given back, no attempt counted; returns how many. 0 also if it was over. Needs SELECT and UPDATE on the queues of its leases. For the role that opened it. Errors: 42501, 22023.';

CREATE FUNCTION fairq.my_buckets(queue text, session uuid)
RETURNS int[] LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_my_buckets';
COMMENT ON FUNCTION fairq.my_buckets(text, uuid) IS
'Return the buckets of a queue that are the session''s: they are dealt out between the live sessions that ask for them, each bucket to one, and dealt again when one joins or leaves or the number of buckets changes. Tasks left in a bucket b of when there were more go with bucket b mod their number. Ask before each claim; fairq.claim(buckets, session) refuses a bucket that has moved (55000). Needs SELECT. Errors: 42704, 42501, 22023, 54000 (8192 shares are dealt out), 55000 (the session is over).';

CREATE FUNCTION fairq.open_sessions(
    OUT session uuid, OUT name text, OUT role regrole, OUT opened_at timestamptz,
    OUT ttl interval, OUT alive_until timestamptz, OUT bound boolean, OUT pid int, OUT leases int)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_open_sessions';
COMMENT ON FUNCTION fairq.open_sessions() IS
'What is behind the view fairq.sessions';

CREATE FUNCTION fairq.peek(queue text, max_tasks int DEFAULT 10)
RETURNS SETOF fairq.task LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_peek';
COMMENT ON FUNCTION fairq.peek(text, int) IS
'What fairq.claim() would return next, in order, without leasing it: receipt and lease_until are null. Tasks of groups that are paused, or can have none more in flight, are left out; of a group that may have one more there may be several, and tasks that were set aside and wait for their turn are not shown. Returns up to max_tasks (1 to 100000) tasks. Needs SELECT. Errors: 42704, 42501, 22023.';

CREATE FUNCTION fairq.get_task(queue text, id bigint)
RETURNS SETOF fairq.task_status LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1
AS 'MODULE_PATHNAME', 'fairq_get_task';
COMMENT ON FUNCTION fairq.get_task(text, bigint) IS
'Returns one task in whatever state; no row if there is none. Needs SELECT. Errors: 42704, 42501, 22023.';

CREATE FUNCTION fairq.tasks(queue text, state text DEFAULT NULL, group_key text DEFAULT NULL)
RETURNS SETOF fairq.task_status LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1000
AS 'MODULE_PATHNAME', 'fairq_tasks';
COMMENT ON FUNCTION fairq.tasks(text, text, text) IS
'Returns all tasks, or those of one state (ready, leased, scheduled, overflow, held, dead) or one group, in no order. Needs SELECT. Reads the whole table. Errors: 42704, 42501, 22023.';

CREATE FUNCTION fairq.cancel(queue text, id bigint)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_cancel';
COMMENT ON FUNCTION fairq.cancel(text, bigint) IS
'Remove a task: it will not run again, and if it is leased the lease is lost. Returns false if there is none. Waits for a transaction that is settling it. Needs DELETE. Errors: 42704, 42501, 22023.';

CREATE FUNCTION fairq.revive(queue text, id bigint DEFAULT NULL)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_revive';
COMMENT ON FUNCTION fairq.revive(text, bigint) IS
'Make a dead task, or all if id is null, ready again with all attempts: held if another one of its unique key is in flight, and not at all if one waits. Returns how many. Needs SELECT and UPDATE. Errors: 42704, 42501, 22023, 53400 (too many groups or lanes).';

CREATE FUNCTION fairq.stats_of_queues(
    OUT queue text, OUT ready bigint, OUT leased bigint, OUT scheduled bigint,
    OUT overflow bigint, OUT held bigint, OUT dead bigint, OUT oldest_ready_age interval,
    OUT enqueued bigint, OUT claimed bigint, OUT acked bigint, OUT nacked bigint,
    OUT released bigint, OUT expired bigint, OUT cancelled bigint, OUT dead_total bigint,
    OUT swept bigint,
    OUT enqueue_rate float8, OUT claim_rate float8, OUT ack_rate float8,
    OUT wait_p50 interval, OUT wait_p95 interval, OUT wait_p99 interval,
    OUT run_p50 interval, OUT run_p95 interval, OUT run_p99 interval,
    OUT payload_avg bigint, OUT payload_p50 bigint, OUT payload_p95 bigint, OUT payload_max bigint,
    OUT stats_reset timestamptz)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_stats_of_queues';
COMMENT ON FUNCTION fairq.stats_of_queues() IS
'What is behind the view fairq.queue_stats';

CREATE FUNCTION fairq.reset_stats(queue text DEFAULT NULL)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_reset_stats';
COMMENT ON FUNCTION fairq.reset_stats(text) IS
'Count anew what the view fairq.queue_stats shows of a queue (null: of all queues that the caller owns), but for how many tasks there are. Done at once, a rollback does not undo it. For the owner of the queue. Errors: 42704, 42501, 22023.';

CREATE FUNCTION fairq.stats_of_buckets(
    OUT queue text, OUT bucket int, OUT class int, OUT ready bigint, OUT complete boolean,
    OUT next_address fairq.address, OUT frontier fairq.address)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 100
AS 'MODULE_PATHNAME', 'fairq_stats_of_buckets';
COMMENT ON FUNCTION fairq.stats_of_buckets() IS
'What is behind the view fairq.bucket_stats';

CREATE FUNCTION fairq.stats_of_groups(
    OUT queue text, OUT group_key text, OUT ready bigint, OUT overflow bigint, OUT leased bigint,
    OUT weight real, OUT max_leased int, OUT rate real, OUT burst int, OUT tokens float8, OUT paused boolean,
    OUT served bigint, OUT served_cost float8, OUT share float8, OUT expected_share float8, OUT share_error float8,
    OUT oldest_wait interval, OUT run_time interval)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 100
AS 'MODULE_PATHNAME', 'fairq_stats_of_groups';
COMMENT ON FUNCTION fairq.stats_of_groups() IS
'What is behind the view fairq.group_stats';

CREATE FUNCTION fairq.get_task_position(queue text, id bigint)
RETURNS fairq.task_position LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_get_task_position';
COMMENT ON FUNCTION fairq.get_task_position(text, bigint) IS
'How many ready tasks are ahead of a task, and about when it will start if tasks are claimed as they were in the last minute (null if none was), and not before the limits of its group let it (null if it is paused). exact: the tasks ahead were counted; up to 10000 are, beyond that it is an estimate, so that it costs the same however long the queue is. What comes later and is served earlier is not foreseen. Of a scheduled task starts_at is when it is due, of one in the overflow, held or dead both are null. Returns null if there is no such task. Needs SELECT. Errors: 42704, 42501, 22023.';

CREATE FUNCTION fairq.live_leases(
    OUT queue text, OUT id bigint, OUT receipt uuid, OUT lease_until timestamptz,
    OUT attempt int, OUT state text, OUT pid int)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 100
AS 'MODULE_PATHNAME', 'fairq_live_leases';
COMMENT ON FUNCTION fairq.live_leases() IS
'What is behind the view fairq.leases';

CREATE FUNCTION fairq.done_of_queues(
    OUT queue text, OUT id bigint, OUT enqueued_at timestamptz, OUT claimed_at timestamptz, OUT done_at timestamptz,
    OUT run_at timestamptz, OUT priority bigint, OUT cost real, OUT attempts int, OUT outcome text, OUT group_key text,
    OUT payload jsonb, OUT headers jsonb, OUT unique_key text, OUT last_error text)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1000
AS 'MODULE_PATHNAME', 'fairq_done_of_queues';
COMMENT ON FUNCTION fairq.done_of_queues() IS
'What is behind the view fairq.archived_tasks';

-- All dead tasks of the queues that the caller may read.
CREATE FUNCTION fairq.dead_of_queues(
    OUT queue text, OUT id bigint, OUT group_key text, OUT payload jsonb, OUT headers jsonb,
    OUT priority bigint, OUT attempts int, OUT enqueued_at timestamptz, OUT last_error text)
RETURNS SETOF record LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    name text;
BEGIN
    FOR name IN SELECT q.queue FROM fairq.queue q
                JOIN pg_catalog.pg_class c ON c.relname = 'q_' || q.queue
                WHERE c.relnamespace = 'fairq'::pg_catalog.regnamespace
                AND pg_catalog.has_table_privilege(c.oid, 'SELECT')
                ORDER BY q.queue
    LOOP
        -- An owner who has made his table unfit, or has row security on it,
        -- does not keep us from the others'.
        BEGIN
            RETURN QUERY SELECT name, t.id, t.group_key, t.payload, t.headers,
                t.priority, t.attempts, t.enqueued_at, t.last_error
                FROM fairq.tasks(name, 'dead') t;
        EXCEPTION WHEN invalid_table_definition OR insufficient_privilege OR configuration_limit_exceeded THEN
            NULL;
        END;
    END LOOP;
END
$$;
COMMENT ON FUNCTION fairq.dead_of_queues() IS
'What is behind the view fairq.dead_tasks';

CREATE VIEW fairq.queues AS
SELECT q.queue, c.relowner::pg_catalog.regrole AS owner, c.oid::pg_catalog.regclass AS relation,
    q.policy, q.buckets, q.lease, q.max_attempts, q.backoff_base, q.backoff_max,
    q.max_ready, q.max_ready_per_group, q.max_tasks, q.keep_done, q.durable_leases, q.charge, q.notify,
    q.group_weight, q.group_max_leased, q.group_rate, q.group_burst, q.paused
FROM fairq.queue q
JOIN pg_catalog.pg_class c ON c.relname::pg_catalog.text OPERATOR(pg_catalog.=) ('q_' OPERATOR(pg_catalog.||) q.queue)
    AND c.relnamespace OPERATOR(pg_catalog.=) 'fairq'::pg_catalog.regnamespace;
COMMENT ON VIEW fairq.queues IS 'The queues of this database and their settings';

CREATE VIEW fairq.queue_stats AS SELECT * FROM fairq.stats_of_queues();
COMMENT ON VIEW fairq.queue_stats IS
'For each queue how many tasks are in each state, how long the longest waiting at the front, of groups that may be claimed from, has waited; what happened since stats_reset; how much of it a second in the last minute; how long tasks waited to be claimed and ran until they were acknowledged (quantiles, up to 6.25 % above the true ones); and how many bytes payloads have. Of a queue whose table is locked exclusively what would have to be read there is null. Shows the queues that one may read, to pg_monitor all.';

CREATE VIEW fairq.group_stats AS SELECT * FROM fairq.stats_of_groups();
COMMENT ON VIEW fairq.group_stats IS
'For each group with work how many of its tasks are ready, in the overflow and leased; what it may have; how many were served since it was idle last, and what they were charged; its share of that and the share that its weight says, between the groups with work; how long its oldest ready task has waited at most; how long its tasks have run. Keys above 48 bytes are cut. Shows the queues that one may read, to pg_monitor all.';

CREATE VIEW fairq.group_settings AS
SELECT s.queue, s.group_key, s.weight, s.max_leased, s.rate, s.burst, s.paused
FROM fairq.group_setting s
JOIN fairq.queues q ON q.queue OPERATOR(pg_catalog.=) s.queue
WHERE pg_catalog.has_table_privilege(q.relation::pg_catalog.oid, 'SELECT')
    OR pg_catalog.pg_has_role('pg_monitor', 'USAGE');
COMMENT ON VIEW fairq.group_settings IS
'What groups were given by fairq.set_group(), fairq.pause() and fairq.resume(); null is the default of the queue. Shows the queues that one may read, to pg_monitor all.';

CREATE VIEW fairq.bucket_stats AS SELECT * FROM fairq.stats_of_buckets();
COMMENT ON VIEW fairq.bucket_stats IS
'For each bucket and class in use what is in its window (ready), whether that is all there is (complete), the first address in it, and the frontier, from which on the index is read. Leaves out queues whose tables are locked exclusively';

CREATE VIEW fairq.leases AS SELECT * FROM fairq.live_leases();
COMMENT ON VIEW fairq.leases IS
'The tasks in flight: until when, the number of the attempt, held, settling or expired, and the process id of the backend that claimed';

CREATE VIEW fairq.sessions AS SELECT * FROM fairq.open_sessions();
COMMENT ON VIEW fairq.sessions IS
'The sessions of this database: of one''s own roles, to pg_monitor all. alive_until is null when one is over and its last leases are being given back; pid is that of the backend that opened it.';

CREATE VIEW fairq.dead_tasks AS SELECT * FROM fairq.dead_of_queues();
COMMENT ON VIEW fairq.dead_tasks IS
'The tasks whose attempts are used up, of the queues that one may read. Reads their tables, and waits for locks on them.';

CREATE VIEW fairq.topics AS
SELECT t.topic, t.queue
FROM fairq.topic t
JOIN fairq.queues q ON q.queue OPERATOR(pg_catalog.=) t.queue;
COMMENT ON VIEW fairq.topics IS 'The subscriptions of the queues of this database: which topics, with the wildcards * and #, each has';

-- Not done_..., which is how the tables of archives are called.
CREATE VIEW fairq.archived_tasks AS SELECT * FROM fairq.done_of_queues();
COMMENT ON VIEW fairq.archived_tasks IS
'The finished tasks that are kept in archives, of the archives that one may read: outcome acked, cancelled or dead, attempts, when claimed and done. Reads their tables, and waits for locks on them.';

GRANT SELECT ON fairq.topics, fairq.queues, fairq.queue_stats, fairq.group_stats, fairq.group_settings, fairq.bucket_stats, fairq.leases, fairq.sessions, fairq.dead_tasks, fairq.archived_tasks TO PUBLIC;

