-- Figures by name: what is counted of the tasks of a name and when, their histograms, and counting anew.
-- The queues of this file start with "nst".
-- To see it fail: have deform_briefly() say that there is no name; leave out put_back_count_name() in any of its places,
-- or name_stats_forget_queue() in queue_lifecycle_release(); count in name_stats_note() instead of at the commit,
-- or have it give the empty name a number.
\pset format unaligned
\pset tuples_only on
\pset null (null)
SET statement_timeout = '60 s';
SELECT fairq.create_queue('nst', buckets => 2, lease => '1 h', backoff_base => '0', backoff_jitter => 0, max_lost => 2), fairq.create_queue('nst other', buckets => 1);
-- The figures of a queue of this file that do not depend on the time.
CREATE FUNCTION pg_temp.counts(q text DEFAULT 'nst') RETURNS SETOF text LANGUAGE sql AS $$
    SELECT concat_ws(' ', coalesce(name, '(null)'), CASE WHEN other THEN 'other' END, '| enqueued', enqueued, 'done', done, 'failed', failed, 'lost', lost, 'dead', dead,
                     '| waits', (SELECT max(count) FROM fairq.name_histograms h WHERE (h.queue, h.name, kind) = (s.queue, s.name, 'wait')), wait_p50 IS NOT NULL,
                     'runs', (SELECT max(count) FROM fairq.name_histograms h WHERE (h.queue, h.name, kind) = (s.queue, s.name, 'run')), run_p50 IS NOT NULL)
        FROM fairq.name_stats s WHERE queue = q ORDER BY name COLLATE "C"
$$;
SELECT pg_temp.counts();

-- A task without a name counts nowhere, whatever becomes of it.
SELECT count(fairq.enqueue('nst', '1')) FROM generate_series(1, 4);
SELECT fairq.ack(receipt) FROM fairq.claim('nst');
SELECT fairq.nack(receipt, final => true) FROM fairq.claim('nst');
SELECT count(*) FROM fairq.pop('nst', 2);
SELECT pg_temp.counts();

-- Enqueued, done with a run, failed, dead.
SELECT count(fairq.enqueue('nst', to_jsonb(n), name => CASE WHEN n % 2 = 0 THEN 'even' ELSE 'odd' END)) FROM generate_series(1, 6) n;
SELECT pg_temp.counts();
SELECT fairq.ack(receipt) FROM fairq.claim('nst');
SELECT count(*) FROM fairq.ack_many(ARRAY(SELECT receipt FROM fairq.claim('nst', 2)));
SELECT fairq.nack(receipt, 'no', '1 h') FROM fairq.claim('nst');
SELECT fairq.nack(receipt, 'never', final => true) FROM fairq.claim('nst');
SELECT pg_temp.counts();
-- A pop has waited, and has no run. So has what is released, which is neither done nor failed.
SELECT fairq.release(receipt) FROM fairq.claim('nst');
SELECT count(*) FROM fairq.pop('nst');
SELECT pg_temp.counts();
-- With a unique key, in many at once, and with an archive, too.
SELECT fairq.alter_queue('nst', keep_done => '1 h');
SELECT fairq.enqueue('nst', '1', unique_key => 'k', name => 'unique') = fairq.enqueue('nst', '2', unique_key => 'k', name => 'unique');
SELECT cardinality(fairq.enqueue_many('nst', ARRAY['1', '2', '3']::jsonb[], names => ARRAY['many', NULL, 'many']));
SELECT count(*) FROM fairq.ack_many(ARRAY(SELECT receipt FROM fairq.claim('nst', 10)));
SELECT pg_temp.counts();
SELECT fairq.alter_queue('nst', keep_done => '0');
SELECT fairq.purge('nst'), fairq.reset_stats('nst');
SELECT pg_temp.counts();

