-- as: nobody
-- Every function, by somebody who may do nothing.
\set ON_ERROR_STOP off
SELECT fairq.claim(queue, 100) FROM fairq.queues;
SELECT fairq.enqueue('still', '1');
SELECT fairq.purge('still');
SELECT fairq.pause('still'), fairq.resume('still');
SELECT fairq.drop_queue('still');
SELECT fairq.alter_queue('still', buckets => 1);
SELECT fairq.subscribe('#', 'still');
SELECT fairq.unsubscribe('news', 'news');
SELECT fairq.reset_stats('still');
SELECT fairq.maintain('still');
SELECT fairq.peek('still');
SELECT fairq.tasks('still');
SELECT fairq.get_task('still', 1);
SELECT fairq.cancel('still', 1);
SELECT fairq.revive_all('still');
SELECT fairq.revive_group('still', '');
SELECT fairq.set_group('still', 'a', weight => 1);
SELECT fairq.set_group_defaults('still', weight => 1);
SELECT fairq.create_queue('mine');
SELECT fairq.publish('news', '1');
SELECT fairq.row_written();
CALL fairq.wait('still', '1 s');
SELECT fairq.close_session(fairq.open_session(name => repeat('x', 63), ttl => '1 day'));
SELECT fairq.my_buckets('still', fairq.open_session(ttl => '100 ms'));
TABLE fairq.queue;
TABLE fairq.durable_lease;
TABLE fairq.q_still;
DELETE FROM fairq.topic;
SELECT * FROM fairq.group_settings, fairq.leases, fairq.dead_tasks, fairq.archived_tasks;
SELECT '(0,0,-1)'::fairq.address;
SELECT '(99999999999,0,0)'::fairq.address, repeat('(', 100000)::fairq.address;
LOCK TABLE fairq.queues IN ACCESS EXCLUSIVE MODE;
LOCK TABLE fairq.queues IN ACCESS SHARE MODE;
