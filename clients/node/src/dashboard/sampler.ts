/**
 * What queues looked like, for charts: the engine keeps counters, and no history. The last half hour is in the memory of
 * this process, which is bounded; so are the last three hours by minutes. Where there is a table for it, minutes go there,
 * too, and survive a restart.
 */

import { addMinute, minutes, prepareHistory } from './data/history.js';
import { histograms, quantile, queueStats, type Histogram, type QueueStats } from './data/queues.js';
import { receipts } from './data/workers.js';
import type { Database, Reader } from './database.js';
import { FOLLOWED, Flights, type InFlight } from './flights.js';
import { OutOfReach } from './problem.js';

/** A moment of a queue. */
export interface Sample {
  time: number;
  ready: number | null;
  leased: number | null;
  waiting: number | null;
  dead: number | null;
  oldest: number | null;
  /** a second, since the sample before; null: counting began anew, or there is none before */
  enqueued: number | null;
  claimed: number | null;
  acked: number | null;
  failed: number | null;
  /** of the waits and runs since the minute before; null: there were none, or it is no sample of a minute */
  wait_p95: number | null;
  run_p95: number | null;
}

/** What of the past a page shows: for how long, in which steps; `table`: only where minutes are kept. */
export const RANGES = {
  '30m': { words: '30 minutes', seconds: 1800, step: 0, table: false },
  '3h': { words: '3 hours', seconds: 10_800, step: 60, table: false },
  '1d': { words: '1 day', seconds: 86_400, step: 600, table: true },
  '7d': { words: '7 days', seconds: 604_800, step: 3600, table: true },
} as const;
export type Range = keyof typeof RANGES;

const MINUTE = 60;
const QUEUES = 300;
/** How much of a connection's time sampling may take: one part of so many. */
const SHARE = 20;

function sum(...values: (number | null)[]): number | null {
  return values.includes(null) ? null : (values as number[]).reduce((a, b) => a + b, 0);
}

interface Earlier {
  time: number;
  stats: QueueStats;
}

function sampleOf(time: number, stats: QueueStats, earlier: Earlier | undefined): Sample {
  // Not over a clock that was set back.
  const continued = earlier !== undefined && earlier.time < time && earlier.stats.stats_reset === stats.stats_reset;
  const perSecond = (of: (stats: QueueStats) => number): number | null => {
    const more = continued ? of(stats) - of(earlier.stats) : -1;
    return more < 0 ? null : more / Math.max(time - earlier!.time, 0.001);
  };
  return {
    time,
    ready: stats.ready,
    leased: stats.leased,
    waiting: sum(stats.scheduled, stats.overflow, stats.held),
    dead: stats.dead,
    oldest: stats.oldest_ready_age,
    enqueued: perSecond((s) => s.enqueued),
    claimed: perSecond((s) => s.claimed),
    acked: perSecond((s) => s.acked),
    failed: perSecond((s) => s.nacked + s.expired),
    wait_p95: null,
    run_p95: null,
  };
}

/** Samples of queues, so many seconds back. */
class Histories {
  private readonly histories = new Map<string, Sample[]>();

  constructor(private readonly seconds: number) {}

  of(queue: string): readonly Sample[] {
    return this.histories.get(queue) ?? [];
  }

  /** Adds a sample of each queue; forgets other queues, and what is of the future: a clock may be set back. */
  add(samples: ReadonlyMap<string, Sample>): void {
    for (const [queue, sample] of samples) {
      const history = this.histories.get(queue) ?? [];
      while (history.length > 0 && history[history.length - 1]!.time > sample.time) {
        history.pop();
      }
      history.push(sample);
      while (history[0]!.time < sample.time - this.seconds) {
        history.shift();
      }
      this.histories.set(queue, history);
    }
    for (const queue of this.histories.keys()) {
      if (!samples.has(queue)) {
        this.histories.delete(queue);
      }
    }
  }
}

/** Whether two looks at the counters are in different minutes. */
const nextMinute = (before: number, now: number): boolean => Math.floor(before / MINUTE) !== Math.floor(now / MINUTE);

