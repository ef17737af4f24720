/** The web server: which address is which page, and who may see it. */

import { createServer, type IncomingMessage, type Server as HttpServer, type ServerResponse } from 'node:http';

import { ACTIONS, numbersOf, perform, subjectOf, type Action } from './actions.js';
import type { Context, Page } from './context.js';
import type { Database } from './database.js';
import { server } from './data/server.js';
import { acceptedHosts, cameByTls, checkHost, checkOrigin, HEADERS, readForm } from './guard.js';
import { address, foreign, html, type Markup } from './html.js';
import { fullPage, plainPage } from './layout.js';
import type { Options } from './options.js';
import { archiveList } from './pages/archive.js';
import { confirmPage } from './pages/confirm.js';
import { namesPage } from './pages/names.js';
import { queuePage } from './pages/queue.js';
import { queuesPage } from './pages/queues.js';
import { schedulesPage } from './pages/schedules.js';
import { searchPage } from './pages/search.js';
import { settingsPage } from './pages/settings.js';
import { subgroupPage, subgroupsPage } from './pages/subgroups.js';
import { deadPage, onePage, tasksPage } from './pages/tasks.js';
import { tenantPage, tenantsPage } from './pages/tenants.js';
import { wholeDonePage, wholePage, type TextPage } from './pages/whole.js';
import { leasesPage, sessionsPage } from './pages/workers.js';
import { Params } from './params.js';
import { asProblem, Problem } from './problem.js';
import type { Sampler } from './sampler.js';
import { ICON, STYLE } from './style.js';
import { sameText, Visits, type Visit } from './visits.js';

const PAGES: ReadonlyMap<string, Page> = new Map<string, Page>([
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
  ['/schedules', schedulesPage],
  ['/archive', archiveList],
  ['/search', searchPage],
  ['/settings', settingsPage],
]);
const TEXTS: ReadonlyMap<string, TextPage> = new Map([
  ['/whole', wholePage],
  ['/whole-done', wholeDonePage],
]);

/** How long pages that are on their way are waited for at the end. */
const CLOSE_MS = 5000;

interface Answer {
  status: number;
  type: string;
  body: string;
  headers?: Record<string, string>;
}

const asHtml = (body: Markup, status = 200): Answer => ({
  status,
  type: 'text/html; charset=utf-8',
  body: body.toString(),
});
const asText = (body: string): Answer => ({ status: 200, type: 'text/plain; charset=utf-8', body });
const seeOther = (location: string, headers: Record<string, string> = {}): Answer => ({
  status: 303,
  type: 'text/plain; charset=utf-8',
  body: '',
  headers: { Location: location, ...headers },
});

function problemAnswer(problem: Problem): Answer {
  return asHtml(
    plainPage(
      'This did not work',
      html`<p class="warning">${foreign(problem.message)}</p>
        ${problem.hint !== undefined && html`<p>${foreign(problem.hint)}</p>`}<p class="next"><a href="/">To the queues</a></p>`,
    ),
    problem.status,
  );
}

function signInPage(wrong: boolean): Markup {
  return plainPage(
    'Sign in',
    html`${wrong && html`<p class="warning">This is not the token.</p>`}
        <form method="post" action="/sign-in" class="confirm"><div class="fields"><label>Token
        <input type="password" name="token" autocomplete="current-password" required autofocus>
        <span class="none">as the dashboard has printed it, or was given it</span></label></div>
        <p class="actions"><button>Sign in</button></p></form>`,
  );
}

/** A request that has passed the guards. */
interface Request {
  message: IncomingMessage;
  path: string;
  params: Params;
  query: URLSearchParams;
  visit: Visit | undefined;
}

export class Dashboard {
  private visits: Visits | undefined;
  private hosts: ReadonlySet<string> = new Set();
  /** those that are being made or sent */
  private readonly pages = new Set<Promise<void>>();

  constructor(
    private readonly options: Options,
    private readonly database: Database,
    private readonly sampler: Sampler,
  ) {}

  /** Listens, and answers from then on. */
  async listen(): Promise<HttpServer> {
    const http = createServer({ requestTimeout: 30_000, headersTimeout: 10_000 }, (request, response) => {
      const page = this.serve(request, response).finally(() => this.pages.delete(page));
      this.pages.add(page);
    });
    await new Promise<void>((resolve, reject) => {
      http.once('error', reject);
      http.listen(this.options.port, this.options.host, resolve);
    });
    const bound = http.address();
    const port = typeof bound === 'object' && bound !== null ? bound.port : this.options.port;
    if (this.options.token !== undefined) {
      // Cookies do not know ports, so dashboards on one machine have cookies of different names.
      this.visits = new Visits(this.options.token, `pgfairq_dashboard_${port}`);
    }
    this.hosts = acceptedHosts(this.options.host, port, this.options.names);
    return http;
  }

  /**
   * Takes no more requests, and ends when the pages that are on their way are there. Browsers keep
   * connections on which nothing was asked yet; these are not waited for.
   */
  async close(http: HttpServer): Promise<void> {
    http.close();
    const late = new Promise((resolve) => setTimeout(resolve, CLOSE_MS).unref());
    await Promise.race([Promise.all(this.pages), late]);
    http.closeAllConnections();
  }

