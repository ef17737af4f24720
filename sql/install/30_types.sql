CREATE TYPE fairq.task AS (
    id pg_catalog.int8,
    receipt pg_catalog.uuid,
    group_key pg_catalog.text,
    payload pg_catalog.jsonb,
    headers pg_catalog.jsonb,
    priority pg_catalog.int8,
    attempt pg_catalog.int4,
    enqueued_at pg_catalog.timestamptz,
    lease_until pg_catalog.timestamptz,
    address fairq.address,
    expires_at pg_catalog.timestamptz
);
COMMENT ON TYPE fairq.task IS 'A task as a claimer gets it: attempt counts from 1, receipt names the lease, which ends at lease_until: infinity under a session, null from fairq.pop() and fairq.peek()';

CREATE TYPE fairq.queue_task AS (
    queue pg_catalog.text,
    id pg_catalog.int8,
    receipt pg_catalog.uuid,
    group_key pg_catalog.text,
    payload pg_catalog.jsonb,
    headers pg_catalog.jsonb,
    priority pg_catalog.int8,
    attempt pg_catalog.int4,
    enqueued_at pg_catalog.timestamptz,
    lease_until pg_catalog.timestamptz,
    address fairq.address,
    expires_at pg_catalog.timestamptz
);
COMMENT ON TYPE fairq.queue_task IS 'A task as a claimer of several queues gets it: the queue it is of, then the columns of fairq.task';

CREATE TYPE fairq.task_status AS (
    id pg_catalog.int8,
    state pg_catalog.text,
    group_key pg_catalog.text,
    payload pg_catalog.jsonb,
    headers pg_catalog.jsonb,
    priority pg_catalog.int8,
    cost pg_catalog.float4,
    attempts pg_catalog.int4,
    max_attempts pg_catalog.int4,
    enqueued_at pg_catalog.timestamptz,
    run_at pg_catalog.timestamptz,
    lease_until pg_catalog.timestamptz,
    address fairq.address,
    unique_key pg_catalog.text,
    last_error pg_catalog.text,
    expires_at pg_catalog.timestamptz
);
COMMENT ON TYPE fairq.task_status IS 'A task as the queue knows it: attempts counts those that ended in ack, nack or expiry, lease_until is null unless it is leased';

CREATE TYPE fairq.outcome AS (
    state pg_catalog.text,
    result pg_catalog.jsonb,
    last_error pg_catalog.text,
    done_at pg_catalog.timestamptz
);
COMMENT ON TYPE fairq.outcome IS 'How a task has ended: state is acked, dead, cancelled or expired, or its present state if it has not; result is what its worker gave fairq.ack(), and done_at when it did';

CREATE TYPE fairq.task_position AS (
    state pg_catalog.text,
    ahead pg_catalog.int8,
    starts_at pg_catalog.timestamptz,
    exact pg_catalog.bool
);
COMMENT ON TYPE fairq.task_position IS 'A task''s place: how many ready tasks are ahead of it, about when it will start, and whether they were counted or estimated';

