'use strict';
// pgfairq/testing. Seen to fail, each with its guard removed:
// - "as a worker would": runInline() without the timer; without hooks; that does not look at maxAttempts; verdictOf() without its catch
// - "are told": runInline() that tells nothing; that does not wait for it; that throws nothing
// - "until nothing can be claimed": Worker.whenDrained() that does not wait for what runs
// - "a hook adds": Worker.whenDrained() that does not wait for hooks
// - "works already": Worker.drain() that sets `draining` first
// - "are enqueued": includes() that is always true; list() without the client
// - "are wrong": checkOptions() of each

const test = require('node:test');
const assert = require('node:assert');
const path = require('node:path');
const { HandlerTimeout, LeaseLost, NoHandler, Queue, RetryLater, Snooze, Task, Unrecoverable, Worker } = require('pgfairq');
const { assertEnqueued, drain, refuteEnqueued, runInline, testContext, testTask } = require('pgfairq/testing');
const { newQueue, until } = require('./support.js');

// --- without a server -------------------------------------------------------------

test('a task and a context as a handler gets them', async () => {
  const at = new Date('2026-01-02T03:04:05.006Z');
  const task = testTask({ to: 'ann', when: at }, { id: '7', queue: 'emails', name: 'welcome', group: 42, subgroup: 'bob', attempt: 3, priority: 2,
    headers: { trace: 'x' }, enqueuedAt: at, expiresAt: at });
  assert.ok(task instanceof Task);
  assert.deepStrictEqual(JSON.parse(JSON.stringify(task)), { id: '7', queue: 'emails', group: '42', subgroup: 'bob', attempt: 3, priority: 2, name: 'welcome',
    data: { to: 'ann', when: at.toISOString() }, headers: { trace: 'x' }, enqueuedAt: at.toISOString(), expiresAt: at.toISOString() });
  const plain = testTask(1);
  assert.deepStrictEqual([plain.id, plain.queue, plain.name, plain.group, plain.subgroup, plain.attempt, plain.headers, plain.expiresAt], ['1', 'test', '', '', null, 1, null, null]);

  const asked = [];
  const context = testContext({ tx: { query: async (...parts) => { asked.push(parts); return { rows: [] }; } } });
  await context.tx.query('SELECT 1', [2]);
  await (await context.tx.client()).query('SELECT 2');
  assert.deepStrictEqual(asked, [['SELECT 1', [2]], ['SELECT 2']]);
  await context.progress({ half: at });
  assert.ok(await context.extend('5 min') > new Date());
  assert.deepStrictEqual([context.progressed, context.extended], [[{ half: at.toISOString() }], ['5 min']]);
  assert.throws(() => context.snooze('1 min'), (error) => error instanceof Snooze && error.delay === '1 min');
  assert.throws(() => context.fail(new TypeError('no')), (error) => error instanceof Unrecoverable && error.cause instanceof TypeError);
  assert.strictEqual(context.signal.aborted, false);
  context.lose();
  assert.ok(context.signal.reason instanceof LeaseLost);
  for (const call of [() => context.tx.query('SELECT 3'), () => context.progress(1), () => context.extend()]) await assert.rejects(call, LeaseLost);
  await assert.rejects(testContext().tx.query('SELECT 1'), /this context has no transaction; give it one: \{ tx: client \}/);
});

