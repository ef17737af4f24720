/** How much of the server's settings is in use, and whether the background worker is there. */

import { fillBar } from '../chart.js';
import type { Context, View } from '../context.js';
import { backgroundWorkers, overdueLeases, settingsInUse, type Worker } from '../data/server.js';
import { count, duration, NOTHING, percent } from '../format.js';
import { foreign, html, type Markup } from '../html.js';
import { badge, facts, notShown, number, table } from '../layout.js';

const MEANING: Record<string, string> = {
  max_queues: 'queues',
  max_lanes: 'buckets × classes in use',
  max_groups: 'tenants and subgroups with work (more, if they use several classes)',
  max_limits: 'tenants and subgroups with settings of their own (and where defaults limit: those with work)',
  max_leases: 'tasks in flight',
  max_sessions: 'sessions',
  max_schedules: 'schedules',
  max_names: 'names of tasks, once for each queue',
};

function workers(context: Context, list: readonly Worker[]): Markup {
  const { server } = context;
  const here = list.filter((one) => one.database === server.database);
  const missing =
    here.length === 0 &&
    !server.standby &&
    notShown(
      'There is no background worker of this database.',
      'Retries, schedules and tasks of lost workers wait. See the server’s log.',
    );
  return html`${missing}${table(
    [number('Process'), 'Database', 'Waits for', number('In a transaction for')],
    list.map((one) => [
      String(one.pid),
      one.database === null ? NOTHING : foreign(one.database),
      one.wait_event ?? NOTHING,
      duration(one.in_transaction),
    ]),
    'None.',
  )}`;
}

export async function settingsPage(context: Context): Promise<View> {
  const { reader, server } = context;
  const use = await settingsInUse(reader);
  const overdue = await overdueLeases(reader);
  const list = await backgroundWorkers(reader);
  context.data['settings'] = use;
  context.data['workers'] = list;
  context.data['overdueLeases'] = overdue;
  const rows = use.map((one) => [
    html`<code>pgfairq.${one.setting}</code>`,
    MEANING[one.setting] ?? '',
    count(one.used),
    count(one.available),
    percent(one.used / one.available),
    fillBar(one.used / one.available),
  ]);
  return {
    title: 'Settings in use',
    section: 'settings',
    refreshable: true,
    body: html`${table(['Setting', 'Counts', number('Used here'), number('There are'), number('In use'), 'How full'], rows, '')}
            <p class="note">What this database uses of settings that are for all databases of the server together
            (but <code>max_schedules</code>, which is for each). When one is reached, the call that needs one more fails, and nothing is lost;
            further names are counted together.</p>
            <h2>Background worker</h2>
            ${
              overdue > 0 &&
              html`<p>${badge(`${count(overdue)} leases are overdue`, 'bad')} They ran out more than ten seconds ago, and their
            tasks are not put back: is the worker at work?</p>`
            }
            ${workers(context, list)}
            <h2>This dashboard</h2>
            ${facts([
              ['database', foreign(server.database)],
              ['role', foreign(server.role)],
              ['member of pg_monitor', server.monitor ? 'yes' : 'no'],
              ['PostgreSQL', server.version],
              ['pgfairq', server.extension ?? NOTHING],
              ['standby', server.standby ? 'yes' : 'no'],
              ['can write', context.writable ? 'yes' : 'no'],
            ])}`,
  };
}
