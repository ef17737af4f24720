/**
 * The owner of a queue puts code into its indexes and constraints: no page and no action runs it as the
 * dashboard's role.
 *
 * Seen to fail: with `FROM fairq.q_…` in place of tasks_page() in data/tasks.ts, and of done_page() and
 * get_done_task() in data/archive.ts.
 */
'use strict';

const assert = require('node:assert/strict');
const { after, before, test } = require('node:test');
const { connect, csrfIn, newDatabase, newRole, post, request, signIn, start, until, viewer } = require('./support.js');

let database, listener, reading, writing, tasks;
const ran = new Set();
const rows = async (sql, values) => (await database.client.query(sql, values)).rows;

// As whom it runs goes out by NOTIFY, which also a read-only transaction lets through.
const EVIL = `CREATE FUNCTION theirs.evil(x anyelement) RETURNS boolean LANGUAGE plpgsql IMMUTABLE
    AS $$ BEGIN PERFORM pg_notify('ran', current_user); RETURN true; END $$`;

before(async () => {
  database = await newDatabase();
  await newRole(database.client, 'tenant');
  await rows("SELECT fairq.create_queue('theirs', keep_done => '1 day', max_attempts => 1)");
  await rows("SELECT fairq.enqueue('theirs', to_jsonb(n), group_key => 'g' || n % 3, unique_key => 'key ' || n, name => 'task') FROM generate_series(1, 60) n");
  await rows("SELECT fairq.nack(receipt, 'no') FROM fairq.claim('theirs', 10)");
  await rows("SELECT fairq.ack(receipt, '1') FROM fairq.claim('theirs', 10)");
  await rows("SELECT fairq.enqueue('theirs', '1', delay => '1 h')");
  await rows("SELECT count(*) FROM fairq.claim('theirs', 3, lease => '1 h')");
  tasks = Object.fromEntries((await rows("SELECT DISTINCT ON (state) state, id::text FROM fairq.tasks('theirs')")).map((row) => [row.state, row.id]));
  tasks.done = (await rows('SELECT min(id)::text AS id FROM fairq.done_tasks'))[0].id;
  await rows('CREATE SCHEMA theirs AUTHORIZATION tenant');
  for (const kind of ['q', 'done']) {
    await rows(`ALTER TABLE fairq.${kind}_theirs OWNER TO tenant`);
  }
  await rows('ALTER SEQUENCE fairq.ids_of_theirs OWNER TO tenant');
  await rows('SET ROLE tenant');
  await rows(EVIL);
  await rows('RESET ROLE');
  await viewer(database.client);
  await newRole(database.client, 'operator', 'GRANT pg_monitor', 'GRANT SELECT, UPDATE, DELETE ON ALL TABLES IN SCHEMA fairq');
  await rows('SET ROLE tenant');
  // Without CREATE on schema fairq a partitioned table makes the index.
  for (const kind of ['q', 'done']) {
    await rows(`CREATE TABLE theirs.p (LIKE fairq.${kind}_theirs) PARTITION BY RANGE (id)`);
    await rows("CREATE INDEX ON theirs.p (id) WHERE theirs.evil('predicate'::text)");
    await rows('CREATE INDEX ON theirs.p ((theirs.evil(payload)))');
    await rows(`ALTER TABLE theirs.p ATTACH PARTITION fairq.${kind}_theirs DEFAULT`);
    await rows(`ALTER TABLE theirs.p DETACH PARTITION fairq.${kind}_theirs`);
    await rows('DROP TABLE theirs.p');
    await rows(`ALTER TABLE fairq.${kind}_theirs ADD CHECK (theirs.evil(payload))`);
  }
  await rows('RESET ROLE');
  listener = await connect(database.name);
  listener.on('notification', (message) => ran.add(message.payload));
  await listener.query('LISTEN ran');
  reading = await start(database.name, 'viewer');
  writing = await start(database.name, 'operator', ['--write']);
});

after(async () => {
  await reading?.stop();
  await writing?.stop();
  await database?.client.end();
});

/** Whom the code has run as, of all that was committed by now. */
async function others() {
  await listener.query("NOTIFY ran, 'told'");
  await until(() => ran.delete('told'), 'what was told before');
  const found = [...ran].filter((role) => role !== 'tenant');
  ran.clear();
  return found;
}

test('the trap is one: a SELECT on the table runs the code as the role that selects', async () => {
  const client = await connect(database.name, 'viewer');
  await client.query('SELECT FROM fairq.q_theirs WHERE id = 1');
  await client.end();
  assert.deepEqual(await others(), ['viewer']);
});

test('no page runs it', async () => {
  const pages = ['/', '/queue?queue=theirs', '/tenants?queue=theirs', '/tenant?queue=theirs&group=g1', '/dead', '/dead?queue=theirs&group=g1',
    '/search?q=key+40', '/search?q=g1', `/search?q=${tasks.done}`, '/archive?queue=theirs', '/archive?queue=theirs&outcome=dead&group=g1',
    '/tasks?queue=theirs', '/tasks?queue=theirs&group=g1', '/names?queue=theirs', '/tasks?queue=theirs&name=task', '/archive?queue=theirs&name=task', '/leases', '/sessions', '/schedules', '/settings', '/workers'];
  for (const state of ['ready', 'leased', 'scheduled', 'overflow', 'held', 'dead']) {
    pages.push(`/tasks?queue=theirs&state=${state}`, `/tasks?queue=theirs&state=${state}&group=g1`);
  }
  for (const id of Object.values(tasks)) {
    pages.push(`/task?queue=theirs&id=${id}`, `/search?q=${id}`);
    for (const part of ['payload', 'headers', 'last_error', 'result']) {
      pages.push(`/whole?queue=theirs&id=${id}&part=${part}`, `/whole-done?queue=theirs&id=${id}&part=${part}`);
    }
  }
  const shown = [];
  for (const page of pages) {
    const { status, text } = await request(reading.base, page);
    if (status === 200 && !/is not shown/.test(text)) shown.push(page);
    assert.deepEqual(await others(), [], page);
  }
  assert.ok(shown.length > 30, shown.join(' '));
  assert.ok(shown.includes('/tasks?queue=theirs&state=leased') && shown.includes('/archive?queue=theirs') &&
    shown.includes(`/task?queue=theirs&id=${tasks.done}`), shown.join(' '));
});

test('no action runs it as the operator', async () => {
  const { cookie } = await signIn(writing);
  const act = async (action, fields) => {
    const target = `/act/${action}?${new URLSearchParams(fields)}`;
    const { text } = await request(writing.base, target, { headers: { Cookie: cookie } });
    const { status } = await post(writing.base, target, { confirmed: 'yes', csrf: csrfIn(text) }, { Cookie: cookie });
    assert.equal(status, 303, action);
    assert.deepEqual(await others(), [], action);
  };
  const of = { queue: 'theirs' };
  await act('revive', { ...of, id: tasks.dead });
  await act('cancel', { ...of, id: tasks.ready });
  await act('cancel', { ...of, id: tasks.leased });
  await act('revive-dead', { ...of, group: 'g1' });
  await act('revive-dead', { ...of, group: 'g2', name: 'task' });
  await act('revive-dead', { ...of, name: 'task' });
  await act('revive-dead', of);
  assert.equal((await rows("SELECT count(*) FROM fairq.tasks('theirs', 'dead')"))[0].count, '0');
});
