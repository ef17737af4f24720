/**
 * Behind a proxy: a base path, visitors whom its headers name, with roles; what programs ask for: JSON of every page, and
 * /healthz.
 *
 * Seen to fail: withoutBase() that gives back its argument; mayAct() without its look at the role; header() that takes the
 * first of two; a page that puts nothing into its data; a token in Authorization that is not compared; /sign-out of whom
 * a proxy names, which ended the visit that a cookie named.
 */
'use strict';

const assert = require('node:assert/strict');
const { after, before, test } = require('node:test');
const { fill, HOSTILE, work } = require('./content.js');
const { browser, csrfIn, newDatabase, pgCtl, post, request, runToEnd, signIn, start, until, viewer } = require('./support.js');

let database, dashboard, reading, chromium, page;
const rows = async (sql, values) => (await database.client.query(sql, values)).rows;
const ARGS = ['--user-header', 'X-Forwarded-User', '--role-header', 'X-Forwarded-Groups', '--operator-role', 'ops'];
const as = (user, groups, more = {}) => ({ 'X-Forwarded-User': user, 'X-Forwarded-Groups': groups, ...more });
const paused = async () => (await rows("SELECT paused FROM fairq.queues WHERE queue = 'emails'"))[0].paused;

before(async () => {
  database = await newDatabase();
  await fill(database.client);
  await work(database.client);
  await viewer(database.client);
  dashboard = await start(database.name, 'postgres', ['--write', '--base-path', '/ops/queues/', ...ARGS]);
  reading = await start(database.name, 'viewer');
  chromium = await browser({ extraHTTPHeaders: as('ann@example.com', 'staff, ops') });
  page = chromium.page;
});

after(async () => {
  await chromium?.close();
  await dashboard?.stop();
  await reading?.stop();
  await database?.client.end();
});

