/** The frame of every page, and the pieces that pages share. */

import type { Context, Section, View } from './context.js';
import { utc } from './format.js';
import type { Narrow } from './data/dead.js';
import { address, foreign, html, type AddressParams, type Child, type Markup } from './html.js';

const NAVIGATION: readonly (readonly [Section, string, string])[] = [
  ['queues', '/', 'Queues'],
  ['tenants', '/tenants', 'Tenants'],
  ['tasks', '/tasks', 'Tasks'],
  ['dead', '/dead', 'Dead'],
  ['leases', '/leases', 'In flight'],
  ['sessions', '/sessions', 'Sessions'],
  ['schedules', '/schedules', 'Schedules'],
  ['archive', '/archive', 'Done'],
  ['settings', '/settings', 'Settings'],
];

const REFRESH_SECONDS = [5, 30] as const;
/** How often pages that go with the time are loaded again, unless it is said. */
const LIVE_SECONDS = 5;

interface Frame {
  title: string;
  header: Child;
  main: Child;
  footer: Child;
  /** seconds after which the page is loaded again */
  refresh?: number | undefined;
  /** by a script where there is one; by the browser elsewhere, only if that was asked for */
  asked?: boolean;
}

function frame({ title, header, main, footer, refresh, asked }: Frame): Markup {
  const again =
    refresh !== undefined &&
    asked === true &&
    html`<noscript><meta http-equiv="refresh" content="${refresh}"></noscript>\n`;
  return html`<!doctype html>
<html lang="en"${refresh !== undefined && html` data-live="${refresh}"`}>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title} · pgfairq</title>
<link rel="stylesheet" href="${address('/style.css')}">
<link rel="icon" href="${address('/icon.svg')}" type="image/svg+xml">
${again}<script src="${address('/live.js')}" defer></script>
</head>
<body>
<a class="skip" href="#main">To the content</a>
<header>${header}</header>
<main id="main" tabindex="-1">${main}</main>
<footer>${footer}</footer>
</body>
</html>
`;
}

const brand = (): Markup => html`<a class="brand" href="${address('/')}"><svg viewBox="0 0 16 16" aria-hidden="true"><path
    d="M1 3h9M1 8h14M1 13h5"/></svg>pgfairq</a>`;

/** A page that needs no database: an error, or the one where a visitor signs in. */
export function plainPage(title: string, body: Markup): Markup {
  return frame({ title, header: brand(), main: html`<h1>${title}</h1>${body}`, footer: 'pgfairq dashboard' });
}

function navigation(view: View): Markup {
  const links = NAVIGATION.map(
    ([section, path, name]) =>
      html`<li><a href="${address(path)}"${section === view.section && html` aria-current="page"`}>${name}</a></li>`,
  );
  return html`<nav><ul>${links}</ul></nav>
        <form class="search" action="${address('/search')}" role="search"><input type="search" name="q"
            aria-label="Search" placeholder="id, tenant, name or unique key"><button>Search</button></form>`;
}

function refreshLinks(context: Context, current: number | undefined): Markup {
  const links = REFRESH_SECONDS.map((seconds) =>
    seconds === current
      ? html` <b>${seconds} s</b>`
      : html` <a href="${context.withParams({ refresh: seconds })}">${seconds} s</a>`,
  );
  const off =
    current === undefined ? html`<b>off</b>` : html`<a href="${context.withParams({ refresh: 'off' })}">off</a>`;
  return html`<span>live: ${off}${links} <span id="live" class="live"></span></span>`;
}

function warnings({ server, sampler }: Context): Markup[] {
  return [
    ...(server.standby
      ? [html`The server is a standby: leases, sessions and tenants are the primary's, and are not shown.`]
      : []),
    ...(server.monitor
      ? []
      : [
          html`The role ${foreign(server.role)} is not a member of <code>pg_monitor</code>, so only queues are shown whose tables it may read.`,
        ]),
    ...(sampler.failing === undefined ? [] : [html`The charts have a gap: ${sampler.failing}`]),
  ];
}

/** How the last action is undone, while it can be. */
function undoForm(context: Context): Markup | false {
  const { visit, writable } = context;
  const undo = visit?.undo;
  return (
    writable &&
    undo !== undefined &&
    undo.until > Date.now() &&
    html`<form method="post" action="${address('/undo')}" class="undo"><input type="hidden" name="csrf" value="${visit!.csrf}">
        <input type="hidden" name="undo" value="${undo.id}"><span>Done last: ${foreign(undo.says)}</span>
        <button>Undo</button></form>`
  );
}