  private async serve(message: IncomingMessage, response: ServerResponse): Promise<void> {
    const answer = await this.answer(message).catch((error: unknown) => problemAnswer(asProblem(error)));
    response.writeHead(answer.status, {
      ...HEADERS,
      ...answer.headers,
      'Content-Type': answer.type,
      'Content-Length': Buffer.byteLength(answer.body),
      // What was not read of a form that was refused is not taken for the next request.
      ...(message.complete ? {} : { Connection: 'close' }),
    });
    if (response.destroyed) {
      return;
    }
    await new Promise<void>((resolve) => {
      response.once('close', resolve);
      response.end(message.method === 'HEAD' ? undefined : answer.body);
    });
  }

  private async answer(message: IncomingMessage): Promise<Answer> {
    checkHost(message, this.hosts);
    const [path, search = ''] = (message.url ?? '/').split(/\?(.*)/s) as [string, string?];
    const query = new URLSearchParams(search);
    if (path === '/style.css') {
      return {
        status: 200,
        type: 'text/css; charset=utf-8',
        body: STYLE,
        headers: { 'Cache-Control': 'max-age=300' },
      };
    }
    if (path === '/icon.svg' || path === '/favicon.ico') {
      return { status: 200, type: 'image/svg+xml', body: ICON, headers: { 'Cache-Control': 'max-age=86400' } };
    }
    const visit = this.visits?.find(message.headers.cookie);
    const request = { message, path, query, params: new Params(query), visit };
    switch (message.method) {
      case 'GET':
      case 'HEAD':
        return this.get(request);
      case 'POST':
        return this.post(request);
      default:
        return {
          ...problemAnswer(new Problem(405, 'Only GET, HEAD and POST are answered.')),
          headers: { Allow: 'GET, HEAD, POST' },
        };
    }
  }

  private async get(request: Request): Promise<Answer> {
    const { path, visit } = request;
    if (this.visits !== undefined && visit === undefined) {
      return path === '/sign-in' ? asHtml(signInPage(false)) : seeOther('/sign-in');
    }
    const page = PAGES.get(path);
    const text = TEXTS.get(path);
    const action = path.startsWith('/act/') ? this.action(path) : undefined;
    if (page !== undefined) {
      return asHtml(await this.inContext(request, async (context) => fullPage(context, await page(context))));
    }
    if (text !== undefined) {
      return asText(await this.inContext(request, text));
    }
    if (action !== undefined) {
      return asHtml(await this.confirm(request, action, undefined));
    }
    throw new Problem(404, 'There is no such page.');
  }

  private async post(request: Request): Promise<Answer> {
    const { message, path, visit } = request;
    checkOrigin(message);
    const fields = await readForm(message);
    const form = new Params(fields);
    if (path === '/sign-in') {
      return this.signIn(form.required('token'), message);
    }
    if (this.visits === undefined) {
      throw new Problem(403, 'This dashboard only reads.', 'Start it with --write, if it is to do this.');
    }
    if (visit === undefined) {
      throw new Problem(401, 'You have not signed in, or the dashboard was started anew.', 'Sign in, and do it again.');
    }
    if (!sameText(form.text('csrf') ?? '', visit.csrf)) {
      throw new Problem(403, 'This does not come from a page of your visit.');
    }
    if (path === '/sign-out') {
      return seeOther('/sign-in', { 'Set-Cookie': this.visits.signOut(message.headers.cookie) });
    }
    return this.act(request, form);
  }

  private signIn(token: string, message: IncomingMessage): Answer {
    const address = message.socket.remoteAddress ?? '';
    if (this.visits?.isGuessing(address) === true) {
      throw new Problem(429, 'Too many wrong tokens have come from this address.', 'Try again in a minute.');
    }
    const cookie = this.visits?.signIn(token, address, cameByTls(message));
    if (cookie === undefined) {
      return asHtml(signInPage(true), 403);
    }
    return seeOther('/', { 'Set-Cookie': cookie });
  }

  private async act(request: Request, form: Params): Promise<Answer> {
    const action = this.action(request.path);
    if (form.text('confirmed') !== 'yes') {
      return asHtml(await this.confirm(request, action, form));
    }
    const subject = subjectOf(action, request.params);
    request.visit!.notice = await perform(this.database, action, subject, numbersOf(action, form));
    return seeOther(action.then(subject));
  }

  /** The action of a path; only where there are any. */
  private action(path: string): Action {
    const action = ACTIONS.get(path.slice('/act/'.length));
    if (!path.startsWith('/act/') || action === undefined) {
      throw new Problem(404, 'There is no such page.');
    }
    if (!this.options.write) {
      throw new Problem(403, 'This dashboard only reads.', 'Start it with --write, if it is to do this.');
    }
    return action;
  }

  private confirm(request: Request, action: Action, form: Params | undefined): Promise<Markup> {
    return this.inContext(request, async (context) => fullPage(context, await confirmPage(context, action, form)));
  }

  /** Gives work a transaction that only reads. */
  private inContext<T>(request: Request, work: (context: Context) => Promise<T>): Promise<T> {
    const { path, params, query, visit } = request;
    return this.database.read(async (reader) =>
      work({
        path,
        params,
        withParams: (changes) => address(path, { ...Object.fromEntries(query), ...changes }),
        database: this.database,
        reader,
        server: await server(reader),
        sampler: this.sampler,
        writable: this.options.write,
        visit,
      }),
    );
  }
}
