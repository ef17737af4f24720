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

/** A page of the names of a queue, those that come first in the order first. */
export function names(reader: Reader, query: NameQuery): Promise<NameStats[]> {
  return read(reader, query.order, 'NOT other', query.queue, query.limit, query.after);
}

/** What is counted together of the names for which there is no room; undefined: there are none. */
export async function otherNames(reader: Reader, queue: string): Promise<NameStats | undefined> {
  return (await read(reader, 'enqueued', 'other', queue, 1))[0];
}

function read(
  reader: Reader,
  order: NameOrder,
  which: string,
  queue: string,
  limit: number,
  after?: NameQuery['after'],
): Promise<NameStats[]> {
  return reader.rows<NameStats>(
    `SELECT name, enqueued::float8 AS enqueued, done::float8 AS done, failed::float8 AS failed, lost::float8 AS lost,
                dead::float8 AS dead, extract(epoch FROM wait_p95)::float8 AS wait_p95,
                extract(epoch FROM run_p95)::float8 AS run_p95, rank
            FROM (SELECT *, (${RANKS[order]})::float8 AS rank FROM fairq.name_stats WHERE queue = $1::text AND ${which}) n
            WHERE $2::float8 IS NULL OR rank < $2::float8 OR rank = $2::float8 AND name COLLATE "C" > $3::text
            ORDER BY rank DESC, name COLLATE "C" LIMIT $4::int`,
    [queue, after?.rank ?? null, after?.name ?? null, limit],
  );
}
