import { PoolLike, Row, Statement, ask } from './database';
import { isConnectionError } from './errors';
import { arrayText } from './values';
import { sleep, Backoff } from './waiting';

const ACK_MANY = new Statement('SELECT fairq.ack_many($1)');
const ACK_RESULTS = new Statement(`SELECT r FROM unnest($1::uuid[], $2::jsonb[]) AS t (r, result)
  WHERE fairq.ack(r, result)`);
const NACK = new Statement(`SELECT r FROM unnest($1::uuid[], $2::text[], $3::interval[]) AS t (r, error, delay)
  WHERE fairq.nack(r, error, delay)`);
const NACK_FINAL = new Statement('SELECT fairq.nack_many($1, $2, final => true)');
const RELEASE = new Statement(`SELECT r FROM unnest($1::uuid[], $2::interval[]) AS t (r, delay)
  WHERE fairq.release(r, delay)`);

const MOST_AT_ONCE = 1000;

/** How a lease is to end. */
export type Verdict =
  | { kind: 'ack'; result: string | null }
  | { kind: 'nack'; error: string; delay: string | null }
  /** No other attempt would fare better. */
  | { kind: 'final'; error: string }
  | { kind: 'release'; delay: string };

/** What is to be settled, and who wants to know. */
export interface Settlement {
  readonly receipt: string;
  readonly verdict: Verdict;
  /** False once the session has ended: no more tries. */
  readonly alive: () => boolean;
  /** Called once: true, it is settled; false, the lease was lost or nobody can say; or the error. */
  readonly settled: (mine: boolean, error?: unknown) => void;
}

/**
 * Settles in batches: what is given while a statement is under way goes with the next one. Nothing
 * waits for a batch to fill. A batch of which one cannot be settled is settled one by one.
 */
export class Settler {
  private readonly pool: PoolLike;
  private readonly prepare: boolean;
  private readonly timeout: number;
  private readonly onError: (error: unknown) => void;
  private readonly backoff = new Backoff();
  private pending: Settlement[] = [];
  private underWay = 0;
  private working: Promise<void> | undefined;

  constructor(pool: PoolLike, prepare: boolean, timeout: number, onError: (error: unknown) => void) {
    this.pool = pool;
    this.prepare = prepare;
    this.timeout = timeout;
    this.onError = onError;
  }

  /** What ends in the same turn of the event loop goes together. */
  add(settlement: Settlement): void {
    this.pending.push(settlement);
    this.working ??= new Promise<void>((resolve) => setImmediate(resolve)).then(() => this.work());
  }

  /** How many are not settled yet. */
  get unsettled(): number {
    return this.pending.length + this.underWay;
  }

  /** When all that was added is settled. */
  async idle(): Promise<void> {
    while (this.working) await this.working;
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
      await this.settle(batch);
      this.underWay = 0;
    }
    this.working = undefined;
  }

  private async settle(batch: Settlement[]): Promise<void> {
    for (;;) {
      const live = batch.filter((settlement) => settlement.alive() || (settlement.settled(false), false));
      if (live.length === 0) return;
      try {
        const mine = new Set((await this.send(live)).map(([receipt]) => receipt));
        this.backoff.reset();
        for (const settlement of live) settlement.settled(mine.has(settlement.receipt));
        return;
      } catch (error) {
        if (!isConnectionError(error)) {
          if (live.length === 1) return live[0].settled(false, error);
          for (const settlement of live) await this.settle([settlement]);
          return;
        }
        this.onError(error);
        await sleep(this.backoff.next());
        batch = live;
      }
    }
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
        arrayText(batch.map(({ verdict }) => (verdict.kind === 'release' ? verdict.delay : null)))]);
    }
  }

  private ask(statement: Statement, values: unknown[]): Promise<Row[]> {
    return ask(this.pool, statement, values, this.prepare, this.timeout);
  }
}

function kindOf({ verdict }: Settlement): 'ack' | 'result' | 'nack' | 'final' | 'release' {
  return verdict.kind === 'ack' && verdict.result !== null ? 'result' : verdict.kind;
}
