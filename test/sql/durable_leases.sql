-- Durable leases: the rows of fairq.durable_lease are the leases, at any time.
-- The queues of this file start with "dur". What a crash makes of them is in test/t.
\i test/sql/include/helpers.sql
\pset format unaligned
\pset tuples_only on
\pset null (null)
-- The tasks that are leased, each with + if the row of its lease says the same as the lease, - if there is none, and
-- ! if it says something else; and the rows of which there is no lease.
CREATE FUNCTION pg_temp.leases_of(queue text) RETURNS text LANGUAGE sql AS $$
    SELECT coalesce(string_agg(coalesce(l.id, d.task) || CASE WHEN l.id IS NULL THEN ' without a lease' WHEN d.task IS NULL THEN '-'
            WHEN l.lease_until = CASE WHEN d.of_session THEN least(d.lease_until, (SELECT max(alive_until) FROM fairq.sessions)) ELSE d.lease_until END AND d.attempt = l.attempt AND d.claimed_at <= clock_timestamp() THEN '+' ELSE '!' END, ' ' ORDER BY coalesce(l.id, d.task)), 'none')
        FROM (SELECT * FROM fairq.leases WHERE leases.queue = leases_of.queue) l
        FULL JOIN (SELECT * FROM fairq.durable_lease WHERE durable_lease.queue::oid = to_regclass(format('fairq.%I', 'q_' || leases_of.queue))) d USING (receipt)
$$;
CREATE TEMP TABLE held (id bigint, receipt uuid);
CREATE OR REPLACE FUNCTION pg_temp.receipt(n int) RETURNS uuid LANGUAGE sql AS 'SELECT receipt FROM held WHERE id = n';
CREATE FUNCTION pg_temp.hold(queue text, max int, lease interval DEFAULT NULL) RETURNS text LANGUAGE sql AS $$
    WITH claimed AS (INSERT INTO held SELECT id, receipt FROM fairq.claim(queue, max, lease => lease) RETURNING id)
    SELECT string_agg(id::text, ' ' ORDER BY id) FROM claimed
$$;
-- A queue with the tasks 1 to n.
CREATE FUNCTION pg_temp.queue(queue text, n int, durable boolean DEFAULT true) RETURNS void LANGUAGE sql AS $$
    SELECT fairq.drop_queue(queue);
    TRUNCATE held;
    SELECT fairq.create_queue(queue, buckets => 1, lease => '1 h', backoff_base => '0', durable_leases => durable);
    SELECT count(fairq.enqueue(queue, to_jsonb(i))) FROM generate_series(1, n) i;
$$;

-- A claim writes a row for each lease; whatever ends it deletes the row.
SELECT pg_temp.queue('dur', 12);
SELECT pg_temp.leases_of('dur');
SELECT pg_temp.hold('dur', 1), pg_temp.hold('dur', 8);
SELECT pg_temp.leases_of('dur');
SELECT fairq.ack(pg_temp.receipt(1)), fairq.nack(pg_temp.receipt(2)), fairq.nack(pg_temp.receipt(3), delay => '0'), fairq.release(pg_temp.receipt(4));
SELECT pg_temp.leases_of('dur');
SELECT count(*) FROM fairq.ack_many(ARRAY[pg_temp.receipt(1), pg_temp.receipt(5), pg_temp.receipt(6)]);
SELECT fairq.cancel('dur', 7);
SELECT pg_temp.leases_of('dur');
INSERT INTO held SELECT id, receipt FROM fairq.ack_and_claim('dur', ARRAY[pg_temp.receipt(8)], 2);
SELECT pg_temp.leases_of('dur');
SELECT count(*) FROM fairq.pop('dur', 1);
SELECT pg_temp.leases_of('dur');
SELECT fairq.purge('dur');
SELECT pg_temp.leases_of('dur');
SELECT fairq.drop_queue('dur');
SELECT count(*) FROM fairq.durable_lease;
-- Many at once.
SELECT pg_temp.queue('dur', 2500);
SELECT count(*) FROM fairq.claim('dur', 2500);
SELECT count(*) = 2500, string_agg(DISTINCT right(l, 1), '') FROM regexp_split_to_table(pg_temp.leases_of('dur'), ' ') l;
DROP TABLE fairq.q_dur;
SELECT count(*) FROM fairq.durable_lease;

