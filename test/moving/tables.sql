-- The tables of queues that no package brings, as far as a move has to do with them: columns, types, constraints
-- and keys as their migrations define them. Only indexes that make no difference here are left out.

-- pgmq from 1.5 on, a queue "emails"
CREATE SCHEMA pgmq;
CREATE TABLE pgmq.q_emails (
    msg_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    read_ct int NOT NULL DEFAULT 0,
    enqueued_at timestamptz NOT NULL DEFAULT now(),
    vt timestamptz NOT NULL,
    message jsonb,
    headers jsonb
);

-- Solid Queue; Rails' datetime is without a zone
CREATE TABLE solid_queue_jobs (
    id bigserial PRIMARY KEY,
    queue_name varchar NOT NULL,
    class_name varchar NOT NULL,
    arguments text,
    priority int NOT NULL DEFAULT 0,
    active_job_id varchar,
    scheduled_at timestamp(6),
    finished_at timestamp(6),
    concurrency_key varchar,
    created_at timestamp(6) NOT NULL,
    updated_at timestamp(6) NOT NULL
);
CREATE TABLE solid_queue_ready_executions (
    id bigserial PRIMARY KEY,
    job_id bigint NOT NULL UNIQUE REFERENCES solid_queue_jobs ON DELETE CASCADE,
    queue_name varchar NOT NULL,
    priority int NOT NULL DEFAULT 0,
    created_at timestamp(6) NOT NULL
);
CREATE TABLE solid_queue_scheduled_executions (
    id bigserial PRIMARY KEY,
    job_id bigint NOT NULL UNIQUE REFERENCES solid_queue_jobs ON DELETE CASCADE,
    queue_name varchar NOT NULL,
    priority int NOT NULL DEFAULT 0,
    scheduled_at timestamp(6) NOT NULL,
    created_at timestamp(6) NOT NULL
);
CREATE TABLE solid_queue_blocked_executions (
    id bigserial PRIMARY KEY,
    job_id bigint NOT NULL UNIQUE REFERENCES solid_queue_jobs ON DELETE CASCADE,
    queue_name varchar NOT NULL,
    priority int NOT NULL DEFAULT 0,
    concurrency_key varchar NOT NULL,
    expires_at timestamp(6) NOT NULL,
    created_at timestamp(6) NOT NULL
);
CREATE TABLE solid_queue_claimed_executions (
    id bigserial PRIMARY KEY,
    job_id bigint NOT NULL UNIQUE REFERENCES solid_queue_jobs ON DELETE CASCADE,
    process_id bigint,
    created_at timestamp(6) NOT NULL
);
CREATE TABLE solid_queue_failed_executions (
    id bigserial PRIMARY KEY,
    job_id bigint NOT NULL UNIQUE REFERENCES solid_queue_jobs ON DELETE CASCADE,
    error text,
    created_at timestamp(6) NOT NULL
);
CREATE TABLE solid_queue_semaphores (
    id bigserial PRIMARY KEY,
    key varchar NOT NULL UNIQUE,
    value int NOT NULL DEFAULT 1,
    expires_at timestamp(6) NOT NULL,
    created_at timestamp(6) NOT NULL,
    updated_at timestamp(6) NOT NULL
);

-- River, schema version 6
CREATE TYPE river_job_state AS ENUM
    ('available', 'cancelled', 'completed', 'discarded', 'pending', 'retryable', 'running', 'scheduled');
CREATE TABLE river_job (
    id bigserial PRIMARY KEY,
    state river_job_state NOT NULL DEFAULT 'available',
    attempt smallint NOT NULL DEFAULT 0,
    max_attempts smallint NOT NULL CHECK (max_attempts > 0),
    attempted_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    finalized_at timestamptz,
    scheduled_at timestamptz NOT NULL DEFAULT now(),
    priority smallint NOT NULL DEFAULT 1 CHECK (priority BETWEEN 1 AND 4),
    args jsonb NOT NULL,
    attempted_by text[],
    errors jsonb[],
    kind text NOT NULL CHECK (char_length(kind) BETWEEN 1 AND 127),
    metadata jsonb NOT NULL DEFAULT '{}',
    queue text NOT NULL DEFAULT 'default' CHECK (char_length(queue) BETWEEN 1 AND 127),
    tags varchar(255)[] NOT NULL DEFAULT '{}',
    unique_key bytea,
    unique_states bit(8),
    CHECK ((finalized_at IS NOT NULL) = (state IN ('cancelled', 'completed', 'discarded')))
);
-- It names no type: from PostgreSQL 17 on an index is made with a search path that has none of ours.
CREATE FUNCTION river_job_state_in_bitmask(bitmask bit(8), state river_job_state) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE state
        WHEN 'available' THEN get_bit(bitmask, 7) = 1
        WHEN 'cancelled' THEN get_bit(bitmask, 6) = 1
        WHEN 'completed' THEN get_bit(bitmask, 5) = 1
        WHEN 'discarded' THEN get_bit(bitmask, 4) = 1
        WHEN 'pending' THEN get_bit(bitmask, 3) = 1
        WHEN 'retryable' THEN get_bit(bitmask, 2) = 1
        WHEN 'running' THEN get_bit(bitmask, 1) = 1
        WHEN 'scheduled' THEN get_bit(bitmask, 0) = 1
        ELSE false
    END
$$;
CREATE UNIQUE INDEX river_job_unique_idx ON river_job (unique_key)
    WHERE unique_key IS NOT NULL AND unique_states IS NOT NULL AND river_job_state_in_bitmask(unique_states, state);
