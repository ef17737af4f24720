/** Figures of each minute, in a table of the dashboard's own, so that charts survive a restart. */

import type { Database, Reader } from '../database.js';
import { Problem } from '../problem.js';
import type { Sample } from '../sampler.js';

const SCHEMA = 'pgfairq_dashboard';
const TABLE = `${SCHEMA}.minute`;
const FIGURES = [
  'ready',
  'leased',
  'waiting',
  'dead',
  'oldest',
  'enqueued',
  'claimed',
  'acked',
  'failed',
  'wait_p95',
  'run_p95',
] as const;
/** What of a chart's step is shown of a minute's figures: of what there is the most, of what happens the mean. */
const MEANS: readonly string[] = ['enqueued', 'claimed', 'acked', 'failed'];

/** What has to be done first, by who may. */
function missing(role: string): Problem {
  return new Problem(
    0,
    `--history takes a schema ${SCHEMA} that role ${role} owns`,
    `As a role that may: CREATE SCHEMA ${SCHEMA} AUTHORIZATION "${role.replaceAll('"', '""')}";`,
  );
}

/**
 * Makes the table, if it is not there: with an index for what is shown, and one for what is forgotten each minute, for
 * which else the whole table is read. The schema has to be the dashboard's own: in another one its owner could put code
 * on the table that would run as the dashboard's role.
 */
export async function prepareHistory(database: Database): Promise<void> {
  await database.write(async (writer) => {
    const { role, own } = (await writer.row<{ role: string; own: boolean }>(
      `SELECT current_user AS role, EXISTS (SELECT FROM pg_namespace n
            WHERE n.nspname = '${SCHEMA}' AND pg_get_userbyid(n.nspowner) = current_user) AS own`,
    ))!;
    if (!own) {
      throw missing(role);
    }
    await writer.row(`CREATE TABLE IF NOT EXISTS ${TABLE} (queue text COLLATE "C", at timestamptz, ${FIGURES.map(
      (name) => `${name} float8`,
    ).join(', ')}, PRIMARY KEY (queue, at), UNIQUE (at, queue))`);
    const theirs = await writer.row(
      `SELECT FROM pg_class c WHERE c.oid = '${TABLE}'::regclass AND pg_get_userbyid(c.relowner) <> current_user`,
    );
    if (theirs !== undefined) {
      throw new Problem(0, `table ${TABLE} is not of role ${role}`, `DROP TABLE ${TABLE}; it is made anew.`);
    }
  });
}

/** Adds a minute, and forgets what is older than so many days. Another dashboard may have added it. */
export async function addMinute(
  database: Database,
  samples: ReadonlyMap<string, Sample>,
  days: number,
): Promise<void> {
  const all = [...samples];
  await database.write(async (writer) => {
    await writer.rows(
      `INSERT INTO ${TABLE} (queue, at, ${FIGURES.join(', ')})
            SELECT queue, date_trunc('minute', 'epoch'::timestamptz + at * '1 s'::interval), ${FIGURES.join(', ')}
            FROM unnest($1::text[], $2::float8[], ${FIGURES.map((_, index) => `$${index + 3}::float8[]`).join(', ')})
                u(queue, at, ${FIGURES.join(', ')})
            ON CONFLICT DO NOTHING`,
      [
        all.map(([queue]) => queue),
        all.map(([, sample]) => sample.time),
        ...FIGURES.map((name) => all.map(([, sample]) => sample[name])),
      ],
    );
    await writer.rows(`DELETE FROM ${TABLE} WHERE at < now() - make_interval(days => $1::int)`, [days]);
  });
}

/** What was seen of a queue in the last seconds, in steps of some. */
export function minutes(reader: Reader, queue: string, seconds: number, step: number): Promise<Sample[]> {
  const figures = FIGURES.map((name) => `${MEANS.includes(name) ? 'avg' : 'max'}(${name})::float8 AS ${name}`);
  return reader.rows<Sample>(
    `SELECT extract(epoch FROM date_bin(make_interval(secs => $3::float8), at, 'epoch'::timestamptz))::float8 AS time,
            ${figures.join(', ')}
            FROM ${TABLE} WHERE queue = $1::text AND at > now() - make_interval(secs => $2::float8)
            GROUP BY 1 ORDER BY 1`,
    [queue, seconds, step],
  );
}
