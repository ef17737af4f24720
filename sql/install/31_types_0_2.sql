-- Types that 0.1.0 lacks.
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
    expires_at pg_catalog.timestamptz,
    name pg_catalog.text,
    subgroup_key pg_catalog.text
);

CREATE TYPE fairq.outcome AS (
    state pg_catalog.text,
    result pg_catalog.jsonb,
    last_error pg_catalog.text,
    done_at pg_catalog.timestamptz
);

CREATE TYPE fairq.task_done AS (
    id pg_catalog.int8,
    enqueued_at pg_catalog.timestamptz,
    claimed_at pg_catalog.timestamptz,
    done_at pg_catalog.timestamptz,
    run_at pg_catalog.timestamptz,
    priority pg_catalog.int8,
    cost pg_catalog.float4,
    attempts pg_catalog.int4,
    outcome pg_catalog.text,
    group_key pg_catalog.text,
    payload pg_catalog.jsonb,
    headers pg_catalog.jsonb,
    unique_key pg_catalog.text,
    last_error pg_catalog.text,
    result pg_catalog.jsonb,
    name pg_catalog.text,
    lost pg_catalog.int4,
    history pg_catalog.jsonb,
    subgroup_key pg_catalog.text
);
