'use strict';
// What a queue adds, shows and changes. Seen to fail:
// - "in the order given": Queue.many() takes the rows as they come
// - "do not wait for each other in a circle": ENQUEUE_EACH does not sort by the key
// - "in the application's transaction": Queue.call() and Queue.set() without the client
// - "message and stack apart": partsOf() that takes all for the message
// - "bad arguments": checkOptions(), groupText() and idText() take anything

const test = require('node:test');
const assert = require('node:assert');
const { Queue, TaskFailed, WaitTimeout } = require('pgfairq');
const { newQueue, until } = require('./support.js');

test('a task has what was said of it', async (t) => {
  const { queue } = await newQueue(t);
  const runAt = new Date(Date.now() + 3600_000);
  const id = await queue.add({ a: 1 }, {
    group: 10n ** 20n, priority: 7, cost: 2.5, runAt, uniqueKey: 'k', uniqueFor: '1 min', maxAttempts: 3, lease: '5 min',
    headers: { trace: 'x' }, name: 'kind', expiresAt: '2099-01-01T00:00:00Z',
  });
  const task = await queue.get(id);
  assert.match(id, /^\d+$/);
  assert.deepStrictEqual(task, {
    id, queue: 'emails', state: 'scheduled', group: '100000000000000000000', data: { a: 1 }, headers: { trace: 'x' },
    priority: 7, cost: 2.5, attempts: 0, maxAttempts: 3, enqueuedAt: task.enqueuedAt, runAt, leaseUntil: null, uniqueKey: 'k',
    lastError: null, expiresAt: new Date('2099-01-01'), progress: null, name: 'kind', lost: 0, maxLost: 5, history: [], subgroup: null,
  });
  assert.strictEqual(await queue.add({ a: 2 }, { uniqueKey: 'k' }), id);
  assert.strictEqual(await queue.add({ a: 3 }, { uniqueKey: 'k', onDuplicate: 'replace', delay: 60_000 }), id);
  assert.deepStrictEqual((await queue.get(BigInt(id))).data, { a: 3 });
  const never = await queue.add('x', { expiresAt: 'infinity' });
  assert.strictEqual((await queue.get(Number(never))).expiresAt, null);
  const next = await queue.add('after', { after: [never], onDead: 'run' });
  assert.strictEqual((await queue.get(next)).state, 'held');
});

test('payloads come back as they were', async (t) => {
  const { queue } = await newQueue(t);
  const payloads = [null, true, false, 0, -1.5, 1e300, 2 ** 53 - 1, '', '<script>alert("1")</script>', "'; DROP TABLE x; --", '\u{1F600}\u0001\n\\',
    '\\u0000', [], [[]], ['{"a"}', 'NULL', null], {}, { 'a"b\\': [1, { c: null }] }, 'x'.repeat(100_000), '%s$1', new Date(0)];
  const ids = [];
  for (const data of payloads) ids.push(await queue.add(data));
  ids.push(...await queue.addMany(payloads.map((data) => ({ data }))));
  ids.push(...await queue.addMany(payloads.map((data) => ({ data, headers: { data } }))));
  for (const [n, id] of ids.entries()) {
    const expected = JSON.parse(JSON.stringify(payloads[n % payloads.length]));
    const task = await queue.get(id);
    assert.deepStrictEqual(task.data, expected);
    if (n >= 2 * payloads.length) assert.deepStrictEqual(task.headers.data, expected);
  }
  await assert.rejects(queue.add('a\0b'), (error) => error.code === '22P05');
  await assert.rejects(queue.add('\ud800'), (error) => /^22P0/.test(error.code));
  await assert.rejects(queue.add('x', { group: 'a\0b' }), (error) => error.code === '22021');
});

test('numbers that JavaScript cannot hold are there as text', async (t) => {
  const { queue, rows, start } = await newQueue(t);
  await rows(`SELECT fairq.enqueue('emails', '12345678901234567890.123')`);
  assert.strictEqual((await queue.peek())[0].rawData, '12345678901234567890.123');
  const worker = start(async (task) => task.rawData);
  await until('it is done', () => worker.seen.completed.length === 1);
  assert.strictEqual(worker.seen.completed[0].result, '12345678901234567890.123');
});

