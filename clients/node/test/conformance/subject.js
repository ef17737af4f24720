'use strict';
// The Node library as the subject of the adversary: clients/conformance.md.

const fs = require('node:fs');
const readline = require('node:readline');
const { setTimeout: sleep } = require('node:timers/promises');
const { Pool } = require('pg');
const { Queue, TaskFailed, Unrecoverable, Worker, closeOnSignal } = require('pgfairq');

const [verb, name, how] = process.argv.slice(2);
const concurrency = Number(process.env.CONCURRENCY ?? 2);
const ttl = Number(process.env.LEASE ?? 2) * 1000;
// A handler has two connections at most: that of its task, and one for what it notes.
const pool = new Pool({ max: 2 * concurrency + 1 });
pool.on('error', () => {}); // an idle connection that was lost is replaced
const queue = new Queue(pool, name);

const STARTED = 'INSERT INTO conformance.started (key, pid) VALUES ($1, $2)';
const TIMES = 'SELECT count(*)::int AS times FROM conformance.started WHERE key = $1';
const EFFECT = 'INSERT INTO conformance.effects (key, pid) VALUES ($1, $2)';

/** Whether it is the first time that this is begun. */
async function isFirst({ key }) {
  const { rows: [{ times }] } = await pool.query(TIMES, [key]);
  return times === 1;
}

async function waitFor(file, signal) {
  while (file && !fs.existsSync(file)) await sleep(20, undefined, { signal });
}

async function wait({ ms, until }, signal) {
  await sleep(ms ?? 0, undefined, { signal });
  await waitFor(until, signal);
}

/** `db`: the transaction of the task, or the pool of the application. */
async function write(db, { key, hold }, signal) {
  await db.query(EFFECT, [key, process.pid]);
  await waitFor(hold, signal);
  return { key };
}

const handlers = {
  async effect({ data }, { tx, signal }) {
    await wait(data, signal);
    return write(tx, data, signal);
  },

  async plain({ data }, { signal }) {
    await wait(data, signal);
    return write(pool, data, signal);
  },

  compute: { file: require.resolve('./compute.js') },

  async block({ data }, { tx, signal }) {
    if (await isFirst(data)) while (!fs.existsSync(data.until));
    return write(tx, data, signal);
  },

  fail({ data }) {
    throw new Error(data.message);
  },

  final({ data }) {
    throw new Unrecoverable(data.message);
  },

  poison() {
    process.kill(process.pid, 'SIGKILL');
    return new Promise(() => {});
  },

  async snooze({ data }, { snooze, signal }) {
    if (await isFirst(data)) snooze(data.ms);
    return write(pool, data, signal);
  },
};

const hooks = { before: ({ data }) => pool.query(STARTED, [data.key, process.pid]) };

async function work() {
  const worker = new Worker(pool, name, handlers, { concurrency, ttl, hooks });
  closeOnSignal(worker);
  await worker.run();
}

async function* input() {
  const lines = readline.createInterface({ input: process.stdin });
  for await (const line of lines) yield JSON.parse(line);
}

function add({ payload, group, unique_key: uniqueKey }, client) {
  return queue.add(payload, { name: payload.do, group, uniqueKey, client });
}

async function enqueue() {
  for await (const task of input()) console.log(JSON.stringify(await add(task)));
}

async function transact() {
  const client = await pool.connect();
  await client.query('BEGIN');
  for await (const task of input()) {
    await client.query('INSERT INTO conformance.orders VALUES ($1)', [task.payload.key]);
    await add(task, client);
  }
  await client.query(how === 'commit' ? 'COMMIT' : 'ROLLBACK');
  client.release();
}

async function awaitResult() {
  const { value: task } = await input().next();
  const id = await add(task);
  try {
    const timeout = Number(process.env.TIMEOUT ?? 60) * 1000;
    console.log(JSON.stringify(await queue.waitUntilFinished(id, { timeout })));
  } catch (error) {
    if (!(error instanceof TaskFailed)) throw error;
    console.log(JSON.stringify({ failed: error.reason.split('\n')[0] }));
  }
}

const verbs = { work, enqueue, transact, await: awaitResult };

verbs[verb]().then(() => pool.end()).catch((error) => {
  console.error(error);
  process.exit(1);
});
