-- What clients have in place of SQL on the tables: tasks_page, done_page,
-- get_task_by_key, get_done_task, set_progress and final failures. None runs what the owner
-- has put into an index. Fails without the two stretches of archive_page(), the
-- offers of note_progress(), and settlement->final in put_back(). The queues of this
-- file start with "pag", its roles with regress_fairq_pag.
\i test/sql/include/helpers.sql
\pset format unaligned
\pset tuples_only on
\pset null (null)
CREATE ROLE regress_fairq_pag;
CREATE ROLE regress_fairq_pag_reader;

SELECT fairq.create_queue('pag', keep_done => '1 day', lease => '1 h', max_attempts => 9, max_ready_per_group => 4);
SELECT count(fairq.enqueue('pag', to_jsonb(n), group_key => 'g' || n % 2, unique_key => 'key ' || n,
    run_at => CASE WHEN n > 10 THEN '2100-01-01'::timestamptz END, lease => CASE WHEN n = 3 THEN interval '7 min' END)) FROM generate_series(1, 12) n;
SELECT min(id) AS first FROM fairq.tasks('pag') \gset
CREATE TEMP TABLE numbers AS SELECT id, id - :first + 1 AS n FROM fairq.tasks('pag');
CREATE FUNCTION pg_temp.n(ids bigint[]) RETURNS bigint[] LANGUAGE sql AS $$ SELECT array_agg(n ORDER BY place) FROM unnest(ids) WITH ORDINALITY u(id, place) JOIN numbers USING (id) $$;
CREATE FUNCTION pg_temp.page(after bigint, max_rows int, max_tasks int, state text DEFAULT NULL, group_key text DEFAULT NULL) RETURNS text LANGUAGE sql AS $$
    SELECT format('%s on from %s', pg_temp.n(ids), coalesce((SELECT n FROM numbers WHERE id = last_id)::text, 'nowhere'))
        FROM fairq_internal.tasks_page('pag', (SELECT id FROM numbers WHERE n = after), max_rows, max_tasks, state, group_key) $$;

-- Pages: so many rows are looked at, so many tasks found, whichever comes first.
SELECT pg_temp.page(NULL, 5, 100);
SELECT pg_temp.page(5, 100, 3);
SELECT pg_temp.page(8, 100, 100);
SELECT pg_temp.page(NULL, 100, 100, group_key => 'g1');
SELECT pg_temp.page(NULL, 6, 100, 'scheduled');
SELECT pg_temp.page(6, 100, 100, 'scheduled');
SELECT pg_temp.page(NULL, 100, 100, 'overflow');
SELECT count(*) FROM fairq.claim('pag', 3);
SELECT pg_temp.page(NULL, 100, 100, 'leased'), pg_temp.page(1, 1, 100, 'leased'), pg_temp.page(NULL, 100, 100, 'leased', 'g0');
SELECT pg_temp.page(NULL, 100, 100, 'ready');
SELECT ids, last_id FROM fairq_internal.tasks_page('pag', 9223372036854775807, 100, 100, NULL, NULL);
SELECT pg_temp.page(NULL, 0, 1);
SELECT pg_temp.page(NULL, 1, 10001);
SELECT pg_temp.page(NULL, 1, 1, 'gone');

-- By key: with the task's own lease, and none that is dead.
SELECT n, state, unique_key, lease FROM fairq.get_task_by_key('pag', 'key 3') JOIN numbers USING (id);
SELECT count(*) FROM fairq.get_task_by_key('pag', 'key');

