-- unique_key: at most one task of a key waits, and at most one is in flight.
-- One session; what happens between sessions is tested with
-- test/specs/concurrent_unique_keys.spec and test/t/engine_unique_keys.pl.
-- The queues of this file start with "uni".
\i test/sql/include/helpers.sql
\pset format unaligned
\pset null (null)
-- The depths of the queue, as they are counted: ready leased scheduled held dead.
CREATE FUNCTION pg_temp.depths(name text) RETURNS text LANGUAGE sql AS $$
    SELECT concat_ws(' ', ready, leased, scheduled, held, dead) FROM fairq.queue_stats WHERE queue = name
$$;

-- A task that waits: kept, or replaced.
SELECT fairq.create_queue('uni', buckets => 1, default_priority => 0);
SELECT fairq.enqueue('uni', '"v1"', unique_key => 'k') AS first \gset
SELECT fairq.enqueue('uni', '"v2"', unique_key => 'k') = :first AS same;
SELECT fairq.enqueue('uni', '"v3"', unique_key => 'k', on_duplicate => 'keep') = :first AS same;
SELECT pg_temp.all_of('uni');
SELECT fairq.enqueue('uni', '"v4"', unique_key => 'k', on_duplicate => 'replace') = :first AS same;
SELECT pg_temp.all_of('uni'), pg_temp.depths('uni');
-- Other keys, and no key, are other tasks. Keys are compared byte by byte.
SELECT count(fairq.enqueue('uni', to_jsonb(coalesce(k, 'none')), unique_key => k)) FROM unnest('{K,"k ",ｋ,k1,NULL,NULL}'::text[]) k;
SELECT pg_temp.all_of('uni');
-- What was kept or replaced is not a new task.
SELECT enqueued FROM fairq.queue_stats WHERE queue = 'uni';

-- A task in flight: the next is held, and the one after that keeps or replaces it.
SELECT fairq.create_queue('uni flight', buckets => 1, default_priority => 0);
SELECT fairq.enqueue('uni flight', '"v1"', unique_key => 'k') AS first \gset
SELECT receipt FROM fairq.claim('uni flight') \gset
SELECT fairq.enqueue('uni flight', '"v2"', unique_key => 'k') AS second \gset
SELECT fairq.enqueue('uni flight', '"v3"', unique_key => 'k') = :second AS same;
SELECT pg_temp.all_of('uni flight'), pg_temp.depths('uni flight');
SELECT fairq.enqueue('uni flight', '"v4"', unique_key => 'k', on_duplicate => 'replace') = :second AS same;
SELECT pg_temp.all_of('uni flight'), pg_temp.depths('uni flight');
SELECT id = :second AS second, state, address, unique_key FROM fairq.tasks('uni flight', 'held');
SELECT state, address, lease_until, unique_key FROM fairq.get_task('uni flight', :second);
-- Nobody gets it, whatever way he looks.
SELECT count(*) FROM fairq.peek('uni flight');
SELECT count(*) FROM fairq.claim('uni flight', 10);
SELECT count(*) FROM fairq.claim('uni flight', 10, group_keys => '{""}');
SELECT count(*) FROM fairq.pop('uni flight', 10);
SELECT fairq.maintain('uni flight');
SELECT pg_temp.all_of('uni flight');
-- Until the one before it is done.
SELECT fairq.ack(:'receipt');
SELECT pg_temp.all_of('uni flight'), pg_temp.depths('uni flight');
SELECT payload, attempt, receipt FROM fairq.claim('uni flight', 10) \gset
SELECT :'payload', :attempt;
SELECT fairq.enqueue('uni flight', '"v5"', unique_key => 'k') IS NOT NULL;
-- A release gives the first one back; it goes before the one that is held.
SELECT fairq.release(:'receipt');
SELECT pg_temp.all_of('uni flight');
SELECT payload, receipt FROM fairq.claim('uni flight', 10) \gset
SELECT :'payload';
-- So does a nack. While both wait it is the held one that is kept or replaced.
SELECT fairq.nack(:'receipt', 'no', '0');
SELECT pg_temp.all_of('uni flight'), pg_temp.depths('uni flight');
SELECT fairq.enqueue('uni flight', '"v6"', unique_key => 'k', on_duplicate => 'replace') IS NOT NULL;
SELECT pg_temp.all_of('uni flight');
SELECT payload, receipt, attempt FROM fairq.claim('uni flight', 10) \gset
SELECT :'payload', :attempt;
SELECT fairq.nack(:'receipt', 'no', '1 h');
SELECT pg_temp.all_of('uni flight'), pg_temp.depths('uni flight');
-- Cancelled, it makes way.
SELECT fairq.cancel('uni flight', id) FROM fairq.tasks('uni flight', 'scheduled');
SELECT pg_temp.all_of('uni flight'), pg_temp.depths('uni flight');
SELECT pg_temp.depths('uni flight');

