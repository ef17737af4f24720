import { PoolLike, Row, Statement, ask, undone } from './database';
import { FairqError, isConnectionError, isPassing } from './errors';
import { arrayText } from './values';
import { insteadOf } from './verdict';
import { Backoff, Bell, sleep } from './waiting';

/**
 * What waits for a lock on a row or a table keeps others waiting for no longer than this. The bound is
 * the transaction's, which is the statement; and what needs it needs its value, so it comes first.
 */
export const BOUND = "set_config('lock_timeout', '1 s', true) AS bound";

const ACK_MANY = new Statement(`SELECT fairq.ack_many($1) FROM ${BOUND}`);
const ACK_RESULTS = new Statement(`SELECT r FROM ${BOUND}, unnest($1::uuid[], $2::jsonb[]) AS t (r, result)
  WHERE CASE WHEN bound <> '' THEN fairq.ack(r, result) END`);
const NACK = new Statement(`SELECT r FROM ${BOUND}, unnest($1::uuid[], $2::text[], $3::interval[]) AS t (r, error, delay)
  WHERE CASE WHEN bound <> '' THEN fairq.nack(r, error, delay) END`);
const NACK_FINAL = new Statement(`SELECT fairq.nack_many($1, $2, final => true) FROM ${BOUND}`);
const RELEASE = new Statement(`SELECT r FROM ${BOUND}, unnest($1::uuid[], $2::interval[]) AS t (r, delay)
  WHERE CASE WHEN bound <> '' THEN fairq.release(r, delay) END`);

const MOST_AT_ONCE = 1000;

/** A settlement that had to wait is tried again after so long at first, and at most, in milliseconds. */
const FIRST_PAUSE = 1000;
const LONGEST_PAUSE = 10_000;
/** When the worker closes, no pause is longer. */
const HURRIED_PAUSE = 200;

/** How a lease is to end. */
export type Verdict =
  | { kind: 'ack'; result: string | null }
  | { kind: 'nack'; error: string | null; delay: string | null }
  /** No other attempt would fare better. */
  | { kind: 'final'; error: string | null }
  | { kind: 'release'; delay: string }
  /** Given back, and how the attempt has ended is not noted: `after` so many milliseconds, and for later by `delay`. */
  | { kind: 'back'; after: number; delay: string };

/** What is to be settled, and who wants to know. */
export interface Settlement {
  readonly queue: string;
  readonly receipt: string;
  /** What was refused is replaced by what is asked for instead. */
  verdict: Verdict;
  /** The last refusal. */
  refusal?: unknown;
  /** False once the session has ended: no more tries. */
  readonly alive: () => boolean;
  /** Called once: true, it is settled, as the verdict says now; false, the lease was lost, or nobody can say. */
  readonly settled: (mine: boolean) => void;
}

/**
 * Settles in batches: what is given while a statement is under way goes with the next one. Nothing
 * waits for a batch to fill. A batch that is not settled, since one of it is refused or waits for a
 * lock, is settled one by one, each queue's apart, and others of that queue with them until all are.
 */
export class Settler {
  private readonly pool: PoolLike;
  private readonly prepare: boolean;
  private readonly timeout: number;
  private readonly onError: (error: unknown) => void;
  private readonly onProgress: () => void;
  private readonly backoff = new Backoff();
  private readonly lanes = new Map<string, Lane>();
  private pending: Settlement[] = [];
  private underWay = 0;
  private longest = Infinity;
  private working: Promise<void> | undefined;

  /** `onProgress`: fewer are unsettled, or fewer wait for their batch. */
  constructor(pool: PoolLike, prepare: boolean, timeout: number, onError: (error: unknown) => void, onProgress: () => void) {
    this.pool = pool;
    this.prepare = prepare;
    this.timeout = timeout;
    this.onError = onError;
    this.onProgress = onProgress;
  }

