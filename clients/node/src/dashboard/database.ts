/**
 * The connections. A page reads in one read-only transaction that cannot last for long; an
 * action writes in a transaction of its own.
 */

import { Pool, type PoolClient, type PoolConfig, type QueryConfig } from 'pg';

import { asProblem, inWords, Problem, type DatabaseError } from './problem.js';

/** How long a statement of a page, a wait for a lock, and a statement of an action may take. */
const READ_MS = 4000;
/** The same of a look that nobody waits for. */
const PATIENT_MS = 600_000;
/** How long a page waits for such a look. */
const COUNT_MS = 400;
const LOCK_MS = 300;
const WRITE_MS = 60_000;
const CONNECT_MS = 5000;
/** What an answer may take beyond its statement, before the server is taken for gone: that ends no statement. */
const GRACE_MS = 5000;
const CLOSE_MS = 5000;

const SETTINGS = [
  // Names in queries are qualified, so that nothing of others is found instead.
  "SET LOCAL search_path = 'pg_catalog'",
  'SET LOCAL jit = off',
  // The tenants of a queue may be 100,000 rows, which are sorted; not on disk.
  "SET LOCAL work_mem = '64MB'",
  'SET LOCAL max_parallel_workers_per_gather = 0',
  'SET LOCAL idle_in_transaction_session_timeout = 20000',
];

function begin(readOnly: boolean, milliseconds: number): string {
  return [
    readOnly ? 'BEGIN TRANSACTION READ ONLY' : 'BEGIN TRANSACTION READ WRITE',
    `SET LOCAL statement_timeout = ${milliseconds}`,
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

/** The server is about to count its tasks, so there are no figures yet. */
export class NotCounted extends Problem {
  constructor() {
    super(
      503,
      'The server was started not long ago and counts the tasks of its queues, which it does once.',
      'Figures are there when that is done, some seconds for a million tasks. What is listed without figures is there meanwhile: tasks, done tasks, what is in flight, sessions, schedules.',
    );
  }
}

/** Runs a statement of a transaction, in its time. */
type Ask = (sql: string, values?: readonly unknown[]) => Promise<unknown[]>;

export class Reader {
  private figuresThere: Promise<void> | undefined;

  /** counted: waits until there are figures, for a moment; throws NotCounted then */
  constructor(
    private readonly ask: Ask,
    private readonly counted: (reader: Reader) => Promise<void>,
  ) {}

  async rows<T>(sql: string, values: readonly unknown[] = []): Promise<T[]> {
    return (await this.ask(sql, values)) as T[];
  }

  /** Rows of views for which the server has to have counted its tasks. */
  async figures<T>(sql: string, values: readonly unknown[] = []): Promise<T[]> {
    await (this.figuresThere ??= this.counted(this));
    return this.rows<T>(sql, values);
  }

  async row<T>(sql: string, values: readonly unknown[] = []): Promise<T | undefined> {
    return (await this.rows<T>(sql, values))[0];
  }

  /**
   * Reads what the role may perhaps not see, or what may be locked: the page goes on without
   * it, and says why.
   */
  async attempt<T>(work: () => Promise<T>): Promise<Attempt<T>> {
    await this.ask('SAVEPOINT attempt');
    try {
      return { value: await work() };
    } catch (error) {
      const { code } = error as DatabaseError;
      if (!/^(42501|42P01|42P16|42704|55P03|57014|55000)$/.test(code ?? '')) {
        throw error;
      }
      await this.ask('ROLLBACK TO SAVEPOINT attempt');
      return { problem: inWords(error as DatabaseError) };
    }
  }
}

export class Database {
  private readonly pool: Pool;
  /** the run of the server that has counted its tasks: since when, and whether as a standby */
  private countedRun: string | undefined;
  private counting: Promise<void> | undefined;

  constructor(config: PoolConfig) {
    this.pool = new Pool({
      ...config,
      max: 5,
      connectionTimeoutMillis: CONNECT_MS,
      idleTimeoutMillis: 60_000,
      application_name: 'pgfairq-dashboard',
    });
    // A connection that is lost while it is idle is replaced by the next page. So it is after a crash, in which the
    // server forgets what it has counted, and is not said to be started anew.
    this.pool.on('error', () => (this.countedRun = undefined));
  }

  /** The pages' transaction: read-only, and short. */
  read<T>(work: (reader: Reader) => Promise<T>): Promise<T> {
    return this.transaction(true, READ_MS, (ask) => work(new Reader(ask, (reader) => this.counted(reader))));
  }

  /** An action's transaction. */
  write<T>(work: (writer: Reader) => Promise<T>): Promise<T> {
    return this.transaction(false, WRITE_MS, (ask) => work(new Reader(ask, async () => undefined)));
  }

  /** Ends the connections; one whose look takes long is left to the end of the process. */
  async close(): Promise<void> {
    const late = new Promise((resolve) => setTimeout(resolve, CLOSE_MS).unref());
    await Promise.race([this.pool.end(), late]);
  }

  /**
   * After a start the server does not know how many tasks there are. Who asks first has the tables of the queues read,
   * once, which takes seconds for a million tasks; a page that did so would be ended, and the next one begin anew. So one
   * look is under way that has the time, and pages wait a moment for it.
   */
  private async counted(reader: Reader): Promise<void> {
    const { run } = (await reader.row<{ run: string }>(
      "SELECT pg_postmaster_start_time() || ' ' || pg_is_in_recovery() AS run",
    ))!;
    if (this.countedRun === run) {
      return;
    }
    this.counting ??= this.count(run).finally(() => (this.counting = undefined));
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new NotCounted()), COUNT_MS);
    });
    await Promise.race([this.counting, late]).finally(() => clearTimeout(timer));
  }

  private async count(run: string): Promise<void> {
    await this.transaction(true, PATIENT_MS, (ask) => ask('SELECT count(*) FROM fairq.queue_stats'));
    this.countedRun = run;
  }

  private async transaction<T>(
    readOnly: boolean,
    milliseconds: number,
    work: (ask: Ask) => Promise<T>,
  ): Promise<T> {
    let client: PoolClient;
    try {
      client = await this.pool.connect();
    } catch (error) {
      throw asProblem(error);
    }
    const ignore = (): void => undefined;
    client.on('error', ignore);
    const within = async (limit: number, text: string, values: readonly unknown[] = []): Promise<unknown[]> => {
      const query: QueryConfig & { query_timeout: number } = { text, values: [...values], query_timeout: limit };
      return (await client.query(query)).rows;
    };
    const ask: Ask = (sql, values) => within(milliseconds + GRACE_MS, sql, values);
    let broken: Error | undefined;
    try {
      await ask(begin(readOnly, milliseconds));
      const result = await work(ask);
      await ask('COMMIT');
      return result;
    } catch (error) {
      await within(GRACE_MS, 'ROLLBACK').catch((failure: Error) => {
        broken = failure;
        this.countedRun = undefined;
      });
      throw readOnly ? asProblem(error) : ofAction(error);
    } finally {
      client.removeListener('error', ignore);
      client.release(broken);
    }
  }
}
