CREATE OR REPLACE FUNCTION fairq.claim(queue text, max_tasks int DEFAULT 1,
    lease interval DEFAULT NULL, session uuid DEFAULT NULL, wait interval DEFAULT '0',
    buckets int[] DEFAULT NULL, group_keys text[] DEFAULT NULL)
RETURNS SETOF fairq.task LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_claim';

CREATE OR REPLACE FUNCTION fairq.claim_any(queues text[], max_tasks int DEFAULT 1,
    lease interval DEFAULT NULL, session uuid DEFAULT NULL, wait interval DEFAULT '0')
RETURNS SETOF fairq.queue_task LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_claim_any';

CREATE OR REPLACE FUNCTION fairq.ack(receipt uuid, result jsonb DEFAULT NULL)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_ack';

CREATE OR REPLACE FUNCTION fairq.ack_many(receipts uuid[])
RETURNS SETOF uuid LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_ack_many';

CREATE OR REPLACE FUNCTION fairq.ack_and_claim(queue text, receipts uuid[], max_tasks int DEFAULT 1,
    lease interval DEFAULT NULL, session uuid DEFAULT NULL, wait interval DEFAULT '0')
RETURNS SETOF fairq.task LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_ack_and_claim';

CREATE OR REPLACE FUNCTION fairq.nack(receipt uuid, error text DEFAULT NULL, delay interval DEFAULT NULL,
    final boolean DEFAULT false)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_nack';

CREATE OR REPLACE FUNCTION fairq.nack_many(receipts uuid[], errors text[] DEFAULT NULL, delay interval DEFAULT NULL,
    final boolean DEFAULT false)
RETURNS SETOF uuid LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_nack_many';

CREATE OR REPLACE FUNCTION fairq.set_progress(receipt uuid, progress jsonb)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_set_progress';

CREATE OR REPLACE FUNCTION fairq.extend(receipt uuid, lease interval DEFAULT NULL)
RETURNS timestamptz LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_extend';

CREATE OR REPLACE FUNCTION fairq.extend_many(receipts uuid[], lease interval DEFAULT NULL)
RETURNS SETOF uuid LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_extend_many';

CREATE OR REPLACE FUNCTION fairq.release(receipt uuid, delay interval DEFAULT '0')
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_release';

CREATE OR REPLACE FUNCTION fairq.release_many(receipts uuid[], delay interval DEFAULT '0')
RETURNS SETOF uuid LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_release_many';

CREATE OR REPLACE FUNCTION fairq.pop(queue text, max_tasks int DEFAULT 1, wait interval DEFAULT '0',
    buckets int[] DEFAULT NULL, group_keys text[] DEFAULT NULL)
RETURNS SETOF fairq.task LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_pop';

CREATE OR REPLACE PROCEDURE fairq.wait(queue text, timeout interval DEFAULT '30 s')
LANGUAGE C
AS 'MODULE_PATHNAME', 'fairq_wait';

CREATE OR REPLACE PROCEDURE fairq.wait_any(queues text[], timeout interval DEFAULT '30 s')
LANGUAGE C
AS 'MODULE_PATHNAME', 'fairq_wait_any';

CREATE OR REPLACE FUNCTION fairq.await(queue text, id bigint, timeout interval DEFAULT '30 s')
RETURNS fairq.outcome LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_await';
