/** A database of the size that LARGE=1 measures: what is in it, and the role that looks at it. */
'use strict';

const { newDatabase, newRole, until } = require('./support.js');

const TENANTS = 100_000;
const SUBGROUPS = 10_000;
const BATCH = 20_000;
const CLAIMED = 10_000;
const SESSIONS = 900;
const LEASES_EACH = 20;
/** Queues beside the large one, among which a search looks and a page chooses. */
const SMALL_QUEUES = 60;
const HISTORY_DAYS = 30;

/** What tasks of the queue `large` have where nothing else is said: of 900 names, one in ten has none. */
const COLUMNS = {
  payloads: "jsonb_build_object('n', n, 'to', 'user ' || n || '@example.com')",
  group_keys: `'tenant ' || n % ${TENANTS}`,
  unique_keys: "'key ' || n",
  names: "CASE WHEN n % 10 > 0 THEN 'name ' || n % 900 END",
};

/** Errors of 400 kinds, of which each has numbers that differ, with a trace behind the first line. */
const ERROR = `'KeyError: field ' || chr(97 + (n % 20)::int) || chr(97 + (n / 20 % 20)::int) || ' of order ' || n || repeat(E'\\n  at line 17 of handlers.py', 20)`;

/** Steps of building it, all on one connection. */
class Builder {
  constructor(client) {
    this.client = client;
    /** the number of the last task */
    this.last = 0;
  }

  async rows(sql, values) {
    return (await this.client.query(sql, values)).rows;
  }

  /** Enqueues so many tasks; `more` has expressions of the number n of a task, by arguments of enqueue_many. */
  async enqueue(tasks, more = {}, queue = 'large') {
    const columns = Object.entries({ ...COLUMNS, ...more }).map(([name, value]) => `${name} => array_agg(${value})`);
    const end = this.last + tasks;
    while (this.last < end) {
      const to = Math.min(end, this.last + BATCH);
      await this.rows(
        `SELECT cardinality(fairq.enqueue_many('${queue}', ${columns.join(', ')})) FROM generate_series($1::int, $2::int) n`,
        [this.last + 1, to],
      );
      this.last = to;
    }
  }

  /** Claims so many, and ends each with what is made of its receipts. */
  async end(tasks, how, queue = 'large') {
    for (let left = tasks; left > 0; left -= CLAIMED) {
      await this.rows(
        `SELECT count(*) FROM (SELECT array_agg(receipt) AS receipts, array_agg(${ERROR}) AS errors
            FROM (SELECT receipt, id AS n FROM fairq.claim($1, $2)) c) a, LATERAL ${how} x`,
        [queue, Math.min(left, CLAIMED)],
      );
    }
  }

  /** Dead ones, which are claimed before the others by their priority. */
  async die(tasks, more = {}) {
    await this.enqueue(tasks, { names: "'job ' || n % 300", priorities: '0::bigint', ...more });
    await this.end(tasks, 'fairq.nack_many(receipts, errors, final => true)');
  }

  /** The archive: 100,000 acknowledged, 20,000 cancelled, 20,000 dead, 5,000 expired. */
  async archive() {
    await this.rows(`SELECT fairq.enqueue('large', '{}', group_key => 'tenant 5', headers => '{"schedule": "schedule 7"}')
        FROM generate_series(1, 20)`);
    await this.enqueue(100_000);
    await this.end(100_020, 'fairq.ack_many(receipts)');
    await this.enqueue(20_000);
    await this.rows("SELECT count(*) FROM (SELECT fairq.cancel('large', id) FROM fairq.tasks('large', 'ready')) x");
    await this.die(20_000);
    await this.rows("SELECT count(*) FROM (SELECT fairq.cancel('large', id) FROM fairq.tasks('large', 'dead')) x");
    await this.rows(`SELECT fairq.enqueue('large', '{}', group_key => 'tenant ' || n, expires_at => now() + '1 s')
        FROM generate_series(1, 5000) n`);
    await until(
      async () => (await this.rows("SELECT expired_tasks = 5000 AS all FROM fairq.queue_stats WHERE queue = 'large'"))[0].all,
      'what expires has done so',
    );
  }

  /** 900,000 tasks in all states. The dead are at the front, in the middle, and of one tenant at the far end. */
  async tasks() {
    await this.die(25_000);
    await this.enqueue(400_000);
    await this.die(24_000);
    await this.enqueue(364_950);
    await this.enqueue(30_000, { group_keys: "'tenant 0'::text" });
    await this.enqueue(50, { group_keys: "repeat('a long key of a tenant ', 4) || n % 10" });
    await this.enqueue(50_000, { run_ats: "now() + n * '1 min'::interval" });
    await this.rows(`SELECT fairq.enqueue('large', '{}', group_key => 'tenant ' || n % 5000, after => ARRAY[id])
        FROM (SELECT id, row_number() OVER () AS n FROM fairq.tasks('large', 'scheduled') LIMIT 5000) s`);
    await this.die(1000, { group_keys: "'far'::text" });
  }

