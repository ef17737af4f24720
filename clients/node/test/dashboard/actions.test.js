/**
 * Each action, by a browser without script: button, confirmation, and what the database says then.
 *
 * Seen to fail: perform() called by the first POST, whatever `confirmed` says (weights are set
 * before they are confirmed); one name of cookies for all ports (signing in at another dashboard
 * signs out here).
 */
'use strict';

const assert = require('node:assert/strict');
const { after, before, test } = require('node:test');
const { fill, HOSTILE } = require('./content.js');
const { browser, factsOf, newDatabase, newRole, start, viewer } = require('./support.js');

let database, dashboard, chromium, page, press, follow, notice;
const row = async (sql, values) => (await database.client.query(sql, values)).rows[0];
const q = encodeURIComponent;
const go = (path) => page.goto(dashboard.base + path);

async function signInWith(token) {
  await page.getByLabel('Token').fill(token);
  await press('Sign in');
}

before(async () => {
  database = await newDatabase();
  await fill(database.client);
  dashboard = await start(database.name, 'postgres', ['--write']);
  chromium = await browser({ javaScriptEnabled: false });
  ({ page, press, follow, notice } = chromium);
});

after(async () => {
  await chromium?.close();
  await dashboard?.stop();
  await database?.client.end();
});

test('every page leads to where a visitor signs in, and the wrong token is refused', async () => {
  await go('/dead');
  assert.equal(new URL(page.url()).pathname, '/sign-in');
  await signInWith('not the token, but as long as it is');
  assert.match(await page.locator('main').innerText(), /not the token/);
  await signInWith(dashboard.token);
  assert.equal(new URL(page.url()).pathname, '/');
  assert.match(await page.locator('header').innerText(), /can write/);
});

test('pause and resume a queue; leaving it changes nothing', async () => {
  const paused = async () => (await row("SELECT paused FROM fairq.queues WHERE queue = 'emails'")).paused;
  await go('/queue?queue=emails');
  await follow('Pause');
  assert.match(await page.locator('main').innerText(), /Claims return nothing from queue emails/);
  assert.equal(await paused(), false, 'nothing is done before it is confirmed');
  await follow('Leave it');
  assert.equal(await paused(), false);
  await follow('Pause');
  await press('Pause the queue');
  assert.equal(await notice(), 'Queue emails is paused.');
  assert.equal(await paused(), true);
  await page.reload();
  assert.equal(await page.locator('.notice').count(), 0, 'it is said once');
  await follow('Resume');
  await press('Resume the queue');
  assert.equal(await paused(), false);
});

test('pause and resume a tenant, also one whose key has line breaks and controls', async () => {
  for (const group of ['ann', HOSTILE.newline, HOSTILE.controls, HOSTILE.attribute, '']) {
    const paused = async () =>
      (await row("SELECT paused FROM fairq.group_settings WHERE queue = 'emails' AND group_key = $1", [group]))
        ?.paused ?? false;
    await go(`/tenant?queue=emails&group=${q(group)}`);
    await follow('Pause');
    await press('Pause the tenant');
    assert.equal(await paused(), true, JSON.stringify(group));
    await follow('Resume');
    await press('Resume the tenant');
    assert.equal(await paused(), false, JSON.stringify(group));
  }
});

