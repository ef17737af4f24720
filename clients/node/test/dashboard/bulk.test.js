/**
 * Dead tasks by name and error, what is done to many at a time, how it is undone, and the line that each leaves in the
 * audit.
 *
 * Seen to fail: errorOf() that leaves numbers as they are; cancel() that keeps nothing; retryEdited() without its look at
 * the unique key; audit lines that are written after the commit (with a file that cannot be written the tasks are gone),
 * and as JSON.stringify() makes them, with line separators and C1 controls.
 */
'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { after, before, test } = require('node:test');
const { browser, csrfIn, newDatabase, post, request, runToEnd, signIn, start, tableOf } = require('./support.js');

let database, dashboard, chromium, page, press, follow, notice, audit;
const rows = async (sql, values) => (await database.client.query(sql, values)).rows;
const q = encodeURIComponent;
const go = (target) => page.goto(dashboard.base + target);
const GROUPS = 'main table >> nth=1';
const LIST = 'main table >> nth=2';
const groups = async () => (await tableOf(page, GROUPS)).map((row) => [row.Tasks, row.Name, row.Error, row.Tenants]);
const lines = () =>
  fs
    .readFileSync(audit, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));
const dead = async () =>
  (await rows(`SELECT coalesce(name, '-') || ' ' || count(*) AS one FROM fairq.dead_tasks WHERE queue = 'jobs'
    GROUP BY name ORDER BY name`)).map((row) => row.one);

/** Dead tasks: so many of a name, with an error each. */
async function die(name, error, times, group = 'ann') {
  await rows(
    `SELECT fairq.enqueue('jobs', jsonb_build_object('n', n), group_key => $2, name => $1, headers => '{"from": "test"}')
      FROM generate_series(1, $3::int) n`,
    [name, group, times],
  );
  await rows(`SELECT fairq.nack(receipt, replace($1, '%s', id::text)) FROM fairq.claim('jobs', $2, group_keys => ARRAY[$3])`, [
    error,
    times,
    group,
  ]);
}

before(async () => {
  database = await newDatabase();
  await rows("SELECT fairq.create_queue('jobs', max_attempts => 1, keep_done => '1 day')");
  await die('send', "KeyError: 'to'\n  File \"a.py\", line %s", 7);
  await die('send', "KeyError: 'to'\n  File \"a.py\", line %s", 5, 'bob');
  await die('send', 'Timeout after %s s at 0x7ffe%s', 3);
  await die('resize', 'Timeout after %s s at 0x7ffe%s', 2);
  await die(null, 'no row a0eebc99-9c0b-4ef8-bb6d-6bb9bd38%s', 2);
  audit = path.join(fs.mkdtempSync(path.join(os.tmpdir(), 'audit-')), 'audit.log');
  dashboard = await start(database.name, 'postgres', ['--write', '--audit-file', audit]);
  chromium = await browser({ javaScriptEnabled: false });
  ({ page, press, follow, notice } = chromium);
  await chromium.signIn(dashboard);
});

after(async () => {
  await chromium?.close();
  await dashboard?.stop();
  await database?.client.end();
});

test('dead tasks by name and error, whatever numbers are in it, those with most first', async () => {
  await go('/dead?queue=jobs');
  assert.deepEqual(await groups(), [
    ['× 12', 'send', "KeyError: 'to'", '2'],
    ['× 3', 'send', 'Timeout after # s at #', '1'],
    ['× 2', 'resize', 'Timeout after # s at #', '1'],
    ['× 2', '(no name)', 'no row a#eebc#-#c#b-#ef#-bb#d-#bb#bd#', '1'],
  ]);
  assert.match((await tableOf(page, GROUPS))[0]['Last died'], /^now|ago$/);
  const list = await tableOf(page, LIST);
  assert.equal(list.length, 19);
  assert.equal(list[0]['Last error'], "KeyError: 'to' …", 'the first line of an error, in a list');
  assert.match(list[0].Died, /^now|ago$/);
});

