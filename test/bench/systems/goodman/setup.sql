-- Dan Goodman's "Design for a Simple, Scalable, Priority Task Queue" (2022, for
-- CockroachDB), with SKIP LOCKED, as he recommends since there is such a thing:
--
-- - the primary key is (bucket, time at which the task is due, id), where the
--   bucket is a hash of the id, one of 16: so writes in order of time are spread;
-- - a worker claims from one bucket after the other in turn, by an UPDATE to
--   locked, which counts an attempt;
-- - the reaper gives back what has been locked for too long.
--
-- The first part of the article was at hand, the rest is put together from
-- descriptions of it. CockroachDB's hash-sharded index is a generated column here.
CREATE SEQUENCE bench_goodman.ids CACHE 64;

CREATE TABLE bench_goodman.task (
	id bigint NOT NULL DEFAULT nextval('bench_goodman.ids'),
	exec_time timestamptz NOT NULL DEFAULT now(),
	bucket int NOT NULL GENERATED ALWAYS AS (abs(hashint8(id) % 16)) STORED,
	status text NOT NULL DEFAULT 'queued',
	group_key text NOT NULL DEFAULT '',
	payload jsonb NOT NULL,
	attempts int NOT NULL DEFAULT 0,
	locked_at timestamptz,
	PRIMARY KEY (bucket, exec_time, id)
);

-- Called by a timer, which the measurements are too short for.
CREATE PROCEDURE bench_goodman.reap(most_attempts int DEFAULT 20)
LANGUAGE sql
BEGIN ATOMIC
	UPDATE bench_goodman.task
	SET status = CASE WHEN attempts < most_attempts THEN 'queued' ELSE 'dead' END, locked_at = NULL
	WHERE status = 'locked' AND locked_at < now() - interval '30 s';
END;
