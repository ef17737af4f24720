/**
 * Charts that survive a restart: minutes in a table, which is the dashboard's own; ranges, axes, and what a chart says of
 * a moment.
 *
 * Seen to fail: quantile() without what was counted before; addMinute() without its DELETE; places() without its gaps;
 * owners found by current_user::regrole, which folds "Charts" to charts.
 */
'use strict';

const assert = require('node:assert/strict');
const { after, before, test } = require('node:test');
const { lineChart } = require('../../dist/dashboard/chart.js');
const { Database } = require('../../dist/dashboard/database.js');
const { addMinute, minutes, prepareHistory } = require('../../dist/dashboard/data/history.js');
const { quantile } = require('../../dist/dashboard/data/queues.js');
const { browser, newDatabase, newRole, request, runToEnd, start, until, viewer } = require('./support.js');

let database, dashboard, own;
const rows = async (sql, values) => (await database.client.query(sql, values)).rows;
const sampleAt = (time, more = {}) => ({
  time, ready: 1, leased: 0, waiting: 0, dead: 0, oldest: null, enqueued: 1, claimed: 1, acked: 1, failed: 0, wait_p95: 0.5, run_p95: null, ...more,
});

before(async () => {
  database = await newDatabase();
  await rows("SELECT fairq.create_queue('jobs')");
  await viewer(database.client);
});

after(async () => {
  await dashboard?.stop();
  await own?.close();
  await database?.client.end();
});

test('without a schema of its own it says what is to be done, and does that then', async () => {
  const refused = runToEnd(['--history', '7'], database.name, 'viewer');
  assert.equal(refused.status, 1);
  assert.match(refused.stderr, /takes a schema pgfairq_dashboard that role viewer owns/);
  const sql = /CREATE SCHEMA .*;/.exec(refused.stderr)[0];
  // one of another role, whose table could have code on it
  await newRole(database.client, 'tenant');
  await rows('CREATE SCHEMA pgfairq_dashboard AUTHORIZATION tenant');
  await rows('GRANT ALL ON SCHEMA pgfairq_dashboard TO viewer');
  assert.equal(runToEnd(['--history', '7'], database.name, 'viewer').status, 1);
  await rows('DROP SCHEMA pgfairq_dashboard');
  // one of a role whose name is taken for another's where it is not quoted
  await newRole(database.client, 'charts');
  await newRole(database.client, '"Charts"');
  await rows('CREATE SCHEMA pgfairq_dashboard AUTHORIZATION charts');
  await rows('GRANT ALL ON SCHEMA pgfairq_dashboard TO "Charts"');
  const quoted = new Database({ host: process.env.PGHOST, user: 'Charts', database: database.name });
  await assert.rejects(prepareHistory(quoted), /that role Charts owns/);
  await rows('ALTER SCHEMA pgfairq_dashboard OWNER TO "Charts"');
  await prepareHistory(quoted);
  await quoted.close();
  await rows('DROP SCHEMA pgfairq_dashboard CASCADE');
  await rows(sql);
  dashboard = await start(database.name, 'viewer', ['--history', '7']);
  assert.equal((await request(dashboard.base, '/queue?queue=jobs')).status, 200);
  for (const wrong of ['0', '91', '1.5', 'x']) {
    assert.equal(runToEnd(['--history', wrong], database.name, 'viewer').status, 2, wrong);
  }
});

test('minutes are kept, each once, and those that are too old are not', async () => {
  own = new Database({ host: process.env.PGHOST, user: 'viewer', database: database.name });
  await prepareHistory(own);
  const now = Date.now() / 1000;
  const ago = (seconds) => Math.floor((now - seconds) / 60) * 60 + 1;
  await addMinute(own, new Map([['jobs', sampleAt(ago(8 * 86_400))]]), 30);
  const old = "SELECT FROM pgfairq_dashboard.minute WHERE at < now() - '1 day'::interval";
  assert.equal((await rows(old)).length, 1);
  await addMinute(own, new Map([['jobs', sampleAt(ago(7200), { ready: 5, acked: 2 })]]), 7);
  await addMinute(own, new Map([['jobs', sampleAt(ago(7200) + 30, { ready: 50 })]]), 7);
  await addMinute(own, new Map([['jobs', sampleAt(ago(7140), { ready: 9, acked: 4 })], ['other', sampleAt(ago(7140))]]), 7);
  assert.deepEqual(
    (await rows("SELECT ready FROM pgfairq_dashboard.minute WHERE queue = 'jobs' AND at < now() - '1 hour'::interval ORDER BY at")).map((row) => row.ready),
    [5, 9],
  );
  assert.equal((await rows(old)).length, 0);
  await own.write(async (writer) => {
    await writer.rows('SET LOCAL enable_seqscan = off');
    const plan = await writer.rows("EXPLAIN DELETE FROM pgfairq_dashboard.minute WHERE at < now() - '1 day'::interval");
    assert.match(JSON.stringify(plan), /minute_at_queue_key/, 'what is too old is found by an index');
  });
  const read = (seconds, step) => own.read((reader) => minutes(reader, 'jobs', seconds, step));
  // The dashboard adds minutes of its own meanwhile, of an empty queue.
  const seen = async (seconds, step) => (await read(seconds, step)).filter((one) => one.ready > 0).map((one) => [one.ready, one.acked]);
  assert.deepEqual(await seen(10_800, 60), [[5, 2], [9, 4]]);
  assert.deepEqual(await seen(3600, 60), []);
  const week = await read(604_800, 86_400 * 7);
  assert.equal(Math.max(...week.map((one) => one.ready)), 9, 'of what there is, the most');
});

