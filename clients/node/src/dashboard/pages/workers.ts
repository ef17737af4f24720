/** Leases and sessions: who works on what. */

import { PAGE_ROWS, type Context, type View } from '../context.js';
import { queueNames } from '../data/queues.js';
import { holders, leases, session, sessions, type Holder, type Lease, type Session } from '../data/workers.js';
import { count, duration, moment, NOTHING } from '../format.js';
import { address, foreign, html, type Child, type Markup } from '../html.js';
import {
  badge,
  facts,
  input,
  nextPage,
  number,
  queueChoice,
  queueLink,
  sessionLink,
  table,
  taskLink,
  tenantLink,
} from '../layout.js';
import { Problem } from '../problem.js';
import type { InFlight } from '../flights.js';
import { named, progressBar } from './parts.js';

const HOLDERS = 20;

function holder(one: Holder, now: number): Child[] {
  const who = one.application === null || one.application === '' ? NOTHING : foreign(one.application);
  return [
    one.pid === null ? NOTHING : String(one.pid),
    who,
    one.role === null ? NOTHING : foreign(one.role),
    one.client ?? (one.role === null ? NOTHING : 'local'),
    queueLink(one.queue),
    count(one.leases),
    moment(one.first_end, now),
  ];
}

function leaseState(one: { state: string }): Markup {
  return badge(one.state, one.state === 'expired' ? 'bad' : one.state === 'settling' ? '' : 'good');
}

/** How long something has been in flight, as far as the dashboard has seen it. */
export function inFlight(seen: InFlight): Child {
  switch (seen.since) {
    case 'unknown':
      return html`<span class="none" title="more is in flight than the dashboard follows, or it could not be read">unknown</span>`;
    case 'new':
      return html`<span title="it was not there when the dashboard last looked">under ${duration(seen.seconds)}</span>`;
    case 'start':
      return html`<span title="it was there when the dashboard began to look">over ${duration(seen.seconds)}</span>`;
    default:
      return html`<span title="as the dashboard has seen it, which looks every few seconds">${duration(seen.seconds)}</span>`;
  }
}

function leaseTable(context: Context, list: readonly Lease[], none: string): Markup {
  const { server, sampler } = context;
  return table(
    [
      number('Task'),
      'Queue',
      'Name',
      'Tenant',
      'Progress',
      number('In flight for'),
      'Session',
      'State',
      number('Attempt'),
      number('Lease ends'),
      number('Process'),
    ],
    list.map((one) => [
      taskLink(one.queue, one.id),
      queueLink(one.queue),
      named(one.name),
      one.group_key === null ? '' : tenantLink(one.queue, one.group_key),
      progressBar(one.progress),
      inFlight(sampler.inFlight(one.receipt)),
      one.session === null ? NOTHING : sessionLink(one.session, one.session_name),
      leaseState(one),
      String(one.attempt),
      one.lease_until === null
        ? html`<span title="popped, or its session is over">no end</span>`
        : moment(one.lease_until, server.now),
      one.pid === null ? NOTHING : String(one.pid),
    ]),
    none,
  );
}

/** The leases of a page, and what of them comes next. */
async function leasePart(
  context: Context,
  path: string,
  of: { queue?: string | undefined; session?: string | undefined },
  none: string,
): Promise<Markup> {
  const { reader, params } = context;
  const afterQueue = params.text('afterqueue');
  const afterId = params.id('after');
  const after = afterQueue === undefined || afterId === undefined ? undefined : { queue: afterQueue, id: afterId };
  const list = await leases(reader, { ...of, after, limit: PAGE_ROWS + 1 });
  const shown = list.slice(0, PAGE_ROWS);
  const last = shown.at(-1);
  context.data['leases'] = shown.map((one) => ({ ...one, in_flight: context.sampler.inFlight(one.receipt) }));
  return html`${leaseTable(context, shown, none)}
        ${nextPage(
          context,
          path,
          list.length > PAGE_ROWS
            ? { queue: of.queue, id: of.session, afterqueue: last!.queue, after: last!.id }
            : undefined,
        )}`;
}

