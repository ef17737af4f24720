/** Leases and sessions: who works on what. */

import { PAGE_ROWS, type Context, type View } from '../context.js';
import { queueNames } from '../data/queues.js';
import { holders, leases, sessions, type Holder, type Lease } from '../data/workers.js';
import { count, duration, moment, NOTHING } from '../format.js';
import { foreign, html, type Child, type Markup } from '../html.js';
import { badge, nextPage, number, queueChoice, queueLink, table, taskLink } from '../layout.js';

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

function leaseState(one: Lease): Markup {
  return badge(one.state, one.state === 'expired' ? 'bad' : one.state === 'settling' ? '' : 'good');
}

export async function leasesPage(context: Context): Promise<View> {
  const { reader, params, server } = context;
  const names = await queueNames(reader);
  const queue = params.text('queue') || undefined;
  const afterQueue = params.text('afterqueue');
  const afterId = params.id('after');
  const after = afterQueue === undefined || afterId === undefined ? undefined : { queue: afterQueue, id: afterId };
  const list = await leases(reader, queue, after, PAGE_ROWS + 1);
  const shown = list.slice(0, PAGE_ROWS);
  const last = shown.at(-1);
  const by = after === undefined ? await holders(reader, queue, HOLDERS) : [];
  return {
    title: 'Leases',
    section: 'leases',
    refreshable: true,
    body: html`${queueChoice('/leases', names, queue, 'all')}
            ${
              after === undefined &&
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
                'Nothing is in flight.',
              )}
                ${by.length === HOLDERS && html`<p class="note">The ${HOLDERS} connections that hold most.</p>`}`
            }
            ${
              shown.length > 0 &&
              html`<h2>By task</h2>${table(
                ['Queue', number('Task'), 'State', number('Attempt'), number('Lease ends'), number('Process')],
                shown.map((one) => [
                  queueLink(one.queue),
                  taskLink(one.queue, one.id),
                  leaseState(one),
                  String(one.attempt),
                  one.lease_until === null
                    ? html`<span title="popped, or its session is over">no end</span>`
                    : moment(one.lease_until, server.now),
                  one.pid === null ? NOTHING : String(one.pid),
                ]),
                '',
              )}`
            }
            ${nextPage('/leases', list.length > PAGE_ROWS ? { queue, afterqueue: last!.queue, after: last!.id } : undefined)}`,
  };
}

export async function sessionsPage(context: Context): Promise<View> {
  const { reader, params, server } = context;
  const list = await sessions(reader, params.uuid('after'), PAGE_ROWS + 1);
  const shown = list.slice(0, PAGE_ROWS);
  return {
    title: 'Sessions',
    section: 'sessions',
    refreshable: true,
    body: html`${table(
      [
        'Session',
        'Name',
        'Role',
        number('Process'),
        number('Tasks'),
        number('Opened'),
        number('Ends unless a heartbeat comes'),
        number('Time to live'),
        '',
      ],
      shown.map((one) => [
        html`<code>${one.session}</code>`,
        one.name === null ? NOTHING : foreign(one.name),
        foreign(one.role),
        one.pid === null ? NOTHING : String(one.pid),
        count(one.leases),
        moment(one.opened_at, server.now),
        one.alive_until === null ? badge('over', 'bad') : moment(one.alive_until, server.now),
        duration(one.ttl),
        one.bound && badge('bound to its connection'),
      ]),
      server.monitor ? 'No worker has a session.' : 'No worker of this role has a session.',
    )}
            ${nextPage('/sessions', list.length > PAGE_ROWS ? { after: shown.at(-1)!.session } : undefined)}`,
  };
}
