-- Consuming: claim, pop and ack_and_claim with every argument.
-- The queues of this file start with "con".
\i test/sql/include/helpers.sql
\pset format unaligned
\pset null (null)
SELECT fairq.create_queue('con', buckets => 1);
-- The queue anew: 1 of b, 2 of c, 3 of a, 4 of b ...
CREATE PROCEDURE pg_temp.refill(queue text, most int) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fairq.drop_queue(queue), fairq.create_queue(queue, buckets => 1, lease => '1 h');
    COMMIT;
    PERFORM fairq.enqueue(queue, to_jsonb(n), group_key => (ARRAY['a', 'b', 'c'])[1 + n % 3]) FROM generate_series(1, most) n;
END
$$;

-- An empty queue.
SELECT * FROM fairq.claim('con');
SELECT * FROM fairq.claim('con', 100000);
SELECT * FROM fairq.pop('con');
SELECT * FROM fairq.ack_and_claim('con', '{}');

-- What a claim tells.
SELECT fairq.enqueue('con', '{"file": 1}', group_key => 'bob', priority => 2, headers => '{"h": true}') AS id \gset
SELECT c.id = :id AS id, pg_typeof(receipt), group_key, payload, headers, priority, attempt,
       c.enqueued_at = t.enqueued_at AS enqueued_at, c.lease_until BETWEEN now() + interval '25 s' AND clock_timestamp() + interval '30 s' AS lease_until,
       c.address OPERATOR(fairq.=) t.address AS address, t.state AS state_before
    FROM fairq.get_task('con', :id) t, LATERAL fairq.claim('con') c(id, receipt, group_key_, payload_, headers_, priority_, attempt)
\gx
SELECT state, attempts FROM fairq.get_task('con', :id);
-- It is one holder's alone.
SELECT count(*) FROM fairq.claim('con', 10);
SELECT count(*) FROM fairq.pop('con', 10);
SELECT count(*) FROM fairq.peek('con');

-- max_tasks: as many as asked, fewer only when there is no more. NULL is the default.
CALL pg_temp.refill('con', 12);
SELECT count(*) FROM fairq.claim('con');
SELECT count(*) FROM fairq.claim('con', NULL);
SELECT count(*) FROM fairq.claim('con', 3);
SELECT count(*) FROM fairq.claim('con', max_tasks => 4);
SELECT count(*) FROM fairq.claim('con', 100000);
SELECT count(*) FROM fairq.claim('con', 100000);
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.claim('con', 0) $$);
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.claim('con', -1) $$);
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.claim('con', 100001) $$);

-- lease: the claim's, else the task's, else the queue's.
SELECT fairq.drop_queue('con'), fairq.create_queue('con', buckets => 1);
SELECT count(fairq.enqueue('con', to_jsonb(n), lease => l)) FROM (VALUES (1, NULL::interval), (2, '1 h')) v(n, l);
BEGIN;
CREATE TEMP TABLE claimed AS SELECT * FROM fairq.claim('con', 10);
SELECT payload, round(extract(epoch FROM lease_until - now()) / 10) * 10 AS seconds FROM claimed ORDER BY id;
COMMIT;
SELECT count(fairq.release(receipt)) FROM claimed;
BEGIN;
SELECT payload, round(extract(epoch FROM lease_until - now()) / 10) * 10 AS seconds FROM fairq.claim('con', 10, lease => '2 h') ORDER BY id;
SELECT t.payload, round(extract(epoch FROM l.lease_until - now()) / 10) * 10 AS seconds, t.lease_until = l.lease_until AS same
    FROM fairq.leases l JOIN fairq.tasks('con') t USING (id) WHERE l.queue = 'con' ORDER BY id;
COMMIT;
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.claim('con', lease => '0') $$);
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.claim('con', lease => '-1 s') $$);
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.claim('con', lease => '11 years') $$);
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.claim('con', lease => '10 years') $$);

