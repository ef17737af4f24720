/** The web server: which address is which page, and who may see it. */

import { createServer, type IncomingMessage, type Server as HttpServer, type ServerResponse } from 'node:http';

import { givenOf, subjectOf, type Action, type Done } from './acts/action.js';
import type { Audit } from './audit.js';
import type { Context, Page } from './context.js';
import { NotCounted, type Database, type Reader } from './database.js';
import { server } from './data/server.js';
import { acceptedHosts, bearerOf, cameByTls, checkHost, checkOrigin, HEADERS, readForm, wantsJson } from './guard.js';
import { address, foreign, html, withoutBase, type Markup } from './html.js';
import { fullPage, plainPage } from './layout.js';
import { LIVE } from './live.js';
import type { Options } from './options.js';
import { ACTIONS, PAGES, TEXTS } from './pages/all.js';
import { confirmPage } from './pages/confirm.js';
import { Params } from './params.js';
import { asProblem, Problem } from './problem.js';
import { visitOf } from './roles.js';
import type { Sampler } from './sampler.js';
import { ICON, STYLE } from './style.js';
import { sameText, UNDO_MS, Visits, newToken, type Visit } from './visits.js';

interface Answer {
  status: number;
  type: string;
  body: string;
  headers?: Record<string, string>;
}

/** How long pages that are on their way are waited for at the end. */
const CLOSE_MS = 5000;
/** So long what /healthz has found is told again, however often it is asked. */
const HEALTH_MS = 1000;

const NO_WAY_TO_WRITE = 'Start it with --write, if it is to do this.';
const STATIC: ReadonlyMap<string, Answer> = new Map<string, Answer>([
  ['/style.css', { status: 200, type: 'text/css; charset=utf-8', body: STYLE, headers: { 'Cache-Control': 'max-age=300' } }],
  ['/live.js', { status: 200, type: 'text/javascript; charset=utf-8', body: LIVE, headers: { 'Cache-Control': 'max-age=300' } }],
  ...(['/icon.svg', '/favicon.ico'] as const).map(
    (path) => [path, { status: 200, type: 'image/svg+xml', body: ICON, headers: { 'Cache-Control': 'max-age=86400' } }] as const,
  ),
]);


