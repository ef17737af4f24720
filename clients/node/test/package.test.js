'use strict';
// What is published, and what the pages say of it, as printed: from a checkout that nothing was built in, with the
// packages that npm would fetch, which a registry in this process has. Seen to fail:
// - "the archive": "files" of package.json is left out
// - "what the pages print": the worker of doc/clients.md that nobody runs
// - "no page has npx": "npx pgfairq-dashboard" and "npm install pgfairq" in README.md
// - "bad is refused": data of NamedTask.add() that is any

const test = require('node:test');
const assert = require('node:assert');
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { Queue } = require('pgfairq');
const { registry } = require('./registry.js');
const { atEnd, newDatabase, start, temporary, until } = require('./support.js');

const HERE = path.join(__dirname, '..');
const STRICT = {
  strict: true, target: 'ES2022', module: 'node16', moduleResolution: 'node16', types: ['node'], esModuleInterop: true,
  exactOptionalPropertyTypes: false, skipLibCheck: false,
};

function tsc(directory) {
  execFileSync(process.execPath, [path.join(HERE, 'node_modules/typescript/bin/tsc'), '--project', directory], { stdio: 'pipe', encoding: 'utf8' });
}

/** A package of a user's, beside ours, with files. */
function project(t, files) {
  const directory = temporary(t, 'user');
  fs.mkdirSync(path.join(directory, 'node_modules'));
  for (const name of ['pg', '@types', 'typescript', 'pg-types', 'undici-types']) {
    const from = path.join(fs.realpathSync(path.join(HERE, 'node_modules')), name);
    if (fs.existsSync(from)) fs.symlinkSync(from, path.join(directory, 'node_modules', name));
  }
  fs.symlinkSync(HERE, path.join(directory, 'node_modules/pgfairq'));
  fs.writeFileSync(path.join(directory, 'tsconfig.json'), JSON.stringify({ compilerOptions: STRICT }));
  for (const [name, text] of Object.entries(files)) fs.writeFileSync(path.join(directory, name), text);
  return directory;
}

const readPage = (name) => fs.readFileSync(path.join(HERE, name), 'utf8');

/** The blocks of the page that are to be tested, by their names. */
function examples() {
  return Object.fromEntries([...readPage('README.md').matchAll(/<!-- test: (.*) -->\n```\w+\n([^]*?)```/g)]
    .map(([, name, text]) => [name, text]));
}

/** A checkout as it is cloned, in so far as npm looks at it. What its lock file says of archives is not so of the registry's. */
function checkout(t) {
  const directory = path.join(temporary(t, 'clone'), 'clients/node');
  fs.mkdirSync(directory, { recursive: true });
  for (const name of ['src', 'package.json', 'tsconfig.json', 'README.md', 'DASHBOARD.md']) {
    fs.cpSync(path.join(HERE, name), path.join(directory, name), { recursive: true });
  }
  const lock = JSON.parse(fs.readFileSync(path.join(HERE, 'package-lock.json'), 'utf8'));
  for (const one of Object.values(lock.packages)) delete one.integrity;
  fs.writeFileSync(path.join(directory, 'package-lock.json'), JSON.stringify(lock));
  return path.join(directory, '../..');
}

/** The directory of an application. Without a package.json npm would look for one above, and install there. */
function application(t, name) {
  const directory = temporary(t, name);
  fs.writeFileSync(path.join(directory, 'package.json'), '{ "private": true }');
  return directory;
}

/** A shell that runs what the pages print, with the checkout and a directory in place of theirs. */
async function shell(t, env) {
  const [clone, archives, npm] = [checkout(t), temporary(t, 'archives'), await registry(temporary(t, 'npm'))];
  atEnd(t, () => npm.close());
  const here = (text) => text.replace(/\/src\/pgfairq|\/tmp\b/g, (place) => (place === '/tmp' ? archives : clone));
  const begin = (text, options) => start(t, { command: ['/bin/sh', '-e', '-c', here(text)], env: { ...npm.env, ...env }, ...options });
  const run = async (text, cwd) => {
    const { output, ended } = begin(text, { cwd });
    const { code } = await ended;
    assert.strictEqual(code, 0, `${text}\n${output()}`);
    return output();
  };
  return { asked: npm.asked, begin, run };
}

