-- as: worker
-- What a worker may do and should not.
SELECT fairq.claim('theirs', 100);
SELECT fairq.nack(receipt, repeat('e', 1000000), '10 years') FROM fairq.leases WHERE queue = 'theirs' LIMIT 3;
SELECT fairq.extend(receipt, '10 years') FROM fairq.leases WHERE queue = 'theirs';
SELECT fairq.cancel('theirs', id) FROM fairq.tasks('theirs') LIMIT 3;
\set ON_ERROR_STOP off
SELECT fairq.pause('theirs');
SELECT fairq.drop_queue('theirs');
SELECT fairq.alter_queue('theirs', buckets => 1);
SELECT fairq.subscribe('#', 'theirs');
SELECT fairq.reset_stats('theirs');
SELECT fairq.set_group('theirs', 'a', weight => 1000);
TRUNCATE fairq.q_theirs;