-- Every way for the first to end.
SELECT fairq.create_queue('uni ends', buckets => 1, max_attempts => 1, max_lost => 1, default_priority => 0);
-- A first task in flight, in uni_held, and one behind it.
CREATE TABLE uni_held (receipt uuid, id bigint);
CREATE PROCEDURE pg_temp.set_up(lease interval DEFAULT '1 h') LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fairq.cancel('uni ends', id) FROM fairq.tasks('uni ends');
    TRUNCATE uni_held;
    PERFORM fairq.enqueue('uni ends', '"v1"', unique_key => 'k');
    COMMIT;
    INSERT INTO uni_held SELECT receipt, id FROM fairq.claim('uni ends', 1, lease => lease);
    COMMIT;
    PERFORM fairq.enqueue('uni ends', '"v2"', unique_key => 'k');
    COMMIT;
END
$$;
-- ack_many, ack_and_claim
CALL pg_temp.set_up();
SELECT count(*) FROM fairq.ack_many((SELECT array_agg(receipt) FROM uni_held));
SELECT pg_temp.all_of('uni ends');
CALL pg_temp.set_up();
SELECT count(*) FROM fairq.ack_and_claim('uni ends', (SELECT array_agg(receipt) FROM uni_held), 10);
SELECT pg_temp.all_of('uni ends');
-- the last attempt: nacked, expired
CALL pg_temp.set_up();
SELECT fairq.nack(receipt, 'no') FROM uni_held;
SELECT pg_temp.all_of('uni ends'), pg_temp.depths('uni ends');
CALL pg_temp.set_up('1 ms');
CALL pg_temp.maintain_until('uni ends', $$ pg_temp.all_of('uni ends') = 'k:v1 dead lost 1, k:v2 ready' $$);
-- cancelled while in flight
CALL pg_temp.set_up();
SELECT fairq.cancel('uni ends', id) FROM uni_held;
SELECT pg_temp.all_of('uni ends'), fairq.ack(receipt) FROM uni_held;
-- popped
SELECT fairq.purge('uni ends');
SELECT count(fairq.enqueue('uni ends', '"v1"', unique_key => 'k'));
BEGIN;
SELECT payload FROM fairq.pop('uni ends');
SELECT count(fairq.enqueue('uni ends', '"v2"', unique_key => 'k'));
SELECT pg_temp.all_of('uni ends');
COMMIT;
SELECT pg_temp.all_of('uni ends');
-- A pop that is taken back, and a task whose pop is committed while one is held.
BEGIN;
SAVEPOINT s;
SELECT payload FROM fairq.pop('uni ends');
ROLLBACK TO s;
SELECT pg_temp.all_of('uni ends');
SELECT payload FROM fairq.pop('uni ends');
COMMIT;
SELECT pg_temp.all_of('uni ends');
-- deleted with SQL, and with the group it is in
CALL pg_temp.set_up();
SELECT fairq.release(receipt) FROM uni_held;
DELETE FROM fairq."q_uni ends" WHERE id = (SELECT id FROM uni_held);
CALL pg_temp.maintain_until('uni ends', $$ pg_temp.all_of('uni ends') = 'k:v2 ready' $$);
CALL pg_temp.set_up();
SELECT fairq.enqueue('uni ends', '"v3"', 'other', unique_key => 'k', on_duplicate => 'replace') IS NOT NULL;
SELECT fairq.release(receipt) FROM uni_held;
SELECT fairq.purge_group('uni ends', '');
CALL pg_temp.maintain_until('uni ends', $$ pg_temp.all_of('uni ends') = 'k:v3 ready' $$);
-- A purge leaves what is leased, and removes what is held; so does cancel.
CALL pg_temp.set_up();
SELECT fairq.purge('uni ends');
SELECT pg_temp.all_of('uni ends'), pg_temp.depths('uni ends');
SELECT fairq.enqueue('uni ends', '"v3"', unique_key => 'k') AS third \gset
SELECT fairq.cancel('uni ends', :third);
SELECT pg_temp.all_of('uni ends'), pg_temp.depths('uni ends');
SELECT fairq.ack(receipt) FROM uni_held;
-- An ack that is rolled back leaves all as it was.
CALL pg_temp.set_up();
BEGIN;
SELECT fairq.ack(receipt) FROM uni_held;
SELECT pg_temp.all_of('uni ends');
ROLLBACK;
SELECT pg_temp.all_of('uni ends'), pg_temp.depths('uni ends');
BEGIN;
SAVEPOINT s;
SELECT fairq.ack(receipt) FROM uni_held;
ROLLBACK TO s;
COMMIT;
SELECT pg_temp.all_of('uni ends'), pg_temp.depths('uni ends');
-- In the transaction that acks, the next one is enqueued: before and after.
BEGIN;
SELECT fairq.enqueue('uni ends', '"v3"', unique_key => 'k', on_duplicate => 'replace') IS NOT NULL;
SELECT fairq.ack(receipt) FROM uni_held;
COMMIT;
SELECT pg_temp.all_of('uni ends'), pg_temp.depths('uni ends');
SELECT fairq.ack(receipt) FROM fairq.claim('uni ends');
SELECT fairq.enqueue('uni ends', '"v1"', unique_key => 'k') IS NOT NULL;
BEGIN;
SELECT fairq.ack(receipt), fairq.enqueue('uni ends', '"v2"', unique_key => 'k') IS NOT NULL FROM fairq.claim('uni ends');
SELECT fairq.enqueue('uni ends', '"v3"', unique_key => 'k', on_duplicate => 'replace') IS NOT NULL;
COMMIT;
SELECT pg_temp.all_of('uni ends'), pg_temp.depths('uni ends');

