-- Looking: peek, get_task, tasks, the views; and cancel in every state.
-- The queues of this file start with "loo".
\i test/sql/include/helpers.sql
\pset format unaligned
\pset null (null)

-- peek tells what a claim would return next, in order, and leases nothing.
SELECT fairq.create_queue('loo', buckets => 1, lease => '1 h');
SELECT * FROM fairq.peek('loo');
SELECT count(fairq.enqueue('loo', to_jsonb(n), group_key => 'g' || n % 3, headers => jsonb_build_object('n', n))) FROM generate_series(1, 20) n;
SELECT id IS NOT NULL AS id, group_key, payload, headers, priority, attempt, enqueued_at <= now() AS enqueued_at, address IS NOT NULL AS address
    FROM fairq.peek('loo', 1);
SELECT string_agg(payload::text, ' ') FROM fairq.peek('loo');
SELECT string_agg(payload::text, ' ') FROM fairq.peek('loo', NULL);
SELECT string_agg(payload::text, ' ') FROM fairq.peek(queue => 'loo', max_tasks => 3);
SELECT count(*) FROM fairq.peek('loo', 100000);
SELECT count(*) FROM fairq.leases WHERE queue = 'loo';
-- Tasks of groups that may not have one now are left out, before any claim has come to them.
-- Seen to fail without group_may() in lane_candidates().
SELECT fairq.pause_group('loo', 'g1'), fairq.set_group('loo', 'g2', max_leased => 1);
SELECT string_agg(payload::text, ' ') FROM fairq.peek('loo');
SELECT payload FROM fairq.claim('loo', group_keys => '{g2}') \gset
SELECT string_agg(payload::text, ' ') FROM fairq.peek('loo');
SELECT fairq.release(receipt) FROM fairq.leases WHERE queue = 'loo';
SELECT fairq.resume_group('loo', 'g1'), fairq.set_group('loo', 'g2', max_leased => 0);
SELECT string_agg(payload::text, ' ') FROM fairq.peek('loo', 3);
-- A row that was written again has two places, its own and the one that the index leads to, and is shown once.
-- Seen to fail without the look at the last candidate in lane_candidates().
SELECT fairq.create_queue('loo twice', buckets => 1);
SELECT fairq.enqueue('loo twice', '0') > 0;
SELECT count(*) FROM fairq.pop('loo twice');
SELECT count(*) FROM fairq.pop('loo twice');
SELECT fairq.enqueue('loo twice', '"a"', unique_key => 'k') > 0;
SELECT payload FROM fairq.peek('loo twice');
SELECT fairq.enqueue('loo twice', '"b"', unique_key => 'k', on_duplicate => 'replace') > 0;
SELECT payload FROM fairq.peek('loo twice');
SELECT fairq.drop_queue('loo twice');
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.peek('loo', 0) $$);
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.peek('loo', 100001) $$);

-- The claim that follows returns just that: under every policy, with one bucket or many, in the middle of a queue's life.
CREATE TEMP TABLE peeked (n bigint, id bigint);
CREATE TEMP TABLE claimed (n bigint, id bigint, receipt uuid);
CREATE PROCEDURE pg_temp.compare(queue text, policy text, buckets int) LANGUAGE plpgsql AS $$
DECLARE
    took int;
    differ bigint;
    out_of_place bigint;