test('a group leads to its tasks, and what is done there is for these alone', async () => {
  await go('/dead?queue=jobs');
  await page.locator(GROUPS).getByRole('link', { name: '× 3' }).click();
  assert.match(await page.locator('.narrowed').innerText(), /Only: name send, error Timeout after # s at #\./);
  const list = await tableOf(page, 'main table >> nth=1');
  assert.equal(list.length, 3);
  assert.ok(list.every((row) => row.Name === 'send' && row['Last error'].startsWith('Timeout')));
  await follow('Revive all of these');
  const asked = await page.locator('main').innerText();
  assert.match(asked, /All dead tasks named send whose error begins with Timeout after # s at #.* in queue jobs become ready/);
  assert.match(asked, /They are 3 of 19 dead tasks/);
  assert.match(asked, /It cannot be undone/);
  assert.deepEqual(await dead(), ['resize 2', 'send 15', '- 2']);
  await press('Revive the dead tasks');
  assert.equal(await notice(), '3 tasks are ready again.');
  assert.equal(await page.locator('.undo').count(), 0);
  assert.deepEqual(await dead(), ['resize 2', 'send 12', '- 2']);
  assert.deepEqual(
    await rows("SELECT name, count(*)::int FROM fairq.tasks('jobs', 'ready') GROUP BY name"),
    [{ name: 'send', count: 3 }],
  );
});

test('cancel a group; undo puts its tasks back, once', async () => {
  const before = await rows(
    `SELECT payload, group_key, name, headers, max_attempts FROM fairq.tasks('jobs', 'dead', 'bob') t ORDER BY t.id`,
  );
  await go('/dead?queue=jobs&group=bob');
  await follow('Cancel all of these');
  assert.match(await page.locator('main').innerText(), /of tenant bob in queue jobs are removed.*For ten minutes they can be put back, as new tasks/s);
  await press('Cancel the dead tasks');
  assert.equal(await notice(), '5 tasks are cancelled.');
  assert.deepEqual(await dead(), ['resize 2', 'send 7', '- 2']);
  await go('/queue?queue=jobs');
  assert.match(await page.locator('.undo').innerText(), /Done last: 5 tasks are cancelled\./);
  const undo = await page.locator('.undo input[name=undo]').getAttribute('value');
  await press('Undo');
  assert.equal(await notice(), '5 tasks are enqueued again. Ids are new.');
  assert.deepEqual(
    await rows(`SELECT payload, group_key, name, headers, max_attempts FROM fairq.tasks('jobs', 'ready', 'bob') t ORDER BY t.id`),
    before,
  );
  assert.equal(await page.locator('.undo').count(), 0);
  const { cookie } = await signIn(dashboard);
  const { text } = await request(dashboard.base, '/act/pause-queue?queue=jobs', { headers: { Cookie: cookie } });
  const again = await post(dashboard.base, '/undo', { csrf: csrfIn(text), undo }, { Cookie: cookie });
  assert.equal(again.status, 409);
  assert.match(again.text, /nothing to undo/);
});

test('tasks that are chosen one by one are revived or cancelled, and no others', async () => {
  await go('/dead?queue=jobs&name=send');
  const list = await tableOf(page, LIST);
  for (const { Id: id } of list.slice(0, 2)) {
    await page.getByLabel(`Choose task ${id}`).check();
  }
  await press('Revive the chosen');
  assert.match(await page.locator('main').innerText(), /2 tasks are chosen\./);
  await press('Revive the chosen tasks');
  assert.equal(await notice(), '2 tasks are ready again.');
  assert.deepEqual(await dead(), ['resize 2', 'send 5', '- 2']);
  await go('/dead?queue=jobs&name=resize');
  await press('Cancel the chosen');
  assert.match(await page.locator('main').innerText(), /No task was chosen/);
  await go('/tasks?queue=jobs&state=ready');
  const ready = (await tableOf(page)).map((row) => row.Id);
  await page.getByLabel(`Choose task ${ready[0]}`, { exact: true }).check();
  await press('Cancel the chosen');
  await press('Cancel the chosen tasks');
  assert.equal(await notice(), '1 task is cancelled.');
  assert.deepEqual(
    (await rows("SELECT id::text FROM fairq.tasks('jobs', 'ready') t ORDER BY t.id")).map((row) => row.id),
    ready.slice(1),
  );
  for (const wrong of ['id=1&id=x', 'id=0', `id=${'1'.repeat(30)}`]) {
    assert.equal((await go(`/act/cancel-tasks?queue=jobs&${wrong}`)).status(), 400, wrong);
  }
});

test('a dead task is edited and retried: a new one in its place', async () => {
  const [{ id }] = await rows("SELECT id::text FROM fairq.tasks('jobs', 'dead', name => 'resize') t ORDER BY t.id LIMIT 1");
  await go(`/task?queue=jobs&id=${id}`);
  await follow('Edit and retry');
  assert.equal(await page.getByLabel('Payload').inputValue(), '{"n": 1}');
  await page.getByLabel('Payload').fill('{"n": 1,');
  await press('Check');
  assert.match(await page.locator('main').innerText(), /Payload is no JSON/);
  await go(`/act/edit-task?queue=jobs&id=${id}`);
  await page.getByLabel('Payload').fill('{"n": 12345678901234567890,\n "tö": "<b>"}');
  await page.getByRole('textbox', { name: 'Name' }).fill('shrink');
  await press('Check');
  assert.equal((await rows("SELECT FROM fairq.get_task('jobs', $1)", [id])).length, 1, 'nothing is done before it is confirmed');
  await press('Retry with these');
  const next = new URL(page.url()).searchParams.get('id');
  assert.equal(await notice(), `Task ${next} is enqueued in place of task ${id}.`);
  assert.deepEqual(
    await rows("SELECT state, name, group_key, headers, payload::text FROM fairq.get_task('jobs', $1)", [next]),
    [{ state: 'ready', name: 'shrink', group_key: 'ann', headers: { from: 'test' }, payload: '{"n": 12345678901234567890, "tö": "<b>"}' }],
  );
  assert.equal((await rows("SELECT FROM fairq.get_task('jobs', $1)", [id])).length, 0);
  assert.equal((await go(`/act/edit-task?queue=jobs&id=${next}`)).status(), 409, 'only what is dead is edited');
});

test('an edited task does not get lost behind another one of its unique key', async () => {
  await rows("SELECT fairq.enqueue('jobs', '1', group_key => 'key', unique_key => 'k')");
  await rows("SELECT fairq.nack(receipt, 'no') FROM fairq.claim('jobs', group_keys => '{key}')");
  const [{ id }] = await rows("SELECT id::text FROM fairq.tasks('jobs', 'dead', 'key')");
  await rows("SELECT fairq.enqueue('jobs', '2', group_key => 'key', unique_key => 'k')");
  await go(`/act/edit-task?queue=jobs&id=${id}`);
  await page.getByLabel('Payload').fill('3');
  await press('Check');
  await press('Retry with these');
  assert.match(await page.locator('main').innerText(), /Another task of the unique key/);
  assert.deepEqual(
    (await rows("SELECT payload::text, state FROM fairq.tasks('jobs', NULL, 'key') t ORDER BY t.id")).map(Object.values),
    [['1', 'dead'], ['2', 'ready']],
  );
});

test('cancelling one task is undone, a pause, and the settings of a tenant', async () => {
  const [{ id }] = await rows("SELECT id::text FROM fairq.tasks('jobs', 'ready', 'bob') t ORDER BY t.id LIMIT 1");
  await go(`/act/cancel?queue=jobs&id=${id}`);
  await press('Cancel the task');
  assert.equal(await notice(), `Task ${id} is cancelled.`);
  await press('Undo');
  assert.equal((await rows("SELECT FROM fairq.tasks('jobs', 'ready', 'bob')")).length, 5);
  await go('/act/pause-queue?queue=jobs');
  await press('Pause the queue');
  await press('Undo');
  assert.equal((await rows("SELECT paused FROM fairq.queues WHERE queue = 'jobs'"))[0].paused, false);
  const own = async () => (await rows("SELECT weight, max_leased, rate, paused FROM fairq.group_settings WHERE queue = 'jobs'")).map(Object.values);
  await rows("SELECT fairq.set_group('jobs', 'ann', weight => 3, rate => 5), fairq.pause_group('jobs', 'ann')");
  const before = await own();
  await go('/act/reset-tenant?queue=jobs&group=ann');
  await press('Back to defaults');
  assert.deepEqual(await own(), []);
  await press('Undo');
  assert.deepEqual(await own(), before);
  await go('/act/set-tenant?queue=jobs&group=new');
  await page.getByLabel('Weight').fill('2');
  await press('Check');
  await press('Set weight and limits');
  assert.equal((await own()).length, 2);
  await press('Undo');
  assert.deepEqual(await own(), before);
  await go('/act/set-tenant?queue=jobs&group=new');
  await press('Check');
  await press('Set weight and limits');
  assert.match(await page.locator('main').innerText(), /Nothing was given/);
});

test('who did what, to what, and what came of it: a line each', async () => {
  const known = lines();
  assert.ok(known.every((one) => one.user === 'token' && one.address === '127.0.0.1' && !Number.isNaN(Date.parse(one.audit))));
  const of = (action) => known.filter((one) => one.action === action);
  assert.deepEqual(
    of('revive-dead').map(({ subject, outcome }) => [subject, outcome]),
    [[{ queue: 'jobs', narrow: { name: 'send', error: 'Timeout after # s at #' } }, '3 tasks are ready again.']],
  );
  assert.deepEqual(
    of('cancel-dead').map(({ subject, outcome }) => [subject, outcome]),
    [[{ queue: 'jobs', narrow: { group: 'bob' } }, '5 tasks are cancelled.']],
  );
  assert.deepEqual(of('undo')[0].subject, { of: '5 tasks are cancelled.' });
  const [edited, refused] = of('edit-task');
  assert.deepEqual(edited.subject.given, { name: 'shrink', payload: '41 characters' });
  assert.equal(refused.outcome, undefined);
  assert.match(refused.error, /Another task of the unique key/);
  assert.equal(of('revive-tasks')[0].subject.ids.length, 2);
  assert.equal((fs.statSync(audit).mode & 0o777).toString(8), '600');
});

test('without its line nothing is done; a file that cannot be written is said at the start', async () => {
  const other = await start(database.name, 'postgres', ['--write', '--audit-file', '/dev/full']);
  const { cookie } = await signIn(other);
  const { text } = await request(other.base, '/act/cancel-dead?queue=jobs', { headers: { Cookie: cookie } });
  const count = async () => (await rows("SELECT FROM fairq.tasks('jobs', 'dead')")).length;
  const there = await count();
  const answer = await post(other.base, '/act/cancel-dead?queue=jobs', { csrf: csrfIn(text), confirmed: 'yes' }, { Cookie: cookie });
  assert.ok(answer.status >= 400, String(answer.status));
  assert.match(answer.text, /The line of the audit cannot be written: ENOSPC/);
  assert.ok(there > 0);
  assert.equal(await count(), there);
  await other.stop();
  const refused = runToEnd(['--write', '--audit-file', '/']);
  assert.equal(refused.status, 2);
  assert.match(refused.stderr, /--audit-file cannot be written/);
});

test('without a file the lines go to the standard error', async () => {
  const other = await start(database.name, 'postgres', ['--write']);
  const { cookie } = await signIn(other);
  const target = '/act/pause-tenant?queue=jobs&group=zoe';
  const { text } = await request(other.base, target, { headers: { Cookie: cookie } });
  await post(other.base, target, { csrf: csrfIn(text), confirmed: 'yes' }, { Cookie: cookie });
  await other.stop();
  const line = JSON.parse(other.errors().split('\n').find((one) => one.includes('"audit"')));
  assert.deepEqual([line.action, line.subject, line.outcome], ['pause-tenant', { queue: 'jobs', group: 'zoe' }, 'Tenant zoe is paused.']);
});

test('what tenants wrote does not break the line, nor speak to a terminal', async () => {
  const group = 'zoe\n{"audit":"x"}\u001b[2J\u009b2J\u0085\u2028\u2029\u202e';
  await go(`/act/pause-tenant?queue=jobs&group=${q(group)}`);
  await press('Pause the tenant');
  const text = fs.readFileSync(audit, 'utf8');
  assert.doesNotMatch(text, /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u2028-\u202e]/);
  assert.deepEqual(lines().at(-1).subject, { queue: 'jobs', group });
});

test('more dead than a page counts are counted page by page, each once', async () => {
  const { deadGroups } = require('../../dist/dashboard/data/dead.js');
  const { Database } = require('../../dist/dashboard/database.js');
  await rows("SELECT fairq.create_queue('many', max_attempts => 1)");
  await rows("SELECT fairq.enqueue('many', '1', name => 'n' || n % 3) FROM generate_series(1, 6000) n");
  await rows("SELECT count(*) FROM fairq.nack_many(ARRAY(SELECT receipt FROM fairq.claim('many', 6000)), '{no}')");
  const own = new Database({ host: process.env.PGHOST, user: 'postgres', database: database.name });
  const all = await own.read(async (reader) => {
    const seen = {};
    let from;
    do {
      const part = await deadGroups(reader, { queue: 'many' }, {}, { after: from, total: 6000 });
      for (const one of part.groups) {
        seen[one.name] = (seen[one.name] ?? 0) + one.tasks;
      }
      from = part.next;
    } while (from !== undefined);
    return seen;
  });
  await own.close();
  assert.deepEqual(all, { n0: 2000, n1: 2000, n2: 2000 });
});

test('an action that takes too long is not done, and says how it takes less', async () => {
  const { Database } = require('../../dist/dashboard/database.js');
  const own = new Database({ host: process.env.PGHOST, user: 'postgres', database: database.name });
  const slow = own.write(async (writer) => {
    await writer.rows("SET LOCAL statement_timeout = '10 ms'");
    await writer.rows("SELECT fairq.pause('jobs'), pg_sleep(600)");
  });
  await assert.rejects(slow, { status: 503, message: /longer than an action may take, which is 60 s, so nothing was done/, hint: /fewer tasks at a time/ });
  await own.close();
});

test('more than are kept are cancelled, and that cannot be undone', async () => {
  const left = async () => (await rows("SELECT name, count(*)::int FROM fairq.tasks('many') GROUP BY 1 ORDER BY 1")).map(Object.values);
  await go('/act/cancel-dead?queue=many&name=n1');
  await press('Cancel the dead tasks');
  assert.equal(await notice(), '2,000 tasks are cancelled. They are too many to be put back.');
  assert.equal(await page.locator('.undo').count(), 0);
  assert.deepEqual(await left(), [['n0', 2000], ['n2', 2000]]);
  await go('/act/cancel-dead?queue=many&name=n1');
  await press('Cancel the dead tasks');
  assert.equal(await notice(), '0 tasks are cancelled.');
  assert.equal(await page.locator('.undo').count(), 0);
  assert.deepEqual(await left(), [['n0', 2000], ['n2', 2000]]);
});
