-- as: owner
-- Rows of the archive that were never tasks: of all times, and locked.
INSERT INTO fairq.done_theirs (id, enqueued_at, done_at, priority, cost, attempts, outcome, group_key, payload)
	SELECT n, 'infinity', t::timestamptz, 0, 'NaN', -1, repeat('x', 1000), '', '{}' FROM generate_series(1, 200) n,
		unnest('{infinity,-infinity,4714-11-24 00:00:00+00 BC,294276-12-31 23:59:59+00,2000-01-01,now}'::text[]) t;
SELECT fairq.alter_queue('theirs', keep_done => '1 ms');
BEGIN;
SELECT * FROM fairq.done_theirs FOR UPDATE;
