/** Done tasks, of queues that keep them: the latest first, a bounded part a page. */

import type { Reader } from '../database.js';
import type { Queue } from './queues.js';
import { MOST_FOUND, scan, type Scan } from './scan.js';
import { beginning, historyColumn, LIST_CHARACTERS, PAGE_CHARACTERS, WHOLE_CHARACTERS } from './tasks.js';

export const OUTCOMES = ['acked', 'dead', 'cancelled', 'expired'] as const;
export type Outcome = (typeof OUTCOMES)[number];

export interface DoneTask {
  id: string;
  outcome: string;
  group_key: string;
  subgroup_key: string | null;
  priority: string;
  cost: number;
  attempts: number;
  enqueued_at: number | null;
  claimed_at: number | null;
  done_at: number | null;
  run_at: number | null;
  unique_key: string | null;
  name: string | null;
  lost: number;
  /** JSON; not in lists */
  history: string | null;
  payload: string | null;
  payload_length: number | null;
  headers: string | null;
  headers_length: number | null;
  result: string | null;
  result_length: number | null;
  last_error: string | null;
  last_error_length: number | null;
}

const columns = (list: boolean): string => {
  const characters = list ? LIST_CHARACTERS : PAGE_CHARACTERS;
  return `d.id::text, d.outcome, d.group_key, d.subgroup_key, d.priority::text, d.cost, d.attempts, d.unique_key,
        d.name, coalesce(d.lost, 0) AS lost, ${historyColumn('d.history', list)},
        extract(epoch FROM d.enqueued_at)::float8 AS enqueued_at,
        extract(epoch FROM d.claimed_at)::float8 AS claimed_at,
        extract(epoch FROM d.done_at)::float8 AS done_at,
        extract(epoch FROM d.run_at)::float8 AS run_at,
        ${beginning('d.payload', characters, list)}, ${beginning('d.headers', characters, list)},
        ${beginning('d.result', characters, list)},
        left(d.last_error, ${characters}) AS last_error, length(d.last_error) AS last_error_length`;
};

/** A place in the archive: microseconds since 1970 (as text, for they are many), and the id. */
export interface Place {
  time: string;
  id: string;
}

export interface ArchiveQuery {
  queue: Queue;
  outcome?: Outcome | undefined;
  group?: string | undefined;
  /** empty: those that have none */
  subgroup?: string | undefined;
  name?: string | undefined;
  before?: Place | undefined;
  limit: number;
}

export interface ArchivePage {
  tasks: DoneTask[];
  next?: Place | undefined;
  unfinished: boolean;
}

const AT = (value: string): string => `'epoch'::timestamptz + ${value}::bigint * '1 microsecond'::interval`;
const TIME = (value: string): string => `(extract(epoch FROM ${value}) * 1000000)::bigint::text`;

interface PageRow {
  /** each a time and an id */
  found: string[];
  time: string | null;
  id: string | null;
}

/** The ids and times of a window; of a name or a subgroup, those of the tasks that have it. */
const ALL = 'unnest(ids, times) WITH ORDINALITY u(id, at, place)';
const CHOSEN = `${ALL}, LATERAL fairq.get_done_task($1::text, u.id, u.at) d
            WHERE ($8::text IS NULL OR coalesce(d.name, '') = $8::text) AND ($9::text IS NULL OR coalesce(d.subgroup_key, '') = $9::text)`;

/** A page of done tasks, those of an outcome, a group, a subgroup or a name if wanted. */
export async function archivePage(reader: Reader, query: ArchiveQuery): Promise<ArchivePage> {
  const { queue } = query.queue;
  const all = query.name === undefined && query.subgroup === undefined;
  const page: Scan<Place> = await scan<Place>(query.limit, query.before, async (before, rows, wanted) => {
    const row = (await reader.row<PageRow>(
      `SELECT ARRAY(SELECT ${TIME('u.at')} || ' ' || u.id FROM ${all ? ALL : CHOSEN} ORDER BY u.place) AS found,
            ${TIME('last_time')} AS time, last_id::text AS id
            FROM fairq_internal.done_page($1::text, ${AT('$2')}, $3::bigint, $4::int, $5::int, $6::text, $7::text)`,
      [
        queue,
        before?.time ?? null,
        before?.id ?? null,
        rows,
        all ? wanted : Math.min(rows, MOST_FOUND),
        query.outcome ?? null,
        query.group ?? null,
        ...(all ? [] : [query.name ?? null, query.subgroup ?? null]),
      ],
    ))!;
    return {
      found: row.found.map((one) => {
        const [time, id] = one.split(' ') as [string, string];
        return { time, id };
      }),
      ...(row.id === null || row.time === null ? {} : { last: { time: row.time, id: row.id } }),
    };
  });
  const tasks =
    page.found.length === 0
      ? []
      : await reader.rows<DoneTask>(
          `SELECT ${columns(true)}
            FROM unnest($2::bigint[], $3::bigint[]) WITH ORDINALITY u(time, id, place),
                LATERAL fairq.get_done_task($1::text, u.id, ${AT('u.time')}) d
            ORDER BY u.place`,
          [queue, page.found.map((one) => one.time), page.found.map((one) => one.id)],
        );
  return { tasks, next: page.next, unfinished: page.unfinished };
}

/** What is kept of a task, through the index on id. */
export function doneTask(reader: Reader, queue: Queue, id: string): Promise<DoneTask | undefined> {
  return reader.row<DoneTask>(`SELECT ${columns(false)} FROM fairq.get_done_task($1::text, $2::bigint) d`, [
    queue.queue,
    id,
  ]);
}

export const DONE_PARTS = ['payload', 'headers', 'result', 'last_error'] as const;
export type DonePart = (typeof DONE_PARTS)[number];

export function wholeOfDone(
  reader: Reader,
  queue: Queue,
  id: string,
  part: DonePart,
): Promise<{ text: string | null; length: number | null } | undefined> {
  return reader.row(
    `SELECT left(d.${part}::text, ${WHOLE_CHARACTERS}) AS text, length(d.${part}::text) AS length
            FROM fairq.get_done_task($1::text, $2::bigint) d`,
    [queue.queue, id],
  );
}