test('a handler is called as a worker would, and what would become of its task is said', async () => {
  const queue = new Queue('postgres://nobody@nowhere/none', 'emails');
  const told = [];
  const end = async (handler, options) => {
    const { outcome, result, error, delay } = await runInline(handler, { n: 1 }, options);
    return [outcome, result, error?.name, delay];
  };
  assert.deepStrictEqual(await end(async (task) => ({ n: task.data.n, gone: undefined })), ['done', { n: 1 }, undefined, null]);
  assert.deepStrictEqual(await end(() => undefined), ['done', null, undefined, null]);
  assert.deepStrictEqual(await end(() => { throw new TypeError('no'); }), ['failed', null, 'TypeError', null]);
  assert.deepStrictEqual(await end(() => 1n), ['failed', null, 'TypeError', null]);
  assert.deepStrictEqual(await end(() => { throw new TypeError('no'); }, { attempt: 3, maxAttempts: 3 }), ['dead', null, 'TypeError', null]);
  assert.deepStrictEqual(await end(() => { throw new TypeError('no'); }, { attempt: 2, maxAttempts: 3 }), ['failed', null, 'TypeError', null]);
  assert.deepStrictEqual(await end(() => { throw new TypeError('no'); }, { giveUpOn: [TypeError] }), ['dead', null, 'TypeError', null]);
  assert.deepStrictEqual(await end((task, { fail }) => fail('no')), ['dead', null, 'Unrecoverable', null]);
  assert.deepStrictEqual(await end(() => { throw new RetryLater('x', '5 min'); }), ['failed', null, 'RetryLater', '5 min']);
  assert.deepStrictEqual(await end((task, { snooze }) => snooze(5)), ['snoozed', null, undefined, '5.000 ms']);
  assert.deepStrictEqual(await end(() => { throw new RetryLater('x', {}); }), ['failed', null, 'TypeError', null]);
  assert.deepStrictEqual(await end({ a: { handler: () => { throw new Error('x'); }, backoff: () => { throw new RangeError('no'); } } }, { name: 'a' }),
    ['failed', null, 'RangeError', null]);
  const named = queue.task('welcome', { handler: (task) => { told.push(`${task.queue} ${task.name}`); throw new RangeError('no'); }, backoff: '1 min', giveUpOn: [TypeError] });
  assert.deepStrictEqual(await end(named), ['failed', null, 'RangeError', '1 min']);
  assert.deepStrictEqual(told.splice(0), ['emails welcome']);
  assert.deepStrictEqual(await end({ a: () => 'a', '': () => 'rest' }, { name: 'a' }), ['done', 'a', undefined, null]);
  assert.deepStrictEqual(await end({ a: () => 'a', '': () => 'rest' }, { name: 'b' }), ['done', 'rest', undefined, null]);
  const none = await runInline({ a: () => 'a' }, 1, { name: 'b', giveUpOn: [Error] });
  assert.ok(none.outcome === 'failed' && none.error instanceof NoHandler);
  const late = await runInline({ slow: { handler: () => new Promise(() => {}), timeout: 5 } }, 1, { name: 'slow' });
  assert.ok(late.outcome === 'failed' && late.error instanceof HandlerTimeout);
  const hooks = { before: (task) => { told.push(task.data); }, around: async (task, context, next) => `<${await next()}>` };
  assert.deepStrictEqual(await end(() => 'x', { hooks }), ['done', '<x>', undefined, null]);
  assert.deepStrictEqual(told, [{ n: 1 }]);
  const { progressed } = await runInline(async (task, { progress }) => { await progress(5); }, 1);
  assert.deepStrictEqual(progressed, [5]);
  for (const thread of [false, true]) {
    const sent = await runInline({ x: { file: path.join(__dirname, 'programs/compute.js'), thread } }, { do: 'extend' }, { name: 'x' });
    assert.deepStrictEqual([sent.outcome, sent.result], ['done', true]);
  }
});

test('hooks are told what became of the task, and what they throw is thrown', async () => {
  const told = [];
  const hooks = Object.fromEntries(['after', 'failed', 'dead', 'lost'].map((name) =>
    [name, async (task, about) => { await null; told.push(`${name} ${about instanceof Error ? about.message : about}`); }]));
  const run = async (handler, options) => {
    const { outcome } = await runInline(handler, 1, { hooks, ...options });
    return [outcome, ...told.splice(0)];
  };
  assert.deepStrictEqual(await run(() => 'x'), ['done', 'after x']);
  assert.deepStrictEqual(await run(() => { throw new Error('no'); }), ['failed', 'failed no']);
  assert.deepStrictEqual(await run(() => { throw new Error('no'); }, { maxAttempts: 1 }), ['dead', 'failed no', 'dead no']);
  assert.deepStrictEqual(await run((task, { snooze }) => snooze(5)), ['snoozed']);
  assert.deepStrictEqual(await run((task, context) => context.lose(new Error('gone'))), ['lost', 'lost gone']);
  const boom = () => { throw new Error('of after'); };
  await assert.rejects(runInline(() => 1, 1, { hooks: { after: boom } }), /^Error: of after$/);
});

test('bad arguments are wrong', async () => {
  for (const [call, message] of [
    [() => testTask(undefined), /the data of testTask\(\) is undefined/],
    [() => testTask(1, { grup: 5 }), /testTask\(\) has no option "grup"/],
    [() => testTask(1, { attempt: 0 }), /attempt of testTask\(\) is 0/],
    [() => testContext({ client: 5 }), /testContext\(\) has no option "client"; there are tx/],
    [() => runInline(() => 1, 1, { time: 5 }), /runInline\(\) has no option "time"/],
    [() => runInline(5, 1), /the handler is no function/],
    [() => runInline(() => 1, 1, { giveUpOn: 5 }), /giveUpOn is a list/],
    [() => assertEnqueued(new Queue('', 'q'), { nam: 'x' }), /assertEnqueued\(\) has no option "nam"; there are name, data/],
    [() => assertEnqueued(new Queue('', 'q'), { count: -1 }), /count of assertEnqueued\(\) is -1/],
  ]) await assert.rejects(async () => call(), message);
});

// --- with a server ----------------------------------------------------------------