-- Dead tasks do not count, and are revived only where no other one waits.
SELECT fairq.create_queue('uni dead', buckets => 1, max_attempts => 1, default_priority => 0);
SELECT count(fairq.enqueue('uni dead', '"v1"', unique_key => 'k'));
SELECT fairq.nack(receipt, 'no') FROM fairq.claim('uni dead');
SELECT count(fairq.enqueue('uni dead', '"v2"', unique_key => 'k'));
SELECT fairq.nack(receipt, 'no') FROM fairq.claim('uni dead');
SELECT count(fairq.enqueue('uni dead', '"v3"', unique_key => 'k'));
SELECT pg_temp.all_of('uni dead');
-- one waits
SELECT fairq.revive_all('uni dead');
SELECT pg_temp.all_of('uni dead');
-- one is in flight: the first is held, the second stays
CREATE TEMP TABLE flying AS SELECT * FROM fairq.claim('uni dead');
SELECT fairq.revive_all('uni dead');
SELECT pg_temp.all_of('uni dead'), pg_temp.depths('uni dead');
SELECT fairq.ack(receipt) FROM flying;
SELECT pg_temp.all_of('uni dead'), pg_temp.depths('uni dead');
SELECT fairq.revive('uni dead', id) FROM fairq.tasks('uni dead', 'dead');
SELECT fairq.ack(receipt) FROM fairq.claim('uni dead');
-- nothing
SELECT fairq.revive_all('uni dead');
SELECT pg_temp.all_of('uni dead'), pg_temp.depths('uni dead');
DROP TABLE flying;