test('many are added at once, in the order given, with whatever is said of each', async (t) => {
  const { pool, queue } = await newQueue(t);
  assert.deepStrictEqual(await queue.addMany([]), []);
  const plain = await queue.addMany([{ data: 1, group: 'b', priority: 3 }, { data: 2, cost: 2, runAt: new Date(Date.now() + 60_000) },
    { data: 3, uniqueKey: 'k' }, { data: 4, uniqueKey: 'k' }]);
  assert.strictEqual(plain[2], plain[3]);
  const [first, second] = await Promise.all(plain.slice(0, 2).map((id) => queue.get(id)));
  assert.deepStrictEqual([first.data, first.group, first.priority, second.data, second.cost, second.state], [1, 'b', 3, 2, 2, 'scheduled']);

  const each = await queue.addMany([{ data: 'z', uniqueKey: 'z', name: 'n' }, { data: 'a', uniqueKey: 'a', delay: '1 h', maxAttempts: 2 },
    { data: 'r', uniqueKey: 'k', onDuplicate: 'replace' }, { data: 'x', lease: 1000, expiresAt: new Date(Date.now() + 60_000), after: [plain[0]], onDead: 'run' }]);
  assert.strictEqual(each[2], plain[2]);
  const tasks = await Promise.all(each.map((id) => queue.get(id)));
  assert.deepStrictEqual(tasks.map((task) => [task.data, task.state]), [['z', 'ready'], ['a', 'scheduled'], ['r', 'ready'], ['x', 'held']]);
  assert.deepStrictEqual([tasks[0].name, tasks[0].headers, tasks[1].maxAttempts], ['n', null, 2]);

  const bulk = await queue.addBulk([{ name: 'welcome', data: { to: 'ann' }, opts: { group: 7 } }, { data: 'no name' }]);
  const [welcome, none] = await Promise.all(bulk.map((id) => queue.get(id)));
  assert.deepStrictEqual([welcome.name, welcome.headers, welcome.group, none.name], ['welcome', null, '7', null]);

  const client = await pool.connect();
  await client.query('BEGIN');
  const [inside] = await queue.addMany([{ data: 'in a transaction' }], { client });
  const alone = await queue.add('in a transaction', { client });
  assert.strictEqual(await queue.get(inside), null);
  await client.query('ROLLBACK');
  client.release();
  assert.strictEqual(await queue.get(alone), null);
});

test('calls with the same keys do not wait for each other in a circle', async (t) => {
  const { pool, queue } = await newQueue(t);
  const keys = Array.from({ length: 50 }, (_, n) => `key ${n}`);
  const round = (order) => queue.addMany(order.map((uniqueKey) => ({ data: 1, uniqueKey, name: 'each' })));
  for (let n = 0; n < 20; n++) await Promise.all([round(keys), round([...keys].reverse()), round(keys), round([...keys].reverse())]);
  assert.strictEqual((await queue.counts()).ready, 50);
  assert.ok(pool);
});

test('topics', async (t) => {
  const { queue } = await newQueue(t);
  await queue.subscribe('order.*.paid');
  assert.strictEqual(await queue.publish('order.eu.paid', { n: 1 }, { group: 5, name: 'paid' }), 1);
  assert.strictEqual(await queue.publish('order.eu.lost', {}), 0);
  const [task] = await queue.peek();
  assert.deepStrictEqual([task.data, task.group, task.name], [{ n: 1 }, '5', 'paid']);
  assert.strictEqual(await queue.unsubscribe('order.*.paid'), true);
  assert.strictEqual(await queue.unsubscribe('order.*.paid'), false);
  await assert.rejects(queue.publish('a', 1, { after: [1] }), /publish\(\) has no after/);
});

