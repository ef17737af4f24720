/**
 * Queues whose groups are divided: subgroups beside what the database says, their actions, texts that are written to do
 * harm; and that other queues look as if there were none.
 *
 * Seen to fail: CHOSEN without its condition on subgroups, in tasks.ts
 * and in archive.ts; `cut` that is always false; subgroups() that leaves out OFFSET, or its condition on the group;
 * set-subgroup with weight and limits in another order; revive-subgroup without its condition; settingsOfTenant() for the
 * form of a subgroup; pages that do not ask whether groups are divided.
 */
'use strict';

const assert = require('node:assert/strict');
const { after, before, test } = require('node:test');
const { HOSTILE, LONG_GROUPS } = require('./content.js');
const { browser, factsOf, newDatabase, start, tableOf, viewer } = require('./support.js');

let database, dashboard, reading, chromium, page, press, follow, notice;
const rows = async (sql, values) => (await database.client.query(sql, values)).rows;
const q = encodeURIComponent;
const go = async (path, base = dashboard.base) => {
  const response = await page.goto(base + path);
  assert.equal(response.status(), 200, path);
};
const written = (text) =>
  text.replace(
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
const ITS_SUBGROUPS = 'h2:has-text("Its subgroups") + .scroll table';

before(async () => {
  database = await newDatabase();
  await rows("SELECT fairq.create_queue('shared', subgroups => true, keep_done => '1 day', max_attempts => 1)");
  await rows("SELECT fairq.create_queue('plain', keep_done => '1 day', max_attempts => 1)");
  const enqueue = (group, subgroup, times = 1, queue = 'shared') =>
    rows(
      "SELECT fairq.enqueue($4, jsonb_build_object('n', n), group_key => $1, subgroup_key => $2, name => 'send') FROM generate_series(1, $3::int) n",
      [group, subgroup, times, queue],
    );
  // done and dead, each of two subgroups and of none
  for (const [subgroup, times] of [['ann', 3], ['bob', 2], [null, 1]]) {
    for (const queue of ['shared', 'plain']) {
      for (const end of ["fairq.ack(receipt, '1')", "fairq.nack(receipt, 'no')"]) {
        await enqueue('acme', queue === 'plain' ? null : subgroup, times, queue);
        await rows(`SELECT ${end} FROM fairq.claim($1, $2)`, [queue, times]);
      }
    }
  }
  // what waits, and is in flight
  await rows(`SELECT fairq.set_subgroup('shared', 'acme', 'bob', weight => 3),
    fairq.set_subgroup('shared', 'acme', 'carol', max_leased => 1, rate => 5, burst => 10)`);
  for (const [subgroup, times] of [['ann', 30], ['bob', 20], ['carol', 8], [null, 2]]) {
    await enqueue('acme', subgroup, times);
  }
  await enqueue('zeta', 'ann', 3);
  await rows("SELECT FROM fairq.claim('shared', 12, lease => '1 h')");
  await rows(`SELECT fairq.enqueue('shared', '1', group_key => 'crowd', subgroup_key => 'user ' || to_char(n, 'FM000'))
    FROM generate_series(1, 120) n`);
  for (const text of Object.values(HOSTILE)) {
    await enqueue('hostile', text);
    await enqueue(text, text);
  }
  for (const key of LONG_GROUPS) {
    await enqueue('long', key);
    await enqueue(key, 'ann');
  }
  await enqueue('acme', null, 3, 'plain');
  await viewer(database.client);
  dashboard = await start(database.name, 'postgres', ['--write']);
  reading = await start(database.name, 'viewer');
  chromium = await browser();
  ({ page, press, follow, notice } = chromium);
  await chromium.signIn(dashboard);
  chromium.said.length = 0; // what it has to say of a form with a password
});

after(async () => {
  await chromium?.close();
  await dashboard?.stop();
  await reading?.stop();
  await database?.client.end();
});

test('a queue says that its groups are divided, and how many subgroups of each have work', async () => {
  await rows("SELECT fairq.set_subgroup_defaults('shared', weight => 2, max_leased => 50)");
  await go('/queue?queue=shared');
  const facts = await factsOf(page);
  assert.equal(facts['tenants are divided into subgroups'], 'yes');
  assert.equal(facts['weight of a subgroup'], '2');
  assert.equal(facts['in flight of a subgroup at most'], '50');
  assert.equal(facts['claims a second of a subgroup'], 'none');
  await rows("SELECT fairq.set_subgroup_defaults('shared', weight => 1, max_leased => 0)");
  for (const path of ['/queue?queue=shared', '/tenants?queue=shared']) {
    await go(path);
    const list = await tableOf(page);
    assert.deepEqual(list.slice(0, 2).map((row) => [row.Tenant, row.Subgroups]), [['crowd', '120'], ['acme', '4']], path);
    await page.locator('tbody tr', { hasText: 'acme' }).getByRole('link', { name: '4', exact: true }).click();
    assert.equal(await page.locator('h1').innerText(), 'Subgroups of acme');
  }
});

test('a tenant: its subgroups, with what waits, what is in flight, share and due, limits', async () => {
  await go('/tenant?queue=shared&group=acme');
  const shown = await tableOf(page, ITS_SUBGROUPS);
  const there = await rows(`SELECT * FROM fairq.subgroup_stats WHERE queue = 'shared' AND group_key = 'acme'
    ORDER BY overflow DESC, subgroup_key COLLATE "C"`);
  assert.deepEqual(
    shown.map((row) => [row.Subgroup, row.Waiting, row['In flight'], row.Weight, row.Served]),
    there.map((row) => [row.subgroup_key || '(no subgroup)', row.overflow, row.leased, String(row.weight), row.served]),
  );
  assert.deepEqual(shown.map((row) => row.Subgroup), ['ann', 'bob', 'carol', '(no subgroup)']);
  there.forEach((row, place) => {
    assert.ok(Math.abs(Number.parseFloat(shown[place].Share) / 100 - row.share) < 0.006, `share of ${row.subgroup_key}`);
    assert.ok(Math.abs(Number.parseFloat(shown[place].Due) / 100 - row.expected_share) < 0.006, `due of ${row.subgroup_key}`);
  });
  assert.equal(shown[1].Due, '50 %');
  assert.match(shown[2].Limits, /1 of 1 in flight/);
  assert.match(shown[2].Limits, /5\/s/);
  await go('/tenant?queue=shared&group=nobody');
  assert.match(await page.locator('main').innerText(), /Its subgroups\s+None has work\./);
});

test('a table of subgroups is one for those who do not see it, too', async () => {
  for (const path of ['/tenant?queue=shared&group=acme', '/subgroups?queue=shared&group=acme', '/subgroup?queue=shared&group=acme&subgroup=ann']) {
    await go(path);
    const table = page.locator('table', { has: page.locator('th', { hasText: 'Waiting' }) });
    assert.equal(await table.locator('caption', { hasText: 'Subgroups with work' }).count(), path.startsWith('/subgroup?') ? 0 : 1, path);
    assert.equal(await table.locator('th[scope=col]').count(), 9, path);
    assert.deepEqual(await table.locator('th').evaluateAll((all) => all.filter((one) => one.textContent.trim() === '').length), 0, path);
    assert.equal(await table.locator('svg:not([role=img][aria-label])').count(), 0, path);
  }
  await go('/subgroups?queue=shared&group=acme&view=settings');
  assert.deepEqual(await page.locator('th').evaluateAll((all) => all.filter((one) => one.textContent.trim() === '').length), 0);
  await page.getByRole('textbox', { name: 'Key has' }).fill('x');
  assert.equal(await page.locator('.tabs [aria-current=true]').innerText(), 'With settings of their own');
});

test('all subgroups of a tenant: each once, by pages; a search; those with settings', async () => {
  const there = await rows(`SELECT subgroup_key FROM fairq.subgroup_stats WHERE group_key = 'crowd' ORDER BY subgroup_key COLLATE "C"`);
  const seen = [];
  await go('/tenant?queue=shared&group=crowd');
  assert.equal((await tableOf(page, ITS_SUBGROUPS)).length, 10);
  await follow('All its subgroups');
  for (;;) {
    seen.push(...(await tableOf(page)).map((row) => row.Subgroup));
    assert.ok(seen.length <= there.length);
    const next = page.getByRole('link', { name: 'Next page' });
    if ((await next.count()) === 0) {
      break;
    }
    await next.click();
  }
  assert.deepEqual(seen, there.map((row) => row.subgroup_key));
  await page.getByRole('textbox', { name: 'Key has' }).fill('USER 01');
  await press('Show');
  assert.equal((await tableOf(page)).length, 10);
  await go('/subgroups?queue=shared&group=acme');
  await follow('With settings of their own');
  const given = await tableOf(page);
  assert.deepEqual(given.map((row) => [row.Subgroup, row.Weight, row['In flight at most'], row.Burst]), [
    ['bob', '3', 'default', 'default'],
    ['carol', 'default', '1', '10'],
  ]);
});

test('one subgroup: its figures, what it was given, its tasks and no others', async () => {
  await go('/subgroup?queue=shared&group=acme&subgroup=carol');
  assert.deepEqual((await tableOf(page)).map((row) => row.Subgroup), ['carol']);
  assert.equal((await factsOf(page))['claims a second'], '5');
  for (const [subgroup, key] of [['bob', 'bob'], ['', null]]) {
    await go(`/subgroup?queue=shared&group=acme&subgroup=${subgroup}`);
    const tasks = await rows(`SELECT t.id::text FROM fairq.tasks('shared', group_key => 'acme') t
      WHERE t.subgroup_key IS NOT DISTINCT FROM $1 ORDER BY t.id`, [key]);
    const list = await tableOf(page, 'h2:has-text("Its tasks") + .scroll table');
    if (tasks.length > 10) {
      await follow('All its tasks');
      list.push(...(await tableOf(page)));
    }
    assert.deepEqual(list.map((row) => row.Id), tasks.map((row) => row.id), subgroup);
    await go(`/subgroup?queue=shared&group=acme&subgroup=${subgroup}`);
    await follow('Its dead tasks');
    const dead = await tableOf(page, 'main table >> nth=2');
    assert.deepEqual([dead.length, [...new Set(dead.map((row) => row.Subgroup))]], key === null ? [1, [undefined]] : [2, ['bob']]);
    await go(`/subgroup?queue=shared&group=acme&subgroup=${subgroup}`);
    await follow('Its done tasks');
    const done = await tableOf(page);
    assert.deepEqual([done.length, [...new Set(done.map((row) => row.Subgroup))]], key === null ? [1, [undefined]] : [2, ['bob']]);
  }
});

test('lists of tasks, of the dead and of the done show the subgroup; so do their pages', async () => {
  for (const [path, nth, sql] of [
    ['/tasks?queue=shared&group=acme&state=dead', 0, "SELECT id::text, subgroup_key FROM fairq.dead_tasks d WHERE queue = 'shared' ORDER BY d.id"],
    ['/dead?queue=shared', 2, "SELECT id::text, subgroup_key FROM fairq.dead_tasks d WHERE queue = 'shared' ORDER BY d.id"],
    ['/archive?queue=shared', 0, "SELECT id::text, subgroup_key FROM fairq.done_tasks d WHERE queue = 'shared' ORDER BY done_at DESC, d.id DESC"],
  ]) {
    const there = await rows(sql);
    await go(path);
    const list = await tableOf(page, `main table >> nth=${nth}`);
    assert.deepEqual(list.map((row) => [row.Id, row.Subgroup]), there.map((row) => [row.id, row.subgroup_key ?? '']), path);
    assert.equal(there.length, 6);
    for (const { id, subgroup_key: key } of there) {
      await go(`/task?queue=shared&id=${id}`);
      const of = await page.locator('main > p').first().innerText();
      assert.ok(of.startsWith(key === null ? 'of tenant acme in queue shared' : `of subgroup ${key} of tenant acme in queue shared`), of);
    }
  }
  await go('/tasks?queue=shared');
  await page.getByRole('textbox', { name: 'Tenant' }).fill('acme');
  await page.getByRole('textbox', { name: 'Subgroup' }).fill('bob');
  await press('Show');
  const bobs = await tableOf(page);
  assert.ok(bobs.length > 10 && bobs.every((row) => row.Tenant === 'acme' && row.Subgroup === 'bob'));
  await page.getByLabel('State').selectOption('dead');
  await press('Show');
  assert.equal((await tableOf(page)).length, 2);
  await page.locator('td').getByRole('link', { name: 'bob' }).first().click();
  assert.equal(await page.locator('h1').innerText(), 'Subgroup bob');
});

test('keys that are longer than what the engine shows', async () => {
  await go('/tenant?queue=shared&group=long');
  const list = await tableOf(page, ITS_SUBGROUPS);
  assert.deepEqual(list.map((row) => row.Subgroup).sort(), [...Array(2).fill(`${'g'.repeat(48)}...`), ...Array(2).fill(`g${'🦊'.repeat(11)}...`)].sort());
  assert.equal(await page.locator(ITS_SUBGROUPS).locator('a').count(), 0, 'the beginning of a key leads nowhere');
  for (const key of LONG_GROUPS) {
    await go(`/subgroup?queue=shared&group=long&subgroup=${q(key)}`);
    assert.deepEqual((await tableOf(page)).map((row) => row.Waiting), ['1'], 'without those that begin alike');
    assert.equal((await tableOf(page, 'h2:has-text("Its tasks") + .scroll table')).length, 1);
    await go(`/subgroup?queue=shared&group=${q(key)}&subgroup=ann`);
    assert.deepEqual((await tableOf(page)).map((row) => [row.Subgroup, row.Waiting]), [['ann', '1']]);
  }
  await go(`/tenants?queue=shared&find=${q('g'.repeat(48))}`);
  assert.deepEqual((await tableOf(page)).map((row) => row.Subgroups), ['1', '1']);
});

test('pause and resume a subgroup, also one whose key has line breaks and controls', async () => {
  for (const [group, subgroup] of [['acme', 'ann'], ['acme', ''], ...Object.values(HOSTILE).map((text) => [text, text])]) {
    const paused = async () =>
      (await rows("SELECT paused FROM fairq.subgroup_settings WHERE queue = 'shared' AND group_key = $1 AND subgroup_key = $2", [group, subgroup]))[0]
        ?.paused ?? false;
    await go(`/subgroup?queue=shared&group=${q(group)}&subgroup=${q(subgroup)}`);
    await follow('Pause');
    assert.equal(await paused(), false, 'nothing is done before it is confirmed');
    await press('Pause the subgroup');
    assert.equal(await paused(), true, JSON.stringify(subgroup));
    assert.match((await tableOf(page))[0].Limits, /paused/);
    await follow('Resume');
    await press('Resume the subgroup');
    assert.equal(await paused(), false, JSON.stringify(subgroup));
  }
  const others = await rows("SELECT FROM fairq.group_settings UNION ALL SELECT FROM fairq.subgroup_settings WHERE paused");
  assert.equal(others.length, 0);
});

test('weight and limits of a subgroup: given, shown again, then set; and taken away', async () => {
  const own = async () =>
    (await rows("SELECT weight, max_leased, rate, burst FROM fairq.subgroup_settings WHERE group_key = 'acme' AND subgroup_key = 'ann'"))[0];
  await rows("SELECT fairq.reset_subgroup('shared', 'acme', 'ann'), fairq.set_group('shared', 'acme', weight => 7)");
  await go('/subgroup?queue=shared&group=acme&subgroup=ann');
  await follow('Weight and limits');
  assert.equal(await page.getByLabel('Weight').inputValue(), '', 'not that of the tenant');
  await page.getByLabel('Weight').fill('2.5');
  await page.getByLabel('In flight at most').fill('4');
  await page.getByLabel('Claims a second').fill('6');
  await page.getByLabel('Burst').fill('8');
  await press('Check');
  assert.equal(await own(), undefined, 'nothing is done before it is confirmed');
  await press('Set weight and limits');
  assert.deepEqual(await own(), { weight: 2.5, max_leased: 4, rate: 6, burst: 8 });
  assert.equal(await notice(), 'Weight and limits of subgroup ann of tenant acme are set.');
  await follow('Weight and limits');
  assert.equal(await page.getByLabel('Weight').inputValue(), '2.5');
  await go('/subgroup?queue=shared&group=acme&subgroup=ann');
  await follow('Back to defaults');
  await press('Back to defaults');
  assert.equal(await own(), undefined);
  assert.equal((await rows("SELECT weight FROM fairq.group_settings WHERE group_key = 'acme'"))[0].weight, 7);
});

test('revive the dead of a subgroup, and no others', async () => {
  const dead = async () => (await rows("SELECT subgroup_key FROM fairq.dead_tasks WHERE queue = 'shared' ORDER BY id")).map((row) => row.subgroup_key);
  assert.deepEqual(await dead(), ['ann', 'ann', 'ann', 'bob', 'bob', null]);
  const buttons = () => page.locator('main a.button').allInnerTexts();
  await go('/dead?queue=shared&group=acme&subgroup=bob');
  assert.deepEqual(await buttons(), ['Revive all of these', 'Cancel all of these']);
  await follow('Revive all of these');
  await press('Revive the dead tasks');
  assert.equal(await notice(), '2 tasks are ready again.');
  assert.deepEqual(await dead(), ['ann', 'ann', 'ann', null]);
  await go('/subgroup?queue=shared&group=acme&subgroup=');
  await follow('Revive its dead tasks');
  await press('Revive the dead tasks');
  assert.deepEqual(await dead(), ['ann', 'ann', 'ann']);
});

test('what tenants write in keys of subgroups is text', async () => {
  const quiet = async (path) => {
    await go(path);
    assert.doesNotMatch(await page.title(), /^owned/, path);
    assert.equal(await page.locator('script:not([src="/live.js"]), img, iframe, object, style').count(), 0, path);
    assert.equal(await page.locator('h1').count(), 1, path);
  };
  await quiet('/subgroups?queue=shared&group=hostile');
  const links = await page.locator('td a').evaluateAll((all) => all.map((one) => new URL(one.href).searchParams.get('subgroup')));
  const shown = await page.locator('td a bdi').allTextContents();
  for (const text of Object.values(HOSTILE)) {
    assert.ok(links.includes(text) && shown.includes(written(text)), text);
    await quiet(`/subgroup?queue=shared&group=${q(text)}&subgroup=${q(text)}`);
    assert.equal(await page.locator('h1').textContent(), written(`Subgroup ${text}`));
    assert.equal((await tableOf(page)).length, 1);
    for (const path of ['/tasks', '/dead', '/archive', '/act/pause-subgroup', '/act/set-subgroup']) {
      await quiet(`${path}?queue=shared&group=${q(text)}&subgroup=${q(text)}`);
    }
  }
  assert.deepEqual(chromium.said, []);
});

test('settings in use count what subgroups have', async () => {
  await go('/settings');
  const shown = Object.fromEntries((await tableOf(page)).map((row) => [row.Setting, Number(row['Used here'])]));
  const [use] = await rows(`SELECT (SELECT count(*) FROM fairq.group_stats)::int + (SELECT count(*) FROM fairq.subgroup_stats)::int AS groups,
    (SELECT count(*) FROM fairq.group_settings)::int + (SELECT count(*) FROM fairq.subgroup_settings)::int AS limits`);
  assert.deepEqual([shown['pgfairq.max_groups'], shown['pgfairq.max_limits']], [use.groups, use.limits]);
});

test('queues whose groups are not divided show no sign of it', async () => {
  for (const base of [dashboard.base, reading.base]) {
    for (const path of ['/queue?queue=plain', '/tenants?queue=plain', '/tenant?queue=plain&group=acme', '/tasks?queue=plain',
      '/dead?queue=plain', '/archive?queue=plain', '/tenants?queue=plain&view=settings', '/dead?queue=plain&group=acme']) {
      await go(path, base);
      const shown = await page.locator('main > :not(.undo)').evaluateAll((all) => all.map((one) => one.innerHTML).join(' '));
      assert.doesNotMatch(shown, /subgroup/i, path);
    }
    for (const path of ['/subgroups?queue=plain&group=acme', '/subgroup?queue=plain&group=acme&subgroup=ann']) {
      await go(path, base);
      assert.match(await page.locator('main').innerText(), /Groups of this queue are not divided/);
      assert.equal(await page.locator('main a.button').count(), 0);
    }
  }
});

test('where the dashboard only reads, a role with pg_monitor and SELECT sees subgroups, and no buttons', async () => {
  for (const path of ['/tenant?queue=shared&group=acme', '/subgroup?queue=shared&group=acme&subgroup=ann', '/subgroups?queue=shared&group=acme']) {
    await go(path, reading.base);
    assert.ok((await page.locator('table').first().locator('tbody tr').count()) > 0, path);
    assert.equal(await page.locator('main a.button').count(), 0, path);
  }
  for (const path of ['/subgroup?queue=shared&group=acme', '/subgroups?queue=shared', '/subgroups?queue=shared&group=acme&from=x']) {
    assert.equal((await page.goto(reading.base + path)).status(), 400, path);
  }
});
