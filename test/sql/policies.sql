-- The order in which tasks are claimed: within a group, between groups, between
-- classes, by cost, and under each policy. The queues of this file start
-- with "pol". One bucket shows the order exactly; how many buckets spread it is
-- the matter of the tests of fairness.
\pset format unaligned
\pset tuples_only on

-- Claim one task after the other, in transactions of their own, and acknowledge
-- each, or nack it if it is of the failing group: the payloads in that order.
CREATE TEMP TABLE done (n int GENERATED ALWAYS AS IDENTITY, payload text, acked boolean);
CREATE PROCEDURE pg_temp.drain(queue text, batch int DEFAULT 1, at_most int DEFAULT 1000000, failing text DEFAULT NULL)
LANGUAGE plpgsql AS $$
DECLARE
    before int;
BEGIN
    TRUNCATE done RESTART IDENTITY;
    COMMIT;
    LOOP
        before := (SELECT count(*) FROM done);
        EXIT WHEN before >= at_most;
        INSERT INTO done (payload, acked)
            SELECT payload #>> '{}', CASE WHEN group_key = failing THEN fairq.nack(receipt, delay => '0') ELSE fairq.ack(receipt) END
                FROM fairq.claim(queue, least(batch, at_most - before));
        COMMIT;
        EXIT WHEN before = (SELECT count(*) FROM done);
    END LOOP;
END
$$;
CREATE FUNCTION pg_temp.put(queue text, payloads text, priority bigint DEFAULT 0, cost real DEFAULT 1) RETURNS bigint LANGUAGE sql AS $$
    -- 'b1 b2 a1': the group is the letters, the payload all of it
    SELECT count(fairq.enqueue(queue, to_jsonb(p), group_key => regexp_replace(p, '[0-9]+', ''), priority => priority, cost => cost))
        FROM regexp_split_to_table(payloads, ' ') p
$$;

-- Fair: first in, first out within a group.
SELECT fairq.create_queue('pol', buckets => 1);
SELECT pg_temp.put('pol', 'b1 b2 b3 b4 b5');
CALL pg_temp.drain('pol');
SELECT string_agg(payload, ' ' ORDER BY n), bool_and(acked) FROM done;

-- Between groups: in turn, whoever came with how many and when.
SELECT fairq.create_queue('pol turn', buckets => 1);
SELECT pg_temp.put('pol turn', 'b1 b2 b3 b4 b5 b6 a1 a2 a3 c1');
CALL pg_temp.drain('pol turn');
SELECT string_agg(payload, ' ' ORDER BY n), bool_and(acked) FROM done;
-- In batches, and all at once, the order is the same.
SELECT fairq.create_queue('pol batch', buckets => 1);
SELECT pg_temp.put('pol batch', 'b1 b2 b3 b4 b5 b6 a1 a2 a3 c1');
CALL pg_temp.drain('pol batch', batch => 3);
SELECT string_agg(payload, ' ' ORDER BY n), bool_and(acked) FROM done;
SELECT fairq.create_queue('pol once', buckets => 1);
SELECT pg_temp.put('pol once', 'b1 b2 b3 b4 b5 b6 a1 a2 a3 c1');
CALL pg_temp.drain('pol once', batch => 100);
SELECT string_agg(payload, ' ' ORDER BY n), bool_and(acked) FROM done;
-- From one enqueue_many the order is the same.
SELECT fairq.create_queue('pol many', buckets => 1);
SELECT cardinality(fairq.enqueue_many('pol many', '{"\"b1\"","\"b2\"","\"b3\"","\"b4\"","\"b5\"","\"b6\"","\"a1\"","\"a2\"","\"a3\"","\"c1\""}',
                                      '{b,b,b,b,b,b,a,a,a,c}'));
CALL pg_temp.drain('pol many');
SELECT string_agg(payload, ' ' ORDER BY n), bool_and(acked) FROM done;

-- A newcomer is served at once, and then in turn: no debt, no credit.
SELECT fairq.create_queue('pol newcomer', buckets => 1);
SELECT pg_temp.put('pol newcomer', (SELECT string_agg('bob' || n, ' ' ORDER BY n) FROM generate_series(1, 50) n));
CALL pg_temp.drain('pol newcomer', at_most => 20);
SELECT max(payload) FROM done WHERE n = 20;
SELECT pg_temp.put('pol newcomer', 'alice1 alice2 alice3 alice4');
CALL pg_temp.drain('pol newcomer', at_most => 10);
SELECT string_agg(payload, ' ' ORDER BY n), bool_and(acked) FROM done;
-- She leaves, he goes on alone, she comes back: in turn again, she has saved nothing up.
CALL pg_temp.drain('pol newcomer', at_most => 10);
SELECT pg_temp.put('pol newcomer', 'alice5 alice6 alice7 alice8');
CALL pg_temp.drain('pol newcomer', at_most => 8);
SELECT string_agg(payload, ' ' ORDER BY n), bool_and(acked) FROM done;
CALL pg_temp.drain('pol newcomer');
SELECT count(*), min(payload), bool_and(acked) FROM done;
-- The queue was empty: old tasks count for nothing, and the order is as at first.
SELECT pg_temp.put('pol newcomer', 'bob1 bob2 bob3');
SELECT pg_temp.put('pol newcomer', 'carol1 carol2 carol3');
CALL pg_temp.drain('pol newcomer');
SELECT n, string_agg(payload, ' ' ORDER BY payload) FROM (SELECT (n + 1) / 2 AS n, payload FROM done) pairs GROUP BY n ORDER BY n;