-- How far: beside the headers there are; not after a rollback, nor by another's receipt.
SELECT id AS task, receipt FROM fairq.leases JOIN numbers USING (id) WHERE n = 1 \gset
BEGIN;
SELECT fairq.set_progress(:'receipt', '"undone"');
ROLLBACK;
SELECT headers FROM fairq.get_task('pag', :task);
SELECT fairq.set_progress(:'receipt', '{"done": 1}'), fairq.set_progress(:'receipt', '{"done": 2}');
UPDATE fairq.q_pag SET headers = headers || '{"mine": 1}' WHERE id = :task;
SELECT fairq.set_progress(:'receipt', 'null');
SELECT headers, state FROM fairq.get_task('pag', :task);
UPDATE fairq.q_pag SET headers = '[1]' WHERE id = :task;
SELECT fairq.set_progress(:'receipt', '3');
SELECT fairq.set_progress(gen_random_uuid(), '3');
-- Each moved the row: it is claimed again from where it is.
SELECT fairq.release(:'receipt'), fairq.set_progress(:'receipt', '4');
SELECT id = :task AS it, headers FROM fairq.claim('pag', 100) ORDER BY id LIMIT 1;
SELECT id, receipt FROM fairq.leases WHERE id = :task \gset

-- The last attempt, whatever the task says; those who wait for it are told.
SELECT fairq.enqueue('pag', '"after"', after => ARRAY[:task], on_dead => 'run') AS successor \gset
BEGIN;
SELECT fairq.nack(:'receipt', 'undone', final => true);
ROLLBACK;
SELECT fairq.nack(:'receipt', 'no', '1 s', true);
SELECT fairq.nack(:'receipt', 'never', final => true), fairq.nack(:'receipt', 'again', final => true);
SELECT state, attempts, max_attempts, last_error FROM fairq.get_task('pag', :task);
SELECT count(*) FROM fairq.get_task_by_key('pag', 'key 1');
SELECT state <> 'held' FROM fairq.get_task('pag', :successor);
SELECT nacked, dead_total, dead FROM fairq.queue_stats WHERE queue = 'pag';

-- Done tasks: many of one time, and some with times that only SQL writes.
SELECT fairq.create_queue('pag done', keep_done => '10 years');
INSERT INTO fairq."done_pag done" (id, enqueued_at, done_at, priority, cost, attempts, outcome, group_key, payload)
    SELECT n, '2100-01-01', CASE WHEN n <= 10 THEN '2100-02-01'::timestamptz ELSE '2100-03-01'::timestamptz + n * interval '1 s' END,
        4, 1, 1, CASE WHEN n % 3 = 0 THEN 'dead' ELSE 'acked' END, 'g' || n % 2, to_jsonb(n) FROM generate_series(1, 15) n;
INSERT INTO fairq."done_pag done" (id, enqueued_at, done_at, priority, cost, attempts, outcome, group_key, payload)
    SELECT 100 + row_number() OVER (), '2100-01-01', at, 4, 1, 1, 'acked', 'g', '0' FROM unnest('{infinity,-infinity}'::timestamptz[]) at;
CREATE FUNCTION pg_temp.pages(max_rows int, max_tasks int, outcome text DEFAULT NULL, group_key text DEFAULT NULL) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    page record;
    at timestamptz;
    id bigint;
BEGIN
    FOR i IN 1 .. 20 LOOP
        SELECT * INTO page FROM fairq_internal.done_page('pag done', at, id, max_rows, max_tasks, outcome, group_key);
        RETURN NEXT page.ids::text || CASE WHEN cardinality(page.ids) <> cardinality(page.times) THEN ' times?' ELSE '' END;
        at := page.last_time;
        id := page.last_id;
        EXIT WHEN id IS NULL;
    END LOOP;
