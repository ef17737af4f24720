'use strict';
// Through PgBouncer in transaction mode, with a direct connection for the session and the claims.
// Seen to fail: Worker prepares statements on the pool although there is a direct connection.

const test = require('node:test');
const assert = require('node:assert');
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const net = require('node:net');
const path = require('node:path');
const { Pool } = require('pg');
const { Queue, Worker } = require('pgfairq');
const { atEnd, config, newQueue, temporary, until, watch } = require('./support.js');

const program = ['/usr/sbin/pgbouncer', '/usr/bin/pgbouncer'].find((file) => fs.existsSync(file)) ?? 'pgbouncer';

/** A pooler of two connections to the server, on a socket below TMPDIR. */
async function pooler(t) {
  const directory = temporary(t, 'b');
  fs.writeFileSync(path.join(directory, 'users'), `"${config('x').user}" ""\n`);
  fs.writeFileSync(path.join(directory, 'ini'), `[databases]
* = host=${config('x').host}
[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = ${directory}
auth_type = trust
auth_file = ${directory}/users
pool_mode = transaction
default_pool_size = 2
max_client_conn = 100
logfile = ${directory}/log
`);
  const child = spawn(program, [path.join(directory, 'ini')], { stdio: 'ignore' });
  const ended = new Promise((resolve) => child.on('close', resolve));
  atEnd(t, () => { child.kill('SIGKILL'); return ended; });
  // The socket is there a moment before the pooler listens on it.
  await until('the pooler listens', () => new Promise((resolve) => {
    const socket = net.connect(path.join(directory, '.s.PGSQL.6432'));
    socket.on('connect', () => { socket.destroy(); resolve(true); });
    socket.on('error', () => resolve(false));
  }));
  return { host: directory, port: 6432 };
}

test('a worker behind a pooler in transaction mode', async (t) => {
  const { rows, name, config: direct, queue } = await newQueue(t, { keepDone: '1 h', maxAttempts: 2 },
    'CREATE TABLE sent (task bigint)');
  const pooled = new Pool({ ...await pooler(t), user: direct.user, database: name, max: 20 });
  pooled.on('error', () => {});
  atEnd(t, () => pooled.end());
  const behind = new Queue(pooled, 'emails', { prepare: false });
  const ids = await behind.addMany(Array.from({ length: 100 }, (_, n) => ({ data: n, group: n % 3 })));
  const worker = new Worker(pooled, 'emails', async (task, { tx, progress }) => {
    if (task.data % 2) await tx.query('INSERT INTO sent VALUES ($1)', [task.id]);
    if (task.data === 0) await progress('half');
    if (task.data % 10 === 9 && task.attempt === 1) throw new Error('once more');
    return task.data;
  }, { direct: { ...direct }, concurrency: 10 });
  const seen = watch(worker);
  const running = worker.run();
  await until('all are completed', () => seen.completed.length === 100);
  assert.strictEqual(seen.failed.length, 10);
  assert.deepStrictEqual(await rows('SELECT count(*)::int AS n, count(DISTINCT task)::int AS tasks FROM sent'), [{ n: 50, tasks: 50 }]);
  assert.strictEqual(await behind.waitUntilFinished(ids[7], { timeout: 100_000 }), 7);
  assert.strictEqual((await rows('SELECT bound FROM fairq.sessions'))[0].bound, true);
  await worker.close();
  await running;
  assert.deepStrictEqual(seen.errors, []);
  assert.deepStrictEqual(await rows('SELECT * FROM fairq.sessions'), []);
  assert.strictEqual((await queue.counts()).ready, 0);
});