-- Costs: a task of cost 3 takes three turns, one of cost 0.5 half a turn.
SELECT fairq.create_queue('pol cost', buckets => 1);
SELECT pg_temp.put('pol cost', 'h1 h2 h3', cost => 3), pg_temp.put('pol cost', 'l1 l2 l3 l4 l5 l6 l7 l8 l9');
CALL pg_temp.drain('pol cost');
SELECT string_agg(payload, ' ' ORDER BY n), bool_and(acked) FROM done;
SELECT fairq.create_queue('pol half', buckets => 1);
SELECT pg_temp.put('pol half', 'w1 w2 w3'), pg_temp.put('pol half', 'f1 f2 f3 f4 f5 f6', cost => 0.5);
CALL pg_temp.drain('pol half');
SELECT string_agg(payload, ' ' ORDER BY n), bool_and(acked) FROM done;
-- The bound of start-time fair queueing at every moment while both have work.
SELECT fairq.create_queue('pol bound', buckets => 1);
SELECT count(fairq.enqueue('pol bound', to_jsonb(g || n), group_key => g, cost => c))
    FROM (VALUES ('x', 0.7::real, 300), ('y', 13::real, 20), ('z', 1::real, 200)) g(g, c, most), generate_series(1, most) n;
CALL pg_temp.drain('pol bound');
SELECT bool_and(abs(x - y) <= 0.7 + 13 + 1e-4) AS x_and_y, bool_and(abs(x - z) <= 0.7 + 1 + 1e-4) AS x_and_z,
       bool_and(abs(y - z) <= 13 + 1 + 1e-4) AS y_and_z, count(*) > 300 AS all_busy
    FROM (SELECT n, sum(0.7) FILTER (WHERE payload LIKE 'x%') OVER so_far AS x, sum(13) FILTER (WHERE payload LIKE 'y%') OVER so_far AS y,
                 sum(1) FILTER (WHERE payload LIKE 'z%') OVER so_far AS z
          FROM done WINDOW so_far AS (ORDER BY n)) served
    WHERE x < 300 * 0.7 AND y < 20 * 13 AND z < 200;

-- Classes: the lower first, whatever came when; within a class in turn.
SELECT fairq.create_queue('pol class', buckets => 1);
SELECT pg_temp.put('pol class', 'b1 b2', priority => 9), pg_temp.put('pol class', 'b3 b4 a1', priority => 4),
       pg_temp.put('pol class', 'a2 a3', priority => 9), pg_temp.put('pol class', 'c1', priority => 0);
CALL pg_temp.drain('pol class', at_most => 2);
SELECT string_agg(payload, ' ' ORDER BY n) FROM done;
SELECT pg_temp.put('pol class', 'd1');
CALL pg_temp.drain('pol class', batch => 5);
SELECT string_agg(payload, ' ' ORDER BY n), bool_and(acked) FROM done;
-- With many buckets, too.
SELECT fairq.create_queue('pol classes', buckets => 16);
SELECT count(fairq.enqueue('pol classes', to_jsonb(n), group_key => (n % 7)::text, priority => n * 7919 % 10)) FROM generate_series(1, 500) n;
SELECT count(*), bool_and(in_order) FROM (SELECT priority >= lag(priority, 1, 0::bigint) OVER (ORDER BY n) AS in_order
    FROM fairq.claim('pol classes', 1000) WITH ORDINALITY c(id, receipt, group_key, payload, headers, priority, attempt, enqueued_at, lease_until, address, n)) s;