BEGIN
    PERFORM fairq.create_queue(queue, policy, buckets, lease => '1 h');
    PERFORM fairq.enqueue(queue, to_jsonb(n), 'g' || n * n % 11, n * 7919 % 10, 1 + n % 3) FROM generate_series(1, 300) n;
    COMMIT;
    FOR round IN 0..12 LOOP
        TRUNCATE peeked, claimed;
        took := 1 + round * round;
        INSERT INTO peeked SELECT ordinality, p.id FROM fairq.peek(queue, took) WITH ORDINALITY p(id);
        COMMIT;
        INSERT INTO claimed SELECT ordinality, c.id, c.receipt FROM fairq.claim(queue, took) WITH ORDINALITY c(id, receipt);
        COMMIT;
        SELECT count(*) INTO differ FROM peeked FULL JOIN claimed USING (id) WHERE peeked.n IS NULL OR claimed.n IS NULL;
        SELECT count(*) INTO out_of_place FROM peeked JOIN claimed USING (id) WHERE peeked.n <> claimed.n;
        IF differ > 0 OR out_of_place > 0 OR took <> (SELECT count(*) FROM claimed) THEN
            RAISE WARNING '% with % buckets, claim of %: got %, % differ from what peek showed, % are out of place',
                policy, buckets, took, (SELECT count(*) FROM claimed), differ, out_of_place;
        END IF;
        -- One third each is done, goes back, and fails; then new ones come.
        PERFORM CASE n % 3 WHEN 0 THEN fairq.ack(receipt) WHEN 1 THEN fairq.release(receipt) ELSE fairq.nack(receipt, delay => '0') END FROM claimed;
        COMMIT;
        PERFORM fairq.enqueue(queue, to_jsonb(n), 'g' || n % 13, n % 10) FROM generate_series(1, round) n;
        COMMIT;
    END LOOP;
END
$$;
CALL pg_temp.compare('loo fair', 'fair', 1);
CALL pg_temp.compare('loo priority', 'priority', 1);
CALL pg_temp.compare('loo time', 'time', 1);
CALL pg_temp.compare('loo fair 8', 'fair', 8);
CALL pg_temp.compare('loo priority 8', 'priority', 8);
CALL pg_temp.compare('loo time 8', 'time', 8);

-- A task whose lease has run out and that was put back is there for the next claim, and so for peek. One that waits is not.
SELECT fairq.create_queue('loo expired', buckets => 1, lease => '1 h', backoff_base => '0');
SELECT count(fairq.enqueue('loo expired', to_jsonb(n))) FROM generate_series(1, 2) n;
SELECT count(fairq.enqueue('loo expired', '"tomorrow"', run_at => now() + interval '1 day'));
SELECT payload FROM fairq.claim('loo expired', lease => '1 microsecond');
CALL pg_temp.maintain_until('loo expired', $$ count(*) = 2 FROM fairq.peek('loo expired') $$);
SELECT payload, attempt FROM fairq.peek('loo expired');
SELECT payload, attempt FROM fairq.claim('loo expired', 10);

-- get_task: one task in whatever state.
SELECT fairq.create_queue('loo states', buckets => 1, lease => '1 h', max_attempts => 1);
SELECT fairq.enqueue('loo states', '"ready"', group_key => 'bob', priority => 5, cost => 2, headers => '{"h": 1}') AS ready,
       fairq.enqueue('loo states', '"leased"') AS leased, fairq.enqueue('loo states', '"dead"', group_key => 'alice') AS dead,
       fairq.enqueue('loo states', '"gone"') AS gone, fairq.enqueue('loo states', '"later"', run_at => now() + interval '1 day') AS later \gset
SELECT receipt AS leased_receipt FROM fairq.claim('loo states') \gset
SELECT fairq.nack(receipt, 'no luck', '0') FROM fairq.claim('loo states', group_keys => '{alice}');
SELECT fairq.ack(receipt) FROM fairq.claim('loo states');
SELECT state, group_key, payload, headers, priority, cost, attempts, max_attempts, enqueued_at <= now() AS enqueued_at, run_at,
       lease_until > now() AS lease_until, address IS NOT NULL AS address, unique_key, last_error
    FROM fairq.get_task('loo states', :ready) \gx
SELECT state, payload, attempts, lease_until > now() AS lease_until, address IS NOT NULL AS address, last_error
    FROM fairq.get_task('loo states', :leased) \gx
SELECT state, payload, attempts, lease_until > now() AS lease_until, address IS NOT NULL AS address, last_error
    FROM fairq.get_task('loo states', id => :dead) \gx
