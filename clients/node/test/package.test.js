'use strict';
// What is published, and what its page says. Seen to fail: "files" of package.json is left out.

const test = require('node:test');
const assert = require('node:assert');
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { newDatabase, start, temporary, until } = require('./support.js');

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

/** The blocks of the page that are to be tested, by their names. */
function examples() {
  const page = fs.readFileSync(path.join(HERE, 'README.md'), 'utf8');
  return Object.fromEntries([...page.matchAll(/<!-- test: (.*) -->\n```\w+\n([^]*?)```/g)].map(([, name, text]) => [name, text]));
}

test('the archive has what is compiled, and the page', (t) => {
  const directory = temporary(t, 'pack');
  const output = execFileSync('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', directory],
    { cwd: HERE, encoding: 'utf8', env: { ...process.env, HOME: directory, npm_config_cache: path.join(directory, 'cache'), npm_config_update_notifier: 'false' } });
  const [{ files }] = JSON.parse(output);
  const names = files.map((file) => file.path);
  assert.deepStrictEqual(names.filter((name) => !name.startsWith('dist/')).sort(), ['DASHBOARD.md', 'README.md', 'package.json']);
  for (const name of ['dist/index.js', 'dist/index.d.ts', 'dist/cli.js', 'dist/dashboard/main.js']) assert.ok(names.includes(name), name);
  assert.deepStrictEqual(names.filter((name) => !/\.(js|d\.ts|md|json)$/.test(name)), []);
});

test('the examples of the page are typed and run, the worker with SIGTERM', async (t) => {
  const { config, rows } = await newDatabase(t, 'CREATE TABLE sent (task bigint, receiver text); CREATE TABLE orders (shop int)');
  const blocks = examples();
  const names = ['emails.ts', 'produce.ts', 'subgroups.ts'];
  const directory = project(t, Object.fromEntries(names.map((name) => [name, blocks[name]])));
  tsc(directory);
  const env = { ...process.env, PGHOST: config.host, PGUSER: config.user, PGDATABASE: config.database };
  const producer = start(t, { program: path.join(directory, 'produce.js'), env });
  await until('there is a task', async () => (await rows('SELECT * FROM orders')).length === 1);
  assert.match(blocks['the worker in a process'], /^npx pgfairq worker emails\.js /);
  const worker = start(t, { program: path.join(HERE, 'dist/cli.js'), args: ['worker', 'emails.js'], cwd: directory, env });
  assert.deepStrictEqual(await producer.ended, { code: 0, signal: null });
  assert.deepStrictEqual(producer.lines, ['sent to ann@example.com']);
  assert.deepStrictEqual(await rows('SELECT receiver FROM sent'), [{ receiver: 'ann@example.com' }]);
  worker.child.kill('SIGTERM');
  assert.deepStrictEqual(await worker.ended, { code: 0, signal: null });
  execFileSync(process.execPath, ['-e', "require('./subgroups').order().then(() => require('./emails').pool.end())"], { cwd: directory, env });
  assert.deepStrictEqual((await rows("SELECT payload FROM fairq.claim('reports', 2)")).map(({ payload }) => payload.page).sort(), [1, 9]);
});

test('types say what is wrong, and a module may import by name', async (t) => {
  const good = `import { Queue, Unrecoverable, Worker, closeOnSignal, type Handler } from 'pgfairq';
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
  const directory = project(t, { 'good.ts': good });
  tsc(directory);
  fs.writeFileSync(path.join(directory, 'good.ts'), `import { Queue, Worker } from 'pgfairq';
    new Queue<{ a: number }>('', 'q').add({ a: 'x' });
    new Queue('', 'q').add(1, { grup: 1 });
    new Worker('', 'q', async () => {}).on('done', () => {});
    new Worker('', 'q', async () => {}, { giveUpOn: [Date] });
    new Worker('', 'q', async (task, { fail }) => { fail(5); });`);
  assert.throws(() => tsc(directory), ({ stdout }) => {
    assert.deepStrictEqual([...stdout.matchAll(/good\.ts\((\d),\d+\): error (TS\d+)/g)].map(([, line, code]) => [line, code]),
      [['2', 'TS2322'], ['3', 'TS2561'], ['4', 'TS2345'], ['5', 'TS2322'], ['6', 'TS2345']]);
    return true;
  });
  fs.writeFileSync(path.join(directory, 'module.mjs'), "import { Queue, Worker, Snooze } from 'pgfairq'; console.log(typeof Queue, typeof Worker, typeof Snooze);");
  assert.strictEqual(execFileSync(process.execPath, ['module.mjs'], { cwd: directory, encoding: 'utf8' }), 'function function function\n');
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
