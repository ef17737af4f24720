'use strict';
// What becomes of tasks whose lease, session or connection is lost. Seen to fail:
// - "cancelled": Session.look() does not ask
// - "session's connection": Session.lose() does not tell the tasks
// - "waits for a lock": Transaction.stop() does nothing
// - "claims' connection": Worker.connectAndClaim() closes the session in place of retiring it
// - "an answer that nobody has seen": it does not retire the session
// - "no answer to its heartbeats": Session.beat() has no timer
// - "locked": STILL_OURS has no lock_timeout; look() takes its error for one of the heartbeat
// "stands still" holds by the timer, by the answer to the heartbeat, and by what look() asks; no one of them alone makes it fail.

const test = require('node:test');
const assert = require('node:assert');
const pg = require('pg');
const { LeaseLost, Worker } = require('pgfairq');
const { atEnd, newQueue, sleep, until, watch } = require('./support.js');

const SENT = 'CREATE TABLE sent (task bigint, attempt int)';

/** The backends of a worker: of its session, and of its claims. */
const SESSION = "SELECT pid FROM fairq.sessions";
const CLAIMS = `SELECT pid FROM pg_stat_activity
  WHERE datname = current_database() AND query ~ 'fairq\\.(claim|wait_any)' AND pid <> pg_backend_pid()`;

/**
 * A handler that writes, and then waits for the signal or the gate. How many are there it counts: that
 * a task is leased is earlier, and the answer may still be on its way.
 */
function writer(gate) {
  const handler = async (task, { tx, signal }) => {
    await tx.query('INSERT INTO sent VALUES ($1, $2)', [task.id, task.attempt]);
    handler.waiting += 1;
    await Promise.race([gate(task), new Promise((resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason), { once: true });
    })]);
    await tx.query('SELECT 1');
  };
  return Object.assign(handler, { waiting: 0 });
}
const forever = new Promise(() => {});

test('the handler of a task that is cancelled is told, and what it wrote is gone', async (t) => {
  const { queue, rows, start } = await newQueue(t, {}, SENT);
  const id = await queue.add('x');
  const handler = writer(() => forever);
  const worker = start(handler, { ttl: 12_000 });
  await until('it runs', () => handler.waiting === 1);
  assert.ok(await queue.cancel(id));
  await until('it is told', () => worker.seen.lost.length === 1);
  assert.ok(worker.seen.lost[0].reason instanceof LeaseLost);
  assert.deepStrictEqual(await rows('SELECT * FROM sent'), []);
  await queue.add('y'); // the worker goes on, under the same session
  await until('the next one runs', () => handler.waiting === 2);
  assert.strictEqual(worker.seen.errors.length, 0);
});

test('a query of a transaction whose lease is lost is refused, also one that waits for a lock', async (t) => {
  const { pool, queue, rows, start } = await newQueue(t, {}, `${SENT}; INSERT INTO sent VALUES (0, 0)`);
  const locker = await pool.connect();
  await locker.query('BEGIN; UPDATE sent SET attempt = 1 WHERE task = 0');
  const id = await queue.add('x');
  let after;
  const worker = start(async (task, { tx }) => {
    await tx.query('INSERT INTO sent VALUES (1, 1)');
    await tx.query('UPDATE sent SET attempt = 2 WHERE task = 0').catch(() => {});
    after = await tx.query('SELECT 1').catch((error) => error);
  }, { ttl: 12_000 });
  await until('it waits for the lock', async () =>
    (await rows("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()")).length === 1);
  await queue.cancel(id);
  await until('the handler has ended', () => after !== undefined);
  assert.ok(after instanceof LeaseLost);
  assert.strictEqual(worker.seen.lost.length, 1);
  await locker.query('ROLLBACK');
  locker.release();
  await until('its backend has ended', async () =>
    (await rows("SELECT 1 FROM pg_stat_activity WHERE query LIKE 'UPDATE sent SET attempt = 2%' AND pid <> pg_backend_pid()")).length === 0);
  assert.deepStrictEqual(await rows('SELECT task::int, attempt FROM sent'), [{ task: 0, attempt: 0 }]);
});

test('when the session\'s connection is lost the tasks run again, and each is done once', async (t) => {
  const { queue, rows, start } = await newQueue(t, {}, SENT);
  await queue.addMany([{ data: 1 }, { data: 2 }, { data: 3 }]);
  // That an administrator ends a backend is no loss: the attempt is the same one.
  let ended = false;
  let running = 0;
  const gate = () => {
    running += 1;
    return ended ? null : forever;
  };
  const worker = start(writer(gate), { concurrency: 3, ttl: 600_000 });
  await until('all run', () => running === 3); // that they are leased is earlier
  ended = true;
  await rows(`SELECT pg_terminate_backend(pid) FROM (${SESSION}) s`);
  await until('all are done', () => worker.seen.completed.length === 3);
  assert.strictEqual(worker.seen.lost.length, 3);
  assert.deepStrictEqual(await rows('SELECT attempt, count(*)::int AS n FROM sent GROUP BY 1'), [{ attempt: 1, n: 3 }]);
});