SELECT state, payload, attempts, run_at - now() > interval '23 h' AS run_at, lease_until, address FROM fairq.get_task('loo states', :later) \gx
SELECT count(id) FROM fairq.get_task('loo states', :gone);
SELECT count(id) FROM fairq.get_task('loo states', -1);
SELECT (fairq.get_task('loo states', :dead)).state;
SELECT pg_temp.try($$ SELECT fairq.get_task('loo states', NULL) $$);
SELECT pg_temp.try($$ SELECT fairq.get_task('loo unknown', 1) $$);
SELECT pg_temp.try($$ SELECT fairq.get_task(NULL, 1) $$);

-- tasks: all, by state, by group.
SELECT fairq.enqueue('loo states', '"ready too"', group_key => 'alice') IS NOT NULL AS enqueued;
SELECT payload, state FROM fairq.tasks('loo states') ORDER BY id;
SELECT payload, state FROM fairq.tasks('loo states', NULL, NULL) ORDER BY id;
SELECT payload, state FROM fairq.tasks('loo states', 'ready') ORDER BY id;
SELECT payload, state FROM fairq.tasks('loo states', state => 'leased') ORDER BY id;
SELECT payload, state FROM fairq.tasks('loo states', 'dead') ORDER BY id;
SELECT payload, state FROM fairq.tasks('loo states', 'scheduled') ORDER BY id;
SELECT payload, state FROM fairq.tasks('loo states', group_key => 'alice') ORDER BY id;
SELECT payload, state FROM fairq.tasks('loo states', 'ready', 'alice') ORDER BY id;
SELECT payload, state FROM fairq.tasks('loo states', group_key => '') ORDER BY id;
SELECT count(*) FROM fairq.tasks('loo states', group_key => 'nobody');
SELECT s, (SELECT count(*) FROM fairq.tasks('loo states', s)) FROM unnest('{overflow,held}'::text[]) s;
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.tasks('loo states', 'done') $$);
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.tasks('loo states', 'Ready') $$);
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.tasks('loo states', '') $$);
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.tasks('loo states', 'r') $$);
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.tasks('loo unknown') $$);
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.tasks(NULL) $$);

-- The views tell the same.
SELECT queue, ready, leased, scheduled, overflow, held, dead, enqueued, claimed, acked, nacked, released, expired, cancelled, dead_total,
       oldest_ready_age >= '0' AND oldest_ready_age < '1 h' AS oldest_ready_age, stats_reset <= now() AS stats_reset
    FROM fairq.queue_stats WHERE queue = 'loo states' \gx
SELECT l.queue, l.id = :leased AS id, l.receipt = :'leased_receipt' AS receipt, l.attempt, l.lease_until = t.lease_until AS lease_until, l.state, l.pid = pg_backend_pid() AS pid
    FROM fairq.leases l, fairq.get_task('loo states', :leased) t WHERE l.queue = 'loo states';
SELECT queue, id = :dead AS id, group_key, payload, attempts, last_error FROM fairq.dead_tasks WHERE queue = 'loo states';
SELECT queue, count(DISTINCT bucket), min(bucket), max(bucket) FROM fairq.bucket_stats WHERE queue IN ('loo', 'loo fair 8') GROUP BY queue ORDER BY queue;
SELECT queue, policy, buckets, max_attempts, paused FROM fairq.queues WHERE queue LIKE 'loo%' ORDER BY queue COLLATE "C";
-- What has been read to its end, and what has not been read at all, has no place to read on from.
SELECT count(*) > 0 AS read, bool_and(frontier IS NULL) AS to_the_end FROM fairq.bucket_stats WHERE queue LIKE 'loo%' AND complete;
SELECT fairq.create_queue('loo unread', buckets => 1);
SELECT fairq.enqueue('loo unread', '1') > 0;
SELECT count(*), bool_and(frontier IS NULL) AS unread FROM fairq.bucket_stats WHERE queue = 'loo unread';
SELECT fairq.drop_queue('loo unread');
-- An empty queue has zeros; oldest_ready_age is unknown.
SELECT fairq.create_queue('loo empty', buckets => 2);
SELECT ready, leased, scheduled, overflow, held, dead, oldest_ready_age, enqueued, claimed, acked, nacked, released, expired, cancelled, dead_total
    FROM fairq.queue_stats WHERE queue = 'loo empty' \gx