-- With the transaction: no row remains of a claim that is rolled back, and none is lost of a settlement that is.
SELECT pg_temp.queue('dur', 6);
BEGIN;
SELECT pg_temp.hold('dur', 2);
SELECT pg_temp.leases_of('dur');
ROLLBACK;
SELECT pg_temp.leases_of('dur');
BEGIN;
SELECT pg_temp.hold('dur', 2);
SAVEPOINT s;
SELECT pg_temp.hold('dur', 2);
SELECT fairq.ack(pg_temp.receipt(1));
SELECT pg_temp.leases_of('dur');
ROLLBACK TO s;
COMMIT;
SELECT pg_temp.leases_of('dur');
BEGIN;
SELECT fairq.ack(pg_temp.receipt(1)), fairq.nack(pg_temp.receipt(2));
SELECT pg_temp.leases_of('dur');
ROLLBACK;
SELECT pg_temp.leases_of('dur');
-- Claimed and settled by one command.
SELECT fairq.ack(receipt), fairq.ack(receipt) FROM fairq.claim('dur', 1);
SELECT fairq.nack(receipt, delay => '1 h') FROM fairq.claim('dur', 1);
SELECT fairq.extend(receipt, '5 h') > now() + '4 h', fairq.extend(receipt, '6 h') > now() + '5 h', fairq.release(receipt), fairq.extend(receipt) FROM fairq.claim('dur', 1);
SELECT pg_temp.leases_of('dur');

-- extend: in force at once and for good; the row has it when it is committed.
SELECT fairq.extend(pg_temp.receipt(1), '2 h') > now() + '119 min', fairq.extend(pg_temp.receipt(2)) > now() + '59 min';
SELECT pg_temp.leases_of('dur');
SELECT count(*) FROM fairq.extend_many(ARRAY(SELECT receipt FROM held), '3 h');
SELECT pg_temp.leases_of('dur');
BEGIN;
SELECT count(fairq.extend(pg_temp.receipt(1), '4 h'));
SAVEPOINT s;
SELECT count(fairq.extend(pg_temp.receipt(2), '5 h'));
SELECT pg_temp.leases_of('dur');
ROLLBACK TO s;
SELECT pg_temp.leases_of('dur');
ROLLBACK;
SELECT pg_temp.leases_of('dur');
SELECT fairq.ack(pg_temp.receipt(1)), fairq.ack(pg_temp.receipt(2));
SELECT pg_temp.leases_of('dur');
BEGIN;
SELECT pg_temp.hold('dur', 1);
PREPARE TRANSACTION 'dur';
SELECT pg_temp.hold('dur', 1);
SELECT receipt FROM fairq.leases WHERE queue = 'dur' \gset
-- An extension may be prepared, where transactions may be.
SELECT current_setting('max_prepared_transactions')::int = 0 AS disabled \gset
BEGIN;
SELECT fairq.extend(:'receipt', '8 h') > now();
\if :disabled
ROLLBACK;
\else
PREPARE TRANSACTION 'dur';
ROLLBACK PREPARED 'dur';
\endif
SELECT pg_temp.leases_of('dur');
SELECT fairq.ack(:'receipt');
SELECT pg_temp.leases_of('dur');

-- A lease that runs out.
SELECT pg_temp.queue('dur', 3);
SELECT pg_temp.hold('dur', 2, '10 ms');
CALL pg_temp.maintain_until('dur', $$ count(*) = 0 FROM fairq.leases WHERE queue = 'dur' $$);
SELECT pg_temp.leases_of('dur');
SELECT id, attempts, lost, pg_temp.masked(last_error) FROM fairq.tasks('dur') ORDER BY 1;
-- A task that is deleted with SQL keeps its lease until it runs out, as ever; so does its row.
SELECT count(fairq.extend(receipt, '50 ms')) FROM fairq.claim('dur', 3);
DELETE FROM fairq.q_dur;
CALL pg_temp.maintain_until('dur', $$ count(*) = 0 FROM fairq.leases WHERE queue = 'dur' $$);
SELECT pg_temp.leases_of('dur');
-- A lease of a session.
SELECT pg_temp.queue('dur', 3);
SELECT fairq.open_session('dur', '1 h') AS session \gset
INSERT INTO held SELECT id, receipt FROM fairq.claim('dur', 3, session => :'session');
SELECT task, lease_until, of_session FROM fairq.durable_lease ORDER BY task;
SELECT fairq.ack(pg_temp.receipt(1)), fairq.extend(pg_temp.receipt(2), '1 h') > now();
SELECT pg_temp.leases_of('dur');
SELECT fairq.close_session(:'session');
SELECT pg_temp.leases_of('dur');

