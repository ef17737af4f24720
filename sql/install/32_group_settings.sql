-- What groups were given, and (subgroup_key is not null) their subgroups: null is the
-- queue's default. It goes with the settings of the queue.
CREATE TABLE fairq.group_setting (
    queue pg_catalog.text COLLATE pg_catalog."C" NOT NULL REFERENCES fairq.queue ON DELETE CASCADE,
    group_key pg_catalog.text COLLATE pg_catalog."C" NOT NULL,
    weight pg_catalog.float4,
    max_leased pg_catalog.int4,
    rate pg_catalog.float4,
    burst pg_catalog.int4,
    paused pg_catalog.bool NOT NULL DEFAULT false,
    subgroup_key pg_catalog.text COLLATE pg_catalog."C",
    CONSTRAINT group_setting_key UNIQUE NULLS NOT DISTINCT (queue, group_key, subgroup_key)
);
SELECT pg_catalog.pg_extension_config_dump('fairq.group_setting', '');

-- It has no primary key: a publication of all tables must not refuse a change.
ALTER TABLE fairq.group_setting REPLICA IDENTITY FULL;

-- pg_restore may load this table before fairq.queue: an archive does not say that
-- it refers to it. So only a deletion there is looked after; that a queue exists
-- when a row is written is seen to by the functions, which have its table locked.
ALTER TABLE fairq.group_setting DISABLE TRIGGER ALL;
REVOKE ALL ON fairq.group_setting FROM PUBLIC;
