-- Sessions: a worker's liveness. Its leases live as long as it does.
-- The queues of this file start with "ses".
\i test/sql/include/helpers.sql
\pset format unaligned
\pset null (null)
-- The sessions of this test: they are named, or have a random number only.
CREATE TEMP TABLE mine (name text, session uuid);
CREATE FUNCTION pg_temp.session(name text) RETURNS uuid LANGUAGE sql AS 'SELECT session FROM mine WHERE mine.name = session.name';
CREATE FUNCTION pg_temp.try_with_session(statement text) RETURNS text LANGUAGE sql AS $$ SELECT regexp_replace(pg_temp.try(statement), '[0-9a-f-]{36}', '<session>') $$;

-- Open: by place, by name, without anything, with untyped parameters.
INSERT INTO mine VALUES ('none', fairq.open_session()), ('nulls', fairq.open_session(NULL, NULL, NULL)), ('place', fairq.open_session('worker 1', '1 h', true)),
    ('name', fairq.open_session(bound => false, ttl => '1 h', name => 'worker 2'));
PREPARE open_one AS SELECT fairq.open_session($1, ttl => $2, bound => $3) IS NOT NULL;
EXECUTE open_one('worker 3', '1 h', 'f');
SELECT mine.name AS opened, s.name, role = current_user::regrole AS role, ttl, bound, pid = pg_backend_pid() AS pid, leases,
       opened_at <= clock_timestamp() AND alive_until > clock_timestamp() AS times
    FROM mine JOIN fairq.sessions s USING (session) ORDER BY 1;
SELECT count(DISTINCT session) FROM mine;
-- What a time to live may be.
SELECT pg_temp.try($$ SELECT fairq.open_session(ttl => '0') $$);
SELECT pg_temp.try($$ SELECT fairq.open_session(ttl => '-1 s') $$);
SELECT pg_temp.try($$ SELECT fairq.open_session(ttl => '11 years') $$);
SELECT pg_temp.try($$ SELECT fairq.open_session(ttl => '10 years') IS NOT NULL $$);
-- Opened at once, whatever becomes of the transaction.
BEGIN;
SELECT fairq.open_session('rolled back', '1 h') AS session \gset
ROLLBACK;
SELECT fairq.heartbeat(:'session');

-- heartbeat: another ttl from now on. Of one that is over, or never was: false.
SELECT fairq.heartbeat(pg_temp.session('name'));
SELECT fairq.heartbeat(session => pg_temp.session('place'));
SELECT alive_until BETWEEN now() + interval '59 min' AND clock_timestamp() + interval '1 h' FROM fairq.sessions WHERE session = pg_temp.session('name');
SELECT fairq.heartbeat(gen_random_uuid());
SELECT pg_temp.try($$ SELECT fairq.heartbeat(NULL) $$);
PREPARE beat AS SELECT fairq.heartbeat($1);
EXECUTE beat('00000000-0000-0000-0000-000000000000');
-- In a transaction that can write nothing, too.
BEGIN READ ONLY;
SELECT pg_temp.try($$ SELECT fairq.heartbeat(pg_temp.session('name')) $$);
ROLLBACK;

-- Leases of a session: they end with it, unless a heartbeat comes, or when their own lease
-- does. To see it fail: take out what leases_until() does with sessions.
SELECT fairq.create_queue('ses', buckets => 1, backoff_base => '0', lease => '1 h');
SELECT count(fairq.enqueue('ses', to_jsonb(n))) FROM generate_series(1, 8) n;
CREATE TEMP TABLE claimed AS SELECT * FROM fairq.claim('ses', 2, session => pg_temp.session('name'));
INSERT INTO claimed SELECT * FROM fairq.claim('ses', lease => '2 h', session => pg_temp.session('name'));
INSERT INTO claimed SELECT * FROM fairq.ack_and_claim('ses', '{}', session => pg_temp.session('place'));
INSERT INTO claimed SELECT * FROM fairq.claim('ses', lease => '10 min', session => pg_temp.session('name'));
SELECT payload, lease_until IN (SELECT alive_until FROM fairq.sessions) AS as_session, lease_until < now() + interval '11 min' AS as_lease FROM claimed ORDER BY id;
SELECT count(*) FILTER (WHERE l.lease_until = c.lease_until AND t.lease_until = c.lease_until)
    FROM claimed c JOIN fairq.leases l USING (receipt) JOIN fairq.tasks('ses', 'leased') t ON t.id = c.id;
SELECT fairq.heartbeat(pg_temp.session('name'));
SELECT c.payload, l.lease_until > c.lease_until AS later, l.lease_until IN (SELECT alive_until FROM fairq.sessions) AS as_session,
        t.lease_until = l.lease_until AS as_task
    FROM claimed c JOIN fairq.leases l USING (receipt) JOIN fairq.tasks('ses', 'leased') t ON t.id = c.id ORDER BY c.id;