export function fullPage(context: Context, view: View): Markup {
  const { server, visit, writable } = context;
  const asked = context.params.choice('refresh', ['off', ...REFRESH_SECONDS.map(String)]);
  const refresh = view.refreshable !== true || asked === 'off' ? undefined : Number(asked ?? LIVE_SECONDS);
  const notice = visit?.notice;
  // A page that the script loads does not take it from the one that the visitor comes to.
  if (visit !== undefined && !context.live) {
    visit.notice = undefined;
  }
  const header = html`<div class="top">${brand()}
        <span class="where">${foreign(server.database)} as ${foreign(server.role)}${
          writable ? html` <b class="badge warn">can write</b>` : html` <span class="badge">read-only</span>`
        }</span>
        ${
          visit !== undefined && context.named && html`<span class="where">${foreign(visit.user)}</span>`
        }${
          visit !== undefined &&
          !context.named &&
          html`<form method="post" action="${address('/sign-out')}"><input type="hidden" name="csrf"
            value="${visit.csrf}"><button class="plain">Sign out</button></form>`
        }</div>${navigation(view)}`;
  const main = html`${notice !== undefined && html`<p class="notice" role="status">${foreign(notice)}</p>`}
        ${undoForm(context)}${warnings(context).map((warning) => html`<p class="warning">${warning}</p>`)}
        <h1>${foreign(view.title)}</h1>${view.body}`;
  const footer = html`<span id="time">${utc(server.now)}</span><span>PostgreSQL ${server.version}, pgfairq ${server.extension}</span>
        ${view.refreshable === true && refreshLinks(context, refresh)}`;
  return frame({ title: view.title, header, main, footer, refresh, asked: asked !== undefined });
}

/** A column of a table: its name, and whether it has numbers. */
export type Column = string | { name: string; number?: boolean; title?: string; /** in place of the name */ shown?: Markup };

export function table(
  columns: readonly Column[],
  rows: readonly (readonly Child[])[],
  none: Child,
  caption?: string,
): Markup {
  if (rows.length === 0) {
    return html`<p class="none">${none}</p>`;
  }
  const parts = columns.map((column) => (typeof column === 'string' ? { name: column } : column));
  const head = parts.map(
    ({ name, number, title, shown }) =>
      html`<th scope="col" role="columnheader"${number === true && html` class="number"`}${
        title !== undefined && html` title="${title}"`
      }>${shown ?? name}</th>`,
  );
  const body = rows.map(
    (cells) =>
      html`<tr role="row">${cells.map(
        (cell, index) =>
          html`<td role="cell" data-name="${parts[index]!.name}"${parts[index]!.number === true && html` class="number"`}>${cell}</td>`,
      )}</tr>\n`,
  );
  // Roles are said, since on narrow screens rows are blocks, which are no rows to assistive software.
  return html`<div class="scroll"><table role="table">${
    caption !== undefined && html`<caption>${caption}</caption>`
  }<thead role="rowgroup"><tr role="row">${head}</tr></thead><tbody role="rowgroup">
${body}</tbody></table></div>`;
}

export function number(name: string, title?: string): Column {
  return title === undefined ? { name, number: true } : { name, number: true, title };
}

