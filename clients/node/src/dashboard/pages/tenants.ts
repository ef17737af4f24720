/** Tenants of a queue: what they wait for, and what they got beside what they are due. */

import { shareBar } from '../chart.js';
import { PAGE_ROWS, type Context, type View } from '../context.js';
import { findQueue, queueNames, type Queue } from '../data/queues.js';
import {
  keyOfTenant,
  settingsOfTenant,
  tenants,
  tenantSettings,
  tenantsOfId,
  tenantsOfKey,
  TENANT_ORDERS,
  type Tenant,
  type TenantOrder,
  type TenantSettings,
} from '../data/tenants.js';
import { subgroupCounts } from '../data/subgroups.js';
import { count, decimal, duration, NOTHING, percent } from '../format.js';
import { address, html, type Child, type Markup } from '../html.js';
import {
  actions,
  badge,
  groupParams,
  input,
  nextPage,
  notShown,
  number,
  queueChoice,
  queueLink,
  table,
  tabs,
  tenantLink,
} from '../layout.js';
import { limits, ownSettings, settingWord } from './limits.js';
import { ownTasks } from './parts.js';
import { subgroupsOfTenant } from './subgroups.js';

const TITLES: Record<TenantOrder, string> = {
  waiting: 'most waiting',
  oldest: 'longest wait',
  flight: 'most in flight',
  behind: 'furthest behind',
  served: 'most served',
};

/** How far a tenant is from its due, in costs; near zero is fair. */
function behind(value: number | null): string {
  if (value === null) {
    return NOTHING;
  }
  const rounded = Number(value.toPrecision(2));
  if (Math.abs(rounded) < 0.05) {
    return 'even';
  }
  return rounded > 0 ? `${decimal(rounded)} behind` : `${decimal(-rounded)} ahead`;
}

/** subgroups: how many of them with work groups have, by their keys as views show them, where groups are divided. */
function tenantTable(
  queue: string,
  list: readonly Tenant[],
  none: Child,
  subgroups?: ReadonlyMap<string, number>,
): Markup {
  const highest = Math.max(0, ...list.map((one) => Math.max(one.share ?? 0, one.expected_share ?? 0)));
  const columns = [
    'Tenant',
    number('Ready'),
    number('Overflow', subgroups === undefined ? 'waits for room' : 'waits in the subgroups'),
    number('In flight'),
    number('Longest wait'),
    number('Weight'),
    number('Served', 'since it was idle last'),
    number('Share', 'of what was served while it had work'),
    number('Due', 'its share by the weights of those that had work then'),
    'Share, and its due',
    number('Ahead or behind', 'of its due, in costs, which are tasks unless they say otherwise; a task or two is fair'),
    'Limits',
    ...(subgroups === undefined ? [] : [number('Subgroups', 'that have work')]),
  ];
  return table(
    columns,
    list.map((one) => [
      tenantLink(queue, one.group_key, one.cut ? one.group_id : undefined),
      count(one.ready),
      count(one.overflow),
      count(one.leased),
      duration(one.oldest_wait),
      decimal(one.weight),
      count(one.served),
      percent(one.share),
      percent(one.expected_share),
      shareBar(one.share, one.expected_share, highest),
      behind(one.behind),
      limits(one),
      ...(subgroups === undefined ? [] : [subgroupCount(queue, one, subgroups.get(one.group_id) ?? 0)]),
    ]),
    none,
  );
}

/** How many subgroups a tenant has with work, and the way to them; of a key that is cut off, that is from its page. */
function subgroupCount(queue: string, one: Tenant, subgroups: number): Child {
  return one.cut
    ? count(subgroups)
    : html`<a href="${address('/subgroups', { queue, group: one.group_key })}">${count(subgroups)}</a>`;
}

