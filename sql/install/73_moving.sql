-- Tasks that leave for another node. A task is taken out of its queue and written here in
-- one transaction, under a batch that names the node that gets it; that node enqueues the
-- batch and notes its name in another; then it is forgotten here. So whoever carries it
-- may die between any two steps, and whoever comes next repeats the last one: a batch
-- whose name is noted is not enqueued again, not even by a call that was lost long ago.
-- No transaction is prepared: no lock is held while a server is away.
CREATE TABLE fairq_internal.departing (
    queue pg_catalog.text COLLATE pg_catalog."C" NOT NULL REFERENCES fairq.queue ON DELETE CASCADE,
    id pg_catalog.int8 NOT NULL,
    batch pg_catalog.uuid NOT NULL,
    target pg_catalog.int4 NOT NULL,
    turn pg_catalog.int8 NOT NULL,
    task pg_catalog.jsonb NOT NULL,
    PRIMARY KEY (queue, id)
);
CREATE INDEX departing_by_batch ON fairq_internal.departing USING btree (batch, turn);
SELECT pg_catalog.pg_extension_config_dump('fairq_internal.departing', '');

-- As with fairq.group_setting: only a deletion of the queue is looked after.
ALTER TABLE fairq_internal.departing DISABLE TRIGGER ALL;
REVOKE ALL ON fairq_internal.departing FROM PUBLIC;

CREATE TABLE fairq_internal.arrived (
    batch pg_catalog.uuid NOT NULL PRIMARY KEY,
    arrived_at pg_catalog.timestamptz NOT NULL DEFAULT pg_catalog.now()
);
SELECT pg_catalog.pg_extension_config_dump('fairq_internal.arrived', '');
REVOKE ALL ON fairq_internal.arrived FROM PUBLIC;

-- Run a statement as the owner of a queue, in a restricted context: what the owner has
-- attached to the table does not run as the caller. $1 is the argument.
CREATE OR REPLACE FUNCTION fairq_internal.as_owner(queue text, statement text, argument jsonb)
RETURNS SETOF jsonb LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_as_owner';
COMMENT ON FUNCTION fairq_internal.as_owner IS 'Run a statement as the owner of a queue, in a restricted context.';

-- Which of these tasks the queue has. A task that was moved has the number of another node.
CREATE OR REPLACE FUNCTION fairq_internal.tasks_here(queue text, ids bigint[])
RETURNS bigint[] LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_tasks_here';
COMMENT ON FUNCTION fairq_internal.tasks_here IS 'Return those of the ids whose tasks the queue has.';

-- Tasks of a queue that may leave, in their order, but for those to be skipped: not leased,
-- and neither waiting for others nor waited for.
CREATE OR REPLACE FUNCTION fairq_internal.tasks_to_move(name text, most int, skip bigint[],
    OUT id bigint, OUT group_key text, OUT unique_key text)
RETURNS SETOF record LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    skip := skip || array(SELECT l.id FROM fairq_internal.live_leases() l WHERE l.queue = name)
        || array(SELECT unnest(ARRAY[d.task, d.predecessor]) FROM fairq.dependency d WHERE d.queue = name);
    RETURN QUERY SELECT (t ->> 0)::bigint, t ->> 1, t ->> 2 FROM fairq_internal.as_owner(name, format(
        'SELECT jsonb_build_array(t.id, t.group_key, t.unique_key) FROM ('
        ' (SELECT q.id, q.group_key, q.unique_key, 1 AS part, q.address FROM fairq.%1$I q WHERE q.address IS NOT NULL'
        '  AND q.id NOT IN (SELECT value::bigint FROM jsonb_array_elements_text($1)) ORDER BY q.address LIMIT %2$s)'
        ' UNION ALL'
        ' (SELECT q.id, q.group_key, q.unique_key, 2, NULL FROM fairq.%1$I q WHERE q.address IS NULL'
        '  AND q.id NOT IN (SELECT value::bigint FROM jsonb_array_elements_text($1)) ORDER BY q.id LIMIT %2$s)'
        ') t ORDER BY t.part, t.address, t.id LIMIT %2$s', 'q_' || name, most), to_jsonb(skip)) t;
