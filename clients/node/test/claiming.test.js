'use strict';
// What a worker claims, how it waits, and how it ends. Seen to fail:
// - "claimed ahead": Worker.wanted() asks for 200 more than prefetch
// - "given back when handlers take long": Worker.doChores() does not look at what is ahead
// - "without a snapshot": Claims.claim() does not call wait_any
// - "limits of the application": DirectConnection.open() leaves out SETTINGS
// - "closes at once": Worker.claimUnder() does not cancel

const test = require('node:test');
const assert = require('node:assert');
const { Pool } = require('pg');
const { Queue, Worker, WorkerClosed } = require('pgfairq');
const { atEnd, newQueue, until, watch } = require('./support.js');

const WAITS = `SELECT pid, backend_xmin IS NULL AS free FROM pg_stat_activity
  WHERE datname = current_database() AND state = 'active' AND query LIKE 'CALL fairq.wait_any%'`;
/** Quick tasks first: a worker claims ahead when it has seen that its handlers are quick. */
async function warmUp(queue, worker) {
  while (worker.typical > 1) {
    worker.seen.completed.length = 0;
    await queue.addMany(Array.from({ length: 50 }, () => ({ data: 'quick' })));
    await until('they are done', () => worker.seen.completed.length === 50);
  }
  worker.seen.completed.length = 0;
}

/**
 * Adds so many tasks, which become ready together: a claim that finds a part of them claims no more ahead until a
 * handler ends. What is ahead stays there, however slow the machine is, until the returned function is called.
 */
async function addTogether(queue, worker, count) {
  worker.doChores = () => {};
  await queue.pause();
  await queue.addMany(tasks(count));
  await queue.resume();
  return () => { delete worker.doChores; };
}

const tasks = (count) => Array.from({ length: count }, (_, n) => ({ data: n }));

test('tasks are claimed ahead, but no more than allowed', async (t) => {
  const { queue, start } = await newQueue(t);
  await queue.addMany(tasks(500));
  let most = 0;
  let looked = 0;
  const worker = start(async (task) => {
    if (task.data % 50 === 0) {
      most = Math.max(most, (await queue.counts()).leased);
      looked++;
    }
  }, { concurrency: 2, prefetch: 20 });
  await until('all are completed', () => worker.seen.completed.length === 500);
  assert.strictEqual(looked, 10);
  // two that run, twenty ahead, and those whose end is on its way: as many at most
  assert.ok(most > 2 && most <= 2 * 22, `${most} leased`);
});

test('what is ahead is given back when handlers take long, and others have it', async (t) => {
  const { queue, start } = await newQueue(t, { maxAttempts: 1 });
  let go;
  const gate = new Promise((resolve) => { go = resolve; });
  const slow = start((task) => (task.data === 'quick' ? null : gate));
  await warmUp(queue, slow);
  const doChores = await addTogether(queue, slow, 10);
  await until('it has them all', () => slow.ahead.length === 9);
  doChores();
  const other = start(async () => {});
  await until('the other has done nine', () => other.seen.completed.length === 9);
  assert.ok(other.seen.completed.every(({ task }) => task.attempt === 1));
  assert.strictEqual((await queue.counts()).leased, 1);
  go();
  await until('the slow one is done', () => slow.seen.completed.length === 1);
});

test('an idle worker waits at the server without a snapshot, and has a task at once', async (t) => {
  const { queue, rows, start } = await newQueue(t);
  const worker = start(async () => {});
  // The call is active before it waits: for that moment it has a snapshot.
  await until('it waits, without a snapshot', async () => {
    const waits = await rows(WAITS);
    return waits.length === 1 && waits[0].free;
  });
  const id = await queue.add('x');
  await until('it is done', () => worker.seen.completed.length === 1);
  assert.strictEqual(worker.seen.completed[0].task.id, id);
  const later = await queue.add('later', { delay: 50 });
  await until('the later one is done', () => worker.seen.completed.length === 2);
  assert.strictEqual(worker.seen.completed[1].task.id, later);
});

test('limits of the application do not end the waits', async (t) => {
  const { name, pool, queue, rows, config } = await newQueue(t);
  await rows(`ALTER DATABASE ${name} SET statement_timeout = '3 s'`);
  await rows(`ALTER DATABASE ${name} SET idle_session_timeout = '3 s'`);
  const limited = new Pool({ ...config, query_timeout: 3000, statement_timeout: 3000 });
  limited.on('error', () => {});
  const worker = new Worker(limited, 'emails', async () => {});
  const seen = watch(worker);
  const running = worker.run();
  await until('it waits', async () => (await rows(WAITS)).length === 1);
  await until('it has waited for longer', async () =>
    (await rows(`SELECT 1 FROM (${WAITS}) w JOIN pg_stat_activity USING (pid) WHERE now() - query_start > '4 s'`)).length === 1);
  await queue.add('x');
  await until('it is done', () => seen.completed.length === 1);
  await worker.close();
  await running;
  assert.deepStrictEqual(seen.errors.filter((error) => !/idle-session timeout/.test(error.message)), []); // of idle clients in the pool
  await limited.end();
  assert.ok(pool);
});

