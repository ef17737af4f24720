/** Subgroups: what the engine knows of those with work in a group that is divided, and what subgroups were given. */

import type { Reader } from '../database.js';

export interface Subgroup {
  subgroup_key: string;
  /** the key is, or may be, longer than the view shows */
  cut: boolean;
  overflow: number;
  leased: number;
  weight: number;
  max_leased: number | null;
  rate: number | null;
  burst: number | null;
  tokens: number | null;
  paused: boolean;
  served: number;
  share: number | null;
  expected_share: number | null;
}

/** The view shows 48 bytes of a key, up to the last whole character, and three dots. */
const SHOWN_BYTES = 48;

const COLUMNS = `
    subgroup_key, octet_length(subgroup_key) >= ${SHOWN_BYTES} AND right(subgroup_key, 3) = '...' AS cut,
    overflow::float8 AS overflow, leased::float8 AS leased,
    weight, max_leased, rate, burst, tokens, paused, served::float8 AS served, share, expected_share`;

/** A key as the view shows it. */
const shown = (key: string): string => `CASE WHEN octet_length(${key}) <= ${SHOWN_BYTES} THEN ${key} ELSE
    (SELECT left(${key}, max(n)) FROM generate_series(0, ${SHOWN_BYTES}) n WHERE octet_length(left(${key}, n)) <= ${SHOWN_BYTES}) || '...' END`;

export interface SubgroupQuery {
  queue: string;
  /** the key of the group, as views show it */
  group: string;
  /** only keys that have this in them */
  find: string;
  /** how many come before the page */
  from: string;
  limit: number;
}

/** A page of the subgroups of a group that have work, those with most waiting first. */
export function subgroups(reader: Reader, query: SubgroupQuery): Promise<Subgroup[]> {
  return reader.rows<Subgroup>(
    `SELECT ${COLUMNS} FROM fairq.subgroup_stats s
            WHERE queue = $1::text AND group_key = $2::text
                AND ($3::text = '' OR strpos(lower(subgroup_key), lower($3::text)) > 0)
            ORDER BY s.overflow DESC, s.leased DESC, s.subgroup_key COLLATE "C", s.served DESC OFFSET $4::bigint LIMIT $5::int`,
    [query.queue, query.group, query.find, query.from, query.limit],
  );
}

/** The subgroups that have a key, or begin with what is shown of it; $2 is the key of the group, as views show it. */
export function subgroupsOfKey(reader: Reader, queue: string, group: string, key: string): Promise<Subgroup[]> {
  return reader.rows<Subgroup>(
    `SELECT ${COLUMNS} FROM fairq.subgroup_stats s
            WHERE queue = $1::text AND group_key = $2::text AND subgroup_key = ${shown('$3::text')}
            ORDER BY s.overflow DESC, s.leased DESC LIMIT 100`,
    [queue, group, key],
  );
}

/** How many subgroups with work each of some groups has, by their keys as views show them. */
export async function subgroupCounts(
  reader: Reader,
  queue: string,
  groups: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  const rows = await reader.rows<{ group_key: string; subgroups: number }>(
    `SELECT group_key, count(*)::float8 AS subgroups FROM fairq.subgroup_stats
            WHERE queue = $1::text AND group_key = ANY ($2::text[]) GROUP BY group_key`,
    [queue, groups],
  );
  return new Map(rows.map((row) => [row.group_key, row.subgroups]));
}

export interface SubgroupSettings {
  subgroup_key: string;
  weight: number | null;
  max_leased: number | null;
  rate: number | null;
  burst: number | null;
  paused: boolean;
}

/** What subgroups of a group were given, by key. */
export function subgroupSettings(
  reader: Reader,
  query: { queue: string; group: string; find: string; after: string | undefined; limit: number },
): Promise<SubgroupSettings[]> {
  return reader.rows<SubgroupSettings>(
    `SELECT subgroup_key, weight, max_leased, rate, burst, paused FROM fairq.subgroup_settings
            WHERE queue = $1::text AND group_key = $2::text AND strpos(lower(subgroup_key), lower($3::text)) > 0
                AND ($4::text IS NULL OR subgroup_key COLLATE "C" > $4::text)
            ORDER BY subgroup_key COLLATE "C" LIMIT $5::int`,
    [query.queue, query.group, query.find, query.after ?? null, query.limit],
  );
}

/** What one subgroup was given; undefined: nothing of its own. */
export function settingsOfSubgroup(
  reader: Reader,
  queue: string,
  group: string,
  key: string,
): Promise<SubgroupSettings | undefined> {
  return reader.row<SubgroupSettings>(
    `SELECT subgroup_key, weight, max_leased, rate, burst, paused FROM fairq.subgroup_settings
            WHERE queue = $1::text AND group_key = $2::text AND subgroup_key = $3::text`,
    [queue, group, key],
  );
}
