/** Which address is which page, and which action. */

import type { Action } from '../acts/action.js';
import { QUEUE } from '../acts/queue.js';
import { SCHEDULES } from '../acts/schedules.js';
import { TASKS } from '../acts/tasks.js';
import { TENANTS } from '../acts/tenant.js';
import type { Page } from '../context.js';
import { archiveList } from './archive.js';
import { deadPage } from './dead.js';
import { namesPage } from './names.js';
import { queuePage } from './queue.js';
import { queuesPage } from './queues.js';
import { schedulePage, schedulesPage } from './schedules.js';
import { searchPage } from './search.js';
import { settingsPage } from './settings.js';
import { subgroupPage, subgroupsPage } from './subgroups.js';
import { onePage, tasksPage } from './tasks.js';
import { tenantPage, tenantsPage } from './tenants.js';
import { wholeDonePage, wholePage, type TextPage } from './whole.js';
import { leasesPage, sessionPage, sessionsPage } from './workers.js';

export const PAGES: ReadonlyMap<string, Page> = new Map<string, Page>([
  ['/', queuesPage],
  ['/queue', queuePage],
  ['/names', namesPage],
  ['/tenants', tenantsPage],
  ['/tenant', tenantPage],
  ['/subgroups', subgroupsPage],
  ['/subgroup', subgroupPage],
  ['/tasks', tasksPage],
  ['/task', onePage],
  ['/dead', deadPage],
  ['/leases', leasesPage],
  ['/sessions', sessionsPage],
  ['/session', sessionPage],
  ['/schedules', schedulesPage],
  ['/schedule', schedulePage],
  ['/archive', archiveList],
  ['/search', searchPage],
  ['/settings', settingsPage],
]);

export const TEXTS: ReadonlyMap<string, TextPage> = new Map([
  ['/whole', wholePage],
  ['/whole-done', wholeDonePage],
]);

export const ACTIONS: ReadonlyMap<string, Action> = new Map(
  Object.entries({ ...QUEUE, ...TENANTS, ...TASKS, ...SCHEDULES }),
);
