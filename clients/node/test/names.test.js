'use strict';
// Names of tasks, losses, and what is known of the ends of a task. Seen to fail:
// - "as the task's own": ENQUEUE_MANY without names
// - "an earlier version": Task.name without the header; with the header first
// - "which task": Task.toString() without the name
// - "what has failed": statusOf() without history
// - "what an owner has written": endsOf() without its look at the time
// - "so often": maxLost that is not in the columns of a call

const test = require('node:test');
const assert = require('node:assert');
const { Queue } = require('pgfairq');
const { newQueue, until } = require('./support.js');
const { endsOf } = require('../dist/status.js');

const EARLIER = { headers: { task: 'welcome' } }; // so did an earlier version name a task

test('a name goes with the task, as the task\'s own', async (t) => {
  const { queue, rows } = await newQueue(t);
  await queue.add(1, { name: 'a', headers: { trace: 'x' } });
  await queue.addMany([{ data: 2, name: 'b' }, { data: 3 }]);
  await queue.addMany([{ data: 4, name: 'b', headers: {} }, { data: 5 }]);
  await queue.addBulk([{ name: 'c', data: 6 }]);
  await queue.subscribe('topic');
  await queue.publish('topic', 7, { name: 'ä'.repeat(50) });
  const all = await queue.list();
  assert.deepStrictEqual(all.map(({ name }) => name), ['a', 'b', null, 'b', null, 'c', 'ä'.repeat(50)]);
  assert.deepStrictEqual(all.map(({ headers }) => headers), [{ trace: 'x' }, null, null, {}, null, null, null]);
  assert.deepStrictEqual((await queue.list({ name: 'b' })).map(({ data }) => data), [2, 4]);
  assert.deepStrictEqual((await queue.peek(1)).map(({ name }) => name), ['a']);
  await queue.schedule('nightly', '@daily', { name: 'report', headers: { trace: 'x' } });
  assert.deepStrictEqual(await rows('SELECT task_name, headers FROM fairq.schedules'), [{ task_name: 'report', headers: { trace: 'x' } }]);
  for (const name of ['', 'a'.repeat(101), 'ä'.repeat(51)]) {
    await assert.rejects(queue.add(1, { name }), (error) => error.code === '22023');
    await assert.rejects(queue.addMany([{ data: 1, name }]), (error) => error.code === '22023');
  }
  await assert.rejects(queue.add(1, { name: 5 }), /name of add\(\) is no text/);
});

test('a worker finds the name, also of a task of an earlier version', async (t) => {
  const { pool, queue, start } = await newQueue(t);
  await queue.addMany([{ data: 1, name: 'welcome' }, { data: 2, ...EARLIER }, { data: 3, name: 'other', ...EARLIER }, { data: 4 },
    { data: 5, headers: { task: ['welcome'] } }]);
  for (const queues of ['emails', ['emails', 'more']]) {
    const seen = [];
    if (Array.isArray(queues)) {
      await queue.addMany([{ data: 1, name: 'welcome' }, { data: 2, ...EARLIER }]);
      await new Queue(pool, 'more').create();
    }
    const worker = start(async (task) => { seen.push([task.data, task.name, JSON.parse(JSON.stringify(task)).name]); }, {}, queues);
    const expected = [[1, 'welcome', 'welcome'], [2, 'welcome', 'welcome'], [3, 'other', 'other'], [4, '', ''], [5, '', '']]
      .slice(0, Array.isArray(queues) ? 2 : 5);
    await until('all are done', () => worker.seen.completed.length === expected.length);
    assert.deepStrictEqual(seen, expected);
    await worker.close();
  }
});

test('an error says which task it is about, and its name', async (t) => {
  const { queue, start } = await newQueue(t);
  const id = await queue.add(1, { name: 'a"b\n' });
  const worker = start(async (task, { extend }) => {
    await queue.cancel(task.id);
    await extend();
  });
  await until('it is lost', () => worker.seen.lost.length === 1);
  assert.strictEqual(worker.seen.lost[0].reason.message, `the lease of task ${id} ("a\\"b\\n") is lost`);
});