test('after a restart the charts have what was before', async () => {
  await dashboard.stop();
  dashboard = await start(database.name, 'viewer', ['--history', '7']);
  const chromium = await browser({ javaScriptEnabled: false });
  await chromium.page.goto(`${dashboard.base}/queue?queue=jobs`);
  assert.deepEqual(await chromium.page.locator('.tabs').first().locator('a, b').allInnerTexts(), ['30 minutes', '3 hours', '1 day', '7 days']);
  for (const range of ['3 hours', '1 day', '7 days']) {
    await chromium.page.getByRole('link', { name: range }).click();
    const titles = await chromium.page.locator('figure').first().locator('rect.hover title').allTextContents();
    assert.ok(titles.some((one) => /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\nready: [59]\n/.test(one)), `${range}: ${titles[0]}`);
  }
  await chromium.close();
  const data = JSON.parse((await request(dashboard.base, '/queue.json?queue=jobs&range=3h')).text);
  assert.ok(data.history.length >= 2);
  const without = await start(database.name, 'viewer');
  const text = (await request(without.base, '/queue?queue=jobs&range=7d')).text;
  assert.match(text, /30 minutes<\/b>/);
  assert.doesNotMatch(text, /1 day/);
  await without.stop();
});

test('a minute that ends is written, with the waits and runs of it', async () => {
  const before = (await rows('SELECT FROM pgfairq_dashboard.minute')).length;
  await rows("SELECT fairq.enqueue('jobs', '1') FROM generate_series(1, 20)");
  await until(async () => {
    await rows("SELECT fairq.enqueue('jobs', '1'), fairq.ack(receipt) FROM fairq.claim('jobs')");
    return (await rows('SELECT FROM pgfairq_dashboard.minute')).length > before;
  }, 'a minute has ended');
  const [last] = await rows("SELECT * FROM pgfairq_dashboard.minute WHERE queue = 'jobs' ORDER BY at DESC LIMIT 1");
  assert.ok(last.ready > 0 && last.acked > 0, JSON.stringify(last));
});

test('a quantile is of what came between two looks', () => {
  const bounds = (...counts) => new Map([[1, counts[0]], [2, counts[1]], [4, counts[2]], [Infinity, counts[3]]]);
  assert.equal(quantile(bounds(100, 100, 110, 110), bounds(100, 100, 100, 100), 0.5), 3);
  assert.equal(quantile(bounds(100, 100, 110, 110), bounds(100, 100, 110, 110), 0.95), null);
  assert.equal(quantile(bounds(10, 10, 10, 10), undefined, 0.95), 0.95);
  assert.equal(quantile(bounds(0, 0, 0, 5), bounds(0, 0, 0, 0), 0.95), 4, 'longer than all steps');
  assert.equal(quantile(undefined, undefined, 0.95), null);
});

test('axes, and gaps where nothing was seen', () => {
  const chart = (times, values) =>
    String(lineChart({ title: 'T', times, format: (value) => `${value}/s`, series: [{ name: 'n', colour: 'one', values }] }));
  const text = chart([0, 60, 120, 180, 1000, 1060], [1, 2, 3, 4, 5, 10]);
  for (const mark of ['>10/s<', '>5/s<', '>0<', 'ago<', '>now<']) {
    assert.ok(text.includes(mark), mark);
  }
  const line = /class="line one" d="([^"]+)"/.exec(text)[1];
  assert.equal(line.match(/M/g).length, 2, line);
  assert.match(text, /<title>1970-01-01 00:00:00 UTC\nn: 1\/s<\/title>/);
});