test('a worker works until nothing can be claimed, also not what handlers have added', async (t) => {
  const { pool, queue, rows } = await newQueue(t, { maxAttempts: 2 });
  const other = new Queue(pool, 'other');
  await other.create();
  const count = queue.task('count', async (task) => {
    await new Promise((resolve) => setTimeout(resolve, 20));
    if (task.data > 0) await (task.data % 2 ? other : queue).add(task.data - 1, { name: 'count' });
    return task.data;
  });
  await count.addMany([{ data: 4 }, { data: 0 }, { data: 0, delay: '1 h' }]);
  await queue.add('bad', { name: 'bad' });
  const order = [];
  const drained = await drain(pool, ['emails', 'other'], {
    count, bad: async () => { throw new Error('no'); }, '': count.work.handler,
  }, { concurrency: 2, hooks: { after: (task) => { order.push(task.data); } } });
  assert.deepStrictEqual(drained.completed.map(({ result }) => result).sort(), [0, 0, 1, 2, 3, 4]);
  assert.deepStrictEqual([drained.failed.length, drained.dead.map(({ task }) => task.data), drained.lost.length, order.length], [2, ['bad'], 0, 6]);
  assert.deepStrictEqual(await queue.counts(), { ready: 0, leased: 0, scheduled: 1, overflow: 0, held: 0, dead: 1 });
  assert.deepStrictEqual(await rows('SELECT * FROM fairq.sessions'), []);
  assert.deepStrictEqual((await drain(pool, 'emails', { count })).completed, []);
  await assert.rejects(drain(pool, 'no such', { '': () => 1 }), /there is no queue "no such"/);
  await new Worker(pool, 'emails', { '': () => 1 }).drain();
});

test('what a hook adds is worked on, too, before a worker has drained its queue', async (t) => {
  const { pool, queue, rows } = await newQueue(t);
  await queue.add(3);
  const after = async (task) => {
    for (let n = 0; n < 50; n++) await rows('SELECT 1'); // longer than a claim takes that finds nothing
    if (task.data > 0) await queue.add(task.data - 1);
  };
  const { completed } = await drain(pool, 'emails', (task) => task.data, { hooks: { after } });
  assert.deepStrictEqual(completed.map(({ result }) => result), [3, 2, 1, 0]);
});

test('a worker that works already is not made to drain its queue', async (t) => {
  const { queue, start } = await newQueue(t);
  const worker = start(async () => {});
  assert.throws(() => worker.drain(), /was started already/);
  for (const n of [1, 2]) {
    await queue.add(n);
    await until('it is done', () => worker.seen.completed.length === n);
  }
});

test('tasks that are enqueued are found, by what is said of them', async (t) => {
  const { pool, queue } = await newQueue(t, { subgroups: true });
  await queue.add({ to: 'ann', at: { h: 1, m: 2 }, list: [1, 2] }, { name: 'welcome', group: 42, subgroup: 'x', priority: 2, headers: { trace: 'y', z: 1 } });
  await queue.add({ to: 'bob' }, { name: 'welcome', delay: '1 h' });
  const found = await assertEnqueued(queue, { name: 'welcome', data: { to: 'ann', at: { h: 1 } }, group: 42, subgroup: 'x', priority: 2, headers: { trace: 'y' }, count: 1 });
  assert.deepStrictEqual(found.map(({ data }) => data.to), ['ann']);
  assert.strictEqual((await assertEnqueued(queue)).length, 2);
  await assertEnqueued(queue, { subgroup: null, state: 'scheduled', count: 1 });
  await assertEnqueued(queue.task('welcome'), { count: 2 });
  await assertEnqueued(queue.task('other'), { count: 0 });
  await refuteEnqueued(queue, { data: { to: 'eve' } });
  await assert.rejects(refuteEnqueued(queue, { data: { to: 'bob' } }), /: 1 in place of 0 tasks are enqueued/);
  await assertEnqueued(queue, { data: { list: [1, 2] } });
  for (const wanted of [{ data: { list: [1] } }, { data: { to: 'ann', more: 1 } }, { data: 'ann' }, { data: { to: {} } }, { name: 'other' }, { group: 41 }, { subgroup: 'y' },
    { state: 'dead' }, { priority: 3 }, { headers: { trace: 'x' } }, { count: 1 }, { count: 0 }, { count: 3 }]) {
    await assert.rejects(assertEnqueued(queue, wanted), (error) => error.code === 'ERR_ASSERTION', JSON.stringify(wanted));
  }
  await assert.rejects(assertEnqueued(queue, { data: { to: 'eve' } }), (error) => {
    assert.match(error.message, /^no task is enqueued in "emails" with \{ data: \{ to: 'eve' \} \}; there are\n {2}\d+ \{ name: 'welcome', data: \{ .*to: 'ann'/);
    return true;
  });
  await assert.rejects(assertEnqueued(queue, { name: 'welcome', count: 1 }), /^AssertionError.*: 2 in place of 1 tasks are enqueued in "emails" with \{ name: 'welcome' \}; there are\n/);
  await assert.rejects(assertEnqueued(queue.task('none')), /with \{ name: 'none' \}; there is none$/);
  const client = await pool.connect();
  await client.query('BEGIN');
  await queue.add('inside', { client, name: 'inside' });
  await assertEnqueued(queue, { name: 'inside', data: 'inside' }, { client });
  await assertEnqueued(queue, { name: 'inside', count: 0 });
  await client.query('ROLLBACK');
  client.release();
});
