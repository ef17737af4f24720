import { createHash } from 'node:crypto';
import * as pg from 'pg';
import { isConnectionError } from './errors';

/** A query as `pg` takes it. */
export interface QueryConfigLike {
  text: string;
  values?: unknown[];
  name?: string;
  rowMode?: 'array';
}

/** A client or a pool of `pg`: what a `client` option takes. */
export interface Queryable {
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  query(config: any, values?: any): Promise<any>;
}

/** A client of a pool of `pg`. */
export interface PoolClientLike extends Queryable {
  release(error?: Error | boolean): void;
  on(event: 'error', listener: (error: Error) => void): unknown;
  removeListener(event: 'error', listener: (error: Error) => void): unknown;
}

/** A pool of `pg`. */
export interface PoolLike extends Queryable {
  connect(): Promise<PoolClientLike>;
  end(): Promise<void>;
  on(event: 'error', listener: (error: Error) => void): unknown;
  removeListener(event: 'error', listener: (error: Error) => void): unknown;
  readonly options: object;
}

/** How to connect: a pool of the application, a connection string, or settings for `new pg.Pool`. */
export type Connection = PoolLike | string | pg.PoolConfig;

/** Rows are arrays of texts, whatever parsers the application has set for its own queries. */
export type Row = (string | null)[];

const asText = { getTypeParser: () => (value: string) => value };

/** A statement of the library. Its name is of its text, so that two versions may share a connection. */
export class Statement {
  readonly text: string;
  readonly name: string;
  constructor(text: string) {
    this.text = text.replace(/\s+/g, ' ').trim();
    this.name = `fairq_${createHash('sha256').update(this.text).digest('hex').slice(0, 16)}`;
  }

  config(values: unknown[], prepare: boolean, timeout?: number): object {
    return {
      text: this.text,
      values,
      rowMode: 'array',
      types: asText,
      ...(prepare ? { name: this.name } : {}),
      ...(timeout === undefined ? {} : { query_timeout: timeout }),
    };
  }
}

export async function ask(client: Queryable, statement: Statement, values: unknown[], prepare: boolean,
  timeout?: number): Promise<Row[]> {
  try {
    return ((await client.query(statement.config(values, prepare, timeout))) as { rows: Row[] }).rows;
  } catch (error) {
    throw withHint(error);
  }
}

/** What has just answered has so long to be ready, in milliseconds. */
const PATIENCE = 10_000;

/**
 * `pg` tells an error before the server has undone the transaction, and leases are being settled until then: for
 * another connection they are nobody's. So the client has to be ready for a statement again.
 */
export async function undone(client: Queryable, error: unknown): Promise<void> {
  if (isConnectionError(error)) throw error;
  await client.query({ text: '', query_timeout: PATIENCE });
}

/** The server's hint says what is allowed, and a message is all that most logs show. */
export function withHint(error: unknown): unknown {
  const { message, hint } = error as { message?: string; hint?: string };
  if (error instanceof Error && hint && message && !message.includes(hint)) error.message = `${message} (${hint})`;
  return error;
}

/** The pool of a queue or a worker, its own or the application's. */
export class Database {
  readonly pool: PoolLike;
  readonly prepare: boolean;
  private readonly own: boolean;
  private readonly ignore = (): void => {};

  constructor(connection: Connection, prepare: boolean) {
    this.own = !isPool(connection);
    this.pool = isPool(connection) ? connection : newPool(connection);
    this.prepare = prepare;
    // An idle client whose server has gone is an error event of the pool, which would end the process.
    if (this.own) this.pool.on('error', this.ignore);
  }

  async ask(statement: Statement, values: unknown[], client: Queryable = this.pool, timeout?: number): Promise<Row[]> {
    if (typeof client?.query !== 'function') throw new TypeError('client is no client or pool of pg: it has no query()');
    return ask(client, statement, values, this.prepare, timeout);
  }

  async close(): Promise<void> {
    if (this.own) await this.pool.end();
  }
}

function isPool(connection: Connection): connection is PoolLike {
  const pool = connection as PoolLike;
  return typeof pool === 'object' && pool !== null && typeof pool.query === 'function' && typeof pool.connect === 'function';
}

function newPool(connection: string | pg.PoolConfig): PoolLike {
  if (typeof connection !== 'string' && (typeof connection !== 'object' || connection === null)) {
    throw new TypeError('the first argument is no pool of pg, connection string, or settings for one');
  }
  return new pg.Pool(settings(connection)) as unknown as PoolLike;
}

function settings(connection: string | pg.ClientConfig): pg.ClientConfig {
  return typeof connection === 'string' ? { connectionString: connection } : connection;
}

/** What limits statements of an application does not limit a connection that waits. */
const SETTINGS = `SET statement_timeout = 0; SET lock_timeout = 0; SET idle_session_timeout = 0;
  SET datestyle = 'ISO'; SET timezone = 'UTC'`;

/** A connection of its own, not through the pool: to the server, or as the pool connects. */
export class DirectConnection {
  readonly client: pg.Client;
  /** Settled when the connection has ended; never rejected. */
  readonly ended: Promise<Error | undefined>;
  closed = false;

  private constructor(client: pg.Client) {
    this.client = client;
    this.ended = new Promise((resolve) => {
      let first: Error | undefined;
      client.on('error', (error) => { first ??= error; });
      client.once('end', () => { this.closed = true; resolve(first); });
    });
  }

  static async open(pool: PoolLike, direct: string | pg.ClientConfig | undefined, timeout: number): Promise<DirectConnection> {
    const Client = (pool as { Client?: typeof pg.Client }).Client ?? pg.Client;
    const config = direct === undefined ? pool.options as pg.ClientConfig : settings(direct);
    const client = new Client({
      ...config,
      ...('password' in config ? { password: config.password } : {}), // a pool's is not enumerable
      keepAlive: true,
      connectionTimeoutMillis: timeout,
      query_timeout: 0,
    });
    const connection = new DirectConnection(client);
    try {
      await client.connect();
      await client.query(SETTINGS);
    } catch (error) {
      connection.destroy();
      throw error;
    }
    return connection;
  }

  /** The backend's process, to cancel what it does. */
  get pid(): number | null {
    return (this.client as { processID?: number | null }).processID ?? null;
  }

  async end(): Promise<void> {
    if (!this.closed) await this.client.end().catch(() => {});
  }

  /** Without a word to the server, which may not be there. */
  destroy(): void {
    const { connection } = this.client as unknown as { connection?: { stream?: { destroy(): void } } };
    connection?.stream?.destroy();
  }
}
