-- Not in what an update runs: there they are as the administrator has them.
GRANT SELECT ON fairq.topics, fairq.queues, fairq.queue_stats, fairq.queue_histograms, fairq.name_stats, fairq.name_histograms, fairq.group_stats, fairq.group_settings, fairq.bucket_stats, fairq.leases, fairq.sessions, fairq.dead_tasks, fairq.done_tasks, fairq.dependencies TO PUBLIC;
