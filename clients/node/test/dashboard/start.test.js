/**
 * How it starts, what it says when it cannot, and what becomes of it when the server goes.
 *
 * Seen to fail: without the pool's listener for errors the process ends with the server; waiting
 * for the callback of http.close(), it takes a minute to end while a browser has it open.
 */
'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');
const { after, before, test } = require('node:test');
const { connect, newDatabase, newRole, pgCtl, request, runToEnd, signIn, start, until } = require('./support.js');

let database;

before(async () => {
  database = await newDatabase();
  await database.client.query("SELECT fairq.create_queue('emails')");
});

after(async () => {
  await database?.client.end();
});

/** That it ends with a code, and words in lines of its own: no traces. */
function refused(done, code, words) {
  assert.equal(done.status, code, done.stderr);
  assert.match(done.stderr, words);
  assert.doesNotMatch(done.stderr, /\n +at /);
  assert.equal(done.stdout, '');
}

test('help and version', () => {
  const help = runToEnd(['--help']);
  assert.equal(help.status, 0);
  for (const option of ['--listen', '--host', '--write', '--token-file', '--sample', '--version']) {
    assert.ok(help.stdout.includes(option));
  }
  assert.equal(runToEnd(['--version']).stdout.trim(), require('../../package.json').version);
});

test('a wrong command line is said, with what would be right', () => {
  refused(runToEnd(['--wrote']), 2, /there is no option --wrote\n.*--help/);
  refused(runToEnd(['-w']), 2, /there is no option -w/);
  refused(runToEnd(['--listen']), 2, /--listen takes a value/);
  refused(runToEnd(['--listen', '99999']), 2, /--listen is “99999”/);
  refused(runToEnd(['--listen=here:there']), 2, /--listen is “here:there”/);
  refused(runToEnd(['--sample', '0']), 2, /--sample is “0”; it takes seconds, from 1 to 60/);
  refused(runToEnd(['host=localhost dbname=x']), 2, /postgresql:\/\/user@host\/database/);
  refused(runToEnd(['postgresql://a', 'postgresql://b']), 2, /more than one connection string/);
  refused(runToEnd(['--write', '--token-file', '/nonexistent']), 2, /--token-file cannot be read/);
  refused(
    runToEnd(['--write'], 'postgres', 'postgres', { PGFAIRQ_DASHBOARD_TOKEN: 'short' }),
    2,
    /the token has 5 characters; it takes 16/,
  );
});

test('no server, no such database, no extension', async () => {
  refused(runToEnd(['postgresql://postgres@127.0.0.1:1/x']), 1, /out of reach: .*ECONNREFUSED/);
  refused(runToEnd([], 'no_such_database'), 1, /database "no_such_database" does not exist/);
  refused(runToEnd([], 'template1'), 1, /does not have the extension pgfairq\n.*CREATE EXTENSION pgfairq/);
});

test('a proxy of a cluster is no place for it', async () => {
  const admin = await connect('postgres');
  await admin.query('CREATE DATABASE dashboard_proxy');
  const proxy = await connect('dashboard_proxy');
  await proxy.query('CREATE EXTENSION pgfairq_cluster CASCADE');
  refused(runToEnd([], 'dashboard_proxy'), 1, /is a proxy of a cluster.*\n.*fairq\.nodes/);
  await proxy.end();
  await admin.query('DROP DATABASE dashboard_proxy');
  await admin.end();
});

test('a port that is in use', async () => {
  const server = net.createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address();
  refused(
    runToEnd(['--listen', String(port)], database.name),
    1,
    new RegExp(`port ${port} is in use; give another one with --listen`),
  );
  server.close();
});

test('it listens on this machine alone, and asks for no token to read', async () => {
  const dashboard = await start(database.name, 'postgres');
  assert.match(dashboard.base, /^http:\/\/127\.0\.0\.1:\d+$/);
  assert.equal(dashboard.token, undefined);
  const elsewhere = Object.values(os.networkInterfaces())
    .flat()
    .find((one) => !one.internal && one.family === 'IPv4');
  if (elsewhere !== undefined) {
    const error = await new Promise((resolve) => {
      const socket = net.connect(dashboard.port, elsewhere.address, () => resolve(undefined));
      socket.once('error', resolve);
    });
    assert.equal(error?.code, 'ECONNREFUSED');
  }
  await dashboard.stop();
});

