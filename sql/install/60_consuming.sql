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
'Claim and acknowledge in the caller''s transaction: if it commits the tasks are done, if it rolls back or its connection is lost they are back in their place at once. Returns the tasks. Needs SELECT and DELETE. Else, and for errors, as fairq.claim(); 40001 if another transaction changes the row with SQL at that moment.';

CREATE PROCEDURE fairq.wait(queue text, timeout interval DEFAULT '30 s')
LANGUAGE C
AS 'MODULE_PATHNAME', 'fairq_wait';
COMMENT ON PROCEDURE fairq.wait(text, interval) IS
'Return when something may be claimable, or after timeout (0 to 10 years). To be called on its own: it ends its transaction and holds neither snapshot nor locks while it waits. Needs SELECT. Errors: 42704 (also if the queue is dropped meanwhile), 42501, 22023, 25001 (in a transaction that is under way), 25006 (in a read-only transaction).';

