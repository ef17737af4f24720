/** Tenants: what the engine knows of the groups that have work, and what groups were given. */

import type { Reader } from '../database.js';

export interface Tenant {
  group_key: string;
  /** names the group also where the view shows the beginning of its key only */
  group_id: string;
  /** the key is longer than the view shows */
  cut: boolean;
  ready: number;
  overflow: number;
  leased: number;
  weight: number | null;
  max_leased: number | null;
  rate: number | null;
  burst: number | null;
  tokens: number | null;
  paused: boolean;
  served: number;
  share: number | null;
  expected_share: number | null;
  /** what it is due and was not served yet, in costs; below zero: it is ahead */
  behind: number | null;
  oldest_wait: number | null;
  run_time: number | null;
  rank: number;
}

export const TENANT_ORDERS = ['waiting', 'oldest', 'flight', 'behind', 'served'] as const;
export type TenantOrder = (typeof TENANT_ORDERS)[number];

const RANKS: Record<TenantOrder, string> = {
  waiting: 'ready + overflow',
  // By when they began to wait, to a tenth of a second: how long they have waited grows from page to page.
  oldest: `coalesce(-round(extract(epoch FROM statement_timestamp() - oldest_wait), 1), '-infinity')`,
  flight: 'leased',
  behind: "coalesce(-share_error * all_served_cost, '-infinity')",
  served: 'served',
};

const COLUMNS = `
    group_key, group_id::text, group_id <> fairq.group_id(group_key) AS cut,
    ready::float8 AS ready, overflow::float8 AS overflow, leased::float8 AS leased,
    weight, max_leased, rate, burst, tokens, paused, served::float8 AS served,
    share, expected_share, -share_error * all_served_cost AS behind,
    extract(epoch FROM oldest_wait)::float8 AS oldest_wait,
    extract(epoch FROM run_time)::float8 AS run_time`;

export interface TenantQuery {
  queue: string;
  order: TenantOrder;
  /** only keys that have this in them */
  find: string;
  after?: { rank: number; key: string; id: string };
  limit: number;
}

/** A page of the groups with work, those that come first in the order first. */
export function tenants(reader: Reader, query: TenantQuery): Promise<Tenant[]> {
  const { queue, order, find, after, limit } = query;
  return reader.figures<Tenant>(
    `SELECT ${COLUMNS}, rank FROM (SELECT * FROM (SELECT *, (${RANKS[order]})::float8 AS rank
                    FROM fairq.group_stats
                    WHERE queue = $1::text AND ($2::text = '' OR strpos(lower(group_key), lower($2::text)) > 0)) g
                WHERE $3::float8 IS NULL OR rank < $3::float8
                    OR rank = $3::float8 AND (group_key COLLATE "C", group_id) > ($4::text, $5::uuid)
                ORDER BY rank DESC, group_key COLLATE "C", group_id LIMIT $6::int) g
            ORDER BY rank DESC, g.group_key COLLATE "C", g.group_id`,
    [queue, find, after?.rank ?? null, after?.key ?? null, after?.id ?? null, limit],
  );
}

/** The groups of a key: one in each queue. */
export function tenantsOfKey(
  reader: Reader,
  queue: string | null,
  key: string,
): Promise<(Tenant & { queue: string })[]> {
  return reader.figures(
    `SELECT queue, ${COLUMNS}, 0::float8 AS rank FROM fairq.group_stats
            WHERE ($1::text IS NULL OR queue = $1::text)
                AND group_id = fairq.group_id($2::text)
            ORDER BY queue COLLATE "C" LIMIT 100`,
    [queue, key],
  );
}

/** Groups with work that have this in their keys, in all queues: those with most waiting first. */
export function tenantsLike(reader: Reader, find: string, limit: number): Promise<(Tenant & { queue: string })[]> {
  return reader.figures(
    `SELECT queue, ${COLUMNS}, 0::float8 AS rank FROM fairq.group_stats g
            WHERE strpos(lower(group_key), lower($1::text)) > 0
            ORDER BY g.ready + g.overflow DESC, g.queue COLLATE "C", g.group_key COLLATE "C", g.group_id LIMIT $2::int`,
    [find, limit],
  );
}

/** The same of those that were given something, whether they have work or not. */
export function settingsLike(reader: Reader, find: string, limit: number): Promise<{ queue: string; group_key: string }[]> {
  return reader.rows(
    `SELECT queue, group_key FROM fairq.group_settings WHERE strpos(lower(group_key), lower($1::text)) > 0
            ORDER BY queue COLLATE "C", group_key COLLATE "C" LIMIT $2::int`,
    [find, limit],
  );
}

/** The group of an id. */
export function tenantsOfId(reader: Reader, queue: string, id: string): Promise<Tenant[]> {
  return reader.figures<Tenant>(
    `SELECT ${COLUMNS}, 0::float8 AS rank FROM fairq.group_stats
            WHERE queue = $1::text AND group_id = $2::uuid`,
    [queue, id],
  );
}

/** How many tasks are looked at in one query for the key of a group, and for how long in all. */
const KEY_TASKS = 1000;
const KEY_MS = 250;

/**
 * The whole key of a group that the views show the beginning of only: from what the group was given, or from one of
 * its tasks. undefined: none was found in the time of a page.
 */
export async function keyOfTenant(reader: Reader, queue: string, id: string): Promise<string | undefined> {
  const given = await reader.row<{ group_key: string }>(
    `SELECT group_key FROM fairq.group_settings WHERE queue = $1::text AND group_id = $2::uuid`,
    [queue, id],
  );
  if (given !== undefined) {
    return given.group_key;
  }
  const end = Date.now() + KEY_MS;
  let after: string | null = null;
  for (;;) {
    const row: { key: string | null; last: string | null } | undefined = await reader.row(
      `SELECT (SELECT t.group_key FROM unnest(p.ids) u(id), LATERAL fairq.get_task($1::text, u.id) t
                    WHERE fairq.group_id(t.group_key) = $2::uuid LIMIT 1) AS key, p.last_id::text AS last
            FROM fairq_internal.tasks_page($1::text, $3::bigint, ${KEY_TASKS}, ${KEY_TASKS}, NULL, NULL) p`,
      [queue, id, after],
    );
    if (row!.key !== null) {
      return row!.key;
    }
    after = row!.last;
    if (after === null || Date.now() > end) {
      return undefined;
    }
  }
}

export interface TenantSettings {
  queue: string;
  group_key: string;
  weight: number | null;
  max_leased: number | null;
  rate: number | null;
  burst: number | null;
  paused: boolean | null;
}

/** What groups of a queue were given, by key. */
export function tenantSettings(
  reader: Reader,
  queue: string,
  find: string,
  after: string | undefined,
  limit: number,
): Promise<TenantSettings[]> {
  return reader.rows<TenantSettings>(
    `SELECT queue, group_key, weight, max_leased, rate, burst, paused FROM fairq.group_settings
            WHERE queue = $1::text AND strpos(lower(group_key), lower($2::text)) > 0
                AND ($3::text IS NULL OR group_key COLLATE "C" > $3::text)
            ORDER BY group_key COLLATE "C" LIMIT $4::int`,
    [queue, find, after ?? null, limit],
  );
}

/** What one group was given; undefined: nothing of its own. */
export function settingsOfTenant(reader: Reader, queue: string, key: string): Promise<TenantSettings | undefined> {
  return reader.row<TenantSettings>(
    `SELECT queue, group_key, weight, max_leased, rate, burst, paused FROM fairq.group_settings
            WHERE queue = $1::text AND group_key = $2::text`,
    [queue, key],
  );
}
