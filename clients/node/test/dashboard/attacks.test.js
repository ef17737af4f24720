/**
 * What no browser of the visitor's own sends: other hosts and origins, no or a wrong token, writing
 * where the dashboard reads, paths and parameters that are none.
 *
 * Seen to fail, each without its guard: checkHost(), checkOrigin(), the comparison of `csrf`, the
 * look for a visit in post(), `options.write` in action(), readForm()'s limit and type, isId(), the
 * search for code 0 in Params, BEGIN TRANSACTION READ ONLY.
 */
'use strict';

const assert = require('node:assert/strict');
const net = require('node:net');
const { after, before, test } = require('node:test');
const { fill } = require('./content.js');
const { csrfIn, newDatabase, post, request, signIn, start, until, viewer } = require('./support.js');

let database, reading, writing;
const FORM = 'application/x-www-form-urlencoded';
const row = async (sql, values) => (await database.client.query(sql, values)).rows[0];
const paused = async () => (await row("SELECT paused FROM fairq.queues WHERE queue = 'emails'")).paused;

before(async () => {
  database = await newDatabase();
  await fill(database.client);
  await viewer(database.client);
  reading = await start(database.name, 'viewer');
  writing = await start(database.name, 'postgres', ['--write']);
});

after(async () => {
  await reading?.stop();
  await writing?.stop();
  await database?.client.end();
});

/** The token of forms, as a page of someone who has signed in has it. */
async function csrfOf(cookie) {
  const { text } = await request(writing.base, '/act/pause-queue?queue=emails', { headers: { Cookie: cookie } });
  return csrfIn(text);
}

const pause = (fields, headers, base = writing.base) => post(base, '/act/pause-queue?queue=emails', fields, headers);

/** What is answered to bytes as they are. */
function answerTo(said) {
  return new Promise((resolve, reject) => {
    let text = '';
    const socket = net.connect(reading.port, '127.0.0.1', () => socket.write(said));
    socket.setEncoding('utf8');
    socket.on('data', (chunk) => (text += chunk));
    socket.on('end', () => resolve(text));
    socket.on('error', reject);
  });
}

test('another host is refused: a name that leads here is not one of ours', async () => {
  for (const host of [
    'evil.example',
    `evil.example:${reading.port}`,
    '127.0.0.1',
    `localhost.evil.example:${reading.port}`,
    `localhost:${reading.port + 1}`,
  ]) {
    const answer = await request(reading.base, '/', { headers: { Host: host } });
    assert.equal(answer.status, 421, host);
    assert.doesNotMatch(answer.text, /emails/);
  }
  for (const host of [
    `localhost:${reading.port}`,
    `127.0.0.1:${reading.port}`,
    `[::1]:${reading.port}`,
    `LOCALHOST:${reading.port}`,
  ]) {
    assert.equal((await request(reading.base, '/', { headers: { Host: host } })).status, 200, host);
  }
  for (const said of ['GET / HTTP/1.0\r\n\r\n', 'GET / HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n']) {
    assert.match(await answerTo(said), /^HTTP\/1\.1 421 /, said);
  }
});

test('without a token nothing is shown, and nothing done', async () => {
  for (const path of [
    '/',
    '/queue?queue=emails',
    '/act/pause-queue?queue=emails',
    '/whole?queue=emails&id=13',
    '/no-such-page',
  ]) {
    const answer = await request(writing.base, path);
    assert.equal(answer.status, 303, path);
    assert.equal(answer.headers.location, '/sign-in');
    assert.equal(answer.text, '');
  }
  const answer = await pause({ confirmed: 'yes', csrf: 'guessed' });
  assert.equal(answer.status, 401);
  assert.equal(await paused(), false);
});

test('a wrong token, and one that is almost right', async () => {
  for (const token of ['', 'wrong', writing.token.slice(0, -1), `${writing.token}x`, writing.token.toUpperCase()]) {
    const { status, header } = await signIn(writing, token);
    assert.equal(status, 403, token);
    assert.equal(header, '');
  }
});

