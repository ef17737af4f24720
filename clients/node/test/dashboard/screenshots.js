/**
 * Makes the pictures of doc/dashboard.md: a database named shop with some work going on, for a minute. By hand:
 *
 *   PGHOST=… PGUSER=postgres node test/dashboard/screenshots.js ../../doc/images
 */
'use strict';

const path = require('node:path');
const { browser, connect, start, viewer } = require('./support.js');

const SECONDS = Number(process.env.SECONDS_OF_WORK ?? 60);
const SHOPS = [
  ['north & sons', 1, 9],
  ['bluebird', 4, 30],
  ['café Möwe', 1, 6],
  ['shop 42', 2, 14],
  ['harbour', 1, 3],
  ['zebra', 1, 2],
];

async function setUp(client) {
  await client.query(
    "SELECT fairq.create_queue('emails', keep_done => '1 day', max_attempts => 3, backoff_base => '0')",
  );
  await client.query("SELECT fairq.create_queue('invoices'), fairq.create_queue('thumbnails', lease => '2 min')");
  await client.query(
    "SELECT fairq.set_group('emails', 'bluebird', weight => 4), fairq.set_group('emails', 'shop 42', weight => 2)",
  );
  await client.query("SELECT fairq.set_group('emails', 'zebra', max_leased => 1, rate => 1)");
  await client.query(
    "SELECT fairq.schedule('nightly statement', 'invoices', '30 2 * * *', '{}', timezone => 'Europe/Berlin')",
  );
  await client.query(
    "SELECT fairq.enqueue('invoices', '{\"month\": \"may\"}', group_key => 'bluebird', delay => '3 h') FROM generate_series(1, 12)",
  );
}

/** Work that takes long, and tells how far it is. */
async function buildStatements(client) {
  await client.query(
    `SELECT fairq.enqueue('invoices', '{"month": "june"}', group_key => shop, name => 'build statement')
      FROM unnest('{bluebird,harbour,zebra}'::text[]) shop`,
  );
  await client.query(
    `SELECT fairq.set_progress(t.receipt, p.progress)
      FROM fairq.claim('invoices', 3, session => fairq.open_session('builder-1', '10 min')) WITH ORDINALITY t
        JOIN unnest(ARRAY['0.15', '{"done": 72, "total": 120}', '88']::jsonb[]) WITH ORDINALITY p(progress, place) ON p.place = t.ordinality`,
  );
}

/** Producers: bursts of some, a steady trickle of others. */
async function produce(client, tick) {
  for (const [shop, , most] of SHOPS) {
    const burst = (tick + most) % 20 < 6 ? 6 : 1;
    await client.query(
      `SELECT fairq.enqueue('emails', jsonb_build_object('to', 'customer' || n || '@example.com', 'order', $2::int * 100 + n), group_key => $1,
        name => (ARRAY['send receipt', 'send receipt', 'welcome', 'reset password'])[1 + (n + $2::int) % 4])
      FROM generate_series(1, $3::int) n`,
      [shop, tick, Math.ceil((most * burst) / 4)],
    );
  }
  await client.query(
    "SELECT fairq.enqueue('thumbnails', '{\"image\": 7}', group_key => 'shop 42') FROM generate_series(1, $1::int)",
    [tick % 3],
  );
}

/** A worker that takes a while for each, and fails for one address in forty. */
async function work(database, name, queue, state) {
  const client = await connect(database);
  await client.query(`SET application_name = '${name}'`);
  const {
    rows: [{ session }],
  } = await client.query("SELECT fairq.open_session($1, '20 s', bound => true) AS session", [name]);
  while (!state.over) {
    await client.query('SELECT fairq.heartbeat($1)', [session]);
    const { rows } = await client.query('SELECT id, receipt, payload FROM fairq.claim($1, 2, session => $2)', [
      queue,
      session,
    ]);
    await new Promise((resolve) => setTimeout(resolve, 90 + Math.random() * 120));
    for (const task of rows) {
      if (task.payload.order % 500 === 7) {
        const errors = [`SMTP 550: mailbox of ${task.payload.to} is not there`, "KeyError: 'to'\n  File \"mail.py\", line 12", 'Timeout after 10 s'];
        await client.query("SELECT fairq.nack($1, $2, delay => '0')", [task.receipt, errors[Number(task.id) % 3]]);
      } else {
        await client.query(`SELECT fairq.ack($1${queue === 'emails' ? ', \'{"sent": true}\'' : ''})`, [task.receipt]);
      }
    }
  }
  return client;
}

/** All of them at work, until it is over. */
function begin(database, client, state) {
  const workers = [1, 2, 3, 4].map((number) => work(database, `mailer-${number}`, 'emails', state));
  workers.push(work(database, 'resizer-1', 'thumbnails', state));
  const producing = (async () => {
    for (let tick = 0; !state.over; tick += 1) {
      await produce(client, tick);
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
  })();
  return Promise.all([...workers, producing]);
}

const PICTURES = [
  ['queues', '/', 'light', 420],
  ['queue', '/queue?queue=emails', 'light', 1000],
  ['queue-dark', '/queue?queue=emails', 'dark', 1000],
  ['tenants', '/tenants?queue=emails', 'light', 640],
  ['dead-dark', '/dead?queue=emails', 'dark', 640],
  ['in-flight', '/leases?queue=invoices', 'light', 420],
];

async function take(dashboard, directory) {
  for (const [picture, target, colorScheme, height] of PICTURES) {
    const chromium = await browser({ colorScheme, viewport: { width: 1200, height } });
    await chromium.page.goto(dashboard.base + target);
    await chromium.page.screenshot({ path: path.join(directory, `dashboard-${picture}.png`) });
    await chromium.close();
  }
}

async function main(directory) {
  const admin = await connect('postgres');
  await admin.query('DROP DATABASE IF EXISTS shop WITH (FORCE)');
  await admin.query('CREATE DATABASE shop');
  const client = await connect('shop');
  await client.query('CREATE EXTENSION pgfairq');
  await setUp(client);
  await buildStatements(client);
  await viewer(client);
  const dashboard = await start('shop', 'viewer');
  const state = { over: false };
  const working = begin('shop', client, state);
  await new Promise((resolve) => setTimeout(resolve, SECONDS * 1000));
  await take(dashboard, directory);
  state.over = true;
  await Promise.all((await working).map((one) => one?.end()));
  await dashboard.stop();
  await client.end();
  await admin.query('DROP DATABASE shop WITH (FORCE)');
  await admin.end();
}

main(process.argv[2] ?? path.join(__dirname, '../../../../doc/images')).catch((error) => {
  console.error(error);
  process.exit(1);
});
