'use strict';
// Handlers by the names of their tasks, with options of their own. Seen to fail, each with its guard removed:
// - "of its name": HandlerTable.find() that takes the first entry; without the one of ''
// - "left to other workers": verdictOf() that looks for NoHandler in giveUpOn
// - "has the options of the task": NamedTask.add() that does not look at the defaults; that lets them go before what is said;
//   NamedTask.optionsOf() that says a delay beside a time
// - "has its time": Worker.work() without the timer; Run.timeOut() that does not stop the transaction; the slot that is
//   free before the handler has ended (Worker.timeOut() that deletes the run)
// - "when the next attempt is": verdictOf() without the backoff
// - "errors of one handler": verdictOf() without giveUpOn of the entry
// - "is told to be dead": Worker.failed() that tells dead each time; that does not ask; DIED without the attempt
// - "wrong": entryOf() without checkOptions()

const test = require('node:test');
const assert = require('node:assert');
const { HandlerTimeout, NoHandler, Queue, Unrecoverable, Worker } = require('pgfairq');
const { newQueue, until } = require('./support.js');

test('each handler works on the tasks of its name, and that of \'\' on all others', async (t) => {
  const { pool, queue, start } = await newQueue(t, { backoffBase: '1 h' });
  const other = new Queue(pool, 'other');
  await other.create();
  const seen = [];
  const by = (who) => async (task) => { seen.push(`${who} ${task.queue} ${task.data}`); };
  const welcome = queue.task('welcome', by('welcome'));
  const special = other.task('plain', by('special'));
  const worker = start(by('one'), {}, ['emails']); // a function is for all names
  await queue.addMany([{ data: 1, name: 'welcome' }, { data: 2 }]);
  await until('both are done', () => worker.seen.completed.length === 2);
  await worker.close();
  assert.deepStrictEqual(seen.splice(0), ['one emails 1', 'one emails 2']);

  for (const one of [queue, other]) await one.addMany(['welcome', 'plain', 'toString', undefined].map((name, n) => ({ data: n, name })));
  const some = start({ welcome, special, plain: { handler: by('plain') } }, {}, ['emails', 'other']);
  await until('all have ended', () => some.seen.completed.length === 3 && some.seen.failed.length === 5);
  await some.close();
  assert.deepStrictEqual(seen.splice(0).sort(), ['plain emails 1', 'special other 1', 'welcome emails 0']);
  for (const { error } of some.seen.failed) assert.ok(error instanceof NoHandler);
  const messages = some.seen.failed.map(({ error }) => error.message).sort();
  assert.strictEqual(messages[0], 'this worker has no handler for a task named "toString" in queue "emails"; it has handlers for "welcome", "plain"');
  assert.match(messages.at(-1), /for a task without a name in queue "other"/);

  await queue.addMany(['welcome', 'toString', undefined].map((name, n) => ({ data: n, name })));
  const rest = start({ welcome, '': by('rest') });
  await until('all are done', () => rest.seen.completed.length === 3);
  assert.deepStrictEqual(seen.sort(), ['rest emails 1', 'rest emails 2', 'welcome emails 0']);
});

test('a task for which there is none is left to other workers, whatever they give up on', async (t) => {
  const { queue, start } = await newQueue(t);
  await queue.add(1, { name: 'other' });
  const worker = start({ welcome: async () => {} }, { giveUpOn: [Error] });
  await until('it has failed twice', () => worker.seen.failed.length >= 2);
  await worker.close(); // or it may be the first each time
  const able = start({ other: async () => 'done' });
  await until('it is done', () => able.seen.completed.length === 1);
  assert.strictEqual(worker.seen.dead.length, 0);
});

