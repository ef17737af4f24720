-- What \d+ says of each object: one sentence, and a few words for a column. What \df+
-- says of a function is beside it. Arguments, privileges and errors are in
-- doc/reference.md. No function has an overload, so none is named by its arguments.

COMMENT ON SCHEMA fairq IS 'pgfairq: task queues that are fair between groups';
COMMENT ON SCHEMA fairq_internal IS 'pgfairq: what is not for applications';

-- ---------------------------------------------------------------------------
-- Addresses
-- ---------------------------------------------------------------------------

COMMENT ON TYPE fairq.address IS 'A task''s place in the fair order, written (bucket,block,slot) or (bucket,class:block,slot).';
COMMENT ON OPERATOR fairq.= (fairq.address, fairq.address) IS 'equal';
COMMENT ON OPERATOR fairq.<> (fairq.address, fairq.address) IS 'not equal';
COMMENT ON OPERATOR fairq.< (fairq.address, fairq.address) IS 'comes before';
COMMENT ON OPERATOR fairq.<= (fairq.address, fairq.address) IS 'comes before or is equal';
COMMENT ON OPERATOR fairq.> (fairq.address, fairq.address) IS 'comes after';
COMMENT ON OPERATOR fairq.>= (fairq.address, fairq.address) IS 'comes after or is equal';
COMMENT ON OPERATOR CLASS fairq.address_ops USING btree IS 'the fair order: bucket, class, block, slot';
COMMENT ON OPERATOR FAMILY fairq.address_ops USING btree IS 'the fair order: bucket, class, block, slot';
COMMENT ON OPERATOR CLASS fairq.address_ops USING hash IS 'equality of addresses';
COMMENT ON OPERATOR FAMILY fairq.address_ops USING hash IS 'equality of addresses';

-- ---------------------------------------------------------------------------
-- What functions return
-- ---------------------------------------------------------------------------

COMMENT ON TYPE fairq.task IS 'A task as a claimer gets it.';
COMMENT ON COLUMN fairq.task.id IS 'its id, for its whole life';
COMMENT ON COLUMN fairq.task.receipt IS 'names the lease; null from fairq.peek()';
COMMENT ON COLUMN fairq.task.group_key IS 'whom it counts for';
COMMENT ON COLUMN fairq.task.payload IS 'what it is about';
COMMENT ON COLUMN fairq.task.headers IS 'what else its producer gave';
COMMENT ON COLUMN fairq.task.priority IS 'its class or number, lower first';
COMMENT ON COLUMN fairq.task.attempt IS 'which run this is: one more than have failed or were lost';
COMMENT ON COLUMN fairq.task.enqueued_at IS 'when it was enqueued';
COMMENT ON COLUMN fairq.task.lease_until IS 'when the lease ends, under a session unless a heartbeat comes; null from fairq.pop() and fairq.peek()';
COMMENT ON COLUMN fairq.task.address IS 'its place in the order';
COMMENT ON COLUMN fairq.task.expires_at IS 'it is not begun then or later; null: it does not expire';
COMMENT ON COLUMN fairq.task.name IS 'what is to be done, for handlers and figures; null: none';
COMMENT ON COLUMN fairq.task.subgroup_key IS 'for which subgroup of the group; null: none, or that with the empty key';

COMMENT ON TYPE fairq.queue_task IS 'A task as a claimer of several queues gets it: the queue it is of, then the columns of fairq.task.';
COMMENT ON COLUMN fairq.queue_task.queue IS 'the queue it is of';
COMMENT ON COLUMN fairq.queue_task.id IS 'its id, one in its queue';
COMMENT ON COLUMN fairq.queue_task.receipt IS 'names the lease';
COMMENT ON COLUMN fairq.queue_task.group_key IS 'whom it counts for';
COMMENT ON COLUMN fairq.queue_task.payload IS 'what it is about';
COMMENT ON COLUMN fairq.queue_task.headers IS 'what else its producer gave';
COMMENT ON COLUMN fairq.queue_task.priority IS 'its class or number, lower first';
COMMENT ON COLUMN fairq.queue_task.attempt IS 'which run this is: one more than have failed or were lost';
COMMENT ON COLUMN fairq.queue_task.enqueued_at IS 'when it was enqueued';
COMMENT ON COLUMN fairq.queue_task.lease_until IS 'when the lease ends, under a session unless a heartbeat comes';
COMMENT ON COLUMN fairq.queue_task.address IS 'its place in the order';
COMMENT ON COLUMN fairq.queue_task.expires_at IS 'it is not begun then or later; null: it does not expire';
COMMENT ON COLUMN fairq.queue_task.name IS 'what is to be done, for handlers and figures; null: none';
COMMENT ON COLUMN fairq.queue_task.subgroup_key IS 'for which subgroup of the group; null: none, or that with the empty key';

