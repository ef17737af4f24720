import { PoolClientLike, PoolLike, Queryable, Statement, ask, undone, withHint } from './database';
import { FairqError } from './errors';

const ACK = new Statement('SELECT fairq.ack($1, $2)');

/** The statements that would end the transaction, or begin another one, before the task is acknowledged. */
const ENDS = /^\s*(begin|start\s+transaction|commit|end|abort|prepare\s+transaction|rollback(?!\s+(work\s+|transaction\s+)?to\b))\b/i;

/** The transaction of a task, as its handler has it. */
export interface TaskTransaction extends Queryable {
  /** The client of `pg` that the transaction is on, for libraries that want one. */
  client(): Promise<PoolClientLike>;
}

/**
 * The transaction of a task. It begins with the first query, so a handler that writes nothing to the
 * database costs no BEGIN and no COMMIT. The acknowledgement goes into it.
 */
export class Transaction implements TaskTransaction {
  private readonly pool: PoolLike;
  private readonly prepare: boolean;
  private taken: PoolClientLike | undefined;
  private opening: Promise<PoolClientLike> | undefined;
  private last: Promise<unknown> = Promise.resolve();
  private over: Error | undefined;
  private readonly onError = (error: Error): void => { this.over ??= error; };

  constructor(pool: PoolLike, prepare: boolean) {
    this.pool = pool;
    this.prepare = prepare;
  }

  /** Whether a query has begun it. */
  get used(): boolean {
    return this.opening !== undefined;
  }

  /** A query in the transaction, as `pg` takes it. Queries are run one after another. */
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  query(config: any, values?: any): Promise<any> {
    const text: unknown = typeof config === 'string' ? config : (config as { text?: unknown } | null)?.text;
    if (typeof text === 'string' && ENDS.test(text)) {
      return Promise.reject(new FairqError(
        `the worker ends the transaction of a task, not ${JSON.stringify(text.trim().slice(0, 40))}; use SAVEPOINT and ROLLBACK TO for a part of it`));
    }
    return this.inTurn((client) => client.query(config, values));
  }

  client(): Promise<PoolClientLike> {
    return this.inTurn((client) => Promise.resolve(client));
  }

  private inTurn<T>(step: (client: PoolClientLike) => Promise<T>): Promise<T> {
    const answer = this.last.then(async () => {
      if (this.over) throw this.over;
      const client = await (this.opening ??= this.open());
      if (this.over) throw this.over;
      return step(client);
    });
    this.last = answer.catch(() => {});
    return answer;
  }

  private async open(): Promise<PoolClientLike> {
    const client = await this.pool.connect();
    client.on('error', this.onError);
    this.taken = client;
    if (this.over) { // stopped meanwhile
      this.giveBack(this.over);
      throw this.over;
    }
    await client.query('BEGIN');
    return client;
  }

  /**
   * Acknowledges and commits, after what is still under way. False: the task was not ours any more,
   * and all is rolled back. An error may have come after the commit was done.
   */
  async commit(receipt: string, result: string | null): Promise<boolean> {
    const done = this.inTurn(async (client) => {
      const [[mine]] = await ask(client, ACK, [receipt, result], this.prepare).catch((error: unknown) => {
        throw explained(error);
      });
      const { command } = (await client.query(mine === 't' ? 'COMMIT' : 'ROLLBACK')) as { command?: string };
      if (mine === 't' && command !== 'COMMIT') throw new FairqError('the transaction of the task had failed, and was rolled back');
      return mine === 't';
    });
    this.refuseMore(new FairqError('the handler has returned, and its transaction is over: await its queries'));
    try {
      const mine = await done;
      this.giveBack();
      return mine;
    } catch (error) {
      if (this.taken) await undone(this.taken, error).catch(() => {});
      this.giveBack(error as Error);
      throw error;
    }
  }

  /** Takes back all that was written. The connection is given up: a statement may be under way on it. */
  async rollback(): Promise<void> {
    if (!this.used) return this.refuseMore(new FairqError('the handler has ended, and with it its transaction'));
    const done = this.inTurn((client) => client.query('ROLLBACK'));
    this.refuseMore(new FairqError('the handler has ended, and with it its transaction'));
    await done.then(() => this.giveBack(), (error: Error) => this.giveBack(error));
  }

  /** Ends it now, whatever is under way. The server rolls back when it sees that the connection is gone. */
  stop(reason: Error): void {
    this.over ??= reason;
    this.giveBack(reason);
  }

  /** Queries that come after what was asked for so far are refused. */
  private refuseMore(reason: Error): void {
    if (this.used) this.last = this.last.then(() => { this.over ??= reason; });
    else this.over ??= reason;
  }

  private giveBack(error?: Error): void {
    const client = this.taken;
    this.taken = undefined;
    if (!client) return;
    if (!error) client.removeListener('error', this.onError); // one that is destroyed may still have errors
    client.release(error);
  }
}

/** A statement that failed before has spoilt the transaction, and the handler has not thrown. */
function explained(error: unknown): unknown {
  if ((error as { code?: string }).code !== '25P02') return withHint(error);
  return new FairqError('a statement in the transaction of the task failed, and the handler went on; nothing was written', { cause: error });
}