test('weight and limits of a tenant: given, shown again, then set; and taken away', async () => {
  const own = () =>
    row(
      "SELECT weight, max_leased, rate, burst FROM fairq.group_settings WHERE queue = 'emails' AND group_key = 'ann'",
    );
  await go('/tenant?queue=emails&group=ann');
  await follow('Weight and limits');
  await page.getByLabel('Weight').fill('2.5');
  await page.getByLabel('In flight at most').fill('4');
  await press('Check');
  assert.equal(await own(), undefined, 'nothing is done before it is confirmed');
  const facts = await factsOf(page, 'form dl');
  assert.deepEqual(facts, {
    Weight: '2.5',
    'In flight at most': '4',
    'Claims a second': 'as it is',
    Burst: 'as it is',
  });
  await press('Set weight and limits');
  assert.deepEqual(await own(), { weight: 2.5, max_leased: 4, rate: null, burst: null });
  assert.match(await notice(), /Weight and limits of tenant ann are set/);
  await follow('Weight and limits');
  assert.equal(await page.getByLabel('Weight').inputValue(), '2.5');
  await page.getByLabel('Weight').fill('0.0000001');
  await press('Check');
  assert.match(await page.locator('main').innerText(), /Weight is “0\.0000001”.*from 0\.001 to 1000/s);
  assert.equal((await own()).weight, 2.5);
  await go('/tenant?queue=emails&group=ann');
  await follow('Back to defaults');
  await press('Back to defaults');
  assert.equal(await own(), undefined);
});

test('revive a task, those of a tenant, and all', async () => {
  const dead = async () => Number((await row("SELECT dead FROM fairq.queue_stats WHERE queue = 'emails'")).dead);
  const { id } = await row("SELECT id FROM fairq.dead_tasks WHERE queue = 'emails' ORDER BY id LIMIT 1");
  assert.equal(await dead(), 5);
  await go(`/task?queue=emails&id=${id}`);
  await follow('Revive');
  assert.match(await page.locator('main').innerText(), /no such mailbox|"fails"/);
  await press('Revive the task');
  assert.equal(await dead(), 4);
  assert.equal((await row("SELECT state FROM fairq.get_task('emails', $1)", [id])).state, 'ready');
  await database.client.query("SELECT fairq.enqueue('emails', '{}', group_key => 'gus', max_attempts => 1)");
  await database.client.query("SELECT fairq.nack(receipt) FROM fairq.claim('emails', 1, group_keys => '{gus}')");
  assert.equal(await dead(), 5);
  await go('/dead?queue=emails&group=gus');
  await follow('Revive all of these');
  await press('Revive the dead tasks');
  assert.equal(await notice(), '1 task is ready again.');
  assert.equal(await dead(), 4);
  await go('/dead?queue=emails');
  await follow('Revive all');
  await press('Revive the dead tasks');
  assert.equal(await notice(), '4 tasks are ready again.');
  assert.equal(await dead(), 0);
});

test('revive those of a name, in all tenants or in one: what a list is narrowed to, and no other', async () => {
  await database.client.query("SELECT fairq.create_queue('named', max_attempts => 1)");
  await database.client.query(`SELECT fairq.enqueue('named', '1', group_key => g, name => n), fairq.enqueue('named', '1', group_key => g)
    FROM unnest('{ann,bob,""}'::text[]) g, unnest($1::text[]) n`, [['greet', HOSTILE.attribute]]);
  await database.client.query("SELECT fairq.nack(receipt, 'no') FROM fairq.claim('named', 100)");
  const dead = async () =>
    (await database.client.query(`SELECT concat_ws(' ', group_key, name) AS one, count(*)::int FROM fairq.dead_tasks WHERE queue = 'named'
      GROUP BY group_key, name ORDER BY group_key COLLATE "C", name COLLATE "C"`)).rows.map(({ one, count }) => `${count} ${one}`);
  const buttons = () => page.locator('main a.button').allInnerTexts();
  const other = HOSTILE.attribute;
  const all = ['1  ' + other, '1  greet', '2 ', '1 ann ' + other, '1 ann greet', '2 ann', '1 bob ' + other, '1 bob greet', '2 bob'];
  assert.deepEqual(await dead(), all);
  await go('/dead?queue=named');
  assert.deepEqual(await buttons(), ['Revive all', 'Cancel all']);
  await page.getByRole('textbox', { name: 'Name' }).fill('greet');
  await page.getByRole('textbox', { name: 'Tenant' }).fill('ann');
  await page.getByRole('button', { name: 'Show' }).click();
  assert.deepEqual(await buttons(), ['Revive all of these', 'Cancel all of these']);
  const filtered = page.url();
  await follow('Revive all of these');
  assert.match(await page.locator('main').innerText(), /All dead tasks named greet of tenant ann in queue named/);
  await follow('Leave it');
  assert.deepEqual(new URL(page.url()).searchParams.getAll('name'), ['greet']);
  assert.equal(new URL(page.url()).searchParams.get('group'), 'ann');
  assert.deepEqual(await dead(), all);
  await page.goto(filtered);
  await follow('Revive all of these');
  await press('Revive the dead tasks');
  assert.equal(await notice(), '1 task is ready again.');
  assert.deepEqual(await dead(), all.filter((one) => one !== '1 ann greet'));
  await go('/dead?queue=named&nogroup=1&name=greet');
  await follow('Revive all of these');
  await press('Revive the dead tasks');
  assert.deepEqual(await dead(), all.filter((one) => one !== '1 ann greet' && one !== '1  greet'));
  await go(`/dead?queue=named&name=${q(other)}`);
  assert.deepEqual(await buttons(), ['Revive all of these', 'Cancel all of these']);
  await follow('Revive all of these');
  await press('Revive the dead tasks');
  assert.equal(await notice(), '3 tasks are ready again.');
  assert.equal(new URL(page.url()).searchParams.get('name'), other);
  assert.deepEqual(await dead(), ['2 ', '2 ann', '1 bob greet', '2 bob']);
});

