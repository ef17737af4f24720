import { Row } from './database';
import { dateOf } from './values';

export type State = 'ready' | 'leased' | 'scheduled' | 'overflow' | 'held' | 'dead';

/** One end of a task that was a failure or a loss. */
export interface TaskEnd {
  at: Date;
  attempt: number;
  end: 'failed' | 'lost';
  /** For people to read. */
  worker: string;
  /** That it ran. */
  seconds: number;
  error: string | null;
}

/** The ends that the server has noted. What else an owner of the queue has written there is left out. */
export function endsOf(history: string | null): TaskEnd[] {
  const noted: unknown = history === null ? [] : JSON.parse(history);
  return (Array.isArray(noted) ? noted : []).flatMap((one: Record<string, unknown> | null): TaskEnd[] => {
    if (typeof one !== 'object' || one === null) return [];
    const { at, attempt, end, worker, seconds, error } = one;
    const when = new Date(String(at));
    if (Number.isNaN(when.getTime()) || typeof attempt !== 'number' || (end !== 'failed' && end !== 'lost') || typeof seconds !== 'number') return [];
    return [{ at: when, attempt, end, worker: String(worker), seconds, error: typeof error === 'string' ? error : null }];
  });
}

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
  name: string | null;
  /** How many leases of it have ended without an answer: expired, or the worker was gone. */
  lost: number;
  /** After so many of these it is dead; 0: no limit. */
  maxLost: number;
  /** Its last ten ends that were failures or losses, the earliest first. */
  history: TaskEnd[];
  /** Of its group; null: none. */
  subgroup: string | null;
  /** What the handler has given to `progress`. */
  progress: unknown;
}

export const STATUS_COLUMNS = `id, state, group_key, payload, headers, priority, cost, attempts, max_attempts,
  extract(epoch FROM enqueued_at) * 1000, extract(epoch FROM run_at) * 1000, extract(epoch FROM lease_until) * 1000,
  unique_key, last_error, extract(epoch FROM expires_at) * 1000, name, lost, max_lost, history, subgroup_key`;

export function statusOf<Data>(queue: string, row: Row): TaskStatus<Data> {
  const headers = row[4] === null ? null : JSON.parse(row[4]) as Record<string, unknown> | null;
  return {
    id: row[0] as string, queue, state: row[1] as State, group: row[2] as string,
    data: JSON.parse(row[3] as string) as Data, headers,
    priority: Number(row[5]), cost: Number(row[6]), attempts: Number(row[7]), maxAttempts: Number(row[8]),
    enqueuedAt: dateOf(row[9]) as Date, runAt: dateOf(row[10]), leaseUntil: dateOf(row[11]),
    uniqueKey: row[12], lastError: row[13], expiresAt: dateOf(row[14]),
    name: row[15], lost: Number(row[16]), maxLost: Number(row[17]), history: endsOf(row[18]), subgroup: row[19],
    progress: headers?.progress ?? null,
  };
}
