-- Priority classes that share a queue by weights (class_weights of create_queue and
-- alter_queue). The queues of this file start with "cw".
--
-- To see it fail: take class_shares_end() out, or its correction (what an empty class was
-- charged, and what tasks cost); let a class that comes late start at its own tag and not
-- at virtual time (class_shares_begin()); give a turn all that is asked for (claims of
-- many); take add_shares() out (positions).
\i test/sql/include/helpers.sql
\pset format unaligned
\pset tuples_only on

-- The class is in the payload.
CREATE FUNCTION pg_temp.fill(queue text, class int, n int, cost float8 DEFAULT 1, group_key text DEFAULT '') RETURNS bigint LANGUAGE sql AS
    $$ SELECT count(fairq.enqueue_many(queue, array_fill(to_jsonb(class), ARRAY[n]), ARRAY[group_key], ARRAY[class], ARRAY[cost])) $$;
CREATE FUNCTION pg_temp.one_by_one(queue text, n int, groups text[] DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS
    $$ DECLARE said text := ''; BEGIN
        FOR i IN 1 .. n LOOP said := said || (SELECT string_agg(payload::text, '') FROM fairq.pop(queue, group_keys => groups)); END LOOP;
        RETURN said; END $$;
CREATE FUNCTION pg_temp.at_once(queue text, n int, groups text[] DEFAULT NULL) RETURNS text LANGUAGE sql AS
    $$ SELECT string_agg(format('%s of class %s', n, class), ', ' ORDER BY class)
       FROM (SELECT payload::int AS class, count(*) AS n FROM fairq.pop(queue, n, group_keys => groups) GROUP BY 1) c $$;

-- Without weights the lower class goes first.
SELECT fairq.create_queue('cw');
SELECT class_weights FROM fairq.queues WHERE queue = 'cw';
SELECT pg_temp.fill('cw', class, 100) FROM generate_series(0, 3) class;
SELECT pg_temp.one_by_one('cw', 20);

-- With them each has its part: of the next tasks, and of a claim of many. A class that has
-- no weight of its own has that of the last one.
SELECT fairq.alter_queue('cw', class_weights => '{4,2,1}');
SELECT class_weights FROM fairq.queues WHERE queue = 'cw';
SELECT pg_temp.one_by_one('cw', 24);
SELECT pg_temp.at_once('cw', 40);
SELECT pg_temp.at_once('cw', 8);

-- What a class leaves goes to the others, by their weights.
SELECT pg_temp.at_once('cw', 104);
SELECT pg_temp.one_by_one('cw', 12);
SELECT pg_temp.at_once('cw', 1000);

-- A class that comes late has no credit for the time in which it had nothing.
SELECT fairq.create_queue('cw late', class_weights => '{1,1}');
SELECT pg_temp.fill('cw late', 1, 100);
SELECT pg_temp.one_by_one('cw late', 50);
SELECT pg_temp.fill('cw late', 0, 100);
SELECT pg_temp.one_by_one('cw late', 10);
-- Nor has one that was served alone less of what comes.
SELECT pg_temp.at_once('cw late', 89);
SELECT pg_temp.one_by_one('cw late', 20);
SELECT pg_temp.fill('cw late', 1, 100);
SELECT pg_temp.one_by_one('cw late', 10);
SELECT fairq.drop_queue('cw late');

-- Tasks count for what they cost.
SELECT fairq.create_queue('cw cost', class_weights => '{1,1}');
SELECT pg_temp.fill('cw cost', 0, 50, 3);
SELECT pg_temp.fill('cw cost', 1, 100);
SELECT pg_temp.one_by_one('cw cost', 40);
SELECT pg_temp.at_once('cw cost', 40);
SELECT fairq.drop_queue('cw cost');

-- What is rolled back was served: its class has had its turn. Weights far apart.
SELECT fairq.create_queue('cw back', class_weights => '{1000,0.001}');
SELECT pg_temp.fill('cw back', class, 20) FROM generate_series(0, 1) class;
BEGIN;
SELECT pg_temp.one_by_one('cw back', 3);
ROLLBACK;
SELECT pg_temp.one_by_one('cw back', 22);
SELECT fairq.drop_queue('cw back');

-- Claims of some groups: one by one by the weights, of many by turns.
SELECT fairq.create_queue('cw groups', class_weights => '{3,1}');
SELECT pg_temp.fill('cw groups', class, 60, group_key => who) FROM generate_series(0, 1) class, unnest('{ann,bob}'::text[]) who;
SELECT pg_temp.one_by_one('cw groups', 16, '{ann}');
SELECT pg_temp.at_once('cw groups', 10, '{ann}');
SELECT pg_temp.at_once('cw groups', 10, '{ann}');
SELECT pg_temp.at_once('cw groups', 1000, '{ann}');
-- Of all classes, also where the first of them is stopped.
SELECT fairq.pause_group('cw groups', 'bob');
SELECT pg_temp.fill('cw groups', 1, 5, group_key => 'cleo');
SELECT pg_temp.at_once('cw groups', 10);
SELECT fairq.resume_group('cw groups', 'bob');
SELECT pg_temp.at_once('cw groups', 16);
SELECT fairq.drop_queue('cw groups');

-- The overflow has its part of what is ready.
SELECT fairq.create_queue('cw over', class_weights => '{1,1}', max_ready_per_group => 10);
SELECT pg_temp.fill('cw over', class, 100) FROM generate_series(0, 1) class;
SELECT pg_temp.at_once('cw over', 200);
SELECT fairq.drop_queue('cw over');

-- A task's position counts what the others are due meanwhile.
SELECT fairq.create_queue('cw place', class_weights => '{4,1}');
SELECT pg_temp.fill('cw place', 0, 100);
SELECT pg_temp.fill('cw place', 1, 10);
SELECT round(p.ahead) FROM fairq.tasks('cw place') t, fairq.get_task_position('cw place', t.id) p WHERE t.priority = 1 ORDER BY t.id LIMIT 3;
SELECT round(p.ahead) FROM fairq.tasks('cw place') t, fairq.get_task_position('cw place', t.id) p WHERE t.priority = 0 ORDER BY t.id DESC LIMIT 1;
SELECT fairq.alter_queue('cw place', class_weights => '{}');
SELECT round(p.ahead) FROM fairq.tasks('cw place') t, fairq.get_task_position('cw place', t.id) p WHERE t.priority = 1 ORDER BY t.id LIMIT 1;
-- That leaves it as it is.
SELECT fairq.alter_queue('cw place', class_weights => NULL, buckets => 4);
SELECT class_weights, buckets FROM fairq.queues WHERE queue = 'cw place';
SELECT pg_temp.one_by_one('cw place', 5);
SELECT fairq.drop_queue('cw place');

-- What cannot be had is refused.
SELECT pg_temp.try(format('SELECT fairq.alter_queue(''cw'', class_weights => %L)', w))
    FROM unnest('{"{0}","{-1}","{1,NULL}","{NaN}","{1000.1}","{0.0009}","{Infinity}","{{1,2},{3,4}}","{1,1,1,1,1,1,1,1,1,1,1}"}'::text[]) w;
SELECT pg_temp.try($$ SELECT fairq.create_queue('cw wrong', policy => 'priority', class_weights => '{2,1}') $$);
SELECT fairq.create_queue('cw time', policy => 'time', class_weights => '{}');
SELECT pg_temp.try($$ SELECT fairq.alter_queue('cw time', class_weights => '{2,1}') $$);
SELECT fairq.drop_queue('cw time');
SELECT class_weights FROM fairq.queues WHERE queue = 'cw';
SELECT fairq.drop_queue('cw');
