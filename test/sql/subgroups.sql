-- Subgroups, as far as SQL shows them: settings and refusals, columns, what subgroups are
-- given, and the change from a queue without them. What is served in which order is in
-- other tests.
--
-- Seen to fail: without check_subgroup() in arguments_check_task(), without has_tasks() in
-- change_subgroups(), and with the index on the overflow left as it is by it.
\i test/sql/include/helpers.sql
\pset format unaligned
\pset tuples_only on
\pset null (null)
SELECT fairq.create_queue('sub', buckets => 2, lease => '1 h', max_attempts => 1, keep_done => '1 day', subgroups => true);
SELECT fairq.create_queue('sub none', buckets => 2, lease => '1 h');
CREATE FUNCTION pg_temp.overflow_index(queue text) RETURNS text LANGUAGE sql AS
$$ SELECT substring(pg_get_indexdef(format('fairq.%I', 'overflow_of_' || queue)::regclass) FROM 'USING btree (.*) WHERE') $$;

-- Settings.
SELECT queue, subgroups, subgroup_weight, subgroup_max_leased, subgroup_rate, subgroup_burst
    FROM fairq.queues WHERE queue LIKE 'sub%' ORDER BY queue;
SELECT pg_temp.overflow_index('sub');
SELECT pg_temp.overflow_index('sub none');
SELECT pg_temp.try($$SELECT fairq.create_queue('sub prio', 'priority', subgroups => true)$$);
SELECT pg_temp.try($$SELECT fairq.create_queue('sub prio', 'priority', subgroups => false)$$);
SELECT pg_temp.try($$SELECT fairq.alter_queue('sub prio', subgroups => true)$$);
SELECT pg_temp.try($$SELECT fairq.alter_queue('sub prio', subgroups => false)$$);
SELECT fairq.drop_queue('sub prio');

-- Columns: what is enqueued comes back from wherever tasks are shown. An empty key is none.
SELECT fairq.enqueue('sub', '1', 'acme', subgroup_key => 'ann') > 0;
SELECT fairq.enqueue('sub', '2', 'acme', subgroup_key => '') > 0, fairq.enqueue('sub', '3', 'acme') > 0;
SELECT cardinality(fairq.enqueue_many('sub', '{4,5,6}', group_keys => '{acme}', subgroup_keys => '{bob,NULL,""}'));
SELECT cardinality(fairq.enqueue_many('sub', '{7,8}', group_keys => '{globex}', subgroup_keys => '{cy}'));
SELECT fairq.subscribe('sub.*', 'sub');
SELECT fairq.publish('sub.x', '9', 'globex', subgroup_key => 'dee');
SELECT payload, group_key, subgroup_key FROM fairq.tasks('sub') ORDER BY id;
SELECT payload, group_key, subgroup_key FROM fairq.q_sub ORDER BY id;
SELECT t.payload, t.subgroup_key FROM fairq.tasks('sub') s, fairq.get_task('sub', s.id) t WHERE s.subgroup_key = 'dee';
SELECT fairq.enqueue('sub', '10', 'acme', subgroup_key => 'eve', unique_key => 'u', delay => '1 h') > 0;
SELECT fairq.enqueue('sub', '11', 'acme', subgroup_key => 'fay', unique_key => 'u', delay => '1 h', on_duplicate => 'replace') > 0;
SELECT payload, state, subgroup_key FROM fairq.get_task_by_key('sub', 'u');
SELECT fairq.enqueue('sub', '12', 'acme', unique_key => 'u', delay => '1 h', on_duplicate => 'replace') > 0;
SELECT payload, state, subgroup_key FROM fairq.get_task_by_key('sub', 'u');

-- Schedules.
SELECT fairq.schedule('sub nightly', 'sub', '0 3 * * *', '13', 'acme', subgroup_key => 'gus') IS NOT NULL,
    fairq.schedule('sub empty', 'sub', '0 3 * * *', '13', 'acme', subgroup_key => '') IS NOT NULL;
