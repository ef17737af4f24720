/** One queue: what is in it, how it goes, whom it serves, and its settings. */

import { barChart, lineChart, type Series } from '../chart.js';
import type { Context, View } from '../context.js';
import { findQueue, queueStats, type Queue, type QueueStats } from '../data/queues.js';
import { tenants } from '../data/tenants.js';
import { bytes, count, decimal, duration, moment, rate } from '../format.js';
import { address, foreign, html, type Child, type Markup } from '../html.js';
import { actions, badge, facts, figures, tabs } from '../layout.js';
import { RANGES, type Range, type Sample } from '../sampler.js';
import { busyNames, FIGURES_NOT_SHOWN } from './names.js';
import { counted } from './parts.js';
import { remarks } from './queues.js';
import { tenantsOf } from './tenants.js';

const TENANTS = 8;
const NAMES = 8;

function seriesOf(
  history: readonly Sample[],
  ...which: [string, Series['colour'], (sample: Sample) => number | null][]
): Series[] {
  return which.map(([name, colour, value]) => ({ name, colour, values: history.map(value) }));
}

/** The ranges of time that charts can be of; the one that was asked for. */
function rangeOf(context: Context): { range: Range; choice: Markup } {
  const { params, sampler } = context;
  const kept = (Object.keys(RANGES) as Range[]).filter((one) => sampler.days !== undefined || !RANGES[one].table);
  const asked = params.choice('range', Object.keys(RANGES) as Range[]) ?? '30m';
  const range = kept.includes(asked) ? asked : '30m';
  const views = kept.map((one) => [RANGES[one].words, context.withParams({ range: one }), one === range] as const);
  return { range, choice: tabs(...views) };
}

function charts(queue: Queue, stats: QueueStats, history: readonly Sample[], now: number): Markup {
  const times = history.map((sample) => sample.time);
  const since = `of ${counted(stats, now)}`;
  return html`<div class="charts">
        ${lineChart({
          title: 'Tasks',
          times,
          format: count,
          series: seriesOf(
            history,
            ['ready', 'one', (s) => s.ready],
            ['leased', 'two', (s) => s.leased],
            ['scheduled, overflow, held', 'three', (s) => s.waiting],
            ['dead', 'four', (s) => s.dead],
          ),
        })}
        ${lineChart({
          title: 'Tasks a second',
          times,
          format: rate,
          series: seriesOf(
            history,
            ['enqueued', 'one', (s) => s.enqueued],
            ['claimed', 'two', (s) => s.claimed],
            ['done', 'three', (s) => s.acked],
            ['failed', 'four', (s) => s.failed],
          ),
        })}
        ${lineChart({
          title: 'How long the first in line have waited',
          times,
          format: duration,
          series: seriesOf(history, ['oldest ready', 'one', (s) => s.oldest]),
        })}
        ${
          history.some((one) => one.wait_p95 !== null || one.run_p95 !== null) &&
          lineChart({
            title: '95 % of the waits and runs of each time',
            times,
            format: duration,
            series: seriesOf(history, ['wait', 'one', (s) => s.wait_p95], ['run', 'two', (s) => s.run_p95]),
          })
        }
        ${barChart(
          'Wait until claimed',
          [
            { name: '50 %', value: stats.wait_p50 },
            { name: '95 %', value: stats.wait_p95 },
            { name: '99 %', value: stats.wait_p99 },
          ],
          duration,
          undefined,
          since,
        )}
        ${barChart(
          'Run until acknowledged',
          [
            { name: '50 %', value: stats.run_p50 },
            { name: '95 %', value: stats.run_p95 },
            { name: '99 %', value: stats.run_p99 },
          ],
          duration,
          { name: 'lease, where no session ends it', value: queue.lease },
          since,
        )}
        ${barChart(
          'Size of payloads',
          [
            { name: '50 %', value: stats.payload_p50 },
            { name: '95 %', value: stats.payload_p95 },
            { name: 'most', value: stats.payload_max },
          ],
          bytes,
          undefined,
          since,
        )}
    </div>`;
}

function stateFigures(queue: string, stats: QueueStats): Markup {
  const link = (state: string, value: number | null): Child =>
    html`<a href="${address('/tasks', { queue, state })}">${count(value)}</a>`;
  return figures([
    ['ready', link('ready', stats.ready)],
    ['leased', link('leased', stats.leased)],
    ['scheduled', link('scheduled', stats.scheduled)],
    ['overflow', link('overflow', stats.overflow)],
    ['held', link('held', stats.held)],
    [
      'dead',
      html`<a href="${address('/dead', { queue })}">${count(stats.dead)}</a>`,
      (stats.dead ?? 0) > 0 ? 'bad' : undefined,
    ],
    ['oldest waits', duration(stats.oldest_ready_age)],
    ['in', rate(stats.enqueue_rate)],
    ['claimed', rate(stats.claim_rate)],
    ['done', rate(stats.ack_rate)],
  ]);
}

