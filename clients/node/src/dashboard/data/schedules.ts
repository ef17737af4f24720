/** Schedules. Payloads are shown to roles that may act as the owner. */

import type { Reader } from '../database.js';
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

/** Schedules behind a name, by name. */
export function schedules(reader: Reader, after: string, limit: number): Promise<Schedule[]> {
  return reader.rows<Schedule>(
    `SELECT name, queue, task_name, owner, cron, timezone, catch_up, overlap, active, last_task::text,
                skipped::float8 AS skipped, failures, left(last_error, 1000) AS last_error, group_key,
                ${beginning('payload', LIST_CHARACTERS, true)},
                extract(epoch FROM next_run)::float8 AS next_run,
                extract(epoch FROM last_run)::float8 AS last_run,
                extract(epoch FROM last_error_at)::float8 AS last_error_at
            FROM fairq.schedules WHERE name COLLATE "C" > $1::text
            ORDER BY name COLLATE "C" LIMIT $2::int`,
    [after, limit],
  );
}
