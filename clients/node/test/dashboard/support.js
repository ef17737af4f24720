/** What the tests share: databases, dashboards, a browser, and requests that a browser would not send. */
'use strict';

const assert = require('node:assert/strict');
const { spawn, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const http = require('node:http');
const os = require('node:os');
const path = require('node:path');
const { after } = require('node:test');
const { Client } = require('pg');
const { chromium } = require('playwright-core');

const MAIN = path.join(__dirname, '../../dist/dashboard/main.js');
const PATIENCE = 120_000;
let databases = 0;

/** What is to be ended at the end of a file, also when one of its tests has failed before it did so. */
const open = new Set();
/** The databases of a file: each has a background worker, of which the server has no more than eight. */
const made = [];
after(async () => {
  await Promise.all([...open].map((end) => end().catch(() => undefined)));
  if (made.length > 0) {
    const admin = await connect('postgres');
    for (const name of made) {
      await admin.query(`DROP DATABASE ${name} WITH (FORCE)`);
    }
    await admin.end();
  }
});

async function connect(database, user = 'postgres') {
  const client = new Client({ host: process.env.PGHOST, user, database });
  client.on('error', () => undefined);
  await client.connect();
  open.add(() => client.end());
  return client;
}

/** A database of its own with the extension in it, and a client of it. */
async function newDatabase() {
  databases += 1;
  const name = `dashboard_${process.pid}_${databases}`;
  const admin = await connect('postgres');
  await admin.query(`CREATE DATABASE ${name}`);
  made.push(name);
  await admin.end();
  const client = await connect(name);
  await client.query('CREATE EXTENSION pgfairq');
  return { name, client };
}

/** A role that can log in, with what it is granted. */
async function newRole(client, name, ...grants) {
  await client.query(`DO $$ BEGIN CREATE ROLE ${name} LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$`);
  for (const grant of grants) {
    await client.query(`${grant} TO ${name}`);
  }
  return name;
}

/** The role the dashboard is made for: pg_monitor and SELECT. */
function viewer(client) {
  return newRole(client, 'viewer', 'GRANT pg_monitor', 'GRANT SELECT ON ALL TABLES IN SCHEMA fairq');
}

async function until(condition, what) {
  const end = Date.now() + PATIENCE;
  for (;;) {
    const value = await condition();
    if (value) {
      return value;
    }
    if (Date.now() > end) {
      throw new Error(`not within ${PATIENCE / 1000} s: ${what}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

function environment(database, user, more) {
  const clean = { ...process.env, PGDATABASE: database, PGUSER: user, ...more };
  delete clean.DATABASE_URL;
  return { ...clean, ...more };
}

/** Starts a dashboard at a free port, and waits until it says its address. */
async function start(database, user, args = [], more = {}) {
  const child = spawn(process.execPath, [MAIN, '--listen', '0', '--sample', '1', ...args], {
    env: environment(database, user, more),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  let errors = '';
  child.stdout.on('data', (chunk) => (output += chunk));
  child.stderr.on('data', (chunk) => (errors += chunk));
  const ended = new Promise((resolve) => child.once('exit', (code, signal) => resolve({ code, signal })));
  open.add(async () => child.kill('SIGKILL'));
  let over = false;
  void ended.then(() => (over = true));
  await until(() => over || /http:\S+\/\n/.test(output), 'the address of the dashboard');
  if (over) {
    throw new Error(`the dashboard has ended: ${errors}`);
  }
  const base = /http:\/\/\S+(?=\/)/.exec(output)[0];
  return {
    base,
    pid: child.pid,
    port: Number(new URL(base).port),
    token: /token to sign in: +(\S+)/.exec(output)?.[1],
    errors: () => errors,
    signal: (signal) => child.kill(signal),
    ended,
    async stop() {
      child.kill('SIGTERM');
      return ended;
    },
  };
}

/** Runs one that is to end by itself. */
function runToEnd(args, database = 'postgres', user = 'postgres', more = {}) {
  return spawnSync(process.execPath, [MAIN, ...args], {
    env: environment(database, user, more),
    encoding: 'utf8',
    timeout: PATIENCE,
  });
}

/** A request as it is said, without what a browser adds or refuses. */
function request(base, target, { method = 'GET', headers = {}, body } = {}) {
  const { hostname, port } = new URL(base);
  return new Promise((resolve, reject) => {
    const sent = http.request({ hostname, port, method, path: target, headers, agent: false }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (chunk) => (text += chunk));
      response.on('end', () => resolve({ status: response.statusCode, headers: response.headers, text }));
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

/** A form as a browser sends it from a page of the dashboard. */
function post(base, target, fields, headers = {}) {
  return request(base, target, {
    method: 'POST',
    headers: { Origin: new URL(base).origin, 'Content-Type': 'application/x-www-form-urlencoded', ...headers },
    body: new URLSearchParams(fields).toString(),
  });
}

/** The number of a visit, as the forms of a page have it. */
function csrfIn(page) {
  const found = /name="csrf"\s+value="([^"]+)"/.exec(page);
  assert.ok(found, `no form of a visit: ${page.slice(0, 200)}`);
  return found[1];
}

/** The cookie of someone who has signed in, for requests without a browser. */
async function signIn(dashboard, token = dashboard.token) {
  const answer = await post(dashboard.base, '/sign-in', { token });
  const cookie = (answer.headers['set-cookie'] ?? [''])[0];
  return { status: answer.status, header: cookie, cookie: cookie.split(';')[0] };
}

/** A browser with nothing of before, and what is done in it. It notes what is asked for, and what its pages say. */
async function browser(options = {}) {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'chromium-'));
  const context = await chromium.launchPersistentContext(directory, {
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    headless: true,
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-dev-shm-usage',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
    viewport: { width: 1280, height: 800 },
    timeout: PATIENCE,
    ...options,
  });
  context.setDefaultTimeout(PATIENCE);
  open.add(() => context.close());
  const page = context.pages()[0] ?? (await context.newPage());
  const asked = [];
  const said = [];
  page.on('request', (one) => asked.push(one.url()));
  page.on('console', (message) => said.push(message.text()));
  page.on('pageerror', (error) => said.push(error.message));
  page.on('dialog', (dialog) => {
    said.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  const press = (name) => page.locator('main').getByRole('button', { name, exact: true }).click();
  return {
    page,
    asked,
    said,
    press,
    follow: (name) => page.locator('main').getByRole('link', { name, exact: true }).click(),
    notice: () => page.locator('.notice').innerText(),
    async signIn(dashboard) {
      await page.goto(dashboard.base);
      await page.getByLabel('Token').fill(dashboard.token);
      await press('Sign in');
    },
    async close() {
      await context.close();
      fs.rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** The rows of the first table behind a heading (or of the page), as texts by the names of columns. */
async function tableOf(page, selector = 'table') {
  return page
    .locator(selector)
    .first()
    .evaluate((table) => {
      const names = [...table.querySelectorAll('thead th')].map((cell) => cell.textContent.trim());
      return [...table.querySelectorAll('tbody tr')].map((row) =>
        Object.fromEntries([...row.cells].map((cell, index) => [names[index], cell.innerText.trim()])),
      );
    });
}

/** The names and values of a page. */
async function factsOf(page, selector = 'dl') {
  return page
    .locator(selector)
    .evaluateAll((lists) =>
      Object.fromEntries(
        lists.flatMap((list) =>
          [...list.querySelectorAll('div')].map((one) => [
            one.querySelector('dt').textContent,
            one.querySelector('dd').innerText.trim(),
          ]),
        ),
      ),
    );
}

function pgCtl(...args) {
  const { FAIRQ_CLUSTER } = process.env;
  const done = spawnSync(
    'pg_ctl',
    ['-D', `${FAIRQ_CLUSTER}/data`, '-l', `${FAIRQ_CLUSTER}/log`, '-w', '-t', '120', '-s', ...args],
    { stdio: ['ignore', 'inherit', 'inherit'] },
  );
  if (done.status !== 0) {
    throw new Error(`pg_ctl ${args.join(' ')}: ${done.status}`);
  }
}

module.exports = {
  browser,
  connect,
  csrfIn,
  factsOf,
  newDatabase,
  newRole,
  pgCtl,
  post,
  request,
  runToEnd,
  signIn,
  start,
  tableOf,
  until,
  viewer,
};