test('looking', async (t) => {
  const { pool, queue, start } = await newQueue(t, { maxAttempts: 1 });
  const [a, b, c] = await queue.addMany([{ data: 1, group: 'x' }, { data: 2, group: 'y' }, { data: 3, delay: '1 h' }]);
  assert.deepStrictEqual(await queue.counts(), { ready: 2, leased: 0, scheduled: 1, overflow: 0, held: 0, dead: 0 });
  assert.deepStrictEqual((await queue.peek(1)).map((task) => task.id), [a]);
  assert.deepStrictEqual((await queue.list({ state: 'scheduled' })).map((task) => task.id), [c]);
  assert.deepStrictEqual((await queue.list({ group: 'y' })).map((task) => task.id), [b]);
  assert.strictEqual((await queue.list({ limit: 2 })).length, 2);
  assert.strictEqual(await queue.get('999999'), null);
  assert.strictEqual((await queue.position(b)).ahead, 1);
  assert.strictEqual(await queue.position('999999'), null);
  const worker = start(async (task) => { if (task.data === 2) throw new Error('no'); });
  await until('both are settled', () => worker.seen.completed.length + worker.seen.failed.length === 2);
  const stats = await queue.stats();
  assert.deepStrictEqual([stats.enqueued, stats.acked, stats.nacked, stats.deadTotal], [3, 1, 1, 1]);
  assert.ok(stats.wait.p50 >= 0 && stats.run.p99 >= 0 && stats.oldestReadyAge === null);
  await assert.rejects(new Queue(pool, 'none').counts(), /there is no queue "none"/);
});

test('changing what is there', async (t) => {
  const { queue, rows, start } = await newQueue(t, { maxAttempts: 1 });
  const ids = await queue.addMany(Array.from({ length: 6 }, (_, n) => ({ data: n, group: n % 2 ? 'odd' : 'even' })));
  assert.strictEqual(await queue.cancel(ids[0]), true);
  assert.strictEqual(await queue.cancel(ids[0]), false);
  assert.strictEqual(await queue.purgeGroup('even'), 2);
  await queue.pauseGroup('odd');
  assert.deepStrictEqual(await queue.peek(), []);
  await queue.resumeGroup('odd');
  await queue.pause();
  assert.deepStrictEqual(await queue.peek(), []);
  await queue.resume();
  await queue.setGroup('odd', { weight: 2, maxLeased: 5, rate: 1000, burst: 9 });
  assert.deepStrictEqual(await rows('SELECT group_key, weight, max_leased, rate, burst FROM fairq.group_settings'),
    [{ group_key: 'odd', weight: 2, max_leased: 5, rate: 1000, burst: 9 }]);
  assert.strictEqual(await queue.resetGroup('odd'), true);
  await queue.setGroupDefaults({ maxLeased: 3 });
  const worker = start(async () => { throw new Error('no'); });
  await until('all are dead', async () => (await queue.counts()).dead === 3);
  await worker.close();
  assert.strictEqual(await queue.revive(ids[1]), true);
  assert.strictEqual(await queue.revive(ids[1]), false);
  assert.strictEqual(await queue.reviveGroup('odd'), 2);
  assert.strictEqual(await queue.reviveAll(), 0);
  assert.strictEqual(await queue.purge(), 3);
  await queue.alter({ maxAttempts: 9, keepDone: '1 day' });
  assert.deepStrictEqual(await rows('SELECT max_attempts, group_max_leased FROM fairq.queues'), [{ max_attempts: 9, group_max_leased: 3 }]);
  await queue.create({ ifNotExists: true });
  await assert.rejects(queue.create(), (error) => error.code === '42710');
  assert.strictEqual(await queue.drop(), true);
  assert.strictEqual(await queue.drop(), false);
});

