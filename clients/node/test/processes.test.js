'use strict';
// Workers in processes of their own, that are stopped, killed, or lose their server. Seen to fail:
// - "long tasks": Session.beat() sends no heartbeat
// - "kill -9": Session.open() opens a session that is not bound
// - "two restarts": Transaction.commit() sends COMMIT before it asks ack
// - "SIGTERM": Worker.shutDown() does not wait for those that run

const test = require('node:test');
const assert = require('node:assert');
const { newQueue, restart, start, until } = require('./support.js');

const TABLES = 'CREATE TABLE begun (task bigint, worker int); CREATE TABLE done (task bigint, worker int)';
const numbers = (count) => Array.from({ length: count }, (_, n) => ({ data: n, group: n % 7 }));

test('long tasks with a short session: 8 done, none in vain, none dead', async (t) => {
  const { queue, rows, config } = await newQueue(t, { maxAttempts: 2 }, TABLES);
  await queue.addMany(numbers(8)); // each worker is at work for longer than the ttl
  const workers = [1, 2].map(() => start(t, 'worker.js',
    { config, begin: true, millis: 3000, options: { ttl: 10_000, prefetch: 9 } }));
  await until('all are done', async () => (await rows('SELECT count(*)::int AS n FROM done'))[0].n >= 8);
  assert.deepStrictEqual(await rows(`SELECT (SELECT count(*)::int FROM begun) AS begun, count(*)::int AS done,
    count(DISTINCT task)::int AS tasks FROM done`), [{ begun: 8, done: 8, tasks: 8 }]);
  assert.strictEqual((await queue.counts()).dead, 0);
  for (const { child } of workers) child.kill('SIGTERM');
  for (const { ended } of workers) assert.deepStrictEqual(await ended, { code: 0, signal: null });
});

test('after kill -9 the tasks of a worker are put back as soon as its connections end', async (t) => {
  const { queue, rows, config } = await newQueue(t, {}, TABLES);
  await queue.addMany(numbers(5));
  const options = { concurrency: 5, ttl: 600_000 }; // a heartbeat that is missed is not what ends the session
  const first = start(t, 'worker.js', { config, begin: true, millis: 1_000_000, options });
  await until('all have begun', () => first.lines.filter((line) => line === 'begun').length === 5);
  first.child.kill('SIGKILL');
  await first.ended;
  start(t, 'worker.js', { config, begin: true, options });
  await until('all are done', async () => (await rows('SELECT count(*)::int AS n FROM done'))[0].n >= 5);
  assert.deepStrictEqual(await rows('SELECT count(*)::int AS n, count(DISTINCT task)::int AS tasks FROM done'), [{ n: 5, tasks: 5 }]);
});

test('SIGTERM: what runs is finished, what waits is given back, and the process ends by itself', async (t) => {
  const { queue, rows, config } = await newQueue(t, { maxAttempts: 1 }, TABLES);
  await queue.addMany(numbers(10));
  const worker = start(t, 'worker.js', { config, begin: true, millis: 300, options: { concurrency: 2, prefetch: 8 } });
  await worker.said('begun');
  worker.child.kill('SIGTERM');
  assert.deepStrictEqual(await worker.ended, { code: 0, signal: null });
  assert.strictEqual(worker.lines.at(-1), 'closed');
  const [{ begun, done }] = await rows('SELECT (SELECT count(*)::int FROM begun) AS begun, (SELECT count(*)::int FROM done) AS done');
  assert.strictEqual(done, begun);
  const left = await queue.list();
  assert.strictEqual(left.length, 10 - done);
  for (const task of left) assert.deepStrictEqual([task.state, task.attempts, task.lastError], ['ready', 0, null]);
});

test('SIGTERM: a handler that does not end in time loses its task, and nothing that it wrote stays', async (t) => {
  const { queue, rows, config } = await newQueue(t, { maxAttempts: 1 }, TABLES);
  await queue.addMany(numbers(1));
  const worker = start(t, 'worker.js', { config, begin: true, millis: 10_000, stubborn: true, close: { timeout: 50 } });
  await worker.said('begun');
  worker.child.kill('SIGTERM');
  await worker.ended;
  assert.ok(worker.lines.includes('lost'));
  assert.deepStrictEqual(await rows('SELECT * FROM done'), []);
  const [task] = await queue.list();
  assert.deepStrictEqual([task.state, task.attempts], ['ready', 0]);
});

test('SIGTERM twice: the second does not wait', async (t) => {
  const { queue, config } = await newQueue(t, { maxAttempts: 1 }, TABLES);
  await queue.addMany(numbers(1));
  const worker = start(t, 'worker.js', { config, begin: true, millis: 1_000_000 });
  await worker.said('begun');
  worker.child.kill('SIGTERM');
  await worker.said('signal');
  worker.child.kill('SIGTERM');
  assert.deepStrictEqual(await worker.ended, { code: 0, signal: null });
  assert.deepStrictEqual((await queue.list()).map(({ state, attempts }) => [state, attempts]), [['ready', 0]]);
});

const TASKS = Number(process.env.NODE_RESTART_TASKS ?? 10_000);

test(`${TASKS} tasks, four processes, two restarts of the server: each result is there once`, async (t) => {
  const { queue, rows, config } = await newQueue(t, { maxAttempts: 1000, backoffMax: 0 }, TABLES);
  for (let n = 0; n < TASKS; n += 1000) await queue.addMany(numbers(1000));
  const workers = [1, 2, 3, 4].map(() => start(t, 'worker.js', { config, options: { concurrency: 10, prefetch: 20, ttl: 60_000 } }));
  const done = () => rows('SELECT count(*)::int AS n FROM done').then(([{ n }]) => n, () => 0);
  for (const [part, mode] of [[3, 'fast'], [1.5, 'immediate']]) {
    await until(`a part is done before the restart (${mode})`, async () => (await done()) >= TASKS / part);
    restart(mode);
  }
  await until('all are done', async () => (await done()) >= TASKS);
  await until('nothing is left', async () => Object.values(await queue.counts().catch(() => ({ n: 1 }))).every((n) => n === 0));
  assert.deepStrictEqual(await rows('SELECT count(*)::int AS n, count(DISTINCT task)::int AS tasks, count(DISTINCT worker)::int AS workers FROM done'),
    [{ n: TASKS, tasks: TASKS, workers: 4 }]);
  for (const { child } of workers) child.kill('SIGTERM');
  for (const { ended } of workers) assert.deepStrictEqual(await ended, { code: 0, signal: null });
});
