CREATE OR REPLACE FUNCTION fairq.claim(queue text, max_tasks int DEFAULT 1,
    lease interval DEFAULT NULL, session uuid DEFAULT NULL, wait interval DEFAULT '0',
    buckets int[] DEFAULT NULL, group_keys text[] DEFAULT NULL)
RETURNS SETOF fairq.task LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_claim';
COMMENT ON FUNCTION fairq.claim IS 'Lease up to max_tasks tasks of a queue, in its order; returns them with their receipts.';

CREATE OR REPLACE FUNCTION fairq.claim_any(queues text[], max_tasks int DEFAULT 1,
    lease interval DEFAULT NULL, session uuid DEFAULT NULL, wait interval DEFAULT '0')
RETURNS SETOF fairq.queue_task LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_claim_any';
COMMENT ON FUNCTION fairq.claim_any IS 'Lease up to max_tasks tasks of several queues, from the queues in the order given; returns them with their receipts.';

CREATE OR REPLACE FUNCTION fairq.ack(receipt uuid, result jsonb DEFAULT NULL)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_ack';
COMMENT ON FUNCTION fairq.ack IS 'Say that a task is done, with a result if there is one; returns false if the lease is lost.';

CREATE OR REPLACE FUNCTION fairq.ack_many(receipts uuid[])
RETURNS SETOF uuid LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_ack_many';
COMMENT ON FUNCTION fairq.ack_many IS 'Say that tasks are done; returns the receipts that were good.';

CREATE OR REPLACE FUNCTION fairq.ack_and_claim(queue text, receipts uuid[], max_tasks int DEFAULT 1,
    lease interval DEFAULT NULL, session uuid DEFAULT NULL, wait interval DEFAULT '0')
RETURNS SETOF fairq.task LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_ack_and_claim';
COMMENT ON FUNCTION fairq.ack_and_claim IS 'Say that tasks are done and claim others in one call; returns the tasks that were claimed.';

CREATE OR REPLACE FUNCTION fairq.nack(receipt uuid, error text DEFAULT NULL, delay interval DEFAULT NULL,
    final boolean DEFAULT false)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_nack';
COMMENT ON FUNCTION fairq.nack IS 'Say that an attempt failed, so that the task is tried again, or is dead: after the last attempt, or at once if final; returns false if the lease is lost.';

CREATE OR REPLACE FUNCTION fairq.nack_many(receipts uuid[], errors text[] DEFAULT NULL, delay interval DEFAULT NULL,
    final boolean DEFAULT false)
RETURNS SETOF uuid LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_nack_many';
COMMENT ON FUNCTION fairq.nack_many IS 'Say that attempts failed, with an error for each or one for all, and whether there is another; returns the receipts that were good.';

CREATE OR REPLACE FUNCTION fairq.set_progress(receipt uuid, progress jsonb)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_set_progress';
COMMENT ON FUNCTION fairq.set_progress IS 'Write into the headers of a leased task how far it is; returns false if the lease is lost, or the headers are no object.';

CREATE OR REPLACE FUNCTION fairq.extend(receipt uuid, lease interval DEFAULT NULL)
RETURNS timestamptz LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_extend';
COMMENT ON FUNCTION fairq.extend IS 'Let a lease end so long from now; returns when that is, null if the lease is lost.';

CREATE OR REPLACE FUNCTION fairq.extend_many(receipts uuid[], lease interval DEFAULT NULL)
RETURNS SETOF uuid LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_extend_many';
COMMENT ON FUNCTION fairq.extend_many IS 'Let leases end so long from now; returns the receipts that were good.';

CREATE OR REPLACE FUNCTION fairq.release(receipt uuid, delay interval DEFAULT '0')
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_release';
COMMENT ON FUNCTION fairq.release IS 'Give a task back without counting an attempt, at once or after a delay; returns false if the lease is lost.';

CREATE OR REPLACE FUNCTION fairq.release_many(receipts uuid[], delay interval DEFAULT '0')
RETURNS SETOF uuid LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_release_many';
COMMENT ON FUNCTION fairq.release_many IS 'Give tasks back without counting an attempt, at once or after a delay; returns the receipts that were good.';

CREATE OR REPLACE FUNCTION fairq.pop(queue text, max_tasks int DEFAULT 1, wait interval DEFAULT '0',
    buckets int[] DEFAULT NULL, group_keys text[] DEFAULT NULL)
RETURNS SETOF fairq.task LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_pop';
COMMENT ON FUNCTION fairq.pop IS 'Claim and acknowledge tasks in the caller''s transaction: a rollback puts them back; returns the tasks.';

CREATE OR REPLACE PROCEDURE fairq.wait(queue text, timeout interval DEFAULT '30 s')
LANGUAGE C
AS 'MODULE_PATHNAME', 'fairq_wait';
COMMENT ON PROCEDURE fairq.wait IS 'Wait until something may be claimable in a queue, or until the timeout.';

CREATE OR REPLACE PROCEDURE fairq.wait_any(queues text[], timeout interval DEFAULT '30 s')
LANGUAGE C
AS 'MODULE_PATHNAME', 'fairq_wait_any';
COMMENT ON PROCEDURE fairq.wait_any IS 'Wait until something may be claimable in one of several queues, or until the timeout.';

CREATE OR REPLACE FUNCTION fairq.await(queue text, id bigint, timeout interval DEFAULT '30 s')
RETURNS fairq.outcome LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_await';
COMMENT ON FUNCTION fairq.await IS 'Wait until a task has ended, or until the timeout; returns its outcome or its present state.';