test('what changes something is done in the application\'s transaction, and undone with it', async (t) => {
  const { pool, queue, rows } = await newQueue(t, { subgroups: true, maxAttempts: 1 });
  const ids = await queue.addMany(['a', 'b', 'b', 'c'].map((group, n) => ({ data: n, group, subgroup: 's' })));
  await rows("SELECT FROM fairq.claim('emails', 1)");
  await rows(`SELECT fairq.nack(receipt, 'no') FROM fairq.claim('emails', 1)`);
  const dead = (await queue.list({ state: 'dead' }))[0].id;
  const state = () => rows(`SELECT (SELECT json_agg(t ORDER BY id) FROM (SELECT id, state, group_key FROM fairq.tasks('emails')) t) AS tasks,
    (SELECT json_agg(g) FROM fairq.group_settings g) AS groups, (SELECT json_agg(g) FROM fairq.subgroup_settings g) AS subgroups,
    (SELECT json_agg(s) FROM fairq.schedules s) AS schedules, (SELECT json_agg(q ORDER BY queue) FROM fairq.queues q) AS queues`);
  await queue.setGroup('z', { weight: 3 });
  await queue.setSubgroup('z', 's', { weight: 3 });
  await queue.schedule('old', '@daily');
  await queue.subscribe('topic');
  const before = await state();
  const other = new Queue(pool, 'other');
  const calls = [
    (o) => queue.cancel(ids[3], o), (o) => queue.revive(dead, o), (o) => queue.reviveGroup('a', o), (o) => queue.reviveAll(o),
    (o) => queue.purgeGroup('b', o), (o) => queue.purge(o), (o) => queue.pause(o), (o) => queue.resume(o),
    (o) => queue.pauseGroup('a', o), (o) => queue.resumeGroup('a', o), (o) => queue.setGroup('a', { weight: 2 }, o), (o) => queue.resetGroup('z', o),
    (o) => queue.setGroupDefaults({ maxLeased: 3 }, o), (o) => queue.pauseSubgroup('a', 's', o), (o) => queue.resumeSubgroup('a', 's', o),
    (o) => queue.setSubgroup('a', 's', { weight: 2 }, o), (o) => queue.resetSubgroup('z', 's', o), (o) => queue.setSubgroupDefaults({ weight: 2 }, o),
    (o) => queue.alter({ maxAttempts: 7 }, o), (o) => queue.schedule('nightly', '@daily', o), (o) => queue.unschedule('old', o),
    (o) => queue.subscribe('more', o), (o) => queue.unsubscribe('topic', o), (o) => other.create({}, o), (o) => queue.drop(o),
  ];
  for (const call of calls) {
    const client = await pool.connect();
    await client.query('BEGIN');
    await call({ client });
    await client.query('ROLLBACK');
    client.release();
    assert.deepStrictEqual(await state(), before, String(call));
    await assert.rejects(async () => call({ clint: pool }), /no option "clint"; there are .*client/, String(call));
  }
  assert.strictEqual(await queue.publish('topic', 1), 1);
  assert.strictEqual(await queue.publish('more', 1), 0);

  const client = await pool.connect();
  await client.query('BEGIN');
  const id = await queue.add('inside', { client });
  assert.deepStrictEqual([(await queue.get(id, { client })).data, await queue.get(id)], ['inside', null]);
  assert.strictEqual((await queue.list({ client })).some((task) => task.id === id), true);
  assert.strictEqual(await queue.cancel(id, { client }), true);
  await queue.pause({ client });
  await client.query('COMMIT');
  client.release();
  assert.strictEqual(await queue.get(id), null);
  assert.deepStrictEqual(await queue.peek(), []);
  await assert.rejects(queue.cancel(ids[3], { client: 5 }), /client is no client or pool of pg: it has no query\(\)/);
});