function counters(stats: QueueStats, now: number): Markup {
  return html`<h2>Counted in ${counted(stats, now)}</h2>${facts([
    ['enqueued', count(stats.enqueued)],
    ['claimed', count(stats.claimed)],
    ['acknowledged', count(stats.acked)],
    ['of these near the end of their lease', count(stats.near_lease_end)],
    ['failed (nack)', count(stats.nacked)],
    ['leases that ran out', count(stats.expired)],
    ['released', count(stats.released)],
    ['of these snoozed', count(stats.snoozed)],
    ['cancelled', count(stats.cancelled)],
    ['died', count(stats.dead_total)],
    ['expired before they ran', count(stats.expired_tasks)],
    ['kept or replaced by unique key', count(stats.deduplicated)],
    ['found by the sweep', count(stats.swept)],
  ])}`;
}

function limit(value: number | null): string {
  return value === null || value === 0 ? 'none' : decimal(value);
}

function settings(queue: Queue): Markup {
  const yes = (value: boolean): string => (value ? 'yes' : 'no');
  return html`<h2>Settings</h2>${facts([
    ['owner', foreign(queue.owner)],
    ['policy', queue.policy],
    ['buckets', count(queue.buckets)],
    ['lease', duration(queue.lease)],
    ['attempts', limit(queue.max_attempts)],
    ['lost leases', limit(queue.max_lost)],
    [
      'backoff',
      html`${duration(queue.backoff_base)} to ${duration(queue.backoff_max)}, ± ${decimal(queue.backoff_jitter * 100)} %`,
    ],
    ['tasks at most', limit(queue.max_depth)],
    ['ready at most', limit(queue.max_ready)],
    ['ready of a tenant at most', limit(queue.max_ready_per_group)],
    ['done tasks are kept', queue.keep_done === null || queue.keep_done === 0 ? 'no' : duration(queue.keep_done)],
    [
      'tasks expire after',
      queue.expire_after === null || queue.expire_after === 0 ? 'never' : duration(queue.expire_after),
    ],
    ['charged by', queue.charge],
    ['default priority', queue.default_priority],
    ['weights of classes', queue.class_weights ?? 'none: the lowest goes first'],
    ['tenant required', yes(queue.group_required)],
    ['durable leases', yes(queue.durable_leases)],
    ['NOTIFY', yes(queue.notify)],
    ['weight of a tenant', decimal(queue.group_weight)],
    ['in flight of a tenant at most', limit(queue.group_max_leased)],
    ['claims a second of a tenant', limit(queue.group_rate)],
    ['burst of a tenant', limit(queue.group_burst)],
    ...(queue.subgroups
      ? ([
          ['tenants are divided into subgroups', 'yes'],
          ['weight of a subgroup', decimal(queue.subgroup_weight)],
          ['in flight of a subgroup at most', limit(queue.subgroup_max_leased)],
          ['claims a second of a subgroup', limit(queue.subgroup_rate)],
          ['burst of a subgroup', limit(queue.subgroup_burst)],
        ] as const)
      : []),
  ])}`;
}

/** What the lines of the charts are of. */
function seen({ sampler, server }: Context): Markup {
  return sampler.days === undefined
    ? html`Lines are what this process has seen since ${moment(sampler.since, server.now)}: every ${duration(sampler.interval)}
        in the last half hour, every minute before.`
    : html`Lines are what was seen every ${duration(sampler.interval)} in the last half hour, since ${moment(sampler.since, server.now)},
        and every minute in the last ${sampler.days} days.`;
}

export async function queuePage(context: Context): Promise<View> {
  const { reader, params, sampler, server } = context;
  const queue = await findQueue(reader, params.required('queue'));
  const name = queue.queue;
  const stats = (await queueStats(reader, [name]))[0];
  const busy = await tenants(reader, { queue: name, order: 'waiting', find: '', limit: TENANTS });
  context.data['queue'] = queue;
  context.data['stats'] = stats ?? null;
  context.data['tenants'] = busy;
  const { range, choice } = rangeOf(context);
  const history = await sampler.range(reader, name, range);
  context.data['history'] = history;
  const figuresOrWhy =
    stats === undefined
      ? FIGURES_NOT_SHOWN
      : html`${stateFigures(name, stats)}${choice}${charts(queue, stats, history, server.now)}
            <p class="note">${seen(context)} Bars are the engine's own, of everything since counting began.</p>`;
  const notes = [...remarks(queue, stats), ...(queue.readable ? [] : [badge('tasks not readable', 'warn')])];
  return {
    title: `Queue ${name}`,
    section: 'queues',
    refreshable: true,
    body: html`${notes.length > 0 && html`<p>${notes}</p>`}
            ${actions(context, queue.paused ? ['resume-queue', 'Resume', { queue: name }] : ['pause-queue', 'Pause', { queue: name }])}
            ${figuresOrWhy}
            <h2>Tenants with most work</h2>
            ${await tenantsOf(context, queue, busy, 'No tenant has work.')}
            <p class="next"><a href="${address('/tenants', { queue: name })}">All tenants</a>
            <a href="${address('/tasks', { queue: name })}">Tasks</a>
            <a href="${address('/leases', { queue: name })}">Leases</a>
            ${queue.done_readable !== null && html`<a href="${address('/archive', { queue: name })}">Done tasks</a>`}</p>
            ${
              stats !== undefined &&
              html`<h2>By name</h2>${await busyNames(context, stats, NAMES)}
            <p class="next"><a href="${address('/names', { queue: name })}">All names</a></p>${counters(stats, server.now)}`
            }${settings(queue)}`,
  };
}
