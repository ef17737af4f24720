/** Done tasks of the queues that keep them. */

import { PAGE_ROWS, type Context, type View } from '../context.js';
import { archivePage, OUTCOMES, type ArchivePage, type DoneTask, type Place } from '../data/archive.js';
import { findQueue, queueNames, type Queue } from '../data/queues.js';
import { moment } from '../format.js';
import { foreign, html, type AddressParams, type Markup } from '../html.js';
import {
  choice,
  input,
  nextPage,
  notShown,
  number,
  queueChoice,
  queueLink,
  subgroupInput,
  narrowParams,
  table,
  taskLink,
  tenantLink,
} from '../layout.js';
import { between, excerpt, named, outcomeBadge, subgroupColumn } from './parts.js';

function doneTable(queue: string, tasks: readonly DoneTask[], now: number, none: string): Markup {
  const { columns, cells } = subgroupColumn(queue, tasks);
  return table(
    [
      number('Id'),
      'Outcome',
      'Name',
      'Tenant',
      ...columns,
      number('Done'),
      number('Waited', 'from the enqueue to the last claim'),
      number('Ran'),
      number('Attempts'),
      number('Lost'),
      'Payload',
      'Result',
    ],
    tasks.map((one) => [
      taskLink(queue, one.id),
      outcomeBadge(one.outcome),
      named(one.name),
      tenantLink(queue, one.group_key),
      ...cells(one),
      moment(one.done_at, now),
      between(one.enqueued_at, one.claimed_at),
      between(one.claimed_at, one.done_at),
      String(one.attempts),
      String(one.lost),
      excerpt(one.payload, one.payload_length, 'large'),
      one.result === null ? '' : excerpt(one.result, one.result_length),
    ]),
    none,
  );
}

function place(context: Context): Place | undefined {
  const time = context.params.id('time');
  const id = context.params.id('id');
  return time === undefined || id === undefined ? undefined : { time, id };
}

function goOn(context: Context, page: ArchivePage, params: AddressParams): Markup {
  const to = page.next === undefined ? undefined : { ...params, time: page.next.time, id: page.next.id };
  return html`${page.unfinished && html`<p class="note">A page looks for a third of a second at most; what is older was not looked at yet.</p>`}
        ${nextPage(context, '/archive', to, page.unfinished ? 'Look further' : 'Next page')}`;
}

async function list(context: Context, queue: Queue): Promise<Markup> {
  const { reader, params, server } = context;
  if (queue.done_readable === null) {
    return html`<p class="none">Queue ${queueLink(queue.queue)} does not keep done tasks
            (<code>keep_done</code> of <code>fairq.alter_queue</code>).</p>`;
  }
  if (!queue.done_readable) {
    return notShown(
      'The done tasks of this queue are not shown.',
      html`The dashboard's role may not read its table:`,
      html`<code>GRANT SELECT ON ${foreign(`fairq."done_${queue.queue.replaceAll('"', '""')}"`)} TO …</code>`,
    );
  }
  const outcome = params.choice('outcome', OUTCOMES);
  const group = params.group();
  const subgroup = params.subgroup();
  const name = params.name();
  const found = await reader.attempt(() =>
    archivePage(reader, { queue, outcome, group, subgroup, name, before: place(context), limit: PAGE_ROWS }),
  );
  if (found.problem !== undefined) {
    return notShown('Done tasks are not shown.', found.problem);
  }
  context.data['tasks'] = found.value.tasks;
  const none = found.value.unfinished ? 'None among those that were looked at.' : 'None.';
  return html`${doneTable(queue.queue, found.value.tasks, server.now, none)}${goOn(context, found.value, { queue: queue.queue, outcome, ...narrowParams({ group, subgroup, name }) })}`;
}

export async function archiveList(context: Context): Promise<View> {
  const { reader, params } = context;
  const names = await queueNames(reader, true);
  const asked = params.text('queue') || names[0];
  if (asked === undefined) {
    return {
      title: 'Done tasks',
      section: 'archive',
      body: html`<p class="none">No queue of this database keeps done tasks (<code>keep_done</code> of <code>fairq.alter_queue</code>).</p>`,
    };
  }
  const queue = await findQueue(reader, asked);
  const filters = html`${choice('outcome', 'Outcome', OUTCOMES, params.choice('outcome', OUTCOMES), 'all')}${input(
    'group',
    'Tenant',
    params.text('group'),
    'the whole key',
  )}${subgroupInput(queue.subgroups, params.subgroup())}${input('name', 'Name', params.text('name'))}`;
  return {
    title: 'Done tasks',
    section: 'archive',
    body: html`${queueChoice('/archive', names, queue.queue, undefined, filters)}${await list(context, queue)}`,
  };
}