/** Tenants, with their subgroups counted where they have any. */
export async function tenantsOf(context: Context, queue: Queue, list: readonly Tenant[], none: Child): Promise<Markup> {
  const ids = list.map((one) => one.group_id);
  const counts = queue.subgroups ? await subgroupCounts(context.reader, queue.queue, ids) : undefined;
  return tenantTable(queue.queue, list, none, counts);
}

const EXPLAINED = html`<p class="note">A share is of what the queue has served while the tenant had work, and its due is
    what the weights of all that had work then give it. So a tenant that came late, or has finished, does not make the
    others look unfair. The balance is the difference: within a task or two the queue is fair. A tenant that is
    paused or at a limit falls behind, and the others get ahead by what it leaves.</p>`;

function settingsTable(queue: string, list: readonly TenantSettings[]): Markup {
  return table(
    ['Tenant', number('Weight'), number('In flight at most'), number('Claims a second'), number('Burst'), 'State'],
    list.map((one) => [
      tenantLink(queue, one.group_key),
      settingWord(one.weight),
      settingWord(one.max_leased),
      settingWord(one.rate),
      settingWord(one.burst),
      one.paused === true && badge('paused', 'warn'),
    ]),
    'No tenant of this queue was given anything.',
  );
}

async function workList(context: Context, queue: Queue, order: TenantOrder, find: string): Promise<Markup> {
  const rank = context.params.number('rank');
  const key = context.params.text('key');
  const id = context.params.uuid('id');
  const list = await tenants(context.reader, {
    queue: queue.queue,
    order,
    find,
    limit: PAGE_ROWS + 1,
    ...(rank !== undefined && key !== undefined && id !== undefined ? { after: { rank, key, id } } : {}),
  });
  const shown = list.slice(0, PAGE_ROWS);
  const last = shown.at(-1);
  context.data['tenants'] = shown;
  return html`${await tenantsOf(context, queue, shown, find === '' ? 'No tenant has work.' : 'No tenant with work has this in its key.')}
        ${nextPage(context, '/tenants', list.length > PAGE_ROWS ? { queue: queue.queue, order, find, rank: String(last!.rank), key: last!.group_key, id: last!.group_id } : undefined)}
        ${EXPLAINED}`;
}

async function settingsList(context: Context, queue: string, find: string): Promise<Markup> {
  const list = await tenantSettings(context.reader, queue, find, context.params.text('key'), PAGE_ROWS + 1);
  const shown = list.slice(0, PAGE_ROWS);
  context.data['settings'] = shown;
  return html`${settingsTable(queue, shown)}
        ${nextPage(context, '/tenants', list.length > PAGE_ROWS ? { queue, find, view: 'settings', key: shown.at(-1)!.group_key } : undefined)}`;
}

export async function tenantsPage(context: Context): Promise<View> {
  const { reader, params } = context;
  const names = await queueNames(reader);
  const asked = params.text('queue') || names[0];
  if (asked === undefined) {
    return {
      title: 'Tenants',
      section: 'tenants',
      body: html`<p class="none">There is no queue in this database.</p>`,
    };
  }
  const queue = await findQueue(reader, asked);
  const which = params.choice('view', ['work', 'settings'] as const) ?? 'work';
  const order = params.choice('order', TENANT_ORDERS) ?? 'waiting';
  const find = params.text('find') ?? '';
  const orders = TENANT_ORDERS.map(
    (one) => html`<option value="${one}"${one === order && html` selected`}>${TITLES[one]}</option>`,
  );
  const filters = html`${
    which === 'work'
      ? html`<label>First <select name="order">${orders}</select></label>`
      : html`<input type="hidden" name="view" value="settings">`
  }${input('find', 'Key has', find)}`;
  return {
    title: 'Tenants',
    section: 'tenants',
    refreshable: true,
    body: html`${queueChoice('/tenants', names, queue.queue, undefined, filters)}${tabs(
              ['With work', address('/tenants', { queue: queue.queue, view: 'work' }), which === 'work'],
              [
                'With settings of their own',
                address('/tenants', { queue: queue.queue, view: 'settings' }),
                which === 'settings',
              ],
            )}
            ${which === 'work' ? await workList(context, queue, order, find) : await settingsList(context, queue.queue, find)}`,
  };
}