/** Names and values of one thing. */
export function facts(pairs: readonly (readonly [string, Child])[]): Markup {
  return html`<dl class="facts">${pairs.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

/** Large figures. */
export function figures(pairs: readonly (readonly [string, Child, string?])[]): Markup {
  return html`<dl class="figures">${pairs.map(
    ([name, value, level]) =>
      html`<div${level !== undefined && html` class="${level}"`}><dt>${name}</dt><dd>${value}</dd></div>`,
  )}</dl>`;
}

/** A page for programs. */
export const jsonPath = (path: string): string => `${path === '/' ? '/queues' : path}.json`;

/** The way to the next rows. */
export function nextPage(
  context: Context,
  path: string,
  params: AddressParams | undefined,
  words = 'Next page',
): Markup | false {
  context.data['next'] = params === undefined ? null : address(jsonPath(path), params);
  return params !== undefined && html`<p class="next"><a rel="next" href="${address(path, params)}">${words}</a></p>`;
}

/** That a part of the page cannot be shown, and why. */
export function notShown(what: string, why: Child, hint?: Child): Markup {
  return html`<p class="warning">${what} ${why}${hint !== undefined && html` ${hint}`}</p>`;
}

export function badge(text: string, level: '' | 'good' | 'warn' | 'bad' = ''): Markup {
  return html`<span class="badge ${level}">${text}</span>`;
}

export const queueLink = (queue: string): Markup =>
  html`<a href="${address('/queue', { queue })}">${foreign(queue)}</a>`;

export const taskLink = (queue: string, id: string): Markup =>
  html`<a href="${address('/task', { queue, id })}">${id}</a>`;

/** A session, by its name if it has one. */
export const sessionLink = (session: string, name: string | null): Markup =>
  html`<a href="${address('/session', { id: session })}">${name === null || name === '' ? html`<code>${session.slice(0, 8)}</code>` : foreign(name)}</a>`;

/** A tenant; one whose key is cut, by its id. */
export function tenantLink(queue: string, key: string, id?: string): Markup {
  if (id !== undefined) {
    return html`<a href="${address('/tenant', { queue, id })}">${foreign(key)}</a>`;
  }
  const name = key === '' ? html`<span class="none">(no group)</span>` : foreign(key);
  return html`<a href="${address('/tenant', { queue, group: key })}">${name}</a>`;
}

/** A subgroup of a tenant, by their whole keys. */
export function subgroupLink(queue: string, group: string, key: string): Markup {
  const name = key === '' ? html`<span class="none">(no subgroup)</span>` : foreign(key);
  return html`<a href="${address('/subgroup', { queue, group, subgroup: key })}">${name}</a>`;
}

/** A name of tasks, with the list of those that have it. */
export const nameLink = (list: '/tasks' | '/archive', queue: string, name: string): Markup =>
  html`<a href="${address(list, { queue, name })}">${foreign(name)}</a>`;

/** The parameters of a list that say which tenant it is of. */
export function groupParams(group: string | undefined): Record<string, string | undefined> {
  return group === '' ? { nogroup: '1' } : { group };
}

/** The same of a subgroup. */
export function subgroupParams(subgroup: string | undefined): Record<string, string | undefined> {
  return subgroup === '' ? { nosubgroup: '1' } : { subgroup };
}

export function narrowParams({ group, subgroup, name, error }: Narrow): AddressParams {
  return {
    ...groupParams(group),
    ...subgroupParams(subgroup),
    ...(name === '' ? { noname: '1' } : { name }),
    ...(error === '' ? { noerror: '1' } : { error }),
  };
}

/** Views of a page: their names, addresses, and which one this is. */
export function tabs(...views: readonly (readonly [name: string, path: string, here: boolean])[]): Markup {
  const links = views.map(([name, path, here]) =>
    here ? html`<b aria-current="true">${name}</b> ` : html`<a href="${path}">${name}</a> `,
  );
  return html`<p class="tabs">${links}</p>`;
}

/** A choice of queues above a list; without script, so with a button. */
export function queueChoice(
  path: string,
  names: readonly string[],
  chosen: string | undefined,
  all: string | undefined,
  others: Child = false,
): Markup {
  const options = names.map(
    (name) => html`<option value="${name}"${name === chosen && html` selected`}>${name}</option>`,
  );
  return html`<form class="filter" action="${address(path)}"><label>Queue <select name="queue">
        ${all !== undefined && html`<option value="">${all}</option>`}${options}</select></label>${others}<button>Show</button></form>`;
}

export function choice(
  name: string,
  label: string,
  words: readonly string[],
  chosen: string | undefined,
  all?: string,
): Markup {
  const options = words.map((word) => html`<option${word === chosen && html` selected`}>${word}</option>`);
  return html`<label>${label} <select name="${name}">${all !== undefined && html`<option value="">${all}</option>`}${options}</select></label>`;
}

export function input(name: string, label: string, value: string | undefined, placeholder = ''): Markup {
  return html`<label>${label} <input name="${name}" value="${value}" placeholder="${placeholder}"></label>`;
}

/** A field for a subgroup, where groups are divided. */
export function subgroupInput(divided: boolean, value: string | undefined): Markup | false {
  return divided && input('subgroup', 'Subgroup', value, 'the whole key');
}

export type ActionLink = readonly [name: string, words: string, params: AddressParams];

/** Links to actions' pages, where they are confirmed; nothing where the dashboard only reads. */
export function actions(context: Context, ...links: readonly (ActionLink | false)[]): Markup | false {
  const shown = links.filter((link) => link !== false);
  return (
    context.writable &&
    shown.length > 0 &&
    html`<p class="actions">${shown.map(
      ([name, words, params]) => html`<a class="button" href="${address(`/act/${name}`, params)}">${words}</a> `,
    )}</p>`
  );
}