COMMENT ON TYPE fairq.task_status IS 'A task as the queue knows it.';
COMMENT ON COLUMN fairq.task_status.id IS 'its id, for its whole life';
COMMENT ON COLUMN fairq.task_status.state IS 'ready, leased, scheduled, overflow, held or dead';
COMMENT ON COLUMN fairq.task_status.group_key IS 'whom it counts for';
COMMENT ON COLUMN fairq.task_status.payload IS 'what it is about';
COMMENT ON COLUMN fairq.task_status.headers IS 'what else its producer gave';
COMMENT ON COLUMN fairq.task_status.priority IS 'its class or number, lower first';
COMMENT ON COLUMN fairq.task_status.cost IS 'what it counts for in the share of its group';
COMMENT ON COLUMN fairq.task_status.attempts IS 'how many have failed';
COMMENT ON COLUMN fairq.task_status.max_attempts IS 'after how many it is dead; 0: no limit';
COMMENT ON COLUMN fairq.task_status.enqueued_at IS 'when it was enqueued';
COMMENT ON COLUMN fairq.task_status.run_at IS 'when it is due, or last was; null: never';
COMMENT ON COLUMN fairq.task_status.lease_until IS 'when its lease ends, under a session unless a heartbeat comes; null if it is not leased';
COMMENT ON COLUMN fairq.task_status.address IS 'its place in the order; null if it has none, or has it in memory only';
COMMENT ON COLUMN fairq.task_status.unique_key IS 'of its key one task waits at most; null: none';
COMMENT ON COLUMN fairq.task_status.last_error IS 'of the last attempt that gave one';
COMMENT ON COLUMN fairq.task_status.expires_at IS 'it is not begun then or later; null: it does not expire';
COMMENT ON COLUMN fairq.task_status.lease IS 'for how long it is leased; null: as the queue has it';
COMMENT ON COLUMN fairq.task_status.name IS 'what is to be done, for handlers and figures; null: none';
COMMENT ON COLUMN fairq.task_status.lost IS 'how many leases have ended without an answer';
COMMENT ON COLUMN fairq.task_status.max_lost IS 'after how many of these it is dead; 0: no limit';
COMMENT ON COLUMN fairq.task_status.history IS 'its last ten ends that were failures or losses; null: none';
COMMENT ON COLUMN fairq.task_status.subgroup_key IS 'for which subgroup of the group; null: none, or that with the empty key';

COMMENT ON TYPE fairq.task_done IS 'What is kept of a task that is done.';
COMMENT ON COLUMN fairq.task_done.id IS 'its id, for its whole life';
COMMENT ON COLUMN fairq.task_done.enqueued_at IS 'when it was enqueued';
COMMENT ON COLUMN fairq.task_done.claimed_at IS 'when it was claimed last; null: never';
COMMENT ON COLUMN fairq.task_done.done_at IS 'when it was done';
COMMENT ON COLUMN fairq.task_done.run_at IS 'when it was due last; null: never';
COMMENT ON COLUMN fairq.task_done.priority IS 'its class or number, lower first';
COMMENT ON COLUMN fairq.task_done.cost IS 'what it counted for in the share of its group';
COMMENT ON COLUMN fairq.task_done.attempts IS 'how many were answered';
COMMENT ON COLUMN fairq.task_done.outcome IS 'acked, cancelled, dead or expired';
COMMENT ON COLUMN fairq.task_done.group_key IS 'whom it counted for';
COMMENT ON COLUMN fairq.task_done.payload IS 'what it was about';
COMMENT ON COLUMN fairq.task_done.headers IS 'what else its producer gave';
COMMENT ON COLUMN fairq.task_done.unique_key IS 'of its key one task waits at most; null: none';
COMMENT ON COLUMN fairq.task_done.last_error IS 'of the last attempt that gave one';
COMMENT ON COLUMN fairq.task_done.result IS 'what fairq.ack() was given';
COMMENT ON COLUMN fairq.task_done.name IS 'what is to be done, for handlers and figures; null: none';
COMMENT ON COLUMN fairq.task_done.lost IS 'how many leases have ended without an answer; null: none';
COMMENT ON COLUMN fairq.task_done.history IS 'its last ten ends that were failures or losses; null: none';
COMMENT ON COLUMN fairq.task_done.subgroup_key IS 'for which subgroup of the group; null: none, or that with the empty key';

COMMENT ON TYPE fairq.outcome IS 'How a task has ended, or its present state if it has not.';
COMMENT ON COLUMN fairq.outcome.state IS 'acked, dead, cancelled or expired; else its present state';
COMMENT ON COLUMN fairq.outcome.result IS 'what fairq.ack() was given';
COMMENT ON COLUMN fairq.outcome.last_error IS 'of the last attempt that failed';
COMMENT ON COLUMN fairq.outcome.done_at IS 'when it was done, as the queue has kept it';

COMMENT ON TYPE fairq.task_position IS 'A task''s place in the queue.';
COMMENT ON COLUMN fairq.task_position.state IS 'ready, leased, scheduled, overflow, held or dead';
COMMENT ON COLUMN fairq.task_position.ahead IS 'how many tasks come before it; null if it is neither ready, in the overflow nor leased';
COMMENT ON COLUMN fairq.task_position.starts_at IS 'about when it will start; null if nothing tells';
COMMENT ON COLUMN fairq.task_position.exact IS 'whether the tasks ahead were counted, not estimated';