test('the error of a task that was awaited has message and stack apart, whatever language its worker has', () => {
  const parts = (text) => {
    const { message, reason, workerStack } = new TaskFailed('task 1 is dead', '1', 'dead', text);
    assert.strictEqual(message, reason === null ? 'task 1 is dead' : `task 1 is dead: ${reason}`);
    return [reason, workerStack];
  };
  assert.deepStrictEqual(parts(null), [null, null]);
  assert.deepStrictEqual(parts('plain'), ['plain', null]);
  assert.deepStrictEqual(parts('two\nlines'), ['two\nlines', null]);
  assert.deepStrictEqual(parts('Error: a\nb\n    at f (/x.js:1:2)\n    at g'), ['Error: a\nb', '    at f (/x.js:1:2)\n    at g']);
  assert.deepStrictEqual(parts('error: dup\n  code: 23505\ncaused by: x'), ['error: dup', '  code: 23505\ncaused by: x']);
  assert.deepStrictEqual(parts("KeyError: 'to'\n  File \"/app.py\", line 3, in send\n    x"), ["KeyError: 'to'", '  File "/app.py", line 3, in send\n    x']);
  assert.deepStrictEqual(parts('panic: no\n\ngoroutine 7 [running]:\nmain.f()'), ['panic: no', 'goroutine 7 [running]:\nmain.f()']);
  assert.deepStrictEqual(parts("ArgumentError: no\n  /app/mail.rb:3:in `send'\nCaused by X"), ['ArgumentError: no', "  /app/mail.rb:3:in `send'\nCaused by X"]);
});

test('schedules', async (t) => {
  const { pool, queue } = await newQueue(t);
  const next = await queue.schedule('report', '30 2 * * *', { data: { job: 'report' }, group: 1, timezone: 'Europe/Berlin', catchUp: 'none', name: 'nightly' });
  assert.ok(next > new Date());
  assert.strictEqual(await queue.schedule('off', '@every 10 min', { active: false }), null);
  const other = new Queue(pool, 'other');
  await other.create();
  await other.schedule('other', '@daily');
  const schedules = await queue.schedules();
  assert.deepStrictEqual(schedules.map(({ name, cron, active, taskName }) => [name, cron, active, taskName]),
    [['off', '@every 10 min', false, null], ['report', '30 2 * * *', true, 'nightly']]);
  assert.deepStrictEqual(schedules[1].nextRun, next);
  await queue.schedule('soon', '* * * * * *', { data: 'tick', overlap: true });
  const [task] = await until('a tick', async () => {
    const tasks = await queue.peek();
    return tasks.length > 0 ? tasks : null;
  });
  assert.deepStrictEqual([task.data, task.headers.schedule], ['tick', 'soon']);
  assert.strictEqual(await queue.unschedule('soon'), true);
  assert.strictEqual(await queue.unschedule('soon'), false);
  await assert.rejects(queue.schedule('bad', 'every day'), (error) => error.code === '22023');
});

test('waiting for a task', async (t) => {
  const { queue, start } = await newQueue(t, { maxAttempts: 1, keepDone: '1 h' });
  const ids = await queue.addMany([{ data: 'good' }, { data: 'bad' }, { data: 'later', delay: '1 h' }]);
  const waits = ids.slice(0, 2).map((id) => queue.waitUntilFinished(id, { timeout: 100_000 }).catch((error) => error));
  const worker = start(async (task) => {
    if (task.data === 'bad') throw new Error('no <b>');
    return { got: task.data };
  }, { concurrency: 2 });
  assert.deepStrictEqual(await waits[0], { got: 'good' });
  const failed = await waits[1];
  assert.ok(failed instanceof TaskFailed);
  assert.deepStrictEqual([failed.id, failed.state], [ids[1], 'dead']);
  assert.strictEqual(failed.message, `task ${ids[1]} is dead: Error: no <b>`);
  assert.strictEqual(failed.reason, 'Error: no <b>');
  assert.match(failed.workerStack, /^ {4}at .*queue\.test\.js/);
  await assert.rejects(queue.waitUntilFinished(ids[2], { timeout: 20 }), WaitTimeout);
  assert.strictEqual((await queue.outcome(ids[2])).state, 'scheduled');
  const wait = queue.outcome(ids[2], { timeout: 100_000 });
  await queue.cancel(ids[2]);
  assert.strictEqual((await wait).state, 'cancelled');
  await assert.rejects(queue.waitUntilFinished('999999', { timeout: 0 }), (error) => error.state === 'unknown');
  assert.strictEqual(await queue.outcome('999999'), null);
  assert.ok(worker);
});

