'use strict';
// Handlers in files, which run in processes and threads of their own. Seen to fail, each with its guard removed:
// - "computes for longer": the handler as a function of this process
// - "that crashes": Child.end() that rejects nothing; newThread() that takes what was thrown for an Error
// - "loses its task": Child.run() that does not listen to the signal; Child.kill() that sends SIGTERM
// - "is killed": child.js without its watch
// - "kept for the next": Children.handler that does not put them back; "end with the worker": HandlerTable.close() not called
// - "no more time": Children.handler that forgets what it kills
// - "lost before": Children.handler that does not look at the signal
// - "goes through the worker": Child.answer() that answers after the end
//   Child.hear() that takes each message for one of child.js
// - "errors": errorFrom() that makes an Error of all; noteClasses() not called; classNames() that does not know what was noted
// - "signals": child.js that does not take SIGTERM and SIGINT

const test = require('node:test');
const assert = require('node:assert');
const fs = require('node:fs');
const path = require('node:path');
const { pathToFileURL } = require('node:url');
const { DatabaseError } = require('pg');
const { HandlerCrashed, HandlerTimeout, WorkerClosed } = require('pgfairq');
const { newQueue, start: startProcess, temporary, until } = require('./support.js');

const program = (name) => path.join(__dirname, 'programs', name);
const COMPUTE = program('compute.js');

