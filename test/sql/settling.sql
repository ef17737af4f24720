-- Settling: ack, nack, extend and release, one and many, and revive.
-- The queues of this file start with "set".
\i test/sql/include/helpers.sql
\pset format unaligned
\pset null (null)
-- Tasks 1 to most in one group and one bucket, all claimed but the last two.
CREATE TEMP TABLE claimed OF fairq.task;
CREATE PROCEDURE pg_temp.refill(queue text, most int, max_attempts int DEFAULT NULL) LANGUAGE plpgsql AS $$
BEGIN
    TRUNCATE claimed;
    PERFORM fairq.drop_queue(queue), fairq.create_queue(queue, buckets => 1, lease => '10 min', max_attempts => max_attempts, backoff_base => '0');
    COMMIT;
    PERFORM fairq.enqueue(queue, to_jsonb(n)) FROM generate_series(1, most) n;
    COMMIT;
    INSERT INTO claimed SELECT * FROM fairq.claim(queue, most - 2);
END
$$;
CREATE FUNCTION pg_temp.number(receipt uuid) RETURNS jsonb LANGUAGE sql AS 'SELECT payload FROM claimed WHERE claimed.receipt = number.receipt';

-- ack: once.
CALL pg_temp.refill('set', 6);
SELECT pg_temp.all_of('set');
SELECT fairq.ack(pg_temp.receipt(1));
SELECT fairq.ack(receipt => pg_temp.receipt(2));
SELECT fairq.ack(pg_temp.receipt(1));
SELECT pg_temp.all_of('set');
SELECT count(*) FROM fairq.get_task('set', (SELECT id FROM claimed WHERE payload = '1')) t WHERE t.id IS NOT NULL;
-- Nothing else can be done with it either.
SELECT fairq.nack(pg_temp.receipt(1), delay => '0'), fairq.release(pg_temp.receipt(1)), fairq.extend(pg_temp.receipt(1)) AS extended;
-- A receipt nobody gave out, and none at all.
SELECT fairq.ack(gen_random_uuid()), fairq.ack('00000000-0000-0000-0000-000000000000'), fairq.ack('ffffffff-ffff-ffff-ffff-ffffffffffff');
SELECT pg_temp.try($$ SELECT fairq.ack(NULL) $$);
SELECT pg_temp.try($$ SELECT fairq.ack('') $$);
SELECT pg_temp.all_of('set');

-- ack_many: those that were acknowledged, each once.
CALL pg_temp.refill('set', 8);
SELECT pg_temp.number(r) FROM fairq.ack_many(ARRAY[pg_temp.receipt(1), pg_temp.receipt(3)]) r ORDER BY 1;
SELECT pg_temp.number(r) FROM fairq.ack_many(receipts =>
    ARRAY[pg_temp.receipt(1), pg_temp.receipt(2), gen_random_uuid(), pg_temp.receipt(2), pg_temp.receipt(4)]) r ORDER BY 1;
SELECT count(*) FROM fairq.ack_many('{}');
SELECT pg_temp.all_of('set');
SELECT pg_temp.try($$ SELECT fairq.ack_many(NULL) $$);
SELECT pg_temp.try($$ SELECT fairq.ack_many(ARRAY[pg_temp.receipt(5), NULL]) $$);
SELECT pg_temp.try($$ SELECT fairq.ack_many(ARRAY[[pg_temp.receipt(5)], [pg_temp.receipt(6)]]) $$);
SELECT pg_temp.all_of('set');
-- Receipts of several queues go together.
SELECT fairq.create_queue('set too');
SELECT count(fairq.enqueue('set too', to_jsonb(n))) FROM generate_series(101, 103) n;
INSERT INTO claimed SELECT * FROM fairq.claim('set too', 3);
SELECT pg_temp.number(r) FROM fairq.ack_many(ARRAY[pg_temp.receipt(5), pg_temp.receipt(101), pg_temp.receipt(6), pg_temp.receipt(102)]) r ORDER BY 1;
SELECT pg_temp.all_of('set'), pg_temp.all_of('set too');

-- nack: an attempt is counted, the error kept, the task ready at once.
CALL pg_temp.refill('set', 6, 3);
SELECT fairq.nack(pg_temp.receipt(1), 'disk full', '0');
SELECT fairq.nack(receipt => pg_temp.receipt(2), error => NULL, delay => '0');
SELECT fairq.nack(pg_temp.receipt(1), 'once more', '0');
SELECT fairq.ack(pg_temp.receipt(1));
SELECT payload, state, attempts, max_attempts, last_error, lease_until IS NOT NULL AS has_lease FROM fairq.tasks('set') ORDER BY id;
-- It comes behind the others, with its next attempt.
SELECT payload, attempt FROM fairq.claim('set', 10);
-- Its place is a fresh one.
CALL pg_temp.refill('set', 4);
SELECT fairq.nack(pg_temp.receipt(1), delay => '0') AS nacked, fairq.release(pg_temp.receipt(2)) AS released;
SELECT t.payload, t.address OPERATOR(fairq.>) c.address AS later, t.address OPERATOR(fairq.=) c.address AS same, t.id = c.id AS same_id, t.enqueued_at = c.enqueued_at AS same_time
    FROM fairq.tasks('set') t JOIN claimed c ON c.payload = t.payload ORDER BY t.id;

