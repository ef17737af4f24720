-- Transactions: every verb in transactions and savepoints that commit and that
-- roll back, in functions, DO blocks, cursors and CTEs.
-- The queues of this file start with "tra".
\i test/sql/include/helpers.sql
\pset format unaligned
\pset null (null)
\pset tuples_only on
SELECT fairq.create_queue('tra', buckets => 1, lease => '1 h');
-- The queue anew with tasks 1 to most.
CREATE PROCEDURE pg_temp.refill(most int) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fairq.drop_queue('tra'), fairq.create_queue('tra', buckets => 1, lease => '1 h', max_attempts => 3);
    COMMIT;
    PERFORM fairq.enqueue('tra', to_jsonb(n)) FROM generate_series(1, most) n;
END
$$;

-- Enqueue: there when the transaction commits, for the producer too.
CALL pg_temp.refill(0);
BEGIN;
SELECT count(fairq.enqueue('tra', to_jsonb(n))) FROM generate_series(1, 3) n;
SELECT count(*) FROM fairq.claim('tra', 10);
SELECT count(*) FROM fairq.pop('tra', 10);
SELECT count(*) FROM fairq.claim('tra', 10, group_keys => '{""}');
SELECT count(*) FROM fairq.peek('tra');
COMMIT;
SELECT string_agg(payload::text, ' ') FROM fairq.claim('tra', 10);
-- Rolled back it never was.
BEGIN;
SELECT count(fairq.enqueue('tra', to_jsonb(n))) FROM generate_series(4, 6) n;
ROLLBACK;
SELECT count(*) FROM fairq.claim('tra', 10);
SELECT pg_temp.all_of('tra');
-- Savepoints: what was rolled back is gone, the rest is there.
CALL pg_temp.refill(0);
BEGIN;
SELECT count(fairq.enqueue('tra', '1'));
SAVEPOINT a;
SELECT count(fairq.enqueue('tra', '2'));
SAVEPOINT b;
SELECT count(fairq.enqueue('tra', '3'));
RELEASE b;
ROLLBACK TO a;
SELECT count(fairq.enqueue('tra', '4'));
SAVEPOINT c;
SELECT count(fairq.enqueue('tra', '5'));
RELEASE c;
COMMIT;
SELECT string_agg(payload::text, ' ') FROM fairq.claim('tra', 10);
SELECT pg_temp.all_of('tra');

-- Claim: a rollback gives the leases back, in their place.
CALL pg_temp.refill(4);
BEGIN;
SELECT string_agg(payload::text || '/' || attempt, ' ') FROM fairq.claim('tra', 2);
ROLLBACK;
SELECT pg_temp.all_of('tra');
SELECT string_agg(payload::text || '/' || attempt, ' ') FROM fairq.claim('tra', 1);
SELECT pg_temp.all_of('tra');
-- An error is a rollback.
SELECT payload, 1 / (payload::int - 3) FROM fairq.claim('tra', 2);
SELECT pg_temp.all_of('tra');
-- So is one of a savepoint, for what was claimed since.
BEGIN;
SELECT string_agg(payload::text, ' ') FROM fairq.claim('tra', 1);
SAVEPOINT a;
SELECT receipt FROM fairq.claim('tra', 1) \gset lost_
ROLLBACK TO a;
SELECT pg_temp.all_of('tra');
SELECT fairq.ack(:'lost_receipt');
SELECT string_agg(payload::text || '/' || attempt, ' ') FROM fairq.claim('tra', 1);
COMMIT;
SELECT pg_temp.all_of('tra');
-- A released savepoint is part of the transaction.
BEGIN;
SAVEPOINT a;
SELECT string_agg(payload::text, ' ') FROM fairq.claim('tra', 1);
RELEASE a;
ROLLBACK;
SELECT pg_temp.all_of('tra');

-- Claim and ack in one transaction.
CALL pg_temp.refill(4);
CREATE TEMP TABLE result (task int, words int);
BEGIN;
WITH c AS (SELECT * FROM fairq.claim('tra', 2)), done AS (INSERT INTO result SELECT payload::int, 10 FROM c RETURNING task)
    SELECT count(*) FROM c JOIN done ON task = payload::int WHERE fairq.ack(receipt);