-- The rows may move: each is found where it is.
SELECT pg_temp.queue('dur', 9);
SELECT pg_temp.hold('dur', 9);
SELECT fairq.ack(pg_temp.receipt(1));
VACUUM FULL fairq.durable_lease;
SELECT pg_stat_force_next_flush();
SELECT pg_stat_get_numscans('fairq.durable_lease'::regclass) AS scans \gset
SELECT fairq.ack(pg_temp.receipt(2)), fairq.nack(pg_temp.receipt(3), delay => '1 h'), fairq.extend(pg_temp.receipt(4), '7 h') > now();
-- All are found again with one look through the table.
SELECT pg_stat_force_next_flush();
SELECT pg_stat_get_numscans('fairq.durable_lease'::regclass) - :scans;
SELECT pg_temp.leases_of('dur');
VACUUM FULL fairq.q_dur;
SELECT fairq.release(pg_temp.receipt(4)), fairq.cancel('dur', 5);
SELECT pg_temp.leases_of('dur');
-- Some are deleted by hand: those leases are not durable any more, and good all the same.
DELETE FROM fairq.durable_lease WHERE task = 6;
SELECT fairq.ack(pg_temp.receipt(6)), fairq.extend(pg_temp.receipt(7)) > now();
SELECT pg_temp.leases_of('dur');
TRUNCATE fairq.durable_lease;
SELECT fairq.ack(pg_temp.receipt(7)), fairq.extend(pg_temp.receipt(8)) > now(), fairq.nack(pg_temp.receipt(9), delay => '1 h');
SELECT pg_temp.leases_of('dur');
SELECT pg_temp.hold('dur', 1);
SELECT pg_temp.leases_of('dur');
-- TRUNCATE of the queue: new tasks are others.
TRUNCATE fairq.q_dur;
SELECT count(fairq.enqueue('dur', '"new"'));
SELECT pg_temp.hold('dur', 1) IS NOT NULL;
SELECT count(fairq.ack(receipt)) FROM held WHERE id > 9;

-- On and off. What is leased at that time stays as it is.
SELECT pg_temp.queue('dur', 6, false);
SELECT pg_temp.hold('dur', 2);
SELECT fairq.alter_queue('dur', durable_leases => true);
SELECT pg_temp.hold('dur', 2);
SELECT pg_temp.leases_of('dur');
SELECT fairq.extend(pg_temp.receipt(1)) > now(), fairq.extend(pg_temp.receipt(3)) > now();
SELECT pg_temp.leases_of('dur');
SELECT fairq.alter_queue('dur', durable_leases => false);
SELECT pg_temp.hold('dur', 2);
SELECT pg_temp.leases_of('dur');
SELECT fairq.extend(pg_temp.receipt(3), '9 h') > now(), fairq.ack(pg_temp.receipt(4)), fairq.ack(pg_temp.receipt(1));
SELECT pg_temp.leases_of('dur');

-- The table is the engine's. What comes in another way is no lease, and left out.
INSERT INTO fairq.durable_lease VALUES ('fairq.q_dur', 1, 5, 'infinity', now(), gen_random_uuid(), false);
COPY fairq.durable_lease FROM stdin;
fairq.q_dur	1	6	infinity	2020-01-01	5f0d3a0e-0000-8000-8000-000000000001	f
\.
UPDATE fairq.durable_lease SET lease_until = 'infinity';
SELECT pg_temp.leases_of('dur');
CREATE INDEX dur_i ON fairq.durable_lease (task);
SELECT pg_temp.try($$ SELECT fairq.ack(pg_temp.receipt(3)) $$);
DROP INDEX fairq.dur_i;

-- Who may claim and settle needs no more for durable leases, and sees none of the receipts.
CREATE ROLE regress_fairq_worker;
SELECT pg_temp.queue('dur', 3);
GRANT SELECT, UPDATE, DELETE ON fairq.q_dur TO regress_fairq_worker;
GRANT ALL ON held TO regress_fairq_worker;
SET ROLE regress_fairq_worker;
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.durable_lease $$);
SELECT pg_temp.try($$ DELETE FROM fairq.durable_lease $$);
INSERT INTO held SELECT id, receipt FROM fairq.claim('dur', 2);
SELECT fairq.extend(pg_temp.receipt(1)) > now(), fairq.ack(pg_temp.receipt(1));
RESET ROLE;
SELECT pg_temp.leases_of('dur');
REVOKE ALL ON fairq.q_dur, held FROM regress_fairq_worker;
DROP ROLE regress_fairq_worker;

-- The table is empty when the queues are gone.
SELECT fairq.drop_queue('dur');
SELECT count(*) FROM fairq.durable_lease;

-- PREPARE, in a session that has used no temporary table, for which it would be refused as well.
-- Seen to fail without REFUSED of pending_leases.c: ROLLBACK PREPARED is there so that it goes on then.
\c -
SELECT fairq.create_queue('dur two phases', durable_leases => true);
SELECT cardinality(fairq.enqueue_many('dur two phases', '{1,2}'));
BEGIN;
SELECT count(*) FROM fairq.claim('dur two phases');
PREPARE TRANSACTION 'dur';
ROLLBACK PREPARED 'dur';
SELECT receipt FROM fairq.claim('dur two phases') \gset
SELECT current_setting('max_prepared_transactions')::int = 0 AS disabled \gset
BEGIN;
SELECT fairq.extend(:'receipt', '8 h') > now();
\if :disabled
ROLLBACK;
\else
PREPARE TRANSACTION 'dur';
ROLLBACK PREPARED 'dur';
\endif
BEGIN;
SELECT fairq.ack(:'receipt');
PREPARE TRANSACTION 'dur';
ROLLBACK PREPARED 'dur';
SELECT count(*) FROM fairq.leases WHERE queue = 'dur two phases';
SELECT fairq.drop_queue('dur two phases');
