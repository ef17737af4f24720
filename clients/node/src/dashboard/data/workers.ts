/** Who works on what: sessions, and leases with the connections that claimed them. */

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
}

/** Sessions behind one, by their ids. */
export function sessions(reader: Reader, after: string | undefined, limit: number): Promise<Session[]> {
  return reader.rows<Session>(
    `SELECT session::text, name, role::text, bound, pid, leases,
                extract(epoch FROM opened_at)::float8 AS opened_at,
                extract(epoch FROM ttl)::float8 AS ttl,
                extract(epoch FROM alive_until)::float8 AS alive_until
            FROM fairq.sessions s WHERE $1::uuid IS NULL OR session > $1::uuid
            ORDER BY s.session LIMIT $2::int`,
    [after ?? null, limit],
  );
}

export interface Lease {
  queue: string;
  id: string;
  attempt: number;
  state: string;
  lease_until: number | null;
  pid: number | null;
}

export interface LeasePlace {
  queue: string;
  id: string;
}

/** Leases behind a place, by queue and task. */
export function leases(
  reader: Reader,
  queue: string | undefined,
  after: LeasePlace | undefined,
  limit: number,
): Promise<Lease[]> {
  return reader.rows<Lease>(
    `SELECT queue, id::text, attempt, state, pid,
                extract(epoch FROM lease_until)::float8 AS lease_until
            FROM fairq.leases l
            WHERE ($1::text IS NULL OR queue = $1::text)
                AND ($2::text IS NULL OR (queue COLLATE "C", id) > ($2::text, $3::bigint))
            ORDER BY l.queue COLLATE "C", l.id LIMIT $4::int`,
    [queue ?? null, after?.queue ?? null, after?.id ?? null, limit],
  );
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
