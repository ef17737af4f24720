import { Statement, ask } from './database';
import { FairqError, LeaseLost, fail, snooze } from './errors';
import { Place } from './place';
import { Held, Session } from './session';
import { Task } from './task';
import { TaskTransaction, Transaction } from './transaction';
import { Duration, durationText, jsonText } from './values';

const EXTEND = new Statement('SELECT extract(epoch FROM fairq.extend($1, $2)) * 1000');
const PROGRESS = new Statement('SELECT fairq.set_progress($1, $2)');

/** What a handler gets beside its task. */
export interface TaskContext {
  /**
   * The transaction of the task. It begins with its first query, and commits together with the
   * acknowledgement when the handler has returned; when the handler throws it is rolled back.
   */
  readonly tx: TaskTransaction;
  /** Aborted when the task is no longer this worker's, with the reason. */
  readonly signal: AbortSignal;
  /** Ends the handler: the task comes again after the delay, and no attempt is counted. */
  snooze(delay: Duration): never;
  /** Ends the handler: the attempt failed, and no other one would fare better. The task is dead at once. */
  fail(error: string | Error): never;
  /** Makes sure that the task is still ours; with a `lease` that ends then, unless the session does before. */
  extend(lease?: Duration): Promise<Date>;
  /** Notes how far the task is, for `queue.get(id)`. Any JSON. */
  progress(value: unknown): Promise<void>;
}

/** A task in work. */
export class Run<Data> implements Held, TaskContext {
  readonly since = performance.now();
  readonly task: Task<Data>;
  readonly receipt: string;
  readonly session: Session;
  /** `settling`: the handler has ended. `over`: settled, or lost. */
  state: 'running' | 'settling' | 'over' = 'running';
  readonly place: Place;
  private readonly onLost: (run: Run<Data>, reason: Error) => void;
  private transaction: Transaction | undefined;
  private controller: AbortController | undefined;

  constructor(task: Task<Data>, receipt: string, session: Session, place: Place,
    onLost: (run: Run<Data>, reason: Error) => void) {
    this.task = task;
    this.receipt = receipt;
    this.session = session;
    this.place = place;
    this.onLost = onLost;
    session.held.add(this);
  }

  get tx(): Transaction {
    this.transaction ??= new Transaction(this.place.database.pool, this.place.database.prepare);
    return this.transaction;
  }

  /** The transaction, if a query has begun it. */
  get usedTx(): Transaction | undefined {
    return this.transaction?.used ? this.transaction : undefined;
  }

  get signal(): AbortSignal {
    this.controller ??= new AbortController();
    if (this.lostBecause) this.controller.abort(this.lostBecause);
    return this.controller.signal;
  }
  private lostBecause: Error | undefined;

  // Handlers take these out of the context, so they do not rely on `this`.
  get snooze(): typeof snooze {
    return snooze;
  }

  get fail(): typeof fail {
    return fail;
  }

  get extend(): (lease?: Duration) => Promise<Date> {
    return async (lease) => {
      this.mustRun('extend()');
      const [[until]] = await this.place.database.ask(EXTEND, [this.receipt, durationText('the lease of extend()', lease)]);
      if (until === null) {
        this.lose(new LeaseLost(`the lease of ${String(this.task)} is lost`));
        throw this.lostBecause;
      }
      return new Date(Number(until));
    };
  }

  get progress(): (value: unknown) => Promise<void> {
    return async (value) => {
      this.mustRun('progress()');
      await ask(this.place.database.pool, PROGRESS, [this.receipt, jsonText('the value of progress()', value)], false);
    };
  }

  private mustRun(what: string): void {
    if (this.lostBecause) throw this.lostBecause;
    if (this.state !== 'running') throw new FairqError(`${what} of ${String(this.task)} was called after its handler had ended`);
  }

  /** Stops the handler's transaction, and tells the handler. */
  lose(reason: Error): void {
    if (this.state !== 'running') return; // the answer to the acknowledgement says it
    this.over();
    this.stop(reason);
    this.onLost(this, reason);
  }

  /** The handler has had its time: what becomes of the task is for the worker to say. */
  timeOut(reason: Error): void {
    this.state = 'settling';
    this.stop(reason);
  }

  private stop(reason: Error): void {
    this.lostBecause = reason;
    this.transaction?.stop(reason);
    this.controller?.abort(reason);
  }

  over(): void {
    this.state = 'over';
    this.session.drop(this);
  }
}
