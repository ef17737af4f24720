/** Lists of tasks, the dead among them, and one task. */

import { PAGE_ROWS, type Context, type View } from '../context.js';
import { doneTask, type DoneTask } from '../data/archive.js';
import { findQueue, queueNames, queueStats, type Queue } from '../data/queues.js';
import {
  dependencies,
  position,
  STATES,
  task,
  taskPage,
  type Dependency,
  type State,
  type Task,
  type TaskPage,
} from '../data/tasks.js';
import { count, decimal, moment, NOTHING } from '../format.js';
import { address, foreign, html, type Markup } from '../html.js';
import {
  actions,
  badge,
  choice,
  facts,
  groupParams,
  input,
  nameLink,
  nextPage,
  notShown,
  number,
  queueChoice,
  queueLink,
  subgroupInput,
  subgroupParams,
  table,
  taskLink,
  type ActionLink,
} from '../layout.js';
import { Problem } from '../problem.js';
import { deadTable, doneFacts, endsTable, long, ofWhom, stateBadge, taskTable } from './parts.js';

function goOn(page: TaskPage, path: string, params: Record<string, string | undefined>): Markup {
  const more = nextPage(
    path,
    page.next === undefined ? undefined : { ...params, after: page.next },
    page.unfinished ? 'Go on looking' : 'Next page',
  );
  return html`${
    page.unfinished &&
    html`<p class="note">A page looks for a third of a second at most. It came to task ${page.next};
        what is behind was not looked at yet.</p>`
  }${more}`;
}

/** What keeps the role from the tasks of a queue; undefined: nothing does. */
export function unreadable(queue: Queue): Markup | undefined {
  return queue.readable
    ? undefined
    : notShown(
        'The tasks of this queue are not shown.',
        html`The dashboard's role may not read its table:`,
        html`<code>GRANT SELECT ON ${foreign(`fairq."q_${queue.queue.replaceAll('"', '""')}"`)} TO …</code>`,
      );
}

async function list(context: Context, queue: Queue, path: string, state: State | undefined): Promise<Markup> {
  const { reader, params } = context;
  const refused = unreadable(queue);
  if (refused !== undefined) {
    return refused;
  }
  // The engine counts tasks of each state, so a table is not looked through for what it has not.
  const [stats] = state === undefined ? [] : await queueStats(reader, [queue.queue]);
  if (state !== undefined && stats?.[state] === 0) {
    return html`<p class="none">None.</p>`;
  }
  const group = params.group();
  const subgroup = params.subgroup();
  const name = params.text('name') || undefined;
  const found = await reader.attempt(() =>
    taskPage(reader, { queue, state, group, subgroup, name, after: params.id('after'), limit: PAGE_ROWS }),
  );
  if (found.problem !== undefined) {
    return notShown('Tasks are not shown.', found.problem);
  }
  const none = found.value.unfinished ? 'None among those that were looked at.' : 'None.';
  const same = {
    queue: queue.queue,
    name,
    ...groupParams(group),
    ...subgroupParams(subgroup),
    ...(path === '/tasks' ? { state } : {}),
  };
  return html`${(path === '/dead' ? deadTable : taskTable)(context, queue.queue, found.value.tasks, none)}${goOn(found.value, path, same)}`;
}

export async function tasksPage(context: Context): Promise<View> {
  const { reader, params } = context;
  const names = await queueNames(reader);
  const asked = params.text('queue') || names[0];
  if (asked === undefined) {
    return {
      title: 'Tasks',
      section: 'tasks',
      body: html`<p class="none">There is no queue in this database.</p>`,
    };
  }
  const queue = await findQueue(reader, asked);
  const state = params.choice('state', STATES);
  const filters = html`${choice('state', 'State', STATES, state, 'all')}${input('group', 'Tenant', params.text('group'), 'the whole key')}${subgroupInput(queue.subgroups, params.subgroup())}${input('name', 'Name', params.text('name'))}`;
  return {
    title: 'Tasks',
    section: 'tasks',
    refreshable: true,
    body: html`${queueChoice('/tasks', names, queue.queue, undefined, filters)}
            <p class="note">By id, the oldest first. What is claimed next is a matter of turns, not of ids.</p>
            ${await list(context, queue, '/tasks', state)}`,
  };
}

