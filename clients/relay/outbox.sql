-- The outbox and the inbox, in the application's database: a managed PostgreSQL, 12 or
-- later, without pgfairq.  Plain SQL, for any role that may create a schema; it may be run
-- again.  README.md says which roles need what, doc/managed.md how it is used.

BEGIN;

CREATE SCHEMA IF NOT EXISTS fairq_relay;

-- What is to be enqueued: a column for each argument of fairq.enqueue.  The relay takes the
-- rows away.
CREATE TABLE IF NOT EXISTS fairq_relay.outbox (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    queue text COLLATE "C" NOT NULL CHECK (octet_length(queue) BETWEEN 1 AND 48),
    payload jsonb NOT NULL,
    group_key text COLLATE "C" NOT NULL DEFAULT '' CHECK (octet_length(group_key) <= 1024),
    subgroup_key text,
    name text,
    priority bigint,
    cost double precision,
    run_at timestamptz,
    delay interval,
    expires_at timestamptz,
    unique_key text,
    on_duplicate text,
    unique_for interval,
    max_attempts int,
    max_lost int,
    lease interval,
    headers jsonb,
    after bigint[],                     -- ids of the outbox
    on_dead text,
    wants_result boolean NOT NULL DEFAULT false
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- A line is what has an order: the rows of a group for a queue.
CREATE INDEX IF NOT EXISTS outbox_line ON fairq_relay.outbox (queue, group_key, id);

-- Rows that the server has refused, each with the reason.
CREATE TABLE IF NOT EXISTS fairq_relay.refused (
    LIKE fairq_relay.outbox,
    code text NOT NULL,                 -- SQLSTATE
    error text NOT NULL,
    refused_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (id, created_at)
);

-- Rows that were sent and want a result.  The result takes its row away, so there is one.
CREATE TABLE IF NOT EXISTS fairq_relay.awaited (
    id bigint NOT NULL,
    created_at timestamptz NOT NULL,
    queue text NOT NULL,
    group_key text NOT NULL,
    name text,
    PRIMARY KEY (id, created_at)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- How tasks have ended.  The application takes the rows away.
CREATE TABLE IF NOT EXISTS fairq_relay.inbox (
    id bigint NOT NULL,                 -- of the row of the outbox
    queue text NOT NULL,
    group_key text NOT NULL,
    name text,
    state text NOT NULL,                -- acked, dead, cancelled, expired, or gone: it has ended, and how is not known
    result jsonb,
    error text,
    done_at timestamptz,
    received_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX IF NOT EXISTS inbox_id ON fairq_relay.inbox (id);

-- What this outbox is called at the server, and which server it belongs to.
CREATE TABLE IF NOT EXISTS fairq_relay.origin (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    name text NOT NULL DEFAULT format('%s %s %s', current_database(), clock_timestamp(), (random() * 1e9)::bigint),
    target text                         -- set by the first relay
);
INSERT INTO fairq_relay.origin DEFAULT VALUES ON CONFLICT DO NOTHING;

-- A transaction has its number before it takes an id.  So when all transactions with lower
-- numbers than that of a relay have ended, no id is to come that is below those it has seen.
CREATE OR REPLACE FUNCTION fairq_relay.begin_transaction() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_catalog.txid_current();
    RETURN NULL;
END
$$;
DROP TRIGGER IF EXISTS begin_transaction ON fairq_relay.outbox;
CREATE TRIGGER begin_transaction BEFORE INSERT ON fairq_relay.outbox
    FOR EACH STATEMENT EXECUTE FUNCTION fairq_relay.begin_transaction();
ALTER TABLE fairq_relay.outbox ENABLE ALWAYS TRIGGER begin_transaction;

-- Wakes the relay, or who reads the inbox: LISTEN fairq_relay_outbox, fairq_relay_inbox.
CREATE OR REPLACE FUNCTION fairq_relay.notify() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_catalog.pg_notify('fairq_relay_' OPERATOR(pg_catalog.||) TG_TABLE_NAME, '');
    RETURN NULL;
END
$$;
DROP TRIGGER IF EXISTS notify ON fairq_relay.outbox;
CREATE TRIGGER notify AFTER INSERT ON fairq_relay.outbox
    FOR EACH STATEMENT EXECUTE FUNCTION fairq_relay.notify();
DROP TRIGGER IF EXISTS notify ON fairq_relay.inbox;
CREATE TRIGGER notify AFTER INSERT ON fairq_relay.inbox
    FOR EACH STATEMENT EXECUTE FUNCTION fairq_relay.notify();

-- Has a refused row sent again, after what was wrong with it, or with the server, is mended.
CREATE OR REPLACE FUNCTION fairq_relay.retry(refused_id bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    WITH again AS (
        DELETE FROM fairq_relay.refused r WHERE r.id = refused_id RETURNING r.*
    )
    INSERT INTO fairq_relay.outbox (id, created_at, queue, payload, group_key, subgroup_key, name, priority, cost, run_at,
            delay, expires_at, unique_key, on_duplicate, unique_for, max_attempts, max_lost, lease, headers, after, on_dead,
            wants_result)
        OVERRIDING SYSTEM VALUE
        SELECT id, created_at, queue, payload, group_key, subgroup_key, name, priority, cost, run_at,
            delay, expires_at, unique_key, on_duplicate, unique_for, max_attempts, max_lost, lease, headers, after, on_dead,
            wants_result
        FROM again;
    RETURN FOUND;
END
$$;

COMMIT;