test('bad arguments are refused, with what is wrong and what to give', async (t) => {
  const { pool, queue } = await newQueue(t);
  const bad = [
    [() => queue.add(undefined), /the data of add\(\) is undefined; give something that JSON can say/],
    [() => queue.add(() => 1), /the data of add\(\) is/],
    [() => queue.add(1n), /BigInt/],
    [() => queue.add(1, { grup: 1 }), /add\(\) has no option "grup"; there are group, subgroup, priority/],
    [() => queue.add(1, { group: null }), /the group of add\(\) is null; give the key of a tenant/],
    [() => queue.add(1, { group: NaN }), /the group of add\(\) is NaN/],
    [() => queue.add(1, { group: { id: 1 } }), /the group of add\(\) is an object/],
    [() => queue.add(1, { delay: -1 }), /the delay of add\(\) is -1; give milliseconds/],
    [() => queue.add(1, { delay: '5 parsecs' }), /interval/],
    [() => queue.add(1, { runAt: new Date('x') }), /runAt of add\(\) is Invalid Date|runAt of add\(\) is an object/],
    [() => queue.add(1, { cost: 'much' }), /the cost of add\(\) is "much"; give a number/],
    [() => queue.add(1, { priority: 12 }), /priority/],
    [() => queue.add(1, { headers: [] }), /headers of add\(\) are no object/],
    [() => queue.add(1, { uniqueKey: 5 }), /uniqueKey of add\(\) is no text/],
    [() => queue.add(1, { onDuplicate: 'drop' }), /on_duplicate/],
    [() => queue.add(1, { after: ['x'] }), /after of add\(\) is "x"; give the id/],
    [() => queue.addMany([{ data: 1 }, { data: 1, client: pool }]), /task 1 of addMany\(\) has no option "client"/],
    [() => queue.addBulk([{ date: 1 }]), /a task of addBulk\(\) has no option "date"/],
    [() => queue.get('1; DROP TABLE x'), /the id of get\(\) is "1; DROP TABLE x"; give the id/],
    [() => queue.cancel(2 ** 60), /the id of cancel\(\)/],
    [() => queue.cancel(undefined), /the id of cancel\(\) is undefined/],
    [() => queue.purgeGroup(undefined), /the group of purgeGroup\(\) is undefined/],
    [() => queue.purgeGroup(null), /the group of purgeGroup\(\) is null/],
    [() => queue.peek(0), /the limit of peek\(\) is 0/],
    [() => queue.list({ state: 'none' }), /state/],
    [() => queue.outcome('1', { timeout: 'x' }), /timeout is "x"/],
    [() => queue.create({ lease: 0.5, buckets: 'x' }), /buckets of create\(\) is "x"/],
    [() => queue.alter({ policy: 'fair' }), /alter\(\) has no option "policy"/],
    [() => queue.setGroup('a', { weight: -1 }), /weight.*\(.*\)/],
  ];
  for (const [call, message] of bad) await assert.rejects(async () => call(), message, String(call));
  assert.throws(() => new Queue(pool, ''), /name of the queue is ""/);
  assert.throws(() => new Queue(pool, 'x', { prepared: true }), /Queue has no option "prepared"; there are prepare/);
  assert.deepStrictEqual(await queue.counts(), { ready: 0, leased: 0, scheduled: 0, overflow: 0, held: 0, dead: 0 });
});

test('a queue of any name', async (t) => {
  const { pool, start } = await newQueue(t);
  const name = `"; DROP 'x' \\ <b>\u{1F600} %s`;
  const queue = new Queue(pool, name);
  await queue.create();
  const id = await queue.add(1);
  const worker = start(async (task, { progress }) => { await progress(1); return task.queue; }, {}, [name, 'emails']);
  await until('it is done', () => worker.seen.completed.length === 1);
  assert.deepStrictEqual([worker.seen.completed[0].result, worker.seen.completed[0].task.id], [name, id]);
});