SELECT name, group_key, subgroup_key FROM fairq.schedules WHERE queue = 'sub' ORDER BY name;
SELECT definition ->> 'subgroup_key' FROM fairq_internal.schedule_definitions() definition WHERE definition ->> 'name' = 'sub nightly';
SELECT fairq.schedule('sub nightly', 'sub', '@every 1 s', '13', 'acme', subgroup_key => 'gus', overlap => false) IS NOT NULL;
CALL pg_temp.maintain_until('sub', $$EXISTS (SELECT FROM fairq.tasks('sub') WHERE payload = '13')$$);
SELECT payload, group_key, subgroup_key FROM fairq.tasks('sub') WHERE payload = '13';
SELECT count(fairq.unschedule(name)) FROM fairq.schedules WHERE queue = 'sub';

-- Claimed, done and dead.
CREATE TEMP TABLE claimed AS SELECT * FROM fairq.claim('sub', 7);
INSERT INTO claimed SELECT id, receipt, group_key, payload, headers, priority, attempt, enqueued_at, lease_until, address, expires_at, name, subgroup_key
    FROM fairq.claim_any('{sub none,sub}', 100);
SELECT payload, group_key, subgroup_key FROM claimed ORDER BY id;
SELECT count(fairq.ack(receipt)) FROM claimed WHERE payload::text::int % 2 = 1;
SELECT count(fairq.nack(receipt, 'no')) FROM claimed WHERE payload::text::int % 2 = 0;
SELECT payload, group_key, subgroup_key FROM fairq.done_tasks WHERE queue = 'sub' AND outcome = 'acked' ORDER BY id;
SELECT d.payload, d.subgroup_key FROM claimed c, fairq.get_done_task('sub', c.id) d WHERE c.subgroup_key = 'dee';
SELECT payload, group_key, subgroup_key FROM fairq.dead_tasks WHERE queue = 'sub' ORDER BY id;
SELECT fairq.revive_group('sub', 'acme');
SELECT payload, subgroup_key FROM fairq.pop('sub', 100) ORDER BY id;

-- What comes by SQL.
INSERT INTO fairq.q_sub (id, enqueued_at, state, group_key, subgroup_key, payload, priority, cost, attempts)
    VALUES (100000, now(), 'o', 'acme', 'hal', '14', 4, 1, 0), (100001, now(), 'o', 'acme', NULL, '15', 4, 1, 0);
SELECT payload, subgroup_key FROM fairq.tasks('sub', 'overflow') ORDER BY id;

-- Keys that are refused.
SELECT pg_temp.try($$SELECT fairq.enqueue('sub none', '1', 'acme', subgroup_key => 'ann')$$);
SELECT pg_temp.try($$SELECT fairq.enqueue('sub none', '1', 'acme', subgroup_key => '') > 0$$);
SELECT pg_temp.try($$SELECT fairq.enqueue_many('sub none', '{1}', subgroup_keys => '{ann}')$$);
SELECT pg_temp.try($$SELECT fairq.enqueue_many('sub', '{1,2,3}', subgroup_keys => '{ann,bob}')$$);
SELECT pg_temp.try($$SELECT fairq.schedule('sub bad', 'sub none', '@hourly', subgroup_key => 'ann')$$);
SELECT pg_temp.try($$SELECT fairq.enqueue('sub', '1', 'acme', subgroup_key => repeat('x', 1025))$$);
SELECT pg_temp.try($$SELECT fairq.enqueue('sub', '1', 'acme', subgroup_key => repeat('x', 1024)) > 0$$);
SELECT fairq.subscribe('sub.*', 'sub none');
SELECT pg_temp.try($$SELECT fairq.publish('sub.x', '1', 'acme', subgroup_key => 'ann')$$);
SELECT pg_temp.try($$SELECT fairq.publish('sub.x', '1', 'acme')$$);