SELECT fairq.release(pg_temp.receipt(5));
SELECT mine.name AS opened, leases FROM mine JOIN fairq.sessions s USING (session) ORDER BY 1;
-- They are settled and extended like any other.
SELECT fairq.ack(pg_temp.receipt(1)), fairq.extend(pg_temp.receipt(2), '10 min') < now() + interval '11 min' AS extended,
    fairq.extend(pg_temp.receipt(2), '3 h') = (SELECT alive_until FROM fairq.sessions WHERE session = pg_temp.session('name')) AS no_longer_than_the_session,
    fairq.extend(pg_temp.receipt(3)) = (SELECT alive_until FROM fairq.sessions WHERE session = pg_temp.session('name')) AS as_it;
SELECT pg_temp.all_of('ses');
-- A session that never was, and one that is over.
SELECT pg_temp.try_with_session($$ SELECT count(*) FROM fairq.claim('ses', session => gen_random_uuid()) $$);
SELECT pg_temp.try_with_session($$ SELECT count(*) FROM fairq.ack_and_claim('ses', ARRAY[pg_temp.receipt(2)], session => gen_random_uuid()) $$);
SELECT fairq.heartbeat(pg_temp.session('name')), (SELECT count(*) FROM fairq.leases WHERE queue = 'ses') AS leases;

-- close_session: its leases are given back, no attempt counted, when the transaction commits.
BEGIN;
SELECT fairq.close_session(pg_temp.session('name'));
ROLLBACK;
SELECT pg_temp.all_of('ses');
SELECT fairq.heartbeat(pg_temp.session('name'));
SELECT fairq.close_session(pg_temp.session('name'));
SELECT pg_temp.all_of('ses');
SELECT fairq.close_session(pg_temp.session('name')), fairq.heartbeat(pg_temp.session('name'));
SELECT fairq.ack(pg_temp.receipt(2)), fairq.nack(pg_temp.receipt(3)), fairq.extend(pg_temp.receipt(3)) AS extended;
SELECT fairq.ack(pg_temp.receipt(4));
SELECT string_agg(payload::text || '/' || attempt, ' ') FROM fairq.claim('ses', 2);
SELECT pg_temp.try($$ SELECT fairq.close_session(NULL) $$);
SELECT fairq.close_session(gen_random_uuid());
SELECT count(*) FROM mine JOIN fairq.sessions USING (session) WHERE mine.name = 'name' AND alive_until IS NOT NULL;

-- Past its ttl a session is over: its leases are losses, its receipts too late.
SELECT fairq.purge('ses');
SELECT count(fairq.cancel('ses', id)) FROM fairq.tasks('ses');
SELECT count(fairq.enqueue('ses', to_jsonb(n), max_lost => n - 100)) FROM generate_series(101, 102) n;
SELECT fairq.open_session('short', '1 microsecond') AS session \gset
SELECT pg_temp.try_with_session(format('SELECT count(*) FROM fairq.claim(''ses'', session => %L)', :'session'));
SELECT fairq.heartbeat(:'session');
INSERT INTO mine VALUES ('soon', fairq.open_session('soon', '5 s'));
INSERT INTO claimed SELECT * FROM fairq.claim('ses', 2, session => pg_temp.session('soon'));
CALL pg_temp.maintain_until('ses', $$ count(*) = 0 AND (SELECT count(*) = 1 FROM fairq.peek('ses', 10)) FROM fairq.leases WHERE queue = 'ses' $$);
SELECT payload, state, attempts, lost, pg_temp.masked(last_error) FROM fairq.tasks('ses') ORDER BY id;
SELECT fairq.heartbeat(pg_temp.session('soon')), fairq.close_session(pg_temp.session('soon')), fairq.ack(pg_temp.receipt(102));
SELECT payload, attempt FROM fairq.claim('ses', 10);

-- Too late they are also for who gives many, the first of which is his.
SELECT fairq.create_queue('ses past');
SELECT cardinality(fairq.enqueue_many('ses past', array_fill('1'::jsonb, ARRAY[4])));
CREATE TEMP TABLE past AS SELECT receipt, 1 AS n FROM fairq.claim('ses past', 1, '1 h');
INSERT INTO mine VALUES ('past', fairq.open_session('past', '5 s'));
INSERT INTO past SELECT receipt, 2 FROM fairq.claim('ses past', 3, '1 h', pg_temp.session('past'));
SELECT pg_sleep_until(now() + '5 s') IS NULL;
SELECT n FROM fairq.ack_many((SELECT array_agg(receipt ORDER BY n) FROM past)) r JOIN past ON receipt = r;
SELECT count(*) FROM fairq.tasks('ses past');

