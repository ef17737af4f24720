/** Search by id, unique key, and parts of tenants' keys and of names, in all queues that the role may read. */

import type { Context, View } from '../context.js';
import { doneTask, type DoneTask } from '../data/archive.js';
import { namesLike, type FoundName } from '../data/names.js';
import { queuesAfter, type Queue } from '../data/queues.js';
import { task, tasksOfKey, type State, type Task } from '../data/tasks.js';
import { settingsLike, tenantsLike } from '../data/tenants.js';
import { count, moment } from '../format.js';
import { address, foreign, html, type Child, type Markup } from '../html.js';
import { nameLink, number, queueLink, table, taskLink, tenantLink } from '../layout.js';
import { isId } from '../params.js';
import { excerpt, named, outcomeBadge, stateBadge } from './parts.js';
import { foundTenants } from './tenants.js';

const QUEUES = 500;
const SEARCH_MS = 700;
const FOUND = 50;

/** What a task that waits and one that is done have in common, for lists and for programs. */
interface FoundTask {
  queue: string;
  id: string;
  /** the state, or the outcome */
  state: string;
  done: boolean;
  name: string | null;
  group_key: string;
  unique_key: string | null;
  payload: string | null;
  payload_length: number | null;
  enqueued_at: number | null;
}

interface Found {
  tasks: FoundTask[];
  rows: Child[][];
  /** queues that were not looked at: they cannot be read, or the time was over */
  left: number;
}

function taskRow(one: FoundTask, now: number): Child[] {
  return [
    queueLink(one.queue),
    taskLink(one.queue, one.id),
    one.done ? outcomeBadge(one.state) : stateBadge(one.state as State),
    named(one.name),
    tenantLink(one.queue, one.group_key),
    one.unique_key === null ? '' : foreign(one.unique_key),
    excerpt(one.payload, one.payload_length, 'large'),
    moment(one.enqueued_at, now),
  ];
}

function foundTask(queue: string, state: string, one: Task | DoneTask): FoundTask {
  const { id, name, group_key, unique_key, payload, payload_length, enqueued_at } = one;
  const done = !('state' in one);
  return { queue, id, state, done, name, group_key, unique_key, payload, payload_length, enqueued_at };
}

async function byId({ reader }: Context, queue: Queue, id: string): Promise<FoundTask[]> {
  const one = queue.readable ? await task(reader, queue.queue, id) : undefined;
  if (one !== undefined) {
    return [foundTask(queue.queue, one.state, one)];
  }
  const done = queue.done_readable === true ? await doneTask(reader, queue, id) : undefined;
  return done === undefined ? [] : [foundTask(queue.queue, done.outcome, done)];
}

async function byKey({ reader }: Context, queue: Queue, key: string): Promise<FoundTask[]> {
  const found = queue.readable ? await tasksOfKey(reader, queue.queue, key) : [];
  return found.map((one) => foundTask(queue.queue, one.state, one));
}

/** Looks through the queues one by one, for a time. */
async function through(
  queues: readonly Queue[],
  context: Context,
  look: (queue: Queue) => Promise<FoundTask[]>,
): Promise<Found> {
  const end = Date.now() + SEARCH_MS / 2;
  const found: Found = { tasks: [], rows: [], left: 0 };
  for (const queue of queues) {
    if (Date.now() > end || found.tasks.length >= FOUND) {
      found.left += 1;
      continue;
    }
    const some = await context.reader.attempt(() => look(queue));
    found.tasks.push(...(some.value ?? []));
    found.left += some.problem !== undefined || !queue.readable ? 1 : 0;
  }
  found.rows = found.tasks.map((one) => taskRow(one, context.server.now));
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

function nameResults(found: readonly FoundName[]): Markup {
  return table(
    ['Queue', 'Name', number('Enqueued'), number('Done'), number('Failed'), number('Died')],
    found.map((one) => [
      queueLink(one.queue),
      nameLink('/tasks', one.queue, one.name),
      count(one.enqueued),
      count(one.done),
      count(one.failed),
      html`<a href="${address('/dead', { queue: one.queue, name: one.name })}">${count(one.dead)}</a>`,
    ]),
    'None that was counted.',
  );
}

/** Tenants that have it in their key: with work, and with settings alone. */
async function tenantResults(context: Context, wanted: string): Promise<Markup> {
  const { reader } = context;
  const work = await tenantsLike(reader, wanted, FOUND);
  const known = new Set(work.map((one) => JSON.stringify([one.queue, one.group_key])));
  const given = (await settingsLike(reader, wanted, FOUND)).filter(
    (one) => !known.has(JSON.stringify([one.queue, one.group_key])),
  );
  context.data['tenants'] = work;
  context.data['tenantsWithoutWork'] = given;
  return html`${foundTenants(work)}${
    given.length > 0 &&
    html`<h2>Tenants without work that were given something</h2>${table(
      ['Queue', 'Tenant'],
      given.map((one) => [queueLink(one.queue), tenantLink(one.queue, one.group_key)]),
      '',
    )}`
  }`;
}

const WHAT = html`<p>Search takes the id of a task, a part of a tenant's key or of a name of tasks, or a whole unique key.</p>`;

export async function searchPage(context: Context): Promise<View> {
  const { reader, params } = context;
  const wanted = params.text('q') ?? '';
  if (wanted.trim() === '') {
    return { title: 'Search', body: WHAT };
  }
  const queues = await queuesAfter(reader, '', QUEUES);
  const id = wanted.trim();
  const ids = isId(id) ? await through(queues, context, (queue) => byId(context, queue, id)) : undefined;
  const keys = await through(queues, context, (queue) => byKey(context, queue, wanted));
  const names = await namesLike(reader, id, FOUND);
  const found = { ids: ids?.tasks ?? [], keys: keys.tasks };
  context.data['tasks'] = found.ids;
  context.data['tasksOfKey'] = found.keys;
  context.data['names'] = names;
  return {
    title: `Search for ${wanted}`,
    body: html`${ids !== undefined && results('Tasks of this id', ids, 'None, neither waiting nor in an archive.')}
            ${results('Tasks of this unique key', keys, 'None that waits, is held or in flight.')}
            <h2>Names that have this in them</h2>${nameResults(names)}
            <h2>Tenants that have this in their key</h2>${await tenantResults(context, wanted)}
            <p class="note">Unique keys are whole, and looked for among tasks that are not dead, for these have an index; done tasks are
            found by their ids. At most ${FOUND} of each are shown. A tenant that has neither work nor settings is not found
            here; its page is reached from any of its tasks.</p>`,
  };
}
