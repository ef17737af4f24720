-- Topics: which topics a pattern matches, what is published and to whom, what
-- becomes of subscriptions. The queues of this file start with "top".
\pset format unaligned
\pset tuples_only on
\pset null (null)

-- A statement's result, or its error and hint.
CREATE FUNCTION pg_temp.try(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    result text;
    hint text;
BEGIN
    EXECUTE statement INTO result;
    RETURN result;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
    RETURN SQLSTATE || ': ' || SQLERRM || coalesce(E'\n  hint: ' || nullif(hint, ''), '');
END
$$;
-- What is in the queues of this file.
CREATE FUNCTION pg_temp.all_of() RETURNS text LANGUAGE sql AS $$
    SELECT coalesce(string_agg(q.queue || ': ' || t.payload, ', ' ORDER BY q.queue, t.id), 'nothing')
        FROM fairq.queues q, LATERAL fairq.tasks(q.queue) t WHERE q.queue LIKE 'top%'
$$;

-- Matching, word by word.
SELECT fairq.create_queue('top');
CREATE FUNCTION pg_temp.matches(pattern text, topic text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    receivers int;
BEGIN
    PERFORM fairq.subscribe(pattern, 'top');
    receivers := fairq.publish(topic, '1');
    PERFORM fairq.unsubscribe(pattern, 'top');
    RETURN receivers = 1;
END
$$;
BEGIN;
SELECT pattern, topic, pg_temp.matches(pattern, topic) FROM (VALUES
    (1, 'a', 'a'), (2, 'a', 'b'), (3, 'a', 'A'), (4, 'a', 'a.a'), (5, 'a', 'aa'), (6, 'aa', 'a'), (7, 'a.b', 'a.b'), (8, 'a.b', 'a'), (9, 'a.b', 'ab'),
    (10, 'a.b', 'a.b.c'), (11, 'a.b', 'b.a'),
    (20, '*', 'a'), (21, '*', 'a.b'), (22, '*.*', 'a'), (23, '*.*', 'a.b'), (24, 'a.*', 'a'), (25, 'a.*', 'a.b'), (26, 'a.*', 'a.b.c'),
    (27, '*.b', 'a.b'), (28, '*.b', 'b'), (29, 'a.*.c', 'a.b.c'), (30, 'a.*.c', 'a.c'), (31, 'a.*.c', 'a.b.b.c'),
    (40, '#', 'a'), (41, '#', 'a.b.c'), (42, 'a.#', 'a'), (43, 'a.#', 'a.b'), (44, 'a.#', 'a.b.c'), (45, 'a.#', 'b'), (46, 'a.#', 'aa'),
    (47, '#.b', 'b'), (48, '#.b', 'a.b'), (49, '#.b', 'a.b.b'), (50, '#.b', 'b.a'), (51, '#.b', 'a.bb'),
    (52, 'a.#.b', 'a.b'), (53, 'a.#.b', 'a.x.b'), (54, 'a.#.b', 'a.b.x.b'), (55, 'a.#.b', 'a.b.x'), (56, 'a.#.b', 'a'),
    (60, '#.#', 'a'), (61, '#.a.#', 'a'), (62, '#.a.#', 'x.a.y'), (63, '#.a.#', 'x.y'), (64, '#.a.#.b.#', 'x.a.y.b.z'), (65, '#.a.#.b.#', 'x.b.y.a.z'),
    (66, '#.a.b', 'a.a.b'), (67, '#.a.b.#.c', 'a.a.b.a.b.c'), (68, '#.a.b.c', 'a.b.a.b.c'),
    (70, '*.#', 'a'), (71, '*.#', 'a.b'), (72, '#.*', 'a'), (73, '#.*.#', 'a'), (74, '*.#.*', 'a'), (75, '*.#.*', 'a.b'), (76, '*.#.*', 'a.b.c'),
    (77, '#.*.a', 'a'), (78, '#.*.a', 'a.a'), (79, '*.a.#.*', 'x.a.y'), (80, '*.a.#.*', 'x.a'),
    (90, 'é.漢', 'é.漢'), (91, 'é.*', 'é.漢'), (92, 'e.*', 'é.漢'), (93, ' . ', ' . '), (94, 'a b.%', 'a b.%'), (95, 'a.%', 'a.b'), (96, 'a-1/2.b_3', 'a-1/2.b_3'), (97, 'a_', 'ab'))
    v(n, pattern, topic) ORDER BY n;
ROLLBACK;
-- All patterns of up to four words, on all topics of up to four, are what a regular expression says.
CREATE TEMP TABLE words AS
    WITH RECURSIVE w(n, words) AS (
        SELECT 1, ARRAY[x] FROM unnest('{a,b,*,#}'::text[]) x
        UNION ALL SELECT n + 1, words || x FROM w, unnest('{a,b,*,#}'::text[]) x WHERE n < 4)
    SELECT array_to_string(words, '.') AS pattern, NOT words && '{*,#}' AS topic,
           '^' || (SELECT string_agg(CASE x WHEN '*' THEN '\.[^.]+' WHEN '#' THEN '(\.[^.]+)*' ELSE '\.' || x END, '' ORDER BY n) FROM unnest(words) WITH ORDINALITY u(x, n)) || '$' AS regexp
        FROM w;
BEGIN;
CREATE TEMP TABLE found (pattern text, topic text, matches boolean) ON COMMIT DROP;
DO $$
DECLARE
    p record;
BEGIN
    FOR p IN SELECT pattern FROM words LOOP
        PERFORM fairq.subscribe(p.pattern, 'top');
        INSERT INTO found SELECT p.pattern, t.pattern, fairq.publish(t.pattern, '1') = 1 FROM words t WHERE t.topic;
        PERFORM fairq.unsubscribe(p.pattern, 'top');
    END LOOP;
END
$$;
SELECT count(*), count(*) FILTER (WHERE matches) FROM found;
SELECT f.* FROM found f JOIN words w USING (pattern) WHERE matches <> ('.' || f.topic) ~ regexp;
ROLLBACK;
-- The time that it takes does not explode: a pattern of 63 times # that fails at its very end.
BEGIN;
SET LOCAL statement_timeout = '30 s';
SELECT pg_temp.matches(repeat('#.a.', 63) || 'b', repeat('a.', 127) || 'a');
SELECT pg_temp.matches(repeat('#.a.', 63) || '#', repeat('a.', 127) || 'a');
SELECT pg_temp.matches(repeat('#.*.', 63) || 'b', repeat('a.', 127) || 'b');
ROLLBACK;
SELECT pg_temp.all_of();

-- What is a topic, and what is a pattern.
SELECT topic, pg_temp.try(format('SELECT fairq.subscribe(%L, ''top'')', topic)) AS subscribe, pg_temp.try(format('SELECT fairq.publish(%L, ''1'')', topic)) AS publish
    FROM unnest(ARRAY['', '.', 'a.', '.a', 'a..b', 'a.b.', '*', 'a.#', 'a*', '#a.b', '**', '*#', 'a.b#c', NULL, 'a']) topic;
SELECT length(topic), pg_temp.try(format('SELECT fairq.subscribe(%L, ''top'')', topic)) AS subscribe, pg_temp.try(format('SELECT fairq.publish(%L, ''1'')', topic)) AS publish
    FROM unnest(ARRAY[repeat('a.', 127) || 'a', repeat('a.', 128), repeat('x', 255), repeat('x', 256), repeat('é', 127), repeat('é', 128)]) topic;
SELECT pg_temp.try('SELECT fairq.subscribe(''a'', NULL)'), pg_temp.try('SELECT fairq.subscribe(''a'', ''top of nothing'')'), pg_temp.try('SELECT fairq.unsubscribe(''a'', ''top of nothing'')'), pg_temp.try('SELECT fairq.publish(''a'', NULL)');
SELECT pg_temp.try('SELECT fairq.unsubscribe(''a..b'', ''top'')');
SELECT fairq.purge('top');
SELECT count(fairq.unsubscribe(topic, queue)) FROM fairq.topics;

-- To every queue that wants it, once; to none if nobody does.
SELECT fairq.create_queue('top mail'), fairq.create_queue('top.bills', policy => 'priority'), fairq.create_queue('top Time', policy => 'time');
SELECT fairq.subscribe('order.*', 'top mail'), fairq.subscribe('order.#', 'top mail'), fairq.subscribe('*.paid', 'top mail'),
       fairq.subscribe('order.paid', 'top.bills'), fairq.subscribe('#', 'top Time');
SELECT fairq.subscribe('order.paid', 'top.bills');      -- as before
SELECT topic, queue FROM fairq.topics ORDER BY topic COLLATE "C", queue COLLATE "C";
SELECT fairq.publish('order.paid', '"paid"'), fairq.publish('order.sent', '"sent"'), fairq.publish('user.new', '"user"'), fairq.publish('order', '"order"');
SELECT pg_temp.all_of();
SELECT payload FROM fairq.tasks('top Time') ORDER BY id;
SELECT fairq.unsubscribe('order.#', 'top mail'), fairq.unsubscribe('order.#', 'top mail'), fairq.unsubscribe('order.paid', 'top mail');
SELECT fairq.unsubscribe('#', 'top Time');
SELECT fairq.publish('user.new', '"nobody"'), fairq.publish('order.paid.twice', '"nobody"'), fairq.publish('order.paid', '"two"');
-- They can be claimed like others.
SELECT payload, fairq.ack(receipt) FROM fairq.claim('top mail', 10);
SELECT payload FROM fairq.pop('top.bills', 10);
-- Every argument goes to every queue.
SELECT fairq.subscribe('#', 'top'), fairq.purge('top Time');
SELECT fairq.publish('order.paid', '{"p": 1}', group_key => 'g', priority => 3, cost => 2.5, max_attempts => 7, lease => '7 min', headers => '{"h": 1}');
SELECT fairq.publish('order.paid', '{"p": 2}', 'g', 4, 1, now() + interval '1 day');
SELECT queue, t.state, t.group_key, t.payload, t.headers, t.priority, t.cost, t.max_attempts, t.run_at > now() AS later
    FROM unnest('{top,top.bills,top mail}'::text[]) queue, LATERAL fairq.tasks(queue) t ORDER BY queue COLLATE "C", t.id;
SELECT queue, lease_until - now() BETWEEN '6 min' AND '8 min' FROM unnest('{top,top.bills,top mail}'::text[]) queue, LATERAL fairq.claim(queue) ORDER BY queue COLLATE "C";

-- What one queue does not take, none gets.
SELECT count(fairq.purge(queue)) FROM fairq.queues WHERE queue LIKE 'top%';
SELECT pg_temp.try('SELECT fairq.publish(''order.paid'', ''1'', priority => 10)'), pg_temp.try('SELECT fairq.publish(''order.paid'', ''1'', cost => 0)');
SELECT pg_temp.try('SELECT fairq.publish(''nobody'', ''1'', priority => 10)'), fairq.unsubscribe('#', 'top'), fairq.publish('nobody', '1', priority => 10);
ALTER TABLE fairq."q_top.bills" ADD CONSTRAINT small CHECK (payload < '10') NOT VALID;
SELECT pg_temp.try('SELECT fairq.publish(''order.paid'', ''20'')');
ALTER TABLE fairq."q_top.bills" DROP CONSTRAINT small;
SELECT count(*) FROM fairq.queues, LATERAL fairq.tasks(queue) t WHERE queue LIKE 'top%' AND t.state = 'ready';

-- In the caller's transaction, and its savepoints.
SELECT count(fairq.drop_queue(queue)) FROM fairq.queues WHERE queue LIKE 'top%';
SELECT fairq.create_queue('top 1'), fairq.create_queue('top 2');
BEGIN;
SELECT fairq.subscribe('t', 'top 1');
SELECT fairq.publish('t', '1');
SAVEPOINT a;
SELECT fairq.subscribe('t', 'top 2');
SELECT fairq.publish('t', '2');
ROLLBACK TO a;
SELECT fairq.publish('t', '3');
SAVEPOINT b;
SELECT fairq.subscribe('#', 'top 2');
RELEASE b;
SELECT fairq.publish('t', '4');
COMMIT;
SELECT pg_temp.all_of();
TABLE fairq.topics ORDER BY 1, 2;
BEGIN;
SELECT fairq.unsubscribe('t', 'top 1'), fairq.publish('t', '5');
ROLLBACK;
SELECT fairq.publish('t', '6');
SELECT payload, fairq.ack(receipt) FROM fairq.claim('top 1', 10);
SELECT payload, fairq.ack(receipt) FROM fairq.claim('top 2', 10);
-- Subscriptions are looked at as they are now, in every isolation level.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT fairq.unsubscribe('#', 'top 2'), fairq.subscribe('u', 'top 2'), fairq.publish('u', '7'), fairq.publish('t', '7');
COMMIT;
BEGIN READ ONLY;
SELECT fairq.publish('t', '1');
ROLLBACK;
BEGIN READ ONLY;
SELECT fairq.subscribe('t', 'top 1');
ROLLBACK;

-- Subscriptions go with their queue; another of its name begins without.
SELECT topic, queue FROM fairq.topics ORDER BY 1;
BEGIN;
SELECT fairq.drop_queue('top 1');
SELECT fairq.publish('t', '8');
ROLLBACK;
SELECT fairq.publish('t', '9');
SELECT fairq.drop_queue('top 1');
TABLE fairq.topics ORDER BY 1, 2;
SELECT fairq.publish('t', '10');
SELECT fairq.create_queue('top 1');
SELECT fairq.publish('t', '11');
-- So with a table that was dropped with SQL, or renamed.
SELECT fairq.subscribe('t', 'top 1');
DROP TABLE fairq."q_top 1";
SELECT fairq.publish('t', '12'), (SELECT count(*) FROM fairq.topics WHERE queue = 'top 1');
SELECT pg_temp.try('SELECT fairq.unsubscribe(''t'', ''top 1'')');
SELECT fairq.create_queue('top 1');
SELECT fairq.publish('t', '13'), (SELECT count(*) FROM fairq.topics WHERE queue = 'top 1');
ALTER TABLE fairq."q_top 2" RENAME TO "q_top 3";
SELECT fairq.publish('u', '14'), (SELECT count(*) FROM fairq.topics);
ALTER TABLE fairq."q_top 3" RENAME TO "q_top 2";
SELECT fairq.publish('u', '15'), (SELECT count(*) FROM fairq.topics);

-- The owner subscribes; who publishes needs INSERT on each queue.
CREATE ROLE regress_fairq_top_owner;
CREATE ROLE regress_fairq_top_user;
ALTER TABLE fairq."q_top 1" OWNER TO regress_fairq_top_owner;
SET ROLE regress_fairq_top_user;
SELECT pg_temp.try('SELECT fairq.subscribe(''v'', ''top 1'')'), pg_temp.try('SELECT fairq.unsubscribe(''v'', ''top 1'')');
SET ROLE regress_fairq_top_owner;
SELECT fairq.subscribe('v', 'top 1');
RESET ROLE;
SELECT fairq.subscribe('v', 'top 2'), fairq.purge('top 1'), fairq.purge('top 2');
GRANT INSERT ON fairq."q_top 1" TO regress_fairq_top_user;
SET ROLE regress_fairq_top_user;
SELECT pg_temp.try('SELECT fairq.publish(''v'', ''16'')'), fairq.publish('w', '16');
TABLE fairq.topics ORDER BY 1, 2;
RESET ROLE;
SELECT pg_temp.all_of();
GRANT INSERT ON fairq."q_top 2" TO regress_fairq_top_user;
SET ROLE regress_fairq_top_user;
SELECT fairq.publish('v', '17');
RESET ROLE;
SELECT pg_temp.all_of();

-- What an owner has put on his table gets nobody's privileges from a publish:
-- anybody may subscribe his queue to anything.
CREATE FUNCTION pg_temp.seen_by(what text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    outcome text := 'may become anybody';
BEGIN
    BEGIN
        EXECUTE 'SET LOCAL ROLE ' || quote_ident(session_user);
    EXCEPTION WHEN insufficient_privilege THEN
        outcome := 'may not';
    END;
    RAISE NOTICE '% is checked as %, who %', what, CASE current_user WHEN session_user THEN 'the publisher' ELSE current_user END, outcome;
    RETURN true;
END
$$;
CREATE FUNCTION pg_temp.indexed(id bigint) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN pg_temp.seen_by('index'); END $$;
GRANT CREATE ON SCHEMA fairq TO regress_fairq_top_owner;
SET ROLE regress_fairq_top_owner;
SELECT fairq.create_queue('top 4'), fairq.subscribe('#', 'top 4');
ALTER TABLE fairq."q_top 4" ADD CHECK (pg_temp.seen_by('constraint'));
CREATE INDEX ON fairq."q_top 4" ((pg_temp.indexed(id)));
RESET ROLE;
REVOKE CREATE ON SCHEMA fairq FROM regress_fairq_top_owner;
SELECT fairq.publish('somebody.else', '18'), current_user = session_user AS still_ourselves, current_setting('search_path');
SELECT fairq.publish('somebody.else', '18', unique_key => 'k'), fairq.publish('somebody.else', '19', unique_key => 'k', on_duplicate => 'replace');
SELECT payload FROM fairq.tasks('top 4') ORDER BY id;

SELECT count(fairq.drop_queue(queue)) FROM fairq.queues WHERE queue LIKE 'top%';
SELECT count(*) FROM fairq.topic;
DROP ROLE regress_fairq_top_owner, regress_fairq_top_user;