/** A tenant of which no more is known than the beginning of its key. */
async function shortTenantPage(context: Context, queue: Queue, id: string, note: Child): Promise<View> {
  const list = await tenantsOfId(context.reader, queue.queue, id);
  context.data['tenant'] = list[0] ?? null;
  return {
    title: `Tenant ${list[0]?.group_key ?? id}`,
    section: 'tenants',
    refreshable: true,
    body: html`<p>of queue ${queueLink(queue.queue)}</p>
            ${tenantTable(queue.queue, list, 'No tenant of this id has work.')}
            ${note}${EXPLAINED}${await subgroupsOfTenant(context, queue, { id })}`,
  };
}

/** The page of a tenant by the id that lists have of it; its key is looked for. */
async function tenantPageOfId(context: Context, queue: Queue, id: string): Promise<View> {
  const key = await context.reader.attempt(() => keyOfTenant(context.reader, queue.queue, id));
  if (key.problem !== undefined) {
    return shortTenantPage(context, queue, id, notShown('Its key and its tasks are not shown.', key.problem));
  }
  if (key.value === undefined) {
    const note = html`<p class="note">The engine shows the beginning of its key. The whole was not found among the tasks
            that were looked at in the time of a page.</p>`;
    return shortTenantPage(context, queue, id, note);
  }
  return wholeTenantPage(context, queue, key.value);
}

export async function tenantPage(context: Context): Promise<View> {
  const { reader, params } = context;
  const queue = await findQueue(reader, params.required('queue'));
  const id = params.uuid('id');
  return id === undefined || params.text('group') !== undefined
    ? wholeTenantPage(context, queue, params.required('group'))
    : tenantPageOfId(context, queue, id);
}

async function wholeTenantPage(context: Context, queue: Queue, group: string): Promise<View> {
  const { reader } = context;
  const own = await settingsOfTenant(reader, queue.queue, group);
  const list = await tenantsOfKey(reader, queue.queue, group);
  const tasks = await ownTasks(context, queue, group);
  context.data['tenant'] = list[0] ?? null;
  context.data['settings'] = own ?? null;
  const of = { queue: queue.queue, group };
  return {
    title: group === '' ? 'Tasks without a group' : `Tenant ${group}`,
    section: 'tenants',
    refreshable: true,
    body: html`<p>of queue ${queueLink(queue.queue)}</p>
            ${actions(
              context,
              own?.paused === true ? ['resume-tenant', 'Resume', of] : ['pause-tenant', 'Pause', of],
              ['set-tenant', 'Weight and limits', of],
              own !== undefined && ['reset-tenant', 'Back to defaults', of],
              ['revive-dead', 'Revive its dead tasks', { queue: queue.queue, ...groupParams(group) }],
            )}
            ${tenantTable(queue.queue, list, 'It has no work: nothing ready, in the overflow or in flight.')}
            ${EXPLAINED}${await subgroupsOfTenant(context, queue, { key: group })}
            <h2>Settings of its own</h2>${ownSettings(own)}
            ${tasks}`,
  };
}

/** What a search by tenant finds, in all queues. */
export function foundTenants(list: readonly (Tenant & { queue: string })[]): Markup {
  return table(
    ['Queue', 'Tenant', number('Ready'), number('Overflow'), number('In flight'), number('Longest wait')],
    list.map((one) => [
      queueLink(one.queue),
      tenantLink(one.queue, one.group_key, one.cut ? one.group_id : undefined),
      count(one.ready),
      count(one.overflow),
      count(one.leased),
      duration(one.oldest_wait),
    ]),
    'None that has work.',
  );
}