test("the cookie is the browser's alone, and says nothing", async () => {
  const { status, header, cookie } = await signIn(writing);
  assert.equal(status, 303);
  assert.match(header, /; Path=\/; HttpOnly; SameSite=Strict; Max-Age=\d+$/);
  assert.ok(!header.includes(writing.token));
  for (const wrong of [
    `${cookie}x`,
    cookie.replace(/=.*/, '='),
    cookie.replace(/=.*/, '=__proto__'),
    'constructor=1',
  ]) {
    assert.equal((await request(writing.base, '/', { headers: { Cookie: wrong } })).status, 303, wrong);
  }
});

test('behind TLS the cookie does not go without', async () => {
  const answer = (headers) => post(writing.base, '/sign-in', { token: writing.token }, headers);
  const cookieOf = async (headers) => (await answer(headers)).headers['set-cookie'][0];
  assert.doesNotMatch(await cookieOf({}), /Secure/);
  assert.match(await cookieOf({ Origin: writing.base.replace('http:', 'https:') }), /; Secure$/);
  assert.match(await cookieOf({ 'X-Forwarded-Proto': 'https' }), /; Secure$/);
});

test('who guesses tokens is not heard any more, also with the right one; those who have signed in are', async () => {
  const guessed = await start(database.name, 'postgres', ['--write']);
  const { cookie } = await signIn(guessed);
  const answers = [];
  for (let guess = 1; guess <= 22; guess += 1) {
    answers.push((await signIn(guessed, `wrong token number ${guess}`)).status);
  }
  assert.deepEqual(answers, [...Array(20).fill(403), 429, 429]);
  assert.equal((await signIn(guessed)).status, 429);
  assert.equal((await request(guessed.base, '/', { headers: { Cookie: cookie } })).status, 200);
  await guessed.stop();
});

test('another origin, and none, are refused although the cookie is there', async () => {
  const { cookie } = await signIn(writing);
  const fields = { confirmed: 'yes', csrf: await csrfOf(cookie) };
  for (const origin of [
    'http://evil.example',
    'null',
    `http://localhost:${writing.port + 1}`,
    `http://evil.example:${writing.port}`,
    undefined,
  ]) {
    const headers = { Cookie: cookie, 'Content-Type': FORM, ...(origin === undefined ? {} : { Origin: origin }) };
    const answer = await request(writing.base, '/act/pause-queue?queue=emails', {
      method: 'POST',
      headers,
      body: new URLSearchParams(fields).toString(),
    });
    assert.equal(answer.status, 403, String(origin));
    assert.equal(await paused(), false);
  }
});

test("a form without the page's token, or with another visit's, is refused", async () => {
  const { cookie } = await signIn(writing);
  const other = await csrfOf((await signIn(writing)).cookie);
  for (const csrf of [undefined, '', 'wrong', other]) {
    const answer = await pause({ confirmed: 'yes', ...(csrf === undefined ? {} : { csrf }) }, { Cookie: cookie });
    assert.equal(answer.status, 403, String(csrf));
  }
  assert.equal(await paused(), false);
  assert.equal((await pause({ csrf: await csrfOf(cookie) }, { Cookie: cookie })).status, 200, 'not confirmed: it asks');
  assert.equal(await paused(), false);
  assert.equal((await pause({ confirmed: 'yes', csrf: await csrfOf(cookie) }, { Cookie: cookie })).status, 303);
  assert.equal(await paused(), true, 'and this is what does it');
  await database.client.query("SELECT fairq.resume('emails')");
});