-- run_at: a scheduled task waits, too.
SELECT fairq.create_queue('uni time', buckets => 1, default_priority => 0);
SELECT fairq.enqueue('uni time', '"v1"', run_at => now() + interval '1 day', unique_key => 'k') AS first \gset
SELECT fairq.enqueue('uni time', '"v2"', unique_key => 'k') = :first AS same;
SELECT pg_temp.all_of('uni time'), pg_temp.depths('uni time');
SELECT fairq.enqueue('uni time', '"v3"', run_at => now() + interval '2 days', unique_key => 'k', on_duplicate => 'replace') = :first AS same;
SELECT payload, state, run_at > now() + interval '47 h' AS run_at FROM fairq.tasks('uni time');
SELECT fairq.enqueue('uni time', '"v4"', unique_key => 'k', on_duplicate => 'replace') = :first AS same;
SELECT payload, state, run_at FROM fairq.tasks('uni time');
SELECT pg_temp.depths('uni time');
SELECT fairq.enqueue('uni time', '"v5"', run_at => now() + interval '1 day', unique_key => 'k', on_duplicate => 'replace') = :first AS same;
SELECT pg_temp.all_of('uni time'), pg_temp.depths('uni time');
SELECT count(*) FROM fairq.claim('uni time');
SELECT fairq.enqueue('uni time', '"v6"', run_at => now() + interval '20 ms', unique_key => 'k', on_duplicate => 'replace') = :first AS same;
CALL pg_temp.maintain_until('uni time', $$ pg_temp.all_of('uni time') = 'k:v6 ready' $$);
SELECT payload, receipt FROM fairq.claim('uni time') \gset
-- One that is held waits for both: the one before it, and its time.
SELECT count(fairq.enqueue('uni time', '"v7"', run_at => now() + interval '1 day', unique_key => 'k'));
SELECT fairq.ack(:'receipt');
SELECT pg_temp.all_of('uni time'), pg_temp.depths('uni time');
-- A retry that waits is replaced at once, and has all its attempts again.
SELECT fairq.purge('uni time');
SELECT count(fairq.enqueue('uni time', '"v1"', unique_key => 'k'));
SELECT fairq.nack(receipt, 'no', '1 h') FROM fairq.claim('uni time');
SELECT count(fairq.enqueue('uni time', '"v2"', unique_key => 'k'));
SELECT payload, state, attempts, last_error FROM fairq.tasks('uni time');
SELECT count(fairq.enqueue('uni time', '"v3"', unique_key => 'k', on_duplicate => 'replace'));
SELECT payload, state, attempts, last_error FROM fairq.tasks('uni time');

-- Replaced is all that the call gives; id and age stay.
SELECT fairq.create_queue('uni all', buckets => 1, default_priority => 0);
SELECT fairq.enqueue('uni all', '"v1"', 'alice', 3, 2, unique_key => 'k', max_attempts => 7, lease => '1 min', headers => '{"a": 1}') AS first \gset
CREATE TEMP TABLE before AS SELECT * FROM fairq.get_task('uni all', :first);
SELECT fairq.enqueue('uni all', '"v2"', 'bob', 4, 5, unique_key => 'k', on_duplicate => 'replace', max_attempts => 8, lease => '2 min', headers => '{"b": 1}') = :first AS same;
SELECT t.group_key, t.payload, t.headers, t.priority, t.cost, t.max_attempts, t.enqueued_at = b.enqueued_at AS age
    FROM fairq.get_task('uni all', :first) t, before b;
SELECT lease FROM fairq."q_uni all";
SELECT fairq.enqueue('uni all', '"v3"', unique_key => 'k', on_duplicate => 'replace') = :first AS same;
SELECT t.group_key, t.payload, t.headers, t.priority, t.cost, t.max_attempts, t.enqueued_at = b.enqueued_at AS age
    FROM fairq.get_task('uni all', :first) t, before b;
SELECT lease FROM fairq."q_uni all";
DROP TABLE before;