COMMENT ON TYPE fairq.class_front IS 'How far a class of a queue has got in virtual time.';
COMMENT ON COLUMN fairq.class_front.class IS 'priority class, 0 to 9; 0 under the policies priority and time';
COMMENT ON COLUMN fairq.class_front.ready IS 'tasks at hand that a claim would come to: all of them, or as many as memory has of the first';
COMMENT ON COLUMN fairq.class_front.waiting IS 'how many sessions wait for tasks of the queue';
COMMENT ON COLUMN fairq.class_front.front IS 'block of the address of the next task; null if none is ready or in the overflow';
COMMENT ON COLUMN fairq.class_front.floor IS 'virtual time: where a group without tasks starts; null if the policy is not fair';

-- ---------------------------------------------------------------------------
-- Views
-- ---------------------------------------------------------------------------

COMMENT ON VIEW fairq.queues IS 'The queues of this database and their settings.';
COMMENT ON COLUMN fairq.queues.queue IS 'its name';
COMMENT ON COLUMN fairq.queues.owner IS 'the owner of its table';
COMMENT ON COLUMN fairq.queues.relation IS 'its table';
COMMENT ON COLUMN fairq.queues.policy IS 'what it is ordered by: fair, priority or time';
COMMENT ON COLUMN fairq.queues.buckets IS 'how many independent parts it has';
COMMENT ON COLUMN fairq.queues.lease IS 'how long a claim lasts unless the claim or the task says otherwise';
COMMENT ON COLUMN fairq.queues.max_attempts IS 'after how many a task is dead; 0: no limit';
COMMENT ON COLUMN fairq.queues.backoff_base IS 'the wait after the first attempt that fails; it doubles with each';
COMMENT ON COLUMN fairq.queues.backoff_max IS 'the longest wait after an attempt that failed';
COMMENT ON COLUMN fairq.queues.max_ready IS 'how many tasks have an address at most; more are in the overflow';
COMMENT ON COLUMN fairq.queues.max_ready_per_group IS 'how many tasks of a group have an address at most; more are in the overflow';
COMMENT ON COLUMN fairq.queues.max_depth IS 'how many tasks it takes, but for the dead; null: no limit';
COMMENT ON COLUMN fairq.queues.keep_done IS 'how long done tasks are kept; null: not at all';
COMMENT ON COLUMN fairq.queues.durable_leases IS 'whether leases survive a crash and a failover';
COMMENT ON COLUMN fairq.queues.charge IS 'what a task counts for in the share of its group: cost or seconds';
COMMENT ON COLUMN fairq.queues.notify IS 'whether NOTIFY is sent when something becomes claimable';
COMMENT ON COLUMN fairq.queues.group_weight IS 'the weight of groups that have none of their own';
COMMENT ON COLUMN fairq.queues.group_max_leased IS 'the limit of tasks in flight of groups that have none of their own; 0: none';
COMMENT ON COLUMN fairq.queues.group_rate IS 'the claims a second of groups that have no rate of their own; 0: no limit';
COMMENT ON COLUMN fairq.queues.group_burst IS 'the burst of groups that have none of their own; 0: as many as the rate';
COMMENT ON COLUMN fairq.queues.paused IS 'whether claims return nothing of it';
COMMENT ON COLUMN fairq.queues.expire_after IS 'how long a task has that was given no expires_at; null: for ever';
COMMENT ON COLUMN fairq.queues.backoff_jitter IS 'how much of a wait is left to chance, from 0 to 1';
COMMENT ON COLUMN fairq.queues.default_priority IS 'the priority of tasks that are given none';
COMMENT ON COLUMN fairq.queues.group_required IS 'whether a task has to have a group key';
COMMENT ON COLUMN fairq.queues.max_lost IS 'after how many lost leases a task is dead; 0: no limit';
COMMENT ON COLUMN fairq.queues.class_weights IS 'the shares of classes from 0 on, the last one for those that follow; null: a lower class goes first';
COMMENT ON COLUMN fairq.queues.subgroups IS 'whether groups are divided into subgroups, between which a group''s share is fair';
COMMENT ON COLUMN fairq.queues.subgroup_weight IS 'the weight of subgroups that have none of their own';
COMMENT ON COLUMN fairq.queues.subgroup_max_leased IS 'the limit of tasks in flight of subgroups that have none of their own; 0: none';
COMMENT ON COLUMN fairq.queues.subgroup_rate IS 'the claims a second of subgroups that have no rate of their own; 0: no limit';
COMMENT ON COLUMN fairq.queues.subgroup_burst IS 'the burst of subgroups that have none of their own; 0: as many as the rate';

