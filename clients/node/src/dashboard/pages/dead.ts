/** The dead: of each queue, by name and error, and one by one; with what can be done to all that are shown. */

import { PAGE_ROWS, type Context, type View } from '../context.js';
import { deadGroups, type DeadGroup, type DeadGroups, type Narrow } from '../data/dead.js';
import { findQueue, queueStats, type Queue, type QueueStats } from '../data/queues.js';
import { count } from '../format.js';
import { address, foreign, html, type Markup } from '../html.js';
import { actions, badge, input, narrowParams, notShown, number, queueLink, subgroupInput, table } from '../layout.js';
import { momentOf } from './parts.js';
import { list, unreadable } from './tasks.js';

/** How long a page looks for single tasks when it has counted groups before. */
const LIST_MS = 200;
/** Rows of the table of groups. */
const GROUPS = 30;

function byQueue(stats: readonly QueueStats[]): Markup {
  return table(
    ['Queue', number('Dead')],
    stats
      .slice(0, PAGE_ROWS)
      .map((one) => [
        html`<a href="${address('/dead', { queue: one.queue })}">${foreign(one.queue)}</a>`,
        count(one.dead),
      ]),
    'No queue has a dead task.',
  );
}

const errorWords = (error: string): Markup =>
  error === '' ? html`<span class="none">(no error)</span>` : html`<code>${foreign(error)}</code>`;
const nameWords = (name: string | null): Markup =>
  name === null || name === '' ? html`<span class="none">(no name)</span>` : foreign(name);

function groupTable(context: Context, queue: string, narrow: Narrow, groups: readonly DeadGroup[]): Markup {
  const of = (one: DeadGroup) => ({ queue, ...narrowParams({ ...narrow, name: one.name ?? '', error: one.error }) });
  return table(
    [
      number('Tasks'),
      'Name',
      'Error',
      number('Tenants', 'how many tenants they are of, at most'),
      number('Last died'),
      ...(context.writable ? ['Do'] : []),
    ],
    groups.map((one) => [
      html`<a href="${address('/dead', of(one))}">× ${count(one.tasks)}</a>`,
      nameWords(one.name),
      errorWords(one.error),
      count(one.tenants),
      momentOf(one.last_at, context.server.now),
      ...(context.writable
        ? [
            html`<a href="${address('/act/revive-dead', of(one))}">Revive</a> <a href="${address('/act/cancel-dead', of(one))}">Cancel</a>`,
          ]
        : []),
    ]),
    'None.',
    'Dead tasks by name and by the first line of their error, in which # is any number',
  );
}

/** What the page is narrowed to, and the way back. */
function narrowedTo(queue: string, { group, subgroup, name, error }: Narrow): Markup | false {
  const words = [
    ...(group === undefined ? [] : [html`tenant ${group === '' ? '(no group)' : foreign(group)}`]),
    ...(subgroup === undefined ? [] : [html`subgroup ${subgroup === '' ? '(no subgroup)' : foreign(subgroup)}`]),
    ...(name === undefined ? [] : [html`name ${nameWords(name)}`]),
    ...(error === undefined ? [] : [html`error ${errorWords(error)}`]),
  ];
  return (
    words.length > 0 &&
    html`<p class="narrowed">Only: ${words.map((one, index) => html`${index > 0 && ', '}${one}`)}.
        <a href="${address('/dead', { queue })}">All dead tasks of the queue</a></p>`
  );
}

/** The buttons for all that the page is narrowed to, on this page and those that follow. */
function bulk(context: Context, queue: string, narrow: Narrow): Markup | false {
  const of = { queue, ...narrowParams(narrow) };
  const all = Object.values(narrow).every((value) => value === undefined);
  return actions(
    context,
    ['revive-dead', all ? 'Revive all' : 'Revive all of these', of],
    ['cancel-dead', all ? 'Cancel all' : 'Cancel all of these', of],
  );
}

/** How the groups were counted, where not all were. */
function counted(queue: string, narrow: Narrow, found: DeadGroups): Markup | false {
  const shown = Math.min(found.groups.length, GROUPS);
  return html`${
    found.groups.length > shown &&
    html`<p class="note">The ${shown} with most tasks, of ${count(found.groups.length)}.</p>`
  }${
    found.next !== undefined &&
    html`<p class="note">${count(found.seen)} dead tasks were counted in the time of a page; it came to task ${found.next}.</p>
        <p class="next"><a href="${address('/dead', { queue, ...narrowParams(narrow), from: found.next })}">Count the others</a></p>`
  }`;
}

async function groups(context: Context, queue: Queue, narrow: Narrow, total: number): Promise<Markup> {
  const { reader, params } = context;
  const found = await reader.attempt(() => deadGroups(reader, queue, narrow, { after: params.id('from'), total }));
  if (found.problem !== undefined) {
    return notShown('Groups are not shown.', found.problem);
  }
  const { groups: some, next } = found.value;
  context.data['groups'] = some;
  context.data['nextGroups'] =
    next === undefined ? null : address('/dead.json', { queue: queue.queue, ...narrowParams(narrow), from: next });
  return html`${groupTable(context, queue.queue, narrow, some.slice(0, GROUPS))}
        ${counted(queue.queue, narrow, found.value)}`;
}

async function ofQueue(context: Context, queue: Queue, dead: number): Promise<Markup> {
  const narrow = context.params.narrow();
  const refused = unreadable(queue);
  if (refused !== undefined) {
    return refused;
  }
  if (dead === 0) {
    return html`<p class="none">None.</p>`;
  }
  const whole = narrow.name !== undefined && narrow.error !== undefined;
  return html`${bulk(context, queue.queue, narrow)}
        ${!whole && (await groups(context, queue, narrow, dead))}
        <h2>One by one, the oldest first</h2>${await list(context, queue, '/dead', 'dead', whole ? undefined : LIST_MS)}`;
}

export async function deadPage(context: Context): Promise<View> {
  const { reader, params } = context;
  const stats = (await queueStats(reader)).filter((one) => (one.dead ?? 0) > 0).sort((a, b) => b.dead! - a.dead!);
  context.data['queues'] = stats.map(({ queue, dead }) => ({ queue, dead }));
  const view = { title: 'Dead tasks', section: 'dead', refreshable: true } as const;
  const asked = params.text('queue') || stats[0]?.queue;
  if (asked === undefined) {
    return { ...view, body: html`<p class="none">No queue has a dead task.</p>` };
  }
  const queue = await findQueue(reader, asked);
  const dead = stats.find((one) => one.queue === asked)?.dead ?? 0;
  const narrow = params.narrow();
  const { error } = narrow;
  const errorInput = error !== undefined && error !== '' && html`<input type="hidden" name="error" value="${error}">`;
  context.data['queue'] = asked;
  return {
    ...view,
    body: html`${byQueue(stats)}<h2>Of queue ${queueLink(asked)} ${dead > 0 && badge(`${count(dead)} dead`, 'bad')}</h2>
            <p>Their attempts are used up, they were lost too often, or they failed for good. They stay until they are revived,
            cancelled or purged.</p>
            <form class="filter" action="${address('/dead')}"><input type="hidden" name="queue" value="${asked}">${errorInput}${input(
              'group',
              'Tenant',
              params.text('group'),
              'the whole key',
            )}${subgroupInput(queue.subgroups, params.text('subgroup'))}${input('name', 'Name', params.text('name'))}<button>Show</button></form>
            ${narrowedTo(asked, narrow)}${await ofQueue(context, queue, dead)}`,
  };
}
