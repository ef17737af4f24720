/** The server: who the dashboard is there, and how much of each setting is in use. */

import type { Reader } from '../database.js';

export interface Server {
  database: string;
  role: string;
  version: string;
  extension: string | null;
  cluster: boolean;
  standby: boolean;
  monitor: boolean;
  now: number;
}

export async function server(reader: Reader): Promise<Server> {
  const row = await reader.row<Server>(
    `SELECT current_database() AS database, current_user AS role,
                split_part(current_setting('server_version'), ' ', 1) AS version,
                (SELECT extversion FROM pg_extension WHERE extname = 'pgfairq') AS extension,
                EXISTS (SELECT FROM pg_extension WHERE extname = 'pgfairq_cluster') AS cluster,
                pg_is_in_recovery() AS standby,
                pg_has_role('pg_monitor', 'USAGE') AS monitor,
                extract(epoch FROM clock_timestamp())::float8 AS now`,
  );
  return row!;
}

export interface Use {
  setting: string;
  used: number;
  available: number;
}

/**
 * What this database uses of the settings that size shared memory. Leases are counted by the
 * queues' counters, which cost the same for a million of them.
 */
export function settingsInUse(reader: Reader): Promise<Use[]> {
  return reader.figures<Use>(
    `SELECT setting, used::float8 AS used,
                current_setting('pgfairq.' || setting)::float8 AS available
            FROM (SELECT 'max_queues' AS setting, count(*) AS used FROM fairq.queues
                UNION ALL SELECT 'max_lanes', count(*) FROM fairq.bucket_stats
                UNION ALL SELECT 'max_groups', (SELECT count(*) FROM fairq.group_stats) + (SELECT count(*) FROM fairq.subgroup_stats)
                UNION ALL SELECT 'max_limits', (SELECT count(*) FROM fairq.group_settings) + (SELECT count(*) FROM fairq.subgroup_settings)
                UNION ALL SELECT 'max_leases', coalesce(sum(leased), 0) FROM fairq.queue_stats
                UNION ALL SELECT 'max_sessions', count(*) FROM fairq.sessions
                UNION ALL SELECT 'max_names', count(*) FILTER (WHERE NOT other) FROM fairq.name_stats
                UNION ALL SELECT 'max_schedules', count(*) FROM fairq.schedules) u
            ORDER BY used::float8 / greatest(current_setting('pgfairq.' || setting)::float8, 1) DESC, setting`,
  );
}

export interface Worker {
  pid: number;
  database: string | null;
  wait_event: string | null;
  in_transaction: number | null;
}

/** The background workers of the server; whose rows the role may not see have no database. */
export function backgroundWorkers(reader: Reader): Promise<Worker[]> {
  return reader.rows<Worker>(
    `SELECT pid, datname AS database, wait_event,
                extract(epoch FROM now() - xact_start)::float8 AS in_transaction
            FROM pg_stat_activity WHERE backend_type = 'pgfairq worker'
            ORDER BY datname, pid LIMIT 200`,
  );
}

/** What is overdue: leases that nobody has put back, which is the background worker's to do. */
export async function overdueLeases(reader: Reader): Promise<number> {
  const row = await reader.row<{ overdue: number }>(
    `SELECT count(*)::float8 AS overdue FROM fairq.leases
            WHERE lease_until < now() - '10 s'::interval AND state <> 'settling'`,
  );
  return row!.overdue;
}