COMMENT ON VIEW fairq.queue_stats IS 'For each queue that one may read, to pg_monitor for all: how many tasks there are in each state, and what happened since stats_reset.';
COMMENT ON COLUMN fairq.queue_stats.queue IS 'its name';
COMMENT ON COLUMN fairq.queue_stats.ready IS 'tasks that can be claimed now, if limits let them';
COMMENT ON COLUMN fairq.queue_stats.leased IS 'tasks in flight';
COMMENT ON COLUMN fairq.queue_stats.scheduled IS 'tasks that wait for their time';
COMMENT ON COLUMN fairq.queue_stats.overflow IS 'tasks without an address, of which claims take the next at their group''s turn';
COMMENT ON COLUMN fairq.queue_stats.held IS 'tasks that wait behind another one of their unique key';
COMMENT ON COLUMN fairq.queue_stats.dead IS 'tasks whose attempts are used up';
COMMENT ON COLUMN fairq.queue_stats.oldest_ready_age IS 'how long ago the oldest task at the front was enqueued; null if none is ready or in the overflow';
COMMENT ON COLUMN fairq.queue_stats.enqueued IS 'how many were enqueued';
COMMENT ON COLUMN fairq.queue_stats.claimed IS 'how many were claimed';
COMMENT ON COLUMN fairq.queue_stats.acked IS 'how many were acknowledged';
COMMENT ON COLUMN fairq.queue_stats.nacked IS 'how many attempts were said to have failed';
COMMENT ON COLUMN fairq.queue_stats.released IS 'how many were given back without an attempt';
COMMENT ON COLUMN fairq.queue_stats.expired IS 'how many leases ran out, those of sessions included';
COMMENT ON COLUMN fairq.queue_stats.cancelled IS 'how many were removed by fairq.cancel()';
COMMENT ON COLUMN fairq.queue_stats.dead_total IS 'how many became dead';
COMMENT ON COLUMN fairq.queue_stats.swept IS 'how many the sweep had to find: 0, or something is wrong';
COMMENT ON COLUMN fairq.queue_stats.enqueue_rate IS 'tasks enqueued a second in the last minute';
COMMENT ON COLUMN fairq.queue_stats.claim_rate IS 'tasks claimed a second in the last minute';
COMMENT ON COLUMN fairq.queue_stats.ack_rate IS 'tasks acknowledged a second in the last minute';
COMMENT ON COLUMN fairq.queue_stats.wait_p50 IS 'how long tasks had waited when they were claimed: 50 % no longer';
COMMENT ON COLUMN fairq.queue_stats.wait_p95 IS 'how long tasks had waited when they were claimed: 95 % no longer';
COMMENT ON COLUMN fairq.queue_stats.wait_p99 IS 'how long tasks had waited when they were claimed: 99 % no longer';
COMMENT ON COLUMN fairq.queue_stats.run_p50 IS 'how long tasks ran from the claim to the ack: 50 % no longer';
COMMENT ON COLUMN fairq.queue_stats.run_p95 IS 'how long tasks ran from the claim to the ack: 95 % no longer';
COMMENT ON COLUMN fairq.queue_stats.run_p99 IS 'how long tasks ran from the claim to the ack: 99 % no longer';
COMMENT ON COLUMN fairq.queue_stats.payload_avg IS 'bytes of a payload, on average';
COMMENT ON COLUMN fairq.queue_stats.payload_p50 IS 'bytes of a payload: 50 % have no more';
COMMENT ON COLUMN fairq.queue_stats.payload_p95 IS 'bytes of a payload: 95 % have no more';
COMMENT ON COLUMN fairq.queue_stats.payload_max IS 'bytes of the largest payload';
COMMENT ON COLUMN fairq.queue_stats.stats_reset IS 'when counting began';
COMMENT ON COLUMN fairq.queue_stats.expired_tasks IS 'how many ended because their expires_at had come';
COMMENT ON COLUMN fairq.queue_stats.deduplicated IS 'how many calls with a unique key made no task';
COMMENT ON COLUMN fairq.queue_stats.snoozed IS 'how many were released with a delay';
COMMENT ON COLUMN fairq.queue_stats.near_lease_end IS 'tasks acknowledged when less than a fifth of their lease was left, since then';

