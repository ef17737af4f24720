-- Figures: what is counted and when, quantiles of waits, runs and payloads,
-- rates, and counting anew. The queues of this file start with "sta".
\pset format unaligned
\pset tuples_only on
\pset null (null)
SELECT fairq.create_queue('sta', buckets => 2, lease => '1 h', backoff_base => '0');
SELECT fairq.create_queue('sta other', policy => 'time', buckets => 1, lease => '1 h', backoff_base => '0');
-- The figures of a queue of this file that do not depend on the time.
CREATE FUNCTION pg_temp.counts(name text) RETURNS text LANGUAGE sql AS $$
    SELECT concat_ws(' ', 'ready', ready, 'leased', leased, 'scheduled', scheduled, 'dead', dead, '| enqueued', enqueued, 'claimed', claimed, 'acked', acked,
                     'nacked', nacked, 'released', released, 'expired', expired, 'cancelled', cancelled, 'died', dead_total,
                     '| payload', payload_avg, payload_p50, payload_p95, payload_max)
        FROM fairq.queue_stats WHERE queue = name
$$;
-- Are the quantiles of something in order, from low on?
CREATE FUNCTION pg_temp.in_order(a interval, b interval, c interval, low interval) RETURNS text LANGUAGE sql AS $$
    SELECT CASE WHEN a IS NULL AND b IS NULL AND c IS NULL THEN 'none' WHEN a >= low AND a <= b AND b <= c AND c < '1 h' THEN 'in order' ELSE concat_ws(' ', low, a, b, c) END
$$;
CREATE FUNCTION pg_temp.times(name text, low_wait interval, low_run interval) RETURNS text LANGUAGE sql AS $$
    SELECT 'wait ' || pg_temp.in_order(wait_p50, wait_p95, wait_p99, low_wait) || ', run ' || pg_temp.in_order(run_p50, run_p95, run_p99, low_run)
        FROM fairq.queue_stats WHERE queue = name
$$;

-- Nothing yet.
SELECT pg_temp.counts('sta'), pg_temp.times('sta', '0', '0'), enqueue_rate, claim_rate, ack_rate, stats_reset <= clock_timestamp() FROM fairq.queue_stats WHERE queue = 'sta';

-- Payloads: their sizes as jsonb, which a quantile is above by 6.25 % at most. A hundred of them, 20 to 1000 characters.
CREATE TEMP TABLE payloads AS SELECT n, to_jsonb(repeat('x', 10 * n)) AS payload FROM generate_series(2, 101) n;
CREATE TEMP TABLE sizes AS SELECT avg(size)::bigint AS avg, percentile_disc('{0.5,0.95,1}'::float8[]) WITHIN GROUP (ORDER BY size) AS at
    FROM (SELECT pg_column_size(payload) - 4 AS size FROM payloads WHERE pg_column_size(payload) > 127
          UNION ALL SELECT pg_column_size(payload) - 1 FROM payloads WHERE pg_column_size(payload) <= 127) s;
SELECT cardinality(fairq.enqueue_many('sta', array_agg(payload ORDER BY n))) FROM payloads;
SELECT pg_temp.counts('sta') !~ 'payload $' AS counted, abs(payload_avg - avg) <= 1 AS avg, payload_p50 BETWEEN at[1] AND at[1] * 1.0625 AS p50,
       payload_p95 BETWEEN at[2] AND at[2] * 1.0625 AS p95, payload_max BETWEEN at[3] AND at[3] * 1.0625 AS max
    FROM fairq.queue_stats, sizes WHERE queue = 'sta';
-- One at a time they are counted alike, from rows with compressed payloads, too.
SELECT count(fairq.enqueue('sta other', payload)) FROM payloads;
SELECT a.payload_avg = b.payload_avg AND a.payload_p50 = b.payload_p50 AND a.payload_p95 = b.payload_p95 AND a.payload_max = b.payload_max
    FROM fairq.queue_stats a, fairq.queue_stats b WHERE a.queue = 'sta' AND b.queue = 'sta other';
