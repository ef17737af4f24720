-- The settings of queues. A queue is a row here and a table fairq.q_<name>.
CREATE TABLE fairq.queue (
    queue pg_catalog.text COLLATE pg_catalog."C" NOT NULL PRIMARY KEY,
    policy pg_catalog.text NOT NULL DEFAULT 'fair',
    buckets pg_catalog.int4 NOT NULL DEFAULT 16,
    lease pg_catalog.interval NOT NULL DEFAULT '30 s',
    max_attempts pg_catalog.int4 NOT NULL DEFAULT 20,
    backoff_base pg_catalog.interval NOT NULL DEFAULT '1 s',
    backoff_max pg_catalog.interval NOT NULL DEFAULT '1 h',
    max_ready pg_catalog.int8 NOT NULL DEFAULT 1000000,
    max_ready_per_group pg_catalog.int8 NOT NULL DEFAULT 10000,
    max_depth pg_catalog.int8,
    keep_done pg_catalog.interval,
    durable_leases pg_catalog.bool NOT NULL DEFAULT false,
    charge pg_catalog.text NOT NULL DEFAULT 'cost',
    notify pg_catalog.bool NOT NULL DEFAULT false,
    group_weight pg_catalog.float4 NOT NULL DEFAULT 1,
    group_max_leased pg_catalog.int4 NOT NULL DEFAULT 0,
    group_rate pg_catalog.float4 NOT NULL DEFAULT 0,
    group_burst pg_catalog.int4 NOT NULL DEFAULT 0,
    paused pg_catalog.bool NOT NULL DEFAULT false,
    expire_after pg_catalog.interval,
    backoff_jitter pg_catalog.float8 NOT NULL DEFAULT 0.1,
    default_priority pg_catalog.int8 NOT NULL DEFAULT 4,
    group_required pg_catalog.bool NOT NULL DEFAULT false,
    max_lost pg_catalog.int4 NOT NULL DEFAULT 5,
    class_weights pg_catalog.float8[],
    subgroups pg_catalog.bool NOT NULL DEFAULT false,
    subgroup_weight pg_catalog.float4 NOT NULL DEFAULT 1,
    subgroup_max_leased pg_catalog.int4 NOT NULL DEFAULT 0,
    subgroup_rate pg_catalog.float4 NOT NULL DEFAULT 0,
    subgroup_burst pg_catalog.int4 NOT NULL DEFAULT 0
);
SELECT pg_catalog.pg_extension_config_dump('fairq.queue', '');
REVOKE ALL ON fairq.queue FROM PUBLIC;
GRANT SELECT ON fairq.queue TO PUBLIC;