-- The last attempt: dead.
CALL pg_temp.refill('set', 4, 2);
SELECT fairq.nack(pg_temp.receipt(1), 'first', '0'), fairq.nack(pg_temp.receipt(2), 'first', '0');
SELECT fairq.nack(receipt, CASE WHEN attempt = 2 THEN 'second' END, '0'), attempt FROM fairq.claim('set', 10) ORDER BY id;
SELECT payload, state, attempts, last_error, address IS NOT NULL AS has_address, lease_until FROM fairq.tasks('set') ORDER BY id;
SELECT queue, payload, last_error, attempts FROM fairq.dead_tasks ORDER BY id;
SELECT count(*) FROM fairq.claim('set', 10) WHERE payload IN ('1', '2');
-- max_attempts 0: no limit.
CALL pg_temp.refill('set', 3, 0);
SELECT fairq.nack(pg_temp.receipt(1), delay => '0');
DO $$
BEGIN
    FOR i IN 1..100 LOOP
        PERFORM fairq.nack(receipt, 'number ' || i, '0') FROM fairq.claim('set', 10);
        COMMIT;
    END LOOP;
END
$$;
SELECT payload, state, attempts, last_error FROM fairq.tasks('set') ORDER BY id;

-- nack_many: one error for all, or each its own.
CALL pg_temp.refill('set', 9, 1);
SELECT pg_temp.number(r) FROM fairq.nack_many(ARRAY[pg_temp.receipt(1), pg_temp.receipt(2)], '{bad}', '0') r ORDER BY 1;
SELECT pg_temp.number(r) FROM fairq.nack_many(receipts => ARRAY[pg_temp.receipt(3), gen_random_uuid(), pg_temp.receipt(4)],
                                              errors => '{three,none,NULL}', delay => '0') r ORDER BY 1;
SELECT pg_temp.number(r) FROM fairq.nack_many(ARRAY[pg_temp.receipt(5), pg_temp.receipt(1), pg_temp.receipt(5)], delay => '0') r ORDER BY 1;
SELECT count(*) FROM fairq.nack_many('{}', delay => '0');
SELECT count(*) FROM fairq.nack_many('{}', '{}', '0');
SELECT pg_temp.try($$ SELECT fairq.nack_many(NULL, delay => '0') $$);
SELECT pg_temp.try($$ SELECT fairq.nack_many(ARRAY[pg_temp.receipt(6), NULL], delay => '0') $$);
SELECT pg_temp.try($$ SELECT fairq.nack_many(ARRAY[pg_temp.receipt(6), pg_temp.receipt(7)], '{a,b,c}', '0') $$);
SELECT payload, state, attempts, last_error FROM fairq.tasks('set') ORDER BY id;
-- Errors of any length and in any language.
CALL pg_temp.refill('set', 5);
SELECT fairq.nack(pg_temp.receipt(1), repeat('long ', 200000), '0'), fairq.nack(pg_temp.receipt(2), E'zu wenig Plätze\n漢😀', '0'),
       fairq.nack(pg_temp.receipt(3), '', '0');
SELECT payload, left(last_error, 40), length(last_error) FROM fairq.tasks('set') WHERE payload < '4' ORDER BY id;
-- extend: the new deadline is from now on, by the queue's lease or the one given.
CALL pg_temp.refill('set', 7);
SELECT round(extract(epoch FROM fairq.extend(pg_temp.receipt(1)) - now()) / 60) AS minutes;
SELECT round(extract(epoch FROM fairq.extend(pg_temp.receipt(2), '2 h') - now()) / 60) AS minutes;
SELECT round(extract(epoch FROM fairq.extend(receipt => pg_temp.receipt(3), lease => '1 min') - now()) / 60) AS minutes;
SELECT DISTINCT pg_temp.number(r) FROM fairq.extend_many(ARRAY[pg_temp.receipt(4), gen_random_uuid(), pg_temp.receipt(4), pg_temp.receipt(5)], lease => '30 min') r
    ORDER BY 1;
