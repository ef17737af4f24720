/** Schedules. Payloads are shown to roles that may act as the owner. */

import type { Reader } from '../database.js';
import type { Queue } from './queues.js';
import { scan } from './scan.js';
import { beginning, LIST_CHARACTERS } from './tasks.js';

export interface Schedule {
  name: string;
  queue: string;
  task_name: string | null;
  owner: string;
  cron: string;
  timezone: string;
  catch_up: string;
  overlap: boolean;
  active: boolean;
  next_run: number | null;
  last_run: number | null;
  last_task: string | null;
  skipped: number;
  failures: number;
  last_error: string | null;
  last_error_at: number | null;
  group_key: string | null;
  payload: string | null;
  payload_length: number | null;
}

const COLUMNS = `name, queue, task_name, owner, cron, timezone, catch_up, overlap, active, last_task::text,
                skipped::float8 AS skipped, failures, left(last_error, 1000) AS last_error, group_key,
                ${beginning('payload', LIST_CHARACTERS, true)},
                extract(epoch FROM next_run)::float8 AS next_run,
                extract(epoch FROM last_run)::float8 AS last_run,
                extract(epoch FROM last_error_at)::float8 AS last_error_at`;

/** Schedules behind a name, by name; those that have this in their name. */
export function schedules(reader: Reader, find: string, after: string, limit: number): Promise<Schedule[]> {
  return reader.rows<Schedule>(
    `SELECT ${COLUMNS} FROM fairq.schedules
            WHERE name COLLATE "C" > $1::text AND strpos(lower(name), lower($3::text)) > 0
            ORDER BY name COLLATE "C" LIMIT $2::int`,
    [after, limit, find],
  );
}

export function schedule(reader: Reader, name: string): Promise<Schedule | undefined> {
  return reader.row<Schedule>(`SELECT ${COLUMNS} FROM fairq.schedules WHERE name = $1::text`, [name]);
}

export interface Result {
  id: string;
  outcome: string;
  attempts: number;
  claimed_at: number | null;
  done_at: number | null;
  result: string | null;
  result_length: number | null;
  last_error: string | null;
  last_error_length: number | null;
}

interface Place {
  time: string;
  id: string;
}

const AT = (value: string): string => `'epoch'::timestamptz + ${value}::bigint * '1 microsecond'::interval`;

/** What became of the last tasks of a schedule, the latest first, where done tasks are kept: their headers name it. */
export async function resultsOf(
  reader: Reader,
  queue: Queue,
  name: string,
  limit: number,
): Promise<{ results: Result[]; unfinished: boolean }> {
  const results: Result[] = [];
  const page = await scan<Place>(limit, undefined, async (before, rows) => {
    const window = (await reader.row<{ ids: string[]; time: string | null; id: string | null }>(
      `SELECT ids::text[] AS ids, (extract(epoch FROM last_time) * 1000000)::bigint::text AS time, last_id::text AS id
            FROM fairq_internal.done_page($1::text, ${AT('$2')}, $3::bigint, $4::int, 500, NULL, NULL)`,
      [queue.queue, before?.time ?? null, before?.id ?? null, rows],
    ))!;
    const found =
      window.ids.length === 0
        ? []
        : await reader.rows<Result>(
            `SELECT d.id::text, d.outcome, d.attempts, extract(epoch FROM d.claimed_at)::float8 AS claimed_at,
                extract(epoch FROM d.done_at)::float8 AS done_at, ${beginning('d.result', LIST_CHARACTERS, true)},
                left(d.last_error, ${LIST_CHARACTERS}) AS last_error, length(d.last_error) AS last_error_length
            FROM unnest($2::bigint[]) WITH ORDINALITY u(id, place), LATERAL fairq.get_done_task($1::text, u.id) d
            WHERE d.headers ->> 'schedule' = $3::text ORDER BY u.place`,
            [queue.queue, window.ids, name],
          );
    results.push(...found);
    const enough = results.length >= limit || window.id === null || window.time === null;
    return { found: [], ...(enough ? {} : { last: { time: window.time!, id: window.id! } }) };
  });
  return { results: results.slice(0, limit), unfinished: page.unfinished };
}