test('a GET does nothing, and other methods are not answered', async () => {
  const { cookie } = await signIn(writing);
  const csrf = await csrfOf(cookie);
  await request(writing.base, `/act/pause-queue?queue=emails&confirmed=yes&csrf=${csrf}`, {
    headers: { Cookie: cookie },
  });
  for (const method of ['PUT', 'DELETE', 'PATCH', 'OPTIONS', 'TRACE']) {
    const answer = await request(writing.base, '/act/pause-queue?queue=emails', {
      method,
      headers: { Cookie: cookie, Origin: writing.base },
    });
    assert.equal(answer.status, 405, method);
  }
  assert.equal(await paused(), false);
});

test('forms of other types and sizes are refused', async () => {
  const { cookie } = await signIn(writing);
  const csrf = await csrfOf(cookie);
  for (const type of ['text/plain', 'application/json', 'multipart/form-data; boundary=x', '']) {
    assert.equal((await pause({ confirmed: 'yes', csrf }, { Cookie: cookie, 'Content-Type': type })).status, 415, type);
  }
  assert.equal((await pause({ confirmed: 'yes', csrf, more: 'x'.repeat(1_100_000) }, { Cookie: cookie })).status, 413);
  assert.equal((await post(writing.base, '/sign-in', { token: 'x'.repeat(20_000) })).status, 413, 'less, before signing in');
  assert.equal(await paused(), false);
});

test('where it reads there is no way to write', async () => {
  const { text } = await request(reading.base, '/queue?queue=emails');
  assert.doesNotMatch(text, /\/act\/|method="post"/);
  for (const path of ['/act/pause-queue?queue=emails', '/act/cancel?queue=emails&id=13']) {
    assert.equal((await request(reading.base, path)).status, 403, path);
    assert.equal((await post(reading.base, path, { confirmed: 'yes', csrf: '' })).status, 403, path);
  }
  assert.equal(await paused(), false);
});

test('a dashboard that is given a token asks for it although it only reads', async () => {
  const closed = await start(database.name, 'postgres', [], { PGFAIRQ_DASHBOARD_TOKEN: 'a token of some length' });
  assert.equal((await request(closed.base, '/')).status, 303);
  const { cookie } = await signIn(closed, 'a token of some length');
  assert.equal((await request(closed.base, '/', { headers: { Cookie: cookie } })).status, 200);
  const page = await request(closed.base, '/', { headers: { Cookie: cookie } });
  const csrf = csrfIn(page.text);
  const answer = await pause({ confirmed: 'yes', csrf }, { Cookie: cookie }, closed.base);
  assert.equal(answer.status, 403);
  assert.match(answer.text, /only reads/);
  assert.equal(await paused(), false, 'whatever the role may do');
  await closed.stop();
});

test('paths lead to pages, and never to files', async () => {
  for (const path of [
    '/../../../../etc/passwd',
    '/..%2f..%2fetc/passwd',
    '/%2e%2e/package.json',
    '/style.css/../main.js',
    '//etc/passwd',
    '/./main.js',
    '/act/../settings',
    '/act/',
    '/act/__proto__',
    '/act/constructor',
    '/constructor',
    '/__proto__',
    '/queue/',
    '/QUEUE',
    '/%00',
    'http://evil.example/',
  ]) {
    const { status, text } = await request(reading.base, path);
    assert.equal(status, 404, path);
    assert.doesNotMatch(text, /root:|"dependencies"/);
  }
});

test('parameters that are none are refused with words, and none is SQL', async () => {
  const bad = [
    '/queue',
    '/queue?queue=a&queue=b',
    '/queue?queue=%00',
    `/queue?queue=${'x'.repeat(5000)}`,
    '/task?queue=emails&id=1%20OR%201=1',
    '/task?queue=emails&id=-1',
    '/task?queue=emails&id=9223372036854775808',
    '/tasks?queue=emails&after=x',
    '/tasks?queue=emails&state=gone',
    '/tenants?queue=emails&order=id;--',
    '/tenants?queue=emails&rank=NaN&key=x',
    '/sessions?after=x',
    '/names',
    '/names?queue=emails&order=name',
    '/tasks?queue=emails&name=a&name=b',
    '/archive?queue=emails&time=1.5&id=1',
    '/whole?queue=emails&id=1&part=pg_authid',
  ];
  for (const path of bad) {
    assert.equal((await request(reading.base, path)).status, 400, path);
  }
  for (const name of ["'; DROP TABLE fairq.q_emails; --", 'emails"', 'q_emails', '%s', '../emails', 'EMAILS', '%ff']) {
    const { status, text } = await request(
      reading.base,
      `/queue?queue=${name === '%ff' ? name : encodeURIComponent(name)}`,
    );
    assert.equal(status, 404, name);
    assert.match(text, /There is no queue/);
  }
  assert.equal((await request(reading.base, '/task?queue=emails&id=9223372036854775807')).status, 404);
  assert.ok(Number((await row('SELECT count(*) FROM fairq.q_emails')).count) > 100);
});