  /** What ends in the same turn of the event loop goes together. */
  add(settlement: Settlement): void {
    const lane = this.lanes.get(settlement.queue);
    if (lane) return lane.add(settlement);
    this.pending.push(settlement);
    this.working ??= new Promise<void>((resolve) => setImmediate(resolve)).then(() => this.work());
  }

  /** How many wait for their batch, or are in one. */
  get backlog(): number {
    return this.pending.length + this.underWay;
  }

  /** How many of a queue are settled one by one. */
  apart(queue: string): number {
    return this.lanes.get(queue)?.size ?? 0;
  }

  /** How many are not settled yet. */
  get unsettled(): number {
    return [...this.lanes.values()].reduce((sum, { size }) => sum + size, this.backlog);
  }

  /** When all that was added is settled. */
  async idle(): Promise<void> {
    for (;;) {
      const [lane] = this.lanes.values();
      const busy = this.working ?? lane?.working;
      if (!busy) return;
      await busy;
    }
  }

  /** A session is over: what it had is not tried again. */
  wake(): void {
    for (const lane of this.lanes.values()) lane.wake();
  }

  /** The worker closes: what waits apart is tried again now, and then often. */
  hurry(): void {
    this.longest = HURRIED_PAUSE;
    for (const lane of this.lanes.values()) lane.hurry();
  }

  private async work(): Promise<void> {
    while (this.pending.length > 0) {
      const kind = kindOf(this.pending[0]);
      const same = this.pending.filter((settlement) => kindOf(settlement) === kind);
      const batch = same.slice(0, MOST_AT_ONCE);
      const taken = new Set(batch);
      this.pending = same.length === this.pending.length && batch.length === same.length
        ? [] : this.pending.filter((settlement) => !taken.has(settlement));
      this.underWay = batch.length;
      const { left } = await this.settle(batch);
      this.underWay = 0;
      for (const settlement of left) this.setApart(settlement);
      this.onProgress();
    }
    this.working = undefined;
  }

  /** Until the server has answered. `left`: what is not settled, since this error is the answer. */
  private async settle(batch: Settlement[]): Promise<{ left: Settlement[]; error?: unknown }> {
    for (;;) {
      const live = batch.filter((settlement) => settlement.alive() || (settlement.settled(false), false));
      if (live.length === 0) return { left: [] };
      try {
        const mine = new Set((await this.send(live)).map(([receipt]) => receipt));
        this.backoff.reset();
        for (const settlement of live) settlement.settled(mine.has(settlement.receipt));
        return { left: [] };
      } catch (error) {
        if (!isConnectionError(error)) return { left: live, error };
        this.onError(error);
        await sleep(this.backoff.next());
        batch = live;
      }
    }
  }

  private setApart(settlement: Settlement): void {
    const { queue } = settlement;
    const ended = (left: number): void => {
      if (left === 0) this.lanes.delete(queue);
      this.onProgress();
    };
    const lane = this.lanes.get(queue) ?? new Lane((one) => this.settle([one]), ended, this.onError, () => this.longest);
    this.lanes.set(queue, lane);
    lane.add(settlement);
  }

  private send(batch: Settlement[]): Promise<Row[]> {
    const receipts = `{${batch.map((settlement) => settlement.receipt).join(',')}}`;
    switch (kindOf(batch[0])) {
      case 'ack': return this.ask(ACK_MANY, [receipts]);
      case 'result': return this.ask(ACK_RESULTS, [receipts,
        arrayText(batch.map(({ verdict }) => (verdict.kind === 'ack' ? verdict.result : null)))]);
      case 'nack': return this.ask(NACK, [receipts,
        arrayText(batch.map(({ verdict }) => (verdict.kind === 'nack' ? verdict.error : null))),
        arrayText(batch.map(({ verdict }) => (verdict.kind === 'nack' ? verdict.delay : null)))]);
      case 'final': return this.ask(NACK_FINAL, [receipts,
        arrayText(batch.map(({ verdict }) => (verdict.kind === 'final' ? verdict.error : null)))]);
      default: return this.ask(RELEASE, [receipts,
        arrayText(batch.map(({ verdict }) => ('delay' in verdict ? verdict.delay : null)))]);
    }
  }