export async function leasesPage(context: Context): Promise<View> {
  const { reader, params, server } = context;
  const names = await queueNames(reader);
  const queue = params.text('queue') || undefined;
  const first = params.text('after') === undefined;
  const by = first ? await holders(reader, queue, HOLDERS) : [];
  context.data['connections'] = by;
  return {
    title: 'In flight',
    section: 'leases',
    refreshable: true,
    body: html`${queueChoice('/leases', names, queue, 'all')}
            <h2>By task</h2>${await leasePart(context, '/leases', { queue }, 'Nothing is in flight.')}
            ${
              by.length > 0 &&
              html`<h2>By connection</h2>${table(
                [
                  number('Process'),
                  'Application',
                  'Role',
                  'Client',
                  'Queue',
                  number('Tasks'),
                  number('First lease ends'),
                ],
                by.map((one) => holder(one, server.now)),
                '',
              )}
                ${by.length === HOLDERS && html`<p class="note">The ${HOLDERS} connections that hold most.</p>`}`
            }`,
  };
}

const clientOf = (one: Session): Child => one.client ?? html`<span class="none">local</span>`;

function states(one: Session): Markup[] {
  return [
    ...(one.alive_until === null ? [badge('over', 'bad')] : []),
    ...(one.quarantine ? [badge('quarantine', 'warn')] : []),
    ...(one.bound ? [badge('bound')] : []),
  ];
}

function sessionRow(one: Session, now: number): Child[] {
  return [
    sessionLink(one.session, one.name),
    clientOf(one),
    one.pid === null ? NOTHING : String(one.pid),
    one.application === null || one.application === '' ? '' : foreign(one.application),
    one.queues.map((queue, index) => html`${index > 0 && ', '}${queueLink(queue)}`),
    one.leases === 0
      ? '0'
      : html`<a href="${address('/session', { id: one.session })}">${count(one.leases)}</a>`,
    moment(one.opened_at, now),
    one.alive_until === null ? NOTHING : moment(one.alive_until, now),
    states(one),
    foreign(one.role),
  ];
}

export async function sessionsPage(context: Context): Promise<View> {
  const { reader, params, server } = context;
  const find = params.text('find') ?? '';
  const list = await sessions(reader, { find, after: params.uuid('after'), limit: PAGE_ROWS + 1 });
  const shown = list.slice(0, PAGE_ROWS);
  context.data['sessions'] = shown;
  const nobody = server.monitor ? 'No worker has a session.' : 'No worker of this role has a session.';
  return {
    title: 'Sessions',
    section: 'sessions',
    refreshable: true,
    body: html`<form class="filter" action="${address('/sessions')}">${input('find', 'Name, address or process has', find)}<button>Show</button></form>
            ${table(
              [
                'Name',
                'Client',
                number('Process', 'of the server, for the connection that opened it'),
                'Application',
                'Queues',
                number('Tasks'),
                number('Opened'),
                number('Ends', 'unless a heartbeat comes'),
                'State',
                'Role',
              ],
              shown.map((one) => sessionRow(one, server.now)),
              find === '' ? nobody : 'No session has this in its name, address or process.',
            )}
            <p class="note">A session is a worker's. Its queues are those that it has tasks of just now.</p>
            ${nextPage(context, '/sessions', list.length > PAGE_ROWS ? { find, after: shown.at(-1)!.session } : undefined)}`,
  };
}

export async function sessionPage(context: Context): Promise<View> {
  const { reader, params, server } = context;
  const id = params.uuid('id');
  const one = id === undefined ? undefined : await session(reader, id);
  if (one === undefined) {
    throw new Problem(404, `There is no session ${id ?? ''}.`, 'Its worker has ended, or it was lost.');
  }
  context.data['session'] = one;
  return {
    title: one.name === null || one.name === '' ? `Session ${one.session}` : `Session ${one.name}`,
    section: 'sessions',
    refreshable: true,
    body: html`<p>${states(one)}</p>${facts([
      ['session', html`<code>${one.session}</code>`],
      ['client', clientOf(one)],
      ['process of the server', one.pid === null ? NOTHING : String(one.pid)],
      ['application', one.application === null || one.application === '' ? NOTHING : foreign(one.application)],
      ['role', foreign(one.role)],
      ['opened', moment(one.opened_at, server.now)],
      ['ends unless a heartbeat comes', one.alive_until === null ? NOTHING : moment(one.alive_until, server.now)],
      ['time to live', duration(one.ttl)],
      ['tasks', count(one.leases)],
    ])}
            <h2>Its tasks</h2>${await leasePart(context, '/session', { session: one.session }, 'It has none.')}`,
  };
}
