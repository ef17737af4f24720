/**
 * What queues looked like in the last half hour, for charts: the engine keeps counters, and no
 * history. It is in the memory of this process, begins when that starts, and is bounded.
 */

import { queueStats, type QueueStats } from './data/queues.js';
import { receipts } from './data/workers.js';
import type { Database } from './database.js';

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
  wait_p95: number | null;
  run_p95: number | null;
}

const SPAN_SECONDS = 1800;
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
  const continued = earlier !== undefined && earlier.stats.stats_reset === stats.stats_reset;
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
    wait_p95: stats.wait_p95,
    run_p95: stats.run_p95,
  };
}

/** How long something has been in flight, as far as it was seen. */
export type InFlight =
  | { since: 'unknown' }
  /** 'new': not longer; 'start': longer; 'seen': so long, but for the time between two samples */
  | { since: 'new' | 'start' | 'seen'; seconds: number };

/** More leases than this are not followed: that would cost more than it tells. */
const FOLLOWED = 5000;

/** Since when leases have been there: the engine does not tell when a claim was. */
class Flights {
  /** by receipt; from the first look on: those that were there then are older than that */
  private since = new Map<string, number>();
  private first: number | undefined;
  private last: number | undefined;

  /** Takes what is in flight now; undefined: that is not followed. */
  look(time: number, receipts: readonly string[] | undefined): void {
    if (receipts === undefined) {
      this.since = new Map();
      this.first = this.last = undefined;
      return;
    }
    this.first ??= time;
    this.since = new Map(receipts.map((one) => [one, this.since.get(one) ?? time]));
    this.last = time;
  }

  of(receipt: string): InFlight {
    const now = Date.now() / 1000;
    const since = this.since.get(receipt);
    if (this.last === undefined) {
      return { since: 'unknown' };
    }
    return since === undefined
      ? { since: 'new', seconds: now - this.last }
      : { since: since === this.first ? 'start' : 'seen', seconds: now - since };
  }
}

export class Sampler {
  private readonly flights = new Flights();
  private readonly histories = new Map<string, Sample[]>();
  private readonly earlier = new Map<string, Earlier>();
  private timer: NodeJS.Timeout | undefined;
  private ended = false;
  readonly since = Date.now() / 1000;
  /** why the last sample could not be taken */
  failing: string | undefined;

  constructor(
    private readonly database: Database,
    readonly interval: number,
  ) {}

  /** The first sample is there when this returns. */
  async start(): Promise<void> {
    await this.sample();
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
    return this.histories.get(queue) ?? [];
  }

  private schedule(delay: number): void {
    if (this.ended) {
      return;
    }
    this.timer = setTimeout(async () => {
      const begin = Date.now();
      // A sample that fails is a gap in the charts; the pages say so.
      this.failing = await this.sample().then(
        () => undefined,
        (error: Error) => error.message,
      );
      this.schedule(Math.max(this.interval * 1000, SHARE * (Date.now() - begin)));
    }, delay);
    this.timer.unref();
  }

  private async sample(): Promise<void> {
    const { stats, held } = await this.database.read(async (reader) => {
      const all = await queueStats(reader);
      const leased = all.reduce((number, one) => number + (one.leased ?? 0), 0);
      return { stats: all, held: leased > FOLLOWED ? undefined : await receipts(reader) };
    });
    const time = Date.now() / 1000;
    this.flights.look(time, held);
    const kept = stats.slice(0, QUEUES);
    for (const one of kept) {
      const history = this.histories.get(one.queue) ?? [];
      history.push(sampleOf(time, one, this.earlier.get(one.queue)));
      while (history[0]!.time < time - SPAN_SECONDS) {
        history.shift();
      }
      this.histories.set(one.queue, history);
      this.earlier.set(one.queue, { time, stats: one });
    }
    const names = new Set(kept.map((one) => one.queue));
    for (const name of this.histories.keys()) {
      if (!names.has(name)) {
        this.histories.delete(name);
        this.earlier.delete(name);
      }
    }
  }
}
