/**
 * Each page by axe, in light and dark, on a wide screen and a narrow one; and that nothing of a table is cut off there.
 *
 * Seen to fail: the grey of badges that was (4.42:1), and a column without a name.
 */
'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const { after, before, test } = require('node:test');
const { fill, work } = require('./content.js');
const { browser, newDatabase, start, viewer } = require('./support.js');

let database, dashboard, paths;
const rows = async (sql, values) => (await database.client.query(sql, values)).rows;
const AXE = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

before(async () => {
  database = await newDatabase();
  await fill(database.client);
  const { session } = await work(database.client);
  await viewer(database.client);
  await rows("SELECT fairq.create_queue('shared', subgroups => true)");
  await rows("SELECT fairq.enqueue('shared', '1', group_key => 'g', subgroup_key => 's')");
  const [{ dead }] = await rows("SELECT min(id)::text AS dead FROM fairq.tasks('emails', 'dead')");
  const [{ leased }] = await rows("SELECT min(id)::text AS leased FROM fairq.tasks('emails', 'leased')");
  await rows(`SELECT fairq.set_progress(receipt, '0.4') FROM fairq.leases WHERE queue = 'emails' AND id = $1`, [leased]);
  dashboard = await start(database.name, 'postgres', ['--write']);
  paths = [
    '/',
    '/queue?queue=emails',
    '/names?queue=emails',
    '/tenants?queue=emails',
    '/tenants?queue=emails&view=settings',
    '/tenant?queue=emails&group=carol',
    '/subgroups?queue=shared&group=g',
    '/subgroup?queue=shared&group=g&subgroup=s',
    '/tasks?queue=emails',
    `/task?queue=emails&id=${dead}`,
    `/task?queue=emails&id=${leased}`,
    '/dead?queue=emails',
    '/leases',
    '/sessions',
    `/session?id=${session}`,
    '/schedules',
    '/schedule?name=nightly',
    '/archive?queue=emails',
    '/search?q=car',
    '/settings',
    '/act/set-tenant?queue=emails&group=ann',
    '/act/cancel-dead?queue=emails',
    `/act/edit-task?queue=emails&id=${dead}`,
    '/act/edit-schedule?schedule=nightly',
    '/queue?queue=none',
  ];
});

after(async () => {
  await dashboard?.stop();
  await database?.client.end();
});

/** What axe finds on a page. */
async function violations(page) {
  await page.evaluate(AXE);
  const { violations: found } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  return found.map(({ id, nodes }) => `${id}: ${nodes.length}, ${nodes[0].html.slice(0, 160)} ${nodes[0].failureSummary?.split('\n')[1] ?? ''}`);
}

for (const [colorScheme, width] of [
  ['light', 1280],
  ['dark', 1280],
  ['light', 390],
]) {
  test(`no violation in ${colorScheme}, ${width} px wide`, async () => {
    const chromium = await browser({ colorScheme, viewport: { width, height: 800 } });
    const { page } = chromium;
    await page.goto(dashboard.base);
    const found = { '/sign-in': await violations(page) };
    await page.getByLabel('Token').fill(dashboard.token);
    await page.getByRole('button', { name: 'Sign in' }).click();
    for (const path of paths) {
      await page.goto(`${dashboard.base}${path}${path.includes('?') ? '&' : '?'}refresh=off`);
      found[path] = await violations(page);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth);
      assert.equal(wide, false, `${path} is scrolled sideways`);
      if (width < 700) {
        const cut = await page.evaluate(() => [...document.querySelectorAll('.scroll')].filter((one) => one.scrollWidth > one.clientWidth + 1).length);
        assert.equal(cut, 0, `${path} has a table that is cut`);
      }
    }
    assert.deepEqual(Object.fromEntries(Object.entries(found).filter(([, all]) => all.length > 0)), {});
    await chromium.close();
  });
}
