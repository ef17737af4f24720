'use strict';
// Failures that no other attempt would mend. Seen to fail, each with its guard removed:
// - "dead at once": verdictOf() without Unrecoverable; without giveUpOn; kindOf() that takes final for nack (the
//   verdict of a batch is that of its first)
// - "says itself what comes next": verdictOf() that looks into giveUpOn first
// - "is no class of errors": errorClasses() without its check
// - "cannot be looked at, or has no delay": Worker.fail() that looks into giveUpOn for what verdictOf() has thrown

const test = require('node:test');
const assert = require('node:assert');
const { DatabaseError } = require('pg');
const { RetryLater, Snooze, Unrecoverable, Worker } = require('pgfairq');
const { newQueue, until } = require('./support.js');

class Refused extends Unrecoverable {}
class Closed extends Error {}
class Gone extends Closed {}

/** What the handlers do, by the data of their task; those of DEAD make it dead, with this in last_error. */
const DEAD = {
  thrown: /^Unrecoverable: no such mailbox\n {4}at .*final\.test\.js/,
  own: /^Refused: by the application\n/,
  cause: /^Unrecoverable: it cannot be read\n[^]*caused by: RangeError: the cause\n/,
  text: /^Unrecoverable: no address\n/,
  error: /^Unrecoverable: address is no text\n[^]*caused by: RangeError: address is no text\n/,
  listed: /^TypeError: no\n/,
  derived: /^Error: gone\n/,
};
const AGAIN = ['other', 'nothing', 'later'];

function failAs(data, { fail }) {
  switch (data) {
    case 'thrown': throw new Unrecoverable('no such mailbox');
    case 'own': throw new Refused('by the application');
    case 'cause': throw new Unrecoverable('it cannot be read', { cause: new RangeError('the cause') });
    case 'text': return fail('no address');
    case 'error': return fail(new RangeError('address is no text'));
    case 'listed': throw new TypeError('no');
    case 'derived': throw new Gone('gone');
    case 'other': throw new RangeError('no');
    case 'nothing': throw undefined;
    case 'later': throw new RetryLater('later', '1 h');
    case 'snooze': throw new Snooze('1 h');
    default: return data;
  }
}

for (const withTx of [false, true]) {
  test(`what no other attempt would mend is dead at once, ${withTx ? 'with a transaction' : 'in one batch with others'}`, async (t) => {
    const { queue, rows, start } = await newQueue(t, { backoffBase: '1 h' }, 'CREATE TABLE sent (receiver text)');
    const kinds = [...Object.keys(DEAD), ...AGAIN];
    const mixed = [...Object.keys(DEAD), ...AGAIN, ...Object.keys(DEAD).reverse(), 'snooze', 'good']; // final before others, and after
    await queue.addMany(mixed.map((data) => ({ data })));
    let begun = 0;
    let release;
    const all = new Promise((resolve) => { release = resolve; });
    const worker = start(async (task, context) => {
      if (withTx) await context.tx.query('INSERT INTO sent VALUES ($1)', [task.data]);
      if (++begun === mixed.length) release();
      await all;
      return failAs(task.data, context);
    }, { concurrency: mixed.length, giveUpOn: [TypeError, Closed] });
    await until('all have failed but two', () => worker.seen.failed.length === mixed.length - 2);
    await until('the good one is done', () => worker.seen.completed.length === 1);
    await until('the other is snoozed', async () => (await queue.counts()).leased === 0);
    const dead = await queue.list({ state: 'dead' });
    assert.deepStrictEqual(dead.map((task) => task.data).sort(), [...Object.keys(DEAD), ...Object.keys(DEAD)].sort());
    for (const task of dead) {
      assert.match(task.lastError, DEAD[task.data]);
      assert.strictEqual(task.attempts, 1);
    }
    const waiting = await queue.list({ state: 'scheduled' });
    assert.deepStrictEqual(waiting.map((task) => [task.data, task.attempts]).sort(),
      [['later', 1], ['nothing', 1], ['other', 1], ['snooze', 0]]);
    assert.strictEqual(new Set(worker.seen.failed.map(({ task }) => task.data)).size, kinds.length);
    assert.deepStrictEqual(await rows('SELECT receiver FROM sent'), withTx ? [{ receiver: 'good' }] : []);
    assert.strictEqual(Number(await queue.reviveAll()), dead.length);
  });
}