interface Narrowed {
  queue: string;
  group: string | undefined;
  subgroup: string | undefined;
  name: string | undefined;
}

/** The button for what the page is narrowed to; none where there is no action for just that. */
function revivals(context: Context, of: Narrowed): Markup | false {
  const { group, subgroup, name } = of;
  const link = (which: string, words: string): ActionLink => [which, words, { ...of }];
  return subgroup === undefined
    ? actions(
        context,
        group === undefined && name === undefined && link('revive-all', 'Revive all'),
        group !== undefined && name === undefined && link('revive-tenant', 'Revive those of the tenant'),
        group === undefined && name !== undefined && link('revive-name', 'Revive those of the name'),
        group !== undefined &&
          name !== undefined &&
          link('revive-tenant-name', 'Revive those of the tenant and the name'),
      )
    : actions(
        context,
        group !== undefined && name === undefined && link('revive-subgroup', 'Revive those of the subgroup'),
      );
}

export async function deadPage(context: Context): Promise<View> {
  const { reader, params } = context;
  const stats = (await queueStats(reader)).filter((one) => (one.dead ?? 0) > 0).sort((a, b) => b.dead! - a.dead!);
  const asked = params.text('queue') || stats[0]?.queue;
  if (asked === undefined) {
    return {
      title: 'Dead tasks',
      section: 'dead',
      refreshable: true,
      body: html`<p class="none">No queue has a dead task.</p>`,
    };
  }
  const queue = await findQueue(reader, asked);
  const dead = stats.find((one) => one.queue === asked)?.dead ?? 0;
  const group = params.group();
  const name = params.text('name') || undefined;
  const subgroup = params.subgroup();
  const summary = table(
    ['Queue', number('Dead')],
    stats
      .slice(0, PAGE_ROWS)
      .map((one) => [
        html`<a href="${address('/dead', { queue: one.queue })}">${foreign(one.queue)}</a>`,
        count(one.dead),
      ]),
    'No queue has a dead task.',
  );
  return {
    title: 'Dead tasks',
    section: 'dead',
    refreshable: true,
    body: html`${summary}<h2>Of queue ${queueLink(asked)}</h2>
            <p>Their attempts are used up, they were lost too often, or they failed for good. They stay until they are revived,
            cancelled or purged.</p>
            <form class="filter" action="/dead"><input type="hidden" name="queue" value="${asked}">${input(
              'group',
              'Tenant',
              group,
              'the whole key',
            )}${subgroupInput(queue.subgroups, subgroup)}${input('name', 'Name', name)}<button>Show</button></form>
            ${dead > 0 && revivals(context, { queue: asked, group, subgroup, name })}
            ${dead === 0 ? html`<p class="none">None.</p>` : await list(context, queue, '/dead', 'dead')}`,
  };
}

function taskFacts(queue: string, one: Task, now: number): Markup {
  return facts([
    ['state', stateBadge(one.state)],
    ['name', one.name === null ? NOTHING : nameLink('/tasks', queue, one.name)],
    ['attempts', `${one.attempts} of ${one.max_attempts === 0 ? 'any number' : one.max_attempts}`],
    ['lost', `${one.lost} of ${one.max_lost === 0 ? 'any number' : one.max_lost}`],
    ['enqueued', moment(one.enqueued_at, now)],
    ['run at', moment(one.run_at, now)],
    ['lease until', moment(one.lease_until, now)],
    ['expires', moment(one.expires_at, now)],
    ['priority', one.priority],
    ['cost', decimal(one.cost)],
    ['address', one.address ?? NOTHING],
    ['unique key', one.unique_key === null ? NOTHING : foreign(one.unique_key)],
  ]);
}