END
$$;
COMMENT ON FUNCTION fairq_internal.tasks_to_move IS 'Tasks of a queue that may leave for another node, in their order.';

-- Take tasks out of a queue for a node; returns which. A row is deleted first, and no
-- lease is granted on it from then on; if there is one already, or another task of its
-- unique key stays here, or another waits for it, that task stays, too. The lock keeps out
-- whoever would make others wait for one that leaves, and all queues that have such: so it
-- comes last, when no code of the owner's is run any more (casts, triggers, index predicates).
CREATE OR REPLACE FUNCTION fairq_internal.depart(name text, ids bigint[], batch uuid, target int)
RETURNS bigint[] LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    stay bigint[] := '{}';
    keys jsonb;
    statement text := format(
        'WITH chosen AS MATERIALIZED (SELECT q.id FROM fairq.%1$I q'
        ' WHERE q.id IN (SELECT value::bigint FROM jsonb_array_elements_text($1)) FOR UPDATE SKIP LOCKED)'
        ' DELETE FROM fairq.%1$I q USING chosen WHERE q.id = chosen.id'
        ' RETURNING to_jsonb(q) - ''{address,payload,headers}''::text[]'
        ' || jsonb_build_object(''payload'', q.payload::text, ''headers'', q.headers::text)', 'q_' || name);
BEGIN
    LOOP
        stay := stay || array(SELECT unnest(ARRAY[d.task, d.predecessor]) FROM fairq.dependency d WHERE d.queue = name);
        ids := array(SELECT i FROM unnest(ids) WITH ORDINALITY AS given (i, n) WHERE i <> ALL (stay) ORDER BY n);
        BEGIN
            INSERT INTO fairq_internal.departing (queue, id, batch, target, turn, task)
                SELECT name, given.i, batch, target, given.n, t
                FROM fairq_internal.as_owner(name, statement, to_jsonb(ids)) t
                JOIN unnest(ids) WITH ORDINALITY AS given (i, n) ON given.i = (t ->> 'id')::bigint;
            stay := array(SELECT l.id FROM fairq_internal.live_leases() l WHERE l.queue = name AND l.id = ANY (ids));
            SELECT jsonb_agg(DISTINCT d.task -> 'unique_key') INTO keys FROM fairq_internal.departing d
                WHERE d.batch = depart.batch AND d.task ->> 'unique_key' IS NOT NULL AND d.task ->> 'state' <> 'd';
            IF keys IS NOT NULL THEN
                stay := stay || array(SELECT d.id FROM fairq_internal.as_owner(name, format(
                        'SELECT to_jsonb(q.unique_key) FROM fairq.%I q WHERE q.state <> ''d'' AND q.unique_key COLLATE "C"'
                        ' IN (SELECT value COLLATE "C" FROM jsonb_array_elements_text($1))', 'q_' || name), keys) k
                    JOIN fairq_internal.departing d ON d.task -> 'unique_key' = k AND d.task ->> 'state' <> 'd'
                    WHERE d.batch = depart.batch);
            END IF;
            LOCK TABLE fairq.dependency IN SHARE ROW EXCLUSIVE MODE;
            stay := stay || array(SELECT i FROM fairq.dependency d, unnest(ARRAY[d.task, d.predecessor]) i
                WHERE d.queue = name AND i = ANY (ids));
            EXIT WHEN stay = '{}';
            RAISE SQLSTATE 'FQ001'; -- back to where no task has left
        EXCEPTION WHEN SQLSTATE 'FQ001' THEN
            NULL;
        END;
    END LOOP;
    RETURN array(SELECT d.id FROM fairq_internal.departing d WHERE d.batch = depart.batch ORDER BY d.turn);
END
$$;
COMMENT ON FUNCTION fairq_internal.depart IS 'Take tasks out of a queue for another node; returns which.';

