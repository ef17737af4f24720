-- Leases that end without an answer: what counts as a loss and what does not, the errors,
-- the history, names, and tasks that were lost twice, which are leased alone.
-- The queues of this file start with "lost".
--
-- Seen to fail: losses that count in attempts, or write over the error of a failure (set_error
-- in lost_leases.c); the lease of a session whose ttl was missed that is taken for excused, for
-- its deadline is 0; claim_admits (claim_suspects.c) that says true, or asks for each
-- suspect whether it is its turn; a claim of several queues that has a suspect beside tasks of
-- the queue before, or goes on behind it (sql_claim.c); quarantine_step (quarantine.c)
-- that says QUARANTINE_OPEN, no quarantine_drain, others_go_on that says true; suspects_note
-- (suspects.c) that has room for all; a revival that forgets losses; placement_replace for
-- placement_suspect (promote_due.c); groups_tag_first that moves the finish tag.
\i test/sql/include/helpers.sql
\pset format unaligned
\pset tuples_only on
-- Each task has a group of its own, named as its payload: so one of them can be claimed.
-- It is claimed, and lost, so many times.
CREATE PROCEDURE pg_temp.lose(queue text, what text, times int DEFAULT 1) LANGUAGE plpgsql AS $$
DECLARE
    before int := (SELECT coalesce(sum(lost), 0) FROM fairq.tasks(queue, group_key => what));
    got bigint;
BEGIN
    FOR i IN before + 1 .. before + times LOOP
        -- One that is to have a place waits for it.
        CALL pg_temp.maintain_until(queue, format('count(*) = 1 FROM fairq.peek(%L, 1000) WHERE group_key = %L', queue, what));
        SELECT count(*) INTO got FROM fairq.claim(queue, lease => '1 microsecond', group_keys => ARRAY[what]);
        COMMIT;
        IF got <> 1 THEN
            RAISE WARNING '% was not claimed', what;
        END IF;
        CALL pg_temp.maintain_until(queue, format('sum(lost) = %s AND bool_and(state <> ''scheduled'') AND NOT EXISTS (SELECT FROM fairq.leases l WHERE l.queue = %L) FROM fairq.tasks(%L, group_key => %L)', i, queue, queue, what));
    END LOOP;
END
$$;
CREATE FUNCTION pg_temp.add(queue text, VARIADIC what text[]) RETURNS void LANGUAGE sql AS
    $$ SELECT fairq.enqueue(queue, to_jsonb(w), w, priority => n) FROM unnest(what) WITH ORDINALITY u(w, n) $$;