COMMIT;
SELECT pg_temp.all_of('tra'), (SELECT count(*) FROM result);
-- Rolled back: the tasks are ready as before.
BEGIN;
SELECT payload, attempt, fairq.ack(receipt) FROM fairq.claim('tra', 2);
SELECT pg_temp.all_of('tra');
SELECT count(*) FROM fairq.claim('tra', 10);
ROLLBACK;
SELECT pg_temp.all_of('tra');
SELECT payload, attempt FROM fairq.claim('tra', 2);

-- Each way to settle, rolled back: the lease is what it was.
CALL pg_temp.refill(6);
CREATE TEMP TABLE claimed AS SELECT * FROM fairq.claim('tra', 5);
BEGIN;
SELECT fairq.ack(pg_temp.receipt(1)), fairq.nack(pg_temp.receipt(2), 'error', '0'), fairq.release(pg_temp.receipt(3));
-- Within the transaction they are settled, once.
SELECT fairq.ack(pg_temp.receipt(1)), fairq.nack(pg_temp.receipt(1), delay => '0'), fairq.release(pg_temp.receipt(1)), fairq.extend(pg_temp.receipt(1)) AS extended;
SELECT fairq.ack(pg_temp.receipt(2)), fairq.ack(pg_temp.receipt(3));
SELECT payload, state, attempts, last_error FROM fairq.tasks('tra') WHERE payload = '2';
-- They are not claimable before the transaction commits, by this one neither.
SELECT string_agg(payload::text, ' ') FROM fairq.claim('tra', 10);
ROLLBACK;
SELECT pg_temp.all_of('tra');
SELECT fairq.ack(pg_temp.receipt(1)), fairq.nack(pg_temp.receipt(2), 'error', '0'), fairq.release(pg_temp.receipt(3));
SELECT pg_temp.all_of('tra');
SELECT string_agg(payload::text || '/' || attempt, ' ') FROM fairq.claim('tra', 10);
-- In a savepoint.
BEGIN;
SAVEPOINT a;
SELECT fairq.ack(pg_temp.receipt(4));
ROLLBACK TO a;
SELECT fairq.nack(pg_temp.receipt(4), 'second thoughts', '0');
SAVEPOINT b;
SELECT fairq.ack(pg_temp.receipt(5));
RELEASE b;
COMMIT;
SELECT pg_temp.all_of('tra');
-- The many in one statement, one of which goes wrong later.
CALL pg_temp.refill(6);
TRUNCATE claimed;
INSERT INTO claimed SELECT * FROM fairq.claim('tra', 4);
SELECT count(*), 1 / (count(*) - 4) FROM fairq.ack_many(ARRAY(SELECT receipt FROM claimed));
SELECT count(*), 1 / (count(*) - 4) FROM fairq.nack_many(ARRAY(SELECT receipt FROM claimed), delay => '0');
SELECT count(*), 1 / (count(*) - 4) FROM fairq.release_many(ARRAY(SELECT receipt FROM claimed));
SELECT count(*), 1 / (count(*) - 1) FROM fairq.ack_and_claim('tra', ARRAY(SELECT receipt FROM claimed));
SELECT pg_temp.all_of('tra');
SELECT count(*) FROM fairq.ack_many(ARRAY(SELECT receipt FROM claimed));
SELECT pg_temp.all_of('tra');
-- extend takes effect at once, whatever becomes of the transaction.
SELECT receipt FROM fairq.claim('tra') \gset
BEGIN;
SELECT fairq.extend(:'receipt', '1 day') IS NOT NULL;
ROLLBACK;
SELECT lease_until > now() + interval '23 h' FROM fairq.leases WHERE receipt = :'receipt';
SELECT fairq.ack(:'receipt');