/** One that has ended, and that nobody has asked for its end yet, is not alive. */
function isAlive(pid) {
  try {
    return !/\) [ZX] /.test(fs.readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}

/** The process that works on a task, which tells it as its progress. */
const processOf = async (queue, id) => (await until('it runs', async () => (await queue.get(id))?.progress ?? null)).pid;

for (const thread of [false, true]) {
  const kind = thread ? 'thread' : 'process';
  const compute = { file: COMPUTE, thread };

  test(`a ${kind} that computes for longer than the session lives keeps its task, and holds up no other`, async (t) => {
    const { queue, rows, start } = await newQueue(t, { maxAttempts: 1, maxLost: 1 });
    const file = path.join(temporary(t, 'gate'), 'go');
    const worker = start({ compute, other: async (task) => task.data }, { concurrency: 2, ttl: 10_000 });
    const id = await queue.add({ do: 'compute', file, tell: true }, { name: 'compute' });
    await processOf(queue, id);
    const [{ began }] = await rows('SELECT clock_timestamp()::text AS began');
    await until('longer than that has passed', async () => (await rows("SELECT 1 WHERE clock_timestamp() - $1::timestamptz > '13 s'", [began])).length === 1);
    await queue.add('other', { name: 'other' });
    await until('the other is done', () => worker.seen.completed.length === 1);
    assert.deepStrictEqual(worker.seen.completed[0].result, 'other');
    fs.writeFileSync(file, '');
    await until('it is done', () => worker.seen.completed.length === 2);
    assert.deepStrictEqual([worker.seen.lost.length, worker.seen.completed[1].task.attempt], [0, 1]);
  });

  test(`a ${kind} that crashes is a failed attempt, and no other task suffers`, async (t) => {
    const { queue, start } = await newQueue(t, { maxAttempts: 2, maxLost: 1, keepDone: '1 h' });
    const hows = thread ? ['exit', 'throw', 'throwNull'] : ['exit', 'throw', 'SIGKILL', 'SIGSEGV'];
    let release;
    const gate = new Promise((resolve) => { release = resolve; });
    const worker = start({ compute, waits: () => gate }, { concurrency: 3 });
    const innocent = await queue.add(1, { name: 'waits' });
    for (const how of hows) {
      const id = await queue.add({ do: 'crash', how }, { name: 'compute' });
      assert.strictEqual(await queue.waitUntilFinished(id, { timeout: 100_000 }), 'survived');
      const { task, error } = worker.seen.failed.pop();
      assert.deepStrictEqual([task.id, task.attempt, error instanceof HandlerCrashed], [id, 1, true]);
      assert.match(error.message, {
        exit: /has ended with exit code 3$/, throw: thread ? /the thread of the handler has ended: of nobody$/ : /exit code 1$/,
        throwNull: /the thread of the handler has ended: null$/,
        SIGKILL: /the process of the handler was killed by SIGKILL$/, SIGSEGV: /killed by SIGSEGV$/,
      }[how]);
    }
    release();
    assert.strictEqual(await queue.waitUntilFinished(innocent, { timeout: 100_000 }), null);
    assert.deepStrictEqual([worker.seen.lost.length, worker.seen.dead.length], [0, 0]);
  });

  test(`a ${kind} that loses its task is ended, though it computes`, async (t) => {
    const { queue, start } = await newQueue(t, { maxAttempts: 5 });
    const worker = start({ compute }, { ttl: 4000 });
    const id = await queue.add({ do: 'compute', file: '/there/is/none', tell: true }, { name: 'compute' });
    const pid = await processOf(queue, id);
    await queue.cancel(id);
    await until('it is lost', () => worker.seen.lost.length === 1);
    if (!thread) await until('its process has ended', () => !isAlive(pid));
    await queue.add({ do: 'nothing' }, { name: 'compute' });
    await until('the next one is done', () => worker.seen.completed.length === 1);
  });

  test(`a ${kind} that has had its time is ended, and the attempt has failed`, async (t) => {
    const { queue, start } = await newQueue(t, { maxAttempts: 1 });
    const worker = start({ '': compute, slow: { ...compute, timeout: 300 } });
    await queue.add({ do: 'compute', file: '/there/is/none' }, { name: 'slow' });
    await queue.add({ do: 'nothing' });
    await until('the next one is done', () => worker.seen.completed.length === 1);
    assert.ok(worker.seen.failed[0].error instanceof HandlerTimeout);
    assert.strictEqual(worker.seen.dead.length, 1);
  });

  test(`a ${kind} for which a worker has no more time is ended, and its task given back`, async (t) => {
    const { queue, start } = await newQueue(t, { maxAttempts: 1 });
    const worker = start({ '': compute });
    const id = await queue.add({ do: 'compute', file: '/there/is/none', tell: true });
    const pid = await processOf(queue, id);
    await worker.close({ timeout: 10 });
    await worker.seen.running;
    if (!thread) assert.ok(!isAlive(pid));
    const task = await queue.get(id);
    assert.deepStrictEqual([task.state, task.attempts, worker.seen.lost[0].reason instanceof WorkerClosed], ['ready', 0, true]);
  });

  test(`a ${kind} that is kept stays for the next task, when one is lost before its handler is called`, async (t) => {
    const { queue, start } = await newQueue(t, { keepDone: '1 h', maxAttempts: 1 });
    const before = (task, { signal }) => (task.name === 'slow' ? new Promise((resolve) => signal.addEventListener('abort', resolve)) : undefined);
    const worker = start({ '': compute, slow: { ...compute, timeout: 5 } }, { hooks: { before } });
    const where = async () => queue.waitUntilFinished(await queue.add({ do: 'where' }), { timeout: 100_000 });
    const first = await where();
    await queue.add({ do: 'nothing' }, { name: 'slow' });
    await until('its time is over', () => worker.seen.failed.length === 1);
    assert.deepStrictEqual(await where(), first);
  });

  test(`what a ${kind} asks of the server goes through the worker, and commits with the acknowledgement`, async (t) => {
    const { queue, rows, start } = await newQueue(t, { maxAttempts: 1, keepDone: '1 h' }, 'CREATE TABLE sent (task bigint, what text)');
    const file = path.join(temporary(t, 'late'), 'error');
    start({ '': compute });
    const run = async (data) => queue.waitUntilFinished(await queue.add(data), { timeout: 100_000 }).catch((error) => error);
    assert.deepStrictEqual(await run({ do: 'write', rows: ['a', 'b'] }), [2, true, 2, 1, 'SELECT']);
    assert.match((await run({ do: 'write', rows: ['c'], fail: 'no' })).reason, /^Error: no$/);
    assert.deepStrictEqual(await rows('SELECT what FROM sent ORDER BY 1'), [{ what: 'a' }, { what: 'b' }]);
    assert.match((await run({ do: 'caught' })).reason, /a statement in the transaction of the task failed/);
    assert.deepStrictEqual(await run({ do: 'told' }), [true, 'FairqError']);
    assert.match((await run({ do: 'forbidden' })).reason, /the worker ends the transaction of a task, not "COMMIT"/);
    assert.match((await run({ do: 'clone' })).reason, /could not be cloned/);
    assert.match((await run({ do: 'result' })).reason, /could not be cloned/);
    assert.match((await run({ do: 'snoozeWrongly' })).reason, /^TypeError: the delay of snooze\(\) is an object/);
    assert.strictEqual(await run({ do: 'extend' }), true);
    assert.strictEqual(await run({ do: 'noise' }), 'sent');
    assert.strictEqual(await run({ do: 'late', file }), null);
    await until('what comes too late is refused', () => fs.existsSync(file) && fs.readFileSync(file, 'utf8') !== '');
    assert.match(fs.readFileSync(file, 'utf8'), /progress\(\) was called after the handler had ended/);
  });

  test(`errors of a ${kind} are what they are elsewhere`, async (t) => {
    const { queue, start } = await newQueue(t, { maxAttempts: 9, backoffBase: '1 h' });
    class Strange extends Error {}
    const worker = start({ '': { ...compute, giveUpOn: [RangeError, Strange, DatabaseError] } }, { concurrency: 2 });
    const kinds = ['type', 'refused', 'strange', 'divide', 'unrecoverable', 'later', 'snooze', 'thrownSnooze', 'fail', 'text'];
    await queue.addMany(kinds.map((one) => ({ data: { do: one } })));
    await until('all have ended', async () => (await queue.counts()).leased === 0 && (await queue.counts()).ready === 0);
    const found = new Map((await queue.list()).map((task) => [task.data.do, task]));
    assert.deepStrictEqual(kinds.map((one) => [one, found.get(one).state, found.get(one).attempts]), [['type', 'scheduled', 1], ['refused', 'dead', 1], ['strange', 'dead', 1], ['divide', 'dead', 1],
      ['unrecoverable', 'dead', 1], ['later', 'scheduled', 1], ['snooze', 'scheduled', 0], ['thrownSnooze', 'scheduled', 0], ['fail', 'dead', 1], ['text', 'scheduled', 1]]);
    assert.match(found.get('type').lastError, /^TypeError: no type\n {4}at .*compute\.js[^]*\ncaused by: Error: the cause/);
    assert.match(found.get('fail').lastError, /^Unrecoverable: no address\n[^]*\ncaused by: TypeError: no address/);
    assert.match(found.get('text').lastError, /^Error: thrown: 'a text'/);
    assert.ok(found.get('later').runAt - Date.now() < 30 * 60_000 && found.get('type').runAt - Date.now() > 30 * 60_000);
    await until('all are told', () => worker.seen.failed.length === 8);
    assert.ok(worker.seen.failed.find(({ task }) => task.data.do === 'type').error instanceof TypeError);
  });

  test(`a ${kind} is kept for the next task, there are as many as run at a time, and they end with the worker`, async (t) => {
    const { queue, start } = await newQueue(t, { keepDone: '1 h' });
    const worker = start({ '': compute }, { concurrency: 2 });
    const gate = path.join(temporary(t, 'gate'), 'go');
    const where = async () => (await queue.waitUntilFinished(await queue.add({ do: 'where' }), { timeout: 100_000 })).join();
    const first = await where();
    assert.strictEqual(await where(), first);
    const busy = await queue.add({ do: 'compute', file: gate, tell: true });
    const pid = await processOf(queue, busy);
    const second = await where();
    assert.notStrictEqual(second, first);
    assert.strictEqual(await where(), second);
    fs.writeFileSync(gate, '');
    await queue.waitUntilFinished(busy, { timeout: 100_000 });
    await worker.close();
    await worker.seen.running;
    if (!thread) assert.deepStrictEqual([isAlive(pid), isAlive(Number(second.split(',')[0]))], [false, false]);
  });
}

test('files that are modules, are given as URLs, are none, or do not load', async (t) => {
  const { queue, start } = await newQueue(t, { keepDone: '1 h', maxAttempts: 1 });
  start({
    module: { file: pathToFileURL(program('module.mjs')) }, threaded: { file: program('module.mjs'), thread: true },
    none: { file: program('none.js') }, broken: { file: program('broken.js'), thread: true },
  });
  const run = async (name) => queue.waitUntilFinished(await queue.add('x', { name }), { timeout: 100_000 }).catch((error) => error.reason);
  assert.strictEqual(await run('module'), 'x in a module');
  assert.strictEqual(await run('threaded'), 'x in a module');
  assert.match(await run('none'), /^TypeError: \/.*none\.js has no handler; its default export, or module\.exports, has to be a function$/);
  assert.match(await run('broken'), /^Error: it does not load$/);
});

test('the process of a handler ends when its worker is killed, though it computes', async (t) => {
  const { queue, config } = await newQueue(t);
  const worker = startProcess(t, 'computing_worker.js', { config });
  const id = await queue.add({ do: 'compute', file: '/there/is/none', tell: true });
  const pid = await processOf(queue, id);
  assert.ok(isAlive(pid));
  worker.child.kill('SIGKILL');
  await worker.ended;
  await until('its process has ended', () => !isAlive(pid));
});

test('signals to the process of a handler do not end it: its worker does when it is time', async (t) => {
  const { queue, start } = await newQueue(t, { maxAttempts: 1 });
  const file = path.join(temporary(t, 'gate'), 'go');
  const worker = start({ '': { file: COMPUTE } });
  const id = await queue.add({ do: 'compute', file, tell: true });
  const pid = await processOf(queue, id);
  process.kill(pid, 'SIGTERM'); // as a supervisor sends to all processes of a service
  process.kill(pid, 'SIGINT');
  fs.writeFileSync(file, '');
  await until('it is done', () => worker.seen.completed.length === 1);
  assert.strictEqual(worker.seen.failed.length, 0);
});