COMMENT ON VIEW fairq.queue_histograms IS 'How long tasks have waited and run, as histograms that can be added up, of the queues that one may read, to pg_monitor of all.';
COMMENT ON COLUMN fairq.queue_histograms.queue IS 'the queue';
COMMENT ON COLUMN fairq.queue_histograms.kind IS 'wait or run';
COMMENT ON COLUMN fairq.queue_histograms.le IS 'a length of time in seconds; the last is Infinity';
COMMENT ON COLUMN fairq.queue_histograms.count IS 'how many waits or runs were not longer, since the figures were reset';
COMMENT ON COLUMN fairq.queue_histograms.sum IS 'how long all of them were, in seconds';
COMMENT ON VIEW fairq.name_stats IS 'What became of the tasks of each name, of the queues that one may read, to pg_monitor of all.';
COMMENT ON COLUMN fairq.name_stats.queue IS 'the queue';
COMMENT ON COLUMN fairq.name_stats.name IS 'the name of the tasks; null: of all names that are counted together';
COMMENT ON COLUMN fairq.name_stats.other IS 'whether the line is of the names for which pgfairq.max_names has no room';
COMMENT ON COLUMN fairq.name_stats.enqueued IS 'tasks enqueued since the figures were reset';
COMMENT ON COLUMN fairq.name_stats.done IS 'tasks acknowledged or popped';
COMMENT ON COLUMN fairq.name_stats.failed IS 'attempts that failed';
COMMENT ON COLUMN fairq.name_stats.lost IS 'leases that ended without an answer';
COMMENT ON COLUMN fairq.name_stats.dead IS 'tasks that died, also those that are gone';
COMMENT ON COLUMN fairq.name_stats.wait_p50 IS '50 % of the claims came no later; an estimate';
COMMENT ON COLUMN fairq.name_stats.wait_p95 IS '95 % of the claims came no later; an estimate';
COMMENT ON COLUMN fairq.name_stats.wait_p99 IS '99 % of the claims came no later; an estimate';
COMMENT ON COLUMN fairq.name_stats.run_p50 IS '50 % of the runs took no longer; an estimate';
COMMENT ON COLUMN fairq.name_stats.run_p95 IS '95 % of the runs took no longer; an estimate';
COMMENT ON COLUMN fairq.name_stats.run_p99 IS '99 % of the runs took no longer; an estimate';
COMMENT ON VIEW fairq.name_histograms IS 'How long the tasks of each name waited and ran, as histograms that can be added up, of the queues that one may read.';
COMMENT ON COLUMN fairq.name_histograms.queue IS 'the queue';
COMMENT ON COLUMN fairq.name_histograms.name IS 'the name of the tasks; null: of all names that are counted together';
COMMENT ON COLUMN fairq.name_histograms.other IS 'whether the line is of the names for which pgfairq.max_names has no room';
COMMENT ON COLUMN fairq.name_histograms.kind IS 'wait or run';
COMMENT ON COLUMN fairq.name_histograms.le IS 'a length of time in seconds; the last is Infinity';
COMMENT ON COLUMN fairq.name_histograms.count IS 'how many waits or runs were not longer, since the figures were reset';
COMMENT ON COLUMN fairq.name_histograms.sum IS 'how long all of them were, in seconds';

COMMENT ON VIEW fairq.group_stats IS 'For each group with work, in the queues that one may read, to pg_monitor in all: its tasks, its limits and its share.';
COMMENT ON COLUMN fairq.group_stats.queue IS 'the queue';
COMMENT ON COLUMN fairq.group_stats.group_key IS 'the group; a key above 48 bytes is cut';
COMMENT ON COLUMN fairq.group_stats.ready IS 'its tasks that can be claimed now, if limits let them';
COMMENT ON COLUMN fairq.group_stats.overflow IS 'its tasks without an address';
COMMENT ON COLUMN fairq.group_stats.leased IS 'its tasks in flight';
COMMENT ON COLUMN fairq.group_stats.weight IS 'the weight in force; null: the policy has none';
COMMENT ON COLUMN fairq.group_stats.max_leased IS 'the limit of tasks in flight; null: none';
COMMENT ON COLUMN fairq.group_stats.rate IS 'the limit of claims a second; null: none';
COMMENT ON COLUMN fairq.group_stats.burst IS 'how many claims may come at once; null: no limit';
COMMENT ON COLUMN fairq.group_stats.tokens IS 'how many claims its rate allows just now';
COMMENT ON COLUMN fairq.group_stats.paused IS 'whether claims return none of its tasks';
COMMENT ON COLUMN fairq.group_stats.served IS 'tasks claimed since it was idle last';
COMMENT ON COLUMN fairq.group_stats.served_cost IS 'what they were charged: costs, or seconds';
COMMENT ON COLUMN fairq.group_stats.share IS 'its part of what was served while it had work';
COMMENT ON COLUMN fairq.group_stats.expected_share IS 'its part by the weights; null if the policy has none';
COMMENT ON COLUMN fairq.group_stats.share_error IS 'share less expected_share';
COMMENT ON COLUMN fairq.group_stats.oldest_wait IS 'how long the first of its ready tasks has waited at most';
COMMENT ON COLUMN fairq.group_stats.run_time IS 'how long its tasks have run since it was idle last, in all';
COMMENT ON COLUMN fairq.group_stats.all_served_cost IS 'what the queue has served in its classes while it had work, as served_cost';
COMMENT ON COLUMN fairq.group_stats.group_id IS 'what fairq.group_id() says of the whole key';

COMMENT ON VIEW fairq.group_settings IS 'What groups were given, in the queues that one may read, to pg_monitor in all; null is the default of the queue.';
COMMENT ON COLUMN fairq.group_settings.queue IS 'the queue';
COMMENT ON COLUMN fairq.group_settings.group_key IS 'the group';
COMMENT ON COLUMN fairq.group_settings.weight IS 'its share between groups that have work';
COMMENT ON COLUMN fairq.group_settings.max_leased IS 'at most so many of its tasks in flight; 0: no limit';
COMMENT ON COLUMN fairq.group_settings.rate IS 'at most so many claims a second; 0: no limit';
COMMENT ON COLUMN fairq.group_settings.burst IS 'so many at once after a while with fewer; 0: as many as rate';
COMMENT ON COLUMN fairq.group_settings.paused IS 'whether claims return none of its tasks';
COMMENT ON COLUMN fairq.group_settings.group_id IS 'what fairq.group_id() says of the key';