-- A nacked task, a revived one: not claimable before the commit.
CALL pg_temp.refill(1);
BEGIN;
SELECT fairq.nack(receipt, 'error', '0') FROM fairq.claim('tra');
SELECT count(*) FROM fairq.claim('tra');
COMMIT;
SELECT payload, attempt, fairq.nack(receipt, delay => '0') FROM fairq.claim('tra');
SELECT payload, attempt, fairq.nack(receipt, delay => '0') FROM fairq.claim('tra');
SELECT pg_temp.all_of('tra');
BEGIN;
SELECT fairq.revive('tra');
SELECT count(*) FROM fairq.claim('tra');
ROLLBACK;
SELECT pg_temp.all_of('tra');
BEGIN;
SELECT fairq.revive('tra');
SELECT count(*) FROM fairq.claim('tra');
COMMIT;
SELECT payload, attempt FROM fairq.claim('tra');
-- revive for all: what died in the same transaction is among them, once.
CALL pg_temp.refill(0);
SELECT count(fairq.enqueue('tra', to_jsonb(i), max_attempts => 1)) FROM generate_series(1, 4) i;
SELECT count(fairq.nack(receipt)) FROM fairq.claim('tra');
BEGIN;
SELECT count(fairq.nack(receipt)) FROM fairq.claim('tra');
SAVEPOINT s;
SELECT count(fairq.nack(receipt)) FROM fairq.claim('tra');
RELEASE s;
SAVEPOINT s;
SELECT count(fairq.nack(receipt)) FROM fairq.claim('tra');
ROLLBACK TO s;
SELECT fairq.revive('tra');
SELECT fairq.revive('tra');
COMMIT;
SELECT count(*), min(attempt), max(attempt) FROM fairq.claim('tra', 10);
SELECT state, count(*) FROM fairq.tasks('tra') GROUP BY state ORDER BY state;
SELECT ready, leased, dead FROM fairq.queue_stats WHERE queue = 'tra';
-- The last nack, rolled back: not dead.
CALL pg_temp.refill(1);
SELECT fairq.nack(receipt, 'one', '0') FROM fairq.claim('tra');
SELECT fairq.nack(receipt, 'two', '0') FROM fairq.claim('tra');
SELECT receipt FROM fairq.claim('tra') \gset
BEGIN;
SELECT fairq.nack(:'receipt', 'three', '0');
SELECT pg_temp.all_of('tra');
ROLLBACK;
SELECT pg_temp.all_of('tra');
SELECT fairq.ack(:'receipt');

-- pop: a rollback puts the tasks back, in their place.
CALL pg_temp.refill(5);
BEGIN;
SELECT string_agg(payload::text, ' ') FROM fairq.pop('tra', 3);
SELECT pg_temp.all_of('tra');
ROLLBACK;
SELECT pg_temp.all_of('tra');
BEGIN;
SELECT string_agg(payload::text || '/' || attempt, ' ') FROM fairq.pop('tra', 1);
SAVEPOINT a;
SELECT string_agg(payload::text || '/' || attempt, ' ') FROM fairq.pop('tra', 2);
ROLLBACK TO a;
SELECT string_agg(payload::text || '/' || attempt, ' ') FROM fairq.pop('tra', 1);
COMMIT;
SELECT pg_temp.all_of('tra');

-- cancel and purge, rolled back: nothing happened, the leases included.
CALL pg_temp.refill(4);
TRUNCATE claimed;
INSERT INTO claimed SELECT * FROM fairq.claim('tra', 2);
BEGIN;
SELECT bool_and(fairq.cancel('tra', id)) FROM fairq.tasks('tra') WHERE payload IN ('1', '3');
SELECT fairq.ack(pg_temp.receipt(1));
SELECT fairq.purge('tra');
SELECT pg_temp.all_of('tra');
ROLLBACK;
SELECT pg_temp.all_of('tra');
SELECT fairq.ack(pg_temp.receipt(1));
SELECT string_agg(payload::text, ' ') FROM fairq.claim('tra', 10);