test('what is added has the options of the task, as values and as functions of its data', async (t) => {
  const { pool, queue, rows } = await newQueue(t, { subgroups: true });
  const invoice = queue.task('invoice', {
    group: (data) => data.shop, subgroup: 'all', priority: (data) => (data.urgent ? 1 : undefined), cost: 2, uniqueKey: (data) => data.key,
    maxAttempts: 3, maxLost: 2, lease: '5 min', delay: (data) => data.delay,
  });
  const of = (task) => [task.name, task.group, task.subgroup, task.priority, task.cost, task.maxAttempts, task.maxLost, task.uniqueKey];
  const first = await invoice.add({ shop: 7, urgent: true, key: 'a', delay: '1 h' });
  assert.deepStrictEqual(of(await queue.get(first)), ['invoice', '7', 'all', 1, 2, 3, 2, 'a']);
  assert.strictEqual((await queue.get(first)).state, 'scheduled');
  const second = await invoice.add({ shop: 7 }, { group: 8n, subgroup: undefined, cost: 5, maxAttempts: 9 });
  assert.deepStrictEqual(of(await queue.get(second)), ['invoice', '8', 'all', 4, 5, 9, 2, null]);
  const [third, fourth] = await invoice.addMany([{ data: { shop: 1 } }, { data: { shop: 2 }, priority: 9 }]);
  assert.deepStrictEqual(of(await queue.get(third)), ['invoice', '1', 'all', 4, 2, 3, 2, null]);
  assert.deepStrictEqual(of(await queue.get(fourth)), ['invoice', '2', 'all', 9, 2, 3, 2, null]);
  const at = new Date(Date.now() + 86_400_000);
  const times = [await invoice.add({ shop: 1, delay: '1 h' }, { runAt: at }), ...await invoice.addMany([{ data: { shop: 1, delay: '1 h' }, runAt: at }])];
  for (const id of times) assert.deepStrictEqual((await queue.get(id)).runAt, at);
  await invoice.schedule('nightly', '@daily', { data: { shop: 5, urgent: true }, cost: 3 });
  assert.deepStrictEqual(await rows('SELECT task_name, group_key, subgroup_key, priority, cost, payload FROM fairq.schedules'),
    [{ task_name: 'invoice', group_key: '5', subgroup_key: 'all', priority: '1', cost: 3, payload: { shop: 5, urgent: true } }]);
  const client = await pool.connect();
  await client.query('BEGIN');
  const inside = await invoice.add({ shop: 1 }, { client });
  await client.query('ROLLBACK');
  client.release();
  assert.strictEqual(await queue.get(inside), null);
});

test('the result of a task of a name', async (t) => {
  const { queue, start } = await newQueue(t, { keepDone: '1 h' });
  const sum = queue.task('sum').handledBy(async (task) => task.data.reduce((a, b) => a + b));
  const id = await sum.add([1, 2, 3]);
  start({ sum });
  assert.strictEqual(await sum.waitUntilFinished(id, { timeout: 100_000 }), 6);
});

test('handledBy takes a function, or a handler with options, which go before those of the task', async (t) => {
  const { queue, start } = await newQueue(t, { maxAttempts: 5, backoffBase: '1 h' });
  const shared = queue.task('shared', { group: 'g', backoff: '2 h', giveUpOn: [RangeError] });
  const worker = start({ shared: shared.handledBy({ handler: async () => { throw new TypeError('no'); }, giveUpOn: [TypeError] }) });
  const id = await shared.add(1);
  await until('it is dead', () => worker.seen.dead.length === 1);
  assert.deepStrictEqual([(await queue.get(id)).attempts, (await queue.get(id)).group], [1, 'g']);
  assert.deepStrictEqual(shared.work, { backoff: '2 h', giveUpOn: [RangeError] }); // as it was
  assert.strictEqual(shared.handledBy({ file: '/x.js' }).work.file, '/x.js');
  for (const wrong of [{ group: 'x' }, { handlers: () => {} }, null, 'x']) assert.throws(() => shared.handledBy(wrong), /handledBy\(\)/);
});

test('a handler has its time: then the attempt has failed, what it wrote is gone, and it has its slot until it ends', async (t) => {
  const { queue, rows, start } = await newQueue(t, { maxAttempts: 1 }, 'CREATE TABLE sent (task bigint)');
  await queue.addMany([{ data: 'hangs', name: 'slow' }, { data: 'other', name: 'quick' }]);
  let reason;
  let late;
  let go;
  const gate = new Promise((resolve) => { go = resolve; });
  const order = [];
  const worker = start({
    slow: {
      timeout: 50,
      handler: async (task, { tx, signal, progress }) => {
        signal.addEventListener('abort', () => { reason = signal.reason; });
        await tx.query('INSERT INTO sent VALUES ($1)', [task.id]).catch(() => {}); // it may be later than that
        await gate;
        late = await Promise.allSettled([tx.query('SELECT 1'), progress(1)]);
        order.push('slow has ended');
        throw new Error('too late to matter');
      },
    },
    quick: async () => { order.push('quick'); },
  });
  await until('it has failed', () => worker.seen.failed.length === 1);
  const { error } = worker.seen.failed[0];
  assert.ok(error instanceof HandlerTimeout);
  assert.match(error.message, /^the handler of task \d+ \("slow"\) had not ended after 50 ms$/);
  assert.strictEqual(reason, error);
  const [dead] = await queue.list({ state: 'dead' });
  assert.match(dead.lastError, /^HandlerTimeout: the handler of task/);
  assert.deepStrictEqual(await rows('SELECT * FROM sent'), []);
  go();
  await until('the other is done', () => worker.seen.completed.length === 1);
  assert.deepStrictEqual(order, ['slow has ended', 'quick']);
  assert.deepStrictEqual(late.map((one) => one.reason), [error, error]);
  assert.deepStrictEqual([worker.seen.failed.length, worker.seen.lost.length, worker.seen.dead.length], [1, 0, 1]);
});

