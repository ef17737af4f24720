import * as pg from 'pg';
import { DirectConnection, PoolLike, Row, Statement, ask } from './database';
import { Session } from './session';
import { AFTER_TASK, TASK_COLUMNS, Task } from './task';
import { arrayText } from './values';

const CLAIM = new Statement(`SELECT ${TASK_COLUMNS}, receipt
  FROM fairq.claim($1, $2, session => $3, wait => $4)`);
const CLAIM_ANY = new Statement(`SELECT ${TASK_COLUMNS}, receipt, queue
  FROM fairq.claim_any($1, $2, session => $3, wait => $4)`);
const WAIT_ANY = new Statement('CALL fairq.wait_any($1, $2)');

/** A statement that waits has a snapshot, which holds up vacuum: so it does for no longer than this. */
const SHORT_WAIT = 1000;
/** The procedure has none. */
const LONG_WAIT = 30_000;
/** What an answer may take beyond the wait before the connection is taken for dead; at a node of a cluster, where there are others. */
const GRACE = 30_000;
const GRACE_AT_NODE = 10_000;

export interface Claimed {
  readonly task: Task;
  readonly receipt: string;
}

/** The connection that claims, and waits at the server while there is nothing. */
export class Claims {
  readonly connection: DirectConnection;
  private readonly queues: string[];
  private readonly rotate: boolean;
  private readonly grace: number;
  private turn = 0;
  private idle = false;

  private constructor(connection: DirectConnection, queues: string[], rotate: boolean, atNode: boolean) {
    this.connection = connection;
    this.grace = atNode ? GRACE_AT_NODE : GRACE;
    this.queues = queues;
    this.rotate = rotate;
  }

  static async open(pool: PoolLike, direct: string | pg.ClientConfig | undefined, timeout: number,
    queues: string[], rotate: boolean, atNode: boolean): Promise<Claims> {
    return new Claims(await DirectConnection.open(pool, direct, timeout), queues, rotate, atNode);
  }

  /**
   * Claims up to so many. With `wait` it may sleep until there is something: a short time in the claim
   * itself, which then has the task at once, and when that was in vain in the procedure, for `longest`.
   */
  async claim(session: Session, most: number, wait: boolean, longest = Infinity): Promise<Claimed[]> {
    if (wait && this.idle) {
      const long = Math.ceil(Math.min(LONG_WAIT, longest));
      await ask(this.connection.client, WAIT_ANY, [arrayText(this.queues), `${long} ms`], false, long + this.grace);
      this.idle = false;
    }
    const rows = await this.send(session, most, wait ? SHORT_WAIT : 0);
    this.idle = wait && rows.length === 0;
    return rows;
  }

  /** Ends a wait that is under way. */
  async cancel(session: Session): Promise<void> {
    if (this.connection.pid !== null) await session.cancelBackend(this.connection.pid);
  }

  private async send(session: Session, most: number, wait: number): Promise<Claimed[]> {
    const single = this.queues.length === 1;
    const rows = await ask(this.connection.client, single ? CLAIM : CLAIM_ANY,
      [single ? this.queues[0] : arrayText(this.order()), most, session.id, `${wait} ms`], true, wait + this.grace);
    return rows.map((row: Row) => ({
      task: new Task(single ? this.queues[0] : row[AFTER_TASK + 1] as string, row),
      receipt: row[AFTER_TASK] as string,
    }));
  }

  /** Strict as given; or each queue is the first in its turn. */
  private order(): string[] {
    if (!this.rotate) return this.queues;
    const first = this.turn++ % this.queues.length;
    return [...this.queues.slice(first), ...this.queues.slice(0, first)];
  }
}