-- group_keys: only theirs, in the order between them. Nobody's is nobody's.
CALL pg_temp.refill('con', 12);
SELECT string_agg(payload::text, ' ') FROM fairq.claim('con', 100, group_keys => '{c}');
SELECT string_agg(payload::text, ' ') FROM fairq.claim('con', 5, group_keys => '{b,a,b}');
SELECT count(*) FROM fairq.claim('con', 100, group_keys => '{}');
SELECT count(*) FROM fairq.claim('con', 100, group_keys => '{nobody}');
SELECT count(*) FROM fairq.claim('con', 100, group_keys => '{A,""}');
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.claim('con', 100, group_keys => '{a,NULL}') $$);
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.claim('con', 100, group_keys => '{{a},{b}}') $$);
SELECT string_agg(payload::text, ' ') FROM fairq.claim('con', 100, group_keys => NULL);
-- What the cursor has passed is found: the first of b, then a and c before it.
CALL pg_temp.refill('con', 30);
SELECT string_agg(payload::text, ' ') FROM fairq.claim('con', 8, group_keys => '{b}');
SELECT string_agg(payload::text, ' ') FROM fairq.claim('con', 10);
SELECT count(*) FROM fairq.claim('con', 100);
-- One group behind a thousand tasks of another.
SELECT fairq.create_queue('con deep', buckets => 4, lease => '1 h');
SELECT cardinality(fairq.enqueue_many('con deep', array_agg(to_jsonb(n)), '{deep}')) FROM generate_series(1, 3000) n;
SELECT cardinality(fairq.enqueue_many('con deep', array_agg(to_jsonb(n)), '{late}')) FROM generate_series(1, 1000) n;
SELECT count(*) FROM fairq.claim('con deep', 3000, group_keys => '{deep}');
SELECT fairq.enqueue('con deep', '"another"', group_key => 'other') IS NOT NULL;
SELECT payload FROM fairq.claim('con deep', 10, group_keys => '{other}');
SELECT count(*), count(DISTINCT payload) FROM fairq.claim('con deep', 10000);

-- buckets: only those; together they are the queue.
SELECT fairq.create_queue('con buckets', buckets => 5, lease => '1 h');
SELECT count(fairq.enqueue('con buckets', to_jsonb(n), group_key => 'g' || n % 4)) FROM generate_series(1, 200) n;
CREATE TEMP TABLE by_bucket AS SELECT b, c.* FROM generate_series(0, 3) b, LATERAL fairq.claim('con buckets', 20, buckets => ARRAY[b]) c;
SELECT b, count(*), bool_and(fairq.bucket(address) = b) FROM by_bucket GROUP BY b ORDER BY b;
SELECT count(*), bool_and(fairq.bucket(address) IN (1, 3)) FROM fairq.claim('con buckets', 5, buckets => '{3,1,3}');
SELECT count(*) FROM fairq.claim('con buckets', 100, buckets => '{}');
SELECT bool_and(fairq.bucket(address) = 4), count(*) > 0 FROM fairq.claim('con buckets', 1000, buckets => '{4}');
SELECT count(*) FROM fairq.claim('con buckets', 1000, buckets => '{4}');
SELECT count(*) > 0, bool_and(group_key <> 'g3') FROM fairq.claim('con buckets', 1000, buckets => NULL, group_keys => '{g0,g1,g2}');
SELECT count(*) > 0, bool_and(group_key = 'g3') FROM fairq.claim('con buckets', 1000, buckets => '{0,1,2,3,4}');
SELECT count(*), count(DISTINCT id) FROM fairq.leases WHERE queue = 'con buckets';
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.claim('con buckets', buckets => '{5}') $$);
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.claim('con buckets', buckets => '{0,-1}') $$);
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.claim('con buckets', buckets => '{0,NULL}') $$);
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.claim('con buckets', buckets => '{{0},{1}}') $$);

-- A session that is over, or never was. Waiting for nothing.
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.claim('con', session => 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11') $$);
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.claim('con', wait => '1 ms') $$);
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.claim('con', wait => '0') $$);
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.claim('con', wait => NULL, session => NULL) $$);
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.pop('con', wait => '1 ms') $$);
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.ack_and_claim('con', '{}', session => 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11') $$);
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.ack_and_claim('con', '{}', wait => '1 ms') $$);
-- Longer than the server can sleep at a time (a server with assertions would abort).
SET statement_timeout = '20 ms';
SELECT count(*) FROM fairq.claim('con', wait => '60 days');
RESET statement_timeout;
-- For some groups only.
SELECT count(*) FROM fairq.claim('con', group_keys => '{none,other}', wait => '1 ms');
SELECT count(*) FROM fairq.claim('con', group_keys => ARRAY(SELECT 'none ' || n FROM generate_series(1, 100) n), wait => '1 ms');

