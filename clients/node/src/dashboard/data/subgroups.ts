/** Subgroups: what the engine knows of those with work in a group that is divided, and what subgroups were given. */

import type { Reader } from '../database.js';

export interface Subgroup {
  subgroup_key: string;
  /** the key is longer than the view shows */
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

const COLUMNS = `
    subgroup_key, subgroup_id <> fairq.group_id(subgroup_key) AS cut,
    overflow::float8 AS overflow, leased::float8 AS leased,
    weight, max_leased, rate, burst, tokens, paused, served::float8 AS served, share, expected_share`;

/** A group of a queue: its key or, where that is not known, the id that views have of it. */
export type GroupName = { key: string } | { id: string };

const GROUP = `group_id = coalesce($2::uuid, fairq.group_id($3::text))`;

function groupValues(group: GroupName): [string | null, string | null] {
  return 'id' in group ? [group.id, null] : [null, group.key];
}

export interface SubgroupQuery {
  queue: string;
  group: GroupName;
  /** only keys that have this in them */
  find: string;
  /** how many come before the page */
  from: string;
  limit: number;
}

/** A page of the subgroups of a group that have work, those with most waiting first. */
export function subgroups(reader: Reader, query: SubgroupQuery): Promise<Subgroup[]> {
  return reader.figures<Subgroup>(
    `SELECT ${COLUMNS} FROM fairq.subgroup_stats s
            WHERE queue = $1::text AND ${GROUP}
                AND ($4::text = '' OR strpos(lower(subgroup_key), lower($4::text)) > 0)
            ORDER BY s.overflow DESC, s.leased DESC, s.subgroup_key COLLATE "C", s.subgroup_id OFFSET $5::bigint LIMIT $6::int`,
    [query.queue, ...groupValues(query.group), query.find, query.from, query.limit],
  );
}

/** The subgroup that has a key, if it has work. */
export function subgroupsOfKey(reader: Reader, queue: string, group: string, key: string): Promise<Subgroup[]> {
  return reader.figures<Subgroup>(
    `SELECT ${COLUMNS} FROM fairq.subgroup_stats s
            WHERE queue = $1::text AND group_id = fairq.group_id($2::text) AND subgroup_id = fairq.group_id($3::text)`,
    [queue, group, key],
  );
}

/** How many subgroups with work each of some groups has, by their ids. */
export async function subgroupCounts(
  reader: Reader,
  queue: string,
  ids: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  const rows = await reader.figures<{ group_id: string; subgroups: number }>(
    `SELECT group_id::text, count(*)::float8 AS subgroups FROM fairq.subgroup_stats
            WHERE queue = $1::text AND group_id = ANY ($2::uuid[]) GROUP BY group_id`,
    [queue, ids],
  );
  return new Map(rows.map((row) => [row.group_id, row.subgroups]));
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
