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
    expires_at pg_catalog.timestamptz,
    name pg_catalog.text,
    subgroup_key pg_catalog.text
);

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
    expires_at pg_catalog.timestamptz,
    lease pg_catalog.interval,
    name pg_catalog.text,
    lost pg_catalog.int4,
    max_lost pg_catalog.int4,
    history pg_catalog.jsonb,
    subgroup_key pg_catalog.text
);

CREATE TYPE fairq.task_position AS (
    state pg_catalog.text,
    ahead pg_catalog.int8,
    starts_at pg_catalog.timestamptz,
    exact pg_catalog.bool
);