test('where others can connect it asks for a token, although it reads, and takes the names it is given', async () => {
  const dashboard = await start(database.name, 'postgres', ['--listen', '0.0.0.0:0', '--host', 'Queues.example']);
  assert.ok(dashboard.token.length >= 32);
  const base = dashboard.base.replace('0.0.0.0', '127.0.0.1');
  const at = (host) => request(base, '/', { headers: { Host: host } });
  assert.equal((await at('queues.example')).status, 303);
  assert.equal((await at(`queues.example:${dashboard.port}`)).status, 303);
  assert.equal((await at(`localhost:${dashboard.port}`)).status, 421);
  await dashboard.stop();
});

test('a token from a file, and one from the environment', async () => {
  const file = path.join(fs.mkdtempSync(path.join(os.tmpdir(), 'token-')), 'token');
  fs.writeFileSync(file, 'a token out of a file\n', { mode: 0o600 });
  const first = await start(database.name, 'postgres', ['--write', '--token-file', file]);
  assert.equal(first.token, undefined, 'it is not told');
  assert.equal((await signIn(first, 'a token out of a file')).status, 303);
  await first.stop();
  const second = await start(database.name, 'postgres', ['--write'], {
    PGFAIRQ_DASHBOARD_TOKEN: 'a token of the environment',
  });
  assert.equal((await signIn(second, 'a token of the environment')).status, 303);
  await second.stop();
});

test('the connection string is an argument or DATABASE_URL, and its password is never shown', async () => {
  const url = `postgresql://postgres:secret-word@/${database.name}?host=${encodeURIComponent(process.env.PGHOST)}`;
  for (const [args, more] of [
    [[url], {}],
    [[], { DATABASE_URL: url }],
  ]) {
    const dashboard = await start('postgres', 'nobody', args, more);
    const { text } = await request(dashboard.base, '/settings');
    assert.match(text, new RegExp(database.name));
    assert.doesNotMatch(text, /secret-word/);
    await dashboard.stop();
  }
  const done = runToEnd(['postgresql://postgres:secret-word@127.0.0.1:1/x']);
  assert.doesNotMatch(done.stderr, /secret-word/);
});

test('SIGTERM and SIGINT end it in good order', async () => {
  for (const signal of ['SIGTERM', 'SIGINT']) {
    const dashboard = await start(database.name, 'postgres');
    await request(dashboard.base, '/');
    const sockets = ['', 'GET / HTTP/1.1\r\nHost: '].map((said) => {
      const socket = net.connect(dashboard.port, '127.0.0.1', () => said !== '' && socket.write(said));
      socket.on('error', () => undefined);
      return socket;
    });
    await Promise.all(sockets.map((socket) => new Promise((resolve) => socket.once('connect', resolve))));
    const begin = Date.now();
    dashboard.signal(signal);
    assert.deepEqual(await dashboard.ended, { code: 0, signal: null });
    assert.ok(Date.now() - begin < 25_000, 'connections on which nothing was asked are not waited for');
    const left = async () =>
      (
        await database.client.query(
          "SELECT FROM pg_stat_activity WHERE application_name = 'pgfairq-dashboard' AND datname = current_database()",
        )
      ).rowCount;
    await until(async () => (await left()) === 0, 'its connections are closed');
  }
});

