-- The number of buckets of a queue is changed while it has tasks. The queues
-- of this file start with "buc".
\i test/sql/include/helpers.sql
-- n tasks with the numbers from first on, in turn of so many groups and classes.
CREATE FUNCTION pg_temp.fill(queue text, first int, n int, groups int DEFAULT 5, classes int DEFAULT 1) RETURNS bigint LANGUAGE sql AS $$
    SELECT count(fairq.enqueue(queue, to_jsonb(i), group_key => 'g' || i % groups, priority => i % classes))
    FROM generate_series(first, first + n - 1) i
$$;
-- Where the tasks of a queue are, from the first number on.
CREATE FUNCTION pg_temp.range(queue text, first int DEFAULT 0, OUT tasks bigint, OUT buckets bigint, OUT lowest int, OUT highest int) LANGUAGE sql AS $$
    SELECT count(*), count(DISTINCT fairq.bucket(address)), min(fairq.bucket(address)), max(fairq.bucket(address))
    FROM fairq.tasks(queue) WHERE (payload #>> '{}')::int >= first
$$;
\pset format unaligned
\pset tuples_only on

-- Bounds, and what is no change.
SELECT fairq.create_queue('buc', buckets => 16, lease => '1 h', default_priority => 0);
SELECT pg_temp.try($$ SELECT fairq.alter_queue('buc', buckets => 0) $$);
SELECT pg_temp.try($$ SELECT fairq.alter_queue('buc', buckets => -1) $$);
SELECT pg_temp.try($$ SELECT fairq.alter_queue('buc', buckets => 1025) $$);
SELECT pg_temp.try($$ SELECT fairq.alter_queue('buc', buckets => NULL) $$);
SELECT pg_temp.try($$ SELECT fairq.alter_queue('buc', buckets => 16) $$);
SELECT pg_temp.try($$ SELECT fairq.alter_queue('buc unknown', buckets => 3) $$);
SELECT buckets FROM fairq.queues WHERE queue = 'buc';
-- A wrong setting beside it: both are left as they were.
SELECT pg_temp.try($$ SELECT fairq.alter_queue('buc', buckets => 3, max_attempts => -1) $$);
SELECT buckets FROM fairq.queues WHERE queue = 'buc';

-- Fewer: what is there stays in its place, what comes goes to those that are left, and all of it is claimed.
SELECT pg_temp.fill('buc', 1, 100);
SELECT * FROM pg_temp.range('buc');
SELECT fairq.alter_queue('buc', buckets => 2);
SELECT buckets FROM fairq.queues WHERE queue = 'buc';
SELECT * FROM pg_temp.range('buc');
SELECT pg_temp.fill('buc', 101, 50);
SELECT * FROM pg_temp.range('buc', 101);
SELECT count(*) FROM fairq.bucket_stats WHERE queue = 'buc';
SELECT ready FROM fairq.queue_stats WHERE queue = 'buc';
SELECT count(*), count(DISTINCT address) FROM fairq.peek('buc', 1000);
CREATE TEMP TABLE taken AS SELECT * FROM fairq.claim('buc', 1000);
SELECT count(*), count(DISTINCT id), min(fairq.bucket(address)), max(fairq.bucket(address)) FROM taken;
-- Back to their places, in buckets that there are no more, and again.
SELECT count(*) FROM fairq.release_many(ARRAY(SELECT receipt FROM taken));
SELECT count(*) FROM taken t JOIN fairq.claim('buc', 1000) c ON c.id = t.id AND c.address::text = t.address::text;
SELECT count(*) FROM fairq.ack_many(ARRAY(SELECT receipt FROM fairq.leases WHERE queue = 'buc'));
SELECT * FROM pg_temp.range('buc');
DROP TABLE taken;

-- More.
SELECT pg_temp.fill('buc', 1, 20);
SELECT fairq.alter_queue('buc', buckets => 1024);
SELECT pg_temp.fill('buc', 21, 600, 300);
SELECT tasks, buckets > 200, highest > 512 FROM pg_temp.range('buc', 21);
SELECT count(*) FROM fairq.bucket_stats WHERE queue = 'buc';
SELECT count(*) FROM fairq.pop('buc', 1000);
SELECT * FROM pg_temp.range('buc');

-- One, and everything goes to it.
SELECT pg_temp.fill('buc', 1, 100, 20);
SELECT fairq.alter_queue('buc', buckets => 1);
SELECT pg_temp.fill('buc', 101, 100, 20);
SELECT * FROM pg_temp.range('buc', 101);
-- Groups, cancel, purge and nack in the buckets of before.
SELECT count(*) FROM fairq.claim('buc', 1000, group_keys => '{g7,g8}') WHERE payload::int <= 100;
SELECT count(*) FROM fairq.nack_many(ARRAY(SELECT receipt FROM fairq.leases WHERE queue = 'buc'), delay => '0');
SELECT count(*), min(fairq.bucket(address)), max(fairq.bucket(address)) FROM fairq.tasks('buc', group_key => 'g7');
SELECT count(*) FILTER (WHERE fairq.cancel('buc', id)) FROM fairq.tasks('buc') WHERE payload::int BETWEEN 1 AND 10;
SELECT fairq.purge_group('buc', 'g0');
SELECT count(*), count(DISTINCT id) FROM fairq.pop('buc', 1000);
SELECT ready, leased FROM fairq.queue_stats WHERE queue = 'buc';

-- Rolled back: as before. A lane too many does no harm.
BEGIN;
SELECT fairq.alter_queue('buc', buckets => 9);
SELECT pg_temp.fill('buc', 1, 30);
SELECT buckets > 1 FROM pg_temp.range('buc');
ROLLBACK;
SELECT buckets FROM fairq.queues WHERE queue = 'buc';
SELECT pg_temp.fill('buc', 31, 30);
SELECT * FROM pg_temp.range('buc');
BEGIN;
SELECT fairq.alter_queue('buc', buckets => 9);
SAVEPOINT s;
SELECT fairq.alter_queue('buc', buckets => 5);
ROLLBACK TO s;
SELECT pg_temp.fill('buc', 61, 90);
SELECT * FROM pg_temp.range('buc', 61);
COMMIT;
SELECT count(*) FROM fairq.pop('buc', 1000);

-- The order does not depend on the number of buckets, nor on its history.
CREATE PROCEDURE pg_temp.same_order(policy text) LANGUAGE plpgsql AS $$
DECLARE
    n int := 0;
    buckets int;
    a text;
    b text;
BEGIN
    PERFORM fairq.create_queue('buc one', policy, 1, default_priority => 0);
    PERFORM fairq.create_queue('buc many', policy, 4, default_priority => 0);
    COMMIT; -- both are read anew after that, before there is any task
    FOREACH buckets IN ARRAY '{4,1,40,3,300,16}'::int[] LOOP
        PERFORM fairq.alter_queue('buc many', buckets);
        FOR i IN 1..60 LOOP
            n := n + 1;
            PERFORM fairq.enqueue(q, to_jsonb(n), group_key => 'g' || (n * n % 7), priority => n * 31 % 4, run_at => '2020-01-01'::timestamptz + n * 37 % 50 * interval '1 s')
                FROM unnest('{buc one,buc many}'::text[]) q;
        END LOOP;
        COMMIT;
        SELECT string_agg(payload #>> '{}', ' ' ORDER BY nr) INTO a FROM fairq.peek('buc one', 500) WITH ORDINALITY t(id, receipt, g, payload, h, p, at, e, l, address, nr);
        SELECT string_agg(payload #>> '{}', ' ' ORDER BY nr) INTO b FROM fairq.peek('buc many', 500) WITH ORDINALITY t(id, receipt, g, payload, h, p, at, e, l, address, nr);
        IF a IS DISTINCT FROM b THEN
            RAISE WARNING 'policy %, % buckets: peek % instead of %', policy, buckets, b, a;
        END IF;
        SELECT string_agg(payload #>> '{}', ' ' ORDER BY nr) INTO a FROM fairq.pop('buc one', 41) WITH ORDINALITY t(id, receipt, g, payload, h, p, at, e, l, address, nr);
        SELECT string_agg(payload #>> '{}', ' ' ORDER BY nr) INTO b FROM fairq.pop('buc many', 41) WITH ORDINALITY t(id, receipt, g, payload, h, p, at, e, l, address, nr);
        IF a IS DISTINCT FROM b THEN
            RAISE WARNING 'policy %, % buckets: pop % instead of %', policy, buckets, b, a;
        END IF;
        COMMIT;
    END LOOP;
    RAISE NOTICE 'policy %: % tasks, % left', policy, n, (SELECT count(*) FROM fairq.tasks('buc many'));
    PERFORM fairq.drop_queue('buc one'), fairq.drop_queue('buc many');
END
$$;
CALL pg_temp.same_order('fair');
CALL pg_temp.same_order('priority');
CALL pg_temp.same_order('time');

-- Every class in use has its lanes.
SELECT fairq.create_queue('buc classes', buckets => 2, default_priority => 0);
SELECT pg_temp.fill('buc classes', 1, 30, 10, 3);
SELECT class, count(*) FROM fairq.bucket_stats WHERE queue = 'buc classes' GROUP BY class ORDER BY class;
SELECT fairq.alter_queue('buc classes', buckets => 6);
SELECT class, count(*) FROM fairq.bucket_stats WHERE queue = 'buc classes' GROUP BY class ORDER BY class;
SELECT pg_temp.fill('buc classes', 31, 30, 10, 3);
SELECT count(*), array_agg(priority ORDER BY nr) = array_agg(priority ORDER BY priority) AS by_class
    FROM fairq.pop('buc classes', 100) WITH ORDINALITY t(id, receipt, g, payload, h, priority, at, e, l, address, nr);

-- claim(buckets => ...): the buckets there are. What is left in others goes with them in turn.
SELECT fairq.create_queue('buc owned', 'priority', buckets => 8, lease => '1 h');
SELECT count(fairq.enqueue('buc owned', to_jsonb(n))) FROM generate_series(1, 400) n;
SELECT pg_temp.try($$ SELECT fairq.claim('buc owned', buckets => '{8}') $$);
SELECT fairq.alter_queue('buc owned', buckets => 3);
SELECT pg_temp.try($$ SELECT fairq.claim('buc owned', buckets => '{0,3}') $$);
SELECT pg_temp.try($$ SELECT fairq.pop('buc owned', buckets => '{-1}') $$);
SELECT array_agg(DISTINCT fairq.bucket(address) ORDER BY fairq.bucket(address)) FROM fairq.claim('buc owned', 1000, buckets => '{1}');
SELECT array_agg(DISTINCT fairq.bucket(address) ORDER BY fairq.bucket(address)) FROM fairq.claim('buc owned', 1000, buckets => '{2,0}');
SELECT count(*) FROM fairq.release_many(ARRAY(SELECT receipt FROM fairq.leases WHERE queue = 'buc owned'));

-- Sessions that own buckets. A bucket that is no more has moved, as one has that is another's.
SELECT fairq.alter_queue('buc owned', buckets => 8);
SELECT fairq.open_session('buc a', '1 h') AS a, fairq.open_session('buc b', '1 h') AS b
\gset
SELECT cardinality(fairq.my_buckets('buc owned', :'a'));
SELECT cardinality(fairq.my_buckets('buc owned', :'b'));
SELECT cardinality(fairq.my_buckets('buc owned', :'a'));
SELECT fairq.alter_queue('buc owned', buckets => 3);
SELECT pg_temp.try(format($$ SELECT count(*) FROM fairq.claim('buc owned', 1, session => %L, buckets => ARRAY(SELECT generate_series(0, 7))) $$, :'a'));
SELECT pg_temp.try(format($$ SELECT count(*) FROM fairq.claim('buc owned', 1, session => %L, buckets => '{7}') $$, :'b'));
SELECT pg_temp.try(format($$ SELECT count(*) FROM fairq.claim('buc owned', 1, session => %L, buckets => '{5000}') $$, :'b'));
SELECT cardinality(fairq.my_buckets('buc owned', :'a')), cardinality(fairq.my_buckets('buc owned', :'b'));
SELECT count(*) FROM unnest(fairq.my_buckets('buc owned', :'a') || fairq.my_buckets('buc owned', :'b')) bucket WHERE bucket BETWEEN 0 AND 2;
CREATE TEMP TABLE owned AS
    SELECT 'a' AS owner, * FROM fairq.claim('buc owned', 1000, session => :'a', buckets => fairq.my_buckets('buc owned', :'a'))
    UNION ALL SELECT 'b', * FROM fairq.claim('buc owned', 1000, session => :'b', buckets => fairq.my_buckets('buc owned', :'b'));
-- Between them they have everything, and each of the old buckets is with one of them.
SELECT count(*), count(DISTINCT id), count(DISTINCT fairq.bucket(address)), count(DISTINCT (owner, fairq.bucket(address))), count(DISTINCT (owner, fairq.bucket(address) % 3)) FROM owned;
-- More buckets: the new ones are somebody's when they have asked.
SELECT fairq.alter_queue('buc owned', buckets => 100);
SELECT cardinality(fairq.my_buckets('buc owned', :'a')) + cardinality(fairq.my_buckets('buc owned', :'b'));
SELECT cardinality(fairq.my_buckets('buc owned', :'a')), cardinality(fairq.my_buckets('buc owned', :'b'));
SELECT fairq.close_session(:'a') + fairq.close_session(:'b');

-- Rows that are written with SQL may be in any bucket.
SELECT fairq.create_queue('buc sql', 'priority', buckets => 1);
SELECT fairq.enqueue('buc sql', '1') IS NOT NULL;
INSERT INTO fairq."q_buc sql" SELECT (jsonb_populate_record(q, jsonb_build_object('id', id + 1000, 'payload', 'bucket 1023', 'address', '(1023,-5,1)'))).* FROM fairq."q_buc sql" q;
SELECT array_agg(bucket ORDER BY bucket) FROM fairq.bucket_stats WHERE queue = 'buc sql';
SELECT pg_temp.try($$ UPDATE fairq."q_buc sql" SET address = '(0,1:5,1)' $$);
-- A rewritten table: they are found again.
VACUUM FULL fairq."q_buc sql";
SELECT payload, address FROM fairq.claim('buc sql', 5);

SELECT count(*) FILTER (WHERE fairq.drop_queue(queue)) FROM fairq.queues WHERE queue LIKE 'buc%';
