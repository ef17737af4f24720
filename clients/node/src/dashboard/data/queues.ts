/** Queues: their settings, and the engine's counters, which cost the same however many tasks. */

import type { Reader } from '../database.js';
import { Problem } from '../problem.js';

export interface Queue {
  queue: string;
  owner: string;
  policy: string;
  buckets: number;
  lease: number;
  max_attempts: number;
  max_lost: number;
  backoff_base: number;
  backoff_max: number;
  max_ready: number | null;
  max_ready_per_group: number | null;
  max_depth: number | null;
  keep_done: number | null;
  durable_leases: boolean;
  charge: string;
  notify: boolean;
  group_weight: number | null;
  group_max_leased: number | null;
  group_rate: number | null;
  group_burst: number | null;
  /** whether groups are divided into subgroups */
  subgroups: boolean;
  subgroup_weight: number | null;
  subgroup_max_leased: number | null;
  subgroup_rate: number | null;
  subgroup_burst: number | null;
  paused: boolean;
  expire_after: number | null;
  backoff_jitter: number;
  default_priority: string;
  class_weights: string | null;
  group_required: boolean;
  /** whether the role may read the table of the queue */
  readable: boolean;
  /** null: there is no done table */
  done_readable: boolean | null;
}

export interface QueueStats {
  queue: string;
  ready: number | null;
  leased: number | null;
  scheduled: number | null;
  overflow: number | null;
  held: number | null;
  dead: number | null;
  oldest_ready_age: number | null;
  enqueued: number;
  claimed: number;
  acked: number;
  nacked: number;
  released: number;
  snoozed: number;
  /** acks when less than a fifth of the lease was left */
  near_lease_end: number;
  expired: number;
  cancelled: number;
  dead_total: number;
  expired_tasks: number;
  deduplicated: number;
  swept: number;
  enqueue_rate: number;
  claim_rate: number;
  ack_rate: number;
  wait_p50: number | null;
  wait_p95: number | null;
  wait_p99: number | null;
  run_p50: number | null;
  run_p95: number | null;
  run_p99: number | null;
  payload_avg: number | null;
  payload_p50: number | null;
  payload_p95: number | null;
  payload_max: number | null;
  stats_reset: number | null;
}

/** Intervals become seconds, moments seconds since 1970, counts numbers. */
const seconds = (...names: string[]): string =>
  names.map((name) => `extract(epoch FROM ${name})::float8 AS ${name}`).join(', ');
const numbers = (...names: string[]): string => names.map((name) => `${name}::float8 AS ${name}`).join(', ');

const QUEUE_COLUMNS = `
    queue, owner::text, policy, buckets, max_attempts, max_lost, durable_leases, charge, notify, paused,
    group_required, group_max_leased, group_burst, group_weight, group_rate, backoff_jitter,
    subgroups, subgroup_weight, subgroup_max_leased, subgroup_rate, subgroup_burst,
    default_priority::text, array_to_string(class_weights, ' : ') AS class_weights,
    ${seconds('lease', 'backoff_base', 'backoff_max', 'keep_done', 'expire_after')},
    ${numbers('max_ready', 'max_ready_per_group', 'max_depth')},
    has_table_privilege(relation::oid, 'SELECT') AS readable,
    has_table_privilege(to_regclass(format('fairq.%I', 'done_' || queue)), 'SELECT') AS done_readable`;

const STATS_COLUMNS = `
    queue,
    ${numbers(
      'ready',
      'leased',
      'scheduled',
      'overflow',
      'held',
      'dead',
      'enqueued',
      'claimed',
      'acked',
      'nacked',
      'released',
      'snoozed',
      'near_lease_end',
      'expired',
      'cancelled',
      'dead_total',
      'expired_tasks',
      'deduplicated',
      'swept',
      'payload_avg',
      'payload_p50',
      'payload_p95',
      'payload_max',
    )},
    enqueue_rate, claim_rate, ack_rate,
    ${seconds('oldest_ready_age', 'wait_p50', 'wait_p95', 'wait_p99', 'run_p50', 'run_p95', 'run_p99', 'stats_reset')}`;

/** Up to `limit` queues behind a name, by name. */
export function queuesAfter(reader: Reader, after: string, limit: number): Promise<Queue[]> {
  return reader.rows<Queue>(
    `SELECT ${QUEUE_COLUMNS} FROM fairq.queues
            WHERE queue COLLATE "C" > $1::text ORDER BY queue COLLATE "C" LIMIT $2::int`,
    [after, limit],
  );
}

export async function findQueue(reader: Reader, name: string): Promise<Queue> {
  const queue = await reader.row<Queue>(`SELECT ${QUEUE_COLUMNS} FROM fairq.queues WHERE queue = $1::text`, [name]);
  if (queue === undefined) {
    throw new Problem(404, `There is no queue “${name}”.`, 'It may have been dropped.');
  }
  return queue;
}

/** The counters of all queues that the role may see them of; of some, if names are given. */
export function queueStats(reader: Reader, names?: readonly string[]): Promise<QueueStats[]> {
  return reader.figures<QueueStats>(
    `SELECT ${STATS_COLUMNS} FROM fairq.queue_stats
            WHERE $1::text[] IS NULL OR queue = ANY ($1::text[])`,
    [names ?? null],
  );
}

/** How many waits or runs were not longer than a length of time in seconds, by that. */
export type Bounds = ReadonlyMap<number, number>;
export type Histogram = Record<'wait' | 'run', Bounds>;

/** The waits and runs of all queues, since counting began. */
export async function histograms(reader: Reader): Promise<Map<string, Histogram>> {
  const rows = await reader.rows<{ queue: string; kind: 'wait' | 'run'; le: number; count: number }>(
    'SELECT queue, kind, le, count::float8 AS count FROM fairq.queue_histograms ORDER BY queue COLLATE "C", kind, le',
  );
  const found = new Map<string, Record<'wait' | 'run', Map<number, number>>>();
  for (const { queue, kind, le, count } of rows) {
    const histogram = found.get(queue) ?? { wait: new Map(), run: new Map() };
    histogram[kind].set(le, count);
    found.set(queue, histogram);
  }
  return found;
}

/**
 * How long so many of those took that came between two looks, in proportion within the step of the histogram; null: there
 * were none. What is longer than all steps is as the last one.
 */
export function quantile(later: Bounds | undefined, earlier: Bounds | undefined, part: number): number | null {
  const steps = [...(later ?? [])].map(([le, count]) => ({ le, count: count - (earlier?.get(le) ?? 0) }));
  const all = steps.at(-1)?.count ?? 0;
  const index = steps.findIndex(({ count }) => count > 0 && count >= part * all);
  if (all <= 0 || index < 0) {
    return null;
  }
  const { le, count } = steps[index]!;
  const below = steps[index - 1] ?? { le: 0, count: 0 };
  if (!Number.isFinite(le)) {
    return below.le;
  }
  return below.le + (le - below.le) * ((part * all - below.count) / Math.max(count - below.count, 1));
}

/** The names of queues for a choice, of those with an archive; not more than a page can show. */
export async function queueNames(reader: Reader, withArchive = false): Promise<string[]> {
  const rows = await reader.rows<{ queue: string }>(
    `SELECT queue FROM fairq.queues
            WHERE NOT $1::boolean OR to_regclass(format('fairq.%I', 'done_' || queue)) IS NOT NULL
            ORDER BY queue COLLATE "C" LIMIT 300`,
    [withArchive],
  );
  return rows.map((row) => row.queue);
}
