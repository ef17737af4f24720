/**
 * After a start the server counts the tasks of its queues, which takes seconds where they are many: pages say so meanwhile,
 * and have their figures when it has.
 *
 * A view that waits for as long as a table has a row stands for the tasks that are many.
 *
 * Seen to fail: the look with the time of a page, READ_MS; without the listener that forgets what was counted when a
 * connection is lost; the script of pages that takes no answer but 200.
 */
'use strict';

const assert = require('node:assert/strict');
const { after, before, test } = require('node:test');
const { browser, newDatabase, request, start, tableOf, until, viewer } = require('./support.js');

const COUNTING = /counts the tasks of its queues, which it does once/;
let database, dashboard, chromium;
const rows = async (sql, values) => (await database.client.query(sql, values)).rows;
const get = (path, headers) => request(dashboard.base, path, { headers });

before(async () => {
  database = await newDatabase();
  await rows("SELECT fairq.create_queue('jobs', keep_done => '1 day')");
  await rows("SELECT fairq.enqueue('jobs', '1', group_key => 'ann') FROM generate_series(1, 3)");
  await rows('CREATE TABLE public.many_tasks (row int)');
  await rows(`CREATE FUNCTION public.wait_while_many() RETURNS boolean LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
        BEGIN
            WHILE EXISTS (SELECT FROM public.many_tasks) LOOP PERFORM pg_sleep(0.02); END LOOP;
            RETURN true;
        END $$`);
  await rows(`CREATE OR REPLACE VIEW fairq.queue_stats AS
        SELECT s.* FROM (SELECT public.wait_while_many() OFFSET 0) w, fairq_internal.stats_of_queues() s`);
  await viewer(database.client);
  dashboard = await start(database.name, 'viewer');
  chromium = await browser();
  await chromium.page.goto(`${dashboard.base}/`);
});

after(async () => {
  await rows('DELETE FROM public.many_tasks').catch(() => undefined);
  await chromium?.close();
  await dashboard?.stop();
  await database?.client.end();
});

/** As a crash of the server, or a start: the dashboard's connections are lost. */
async function loseConnections() {
  const all = "SELECT pid FROM pg_stat_activity WHERE application_name = 'pgfairq-dashboard' AND datname = current_database()";
  const lost = await rows(all);
  await rows('SELECT pg_terminate_backend(pid) FROM unnest($1::int[]) pid', [lost.map(({ pid }) => pid)]);
  await until(async () => !(await rows(all)).some(({ pid }) => lost.some((one) => one.pid === pid)), 'they are gone');
}

test('pages with figures say that there are none yet; the others are there', async () => {
  assert.equal((await get('/')).status, 200);
  await rows('INSERT INTO public.many_tasks VALUES (1)');
  await loseConnections();
  await until(async () => COUNTING.test((await get('/')).text), 'it counts anew');
  for (const path of ['/', '/queue?queue=jobs', '/tenants?queue=jobs', '/names?queue=jobs', '/dead', '/search?q=ann', '/settings', '/tenant?queue=jobs&group=ann']) {
    const { status, text } = await get(path);
    assert.equal(status, 503, path);
    assert.match(text, COUNTING, path);
    assert.match(text, /some seconds for a million tasks/, path);
  }
  for (const path of ['/tasks?queue=jobs', '/task?queue=jobs&id=1', '/archive?queue=jobs', '/leases', '/sessions', '/schedules', '/healthz']) {
    assert.equal((await get(path)).status, 200, path);
  }
});

test('programs have the same as JSON', async () => {
  for (const answer of [await get('/queues.json'), await get('/tenants?queue=jobs', { Accept: 'application/json' })]) {
    assert.equal(answer.status, 503);
    const { error, hint } = JSON.parse(answer.text);
    assert.match(error, COUNTING);
    assert.match(hint, /tasks, done tasks/);
  }
});

test('it has longer for that than a page, asks once, and a page that is open has its figures then', async () => {
  await until(async () => COUNTING.test(await chromium.page.locator('main').innerText()), 'the page that is open says so');
  const looks = () =>
    rows(`SELECT now() - query_start > '5 s' AS long FROM pg_stat_activity WHERE application_name = 'pgfairq-dashboard'
        AND datname = current_database() AND state = 'active' AND query LIKE '%FROM fairq.queue_stats%'`);
  await until(async () => (await looks()).some(({ long }) => long), 'the look has lasted longer than a page may');
  assert.equal((await looks()).length, 1);
  await rows('DELETE FROM public.many_tasks');
  await until(async () => (await get('/')).status === 200, 'there are figures');
  await until(async () => (await tableOf(chromium.page))[0]?.Ready === '3', 'also in the page that is open');
});
