/**
 * Tasks of a queue, and one task, a bounded part a page: by functions of the engine alone. A table of a queue is not
 * named in SQL, for its owner can put code into its indexes that the planner runs as the role of the dashboard.
 */

import type { Reader } from '../database.js';
import { narrowed, type Narrow } from './dead.js';
import type { Queue } from './queues.js';
import { MOST_FOUND, scan, type Window } from './scan.js';

export const STATES = ['ready', 'leased', 'scheduled', 'overflow', 'held', 'dead'] as const;
export type State = (typeof STATES)[number];

/** How much of a payload a list and a page of a task show; the rest is a link away. */
export const LIST_CHARACTERS = 160;
export const PAGE_CHARACTERS = 4000;
/** A payload that is larger than this as it is stored is not unpacked for a list. */
const LIST_BYTES = 50_000;
/** What the page of a whole payload sends at most. */
export const WHOLE_CHARACTERS = 5_000_000;

export interface Task {
  id: string;
  state: State;
  group_key: string;
  subgroup_key: string | null;
  payload: string | null;
  payload_length: number | null;
  headers: string | null;
  headers_length: number | null;
  priority: string;
  cost: number;
  attempts: number;
  max_attempts: number;
  name: string | null;
  lost: number;
  max_lost: number;
  /** JSON; not in lists */
  history: string | null;
  enqueued_at: number | null;
  run_at: number | null;
  lease_until: number | null;
  expires_at: number | null;
  address: string | null;
  unique_key: string | null;
  last_error: string | null;
  last_error_length: number | null;
  /** what its handler has told, as JSON */
  progress: string | null;
  /** when its last attempt failed or was lost, as its history has it */
  ended_at: string | null;
}

/** The beginning of a jsonb column and its length; nulls if it is too large for a list. */
export function beginning(column: string, characters: number, list: boolean): string {
  const name = column.replace(/^.*\./, '');
  const small = list ? `CASE WHEN pg_column_size(${column}) <= ${LIST_BYTES} THEN ` : '(';
  const end = list ? ' END' : ')';
  return `${small}left(${column}::text, ${characters})${end} AS ${name},
        ${small}length(${column}::text)${end} AS ${name}_length`;
}

/** The history for the page of a task, if nobody has written a long one there. */
export function historyColumn(column: string, list: boolean): string {
  return `${list ? 'NULL' : `CASE WHEN pg_column_size(${column}) <= ${LIST_BYTES} THEN ${column}::text END`} AS history`;
}

const taskColumns = (list: boolean): string => {
  const characters = list ? LIST_CHARACTERS : PAGE_CHARACTERS;
  return `t.id::text, t.state, t.group_key, t.subgroup_key, t.priority::text, t.cost, t.attempts, t.max_attempts,
        t.name, t.lost, t.max_lost, ${historyColumn('t.history', list)},
        ${beginning('t.payload', characters, list)}, ${beginning('t.headers', characters, list)},
        extract(epoch FROM t.enqueued_at)::float8 AS enqueued_at,
        extract(epoch FROM t.run_at)::float8 AS run_at,
        extract(epoch FROM t.lease_until)::float8 AS lease_until,
        extract(epoch FROM t.expires_at)::float8 AS expires_at,
        t.address::text, t.unique_key, left(t.history -> -1 ->> 'at', 40) AS ended_at,
        left((t.headers -> 'progress')::text, 200) AS progress,
        left(t.last_error, ${characters}) AS last_error, length(t.last_error) AS last_error_length`;
};

/** One task in whatever state; undefined: there is none. */
export function task(reader: Reader, queue: string, id: string): Promise<Task | undefined> {
  return reader.row<Task>(`SELECT ${taskColumns(false)} FROM fairq.get_task($1::text, $2::bigint) t`, [queue, id]);
}

/** The tasks of some ids as a list shows them, in the order of the ids. */
function listed(reader: Reader, queue: string, ids: readonly string[]): Promise<Task[]> {
  return reader.rows<Task>(
    `SELECT ${taskColumns(true)}
            FROM unnest($2::bigint[]) WITH ORDINALITY u(id, place), LATERAL fairq.get_task($1::text, u.id) t
            ORDER BY u.place`,
    [queue, ids],
  );
}

