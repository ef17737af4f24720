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
    last_error_at pg_catalog.timestamptz
) WITH (fillfactor = 50, toast_tuple_target = 256);
SELECT pg_catalog.pg_extension_config_dump('fairq.schedule', '');
REVOKE ALL ON fairq.schedule FROM PUBLIC;
COMMENT ON TABLE fairq.schedule IS 'Schedules; written by fairq.schedule() and by whoever runs them, read through the view fairq.schedules';

CREATE FUNCTION fairq_internal.schedule_written()
RETURNS trigger LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_schedule_written';
COMMENT ON FUNCTION fairq_internal.schedule_written() IS
'Statement trigger of fairq.schedule: wakes the worker when a definition was written, be it by a restore.';

CREATE FUNCTION fairq_internal.schedule_inserted()
RETURNS trigger LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_schedule_inserted';
COMMENT ON FUNCTION fairq_internal.schedule_inserted() IS
'Row trigger of fairq.schedule: the owner is the role of that name, whatever its oid was where the row comes from.';

CREATE TRIGGER fairq_schedule_inserted
    BEFORE INSERT ON fairq.schedule
    FOR EACH ROW EXECUTE FUNCTION fairq_internal.schedule_inserted();
ALTER TABLE fairq.schedule ENABLE ALWAYS TRIGGER fairq_schedule_inserted;

CREATE TRIGGER fairq_schedule_written
    AFTER INSERT OR UPDATE OF queue, cron, timezone, active ON fairq.schedule
    FOR EACH STATEMENT EXECUTE FUNCTION fairq_internal.schedule_written();
ALTER TABLE fairq.schedule ENABLE ALWAYS TRIGGER fairq_schedule_written;

CREATE FUNCTION fairq.schedule(name text, queue text, cron text, payload jsonb DEFAULT '{}',
    group_key text DEFAULT '', priority bigint DEFAULT NULL, cost double precision DEFAULT 1,
    headers jsonb DEFAULT NULL, timezone text DEFAULT 'UTC', catch_up text DEFAULT 'one',
    overlap boolean DEFAULT false, active boolean DEFAULT true)
RETURNS timestamptz LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_schedule';
COMMENT ON FUNCTION fairq.schedule(text, text, text, jsonb, text, bigint, double precision, jsonb, text, text, boolean, boolean) IS
'Have a task enqueued again and again; returns the next time, null if the schedule is not active. A schedule of that name is replaced, by its owner. name: 1 to 255 bytes; cron: minute, hour, day of the month, month and day of the week, or six fields with the second first, or @hourly, @daily, @weekly, @monthly, @yearly, or @every 15 s; timezone: what clock that is about; payload, group_key, priority, cost, headers: as in fairq.enqueue(), and headers get schedule and tick; catch_up: after a time without a worker run none of the ticks that were missed, one for all of them, or all, up to 1000; overlap: false has no task enqueued while the last one of this schedule waits or runs; active: false stops it. Tasks are enqueued as the owner, who needs INSERT. Errors: 42704 for an unknown queue, 42501, 22023, 53400 (pgfairq.max_schedules).';

CREATE FUNCTION fairq.unschedule(name text)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_unschedule';
COMMENT ON FUNCTION fairq.unschedule(text) IS
'Remove a schedule; tasks that it has enqueued stay. Returns false if there is none. For its owner. Errors: 42501, 22023.';

CREATE FUNCTION fairq_internal.cron_next(cron text, timezone text, after timestamptz, anchor timestamptz)
RETURNS timestamptz LANGUAGE C STABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'fairq_cron_next';
COMMENT ON FUNCTION fairq_internal.cron_next(text, text, timestamptz, timestamptz) IS
'The first tick of a cron expression after a time; anchor: what @every counts from. For tests. Errors: 22023.';

CREATE FUNCTION fairq_internal.schedule_owner(owner text, owner_oid oid)
RETURNS oid LANGUAGE C STABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'fairq_schedule_owner';
COMMENT ON FUNCTION fairq_internal.schedule_owner(text, oid) IS
'The role that a row of fairq.schedule names; null: there is none.';

-- What a task carries is for who could enqueue it, not for pg_monitor.
CREATE VIEW fairq.schedules WITH (security_barrier) AS
SELECT s.name, s.queue,
    COALESCE(pg_catalog.pg_get_userbyid(o.oid), s.owner)::pg_catalog.text AS owner,
    s.cron, s.timezone, s.catch_up, s.overlap, s.active,
    s.next_run, s.last_run, s.last_task, s.skipped, s.failures, s.last_error, s.last_error_at,
    s.group_key, s.priority, s.cost,
    CASE WHEN m.member THEN s.payload END AS payload,
    CASE WHEN m.member THEN s.headers END AS headers
FROM fairq.schedule s
CROSS JOIN LATERAL (SELECT fairq_internal.schedule_owner(s.owner, s.owner_oid) AS oid) o
CROSS JOIN LATERAL (SELECT COALESCE(pg_catalog.pg_has_role(o.oid, 'USAGE'),
    pg_catalog.pg_has_role('pg_read_all_data', 'USAGE')) AS member) m
WHERE m.member OR pg_catalog.pg_has_role('pg_monitor', 'USAGE');
COMMENT ON VIEW fairq.schedules IS
'What is enqueued again and again, and how that goes: those of one''s own roles, to pg_monitor all, without payload and headers.';
COMMENT ON COLUMN fairq.schedules.name IS 'its name, one in the database';
COMMENT ON COLUMN fairq.schedules.queue IS 'the queue in which tasks are enqueued, by name';
COMMENT ON COLUMN fairq.schedules.owner IS 'the role as which tasks are enqueued';
COMMENT ON COLUMN fairq.schedules.cron IS 'when, as it was given';
COMMENT ON COLUMN fairq.schedules.timezone IS 'by what clock';
COMMENT ON COLUMN fairq.schedules.catch_up IS 'which ticks are run that were missed: none, one or all';
COMMENT ON COLUMN fairq.schedules.overlap IS 'whether a task is enqueued while the last one waits or runs';
COMMENT ON COLUMN fairq.schedules.active IS 'whether there are ticks at all';
COMMENT ON COLUMN fairq.schedules.next_run IS 'the next tick; null if it is not active';
COMMENT ON COLUMN fairq.schedules.last_run IS 'when a task was enqueued last';
COMMENT ON COLUMN fairq.schedules.last_task IS 'the id of that task';
COMMENT ON COLUMN fairq.schedules.skipped IS 'ticks at which the last task was still there';
COMMENT ON COLUMN fairq.schedules.failures IS 'ticks in a row, up to now, that failed';
COMMENT ON COLUMN fairq.schedules.last_error IS 'SQLSTATE and message of the last failure since the schedule was made or replaced';
COMMENT ON COLUMN fairq.schedules.last_error_at IS 'when that was';
COMMENT ON COLUMN fairq.schedules.group_key IS 'of its tasks';
COMMENT ON COLUMN fairq.schedules.priority IS 'of its tasks; null is the default';
COMMENT ON COLUMN fairq.schedules.cost IS 'of its tasks';
COMMENT ON COLUMN fairq.schedules.payload IS 'of its tasks; null to who may not act as the owner';
COMMENT ON COLUMN fairq.schedules.headers IS 'of its tasks, without what a tick adds; null to who may not act as the owner';
GRANT SELECT ON fairq.schedules TO PUBLIC;