-- Lost leases, and a task that dies of them; not leases that end in order.
SELECT fairq.enqueue('nst', '1', name => 'poison') > 0;
-- Claim a task when there is one, and have its lease run out.
CREATE PROCEDURE pg_temp.lose() LANGUAGE plpgsql AS $$
BEGIN
    WHILE NOT EXISTS (SELECT FROM fairq.claim('nst', lease => '1 ms')) LOOP
        COMMIT;
        PERFORM fairq.maintain('nst');
    END LOOP;
    COMMIT;
    WHILE EXISTS (SELECT FROM fairq.leases WHERE queue = 'nst') LOOP
        PERFORM fairq.maintain('nst');
        COMMIT;
        PERFORM pg_sleep(0.01);
    END LOOP;
END
$$;
SELECT fairq.open_session() AS session \gset
SELECT count(*) FROM fairq.claim('nst', session => :'session');
SELECT fairq.close_session(:'session');
SELECT fairq.maintain('nst') IS NOT NULL;
SELECT pg_temp.counts();
CALL pg_temp.lose();
SELECT pg_temp.counts();
CALL pg_temp.lose();
SELECT pg_temp.counts();

-- Counted when the transaction commits, and not if it, or its subtransaction, is rolled back. Nothing is left of a name then.
SELECT fairq.purge('nst'), fairq.reset_stats('nst');
BEGIN;
SELECT fairq.enqueue('nst', '1', name => 'undone') > 0;
ROLLBACK;
SELECT pg_temp.counts();
BEGIN;
SELECT fairq.enqueue('nst', '1', name => 'kept') > 0;
SAVEPOINT a;
SELECT fairq.enqueue('nst', '2', name => 'undone') > 0, fairq.enqueue('nst', '2', name => 'kept') > 0;
ROLLBACK TO a;
SAVEPOINT b;
SELECT fairq.enqueue('nst', '3', name => 'kept') > 0, fairq.enqueue('nst', '3', name => 'later') > 0;
RELEASE b;
SELECT pg_temp.counts();
COMMIT;
SELECT pg_temp.counts();
BEGIN;
SELECT count(fairq.ack(receipt)) FROM fairq.claim('nst', 10);
ROLLBACK;
SELECT pg_temp.counts();
-- In many subtransactions, and by more names than are looked for at one place.
DO $$
BEGIN
    FOR i IN 1 .. 1000 LOOP
        BEGIN
            PERFORM fairq.enqueue('nst other', '1', name => 'name ' || i % 500);
            IF i > 900 THEN
                RAISE EXCEPTION 'not this one';
            END IF;
        EXCEPTION WHEN raise_exception THEN
            NULL;
        END;
    END LOOP;
END
$$;
SELECT count(*), min(enqueued), max(enqueued), sum(enqueued), count(DISTINCT name), bool_or(other) FROM fairq.name_stats WHERE queue = 'nst other';
SELECT fairq.purge('nst other'), fairq.reset_stats('nst other');
-- A transaction that is prepared counts then; where none may be, one that is committed.
SELECT current_setting('max_prepared_transactions')::int = 0 AS disabled \gset
BEGIN;
SELECT fairq.enqueue('nst', '8', name => 'prepared') IS NOT NULL;
\if :disabled
COMMIT;
\else
PREPARE TRANSACTION 'nst';
\endif
SELECT pg_temp.counts();
\if :disabled
\else
COMMIT PREPARED 'nst';
\endif

