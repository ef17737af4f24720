'use strict';
// What a worker does with a task. Seen to fail, each with its guard removed:
// - "no longer the worker's": Transaction.commit() sends COMMIT whatever ack answers
// - "ends its transaction": ENDS in Transaction.query() matches nothing
// - "after the handler has returned": Transaction.refuseMore() does nothing
// - "in one statement": Settler.work() takes batches of one
// - "the one that is refused": Settler.settle() does not settle one by one
// - "no more than are free": Worker.wanted() returns concurrency

const test = require('node:test');
const assert = require('node:assert');
const { Queue, Worker, Snooze, RetryLater } = require('pgfairq');
const { newQueue, until } = require('./support.js');

const SENT = 'CREATE TABLE sent (task bigint, receiver text)';

test('a handler gets tasks, and they are done', async (t) => {
  const { queue, start } = await newQueue(t);
  const id = await queue.add({ to: 'ann' }, { group: 42, name: 'welcome', headers: { trace: 'x' }, priority: 2 });
  const worker = start(async (task) => task.data.to);
  await until('it is completed', () => worker.seen.completed.length === 1);
  const { task, result } = worker.seen.completed[0];
  assert.deepStrictEqual([task.id, task.queue, task.group, task.attempt, task.priority, task.name, task.data, task.headers, result],
    [id, 'emails', '42', 1, 2, 'welcome', { to: 'ann' }, { trace: 'x' }, 'ann']);
  assert.ok(Math.abs(task.enqueuedAt - Date.now()) < 3600_000);
  assert.strictEqual(JSON.parse(JSON.stringify(task)).id, id);
  assert.deepStrictEqual(await queue.counts(), { ready: 0, leased: 0, scheduled: 0, overflow: 0, held: 0, dead: 0 });
});

test('what the handler writes commits with the acknowledgement, and is undone when it throws', async (t) => {
  const { queue, rows, start } = await newQueue(t, { maxAttempts: 2 }, SENT);
  await queue.addMany([{ data: 'good' }, { data: 'bad' }]);
  const worker = start(async (task, { tx }) => {
    await tx.query('INSERT INTO sent VALUES ($1, $2)', [task.id, task.data]);
    if (task.data === 'bad') throw new Error('no such mailbox');
  });
  await until('one is dead', async () => (await queue.counts()).dead === 1);
  await until('one is completed', () => worker.seen.completed.length === 1);
  assert.deepStrictEqual(await rows('SELECT receiver FROM sent'), [{ receiver: 'good' }]);
  await until('both attempts are told', () => worker.seen.failed.length === 2);
  const [dead] = await queue.list({ state: 'dead' });
  assert.match(dead.lastError, /^Error: no such mailbox\n {4}at .*worker\.test\.js/);
});

test('what is written for a task that is no longer the worker\'s is rolled back', async (t) => {
  const { queue, rows, start } = await newQueue(t, {}, SENT);
  const id = await queue.add('x');
  const worker = start(async (task, { tx }) => {
    await tx.query('INSERT INTO sent VALUES ($1)', [task.id]);
    assert.ok(await queue.cancel(task.id));
  });
  await until('it is told', () => worker.seen.lost.length === 1);
  assert.deepStrictEqual(await rows('SELECT * FROM sent'), []);
  assert.strictEqual(worker.seen.lost[0].task.id, id);
  assert.strictEqual(worker.seen.completed.length + worker.seen.failed.length, 0);
});

test('a handler that goes on after a failed statement has failed', async (t) => {
  const { queue, rows, start } = await newQueue(t, { maxAttempts: 1 }, SENT);
  await queue.add('x');
  const worker = start(async (task, { tx }) => {
    await tx.query('INSERT INTO sent VALUES ($1)', [task.id]);
    await tx.query('SELECT 1/0').catch(() => {});
  });
  await until('it is told', () => worker.seen.failed.length === 1);
  assert.match((await queue.list({ state: 'dead' }))[0].lastError, /a statement in the transaction of the task failed/);
  assert.deepStrictEqual(await rows('SELECT * FROM sent'), []);
});

