/** Done tasks, of queues that keep them: the latest first, a bounded part a page. */

import type { Reader } from '../database.js';
import { doneTable, type Queue } from './queues.js';
import { scan, type Scan } from './scan.js';
import { beginning, LIST_CHARACTERS, PAGE_CHARACTERS, WHOLE_CHARACTERS } from './tasks.js';

export const OUTCOMES = ['acked', 'dead', 'cancelled', 'expired'] as const;
export type Outcome = (typeof OUTCOMES)[number];

export interface DoneTask {
  id: string;
  outcome: string;
  group_key: string;
  priority: string;
  cost: number;
  attempts: number;
  enqueued_at: number | null;
  claimed_at: number | null;
  done_at: number | null;
  run_at: number | null;
  unique_key: string | null;
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
  return `d.id::text, d.outcome, d.group_key, d.priority::text, d.cost, d.attempts, d.unique_key,
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
  before?: Place | undefined;
  limit: number;
}

export interface ArchivePage {
  tasks: DoneTask[];
  next?: Place | undefined;
  unfinished: boolean;
}

const AT = `'epoch'::timestamptz + $1::bigint * '1 microsecond'::interval`;
const PLACE = `(extract(epoch FROM done_at) * 1000000)::bigint::text`;

function windowOf({ queue, outcome, group, before }: ArchiveQuery): string {
  const conditions = [
    outcome === undefined ? '$5::text IS NULL' : 'outcome = $5::text',
    group === undefined ? '$6::text IS NULL' : 'group_key = $6::text',
  ];
  return `WITH w AS MATERIALIZED (SELECT id, done_at, outcome, group_key FROM ${doneTable(queue)}
            WHERE ${
              before === undefined ? '$1::bigint IS NULL AND $2::bigint IS NULL' : `(done_at, id) < (${AT}, $2::bigint)`
            }
            ORDER BY done_at DESC, id DESC LIMIT $3::int)
        SELECT ${PLACE} AS time, id::text, ${conditions.join(' AND ')} AS found
            FROM (SELECT *, row_number() OVER (ORDER BY done_at, id) AS from_end FROM w) w
            WHERE from_end = 1 OR ${conditions.join(' AND ')}
            ORDER BY w.done_at DESC, w.id DESC LIMIT $4::int`;
}

/** A page of done tasks. */
export async function archivePage(reader: Reader, query: ArchiveQuery): Promise<ArchivePage> {
  const page: Scan<Place> = await scan<Place>(query.limit, query.before, async (before, rows, wanted) => {
    const found = await reader.rows<Place & { found: boolean }>(windowOf({ ...query, before }), [
      before?.time ?? null,
      before?.id ?? null,
      rows,
      wanted + 1,
      query.outcome ?? null,
      query.group ?? null,
    ]);
    const last = found.at(-1);
    return {
      found: found.filter((row) => row.found).slice(0, wanted),
      ...(last === undefined ? {} : { last }),
    };
  });
  const tasks =
    page.found.length === 0
      ? []
      : await reader.rows<DoneTask>(
          `SELECT ${columns(true)}
            FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY u(time, id, place)
            JOIN ${doneTable(query.queue)} d ON d.id = u.id
                AND d.done_at = 'epoch'::timestamptz + u.time * '1 microsecond'::interval
            ORDER BY u.place`,
          [page.found.map((one) => one.time), page.found.map((one) => one.id)],
        );
  return { tasks, next: page.next, unfinished: page.unfinished };
}

/** What is kept of a task, through the index on id. */
export function doneTask(reader: Reader, queue: Queue, id: string): Promise<DoneTask | undefined> {
  return reader.row<DoneTask>(
    `SELECT ${columns(false)} FROM ${doneTable(queue)} d WHERE d.id = $1::bigint
            ORDER BY d.done_at DESC LIMIT 1`,
    [id],
  );
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
            FROM ${doneTable(queue)} d WHERE d.id = $1::bigint ORDER BY d.done_at DESC LIMIT 1`,
    [id],
  );
}