-- What subgroups are given.
SELECT fairq.set_subgroup('sub', 'acme', 'ann', weight => 3, max_leased => 2), fairq.set_subgroup('sub', 'acme', '', rate => 5, burst => 7);
SELECT fairq.set_subgroup('sub', 'acme', 'ann', max_leased => 4), fairq.pause_subgroup('sub', 'globex', 'ann');
SELECT fairq.set_group('sub', 'acme', weight => 2);
SELECT * FROM fairq.subgroup_settings ORDER BY queue, group_key, subgroup_key;
SELECT queue, group_key, weight, paused FROM fairq.group_settings WHERE queue LIKE 'sub%';
SELECT fairq.resume_subgroup('sub', 'globex', 'ann');
SELECT fairq.set_subgroup('sub', 'initech', 'ann', weight => 1);
SELECT fairq.reset_subgroup('sub', 'acme', 'ann'), fairq.reset_subgroup('sub', 'acme', 'ann'), fairq.reset_group('sub', 'acme');
SELECT group_key, subgroup_key FROM fairq.subgroup_settings;
SELECT fairq.set_subgroup_defaults('sub', weight => 2, max_leased => 3, rate => 4, burst => 5);
SELECT fairq.set_subgroup('sub', 'initech', 'ann', weight => 2), fairq.set_subgroup('sub', 'initech', 'bob', weight => 1);
SELECT group_key, subgroup_key, weight FROM fairq.subgroup_settings ORDER BY 1, 2;
SELECT subgroups, subgroup_weight, subgroup_max_leased, subgroup_rate, subgroup_burst, group_weight FROM fairq.queues WHERE queue = 'sub';
SELECT jsonb_pretty(definition -> 'subgroups') FROM fairq_internal.queue_definitions() WHERE queue = 'sub';
SELECT pg_temp.try($$SELECT fairq.set_subgroup('sub', 'acme', NULL)$$);
SELECT pg_temp.try($$SELECT fairq.set_subgroup('sub', NULL, 'ann')$$);
SELECT pg_temp.try($$SELECT fairq.set_subgroup('sub', 'acme', repeat('x', 1025))$$);
SELECT pg_temp.try($$SELECT fairq.set_subgroup('sub', 'acme', 'ann', weight => 0)$$);
SELECT pg_temp.try($$SELECT fairq.set_subgroup('none', 'acme', 'ann')$$);
SELECT pg_temp.try($$SELECT fairq.reset_subgroup('sub', 'acme', NULL)$$);
SELECT pg_temp.try($$SELECT fairq.pause_subgroup('sub', 'acme', NULL)$$);
SELECT pg_temp.try($$SELECT fairq.resume_subgroup('sub', NULL, 'ann')$$);
SELECT pg_temp.try($$SELECT fairq.set_subgroup('sub none', 'acme', 'ann', weight => 2)$$);
SELECT pg_temp.try($$SELECT fairq.reset_subgroup('sub none', 'acme', 'ann')$$);
SELECT pg_temp.try($$SELECT fairq.pause_subgroup('sub none', 'acme', 'ann')$$);
SELECT pg_temp.try($$SELECT fairq.resume_subgroup('sub none', 'acme', 'ann')$$);
SELECT pg_temp.try($$SELECT fairq.set_subgroup_defaults('sub none', weight => 2)$$);
SELECT pg_temp.try($$SELECT fairq.set_subgroup_defaults('sub', weight => 1001)$$);

-- What the view shows of subgroups, with their groups' keys; that of groups counts them together.
SELECT fairq.create_queue('sub view', lease => '1 h', subgroups => true);
SELECT fairq.set_subgroup_defaults('sub view', max_leased => 9), fairq.set_subgroup('sub view', 'acme', 'bob', weight => 3, max_leased => 1),
    fairq.pause_subgroup('sub view', 'acme', 'cy');
SELECT cardinality(fairq.enqueue_many('sub view', array_fill('1'::jsonb, '{2}'), group_keys => '{acme}', subgroup_keys => ARRAY[u]))
    FROM unnest('{ann,bob,cy,NULL}'::text[]) u;
SELECT fairq.enqueue('sub view', '1', 'globex', subgroup_key => repeat('x', 50)) > 0;
SELECT count(*) FROM fairq.claim('sub view', 100);
SELECT group_key, subgroup_key, overflow, leased, weight, max_leased, rate, burst, tokens, paused, served, served_cost,
    round(share::numeric, 3), round(expected_share::numeric, 3), run_time >= '0' FROM fairq.subgroup_stats WHERE queue = 'sub view' ORDER BY 1, 2;
