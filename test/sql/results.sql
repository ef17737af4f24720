-- Results: fairq.ack(receipt, result), and fairq.await(). The queues of this file
-- start with "res", but for one with an odd name, its roles with regress_fairq.
-- The tests hold with and without a worker. What waits is in the isolation test
-- await_race and in test/t/waiting_outcomes.pl; here nothing does.
--
-- To see it fail: leave the result out of archive_add(), or the check of
-- keep_done out of take_result(); read the archive with the snapshot of the
-- statement; leave out the check of the transaction's own row.

-- What became of a statement: its result, or its error, detail and hint.
CREATE FUNCTION pg_temp.try(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    result text;
    detail text;
    hint text;
BEGIN
    EXECUTE statement INTO result;
    RETURN coalesce('ok ' || nullif(result, ''), 'ok');
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT, detail = PG_EXCEPTION_DETAIL;
    RETURN SQLSTATE || ': ' || SQLERRM || coalesce(E'\n  detail: ' || nullif(detail, ''), '') || coalesce(E'\n  hint: ' || nullif(hint, ''), '');
END
$$;
\pset format unaligned
\pset tuples_only on
\pset null (null)
CREATE ROLE regress_fairq_owner;
CREATE ROLE regress_fairq_producer;
CREATE ROLE regress_fairq_stranger;
GRANT CREATE ON SCHEMA fairq TO regress_fairq_owner;

SET ROLE regress_fairq_owner;
SELECT fairq.create_queue('res', keep_done => '1 day', lease => '1 h', max_attempts => 2, backoff_base => '0');
SELECT fairq.create_queue('res none', lease => '1 h', max_attempts => 2, backoff_base => '0');
SELECT indexdef FROM pg_indexes WHERE tablename = 'done_res' ORDER BY 1;
-- Every way to end, and what is known of it afterwards: with an archive ...
CREATE FUNCTION pg_temp.ended(queue text, task bigint) RETURNS text LANGUAGE sql AS $$
    SELECT concat_ws(' ', o.state, o.result, o.last_error, CASE WHEN o.done_at BETWEEN now() - interval '1 h' AND clock_timestamp() THEN 'done' END)
        FROM fairq.await(queue, task) o
$$;
SELECT fairq.enqueue('res', '1') AS acked, fairq.enqueue('res', '2') AS bare, fairq.enqueue('res', '3') AS json_null \gset
SELECT fairq.ack(receipt, jsonb_build_object('sum', 42)) FROM fairq.claim('res');
SELECT fairq.ack(receipt, result => NULL) FROM fairq.claim('res');
SELECT fairq.ack(receipt, 'null') FROM fairq.claim('res');
SELECT pg_temp.ended('res', t) FROM unnest(ARRAY[:acked, :bare, :json_null]) t;
SELECT result FROM fairq.done_res ORDER BY id;
SELECT id = :acked, result FROM fairq.done_tasks WHERE queue = 'res' ORDER BY id;
SELECT fairq.enqueue('res', '4') AS retried \gset
SELECT fairq.nack(receipt, 'once', '0') FROM fairq.claim('res');
SELECT fairq.ack(receipt, '"at last"') FROM fairq.claim('res');
SELECT fairq.enqueue('res', '5') AS cancelled, fairq.enqueue('res', '6', run_at => '2100-01-01') AS purged \gset
SELECT fairq.cancel('res', :cancelled), fairq.purge('res');
SELECT fairq.enqueue('res', '7') AS dead, fairq.enqueue('res', '8') AS popped \gset
SELECT fairq.nack(receipt, 'no', '0') FROM fairq.claim('res');
SELECT payload FROM fairq.pop('res');
SELECT fairq.nack(receipt, 'never', '0') FROM fairq.claim('res');
SELECT pg_temp.ended('res', t) FROM unnest(ARRAY[:retried, :cancelled, :purged, :dead, :popped]) t;
-- Dead, and alive again.
SELECT fairq.revive('res', :dead);
SELECT state FROM fairq.await('res', :dead, '0');
SELECT fairq.ack(receipt, '"revived"') FROM fairq.claim('res');
SELECT pg_temp.ended('res', :dead);
SELECT fairq.enqueue('res', '9') AS id \gset
SELECT count(fairq.nack(receipt, 'bad', '0')) FROM fairq.claim('res');
SELECT count(fairq.nack(receipt, 'worse', '0')) FROM fairq.claim('res');
SELECT fairq.cancel('res', :id);
SELECT pg_temp.ended('res', :id);
-- ... many at once have no results ...
SELECT count(fairq.enqueue('res', '10')) FROM generate_series(1, 3);
SELECT count(*) FROM fairq.ack_many(ARRAY(SELECT receipt FROM fairq.claim('res', 2)));
SELECT count(*) FROM fairq.ack_and_claim('res', ARRAY(SELECT receipt FROM fairq.claim('res')));
SELECT count(*), count(result) FROM fairq.done_res WHERE payload = '10';
-- ... and a large one is kept whole, wherever it comes from.
CREATE TEMP TABLE large AS SELECT jsonb_build_object('x', string_agg(md5(i::text), '')) AS result FROM generate_series(1, 20000) i;
SELECT fairq.enqueue('res', '11') AS id \gset
SELECT fairq.ack(receipt, (SELECT result FROM large)) FROM fairq.claim('res');
SELECT (fairq.await('res', :id)).result = result FROM large;

-- Without an archive: no result, and nobody knows afterwards.
SELECT fairq.enqueue('res none', '1') AS id \gset
SELECT receipt FROM fairq.claim('res none') \gset
SELECT pg_temp.try(format('SELECT fairq.ack(%L, ''1'')', :'receipt'));
SELECT pg_temp.try(format('SELECT fairq.ack(%L, ''null'')', :'receipt'));
-- the lease goes on
SELECT fairq.ack(:'receipt', NULL);
SELECT fairq.await('res none', :id) IS NULL;
-- A receipt that is nobody's is that before all else.
SELECT fairq.ack(:'receipt', '1'), fairq.ack('00000000-0000-0000-0000-000000000000', '1');

-- A look does not wait: the present state.
SELECT fairq.enqueue('res none', '2') AS ready, fairq.enqueue('res none', '3', run_at => '2100-01-01') AS scheduled,
    fairq.enqueue('res none', '4', unique_key => 'k') AS leased \gset
SELECT fairq.await('res none', t, '0') FROM unnest(ARRAY[:ready, :scheduled, :leased]) t;
SELECT count(*) FROM fairq.claim('res none', 2);
SELECT fairq.enqueue('res none', '5', unique_key => 'k') AS held \gset
SELECT fairq.await('res none', t, '1 ms') FROM unnest(ARRAY[:ready, :scheduled, :leased, :held]) t;
SELECT fairq.alter_queue('res none', max_ready_per_group => 1);
SELECT fairq.enqueue('res none', '6', group_key => 'g') AS first, fairq.enqueue('res none', '7', group_key => 'g') AS second \gset
SELECT fairq.await('res none', :second, '0');
SELECT fairq.await('res none', :second + 1000000, '10 min') IS NULL, fairq.await('res none', 0) IS NULL, fairq.await('res none', -1) IS NULL,
    fairq.await('res none', 9223372036854775807) IS NULL;

-- Its own row a transaction would await in vain; what it has ended it sees.
BEGIN;
SELECT fairq.enqueue('res', '12') AS id \gset
SELECT pg_temp.try(format('SELECT fairq.await(''res'', %s)', :id)) ~ '^25001: fairq.await\(\) cannot wait for task \d+ of queue "res", which this transaction has written\n  hint: Commit first: nobody else can see what was written before.$';
SELECT (fairq.await('res', :id, '0')).state;
ROLLBACK;
SELECT fairq.await('res', :id) IS NULL;
SELECT fairq.enqueue('res', '12') AS id \gset
BEGIN;
SELECT fairq.ack(receipt, '1') FROM fairq.claim('res');
SELECT pg_temp.ended('res', :id);
ROLLBACK;
SELECT state FROM fairq.await('res', :id, '0');
SELECT fairq.ack(receipt, '2') FROM fairq.claim('res');
SELECT (fairq.await('res', fairq.enqueue('res', '13'), '0')).state;
SELECT pg_temp.try('SELECT fairq.await(''res'', fairq.enqueue(''res'', ''14''))') ~ '^25001';
-- However short: what it answers does not go by how long the first look takes.
SELECT pg_temp.try('SELECT fairq.await(''res'', fairq.enqueue(''res'', ''14''), ''1 microsecond'')') ~ '^25001';
-- What a savepoint takes back has not ended.
BEGIN;
SAVEPOINT s;
SELECT fairq.ack(receipt, '1') AS acked, (fairq.await('res', id, '0')).state FROM fairq.claim('res') \gset
SELECT :'state';
ROLLBACK TO s;
SELECT state, result FROM fairq.tasks('res') t, LATERAL (SELECT o.result FROM fairq.await('res', t.id, '0') o) o;
COMMIT;
-- Where nothing may be written one may still look, in a transaction that keeps its snapshot at what is.
SELECT fairq.purge('res');
SELECT fairq.enqueue('res', '15') AS id \gset
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
SELECT (fairq.await('res', :id, '0')).state;
COMMIT;

-- Bad input, privileges.
SELECT pg_temp.try(s) FROM unnest(ARRAY[
    'SELECT fairq.await(NULL, 1)', 'SELECT fairq.await('''', 1)', 'SELECT fairq.await(''res nowhere'', 1)',
    'SELECT fairq.await(''res'', NULL)', 'SELECT fairq.await(''res'', 1, ''-1 s'')', 'SELECT fairq.await(''res'', 1, ''11 years'')',
    'SELECT fairq.await(''res'', 1, NULL) IS NULL', 'SELECT fairq.ack(NULL, ''1'')']) s;
RESET ROLE;
GRANT SELECT, INSERT ON "fairq"."q_res" TO regress_fairq_producer;
SELECT id AS acked FROM fairq.done_res WHERE result ? 'sum' \gset
SET ROLE regress_fairq_producer;
-- Reading the queue is enough; the archive itself may be closed.
SELECT pg_temp.try('SELECT FROM fairq.done_res');
SELECT (fairq.await('res', :acked)).result;
SET ROLE regress_fairq_stranger;
SELECT pg_temp.try('SELECT fairq.await(''res'', 1)');
RESET ROLE;
-- Rows that the caller may not see are not shown.
ALTER TABLE fairq.done_res ENABLE ROW LEVEL SECURITY;
SET ROLE regress_fairq_producer;
SELECT fairq.await('res', :acked) IS NULL;
RESET ROLE;
ALTER TABLE fairq.done_res DISABLE ROW LEVEL SECURITY;

-- A million tasks are not looked through: the index leads to the one.
SELECT fairq.create_queue('res many', keep_done => '1 day');
INSERT INTO "fairq"."done_res many" (id, enqueued_at, done_at, priority, cost, attempts, outcome, group_key, payload, result)
    SELECT -i, now(), now(), 4, 1, 1, 'acked', '', '{}', to_jsonb(i) FROM generate_series(1, 20000) i;
BEGIN;
SELECT sum(seq_scan) AS before FROM pg_stat_xact_all_tables WHERE relname = 'done_res many' \gset
SELECT (fairq.await('res many', -12345)).result;
SELECT seq_scan - :before AS scans, idx_scan > 0 AS by_index FROM pg_stat_xact_all_tables WHERE relname = 'done_res many';
COMMIT;
-- Without it, all the same.
DROP INDEX "fairq"."id_done_of_res many";
SELECT (fairq.await('res many', -12345)).result;
SELECT fairq.alter_queue('res many', keep_done => '2 days');
SELECT indexdef FROM pg_indexes WHERE indexname = 'id_done_of_res many';

-- A done table of before there were results, as a dump of then brings it: it gets the column
-- with the first result. To see it fail: take with_columns() out of archive.c.
ALTER TABLE "fairq"."done_res many" DROP COLUMN result;
SELECT fairq.enqueue('res many', '0') AS id \gset
SELECT fairq.ack(receipt) FROM fairq.claim('res many');
SELECT (fairq.await('res many', :id)).state, (fairq.await('res many', :id)).result;
SELECT count(result) FROM fairq.done_tasks WHERE queue = 'res many' AND id = :id;
SELECT fairq.enqueue('res many', '1') AS id \gset
SELECT fairq.ack(receipt, '"first"') FROM fairq.claim('res many');
SELECT (fairq.await('res many', :id)).state, (fairq.await('res many', :id)).result;
SELECT count(result) FROM fairq.done_tasks WHERE queue = 'res many' AND id = :id;
-- With a column of the user's own.
ALTER TABLE "fairq"."done_res many" DROP COLUMN result;
ALTER TABLE "fairq"."done_res many" ADD result text;
SELECT fairq.alter_queue('res many', keep_done => '1 day');
SELECT fairq.enqueue('res many', '2') AS id \gset
SELECT receipt FROM fairq.claim('res many') \gset
SELECT pg_temp.try(format('SELECT fairq.ack(%L, ''1'')', :'receipt'));
ALTER TABLE "fairq"."done_res many" DROP COLUMN result;
SELECT fairq.ack(:'receipt', '"now"');
SELECT (fairq.await('res many', :id)).result;

-- Odd names.
SELECT fairq.create_queue('Res "à" %s', keep_done => '1 day');
SELECT fairq.enqueue('Res "à" %s', '1') AS id \gset
SELECT fairq.ack(receipt, '"é"') FROM fairq.claim('Res "à" %s');
SELECT (fairq.await('Res "à" %s', :id)).result;

SELECT count(fairq.drop_queue(queue)) FROM fairq.queues WHERE queue ~ '^[Rr]es';
REVOKE CREATE ON SCHEMA fairq FROM regress_fairq_owner;
DROP FUNCTION pg_temp.ended(text, bigint);
DROP TABLE large;
DROP ROLE regress_fairq_owner, regress_fairq_producer, regress_fairq_stranger;