-- A lease that has run out is over: the task was lost, and is back.
SELECT fairq.create_queue('con expired', buckets => 1, lease => '1 h', max_lost => 3, backoff_base => '0');
SELECT count(fairq.enqueue('con expired', to_jsonb(n))) FROM generate_series(1, 2) n;
TRUNCATE claimed;
INSERT INTO claimed SELECT * FROM fairq.claim('con expired', 2, lease => '1 microsecond');
SELECT payload, attempt FROM claimed ORDER BY id;
CALL pg_temp.maintain_until('con expired', $$ count(*) = 2 FROM fairq.peek('con expired', 10) $$);
SELECT payload, state, attempts, lost, pg_temp.masked(last_error), lease_until FROM fairq.tasks('con expired') ORDER BY id;
-- The former holder has lost it.
SELECT fairq.ack(receipt), fairq.nack(receipt, delay => '0'), fairq.release(receipt), fairq.extend(receipt) IS NULL AS extend_lost FROM claimed;
SELECT payload, attempt FROM fairq.claim('con expired', 10, lease => '1 microsecond') ORDER BY id;
CALL pg_temp.maintain_until('con expired', $$ count(*) = 2 FROM fairq.peek('con expired', 10) $$);
-- Lost twice they come alone (lost.sql).
SELECT payload, attempt FROM fairq.claim('con expired', 10);
SELECT payload, attempt FROM fairq.claim('con expired', 10);
SELECT payload, state, attempts, lost FROM fairq.tasks('con expired') ORDER BY id;
SELECT count(*) FROM fairq.claim('con expired', 10);
-- It was lost too often: dead.
SELECT count(fairq.cancel('con expired', id)) FROM fairq.tasks('con expired');
SELECT count(fairq.enqueue('con expired', to_jsonb(n), max_lost => n)) FROM generate_series(1, 2) n;
SELECT payload, attempt FROM fairq.claim('con expired', 2, lease => '1 microsecond') ORDER BY id;
CALL pg_temp.maintain_until('con expired', $$ count(*) = 0 AND (SELECT count(*) = 1 FROM fairq.peek('con expired', 10)) FROM fairq.leases WHERE queue = 'con expired' $$);
SELECT payload, attempt FROM fairq.claim('con expired', 2, lease => '1 microsecond') ORDER BY id;
CALL pg_temp.maintain_until('con expired', $$ count(*) = 0 FROM fairq.leases WHERE queue = 'con expired' $$);
SELECT payload, attempt FROM fairq.claim('con expired', 2) ORDER BY id;
SELECT payload, state, attempts, lost, max_lost, pg_temp.masked(last_error) FROM fairq.tasks('con expired') ORDER BY id;
SELECT ready, leased, dead, expired, dead_total FROM fairq.queue_stats WHERE queue = 'con expired';
-- Past its deadline a lease is good for an ack, as long as nobody has noticed.
SELECT count(fairq.enqueue('con expired', '"late"'));
TRUNCATE claimed;
INSERT INTO claimed SELECT * FROM fairq.claim('con expired');
-- (The worker, which would notice, cannot write the table.)
BEGIN;
LOCK TABLE fairq."q_con expired" IN SHARE MODE;
SELECT fairq.extend(receipt, '1 microsecond') AS deadline FROM claimed \gset
SELECT pg_sleep(0.1);
SELECT clock_timestamp() > :'deadline' AS past;
SELECT fairq.ack(receipt) FROM claimed;
COMMIT;
SELECT count(*) FROM fairq.tasks('con expired') WHERE payload = '"late"';

-- Untyped parameters find their types, as a driver sends them.
CALL pg_temp.refill('con', 30);
PREPARE claim_all AS SELECT count(*) FROM fairq.claim($1, $2, lease => $3, session => $4, wait => $5, buckets => $6, group_keys => $7);
EXECUTE claim_all('con', '2', '00:01', NULL, '0', '{0}', '{a,b}');
PREPARE claim_some AS SELECT count(*) FROM fairq.claim($1, $2);
EXECUTE claim_some('con', '2');
PREPARE pop_all AS SELECT count(*) FROM fairq.pop($1, $2, wait => $3, buckets => $4, group_keys => $5);
EXECUTE pop_all('con', '2', '0', '{0}', '{c}');
PREPARE ack_and_claim_all AS SELECT count(*) FROM fairq.ack_and_claim($1, $2, $3, lease => $4, session => $5, wait => $6);
EXECUTE ack_and_claim_all('con', '{}', '2', '00:01', NULL, '0');
SELECT name, parameter_types FROM pg_prepared_statements ORDER BY name COLLATE "C";
-- All by place.
SELECT count(*) FROM fairq.claim('con', 2, '1 min', NULL, '0', '{0}', '{a}');
SELECT count(*) FROM fairq.pop('con', 2, '0', '{0}', '{a}');
SELECT count(*) FROM fairq.ack_and_claim('con', '{}', 2, '1 min', NULL, '0');