-- A queue created, altered, paused, dropped, in transactions that roll back.
CALL pg_temp.refill(2);
BEGIN;
SELECT fairq.create_queue('tra new');
SELECT count(fairq.enqueue('tra new', '1'));
SELECT count(*) FROM fairq.claim('tra new');
SELECT count(*) FROM fairq.tasks('tra new');
ROLLBACK;
SELECT count(*) FROM fairq.queues WHERE queue = 'tra new';
SELECT count(*) FROM fairq.claim('tra new');
BEGIN;
SELECT fairq.create_queue('tra new');
SELECT count(fairq.enqueue('tra new', '1'));
COMMIT;
SELECT payload FROM fairq.claim('tra new');
BEGIN;
SELECT fairq.alter_queue('tra', lease => '1 min', max_attempts => 1);
SELECT fairq.pause('tra');
SELECT count(*) FROM fairq.claim('tra');
SELECT lease, max_attempts, paused FROM fairq.queues WHERE queue = 'tra';
ROLLBACK;
SELECT lease, max_attempts, paused FROM fairq.queues WHERE queue = 'tra';
SELECT payload, lease_until > now() + interval '10 min' FROM fairq.claim('tra');
BEGIN;
SELECT fairq.drop_queue('tra');
SELECT fairq.drop_queue('tra');
SAVEPOINT a;
SELECT count(*) FROM fairq.claim('tra');
ROLLBACK TO a;
SELECT fairq.create_queue('tra', policy => 'priority');
SELECT count(fairq.enqueue('tra', '"other"'));
SELECT policy FROM fairq.queues WHERE queue = 'tra';
ROLLBACK;
SELECT policy FROM fairq.queues WHERE queue = 'tra';
SELECT pg_temp.all_of('tra');
SELECT payload FROM fairq.claim('tra', 10);
-- Dropped and made again in one transaction.
BEGIN;
SELECT fairq.drop_queue('tra');
SELECT fairq.create_queue('tra', policy => 'priority', buckets => 1);
SELECT count(fairq.enqueue('tra', to_jsonb(n), priority => -n)) FROM generate_series(1, 3) n;
COMMIT;
SELECT string_agg(payload::text, ' ') FROM fairq.claim('tra', 10);
SELECT pg_temp.all_of('tra');