SELECT fairq.reset_stats('sta other');
CREATE TEMP TABLE large AS SELECT to_jsonb(repeat('abcdefghij', 10000)) AS payload;
SELECT pg_column_size(payload) < 10000 AS compressed, fairq.enqueue('sta other', payload) > 0 FROM large;
SELECT enqueued, payload_avg, payload_p50 BETWEEN payload_avg AND payload_avg * 1.0625, payload_max = payload_p50 FROM fairq.queue_stats WHERE queue = 'sta other';
SELECT fairq.purge('sta other');

-- Waits count from the enqueue to the claim, runs from the claim to the ack.
SELECT pg_temp.times('sta', '0', '0');
SELECT pg_sleep(0.2);
CREATE TEMP TABLE claimed AS SELECT * FROM fairq.claim('sta', 100);
SELECT pg_temp.times('sta', '0.2 s', '0'), (SELECT claimed FROM fairq.queue_stats WHERE queue = 'sta');
SELECT pg_sleep(0.3);
SELECT count(*) FROM fairq.ack_many(ARRAY(SELECT receipt FROM claimed WHERE payload <> '"none"'));
SELECT pg_temp.times('sta', '0.2 s', '0.3 s'), (SELECT acked FROM fairq.queue_stats WHERE queue = 'sta');
DROP TABLE claimed;

-- A quantile is no more than 6.25 % above what was measured: a task that has waited for 1000 s, by its row.
SELECT fairq.reset_stats('sta');
SELECT fairq.enqueue('sta', '1') AS id \gset
UPDATE fairq.q_sta SET enqueued_at = now() - interval '1000 s' WHERE id = :id;
SELECT count(*) FROM fairq.claim('sta');
SELECT wait_p50 BETWEEN '1000 s' AND '1120 s', wait_p50 = wait_p95, wait_p95 = wait_p99 FROM fairq.queue_stats WHERE queue = 'sta';
-- Of a hundred that wait 10 s to 1000 s, which are told apart.
SELECT fairq.reset_stats('sta');
SELECT cardinality(fairq.enqueue_many('sta', array_agg(to_jsonb(n)))) FROM generate_series(1, 100) n;
UPDATE fairq.q_sta SET enqueued_at = now() - interval '10 s' * (payload::text)::int WHERE id > :id;
SELECT count(*) FROM fairq.claim('sta', 50);
SELECT count(*) FROM fairq.claim('sta', 100);
SELECT wait_p50 BETWEEN '500 s' AND '560 s', wait_p95 BETWEEN '950 s' AND '1060 s', wait_p99 BETWEEN '990 s' AND '1120 s' FROM fairq.queue_stats WHERE queue = 'sta';
-- As histograms that can be added up: how many were not longer than each of 20 lengths, exactly, and how long all were.
CREATE FUNCTION pg_temp.histogram(name text, what text) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(le || ':' || count, ' ' ORDER BY le) FILTER (WHERE count > 0) FROM fairq.queue_histograms WHERE queue = name AND kind = what
$$;
SELECT pg_temp.histogram('sta', 'wait'), pg_temp.histogram('sta', 'run') IS NULL;
SELECT kind, count(*), bool_and(sum BETWEEN 50500 AND 56000 OR kind = 'run' AND sum = 0), max(count) FROM fairq.queue_histograms WHERE queue = 'sta' GROUP BY 1 ORDER BY 1;
SELECT string_agg(le::text, ' ' ORDER BY le) FROM fairq.queue_histograms WHERE queue = 'sta' AND kind = 'run';
-- What nobody should write does no harm: 0, or 17 years at most.
SELECT fairq.reset_stats('sta');
SELECT count(*), sum(count), max(sum) FROM fairq.queue_histograms WHERE queue = 'sta';
SELECT count(fairq.enqueue('sta', to_jsonb(n))) FROM generate_series(1, 4) n;
UPDATE fairq.q_sta SET enqueued_at = (ARRAY['infinity', '-infinity', '4714-11-24 BC', '294276-12-31']::timestamptz[])[payload::text::int] WHERE address IS NOT NULL AND id > :id + 100;
SELECT count(*) FROM fairq.claim('sta', 10);
SELECT wait_p50, wait_p99 BETWEEN '17 years' AND '19 years' FROM fairq.queue_stats WHERE queue = 'sta';
SELECT fairq.drop_queue('sta'), fairq.create_queue('sta', buckets => 2, lease => '1 h', backoff_base => '0');

