/**
 * The connections. A page reads in one read-only transaction that cannot last for long; an
 * action writes in a transaction of its own.
 */

import { Pool, type PoolClient, type PoolConfig } from 'pg';

import { asProblem, inWords, Problem, type DatabaseError } from './problem.js';

/** How long a statement of a page, a wait for a lock, and a statement of an action may take. */
const READ_MS = 4000;
const LOCK_MS = 300;
const WRITE_MS = 60_000;
const CONNECT_MS = 5000;

const SETTINGS = [
  // Names in queries are qualified, so that nothing of others is found instead.
  "SET LOCAL search_path = 'pg_catalog'",
  'SET LOCAL jit = off',
  // The tenants of a queue may be 100,000 rows, which are sorted; not on disk.
  "SET LOCAL work_mem = '64MB'",
  'SET LOCAL max_parallel_workers_per_gather = 0',
  'SET LOCAL idle_in_transaction_session_timeout = 20000',
];

function begin(readOnly: boolean): string {
  return [
    readOnly ? 'BEGIN TRANSACTION READ ONLY' : 'BEGIN TRANSACTION READ WRITE',
    `SET LOCAL statement_timeout = ${readOnly ? READ_MS : WRITE_MS}`,
    `SET LOCAL lock_timeout = ${readOnly ? LOCK_MS : 10 * LOCK_MS}`,
    ...SETTINGS,
  ].join('; ');
}

/** Why an action was not done; one that took too long is told how it takes less. */
function ofAction(error: unknown): Problem {
  const { code, message } = error as DatabaseError;
  return code === '57014'
    ? new Problem(
        503,
        `This took longer than an action may take, which is ${WRITE_MS / 1000} s, so nothing was done: ${message}`,
        'Do it to fewer tasks at a time, such as those of a tenant or a name; or by SQL.',
      )
    : asProblem(error);
}

/** What an attempt came to: rows, or what kept it from them. */
export type Attempt<T> = { value: T; problem?: undefined } | { value?: undefined; problem: string };

export class Reader {
  constructor(private readonly client: PoolClient) {}

  async rows<T>(sql: string, values: readonly unknown[] = []): Promise<T[]> {
    return (await this.client.query(sql, [...values])).rows as T[];
  }

  async row<T>(sql: string, values: readonly unknown[] = []): Promise<T | undefined> {
    return (await this.rows<T>(sql, values))[0];
  }

  /**
   * Reads what the role may perhaps not see, or what may be locked: the page goes on without
   * it, and says why.
   */
  async attempt<T>(work: () => Promise<T>): Promise<Attempt<T>> {
    await this.client.query('SAVEPOINT attempt');
    try {
      return { value: await work() };
    } catch (error) {
      const { code } = error as DatabaseError;
      if (!/^(42501|42P01|42P16|42704|55P03|57014|55000)$/.test(code ?? '')) {
        throw error;
      }
      await this.client.query('ROLLBACK TO SAVEPOINT attempt');
      return { problem: inWords(error as DatabaseError) };
    }
  }
}

export class Database {
  private readonly pool: Pool;

  constructor(config: PoolConfig) {
    this.pool = new Pool({
      ...config,
      max: 5,
      connectionTimeoutMillis: CONNECT_MS,
      idleTimeoutMillis: 60_000,
      application_name: 'pgfairq-dashboard',
    });
    // A connection that is lost while it is idle is replaced by the next page.
    this.pool.on('error', () => undefined);
  }

  /** The pages' transaction: read-only, and short. */
  read<T>(work: (reader: Reader) => Promise<T>): Promise<T> {
    return this.transaction(true, (client) => work(new Reader(client)));
  }

  /** An action's transaction. */
  write<T>(work: (writer: Reader) => Promise<T>): Promise<T> {
    return this.transaction(false, (client) => work(new Reader(client)));
  }

  async close(): Promise<void> {
    await this.pool.end();
  }

  private async transaction<T>(readOnly: boolean, work: (client: PoolClient) => Promise<T>): Promise<T> {
    let client: PoolClient;
    try {
      client = await this.pool.connect();
    } catch (error) {
      throw asProblem(error);
    }
    const ignore = (): void => undefined;
    client.on('error', ignore);
    let broken: Error | undefined;
    try {
      await client.query(begin(readOnly));
      const result = await work(client);
      await client.query('COMMIT');
      return result;
    } catch (error) {
      await client.query('ROLLBACK').catch((failure: Error) => {
        broken = failure;
      });
      throw readOnly ? asProblem(error) : ofAction(error);
    } finally {
      client.removeListener('error', ignore);
      client.release(broken);
    }
  }
}
