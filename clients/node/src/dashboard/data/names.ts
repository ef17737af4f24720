/** Names of tasks: what became of the tasks of each. */

import type { Reader } from '../database.js';

export interface NameStats {
  /** null: of all names that are counted together */
  name: string | null;
  enqueued: number;
  done: number;
  failed: number;
  lost: number;
  dead: number;
  wait_p95: number | null;
  run_p95: number | null;
  rank: number;
}

export const NAME_ORDERS = ['enqueued', 'failed', 'lost', 'dead', 'wait', 'run'] as const;
export type NameOrder = (typeof NAME_ORDERS)[number];

const RANKS: Record<NameOrder, string> = {
  enqueued: 'enqueued',
  failed: 'failed',
  lost: 'lost',
  dead: 'dead',
  wait: "coalesce(extract(epoch FROM wait_p95), '-infinity')",
  run: "coalesce(extract(epoch FROM run_p95), '-infinity')",
};

export interface NameQuery {
  queue: string;
  order: NameOrder;
  after?: { rank: number; name: string };
  limit: number;
}

export interface NamePage {
  names: NameStats[];
  /** of the names for which there is no room; undefined: there are none */
  rest: NameStats | undefined;
  more: boolean;
}

export interface FoundName {
  queue: string;
  name: string;
  enqueued: number;
  done: number;
  failed: number;
  dead: number;
}

/** Names that have this in them, in all queues: those with most tasks first. */
export function namesLike(reader: Reader, find: string, limit: number): Promise<FoundName[]> {
  return reader.rows<FoundName>(
    `SELECT queue, name, enqueued::float8 AS enqueued, done::float8 AS done, failed::float8 AS failed, dead::float8 AS dead
            FROM fairq.name_stats n WHERE NOT other AND strpos(lower(name), lower($1::text)) > 0
            ORDER BY n.enqueued DESC, n.queue COLLATE "C", n.name COLLATE "C" LIMIT $2::int`,
    [find, limit],
  );
}

/** A page of the names of a queue, those that come first in the order first; and the rest, on each page. */
export async function names(reader: Reader, { queue, order, after, limit }: NameQuery): Promise<NamePage> {
  const found = await reader.rows<NameStats>(
    `SELECT name, enqueued::float8 AS enqueued, done::float8 AS done, failed::float8 AS failed, lost::float8 AS lost,
                dead::float8 AS dead, extract(epoch FROM wait_p95)::float8 AS wait_p95,
                extract(epoch FROM run_p95)::float8 AS run_p95, rank
            FROM (SELECT *, (${RANKS[order]})::float8 AS rank FROM fairq.name_stats WHERE queue = $1::text) n
            WHERE other OR $2::float8 IS NULL OR rank < $2::float8
                OR rank = $2::float8 AND name COLLATE "C" > $3::text
            ORDER BY other DESC, rank DESC, name COLLATE "C" LIMIT $4::int`,
    [queue, after?.rank ?? null, after?.name ?? null, limit + 2],
  );
  const rest = found[0]?.name === null ? found.shift() : undefined;
  return { names: found.slice(0, limit), rest, more: found.length > limit };
}
