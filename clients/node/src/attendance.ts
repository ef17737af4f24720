import { FairqError, isCancelled, isConnectionError, isPassing } from './errors';
import { Backoff } from './waiting';

/** For how long a queue is put off at first, and at most, in milliseconds. */
const FIRST = 1000;
const MOST = 60_000;
/** One of which too much is unsettled is looked for again after so long. */
const CROWDED = 1000;

/**
 * Which queues of a worker are asked about at a place. A call about several is refused as a whole: then
 * each is asked about alone, and one that is refused, or locked, is put off. The others go on.
 */
export class Attendance {
  private readonly queues: readonly string[];
  private readonly crowded: (queue: string) => boolean;
  private readonly others: boolean;
  private readonly report: (error: unknown) => void;
  private readonly away = new Map<string, { until: number; passing: boolean; backoff: Backoff }>();

  /** `crowded`: too much of the queue is unsettled. `others`: there are other places to go to if all are refused. */
  constructor(queues: readonly string[], crowded: (queue: string) => boolean, others: boolean,
    report: (error: unknown) => void) {
    this.queues = queues;
    this.crowded = crowded;
    this.others = others;
    this.report = report;
  }

  /** Whether one is put off that gets well by itself, as when it is locked; not one that is dropped or forbidden. */
  get recovering(): boolean {
    return [...this.away.values()].some(({ passing }) => passing);
  }

  /** Those that are asked about, in the order given. */
  present(): string[] {
    return this.queues.filter((queue) => !this.away.has(queue) && !this.crowded(queue));
  }

  /** In how many milliseconds the next one may come back. */
  dueIn(): number {
    const now = performance.now();
    return Math.min(...this.queues.map((queue) =>
      (this.crowded(queue) ? CROWDED : Math.max(0, (this.away.get(queue)?.until ?? Infinity) - now))));
  }

  /** For how long there is none to ask about. */
  pause(): number {
    return this.present().length > 0 ? 0 : this.dueIn();
  }

  /** Asks about all together, and if that is refused about each alone. */
  async together<T>(ask: (queues: string[], alone: boolean) => Promise<T[]>): Promise<T[]> {
    const queues = this.present();
    const several = queues.length > 1;
    if (several) {
      try {
        return await ask(queues, false);
      } catch (error) {
        if (isConnectionError(error)) throw error;
        if (isCancelled(error)) return [];
      }
    }
    const found: T[] = [];
    try {
      for (const queue of queues) found.push(...await this.alone(queue, () => ask([queue], several)));
    } catch (error) {
      if (found.length === 0) throw error; // else the next call has it; what is found is not thrown away
    }
    return found;
  }

  /** Asks about one whose time has come. Only one: if it is still locked the others wait for that. */
  async returning<T>(ask: (queues: string[], alone: boolean) => Promise<T[]>): Promise<T[]> {
    const now = performance.now();
    const [due] = [...this.away].filter(([queue, { until }]) => until <= now && !this.crowded(queue));
    return due ? this.alone(due[0], () => ask([due[0]], true)) : [];
  }

  private async alone<T>(queue: string, ask: () => Promise<T[]>): Promise<T[]> {
    try {
      const found = await ask();
      this.away.delete(queue);
      return found;
    } catch (error) {
      if (isConnectionError(error)) throw error;
      if (isCancelled(error)) return []; // which says nothing of the queue
      this.putOff(queue, error as Error);
      if (this.others && this.away.size === this.queues.length) throw error;
      return [];
    }
  }

  private putOff(queue: string, error: Error): void {
    const backoff = this.away.get(queue)?.backoff ?? new Backoff(FIRST, MOST);
    const pause = backoff.next();
    this.away.set(queue, { until: performance.now() + pause, passing: isPassing(error), backoff });
    this.report(new FairqError(
      `queue ${JSON.stringify(queue)} is put off for ${(pause / 1000).toFixed(1)} s: ${error.message}`, { cause: error }));
  }
}