const asHtml = (body: Markup, status = 200): Answer => ({
  status,
  type: 'text/html; charset=utf-8',
  body: body.toString(),
});
const asJson = (data: unknown, status = 200, headers?: Record<string, string>): Answer => ({
  status,
  type: 'application/json; charset=utf-8',
  body: `${JSON.stringify(data)}\n`,
  ...(headers === undefined ? {} : { headers }),
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
        ${problem.hint !== undefined && html`<p>${foreign(problem.hint)}</p>`}<p class="next"><a href="${address('/')}">To the queues</a></p>`,
    ),
    problem.status,
  );
}

function signInPage(wrong: boolean): Markup {
  return plainPage(
    'Sign in',
    html`${wrong && html`<p class="warning">This is not the token.</p>`}
        <form method="post" action="${address('/sign-in')}" class="confirm"><div class="fields"><label>Token
        <input type="password" name="token" autocomplete="current-password" required autofocus>
        <span class="none">as the dashboard has printed it, or was given it</span></label></div>
        <p class="actions"><button>Sign in</button></p></form>`,
  );
}

/** A page with its frame; while there are no figures for it, what says so, and is brought up to date as the page is. */
async function htmlOf(context: Context, page: Page): Promise<Answer> {
  try {
    return asHtml(fullPage(context, await page(context)));
  } catch (error) {
    if (!(error instanceof NotCounted)) {
      throw error;
    }
    const body = html`<p class="warning">${error.message}</p><p>${error.hint}</p>`;
    return asHtml(fullPage(context, { title: 'No figures yet', refreshable: true, body }), error.status);
  }
}

/** A request that has passed the guards. */
interface Request {
  message: IncomingMessage;
  path: string;
  params: Params;
  query: URLSearchParams;
  visit: Visit | undefined;
  /** whether a program asks, and is answered with JSON */
  json: boolean;
}

/** The path of a page, and whether JSON is wanted of it: it ends so, or a program says so. */
function target(message: IncomingMessage): { path: string; search: string; json: boolean } {
  const [whole, search = ''] = (message.url ?? '/').split(/\?(.*)/s) as [string, string?];
  const path = withoutBase(whole);
  if (path.endsWith('.json')) {
    const page = path.slice(0, -'.json'.length);
    return { path: page === '/queues' ? '/' : page, search, json: true };
  }
  return { path, search, json: wantsJson(message) };
}

export class Dashboard {
  private visits: Visits | undefined;
  private hosts: ReadonlySet<string> = new Set();
  /** those that are being made or sent */
  private readonly pages = new Set<Promise<void>>();
  private health: { at: number; answer: Promise<Answer> } | undefined;

  constructor(
    private readonly options: Options,
    private readonly database: Database,
    private readonly sampler: Sampler,
    private readonly audit: Audit,
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
    const { token, userHeader, basePath } = this.options;
    if (token !== undefined || userHeader !== undefined) {
      // Cookies do not know ports, so dashboards on one machine have cookies of different names.
      this.visits = new Visits(token, `pgfairq_dashboard_${port}`, `${basePath}/`);
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
    const json = message.method !== 'POST' && target(message).json;
    const answer = await this.answer(message).catch((error: unknown) => {
      const problem = asProblem(error);
      return json
        ? asJson({ error: problem.message, hint: problem.hint ?? null }, problem.status)
        : problemAnswer(problem);
    });
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
    const { path, search, json } = target(message);
    const reads = message.method === 'GET' || message.method === 'HEAD';
    // Before the guards: a probe names no host, has not signed in, and learns nothing else.
    if (path === '/healthz' && reads) {
      return this.healthy();
    }
    checkHost(message, this.hosts);
    const fixed = json ? undefined : STATIC.get(path);
    if (fixed !== undefined && reads) {
      return fixed;
    }
    const query = new URLSearchParams(search);
    const visit = visitOf(message, this.options, this.visits);
    const request = { message, path, query, params: new Params(query), visit, json };
    if (reads) {
      return this.get(request);
    }
    if (message.method === 'POST') {
      return this.post(request);
    }
    return {
      ...problemAnswer(new Problem(405, 'Only GET, HEAD and POST are answered.')),
      headers: { Allow: 'GET, HEAD, POST' },
    };
  }

  /** Whether the database answers; asked for once a second at most. */
  private healthy(): Promise<Answer> {
    if (this.health === undefined || this.health.at < performance.now() - HEALTH_MS) {
      const answer = this.database.read((reader) => server(reader)).then(
        ({ extension }) => ({ ...asText(extension === null ? 'no extension\n' : 'ok\n'), status: extension === null ? 503 : 200 }),
        () => ({ ...asText('database out of reach\n'), status: 503 }),
      );
      this.health = { at: performance.now(), answer };
    }
    return this.health.answer;
  }

  /** Whether a program has the token with it; a wrong one is refused. */
  private hasToken({ message, json }: Request): boolean {
    const token = json ? bearerOf(message) : undefined;
    if (token === undefined) {
      return false;
    }
    const from = message.socket.remoteAddress ?? '';
    this.checkGuesses(from);
    if (!this.visits!.isToken(token, from)) {
      throw new Problem(401, 'This is not the token.');
    }
    return true;
  }

  private async get(request: Request): Promise<Answer> {
    const { path, visit, json } = request;
    if (this.visits !== undefined && visit === undefined && !this.hasToken(request)) {
      if (json) {
        throw new Problem(401, 'You have not signed in.', 'Send the token: Authorization: Bearer TOKEN');
      }
      return path === '/sign-in' ? asHtml(signInPage(false)) : seeOther(address('/sign-in'));
    }
    const page = PAGES.get(path);
    const text = TEXTS.get(path);
    const action = path.startsWith('/act/') ? this.action(request) : undefined;
    if (page !== undefined && json) {
      return this.inContext(request, async (context) => {
        const { title } = await page(context);
        const { database, role, now } = context.server;
        return asJson({ title, database, role, now, ...context.data }, 200, { Vary: 'Accept' });
      });
    }
    if (page !== undefined) {
      return this.inContext(request, (context) => htmlOf(context, page));
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
    const form = new Params(await readForm(message, visit !== undefined));
    // Who is named by a proxy has no cookie; one could name the visit of somebody else.
    const byToken = this.options.userHeader === undefined;
    if (path === '/sign-in' && byToken) {
      return this.signIn(form.required('token'), message);
    }
    if (this.visits === undefined) {
      throw new Problem(403, 'This dashboard only reads.', NO_WAY_TO_WRITE);
    }
    if (visit === undefined) {
      throw new Problem(401, 'You have not signed in, or the dashboard was started anew.', 'Sign in, and do it again.');
    }
    if (!sameText(form.text('csrf') ?? '', visit.csrf)) {
      throw new Problem(403, 'This does not come from a page of your visit.');
    }
    if (path === '/sign-out' && byToken) {
      return seeOther(address('/sign-in'), { 'Set-Cookie': this.visits.signOut(message.headers.cookie) });
    }
    return path === '/undo' ? this.undo(request, form) : this.act(request, form);
  }

  private checkGuesses(from: string): void {
    if (this.visits?.isGuessing(from) === true) {
      throw new Problem(429, 'Too many wrong tokens have come from this address.', 'Try again in a minute.');
    }
  }

  private signIn(token: string, message: IncomingMessage): Answer {
    const from = message.socket.remoteAddress ?? '';
    this.checkGuesses(from);
    const cookie = this.visits?.signIn(token, from, cameByTls(message));
    if (cookie === undefined) {
      return asHtml(signInPage(true), 403);
    }
    return seeOther(address('/'), { 'Set-Cookie': cookie });
  }

  /** Does it in a transaction, and writes down who did what before that is committed. */
  private async audited(
    { message, visit }: Request,
    what: { action: string; subject: Record<string, unknown> },
    work: (writer: Reader) => Promise<Done>,
  ): Promise<Done> {
    const entry = { user: visit!.user, address: message.socket.remoteAddress ?? '', ...what };
    try {
      return await this.database.write(async (writer) => {
        const done = await work(writer);
        this.audit.write({ ...entry, outcome: done.says });
        return done;
      });
    } catch (error) {
      this.audit.write({ ...entry, error: asProblem(error).message });
      throw error;
    }
  }

  private async act(request: Request, form: Params): Promise<Answer> {
    const action = this.action(request);
    const visit = request.visit!;
    if (form.text('confirmed') !== 'yes') {
      return asHtml(await this.confirm(request, action, form));
    }
    const subject = subjectOf(action, request.params);
    const given = givenOf(action, form);
    const what = { action: request.path.slice('/act/'.length), subject: auditable(subject, given) };
    const done = await this.audited(request, what, (writer) => action.perform(writer, subject, given));
    visit.notice = done.says;
    visit.undo =
      done.undo === undefined
        ? undefined
        : { id: newToken(), says: done.says, run: done.undo, until: Date.now() + UNDO_MS, to: action.then(subject) };
    return seeOther(done.to ?? action.then(subject));
  }

  /** Takes the last action back, once. */
  private async undo(request: Request, form: Params): Promise<Answer> {
    const visit = request.visit!;
    this.mayAct(request);
    const { undo } = visit;
    if (undo === undefined || undo.until < Date.now() || form.text('undo') !== undo.id) {
      throw new Problem(409, 'There is nothing to undo any more.', 'What was done longer than ten minutes ago, or before something else, stays.');
    }
    visit.undo = undefined;
    try {
      const what = { action: 'undo', subject: { of: undo.says } };
      visit.notice = (await this.audited(request, what, async (writer) => ({ says: await undo.run(writer) }))).says;
    } catch (error) {
      visit.undo = undo;
      throw error;
    }
    return seeOther(undo.to);
  }

  private mayAct({ visit }: Request): void {
    if (!this.options.write) {
      throw new Problem(403, 'This dashboard only reads.', NO_WAY_TO_WRITE);
    }
    if (visit?.operator !== true) {
      throw new Problem(
        403,
        'You may look, and not act.',
        `The proxy has to say that you have the role ${this.options.operatorRole}.`,
      );
    }
  }

  /** The action of a path; only where there are any. */
  private action(request: Request): Action {
    const { path } = request;
    const action = ACTIONS.get(path.slice('/act/'.length));
    if (!path.startsWith('/act/') || action === undefined) {
      throw new Problem(404, 'There is no such page.');
    }
    this.mayAct(request);
    return action;
  }

  private confirm(request: Request, action: Action, form: Params | undefined): Promise<Markup> {
    return this.inContext(request, async (context) => fullPage(context, await confirmPage(context, action, form)));
  }

  /** Gives work a transaction that only reads. */
  private inContext<T>(request: Request, work: (context: Context) => Promise<T>): Promise<T> {
    const { message, path, params, query, visit } = request;
    return this.database.read(async (reader) =>
      work({
        path,
        params,
        data: {},
        withParams: (changes) => address(path, { ...allOf(query), ...changes }),
        reader,
        server: await server(reader),
        sampler: this.sampler,
        writable: this.options.write && visit?.operator === true,
        live: message.headers['x-live'] !== undefined,
        named: this.options.userHeader !== undefined,
        visit,
      }),
    );
  }
}

/** The parameters of a query; those that are given more than once, as lists. */
function allOf(query: URLSearchParams): Record<string, string | string[]> {
  return Object.fromEntries(
    [...new Set(query.keys())].map((name) => {
      const values = query.getAll(name);
      return [name, values.length === 1 ? values[0]! : values];
    }),
  );
}

/** Of what an action is about, and was given, what is written down: payloads are not. */
function auditable(subject: object, given: Record<string, unknown>): Record<string, unknown> {
  const said = Object.entries(subject).filter(
    ([, value]) => value !== '' && !(typeof value === 'object' && Object.keys(value as object).length === 0),
  );
  const values = Object.entries(given).map(([name, value]) => [
    name,
    name === 'payload' ? `${String(value).length} characters` : value,
  ]);
  return { ...Object.fromEntries(said), ...(values.length > 0 ? { given: Object.fromEntries(values) } : {}) };
}