  private async ask(statement: Statement, values: unknown[]): Promise<Row[]> {
    const client = await this.pool.connect();
    let lost: unknown;
    const onError = (error: unknown): void => { lost ??= error; };
    client.on('error', onError);
    try {
      return await ask(client, statement, values, this.prepare, this.timeout);
    } catch (error) {
      await undone(client, error).catch(onError);
      throw error;
    } finally {
      client.removeListener('error', onError);
      client.release(lost !== undefined);
    }
  }
}

interface Apart {
  readonly settlement: Settlement;
  /** By `performance.now()`; 0: not tried yet. */
  due: number;
  readonly backoff: Backoff;
}

/** The settlements of a queue that are made one by one: those that have to wait, for no longer than `longest`, let the others by. */
class Lane {
  readonly working: Promise<void>;
  private readonly settle: (one: Settlement) => Promise<{ error?: unknown }>;
  private readonly ended: (left: number) => void;
  private readonly onError: (error: unknown) => void;
  private readonly longest: () => number;
  private readonly bell = new Bell();
  private readonly waiting: Apart[] = [];

  constructor(settle: (one: Settlement) => Promise<{ error?: unknown }>, ended: (left: number) => void,
    onError: (error: unknown) => void, longest: () => number) {
    this.settle = settle;
    this.ended = ended;
    this.onError = onError;
    this.longest = longest;
    this.working = Promise.resolve().then(() => this.work());
  }

  get size(): number {
    return this.waiting.length;
  }

  add(settlement: Settlement): void {
    this.waiting.push({ settlement, due: 0, backoff: new Backoff(FIRST_PAUSE, LONGEST_PAUSE) });
    this.bell.ring();
  }

  wake(): void {
    for (const one of this.waiting) if (!one.settlement.alive()) one.due = 0;
    this.bell.ring();
  }

  hurry(): void {
    for (const one of this.waiting) one.due = 0;
    this.bell.ring();
  }

  private async work(): Promise<void> {
    while (this.waiting.length > 0) {
      const next = this.waiting.reduce((first, one) => (one.due < first.due ? one : first));
      const pause = next.due - performance.now();
      if (pause > 0) {
        await this.bell.heard(pause);
        continue;
      }
      const { error } = await this.settle(next.settlement);
      if (error === undefined) this.end(next);
      else if (isPassing(error)) this.postpone(next, error as Error);
      else this.refused(next, error);
    }
  }

  private postpone(one: Apart, error: Error): void {
    if (one.due === 0) {
      this.onError(new FairqError(
        `a settlement of queue ${JSON.stringify(one.settlement.queue)} has to wait, and is tried again: ${error.message}`, { cause: error }));
    }
    this.pause(one, one.backoff.next());
  }

  private refused(one: Apart, error: unknown): void {
    const { settlement } = one;
    const instead = insteadOf(settlement.verdict, error);
    if (!instead) return this.postpone(one, error as Error);
    if (instead.kind !== 'ack') this.onError(error);
    settlement.refusal = error;
    settlement.verdict = instead;
    if (instead.kind === 'back') this.pause(one, instead.after);
    else one.due = 0;
  }

  private pause(one: Apart, millis: number): void {
    one.due = performance.now() + Math.min(millis, this.longest());
  }

  private end(one: Apart): void {
    this.waiting.splice(this.waiting.indexOf(one), 1);
    this.ended(this.waiting.length);
  }
}

function kindOf({ verdict }: Settlement): 'ack' | 'result' | 'nack' | 'final' | 'release' {
  if (verdict.kind === 'back') return 'release';
  return verdict.kind === 'ack' && verdict.result !== null ? 'result' : verdict.kind;
}
