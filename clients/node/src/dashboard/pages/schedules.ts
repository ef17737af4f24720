/** Schedules: when they run next, which of them fail, and what became of their tasks. */

import { PAGE_ROWS, type Context, type View } from '../context.js';
import { findQueue } from '../data/queues.js';
import { resultsOf, schedule, schedules, type Result, type Schedule } from '../data/schedules.js';
import { task } from '../data/tasks.js';
import { count, moment, NOTHING } from '../format.js';
import { address, foreign, html, type Child, type Markup } from '../html.js';
import { actions, badge, facts, input, nextPage, notShown, number, queueLink, table, taskLink } from '../layout.js';
import { Problem } from '../problem.js';
import { between, excerpt, firstLine, named, outcomeBadge, stateBadge } from './parts.js';

/** A tick that is later than this has no worker to run it. */
const LATE_SECONDS = 60;
const RESULTS = 10;

function state(one: Schedule, now: number): Markup[] {
  return [
    one.active ? badge('active', 'good') : badge('paused', 'warn'),
    ...(one.next_run !== null && one.next_run < now - LATE_SECONDS ? [badge('late', 'bad')] : []),
    ...(one.failures > 0 ? [badge(`${count(one.failures)} failed in a row`, 'bad')] : []),
    ...(one.overlap ? [badge('may overlap')] : []),
  ];
}

const scheduleLink = (name: string): Markup =>
  html`<a href="${address('/schedule', { name })}">${foreign(name)}</a>`;

const payload = (one: Schedule): Child =>
  one.payload === null
    ? html`<span class="none" title="for roles that may act as the owner">not shown</span>`
    : excerpt(one.payload, one.payload_length);

function row(one: Schedule, now: number): Child[] {
  const error =
    one.last_error !== null &&
    html`<br>${firstLine(one.last_error, null)} <span class="none">${moment(one.last_error_at, now)}</span>`;
  return [
    scheduleLink(one.name),
    queueLink(one.queue),
    named(one.task_name),
    html`<code>${foreign(one.cron)}</code> ${foreign(one.timezone)}`,
    html`${state(one, now)}${error}`,
    moment(one.next_run, now),
    moment(one.last_run, now),
    one.last_task === null ? NOTHING : taskLink(one.queue, one.last_task),
    count(one.skipped),
    foreign(one.owner),
    payload(one),
  ];
}

export async function schedulesPage(context: Context): Promise<View> {
  const { reader, params, server } = context;
  const find = params.text('find') ?? '';
  const list = await schedules(reader, find, params.text('after') ?? '', PAGE_ROWS + 1);
  const shown = list.slice(0, PAGE_ROWS);
  context.data['schedules'] = shown;
  const nothing = server.monitor ? 'There is no schedule.' : 'There is no schedule of this role.';
  return {
    title: 'Schedules',
    section: 'schedules',
    refreshable: true,
    body: html`<form class="filter" action="${address('/schedules')}">${input('find', 'Name has', find)}<button>Show</button></form>
            ${table(
              [
                'Name',
                'Queue',
                'Tasks',
                'When',
                'State',
                number('Next'),
                number('Last'),
                number('Last task'),
                number('Skipped', 'ticks at which the last task was still there'),
                'Owner',
                'Payload',
              ],
              shown.map((one) => row(one, server.now)),
              find === '' ? nothing : 'No schedule has this in its name.',
            )}
            ${nextPage(context, '/schedules', list.length > PAGE_ROWS ? { find, after: shown.at(-1)!.name } : undefined)}`,
  };
}

function resultTable(queue: string, results: readonly Result[], now: number): Markup {
  return table(
    [number('Task'), 'Outcome', number('Done'), number('Ran'), number('Attempts'), 'Result', 'Error'],
    results.map((one) => [
      taskLink(queue, one.id),
      outcomeBadge(one.outcome),
      moment(one.done_at, now),
      between(one.claimed_at, one.done_at),
      String(one.attempts),
      one.result === null ? '' : excerpt(one.result, one.result_length),
      firstLine(one.last_error, one.last_error_length),
    ]),
    'None.',
  );
}

/** What became of its last tasks, as far as that is kept; and the one that is still there. */
async function results(context: Context, one: Schedule): Promise<Markup> {
  const { reader, server } = context;
  const queue = await reader.attempt(() => findQueue(reader, one.queue).catch(() => undefined));
  if (queue.value === undefined) {
    return html`<p class="none">Its queue is gone.</p>`;
  }
  const { value } = queue;
  const last =
    one.last_task === null || !value.readable
      ? undefined
      : (await reader.attempt(() => task(reader, one.queue, one.last_task!))).value;
  const there = last !== undefined && html`<p>Its last task, ${taskLink(one.queue, last.id)}, is there: ${stateBadge(last.state)}</p>`;
  if (value.done_readable !== true) {
    return html`${there}<p class="none">Queue ${queueLink(one.queue)} does not keep done tasks, or the dashboard may not read them.</p>`;
  }
  const found = await reader.attempt(() => resultsOf(reader, value, one.name, RESULTS));
  if (found.problem !== undefined) {
    return html`${there}${notShown('Results are not shown.', found.problem)}`;
  }
  context.data['results'] = found.value.results;
  return html`${there}${resultTable(one.queue, found.value.results, server.now)}
        ${found.value.unfinished && html`<p class="note">Of the done tasks that were looked at in the time of a page.</p>`}`;
}

export async function schedulePage(context: Context): Promise<View> {
  const { reader, params, server } = context;
  const name = params.required('name');
  const one = await schedule(reader, name);
  if (one === undefined) {
    throw new Problem(404, `There is no schedule “${name}”.`, 'It may have been removed, or be of a role that this one does not see.');
  }
  context.data['schedule'] = one;
  const of = { schedule: name };
  return {
    title: `Schedule ${name}`,
    section: 'schedules',
    refreshable: true,
    body: html`<p>${state(one, server.now)} in queue ${queueLink(one.queue)}</p>
            ${actions(
              context,
              ['run-schedule', 'Run now', of],
              one.active ? ['pause-schedule', 'Pause', of] : ['resume-schedule', 'Resume', of],
              ['edit-schedule', 'Edit', of],
              ['remove-schedule', 'Remove', of],
            )}
            ${facts([
              ['when', html`<code>${foreign(one.cron)}</code>`],
              ['time zone', foreign(one.timezone)],
              ['next', moment(one.next_run, server.now)],
              ['last', moment(one.last_run, server.now)],
              ['name of its tasks', one.task_name === null ? NOTHING : foreign(one.task_name)],
              ['tenant', one.group_key === null || one.group_key === '' ? NOTHING : foreign(one.group_key)],
              ['catch up', one.catch_up],
              ['skipped', count(one.skipped)],
              ['failed in a row', count(one.failures)],
              ['owner', foreign(one.owner)],
              ['payload', payload(one)],
            ])}
            ${one.last_error !== null && html`<h2>Its last failure, ${moment(one.last_error_at, server.now)}</h2><pre>${foreign(one.last_error)}</pre>`}
            <h2>What became of its last tasks</h2>${await results(context, one)}`,
  };
}