test('every answer says what browsers may do with it', async () => {
  const { cookie } = await signIn(writing);
  const answers = [
    await request(reading.base, '/'),
    await request(reading.base, '/nothing'),
    await request(reading.base, '/style.css'),
    await request(reading.base, '/', { headers: { Host: 'evil.example' } }),
    await request(reading.base, '/whole?queue=emails&id=13'),
    await request(writing.base, '/', { headers: { Cookie: cookie } }),
  ];
  for (const { headers } of answers) {
    assert.match(
      headers['content-security-policy'],
      /^default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'$/,
    );
    assert.equal(headers['x-content-type-options'], 'nosniff');
    assert.equal(headers['x-frame-options'], 'DENY');
    assert.equal(headers['referrer-policy'], 'same-origin');
    assert.equal(headers['cross-origin-resource-policy'], 'same-origin');
    assert.equal(headers['access-control-allow-origin'], undefined);
    assert.equal(headers['x-powered-by'], undefined);
  }
  assert.equal(answers[0].headers['cache-control'], 'no-store');
  const head = await request(reading.base, '/', { method: 'HEAD' });
  assert.equal(head.status, 200);
  assert.equal(head.text, '');
});

test('pages read in transactions that cannot write, and end', async () => {
  // A page that waits for a lock shows the transaction it is in.
  await database.client.query('BEGIN');
  await database.client.query('LOCK TABLE fairq.q_emails IN ACCESS EXCLUSIVE MODE');
  const asked = request(reading.base, '/tasks?queue=emails');
  const { rows } = await database.client.query(`SELECT 1`);
  assert.equal(rows.length, 1);
  const answer = await asked;
  assert.equal(answer.status, 200);
  assert.match(answer.text, /locked just now/);
  await database.client.query('ROLLBACK');
  const { Database } = require('../../dist/dashboard/database.js');
  const own = new Database({ host: process.env.PGHOST, user: 'postgres', database: database.name });
  await assert.rejects(
    own.read((reader) => reader.rows("SELECT fairq.pause('emails')")),
    /read-only/,
  );
  await assert.rejects(
    own.read((reader) => reader.rows('SELECT pg_sleep(60)')),
    (error) => error.status === 503 && /longer than a page/.test(error.message),
  );
  await own.close();
  assert.equal(await paused(), false);
});

test('half a request, and much of one, do not hold up others', async () => {
  const sockets = [
    'GET / HTTP/1.1\r\nHost: ',
    `POST /sign-in HTTP/1.1\r\nHost: localhost:${reading.port}\r\nContent-Length: 1000000\r\n\r\nx`,
    'not http at all\r\n\r\n',
  ].map((text) => {
    const socket = net.connect(reading.port, '127.0.0.1');
    socket.on('error', () => undefined);
    socket.write(text);
    return socket;
  });
  await until(async () => (await request(reading.base, '/')).status === 200, 'a page beside them');
  sockets.forEach((socket) => socket.destroy());
  const large = await request(reading.base, '/', { headers: { Cookie: 'x'.repeat(20_000) } });
  assert.equal(large.status, 431);
  assert.equal((await request(reading.base, '/')).status, 200);
});