SELECT payload, state, round(extract(epoch FROM lease_until - now()) / 60) AS minutes FROM fairq.tasks('set') ORDER BY id;
SELECT count(*) FROM fairq.extend_many('{}');
SELECT count(*) FROM fairq.extend_many(ARRAY[pg_temp.receipt(1)]);
SELECT fairq.extend(gen_random_uuid()) AS extended;
-- Extended again and again it is the same attempt and the same receipt.
SELECT count(fairq.extend(pg_temp.receipt(1))) FROM generate_series(1, 10);
SELECT pg_temp.all_of('set');
SELECT fairq.ack(pg_temp.receipt(1));
-- A short lease is over at once; until that is noticed it can be extended.
-- (The worker, which would notice, cannot write the table.)
BEGIN;
LOCK TABLE fairq.q_set IN SHARE MODE;
SELECT fairq.extend(pg_temp.receipt(2), '1 microsecond') IS NOT NULL AS short, fairq.extend(pg_temp.receipt(2), '1 h') IS NOT NULL AS long;
COMMIT;
SELECT fairq.extend(pg_temp.receipt(3), '1 microsecond') IS NOT NULL AS extended;
CALL pg_temp.maintain_until('set', $$ state <> 'leased' FROM fairq.tasks('set') WHERE payload = '3' $$);
SELECT payload, state, attempts, lost, pg_temp.masked(last_error) FROM fairq.tasks('set') WHERE payload IN ('2', '3') ORDER BY id;
SELECT fairq.extend(pg_temp.receipt(2)) IS NOT NULL AS mine, fairq.extend(pg_temp.receipt(3)) IS NOT NULL AS run_out;
SELECT pg_temp.try($$ SELECT fairq.extend(NULL) $$);
SELECT pg_temp.try($$ SELECT fairq.extend(pg_temp.receipt(4), '0') $$);
SELECT pg_temp.try($$ SELECT fairq.extend(pg_temp.receipt(4), '-1 s') $$);
SELECT pg_temp.try($$ SELECT fairq.extend(pg_temp.receipt(4), '11 years') $$);
SELECT pg_temp.try($$ SELECT fairq.extend_many(NULL) $$);
SELECT pg_temp.try($$ SELECT fairq.extend_many(ARRAY[pg_temp.receipt(4), NULL]) $$);
SELECT pg_temp.try($$ SELECT fairq.extend_many(ARRAY[pg_temp.receipt(4)], '0') $$);
SELECT round(extract(epoch FROM lease_until - now()) / 60) AS minutes FROM fairq.tasks('set') WHERE payload = '4';
-- The task's own lease is what extend goes by when none is given.
SELECT fairq.create_queue('set own', lease => '10 min');
SELECT fairq.enqueue('set own', '1', lease => '1 h') IS NOT NULL AS enqueued;
SELECT round(extract(epoch FROM fairq.extend(receipt) - now()) / 60) AS minutes FROM fairq.claim('set own', lease => '1 min');

-- release: back to its place, no attempt counted.
CALL pg_temp.refill('set', 8);
SELECT fairq.release(pg_temp.receipt(3));
SELECT fairq.release(receipt => pg_temp.receipt(1));
SELECT fairq.release(pg_temp.receipt(1));
SELECT fairq.ack(pg_temp.receipt(1)), fairq.nack(pg_temp.receipt(1), delay => '0'), fairq.extend(pg_temp.receipt(1)) AS extended;
SELECT t.payload, state, attempts, t.address OPERATOR(fairq.=) c.address AS same FROM fairq.tasks('set') t LEFT JOIN claimed c USING (id) ORDER BY id;
SELECT payload, attempt FROM fairq.claim('set');
SELECT pg_temp.number(r) FROM fairq.release_many(ARRAY[pg_temp.receipt(5), pg_temp.receipt(3), gen_random_uuid(), pg_temp.receipt(2), pg_temp.receipt(5)]) r
    ORDER BY 1;
SELECT count(*) FROM fairq.release_many('{}');
SELECT string_agg(payload::text, ' ') FROM fairq.claim('set', 10);
SELECT pg_temp.try($$ SELECT fairq.release(NULL) $$);
SELECT pg_temp.try($$ SELECT fairq.release_many(NULL) $$);
SELECT pg_temp.try($$ SELECT fairq.release_many(ARRAY[pg_temp.receipt(4), NULL]) $$);
SELECT fairq.ack(pg_temp.receipt(4));

-- A release counts no attempt, but those that were counted stay counted.
CALL pg_temp.refill('set', 3);
SELECT fairq.nack(pg_temp.receipt(1), delay => '0');
SELECT payload, attempt, fairq.release(receipt) FROM fairq.claim('set', 3) ORDER BY id;
SELECT payload, state, attempts FROM fairq.tasks('set') ORDER BY id;
SELECT payload, attempt FROM fairq.claim('set', 3) ORDER BY id;

