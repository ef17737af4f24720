/** Subgroups of a tenant, in queues whose groups are divided: what each waits for and got, and what it was given. */

import { shareBar } from '../chart.js';
import { PAGE_ROWS, type Context, type View } from '../context.js';
import { findQueue, type Queue } from '../data/queues.js';
import {
  settingsOfSubgroup,
  subgroups,
  subgroupSettings,
  subgroupsOfKey,
  type GroupName,
  type Subgroup,
  type SubgroupSettings,
} from '../data/subgroups.js';
import { count, decimal, percent } from '../format.js';
import { address, foreign, html, type Child, type Markup } from '../html.js';
import {
  actions,
  badge,
  groupParams,
  input,
  nextPage,
  number,
  queueLink,
  subgroupLink,
  subgroupParams,
  table,
  tabs,
  tenantLink,
} from '../layout.js';
import { limits, ownSettings, settingWord } from './limits.js';
import { ownTasks } from './parts.js';

/** Rows of the table on the page of a tenant. */
const FEW = 10;

const MOST_WAITING = 'Subgroups with work, those with most tasks waiting first';

const EXPLAINED = html`<p class="note">A share is of what the subgroups of the tenant were served, and its due is what the
    weights of those that have work now give it.</p>`;

/** Keys that are cut off lead nowhere; those of a tenant whose own was not found, neither: it has no group then. */
function subgroupTable(
  queue: string,
  group: string | undefined,
  list: readonly Subgroup[],
  none: Child,
  caption?: string,
): Markup {
  const highest = Math.max(0, ...list.map((one) => Math.max(one.share ?? 0, one.expected_share ?? 0)));
  return table(
    [
      'Subgroup',
      number('Waiting', 'in the overflow'),
      number('In flight'),
      number('Weight', 'between the subgroups of the tenant'),
      number('Served', 'since it was idle last'),
      number('Share', 'of what the subgroups of the tenant were served'),
      number('Due', 'its share by the weights of those that have work'),
      'Share, and its due',
      'Limits',
    ],
    list.map((one) => [
      group === undefined || one.cut ? foreign(one.subgroup_key) : subgroupLink(queue, group, one.subgroup_key),
      count(one.overflow),
      count(one.leased),
      decimal(one.weight),
      count(one.served),
      percent(one.share),
      percent(one.expected_share),
      shareBar(one.share, one.expected_share, highest),
      limits(one),
    ]),
    none,
    caption,
  );
}

/** The part of a tenant's page; nothing where groups are not divided. */
export async function subgroupsOfTenant(
  context: Context,
  queue: Queue,
  of: GroupName,
): Promise<Markup | false> {
  if (!queue.subgroups) {
    return false;
  }
  const group = 'key' in of ? of.key : undefined;
  const list = await subgroups(context.reader, { queue: queue.queue, group: of, find: '', from: '0', limit: FEW });
  return html`<h2>Its subgroups</h2>
            ${subgroupTable(queue.queue, group, list, 'None has work.', MOST_WAITING)}
            ${group !== undefined && html`<p class="next"><a href="${address('/subgroups', { queue: queue.queue, group })}">All its subgroups</a></p>`}
            ${EXPLAINED}`;
}

function settingsTable(queue: string, group: string, list: readonly SubgroupSettings[]): Markup {
  return table(
    ['Subgroup', number('Weight'), number('In flight at most'), number('Claims a second'), number('Burst'), 'Paused'],
    list.map((one) => [
      subgroupLink(queue, group, one.subgroup_key),
      settingWord(one.weight),
      settingWord(one.max_leased),
      settingWord(one.rate),
      settingWord(one.burst),
      one.paused && badge('paused', 'warn'),
    ]),
    'No subgroup of this tenant was given anything.',
  );
}

