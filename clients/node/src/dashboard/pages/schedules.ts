/** Schedules: when they run next, and which of them fail. */

import { PAGE_ROWS, type Context, type View } from '../context.js';
import { schedules, type Schedule } from '../data/schedules.js';
import { count, moment, NOTHING } from '../format.js';
import { foreign, html, type Child, type Markup } from '../html.js';
import { badge, nextPage, number, queueLink, table, taskLink } from '../layout.js';
import { excerpt, named } from './parts.js';

/** A tick that is later than this has no worker to run it. */
const LATE_SECONDS = 60;

function state(one: Schedule, now: number): Markup[] {
  return [
    one.active ? badge('active', 'good') : badge('not active'),
    ...(one.next_run !== null && one.next_run < now - LATE_SECONDS ? [badge('late', 'bad')] : []),
    ...(one.failures > 0 ? [badge(`${count(one.failures)} failed in a row`, 'bad')] : []),
    ...(one.overlap ? [badge('may overlap')] : []),
  ];
}

function row(one: Schedule, now: number): Child[] {
  const error =
    one.last_error !== null &&
    html`<br>${foreign(one.last_error)} <span class="none">${moment(one.last_error_at, now)}</span>`;
  return [
    foreign(one.name),
    queueLink(one.queue),
    named(one.task_name),
    html`<code>${foreign(one.cron)}</code> ${foreign(one.timezone)}`,
    html`${state(one, now)}${error}`,
    moment(one.next_run, now),
    moment(one.last_run, now),
    one.last_task === null ? NOTHING : taskLink(one.queue, one.last_task),
    count(one.skipped),
    one.catch_up,
    foreign(one.owner),
    one.payload === null
      ? html`<span class="none" title="for roles that may act as the owner">not shown</span>`
      : excerpt(one.payload, one.payload_length),
  ];
}

export async function schedulesPage(context: Context): Promise<View> {
  const { reader, params, server } = context;
  const list = await schedules(reader, params.text('after') ?? '', PAGE_ROWS + 1);
  const shown = list.slice(0, PAGE_ROWS);
  return {
    title: 'Schedules',
    section: 'schedules',
    refreshable: true,
    body: html`${table(
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
        'Catch up',
        'Owner',
        'Payload',
      ],
      shown.map((one) => row(one, server.now)),
      server.monitor ? 'There is no schedule.' : 'There is no schedule of this role.',
    )}
            ${nextPage('/schedules', list.length > PAGE_ROWS ? { after: shown.at(-1)!.name } : undefined)}`,
  };
}