CREATE FUNCTION pg_temp.got(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    result text;
BEGIN
    EXECUTE 'SELECT coalesce(string_agg(payload #>> ''{}'', '' ''), ''nothing'') FROM ' || statement INTO result;
    RETURN result;
END
$$;
CREATE FUNCTION pg_temp.error_of(queue text, what text) RETURNS text LANGUAGE sql AS
    $$ SELECT pg_temp.masked(last_error) FROM fairq.tasks(queue, group_key => what) $$;
CREATE FUNCTION pg_temp.history_of(queue text, what text) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(format('%s %s by %s: %s', h->>'attempt', h->>'end', pg_temp.masked(h->>'worker'), h->>'error'), E'\n' ORDER BY n)
        FROM fairq.tasks(queue, group_key => what) t, jsonb_array_elements(t.history) WITH ORDINALITY a(h, n) $$;

-- A loss counts apart from attempts; a claim is told of both.
SELECT fairq.create_queue('lost', buckets => 1, lease => '1 h', backoff_base => '0', max_lost => 3, keep_done => '1 h');
SELECT pg_temp.add('lost', 'a');
CALL pg_temp.lose('lost', 'a');
SELECT pg_temp.all_of('lost'), pg_temp.error_of('lost', 'a');
SELECT attempts, lost, max_attempts, max_lost FROM fairq.tasks('lost');
SELECT attempt FROM fairq.peek('lost');
SELECT attempt, fairq.nack(receipt, 'boom', '0') FROM fairq.claim('lost');
SELECT attempt FROM fairq.peek('lost');
SELECT pg_temp.all_of('lost'), pg_temp.history_of('lost', 'a');
SELECT string_agg(DISTINCT k, ' ' ORDER BY k), bool_and((h->>'at')::timestamptz BETWEEN enqueued_at AND clock_timestamp()), bool_and((h->>'seconds')::float8 BETWEEN 0 AND 3600)
    FROM fairq.tasks('lost'), jsonb_array_elements(history) h, jsonb_object_keys(h) k;
SELECT expired, nacked, released, dead_total FROM fairq.queue_stats WHERE queue = 'lost';
-- The done table counts answers, and says the rest.
SELECT attempt, fairq.ack(receipt) FROM fairq.claim('lost');
SELECT attempts, lost, outcome, last_error, jsonb_array_length(history) FROM fairq.done_tasks WHERE queue = 'lost';

-- The error of a failure is kept, and both are told by one that dies of its losses.
SELECT pg_temp.add('lost', 'b');
SELECT fairq.nack(receipt, 'boom', '0') FROM fairq.claim('lost');
CALL pg_temp.lose('lost', 'b', 2);
SELECT pg_temp.all_of('lost'), pg_temp.error_of('lost', 'b');
CALL pg_temp.maintain_until('lost', $$ count(*) = 1 FROM fairq.peek('lost') $$);
SELECT attempt, fairq.nack(receipt, delay => '0') FROM fairq.claim('lost');
SELECT pg_temp.error_of('lost', 'b');
CALL pg_temp.lose('lost', 'b');
SELECT pg_temp.all_of('lost'), pg_temp.error_of('lost', 'b');
SELECT lost, pg_temp.masked(last_error), jsonb_array_length(history) FROM fairq.dead_tasks WHERE queue = 'lost';
-- Revived it has its attempts, and stays a suspect; what it failed of is still known.
SELECT fairq.revive('lost', id) FROM fairq.tasks('lost');
SELECT pg_temp.all_of('lost');
CALL pg_temp.lose('lost', 'b');
SELECT pg_temp.error_of('lost', 'b');
SELECT fairq.revive_group('lost', 'b');
SELECT pg_temp.all_of('lost');
SELECT fairq.purge('lost');
-- A failure that says nothing does not make an error of a loss of before it one of a failure.
SELECT pg_temp.add('lost', 'c');
CALL pg_temp.lose('lost', 'c');
SELECT fairq.nack(receipt, delay => '0') FROM fairq.claim('lost');
CALL pg_temp.lose('lost', 'c');
SELECT pg_temp.error_of('lost', 'c');
SELECT fairq.purge('lost');

-- max_lost: of the queue, of the task, none; max_attempts has no say in it, and that of a
-- queue holds for the next loss when it is changed.
SELECT fairq.enqueue('lost', to_jsonb(n), n, max_lost => m, max_attempts => a) IS NOT NULL
    FROM (VALUES ('as queue', NULL::int, 1), ('one', 1, NULL), ('none', 0, 1)) v(n, m, a);
SELECT payload, max_attempts, max_lost FROM fairq.tasks('lost') ORDER BY id;
CALL pg_temp.lose('lost', 'as queue', 2);
CALL pg_temp.lose('lost', 'one');
CALL pg_temp.lose('lost', 'none', 7);
SELECT pg_temp.all_of('lost');
SELECT fairq.alter_queue('lost', max_lost => 4);
SELECT max_lost FROM fairq.queues WHERE queue = 'lost';
CALL pg_temp.lose('lost', 'as queue');
SELECT pg_temp.all_of('lost'), pg_temp.error_of('lost', 'as queue');
SELECT fairq.alter_queue('lost', max_lost => 0);
CALL pg_temp.lose('lost', 'as queue', 2);
SELECT fairq.alter_queue('lost', max_lost => 1);
CALL pg_temp.lose('lost', 'as queue');
SELECT pg_temp.all_of('lost'), pg_temp.error_of('lost', 'as queue');
-- One that was lost once is no suspect, and begins anew; one that failed too often is dead by that.
SELECT fairq.revive('lost', id) FROM fairq.tasks('lost', group_key => 'one');
SELECT lost, attempts FROM fairq.tasks('lost', group_key => 'one');
SELECT fairq.nack(receipt, 'enough', '0') FROM fairq.claim('lost', group_keys => '{none}');
SELECT pg_temp.all_of('lost'), pg_temp.error_of('lost', 'none');
SELECT fairq.purge('lost');
-- The default, and the limits of the settings.
SELECT fairq.create_queue('lost default');
SELECT max_lost FROM fairq.queues WHERE queue = 'lost default';
SELECT pg_temp.try($$ SELECT fairq.create_queue('lost bad', max_lost => -1) $$);
SELECT pg_temp.try($$ SELECT fairq.alter_queue('lost', max_lost => -1) $$);
SELECT pg_temp.try($$ SELECT fairq.enqueue('lost', '1', max_lost => -1) $$);
SELECT pg_temp.try($$ SELECT fairq.publish('lost', '1', max_lost => -1) $$);
SELECT fairq.alter_queue('lost', max_lost => 3);
-- A row that says more than a number can be counts no further, and is leased.
SELECT fairq.enqueue('lost', '"most"', 'most', max_lost => 0) IS NOT NULL;
UPDATE fairq.q_lost SET lost = 2147483647, attempts = 2147483647;
SELECT attempt FROM fairq.claim('lost', lease => '1 microsecond');
CALL pg_temp.maintain_until('lost', $$ count(*) = 1 FROM fairq.peek('lost') $$);
SELECT pg_temp.all_of('lost');
SELECT fairq.ack(receipt) FROM fairq.claim('lost');
SELECT attempts, lost FROM fairq.done_lost WHERE group_key = 'most';
SELECT fairq.enqueue('lost', '"least"', 'least') IS NOT NULL;
UPDATE fairq.q_lost SET lost = -5;
SELECT attempt FROM fairq.claim('lost', lease => '1 microsecond');
CALL pg_temp.maintain_until('lost', $$ count(*) = 1 FROM fairq.peek('lost') $$);
SELECT pg_temp.all_of('lost');
SELECT fairq.purge('lost');

-- By session: its ttl is missed. The worker is named.
SELECT pg_temp.add('lost', 'a', 'b');
SELECT fairq.open_session('worker "1"', '3 s') AS session \gset
SELECT pg_temp.got(format('fairq.claim(''lost'', 2, session => %L)', :'session'));
CALL pg_temp.maintain_until('lost', $$ count(*) = 2 FROM fairq.peek('lost', 10) $$);
SELECT pg_temp.all_of('lost'), pg_temp.error_of('lost', 'a');
SELECT pg_temp.history_of('lost', 'b');
-- One whose own lease ends, while the session goes on.
SELECT fairq.open_session('worker 2', '1 h') AS session \gset
SELECT pg_temp.got(format('fairq.claim(''lost'', 1, ''1 microsecond'', session => %L)', :'session'));
CALL pg_temp.maintain_until('lost', $$ count(*) = 2 FROM fairq.peek('lost', 10) $$);
SELECT pg_temp.all_of('lost'), pg_temp.error_of('lost', 'a');
SELECT fairq.purge('lost');

-- Excused: a session that is closed gives back what it has as it was, and counts nothing.
SELECT fairq.reset_stats('lost');
SELECT pg_temp.add('lost', 'a', 'b', 'c');
SELECT address FROM fairq.peek('lost', 1) \gset
SELECT pg_temp.got(format('fairq.claim(''lost'', 2, session => %L)', :'session'));
SELECT fairq.close_session(:'session');
CALL pg_temp.maintain_until('lost', $$ count(*) = 3 FROM fairq.peek('lost', 10) $$);
SELECT pg_temp.all_of('lost');
SELECT payload, attempt, address::text = :'address' AS as_it_was FROM fairq.peek('lost', 1);
SELECT last_error, history FROM fairq.tasks('lost', group_key => 'a');
SELECT expired, released FROM fairq.queue_stats WHERE queue = 'lost';
-- A session that has missed its ttl when it is closed has lost its tasks all the same.
-- (The worker, which would notice, cannot write the table.)
SELECT fairq.open_session('late', '3 s') AS session \gset
SELECT pg_temp.got(format('fairq.claim(''lost'', 1, session => %L)', :'session'));
BEGIN;
LOCK TABLE fairq.q_lost IN SHARE MODE;
SELECT pg_sleep(3) IS NULL;
SELECT fairq.close_session(:'session');
COMMIT;
CALL pg_temp.maintain_until('lost', $$ count(*) = 3 FROM fairq.peek('lost', 10) $$);
SELECT pg_temp.all_of('lost'), pg_temp.error_of('lost', 'a');
-- A claim that is rolled back, before the worker has noticed the end of its lease.
BEGIN;
LOCK TABLE fairq.q_lost IN SHARE MODE;
SELECT pg_temp.got($$ fairq.claim('lost', lease => '1 microsecond') $$);
ROLLBACK;
CALL pg_temp.maintain_until('lost', $$ count(*) = 3 FROM fairq.peek('lost', 10) $$);
SELECT pg_temp.all_of('lost'), string_agg(attempt::text, ' ' ORDER BY id) FROM fairq.peek('lost');
SELECT fairq.purge('lost');

-- The history has the last ten ends, and of each text so much: 500 bytes, in whole characters.
SELECT fairq.alter_queue('lost', max_lost => 0);
SELECT fairq.enqueue('lost', '"h"', 'h', max_attempts => 0) IS NOT NULL;
CREATE PROCEDURE pg_temp.fail(times int, error text) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. times LOOP
        PERFORM fairq.nack(receipt, error, '0') FROM fairq.claim('lost');
        COMMIT;
    END LOOP;
END
$$;
CALL pg_temp.fail(12, repeat('é', 3000));
SELECT attempts, length(last_error), jsonb_array_length(history), string_agg(h->>'attempt', ' ' ORDER BY n), min(octet_length(h->>'error')), max(octet_length(h->>'error')), pg_column_size(history) < 10000 AS bounded
    FROM fairq.tasks('lost'), jsonb_array_elements(history) WITH ORDINALITY a(h, n) GROUP BY attempts, last_error, history;
CALL pg_temp.fail(1, 'a' || repeat('é', 3000));
SELECT octet_length(history->9->>'error') FROM fairq.tasks('lost');
-- Eleven losses leave nothing of it there, and the error as it was.
CALL pg_temp.fail(1, 'boom');
CALL pg_temp.lose('lost', 'h', 11);
SELECT pg_temp.all_of('lost'), pg_temp.error_of('lost', 'h');
SELECT DISTINCT h->>'end' FROM fairq.tasks('lost'), jsonb_array_elements(history) h;
-- Whatever else is written there with SQL is replaced, or kept as one of ten.
UPDATE fairq.q_lost SET history = '{"a": 1}', lost = NULL, last_error = NULL;
CALL pg_temp.lose('lost', 'h');
SELECT pg_temp.history_of('lost', 'h');
UPDATE fairq.q_lost SET history = '[1, null, "x", {"end": 5}, [], {}]', lost = NULL;
CALL pg_temp.lose('lost', 'h');
SELECT jsonb_array_length(history), history->0, history->6->>'end' FROM fairq.tasks('lost');
SELECT fairq.purge('lost');

-- Suspects. The first in the order was lost twice: each second claim for many has it, alone.
-- (The tasks of priority 0 are the suspects here.)
SELECT fairq.create_queue('lost alone', buckets => 1, lease => '1 h', backoff_base => '0', max_lost => 0);
CREATE PROCEDURE pg_temp.set_up(suspects text[] DEFAULT '{}') LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fairq.close_session(session) FROM fairq.sessions WHERE name LIKE 'alone %';
    PERFORM fairq.cancel('lost alone', id) FROM fairq.tasks('lost alone');
    COMMIT;
    CALL pg_temp.maintain_until('lost alone', $c$ count(*) = 0 FROM fairq.tasks('lost alone') $c$);
    PERFORM fairq.enqueue('lost alone', to_jsonb(s), s, priority => 0) FROM unnest(suspects) s;
    PERFORM fairq.enqueue('lost alone', to_jsonb('i' || n), 'i' || n, priority => n) FROM generate_series(1, 6) n;
    UPDATE fairq."q_lost alone" SET lost = 2 WHERE priority = 0;
    COMMIT;
END
$$;
CALL pg_temp.set_up('{s}');
SELECT pg_temp.got($$ fairq.claim('lost alone', 10) $$) AS first, pg_temp.got($$ fairq.claim('lost alone', 10) $$) AS second \gset
SELECT least(:'first', :'second'), greatest(:'first', :'second');
CALL pg_temp.set_up('{s,t}');
SELECT pg_temp.got($$ fairq.claim('lost alone', 10) $$) AS first, pg_temp.got($$ fairq.claim('lost alone', 10) $$) AS second, pg_temp.got($$ fairq.claim('lost alone', 10) $$) AS third \gset
SELECT string_agg(g, ', ' ORDER BY g) FROM unnest(ARRAY[:'first', :'second', :'third']) g;
-- One that asks for a single task has what is next, and so has one when there is nothing else.
CALL pg_temp.set_up('{s,t}');
SELECT pg_temp.got($$ fairq.claim('lost alone') $$);
SELECT pg_temp.got($$ fairq.claim('lost alone', 100, group_keys => '{i1,i2,i3,i4,i5,i6}') $$);
SELECT pg_temp.got($$ fairq.claim('lost alone', 100) $$);
SELECT pg_temp.got($$ fairq.claim('lost alone', 100) $$);
-- pop, ack_and_claim, claim_any, claims of groups and of buckets.
CREATE FUNCTION pg_temp.both_ways(claim text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    got text[];
BEGIN
    FOR i IN 1 .. 2 LOOP
        got := got || pg_temp.got(claim);
    END LOOP;
    RETURN (SELECT string_agg(g, ', ' ORDER BY g) FROM unnest(got) g);
END
$$;
CALL pg_temp.set_up('{s}');
SELECT pg_temp.both_ways($$ fairq.pop('lost alone', 10) $$);
CALL pg_temp.set_up('{s}');
SELECT pg_temp.both_ways($$ fairq.ack_and_claim('lost alone', '{}', 10) $$);
CALL pg_temp.set_up('{s}');
SELECT pg_temp.both_ways($$ fairq.claim_any(ARRAY['lost alone', 'lost'], 10) $$);
-- Also where there are tasks in the other queue, before it and after it.
CALL pg_temp.set_up('{s}');
SELECT pg_temp.add('lost', 'other');
SELECT pg_temp.got($$ fairq.claim_any(ARRAY['lost', 'lost alone'], 2) $$);
SELECT fairq.release(receipt) FROM fairq.leases WHERE queue IN ('lost', 'lost alone');
SELECT pg_temp.both_ways($$ fairq.claim_any(ARRAY['lost alone', 'lost'], 10) $$);
SELECT fairq.purge('lost'), fairq.release(receipt) FROM fairq.leases WHERE queue = 'lost';
CALL pg_temp.set_up('{s}');
DELETE FROM fairq."q_lost alone" WHERE priority > 0;
SELECT pg_temp.add('lost', 'another');
SELECT pg_temp.got($$ fairq.claim_any(ARRAY['lost alone', 'lost'], 2) $$);
SELECT fairq.release(receipt) FROM fairq.leases WHERE queue = 'lost alone';
SELECT pg_temp.got($$ fairq.claim_any(ARRAY['lost', 'lost alone'], 2) $$);
SELECT fairq.purge('lost');
CALL pg_temp.set_up('{s}');
SELECT pg_temp.both_ways($$ fairq.claim('lost alone', 10, group_keys => '{s,i1,i2}') $$);
CALL pg_temp.set_up('{s}');
SELECT pg_temp.both_ways($$ fairq.claim('lost alone', 10, buckets => '{0}') $$);
-- Nor has it one of its own priority that comes next.
CALL pg_temp.set_up('{s}');
SELECT fairq.enqueue('lost alone', '"i0"', 'i0', priority => 0) IS NOT NULL;
SELECT pg_temp.both_ways($$ fairq.claim('lost alone', 10) $$);
CALL pg_temp.set_up('{s}');
SELECT fairq.enqueue('lost alone', '"i0"', 'i0', priority => 0) IS NOT NULL;
SELECT pg_temp.both_ways($$ fairq.claim('lost alone', 10, group_keys => '{s,i0,i1}') $$);
-- Behind the others it ends the claim that comes to it, or is left for the next.
CALL pg_temp.set_up('{s}');
UPDATE fairq."q_lost alone" SET lost = CASE WHEN priority = 0 THEN 1 WHEN group_key = 'i6' THEN 2 END;
SELECT pg_temp.both_ways($$ fairq.claim('lost alone', 10) $$);
-- Rolled back, released: as it was.
CALL pg_temp.set_up('{s}');
BEGIN;
SELECT pg_temp.got($$ fairq.claim('lost alone') $$);
ROLLBACK;
SELECT fairq.release(receipt) FROM fairq.claim('lost alone');
SELECT pg_temp.got($$ fairq.claim('lost alone') $$), pg_temp.all_of('lost alone');

-- With a session: it has the suspect alone, and nothing else until that has ended, from
-- whatever queue. Others go on.
CREATE TEMP TABLE sessions (name text, session uuid);
CREATE FUNCTION pg_temp.claims(who text, max int DEFAULT 10, queue text DEFAULT 'lost alone') RETURNS text LANGUAGE sql AS
    $$ SELECT pg_temp.got(format('fairq.claim(%L, %s, session => %L)', queue, max, session)) FROM sessions s WHERE s.name = who $$;
-- Acknowledge what a group's claim has.
CREATE FUNCTION pg_temp.done(what text) RETURNS bool LANGUAGE sql AS
    $$ SELECT bool_and(fairq.ack(receipt)) FROM fairq.leases l JOIN fairq.tasks('lost alone', group_key => what) t ON t.id = l.id WHERE queue = 'lost alone' $$;
CREATE PROCEDURE pg_temp.open(VARIADIC names text[]) LANGUAGE sql AS $$
    TRUNCATE sessions;
    INSERT INTO sessions SELECT n, fairq.open_session('alone ' || n, '1 h') FROM unnest(names) n;
$$;
CALL pg_temp.set_up('{s}');
CALL pg_temp.open('a', 'b');
SELECT pg_temp.add('lost', 'other');
SELECT pg_temp.claims('a');
SELECT pg_temp.claims('a'), pg_temp.claims('a', 1), pg_temp.claims('a', 10, 'lost');
SELECT pg_temp.claims('b', 3);
SELECT pg_temp.claims('b');
SELECT pg_temp.claims('b', 1, 'lost');
SELECT pg_temp.done('s');
SELECT count(fairq.release(receipt)) FROM fairq.leases WHERE queue = 'lost alone';
SELECT pg_temp.claims('a');
-- The same of ack_and_claim, pop and claim_any.
CALL pg_temp.set_up('{s}');
CALL pg_temp.open('a');
SELECT pg_temp.got(format('fairq.ack_and_claim(''lost alone'', ''{}'', 10, session => %L)', session)) FROM sessions;
SELECT pg_temp.got(format('fairq.claim_any(''{lost alone,lost}'', 10, session => %L)', session)) FROM sessions;
SELECT pg_temp.got(format('fairq.claim(''lost alone'', 10, session => %L, group_keys => ''{i1}'')', session)) FROM sessions;
-- A claim that is rolled back takes the session out of it again.
CALL pg_temp.set_up('{s}');
CALL pg_temp.open('a');
BEGIN;
SELECT pg_temp.claims('a');
ROLLBACK;
SELECT fairq.cancel('lost alone', id) FROM fairq.tasks('lost alone', group_key => 's');
SELECT pg_temp.claims('a');
-- Nack and release end it, too: released it is the first again, and may be had at once or later.
CALL pg_temp.set_up('{s}');
CALL pg_temp.open('a');
SELECT pg_temp.claims('a');
SELECT fairq.nack(receipt, 'no', '1 h') FROM fairq.leases WHERE queue = 'lost alone';
SELECT pg_temp.claims('a');

-- A busy session drains: with a lease it does not get the suspect, but from then on nothing
-- else; when the lease has ended, the suspect.
CALL pg_temp.set_up();
CALL pg_temp.open('a');
SELECT pg_temp.claims('a', 1);
SELECT fairq.enqueue('lost alone', '"s"', 's', priority => 0) IS NOT NULL;
UPDATE fairq."q_lost alone" SET lost = 2 WHERE priority = 0;
SELECT pg_temp.claims('a', 2);
SELECT pg_temp.claims('a', 2);
SELECT pg_temp.done('i1');
SELECT pg_temp.claims('a', 2);
SELECT pg_temp.done('i2'), pg_temp.done('i3');
SELECT pg_temp.claims('a', 2);
SELECT pg_temp.claims('a', 2);
SELECT pg_temp.done('s');
SELECT pg_temp.claims('a', 2);
-- If another has it meanwhile, it is as before.
CALL pg_temp.set_up();
CALL pg_temp.open('a', 'b');
SELECT pg_temp.claims('a', 1);
SELECT fairq.enqueue('lost alone', '"s"', 's', priority => 0) IS NOT NULL;
UPDATE fairq."q_lost alone" SET lost = 2 WHERE priority = 0;
SELECT pg_temp.claims('a', 1);
SELECT pg_temp.claims('a', 1);
SELECT pg_temp.got($$ fairq.claim('lost alone') $$);
SELECT pg_temp.claims('a', 1);
-- Of the sessions that claim from the queue half are in it at most.
CALL pg_temp.set_up();
CALL pg_temp.open('a', 'b', 'c', 'd');
SELECT pg_temp.claims('a', 1), pg_temp.claims('b', 1), pg_temp.claims('c', 1), pg_temp.claims('d', 1);
SELECT count(fairq.enqueue('lost alone', to_jsonb(s), s, priority => 0)) FROM unnest('{s,t,u,v}'::text[]) s;
SELECT count(fairq.enqueue('lost alone', to_jsonb('j' || n), 'j' || n, priority => 9)) FROM generate_series(1, 9) n;
UPDATE fairq."q_lost alone" SET lost = 2 WHERE priority = 0;
SELECT pg_temp.claims('a', 1), pg_temp.claims('b', 1), pg_temp.claims('c', 1), pg_temp.claims('d', 1);
SELECT pg_temp.claims('a', 1), pg_temp.claims('b', 1), pg_temp.claims('c', 1), pg_temp.claims('d', 1);

-- Of a queue sixteen suspects have a place at most; the others wait, and have one in time.
CALL pg_temp.set_up();
SELECT cardinality(fairq.enqueue_many('lost alone', array_agg(to_jsonb('s' || n)), array_agg('s' || n), ARRAY[0], run_ats => ARRAY[now() + '2 s'])) FROM generate_series(1, 40) n;
UPDATE fairq."q_lost alone" SET lost = 2 WHERE priority = 0;
CREATE FUNCTION pg_temp.placed() RETURNS bigint LANGUAGE sql AS $$ SELECT count(*) FROM fairq.tasks('lost alone', 'ready') WHERE lost = 2 $$;
CALL pg_temp.maintain_until('lost alone', $$ pg_temp.placed() = 16 AND min(run_at) < clock_timestamp() - interval '2 s' FROM fairq.tasks('lost alone', 'scheduled') $$);
SELECT pg_temp.placed(), state, count(*) FROM fairq.tasks('lost alone') WHERE lost = 2 GROUP BY state ORDER BY state;
SELECT fairq.ack(receipt) FROM fairq.claim('lost alone');
SELECT fairq.ack(receipt) FROM fairq.claim('lost alone');
CALL pg_temp.maintain_until('lost alone', $$ pg_temp.placed() = 16 AND count(*) = 22 FROM fairq.tasks('lost alone', 'scheduled') $$);
-- A claim for many passes all of them over.
SELECT pg_temp.both_ways($$ fairq.claim('lost alone', 100) $$) ~ 'i1 i2 i3 i4 i5 i6';
-- Those that are cancelled, or changed with SQL, make room, too.
SELECT count(fairq.cancel('lost alone', id)) FROM (SELECT id FROM fairq.tasks('lost alone', 'ready') WHERE lost = 2 LIMIT 3) t;
UPDATE fairq."q_lost alone" SET lost = 1 WHERE id = (SELECT id FROM fairq.tasks('lost alone', 'ready') WHERE lost = 2 ORDER BY id LIMIT 1);
CALL pg_temp.maintain_until('lost alone', $$ count(*) = 18 FROM fairq.tasks('lost alone', 'scheduled') $$);
SELECT pg_temp.placed() + count(*) FROM fairq.tasks('lost alone', 'leased') WHERE lost = 2;

-- A suspect has the first place: it does not wait for what its group has ready, nor
-- does that of another group. Its group is not charged for it again.
SELECT fairq.create_queue('lost first', buckets => 1);
BEGIN;
SELECT fairq.enqueue('lost first', to_jsonb(s), left(s, 1), delay => '0.1 s') IS NOT NULL FROM unnest('{a suspect,b suspect,a other}'::text[]) s;
UPDATE fairq."q_lost first" SET lost = 2;
COMMIT;
SELECT cardinality(fairq.enqueue_many('lost first', '{1,2,3}', '{a}'));
CALL pg_temp.maintain_until('lost first', $$ count(*) = 6 FROM fairq.peek('lost first', 10) $$);
SELECT fairq.enqueue('lost first', '"b"', 'b') IS NOT NULL, fairq.enqueue('lost first', '"a"', 'a') IS NOT NULL;
SELECT string_agg(payload #>> '{}', ', ') FROM fairq.peek('lost first', 10);
SELECT fairq.create_queue('lost by number', buckets => 1, policy => 'priority');
BEGIN;
SELECT fairq.enqueue('lost by number', '"suspect"', priority => 5, delay => '0.1 s') IS NOT NULL;
UPDATE fairq."q_lost by number" SET lost = 2;
COMMIT;
SELECT cardinality(fairq.enqueue_many('lost by number', '{4,5,5,6}', priorities => '{4,5,5,6}'));
CALL pg_temp.maintain_until('lost by number', $$ count(*) = 5 FROM fairq.peek('lost by number', 10) $$);
SELECT string_agg(payload #>> '{}', ', ') FROM fairq.peek('lost by number', 10);

-- Names.
SELECT fairq.create_queue('lost names', buckets => 1, keep_done => '1 h', lease => '1 h');
SELECT fairq.enqueue('lost names', '1', name => 'send_email', unique_key => 'k') IS NOT NULL;
SELECT cardinality(fairq.enqueue_many('lost names', '{2,3}', names => '{resize,NULL}'));
SELECT cardinality(fairq.enqueue_many('lost names', '{4,5}', names => '{all}'));
SELECT fairq.subscribe('lost topic', 'lost names');
SELECT fairq.publish('lost topic', '6', name => 'published', max_lost => 7);
SELECT payload, name, lost, max_lost FROM fairq.tasks('lost names') ORDER BY id;
SELECT string_agg(payload::text, ' ' ORDER BY id) FROM fairq.tasks('lost names', name => 'all');
SELECT string_agg(payload::text, ' ' ORDER BY id) FROM fairq.tasks('lost names', 'leased', name => 'all');
SELECT string_agg(payload::text, ' ' ORDER BY id) FROM fairq.tasks('lost names', 'ready', '', 'send_email');
SELECT count(*) FROM fairq.tasks('lost names', name => 'nobody');
SELECT payload, name FROM fairq.peek('lost names');
SELECT payload, name FROM fairq.get_task_by_key('lost names', 'k');
-- Replaced: the new name, or none.
SELECT fairq.enqueue('lost names', '11', name => 'replaced', unique_key => 'k', on_duplicate => 'replace', max_lost => 9) IS NOT NULL;
SELECT payload, name, max_lost FROM fairq.get_task_by_key('lost names', 'k');
SELECT fairq.enqueue('lost names', '12', unique_key => 'k', on_duplicate => 'replace') IS NOT NULL;
SELECT payload, name, max_lost FROM fairq.get_task_by_key('lost names', 'k');
SELECT fairq.enqueue('lost names', '13', name => 'kept', unique_key => 'k') IS NOT NULL;
SELECT payload, name FROM fairq.get_task_by_key('lost names', 'k');
UPDATE fairq."q_lost names" SET lost = 1, history = '[1]' WHERE unique_key = 'k';
SELECT fairq.enqueue('lost names', '14', name => 'fresh', unique_key => 'k', on_duplicate => 'replace') IS NOT NULL;
SELECT payload, name, lost, history FROM fairq.get_task_by_key('lost names', 'k');
-- Claimed, by each way, and done.
SELECT payload, name, fairq.ack(receipt, '"result"') FROM fairq.claim('lost names', group_keys => '{""}');
SELECT queue, payload, name, fairq.ack(receipt) FROM fairq.claim_any('{lost names,lost}');
SELECT payload, name, fairq.nack(receipt, 'no', final => true) FROM fairq.ack_and_claim('lost names', '{}');
SELECT payload, name FROM fairq.pop('lost names', 10) ORDER BY 1;
SELECT payload, name, lost, history FROM fairq.done_tasks WHERE queue = 'lost names' ORDER BY payload;
SELECT payload, name, lost FROM fairq.dead_tasks WHERE queue = 'lost names';
SELECT d.payload, d.name, d.lost, d.history, d.result FROM fairq.done_tasks t, fairq.get_done_task('lost names', t.id) d WHERE t.queue = 'lost names' AND t.name = 'fresh';
-- What a name may be.
SELECT fairq.enqueue('lost names', '1', name => repeat('é', 50)) IS NOT NULL;
SELECT octet_length(name) FROM fairq.claim('lost names');
SELECT pg_temp.try($$ SELECT fairq.enqueue('lost names', '1', name => repeat('x', 101)) $$);
SELECT pg_temp.try($$ SELECT fairq.enqueue('lost names', '1', name => '') $$);
SELECT pg_temp.try($$ SELECT fairq.publish('lost topic', '1', name => repeat('é', 51)) $$);
SELECT pg_temp.try($$ SELECT fairq.enqueue_many('lost names', '{1,2}', names => '{a,""}') $$);
SELECT pg_temp.try($$ SELECT fairq.enqueue_many('lost names', '{1,2}', names => '{a,b,c}') $$);
SELECT pg_temp.try($$ SELECT fairq.enqueue_many('lost names', '{1,2}', names => '{{a,b}}') $$);

SELECT fairq.unsubscribe('lost topic', 'lost names');
SELECT count(fairq.close_session(session)) FROM sessions;
SELECT bool_and(fairq.drop_queue(queue)) FROM fairq.queues WHERE queue LIKE 'lost%';
SELECT queue FROM fairq.queues;
SELECT queue, count(*) FROM fairq.leases GROUP BY queue;