test('the archive has what is compiled, and the page', (t) => {
  const directory = temporary(t, 'pack');
  const output = execFileSync('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', directory],
    { cwd: HERE, encoding: 'utf8', env: { ...process.env, HOME: directory, npm_config_cache: path.join(directory, 'cache'), npm_config_update_notifier: 'false' } });
  const [{ files }] = JSON.parse(output);
  const names = files.map((file) => file.path);
  assert.deepStrictEqual(names.filter((name) => !name.startsWith('dist/')).sort(), ['DASHBOARD.md', 'README.md', 'package.json']);
  const needed = ['index.js', 'index.d.ts', 'cli.js', 'child.js', 'testing.js', 'testing.d.ts', 'opentelemetry.js', 'dashboard/main.js'];
  for (const name of needed) assert.ok(names.includes(`dist/${name}`), name);
  assert.deepStrictEqual(names.filter((name) => !/\.(js|d\.ts|md|json)$/.test(name)), []);
});

const TABLES = `CREATE TABLE sent (task bigint, receiver text); CREATE TABLE orders (shop int);
  CREATE TABLE scaled (id int, sum int); CREATE TABLE alarms (text text)`;

test('what the pages print works as printed, and asks no registry for a name that is not ours', async (t) => {
  const { config, rows, pool } = await newDatabase(t, TABLES);
  const blocks = examples();
  const sources = Object.keys(blocks).filter((name) => name.endsWith('.ts'));
  const address = `postgresql://${config.user}@/${config.database}?host=${encodeURIComponent(config.host)}`;
  const { asked, begin, run } = await shell(t, { PGHOST: config.host, PGUSER: config.user, PGDATABASE: config.database, DATABASE_URL: address });
  const cwd = application(t, 'application');
  for (const name of sources) fs.writeFileSync(path.join(cwd, name), blocks[name]);
  await run(blocks.install, cwd);

  const [compile, work] = blocks['the worker in a process'].split('\n');
  await run('npm install @opentelemetry/api', cwd); // as the page says of tracing
  await run(compile, cwd);
  const producer = begin('exec node produce.js', { cwd });
  await until('there is a task', async () => (await rows('SELECT * FROM orders')).length === 1);
  const worker = begin(`exec ${work}`, { cwd });
  assert.deepStrictEqual(await producer.ended, { code: 0, signal: null }, producer.output());
  assert.deepStrictEqual(producer.lines, ['sent to ann@example.com']);
  assert.deepStrictEqual(await rows('SELECT receiver FROM sent'), [{ receiver: 'ann@example.com' }]);
  worker.child.kill('SIGTERM');
  assert.deepStrictEqual(await worker.ended, { code: 0, signal: null });
  await run("exec node -e \"require('./subgroups').order().then(() => require('./emails').pool.end())\"", cwd);
  assert.deepStrictEqual((await rows("SELECT payload FROM fairq.claim('reports', 2)")).map(({ payload }) => payload.page).sort(), [1, 9]);
  assert.match(await run('exec node --test handlers.test.js', cwd), /\bpass 2\b/);

  await new Queue(pool, 'images').create();
  for (const module of ['hooks', 'tracing', 'images']) {
    const add = module === 'images' ? "images.add({ id: 7, side: 10 }, { name: 'scale' })" : "emails.add({ to: 'bob' }, { name: 'welcome' })";
    const done = begin(`exec node -e "const { worker, images } = require('./${module}'); const { emails, pool } = require('./emails');
      worker.on('completed', () => console.log('done'));
      ${add}.then(() => worker.drain()).then(() => pool.end())"`, { cwd });
    assert.deepStrictEqual(await done.ended, { code: 0, signal: null }, done.output());
    assert.ok(done.lines.includes('done'));
    if (module === 'hooks') assert.match(done.lines.find((line) => line !== 'done'), /^task \d+ \("welcome"\) took [\d.]+ ms$/);
  }
  assert.deepStrictEqual(await rows('SELECT id, sum FROM scaled'), [{ id: 7, sum: 295 }]);

  const elsewhere = application(t, 'elsewhere');
  const dashboard = begin(`exec ${blocks['the dashboard'].trim()} --listen 127.0.0.1:0`, { cwd: elsewhere, detached: true });
  await until('the dashboard listens', () => dashboard.lines.some((line) => /http:\/\/127\.0\.0\.1:\d+\//.test(line)));
  process.kill(-dashboard.child.pid, 'SIGTERM');
  await dashboard.ended;

  const second = application(t, 'second');
  const page = fs.readFileSync(path.join(HERE, '../../doc/clients.md'), 'utf8');
  const installed = page.match(/```sh\n(\(cd [^`]*npm install [^`]*)```/)[1];
  await run(installed, second);
  fs.writeFileSync(path.join(second, 'page.js'), page.match(/<!-- test: a worker in Node -->\n```js\n([^]*?)```/)[1]);
  await run('exec node page.js', second); // ends with 0, too, if what it waits for never comes
  assert.deepStrictEqual(await rows('SELECT file FROM thumbnail'), [{ file: 'alice.png' }]);
  assert.deepStrictEqual([...asked].filter((name) => /fairq/.test(name)), []);
});

test('no page has npx or npm ask a registry for a name that is not ours', () => {
  for (const name of ['README.md', 'DASHBOARD.md', '../../doc/clients.md', '../../doc/dashboard.md', '../../README.md']) {
    const lines = readPage(name).split('\n').filter((line) => /fairq/.test(line));
    for (const line of lines) {
      for (const [command] of line.matchAll(/\bnpx [^`]*/g)) assert.match(command, /^npx --package=\/\S+\.tgz /, `${name}: ${line}`);
      for (const [, what] of line.matchAll(/\bnpm (?:install|i|add|exec) ([^`#&)]*)/g)) assert.doesNotMatch(what, /(^|\s)pgfairq/, `${name}: ${line}`);
    }
  }
});

const GOOD = `import { Queue, Unrecoverable, Worker, closeOnSignal, type Handler } from 'pgfairq';
    import { Pool, Client } from 'pg';
    interface Mail { to: string }
    class Refused extends Unrecoverable {}
    class Odd extends Error { constructor(readonly a: number, readonly b: string) { super(b); } }
    export const handler: Handler<Mail, number> = async (task, { tx, signal, snooze, fail, extend, progress }) => {
      const to: string = task.data.to;
      if (signal.aborted) snooze('1 min');
      if (to === '') fail(new RangeError('no address'));
      if (to.length > 256) throw new Refused('too long', { cause: to });
      await progress({ to });
      const until: Date = await extend();
      const { rows } = await tx.query('SELECT 1 AS one');
      return rows[0].one as number + until.getTime();
    };
    export async function main(pool: Pool, client: Client): Promise<void> {
      const queue = new Queue<Mail, number>(pool, 'emails');
      const id: string = await queue.add({ to: 'x' }, { group: 1n, subgroup: 'ann', delay: '1 min', client, expiresAt: new Date() });
      const result: number | null = await queue.waitUntilFinished(id);
      const worker = new Worker(pool, ['emails'], handler, { concurrency: 2, direct: { host: 'x' }, giveUpOn: [TypeError, Odd, Refused] });
      worker.on('completed', (task, value) => { console.log(task.data.to.length, value.toFixed(), result); });
      closeOnSignal(worker, { timeout: 5 });
      await worker.run();
    }`;

const GOOD_NAMED = `import { Queue, Worker, Task, TaskContext, type FileHandler, type Hooks, HandlerCrashed } from 'pgfairq';
import { runInline, testContext, testTask, drain, assertEnqueued } from 'pgfairq/testing';
import { openTelemetry } from 'pgfairq/opentelemetry';
import { Pool, Client } from 'pg';
interface Welcome { to: string }
interface Invoice { shop: number; amount: number }
const queue = new Queue('', 'emails');
export const welcome = queue.task('welcome', async (task: Task<Welcome>, { tx, signal }) => {
  signal.throwIfAborted();
  await tx.query('SELECT 1');
  return task.data.to.length;
});
export const invoice = queue.task('invoice', {
  handler: async (task: Task<Invoice>, { progress }) => { await progress(task.data.amount); return 'done'; },
  maxAttempts: 3, timeout: 30_000, priority: 2, backoff: (attempt, error) => (error instanceof TypeError ? '1 min' : 100 * 3 ** attempt),
  group: (data) => data.shop, uniqueKey: (data) => \`invoice \${data.amount.toFixed()}\`, giveUpOn: [RangeError, HandlerCrashed],
});
export const resize = queue.task<{ file: string }, { width: number }>('resize', { file: '/x.js', thread: true, group: (data) => data.file });
export const contract = queue.task<Welcome, number>('contract', { maxAttempts: 3, group: ({ to }) => to });
export const file: FileHandler<{ file: string }, { width: number }> = async (task, { tx }) => {
  const { rows } = await tx.query('SELECT 1', [task.data.file]); return { width: rows.length as number };
};
const counting: Hooks = { before: (task) => { console.log(task.name); }, after: async (task, result) => {}, async around(task, context, next) { return next(); } };
export async function main(pool: Pool, client: Client): Promise<void> {
  const elsewhere = resize.handledBy({ file: new URL('file:///y.js'), timeout: 5 });
  const id: string = await elsewhere.add({ file: 'x' }) + await welcome.add({ to: 'ann' }, { group: 42, client });
  const n: number | null = await welcome.waitUntilFinished(id);
  const ids: string[] = await invoice.addMany([{ data: { shop: 1, amount: 2 }, delay: 5 }], { client });
  const width: { width: number } | null = await resize.waitUntilFinished(ids[0]);
  await contract.schedule('nightly', '@daily', { data: { to: 'x' }, timezone: 'Europe/Berlin' });
  const worker = new Worker(pool, 'emails', {
    welcome, invoice, resize, contract: contract.handledBy(async (task, { tx }) => { await tx.query('x'); return task.data.to.length + n! + width!.width; }),
    plain: async (task: Task<{ a: number }>, { fail }: TaskContext) => { if (task.data.a > 5) fail('too much'); },
    other: { handler: (task) => task.data, timeout: 5, backoff: '5 s' },
    '': (task) => task.name,
  }, { hooks: [counting, openTelemetry()] });
  worker.on('dead', (task, error) => console.log(task.id, error));
  await queue.cancel(id, { client });
  await queue.setGroup(42, { weight: 2 }, { client });
  const end = await runInline(welcome, { to: 'x' }, { tx: client });
  const five: number | null = end.result;
  const { task, context } = { task: testTask({ to: 'x' }), context: testContext() };
  await (async (t: Task<Welcome>, c: TaskContext) => {})(task, context);
  const [found] = await assertEnqueued(welcome, { data: { to: 'x' }, count: 1 }, { client });
  const to: string = found.data.to;
  const { dead } = await drain(pool, 'emails', { welcome });
  console.log(dead.length, to, five);
}`;

const BEFORE_BAD = `import { Queue, Worker, type Task } from 'pgfairq'; import { runInline } from 'pgfairq/testing';
const q = new Queue('', 'q'); interface A { a: number }
const t = q.task('t', { handler: async (task: Task<A>) => task.data.a, group: (data) => data.a });`;
/** Each of these lines is refused. */
const BAD = [
  `new Queue<{ a: number }>('', 'q').add({ a: 'x' });`,
  `new Queue('', 'q').add(1, { grup: 1 });`,
  `new Worker('', 'q', async () => {}).on('done', () => {});`,
  `new Worker('', 'q', async () => {}, { giveUpOn: [Date] });`,
  `new Worker('', 'q', async (task, { fail }) => { fail(5); });`,
  `t.add({ a: 'x' });`,
  `t.add({ b: 1 });`,
  `t.add({ a: 1 }, { grup: 1 });`,
  `t.add({ a: 1 }, { name: 'x' });`,
  `t.addMany([{ data: { a: 'x' } }]);`,
  `t.waitUntilFinished('1').then((n: string | null) => n);`,
  `t.schedule('s', '@daily', {});`,
  `q.task('t', { handler: async (task: Task<A>) => 1, group: (data) => data.shop });`,
  `q.task('t', { handler: async (task: Task<A>) => 1, maxAttemps: 3 });`,
  `q.task('t', { handler: async (task: Task<A>) => 1, timeout: '5 s' });`,
  `q.task<A, string>('t', async () => 1);`,
  `q.task<A>('t', {}).handledBy(async (task) => task.data.b);`,
  `q.task<A>('t', {}).handledBy({ handler: async () => 1, group: 5 });`,
  `new Worker('', 'q', { t: 5 });`,
  `new Worker('', 'q', { t: { handler: () => 1, timeot: 3 } });`,
  `new Worker('', 'q', { t: { handler: () => 1, backoff: () => true } });`,
  `new Worker('', 'q', { t: async (task: Task<A>, context: number) => {} });`,
  `new Worker('', 'q', { t }, { hooks: { befor: () => {} } });`,
  `new Worker('', 'q', { t }, { hooks: { after: 5 } });`,
  `runInline(t, { a: 'x' });`,
  `new Worker('', 'q', { t }).on('dead', (task: number) => {});`,
  `q.cancel('1', { clint: 1 });`,
];

test('good code compiles, and bad is refused; a module may import by name', (t) => {
  const directory = project(t, { 'good.ts': GOOD, 'named.ts': GOOD_NAMED, 'bad.ts': [BEFORE_BAD, ...BAD].join('\n') });
  assert.throws(() => tsc(directory), ({ stdout }) => {
    const errors = [...stdout.matchAll(/(\w+\.ts)\((\d+),\d+\): error/g)];
    const first = BEFORE_BAD.split('\n').length + 1;
    const refused = new Set(errors.map(([, , line]) => Number(line) - first));
    assert.deepStrictEqual(BAD.filter((_, n) => !refused.has(n)), []);
    assert.deepStrictEqual(errors.filter(([, file, line]) => file !== 'bad.ts' || Number(line) < first), [], stdout);
    return true;
  });
  fs.writeFileSync(path.join(directory, 'module.mjs'), `import { Queue, Worker, Snooze } from 'pgfairq'; import { drain } from 'pgfairq/testing';
    import { openTelemetry } from 'pgfairq/opentelemetry'; console.log(typeof Queue, typeof Worker, typeof Snooze, typeof drain, typeof openTelemetry);`);
  assert.strictEqual(execFileSync(process.execPath, ['module.mjs'], { cwd: directory, encoding: 'utf8' }), 'function function function function function\n');
});

test('the command says what is wrong', (t) => {
  const directory = temporary(t, 'cli');
  fs.writeFileSync(path.join(directory, 'none.js'), 'module.exports = { a: 1 };');
  const run = (...args) => {
    try {
      return { status: 0, output: execFileSync(process.execPath, [path.join(HERE, 'dist/cli.js'), ...args], { cwd: directory, encoding: 'utf8', stdio: 'pipe' }) };
    } catch (error) {
      return { status: error.status, output: error.stderr };
    }
  };
  assert.match(run('--help').output, /^usage: pgfairq worker FILE/);
  for (const args of [[], ['work'], ['worker'], ['worker', 'a', 'b'], ['worker', 'a', '--timeout', 'x'], ['worker', 'a', '--no']]) {
    const { status, output } = run(...args);
    assert.strictEqual(status, 2, args.join(' '));
    assert.match(output, /usage: pgfairq worker FILE/);
  }
  assert.deepStrictEqual(run('worker', 'none.js'), { status: 1, output: 'pgfairq: none.js exports no Worker; export const worker = new Worker(…)\n' });
  assert.match(run('worker', 'missing.js').output, /^pgfairq: Cannot find module/);
});