-- Histograms that can be added up, exact at 20 lengths, and quantiles within a factor of two: a hundred that wait 10 s to 1000 s.
SELECT fairq.purge('nst'), fairq.reset_stats('nst');
SELECT count(fairq.enqueue('nst', to_jsonb(n), name => 'slow')) FROM generate_series(1, 100) n;
UPDATE fairq.q_nst SET enqueued_at = now() - interval '10 s' * (payload::text)::int;
SELECT count(*) FROM fairq.claim('nst', 100);
SELECT string_agg(le || ':' || count, ' ' ORDER BY le) FILTER (WHERE count > 0), count(*), bool_and(sum BETWEEN 50500 AND 56000) FROM fairq.name_histograms WHERE queue = 'nst' AND kind = 'wait';
SELECT count(*) FILTER (WHERE (n.le, n.kind, n.count) = (q.le, q.kind, q.count)) AS as_of_queue FROM fairq.name_histograms n JOIN fairq.queue_histograms q USING (queue, kind, le) WHERE queue = 'nst';
SELECT wait_p50 BETWEEN '480 s' AND '550 s', wait_p95 BETWEEN '900 s' AND '1073 s', wait_p99 BETWEEN wait_p95 AND '1074 s', run_p50 FROM fairq.name_stats WHERE queue = 'nst';
-- What should not be written does no harm.
SELECT count(fairq.ack(receipt)) FROM fairq.leases WHERE queue = 'nst';
SELECT pg_temp.counts();
SELECT fairq.purge('nst'), fairq.reset_stats('nst');
SELECT count(fairq.enqueue('nst', to_jsonb(n), name => 'odd times')) FROM generate_series(1, 4) n;
UPDATE fairq.q_nst SET enqueued_at = (ARRAY['infinity', '-infinity', '4714-11-24 BC', '294276-12-31']::timestamptz[])[payload::text::int], name = CASE WHEN payload = '1' THEN repeat('é', 49) || 'x' || repeat('é', 20) ELSE name END WHERE name = 'odd times';
SELECT count(*) FROM fairq.claim('nst', 10);
SELECT octet_length(name), name = repeat('é', 49) || 'x', wait_p50 < '1 s', wait_p99 < '13 days' FROM fairq.name_stats WHERE queue = 'nst' ORDER BY 1;

-- Counting anew, which forgets names, at once; what a transaction has counted before it is committed comes after.
SELECT fairq.enqueue('nst other', '1', name => 'kept') > 0;
BEGIN;
SELECT fairq.enqueue('nst', '1', name => 'before') > 0;
SELECT fairq.reset_stats('nst');
SELECT pg_temp.counts();
COMMIT;
SELECT pg_temp.counts(), pg_temp.counts('nst other');

-- An empty name, which SQL may write, counts with the others.
SELECT fairq.create_queue('nst empty', buckets => 1);
SELECT count(fairq.enqueue('nst empty', '1')) FROM generate_series(1, 2);
UPDATE fairq."q_nst empty" SET name = '';
SELECT count(*) FROM fairq.pop('nst empty', 2);
SELECT pg_temp.counts('nst empty');
SELECT fairq.drop_queue('nst empty');

-- They show to those who may read the queue, and to pg_monitor.
CREATE ROLE regress_fairq_nst;
SET ROLE regress_fairq_nst;
SELECT count(*) FROM fairq.name_stats;
SELECT count(*) FROM fairq.name_histograms;
RESET ROLE;
GRANT SELECT ON fairq.q_nst TO regress_fairq_nst;
SET ROLE regress_fairq_nst;
SELECT queue, name FROM fairq.name_stats;
SELECT queue, name, count(*) FROM fairq.name_histograms GROUP BY 1, 2;
RESET ROLE;
GRANT pg_monitor TO regress_fairq_nst;
SET ROLE regress_fairq_nst;
SELECT queue, name FROM fairq.name_stats WHERE queue LIKE 'nst%' ORDER BY 1;
RESET ROLE;
REVOKE SELECT ON fairq.q_nst FROM regress_fairq_nst;
DROP ROLE regress_fairq_nst;

-- A queue that is dropped takes its names along; a new one begins with nothing.
SELECT fairq.drop_queue('nst'), fairq.drop_queue('nst other');
SELECT fairq.create_queue('nst');
SELECT fairq.enqueue('nst', '1', name => 'before') > 0;
SELECT pg_temp.counts();
BEGIN;
SELECT fairq.enqueue('nst', '1', name => 'dropped') > 0, fairq.drop_queue('nst');
COMMIT;
SELECT count(*) FROM fairq.name_stats WHERE queue LIKE 'nst%';