COMMENT ON VIEW fairq.subgroup_stats IS 'For each subgroup with work, in the queues that one may read, to pg_monitor in all: its tasks, its limits and its share of its group''s.';
COMMENT ON COLUMN fairq.subgroup_stats.queue IS 'the queue';
COMMENT ON COLUMN fairq.subgroup_stats.group_key IS 'the group; a key above 48 bytes is cut';
COMMENT ON COLUMN fairq.subgroup_stats.subgroup_key IS 'the subgroup; a key above 48 bytes is cut; empty: of tasks that have none';
COMMENT ON COLUMN fairq.subgroup_stats.overflow IS 'its tasks that wait';
COMMENT ON COLUMN fairq.subgroup_stats.leased IS 'its tasks in flight';
COMMENT ON COLUMN fairq.subgroup_stats.weight IS 'the weight in force, between the subgroups of its group';
COMMENT ON COLUMN fairq.subgroup_stats.max_leased IS 'the limit of tasks in flight; null: none';
COMMENT ON COLUMN fairq.subgroup_stats.rate IS 'the limit of claims a second; null: none';
COMMENT ON COLUMN fairq.subgroup_stats.burst IS 'how many claims may come at once; null: no limit';
COMMENT ON COLUMN fairq.subgroup_stats.tokens IS 'how many claims its rate allows just now';
COMMENT ON COLUMN fairq.subgroup_stats.paused IS 'whether claims return none of its tasks';
COMMENT ON COLUMN fairq.subgroup_stats.served IS 'tasks claimed since it was idle last';
COMMENT ON COLUMN fairq.subgroup_stats.served_cost IS 'what they were charged: costs, or seconds';
COMMENT ON COLUMN fairq.subgroup_stats.share IS 'its part of what the known subgroups of its group were served; null: nothing';
COMMENT ON COLUMN fairq.subgroup_stats.expected_share IS 'its part by the weights of the subgroups of its group that have work';
COMMENT ON COLUMN fairq.subgroup_stats.run_time IS 'how long its tasks have run since it was idle last, in all';
COMMENT ON COLUMN fairq.subgroup_stats.group_id IS 'what fairq.group_id() says of the whole key of the group';
COMMENT ON COLUMN fairq.subgroup_stats.subgroup_id IS 'what fairq.group_id() says of the whole key of the subgroup';

COMMENT ON VIEW fairq.subgroup_settings IS 'What subgroups were given, in the queues that one may read, to pg_monitor in all; null is the default of the queue.';
COMMENT ON COLUMN fairq.subgroup_settings.queue IS 'the queue';
COMMENT ON COLUMN fairq.subgroup_settings.group_key IS 'the group';
COMMENT ON COLUMN fairq.subgroup_settings.subgroup_key IS 'the subgroup; empty: of tasks that have none';
COMMENT ON COLUMN fairq.subgroup_settings.weight IS 'its share between the subgroups of its group that have work';
COMMENT ON COLUMN fairq.subgroup_settings.max_leased IS 'at most so many of its tasks in flight; 0: no limit';
COMMENT ON COLUMN fairq.subgroup_settings.rate IS 'at most so many claims a second; 0: no limit';
COMMENT ON COLUMN fairq.subgroup_settings.burst IS 'so many at once after a while with fewer; 0: as many as rate';
COMMENT ON COLUMN fairq.subgroup_settings.paused IS 'whether claims return none of its tasks';
COMMENT ON COLUMN fairq.subgroup_settings.group_id IS 'what fairq.group_id() says of the key of the group';
COMMENT ON COLUMN fairq.subgroup_settings.subgroup_id IS 'what fairq.group_id() says of the key of the subgroup';

COMMENT ON VIEW fairq.bucket_stats IS 'For each bucket and class in use what the engine has of it in memory, of the queues that one may read, to pg_monitor of all.';
COMMENT ON COLUMN fairq.bucket_stats.queue IS 'the queue';
COMMENT ON COLUMN fairq.bucket_stats.bucket IS 'the bucket';
COMMENT ON COLUMN fairq.bucket_stats.class IS 'the priority class';
COMMENT ON COLUMN fairq.bucket_stats.ready IS 'entries in its window';
COMMENT ON COLUMN fairq.bucket_stats.complete IS 'whether the window has all there is';
COMMENT ON COLUMN fairq.bucket_stats.next_address IS 'the first address in the window';
COMMENT ON COLUMN fairq.bucket_stats.frontier IS 'from where on the index is read; null if that is not needed';

COMMENT ON VIEW fairq.leases IS 'The tasks in flight of the queues that one may read, to pg_monitor of all.';
COMMENT ON COLUMN fairq.leases.queue IS 'the queue';
COMMENT ON COLUMN fairq.leases.id IS 'the task';
COMMENT ON COLUMN fairq.leases.receipt IS 'names the lease';
COMMENT ON COLUMN fairq.leases.lease_until IS 'when it ends, under a session unless a heartbeat comes';
COMMENT ON COLUMN fairq.leases.attempt IS 'which attempt this is, from 1';
COMMENT ON COLUMN fairq.leases.state IS 'held, settling or expired';
COMMENT ON COLUMN fairq.leases.pid IS 'the backend that claimed';