-- pop: claimed and acknowledged in one, gone when the transaction commits.
CALL pg_temp.refill('con', 9);
SELECT payload, group_key, priority, attempt, headers, enqueued_at IS NOT NULL AS enqueued, address IS NOT NULL AS addressed FROM fairq.pop('con');
SELECT string_agg(payload::text, ' ') FROM fairq.pop('con', 3);
SELECT string_agg(payload::text, ' ') FROM fairq.pop('con', group_keys => '{b}', max_tasks => 2);
SELECT state, count(*) FROM fairq.tasks('con') GROUP BY state;
SELECT count(*) FROM fairq.leases WHERE queue = 'con';
SELECT string_agg(payload::text, ' ') FROM fairq.pop('con', 100, buckets => '{0}');
SELECT count(*) FROM fairq.tasks('con');
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.pop('con', 0) $$);
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.pop('con', buckets => '{1}') $$);

-- ack_and_claim: what is acknowledged is gone, what is claimed is new.
CALL pg_temp.refill('con', 9);
TRUNCATE claimed;
INSERT INTO claimed SELECT * FROM fairq.ack_and_claim('con', '{}', 2);
SELECT string_agg(payload::text, ' ') FROM claimed;
CREATE TEMP TABLE next AS SELECT * FROM fairq.ack_and_claim('con', ARRAY(SELECT receipt FROM claimed), 3, lease => '1 h');
SELECT string_agg(payload::text, ' '), min(lease_until) > now() + interval '59 min' AS one_hour FROM next;
SELECT state, string_agg(payload::text, ' ' ORDER BY id) FROM fairq.tasks('con') GROUP BY state ORDER BY state;
-- Receipts that are lost, or come twice, do no harm.
SELECT string_agg(payload::text, ' ') FROM fairq.ack_and_claim('con',
    ARRAY(SELECT receipt FROM claimed UNION ALL SELECT receipt FROM next UNION ALL SELECT receipt FROM next UNION ALL SELECT gen_random_uuid()));
SELECT state, string_agg(payload::text, ' ' ORDER BY id) FROM fairq.tasks('con') GROUP BY state ORDER BY state;
-- An error in its claim takes the acks back with it.
TRUNCATE next;
INSERT INTO next SELECT * FROM fairq.claim('con', 2);
SELECT count(*) FROM fairq.ack_and_claim('con', ARRAY(SELECT receipt FROM next), 0);
SELECT count(*) FROM fairq.ack_and_claim('con', ARRAY(SELECT receipt FROM next), 1, lease => '-1 s');
SELECT fairq.ack(receipt) FROM next;

-- A claim in any place of a query. What was claimed is leased, whether the rest of the query wants it or not.
CALL pg_temp.refill('con', 30);
SELECT count(*) FROM (SELECT id FROM fairq.claim('con', 4) LIMIT 1) s;
SELECT count(*) FROM fairq.leases WHERE queue = 'con';
WITH c AS (SELECT * FROM fairq.claim('con', 2)), a AS (SELECT fairq.ack(receipt) AS acked FROM c) SELECT acked FROM a;
SELECT (fairq.claim('con', 2)).payload;
SELECT (fairq.claim('con', 2)).payload LIMIT 1;
SELECT count(*) FROM fairq.leases WHERE queue = 'con';
SELECT n, c.payload FROM generate_series(1, 3) n, LATERAL fairq.claim('con', n) c ORDER BY n, c.id;
SELECT count(*), count(DISTINCT a.id), count(DISTINCT b.id), bool_or(a.id = b.id) AS same FROM fairq.claim('con') a CROSS JOIN fairq.claim('con') b;
SELECT payload FROM fairq.claim('con', (SELECT 2)) WHERE payload::int % 2 = 0;
SELECT ARRAY(SELECT payload FROM fairq.claim('con', 2));
SELECT EXISTS (SELECT FROM fairq.claim('con'));
SELECT count(*) FROM fairq.leases WHERE queue = 'con';
SELECT string_agg(payload::text, ' ' ORDER BY id) FROM fairq.tasks('con', 'ready');

SELECT bool_and(fairq.drop_queue(queue)) FROM fairq.queues WHERE queue LIKE 'con%';
SELECT queue FROM fairq.queues;
SELECT queue, count(*) FROM fairq.leases GROUP BY queue;