-- Its place: kept, unless group, priority, cost or time say otherwise.
SELECT fairq.create_queue('uni place', buckets => 1, default_priority => 0);
SELECT count(fairq.enqueue('uni place', to_jsonb(n), unique_key => 'k' || n)) FROM generate_series(1, 4) n;
SELECT count(fairq.enqueue('uni place', '"1 again"', unique_key => 'k1', on_duplicate => 'replace'));
SELECT count(fairq.enqueue('uni place', '"2 late"', priority => 1, unique_key => 'k2', on_duplicate => 'replace'));
SELECT count(fairq.enqueue('uni place', '"4 early"', unique_key => 'k4', group_key => 'newcomer', on_duplicate => 'replace'));
SELECT string_agg(payload #>> '{}', ', ') FROM fairq.peek('uni place');
SELECT string_agg(payload #>> '{}', ', ') FROM fairq.pop('uni place', 10);
-- Whoever is kept or replaced a hundred times is not charged for it.
SELECT count(fairq.enqueue('uni place', to_jsonb(n), 'alice', unique_key => 'k', on_duplicate => CASE n % 2 WHEN 0 THEN 'keep' ELSE 'replace' END)) FROM generate_series(1, 100) n;
SELECT count(fairq.enqueue('uni place', '"alice 2"', 'alice'));
SELECT count(fairq.enqueue('uni place', to_jsonb('bob ' || n), 'bob')) FROM generate_series(1, 3) n;
SELECT string_agg(payload #>> '{}', ', ') LIKE '%alice 2%bob 3%' FROM fairq.pop('uni place', 10);
SELECT fairq.create_queue('uni priority', policy => 'priority', buckets => 4);
SELECT count(fairq.enqueue('uni priority', to_jsonb(n), priority => n, unique_key => 'k' || n)) FROM generate_series(1, 4) n;
SELECT count(fairq.enqueue('uni priority', '"1 late"', priority => 100, unique_key => 'k1', on_duplicate => 'replace'));
SELECT count(fairq.enqueue('uni priority', '"4 early"', priority => -100, unique_key => 'k4', on_duplicate => 'replace'));
SELECT string_agg(payload #>> '{}', ', ') FROM fairq.pop('uni priority', 10);
SELECT fairq.create_queue('uni policy time', policy => 'time', buckets => 4);
SELECT count(fairq.enqueue('uni policy time', to_jsonb(n), run_at => now() - interval '1 h' + n * interval '1 min', unique_key => 'k' || n)) FROM generate_series(1, 4) n;
SELECT count(fairq.enqueue('uni policy time', '"1 again"', unique_key => 'k1', on_duplicate => 'replace'));
SELECT count(fairq.enqueue('uni policy time', '"2 late"', run_at => now(), unique_key => 'k2', on_duplicate => 'replace'));
SELECT count(fairq.enqueue('uni policy time', '"4 early"', run_at => now() - interval '1 day', unique_key => 'k4', on_duplicate => 'replace'));
SELECT string_agg(payload #>> '{}', ', ') FROM fairq.peek('uni policy time');
CREATE TEMP TABLE flying AS SELECT * FROM fairq.claim('uni policy time', 1);
SELECT count(fairq.enqueue('uni policy time', '"4 after 3"', run_at => now() - interval '30 min', unique_key => 'k4'));
SELECT fairq.ack(receipt) FROM flying;
SELECT string_agg(payload #>> '{}', ', ') FROM fairq.pop('uni policy time', 10);
DROP TABLE flying;

-- enqueue_many: ids and places in the order given, repeated keys, null for none.
SELECT fairq.create_queue('uni many', buckets => 1, default_priority => 0);
SELECT fairq.enqueue('uni many', '"old"', unique_key => 'b') AS old \gset
SELECT fairq.enqueue_many('uni many', '{"\"z\"","\"b\"","\"none\"","\"a\"","\"z2\"","\"none2\""}', unique_keys => '{z,b,NULL,a,z,NULL}') AS ids \gset
SELECT (:'ids'::bigint[])[2] = :old AS b, (:'ids'::bigint[])[1] = (:'ids'::bigint[])[5] AS z, cardinality(:'ids'::bigint[]);
SELECT string_agg((id = (:'ids'::bigint[])[1])::text, ' ') FROM fairq.tasks('uni many') WHERE unique_key = 'z';
SELECT string_agg(payload #>> '{}', ', ') FROM fairq.peek('uni many');
SELECT cardinality(fairq.enqueue_many('uni many', '{"\"z3\"","\"b2\"","\"c\""}', unique_keys => '{z,b,c}', on_duplicate => 'replace'));
SELECT string_agg(payload #>> '{}', ', ') FROM fairq.peek('uni many');
-- One key for all, one payload for all.
SELECT fairq.purge('uni many');
SELECT cardinality(fairq.enqueue_many('uni many', '{1,2,3}', unique_keys => '{same}', on_duplicate => 'replace'));
SELECT pg_temp.all_of('uni many');
SELECT cardinality(fairq.enqueue_many('uni many', '{9}', unique_keys => '{x,same,y,NULL}'));
SELECT pg_temp.all_of('uni many');
-- In flight, held, free: all in one call.
SELECT fairq.purge('uni many');
SELECT cardinality(fairq.enqueue_many('uni many', '{1,2}', unique_keys => '{k1,k2}'));
CREATE TEMP TABLE flying AS SELECT * FROM fairq.claim('uni many', 2);
SELECT count(fairq.enqueue('uni many', '"k2 held"', unique_key => 'k2'));
SELECT cardinality(fairq.enqueue_many('uni many', '{"\"k3\"","\"k2\"","\"k1\"","\"k1 again\"", "\"k0\""}', unique_keys => '{k3,k2,k1,k1,k0}'));
SELECT pg_temp.all_of('uni many'), pg_temp.depths('uni many');
SELECT count(*) FROM fairq.ack_many((SELECT array_agg(receipt) FROM flying));
SELECT pg_temp.all_of('uni many'), pg_temp.depths('uni many');
SELECT string_agg(payload #>> '{}', ', ') FROM fairq.pop('uni many', 10);
DROP TABLE flying;
-- Many, more than a batch, in an order of their own: served as given, with the rest in between.
SELECT cardinality(fairq.enqueue_many('uni many', array_agg(to_jsonb(n)), unique_keys => array_agg(CASE WHEN n % 7 > 0 THEN md5(n::text) END))) FROM generate_series(1, 3000) n;
SELECT cardinality(fairq.enqueue_many('uni many', array_agg(to_jsonb(-n)), unique_keys => array_agg(md5(n::text)))) FROM generate_series(1, 3000) n WHERE n % 7 > 0;
SELECT count(*), bool_and(payload = to_jsonb(n)) FROM (SELECT payload, row_number() OVER () AS n FROM fairq.pop('uni many', 10000)) t;

-- A task in the overflow waits, too: kept, replaced, moved to another group.
SELECT fairq.create_queue('uni over', buckets => 1, max_ready_per_group => 2, default_priority => 0);
SELECT cardinality(fairq.enqueue_many('uni over', '{1,2,3,4,5}', '{g}', unique_keys => '{k1,k2,k3,k4,k5}'));
SELECT count(fairq.enqueue('uni over', '"3 kept"', 'g', unique_key => 'k3'));
SELECT count(fairq.enqueue('uni over', '"4 replaced"', 'g', unique_key => 'k4', on_duplicate => 'replace'));
SELECT count(fairq.enqueue('uni over', '"5 moved"', 'other', unique_key => 'k5', on_duplicate => 'replace'));
SELECT count(fairq.enqueue('uni over', '"2 later"', 'g', unique_key => 'k2', on_duplicate => 'replace', run_at => now() + interval '1 day'));
SELECT pg_temp.all_of('uni over');
-- One that was held has to wait there as well.
CREATE TEMP TABLE flying AS SELECT * FROM fairq.claim('uni over', 10, group_keys => '{other}');
SELECT count(fairq.enqueue('uni over', '"5 held"', 'g', unique_key => 'k5'));
SELECT fairq.ack(receipt) FROM flying;
SELECT pg_temp.all_of('uni over');
DROP TABLE flying;
-- max_depth: what is kept or replaced needs no room.
SELECT fairq.create_queue('uni max', buckets => 1, max_depth => 2, default_priority => 0);
SELECT cardinality(fairq.enqueue_many('uni max', '{1,2}', unique_keys => '{k1,k2}'));
SELECT cardinality(fairq.enqueue_many('uni max', '{11,22}', unique_keys => '{k1,k2}', on_duplicate => 'replace'));
SELECT pg_temp.try($$ SELECT fairq.enqueue_many('uni max', '{1,3}', unique_keys => '{k1,k3}') $$);
SELECT payload, receipt FROM fairq.claim('uni max') \gset
SELECT pg_temp.try($$ SELECT fairq.enqueue('uni max', '"held"', unique_key => 'k1') $$);
SELECT pg_temp.all_of('uni max');

-- Topics: the key is one in every queue.
SELECT fairq.create_queue('uni topic', buckets => 1, default_priority => 0);
SELECT fairq.subscribe('uni.*', 'uni topic');
SELECT fairq.publish('uni.a', '1', unique_key => 'k'), fairq.publish('uni.b', '2', unique_key => 'k', on_duplicate => 'replace');
SELECT pg_temp.all_of('uni topic');

-- Rolled back, all or to a savepoint.
SELECT fairq.create_queue('uni undo', buckets => 1, default_priority => 0);
SELECT fairq.enqueue('uni undo', '"v1"', unique_key => 'k') IS NOT NULL;
BEGIN;
SELECT fairq.enqueue('uni undo', '"v2"', unique_key => 'k', on_duplicate => 'replace') IS NOT NULL;
SAVEPOINT s;
SELECT fairq.enqueue('uni undo', '"v3"', unique_key => 'k', on_duplicate => 'replace', run_at => now() + interval '1 day') IS NOT NULL;
SELECT fairq.enqueue('uni undo', '"other"', unique_key => 'other') IS NOT NULL;
ROLLBACK TO s;
SELECT pg_temp.all_of('uni undo');
SELECT fairq.enqueue('uni undo', '"v4"', unique_key => 'k', on_duplicate => 'keep') IS NOT NULL;
COMMIT;
SELECT pg_temp.all_of('uni undo'), pg_temp.depths('uni undo');
BEGIN;
SELECT fairq.enqueue('uni undo', '"v5"', priority => 5, unique_key => 'k', on_duplicate => 'replace') IS NOT NULL;
SELECT fairq.enqueue('uni undo', '"v6"', unique_key => 'k', on_duplicate => 'replace') IS NOT NULL;
ROLLBACK;
SELECT pg_temp.all_of('uni undo'), pg_temp.depths('uni undo');
SELECT payload FROM fairq.pop('uni undo', 10);
SELECT count(*) FROM fairq.claim('uni undo', 10);

-- Large payloads, which are stored apart: kept, replaced and popped whole.
SELECT fairq.create_queue('uni large', buckets => 1, default_priority => 0);
SELECT count(fairq.enqueue('uni large', to_jsonb((SELECT string_agg(md5(n::text), '') FROM generate_series(1, 1000) n)), unique_key => repeat('k', 1024)));
SELECT count(fairq.enqueue('uni large', '1', unique_key => repeat('k', 1024)));
CREATE TEMP TABLE flying AS SELECT * FROM fairq.claim('uni large');
SELECT length(payload #>> '{}') FROM flying;
SELECT count(fairq.enqueue('uni large', to_jsonb((SELECT string_agg(md5(n::text), '') FROM generate_series(1, 2000) n)), unique_key => repeat('k', 1024), headers => to_jsonb(repeat('x', 10000))));
SELECT count(fairq.enqueue('uni large', '1', unique_key => repeat('k', 1024)));
SELECT fairq.ack(receipt) FROM flying;
SELECT length(payload #>> '{}'), length(headers #>> '{}') FROM fairq.pop('uni large');
DROP TABLE flying;

-- Bad keys.
SELECT pg_temp.try($$ SELECT fairq.enqueue('uni', '1', unique_key => '') $$);
SELECT pg_temp.try($$ SELECT fairq.enqueue('uni', '1', unique_key => repeat('x', 1025)) $$);
SELECT pg_temp.try($$ SELECT fairq.enqueue('uni', '1', unique_key => 'x', on_duplicate => 'ignore') $$);
SELECT pg_temp.try($$ SELECT fairq.enqueue_many('uni', '{1,2}', unique_keys => '{a,""}') $$);
SELECT pg_temp.try($$ SELECT fairq.enqueue_many('uni', '{1,2}', unique_keys => '{a,b,c}') $$);
SELECT pg_temp.try($$ SELECT fairq.enqueue_many('uni', '{1,2}', unique_keys => ARRAY['a', repeat('x', 1025)]) $$);

-- With SQL: what is held with nothing before it, or without a key, becomes ready;
-- the indexes have to be there.
SELECT fairq.create_queue('uni sql', buckets => 1, default_priority => 0);
SELECT count(fairq.enqueue('uni sql', '1', unique_key => 'a'));
SELECT count(fairq.enqueue('uni sql', '2', unique_key => 'b'));
UPDATE fairq."q_uni sql" SET state = 'h', address = NULL;
CALL pg_temp.maintain_until('uni sql', $$ pg_temp.all_of('uni sql') = 'a:1 ready, b:2 ready' $$);
UPDATE fairq."q_uni sql" SET unique_key = NULL;
UPDATE fairq."q_uni sql" SET state = 'h', address = NULL;
CALL pg_temp.maintain_until('uni sql', $$ pg_temp.all_of('uni sql') = '1 ready, 2 ready' $$);
SELECT pg_temp.depths('uni sql');
SELECT string_agg(payload #>> '{}', ' ') FROM fairq.pop('uni sql', 10);
-- Two of a key: the engine lives with it.
SELECT fairq.enqueue('uni sql', to_jsonb(n), unique_key => 'k' || n) IS NOT NULL FROM generate_series(1, 3) n;
UPDATE fairq."q_uni sql" SET unique_key = 'same';
CREATE TEMP TABLE flying AS SELECT * FROM fairq.claim('uni sql', 3);
SELECT count(fairq.enqueue('uni sql', '"held"', unique_key => 'same'));
SELECT fairq.ack(receipt), pg_temp.all_of('uni sql') FROM flying LIMIT 1;
SELECT pg_temp.all_of('uni sql');
SELECT count(*) FROM fairq.ack_many((SELECT array_agg(receipt) FROM flying));
SELECT pg_temp.all_of('uni sql');
DROP TABLE flying;
-- A rewritten table.
VACUUM (FULL) fairq."q_uni sql";
SELECT fairq.enqueue('uni sql', '"again"', unique_key => 'same', on_duplicate => 'replace') IS NOT NULL;
SELECT pg_temp.all_of('uni sql');
BEGIN;
DROP INDEX fairq."key_of_uni sql";
SELECT pg_temp.try($$ SELECT fairq.enqueue('uni sql', '1') $$);
ROLLBACK;
BEGIN;
DROP INDEX fairq."held_of_uni sql";
SELECT pg_temp.try($$ SELECT fairq.enqueue('uni sql', '1') $$);
ROLLBACK;

-- Isolation levels: what is there now counts, not what the snapshot shows.
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT fairq.enqueue('uni sql', '"serializable"', unique_key => 'same', on_duplicate => 'replace') IS NOT NULL;
SELECT payload FROM fairq.pop('uni sql');
SELECT fairq.enqueue('uni sql', '"again"', unique_key => 'same') IS NOT NULL;
COMMIT;
SELECT pg_temp.all_of('uni sql');

SELECT count(*) FROM (SELECT fairq.drop_queue(queue) FROM fairq.queues WHERE queue LIKE 'uni%') t;
DROP TABLE uni_held;
