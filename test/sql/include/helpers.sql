\set ECHO none
-- What several tests of test/sql share. A test includes it with \i and the path from
-- the top of the tree, where pg_regress runs psql. Its lines are not echoed, so that
-- expected/ has the test only. All is in pg_temp: it is gone with the session.

-- What became of a statement: its result, or its error with detail and hint. (Where a row
-- is refused the detail is that row, which has times in it.)
CREATE FUNCTION pg_temp.try(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    result text;
    detail text;
    hint text;
BEGIN
    IF statement ~ '^ *SELECT' THEN
        EXECUTE statement INTO result;
    ELSE
        EXECUTE statement;
    END IF;
    RETURN coalesce('ok ' || nullif(result, ''), 'ok');
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT, detail = PG_EXCEPTION_DETAIL;
    RETURN SQLSTATE || ': ' || SQLERRM
        || coalesce(E'\n  detail: ' || nullif(CASE WHEN SQLSTATE NOT LIKE '235%' THEN detail END, ''), '')
        || coalesce(E'\n  hint: ' || nullif(hint, ''), '');
END
$$;

-- Waits until a condition (what follows SELECT) holds. Time has to do its work: passes are
-- made by hand, should there be no worker.
--
-- The lock waits for a pass of the worker to end, and keeps it from the next. So the pass
-- by hand is a whole one, and the condition is asked when nobody is at the queue: what
-- it sees is committed, and claims find it. Without the lock a worker that is held up
-- between counting a task and offering it would have the test go on too early: seen in
-- overflow, one run of twenty, with the worker stopped for moments at random.
CREATE PROCEDURE pg_temp.maintain_until(queue text, condition text) LANGUAGE plpgsql AS $$
DECLARE
    lock_table text := format('LOCK TABLE fairq.%I IN SHARE MODE', 'q_' || queue);
    started timestamptz := clock_timestamp();
    holds boolean;
BEGIN
    LOOP
        EXECUTE lock_table;
        PERFORM fairq.maintain(queue);
        COMMIT;
        EXECUTE lock_table;
        EXECUTE 'SELECT ' || condition INTO holds;
        COMMIT;
        EXIT WHEN holds;
        IF clock_timestamp() > started + interval '60 s' THEN
            RAISE WARNING 'still not so: %', condition;
            EXIT;
        END IF;
        PERFORM pg_sleep(0.01);
    END LOOP;
END
$$;

-- Every task of a queue with its key, its state, its attempts and its losses, in the order
-- of ids.
CREATE FUNCTION pg_temp.all_of(queue text) RETURNS text LANGUAGE sql AS $$
    SELECT coalesce(string_agg(coalesce(unique_key || ':', '') || (payload #>> '{}') || ' ' || state || CASE WHEN attempts > 0 THEN ' ' || attempts ELSE '' END || CASE WHEN lost > 0 THEN ' lost ' || lost ELSE '' END, ', ' ORDER BY id), 'nothing')
        FROM fairq.tasks(queue)
$$;

-- The error of a task that was lost, without what is another one in each run.
CREATE FUNCTION pg_temp.masked(error text) RETURNS text LANGUAGE sql AS $$
    SELECT regexp_replace(regexp_replace(error, 'process \d+', 'process N', 'g'), 'after [\d.]+ s', 'after T s', 'g')
$$;

-- The receipt of task n of those that the test keeps in a table claimed. (In plpgsql,
-- for that table comes later; a test may replace it.)
CREATE FUNCTION pg_temp.receipt(n int) RETURNS uuid LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT receipt FROM claimed WHERE payload = to_jsonb(n));
END
$$;
\set ECHO all