test('cancel a task that waits, and one that a worker has', async () => {
  const waits = await row("SELECT id FROM fairq.q_emails WHERE group_key = 'bob' LIMIT 1");
  const leased = await row("SELECT id, receipt FROM fairq.claim('emails')");
  for (const { id } of [waits, leased]) {
    await go(`/task?queue=emails&id=${id}`);
    await follow('Cancel');
    await press('Cancel the task');
    assert.equal(await notice(), `Task ${id} is cancelled.`);
    assert.equal(await row("SELECT FROM fairq.get_task('emails', $1)", [id]), undefined);
  }
  assert.equal((await row('SELECT fairq.ack($1) AS mine', [leased.receipt])).mine, false);
  await go(`/act/cancel?queue=emails&id=${waits.id}`);
  await press('Cancel the task');
  assert.equal(await notice(), `There is no task ${waits.id} any more.`);
});

test('what the role may not do is said, and not done', async () => {
  await viewer(database.client);
  const other = await start(database.name, 'viewer', ['--write']);
  await page.goto(other.base);
  await signInWith(other.token);
  await page.goto(`${other.base}/act/pause-queue?queue=emails`);
  await press('Pause the queue');
  assert.match(await page.locator('main').innerText(), /may not do this: .*emails/);
  assert.equal((await row("SELECT paused FROM fairq.queues WHERE queue = 'emails'")).paused, false);
  await other.stop();
});

test('the worker of a queue may cancel and revive, and not pause', async () => {
  const role = await newRole(database.client, 'worker', 'GRANT SELECT, UPDATE, DELETE ON fairq.q_emails');
  const other = await start(database.name, role, ['--write']);
  const { id } = await row("SELECT id FROM fairq.q_emails WHERE group_key = 'carol' LIMIT 1");
  await page.goto(other.base);
  await signInWith(other.token);
  await page.goto(`${other.base}/act/cancel?queue=emails&id=${id}`);
  await press('Cancel the task');
  assert.equal(await notice(), `Task ${id} is cancelled.`);
  await page.goto(`${other.base}/act/pause-queue?queue=emails`);
  await press('Pause the queue');
  assert.match(await page.locator('main').innerText(), /may not do this/);
  await other.stop();
});

test('signing out ends it, and visits of other dashboards on the machine have not', async () => {
  await go('/');
  await page.getByRole('button', { name: 'Sign out' }).click();
  assert.equal(new URL(page.url()).pathname, '/sign-in');
  await go('/');
  assert.equal(new URL(page.url()).pathname, '/sign-in');
});
