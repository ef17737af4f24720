'use strict';
// A handler for tests that run it in a process or a thread of its own. Its data says what it does; its progress is its process.

const fs = require('node:fs');
const { parentPort, threadId } = require('node:worker_threads');
const { FairqError, RetryLater, Snooze, Unrecoverable } = require('pgfairq');

class Refused extends RangeError {}
class Strange extends Error {} // the test has one of this name

/** Without an await, until there is the file. */
function computeUntil(file) {
  while (!fs.existsSync(file)) for (let i = 0; i < 1e6; i++);
}

const deeds = {
  nothing: () => null,
  where: () => [process.pid, threadId],
  compute: ({ file }) => computeUntil(file),
  crash: async ({ how }, { attempt }) => {
    if (attempt > 1) return 'survived';
    if (how === 'exit') process.exit(3);
    if (how === 'throw') setImmediate(() => { throw new Error('of nobody'); });
    else if (how === 'throwNull') setImmediate(() => { throw null; });
    else process.kill(process.pid, how);
    return new Promise(() => {});
  },
  write: async ({ rows, fail }, task, { tx }) => {
    for (const row of rows) await tx.query('INSERT INTO sent VALUES ($1, $2)', [task.id, row]);
    const { rows: [{ n, at, bytes }], rowCount, command } = await tx.query({ text: "SELECT count(*)::int AS n, now() AS at, '\\x0102'::bytea AS bytes FROM sent" });
    if (fail) throw new Error(fail);
    return [n, at instanceof Date, bytes.length, rowCount, command];
  },
  caught: async (data, task, { tx }) => {
    const error = await tx.query('SELECT 1/0').catch((one) => one);
    return [error.code, error instanceof Error];
  },
  divide: (data, task, { tx }) => tx.query('SELECT 1/0'),
  told: (data, task, { tx }) => tx.query('COMMIT').catch((error) => [error instanceof FairqError, error.name]),
  noise: () => {
    for (const message of [null, 'ready', { kind: 'call' }]) parentPort ? parentPort.postMessage(message) : process.send(message);
    return 'sent';
  },
  forbidden: (data, task, { tx }) => tx.query('COMMIT'),
  clone: (data, task, { tx }) => tx.query('SELECT $1', [() => 1]),
  result: () => () => 1,
  extend: async (data, task, { extend }) => (await extend()) instanceof Date,
  late: (data, task, { progress }) => {
    setTimeout(() => { progress('late').catch((error) => fs.writeFileSync(data.file, error.message)); });
  },
  type: () => { throw new TypeError('no type', { cause: new Error('the cause') }); },
  refused: () => { throw new Refused('refused'); },
  strange: () => { throw new Strange('strange'); },
  unrecoverable: () => { throw new Unrecoverable('never'); },
  later: () => { throw new RetryLater('later', '10 min'); },
  snooze: (data, { attempt }, { snooze }) => snooze('10 min'),
  snoozeWrongly: (data, task, { snooze }) => snooze({}),
  thrownSnooze: () => { throw new Snooze(600_000); },
  fail: (data, task, { fail }) => fail(new TypeError('no address')),
  text: () => { throw 'a text'; },
};

module.exports = async (task, context) => {
  if (task.data.tell) await context.progress({ pid: process.pid });
  return deeds[task.data.do](task.data, task, context);
};