test('one that ends within its time is done, with and without a transaction', async (t) => {
  const { queue, start } = await newQueue(t, { maxAttempts: 1 });
  await queue.addMany([{ data: false, name: 'timed' }, { data: true, name: 'timed' }]);
  const worker = start({ timed: { timeout: 100_000, handler: async (task, { tx }) => { if (task.data) await tx.query('SELECT 1'); } } });
  await until('both are done', () => worker.seen.completed.length === 2);
  await worker.close();
});

test('when the next attempt is, is the handler\'s to say', async (t) => {
  const { queue, start } = await newQueue(t, { backoffBase: 0 });
  const said = [];
  await queue.addMany(['fixed', 'counted', 'wrong', 'throws'].map((name) => ({ data: name, name })));
  const handler = async (task) => { throw new TypeError(task.name); };
  const worker = start({
    fixed: { handler, backoff: '10 min' },
    counted: { handler, backoff: (attempt, error) => { said.push([attempt, error.name]); return attempt < 3 ? 1 : 600_000; } },
    wrong: { handler, backoff: () => -1 },
    throws: { handler, backoff: () => { throw new RangeError('of the backoff'); } },
  });
  await until('those with a backoff wait', async () => (await queue.list({ state: 'scheduled' })).length === 2 && said.length === 3);
  for (const task of await queue.list({ state: 'scheduled' })) {
    assert.ok(Math.abs(task.runAt - Date.now() - 600_000) < 300_000, task.name);
    assert.strictEqual(task.attempts, task.name === 'fixed' ? 1 : 3);
  }
  assert.deepStrictEqual(said, [[1, 'TypeError'], [2, 'TypeError'], [3, 'TypeError']]);
  await until('the others are tried by the queue\'s', async () => (await queue.list({ name: 'throws' }))[0].attempts > 1 && (await queue.list({ name: 'wrong' }))[0].attempts > 1);
  assert.match((await queue.list({ name: 'wrong' }))[0].lastError, /what the backoff of the handler has returned is -1; give milliseconds/);
  assert.match((await queue.list({ name: 'throws' }))[0].lastError, /^RangeError: of the backoff/);
  await worker.close();
});

test('errors of one handler after which its task is dead are not those of another', async (t) => {
  const { queue, start } = await newQueue(t, { backoffBase: '1 h' });
  await queue.addMany([{ data: 1, name: 'a' }, { data: 2, name: 'b' }, { data: 3, name: 'a' }]);
  const handler = async (task) => { throw task.data === 3 ? new TypeError('of the worker') : new RangeError('no'); };
  const worker = start({ a: { handler, giveUpOn: [RangeError] }, b: handler }, { giveUpOn: [TypeError] });
  await until('all have failed', () => worker.seen.failed.length === 3);
  assert.deepStrictEqual((await queue.list({ state: 'dead' })).map(({ data }) => data).sort(), [1, 3]);
});

test('the last attempt is told to be dead, after it has failed', async (t) => {
  const { queue, start } = await newQueue(t, { maxAttempts: 2 });
  await queue.addMany([{ data: 'counted' }, { data: 'at once' }, { data: 'tx' }]);
  const worker = start(async (task, { tx }) => {
    if (task.data === 'tx') await tx.query('SELECT 1');
    throw task.data === 'at once' ? new Unrecoverable('no') : new Error(`attempt ${task.attempt}`);
  });
  const told = [];
  worker.on('failed', (task) => told.push(`failed ${task.data} ${task.attempt}`));
  worker.on('dead', (task, error) => told.push(`dead ${task.data} ${task.attempt} ${error.message}`));
  await until('all are dead', () => worker.seen.dead.length === 3);
  await worker.close();
  assert.deepStrictEqual([...told].sort(), ['dead at once 1 no', 'dead counted 2 attempt 2', 'dead tx 2 attempt 2',
    'failed at once 1', 'failed counted 1', 'failed counted 2', 'failed tx 1', 'failed tx 2']);
  for (const what of ['at once 1', 'counted 2', 'tx 2']) {
    assert.ok(told.indexOf(`failed ${what}`) < told.findIndex((one) => one.startsWith(`dead ${what}`)));
  }
});

