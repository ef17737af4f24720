/** All queues: how deep they are, how fast things go, and what somebody should look at. */

import { sparkline } from '../chart.js';
import { PAGE_ROWS, type Context, type View } from '../context.js';
import { queuesAfter, queueStats, type Queue, type QueueStats } from '../data/queues.js';
import { count, duration, NOTHING, rate } from '../format.js';
import { address, html, type Child, type Markup } from '../html.js';
import { badge, nextPage, number, queueLink, table } from '../layout.js';
import type { Sample } from '../sampler.js';

/** When a queue is worth a look: the limits of doc/monitoring.md. */
const LONG_WAIT_SECONDS = 600;
const GROWING_WAITING = 10_000;
const NEAR_LEASE = 0.01;

/** What is worth a look in a queue, in words. */
export function remarks(queue: Queue, stats: QueueStats | undefined): Markup[] {
  const words: Markup[] = [];
  if (queue.paused) {
    words.push(badge('paused', 'warn'));
  }
  if (stats === undefined) {
    return words;
  }
  const oldest = stats.oldest_ready_age;
  const waiting = (stats.ready ?? 0) + (stats.overflow ?? 0);
  if (!queue.paused && (oldest ?? 0) > LONG_WAIT_SECONDS) {
    words.push(badge('waits', 'warn'));
  }
  if (stats.enqueue_rate > 2 * stats.ack_rate && waiting > GROWING_WAITING) {
    words.push(badge('grows', 'warn'));
  }
  if (stats.near_lease_end > NEAR_LEASE * stats.acked) {
    words.push(badge('runs near its lease', 'warn'));
  }
  if (!queue.paused && waiting > 0 && stats.claim_rate === 0) {
    words.push(badge('no claims', 'warn'));
  }
  if ((stats.dead ?? 0) > 0) {
    words.push(
      html`<a href="${address('/dead', { queue: queue.queue })}">${badge(`${count(stats.dead)} dead`, 'bad')}</a>`,
    );
  }
  if (stats.swept > 0) {
    words.push(badge('swept', 'bad'));
  }
  return words;
}

function row(queue: Queue, stats: QueueStats | undefined, history: readonly Sample[]): Child[] {
  const name = queueLink(queue.queue);
  if (stats === undefined) {
    return [
      name,
      remarks(queue, stats),
      html`<span class="none">not shown to this role</span>`,
      ...Array<Child>(10).fill(NOTHING),
    ];
  }
  const spark = sparkline(
    history.map((one) => one.time),
    history.map((one) => one.ready),
    'ready tasks',
  );
  return [
    name,
    remarks(queue, stats),
    count(stats.ready),
    spark,
    count(stats.leased),
    count(stats.scheduled),
    count(stats.overflow),
    count(stats.held),
    (stats.dead ?? 0) > 0
      ? html`<a href="${address('/dead', { queue: queue.queue })}">${count(stats.dead)}</a>`
      : count(stats.dead),
    duration(stats.oldest_ready_age),
    rate(stats.enqueue_rate),
    rate(stats.ack_rate),
    html`${duration(stats.wait_p95)} / ${duration(stats.run_p95)}`,
  ];
}

export async function queuesPage(context: Context): Promise<View> {
  const { reader, params, sampler } = context;
  const queues = await queuesAfter(reader, params.text('after') ?? '', PAGE_ROWS + 1);
  const shown = queues.slice(0, PAGE_ROWS);
  const stats = new Map(
    (
      await queueStats(
        reader,
        shown.map((one) => one.queue),
      )
    ).map((one) => [one.queue, one]),
  );
  context.data['queues'] = shown.map((one) => ({ ...one, stats: stats.get(one.queue) ?? null }));
  const columns = [
    'Queue',
    'Remarks',
    number('Ready'),
    'Last half hour',
    number('In flight'),
    number('Scheduled'),
    number('Overflow', 'waits for room'),
    number('Held', 'behind another task'),
    number('Dead'),
    number('Oldest', 'how long the first in line have waited'),
    number('In', 'enqueued, in the last minute'),
    number('Done', 'acknowledged, in the last minute'),
    number('p95 wait / run', 'since counting began'),
  ];
  const rows = shown.map((one) => row(one, stats.get(one.queue), sampler.history(one.queue)));
  return {
    title: 'Queues',
    section: 'queues',
    refreshable: true,
    body: html`${table(columns, rows, html`There is no queue in this database yet: <code>SELECT fairq.create_queue('emails');</code>`)}
            ${nextPage(context, '/', queues.length > PAGE_ROWS ? { after: shown.at(-1)!.queue } : undefined)}
            <p class="note">The small charts are what this process has seen since it was started, every
            ${duration(sampler.interval)}, up to half an hour; the database keeps counters, and no history.</p>`,
  };
}
