import { Row } from './database';
import { dateOf } from './values';

export type State = 'ready' | 'leased' | 'scheduled' | 'overflow' | 'held' | 'dead';

/** A task in the queue, in whatever state. */
export interface TaskStatus<Data = unknown> {
  id: string;
  queue: string;
  state: State;
  group: string;
  data: Data;
  headers: Record<string, unknown> | null;
  priority: number;
  cost: number;
  /** How many have ended. */
  attempts: number;
  maxAttempts: number;
  enqueuedAt: Date;
  runAt: Date | null;
  leaseUntil: Date | null;
  uniqueKey: string | null;
  lastError: string | null;
  expiresAt: Date | null;
  /** What the handler has given to `progress`. */
  progress: unknown;
}

export const STATUS_COLUMNS = `id, state, group_key, payload, headers, priority, cost, attempts, max_attempts,
  extract(epoch FROM enqueued_at) * 1000, extract(epoch FROM run_at) * 1000, extract(epoch FROM lease_until) * 1000,
  unique_key, last_error, extract(epoch FROM expires_at) * 1000`;

export function statusOf<Data>(queue: string, row: Row): TaskStatus<Data> {
  const headers = row[4] === null ? null : JSON.parse(row[4]) as Record<string, unknown> | null;
  return {
    id: row[0] as string, queue, state: row[1] as State, group: row[2] as string,
    data: JSON.parse(row[3] as string) as Data, headers,
    priority: Number(row[5]), cost: Number(row[6]), attempts: Number(row[7]), maxAttempts: Number(row[8]),
    enqueuedAt: dateOf(row[9]) as Date, runAt: dateOf(row[10]), leaseUntil: dateOf(row[11]),
    uniqueKey: row[12], lastError: row[13], expiresAt: dateOf(row[14]), progress: headers?.progress ?? null,
  };
}
