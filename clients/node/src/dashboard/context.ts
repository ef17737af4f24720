/** What a page has at hand. */

import type { Reader } from './database.js';
import type { Server } from './data/server.js';
import type { AddressParams, Markup } from './html.js';
import type { Params } from './params.js';
import type { Sampler } from './sampler.js';
import type { Visit } from './visits.js';

export interface Context {
  path: string;
  params: Params;
  /** what the page has read, for programs: each page puts it there under names of its own */
  data: Record<string, unknown>;
  /** the address of this page with other parameters */
  withParams(changes: AddressParams): string;
  reader: Reader;
  server: Server;
  sampler: Sampler;
  /** whether pages have actions, for this visitor */
  writable: boolean;
  /** whether the script has asked for it, to bring a page up to date */
  live: boolean;
  /** whether a proxy says who visitors are, so that there is no signing out here */
  named: boolean;
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
  /** whether the page goes with the time, so that it is loaded again every few seconds */
  refreshable?: boolean;
}

export type Page = (context: Context) => Promise<View>;

/** Rows of a table on a page. */
export const PAGE_ROWS = 50;