  /** 100,000 tasks of 10,000 subgroups: one tenant has half of them, and 500 have ten each. */
  async users() {
    const half = SUBGROUPS / 2;
    await this.enqueue(
      100_000,
      {
        group_keys: "CASE WHEN n % 2 = 0 THEN 'tenant 1' ELSE 'tenant ' || 2 + n / 2 % 500 END",
        subgroup_keys: `CASE WHEN n % 2 = 0 THEN 'user ' || n / 2 % ${half} ELSE 'user ' || n / 1000 % 10 END`,
      },
      'users',
    );
    await this.end(3000, 'fairq.nack_many(receipts, errors, final => true)', 'users');
    await this.end(3000, 'fairq.ack_many(receipts)', 'users');
    await this.rows("SELECT count(*) FROM fairq.claim('users', 1000, lease => '5 h')");
    await this.rows(`SELECT fairq.set_subgroup('users', 'tenant 1', 'user ' || n, weight => 2, max_leased => 5)
        FROM generate_series(1, 2000) n`);
  }

  /** 18,000 tasks in flight under 900 sessions, and 500 under none. */
  async leases() {
    await this.rows(`DO $$ DECLARE s uuid; BEGIN
        FOR n IN 1..${SESSIONS} LOOP
            s := fairq.open_session('worker ' || n, '5 h');
            PERFORM fairq.set_progress(receipt, '0.5') FROM fairq.claim('large', ${LEASES_EACH}, session => s);
        END LOOP; END $$`);
    await this.rows("SELECT count(*) FROM fairq.claim('large', 500, lease => '5 h')");
  }

  /** Settings of 5,000 tenants, 500 schedules none of which is due, topics, and the other queues. */
  async others() {
    await this.rows(`SELECT fairq.set_group('large', 'tenant ' || n, weight => 1 + n % 3, max_leased => 1000)
        FROM generate_series(1, 5000) n`);
    await this.rows(`SELECT fairq.schedule('schedule ' || n, 'large', '0 4 29 2 *', '{}', task_name => 'name 1')
        FROM generate_series(1, 500) n`);
    await this.rows(`SELECT fairq.create_queue('small ' || n), fairq.enqueue_many('small ' || n, array_fill('{}'::jsonb, ARRAY[10]))
        FROM generate_series(1, ${SMALL_QUEUES}) n`);
    await this.rows("SELECT fairq.subscribe('news', 'small ' || n) FROM generate_series(1, 20) n");
    await this.rows("SELECT fairq.publish('news', '{}', group_key => 'tenant ' || n) FROM generate_series(1, 100) n");
  }

  /** Minutes of 20 queues, in the table that a dashboard with --history has made. */
  async history() {
    await this.rows(`INSERT INTO pgfairq_dashboard.minute
        SELECT queue, at, 10, 1, 1, 1, 1, 2, 2, 2, 0, 0.5, 0.5
        FROM generate_series(date_trunc('minute', now()) - '${HISTORY_DAYS} days'::interval, now(), '1 min') at,
            (SELECT queue FROM fairq.queues ORDER BY queue LIMIT 20) q
        ON CONFLICT DO NOTHING`);
    await this.rows('VACUUM ANALYZE pgfairq_dashboard.minute');
  }
}

/** The database, its client, and what fills the table of minutes when there is one. */
async function fillLarge() {
  const database = await newDatabase();
  const builder = new Builder(database.client);
  await builder.rows(`SELECT fairq.create_queue('large', keep_done => '1 day', max_attempts => 2, max_ready => 500000,
        lease => '5 h'), fairq.create_queue('users', keep_done => '1 day', lease => '5 h', subgroups => true)`);
  for (const step of ['archive', 'tasks', 'users', 'leases', 'others']) {
    await builder[step]();
  }
  await builder.rows('VACUUM ANALYZE fairq.q_large, fairq.done_large, fairq.q_users, fairq.done_users');
  await newRole(
    database.client,
    'large_operator',
    'GRANT pg_monitor',
    'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA fairq',
  );
  await builder.rows('CREATE SCHEMA pgfairq_dashboard AUTHORIZATION large_operator');
  return { database, role: 'large_operator', days: HISTORY_DAYS, history: () => builder.history() };
}

module.exports = { fillLarge };