test('a task whose later attempt is dead at another worker is not told here', async (t) => {
  const { pool, queue, start } = await newQueue(t, { maxAttempts: 2 });
  await queue.add('x');
  let looked;
  const gate = new Promise((resolve) => { looked = resolve; });
  const slow = new Proxy(pool, { // its question whether the task is dead comes when another has failed, too
    get(target, key) {
      const value = target[key];
      if (key !== 'query') return typeof value === 'function' ? value.bind(target) : value;
      return async (config, values) => {
        if (/state = 'dead'/.test(config.text)) await gate;
        return target.query(config, values);
      };
    },
  });
  const first = new Worker(slow, 'emails', async () => { first.failedOnce = true; void first.close(); throw new Error('no'); });
  let dead = 0;
  first.on('dead', () => { dead++; });
  const running = first.run();
  await until('it has failed', () => first.failedOnce);
  const second = start(async () => { throw new Error('no'); });
  await until('it is dead', () => second.seen.dead.length === 1);
  looked();
  await running;
  assert.strictEqual(dead, 0);
});

test('wrong handlers are refused, with what is wrong', async (t) => {
  const { pool, queue } = await newQueue(t);
  const handler = async () => {};
  const other = new Queue(pool, 'other').task('x', handler);
  const make = (handlers) => () => new Worker(pool, 'emails', handlers);
  const one = (options) => make({ 'a"b': options });
  for (const [call, message] of [
    [make({}), /^the handler is no function, and no object of handlers by name; give/],
    [make(queue.task('x', handler)), /no object of handlers by name/],
    [make(null), /no object of handlers by name/],
    [make([5]), /handler "0" is no function/],
    [one(5), /^handler "a\\"b" is no function, and no object with a handler or a file/],
    [one({}), /handler "a\\"b" has neither a handler nor a file/],
    [one({ handler, file: __filename }), /has both a handler and a file/],
    [one({ handler: 'x' }), /the handler of handler "a\\"b" is no function/],
    [one({ handler, maxAttempts: 3 }), /handler "a\\"b" has no option "maxAttempts"; there are handler, file, thread, timeout, backoff, giveUpOn/],
    [one({ handler, timeout: '5 s' }), /timeout of handler "a\\"b" is "5 s"; give milliseconds/],
    [one({ handler, timeout: 0 }), /timeout of handler "a\\"b" is 0/],
    [one({ handler, backoff: -1 }), /backoff of handler "a\\"b" is -1/],
    [one({ handler, giveUpOn: TypeError }), /giveUpOn of handler "a\\"b" is a list of classes/],
    [one({ handler, thread: true }), /has a thread and no file/],
    [one({ file: __filename, thread: 1 }), /thread of handler "a\\"b" is no boolean/],
    [one({ file: './x.js' }), /the file of handler "a\\"b" is ".\/x.js"; give an absolute path/],
    [one({ file: 5 }), /the file of handler "a\\"b" is 5/],
    [one({ file: '/there/is/none.js' }), /the file of handler "a\\"b" is not there: \/there\/is\/none.js/],
    [make({ other }), /handler "other" is of queue "other", which the worker does not serve; it serves "emails"/],
    [make({ a: queue.task('x', handler), b: queue.task('x', handler) }), /handler "b": there is another one for "x" of queue "emails"/],
    [make({ a: queue.task('x') }), /handler "a" has neither a handler nor a file/],
    [() => queue.task(''), /the name of task\(\) is ""; give a text of 1 to 100 bytes/],
    [() => queue.task(5), /the name of task\(\) is 5/],
    [() => queue.task('x', 5), /task "x" is no function, and no object with options/],
    [() => queue.task('x', { maxAttemps: 3 }), /task "x" has no option "maxAttemps"; there are handler, .*, maxAttempts/],
  ]) assert.throws(call, (error) => message.test(error.message) && error instanceof TypeError, String(message));
  const named = queue.task('x', { group: () => true });
  await assert.rejects(named.add(1), /group of add\(\) is true/);
  await assert.rejects(named.add(1, { name: 'y' }), /add\(\) has no option "name": the task has one/);
  await assert.rejects(named.addMany([{ data: 1, name: 'y' }]), /addMany\(\) has no option "name"/);
  await assert.rejects(queue.task('x').add(1, { grup: 1 }), /add\(\) has no option "grup"/);
  await assert.rejects(queue.task('ä'.repeat(51)).add(1), (error) => error.code === '22023');
});