test('a handler that ends its transaction itself is refused; savepoints are not', async (t) => {
  const { queue, rows, start } = await newQueue(t, { maxAttempts: 1 }, SENT);
  await queue.addMany(['commit', ' BEGIN', 'end', 'rollback;', 'Start Transaction', 'abort'].map((data) => ({ data })));
  const worker = start(async (task, { tx }) => {
    await tx.query('INSERT INTO sent VALUES ($1)', [task.id]);
    await tx.query(task.data);
  });
  await until('all have failed', () => worker.seen.failed.length === 6);
  for (const { error } of worker.seen.failed) assert.match(error.message, /the worker ends the transaction/);
  await worker.close();
  assert.deepStrictEqual(await rows('SELECT * FROM sent'), []);

  await queue.add('savepoint');
  const other = start(async (task, { tx }) => {
    await tx.query('SAVEPOINT s');
    await tx.query('SELECT 1/0').catch(() => {});
    await tx.query('ROLLBACK TO SAVEPOINT s');
    await tx.query({ text: 'INSERT INTO sent VALUES ($1, $2)', values: [1, 'after'] });
  });
  await until('it is completed', () => other.seen.completed.length === 1);
  assert.deepStrictEqual(await rows('SELECT receiver FROM sent'), [{ receiver: 'after' }]);
});

test('a query after the handler has returned is refused', async (t) => {
  const { queue, rows, start } = await newQueue(t, {}, SENT);
  await queue.add('x');
  const worker = start(async (task, { tx }) => {
    void tx.query('INSERT INTO sent VALUES (1)'); // asked for before the end, so it belongs to the task
    return { late: () => tx.query('INSERT INTO sent VALUES (2)') };
  });
  await until('it is completed', () => worker.seen.completed.length === 1);
  await assert.rejects(worker.seen.completed[0].result.late(), /its transaction is over/);
  assert.deepStrictEqual(await rows('SELECT task FROM sent'), [{ task: '1' }]);
});

