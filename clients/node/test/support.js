'use strict';
// What the tests share: databases, faults of the server, processes, waits for conditions.

const { execFileSync, spawn } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const readline = require('node:readline');
const { Pool } = require('pg');
const { Queue, Worker } = require('pgfairq');

const CLUSTER = process.env.FAIRQ_CLUSTER;
const PATIENCE = 120_000; // for a machine that hangs, not for one that is late
let databases = 0;

const endings = new WeakMap();

/** At the end of the test, the last first. */
function atEnd(t, step) {
  if (!endings.has(t)) {
    const steps = [];
    endings.set(t, steps);
    t.after(async () => {
      for (const one of steps.reverse()) await one();
    });
  }
  endings.get(t).push(step);
}

function config(database) {
  return { host: process.env.PGHOST, user: process.env.PGUSER, database };
}

/** A pool of the test's that does not mind a server that goes away. */
function poolOf(settings, max = 10) {
  const pool = new Pool({ ...settings, max });
  pool.on('error', () => {});
  return pool;
}

async function administer(statement) {
  const admin = poolOf(config('postgres'), 1);
  await admin.query(statement);
  await admin.end();
}

/** A database of its own with the extension in it. It is dropped with the test, for each has a background worker. */
async function newDatabase(t, setup = '') {
  const name = `test_${process.pid}_${++databases}`;
  await administer(`CREATE DATABASE ${name}`);
  atEnd(t, () => administer(`DROP DATABASE ${name} WITH (FORCE)`));
  const pool = poolOf(config(name), 20);
  await pool.query(`CREATE EXTENSION pgfairq; ${setup}`);
  atEnd(t, () => pool.end());
  return { name, pool, config: config(name), rows: async (sql, values) => (await pool.query(sql, values)).rows };
}

/** A queue of a database of its own, and a worker that is closed with the test. */
async function newQueue(t, settings = {}, setup = '') {
  const database = await newDatabase(t, setup);
  const queue = new Queue(database.pool, 'emails');
  await queue.create({ backoffBase: 0, ...settings });
  const start = (handler, options = {}, queues = 'emails') => {
    const worker = new Worker(database.pool, queues, handler, options);
    const seen = watch(worker);
    seen.running = worker.run();
    seen.running.catch(() => {});
    atEnd(t, () => worker.close({ timeout: 0 }));
    return Object.assign(worker, { seen });
  };
  return { ...database, queue, start };
}

/** What a worker tells, in lists. */
function watch(worker) {
  const seen = { completed: [], failed: [], dead: [], lost: [], errors: [] };
  worker.on('completed', (task, result) => seen.completed.push({ task, result }));
  worker.on('failed', (task, error) => seen.failed.push({ task, error }));
  worker.on('dead', (task, error) => seen.dead.push({ task, error }));
  worker.on('lost', (task, reason) => seen.lost.push({ task, reason }));
  worker.on('error', (error) => seen.errors.push(error));
  return seen;
}

const sleep = (millis) => new Promise((resolve) => setTimeout(resolve, millis));

/** Asks until it holds. */
async function until(what, condition) {
  const end = Date.now() + PATIENCE;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > end) throw new Error(`not within ${PATIENCE / 1000} s: ${what}`);
    await sleep(10);
  }
}

// --- the server ---------------------------------------------------------------

function pgCtl(...parts) {
  execFileSync('pg_ctl', ['-D', `${CLUSTER}/data`, '-l', `${CLUSTER}/log`, '-w', '-t', '120', '-s', ...parts], { stdio: ['ignore', 'inherit', 'inherit'] });
}

/** mode: fast, or immediate, which is a crash with recovery. The tests' process stands still meanwhile. */
function restart(mode = 'fast') {
  pgCtl('restart', '-m', mode);
}

// --- processes ----------------------------------------------------------------

/** A process that runs test/programs/NAME with its parameters as JSON, a program, or a command; and the lines that it prints. */
function start(t, what, parameters) {
  const { program, args, command, ...options } = typeof what === 'string'
    ? { program: path.join(__dirname, 'programs', what), args: [JSON.stringify(parameters)] } : what;
  const [name, ...rest] = command ?? [process.execPath, program, ...(args ?? [])];
  const child = spawn(name, rest, { stdio: ['ignore', 'pipe', command ? 'pipe' : 'inherit'], ...options });
  const lines = [];
  readline.createInterface({ input: child.stdout }).on('line', (line) => lines.push(line));
  let errors = '';
  child.stderr?.on('data', (chunk) => { errors += chunk; });
  const ended = new Promise((resolve) => child.on('close', (code, signal) => resolve({ code, signal })));
  atEnd(t, async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
    await ended;
  });
  const output = () => [...lines, errors].join('\n');
  return { child, lines, ended, output, said: (line) => until(`the process says ${line}`, () => lines.includes(line)) };
}

function temporary(t, prefix) {
  const directory = fs.mkdtempSync(path.join(process.env.TMPDIR, prefix));
  atEnd(t, () => fs.rmSync(directory, { recursive: true, force: true }));
  return directory;
}

module.exports = { atEnd, config, newDatabase, newQueue, poolOf, restart, sleep, start, temporary, until, watch };
