/**
 * What tenants write appears, and does nothing else: with scripts allowed, on every page, light or
 * dark. Each text stands in group keys, names of tasks, payloads, headers, unique keys, errors, names of
 * queues, sessions, workers and schedules.
 *
 * Seen to fail: escapeText() that gives back its argument (pages lose their tables, the title
 * changes); foreign() without <bdi>, and visible() that only escapes (what is shown differs).
 */
'use strict';

const assert = require('node:assert/strict');
const { after, before, test } = require('node:test');
const { fill, HOSTILE, HOSTILE_QUEUE, work } = require('./content.js');
const { browser, newDatabase, start, viewer } = require('./support.js');

let database, dashboard, chromium, page;
const rows = async (sql, values) => (await database.client.query(sql, values)).rows;
const q = encodeURIComponent;

/** How a text is to be shown: what is not seen is written out. */
function written(text) {
  return text.replace(
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

before(async () => {
  database = await newDatabase();
  await fill(database.client);
  await work(database.client);
  await viewer(database.client);
  dashboard = await start(database.name, 'viewer');
  chromium = await browser();
  page = chromium.page;
});

after(async () => {
  await chromium?.close();
  await dashboard?.stop();
  await database?.client.end();
});

/** That the page is ours, whole and quiet: its own elements, and none that texts would make. */
async function harmless(path) {
  const response = await page.goto(dashboard.base + path);
  assert.equal(response.status(), 200, path);
  const found = await page.evaluate(() => ({
    title: document.title,
    scripts: document.querySelectorAll('script:not([src="/live.js"]), img, iframe, object, style').length,
    handlers: [...document.querySelectorAll('*')]
      .flatMap((one) => [...one.attributes])
      .filter((one) => /^on|^style$/i.test(one.name) || /^\s*javascript:/i.test(one.value)).length,
    headings: document.querySelectorAll('h1').length,
    footer: document.querySelectorAll('body > footer').length,
    broken: [...document.querySelectorAll('td, dd, pre')].filter((one) => one.closest('main') === null).length,
  }));
  assert.match(found.title, / · pgfairq$/, path);
  assert.ok(!found.title.startsWith('owned'), path);
  assert.deepEqual(
    { ...found, title: '' },
    { title: '', scripts: 0, handlers: 0, headings: 1, footer: 1, broken: 0 },
    path,
  );
  return page.locator('main');
}

test('lists show every text, and nothing runs', async () => {
  for (const path of ['/tenants?queue=emails', '/tasks?queue=emails&after=132', `/dead?queue=${q(HOSTILE_QUEUE)}`]) {
    const main = await harmless(path);
    const shown = await main.locator('td a bdi').allTextContents();
    for (const [name, text] of Object.entries(HOSTILE)) {
      assert.ok(shown.includes(written(text)), `${path} shows ${name}`);
    }
  }
});

test('a page of each tenant and of each task with such texts', async () => {
  for (const [name, text] of Object.entries(HOSTILE)) {
    const main = await harmless(`/tenant?queue=emails&group=${q(text)}`);
    assert.equal(await main.locator('h1').textContent(), written(`Tenant ${text}`), name);
    const [task] = await rows('SELECT id, payload::text, headers::text FROM fairq.q_emails WHERE group_key = $1', [
      text,
    ]);
    const list = await main.locator('table >> nth=-1').locator('tbody tr').count();
    assert.equal(list, 1, `${name}: its one task`);
    const one = await harmless(`/task?queue=emails&id=${task.id}`);
    assert.deepEqual(await one.locator('pre').allTextContents(), [task.payload, task.headers].map(written), name);
    assert.equal(await one.locator('dl').first().locator('dd bdi').last().textContent(), written(text), `${name}: unique key`);
  }
});

test('errors, whole, of the dead', async () => {
  const dead = await rows('SELECT id, last_error FROM fairq.dead_tasks WHERE queue = $1', [HOSTILE_QUEUE]);
  assert.equal(dead.length, Object.keys(HOSTILE).length);
  for (const { id, last_error: error } of dead) {
    const main = await harmless(`/task?queue=${q(HOSTILE_QUEUE)}&id=${id}`);
    assert.equal(await main.locator('pre').first().textContent(), written(error));
    const [end] = await main.locator('h2:has-text("Failures and losses") + .scroll tbody tr').all();
    const cells = await end.locator('td').allTextContents();
    assert.ok(cells.at(-2).startsWith(`session "${written(error)}"`), cells.at(-2));
    const cell = end.locator('td').last();
    const lines = cell.locator('pre');
    assert.equal(await ((await lines.count()) > 0 ? lines : cell).textContent(), written(error));
    assert.equal(await main.locator('dd a bdi').first().textContent(), written(error), 'its name');
  }
});

test('names: in figures, in filters, and in links', async () => {
  for (const path of ['/queue?queue=emails', '/names?queue=emails', `/names?queue=${q(HOSTILE_QUEUE)}`]) {
    const main = await harmless(path);
    if (path.startsWith('/queue')) continue;
    const shown = await main.locator('td a bdi').allTextContents();
    const links = await main.locator('td a').evaluateAll((all) => all.map((one) => new URL(one.href).searchParams.get('name')));
    for (const [name, text] of Object.entries(HOSTILE)) {
      assert.ok(shown.includes(written(text)), `${path} shows ${name}`);
      assert.ok(links.includes(text), `${path} leads to ${name}`);
    }
  }
  for (const [name, text] of Object.entries(HOSTILE)) {
    for (const path of [`/tasks?queue=emails&name=${q(text)}`, `/dead?queue=${q(HOSTILE_QUEUE)}&name=${q(text)}`]) {
      const main = await harmless(path);
      assert.equal(await main.locator('table').last().locator('tbody tr').count(), 1, `${path}: ${name}`);
      // A field of a form has no line breaks and no controls in it.
      assert.ok((await main.getByRole('textbox', { name: 'Name' }).getAttribute('value')) === text.replace(/\r\n?/g, '\n'), `${path}: ${name}`);
    }
    await harmless(`/archive?queue=emails&name=${q(text)}`);
  }
});

test('the links of lists lead to the very tenant', async () => {
  for (const [name, text] of Object.entries(HOSTILE)) {
    await harmless('/tasks?queue=emails&after=132');
    const link = page.locator('td a', { has: page.locator('bdi', { hasText: written(text).split('\n')[0] }) });
    const addresses = await link.evaluateAll((links) =>
      links.map((one) => new URL(one.href).searchParams.get('group')),
    );
    assert.ok(addresses.includes(text), name);
  }
});

test('search for each, and every other page', async () => {
  for (const [name, text] of Object.entries(HOSTILE)) {
    const main = await harmless(`/search?q=${q(text)}`);
    assert.equal(
      await main.locator('table >> nth=0').locator('tbody tr').count(),
      1,
      `${name}: its unique key is found`,
    );
  }
  for (const path of [
    '/',
    `/queue?queue=${q(HOSTILE_QUEUE)}`,
    '/dead',
    '/leases',
    '/sessions',
    '/schedules',
    '/archive',
    '/settings',
    `/archive?queue=${q(HOSTILE_QUEUE)}`,
    `/tenants?queue=${q(HOSTILE_QUEUE)}`,
  ]) {
    await harmless(path);
  }
});

test('a whole payload is plain text, whatever it has', async () => {
  const [{ id, payload }] = await rows('SELECT id, payload::text FROM fairq.q_emails WHERE group_key = $1', [
    HOSTILE.script,
  ]);
  const response = await page.goto(`${dashboard.base}/whole?queue=emails&id=${id}&part=payload`);
  assert.equal(response.headers()['x-content-type-options'], 'nosniff');
  assert.equal(await response.text(), payload);
  assert.notEqual(await page.title(), 'owned');
});

test('direction does not reach the neighbours: what is isolated stands in its place', async () => {
  await harmless('/tasks?queue=emails&after=132');
  const loose = await page.evaluate(
    () =>
      [...document.querySelectorAll('main *')].filter(
        (one) =>
          !one.closest('bdi, pre.foreign, select, option') &&
          [...one.childNodes].some(
            (node) => node.nodeType === 3 && /[\u0590-\u08ff\u202a-\u202e\u2066-\u2069]/.test(node.textContent),
          ),
      ).length,
  );
  assert.equal(loose, 0);
});

test('nothing was asked for elsewhere, and the browser has nothing to complain of', () => {
  assert.deepEqual(
    chromium.asked.filter((url) => !url.startsWith(dashboard.base)),
    [],
  );
  assert.deepEqual(chromium.said, []);
});