function waitsFor(queue: string, list: readonly Dependency[]): Markup | false {
  return (
    list.length > 0 &&
    html`<h2>It waits for</h2>${table(
      [number('Task'), 'If that fails', ''],
      list.map((one) => [taskLink(queue, one.predecessor), one.on_dead, one.failed && badge('has failed', 'bad')]),
      '',
    )}`
  );
}

async function positionOf(context: Context, queue: string, one: Task): Promise<Markup | false> {
  if (one.state !== 'ready') {
    return false;
  }
  const found = await context.reader.attempt(() => position(context.reader, queue, one.id));
  const place = found.value;
  return (
    place !== undefined &&
    place.ahead !== null &&
    html`<p>${place.exact === true ? '' : 'About '}${count(place.ahead)} tasks are
        ahead of it${place.starts_at !== null && html`; it starts about ${moment(place.starts_at, context.server.now)}`}.</p>`
  );
}

async function waiting(context: Context, queue: Queue, one: Task): Promise<Markup> {
  const { reader, server } = context;
  const of = { queue: queue.queue, id: one.id };
  const waits = one.state === 'held' ? await dependencies(reader, queue.queue, one.id) : [];
  return html`<p>${ofWhom(queue.queue, one)}</p>
        ${actions(context, one.state === 'dead' && ['revive', 'Revive', of], ['cancel', 'Cancel', of])}
        ${taskFacts(queue.queue, one, server.now)}${await positionOf(context, queue.queue, one)}
        ${long('Last error', one.last_error, one.last_error_length, { ...of, part: 'last_error' }, '/whole')}
        ${endsTable(one.history, server.now)}
        ${long('Payload', one.payload, one.payload_length, { ...of, part: 'payload' }, '/whole')}
        ${long('Headers', one.headers, one.headers_length, { ...of, part: 'headers' }, '/whole')}
        ${waitsFor(queue.queue, waits)}`;
}

function done(context: Context, queue: Queue, one: DoneTask): Markup {
  const of = { queue: queue.queue, id: one.id };
  return html`<p>${ofWhom(queue.queue, one)}; it has ended, and is in the archive.</p>
        ${doneFacts(queue.queue, one, context.server.now)}
        ${long('Result', one.result, one.result_length, { ...of, part: 'result' }, '/whole-done')}
        ${long('Last error', one.last_error, one.last_error_length, { ...of, part: 'last_error' }, '/whole-done')}
        ${endsTable(one.history, context.server.now)}
        ${long('Payload', one.payload, one.payload_length, { ...of, part: 'payload' }, '/whole-done')}
        ${long('Headers', one.headers, one.headers_length, { ...of, part: 'headers' }, '/whole-done')}`;
}

export async function onePage(context: Context): Promise<View> {
  const { reader, params } = context;
  const queue = await findQueue(reader, params.required('queue'));
  const id = params.requiredId('id');
  const found = await reader.attempt(() => task(reader, queue.queue, id));
  const view = { title: `Task ${id}`, section: 'tasks', refreshable: true } as const;
  if (found.value !== undefined) {
    return { ...view, body: await waiting(context, queue, found.value) };
  }
  const kept = queue.done_readable === true ? await reader.attempt(() => doneTask(reader, queue, id)) : undefined;
  if (kept?.value !== undefined) {
    return { ...view, body: done(context, queue, kept.value) };
  }
  if (found.problem !== undefined || kept?.problem !== undefined) {
    return {
      ...view,
      body: unreadable(queue) ?? notShown('The task is not shown.', found.problem ?? kept!.problem),
    };
  }
  throw new Problem(
    404,
    `There is no task ${id} in queue “${queue.queue}”.`,
    queue.done_readable === true
      ? 'It has ended longer ago than done tasks are kept, or never was.'
      : 'It has ended, or never was. The dashboard knows of ended tasks only in queues that keep them (keep_done), and that it may read.',
  );
}
