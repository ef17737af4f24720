-- after and on_dead: tasks that wait for the end of others. One session; what happens
-- between sessions is tested with test/specs/concurrent_after.spec and
-- test/t/engine_after.pl. The queues of this file start with "after".
--
-- To see it fail: take the look out of write_waits() in src/verbs/enqueue.c (what has
-- failed before is not seen); in successors.c has_ended() (a task is cancelled for one
-- that was revived) or dependencies_fail() (one that was cancelled counts as done);
-- dependencies_blocked() out of held_tasks.c (one of a key does not wait for the other
-- task); dependencies_no_circle() out of unique_keys.c (the error comes at the commit).
-- Without pending_predecessors_has() in dependencies.c, and no worker that looks in
-- between, a pass lets run what its own transaction has cancelled a task before.
\i test/sql/include/helpers.sql
-- What waits for what.
CREATE FUNCTION pg_temp.waits(name text) RETURNS text LANGUAGE sql AS $$
    SELECT coalesce(string_agg(format('%s after %s%s%s', t.payload #>> '{}', coalesce(p.payload #>> '{}', 'one that is gone'), nullif(' ' || on_dead, ' hold'), CASE WHEN failed THEN ' failed' END), ', ' ORDER BY task, predecessor), 'nothing')
        FROM fairq.dependencies d LEFT JOIN fairq.tasks(waits.name) t ON t.id = task LEFT JOIN fairq.tasks(waits.name) p ON p.id = predecessor WHERE d.queue = waits.name
$$;
-- The id of the task of a payload.
CREATE FUNCTION pg_temp.id(name text, wanted text) RETURNS bigint LANGUAGE sql AS $$
    SELECT id FROM fairq.tasks(name) WHERE payload = to_jsonb(wanted)
$$;
\pset format unaligned
\pset tuples_only on

SELECT fairq.create_queue('after', buckets => 1, keep_done => '1 d', max_attempts => 1);
-- Fan-in: the last of several lets it run, in its own transaction.
SELECT fairq.enqueue('after', '"a"') AS a \gset
SELECT fairq.enqueue('after', '"b"') AS b \gset
SELECT fairq.enqueue('after', '"c"', after => ARRAY[:a, :b]) AS c \gset
SELECT pg_temp.all_of('after'), pg_temp.waits('after');
SELECT held FROM fairq.queue_stats WHERE queue = 'after';
SELECT queue, task = :c, predecessor = :a, on_dead, failed FROM fairq.dependencies WHERE predecessor = :a;
SELECT payload FROM fairq.pop('after');
SELECT pg_temp.all_of('after'), pg_temp.waits('after');
BEGIN;
SELECT payload FROM fairq.pop('after');
ROLLBACK;
SELECT pg_temp.all_of('after'), pg_temp.waits('after');
SELECT payload FROM fairq.pop('after');
SELECT pg_temp.all_of('after'), pg_temp.waits('after');
SELECT payload FROM fairq.pop('after', 10);
-- What has ended by then counts as ended, archived or not; each id counts once; none is none.
SELECT fairq.enqueue('after', '"d"', after => ARRAY[:a, :b, :c, :a]) IS NOT NULL;
SELECT fairq.enqueue('after', '"e"', after => '{}') IS NOT NULL;
SELECT fairq.enqueue('after', '"f"', after => NULL, on_dead => NULL) IS NOT NULL;
SELECT fairq.enqueue('after', '"g"', after => array_agg(pg_temp.id('after', 'f')) || ARRAY[:a]) IS NOT NULL FROM generate_series(1, 20000);
SELECT pg_temp.all_of('after'), pg_temp.waits('after');
SELECT payload FROM fairq.pop('after', 10);
SELECT payload FROM fairq.pop('after', 10);

-- A chain, enqueued in one transaction, and a diamond.
BEGIN;
SELECT fairq.enqueue('after', '"1"') AS one \gset
SELECT fairq.enqueue('after', '"2"', after => ARRAY[:one]) AS two \gset
SELECT fairq.enqueue('after', '"3"', after => ARRAY[:two]) AS three \gset
COMMIT;
SELECT pg_temp.all_of('after'), pg_temp.waits('after');
SELECT payload FROM fairq.pop('after', 10);
SELECT payload FROM fairq.pop('after', 10);
SELECT payload FROM fairq.pop('after', 10);
SELECT fairq.enqueue('after', '"top"') AS top \gset
SELECT fairq.enqueue('after', '"left"', after => ARRAY[:top]) AS left \gset
SELECT fairq.enqueue('after', '"right"', after => ARRAY[:top]) AS right \gset
SELECT fairq.enqueue('after', '"bottom"', after => ARRAY[:right, :left]) AS bottom \gset
SELECT pg_temp.waits('after');
SELECT payload FROM fairq.pop('after', 10);
SELECT pg_temp.all_of('after'), pg_temp.waits('after');
SELECT payload FROM fairq.pop('after', 10);
SELECT payload FROM fairq.pop('after', 10);
-- Enqueued and ended in one transaction; ended in a part of one that is rolled back.
BEGIN;
SELECT fairq.enqueue('after', '"x"') AS x \gset
SELECT fairq.enqueue('after', '"y"', after => ARRAY[:x]) AS y \gset
SELECT fairq.cancel('after', :x);
COMMIT;
CALL pg_temp.maintain_until('after', 'pg_temp.waits(''after'') ~ ''failed|nothing''');
SELECT pg_temp.all_of('after'), pg_temp.waits('after');
SELECT fairq.cancel('after', :y);
CALL pg_temp.maintain_until('after', 'pg_temp.waits(''after'') = ''nothing''');
SELECT fairq.enqueue('after', '"x"') AS x \gset
SELECT fairq.enqueue('after', '"y"', after => ARRAY[:x]) AS y \gset
BEGIN;
SAVEPOINT s;
SELECT payload FROM fairq.pop('after');
ROLLBACK TO s;
SAVEPOINT s;
SELECT fairq.cancel('after', :x);
ROLLBACK TO s;
COMMIT;
SELECT pg_temp.all_of('after'), pg_temp.waits('after');
BEGIN;
SAVEPOINT s;
SELECT payload FROM fairq.pop('after');
RELEASE s;
COMMIT;
SELECT pg_temp.all_of('after'), pg_temp.waits('after');
SELECT payload FROM fairq.pop('after');
-- By one statement that claims and settles, and in a transaction with an old snapshot.
SELECT fairq.enqueue('after', '"x"') AS x \gset
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM pg_class WHERE false;
SELECT fairq.enqueue('after', '"y"', after => ARRAY[:x]) AS y \gset
SELECT fairq.ack(receipt) FROM fairq.claim('after');
COMMIT;
SELECT payload FROM fairq.pop('after');

-- A predecessor that fails. Dead, and hold: until it is revived and done.
SELECT fairq.enqueue('after', '"p"') AS p \gset
SELECT fairq.enqueue('after', '"h"', after => ARRAY[:p]) AS h \gset
SELECT fairq.enqueue('after', '"c"', after => ARRAY[:p], on_dead => 'cancel') AS c \gset
SELECT fairq.enqueue('after', '"cc"', after => ARRAY[:c], on_dead => 'cancel') AS cc \gset
SELECT fairq.enqueue('after', '"cr"', after => ARRAY[:c], on_dead => 'run') AS cr \gset
SELECT fairq.enqueue('after', '"r"', after => ARRAY[:p], on_dead => 'run') AS r \gset
SELECT fairq.nack(receipt, 'broken') FROM fairq.claim('after');
CALL pg_temp.maintain_until('after', 'pg_temp.all_of(''after'') !~ ''c (held|ready)''');
SELECT pg_temp.all_of('after'), pg_temp.waits('after');
SELECT payload, outcome FROM fairq.done_tasks WHERE queue = 'after' AND id IN (:c, :cc) ORDER BY id;
SELECT payload FROM fairq.pop('after', 10);
-- Of one that is dead when the other is enqueued the same holds, at once.
SELECT fairq.enqueue('after', '"h2"', after => ARRAY[:p]) AS h2 \gset
SELECT fairq.enqueue('after', '"c2"', after => ARRAY[:p], on_dead => 'cancel') AS c2 \gset
SELECT fairq.enqueue('after', '"r2"', after => ARRAY[:p], on_dead => 'run') AS r2 \gset
CALL pg_temp.maintain_until('after', 'pg_temp.id(''after'', ''c2'') IS NULL AND pg_temp.waits(''after'') !~ ''p,''');
SELECT pg_temp.all_of('after'), pg_temp.waits('after');
SELECT outcome FROM fairq.done_tasks WHERE queue = 'after' AND id = :c2;
SELECT payload FROM fairq.pop('after', 10);
SELECT fairq.revive('after', :p);
SELECT pg_temp.all_of('after'), pg_temp.waits('after');
SELECT payload FROM fairq.pop('after', 1);
SELECT pg_temp.all_of('after'), pg_temp.waits('after');
SELECT payload FROM fairq.pop('after', 10);
-- Revived in the transaction in which it died: it has not failed.
SELECT fairq.enqueue('after', '"p"') AS p \gset
SELECT fairq.enqueue('after', '"c"', after => ARRAY[:p], on_dead => 'cancel') AS c \gset
BEGIN;
SELECT fairq.nack(receipt) FROM fairq.claim('after');
SELECT fairq.revive('after', :p);
COMMIT;
SELECT pg_temp.waits('after');
SELECT payload FROM fairq.pop('after');
SELECT payload FROM fairq.pop('after');
-- Cancelled, purged with its group, expired.
CREATE PROCEDURE pg_temp.fails(how text, statement text) LANGUAGE plpgsql AS $$
DECLARE
    p bigint := fairq.enqueue('after', '"p"', 'g', expires_at => CASE how WHEN 'expired' THEN clock_timestamp() + interval '50 ms' END);
BEGIN
    PERFORM fairq.enqueue('after', '"h"', 'h', after => ARRAY[p]);
    PERFORM fairq.enqueue('after', '"c"', 'h', after => ARRAY[p], on_dead => 'cancel');
    PERFORM fairq.enqueue('after', '"r"', 'h', after => ARRAY[p], on_dead => 'run');
    COMMIT;
    EXECUTE replace(statement, '$1', p::text);
    COMMIT;
END
$$;
CALL pg_temp.fails('cancelled', 'SELECT fairq.cancel(''after'', $1)');
CALL pg_temp.maintain_until('after', 'pg_temp.id(''after'', ''c'') IS NULL');
SELECT pg_temp.all_of('after'), pg_temp.waits('after');
SELECT fairq.purge('after');
CALL pg_temp.fails('purged', 'SELECT fairq.purge_group(''after'', ''g'')');
CALL pg_temp.maintain_until('after', 'pg_temp.id(''after'', ''c'') IS NULL');
SELECT pg_temp.all_of('after'), pg_temp.waits('after');
SELECT fairq.purge('after');
CALL pg_temp.fails('expired', 'SELECT 1');
CALL pg_temp.maintain_until('after', 'pg_temp.id(''after'', ''p'') IS NULL AND pg_temp.id(''after'', ''c'') IS NULL');
SELECT pg_temp.all_of('after'), pg_temp.waits('after');
-- One that is held can be cancelled; and a purge takes all, and nothing of it is left.
SELECT fairq.cancel('after', pg_temp.id('after', 'h'));
CALL pg_temp.maintain_until('after', 'pg_temp.waits(''after'') = ''nothing''');
SELECT fairq.purge('after');
SELECT fairq.enqueue('after', '"p"') AS p \gset
SELECT count(fairq.enqueue('after', to_jsonb(n), after => ARRAY[:p])) FROM generate_series(1, 100) n;
SELECT fairq.purge('after');
CALL pg_temp.maintain_until('after', 'NOT EXISTS (SELECT FROM fairq.dependency WHERE queue = ''after'')');
-- One that has a deadline expires while it is held; what waits for it learns it.
SELECT fairq.enqueue('after', '"p"') AS p \gset
SELECT fairq.enqueue('after', '"e"', after => ARRAY[:p], expires_at => clock_timestamp() + interval '20 ms') AS e \gset
SELECT fairq.enqueue('after', '"s"', after => ARRAY[:e], on_dead => 'run') IS NOT NULL;
CALL pg_temp.maintain_until('after', 'pg_temp.id(''after'', ''e'') IS NULL AND pg_temp.waits(''after'') = ''nothing''');
SELECT pg_temp.all_of('after'), outcome FROM fairq.done_tasks WHERE id = :e AND queue = 'after';
SELECT count(*) FROM fairq.pop('after', 10);
-- A time to run counts from when the others have ended.
SELECT fairq.enqueue('after', '"p"') AS p \gset
SELECT fairq.enqueue('after', '"s"', after => ARRAY[:p], delay => '1 h') IS NOT NULL;
SELECT fairq.enqueue('after', '"t"', after => ARRAY[:p], run_at => now() - interval '1 h') IS NOT NULL;
SELECT pg_temp.all_of('after');
SELECT payload FROM fairq.pop('after');
SELECT pg_temp.all_of('after');
SELECT fairq.purge('after');

-- Unique keys: one that waits for others is the one of its key.
SELECT fairq.enqueue('after', '"p"') AS p \gset
SELECT fairq.enqueue('after', '"k"', unique_key => 'k', after => ARRAY[:p]) AS k \gset
SELECT fairq.enqueue('after', '"k2"', unique_key => 'k') = :k;
SELECT pg_temp.all_of('after'), pg_temp.waits('after');
-- Replaced: the new payload, and what the new call comes after.
SELECT fairq.enqueue('after', '"q"') AS q \gset
SELECT fairq.enqueue('after', '"k3"', unique_key => 'k', on_duplicate => 'replace', after => ARRAY[:q], on_dead => 'run') = :k;
SELECT pg_temp.all_of('after'), pg_temp.waits('after');
BEGIN;
SELECT fairq.enqueue('after', '"k4"', unique_key => 'k', on_duplicate => 'replace') = :k;
ROLLBACK;
BEGIN;
SELECT fairq.enqueue('after', '"k4"', unique_key => 'k', on_duplicate => 'replace') = :k;
SELECT fairq.enqueue('after', '"k5"', unique_key => 'k', on_duplicate => 'replace', after => ARRAY[:p, :q]) = :k;
COMMIT;
SELECT pg_temp.all_of('after'), pg_temp.waits('after');
SELECT payload FROM fairq.pop('after');
SELECT pg_temp.all_of('after'), pg_temp.waits('after');
-- Not after others any more: it runs.
SELECT fairq.enqueue('after', '"k6"', unique_key => 'k', on_duplicate => 'replace') = :k;
CALL pg_temp.maintain_until('after', 'pg_temp.all_of(''after'') !~ ''held''');
SELECT pg_temp.all_of('after'), pg_temp.waits('after');
-- One that is ready is replaced by one that waits: it is held, and its place is free.
SELECT fairq.enqueue('after', '"k7"', unique_key => 'k', on_duplicate => 'replace', after => ARRAY[:q]) = :k;
SELECT pg_temp.all_of('after'), pg_temp.waits('after');
SELECT ready, held FROM fairq.queue_stats WHERE queue = 'after';
SELECT payload FROM fairq.pop('after', 10);
CALL pg_temp.maintain_until('after', 'pg_temp.all_of(''after'') !~ ''held''');
SELECT payload FROM fairq.pop('after', 10);
-- It waits for itself, or might wait for one that waits for it.
SELECT fairq.enqueue('after', '"p"') AS p \gset
SELECT fairq.enqueue('after', '"k"', unique_key => 'k', after => ARRAY[:p]) AS k \gset
SELECT pg_temp.try(format('SELECT fairq.enqueue(''after'', ''1'', unique_key => ''k'', on_duplicate => ''replace'', after => ARRAY[%s, %s])', :p, :k)) ~ 'cannot be replaced by one that waits for itself';
SELECT fairq.enqueue('after', '"l"', after => ARRAY[:p]) AS l \gset
SELECT fairq.enqueue('after', '"k2"', unique_key => 'k', on_duplicate => 'replace', after => ARRAY[:l]) = :k;
SELECT pg_temp.waits('after');
SELECT fairq.enqueue('after', '"m"', after => ARRAY[:k]) AS m \gset
SELECT pg_temp.try(format('SELECT fairq.enqueue(''after'', ''1'', unique_key => ''k'', on_duplicate => ''replace'', after => ARRAY[%s])', :m)) ~ '22023.*for which others wait, cannot be replaced';
SELECT payload FROM fairq.pop('after', 10);
SELECT payload FROM fairq.pop('after', 10);
CALL pg_temp.maintain_until('after', 'pg_temp.all_of(''after'') !~ ''k2 held''');
SELECT payload FROM fairq.pop('after', 10);
SELECT payload FROM fairq.pop('after', 10);
-- One of the key is in flight, and the next waits for another task as well: it needs both.
SELECT fairq.enqueue('after', '"f"', unique_key => 'k') AS f \gset
SELECT receipt AS first FROM fairq.claim('after') \gset
SELECT fairq.enqueue('after', '"p"') AS p \gset
SELECT fairq.enqueue('after', '"k"', unique_key => 'k', after => ARRAY[:p]) AS k \gset
SELECT fairq.ack(:'first');
SELECT fairq.maintain('after');
SELECT pg_temp.all_of('after');
SELECT payload FROM fairq.pop('after');
CALL pg_temp.maintain_until('after', 'pg_temp.all_of(''after'') !~ ''held''');
SELECT payload FROM fairq.pop('after');
SELECT fairq.enqueue('after', '"f"', unique_key => 'k') AS f \gset
SELECT receipt AS first FROM fairq.claim('after') \gset
SELECT fairq.enqueue('after', '"p"') AS p \gset
SELECT fairq.enqueue('after', '"k"', unique_key => 'k', after => ARRAY[:p]) AS k \gset
SELECT payload FROM fairq.pop('after');
SELECT fairq.maintain('after');
SELECT pg_temp.all_of('after'), pg_temp.waits('after');
SELECT fairq.ack(:'first');
SELECT payload FROM fairq.pop('after');
-- A dead one of the key stays dead while one waits, also for others.
SELECT fairq.enqueue('after', '"f"', unique_key => 'k') AS f \gset
SELECT fairq.nack(receipt) FROM fairq.claim('after');
SELECT fairq.enqueue('after', '"p"') AS p \gset
SELECT fairq.enqueue('after', '"k"', unique_key => 'k', after => ARRAY[:p]) AS k \gset
SELECT fairq.revive('after', :f);
SELECT fairq.purge('after');
-- A key that is remembered: its task is the one, whatever else is said.
SELECT fairq.enqueue('after', '"p"') AS p \gset
SELECT fairq.enqueue('after', '"k"', unique_key => 'r', unique_for => '1 h', after => ARRAY[:p]) AS k \gset
SELECT fairq.enqueue('after', '"l"', unique_key => 'r', unique_for => '1 h') = :k;
SELECT payload FROM fairq.pop('after');
CALL pg_temp.maintain_until('after', 'pg_temp.all_of(''after'') !~ ''held''');
SELECT payload FROM fairq.pop('after');
SELECT fairq.enqueue('after', '"l"', unique_key => 'r', after => ARRAY[:p]) = :k;

-- Rows of tasks that are removed with SQL: the task has ended. But not if it is there again.
SELECT fairq.enqueue('after', '"p"') AS p \gset
SELECT fairq.enqueue('after', '"s"', after => ARRAY[:p], on_dead => 'cancel') IS NOT NULL;
UPDATE fairq.q_after SET headers = '{}' WHERE id = :p;
SELECT pg_temp.waits('after');
BEGIN;
CREATE TEMP TABLE moved ON COMMIT DROP AS SELECT * FROM fairq.q_after WHERE id = :p;
DELETE FROM fairq.q_after WHERE id = :p;
INSERT INTO fairq.q_after SELECT * FROM moved;
COMMIT;
SELECT pg_temp.waits('after');
DELETE FROM fairq.q_after WHERE id = :p;
SELECT pg_temp.all_of('after'), pg_temp.waits('after');
SELECT payload FROM fairq.pop('after');
-- Made dead with SQL.
SELECT fairq.enqueue('after', '"p"') AS p \gset
SELECT fairq.enqueue('after', '"s"', after => ARRAY[:p], on_dead => 'run') IS NOT NULL;
UPDATE fairq.q_after SET state = 'd', address = NULL WHERE id = :p;
SELECT payload FROM fairq.pop('after');
-- The table is emptied: nothing waits any more.
SELECT fairq.enqueue('after', '"s"', after => ARRAY[fairq.enqueue('after', '"p"')]) IS NOT NULL;
TRUNCATE fairq.q_after;
CALL pg_temp.maintain_until('after', 'NOT EXISTS (SELECT FROM fairq.dependency WHERE queue = ''after'')');
SELECT fairq.enqueue('after', '"p"') AS p \gset
SELECT fairq.enqueue('after', '"s"', after => ARRAY[:p]) IS NOT NULL;
SELECT payload FROM fairq.pop('after');
SELECT payload FROM fairq.pop('after');
-- A row of the table of dependencies goes: the task is looked at.
SELECT fairq.enqueue('after', '"p"') AS p \gset
SELECT fairq.enqueue('after', '"s"', after => ARRAY[:p]) IS NOT NULL;
DELETE FROM fairq.dependency WHERE queue = 'after' AND predecessor = :p;
CALL pg_temp.maintain_until('after', 'pg_temp.all_of(''after'') !~ ''held''');
SELECT payload FROM fairq.pop('after', 10);

-- What is refused.
SELECT pg_temp.try('SELECT fairq.enqueue(''after'', ''1'', after => ''{0}'')');
SELECT pg_temp.try('SELECT fairq.enqueue(''after'', ''1'', after => ''{1,-5}'')');
SELECT pg_temp.try('SELECT fairq.enqueue(''after'', ''1'', after => ''{1,NULL}'')');
SELECT pg_temp.try('SELECT fairq.enqueue(''after'', ''1'', after => ''{1,999999999}'')');
SELECT pg_temp.try('SELECT fairq.enqueue(''after'', ''1'', unique_key => ''u'', after => ''{1,999999999}'')');
-- Not the one that it is to be, nor a later one.
SELECT fairq.enqueue('after', '"p"') AS p \gset
SELECT pg_temp.try(format('SELECT fairq.enqueue(''after'', ''1'', after => ARRAY[%s])', :p + 1)) ~ '22023: cannot wait for task .*: there has not been one yet';
SELECT fairq.purge('after');
SELECT pg_temp.try('SELECT fairq.enqueue(''after'', ''1'', after => array_agg(n)) FROM generate_series(1, 10001) n');
SELECT pg_temp.try('SELECT fairq.enqueue(''after'', ''1'', on_dead => ''die'')');
SELECT pg_temp.try('SELECT fairq.enqueue(''after'', ''1'', on_dead => ''HOLD'')');
SELECT fairq.alter_queue('after', max_depth => 2);
SELECT fairq.purge('after');
SELECT fairq.enqueue('after', '"p"') AS p \gset
SELECT fairq.enqueue('after', '"s"', after => ARRAY[:p]) IS NOT NULL;
SELECT pg_temp.try(format('SELECT fairq.enqueue(''after'', ''1'', after => ARRAY[%s])', :p));
-- A pass does not take for done what its own transaction has ended.
SELECT fairq.create_queue('after pass', buckets => 1);
SELECT fairq.enqueue('after pass', '"p"') AS p \gset
SELECT fairq.enqueue('after pass', '"c"', after => ARRAY[:p], on_dead => 'cancel') IS NOT NULL;
SELECT fairq.enqueue('after pass', '"h"', after => ARRAY[:p]) IS NOT NULL;
BEGIN;
SELECT fairq.cancel('after pass', :p);
SELECT fairq.maintain('after pass') IS NOT NULL;
COMMIT;
CALL pg_temp.maintain_until('after pass', $$(SELECT count(*) = 1 FROM fairq.tasks('after pass'))$$);
SELECT pg_temp.all_of('after pass'), pg_temp.waits('after pass');
SELECT fairq.drop_queue('after pass');
-- A producer needs no more than INSERT; who may read the queue sees what waits.
CREATE ROLE after_producer;
GRANT USAGE ON SCHEMA fairq TO after_producer;
SELECT fairq.create_queue('after other', buckets => 1);
GRANT INSERT ON fairq."q_after other" TO after_producer;
SET ROLE after_producer;
SELECT fairq.enqueue('after other', '"p"') AS p \gset
SELECT fairq.enqueue('after other', '"s"', after => ARRAY[:p]) IS NOT NULL;
SELECT count(*) FROM fairq.dependencies;
SELECT pg_temp.try('SELECT count(*) FROM fairq.dependency');
SELECT pg_temp.try('INSERT INTO fairq.dependency VALUES (''after'', 1, 2, ''h'')');
RESET ROLE;
GRANT SELECT ON fairq."q_after other" TO after_producer;
SET ROLE after_producer;
SELECT queue, on_dead, failed FROM fairq.dependencies;
RESET ROLE;
-- With the queue goes what its tasks wait for; what a dropped table has left is void.
SELECT fairq.drop_queue('after other');
SELECT count(*) FROM fairq.dependency WHERE queue = 'after other';
SELECT fairq.create_queue('after other', buckets => 1);
SELECT fairq.enqueue('after other', '"s"', after => ARRAY[fairq.enqueue('after other', '"p"')]) IS NOT NULL;
DROP TABLE fairq."q_after other";
SELECT fairq.create_queue('after other', buckets => 1);
SELECT count(*) FROM fairq.dependency WHERE queue = 'after other';
SELECT fairq.drop_queue('after other');
REVOKE ALL ON SCHEMA fairq FROM after_producer;
DROP ROLE after_producer;
-- The tasks of a tenant are moved, as doc/how-to.md has it: what others wait for stays, and
-- what is moved expires when it would have.  (Without the last condition s is ready.)
SELECT fairq.create_queue('after other', buckets => 1);
SELECT fairq.purge('after') >= 0, fairq.alter_queue('after', max_depth => 0);
SELECT fairq.enqueue('after', '"m"', 'tenant', expires_at => '2100-01-01', unique_key => 'm', cost => 2, priority => 3) IS NOT NULL;
SELECT fairq.enqueue('after', '"s"', 'tenant', after => ARRAY[fairq.enqueue('after', '"p"', 'tenant')]) IS NOT NULL;
SELECT fairq.pause_group('after', 'tenant');
WITH moved AS (
    DELETE FROM fairq.q_after WHERE group_key = 'tenant' AND state IN ('r', 's', 'o')
        AND (expires_at IS NULL OR expires_at > now())
        AND id NOT IN (SELECT id FROM fairq.tasks('after', 'leased', 'tenant'))
        AND id NOT IN (SELECT predecessor FROM fairq.dependencies WHERE queue = 'after')
    RETURNING *)
SELECT count(fairq.enqueue('after other', payload, group_key => group_key, priority => priority, cost => cost, run_at => run_at,
        unique_key => unique_key, max_attempts => max_attempts, lease => lease, headers => headers, expires_at => expires_at)) AS moved
    FROM (SELECT * FROM moved ORDER BY id) m;
SELECT fairq.resume_group('after', 'tenant');
SELECT payload, state FROM fairq.tasks('after') ORDER BY id;
SELECT payload, group_key, priority, cost, unique_key, expires_at = '2100-01-01' AS expires FROM fairq."q_after other";
SELECT fairq.drop_queue('after other');
SELECT fairq.drop_queue('after');
SELECT count(*) FROM fairq.dependency;
