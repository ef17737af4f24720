-- unique_for: a unique key is remembered for a time, also when its task has ended.
-- One session; what happens between sessions is tested with
-- test/specs/concurrent_unique_for.spec and test/t/engine_unique_for.pl.
-- The queues of this file start with "for".
--
-- To see it fail: in src/verbs/unique_keys.c take out "waiting == NULL &&
-- remembered.found"; in enqueue.c "&& !key.remembered" (a duplicate extends the
-- time), or remembered_keys_add(); in remembered_keys.c "row_until <= now" (a key
-- is remembered after its time), or the trigger's atomic addition (a key that was
-- written with SQL, or after a pass, is not seen); remembered_keys_find() in
-- unique_keys_guess() (one of two tasks is in the overflow).

-- What became of a statement: its result, or its error and hint.
CREATE FUNCTION pg_temp.try(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    result text;
    hint text;
BEGIN
    IF statement ~ '^ *SELECT' THEN
        EXECUTE statement INTO result;
    ELSE
        EXECUTE statement;
    END IF;
    RETURN coalesce('ok ' || nullif(result, ''), 'ok');
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
    RETURN SQLSTATE || ': ' || SQLERRM || coalesce(E'\n  hint: ' || nullif(hint, ''), '');
END
$$;
\pset format unaligned
\pset null (null)
-- Let time do its work, by hand too should there be no background worker, until a condition holds.
CREATE PROCEDURE pg_temp.maintain_until(queue text, condition text) LANGUAGE plpgsql AS $$
DECLARE
    started timestamptz := clock_timestamp();
    holds boolean;
BEGIN
    LOOP
        PERFORM fairq.maintain(queue);
        COMMIT;
        EXECUTE 'SELECT ' || condition INTO holds;
        EXIT WHEN holds;
        IF clock_timestamp() > started + interval '60 s' THEN
            RAISE WARNING 'still not so: %', condition;
            EXIT;
        END IF;
        PERFORM pg_sleep(0.01);
    END LOOP;
END
$$;
CREATE FUNCTION pg_temp.all_of(queue text) RETURNS text LANGUAGE sql AS $$
    SELECT coalesce(string_agg(coalesce(unique_key || ':', '') || (payload #>> '{}') || ' ' || state, ', ' ORDER BY id), 'nothing')
        FROM fairq.tasks(queue)
$$;
-- What is remembered of a queue.
CREATE FUNCTION pg_temp.remembered(name text) RETURNS text LANGUAGE sql AS $$
    SELECT coalesce(string_agg(unique_key || ' ' || CASE WHEN until > clock_timestamp() THEN 'yes' ELSE 'over' END, ', ' ORDER BY unique_key, until), 'nothing')
        FROM fairq_internal.remembered_key WHERE queue = name
$$;

SELECT fairq.create_queue('for', buckets => 1);
-- Waiting, in flight, and ended: it is the same task.
SELECT fairq.enqueue('for', '"v1"', unique_key => 'k', unique_for => '1 h') AS first \gset
SELECT fairq.enqueue('for', '"v2"', unique_key => 'k', unique_for => '1 h') = :first AS same;
SELECT receipt FROM fairq.claim('for') \gset
SELECT fairq.enqueue('for', '"v3"', unique_key => 'k', unique_for => '1 h') = :first AS same;
SELECT pg_temp.all_of('for');
SELECT fairq.ack(:'receipt');
SELECT fairq.enqueue('for', '"v4"', unique_key => 'k', unique_for => '1 h') = :first AS same;
-- Also for a call that does not say unique_for, and one that would replace what waits.
SELECT fairq.enqueue('for', '"v5"', unique_key => 'k') = :first AS same;
SELECT fairq.enqueue('for', '"v6"', unique_key => 'k', on_duplicate => 'replace') = :first AS same;
SELECT pg_temp.all_of('for'), pg_temp.remembered('for');
-- Counted as such; what was made is counted as ever.
SELECT enqueued, deduplicated FROM fairq.queue_stats WHERE queue = 'for';
-- Other keys, no key, another queue.
SELECT fairq.create_queue('for other', buckets => 1);
SELECT fairq.enqueue('for', '"o"', unique_key => 'K') > :first AS new, fairq.enqueue('for', '"o"') > :first AS new,
    fairq.enqueue('for other', '"o"', unique_key => 'k') IS NOT NULL AS new;
SELECT pg_temp.all_of('for'), pg_temp.all_of('for other'), pg_temp.remembered('for other');
SELECT deduplicated FROM fairq.queue_stats WHERE queue = 'for other';

-- A task that waits is replaced, with what is given; the time goes on from where it began.
SELECT fairq.create_queue('for replace', buckets => 1);
SELECT fairq.enqueue('for replace', '"v1"', unique_key => 'k', unique_for => '1 h') AS first \gset
SELECT until AS until FROM fairq_internal.remembered_key WHERE queue = 'for replace' \gset
SELECT fairq.enqueue('for replace', '"v2"', unique_key => 'k', on_duplicate => 'replace', unique_for => '2 h') = :first AS same;
SELECT pg_temp.all_of('for replace'), pg_temp.remembered('for replace');
SELECT until = :'until' AS same_time FROM fairq_internal.remembered_key WHERE queue = 'for replace';
-- A call that keeps or replaces a task that is not remembered has it remembered.
SELECT fairq.create_queue('for later', buckets => 1);
SELECT fairq.enqueue('for later', '"v1"', unique_key => 'k') AS first \gset
SELECT fairq.enqueue('for later', '"v2"', unique_key => 'k', unique_for => '1 h') = :first AS same;
SELECT count(*) FROM fairq.pop('for later');
SELECT fairq.enqueue('for later', '"v3"', unique_key => 'k') = :first AS same;
-- A task in flight that is not remembered: the one behind it is, and only that.
SELECT fairq.create_queue('for held', buckets => 1);
SELECT fairq.enqueue('for held', '"v1"', unique_key => 'k') AS first \gset
SELECT receipt FROM fairq.claim('for held') \gset
SELECT fairq.enqueue('for held', '"v2"', unique_key => 'k', unique_for => '1 h') AS second \gset
SELECT :second > :first AS another, pg_temp.all_of('for held');
SELECT fairq.ack(:'receipt'), count(*) FROM fairq.pop('for held');
SELECT payload FROM fairq.pop('for held');
SELECT fairq.enqueue('for held', '"v3"', unique_key => 'k') = :second AS same;

-- Every end of a task: dead, cancelled, purged, truncated; and revived.
SELECT fairq.create_queue('for ends', buckets => 1, max_attempts => 1);
SELECT fairq.enqueue('for ends', to_jsonb(k), unique_key => k, unique_for => '1 h') FROM unnest('{dead,cancelled,purged}'::text[]) k \g /dev/null
SELECT fairq.nack(receipt, 'no') FROM fairq.claim('for ends');
SELECT fairq.cancel('for ends', id) FROM fairq.tasks('for ends') WHERE unique_key = 'cancelled';
SELECT pg_temp.all_of('for ends'), pg_temp.remembered('for ends');
SELECT count(fairq.enqueue('for ends', '0', unique_key => k)) FROM unnest('{dead,cancelled}'::text[]) k;
SELECT pg_temp.all_of('for ends');
SELECT fairq.revive('for ends', id) FROM fairq.dead_tasks WHERE queue = 'for ends';
SELECT pg_temp.all_of('for ends');
SELECT fairq.purge('for ends');
SELECT count(fairq.enqueue('for ends', '0', unique_key => k)) FROM unnest('{dead,cancelled,purged}'::text[]) k;
TRUNCATE fairq.q_for;
SELECT fairq.enqueue('for', '"v7"', unique_key => 'k') IS NOT NULL;
SELECT pg_temp.all_of('for ends'), pg_temp.all_of('for');

-- A rollback forgets, to a savepoint too.
SELECT fairq.create_queue('for rollback', buckets => 1);
BEGIN;
SELECT fairq.enqueue('for rollback', '"v1"', unique_key => 'k', unique_for => '1 h') IS NOT NULL;
ROLLBACK;
SELECT pg_temp.all_of('for rollback'), pg_temp.remembered('for rollback');
BEGIN;
SAVEPOINT s;
SELECT fairq.enqueue('for rollback', '"v2"', unique_key => 'k', unique_for => '1 h') IS NOT NULL;
ROLLBACK TO s;
SELECT fairq.enqueue('for rollback', '"v3"', unique_key => 'k', unique_for => '1 h') AS third \gset
-- In one transaction, with all that becomes of the task.
SELECT fairq.enqueue('for rollback', '"v4"', unique_key => 'k', unique_for => '1 h') = :third AS same;
SELECT count(*) FROM fairq.pop('for rollback');
SELECT fairq.cancel('for rollback', :third);
SELECT fairq.enqueue('for rollback', '"v5"', unique_key => 'k') = :third AS same;
COMMIT;
SELECT pg_temp.all_of('for rollback'), pg_temp.remembered('for rollback');
-- An old snapshot does not hide what is remembered.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT fairq.enqueue('for rollback', '"v6"', unique_key => 'r', unique_for => '1 h') AS sixth \gset
SELECT count(*) FROM fairq.pop('for rollback');
SELECT fairq.cancel('for rollback', :sixth);
SELECT fairq.enqueue('for rollback', '"v7"', unique_key => 'r') = :sixth AS same;
COMMIT;

-- After its time a key is free, and its row goes.
SELECT fairq.create_queue('for over', buckets => 1);
SELECT fairq.enqueue('for over', '"v1"', unique_key => 'k', unique_for => '1 ms') AS first \gset
SELECT fairq.enqueue('for over', '"long"', unique_key => 'l', unique_for => '10 y') AS long \gset
SELECT count(*) FROM fairq.pop('for over', 10);
CALL pg_temp.maintain_until('for over', $$ pg_temp.remembered('for over') = 'l yes' $$);
SELECT fairq.enqueue('for over', '"v2"', unique_key => 'k') > :first AS new, fairq.enqueue('for over', '"v2"', unique_key => 'l') = :long AS same;
SELECT pg_temp.all_of('for over');
-- Also if nobody has come to delete it, or has it in hand.
SELECT fairq.create_queue('for unswept', buckets => 1);
BEGIN;
SELECT fairq.enqueue('for unswept', '"v1"', unique_key => 'k', unique_for => '1 ms') AS first \gset
SELECT count(*) FROM fairq.pop('for unswept');
SELECT fairq.cancel('for unswept', :first) AND pg_sleep(0.002) IS NOT NULL;
SELECT pg_temp.remembered('for unswept');
SELECT fairq.enqueue('for unswept', '"v2"', unique_key => 'k', unique_for => '1 h') > :first AS new;
SELECT pg_temp.remembered('for unswept');
COMMIT;
-- Once a pass has found that a queue remembers nothing, the next key is seen all the same: its own, one by SQL.
SELECT fairq.create_queue('for none', buckets => 1);
SELECT fairq.maintain('for none');
SELECT fairq.enqueue('for none', '"v1"', unique_key => 'k', unique_for => '1 h') AS first \gset
SELECT count(*) FROM fairq.pop('for none');
SELECT fairq.enqueue('for none', '"v2"', unique_key => 'k') = :first AS same;
SELECT fairq.maintain('for other');
INSERT INTO fairq_internal.remembered_key VALUES ('for other', 'sql', 12345, now() + interval '1 h'), ('for other', 'sql', 1, now() - interval '1 h');
SELECT fairq.enqueue('for other', '"sql"', unique_key => 'sql');

-- Many at once: unique_for is for all of them that have a key; twice the same is one.
SELECT fairq.create_queue('for many', buckets => 1);
SELECT fairq.enqueue('for many', '"a"', unique_key => 'a', unique_for => '1 h') AS a \gset
SELECT count(*) FROM fairq.pop('for many');
SELECT fairq.enqueue_many('for many', '{"\"1\"","\"2\"","\"3\"","\"4\"","\"5\""}', unique_keys => '{b,a,NULL,c,b}', unique_for => '1 h') AS ids \gset
SELECT (:'ids'::bigint[])[2] = :a AS a, (:'ids'::bigint[])[1] = (:'ids'::bigint[])[5] AS b;
SELECT pg_temp.all_of('for many'), pg_temp.remembered('for many');
SELECT count(*) FROM fairq.pop('for many', 10);
SELECT fairq.enqueue_many('for many', '{1,2,3}', unique_keys => '{a,b,c}') = ARRAY[:a, (:'ids'::bigint[])[1], (:'ids'::bigint[])[4]] AS same;
SELECT enqueued, deduplicated FROM fairq.queue_stats WHERE queue = 'for many';
-- What is remembered takes none of the room that others of the call have.
SELECT fairq.create_queue('for room', buckets => 1, max_ready_per_group => 2);
SELECT fairq.enqueue('for room', '"a"', unique_key => 'a', unique_for => '1 h') AS a \gset
SELECT count(*) FROM fairq.pop('for room');
BEGIN;
SELECT cardinality(fairq.enqueue_many('for room', '{1,2,3}', unique_keys => '{a,NULL,NULL}'));
SELECT pg_temp.all_of('for room');
COMMIT;
-- Published.
SELECT fairq.subscribe('for.topic', q) FROM unnest('{for many,for none}'::text[]) q;
SELECT fairq.publish('for.topic', '"p"', unique_key => 'p', unique_for => '1 h');
SELECT count(*) FROM (SELECT id FROM fairq.pop('for many', 10) UNION ALL SELECT id FROM fairq.pop('for none', 10)) p;
SELECT fairq.publish('for.topic', '"p"', unique_key => 'p');
SELECT pg_temp.all_of('for many'), pg_temp.all_of('for none');

-- A producer needs no more than INSERT, and cannot read what is remembered.
CREATE ROLE for_producer;
GRANT INSERT ON "fairq"."q_for none" TO for_producer;
SET ROLE for_producer;
SELECT fairq.enqueue('for none', '"r"', unique_key => 'role', unique_for => '1 h') IS NOT NULL;
SELECT pg_temp.try('SELECT count(*) FROM fairq_internal.remembered_key');
SELECT pg_temp.try('DELETE FROM fairq_internal.remembered_key');
CREATE TEMP TABLE mine (queue int);
SELECT pg_temp.try('CREATE TRIGGER t AFTER INSERT ON mine FOR EACH ROW EXECUTE FUNCTION fairq_internal.remembered_key_written()');
-- What it may not do to a queue, it does not by forgetting.
SELECT pg_temp.try('SELECT fairq.forget_key(''for none'', ''role'')');
SELECT pg_temp.try('SELECT fairq.forget_keys(''for none'')');
-- A task that has expired when it is enqueued is never done, and keeps none from being done.
SELECT fairq.enqueue('for none', '"never"', unique_key => 'poison', unique_for => '10 years', expires_at => now() - interval '1 s') IS NOT NULL;
SELECT fairq.enqueue('for none', '"real"', unique_key => 'poison') IS NOT NULL;
-- One that expires later is remembered: whoever may purge the queue undoes it.
SELECT fairq.enqueue('for none', '"never"', unique_key => 'poison 2', unique_for => '10 years', expires_at => now() + interval '1 h') IS NOT NULL;
RESET ROLE;
SELECT payload FROM fairq.tasks('for none') WHERE unique_key = 'poison' AND expires_at IS NULL;
SELECT fairq.forget_key('for none', 'poison 2'), fairq.forget_key('for none', 'poison 2'), fairq.forget_key('for none', 'poison');
SELECT fairq.create_queue('for forget');
SELECT count(fairq.enqueue('for forget', '1', unique_key => k, unique_for => '1 h')) FROM unnest('{a,b,a}'::text[]) k;
BEGIN;
SELECT fairq.forget_keys('for forget');
ROLLBACK;
SELECT fairq.forget_keys('for forget') AS after_rollback;
SELECT fairq.drop_queue('for forget');
SELECT pg_temp.try('SELECT fairq.forget_key(''for none'', NULL)');
SELECT pg_temp.try('SELECT fairq.forget_key(''for nobody'', ''k'')');
-- The trigger is of one table, whoever puts it on another.
SELECT pg_temp.try('CREATE TRIGGER t AFTER INSERT ON mine FOR EACH ROW EXECUTE FUNCTION fairq_internal.remembered_key_written()');
SELECT pg_temp.try('INSERT INTO mine VALUES (1)');
DROP TABLE pg_temp.mine;
DROP OWNED BY for_producer;
DROP ROLE for_producer;

-- A queue that is dropped takes its keys along; one that is renamed loses them to its name.
SELECT fairq.drop_queue('for many');
SELECT pg_temp.remembered('for many');
SELECT fairq.create_queue('for many', buckets => 1);
SELECT fairq.enqueue('for many', '"a"', unique_key => 'a') IS NOT NULL;
SELECT pg_temp.all_of('for many');
DROP TABLE "fairq"."q_for none";
SELECT pg_temp.remembered('for none');
SELECT fairq.create_queue('for none', buckets => 1);
SELECT pg_temp.remembered('for none');

-- Bad input.
SELECT pg_temp.try($$ SELECT fairq.enqueue('for', '1', unique_for => '1 h') $$);
SELECT pg_temp.try($$ SELECT fairq.enqueue_many('for', '{1}', unique_for => '1 h') $$);
SELECT pg_temp.try($$ SELECT fairq.publish('for.topic', '1', unique_for => '1 h') $$);
SELECT interval, pg_temp.try(format($$ SELECT fairq.enqueue('for', '1', unique_key => 'bad', unique_for => %L) $$, interval))
    FROM unnest('{0,-1 s,11 years,178000000 years,1 mon -40 days,NULL}'::text[]) interval;
SELECT pg_temp.try($$ SELECT fairq.enqueue_many('for', '{1}', unique_keys => '{bad}', unique_for => '0') $$);
SELECT pg_temp.remembered('for');

SELECT fairq.drop_queue(queue) FROM fairq.queues WHERE queue LIKE 'for%' ORDER BY queue;
SELECT count(*) FROM fairq_internal.remembered_key;