test('a role without pg_monitor is told what it lacks, and sees its own queues', async () => {
  await database.client.query("SELECT fairq.create_queue('hidden')");
  await database.client.query("SELECT fairq.enqueue('hidden', '1', name => 'secret'), fairq.enqueue('emails', '1', name => 'greet')");
  const role = await newRole(database.client, 'plain', 'GRANT SELECT ON fairq.q_emails');
  const dashboard = await start(database.name, role);
  assert.match(dashboard.errors(), /not a member of pg_monitor.*GRANT pg_monitor TO plain/s);
  const { text } = await request(dashboard.base, '/');
  assert.match(text, /not a member of <code>pg_monitor<\/code>/);
  assert.match(text, /not shown to this role/);
  for (const page of ['queue', 'names']) {
    assert.match((await request(dashboard.base, `/${page}?queue=emails`)).text, /greet/);
    const hidden = (await request(dashboard.base, `/${page}?queue=hidden`)).text;
    assert.match(hidden, /figures of this queue are not shown to this role/);
    assert.doesNotMatch(hidden, /secret|No task that has a name/);
  }
  assert.doesNotMatch((await request(dashboard.base, '/tasks?queue=hidden&name=secret')).text, /<td/);
  for (const target of [
    '/queue?queue=hidden',
    '/tasks?queue=hidden',
    '/dead?queue=hidden',
    '/tenants?queue=hidden',
    '/tenant?queue=hidden&group=x',
    '/task?queue=hidden&id=1',
    '/archive?queue=hidden',
    '/leases',
    '/sessions',
    '/schedules',
    '/settings',
    '/search?q=1',
    '/search?q=x',
  ]) {
    assert.equal((await request(dashboard.base, target)).status, 200, target);
  }
  await dashboard.stop();
});

test('a role with pg_monitor alone sees figures, and is told how to see tasks', async () => {
  await database.client.query("SELECT fairq.create_queue('kept', keep_done => '1 day')");
  const role = await newRole(database.client, 'figures', 'GRANT pg_monitor');
  const dashboard = await start(database.name, role);
  assert.equal(dashboard.errors(), '');
  assert.match(
    (await request(dashboard.base, '/tasks?queue=emails')).text,
    /GRANT SELECT ON .*fairq\.&quot;q_emails&quot;/,
  );
  assert.match(
    (await request(dashboard.base, '/archive?queue=kept')).text,
    /GRANT SELECT ON .*fairq\.&quot;done_kept&quot;/,
  );
  assert.match((await request(dashboard.base, '/names?queue=emails')).text, /greet/);
  for (const target of [
    '/',
    '/queue?queue=emails',
    '/tasks?queue=emails&name=greet',
    '/archive?queue=kept&name=greet',
    '/dead',
    '/dead?queue=emails',
    '/task?queue=emails&id=1',
    '/tenant?queue=emails&group=x',
    '/tenants',
    '/leases',
    '/sessions',
    '/schedules',
    '/settings',
    '/search?q=1',
    '/search?q=x',
  ]) {
    assert.equal((await request(dashboard.base, target)).status, 200, target);
  }
  assert.equal((await request(dashboard.base, '/whole?queue=emails&id=1')).status, 403);
  await dashboard.stop();
});

test('a restart of the server: pages say it is away, then are there again, and nobody signs in anew', async () => {
  const dashboard = await start(database.name, 'postgres', ['--write']);
  const { cookie } = await signIn(dashboard);
  const get = () => request(dashboard.base, '/', { headers: { Cookie: cookie } });
  assert.equal((await get()).status, 200);
  pgCtl('stop', '-m', 'immediate');
  const away = await get();
  assert.equal(away.status, 503);
  assert.match(away.text, /out of reach/);
  pgCtl('start');
  assert.equal(
    (await until(async () => ((one) => one.status === 200 && one)(await get()), 'the page is there again')).status,
    200,
  );
  await dashboard.stop();
  await database.client.end().catch(() => undefined);
  database.client = await connect(database.name);
});

test('a server that has not preloaded the library', async () => {
  pgCtl('restart', '-m', 'fast', '-o', "-c shared_preload_libraries=''");
  try {
    refused(runToEnd([], database.name), 1, /shared_preload_libraries/);
  } finally {
    // A restart would keep the option.
    pgCtl('stop', '-m', 'fast');
    pgCtl('start');
    await database.client.end().catch(() => undefined);
    database.client = await connect(database.name);
  }
});
