-- Code of a queue's owner runs while a function of ours is at work on the queue, and
-- changes the table, its name or its indexes, and calls our functions again: for this
-- queue, by its old name, and for another one. The outer function goes on with what
-- it knew, or there is an error; no other queue is touched, and what is counted
-- is what is there.
-- Seen to fail: with a cached entry filled anew while it is in use (new_entry() in
-- queue_open.c without the look at rd_refcnt): a crash, or tasks counted in another queue;
-- with SPI_freeplan() at once in archive_look_at(): a crash.
\set VERBOSITY terse
\pset format unaligned
\pset tuples_only on
SET client_min_messages = warning;
CREATE TABLE action (n int PRIMARY KEY, what text, outcome text, inner_outcome text);
INSERT INTO action VALUES
    (1, 'ALTER TABLE fairq."q_%1$s" RENAME TO "q_%1$s gone"'),
    (2, 'ALTER TABLE fairq."q_%1$s" SET SCHEMA public'),
    (3, 'ALTER TABLE fairq."q_%1$s" RENAME payload TO payload_2'),
    (4, 'ALTER TABLE fairq."q_%1$s" ADD more int'),
    (5, 'ALTER TABLE fairq."q_%1$s" DROP headers'),
    (6, 'ALTER TABLE fairq."q_%1$s" DISABLE TRIGGER fairq_row_written'),
    (7, 'ALTER TABLE fairq."q_%1$s" OWNER TO pg_monitor'),
    (8, 'DROP TABLE fairq."q_%1$s"'),
    (9, 'SELECT fairq.drop_queue(''%1$s'')'),
    (10, 'TRUNCATE fairq."q_%1$s" RESTART IDENTITY'),
    (11, 'CREATE INDEX ON fairq."q_%1$s" (id) WHERE headers IS NULL'),
    (12, 'DROP INDEX fairq."address_of_%1$s"'),
    (13, 'ALTER INDEX fairq."address_of_%1$s" RENAME TO "addresses_of_%1$s"'),
    (14, 'REINDEX TABLE fairq."q_%1$s"'),
    (15, 'CLUSTER fairq."q_%1$s" USING "id_of_%1$s"'),
    (16, 'ALTER SEQUENCE fairq."ids_of_%1$s" RENAME TO "id_of_%1$s 2"'),
    (17, 'ALTER SEQUENCE fairq."ids_of_%1$s" INCREMENT 1'),
    (18, 'ALTER SEQUENCE fairq."ids_of_%1$s" OWNED BY NONE; DROP SEQUENCE fairq."ids_of_%1$s"'),
    (19, 'CREATE TRIGGER more AFTER INSERT ON fairq."q_%1$s" FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()'),
    (20, 'DROP TRIGGER fairq_row_written ON fairq."q_%1$s"'),
    (21, 'CREATE RULE more AS ON DELETE TO fairq."q_%1$s" DO NOTHING'),
    (22, 'SELECT fairq.alter_queue(''%1$s'', buckets => 4, max_ready_per_group => 5)'),
    (23, 'SELECT fairq.pause(''%1$s''), fairq.resume(''%1$s''), fairq.pause_group(''%1$s'', ''g''), fairq.resume_group(''%1$s'', ''g'')'),
    (24, 'SELECT fairq.set_group(''%1$s'', ''g'', weight => 3, max_leased => 1)'),
    (25, 'SELECT cardinality(fairq.enqueue_many(''%1$s'', array_fill(''1''::jsonb, ''{1200}'')))'),
    (26, 'SELECT fairq.enqueue(''%1$s'', ''1'', group_key => ''g'', unique_key => ''k'', on_duplicate => ''replace'')'),
    (27, 'SELECT count(fairq.ack(receipt)) FROM fairq.claim(''%1$s'', 5)'),
    (28, 'SELECT count(fairq.nack(receipt)) FROM fairq.claim(''%1$s'', 5)'),
    (29, 'SELECT count(fairq.release(receipt)) FROM fairq.claim(''%1$s'', 5)'),
    (30, 'SELECT count(*) FROM fairq.pop(''%1$s'', 5)'),
    (31, 'SELECT fairq.purge(''%1$s'')'),
    (32, 'SELECT count(fairq.cancel(''%1$s'', id)) FROM (SELECT id FROM fairq.tasks(''%1$s'', ''ready'') LIMIT 3) t'),
    (33, 'SELECT fairq.revive_all(''%1$s''), fairq.maintain(''%1$s'')'),
    (34, 'SELECT (SELECT count(*) FROM fairq.queue_stats), (SELECT count(*) FROM fairq.group_stats), (SELECT count(*) FROM fairq.bucket_stats)'),
    (35, 'ALTER TABLE fairq."q_%1$s" RENAME TO "q_%1$s gone"; SELECT fairq.create_queue(''%1$s'')'),
    (36, 'DELETE FROM fairq."q_%1$s"'),
    (37, 'UPDATE fairq."q_%1$s" SET headers = ''{}'''),
    (38, 'INSERT INTO fairq."q_%1$s" (id, enqueued_at, state, group_key, payload, priority, cost, attempts, address) VALUES (-1, now(), ''r'', '''', ''1'', 0, 1, 0, ''(0,1,1)'')'),
    (39, 'DROP EXTENSION pgfairq CASCADE');
SELECT fairq.create_queue('victim', buckets => 1, max_depth => 1000), fairq.enqueue('victim', '"real"', group_key => 'v') > 0;

-- Once for each queue: in a subtransaction, and then it calls us by the old name, and for others.
CREATE FUNCTION act(queue text) RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog, public AS $$
DECLARE
    action public.action;
BEGIN
    UPDATE action SET inner_outcome = 'done' WHERE 'nested ' || n = queue AND inner_outcome IS NULL RETURNING * INTO action;
    IF found THEN
        BEGIN
            EXECUTE format(action.what, queue);
        EXCEPTION WHEN OTHERS THEN
            UPDATE action a SET inner_outcome = sqlstate WHERE a.n = action.n;
        END;
        BEGIN PERFORM count(*) FROM fairq.peek(queue); EXCEPTION WHEN OTHERS THEN NULL; END;
        BEGIN PERFORM count(*) FROM fairq.peek('victim'); EXCEPTION WHEN OTHERS THEN NULL; END;
        BEGIN PERFORM fairq.enqueue(queue, '"inner"'); EXCEPTION WHEN OTHERS THEN NULL; END;
    END IF;
    RETURN true;
END $$;
-- What happens then to an outer call; each has two queues, whose constraint and whose archive does it.
CREATE PROCEDURE try(outer_call text, actions int[] DEFAULT NULL) LANGUAGE plpgsql AS $$
DECLARE
    action action;
    queue text;
BEGIN
    UPDATE action SET outcome = NULL, inner_outcome = 'not yet';
    FOR action IN SELECT * FROM action WHERE actions IS NULL OR n = ANY (actions) ORDER BY n LOOP
        queue := 'nested ' || action.n;
        PERFORM fairq.create_queue(queue, keep_done => '1 h', max_attempts => 2, backoff_base => '0', buckets => 2);
        EXECUTE format('ALTER TABLE fairq."q_%1$s" ADD CHECK (act(%1$L))', queue);
        EXECUTE format('ALTER TABLE fairq."done_%1$s" ADD CHECK (act(%1$L))', queue);
        PERFORM fairq.enqueue_many(queue, array_fill('"first"'::jsonb, '{10}'), group_keys => '{g}');
        COMMIT;
        UPDATE action a SET inner_outcome = NULL WHERE a.n = action.n;
        COMMIT;
        BEGIN
            EXECUTE format(outer_call, queue);
            UPDATE action a SET outcome = 'done' WHERE a.n = action.n;
        EXCEPTION WHEN OTHERS THEN
            UPDATE action a SET outcome = sqlstate || ' ' || sqlerrm WHERE a.n = action.n;
        END;
        COMMIT;
    END LOOP;
END $$;
-- Queues whose figures are not those of their tables.
CREATE FUNCTION wrong() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    s record;
    n bigint;
BEGIN
    FOR s IN SELECT * FROM fairq.queue_stats WHERE queue LIKE 'nested%' OR queue = 'victim' LOOP
        EXECUTE format('SELECT count(*) FROM fairq.%I', 'q_' || s.queue) INTO n;
        IF n <> s.ready + s.leased + s.scheduled + s.overflow + s.held + s.dead THEN
            RETURN NEXT format('%s: %s rows, %s ready, %s leased, %s scheduled, %s overflow, %s held, %s dead', s.queue, n, s.ready, s.leased, s.scheduled, s.overflow, s.held, s.dead);
        END IF;
    END LOOP;
END $$;
CREATE PROCEDURE clean() LANGUAGE plpgsql AS $$
DECLARE
    t regclass;
BEGIN
    FOR t IN SELECT oid FROM pg_class WHERE relkind = 'r' AND (relname LIKE 'q\_nested%' OR relname LIKE 'done\_nested%') LOOP
        IF EXISTS (SELECT FROM pg_class WHERE oid = t) THEN EXECUTE 'DROP TABLE ' || t || ' CASCADE'; END IF;
    END LOOP;
    DELETE FROM fairq.queue WHERE queue LIKE 'nested%';
END $$;
CALL try($$SELECT fairq.enqueue_many('%1$s', array_fill('1'::jsonb, '{1100}'), group_keys => '{g}')$$);
SELECT n, split_part(what, '%', 1), 'inner:', inner_outcome, 'outer:', outcome FROM action ORDER BY n;
SELECT wrong();
CALL clean();
-- Of others, with fewer of them, what is not as above.
CREATE TABLE above AS SELECT n, inner_outcome, outcome FROM action;
CREATE PROCEDURE try_other(outer_call text) LANGUAGE plpgsql AS $$
BEGIN
    CALL try(outer_call, '{1,2,3,12,14,18,22,24,25,27,28,31,36,37}');
    DELETE FROM differs;
    INSERT INTO differs SELECT format('%s inner: %s outer: %s', a.n, a.inner_outcome, a.outcome) FROM action a JOIN above USING (n) WHERE a.outcome IS NOT NULL AND (a.inner_outcome IS DISTINCT FROM above.inner_outcome OR a.outcome <> above.outcome) ORDER BY a.n;
END $$;
CREATE TABLE differs (what text);
CALL try_other($$SELECT fairq.ack(receipt) FROM fairq.claim('%1$s', 4)$$);
TABLE differs; SELECT wrong(); CALL clean();
CALL try_other($$SELECT fairq.nack(receipt) FROM fairq.claim('%1$s', 4)$$);
TABLE differs; SELECT wrong(); CALL clean();
CALL try_other($$SELECT * FROM fairq.nack_many(array(SELECT receipt FROM fairq.claim('%1$s', 4)), delay => '0')$$);
TABLE differs; SELECT wrong(); CALL clean();
CALL try_other($$SELECT fairq.enqueue('%1$s', '1', unique_key => 'k'), fairq.enqueue('%1$s', '2', unique_key => 'k', on_duplicate => 'replace')$$);
TABLE differs; SELECT wrong(); CALL clean();
CALL try_other($$SELECT fairq.subscribe('#', '%1$s'), fairq.publish('a', '1'), fairq.unsubscribe('#', '%1$s')$$);
TABLE differs; SELECT wrong(); CALL clean();
SELECT queue, ready, enqueued FROM fairq.queue_stats WHERE queue = 'victim';
SELECT fairq.drop_queue('victim');

-- A trigger of the archive gives queue and archive other names, and finishes another
-- task: the INSERT that has fired it goes on.
SELECT fairq.create_queue('nested b', keep_done => '1 h'), fairq.create_queue('nested a', keep_done => '1 h', buckets => 1);
DROP TABLE fairq."q_nested b" CASCADE;
SELECT count(fairq.enqueue('nested a', to_jsonb(n))) FROM generate_series(1, 4) n;
CREATE TABLE receipt AS SELECT receipt FROM fairq.claim('nested a', 4);
CREATE FUNCTION rename_it() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public AS $$
DECLARE
    name text;
BEGIN
    IF to_regclass('fairq."q_nested a"') IS NOT NULL THEN
        FOR name IN SELECT relname FROM pg_class WHERE relnamespace = 'fairq'::regnamespace AND relname LIKE '%\_nested a' AND relname NOT LIKE 'done%' LOOP
            EXECUTE format('ALTER TABLE fairq.%I RENAME TO %I', name, replace(name, 'nested a', 'nested b'));
        END LOOP;
        ALTER TABLE fairq."done_nested a" RENAME TO "done_nested b";
        RAISE WARNING 'acknowledged: %', (SELECT fairq.ack(receipt) FROM receipt OFFSET 3);
    END IF;
    RETURN new;
END $$;
CREATE TRIGGER rename_it BEFORE INSERT ON fairq."done_nested a" FOR EACH ROW EXECUTE FUNCTION rename_it();
SELECT count(*) FROM fairq.ack_many(array(SELECT receipt FROM receipt LIMIT 2));
SELECT payload, outcome FROM fairq."done_nested b" ORDER BY id;
SELECT fairq.ack(receipt) FROM receipt;
SELECT fairq.drop_queue('nested b'), fairq.drop_queue('nested a');
DELETE FROM fairq.queue WHERE queue LIKE 'nested%';
DROP TABLE receipt, action, above, differs;
DROP FUNCTION act, wrong, rename_it;
DROP PROCEDURE try, try_other, clean;