-- A task with a run_at waits from then on, one that is put back from when it is due again: not from its enqueue, which was long ago.
CREATE PROCEDURE pg_temp.age() LANGUAGE sql AS $$ UPDATE fairq.q_sta SET enqueued_at = enqueued_at - interval '10 h'; $$;
SELECT fairq.enqueue('sta', '1', run_at => now() - interval '100 s');
CALL pg_temp.age();
SELECT count(*) FROM fairq.claim('sta');
SELECT wait_p50 BETWEEN '100 s' AND '200 s' FROM fairq.queue_stats WHERE queue = 'sta';
SELECT fairq.reset_stats('sta');
SELECT bool_and(fairq.nack(receipt, delay => '0')) FROM fairq.leases WHERE queue = 'sta';
SELECT run_at > now() - interval '1 min' FROM fairq.tasks('sta');
CALL pg_temp.age();
SELECT count(*) FROM fairq.claim('sta');
SELECT wait_p99 < '90 s' FROM fairq.queue_stats WHERE queue = 'sta';
-- So does one that was dead and is revived.
SELECT fairq.reset_stats('sta');
UPDATE fairq.q_sta SET max_attempts = 1;
SELECT bool_and(fairq.nack(receipt)) FROM fairq.leases WHERE queue = 'sta';
UPDATE fairq.q_sta SET enqueued_at = now() - interval '10 h', run_at = now() - interval '10 h';
SELECT fairq.revive_all('sta');
SELECT count(*) FROM fairq.claim('sta');
SELECT wait_p99 < '90 s' FROM fairq.queue_stats WHERE queue = 'sta';
-- A release does not begin the wait anew: the task has its old place.
SELECT fairq.reset_stats('sta');
UPDATE fairq.q_sta SET enqueued_at = now() - interval '100 s', run_at = NULL;
SELECT bool_and(fairq.release(receipt)) FROM fairq.leases WHERE queue = 'sta';
SELECT count(*) FROM fairq.claim('sta');
SELECT wait_p50 >= '100 s' FROM fairq.queue_stats WHERE queue = 'sta';
SELECT bool_and(fairq.ack(receipt)) FROM fairq.leases WHERE queue = 'sta';
-- What is popped has waited, but has no run; what is nacked or released is none either.
SELECT fairq.reset_stats('sta');
SELECT count(fairq.enqueue('sta', to_jsonb(n))) FROM generate_series(1, 4) n;
SELECT count(*) FROM fairq.pop('sta', 2);
SELECT fairq.nack(receipt, delay => '0') FROM fairq.claim('sta');
SELECT fairq.release(receipt) FROM fairq.claim('sta');
SELECT pg_temp.counts('sta'), pg_temp.times('sta', '0', '0');

-- An ack is near the end of its lease when less than a fifth of that is left: not if the lease was extended or is short,
-- or under a session, which ends it. To see it fail: leases_near_end() without usual, without the lease's own length, or with
-- no more than usual for a deadline.
SELECT fairq.create_queue('sta near', buckets => 1, lease => '2 s');
SELECT count(fairq.enqueue('sta near', to_jsonb(n))) FROM generate_series(1, 4) n;
CREATE FUNCTION pg_temp.ack_with(rest interval, lease interval, pause float8, session uuid DEFAULT NULL) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    r uuid := receipt FROM fairq.claim('sta near', 1, lease, session);
BEGIN
    PERFORM pg_sleep(pause);
    IF rest IS NOT NULL THEN
        PERFORM fairq.extend(r, rest);
    END IF;
    PERFORM fairq.ack(r);
    RETURN 1;
