/**
 * With a script: pages that bring themselves up to date, and what they leave alone; the same by the keyboard alone.
 *
 * Seen to fail: busy() that asks only whether the page is hidden (what was chosen is lost); outlines taken away by the
 * stylesheet.
 */
'use strict';

const assert = require('node:assert/strict');
const { after, before, test } = require('node:test');
const { browser, factsOf, newDatabase, start, tableOf, until } = require('./support.js');

let database, dashboard, chromium, page;
const rows = async (sql, values) => (await database.client.query(sql, values)).rows;
const go = (target) => page.goto(dashboard.base + target);

before(async () => {
  database = await newDatabase();
  await rows("SELECT fairq.create_queue('jobs', max_attempts => 1)");
  await rows("SELECT fairq.enqueue('jobs', '1', group_key => 'ann', name => 'send') FROM generate_series(1, 4)");
  await rows("SELECT fairq.nack(receipt, 'no') FROM fairq.claim('jobs', 2)");
  dashboard = await start(database.name, 'postgres', ['--write']);
  chromium = await browser();
  page = chromium.page;
  await chromium.signIn(dashboard);
});

after(async () => {
  await chromium?.close();
  await dashboard?.stop();
  await database?.client.end();
});

/** Presses Tab until an element has the focus. */
async function tabTo(selector) {
  for (let times = 0; times < 200; times += 1) {
    if (await page.evaluate((wanted) => document.activeElement?.matches(wanted) === true, selector)) {
      return;
    }
    await page.keyboard.press('Tab');
  }
  assert.fail(`the focus does not come to ${selector}`);
}

test('a page brings itself up to date, and is not loaded anew', async () => {
  await go('/queue?queue=jobs');
  await page.evaluate(() => (window.same = true));
  const ready = async () => (await factsOf(page)).ready;
  assert.equal(await ready(), '2');
  await rows("SELECT fairq.enqueue('jobs', '2')");
  await until(async () => (await ready()) === '3', 'it shows what has come');
  assert.equal(await page.evaluate(() => window.same), true);
  assert.equal(await page.locator('#live').innerText(), 'every 5 s');
});

test('what was chosen stays, and nothing moves meanwhile; then it goes on', async () => {
  await go('/dead?queue=jobs');
  const box = page.locator('main input[name=id]').first();
  await box.check();
  await page.evaluate(() => document.activeElement.blur());
  await rows("SELECT fairq.nack(receipt, 'another') FROM fairq.claim('jobs')");
  await until(async () => (await page.locator('#live').innerText()) === 'waits while you are at it', 'it waits');
  assert.equal(await box.isChecked(), true);
  assert.equal((await tableOf(page, 'main table >> nth=2')).length, 2);
  await box.uncheck();
  await page.evaluate(() => document.activeElement.blur());
  await until(async () => (await tableOf(page, 'main table >> nth=2')).length === 3, 'it goes on');
});

test('all that are shown are chosen by one box, also after the page has changed', async () => {
  await page.getByLabel('Choose all that are shown').check();
  assert.equal(await page.locator('main input[name=id]:checked').count(), 3);
  await page.getByLabel('Choose all that are shown').uncheck();
  assert.equal(await page.locator('main input[name=id]:checked').count(), 0);
});

test('off is off', async () => {
  await go('/queue?queue=jobs&refresh=off');
  const asked = chromium.asked.length;
  assert.equal(await page.locator('html[data-live]').count(), 0);
  await page.getByRole('link', { name: '30 s' }).click();
  assert.equal(await page.locator('html').getAttribute('data-live'), '30');
  assert.ok(chromium.asked.length > asked);
});

test('by the keyboard alone: to the dead, choose, cancel, and undo', async () => {
  await go('/');
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'To the content');
  const outlined = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
  assert.notEqual(outlined, 'none', 'where the focus is can be seen');
  await tabTo('nav a[href="/dead"]');
  await page.keyboard.press('Enter');
  await page.waitForURL(/\/dead/);
  await tabTo('main input[name=id]');
  await page.keyboard.press('Space');
  await tabTo('button[formaction="/act/cancel-tasks"]');
  await page.keyboard.press('Enter');
  await page.waitForURL(/\/act\/cancel-tasks/);
  await tabTo('button[name=confirmed]');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.notice');
  assert.equal(await page.locator('.notice').innerText(), '1 task is cancelled.');
  assert.equal((await rows("SELECT FROM fairq.tasks('jobs', 'dead')")).length, 2);
  await tabTo('.undo button');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.notice:has-text("enqueued again")');
});

test('what an action came to is still said after the page has changed, and in another window not taken away', async () => {
  const other = await page.context().newPage();
  await other.goto(`${dashboard.base}/queue?queue=jobs`);
  await until(async () => (await other.locator('#live').innerText()) === 'every 5 s' || (await other.evaluate(() => document.hidden)), 'the other is there');
  await go('/act/pause-queue?queue=jobs');
  await page.getByRole('button', { name: 'Pause the queue' }).click();
  assert.equal(await page.locator('.notice').innerText(), 'Queue jobs is paused.');
  await page.evaluate(() => document.activeElement.blur());
  await until(async () => (await page.locator('#live').innerText()) === 'every 5 s', 'it was brought up to date');
  assert.equal(await page.locator('.notice').innerText(), 'Queue jobs is paused.');
  await other.close();
});

test('when the dashboard has gone the page stays, and says so', async () => {
  await go('/queue?queue=jobs');
  await dashboard.stop();
  await until(async () => (await page.locator('#live').innerText()) === 'out of reach; tries again', 'it says so');
  assert.equal((await factsOf(page)).dead, '2');
});