test('when the claims\' connection is lost what runs goes on, under the session that it has', async (t) => {
  const { queue, rows, start } = await newQueue(t, { maxAttempts: 1 }, SENT);
  await queue.add('first');
  let go;
  const gate = new Promise((resolve) => { go = resolve; });
  const handler = writer((task) => (task.data === 'first' ? gate : null));
  const worker = start(handler, { concurrency: 2, ttl: 600_000 });
  await until('it runs, and the worker waits', async () => handler.waiting === 1 && (await rows(CLAIMS)).length === 1);
  await rows(`SELECT pg_terminate_backend(pid) FROM (${CLAIMS}) s`);
  await queue.add('second');
  await until('the second is done', () => worker.seen.completed.length === 1);
  assert.strictEqual((await rows(SESSION)).length, 2);
  go();
  await until('the first is done', () => worker.seen.completed.length === 2);
  await until('its session has ended', async () => (await rows(SESSION)).length === 1);
  assert.deepStrictEqual(await rows('SELECT attempt, count(*)::int AS n FROM sent GROUP BY 1'), [{ attempt: 1, n: 2 }]);
  assert.strictEqual(worker.seen.lost.length, 0);
});

test('tasks of an answer that nobody has seen are given back', async (t) => {
  const { config, queue } = await newQueue(t, { maxAttempts: 1 }, SENT);
  let dropped = 0;
  class Deaf extends pg.Client {
    query(...parts) {
      const answer = super.query(...parts);
      return /fairq\.claim/.test(parts[0].text) ? this.forget(answer) : answer;
    }

    async forget(answer) {
      const { rows } = await answer;
      if (dropped || rows.length === 0) return answer;
      dropped = rows.length;
      this.connection.stream.destroy();
      throw new Error('Connection terminated unexpectedly');
    }
  }
  const pool = new pg.Pool({ ...config, Client: Deaf });
  await queue.addMany([{ data: 1 }, { data: 2 }]);
  const worker = new Worker(pool, 'emails', async () => {}, { concurrency: 2, ttl: 600_000 });
  const seen = watch(worker);
  const running = worker.run();
  await until('both are done', () => seen.completed.length === 2);
  assert.strictEqual(dropped, 2);
  await worker.close();
  await running;
  await pool.end();
});

test('a session that gets no answer to its heartbeats is over', async (t) => {
  const { queue, rows, start } = await newQueue(t, {}, SENT);
  await queue.add('x');
  const handler = writer((task) => (task.attempt === 1 ? forever : null));
  const worker = start(handler, { ttl: 4000 });
  await until('it runs', () => handler.waiting === 1);
  const [{ pid }] = await rows(SESSION);
  process.kill(pid, 'SIGSTOP');
  atEnd(t, () => { try { process.kill(pid, 'SIGCONT'); } catch { /* it has ended */ } });
  await until('the task is lost', () => worker.seen.lost.length >= 1);
  assert.match(worker.seen.lost[0].reason.message, /no heartbeat was answered for 4000 ms/);
  process.kill(pid, 'SIGCONT');
  await until('it is done by another attempt', () => worker.seen.completed.length === 1);
  const [row, more] = await rows('SELECT attempt FROM sent');
  assert.ok(row.attempt > 1 && !more);
});

test('a session lives on while the table of its queue is locked', async (t) => {
  const { pool, queue, rows, start } = await newQueue(t, {}, SENT);
  await queue.add('x');
  let open;
  const handler = writer(() => new Promise((resolve) => { open = resolve; }));
  const worker = start(handler, { ttl: 12_000 });
  await until('it runs', () => handler.waiting === 1);
  const locker = await pool.connect();
  await locker.query('BEGIN; LOCK TABLE fairq.q_emails IN ACCESS EXCLUSIVE MODE');
  await until('it has had several heartbeats', async () => {
    const { rowCount } = await locker.query("SELECT FROM fairq.sessions WHERE alive_until > now() + '20 s'");
    return rowCount === 1 || worker.seen.lost.length > 0;
  });
  await locker.query('COMMIT');
  locker.release();
  assert.deepStrictEqual([worker.seen.lost, worker.seen.errors], [[], []]);
  open();
  await until('it is done', () => worker.seen.completed.length === 1);
  assert.deepStrictEqual((await rows('SELECT attempt FROM sent')), [{ attempt: 1 }]);
});

test('a process that stands still for longer than the session lives loses its tasks', async (t) => {
  const { queue, rows, start } = await newQueue(t, {}, SENT);
  await queue.add('x');
  const worker = start(async (task, { tx }) => {
    await tx.query('INSERT INTO sent VALUES ($1, $2)', [task.id, task.attempt]);
    if (task.attempt > 1) return;
    await sleep(1);
    const end = Date.now() + 5000; // computes, and no timer runs
    while (Date.now() < end);
    await forever;
  }, { ttl: 2000, concurrency: 2 });
  await until('it is done by another attempt', () => worker.seen.completed.length === 1);
  assert.ok(worker.seen.lost.length >= 1); // a machine that stands still, too, loses more than that one
  const [row, more] = await rows('SELECT attempt FROM sent');
  assert.ok(row.attempt > 1 && !more);
});