END
$$;
CREATE FUNCTION pg_temp.near() RETURNS text LANGUAGE sql AS $$ SELECT near_lease_end || ' of ' || acked FROM fairq.queue_stats WHERE queue = 'sta near' $$;
SELECT pg_temp.ack_with('0.3 s', '1 h', 3.5), pg_temp.near() AS before_commit;
SELECT pg_temp.near();
SELECT pg_temp.ack_with('0.8 s', '1 h', 3.5), pg_temp.ack_with(NULL, '0.3 s', 0);
SELECT pg_temp.near();
SELECT pg_temp.ack_with(NULL, NULL, 1.9, fairq.open_session(ttl => '1 h'));
SELECT pg_temp.near();
SELECT fairq.reset_stats('sta near');
SELECT pg_temp.near(), fairq.drop_queue('sta near');

-- Counted when the transaction commits: enqueued, acked, their sizes and runs. Claims at once.
SELECT fairq.purge('sta'), fairq.reset_stats('sta');
BEGIN;
SELECT fairq.enqueue('sta', '"rolled back"');
SELECT pg_temp.counts('sta');
ROLLBACK;
SELECT pg_temp.counts('sta');
BEGIN;
SELECT count(fairq.enqueue('sta', to_jsonb(n))) FROM generate_series(1, 3) n;
SAVEPOINT a;
SELECT count(fairq.enqueue('sta', to_jsonb(repeat('y', 1000)))) FROM generate_series(1, 3) n;
ROLLBACK TO a;
SAVEPOINT b;
SELECT count(fairq.enqueue('sta', to_jsonb(n))) FROM generate_series(4, 5) n;
SAVEPOINT c;
SELECT fairq.enqueue('sta', '6') IS NOT NULL;
RELEASE c;
RELEASE b;
SELECT fairq.enqueue('sta', '7') IS NOT NULL;
COMMIT;
SELECT pg_temp.counts('sta');
BEGIN;
SELECT count(fairq.ack(receipt)) FROM fairq.claim('sta', 2);
ROLLBACK;
SELECT pg_temp.counts('sta'), pg_temp.times('sta', '0', '0');
-- In many subtransactions.
DO $$
DECLARE
    task record;
BEGIN
    FOR task IN SELECT * FROM fairq.claim('sta', 6) LOOP
        BEGIN
            PERFORM fairq.ack(task.receipt);
            IF task.payload::text::int % 2 = 0 THEN
                RAISE EXCEPTION 'not this one';
            END IF;
        EXCEPTION WHEN raise_exception THEN
            PERFORM fairq.nack(task.receipt, SQLERRM, '0');
        END;
    END LOOP;
END
$$;
SELECT pg_temp.counts('sta'), pg_temp.times('sta', '0', '0');
-- A transaction that is prepared counts then; where none may be, one that is committed.
SELECT current_setting('max_prepared_transactions')::int = 0 AS disabled \gset
BEGIN;
SELECT fairq.enqueue('sta', '8') IS NOT NULL;
\if :disabled
COMMIT;
\else
PREPARE TRANSACTION 'sta';
\endif
SELECT enqueued FROM fairq.queue_stats WHERE queue = 'sta';
\if :disabled
\else
COMMIT PREPARED 'sta';
\endif
SELECT enqueued FROM fairq.queue_stats WHERE queue = 'sta';
-- Rows that are written with SQL are there, but were not enqueued.
INSERT INTO fairq.q_sta (id, enqueued_at, priority, cost, attempts, state, group_key, payload) VALUES (0, now(), 0, 1, 0, 'd', '', '1');
SELECT pg_temp.counts('sta');

