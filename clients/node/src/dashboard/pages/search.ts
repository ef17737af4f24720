/** Search by id, tenant and unique key, in all queues that the role may read. */

import type { Context, View } from '../context.js';
import { doneTask } from '../data/archive.js';
import { queuesAfter, type Queue } from '../data/queues.js';
import { task, tasksOfKey, type Task } from '../data/tasks.js';
import { tenantsOfKey } from '../data/tenants.js';
import { moment } from '../format.js';
import { foreign, html, type Child, type Markup } from '../html.js';
import { number, queueLink, table, taskLink, tenantLink } from '../layout.js';
import { isId } from '../params.js';
import { excerpt, named, outcomeBadge, stateBadge } from './parts.js';
import { foundTenants } from './tenants.js';

const QUEUES = 500;
const SEARCH_MS = 700;
const FOUND = 50;

interface Found {
  rows: Child[][];
  /** queues that were not looked at: they cannot be read, or the time was over */
  left: number;
}

function taskRow(queue: string, one: Task, now: number): Child[] {
  return [
    queueLink(queue),
    taskLink(queue, one.id),
    stateBadge(one.state),
    named(one.name),
    tenantLink(queue, one.group_key),
    one.unique_key === null ? '' : foreign(one.unique_key),
    excerpt(one.payload, one.payload_length, 'large'),
    moment(one.enqueued_at, now),
  ];
}

async function byId(context: Context, queue: Queue, id: string): Promise<Child[][]> {
  const { reader, server } = context;
  const one = queue.readable ? await task(reader, queue.queue, id) : undefined;
  if (one !== undefined) {
    return [taskRow(queue.queue, one, server.now)];
  }
  const done = queue.done_readable === true ? await doneTask(reader, queue, id) : undefined;
  return done === undefined
    ? []
    : [
        [
          queueLink(queue.queue),
          taskLink(queue.queue, id),
          outcomeBadge(done.outcome),
          named(done.name),
          tenantLink(queue.queue, done.group_key),
          done.unique_key === null ? '' : foreign(done.unique_key),
          excerpt(done.payload, done.payload_length, 'large'),
          moment(done.enqueued_at, server.now),
        ],
      ];
}

async function byKey(context: Context, queue: Queue, key: string): Promise<Child[][]> {
  const found = queue.readable ? await tasksOfKey(context.reader, queue.queue, key) : [];
  return found.map((one) => taskRow(queue.queue, one, context.server.now));
}

/** Looks through the queues one by one, for a time. */
async function through(
  queues: readonly Queue[],
  context: Context,
  look: (queue: Queue) => Promise<Child[][]>,
): Promise<Found> {
  const end = Date.now() + SEARCH_MS / 2;
  const found: Found = { rows: [], left: 0 };
  for (const queue of queues) {
    if (Date.now() > end || found.rows.length >= FOUND) {
      found.left += 1;
      continue;
    }
    const rows = await context.reader.attempt(() => look(queue));
    found.rows.push(...(rows.value ?? []));
    found.left += rows.problem !== undefined || !queue.readable ? 1 : 0;
  }
  return found;
}

function results(title: string, found: Found, none: string): Markup {
  return html`<h2>${title}</h2>${table(['Queue', number('Id'), 'State', 'Name', 'Tenant', 'Unique key', 'Payload', number('Enqueued')], found.rows, none)}
        ${
          found.left > 0 &&
          html`<p class="note">${found.left} queues were not looked at: this role may not read them, they are locked, or
        the time of a page was over.</p>`
        }`;
}

export async function searchPage(context: Context): Promise<View> {
  const { reader, params } = context;
  const wanted = params.text('q') ?? '';
  if (wanted === '') {
    return {
      title: 'Search',
      body: html`<p>Search takes the id of a task, the whole key of a tenant, or a unique key.</p>`,
    };
  }
  const queues = await queuesAfter(reader, '', QUEUES);
  const id = wanted.trim();
  const ids = isId(id) ? await through(queues, context, (queue) => byId(context, queue, id)) : undefined;
  const keys = await through(queues, context, (queue) => byKey(context, queue, wanted));
  const groups = await tenantsOfKey(reader, null, wanted);
  return {
    title: `Search for ${wanted}`,
    body: html`${ids !== undefined && results('Tasks of this id', ids, 'None, neither waiting nor in an archive.')}
            ${results('Tasks of this unique key', keys, 'None that waits, is held or in flight.')}
            <h2>Tenants of this key</h2>${foundTenants(groups)}
            <p class="note">Unique keys are looked for among tasks that are not dead, for these have an index; in the archive tasks are found by their ids.
            A tenant without work is not found here; its page is reached from any of its tasks.</p>`,
  };
}