COMMENT ON VIEW fairq.sessions IS 'The sessions of one''s own roles in this database, to pg_monitor all.';
COMMENT ON COLUMN fairq.sessions.session IS 'the session';
COMMENT ON COLUMN fairq.sessions.name IS 'what it was called when it was opened';
COMMENT ON COLUMN fairq.sessions.role IS 'who opened it';
COMMENT ON COLUMN fairq.sessions.opened_at IS 'when it was opened';
COMMENT ON COLUMN fairq.sessions.ttl IS 'how long it lives without a heartbeat';
COMMENT ON COLUMN fairq.sessions.alive_until IS 'when it ends unless a heartbeat comes; null: it is over';
COMMENT ON COLUMN fairq.sessions.bound IS 'whether it ends with the connection that opened it';
COMMENT ON COLUMN fairq.sessions.pid IS 'the backend that opened it';
COMMENT ON COLUMN fairq.sessions.leases IS 'how many leases it has';
COMMENT ON COLUMN fairq.sessions.client IS 'the address of its client; null: on this machine';
COMMENT ON COLUMN fairq.sessions.quarantine IS 'whether it runs a task alone that was lost twice, or empties itself for one';

COMMENT ON VIEW fairq.dead_tasks IS 'The tasks whose attempts are used up, of the queues that one may read.';
COMMENT ON COLUMN fairq.dead_tasks.queue IS 'the queue';
COMMENT ON COLUMN fairq.dead_tasks.id IS 'the task';
COMMENT ON COLUMN fairq.dead_tasks.group_key IS 'whom it counts for';
COMMENT ON COLUMN fairq.dead_tasks.payload IS 'what it is about';
COMMENT ON COLUMN fairq.dead_tasks.headers IS 'what else its producer gave';
COMMENT ON COLUMN fairq.dead_tasks.priority IS 'its class or number';
COMMENT ON COLUMN fairq.dead_tasks.attempts IS 'how many have failed';
COMMENT ON COLUMN fairq.dead_tasks.enqueued_at IS 'when it was enqueued';
COMMENT ON COLUMN fairq.dead_tasks.last_error IS 'of the last attempt that gave one';
COMMENT ON COLUMN fairq.dead_tasks.name IS 'what is to be done, for handlers and figures; null: none';
COMMENT ON COLUMN fairq.dead_tasks.lost IS 'how many leases have ended without an answer';
COMMENT ON COLUMN fairq.dead_tasks.history IS 'its last ten ends that were failures or losses; null: none';
COMMENT ON COLUMN fairq.dead_tasks.subgroup_key IS 'for which subgroup of the group; null: none, or that with the empty key';

COMMENT ON VIEW fairq.done_tasks IS 'The done tasks that queues have kept, in the tables that one may read.';
COMMENT ON COLUMN fairq.done_tasks.queue IS 'the queue';
COMMENT ON COLUMN fairq.done_tasks.id IS 'the task';
COMMENT ON COLUMN fairq.done_tasks.enqueued_at IS 'when it was enqueued';
COMMENT ON COLUMN fairq.done_tasks.claimed_at IS 'when it was claimed last; null if it was not leased when it ended';
COMMENT ON COLUMN fairq.done_tasks.done_at IS 'when it was acknowledged or removed';
COMMENT ON COLUMN fairq.done_tasks.run_at IS 'when it was due; null: at once';
COMMENT ON COLUMN fairq.done_tasks.priority IS 'its class or number';
COMMENT ON COLUMN fairq.done_tasks.cost IS 'what it counted for';
COMMENT ON COLUMN fairq.done_tasks.attempts IS 'how many were answered';
COMMENT ON COLUMN fairq.done_tasks.outcome IS 'acked, cancelled, dead or expired';
COMMENT ON COLUMN fairq.done_tasks.group_key IS 'whom it counted for';
COMMENT ON COLUMN fairq.done_tasks.payload IS 'what it was about';
COMMENT ON COLUMN fairq.done_tasks.headers IS 'what else its producer gave';
COMMENT ON COLUMN fairq.done_tasks.unique_key IS 'its key; null: none';
COMMENT ON COLUMN fairq.done_tasks.last_error IS 'of the last attempt that gave one';
COMMENT ON COLUMN fairq.done_tasks.result IS 'what fairq.ack() was given';
COMMENT ON COLUMN fairq.done_tasks.name IS 'what is to be done, for handlers and figures; null: none';
COMMENT ON COLUMN fairq.done_tasks.lost IS 'how many leases have ended without an answer; null: none';
COMMENT ON COLUMN fairq.done_tasks.history IS 'its last ten ends that were failures or losses; null: none';
COMMENT ON COLUMN fairq.done_tasks.subgroup_key IS 'for which subgroup of the group; null: none, or that with the empty key';

