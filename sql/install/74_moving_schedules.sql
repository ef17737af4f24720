-- Schedules that move from one node to another. One stops when a tick that is under way
-- has committed; what it returns says when the next one is, and the other node goes on
-- from there. One that runs already is left as it is.
CREATE OR REPLACE FUNCTION fairq_internal.stop_schedule(name text)
RETURNS jsonb LANGUAGE sql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
    UPDATE fairq.schedule s SET active = false WHERE s.name = $1
    RETURNING jsonb_build_object('next_run', s.next_run, 'last_run', s.last_run, 'anchor', s.anchor, 'skipped', s.skipped)
$$;
COMMENT ON FUNCTION fairq_internal.stop_schedule IS 'Stop a schedule that goes to another node; returns its times.';

CREATE OR REPLACE FUNCTION fairq_internal.start_schedule(name text, times jsonb)
RETURNS boolean LANGUAGE sql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH started AS (
        UPDATE fairq.schedule s SET active = true,
            next_run = coalesce((times ->> 'next_run')::timestamptz, fairq_internal.cron_next(s.cron, s.timezone, now(), s.anchor)),
            last_run = coalesce((times ->> 'last_run')::timestamptz, s.last_run),
            anchor = coalesce((times ->> 'anchor')::timestamptz, s.anchor),
            skipped = coalesce((times ->> 'skipped')::bigint, s.skipped)
        WHERE s.name = $1 AND NOT s.active RETURNING 1)
    SELECT EXISTS (SELECT FROM started)
$$;
COMMENT ON FUNCTION fairq_internal.start_schedule IS 'Start a schedule that has come from another node, with its times or from now on.';

-- All schedules, as another node can have them, and one of them, which does not run there.
CREATE OR REPLACE FUNCTION fairq_internal.schedule_definitions()
RETURNS SETOF jsonb LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$ SELECT to_jsonb(s) - '{last_task,failures,last_error,last_error_at}'::text[] FROM fairq.schedule s ORDER BY s.name $$;
COMMENT ON FUNCTION fairq_internal.schedule_definitions IS 'All schedules as another node can have them.';

CREATE OR REPLACE FUNCTION fairq_internal.define_schedule(definition jsonb)
RETURNS boolean LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = definition ->> 'owner') THEN
        RAISE EXCEPTION 'role "%" does not exist', definition ->> 'owner'
            USING ERRCODE = 'undefined_object', DETAIL = format('Schedule "%s" is of that role.', definition ->> 'name'),
            HINT = 'Create the role at this node, and try again.';
    END IF;
    INSERT INTO fairq.schedule (name, queue, owner, owner_oid, cron, timezone, payload, group_key, priority, cost, headers,
            catch_up, overlap, active, anchor, next_run, last_run, skipped, task_name, subgroup_key)
        SELECT r.name, r.queue, r.owner, r.owner_oid, r.cron, r.timezone, coalesce(r.payload, 'null'), r.group_key, r.priority, r.cost, r.headers,
            r.catch_up, r.overlap, false, r.anchor, r.next_run, r.last_run, r.skipped, r.task_name, r.subgroup_key
        FROM jsonb_populate_record(NULL::fairq.schedule, definition) r
        ON CONFLICT DO NOTHING;
    RETURN FOUND;
END
$$;
COMMENT ON FUNCTION fairq_internal.define_schedule IS 'Make a schedule of another node, which does not run here.';
