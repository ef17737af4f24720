/** Dead tasks by what they were to do and what they died of; and those of them that an action is for. */

import type { Reader } from '../database.js';
import type { Queue } from './queues.js';
import { scan } from './scan.js';

/** What a list of dead tasks is narrowed to; what is undefined, is not. An empty text stands for none. */
export interface Narrow {
  group?: string | undefined;
  subgroup?: string | undefined;
  name?: string | undefined;
  /** the beginning of an error, as `errorOf` makes it */
  error?: string | undefined;
}

/**
 * What errors have in common that differ in numbers: the first line, in which numbers, uuids and addresses in memory
 * are #. So the same failure of a thousand tasks is one.
 */
export function errorOf(column: string): string {
  const first = `left(split_part(left(coalesce(${column}, ''), 4000), E'\\n', 1), 500)`;
  const varies = '[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|0x[0-9a-f]+|[0-9]+';
  return `left(regexp_replace(${first}, '${varies}', '#', 'gi'), 200)`;
}

/** The condition on tasks t; of the values, the names' places are given. */
export function narrowed(subgroup: string, name: string, error: string): string {
  return `(${subgroup}::text IS NULL OR coalesce(t.subgroup_key, '') = ${subgroup}::text)
                AND (${name}::text IS NULL OR coalesce(t.name, '') = ${name}::text)
                AND (${error}::text IS NULL OR ${errorOf('t.last_error')} = ${error}::text)`;
}

export interface DeadGroup {
  name: string | null;
  error: string;
  tasks: number;
  /** how many tenants, of each part that was read at once; so at most */
  tenants: number;
  /** when the last of them died, as its history has it */
  last_at: string | null;
}

export interface DeadGroups {
  groups: DeadGroup[];
  /** how many tasks they are in all */
  seen: number;
  /** where to go on; undefined: all were looked at */
  next?: string | undefined;
}

/** How long a page counts. */
const GROUPS_MS = 300;
/** So many tasks are grouped in one query. */
const MOST_IDS = 2000;

/** Groups that are kept while they are counted; a table of errors that are all different has more. */
const MOST_GROUPS = 5000;

const keyOf = (one: DeadGroup): string => JSON.stringify([one.name, one.error]);

function merge(groups: Map<string, DeadGroup>, more: readonly DeadGroup[]): void {
  for (const one of more) {
    const known = groups.get(keyOf(one));
    if (known === undefined) {
      if (groups.size < MOST_GROUPS) {
        groups.set(keyOf(one), one);
      }
      continue;
    }
    known.tasks += one.tasks;
    known.tenants += one.tenants;
    known.last_at = [known.last_at ?? '', one.last_at ?? ''].sort().at(-1) || null;
  }
}

/**
 * The dead of a queue by name and error, those with most tasks first: of as many as the time of a page allows, from a
 * task on. `total` is how many there are, so that nothing is looked through behind the last one.
 */
export async function deadGroups(
  reader: Reader,
  queue: Queue,
  narrow: Narrow,
  { after, total }: { after?: string | undefined; total: number },
): Promise<DeadGroups> {
  const groups = new Map<string, DeadGroup>();
  let dead = 0;
  const read = async (from: string | undefined, rows: number): Promise<{ found: string[]; last?: string }> => {
    const page = (await reader.row<{ ids: string[]; last: string | null }>(
      `SELECT ids::text[] AS ids, last_id::text AS last
            FROM fairq_internal.tasks_page($1::text, $2::bigint, $3::int, ${MOST_IDS}, 'dead', $4::text)`,
      [queue.queue, from ?? null, rows, narrow.group ?? null],
    ))!;
    dead += page.ids.length;
    merge(
      groups,
      page.ids.length === 0
        ? []
        : await reader.rows<DeadGroup>(
            `SELECT t.name, ${errorOf('t.last_error')} AS error, count(*)::float8 AS tasks,
                count(DISTINCT t.group_key)::float8 AS tenants, left(max(t.history -> -1 ->> 'at'), 40) AS last_at
            FROM unnest($2::bigint[]) u(id), LATERAL fairq.get_task($1::text, u.id) t
            WHERE t.state = 'dead' AND ${narrowed('$3', '$4', '$5')} GROUP BY 1, 2`,
            [queue.queue, page.ids, narrow.subgroup ?? null, narrow.name ?? null, narrow.error ?? null],
          ),
    );
    return { found: [], ...(page.last === null || dead >= total ? {} : { last: page.last }) };
  };
  const { next } = await scan<string>(1, after, read, GROUPS_MS);
  const found = [...groups.values()].sort((a, b) => b.tasks - a.tasks || (keyOf(a) < keyOf(b) ? -1 : 1));
  return { groups: found, seen: found.reduce((sum, one) => sum + one.tasks, 0), next };
}