/** The next task is claimed, and its lease runs out. */
async function lose({ queue, rows }) {
  await rows(`SELECT FROM fairq.claim('emails', lease => '1 microsecond')`);
  await until('it is lost', async () => (await queue.list()).some(({ lost }) => lost > 0));
}

test('what has failed and what was lost is known of a task', async (t) => {
  const here = await newQueue(t, { maxAttempts: 2, maxLost: 4 });
  const { queue, start } = here;
  const id = await queue.add(1, { name: 'welcome' });
  await lose(here);
  const worker = start(async () => { throw new TypeError('no'); });
  await until('it has failed twice', () => worker.seen.failed.length === 2);
  const task = await queue.get(id);
  assert.deepStrictEqual([task.state, task.name, task.attempts, task.lost, task.maxLost], ['dead', 'welcome', 2, 1, 4]);
  assert.deepStrictEqual(task.history.map(({ end, attempt }) => [end, attempt]), [['lost', 1], ['failed', 2], ['failed', 3]]);
  const [lost, failed] = task.history;
  assert.ok(lost.at instanceof Date && lost.at < failed.at && Math.abs(failed.at - Date.now()) < 3600_000);
  assert.ok(failed.seconds >= 0 && failed.seconds < 3600);
  assert.match(failed.error, /^TypeError: no\n/);
  assert.notStrictEqual(failed.worker, lost.worker);
});

test('a task that was lost so often is dead', async (t) => {
  const here = await newQueue(t, { maxLost: 0 });
  const { queue, rows } = here;
  await queue.subscribe('topic');
  await queue.publish('topic', 1, { maxLost: 7 });
  const ids = [await queue.add(2, { maxLost: 1 }), ...await queue.addMany([{ data: 3, maxLost: 3 }, { data: 4 }])];
  assert.deepStrictEqual((await queue.list()).map(({ maxLost }) => maxLost), [7, 1, 3, 0]);
  await queue.alter({ maxLost: 6 });
  assert.deepStrictEqual(await rows('SELECT max_lost FROM fairq.queues'), [{ max_lost: 6 }]);
  await queue.alter({ classWeights: [4, 2.5] });
  assert.deepStrictEqual(await rows('SELECT class_weights FROM fairq.queues'), [{ class_weights: [4, 2.5] }]);
  await queue.alter({ classWeights: [] });
  assert.deepStrictEqual(await rows('SELECT class_weights FROM fairq.queues'), [{ class_weights: null }]);
  await assert.rejects(queue.alter({ classWeights: 4 }), /classWeights of alter\(\) is no array/);
  await rows(`SELECT FROM fairq.claim('emails', 2, lease => '1 microsecond')`);
  await until('it is dead', async () => (await queue.get(ids[0])).state === 'dead');
  assert.deepStrictEqual([(await queue.get(ids[0])).attempts, (await queue.get(ids[0])).lost], [0, 1]);
});

test('of what an owner has written there is shown what the server writes, too', () => {
  const good = { at: '2026-01-02T03:04:05.1+00:00', attempt: 2, end: 'failed', worker: 'w', seconds: 1.5 };
  const shown = { ...good, at: new Date('2026-01-02T03:04:05.1Z'), error: null };
  const bad = [null, 1, 'x', [], {}, { ...good, at: 'x' }, { ...good, attempt: '2' }, { ...good, end: 'x' }, { ...good, seconds: null }];
  assert.deepStrictEqual(endsOf(JSON.stringify([good, ...bad, { ...good, error: 'e' }])), [shown, { ...shown, error: 'e' }]);
  for (const nothing of [null, '{}', '1', '"x"', '[]', 'null']) assert.deepStrictEqual(endsOf(nothing), []);
});
