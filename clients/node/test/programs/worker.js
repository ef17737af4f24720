'use strict';
// A process with a worker, for tests that stop it. Its argument says what it does; it prints what happens.

const { setTimeout: sleep } = require('node:timers/promises');
const { Pool } = require('pg');
const { Worker, closeOnSignal } = require('pgfairq');

const parameters = JSON.parse(process.argv[2]);
const pool = new Pool({ ...parameters.config, max: (parameters.options?.concurrency ?? 1) + 2 });
const say = (text) => process.stdout.write(`${text}\n`);

/** Writes for each task that it has begun, outside of its transaction, and inside of it that it is done. */
async function handle(task, { tx, signal }) {
  if (parameters.begin) await pool.query('INSERT INTO begun VALUES ($1, $2)', [task.id, process.pid]);
  say('begun');
  await sleep(parameters.millis ?? 0, undefined, parameters.stubborn ? {} : { signal });
  if (parameters.tx !== false) await tx.query('INSERT INTO done VALUES ($1, $2)', [task.id, process.pid]);
}

const worker = new Worker(pool, 'emails', handle, parameters.options);
worker.on('lost', () => say('lost'));
worker.on('failed', (task, error) => say(`failed ${error.message}`));
worker.on('error', (error) => process.stderr.write(`# ${error.message}\n`));
closeOnSignal(worker, parameters.close);
process.on('SIGTERM', () => say('signal'));
worker.run().then(async () => {
  await pool.end();
  say('closed');
}, (error) => {
  say(`refused ${error.message}`);
  process.exitCode = 1;
  return pool.end();
});