export class Sampler {
  private readonly flights = new Flights();
  private readonly recent = new Histories(RANGES['30m'].seconds);
  private readonly byMinute = new Histories(RANGES['3h'].seconds);
  private earlier = new Map<string, Earlier>();
  /** of the last sample of a minute */
  private minute: { time: number; stats: Map<string, Earlier>; histograms: Map<string, Histogram> } | undefined;
  private timer: NodeJS.Timeout | undefined;
  private ended = false;
  readonly since = Date.now() / 1000;
  /** why the last sample could not be taken, or a minute not be kept */
  failing: string | undefined;

  /** `days`: so long minutes are kept in a table; undefined: there is none. */
  constructor(
    private readonly database: Database,
    readonly interval: number,
    readonly days?: number | undefined,
  ) {}

  /** The first sample is there when this returns, if there are figures yet. */
  async start(): Promise<void> {
    if (this.days !== undefined) {
      await prepareHistory(this.database);
    }
    await this.trySample();
    this.schedule(this.interval * 1000);
  }

  stop(): void {
    this.ended = true;
    clearTimeout(this.timer);
  }

  /** How long the lease of a receipt has been there. */
  inFlight(receipt: string): InFlight {
    return this.flights.of(receipt);
  }

  history(queue: string): readonly Sample[] {
    return this.recent.of(queue);
  }

  /** What was seen of a queue in a range, the earliest first. */
  async range(reader: Reader, queue: string, range: Range): Promise<readonly Sample[]> {
    const { seconds, step } = RANGES[range];
    if (this.days !== undefined && step > 0) {
      return minutes(reader, queue, seconds, step);
    }
    return range === '30m' ? this.recent.of(queue) : this.byMinute.of(queue);
  }

  private schedule(delay: number): void {
    if (this.ended) {
      return;
    }
    this.timer = setTimeout(async () => {
      const busy = await this.trySample();
      this.schedule(Math.max(this.interval * 1000, SHARE * busy));
    }, delay);
    this.timer.unref();
  }

  /**
   * A sample that fails is a gap in the charts; the pages say so. Returns how long it has kept the server busy, in
   * milliseconds: not at all where that does not answer, so charts go on soon after a failover.
   */
  private async trySample(): Promise<number> {
    const begin = performance.now();
    const error = await this.sample().then(
      () => undefined,
      (problem: Error) => problem,
    );
    this.failing = error?.message;
    return error instanceof OutOfReach ? 0 : performance.now() - begin;
  }

  private async sample(): Promise<void> {
    const due = this.minute === undefined || nextMinute(this.minute.time, Date.now() / 1000);
    const { stats, held, waits } = await this.database.read(async (reader) => {
      const all = await queueStats(reader);
      const leased = all.reduce((number, one) => number + (one.leased ?? 0), 0);
      return {
        stats: all.slice(0, QUEUES),
        held: leased > FOLLOWED ? undefined : await receipts(reader),
        waits: due ? await histograms(reader) : undefined,
      };
    });
    const time = Date.now() / 1000;
    this.flights.look(time, held);
    this.recent.add(new Map(stats.map((one) => [one.queue, sampleOf(time, one, this.earlier.get(one.queue))])));
    this.earlier = new Map(stats.map((one) => [one.queue, { time, stats: one }]));
    if (waits !== undefined) {
      await this.keepMinute(time, stats, waits);
    }
  }

  /** A sample of the minute that has ended: of what happened in it, and of waits and runs in it alone. */
  private async keepMinute(time: number, stats: readonly QueueStats[], waits: Map<string, Histogram>): Promise<void> {
    const before = this.minute;
    this.minute = { time, stats: new Map(stats.map((one) => [one.queue, { time, stats: one }])), histograms: waits };
    if (before === undefined) {
      return;
    }
    const samples = new Map(
      stats.map((one): [string, Sample] => {
        const earlier = before.stats.get(one.queue);
        const continued = earlier?.stats.stats_reset === one.stats_reset;
        const between = (kind: 'wait' | 'run'): number | null =>
          continued ? quantile(waits.get(one.queue)?.[kind], before.histograms.get(one.queue)?.[kind], 0.95) : null;
        return [one.queue, { ...sampleOf(time, one, earlier), wait_p95: between('wait'), run_p95: between('run') }];
      }),
    );
    this.byMinute.add(samples);
    if (this.days !== undefined) {
      await addMinute(this.database, samples, this.days);
    }
  }
}