test('a worker that waits closes at once, and leaves no session', async (t) => {
  const { rows, start } = await newQueue(t);
  const worker = start(async () => {}, { name: 'a <name>' });
  await until('it waits', async () => (await rows(WAITS)).length === 1);
  assert.deepStrictEqual(await rows('SELECT name FROM fairq.sessions'), [{ name: 'a <name>' }]);
  const began = Date.now();
  await worker.close();
  assert.ok(Date.now() - began < 25_000); // the wait has thirty seconds
  await worker.seen.running;
  assert.deepStrictEqual(await rows('SELECT * FROM fairq.sessions'), []);
});

test('close: what runs is finished, what is ahead is given back', async (t) => {
  const { queue, start } = await newQueue(t, { maxAttempts: 1 });
  let go;
  const gate = new Promise((resolve) => { go = resolve; });
  let begun = 0;
  const worker = start((task) => (task.data === 'quick' ? null : (begun += 1, gate)), { concurrency: 2, prefetch: 4 });
  await warmUp(queue, worker);
  await addTogether(queue, worker, 10);
  await until('two have begun, four are ahead', () => begun === 2 && worker.ahead.length === 4);
  const closed = worker.close();
  await until('four are given back', async () => (await queue.counts()).leased === 2);
  go();
  await closed;
  assert.strictEqual(worker.seen.completed.length, 2);
  const left = await queue.list();
  assert.deepStrictEqual(left.map((task) => [task.state, task.attempts]), Array(8).fill(['ready', 0]));
});

test('close: a handler that does not end in time is told, and its task is given back', async (t) => {
  const { queue, rows, start } = await newQueue(t, { maxAttempts: 1 }, 'CREATE TABLE sent (task bigint)');
  const id = await queue.add('x');
  let reason;
  let begun = false;
  let go;
  const gate = new Promise((resolve) => { go = resolve; });
  const worker = start(async (task, { tx, signal }) => {
    await tx.query('INSERT INTO sent VALUES ($1)', [task.id]);
    signal.addEventListener('abort', () => { reason = signal.reason; });
    begun = true;
    await gate;
  });
  await until('it runs', () => begun); // that it is leased is earlier: a handler that has not begun is not told
  await worker.close({ timeout: 10 });
  assert.ok(reason instanceof WorkerClosed);
  assert.strictEqual(worker.seen.lost.length, 1);
  const task = await queue.get(id);
  assert.deepStrictEqual([task.state, task.attempts, task.lastError], ['ready', 0, null]);
  go();
  await new Promise(setImmediate);
  assert.deepStrictEqual(await rows('SELECT * FROM sent'), []);
  assert.strictEqual(worker.seen.completed.length, 0);
});

test('a worker that cannot start says why', async (t) => {
  const { pool, queue, rows, config, start } = await newQueue(t);
  const missing = start(async () => {}, {}, ['emails', 'no "such" <queue>']);
  await assert.rejects(missing.seen.running, /there is no queue "no \\"such\\" <queue>"; make it with/);
  const role = `weak_${process.pid}`;
  await rows(`CREATE ROLE ${role} LOGIN`);
  atEnd(t, () => rows(`DROP ROLE ${role}`));
  const weak = new Pool({ ...config, user: role });
  await assert.rejects(new Worker(weak, 'emails', async () => {}).run(),
    /this role may not work on queue "emails"; GRANT SELECT, UPDATE, DELETE ON fairq.q_emails/);
  await weak.end();
  const nobody = new Worker({ ...config, database: 'there_is_none' }, 'emails', async () => {});
  await assert.rejects(nobody.run(), /database "there_is_none" does not exist/);
  assert.throws(() => nobody.run(), /started already/);
  await new Worker(pool, 'emails', async () => {}).close(); // never started
  assert.ok(queue);
});

test('bad arguments of a worker are refused', async (t) => {
  const { pool, start } = await newQueue(t);
  const make = (...parts) => () => new Worker(pool, ...parts);
  const handler = async () => {};
  assert.throws(make('emails'), /no function/);
  assert.throws(make([], handler), /number of queues is 0/);
  assert.throws(make([''], handler), /name of the queue is ""/);
  assert.throws(make('emails', handler, { concurency: 2 }), /Worker has no option "concurency"; there are concurrency,/);
  assert.throws(make('emails', handler, { concurrency: 0 }), /concurrency is 0; give a whole number from 1/);
  assert.throws(make('emails', handler, { prefetch: 1.5 }), /prefetch is 1.5/);
  assert.throws(make('emails', handler, { ttl: '30 s' }), /ttl is "30 s"; give milliseconds/);
  assert.throws(() => new Worker(42, 'emails', handler), /first argument is no pool/);
  await assert.rejects(start(handler).close({ timeout: -1 }), /timeout is -1/);
});

test('a worker makes its own pool of a connection string', async (t) => {
  const { config, queue } = await newQueue(t);
  const string = `postgres://${config.user}@/${config.database}?host=${config.host}`;
  const own = new Queue(string, 'emails');
  await own.add('x');
  await own.close();
  const worker = new Worker(string, 'emails', async () => {});
  const done = new Promise((resolve) => worker.once('completed', resolve));
  const running = worker.run();
  await done;
  await worker.close();
  await running;
  assert.strictEqual((await queue.counts()).ready, 0);
});