SELECT group_key, ready, overflow, leased, served FROM fairq.group_stats WHERE queue = 'sub view' ORDER BY 1;
-- Keys that begin alike for 48 bytes are told apart by their ids, also where those of their groups do.
SELECT count(fairq.enqueue('sub view', '1', repeat('g', g), subgroup_key => repeat('x', u))) FROM unnest('{48,49,50}'::int[]) g, unnest('{48,49,50}'::int[]) u;
SELECT fairq.set_subgroup('sub view', repeat('g', 50), repeat('x', 49), weight => 2);
SELECT length(s.group_key), length(s.subgroup_key), length(t.group_key), length(t.subgroup_key), s.overflow, s.weight, count(*)
    FROM fairq.subgroup_stats s JOIN fairq.tasks('sub view') t ON s.group_id = fairq.group_id(t.group_key) AND s.subgroup_id = fairq.group_id(t.subgroup_key)
    WHERE s.queue = 'sub view' AND s.group_key LIKE 'g%' AND t.group_key LIKE 'gg%' GROUP BY s.group_id, s.subgroup_id, 1, 2, 3, 4, 5, 6 ORDER BY 3, 4;
SELECT length(g.group_key), length(g.subgroup_key), g.weight, s.weight FROM fairq.subgroup_settings g JOIN fairq.subgroup_stats s USING (queue, group_id, subgroup_id)
    WHERE queue = 'sub view' AND g.weight = 2;
SELECT count(*), count(DISTINCT (group_id, subgroup_id)), bool_and(subgroup_id = fairq.group_id(subgroup_key)) FILTER (WHERE length(subgroup_key) <= 48)
    FROM fairq.subgroup_stats WHERE queue = 'sub view';
SELECT fairq.drop_queue('sub view');

-- A definition makes the same queue.
SELECT fairq_internal.define_queue('sub twin', definition, false) FROM fairq_internal.queue_definitions() WHERE queue = 'sub';
SELECT (SELECT definition FROM fairq_internal.queue_definitions() WHERE queue = 'sub')
    = (SELECT definition FROM fairq_internal.queue_definitions() WHERE queue = 'sub twin');
SELECT fairq.set_subgroup('sub', 'acme', 'ann', weight => 9), fairq.reset_subgroup('sub', 'acme', '');
SELECT fairq_internal.define_queue('sub twin', definition, true) FROM fairq_internal.queue_definitions() WHERE queue = 'sub';
SELECT (SELECT definition -> 'subgroups' FROM fairq_internal.queue_definitions() WHERE queue = 'sub')
    = (SELECT definition -> 'subgroups' FROM fairq_internal.queue_definitions() WHERE queue = 'sub twin');
SELECT fairq.drop_queue('sub twin');

-- From a queue without subgroups to one with them, with tasks of all states, and back when it is empty.
SELECT fairq.unsubscribe('sub.*', 'sub none'), fairq.unsubscribe('sub.*', 'sub');
SELECT fairq.purge('sub none');
SELECT fairq.alter_queue('sub none', max_ready => 1);
SELECT count(fairq.enqueue('sub none', to_jsonb(i), 'acme')) FROM generate_series(1, 4) i;
BEGIN;
SELECT fairq.alter_queue('sub none', subgroups => true);
SELECT pg_temp.overflow_index('sub none');
ROLLBACK;
SELECT pg_temp.overflow_index('sub none'), subgroups FROM fairq.queues WHERE queue = 'sub none';
SELECT fairq.alter_queue('sub none', subgroups => true);
SELECT pg_temp.overflow_index('sub none'), subgroups FROM fairq.queues WHERE queue = 'sub none';
SELECT fairq.alter_queue('sub none', subgroups => true), fairq.alter_queue('sub none', subgroups => NULL);
SELECT fairq.enqueue('sub none', '5', 'acme', subgroup_key => 'ann') > 0;
SELECT payload, subgroup_key FROM fairq.tasks('sub none') ORDER BY id;
SELECT pg_temp.try($$SELECT fairq.alter_queue('sub none', subgroups => false)$$);
SELECT count(*) FROM fairq.tasks('sub none');
SELECT fairq.purge('sub none');
SELECT pg_temp.try($$SELECT fairq.alter_queue('sub none', subgroups => false)$$);
SELECT pg_temp.overflow_index('sub none'), subgroups FROM fairq.queues WHERE queue = 'sub none';
SELECT pg_temp.try($$SELECT fairq.enqueue('sub none', '1', 'acme', subgroup_key => 'ann')$$);