-- A nacked task comes after all its group has, and counts as service.
SELECT fairq.create_queue('pol nack', buckets => 1);
SELECT pg_temp.put('pol nack', 'b1 b2 b3 a1 a2 a3');
SELECT payload, fairq.nack(receipt, 'again', '0') FROM fairq.claim('pol nack');
CALL pg_temp.drain('pol nack');
SELECT string_agg(payload, ' ' ORDER BY n), bool_and(acked) FROM done;
-- A tenant whose tasks always fail does not overtake the rest.
SELECT fairq.create_queue('pol failing', buckets => 1);
SELECT pg_temp.put('pol failing', 'f1 f2 g1 g2 g3 g4');
CALL pg_temp.drain('pol failing', at_most => 12, failing => 'f');
SELECT string_agg(payload, ' ' ORDER BY n), bool_and(acked) FROM done;
-- A released task is where it was.
SELECT fairq.create_queue('pol release', buckets => 1);
SELECT pg_temp.put('pol release', 'b1 b2 a1 a2');
CREATE TEMP TABLE held AS SELECT * FROM fairq.claim('pol release', 3);
SELECT string_agg(payload #>> '{}', ' ') FROM held;
SELECT fairq.release(receipt) FROM held WHERE payload = '"b1"';
SELECT string_agg(payload #>> '{}', ' ') FROM fairq.peek('pol release');
SELECT fairq.release(receipt) FROM held WHERE payload = '"b2"';
SELECT fairq.release(receipt) FROM held WHERE payload = '"a1"';
CALL pg_temp.drain('pol release');
SELECT string_agg(payload, ' ' ORDER BY n), bool_and(acked) FROM done;

-- Policy priority: by priority alone, the lower first, first in first out among equals.
SELECT fairq.create_queue('pol priority', policy => 'priority', buckets => 1);
SELECT pg_temp.put('pol priority', 'b1 b2', priority => 5), pg_temp.put('pol priority', 'a1', priority => 9223372036854775807),
       pg_temp.put('pol priority', 'a2', priority => -9223372036854775808), pg_temp.put('pol priority', 'c1 c2', priority => 5),
       pg_temp.put('pol priority', 'b3', priority => -1), pg_temp.put('pol priority', 'b4'), pg_temp.put('pol priority', 'c3', priority => 1000000);
SELECT string_agg(payload #>> '{}', ' ') FROM fairq.peek('pol priority');
CALL pg_temp.drain('pol priority', at_most => 3);
SELECT string_agg(payload, ' ' ORDER BY n), bool_and(acked) FROM done;
-- A late one with a low number goes ahead.
SELECT pg_temp.put('pol priority', 'd1', priority => -3);
-- A nacked one goes behind its equals, a released one to its place.
SELECT payload #>> '{}', CASE WHEN payload = '"b1"' THEN fairq.nack(receipt, delay => '0') ELSE fairq.release(receipt) END
    FROM fairq.claim('pol priority', 3);
CALL pg_temp.drain('pol priority');
SELECT string_agg(payload, ' ' ORDER BY n), bool_and(acked) FROM done;
-- With many buckets, too.
SELECT fairq.create_queue('pol priorities', policy => 'priority', buckets => 16);
SELECT count(fairq.enqueue('pol priorities', to_jsonb(n), group_key => (n % 7)::text, priority => n * 7919 % 101 - 50)) FROM generate_series(1, 500) n;
SELECT count(*), bool_and(in_order) FROM (SELECT priority >= lag(priority, 1, -50::bigint) OVER (ORDER BY n) AS in_order
    FROM fairq.claim('pol priorities', 1000) WITH ORDINALITY c(id, receipt, group_key, payload, headers, priority, attempt, enqueued_at, lease_until, address, n)) s;

-- Policy time: who came first goes first, whatever group or priority.
SELECT fairq.create_queue('pol time', policy => 'time', buckets => 1);
SELECT pg_temp.put('pol time', 'b1');
SELECT pg_temp.put('pol time', 'b2', priority => 7);
SELECT pg_temp.put('pol time', 'a1', priority => -7);
SELECT pg_temp.put('pol time', 'b3', cost => 100);
SELECT pg_temp.put('pol time', 'c1');
SELECT payload #>> '{}', CASE WHEN payload = '"b1"' THEN fairq.nack(receipt, delay => '0') ELSE fairq.release(receipt) END
    FROM fairq.claim('pol time', 2);
CALL pg_temp.drain('pol time');
SELECT string_agg(payload, ' ' ORDER BY n), bool_and(acked) FROM done;

-- Many buckets: everything is claimed once, in order within each group and bucket, and no group is left behind.
SELECT fairq.create_queue('pol buckets', buckets => 7);
SELECT count(fairq.enqueue('pol buckets', to_jsonb(n), group_key => (n % 10)::text)) FROM generate_series(1, 700) n;
SELECT count(DISTINCT fairq.bucket(address)), bool_and(fairq.bucket(address) BETWEEN 0 AND 6) FROM fairq.tasks('pol buckets');
SELECT count(*), count(DISTINCT (group_key, fairq.bucket(address))) AS each_group_in_each_bucket FROM fairq.tasks('pol buckets')
    HAVING count(*) = 700;
CALL pg_temp.drain('pol buckets', at_most => 350);
SELECT max(count) - min(count) <= 3 FROM (SELECT payload::int % 10, count(*) FROM done GROUP BY 1) s;
CALL pg_temp.drain('pol buckets', batch => 50);
SELECT count(*), count(DISTINCT payload), bool_and(acked) FROM done;

SELECT bool_and(fairq.drop_queue(queue)) FROM fairq.queues WHERE queue LIKE 'pol%';
SELECT queue FROM fairq.queues;
