/** Names of tasks: what became of the tasks of each, in one queue. */

import { PAGE_ROWS, type Context, type View } from '../context.js';
import { NAME_ORDERS, names, type NameOrder, type NamePage, type NameStats } from '../data/names.js';
import { findQueue, queueNames, queueStats, type QueueStats } from '../data/queues.js';
import { count, duration } from '../format.js';
import { html, type Child, type Markup } from '../html.js';
import { nameLink, nextPage, notShown, number, queueChoice, queueLink, table } from '../layout.js';
import { counted } from './parts.js';

const TITLES: Record<NameOrder, string> = {
  enqueued: 'enqueued',
  failed: 'failed',
  lost: 'lost',
  dead: 'died',
  wait: 'longest waits',
  run: 'longest runs',
};

/** For a role that may not see what is counted of a queue. */
export const FIGURES_NOT_SHOWN = notShown(
  'The figures of this queue are not shown to this role.',
  html`They take <code>SELECT</code> on its table, or <code>pg_monitor</code>.`,
);

const REST = html`<span class="none" title="those that found no room in pgfairq.max_names when they came">all further names</span>`;

function nameTable(queue: string, page: NamePage, since: string): Markup {
  const row = (one: NameStats): Child[] => [
    one.name === null ? REST : nameLink('/tasks', queue, one.name),
    count(one.enqueued),
    count(one.done),
    count(one.failed),
    count(one.lost),
    count(one.dead),
    duration(one.wait_p95),
    duration(one.run_p95),
  ];
  return table(
    [
      'Name',
      number('Enqueued'),
      number('Done'),
      number('Failed', 'attempts that failed'),
      number('Lost', 'leases that ended without an answer'),
      number('Died', 'tasks that died, also those that are gone'),
      number('p95 wait', '95 % of the claims came no later'),
      number('p95 run', '95 % of the runs took no longer'),
    ],
    [...page.names, ...(page.rest === undefined ? [] : [page.rest])].map(row),
    'No task that has a name was counted.',
    `What became of the tasks of each name in ${since}`,
  );
}

/** The names of a queue with most tasks, for its page. */
export async function busyNames(context: Context, stats: QueueStats, limit: number): Promise<Markup> {
  const { reader, server } = context;
  const { queue } = stats;
  return nameTable(queue, await names(reader, { queue, order: 'enqueued', limit }), counted(stats, server.now));
}

async function nameList(context: Context, stats: QueueStats, order: NameOrder): Promise<Markup> {
  const { reader, params, server } = context;
  const { queue } = stats;
  const rank = params.number('rank');
  const name = params.text('name');
  const page = await names(reader, {
    queue,
    order,
    limit: PAGE_ROWS,
    ...(rank !== undefined && name !== undefined ? { after: { rank, name } } : {}),
  });
  context.data['names'] = page.names;
  context.data['rest'] = page.rest ?? null;
  const last = page.names.at(-1);
  return html`${nameTable(queue, page, counted(stats, server.now))}
        ${nextPage(context, '/names', page.more ? { queue, order, rank: String(last!.rank), name: last!.name! } : undefined)}`;
}

export async function namesPage(context: Context): Promise<View> {
  const { reader, params } = context;
  const queue = (await findQueue(reader, params.required('queue'))).queue;
  const order = params.choice('order', NAME_ORDERS) ?? 'enqueued';
  const stats = (await queueStats(reader, [queue]))[0];
  const orders = NAME_ORDERS.map(
    (one) => html`<option value="${one}"${one === order && html` selected`}>${TITLES[one]}</option>`,
  );
  const filters = html`<label>First <select name="order">${orders}</select></label>`;
  return {
    title: 'Tasks by name',
    section: 'queues',
    refreshable: true,
    body: html`<p>of queue ${queueLink(queue)}</p>
            ${queueChoice('/names', await queueNames(reader), queue, undefined, filters)}
            ${stats === undefined ? FIGURES_NOT_SHOWN : await nameList(context, stats, order)}`,
  };
}