-- cancel: it will not run again.
SELECT fairq.cancel('loo states', :ready);
SELECT fairq.cancel('loo states', :ready);
SELECT fairq.cancel(queue => 'loo states', id => :leased);
SELECT fairq.ack(:'leased_receipt'), fairq.nack(:'leased_receipt', delay => '0'), fairq.release(:'leased_receipt'),
       fairq.extend(:'leased_receipt') AS extended;
SELECT fairq.cancel('loo states', :dead);
SELECT fairq.cancel('loo states', :later);
SELECT fairq.cancel('loo states', :gone);
SELECT fairq.cancel('loo states', -1);
SELECT fairq.cancel('loo states', 9223372036854775807);
SELECT payload, state FROM fairq.tasks('loo states') ORDER BY id;
SELECT payload FROM fairq.claim('loo states', 10);
SELECT count(*) FROM fairq.dead_tasks WHERE queue = 'loo states';
SELECT ready, leased, dead, enqueued, claimed, acked, nacked, cancelled, dead_total FROM fairq.queue_stats WHERE queue = 'loo states';
SELECT pg_temp.try($$ SELECT fairq.cancel('loo states', NULL) $$);
SELECT pg_temp.try($$ SELECT fairq.cancel('loo unknown', 1) $$);
SELECT pg_temp.try($$ SELECT fairq.cancel(NULL, 1) $$);
-- An id of another queue is none of this one's.
SELECT fairq.enqueue('loo', '"mine"') AS mine \gset
SELECT bool_or(fairq.cancel('loo empty', id)) FROM fairq.tasks('loo');
SELECT payload FROM fairq.get_task('loo', :mine);

-- Looking takes no transaction id and writes nothing: a read-only transaction may look, and may do nothing else.
BEGIN READ ONLY;
SELECT count(*) FROM fairq.peek('loo', 100);
SELECT count(*) FROM fairq.tasks('loo');
SELECT payload FROM fairq.get_task('loo', :mine);
SELECT count(*) FROM fairq.queues WHERE queue LIKE 'loo%';
SELECT ready FROM fairq.queue_stats WHERE queue = 'loo';
SELECT count(*) FROM fairq.leases WHERE queue = 'loo';
SELECT count(*) FROM fairq.dead_tasks WHERE queue = 'loo';
SELECT count(*) FROM fairq.bucket_stats WHERE queue = 'loo' AND bucket = 0 HAVING count(*) > 0;
SELECT pg_current_xact_id_if_assigned() IS NULL AS no_xid;
COMMIT;

-- Untyped parameters find their types, as a driver sends them.
PREPARE peek_some AS SELECT count(*) FROM fairq.peek($1, $2);
EXECUTE peek_some('loo', '3');
PREPARE get_one AS SELECT count(id) FROM fairq.get_task($1, $2);
EXECUTE get_one('loo', '0');
PREPARE tasks_all AS SELECT count(*) FROM fairq.tasks($1, state => $2, group_key => $3);
EXECUTE tasks_all('loo', 'ready', 'g1');
PREPARE cancel_one AS SELECT fairq.cancel($1, $2);
EXECUTE cancel_one('loo', '0');
SELECT name, parameter_types FROM pg_prepared_statements ORDER BY name COLLATE "C";

SELECT bool_and(fairq.drop_queue(queue)) FROM fairq.queues WHERE queue LIKE 'loo%';
SELECT queue FROM fairq.queues;
SELECT queue, count(*) FROM fairq.leases GROUP BY queue;
