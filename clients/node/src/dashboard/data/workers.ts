/**
 * Who works on what: sessions, and leases with the connections that claimed them. A lease under a session ends when
 * that does, to the microsecond: by this its session is found.
 */

import type { Reader } from '../database.js';

export interface Session {
  session: string;
  name: string | null;
  role: string;
  opened_at: number | null;
  ttl: number;
  alive_until: number | null;
  bound: boolean;
  pid: number | null;
  leases: number;
  /** null: on the server's machine */
  client: string | null;
  /** it runs a task alone that was lost before */
  quarantine: boolean;
  application: string | null;
  /** those it has tasks of just now, by name */
  queues: string[];
}

const SESSION = `
    s.session::text, s.name, s.role::text, s.bound, s.pid, s.leases, s.client, s.quarantine,
    a.application_name AS application,
    extract(epoch FROM s.opened_at)::float8 AS opened_at,
    extract(epoch FROM s.ttl)::float8 AS ttl,
    extract(epoch FROM s.alive_until)::float8 AS alive_until`;

/** Sessions behind one, by their ids; those that have this in their name, their address or their application. */
export function sessions(
  reader: Reader,
  { find, after, limit }: { find: string; after?: string | undefined; limit: number },
): Promise<Session[]> {
  return reader.rows<Session>(
    `SELECT ${SESSION}, coalesce(l.queues, '{}') AS queues
            FROM fairq.sessions s
                LEFT JOIN pg_stat_activity a ON a.pid = s.pid AND s.bound
                LEFT JOIN (SELECT lease_until, array_agg(DISTINCT queue COLLATE "C") AS queues FROM fairq.leases
                    GROUP BY lease_until) l ON l.lease_until = s.alive_until
            WHERE ($1::uuid IS NULL OR s.session > $1::uuid) AND ($3::text = '' OR strpos(lower(concat_ws(' ', s.name, s.client, s.pid, a.application_name)), lower($3::text)) > 0)
            ORDER BY s.session LIMIT $2::int`,
    [after ?? null, limit, find],
  );
}

export function session(reader: Reader, id: string): Promise<Session | undefined> {
  return reader.row<Session>(
    `SELECT ${SESSION}, '{}'::text[] AS queues FROM fairq.sessions s
                LEFT JOIN pg_stat_activity a ON a.pid = s.pid AND s.bound
            WHERE s.session = $1::uuid`,
    [id],
  );
}

export interface LeasePlace {
  queue: string;
  id: string;
}

/** What LEASE reads. */
interface Held extends LeasePlace {
  receipt: string;
  attempt: number;
  state: string;
  lease_until: number | null;
  pid: number | null;
  session: string | null;
  session_name: string | null;
}

export interface Lease extends Held {
  /** null also where the role may not read the task */
  name: string | null;
  group_key: string | null;
  progress: string | null;
}

export interface LeaseQuery {
  queue?: string | undefined;
  session?: string | undefined;
  after?: LeasePlace | undefined;
  limit: number;
}

const LEASE = `
    l.queue, l.id::text, l.receipt::text, l.attempt, l.state, l.pid,
    extract(epoch FROM l.lease_until)::float8 AS lease_until,
    s.session::text AS session, s.name AS session_name`;

/** What the tasks of leases are to do, where the role may read them. */
const TASK = `LEFT JOIN LATERAL (SELECT t.name, t.group_key, left((t.headers -> 'progress')::text, 200) AS progress
                FROM fairq.queues q, unnest(CASE WHEN has_table_privilege(q.relation::oid, 'SELECT') THEN ARRAY[l.id] END) u(id),
                    LATERAL fairq.get_task(l.queue, u.id) t
                WHERE q.queue = l.queue) t ON true`;
const NO_TASK = `CROSS JOIN (SELECT NULL::text AS name, NULL::text AS group_key, NULL::text AS progress) t`;

/** Leases behind a place, by queue and task; without what their tasks are to do if that cannot be read just now. */
export async function leases(reader: Reader, query: LeaseQuery): Promise<Lease[]> {
  const { queue, session: of, after, limit } = query;
  const read = (task: string): Promise<Lease[]> =>
    reader.rows<Lease>(
      `SELECT ${LEASE}, t.name, t.group_key, t.progress
            FROM (SELECT l.* FROM fairq.leases l
                WHERE ($1::text IS NULL OR l.queue = $1::text)
                    AND ($5::uuid IS NULL OR l.lease_until = (SELECT s.alive_until FROM fairq.sessions s WHERE s.session = $5::uuid))
                    AND ($2::text IS NULL OR (l.queue COLLATE "C", l.id) > ($2::text, $3::bigint))
                ORDER BY l.queue COLLATE "C", l.id LIMIT $4::int) l
                LEFT JOIN fairq.sessions s ON s.alive_until = l.lease_until ${task}
            ORDER BY l.queue COLLATE "C", l.id`,
      [queue ?? null, after?.queue ?? null, after?.id ?? null, limit, of ?? null],
    );
  const whole = await reader.attempt(() => read(TASK));
  return whole.value ?? read(NO_TASK);
}

export interface TaskHolder extends Held {
  application: string | null;
  role: string | null;
  client: string | null;
}

/** Who has a task; undefined: nobody. */
export function holderOf(reader: Reader, queue: string, id: string): Promise<TaskHolder | undefined> {
  return reader.row<TaskHolder>(
    `SELECT ${LEASE}, a.application_name AS application, coalesce(s.role::text, a.usename::text) AS role,
                coalesce(s.client, host(a.client_addr)) AS client
            FROM (SELECT l.* FROM fairq.leases l WHERE l.queue = $1::text AND l.id = $2::bigint) l
                LEFT JOIN fairq.sessions s ON s.alive_until = l.lease_until
                LEFT JOIN pg_stat_activity a ON a.pid = l.pid`,
    [queue, id],
  );
}

/** The receipts of all that is in flight. */
export async function receipts(reader: Reader): Promise<string[]> {
  return (await reader.rows<{ receipt: string }>('SELECT receipt::text FROM fairq.leases')).map((row) => row.receipt);
}

export interface Holder {
  queue: string;
  pid: number | null;
  application: string | null;
  role: string | null;
  client: string | null;
  leases: number;
  /** the lease that ends first */
  first_end: number | null;
}

/** The connections that hold most. Those of others' roles have no names without pg_monitor. */
export function holders(reader: Reader, queue: string | undefined, limit: number): Promise<Holder[]> {
  return reader.rows<Holder>(
    `SELECT l.queue, l.pid, a.application_name AS application, a.usename AS role,
                host(a.client_addr) AS client, l.leases::float8 AS leases,
                extract(epoch FROM l.first_end)::float8 AS first_end
            FROM (SELECT queue, pid, count(*) AS leases, min(lease_until) AS first_end
                    FROM fairq.leases WHERE $1::text IS NULL OR queue = $1::text
                    GROUP BY queue, pid ORDER BY count(*) DESC, queue, pid LIMIT $2::int) l
                LEFT JOIN pg_stat_activity a ON a.pid = l.pid
            ORDER BY l.leases DESC, l.queue, l.pid`,
    [queue ?? null, limit],
  );
}
