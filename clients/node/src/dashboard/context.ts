/** What a page has at hand. */

import type { Database, Reader } from './database.js';
import type { Server } from './data/server.js';
import type { Markup } from './html.js';
import type { Params } from './params.js';
import type { Sampler } from './sampler.js';
import type { Visit } from './visits.js';

export interface Context {
  path: string;
  params: Params;
  /** the address of this page with other parameters */
  withParams(changes: Record<string, string | number | undefined>): string;
  database: Database;
  reader: Reader;
  server: Server;
  sampler: Sampler;
  /** whether pages have actions */
  writable: boolean;
  /** who has signed in; undefined where that is not asked for */
  visit: Visit | undefined;
}

export const SECTIONS = [
  'queues',
  'tenants',
  'tasks',
  'dead',
  'leases',
  'sessions',
  'schedules',
  'archive',
  'settings',
] as const;
export type Section = (typeof SECTIONS)[number];

/** What a page says; the frame around it is that of all pages. */
export interface View {
  title: string;
  section?: Section;
  body: Markup;
  /** whether the page may be asked to load itself again every few seconds */
  refreshable?: boolean;
}

export type Page = (context: Context) => Promise<View>;

/** Rows of a table on a page. */
export const PAGE_ROWS = 50;
