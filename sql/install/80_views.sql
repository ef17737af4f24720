CREATE OR REPLACE VIEW fairq.queues AS
SELECT q.queue, c.relowner::pg_catalog.regrole AS owner, c.oid::pg_catalog.regclass AS relation,
    q.policy, q.buckets, q.lease, q.max_attempts, q.backoff_base, q.backoff_max,
    q.max_ready, q.max_ready_per_group, q.max_depth, q.keep_done, q.durable_leases, q.charge, q.notify,
    q.group_weight, q.group_max_leased, q.group_rate, q.group_burst, q.paused, q.expire_after,
    q.backoff_jitter, q.default_priority, q.group_required, q.max_lost, q.class_weights,
    q.subgroups, q.subgroup_weight, q.subgroup_max_leased, q.subgroup_rate, q.subgroup_burst
FROM fairq.queue q
JOIN pg_catalog.pg_class c ON c.relname::pg_catalog.text OPERATOR(pg_catalog.=) ('q_' OPERATOR(pg_catalog.||) q.queue)
    AND c.relnamespace OPERATOR(pg_catalog.=) 'fairq'::pg_catalog.regnamespace;

CREATE OR REPLACE VIEW fairq.queue_stats AS SELECT * FROM fairq_internal.stats_of_queues();

CREATE OR REPLACE VIEW fairq.queue_histograms AS SELECT * FROM fairq_internal.histograms_of_queues();

CREATE OR REPLACE VIEW fairq.name_stats AS SELECT * FROM fairq_internal.stats_of_names();

CREATE OR REPLACE VIEW fairq.name_histograms AS SELECT * FROM fairq_internal.histograms_of_names();

CREATE OR REPLACE VIEW fairq.group_stats AS SELECT * FROM fairq_internal.stats_of_groups();

CREATE OR REPLACE VIEW fairq.group_settings AS
SELECT s.queue, s.group_key, s.weight, s.max_leased, s.rate, s.burst, s.paused,
    fairq.group_id(s.group_key) AS group_id
FROM fairq.group_setting s
JOIN fairq.queues q ON q.queue OPERATOR(pg_catalog.=) s.queue
WHERE s.subgroup_key IS NULL AND (pg_catalog.has_table_privilege(q.relation::pg_catalog.oid, 'SELECT')
    OR pg_catalog.pg_has_role('pg_monitor', 'USAGE'));

CREATE OR REPLACE VIEW fairq.subgroup_stats AS SELECT * FROM fairq_internal.stats_of_subgroups();

CREATE OR REPLACE VIEW fairq.subgroup_settings AS
SELECT s.queue, s.group_key, s.subgroup_key, s.weight, s.max_leased, s.rate, s.burst, s.paused,
    fairq.group_id(s.group_key) AS group_id, fairq.group_id(s.subgroup_key) AS subgroup_id
FROM fairq.group_setting s
JOIN fairq.queues q ON q.queue OPERATOR(pg_catalog.=) s.queue
WHERE s.subgroup_key IS NOT NULL AND (pg_catalog.has_table_privilege(q.relation::pg_catalog.oid, 'SELECT')
    OR pg_catalog.pg_has_role('pg_monitor', 'USAGE'));

CREATE OR REPLACE VIEW fairq.bucket_stats AS SELECT * FROM fairq_internal.stats_of_buckets();

CREATE OR REPLACE VIEW fairq.leases AS SELECT * FROM fairq_internal.live_leases();

CREATE OR REPLACE VIEW fairq.sessions AS SELECT * FROM fairq_internal.open_sessions();

CREATE OR REPLACE VIEW fairq.dead_tasks AS SELECT * FROM fairq_internal.dead_of_queues();

CREATE OR REPLACE VIEW fairq.topics AS
SELECT t.topic, t.queue
FROM fairq.topic t
JOIN fairq.queues q ON q.queue OPERATOR(pg_catalog.=) t.queue;

CREATE OR REPLACE VIEW fairq.dependencies WITH (security_barrier) AS
SELECT d.queue, d.task, d.predecessor,
    CASE d.on_dead WHEN 'h' THEN 'hold' WHEN 'c' THEN 'cancel' ELSE 'run' END AS on_dead, d.failed
FROM fairq.dependency d
JOIN fairq.queues q ON q.queue OPERATOR(pg_catalog.=) d.queue
WHERE pg_catalog.has_table_privilege(q.relation::pg_catalog.oid, 'SELECT')
    OR pg_catalog.pg_has_role('pg_monitor', 'USAGE');

-- The table of a queue named "tasks" would have this name: it cannot keep done tasks.
CREATE OR REPLACE VIEW fairq.done_tasks AS SELECT * FROM fairq_internal.done_of_queues();