export interface TaskQuery extends Narrow {
  queue: Queue;
  state?: State | undefined;
  /** the id that the page before ended with */
  after?: string | undefined;
  limit: number;
  /** how long to look, if not as long as a page that does nothing else */
  milliseconds?: number | undefined;
}

export interface TaskPage {
  tasks: Task[];
  next?: string | undefined;
  unfinished: boolean;
}

/** Of ids those whose tasks have a name or an error, or are of a subgroup, in their order. */
const CHOSEN = `ARRAY(SELECT u.id::text FROM unnest(ids) WITH ORDINALITY u(id, place), LATERAL fairq.get_task($1::text, u.id) t
            WHERE ${narrowed('$7', '$8', '$9')} ORDER BY u.place)`;

/** A page of tasks by id, those of a state, a group, a subgroup, a name or an error if wanted. */
export async function taskPage(reader: Reader, query: TaskQuery): Promise<TaskPage> {
  const read = async (after: string | undefined, rows: number, wanted: number): Promise<Window<string>> => {
    const { subgroup, name, error } = query;
    const all = [subgroup, name, error].every((value) => value === undefined);
    const row = await reader.row<{ found: string[]; last: string | null }>(
      `SELECT ${all ? 'ids::text[]' : CHOSEN} AS found, last_id::text AS last
            FROM fairq_internal.tasks_page($1::text, $2::bigint, $3::int, $4::int, $5::text, $6::text)`,
      [
        query.queue.queue,
        after ?? null,
        rows,
        all ? wanted : Math.min(rows, MOST_FOUND),
        query.state ?? null,
        query.group ?? null,
        ...(all ? [] : [subgroup ?? null, name ?? null, error ?? null]),
      ],
    );
    return { found: row!.found, ...(row!.last === null ? {} : { last: row!.last }) };
  };
  const page = await scan(query.limit, query.after, read, query.milliseconds);
  const tasks = page.found.length === 0 ? [] : await listed(reader, query.queue.queue, page.found);
  return { tasks, next: page.next, unfinished: page.unfinished };
}

export interface Position {
  ahead: number | null;
  starts_at: number | null;
  exact: boolean | null;
}

export function position(reader: Reader, queue: string, id: string): Promise<Position | undefined> {
  return reader.row<Position>(
    `SELECT ahead::float8 AS ahead, extract(epoch FROM starts_at)::float8 AS starts_at, exact
            FROM fairq.get_task_position($1::text, $2::bigint)`,
    [queue, id],
  );
}

export interface Dependency {
  task: string;
  predecessor: string;
  on_dead: string;
  failed: boolean;
}

/** What a task waits for. */
export function dependencies(reader: Reader, queue: string, id: string): Promise<Dependency[]> {
  return reader.rows<Dependency>(
    `SELECT task::text, predecessor::text, on_dead, failed FROM fairq.dependencies d
            WHERE queue = $1::text AND task = $2::bigint ORDER BY d.predecessor LIMIT 100`,
    [queue, id],
  );
}

/** The tasks of a unique key that are not dead. */
export function tasksOfKey(reader: Reader, queue: string, key: string): Promise<Task[]> {
  return reader.rows<Task>(
    `SELECT ${taskColumns(true)} FROM fairq.get_task_by_key($1::text, $2::text) t ORDER BY t.id LIMIT 10`,
    [queue, key],
  );
}

export const WHOLE_PARTS = ['payload', 'headers', 'last_error'] as const;
export type WholePart = (typeof WHOLE_PARTS)[number];

/** A part of a task as text, up to a length that can be sent. */
export function whole(
  reader: Reader,
  queue: string,
  id: string,
  part: WholePart,
): Promise<{ text: string | null; length: number | null } | undefined> {
  return reader.row(
    `SELECT left(t.${part}::text, ${WHOLE_CHARACTERS}) AS text, length(t.${part}::text) AS length
            FROM fairq.get_task($1::text, $2::bigint) t`,
    [queue, id],
  );
}
