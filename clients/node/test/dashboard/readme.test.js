/**
 * The examples of DASHBOARD.md run, in their order, and its table has the options that there are.
 */
'use strict';

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { after, before, test } = require('node:test');
const { newDatabase, request, runToEnd, signIn, until } = require('./support.js');

const PAGE = fs.readFileSync(path.join(__dirname, '../../DASHBOARD.md'), 'utf8');
const blocks = (language) =>
  [...PAGE.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\``, 'gms'))].map((one) => one[1]);
let database;

before(async () => {
  database = await newDatabase();
  await database.client.query("SELECT fairq.create_queue('emails')");
  await database.client.query("SELECT fairq.enqueue('emails', '{\"to\": \"ann\"}', group_key => 'shop 42')");
});

after(async () => {
  await database?.client.query('DROP OWNED BY dashboard').catch(() => undefined);
  await database?.client.end();
});

/** An npx that runs this tree's dashboard, whatever package it is told to take, at a free port. */
function npx() {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'npx-'));
  const main = path.join(__dirname, '../../dist/dashboard/main.js');
  fs.writeFileSync(
    path.join(directory, 'npx'),
    `#!/bin/sh\ncase $1 in --package=*) shift ;; esac\n[ "$1" = pgfairq-dashboard ] || exit 3\nshift\nexec "${process.execPath}" "${main}" --listen 0 "$@"\n`,
    { mode: 0o755 },
  );
  return directory;
}

async function run(block) {
  const command = block.split('\n').find((line) => line.startsWith('npx ')); // before it, the package is made
  const DATABASE_URL = `postgresql://dashboard@/${database.name}?host=${encodeURIComponent(process.env.PGHOST)}`;
  const child = spawn('/bin/sh', ['-c', `exec ${command}`], {
    env: { ...process.env, PATH: `${npx()}:${process.env.PATH}`, DATABASE_URL },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let output = '';
  child.stdout.on('data', (chunk) => (output += chunk));
  const ended = new Promise((resolve) => child.once('exit', resolve));
  await until(() => /\d\/\n/.test(output) || child.exitCode !== null, 'the address of the dashboard');
  return {
    base: /http:\/\/\S+(?=\/)/.exec(output)?.[0],
    token: /sign in: +(\S+)/.exec(output)?.[1],
    stop: () => (child.kill(), ended),
  };
}

test('the role, and the dashboard that reads as it', async () => {
  const [role] = blocks('sql');
  await database.client.query('DROP ROLE IF EXISTS dashboard');
  await database.client.query(role);
  const dashboard = await run(blocks('sh')[0]);
  const { text } = await request(dashboard.base, '/tasks?queue=emails');
  assert.match(text, /shop 42/);
  assert.equal(dashboard.token, undefined);
  assert.equal(await dashboard.stop(), 0);
});

test('the one that writes', async () => {
  const dashboard = await run(blocks('sh')[1]);
  const { cookie } = await signIn(dashboard);
  assert.match((await request(dashboard.base, '/', { headers: { Cookie: cookie } })).text, /can write/);
  assert.equal(await dashboard.stop(), 0);
});

test('the table has each option of --help, and none besides', () => {
  const options = (text) => [...new Set(text.match(/--[a-z-]+/g))].sort();
  const rows = PAGE.split('\n')
    .filter((line) => line.startsWith('| `--'))
    .map((line) => line.split('|')[1])
    .join(' ');
  assert.deepEqual(options(rows), options(runToEnd(['--help']).stdout));
  assert.equal(blocks('sh').length + blocks('sql').length, 3, 'every example is run above');
});