/** The pool, and what was sent through it. */
function recorded(pool) {
  const sent = [];
  const note = (config) => { sent.push(typeof config === 'string' ? config : config.text); };
  const noting = (it) => new Proxy(it, {
    get(target, key) {
      if (key === 'query') return (config, values) => { note(config); return target.query(config, values); };
      if (key === 'connect') return async () => noting(await target.connect());
      const value = target[key];
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
  return { proxy: noting(pool), sent };
}

test('tasks without a transaction that end together are acknowledged in one statement', async (t) => {
  const { pool, queue } = await newQueue(t);
  await queue.addMany(Array.from({ length: 50 }, (_, n) => ({ data: n })));
  const { proxy, sent } = recorded(pool);
  let started = 0;
  let release;
  const all = new Promise((resolve) => { release = resolve; });
  const worker = new Worker(proxy, 'emails', async () => {
    if (++started === 50) release();
    await all;
  }, { concurrency: 50 });
  let completed = 0;
  worker.on('completed', () => { completed++; });
  const running = worker.run();
  await until('all are completed', () => completed === 50);
  await worker.close();
  await running;
  const acks = sent.filter((text) => text.includes('fairq.ack'));
  assert.strictEqual(acks.length, 1);
  assert.deepStrictEqual(sent.filter((text) => /begin|commit/i.test(text)), []);
});

test('the one that is refused in a batch fails alone', async (t) => {
  const { queue, rows, start } = await newQueue(t, { keepDone: '1 day', maxAttempts: 1 },);
  await rows("ALTER TABLE fairq.done_emails ADD CHECK (payload <> '3' OR outcome <> 'acked')");
  await queue.addMany(Array.from({ length: 10 }, (_, n) => ({ data: n })));
  let started = 0;
  let release;
  const all = new Promise((resolve) => { release = resolve; });
  const worker = start(async () => {
    if (++started === 10) release();
    await all;
  }, { concurrency: 10 });
  await until('all are settled', () => worker.seen.completed.length + worker.seen.failed.length === 10);
  assert.deepStrictEqual(worker.seen.failed.map(({ task }) => task.data), [3]);
  const [dead] = await queue.list({ state: 'dead' });
  assert.match(dead.lastError, /check constraint/);
});

test('results are kept where the queue keeps done tasks, with and without a transaction', async (t) => {
  const { pool, queue, start } = await newQueue(t, { keepDone: '1 h' });
  const other = new Queue(pool, 'other');
  await other.create();
  const worker = start(async (task, { tx }) => {
    if (task.data.tx) await tx.query('SELECT 1');
    return task.data.result;
  }, { concurrency: 4 }, ['emails', 'other']);
  const results = [[1, 'two', null, { '\u{1F600}': '<b>"\\' }], 'text', 0, null, false];
  for (const tx of [false, true]) {
    for (const result of results) {
      const id = await queue.add({ tx, result });
      assert.deepStrictEqual(await queue.waitUntilFinished(id, { timeout: 100_000 }), result);
      assert.strictEqual((await queue.outcome(id)).state, 'acked');
    }
    await other.add({ tx, result: 'not kept' });
  }
  await until('all are completed', () => worker.seen.completed.length === 12);
  assert.strictEqual(worker.seen.failed.length, 0);
  await queue.alter({ keepDone: 0 }); // the worker learns it from the server's answer
  await queue.add({ result: 1 });
  await until('that is completed', () => worker.seen.completed.length === 13);
});

test('a task that is snoozed comes again, without an attempt', async (t) => {
  const { queue, rows, start } = await newQueue(t, { maxAttempts: 1 }, SENT);
  await queue.addMany([{ data: 'context' }, { data: 'thrown' }]);
  const attempts = [];
  let times = 0;
  const worker = start(async (task, { tx, snooze }) => {
    attempts.push(task.attempt);
    await tx.query('INSERT INTO sent VALUES ($1)', [task.id]);
    if (++times <= 4) {
      if (task.data === 'context') snooze(20);
      throw new Snooze('30 ms');
    }
  });
  await until('both are completed', () => worker.seen.completed.length === 2);
  assert.deepStrictEqual(attempts, [1, 1, 1, 1, 1, 1]);
  assert.deepStrictEqual(await rows('SELECT count(*)::int FROM sent'), [{ count: 2 }]);
  assert.strictEqual(worker.seen.failed.length, 0);
  assert.deepStrictEqual(await rows("SELECT snoozed::int FROM fairq.queue_stats WHERE queue = 'emails'"), [{ snoozed: 4 }]);
});

test('a handler may say when to try again', async (t) => {
  const { queue, start } = await newQueue(t, { backoffBase: '1 h' });
  const id = await queue.add('x');
  const worker = start(async () => { throw new RetryLater('the mailbox is busy', '10 min'); });
  await until('it has failed', () => worker.seen.failed.length === 1);
  const task = await queue.get(id);
  assert.strictEqual(task.state, 'scheduled');
  assert.strictEqual(task.attempts, 1);
  assert.ok(task.runAt - Date.now() > 8 * 60_000 && task.runAt - Date.now() < 12 * 60_000);
  assert.match(task.lastError, /^RetryLater: the mailbox is busy/);
});

test('progress is seen, and a lease is extended', async (t) => {
  const { queue, start } = await newQueue(t);
  const id = await queue.add('x', { headers: { trace: 'y' } });
  let go;
  const gate = new Promise((resolve) => { go = resolve; });
  const worker = start(async (task, { progress, extend }) => {
    await progress({ done: '<50%>', of: 2 });
    assert.ok(await extend() > new Date());
    await gate;
    return { progress, extend };
  });
  const task = await until('it has progress', async () => {
    const status = await queue.get(id);
    return status.progress ? status : null;
  });
  assert.deepStrictEqual([task.state, task.progress, task.headers.trace], ['leased', { done: '<50%>', of: 2 }, 'y']);
  go();
  await until('it is completed', () => worker.seen.completed.length === 1);
  await assert.rejects(worker.seen.completed[0].result.progress(1), /after its handler had ended/);
  await assert.rejects(worker.seen.completed[0].result.extend(), /after its handler had ended/);
});

test('whatever is thrown is kept as a text that is bounded', async (t) => {
  const { queue, start } = await newQueue(t, { maxAttempts: 1 });
  const cyclic = {};
  cyclic.self = cyclic;
  const hostile = new Proxy(new Error('x'), { get() { throw new Error('no'); } });
  const thrown = [new Error('a\0NUL'), new Error('<script>\u{1F600}\ud800', { cause: new TypeError('the cause') }), undefined, null,
    'text', cyclic, hostile, Object.assign(new Error('from the server'), { code: '23505', detail: 'Key (a)=(1).' }),
    new Error('%s'.repeat(100_000)), Object.assign(new Error('no stack'), { stack: undefined })];
  await queue.addMany(thrown.map((_, n) => ({ data: n })));
  const worker = start(async (task) => { throw thrown[task.data]; }, { concurrency: 20 });
  await until('all have failed', () => worker.seen.failed.length === thrown.length);
  const errors = new Map((await queue.list({ state: 'dead' })).map((task) => [task.data, task.lastError]));
  assert.match(errors.get(0), /^Error: a\\0NUL\n/);
  assert.match(errors.get(1), /^Error: <script>\u{1F600}\ufffd\n[^]*\ncaused by: TypeError: the cause\n/u);
  assert.strictEqual(errors.get(2), 'thrown: undefined');
  assert.match(errors.get(5), /thrown: .*Circular/);
  assert.strictEqual(errors.get(6), 'an error that cannot be shown');
  assert.match(errors.get(7), /code: 23505\n {2}detail: Key \(a\)=\(1\)\./);
  for (const text of errors.values()) assert.ok(text.length < 8200);
  assert.ok(/%\n… \d+ characters …\n/.test(errors.get(8)));
});

test('a listener that throws is reported, and harms no task', async (t) => {
  const { queue, start } = await newQueue(t);
  await queue.addMany([{ data: 1 }, { data: 2 }]);
  const worker = start(async () => {});
  worker.on('completed', () => { throw new Error('of a listener'); });
  await until('both are done', async () => worker.seen.errors.length === 2);
  assert.strictEqual(worker.seen.errors[0].message, 'of a listener');
  assert.deepStrictEqual((await queue.counts()).leased, 0);
});

test('no more run than are allowed, and no more are claimed than are free', async (t) => {
  const { queue, start } = await newQueue(t);
  await queue.addMany(Array.from({ length: 60 }, (_, n) => ({ data: n })));
  let running = 0;
  let most = 0;
  let leased = 0;
  const worker = start(async () => {
    most = Math.max(most, ++running);
    await new Promise(setImmediate);
    if (running === 3) leased = Math.max(leased, (await queue.counts()).leased);
    running--;
  }, { concurrency: 3, prefetch: 0 });
  await until('all are completed', () => worker.seen.completed.length === 60);
  assert.strictEqual(most, 3);
  assert.ok(leased >= 1 && leased <= 13, `${leased} leased`); // three that run, and ten whose end is on its way
});

test('several queues: in the order given, or each in its turn', async (t) => {
  const { pool, queue, start } = await newQueue(t);
  const names = ['first', 'second'];
  const queues = await Promise.all(names.map(async (name) => {
    const one = new Queue(pool, name);
    await one.create();
    return one;
  }));
  for (const rotate of [false, true]) {
    for (const one of queues) await one.addMany([{ data: 1 }, { data: 2 }, { data: 3 }]);
    const worker = start(async () => {}, { rotate, prefetch: 0 }, names);
    await until('all are completed', () => worker.seen.completed.length === 6);
    const order = worker.seen.completed.map(({ task }) => task.queue[0]).join('');
    assert.strictEqual(order, rotate ? 'fsfsfs' : 'fffsss');
    await worker.close();
  }
  assert.strictEqual((await queue.counts()).ready, 0);
});