-- plpgsql: an EXCEPTION block is a savepoint.
CALL pg_temp.refill(3);
CREATE FUNCTION pg_temp.work(fail_at int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    t fairq.task;
    said text := '';
BEGIN
    FOR i IN 1..3 LOOP
        BEGIN
            SELECT * INTO t FROM fairq.claim('tra');
            EXIT WHEN NOT FOUND;
            PERFORM fairq.enqueue('tra', to_jsonb(t.payload::int + 10));
            IF t.payload = to_jsonb(fail_at) AND t.attempt = 1 THEN
                RAISE EXCEPTION 'task %', t.payload;
            END IF;
            IF NOT fairq.ack(t.receipt) THEN
                RAISE EXCEPTION 'not acknowledged';
            END IF;
            said := said || ' ' || t.payload::text;
        EXCEPTION WHEN raise_exception THEN
            said := said || ' failed: ' || SQLERRM;
        END;
    END LOOP;
    RETURN said;
END
$$;
SELECT pg_temp.work(2);
SELECT pg_temp.all_of('tra');
SELECT pg_temp.work(0);
SELECT pg_temp.all_of('tra');

-- A DO block with COMMIT: leases outlive the transactions they were made in.
CALL pg_temp.refill(6);
DO $$
DECLARE
    t fairq.task;
BEGIN
    FOR i IN 1..6 LOOP
        SELECT * INTO t FROM fairq.claim('tra');
        COMMIT;
        IF i % 3 = 0 THEN
            PERFORM fairq.ack(t.receipt);
            ROLLBACK;
        ELSE
            PERFORM fairq.ack(t.receipt);
            COMMIT;
        END IF;
    END LOOP;
END
$$;
SELECT pg_temp.all_of('tra');
-- A loop over a claim that commits in its body.
CALL pg_temp.refill(4);
DO $$
DECLARE
    t fairq.task;
BEGIN
    FOR t IN SELECT * FROM fairq.claim('tra', 4) LOOP
        PERFORM fairq.ack(t.receipt) WHERE t.payload <> '3';
        COMMIT;
    END LOOP;
END
$$;
SELECT pg_temp.all_of('tra');

-- Cursors.
CALL pg_temp.refill(5);
BEGIN;
DECLARE c CURSOR FOR SELECT payload FROM fairq.claim('tra', 3);
FETCH 1 FROM c;
FETCH ALL FROM c;
CLOSE c;
COMMIT;
SELECT pg_temp.all_of('tra');
BEGIN;
DECLARE c CURSOR FOR SELECT payload FROM fairq.claim('tra', 3);
FETCH 1 FROM c;
ROLLBACK;
SELECT pg_temp.all_of('tra');
-- One that is never fetched from claims nothing.
BEGIN;
DECLARE c CURSOR FOR SELECT payload FROM fairq.claim('tra', 3);
COMMIT;
SELECT pg_temp.all_of('tra');
-- One that is held over the end of its transaction.
BEGIN;
DECLARE c CURSOR WITH HOLD FOR SELECT payload, receipt FROM fairq.claim('tra', 3);
FETCH 1 FROM c \gset first_
COMMIT;
FETCH 1 FROM c \gset second_
SELECT :'first_payload', :'second_payload', fairq.ack(:'first_receipt'), fairq.ack(:'second_receipt');
CLOSE c;
SELECT pg_temp.all_of('tra');
-- What a cursor reads is there though the row is gone meanwhile.
CALL pg_temp.refill(0);
SELECT count(fairq.enqueue('tra', (SELECT to_jsonb(array_agg(md5(n::text || m::text))) FROM generate_series(1, 2000) m))) FROM generate_series(1, 3) n;
BEGIN;
DECLARE c CURSOR FOR SELECT jsonb_array_length(payload) FROM fairq.pop('tra', 3);
FETCH 1 FROM c;
SELECT pg_temp.all_of('tra');
FETCH ALL FROM c;
COMMIT;

-- A claim within a function that fails, called by one that goes on.
CALL pg_temp.refill(3);
CREATE FUNCTION pg_temp.outer() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    r uuid;
BEGIN
    SELECT receipt INTO r FROM fairq.claim('tra');
    BEGIN
        PERFORM fairq.ack(r);
        PERFORM count(*) FROM fairq.claim('tra', 2);
        PERFORM 1 / 0;
    EXCEPTION WHEN division_by_zero THEN
        NULL;
    END;
    RETURN pg_temp.all_of('tra');
END
$$;
SELECT pg_temp.outer();
SELECT pg_temp.all_of('tra');

-- Deep savepoints, half of them rolled back.
CALL pg_temp.refill(100);
DO $$
BEGIN
    FOR i IN 1..50 LOOP
        BEGIN
            PERFORM fairq.ack(receipt) FROM fairq.claim('tra', 2);
            PERFORM fairq.enqueue('tra', to_jsonb(1000 + i));
            BEGIN
                PERFORM fairq.nack(receipt, delay => '0') FROM fairq.claim('tra');
                PERFORM fairq.enqueue('tra', to_jsonb(2000 + i));
                IF i % 3 = 0 THEN
                    RAISE EXCEPTION 'inner';
                END IF;
            EXCEPTION WHEN raise_exception THEN
                NULL;
            END;
            IF i % 2 = 0 THEN
                RAISE EXCEPTION 'outer';
            END IF;
        EXCEPTION WHEN raise_exception THEN
            NULL;
        END;
    END LOOP;
END
$$;
-- 25 outer ones committed: 50 acked, 25 enqueued; of these 17 inner ones: 17 nacked, 17 enqueued.
SELECT state, attempts, payload::int / 1000 AS kind, count(*) FROM fairq.tasks('tra') GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;
SELECT count(*), count(DISTINCT id) FROM fairq.claim('tra', 1000);
SELECT ready, leased, dead, enqueued, acked, nacked FROM fairq.queue_stats WHERE queue = 'tra';

-- A transaction that only enqueued may be prepared, one that has claimed or settled may not.
CALL pg_temp.refill(4);
BEGIN;
SELECT payload FROM fairq.claim('tra');
PREPARE TRANSACTION 'tra claim';
SELECT pg_temp.all_of('tra');
SELECT receipt FROM fairq.claim('tra') \gset
BEGIN;
SELECT fairq.ack(:'receipt');
PREPARE TRANSACTION 'tra ack';
BEGIN;
SELECT fairq.nack(:'receipt', delay => '0');
PREPARE TRANSACTION 'tra nack';
BEGIN;
SELECT fairq.release(:'receipt');
PREPARE TRANSACTION 'tra release';
BEGIN;
SELECT count(*) FROM fairq.pop('tra');
PREPARE TRANSACTION 'tra pop';
BEGIN;
SELECT fairq.cancel('tra', id) FROM fairq.leases WHERE receipt = :'receipt';
PREPARE TRANSACTION 'tra cancel';
SELECT pg_temp.all_of('tra');
-- A claim that was rolled back is no obstacle, nor one that found nothing. (It is refused for another reason where prepared transactions are disabled.)
BEGIN;
SAVEPOINT a;
SELECT payload FROM fairq.claim('tra');
ROLLBACK TO a;
SELECT count(fairq.enqueue('tra', '"prepared"'));
SELECT count(*) FROM fairq.claim('tra new');
SELECT current_setting('max_prepared_transactions')::int = 0 AS disabled \gset
\if :disabled
ROLLBACK;
\else
PREPARE TRANSACTION 'tra enqueue';
\endif
SELECT count(*) FROM pg_prepared_xacts WHERE gid LIKE 'tra%' AND gid <> 'tra enqueue';
SELECT string_agg(payload::text, ' ') FROM fairq.claim('tra', 10);
\if :disabled
SELECT count(fairq.enqueue('tra', '"prepared"')) AS enqueued \gset
\else
COMMIT PREPARED 'tra enqueue';
\endif
-- Nobody tells when a prepared transaction ends: it is noticed within a second.
CALL pg_temp.maintain_until('tra', $$ count(*) > 0 FROM fairq.peek('tra') $$);
SELECT string_agg(payload::text, ' ') FROM fairq.claim('tra', 10);

-- Read-only transactions, and those of other isolation levels.
CALL pg_temp.refill(4);
SELECT receipt FROM fairq.claim('tra') \gset
BEGIN READ ONLY;
SAVEPOINT a;
SELECT fairq.enqueue('tra', '1');
ROLLBACK TO a;
SELECT * FROM fairq.claim('tra');
ROLLBACK TO a;
SELECT fairq.ack(:'receipt');
ROLLBACK TO a;
COMMIT;
SELECT pg_temp.all_of('tra');
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT payload, fairq.ack(receipt) FROM fairq.claim('tra');
SELECT count(fairq.enqueue('tra', '"serializable"'));
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM fairq.tasks('tra');
SELECT payload, fairq.nack(receipt, delay => '0') FROM fairq.claim('tra');
COMMIT;
SELECT pg_temp.all_of('tra');
SELECT fairq.ack(:'receipt');

-- A queue that is new in this transaction: its state goes with its table, not with
-- the savepoint that used it first. (To see it fail: pending_queue_created() says
-- nothing of undone_with; the server crashes.)
BEGIN;
SELECT fairq.create_queue('tranew', policy => 'fair');
SAVEPOINT a;
SELECT count(fairq.enqueue('tranew', '1', 'g'));
SELECT count(*) FROM fairq.claim('tranew');
ROLLBACK TO a;
SELECT count(fairq.enqueue('tranew', '2', 'h'));
ROLLBACK TO a;
SELECT count(fairq.enqueue('tranew', '3', 'g'));
SAVEPOINT b;
SELECT fairq.create_queue('trabel');
SELECT count(fairq.enqueue('trabel', '4'));
ROLLBACK TO b;
COMMIT;
SELECT pg_temp.all_of('tranew');
SELECT payload FROM fairq.claim('tranew', 10);

SELECT bool_and(fairq.drop_queue(queue)) FROM fairq.queues WHERE queue LIKE 'tra%';
SELECT queue FROM fairq.queues;
SELECT queue, count(*) FROM fairq.leases GROUP BY queue;