/** The addresses that a page leads to, in this dashboard. */
const addressesOf = (text) =>
  [...text.matchAll(/ (?:href|action|formaction|src)="([^"#][^"]*)"/g)].map((one) =>
    one[1].replace(/&(amp|#39|#96|lt|gt|quot);/g, (_, name) => ({ amp: '&', '#39': "'", '#96': '`', lt: '<', gt: '>', quot: '"' })[name]),
  );

test('a base path is before every address, whether the proxy leaves it there or not', async () => {
  assert.match(dashboard.base, /\/ops\/queues$/);
  const seen = new Set();
  const wanted = ['/'];
  while (wanted.length > 0) {
    const target = wanted.shift();
    for (const whole of [target, `/ops/queues${target}`]) {
      const { status, text } = await request(dashboard.base, whole, { headers: as('ann', 'ops') });
      assert.equal(status, 200, whole);
      for (const one of addressesOf(text)) {
        assert.ok(one.startsWith('/ops/queues/'), `${whole} leads to ${one}`);
        const next = one.slice('/ops/queues'.length);
        const kind = next.replace(/\?.*/, '');
        if (!seen.has(kind) && !/^\/(undo|sign-out)$/.test(kind) && !kind.endsWith('-tasks')) {
          seen.add(kind);
          wanted.push(next);
        }
      }
    }
  }
  assert.ok(seen.size > 25, [...seen].join(' '));
  for (const target of ['/ops/queuesx', '/ops', '/queues', '/ops/queues/ops/queues/dead']) {
    assert.equal((await request(dashboard.base, target, { headers: as('ann', 'ops') })).status, 404, target);
  }
  for (const wrong of ['queues', '/a b', '/a/../b"', 'http://x/', '/..', '/a/../b', '/queue', '/dead/', '/whole', '/act']) {
    const refused = runToEnd(['--base-path', wrong], database.name);
    assert.equal(refused.status, 2, wrong);
    assert.match(refused.stderr, /--base-path is/);
  }
});

test('an operator by header acts, in a browser, and the audit has the name', async () => {
  await page.goto(`${dashboard.base}/queue?queue=emails`);
  assert.match(await page.locator('header').innerText(), /can write[^]*ann@example\.com/);
  assert.equal(await page.getByRole('button', { name: 'Sign out' }).count(), 0);
  await page.locator('main').getByRole('link', { name: 'Pause', exact: true }).click();
  await page.getByRole('button', { name: 'Pause the queue' }).click();
  assert.equal(await page.locator('.notice').innerText(), 'Queue emails is paused.');
  assert.equal(new URL(page.url()).pathname, '/ops/queues/queue');
  assert.equal(await paused(), true);
  await page.getByRole('button', { name: 'Undo' }).click();
  assert.equal(await paused(), false);
  await until(() => dashboard.errors().includes('"action":"undo"'), 'the line of the audit');
  const audit = dashboard.errors().split('\n').filter((line) => line.includes('"audit"')).map((line) => JSON.parse(line));
  assert.deepEqual(audit.map((one) => [one.user, one.action]), [['ann@example.com', 'pause-queue'], ['ann@example.com', 'undo']]);
});

test('a viewer looks, and does not act, not with the number of an operator either', async () => {
  const operator = await request(dashboard.base, '/act/pause-queue?queue=emails', { headers: as('bob', 'ops') });
  assert.equal(operator.status, 200);
  const csrf = csrfIn(operator.text);
  for (const groups of ['', 'staff', 'opsx', 'no-ops', 'OPS']) {
    const shown = await request(dashboard.base, '/queue?queue=emails', { headers: as('bob', groups) });
    assert.equal(shown.status, 200);
    assert.doesNotMatch(shown.text, /\/act\/|can write/, groups);
    assert.equal((await request(dashboard.base, '/act/pause-queue?queue=emails', { headers: as('bob', groups) })).status, 403);
    for (const target of ['/act/pause-queue?queue=emails', '/undo']) {
      const answer = await post(dashboard.base, target, { csrf, confirmed: 'yes', undo: 'x' }, as('bob', groups));
      assert.equal(answer.status, 403, `${target} as ${groups}`);
    }
  }
  assert.equal(await paused(), false);
});

test('forms take the number of this user, and the origin of the dashboard', async () => {
  const { origin } = new URL(dashboard.base);
  const { text } = await request(dashboard.base, '/act/pause-queue?queue=emails', { headers: as('bob', 'ops') });
  const csrf = csrfIn(text);
  const pause = (user, number, from) =>
    post(dashboard.base, '/act/pause-queue?queue=emails', { csrf: number, confirmed: 'yes' }, as(user, 'ops', { Origin: from }));
  assert.equal((await pause('carol', csrf, origin)).status, 403);
  assert.equal((await pause('bob', '', origin)).status, 403);
  assert.equal((await pause('bob', csrf, 'http://evil.example')).status, 403);
  assert.equal(await paused(), false);
  assert.equal((await pause('bob', csrf, origin)).status, 303);
  assert.equal(await paused(), true);
  await rows("SELECT fairq.resume('emails')");
});

test('nobody ends the visit of somebody else', async () => {
  const target = '/act/pause-queue?queue=emails';
  const number = async (user) => csrfIn((await request(dashboard.base, target, { headers: as(user, 'ops') })).text);
  const carols = await number('carol');
  const cookie = `pgfairq_dashboard_${dashboard.port}=operator carol`;
  const answer = await post(dashboard.base, '/sign-out', { csrf: await number('bob') }, as('bob', 'ops', { Cookie: cookie }));
  assert.equal(answer.status, 404, 'who is named by a proxy does not sign out here');
  assert.equal(await number('carol'), carols);
});

test('whom no header names is nobody, nor is who is named twice', async () => {
  for (const headers of [{}, { 'X-Forwarded-User': '' }, { 'X-Forwarded-User': ['ann', 'bob'] }, { 'X-Forwarded-User': 'x'.repeat(300) }]) {
    for (const target of ['/', '/dead', '/queues.json']) {
      const answer = await request(dashboard.base, target, { headers });
      assert.equal(answer.status, 401, JSON.stringify(headers));
      assert.doesNotMatch(answer.text, /emails/);
    }
  }
  const twice = await request(dashboard.base, '/act/pause-queue?queue=emails', {
    headers: { 'X-Forwarded-User': 'ann', 'X-Forwarded-Groups': ['staff', 'ops'] },
  });
  assert.equal(twice.status, 403, 'two lists of roles are none');
  const hostile = await request(dashboard.base, '/', { headers: as(HOSTILE.image, 'ops') });
  assert.doesNotMatch(hostile.text, /<img/);
});

test('what of it cannot go together is said', () => {
  for (const [args, words] of [
    [['--write', '--user-header', 'X-User'], /takes --role-header/],
    [['--role-header', 'X-Roles'], /give that, too/],
    [['--operator-role', 'ops'], /give that, too/],
    [['--user-header', 'X User'], /name of a header/],
    [['--user-header', 'X-User', '--role-header', 'X-Roles', '--operator-role', 'a b'], /one word/],
  ]) {
    const refused = runToEnd(args, database.name);
    assert.equal(refused.status, 2, args.join(' '));
    assert.match(refused.stderr, words);
  }
  const both = runToEnd(['--user-header', 'X-User'], database.name, 'postgres', { PGFAIRQ_DASHBOARD_TOKEN: 'a token of some length' });
  assert.equal(both.status, 2);
  assert.match(both.stderr, /give one of them/);
});

/** Each page, and what programs find on it. */
async function pages() {
  const [{ id }] = await rows("SELECT id::text FROM fairq.tasks('emails', 'leased') LIMIT 1");
  const [{ done }] = await rows('SELECT min(id)::text AS done FROM fairq.done_emails');
  const [{ session }] = await rows('SELECT session::text FROM fairq.sessions LIMIT 1');
  await rows("SELECT fairq.create_queue('shared', subgroups => true) WHERE NOT EXISTS (SELECT FROM fairq.queues WHERE queue = 'shared')");
  await rows("SELECT fairq.enqueue('shared', '1', group_key => 'g', subgroup_key => 's')");
  await rows('GRANT SELECT ON ALL TABLES IN SCHEMA fairq TO viewer');
  return {
    '/queues.json': ['queues', (all) => all.find((one) => one.queue === 'emails').stats.dead === 5],
    '/queue.json?queue=emails': ['stats', (stats) => stats.queue === 'emails'],
    '/names.json?queue=emails': ['names', (all) => all.some((one) => one.name === 'greet' && one.done === 12)],
    '/tenants.json?queue=emails': ['tenants', (all) => all.some((one) => one.group_key === 'carol')],
    '/tenants.json?queue=emails&view=settings': ['settings', (all) => all.length === 2],
    '/tenant.json?queue=emails&group=carol': ['tenant', (one) => one.max_leased === 1],
    '/subgroups.json?queue=shared&group=g': ['subgroups', (all) => all[0].subgroup_key === 's'],
    '/subgroup.json?queue=shared&group=g&subgroup=s': ['subgroup', (one) => one.subgroup_key === 's'],
    '/tasks.json?queue=emails&state=dead': ['tasks', (all) => all.length === 5 && all[0].name === 'remind'],
    [`/task.json?queue=emails&id=${id}`]: ['holder', (one) => one.session === session],
    [`/task.json?queue=emails&id=${done}`]: ['done', (one) => one.outcome === 'acked'],
    '/dead.json?queue=emails': ['groups', (all) => all.length === 1 && all[0].error === 'no such mailbox: #' && all[0].tasks === 5],
    '/leases.json': ['leases', (all) => all.length === 9 && all[0].session === session],
    '/sessions.json': ['sessions', (all) => all[0].queues.join() === 'emails'],
    [`/session.json?id=${session}`]: ['session', (one) => one.leases === 9],
    '/schedules.json': ['schedules', (all) => all.some((one) => one.name === 'nightly')],
    '/schedule.json?name=nightly': ['schedule', (one) => one.cron === '30 2 * * *'],
    '/archive.json?queue=emails': ['tasks', (all) => all.length === 12],
    '/search.json?q=caro': ['tenants', (all) => all[0].group_key === 'carol'],
    '/settings.json': ['settings', (all) => all.some((one) => one.setting === 'max_leases' && one.used === 9)],
  };
}

test('every page as JSON, with what the database says', async () => {
  const all = await pages();
  for (const [target, [name, right]] of Object.entries(all)) {
    const answer = await request(reading.base, target);
    assert.equal(answer.status, 200, target);
    assert.equal(answer.headers['content-type'], 'application/json; charset=utf-8', target);
    const data = JSON.parse(answer.text);
    assert.equal(data.database, database.name);
    assert.ok(data[name] !== undefined && right(data[name]), `${target}: ${JSON.stringify(data[name])}`);
    const same = await request(reading.base, target.replace('/queues.json', '/').replace('.json', ''), { headers: { Accept: 'application/json' } });
    assert.deepEqual(Object.keys(JSON.parse(same.text)), Object.keys(data), target);
  }
  const html = await request(reading.base, '/tasks?queue=emails', { headers: { Accept: 'text/html,application/json;q=0.9' } });
  assert.match(html.headers['content-type'], /text\/html/);
  const paths = new Set(Object.keys(all).map((target) => target.replace(/\.json.*/, '').replace('/queues', '/')));
  const { PAGES } = require('../../dist/dashboard/pages/all.js');
  assert.deepEqual([...paths].sort(), [...PAGES.keys()].sort(), 'no page is left out');
});

test('JSON: pages follow each other, and what is wrong is said', async () => {
  let next = '/tasks.json?queue=emails';
  const ids = [];
  while (next !== null) {
    const data = JSON.parse((await request(reading.base, next)).text);
    ids.push(...data.tasks.map((one) => one.id));
    next = data.next;
  }
  assert.deepEqual(ids, (await rows('SELECT id::text FROM fairq.q_emails q ORDER BY q.id')).map((one) => one.id));
  for (const [target, status] of [
    ['/queue.json?queue=none', 404],
    ['/task.json?queue=emails&id=x', 400],
    ['/nothing.json', 404],
    ['/style.css.json', 404],
  ]) {
    const answer = await request(reading.base, target);
    assert.equal(answer.status, status, target);
    assert.ok(JSON.parse(answer.text).error.length > 10);
  }
});

test('JSON takes the token where pages do, in a header, and no guessing', async () => {
  const closed = await start(database.name, 'postgres', ['--write']);
  const get = (token) => request(closed.base, '/queues.json', { headers: token === undefined ? {} : { Authorization: `Bearer ${token}` } });
  assert.equal((await get()).status, 401);
  assert.equal((await get(closed.token)).status, 200);
  assert.equal((await request(closed.base, '/', { headers: { Authorization: `Bearer ${closed.token}` } })).status, 303, 'not a page');
  const action = await post(closed.base, '/act/pause-queue?queue=emails', { confirmed: 'yes', csrf: '' }, {
    Authorization: `Bearer ${closed.token}`,
    Accept: 'application/json',
  });
  assert.equal(action.status, 401, 'a token in a header reads, and does not act');
  const { cookie } = await signIn(closed);
  assert.equal((await request(closed.base, '/queues.json', { headers: { Cookie: cookie } })).status, 200);
  const answers = [];
  for (let guess = 1; guess <= 22; guess += 1) {
    answers.push((await get(`wrong token ${guess}`.replaceAll(' ', '-'))).status);
  }
  assert.deepEqual(answers, [...Array(20).fill(401), 429, 429]);
  assert.equal((await get(closed.token)).status, 429);
  await closed.stop();
});

test('/healthz: by any name, without signing in, and it tells nothing else', async () => {
  for (const target of ['/healthz', '/ops/queues/healthz']) {
    const answer = await request(dashboard.base, target, { headers: { Host: '10.0.0.1' } });
    assert.deepEqual([answer.status, answer.text], [200, 'ok\n'], target);
  }
  assert.equal((await request(dashboard.base, '/healthz', { method: 'POST' })).status, 401);
  pgCtl('stop', '-m', 'immediate');
  try {
    const away = await until(async () => ((one) => one.status !== 200 && one)(await request(dashboard.base, '/healthz')), 'it is noticed');
    assert.deepEqual([away.status, away.text], [503, 'database out of reach\n']);
  } finally {
    pgCtl('start');
  }
  await until(async () => (await request(dashboard.base, '/healthz')).status === 200, 'it is there again');
});
