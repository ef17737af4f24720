import * as pg from 'pg';
import { DirectConnection, PoolLike, Row, Statement, ask } from './database';
import { LeaseLost, isConnectionError } from './errors';
import { arrayText } from './values';

const OPEN = new Statement('SELECT fairq.open_session($1, $2, bound => true)');
/** What waits for a lock must not hold up the next beat. */
const LOCK_TIMEOUT = new Statement("SELECT set_config('lock_timeout', $1, false)");
const BEAT = new Statement('SELECT fairq.heartbeat($1)');
const STILL_OURS = new Statement("SELECT fairq.extend_many($1) FROM set_config('lock_timeout', $2, true) AS bound");
const CLOSE = new Statement('SELECT fairq.close_session($1)');
const CANCEL = new Statement('SELECT pg_cancel_backend($1)');
/** What a beat asks of a queue's table waits so long for its lock, in milliseconds; those of all queues no longer than a beat. */
const PATIENCE = 50;

/** What a session watches: a task in work. */
export interface Held {
  readonly task: { readonly queue: string };
  readonly receipt: string;
  readonly state: 'running' | 'settling' | 'over';
  /** When its work began, by `performance.now()`. */
  readonly since: number;
  lose(reason: Error): void;
}

export interface SessionSettings {
  name: string;
  ttl: number;
  direct: string | pg.ClientConfig | undefined;
}

/**
 * A session of the queue with heartbeats, on a connection of its own. It is bound to that: when the
 * process dies, its tasks are put back at once. The tasks in work are asked for at each beat, since
 * one of them may have been cancelled.
 */
export class Session {
  /** Settled when the session is over, for whatever reason. */
  readonly over: Promise<LeaseLost | undefined>;
  /** What is in work or not settled yet. */
  readonly held = new Set<Held>();
  readonly id: string;
  alive = true;
  private readonly connection: DirectConnection;
  private readonly ttl: number;
  private timer: NodeJS.Timeout | undefined;
  private lastBeat: number;
  private retired = false;
  private queue: Promise<unknown> = Promise.resolve();
  private end!: (reason?: LeaseLost) => void;

  private constructor(id: string, connection: DirectConnection, ttl: number, opened: number) {
    this.id = id;
    this.connection = connection;
    this.ttl = ttl;
    this.lastBeat = opened;
    this.over = new Promise((resolve) => { this.end = resolve; });
    void connection.ended.then((error) =>
      this.lose(`the connection of the session was lost${error ? `: ${error.message}` : ''}`));
    this.schedule();
  }

  static async open(pool: PoolLike, settings: SessionSettings): Promise<Session> {
    const connection = await DirectConnection.open(pool, settings.direct, settings.ttl);
    try {
      await ask(connection.client, LOCK_TIMEOUT, [`${Math.ceil(settings.ttl / 4)} ms`], false);
      const opened = performance.now();
      const rows = await ask(connection.client, OPEN, [settings.name, `${settings.ttl} ms`], false);
      return new Session(String(rows[0][0]), connection, settings.ttl, opened);
    } catch (error) {
      await connection.end();
      throw error;
    }
  }

  /** A task is settled, or lost. */
  drop(task: Held): void {
    this.held.delete(task);
    if (this.retired && this.held.size === 0) void this.close();
  }

  /** No more claims: it ends when what it holds is settled. */
  retire(): void {
    this.retired = true;
    if (this.held.size === 0) void this.close();
  }

  /** Stops what another connection of this role does. */
  async cancelBackend(pid: number): Promise<void> {
    await this.ask(CANCEL, [pid]).catch(() => {});
  }

  /** Releases what the session still has, at once and without counting an attempt. */
  async close(): Promise<void> {
    if (!this.alive) return;
    this.alive = false;
    clearTimeout(this.timer);
    const patience = setTimeout(() => this.connection.destroy(), Math.min(this.ttl, 10_000));
    await this.ask(CLOSE, [this.id]).catch(() => {});
    await this.connection.end();
    clearTimeout(patience);
    this.end();
  }

  private ask(statement: Statement, values: unknown[]): Promise<Row[]> {
    const answer = this.queue.then(() => ask(this.connection.client, statement, values, false));
    this.queue = answer.catch(() => {});
    return answer;
  }

  private schedule(): void {
    this.timer = setTimeout(() => void this.beat(), this.ttl / 4);
  }

  /** The session lives for a ttl from when the server had the last beat, which is after it was sent. */
  private async beat(): Promise<void> {
    const sent = performance.now();
    const late = setTimeout(() => this.lose(`no heartbeat was answered for ${this.ttl} ms`),
      Math.max(0, this.lastBeat + this.ttl - sent));
    try {
      const [[alive]] = await this.ask(BEAT, [this.id]);
      if (!this.alive) return;
      if (alive !== 't') return this.lose('the session is over: no heartbeat had come in time');
      this.lastBeat = sent;
      await this.look(sent);
    } catch (error) {
      return this.lose(`the heartbeat failed: ${(error as Error).message}`);
    } finally {
      clearTimeout(late);
    }
    if (this.alive) this.schedule();
  }

  /**
   * A task that was cancelled, or whose queue is gone, is not worked on any longer. Each queue's are asked for
   * alone, since one may be locked, or not for this role any more: then it is not known, and the next beat asks again.
   */
  private async look(sent: number): Promise<void> {
    const old = new Map<string, Held[]>();
    for (const task of this.held) {
      if (task.state !== 'running' || sent - task.since < this.ttl / 4) continue;
      const { queue } = task.task;
      const others = old.get(queue);
      if (others) others.push(task);
      else old.set(queue, [task]);
    }
    const patience = Math.ceil(Math.min(PATIENCE, this.ttl / 4 / old.size));
    for (const tasks of old.values()) {
      await this.lookAt(tasks, patience).catch((error) => {
        if (isConnectionError(error)) throw error;
      });
    }
  }

  private async lookAt(tasks: Held[], patience: number): Promise<void> {
    const rows = await this.ask(STILL_OURS, [arrayText(tasks.map((task) => task.receipt)), `${patience} ms`]);
    const ours = new Set(rows.map(([receipt]) => receipt));
    for (const task of tasks) {
      if (!ours.has(task.receipt) && task.state === 'running') {
        task.lose(new LeaseLost('the task was cancelled, or its lease has run out'));
      }
    }
  }

  private lose(reason: string): void {
    if (!this.alive) return;
    this.alive = false;
    clearTimeout(this.timer);
    const error = new LeaseLost(`${reason}; the task is put back`);
    for (const task of [...this.held]) task.lose(error);
    this.connection.destroy();
    this.end(error);
  }
}
