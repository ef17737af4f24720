-- The schedules: what is enqueued, when, and as whom. No index but that on names, and half
-- of each page free: a tick writes a heap-only tuple.
CREATE TABLE fairq.schedule (
    name pg_catalog.text COLLATE pg_catalog."C" NOT NULL PRIMARY KEY,
    queue pg_catalog.text COLLATE pg_catalog."C" NOT NULL,
    owner pg_catalog.text COLLATE pg_catalog."C" NOT NULL,
    owner_oid pg_catalog.oid NOT NULL,
    cron pg_catalog.text NOT NULL,
    timezone pg_catalog.text NOT NULL,
    payload pg_catalog.jsonb NOT NULL,
    group_key pg_catalog.text NOT NULL,
    priority pg_catalog.int8,
    cost pg_catalog.float8 NOT NULL,
    headers pg_catalog.jsonb,
    catch_up pg_catalog.text NOT NULL,
    overlap pg_catalog.bool NOT NULL,
    active pg_catalog.bool NOT NULL,
    anchor pg_catalog.timestamptz NOT NULL,
    next_run pg_catalog.timestamptz,
    last_run pg_catalog.timestamptz,
    last_task pg_catalog.int8,
    skipped pg_catalog.int8 NOT NULL DEFAULT 0,
    failures pg_catalog.int4 NOT NULL DEFAULT 0,
    last_error pg_catalog.text,
    last_error_at pg_catalog.timestamptz,
    task_name pg_catalog.text,
    subgroup_key pg_catalog.text
) WITH (fillfactor = 50, toast_tuple_target = 256);
SELECT pg_catalog.pg_extension_config_dump('fairq.schedule', '');
REVOKE ALL ON fairq.schedule FROM PUBLIC;

CREATE OR REPLACE FUNCTION fairq_internal.schedule_written()
RETURNS trigger LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_schedule_written';
COMMENT ON FUNCTION fairq_internal.schedule_written IS 'Statement trigger of fairq.schedule: wakes the worker when a definition was written, be it by a restore.';

CREATE OR REPLACE FUNCTION fairq_internal.schedule_inserted()
RETURNS trigger LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_schedule_inserted';
COMMENT ON FUNCTION fairq_internal.schedule_inserted IS 'Row trigger of fairq.schedule: the owner is the role of that name, whatever its oid was where the row comes from.';

CREATE TRIGGER fairq_schedule_inserted
    BEFORE INSERT ON fairq.schedule
    FOR EACH ROW EXECUTE FUNCTION fairq_internal.schedule_inserted();
ALTER TABLE fairq.schedule ENABLE ALWAYS TRIGGER fairq_schedule_inserted;

CREATE TRIGGER fairq_schedule_written
    AFTER INSERT OR UPDATE OF queue, cron, timezone, active ON fairq.schedule
    FOR EACH STATEMENT EXECUTE FUNCTION fairq_internal.schedule_written();
ALTER TABLE fairq.schedule ENABLE ALWAYS TRIGGER fairq_schedule_written;

CREATE OR REPLACE FUNCTION fairq.schedule(name text, queue text, cron text, payload jsonb DEFAULT '{}',
    group_key text DEFAULT '', priority bigint DEFAULT NULL, cost double precision DEFAULT 1,
    headers jsonb DEFAULT NULL, timezone text DEFAULT 'UTC', catch_up text DEFAULT 'one',
    overlap boolean DEFAULT false, active boolean DEFAULT true, task_name text DEFAULT NULL,
    subgroup_key text DEFAULT NULL)
RETURNS timestamptz LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_schedule';
COMMENT ON FUNCTION fairq.schedule IS 'Make or replace a schedule, by which a task is enqueued again and again; returns its next time.';

CREATE OR REPLACE FUNCTION fairq.unschedule(name text)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_unschedule';
COMMENT ON FUNCTION fairq.unschedule IS 'Remove a schedule, but not the tasks it has enqueued; returns false if there is none.';

CREATE OR REPLACE FUNCTION fairq_internal.cron_next(cron text, timezone text, after timestamptz, anchor timestamptz)
RETURNS timestamptz LANGUAGE C STABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'fairq_cron_next';
COMMENT ON FUNCTION fairq_internal.cron_next IS 'Return the first tick of a cron expression after a time, for tests; anchor is what @every counts from.';

CREATE OR REPLACE FUNCTION fairq_internal.schedule_owner(owner text, owner_oid oid)
RETURNS oid LANGUAGE C STABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'fairq_schedule_owner';
COMMENT ON FUNCTION fairq_internal.schedule_owner IS 'Return the role that a row of fairq.schedule names, or null if there is none.';

-- What a task carries is for who could enqueue it, not for pg_monitor.
CREATE OR REPLACE VIEW fairq.schedules WITH (security_barrier) AS
SELECT s.name, s.queue,
    COALESCE(pg_catalog.pg_get_userbyid(o.oid), s.owner)::pg_catalog.text AS owner,
    s.cron, s.timezone, s.catch_up, s.overlap, s.active,
    s.next_run, s.last_run, s.last_task, s.skipped, s.failures, s.last_error, s.last_error_at,
    s.group_key, s.priority, s.cost,
    CASE WHEN m.member THEN s.payload END AS payload,
    CASE WHEN m.member THEN s.headers END AS headers,
    s.task_name, s.subgroup_key
FROM fairq.schedule s
CROSS JOIN LATERAL (SELECT fairq_internal.schedule_owner(s.owner, s.owner_oid) AS oid) o
CROSS JOIN LATERAL (SELECT COALESCE(pg_catalog.pg_has_role(o.oid, 'USAGE'),
    pg_catalog.pg_has_role('pg_read_all_data', 'USAGE')) AS member) m
WHERE m.member OR pg_catalog.pg_has_role('pg_monitor', 'USAGE');
GRANT SELECT ON fairq.schedules TO PUBLIC;