-- A receipt is good for one lease: the next holder's is another.
CALL pg_temp.refill('set', 3);
CREATE TEMP TABLE first AS SELECT * FROM claimed;
SELECT fairq.release(receipt) FROM first;
TRUNCATE claimed;
INSERT INTO claimed SELECT * FROM fairq.claim('set');
SELECT c.id = f.id AS same_task, c.receipt = f.receipt AS same_receipt FROM claimed c, first f;
SELECT fairq.ack(receipt), fairq.nack(receipt, delay => '0'), fairq.release(receipt), fairq.extend(receipt) AS extended FROM first;
SELECT pg_temp.all_of('set');
SELECT fairq.ack(receipt) FROM claimed;
SELECT pg_temp.all_of('set');

-- revive: the dead are ready again, one or all, with all their attempts before them.
CALL pg_temp.refill('set', 6, 1);
SELECT count(*) FROM fairq.nack_many(ARRAY[pg_temp.receipt(1), pg_temp.receipt(2), pg_temp.receipt(3)], '{bad}', '0');
SELECT pg_temp.all_of('set');
SELECT fairq.revive('set', (SELECT id FROM claimed WHERE payload = '2'));
SELECT payload, state, attempts, max_attempts, last_error, address IS NOT NULL AS addressed FROM fairq.get_task('set', (SELECT id FROM claimed WHERE payload = '2'));
-- What is not dead is not revived.
SELECT fairq.revive('set', (SELECT id FROM claimed WHERE payload = '2'));
SELECT fairq.revive('set', (SELECT id FROM claimed WHERE payload = '4'));
SELECT fairq.revive('set', -1);
SELECT fairq.revive(queue => 'set', id => NULL);
SELECT fairq.revive_group('set', 'nobody');
SELECT fairq.revive_group('set', NULL);
SELECT fairq.revive_all('set');
SELECT pg_temp.all_of('set');
SELECT count(*) FROM fairq.dead_tasks;
-- Their places are behind the others.
SELECT string_agg(payload::text, ' '), string_agg(attempt::text, ' ') FROM fairq.claim('set', 10);
SELECT pg_temp.try($$ SELECT fairq.revive_all('set unknown') $$);
SELECT pg_temp.try($$ SELECT fairq.revive_all(NULL) $$);

-- Untyped parameters find their types, as a driver sends them.
CALL pg_temp.refill('set', 12);
PREPARE ack_one AS SELECT fairq.ack($1);
SELECT format('EXECUTE ack_one(%L)', pg_temp.receipt(1)) AS statement \gset
:statement;
PREPARE ack_several AS SELECT count(*) FROM fairq.ack_many($1);
SELECT format('EXECUTE ack_several(%L)', ARRAY[pg_temp.receipt(2), pg_temp.receipt(3)]) AS statement \gset
:statement;
PREPARE nack_one AS SELECT fairq.nack($1, error => $2, delay => $3);
SELECT format('EXECUTE nack_one(%L, %L, %L)', pg_temp.receipt(4), 'error', '0') AS statement \gset
:statement;
PREPARE nack_several AS SELECT count(*) FROM fairq.nack_many($1, errors => $2, delay => $3);
SELECT format('EXECUTE nack_several(%L, %L, %L)', ARRAY[pg_temp.receipt(5)], '{error}', '0') AS statement \gset
:statement;
PREPARE extend_one AS SELECT fairq.extend($1, lease => $2) IS NOT NULL;
SELECT format('EXECUTE extend_one(%L, %L)', pg_temp.receipt(6), '00:01') AS statement \gset
:statement;
PREPARE extend_several AS SELECT count(*) FROM fairq.extend_many($1, lease => $2);
SELECT format('EXECUTE extend_several(%L, %L)', ARRAY[pg_temp.receipt(7)], '00:01') AS statement \gset
:statement;
PREPARE release_one AS SELECT fairq.release($1);
SELECT format('EXECUTE release_one(%L)', pg_temp.receipt(8)) AS statement \gset
:statement;
PREPARE release_several AS SELECT count(*) FROM fairq.release_many($1);
SELECT format('EXECUTE release_several(%L)', ARRAY[pg_temp.receipt(9)]) AS statement \gset
:statement;
PREPARE revive_one AS SELECT fairq.revive($1, $2);
EXECUTE revive_one('set', '1');
SELECT name, parameter_types FROM pg_prepared_statements ORDER BY name COLLATE "C";
SELECT pg_temp.all_of('set');

-- Counted since the queue was made.
SELECT ready, leased, dead, enqueued, claimed, acked, nacked, released, expired, cancelled, dead_total FROM fairq.queue_stats WHERE queue = 'set';

SELECT bool_and(fairq.drop_queue(queue)) FROM fairq.queues WHERE queue LIKE 'set%';
SELECT queue FROM fairq.queues;
SELECT queue, count(*) FROM fairq.leases GROUP BY queue;