-- An index that does not fit the setting is refused.
DROP INDEX fairq."overflow_of_sub none";
CREATE INDEX "overflow_of_sub none" ON fairq."q_sub none" USING btree
    (hashtextextended(coalesce(subgroup_key, '') COLLATE "C", hashtextextended(group_key COLLATE "C", 0)), priority, id) WHERE state = 'o';
SELECT pg_temp.try($$SELECT fairq.enqueue('sub none', '1')$$);
DROP INDEX fairq."overflow_of_sub none";
CREATE INDEX "overflow_of_sub none" ON fairq."q_sub none" USING btree (hashtextextended(group_key COLLATE "C", 0), priority, id) WHERE state = 'o';
SELECT pg_temp.try($$SELECT fairq.enqueue('sub none', '1') > 0$$);
DROP INDEX fairq.overflow_of_sub;
CREATE INDEX overflow_of_sub ON fairq.q_sub USING btree (hashtextextended(group_key COLLATE "C", 0), priority, id) WHERE state = 'o';
SELECT pg_temp.try($$SELECT fairq.enqueue('sub', '1')$$);
DROP INDEX fairq.overflow_of_sub;
CREATE INDEX overflow_of_sub ON fairq.q_sub USING btree
    (hashtextextended((COALESCE(subgroup_key, ''::text)) COLLATE "C", hashtextextended((group_key) COLLATE "C", (0)::bigint)), priority, id) WHERE state = 'o';
SELECT pg_temp.try($$SELECT fairq.enqueue('sub', '1') > 0$$);

-- Settings are dumped, those of subgroups, too.
SELECT extconfig @> ARRAY['fairq.queue'::regclass, 'fairq.group_setting'::regclass]::oid[] FROM pg_extension WHERE extname = 'pgfairq';
SELECT relreplident FROM pg_class WHERE oid = 'fairq.group_setting'::regclass;

-- With the queue goes what its subgroups were given.
SELECT fairq.drop_queue('sub'), fairq.drop_queue('sub none');
SELECT count(*) FROM fairq.subgroup_settings;

-- Two groups at one tag, of which the second has its place between the first and a subgroup
-- of that: to see a claim without an end, give a task the slot of its subgroup in
-- turns_take_candidate().
SELECT fairq.create_queue('sub slots', buckets => 2, subgroups => true);
SELECT count(fairq.enqueue('sub slots', '1', g, subgroup_key => u)) FROM (VALUES ('acme', 'ann'), ('globex', 'cy'), ('globex', 'cy'), ('acme', 'bob')) v(g, u);
SELECT t.group_key, t.subgroup_key FROM generate_series(1, 4) i, fairq.pop('sub slots', 1 + 0 * i) t;
SELECT fairq.drop_queue('sub slots');

-- What peek shows first does not depend on how much of it is asked for: of equal turns that
-- of the lower slot is first. To see it fail: compare_group_turns() without slots.
SELECT fairq.create_queue('sub peek', buckets => 1, lease => '1 h', max_attempts => 0, subgroups => true);
SELECT count(fairq.enqueue('sub peek', '1', 'g' || i * 7 % 10, subgroup_key => 's')) FROM generate_series(1, 9) i;
SELECT n FROM generate_series(1, 9) n WHERE ARRAY(SELECT id FROM fairq.peek('sub peek', n)) <> (ARRAY(SELECT id FROM fairq.peek('sub peek', 9)))[:n];
SELECT ARRAY(SELECT id FROM fairq.peek('sub peek', 3)) = ARRAY(SELECT id FROM fairq.claim('sub peek', 3));
-- And a task that was written often, and has as many entries in the index, is shown once: to
-- see it fail, let line_next() not look at what it found last.
UPDATE fairq."q_sub peek" SET state = 's', run_at = now() + interval '1 h' WHERE id > 7;
UPDATE fairq."q_sub peek" SET state = 'o' WHERE id > 7;
UPDATE fairq."q_sub peek" SET state = 's' WHERE id > 7;
UPDATE fairq."q_sub peek" SET state = 'o' WHERE id > 7;
SELECT count(*), count(DISTINCT id) FROM fairq.peek('sub peek', 20);
SELECT fairq.drop_queue('sub peek');
