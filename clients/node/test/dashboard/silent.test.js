/**
 * A server that is gone in silence, as its machine is, or a stopped process: its connections stay and say nothing, new ones
 * are to the server that has taken over. Each page has an answer, and charts go on.
 *
 * A relay between dashboard and server, which stops carrying what it has, stands for that.
 *
 * Seen to fail: without query_timeout in Database, where pages have no answer.
 */
'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');
const { after, before, test } = require('node:test');
const { newDatabase, request, start, until, viewer } = require('./support.js');

const SOCKET = `.s.PGSQL.${process.env.PGPORT ?? 5432}`;
const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'relay-'));
const carried = new Set();
let database, dashboard;

const relay = net.createServer((near) => {
  const far = net.connect(path.join(process.env.PGHOST, SOCKET));
  for (const [from, to] of [[near, far], [far, near]]) {
    carried.add(from);
    from.on('error', () => undefined);
    from.on('close', () => {
      carried.delete(from);
      to.destroy();
    });
    from.pipe(to);
  }
});

before(async () => {
  database = await newDatabase();
  await database.client.query("SELECT fairq.create_queue('jobs')");
  await viewer(database.client);
  await new Promise((resolve) => relay.listen(path.join(directory, SOCKET), resolve));
  dashboard = await start(database.name, 'viewer', [], { PGHOST: directory });
});

after(async () => {
  await dashboard?.stop();
  carried.forEach((one) => one.destroy());
  await new Promise((resolve) => relay.close(resolve));
  fs.rmSync(directory, { recursive: true });
  await database?.client.end();
});

const get = (target) => request(dashboard.base, target);
const lastSample = async () => {
  const { status, text } = await get('/queue.json?queue=jobs');
  return status === 200 ? (JSON.parse(text).history.at(-1)?.time ?? 0) : 0;
};

test('each page has an answer, the next ones the figures, and charts go on', async () => {
  await Promise.all(Array.from({ length: 5 }, () => get('/')));
  await until(lastSample, 'a sample');
  const silent = Date.now() / 1000;
  for (const one of carried) {
    one.unpipe();
    one.pause();
  }
  const answers = [];
  for (let pages = 0; pages < 10; pages += 1) {
    void get('/').then(({ status }) => answers.push(status));
  }
  await until(() => answers.length === 10, 'ten answers');
  assert.ok(answers.every((status) => status === 200 || status === 503), String(answers));
  await until(async () => (await get('/healthz')).status === 200, 'the health');
  await until(async () => (await lastSample()) > silent, 'a sample since then');
});