END
$$;
SELECT pg_temp.pages(100, 100);
SELECT string_agg(p, ' ') FROM pg_temp.pages(4, 100) p;
SELECT string_agg(p, ' ') FROM pg_temp.pages(100, 3) p;
SELECT string_agg(p, ' ') FROM pg_temp.pages(4, 2, 'dead', 'g1') p;
SELECT id, outcome, payload, result, (done_at AT TIME ZONE 'UTC')::text FROM fairq.get_done_task('pag done', 12);
SELECT id, done_at FROM fairq.get_done_task('pag done', 101);
SELECT count(*) FROM fairq.get_done_task('pag done', 99);
-- An id twice, as after a failover: the latest, or that of a time.
INSERT INTO fairq."done_pag done" (id, enqueued_at, done_at, priority, cost, attempts, outcome, group_key, payload) VALUES (12, '2100-01-01', '2099-01-01', 4, 1, 1, 'acked', 'g', '"old"');
SELECT payload FROM fairq.get_done_task('pag done', 12);
SELECT payload FROM fairq.get_done_task('pag done', 12, '2099-01-01');
-- A queue that keeps nothing has no page; a table that is none is said to be.
SELECT fairq.create_queue('pag nothing');
SELECT * FROM fairq_internal.done_page('pag nothing', NULL, NULL, 1, 1, NULL, NULL);
SELECT count(*) FROM fairq.get_done_task('pag nothing', 1);
ALTER TABLE fairq."done_pag done" ENABLE ROW LEVEL SECURITY;
ALTER TABLE fairq."done_pag done" OWNER TO regress_fairq_pag;
SELECT count(*) FROM fairq.get_done_task('pag done', 12);
ALTER TABLE fairq."q_pag done" OWNER TO regress_fairq_pag;
SELECT count(*) FROM fairq.get_done_task('pag done', 12);

-- Privileges: a reader of the queue is none of the done table, and the other way round.
SET ROLE regress_fairq_pag_reader;
SELECT count(*) FROM fairq_internal.tasks_page('pag', NULL, 1, 1, NULL, NULL);
SELECT count(*) FROM fairq.get_task_by_key('pag', 'key 3');
SELECT count(*) FROM fairq_internal.done_page('pag', NULL, NULL, 1, 1, NULL, NULL);
SELECT count(*) FROM fairq.get_done_task('pag', 1);
RESET ROLE;
GRANT SELECT ON fairq.q_pag TO regress_fairq_pag_reader;
GRANT SELECT ON fairq."done_pag done" TO regress_fairq_pag_reader;
SELECT fairq.extend(receipt) IS NOT NULL AS good, receipt FROM fairq.leases WHERE queue = 'pag' LIMIT 1 \gset
SET ROLE regress_fairq_pag_reader;
SELECT count(*) FROM fairq_internal.tasks_page('pag', NULL, 1, 1, NULL, NULL);
SELECT count(*) FROM fairq.get_task_by_key('pag', 'key 3');
SELECT count(*) FROM fairq.get_done_task('pag', 1);
SELECT count(*) FROM fairq.get_done_task('pag done', 12);
SELECT fairq.set_progress(:'receipt', '1');
SELECT fairq.nack(:'receipt', final => true);
RESET ROLE;
ALTER TABLE fairq."done_pag done" DISABLE ROW LEVEL SECURITY;

-- What the owner has put into indexes does not run.
CREATE FUNCTION pg_temp.ran(x bigint) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE WARNING 'the code of the owner runs as %', current_user; RETURN true; END $$;
SET client_min_messages = error;    -- it runs when the index is created
CREATE INDEX pag_evil ON fairq."done_pag done" (id) WHERE pg_temp.ran(1);
CREATE INDEX pag_evil_too ON fairq.q_pag (id) WHERE pg_temp.ran(1);
RESET client_min_messages;
\o /dev/null
SELECT fairq.get_done_task('pag done', 12), fairq_internal.done_page('pag done', NULL, NULL, 100, 100, NULL, NULL),
    fairq_internal.tasks_page('pag', NULL, 100, 100, NULL, NULL), fairq.get_task_by_key('pag', 'key 3');
\o
DROP INDEX fairq.pag_evil, fairq.pag_evil_too;
SELECT fairq.drop_queue('pag'), fairq.drop_queue('pag done'), fairq.drop_queue('pag nothing');
DROP ROLE regress_fairq_pag, regress_fairq_pag_reader;