test('what says itself what comes next is not given up, whatever the list says', async (t) => {
  const { queue, start } = await newQueue(t, { backoffBase: '1 h', keepDone: '1 h' });
  await queue.addMany(['later', 'snooze', 'other', 'result'].map((data) => ({ data })));
  const worker = start(async (task, context) => (task.data === 'result' ? 1n : failAs(task.data, context)),
    { concurrency: 4, giveUpOn: [Error] });
  await until('all have failed', () => worker.seen.failed.length === 3);
  await until('one is snoozed', async () => (await queue.counts()).leased === 0);
  assert.deepStrictEqual((await queue.list({ state: 'dead' })).map((task) => task.data).sort(), ['other', 'result']);
  assert.deepStrictEqual((await queue.list({ state: 'scheduled' })).map((task) => task.data).sort(), ['later', 'snooze']);
});

test('an error that cannot be looked at, or has no delay, is a failure like others', async (t) => {
  const { queue, start } = await newQueue(t, { backoffBase: '1 h' });
  const hostile = new Proxy(new Error('x'), { getPrototypeOf() { throw new TypeError('not to be looked at'); } });
  await queue.addMany([{ data: 'hostile' }, { data: 'delay' }, { data: 'good' }, { data: 'parsecs' }]);
  const worker = start(async (task) => {
    if (task.data === 'hostile') throw hostile;
    if (task.data === 'delay') throw new RetryLater('later', {});
    if (task.data === 'parsecs') throw new RetryLater('later', '5 parsecs'); // which the server refuses, and nobody else
  }, { giveUpOn: [TypeError] });
  await until('three have failed', () => worker.seen.failed.length === 3);
  await until('the other is done', () => worker.seen.completed.length === 1);
  assert.strictEqual(worker.seen.lost.length, 0);
  const failed = await queue.list({ state: 'scheduled' });
  assert.deepStrictEqual(failed.map(({ attempts }) => attempts), [1, 1, 1]);
  assert.ok(failed.every(({ runAt }) => runAt - Date.now() > 20 * 60_000)); // by the queue's backoff, half of it at least
  const errors = failed.map((task) => task.lastError.split('\n')[0]).sort();
  assert.strictEqual(errors[0], 'RetryLater: later');
  assert.match(errors[1], /^TypeError: not to be looked at$/);
  assert.match(errors[2], /^TypeError: the delay of RetryLater is an object/);
});

test('a commit that fails with an error of the list', async (t) => {
  const { queue, rows, start } = await newQueue(t, { backoffBase: '1 h' }, 'CREATE TABLE sent (task bigint UNIQUE DEFERRABLE INITIALLY DEFERRED)');
  await queue.add('twice');
  const worker = start((task, { tx }) => tx.query('INSERT INTO sent VALUES (1), (1)'), { giveUpOn: [DatabaseError] });
  await until('it has failed', () => worker.seen.failed.length === 1);
  const [dead] = await queue.list({ state: 'dead' });
  assert.match(dead.lastError, /duplicate key/);
  assert.deepStrictEqual(await rows('SELECT * FROM sent'), []);
});

test('what is no class of errors is refused', () => {
  for (const giveUpOn of [TypeError, 'TypeError', ['TypeError'], [new TypeError('x')], [Object], [() => {}], [null], 5]) {
    assert.throws(() => new Worker('', 'emails', async () => {}, { giveUpOn }), /^TypeError: giveUpOn is a list of classes of errors/);
  }
  new Worker('', 'emails', async () => {}, { giveUpOn: [Error, Gone, Unrecoverable] });
});
