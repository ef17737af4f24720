-- Andrew Werner's "Quick and Easy, Exactly-Once, Distributed Work Queues Using
-- Serializable Transactions" (for CockroachDB):
--
-- - a worker has a session, which it keeps alive by heartbeats;
-- - a task is claimed by writing the session into it;
-- - the ack is a statement of the transaction that writes the result, and has an
--   effect only while the task is still that session's and the session is alive;
-- - the sessions that are alive deal the buckets out among themselves, so that two
--   of them never look at the same rows.
--
-- The first part of the article was at hand, the rest is put together from
-- descriptions of it. Where it relies on serializable transactions, the session's
-- row is locked here (FOR SHARE): whoever would end the session waits for that.
CREATE TABLE bench_werner.session (
	id int PRIMARY KEY,
	alive_until timestamptz NOT NULL
);

CREATE TABLE bench_werner.bucket (
	bucket int PRIMARY KEY,
	session int REFERENCES bench_werner.session
);

CREATE SEQUENCE bench_werner.ids CACHE 64;

CREATE TABLE bench_werner.task (
	bucket int NOT NULL DEFAULT floor(random() * 64),
	id bigint NOT NULL DEFAULT nextval('bench_werner.ids'),
	session int,
	group_key text NOT NULL DEFAULT '',
	payload jsonb NOT NULL,
	PRIMARY KEY (bucket, id)
);

INSERT INTO bench_werner.bucket SELECT generate_series(0, 63);

CREATE FUNCTION bench_werner.heartbeat(mine int) RETURNS boolean
LANGUAGE sql
AS $$
	UPDATE bench_werner.session SET alive_until = now() + interval '10 s'
	WHERE id = mine AND alive_until > now() RETURNING true
$$;

-- So many live sessions, each with its share of the buckets.
CREATE PROCEDURE bench_werner.deal(sessions int)
LANGUAGE sql
BEGIN ATOMIC
	UPDATE bench_werner.bucket SET session = NULL;
	DELETE FROM bench_werner.session;
	INSERT INTO bench_werner.session SELECT i, now() + interval '1 hour' FROM generate_series(0, sessions - 1) i;
	UPDATE bench_werner.bucket SET session = bucket % sessions;
END;
