/**
 * A database with known content: queues in every state, tenants that differ, and names, payloads and
 * errors that are written to do harm.
 */
'use strict';

/** What hostile tenants write. None of it may be anything but text. */
const HOSTILE = {
  script: '<script>document.title="owned"</script>',
  image: '<img src=x onerror="document.title=\'owned\'">',
  attribute: '" onmouseover="document.title=\'owned\'" x="',
  quote: "'; DROP TABLE fairq.q_emails; --",
  close: '</td></table></main><h1>owned</h1>',
  entity: '&lt;b&gt; &amp; &#x27; &quot;',
  rtl: 'abc\u202Egnp.exe\u2066\u200F',
  hebrew: 'דייר 7',
  controls: 'a\u0001b\u001bc\u007fd\u0085e\u2028f',
  escapes: '\\u0000 %00 \\x00 ${7*7} {{7*7}} %s %n',
  backtick: '`${document.title="owned"}`',
  newline: 'first\nsecond\r\nthird',
  emoji: '🦊 — ñ',
};

const LONG = 'x'.repeat(9000) + '<b>end</b>';
/**
 * Keys that are longer than what the engine shows, and begin alike. Of the last two it shows 45 bytes, for there a
 * character ends, and three dots: as long as a key that is shown whole.
 */
const LONG_GROUPS = [`${'g'.repeat(60)}<i>`, `${'g'.repeat(60)}<b>`, `g${'🦊'.repeat(12)}1`, `g${'🦊'.repeat(12)}2`];
const HOSTILE_QUEUE = '<b>"q\'&`</b>';

/** The latest statement of a test's set-up; each is one query. */
async function fill(client) {
  const run = async (sql, values) => (await client.query(sql, values)).rows;
  await run("SELECT fairq.create_queue('emails', keep_done => '1 day', max_attempts => 2, backoff_base => '0')");
  await run("SELECT fairq.create_queue('reports')");
  await run('SELECT fairq.create_queue($1, keep_done => $2, max_attempts => 1)', [HOSTILE_QUEUE, '1 day']);

  // the archive: twelve done tasks of ann, with results
  for (let n = 1; n <= 12; n += 1) {
    await run("SELECT fairq.enqueue('emails', $1::jsonb, group_key => 'ann', name => 'greet')", [JSON.stringify({ done: n })]);
  }
  await run(`DO $$ DECLARE t record; BEGIN
        FOR t IN SELECT * FROM fairq.claim('emails', 12) LOOP PERFORM fairq.ack(t.receipt, to_jsonb('result ' || t.id)); END LOOP; END $$`);

  // the dead: five of bob, by two attempts each
  for (let n = 1; n <= 5; n += 1) {
    await run("SELECT fairq.enqueue('emails', $1::jsonb, group_key => 'bob', name => 'remind')", [JSON.stringify({ fails: n })]);
  }
  for (let attempt = 1; attempt <= 2; attempt += 1) {
    await run(`DO $$ DECLARE t record; BEGIN
            FOR t IN SELECT * FROM fairq.claim('emails', 5) LOOP PERFORM fairq.nack(t.receipt, 'no such mailbox: ' || t.id, delay => '0'); END LOOP; END $$`);
  }

  // what waits: 30 of ann, 20 of bob (weight 3), 60 of carol (limited), one without a group
  await run(
    "SELECT fairq.set_group('emails', 'bob', weight => 3), fairq.set_group('emails', 'carol', max_leased => 1, rate => 5, burst => 10)",
  );
  await run(`SELECT fairq.enqueue('emails', jsonb_build_object('to', g || n || '@example.com'), group_key => g)
        FROM (VALUES ('ann', 30), ('bob', 20), ('carol', 60)) v(g, most), generate_series(1, most) n`);
  await run('SELECT fairq.enqueue(\'emails\', \'{"to": "nobody"}\')');
  await run(
    "SELECT fairq.enqueue('emails', '{\"later\": true}', group_key => 'ann', delay => '1 h') FROM generate_series(1, 3)",
  );
  const [{ first }] = await run(
    "SELECT fairq.enqueue('emails', '{\"step\": 1}', group_key => 'dora', unique_key => 'order 42') AS first",
  );
  await run("SELECT fairq.enqueue('emails', '{\"step\": 2}', group_key => 'dora', after => ARRAY[$1::bigint])", [
    first,
  ]);
  await run("SELECT fairq.enqueue('emails', $1::jsonb, group_key => 'erin')", [JSON.stringify({ long: LONG })]);

  // what is hostile: waiting and dead, in both queues
  const texts = Object.values(HOSTILE);
  for (const text of texts) {
    await run("SELECT fairq.enqueue('emails', $1::jsonb, group_key => $2, unique_key => $2, name => $2, headers => $3::jsonb)", [
      JSON.stringify({ text }),
      text,
      JSON.stringify({ text }),
    ]);
    await run('SELECT fairq.enqueue($1, $2::jsonb, group_key => $3, name => $3)', [
      HOSTILE_QUEUE,
      JSON.stringify({ text }),
      text,
    ]);
    const [{ session }] = await run('SELECT fairq.open_session($1) AS session', [text]);
    await run('SELECT fairq.nack(receipt, error => $2) FROM fairq.claim($1, 1, session => $3)', [
      HOSTILE_QUEUE,
      text,
      session,
    ]);
    await run('SELECT fairq.close_session($1)', [session]);
  }
  for (const group of LONG_GROUPS) {
    await run("SELECT fairq.enqueue($1, '{}', group_key => $2)", [HOSTILE_QUEUE, group]);
  }

  // schedules, one of which fails
  await run(
    "SELECT fairq.schedule('nightly', 'reports', '30 2 * * *', '{\"all\": true}', timezone => 'Europe/Berlin')",
  );
  await run("SELECT fairq.schedule($1, 'reports', '@hourly', active => false, task_name => $1)", [HOSTILE.script]);
  return { first };
}

/** Work in progress: a session with some leases. */
async function work(client) {
  const { rows } = await client.query("SELECT fairq.open_session('mailer <1>', '10 min') AS session");
  const session = rows[0].session;
  const claimed = await client.query("SELECT id, group_key FROM fairq.claim('emails', 9, session => $1::uuid)", [
    session,
  ]);
  return { session, claimed: claimed.rows };
}

module.exports = { HOSTILE, HOSTILE_QUEUE, LONG, LONG_GROUPS, fill, work };
