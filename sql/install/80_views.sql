CREATE VIEW fairq.queues AS
SELECT q.queue, c.relowner::pg_catalog.regrole AS owner, c.oid::pg_catalog.regclass AS relation,
    q.policy, q.buckets, q.lease, q.max_attempts, q.backoff_base, q.backoff_max,
    q.max_ready, q.max_ready_per_group, q.max_depth, q.keep_done, q.durable_leases, q.charge, q.notify,
    q.group_weight, q.group_max_leased, q.group_rate, q.group_burst, q.paused, q.expire_after,
    q.backoff_jitter, q.default_priority, q.group_required
FROM fairq.queue q
JOIN pg_catalog.pg_class c ON c.relname::pg_catalog.text OPERATOR(pg_catalog.=) ('q_' OPERATOR(pg_catalog.||) q.queue)
    AND c.relnamespace OPERATOR(pg_catalog.=) 'fairq'::pg_catalog.regnamespace;
COMMENT ON VIEW fairq.queues IS 'The queues of this database and their settings';

CREATE VIEW fairq.queue_stats AS SELECT * FROM fairq.stats_of_queues();
COMMENT ON VIEW fairq.queue_stats IS
'For each queue how many tasks are in each state, how long the longest waiting at the front, of groups that may be claimed from, has waited; what happened since stats_reset; how much of it a second in the last minute; how long tasks waited to be claimed and ran until they were acknowledged (quantiles, up to 6.25 % above the true ones); and how many bytes payloads have. Of a queue whose table is locked exclusively what would have to be read there is null. Shows the queues that one may read, to pg_monitor all.';

CREATE VIEW fairq.group_stats AS SELECT * FROM fairq.stats_of_groups();
COMMENT ON VIEW fairq.group_stats IS
'For each group with work how many of its tasks are ready, in the overflow and leased; what it may have; how many were served since it was idle last, and what they were charged; its share of that and the share that its weight says, between the groups with work; how long its oldest ready task has waited at most; how long its tasks have run. Keys above 48 bytes are cut. Shows the queues that one may read, to pg_monitor all.';

CREATE VIEW fairq.group_settings AS
SELECT s.queue, s.group_key, s.weight, s.max_leased, s.rate, s.burst, s.paused
FROM fairq.group_setting s
JOIN fairq.queues q ON q.queue OPERATOR(pg_catalog.=) s.queue
WHERE pg_catalog.has_table_privilege(q.relation::pg_catalog.oid, 'SELECT')
    OR pg_catalog.pg_has_role('pg_monitor', 'USAGE');
COMMENT ON VIEW fairq.group_settings IS
'What groups were given by fairq.set_group() and fairq.pause_group(); null is the default of the queue. Shows the queues that one may read, to pg_monitor all.';

CREATE VIEW fairq.bucket_stats AS SELECT * FROM fairq.stats_of_buckets();
COMMENT ON VIEW fairq.bucket_stats IS
'For each bucket and class in use what is in its window (ready), whether that is all there is (complete), the first address in it, and the frontier, from which on the index is read. Leaves out queues whose tables are locked exclusively';

CREATE VIEW fairq.leases AS SELECT * FROM fairq.live_leases();
COMMENT ON VIEW fairq.leases IS
'The tasks in flight: until when, the number of the attempt, held, settling or expired, and the process id of the backend that claimed';

CREATE VIEW fairq.sessions AS SELECT * FROM fairq.open_sessions();
COMMENT ON VIEW fairq.sessions IS
'The sessions of this database: of one''s own roles, to pg_monitor all. alive_until is null when one is over and its last leases are being given back; pid is that of the backend that opened it.';

CREATE VIEW fairq.dead_tasks AS SELECT * FROM fairq.dead_of_queues();
COMMENT ON VIEW fairq.dead_tasks IS
'The tasks whose attempts are used up, of the queues that one may read. Reads their tables, and waits for locks on them.';

CREATE VIEW fairq.topics AS
SELECT t.topic, t.queue
FROM fairq.topic t
JOIN fairq.queues q ON q.queue OPERATOR(pg_catalog.=) t.queue;
COMMENT ON VIEW fairq.topics IS 'The subscriptions of the queues of this database: which topics, with the wildcards * and #, each has';

-- Not done_..., which is how the tables of archives are called.
CREATE VIEW fairq.archived_tasks AS SELECT * FROM fairq.done_of_queues();
COMMENT ON VIEW fairq.archived_tasks IS
'The finished tasks that are kept in archives, of the archives that one may read: outcome acked, cancelled or dead, attempts, when claimed and done. Reads their tables, and waits for locks on them.';

GRANT SELECT ON fairq.topics, fairq.queues, fairq.queue_stats, fairq.group_stats, fairq.group_settings, fairq.bucket_stats, fairq.leases, fairq.sessions, fairq.dead_tasks, fairq.archived_tasks TO PUBLIC;

