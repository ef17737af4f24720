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
import { holderOf } from '../data/workers.js';
import { count, decimal, moment, NOTHING } from '../format.js';
import { address, foreign, html, type AddressParams, type Markup } from '../html.js';
import {
  actions,
  badge,
  choice,
  facts,
  input,
  narrowParams,
  nameLink,
  nextPage,
  notShown,
  number,
  queueChoice,
  sessionLink,
  subgroupInput,
  table,
  taskLink,
} from '../layout.js';
import { endsOf } from '../../status.js';
import { Problem } from '../problem.js';
import { deadTable, doneFacts, endsTable, long, ofWhom, progressBar, stateBadge, taskTable } from './parts.js';
import { inFlight } from './workers.js';

function goOn(context: Context, page: TaskPage, path: string, params: AddressParams): Markup {
  const more = nextPage(context, path,
    page.next === undefined ? undefined : { ...params, after: page.next },
    page.unfinished ? 'Look further' : 'Next page',
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

/**
 * The tasks of a state, as far as the address narrows that down; the dead are shown with what they died of. milliseconds:
 * how long to look, if the page does more than that.
 */
export async function list(
  context: Context,
  queue: Queue,
  path: '/tasks' | '/dead',
  state: State | undefined,
  milliseconds?: number,
): Promise<Markup> {
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
  const narrow = params.narrow();
  const found = await reader.attempt(() =>
    taskPage(reader, { queue, state, ...narrow, after: params.id('after'), limit: PAGE_ROWS, milliseconds }),
  );
  if (found.problem !== undefined) {
    return notShown('Tasks are not shown.', found.problem);
  }
  const none = found.value.unfinished ? 'None among those that were looked at.' : 'None.';
  const same = { queue: queue.queue, ...narrowParams(narrow), ...(path === '/tasks' ? { state } : {}) };
  context.data['tasks'] = found.value.tasks;
  const shown = (path === '/dead' ? deadTable : taskTable)(context, queue.queue, found.value.tasks, none);
  return html`${choosing(context, queue.queue, path, found.value.tasks.length, shown)}${goOn(context, found.value, path, same)}`;
}

/** The form around a list, in which tasks are chosen, for what is to be done to them. */
function choosing(context: Context, queue: string, path: '/tasks' | '/dead', rows: number, list: Markup): Markup {
  if (!context.writable || rows === 0) {
    return list;
  }
  const button = (action: string, words: string): Markup =>
    html`<button formaction="${address(`/act/${action}`)}">${words}</button> `;
  return html`<form method="get" action="${address('/act/cancel-tasks')}"><input type="hidden" name="queue" value="${queue}">
        ${list}<p class="actions chosen">${path === '/dead' && button('revive-tasks', 'Revive the chosen')}${button('cancel-tasks', 'Cancel the chosen')}</p></form>`;
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
      [number('Task'), 'If that fails', 'So far'],
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

/** Which worker has it, since when, and how far it is. */
async function holding(context: Context, queue: string, one: Task): Promise<Markup | false> {
  const { reader, sampler, server } = context;
  const found = await reader.attempt(() => holderOf(reader, queue, one.id));
  const held = found.value;
  if (held === undefined) {
    return false;
  }
  context.data['holder'] = { ...held, in_flight: sampler.inFlight(held.receipt) };
  return html`<h2>Who has it</h2>${facts([
    ['session', held.session === null ? 'none: the lease ends by itself' : sessionLink(held.session, held.session_name)],
    ['in flight for', inFlight(sampler.inFlight(held.receipt))],
    ['progress', one.progress === null ? NOTHING : progressBar(one.progress)],
    ['attempt', String(held.attempt)],
    ['client', held.client ?? 'local'],
    ['process of the server', held.pid === null ? NOTHING : String(held.pid)],
    ['application', held.application === null || held.application === '' ? NOTHING : foreign(held.application)],
    ['role', held.role === null ? NOTHING : foreign(held.role)],
    ['lease ends', held.lease_until === null ? 'not by itself' : moment(held.lease_until, server.now)],
  ])}`;
}

async function waiting(context: Context, queue: Queue, one: Task): Promise<Markup> {
  const { reader, server } = context;
  const of = { queue: queue.queue, id: one.id };
  const waits = one.state === 'held' ? await dependencies(reader, queue.queue, one.id) : [];
  context.data['task'] = { ...one, history: endsOf(one.history) };
  context.data['waitsFor'] = waits;
  return html`<p>${ofWhom(queue.queue, one)}</p>
        ${actions(
          context,
          one.state === 'dead' && ['revive', 'Revive', of],
          one.state === 'dead' && ['edit-task', 'Edit and retry', of],
          ['cancel', 'Cancel', of],
        )}
        ${taskFacts(queue.queue, one, server.now)}${one.state === 'leased' && (await holding(context, queue.queue, one))}${await positionOf(context, queue.queue, one)}
        ${long('Last error', one.last_error, one.last_error_length, { ...of, part: 'last_error' }, '/whole')}
        ${endsTable(one.history, server.now)}
        ${long('Payload', one.payload, one.payload_length, { ...of, part: 'payload' }, '/whole')}
        ${long('Headers', one.headers, one.headers_length, { ...of, part: 'headers' }, '/whole')}
        ${waitsFor(queue.queue, waits)}`;
}

function done(context: Context, queue: Queue, one: DoneTask): Markup {
  context.data['done'] = { ...one, history: endsOf(one.history) };
  const of = { queue: queue.queue, id: one.id };
  return html`<p>${ofWhom(queue.queue, one)}; it has ended.</p>
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
