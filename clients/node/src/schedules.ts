import { Row, Statement } from './database';
import { TaskOptions } from './enqueue';
import { GroupKey, checkOptions, dateOf, groupText, jsonText, optionalNumber } from './values';

export interface ScheduleOptions extends Pick<TaskOptions, 'priority' | 'cost' | 'headers' | 'name'> {
  /** The payload of each task; `{}`. */
  data?: unknown;
  group?: GroupKey;
  subgroup?: GroupKey;
  /** By what clock; UTC. */
  timezone?: string;
  /** What becomes of ticks for which there was no server: the last one, all, or none. */
  catchUp?: 'one' | 'all' | 'none';
  /** Also when the last task of the schedule is still there. */
  overlap?: boolean;
  active?: boolean;
}

/** A schedule, as `fairq.schedules` shows it. */
export interface Schedule {
  name: string;
  queue: string;
  cron: string;
  timezone: string;
  active: boolean;
  nextRun: Date | null;
  lastRun: Date | null;
  lastTask: string | null;
  skipped: number;
  failures: number;
  lastError: string | null;
  /** Of its tasks. */
  taskName: string | null;
  /** Of its tasks. */
  subgroup: string | null;
}

export const SCHEDULE = new Statement(`SELECT extract(epoch FROM fairq.schedule($1, $2, $3, $4::jsonb, group_key => $5,
  priority => $6::bigint, cost => $7::float8, headers => $8::jsonb, timezone => $9, catch_up => $10,
  overlap => $11::boolean, active => $12::boolean, task_name => $13, subgroup_key => $14)) * 1000`);
export const SCHEDULES = new Statement(`SELECT name, queue, cron, timezone, active, extract(epoch FROM next_run) * 1000,
  extract(epoch FROM last_run) * 1000, last_task, skipped, failures, last_error, task_name,
  subgroup_key FROM fairq.schedules WHERE queue = $1 ORDER BY name`);

const OPTIONS = ['data', 'group', 'subgroup', 'priority', 'cost', 'headers', 'name', 'timezone', 'catchUp', 'overlap', 'active'];

export function scheduleValues(queue: string, name: string, cron: string, options: ScheduleOptions): unknown[] {
  checkOptions('schedule()', options, [...OPTIONS, 'client']);
  return [name, queue, cron,
    jsonText('the data of schedule()', options.data === undefined ? {} : options.data),
    groupText('the group of schedule()', options.group),
    optionalNumber('the priority of schedule()', options.priority),
    optionalNumber('the cost of schedule()', options.cost),
    options.headers === undefined ? null : jsonText('the headers of schedule()', options.headers),
    options.timezone ?? null, options.catchUp ?? null, options.overlap ?? null, options.active ?? null,
    options.name ?? null,
    groupText('the subgroup of schedule()', options.subgroup)];
}

export function scheduleOf(row: Row): Schedule {
  return {
    name: row[0] as string, queue: row[1] as string, cron: row[2] as string, timezone: row[3] as string,
    active: row[4] === 't', nextRun: dateOf(row[5]), lastRun: dateOf(row[6]), lastTask: row[7],
    skipped: Number(row[8]), failures: Number(row[9]), lastError: row[10], taskName: row[11],
    subgroup: row[12],
  };
}