COMMENT ON VIEW fairq.topics IS 'The subscriptions of the queues of this database.';
COMMENT ON COLUMN fairq.topics.topic IS 'the topic, with the wildcards * and #';
COMMENT ON COLUMN fairq.topics.queue IS 'the queue that is subscribed';

COMMENT ON VIEW fairq.dependencies IS 'Which held tasks wait for the end of which others, in the queues that one may read, to pg_monitor in all.';
COMMENT ON COLUMN fairq.dependencies.queue IS 'the queue of both tasks';
COMMENT ON COLUMN fairq.dependencies.task IS 'the id of the task that waits';
COMMENT ON COLUMN fairq.dependencies.predecessor IS 'the id of the task whose end it waits for';
COMMENT ON COLUMN fairq.dependencies.on_dead IS 'what it means that this one has failed: hold, cancel or run';
COMMENT ON COLUMN fairq.dependencies.failed IS 'whether it has: it was dead, was cancelled, or has expired';

COMMENT ON VIEW fairq.schedules IS 'The schedules of one''s own roles and how they go, to pg_monitor all, without payload and headers.';
COMMENT ON COLUMN fairq.schedules.name IS 'its name, one in the database';
COMMENT ON COLUMN fairq.schedules.queue IS 'the queue in which tasks are enqueued, by name';
COMMENT ON COLUMN fairq.schedules.owner IS 'the role as which tasks are enqueued';
COMMENT ON COLUMN fairq.schedules.cron IS 'when, as it was given';
COMMENT ON COLUMN fairq.schedules.timezone IS 'by what clock';
COMMENT ON COLUMN fairq.schedules.catch_up IS 'which ticks are run that were missed: none, one or all';
COMMENT ON COLUMN fairq.schedules.overlap IS 'whether a task is enqueued while the last one waits or runs';
COMMENT ON COLUMN fairq.schedules.active IS 'whether there are ticks at all';
COMMENT ON COLUMN fairq.schedules.next_run IS 'the next tick; null if it is not active';
COMMENT ON COLUMN fairq.schedules.last_run IS 'when a task was enqueued last';
COMMENT ON COLUMN fairq.schedules.last_task IS 'the id of that task';
COMMENT ON COLUMN fairq.schedules.skipped IS 'ticks at which the last task was still there';
COMMENT ON COLUMN fairq.schedules.failures IS 'ticks in a row, up to now, that failed';
COMMENT ON COLUMN fairq.schedules.last_error IS 'SQLSTATE and message of the last failure since the schedule was made or replaced';
COMMENT ON COLUMN fairq.schedules.last_error_at IS 'when that was';
COMMENT ON COLUMN fairq.schedules.group_key IS 'of its tasks';
COMMENT ON COLUMN fairq.schedules.priority IS 'of its tasks; null is the default';
COMMENT ON COLUMN fairq.schedules.cost IS 'of its tasks';
COMMENT ON COLUMN fairq.schedules.payload IS 'of its tasks; null to who may not act as the owner';
COMMENT ON COLUMN fairq.schedules.headers IS 'of its tasks, without what a tick adds; null to who may not act as the owner';
COMMENT ON COLUMN fairq.schedules.task_name IS 'the name of its tasks; null: none';
COMMENT ON COLUMN fairq.schedules.subgroup_key IS 'the subgroup of its tasks; null: none';

-- ---------------------------------------------------------------------------
-- What is not for applications
-- ---------------------------------------------------------------------------

COMMENT ON TABLE fairq.queue IS 'Settings of queues; written by fairq.create_queue() and fairq.alter_queue(), read through the view fairq.queues.';
COMMENT ON TABLE fairq.group_setting IS 'Settings of groups and subgroups; written by fairq.set_group(), fairq.pause_group() and their twins, read through the views fairq.group_settings and fairq.subgroup_settings.';
COMMENT ON TABLE fairq.topic IS 'Subscriptions of queues; written by fairq.subscribe() and fairq.unsubscribe(), read through the view fairq.topics.';
COMMENT ON TABLE fairq.schedule IS 'Schedules; written by fairq.schedule() and by whoever runs them, read through the view fairq.schedules.';
COMMENT ON TABLE fairq.dependency IS 'Which tasks wait for which others, as after of fairq.enqueue() says; written by the engine alone, read through the view fairq.dependencies.';
COMMENT ON TABLE fairq.durable_lease IS 'Leases that survive a crash and a failover; written by the engine alone, and may have no index.';
COMMENT ON TABLE fairq_internal.remembered_key IS 'Unique keys that are remembered for unique_for of fairq.enqueue(), with the task of each; written by the engine alone.';
COMMENT ON TABLE fairq_internal.node IS 'The number of this database as a node, written by fairq.set_node(), and what proxies say that it is to their cluster.';
COMMENT ON TABLE fairq_internal.id_lineage IS 'To which history of the server the ids of each queue belong.';

COMMENT ON TABLE fairq_internal.departing IS 'Tasks on their way to another node, out of their queue.';
COMMENT ON TABLE fairq_internal.arrived IS 'The batches of tasks that have come from other nodes in the last days.';