async function workList(context: Context, queue: string, group: string, find: string): Promise<Markup> {
  const from = context.params.id('from') ?? '0';
  const list = await subgroups(context.reader, { queue, group: { key: group }, find, from, limit: PAGE_ROWS + 1 });
  context.data['subgroups'] = list.slice(0, PAGE_ROWS);
  const next = { queue, group, find, from: String(BigInt(from) + BigInt(PAGE_ROWS)) };
  return html`${subgroupTable(
    queue,
    group,
    list.slice(0, PAGE_ROWS),
    find === '' ? 'No subgroup of this tenant has work.' : 'No subgroup with work has this in its key.',
    MOST_WAITING,
  )}
        ${nextPage(context, '/subgroups', list.length > PAGE_ROWS ? next : undefined)}
        ${EXPLAINED}`;
}

async function settingsList(context: Context, queue: string, group: string, find: string): Promise<Markup> {
  const after = context.params.text('key');
  const list = await subgroupSettings(context.reader, { queue, group, find, after, limit: PAGE_ROWS + 1 });
  const shown = list.slice(0, PAGE_ROWS);
  context.data['settings'] = shown;
  const next = { queue, group, find, view: 'settings', key: shown.at(-1)?.subgroup_key };
  return html`${settingsTable(queue, group, shown)}
        ${nextPage(context, '/subgroups', list.length > PAGE_ROWS ? next : undefined)}`;
}

const NOT_DIVIDED = html`<p class="none">Groups of this queue are not divided into subgroups
    (<code>subgroups</code> of <code>fairq.alter_queue</code>).</p>`;

export async function subgroupsPage(context: Context): Promise<View> {
  const { reader, params } = context;
  const queue = await findQueue(reader, params.required('queue'));
  const group = params.required('group');
  const which = params.choice('view', ['work', 'settings'] as const) ?? 'work';
  const find = params.text('find') ?? '';
  const of = { queue: queue.queue, group };
  const list = which === 'work' ? workList : settingsList;
  return {
    title: group === '' ? 'Subgroups without a group' : `Subgroups of ${group}`,
    section: 'tenants',
    refreshable: true,
    body: html`<p>of tenant ${tenantLink(queue.queue, group)} in queue ${queueLink(queue.queue)}</p>
            <form class="filter" action="${address('/subgroups')}"><input type="hidden" name="queue" value="${queue.queue}"><input
                type="hidden" name="group" value="${group}"><input type="hidden" name="view" value="${which}">${input(
                  'find',
                  'Key has',
                  find,
                )}<button>Show</button></form>
            ${tabs(
              ['With work', address('/subgroups', of), which === 'work'],
              ['With settings of their own', address('/subgroups', { ...of, view: 'settings' }), which === 'settings'],
            )}
            ${queue.subgroups ? await list(context, queue.queue, group, find) : NOT_DIVIDED}`,
  };
}

export async function subgroupPage(context: Context): Promise<View> {
  const { reader, params } = context;
  const queue = await findQueue(reader, params.required('queue'));
  const group = params.required('group');
  const key = params.required('subgroup');
  const title = key === '' ? 'Tasks without a subgroup' : `Subgroup ${key}`;
  const head = html`<p>of tenant ${tenantLink(queue.queue, group)} in queue ${queueLink(queue.queue)}</p>`;
  if (!queue.subgroups) {
    return { title, section: 'tenants', body: html`${head}${NOT_DIVIDED}` };
  }
  const own = await settingsOfSubgroup(reader, queue.queue, group, key);
  const list = await subgroupsOfKey(reader, queue.queue, group, key);
  const tasks = await ownTasks(context, queue, group, key);
  context.data['subgroup'] = list[0] ?? null;
  context.data['settings'] = own ?? null;
  const of = { queue: queue.queue, group, subgroup: key };
  return {
    title,
    section: 'tenants',
    refreshable: true,
    body: html`${head}
            ${actions(
              context,
              own?.paused === true ? ['resume-subgroup', 'Resume', of] : ['pause-subgroup', 'Pause', of],
              ['set-subgroup', 'Weight and limits', of],
              own !== undefined && ['reset-subgroup', 'Back to defaults', of],
              ['revive-dead', 'Revive its dead tasks', { queue: queue.queue, ...groupParams(group), ...subgroupParams(key) }],
            )}
            ${subgroupTable(queue.queue, group, list, 'It has no work: nothing that waits or is in flight.')}
            ${EXPLAINED}
            <h2>Settings of its own</h2>${ownSettings(own)}
            ${tasks}`,
  };
}