-- The batches that have left, and one of them as it travels.
CREATE OR REPLACE FUNCTION fairq_internal.departures(OUT batch uuid, OUT target int, OUT queue text, OUT tasks bigint)
RETURNS SETOF record LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT d.batch, d.target, d.queue, count(*) FROM fairq_internal.departing d
    GROUP BY d.batch, d.target, d.queue ORDER BY d.queue, min(d.id)
$$;
COMMENT ON FUNCTION fairq_internal.departures IS 'The batches of tasks that are on their way to other nodes.';

CREATE OR REPLACE FUNCTION fairq_internal.departing_tasks(batch uuid)
RETURNS jsonb LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT jsonb_agg(d.task ORDER BY d.turn) FROM fairq_internal.departing d WHERE d.batch = $1
$$;
COMMENT ON FUNCTION fairq_internal.departing_tasks IS 'The tasks of a batch that is on its way, as they travel.';

CREATE OR REPLACE FUNCTION fairq_internal.forget_departed(batch uuid)
RETURNS bigint LANGUAGE sql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH gone AS (DELETE FROM fairq_internal.departing d WHERE d.batch = $1 RETURNING 1) SELECT count(*) FROM gone
$$;
COMMENT ON FUNCTION fairq_internal.forget_departed IS 'Forget a batch that has arrived.';

-- Enqueue a batch of another node, once. Its tasks keep their ids, by which users know
-- them and what they have led to, and which no node gives again; what was ready is
-- held until the worker looks at it, right after the commit, and gives it a place in this
-- queue's order, behind another task of its unique key if there is one.
CREATE OR REPLACE FUNCTION fairq_internal.arrive(batch uuid, name text, tasks jsonb)
RETURNS bigint LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    relation regclass := (SELECT q.relation FROM fairq.queues q WHERE q.queue = name);
    columns text;
    expressions text;
BEGIN
    INSERT INTO fairq_internal.arrived (batch) VALUES (batch) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    DELETE FROM fairq_internal.arrived a WHERE a.arrived_at < now() - interval '7 days';
    SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum), string_agg(CASE attname
            WHEN 'id' THEN '(t ->> ''id'')::bigint'
            WHEN 'address' THEN 'NULL'
            WHEN 'state' THEN 'CASE WHEN t ->> ''state'' IN (''s'', ''d'') THEN r.state ELSE ''h'' END'
            WHEN 'payload' THEN '(t ->> ''payload'')::jsonb'
            WHEN 'headers' THEN '(t ->> ''headers'')::jsonb'
            ELSE 'r.' || quote_ident(attname) END, ', ' ORDER BY attnum)
        INTO columns, expressions
        FROM pg_attribute WHERE attrelid = relation AND attnum > 0 AND NOT attisdropped AND attgenerated = '';
    RETURN count(*) FROM fairq_internal.as_owner(name, format(
        'INSERT INTO %1$s (%2$s) SELECT %3$s FROM jsonb_array_elements($1) WITH ORDINALITY AS e (t, n)'
        ' CROSS JOIN LATERAL jsonb_populate_record(NULL::%1$s, t) r ORDER BY n RETURNING to_jsonb(id)',
        relation, columns, expressions), tasks);
END
$$;
COMMENT ON FUNCTION fairq_internal.arrive IS 'Enqueue a batch of another node, once.';

-- Tasks that have left for a node that is no more come back to their queue.
CREATE OR REPLACE FUNCTION fairq_internal.depart_no_more(batch uuid)
RETURNS bigint LANGUAGE sql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH gone AS (DELETE FROM fairq_internal.departing d WHERE d.batch = $1 RETURNING d.queue, d.turn, d.task)
    SELECT coalesce(sum(fairq_internal.arrive(gen_random_uuid(), b.queue, b.tasks)), 0)::bigint
    FROM (SELECT queue, jsonb_agg(task ORDER BY turn) AS tasks FROM gone GROUP BY queue) b
$$;
COMMENT ON FUNCTION fairq_internal.depart_no_more IS 'Put a batch back into its queue whose node is no more.';
