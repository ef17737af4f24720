'use strict';
// What a worker does with a task. Seen to fail, each with its guard removed:
// - a transaction that is lost: Transaction.commit() commits whatever ack answers
// - a failed statement: Transaction.commit() does not look at the command of COMMIT, and ack is not asked
// - COMMIT in a handler: the check of ENDS in Transaction.query()

const test = require('node:test');
const assert = require('node:assert');
const { Queue, Snooze, RetryLater } = require('pgfairq');
const { newQueue, until } = require('./support.js');

const SENT = 'CREATE TABLE sent (task bigint, receiver text)';

test('a handler gets tasks, and they are done', async (t) => {
  const { queue, start } = await newQueue(t);
  const id = await queue.add({ to: 'ann' }, { group: 42, name: 'welcome', headers: { trace: 'x' }, priority: 2 });
  const worker = start(async (task) => task.data.to);
  await until('it is completed', () => worker.seen.completed.length === 1);
  const { task, result } = worker.seen.completed[0];
  assert.deepStrictEqual([task.id, task.queue, task.group, task.attempt, task.priority, task.name, task.data, task.headers, result],
    [id, 'emails', '42', 1, 2, 'welcome', { to: 'ann' }, { trace: 'x', name: 'welcome' }, 'ann']);
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
  assert.strictEqual(worker.seen.failed.length, 2);
  const [dead] = await queue.list({ state: 'dead' });
  assert.match(dead.lastError, /^Error: no such mailbox\n {4}at .*worker\.test\.js/);
});