-- Rates: what happened in the last minute, by the second.
SELECT fairq.drop_queue('sta'), fairq.create_queue('sta', buckets => 2, lease => '1 h', backoff_base => '0');
SELECT count(fairq.enqueue('sta', to_jsonb(n))) FROM generate_series(1, 600) n;
SELECT count(*) FROM fairq.claim('sta', 60, lease => '1 h');
SELECT count(fairq.ack(receipt)) FROM (SELECT receipt FROM fairq.leases WHERE queue = 'sta' LIMIT 6) l;
-- It has begun less than a minute ago, unless this takes that long.
SELECT (enqueue_rate BETWEEN 600 / 65.0 AND 600 AND claim_rate BETWEEN 60 / 65.0 AND 60 AND ack_rate BETWEEN 6 / 65.0 AND 6) OR clock_timestamp() > stats_reset + interval '1 min'
    FROM fairq.queue_stats WHERE queue = 'sta';
SELECT abs(enqueue_rate / claim_rate - 10) < 0.001 AND abs(claim_rate / ack_rate - 10) < 0.001 OR clock_timestamp() > stats_reset + interval '1 min'
    FROM fairq.queue_stats WHERE queue = 'sta';

-- Counting anew: all but the depths; at once, whatever becomes of the transaction.
SELECT pg_temp.counts('sta');
SELECT stats_reset AS before FROM fairq.queue_stats WHERE queue = 'sta' \gset
BEGIN;
SELECT fairq.reset_stats('sta');
ROLLBACK;
SELECT pg_temp.counts('sta'), pg_temp.times('sta', '0', '0'), enqueue_rate, claim_rate, ack_rate, stats_reset > :'before' FROM fairq.queue_stats WHERE queue = 'sta';
-- What a transaction has counted before it is committed comes after.
BEGIN;
SELECT fairq.enqueue('sta', '1') IS NOT NULL;
SELECT fairq.reset_stats('sta');
COMMIT;
SELECT enqueued FROM fairq.queue_stats WHERE queue = 'sta';
-- For the owner; without a name, of all queues that are the caller's; also where nothing may be written.
CREATE ROLE regress_fairq_sta_owner;
CREATE ROLE regress_fairq_sta_monitor;
GRANT pg_monitor TO regress_fairq_sta_monitor;
ALTER TABLE fairq.q_sta OWNER TO regress_fairq_sta_owner;
SELECT fairq.enqueue('sta other', '1') IS NOT NULL;
SET ROLE regress_fairq_sta_monitor;
SELECT fairq.reset_stats('sta');
SELECT queue, enqueued FROM fairq.queue_stats WHERE queue LIKE 'sta%' ORDER BY 1;
SET ROLE regress_fairq_sta_owner;
BEGIN READ ONLY;
SELECT fairq.reset_stats('sta');
COMMIT;
RESET ROLE;
SELECT queue, enqueued FROM fairq.queue_stats WHERE queue LIKE 'sta%' ORDER BY 1;
SET ROLE regress_fairq_sta_owner;
SELECT fairq.reset_stats('sta other');
SELECT fairq.reset_stats('sta');
RESET ROLE;
SELECT fairq.reset_stats('sta other');
SELECT queue, enqueued FROM fairq.queue_stats WHERE queue LIKE 'sta%' ORDER BY 1;
SELECT fairq.reset_stats('sta of nothing');
SELECT fairq.reset_stats('');
SELECT fairq.reset_stats(NULL);
SELECT fairq.drop_queue('sta'), fairq.drop_queue('sta other');
DROP ROLE regress_fairq_sta_owner, regress_fairq_sta_monitor;
-- A new queue begins with nothing, whatever one before it has counted.
SELECT fairq.create_queue('sta');
SELECT pg_temp.counts('sta'), pg_temp.times('sta', '0', '0'), enqueue_rate FROM fairq.queue_stats WHERE queue = 'sta';
SELECT fairq.drop_queue('sta');
