-- The block address queue of Hatchet's article "An unfair advantage: multi-tenant
-- queues in Postgres" (2024), the design and the access paths as published:
--
-- - a task's id is its address: slot of its group + 1024 * 1024 * block; a claim
--   takes the lowest ids, which goes round the groups in turn;
-- - enqueue locks its group's row, takes the next block, and inserts;
-- - a claim is an UPDATE of rows found with SKIP LOCKED, and in the same
--   transaction the highest block that was assigned is noted in a table of one row;
-- - a finished task is marked, as the article's example program does it, and stays.
--
-- There is no index but the primary keys. A new group gets the highest slot + 1, so
-- that two new groups at a time collide; therefore all groups exist beforehand.
CREATE TYPE @SCHEMA@.status AS ENUM ('queued', 'running', 'succeeded', 'failed', 'cancelled');

CREATE TABLE @SCHEMA@.task_group (
	slot bigint PRIMARY KEY,
	group_key text UNIQUE,
	block bigint
);

CREATE TABLE @SCHEMA@.task (
	id bigint PRIMARY KEY,
	created_at timestamp,
	status @SCHEMA@.status NOT NULL,
	args jsonb,
	group_key text REFERENCES @SCHEMA@.task_group (group_key)
);

CREATE TABLE @SCHEMA@.pointer (
	only_row bool PRIMARY KEY DEFAULT true CHECK (only_row),
	assigned_block bigint NOT NULL
);

CREATE PROCEDURE @SCHEMA@.reset()
LANGUAGE sql
BEGIN ATOMIC
	DELETE FROM @SCHEMA@.pointer;
	INSERT INTO @SCHEMA@.pointer (assigned_block) VALUES (0);
	INSERT INTO @SCHEMA@.task_group SELECT i, 'g' || i, 0 FROM generate_series(0, 999) i;
END;

-- The addresses enqueueing one after the other in turn would have given.
CREATE PROCEDURE @SCHEMA@.fill(n bigint, groups int)
LANGUAGE plpgsql
AS $$
DECLARE
	base bigint;
BEGIN
	INSERT INTO @SCHEMA@.task_group SELECT i, 'g' || i, 0 FROM generate_series(0, groups - 1) i
		ON CONFLICT DO NOTHING;
	SELECT max(block) + 1 INTO base FROM @SCHEMA@.task_group;
	UPDATE @SCHEMA@.task_group SET block = base + (n - 1) / groups WHERE slot < groups;
	COMMIT;
	FOR i IN 0 .. n - 1 BY 10000 LOOP
		INSERT INTO @SCHEMA@.task
			SELECT k % groups + 1024 * 1024 * (base + k / groups), now(), 'queued', bench.payload(), 'g' || k % groups
			FROM generate_series(i, least(n, i + 10000) - 1) k;
		COMMIT;
	END LOOP;
END
$$;
