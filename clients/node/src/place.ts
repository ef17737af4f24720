import * as pg from 'pg';
import { Database, Row, Statement } from './database';
import { FairqError, isConnectionError } from './errors';
import { Settler } from './settler';
import { arrayText } from './values';
import { Backoff } from './waiting';

/**
 * Where a worker works: in the database of its connection, or, if that is a proxy of a cluster, at a
 * node that the proxy names. The proxy says as well when to ask it again.
 */

const IS_PROXY = new Statement("SELECT EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname = 'pgfairq_cluster')");
const WORKER_NODE = new Statement(`SELECT node, connection, extract(epoch FROM ask_after) * 1000
  FROM fairq.worker_node_any($1::text[], $2::uuid, $3::int[])`);
const IS_STANDBY = new Statement('SELECT pg_is_in_recovery()');

/** The proxy, and a host of a node that is tried, have so long to answer, in milliseconds. */
const PATIENCE = 10_000;
const CONNECTING = 3000;

export interface Node {
  readonly number: number;
  /** Keywords of libpq. */
  readonly connection: string;
}

/** A database where there is work, and what goes with it. */
export interface Place {
  /** Undefined: the database of the worker's connection. */
  readonly node: Node | undefined;
  readonly database: Database;
  readonly settler: Settler;
}

/** Keywords and values of a connection string of libpq. */
export function keywords(connection: string): Map<string, string> {
  const found = new Map<string, string>();
  for (const [, word, quoted, plain] of connection.matchAll(/(\w+)\s*=\s*(?:'((?:[^'\\]|\\.)*)'|((?:[^\s\\]|\\.)*))/gs)) {
    found.set(word, (quoted ?? plain).replace(/\\(.)/gs, '$1'));
  }
  return found;
}

/** The hosts of a node, each with user, password and TLS of the pool of the proxy. */
export function configsAt(connection: string, own: pg.PoolConfig): pg.PoolConfig[] {
  const theirs = keywords(connection);
  // It reads connection strings and the environment, and connects only when told.
  const known = new pg.Client({ ...own, ...('password' in own ? { password: own.password } : {}) }) as pg.Client & { ssl?: pg.PoolConfig['ssl'] };
  const { connectionString: _, ...rest } = own;
  const hosts = (theirs.get('hostaddr') ?? theirs.get('host') ?? '/var/run/postgresql').split(',');
  const ports = (theirs.get('port') ?? '5432').split(',');
  return hosts.map((host, i) => ({
    ...rest,
    user: known.user,
    password: typeof own.password === 'function' ? own.password : known.password ?? undefined,
    ssl: known.ssl,
    host,
    port: Number(ports[ports.length === 1 ? 0 : i]),
    database: theirs.get('dbname') ?? known.user,
    connectionTimeoutMillis: CONNECTING,
  }));
}

/** Of several hosts the one that takes writes. */
async function primary(configs: pg.PoolConfig[]): Promise<pg.PoolConfig> {
  if (configs.length === 1) return configs[0];
  let last: unknown;
  for (const config of configs) {
    const client = new pg.Client({ ...config, query_timeout: CONNECTING });
    client.on('error', () => {});
    try {
      await client.connect();
      const { rows: [[standby]] } = await client.query(IS_STANDBY.config([], false) as pg.QueryArrayConfig);
      if (standby !== 't') return config;
    } catch (error) {
      last = error;
    } finally {
      void client.end().catch(() => {});
    }
  }
  throw last ?? new FairqError(`none of ${configs.map(({ host }) => host).join(', ')} takes writes`);
}

/** Knows which node is next, and when to ask. */
export class Guide {
  private readonly database: Database;
  private isProxy: boolean | undefined;
  private pause = 2000;
  private next = 0;
  private worked = false;
  private readonly unreachedNodes = new Map<number, { until: number; backoff: Backoff }>();

  constructor(database: Database) {
    this.database = database;
  }

  /** In milliseconds. */
  dueIn(): number {
    return this.isProxy ? Math.max(0, this.next - performance.now()) : Infinity;
  }

  /**
   * The node to work at, for a worker that has this session at another. Undefined: the database is no proxy.
   * `strict`: that one of the queues is refused is an error.
   */
  async ask(queues: readonly string[], strict: boolean, session?: string): Promise<Node | undefined> {
    this.isProxy ??= (await this.database.ask(IS_PROXY, []))[0][0] === 't';
    if (!this.isProxy) return undefined;
    this.postpone();
    const now = performance.now();
    const but = [...this.unreachedNodes].filter(([, { until }]) => until > now).map(([number]) => String(number));
    const asked = [queues, ...strict || queues.length === 1 ? [] : queues.map((queue) => [queue])];
    const [[number, connection, pause]] = await this.firstTaken(asked, [session ?? null, arrayText(but)]);
    this.pause = Number(pause);
    this.postpone();
    return { number: Number(number), connection: connection as string };
  }

  /** Of all queues together; if that is refused, since one is, of the first alone that is not. */
  private async firstTaken(asked: readonly (readonly string[])[], values: unknown[]): Promise<Row[]> {
    let refusal: unknown;
    for (const queues of asked) {
      try {
        return await this.database.ask(WORKER_NODE, [arrayText(queues), ...values], undefined, PATIENCE);
      } catch (error) {
        if (isConnectionError(error)) throw error;
        refusal ??= error;
      }
    }
    throw refusal;
  }

  /** So many tasks were claimed. When a node becomes empty it is time to ask soon. */
  found(node: Node | undefined, count: number): void {
    if (!node) return;
    this.unreachedNodes.delete(node.number);
    if (count === 0 && this.worked) this.next = Math.min(this.next, performance.now() + this.pause / 4 * (0.5 + Math.random()));
    this.worked = count > 0;
  }

  /** It could not be connected to, or was lost: it is not asked for, for ever longer times. */
  unreached({ number }: Node): void {
    const backoff = this.unreachedNodes.get(number)?.backoff ?? new Backoff(5000, 60_000);
    this.unreachedNodes.set(number, { until: performance.now() + backoff.next(), backoff });
  }

  private postpone(): void {
    this.next = performance.now() + this.pause * (0.75 + Math.random() / 2);
  }

  /** A database for the node, which is the caller's to close. */
  async open({ connection }: Node): Promise<Database> {
    return new Database(await primary(configsAt(connection, this.database.pool.options)), this.database.prepare);
  }
}
