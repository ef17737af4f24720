-- What pgfairq-relay --from-table needs in the database with the queues: what it has moved
-- from which outbox, and functions that take rows and look for outcomes.  Plain SQL, for any
-- role that may create a schema; it may be run again.  Everything runs as the relay's role.

BEGIN;

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'pgfairq') THEN
        RAISE EXCEPTION 'this database has no extension pgfairq'
            USING HINT = 'Run this in the database with the queues; of a cluster at a node, not at a proxy, whose calls are no part of a transaction.';
    END IF;
END
$$;

CREATE SCHEMA IF NOT EXISTS fairq_relay;

-- What this database is called.
CREATE TABLE IF NOT EXISTS fairq_relay.target (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    name text NOT NULL DEFAULT format('%s %s %s', current_database(), clock_timestamp(), (random() * 1e9)::bigint)
);
INSERT INTO fairq_relay.target DEFAULT VALUES ON CONFLICT DO NOTHING;

CREATE TABLE IF NOT EXISTS fairq_relay.source (
    number int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE
);

-- A row for each row of an outbox that is a task, written in the transaction that enqueues
-- it.  The time is part of the key, for a database that is restored gives out ids again.
CREATE TABLE IF NOT EXISTS fairq_relay.moved (
    source int NOT NULL,                -- number of fairq_relay.source
    id bigint NOT NULL,
    created_at timestamptz NOT NULL,
    moved_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    task bigint NOT NULL,
    queue text COLLATE "C" NOT NULL,
    awaited boolean NOT NULL,           -- its result is to be brought back
    PRIMARY KEY (source, id, created_at)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX IF NOT EXISTS moved_awaited ON fairq_relay.moved (source, queue, task, id) WHERE awaited;
-- With the source: rows of an outbox whose relay is gone are not in the way of others.
CREATE INDEX IF NOT EXISTS moved_old_of ON fairq_relay.moved (source, moved_at) WHERE NOT awaited;
DROP INDEX IF EXISTS fairq_relay.moved_old;

-- A row of an outbox as it arrives.
DO $$
BEGIN
    CREATE TYPE fairq_relay.outbox_row AS (
        id bigint, created_at timestamptz, queue text, payload jsonb, group_key text, subgroup_key text, name text,
        priority bigint, cost double precision, run_at timestamptz, delay interval, expires_at timestamptz, unique_key text,
        on_duplicate text, unique_for interval, max_attempts int, max_lost int, lease interval, headers jsonb,
        after bigint[], on_dead text, wants_result boolean);
EXCEPTION WHEN duplicate_object THEN
    NULL;
END
$$;

-- tasks: those that it comes after.  The JSON value null, as a payload, arrives as NULL.
CREATE OR REPLACE FUNCTION fairq_relay.enqueue(r fairq_relay.outbox_row, tasks bigint[]) RETURNS bigint LANGUAGE sql AS $$
    SELECT fairq.enqueue(r.queue, coalesce(r.payload, 'null'), group_key => r.group_key, priority => r.priority, cost => r.cost,
        run_at => r.run_at, unique_key => r.unique_key, on_duplicate => coalesce(r.on_duplicate, 'keep'),
        max_attempts => r.max_attempts, lease => r.lease, headers => r.headers, expires_at => r.expires_at,
        unique_for => r.unique_for, delay => r.delay, after => tasks, on_dead => coalesce(r.on_dead, 'hold'),
        name => r.name, max_lost => r.max_lost, subgroup_key => r.subgroup_key)
$$;

-- Which of some rows were moved before.  The origin has them again, so it may have lost, with
-- their removal, results that it had: these are brought again, if it still awaits them.
CREATE OR REPLACE FUNCTION fairq_relay.moved_before(source_number int, rows jsonb) RETURNS SETOF bigint
LANGUAGE sql AS $$
    UPDATE fairq_relay.moved m SET awaited = r.wants_result
        FROM jsonb_populate_recordset(NULL::fairq_relay.outbox_row, rows) r
        WHERE m.source = source_number AND m.id = r.id AND m.created_at = r.created_at
        RETURNING m.id
$$;

-- The tasks of earlier rows; those rows that are not known go to missing.
CREATE OR REPLACE FUNCTION fairq_relay.predecessors(source_number int, r fairq_relay.outbox_row, OUT tasks bigint[], OUT missing bigint[])
LANGUAGE plpgsql AS $$
DECLARE
    other record;
BEGIN
    IF array_position(r.after, NULL) IS NOT NULL OR r.id <= ANY (r.after) THEN
        RAISE EXCEPTION 'after must name earlier rows of the outbox' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT array_agg(m.task), array_agg(a.id) FILTER (WHERE m.task IS NULL) INTO tasks, missing
        FROM unnest(r.after) a(id) LEFT JOIN LATERAL (
            SELECT k.task FROM fairq_relay.moved k WHERE k.source = source_number AND k.id = a.id
            ORDER BY k.created_at DESC LIMIT 1) m ON true;
    SELECT k.id, k.queue INTO other FROM fairq_relay.moved k
        WHERE k.source = source_number AND k.id = ANY (r.after) AND k.queue <> r.queue LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'after names row %, which is of queue "%"', other.id, other.queue USING ERRCODE = 'invalid_parameter_value';
    END IF;
END
$$;

-- Takes rows, in the order of their ids, and returns those that it has not taken: refused, later (and
-- with it what follows in its line), or missing: it comes after rows that are not known.
-- All at once; if that fails each by itself, so that an error is the row's own.
-- No plan reads the whole of moved, whatever its size was when a session made its plans.
CREATE OR REPLACE FUNCTION fairq_relay.take(source_number int, rows jsonb)
RETURNS TABLE (id bigint, outcome text, code text, message text, missing bigint[])
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET lock_timeout = '250ms'
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    item record;
    predecessors record;
    line jsonb;
    stopped jsonb[] = '{}';             -- lines
    locked jsonb[] = '{}';              -- queues: one lock is waited for once
    full_queues jsonb[] = '{}';
    one jsonb;
    violated text;
BEGIN
    IF NOT jsonb_path_exists(rows, '$[*].after ? (@ != null)') THEN
        DECLARE
            number bigint;
        BEGIN
            INSERT INTO fairq_relay.moved AS m (source, id, created_at, task, queue, awaited)
                SELECT source_number, r.id, r.created_at, fairq_relay.enqueue(r, NULL), r.queue, r.wants_result
                FROM jsonb_populate_recordset(NULL::fairq_relay.outbox_row, rows) r
                WHERE NOT EXISTS (SELECT FROM fairq_relay.moved k
                    WHERE k.source = source_number AND k.id = r.id AND k.created_at = r.created_at)
                ORDER BY r.id;
            GET DIAGNOSTICS number = ROW_COUNT;
            IF number = jsonb_array_length(rows) THEN
                RETURN;
            END IF;
        EXCEPTION WHEN OTHERS THEN
            NULL;
        END;
    END IF;

    FOR item IN SELECT e.one, r FROM jsonb_array_elements(rows) WITH ORDINALITY e(one, place),
            LATERAL jsonb_populate_record(NULL::fairq_relay.outbox_row, e.one) r ORDER BY e.place
    LOOP
        line := jsonb_build_array((item.r).queue, (item.r).group_key);
        id := (item.r).id;
        outcome := NULL;
        code := NULL;
        message := NULL;
        missing := NULL;
        IF line = ANY (stopped) OR line -> 0 = ANY (locked) OR line -> 0 = ANY (full_queues) THEN
            outcome := 'later';
            code := CASE WHEN line -> 0 = ANY (full_queues) THEN '53400' END;
            RETURN NEXT;
            CONTINUE;
        END IF;
        one := jsonb_build_array(item.one);
        BEGIN
            IF EXISTS (SELECT FROM fairq_relay.moved_before(source_number, one)) THEN
                CONTINUE;
            END IF;
            SELECT * INTO predecessors FROM fairq_relay.predecessors(source_number, item.r);
            IF predecessors.missing IS NOT NULL THEN
                outcome := 'missing';
                missing := predecessors.missing;
            ELSE
                INSERT INTO fairq_relay.moved AS m (source, id, created_at, task, queue, awaited)
                    VALUES (source_number, (item.r).id, (item.r).created_at, fairq_relay.enqueue(item.r, predecessors.tasks),
                        (item.r).queue, (item.r).wants_result);
            END IF;
        EXCEPTION WHEN OTHERS THEN
            GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT, violated = CONSTRAINT_NAME;
            -- A standby, a transaction to be tried again, no room, a lock, a library that waits
            -- for an update, a disk, functions that are not there; a relay that has just moved it.
            outcome := CASE WHEN code ~ '^(08|25|40|53|55|57|58|XX|42883|3F000)' OR code = '23505' AND violated = 'moved_pkey' THEN 'later'
                ELSE 'refused' END;
            IF code = '53400' THEN
                full_queues := full_queues || (line -> 0);
            ELSIF code = '55P03' THEN
                locked := locked || (line -> 0);
            END IF;
        END;
        IF outcome IS NULL THEN
            CONTINUE;
        END IF;
        IF outcome <> 'refused' THEN
            stopped := stopped || line;
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;

-- How a task has ended, or its present state; null: nothing is known of it. Whatever is the
-- matter with one queue, outcomes of others are found: it is not waited for a lock.
CREATE OR REPLACE FUNCTION fairq_relay.outcome(queue text, task bigint) RETURNS fairq.outcome
LANGUAGE plpgsql SET lock_timeout = '1ms'
AS $$
DECLARE
    known fairq.outcome;
BEGIN
    RETURN fairq.await(queue, task, '0');
EXCEPTION WHEN undefined_object THEN
    RETURN NULL;                        -- the queue is dropped
WHEN OTHERS THEN
    known.state := CASE WHEN SQLSTATE = '55P03' THEN 'locked' ELSE 'unreadable' END;
    known.last_error := SQLERRM;
    RETURN known;
END
$$;

-- Awaited tasks that the queue keeps as done since a time, the latest first.
CREATE OR REPLACE FUNCTION fairq_relay.done_since(source_number int, queue_name text, since timestamptz, max_rows int)
RETURNS TABLE (id bigint, created_at timestamptz, task bigint)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET lock_timeout = '1ms'
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    page record;
    number bigint;
    matched bigint = 0;
    before timestamptz;
    before_id bigint;
BEGIN
    LOOP
        SELECT * INTO page FROM fairq_internal.done_page(queue_name, before, before_id, 1000, 1000, NULL, NULL);
        -- Each by itself, through the index.
        RETURN QUERY SELECT m.id, m.created_at, m.task FROM unnest(page.ids) d(done), LATERAL (
            SELECT k.id, k.created_at, k.task FROM fairq_relay.moved k
            WHERE k.source = source_number AND k.queue = queue_name AND k.task = d.done AND k.awaited OFFSET 0) m;
        GET DIAGNOSTICS number = ROW_COUNT;
        matched := matched + number;
        EXIT WHEN page.last_time IS NULL OR page.last_time < since OR matched >= max_rows;
        before := page.last_time;
        before_id := page.last_id;
    END LOOP;
EXCEPTION WHEN OTHERS THEN
    RETURN;                             -- then outcomes are found task by task
END
$$;

COMMIT;
