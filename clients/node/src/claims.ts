import * as pg from 'pg';
import { Attendance } from './attendance';
import { DirectConnection, PoolLike, Row, Statement, ask } from './database';
import { Session } from './session';
import { AFTER_TASK, TASK_COLUMNS, Task } from './task';
import { arrayText } from './values';

const CLAIM = new Statement(`SELECT ${TASK_COLUMNS}, receipt
  FROM fairq.claim($1, $2, session => $3, wait => $4)`);
const CLAIM_ANY = new Statement(`SELECT ${TASK_COLUMNS}, receipt, queue
  FROM fairq.claim_any($1, $2, session => $3, wait => $4)`);
const WAIT_ANY = new Statement('CALL fairq.wait_any($1, $2)');
const BOUNDS = new Statement("SELECT set_config('lock_timeout', $1, false), set_config('statement_timeout', $2, false)");

/** A statement that waits has a snapshot, which holds up vacuum: so it does for no longer than this. */
const SHORT_WAIT = 1000;
/** The procedure has none. */
const LONG_WAIT = 30_000;
/** What an answer may take beyond the wait before the connection is taken for dead; at a node of a cluster, where there are others. */
const GRACE = 30_000;
const GRACE_AT_NODE = 10_000;
/** What a queue that is locked costs the others, each time that it is looked at. */
const LOCK_TIMEOUT = 1000;

export interface Claimed {
  readonly task: Task;
  readonly receipt: string;
}

/** The connection that claims, and waits at the server while there is nothing. */
export class Claims {
  readonly connection: DirectConnection;
  private readonly attendance: Attendance;
  private readonly rotate: boolean;
  private readonly grace: number;
  private turn = 0;
  private idle = false;

  private constructor(connection: DirectConnection, attendance: Attendance, rotate: boolean, grace: number) {
    this.connection = connection;
    this.attendance = attendance;
    this.rotate = rotate;
    this.grace = grace;
  }

  static async open(pool: PoolLike, direct: string | pg.ClientConfig | undefined, timeout: number,
    attendance: Attendance, rotate: boolean, atNode: boolean): Promise<Claims> {
    const connection = await DirectConnection.open(pool, direct, timeout);
    const grace = atNode ? GRACE_AT_NODE : GRACE;
    try {
      // The server ends by itself what nobody here waits for any more.
      await ask(connection.client, BOUNDS, [`${LOCK_TIMEOUT} ms`, `${LONG_WAIT + grace} ms`], false);
    } catch (error) {
      await connection.end();
      throw error;
    }
    return new Claims(connection, attendance, rotate, grace);
  }

  /**
   * Claims up to so many. With `wait` it may sleep until there is something: a short time in the claim
   * itself, which then has the task at once, and when that was in vain in the procedure, for `longest`.
   */
  async claim(session: Session, most: number, wait: boolean, longest = Infinity): Promise<Claimed[]> {
    // One task is enough to see that a queue is well again, whatever comes before it in the order.
    const first = await this.attendance.returning((queues) => this.send(session, queues, 1, 0));
    if (first.length > 0) return first;
    const patience = wait ? Math.min(longest, this.attendance.dueIn()) : 0;
    let left = most;
    return this.attendance.together(async (queues, alone) => {
      if (left === 0) return [];
      const claimed = await this.look(session, queues, left, alone ? 0 : patience);
      left -= claimed.length;
      return claimed;
    });
  }

  /** Ends a wait that is under way. */
  async cancel(session: Session): Promise<void> {
    if (this.connection.pid !== null) await session.cancelBackend(this.connection.pid);
  }

  private async look(session: Session, queues: string[], most: number, patience: number): Promise<Claimed[]> {
    if (patience > 0 && this.idle) {
      const long = Math.ceil(Math.min(LONG_WAIT, patience));
      await ask(this.connection.client, WAIT_ANY, [arrayText(queues), `${long} ms`], false, long + this.grace);
      this.idle = false;
    }
    const claimed = await this.send(session, queues, most, Math.ceil(Math.min(SHORT_WAIT, patience)));
    this.idle = patience > 0 && claimed.length === 0;
    return claimed;
  }

  private async send(session: Session, queues: string[], most: number, wait: number): Promise<Claimed[]> {
    const single = queues.length === 1;
    const rows = await ask(this.connection.client, single ? CLAIM : CLAIM_ANY,
      [single ? queues[0] : arrayText(this.order(queues)), most, session.id, `${wait} ms`], true, wait + this.grace);
    return rows.map((row: Row) => ({
      task: new Task(single ? queues[0] : row[AFTER_TASK + 1] as string, row),
      receipt: row[AFTER_TASK] as string,
    }));
  }

  /** Strict as given; or each queue is the first in its turn. */
  private order(queues: string[]): string[] {
    if (!this.rotate) return queues;
    const first = this.turn++ % queues.length;
    return [...queues.slice(first), ...queues.slice(0, first)];
  }
}