-- my_buckets: each bucket to one of the sessions that ask.
SELECT fairq.create_queue('ses buckets', buckets => 6);
SELECT count(fairq.enqueue('ses buckets', to_jsonb(n), group_key => 'g' || n % 5)) FROM generate_series(1, 120) n;
TRUNCATE mine;
INSERT INTO mine SELECT n, fairq.open_session(n, '1 h') FROM unnest('{a,b,c,d}'::text[]) n;
SELECT fairq.my_buckets('ses buckets', pg_temp.session('a'));
SELECT cardinality(fairq.my_buckets(queue => 'ses buckets', session => pg_temp.session('b')));
-- Each has its share, all are dealt out, once everyone has asked again.
CREATE TEMP TABLE dealt (name text, buckets int[]);
INSERT INTO dealt SELECT name, fairq.my_buckets('ses buckets', session) FROM mine WHERE name < 'd';
TRUNCATE dealt;
INSERT INTO dealt SELECT name, fairq.my_buckets('ses buckets', session) FROM mine WHERE name < 'd';
SELECT cardinality(buckets) FROM dealt ORDER BY name;
SELECT count(*), count(DISTINCT b) FROM dealt, unnest(buckets) b;
-- A claim from one's own buckets, and from one that is somebody else's.
SELECT count(*) > 0, bool_and(fairq.bucket(address) = ANY (buckets)) FROM dealt, mine, LATERAL fairq.claim('ses buckets', 10, session => session, buckets => buckets)
    WHERE dealt.name = mine.name;
SELECT pg_temp.try(format('SELECT count(*) FROM fairq.claim(''ses buckets'', session => %L, buckets => %L)', pg_temp.session('a'),
    (SELECT buckets FROM dealt WHERE name = 'b')));
-- One leaves: what was its is dealt again.
SELECT fairq.close_session(pg_temp.session('b')) > 0;
TRUNCATE dealt;
INSERT INTO dealt SELECT name, fairq.my_buckets('ses buckets', session) FROM mine WHERE name IN ('a', 'c');
TRUNCATE dealt;
INSERT INTO dealt SELECT name, fairq.my_buckets('ses buckets', session) FROM mine WHERE name IN ('a', 'c');
SELECT count(*), count(DISTINCT b), max(cardinality(buckets)) FROM dealt, unnest(buckets) b;
-- More sessions than buckets: some have none.
INSERT INTO mine SELECT n, fairq.open_session(n, '1 h') FROM regexp_split_to_table('1 2 3 4 5 6 7 8 9 10', ' ') n;
TRUNCATE dealt;
INSERT INTO dealt SELECT name, fairq.my_buckets('ses buckets', session) FROM mine WHERE name <> 'b' AND name <> 'd';
TRUNCATE dealt;
INSERT INTO dealt SELECT name, fairq.my_buckets('ses buckets', session) FROM mine WHERE name <> 'b' AND name <> 'd';
SELECT min(cardinality(buckets)), max(cardinality(buckets)), (SELECT count(DISTINCT b) FROM dealt, unnest(buckets) b) FROM dealt;
SELECT pg_temp.try($$ SELECT fairq.my_buckets('ses unknown', pg_temp.session('a')) $$);
SELECT pg_temp.try_with_session($$ SELECT fairq.my_buckets('ses buckets', pg_temp.session('b')) $$);
SELECT pg_temp.try($$ SELECT fairq.my_buckets('ses buckets', NULL) $$);
SELECT pg_temp.try($$ SELECT fairq.my_buckets(NULL, pg_temp.session('a')) $$);

-- For the role that opened it alone.
CREATE ROLE regress_fairq_session;
GRANT SELECT ON mine TO regress_fairq_session;
SET ROLE regress_fairq_session;
SELECT pg_temp.try_with_session($$ SELECT fairq.heartbeat(pg_temp.session('a')) $$);
SELECT pg_temp.try_with_session($$ SELECT fairq.close_session(pg_temp.session('a')) $$);
SELECT pg_temp.try($$ SELECT fairq.my_buckets('ses buckets', pg_temp.session('a')) $$);
SELECT fairq.open_session('of another role', '1 h') AS session \gset
SELECT fairq.heartbeat(:'session');
SELECT count(*), min(name) FROM fairq.sessions;
-- Its own does not help where it may not read the queue, nor does that help with another's.
SELECT pg_temp.try(format($$ SELECT fairq.my_buckets('ses buckets', %L) $$, :'session'));
RESET ROLE;
GRANT SELECT, UPDATE ON fairq."q_ses buckets" TO regress_fairq_session;
SET ROLE regress_fairq_session;
SELECT pg_temp.try_with_session($$ SELECT fairq.claim('ses buckets', session => pg_temp.session('a')) $$);
SELECT pg_temp.try(format($$ SELECT fairq.my_buckets('ses buckets', %L) $$, :'session'));
RESET ROLE;
REVOKE ALL ON fairq."q_ses buckets" FROM regress_fairq_session;
-- Who may do everything may do this, too.
SELECT fairq.close_session(:'session');
REVOKE ALL ON mine FROM regress_fairq_session;
DROP ROLE regress_fairq_session;

SELECT name, parameter_types FROM pg_prepared_statements ORDER BY name COLLATE "C";
SELECT count(fairq.close_session(session)) > 10 FROM fairq.sessions WHERE alive_until IS NOT NULL;
SELECT count(*) FROM fairq.sessions WHERE alive_until IS NOT NULL;
SELECT bool_and(fairq.drop_queue(queue)) FROM fairq.queues WHERE queue LIKE 'ses%';
SELECT queue FROM fairq.queues;
SELECT queue, count(*) FROM fairq.leases GROUP BY queue;
