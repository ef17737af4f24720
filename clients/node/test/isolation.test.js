'use strict';
// One queue, row or hook that is bad harms no others. Seen to fail, each with its guard removed:
// - "is locked keeps no other", "no backend": Claims.open() without lock_timeout
// - "dropped, unfit or forbidden": Attendance.together() that asks about none alone; readSettings() that is always strict
// - "who is asked about": Attendance.together() that asks about none alone, or throws what it has found away
// - "that drains waits for a queue": claimUnder() that does not wait while one is recovering
// - "for no queue that is dropped": recovering() of all that are put off; claimUnder() that pauses in spite of `over`
// - "taken away ends no session": Session.look() that throws all errors
// - "waits for a row", "for a table": BOUND without a time
// - "whether a task is dead": DIED without BOUND
// - "no more is claimed": no queue is crowded; BOUND without a time; Settler.work() that tells nobody what it has set apart
// - "an error that passes": isPassing() that knows only lost connections
// - "waits for a row": Lane.work() that takes them in their order, whenever they are due
// - "when the worker closes": shutDown() without hurry()
// - "tried often": Lane.pause() that does not ask for the longest
// - "and no earlier": undone() that does nothing
// - "without its text", "for later", "after a pause", "whose delay is none": insteadOf() without that step
// - "a release that is refused": Lane.refused() that ends it
// - "from closing": Worker.inTime() that waits for the hooks; whenDrained() that does not look whether it closes

const test = require('node:test');
const assert = require('node:assert');
const { Queue, Snooze, Worker } = require('pgfairq');
const { Attendance } = require('../dist/attendance.js');
const { Settler } = require('../dist/settler.js');
const { atEnd, newQueue, poolOf, until, watch } = require('./support.js');

/** A second queue in the same database, and a worker of both. */
async function twoQueues(t, settings = {}, setup = '') {
  const made = await newQueue(t, settings, setup);
  const other = new Queue(made.pool, 'other');
  await other.create({ backoffBase: 0, ...settings });
  const done = (worker, name) => worker.seen.completed.filter(({ task }) => task.queue === name).length;
  return { ...made, other, done };
}

/** Something that is locked until `release` is called, at the end of the test at the latest. */
async function lock(t, pool, statement) {
  const client = await pool.connect();
  await client.query(`BEGIN; ${statement}`);
  let held = true;
  const release = async () => {
    if (!held) return;
    held = false;
    await client.query('ROLLBACK');
    client.release();
  };
  atEnd(t, release);
  return release;
}

/** Until `delete performance.now`. In Node 18 it cannot be assigned to. */
function setClock(now) {
  Object.defineProperty(performance, 'now', { value: now, configurable: true });
}

const LOCK_TABLE = 'LOCK TABLE fairq.q_emails IN ACCESS EXCLUSIVE MODE';
const putOff = (worker, name) => worker.seen.errors.filter(({ message }) => message.startsWith(`queue "${name}" is put off for `));
const says = (worker, pattern) => worker.seen.errors.some(({ message }) => pattern.test(message));

/** A gate for handlers, and how many have come to it. */
function gate() {
  const made = { waiting: 0 };
  const opened = new Promise((resolve) => { made.open = resolve; });
  made.pass = () => {
    made.waiting += 1;
    return opened;
  };
  return made;
}

// --- queues that are put off ----------------------------------------------------

test('a queue whose table is locked keeps no other from being claimed, and is taken back', async (t) => {
  const { pool, queue, other, start, done } = await twoQueues(t);
  await queue.add('locked');
  const release = await lock(t, pool, LOCK_TABLE);
  const worker = start(async () => {}, {}, ['emails', 'other']);
  for (let n = 1; n <= 3; n++) {
    await until('it is put off again', () => putOff(worker, 'emails').length >= n);
    await other.add(n);
    await until('the other is done', () => done(worker, 'other') === n);
  }
  assert.ok(putOff(worker, 'emails').every(({ message, cause }) => /lock timeout/.test(message) && cause.code === '55P03'));
  assert.deepStrictEqual([putOff(worker, 'other'), done(worker, 'emails')], [[], 0]);
  await release();
  await until('it is taken back', () => done(worker, 'emails') === 1);
  assert.deepStrictEqual(worker.attendance.present(), ['emails', 'other']);
});

test('a queue that is dropped, unfit or forbidden is put off, also when the worker connects anew', async (t) => {
  const { config, queue, other, rows, done } = await twoQueues(t);
  const role = `clerk_${process.pid}`;
  await rows(`CREATE ROLE ${role} LOGIN; GRANT USAGE ON SCHEMA fairq TO ${role};
    GRANT SELECT, UPDATE, DELETE ON fairq.q_emails, fairq.q_other TO ${role}`);
  atEnd(t, () => rows(`DROP OWNED BY ${role}; DROP ROLE ${role}`));
  const pool = poolOf({ ...config, user: role });
  atEnd(t, () => pool.end());
  const worker = new Worker(pool, ['emails', 'other'], async () => {});
  worker.seen = watch(worker);
  worker.run().catch(() => {});
  atEnd(t, () => worker.close({ timeout: 0 }));
  const refusals = [
    ['ALTER TABLE fairq.q_emails ADD COLUMN one int GENERATED ALWAYS AS (1) STORED', 'ALTER TABLE fairq.q_emails DROP COLUMN one', /as the table of a queue/],
    [`REVOKE UPDATE ON fairq.q_emails FROM ${role}`, `GRANT UPDATE ON fairq.q_emails TO ${role}`, /is put off .*(permission|UPDATE)/],
    ["SELECT fairq.drop_queue('emails')", `SELECT fairq.create_queue('emails'); GRANT SELECT, UPDATE, DELETE ON fairq.q_emails TO ${role}`, /"emails" does not exist/],
  ];
  await queue.add('before');
  await until('it is done', () => done(worker, 'emails') === 1);
  for (const [n, [spoil, mend, message]] of refusals.entries()) {
    worker.seen.errors.length = 0;
    await rows(spoil);
    await other.add('meanwhile');
    await until('it is put off', () => says(worker, message));
    await until('the other is done', () => done(worker, 'other') === 2 * n + 1);
    await rows(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '${role}'`);
    await other.add('after it has connected anew');
    await until('that is done', () => done(worker, 'other') === 2 * n + 2);
    assert.deepStrictEqual(putOff(worker, 'other'), []);
    await rows(mend);
    await queue.add('well');
    await until('it is taken back', () => done(worker, 'emails') === n + 2);
  }
});

test('no backend is left behind while a table is locked', async (t) => {
  const { pool, queue, rows, start } = await newQueue(t);
  await queue.add('x');
  const release = await lock(t, pool, LOCK_TABLE);
  const worker = start(async () => {});
  const waiting = async () => (await rows(`SELECT FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock' AND query ~ 'fairq.claim'`)).length;
  await until('it waits for the lock', async () => await waiting() === 1);
  await until('it does not wait any more', async () => await waiting() === 0);
  await until('it has tried again', () => putOff(worker, 'emails').length > 1);
  await release();
  await until('it is done', () => worker.seen.completed.length === 1);
  assert.ok(worker.seen.errors.every(({ message }) => /is put off/.test(message)));
});

test('who is asked about, and for how long others are not', async () => {
  const told = [];
  const crowded = new Set();
  const bad = new Map();
  const asked = [];
  const refusal = (code) => Object.assign(new Error(`no ${code}`), { code });
  const make = (others) => new Attendance(['a', 'b', 'c'], (queue) => crowded.has(queue), others, (error) => told.push(error.message));
  const ask = async (queues, alone) => {
    asked.push([queues.join(''), alone]);
    for (const queue of queues) if (bad.has(queue)) throw refusal(bad.get(queue));
    return queues;
  };
  let attendance = make(false);
  assert.deepStrictEqual(await attendance.together(ask), ['a', 'b', 'c']);
  assert.deepStrictEqual([attendance.pause(), attendance.dueIn()], [0, Infinity]);
  bad.set('b', '42704');
  assert.deepStrictEqual(await attendance.together(ask), ['a', 'c']);
  assert.deepStrictEqual(asked.splice(0), [['abc', false], ['abc', false], ['a', true], ['b', true], ['c', true]]);
  assert.match(told.splice(0).join('\n'), /^queue "b" is put off for [01]\.\d s: no 42704$/);
  assert.deepStrictEqual(await attendance.together(ask), ['a', 'c']);
  assert.ok(attendance.dueIn() > 0 && attendance.dueIn() <= 1000);
  assert.deepStrictEqual(await attendance.returning(ask), []); // not yet
  assert.deepStrictEqual(asked.splice(0), [['ac', false]]);

  const now = performance.now.bind(performance);
  let later = 0;
  setClock(() => now() + later);
  try {
    for (const most of [2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]) {
      later += attendance.dueIn() + 1;
      assert.deepStrictEqual(await attendance.returning(ask), []);
      assert.ok(attendance.dueIn() > most / 2 - 100 && attendance.dueIn() <= most, `${attendance.dueIn()} of ${most}`);
    }
    assert.strictEqual(told.splice(0).length, 7);
    later += 60_000;
    bad.clear();
    assert.deepStrictEqual(await attendance.returning(ask), ['b']);
    assert.deepStrictEqual(attendance.present(), ['a', 'b', 'c']);
  } finally {
    delete performance.now;
  }

  crowded.add('a'); // nothing is claimed of it until that is settled
  assert.deepStrictEqual([attendance.present(), attendance.dueIn()], [['b', 'c'], 1000]);
  crowded.add('b').add('c');
  assert.strictEqual(attendance.pause(), 1000);
  crowded.clear();

  for (const code of ['57014', '08006', 'ECONNRESET']) { // which say nothing of a queue
    bad.set('a', code);
    const answer = await attendance.together(ask).catch((error) => error.code);
    assert.deepStrictEqual(answer, code === '57014' ? [] : code);
  }
  assert.deepStrictEqual([told, attendance.present()], [[], ['a', 'b', 'c']]);

  const answer = await attendance.together(async (queues, alone) => {
    if (queues[0] === 'b') throw refusal('08006');
    return alone ? queues : Promise.reject(refusal('42704'));
  });
  assert.deepStrictEqual(answer, ['a']); // found before the connection was lost

  for (const queue of ['a', 'b', 'c']) bad.set(queue, '25006');
  assert.deepStrictEqual(await attendance.together(ask), []);
  assert.ok(attendance.pause() > 0);
  attendance = make(true);
  await assert.rejects(attendance.together(ask), /no 25006/); // another place may be better
});

test('a worker that drains waits for a queue that is locked, and asks no more often than it is to', async (t) => {
  const { pool, queue, other, done } = await twoQueues(t);
  await queue.add('locked');
  await other.add('free');
  const release = await lock(t, pool, LOCK_TABLE);
  const worker = new Worker(pool, ['emails', 'other'], async () => {});
  worker.seen = watch(worker);
  let asked = 0;
  const { together } = Attendance.prototype;
  t.mock.method(Attendance.prototype, 'together', function count(ask) {
    asked += 1;
    return together.call(this, ask);
  });
  const drained = worker.drain();
  drained.catch(() => {});
  atEnd(t, () => worker.close({ timeout: 0 }));
  await until('it is put off for the third time', () => putOff(worker, 'emails').length === 3);
  assert.ok(asked < 30, `asked ${asked} times`);
  assert.deepStrictEqual([done(worker, 'other'), done(worker, 'emails')], [1, 0]);
  await release();
  await drained;
  assert.strictEqual(done(worker, 'emails'), 1);
});

for (const queues of [['emails', 'other'], ['emails']]) {
  test(`a worker of ${queues.join(' and ')} that drains waits for no queue that is dropped`, async (t) => {
    const { pool, queue, rows } = await twoQueues(t);
    const end = gate();
    await queue.add('x');
    const worker = new Worker(pool, queues, () => end.pass());
    worker.seen = watch(worker);
    let drained = false;
    worker.drain().then(() => { drained = true; }, () => {});
    atEnd(t, () => worker.close({ timeout: 0 }));
    await until('it runs', () => end.waiting === 1);
    await rows("SELECT fairq.drop_queue('emails')");
    end.open();
    await until('it has drained the others', () => drained);
    assert.strictEqual(putOff(worker, 'emails').length, 1);
  });
}

test('a privilege that is taken away ends no session, and other queues are still looked at', async (t) => {
  const { config, queue, other, rows } = await twoQueues(t);
  const role = `keeper_${process.pid}`;
  await rows(`CREATE ROLE ${role} LOGIN; GRANT USAGE ON SCHEMA fairq TO ${role};
    GRANT SELECT, UPDATE, DELETE ON fairq.q_emails, fairq.q_other TO ${role}`);
  atEnd(t, () => rows(`DROP OWNED BY ${role}; DROP ROLE ${role}`));
  const pool = poolOf({ ...config, user: role });
  atEnd(t, () => pool.end());
  const end = gate();
  await queue.add('x');
  const id = await other.add('y');
  const worker = new Worker(pool, ['emails', 'other'], () => end.pass(), { concurrency: 2, ttl: 4000 });
  worker.seen = watch(worker);
  worker.run().catch(() => {});
  atEnd(t, () => worker.close({ timeout: 0 }));
  atEnd(t, end.open);
  await until('both run', () => end.waiting === 2);
  const { session } = worker;
  await rows(`REVOKE ALL ON fairq.q_emails FROM ${role}; CREATE TABLE began AS SELECT now() AS began`);
  await until('it has had heartbeats for longer than it lives', async () => !session.alive ||
    (await rows("SELECT FROM fairq.sessions, began WHERE alive_until > began + '10 s'")).length === 1);
  assert.deepStrictEqual([session.alive, worker.seen.lost], [true, []]);
  await other.cancel(id);
  await until('that is told', () => worker.seen.lost.length > 0);
  assert.deepStrictEqual([session.alive, worker.seen.lost.map(({ task }) => task.queue)], [true, ['other']]);
});

// --- settlements that wait --------------------------------------------------------

for (const what of ['row', 'table']) {
  test(`a settlement that waits for a ${what} holds up no other, and is made when it can`, async (t) => {
    const { pool, queue, other, start, done } = await twoQueues(t);
    const [held] = await queue.addMany([{ data: 'held' }, { data: 'beside' }]);
    await other.addMany([{ data: 1 }, { data: 2 }]);
    const end = gate();
    let begun = 0;
    const worker = start((task) => (begun++, task.data === 'later' ? null : end.pass()), { concurrency: 4, ttl: 600_000 }, ['emails', 'other']);
    await until('all run', () => end.waiting === 4);
    const release = await lock(t, pool, what === 'row' ? `SELECT FROM fairq.q_emails WHERE id = ${held} FOR UPDATE` : LOCK_TABLE);
    end.open(); // all four in one batch
    const locked = what === 'row' ? 1 : 2;
    await until('the others are done', () => worker.seen.completed.length === 4 - locked);
    assert.strictEqual(done(worker, 'other'), 2);
    await until('that it waits is told', () => says(worker, /^a settlement of queue "emails" has to wait, .*lock timeout/));
    await other.add('later');
    await until('that is done', () => done(worker, 'other') === 3);
    assert.strictEqual(done(worker, 'emails'), 2 - locked);
    await release();
    await until('all are done', () => done(worker, 'emails') === 2);
    assert.deepStrictEqual([begun, worker.seen.failed, worker.seen.lost], [5, [], []]);
  });
}

test('whether a task is dead is asked for without holding up settlements', async (t) => {
  const { pool, config, queue, other } = await twoQueues(t, { backoffBase: '1 h' });
  const single = poolOf(config, 1);
  atEnd(t, () => single.end());
  let release;
  const locking = new Proxy(single, {
    get(target, key) {
      const value = target[key];
      if (key !== 'query') return typeof value === 'function' ? value.bind(target) : value;
      return async (...parts) => {
        if (!release && /get_task/.test(parts[0].text)) release = await lock(t, pool, LOCK_TABLE);
        return target.query(...parts);
      };
    },
  });
  await queue.add('bad');
  const worker = new Worker(locking, ['emails', 'other'], async (task) => { if (task.data === 'bad') throw new Error('no'); });
  worker.seen = watch(worker);
  worker.run().catch(() => {});
  atEnd(t, () => worker.close({ timeout: 0 }));
  await until('it is asked for', () => release !== undefined);
  await other.add('good');
  await until('the other is done', () => worker.seen.completed.length === 1);
  await release();
  await until('nothing is asked any more', () => worker.inquiries.size === 0);
  assert.deepStrictEqual(worker.seen.dead, []);
});

test('of a queue whose settlements wait no more is claimed than are settled at a time', async (t) => {
  const { pool, queue, other, rows, start, done } = await twoQueues(t, { keepDone: '1 h' }, `
    CREATE FUNCTION one_at_a_time() RETURNS bool LANGUAGE sql AS 'SELECT pg_advisory_xact_lock(5); SELECT true'`);
  await rows('ALTER TABLE fairq.done_emails ADD CHECK (one_at_a_time())');
  const release = await lock(t, pool, 'SELECT pg_advisory_xact_lock(5)');
  await queue.addMany(Array.from({ length: 100 }, (_, n) => ({ data: n })));
  let begun = 0;
  const worker = start((task) => { begun += task.queue === 'emails' ? 1 : 0; }, { concurrency: 2, prefetch: 0, ttl: 600_000 }, ['emails', 'other']);
  await until('many wait', () => worker.place.settler.apart('emails') > 10);
  for (let n = 1; n <= 3; n++) {
    await other.add(n);
    await until('the other is done', () => done(worker, 'other') === n);
  }
  assert.ok(begun <= 2 * 11 + 3 * 2, `${begun} have begun`); // that wait apart, or for a batch; run, or are claimed
  await release();
  await until('all are done', () => done(worker, 'emails') === 100);
  assert.strictEqual(begun, 100);
});

test('a settlement is tried again when the server has undone the one that failed, and no earlier', async () => {
  const asked = [];
  let undo;
  const client = {
    on: () => {}, removeListener: () => {}, release: (lost) => asked.push(lost ? 'dropped' : 'released'),
    query: async ({ text }) => {
      asked.push(text === '' ? 'ready?' : 'settle');
      if (text === '') return new Promise((resolve) => { undo = resolve; });
      if (!undo) throw Object.assign(new Error('deadlock'), { code: '40P01' });
      return { rows: [['receipt']] };
    },
  };
  const settler = new Settler({ connect: async () => client }, false, 5000, () => {}, () => {});
  const settled = [];
  settler.add({ queue: 'q', receipt: 'receipt', verdict: { kind: 'ack', result: null }, alive: () => true, settled: (mine) => settled.push(mine) });
  await until('it has failed', () => undo !== undefined);
  for (let n = 0; n < 10; n++) await new Promise(setImmediate);
  assert.deepStrictEqual(asked, ['settle', 'ready?']);
  undo();
  await settler.idle();
  assert.deepStrictEqual([asked, settled], [['settle', 'ready?', 'released', 'settle', 'released'], [true]]);
});

/** Time stands still, but as `pass` says; timers go on. */
function freeze(t) {
  let now = performance.now();
  setClock(() => now);
  atEnd(t, () => { delete performance.now; });
  return { pass: (millis) => { now += millis; } };
}

/** A settler whose statements end with what `answers` has: a code, or a success; and one settlement in it. */
function settlerOf(t, verdict, answers) {
  const made = { asked: 0, settled: [], alive: true };
  const client = {
    on: () => {}, removeListener: () => {}, release: () => {},
    query: async ({ text }) => {
      if (text === '') return { rows: [] };
      const code = answers[made.asked++];
      if (code) throw Object.assign(new Error(`no ${code}`), { code });
      return { rows: [['receipt']] };
    },
  };
  made.tried = async (times) => {
    await until('it is tried', () => made.asked === times);
    for (let n = 0; n < 10; n++) await new Promise(setImmediate); // and the answer is there
  };
  made.settler = new Settler({ connect: async () => client }, false, 5000, () => {}, () => {});
  made.settler.add({ queue: 'q', receipt: 'receipt', verdict, alive: () => made.alive, settled: (mine) => made.settled.push(mine) });
  atEnd(t, () => {
    made.alive = false;
    made.settler.wake();
  });
  return made;
}

test('a settlement that waits is made when the worker closes, whenever it is due', async (t) => {
  const { pool, queue, start } = await newQueue(t);
  const id = await queue.add('x');
  const end = gate();
  const worker = start(end.pass, { ttl: 600_000 });
  await until('it runs', () => end.waiting === 1);
  const release = await lock(t, pool, `SELECT FROM fairq.q_emails WHERE id = ${id} FOR UPDATE`);
  freeze(t);
  end.open();
  await until('that it waits is told', () => says(worker, /has to wait/));
  await release();
  await worker.close();
  assert.deepStrictEqual([worker.seen.completed.length, await queue.get(id)], [1, null]);
});

test('settlements that wait are tried often while the worker closes', async (t) => {
  const time = freeze(t);
  const made = settlerOf(t, { kind: 'ack', result: null }, ['55P03', '55P03', '55P03']);
  await made.tried(2); // with the others, and apart
  made.settler.hurry();
  await made.tried(3);
  time.pass(201);
  await until('it is settled', () => made.settled.length === 1);
  assert.deepStrictEqual([made.asked, made.settled], [4, [true]]);
});

// --- settlements that are refused -------------------------------------------------

const MOOD = `CREATE TABLE mood (code text); INSERT INTO mood VALUES (NULL);
  CREATE FUNCTION in_mood() RETURNS bool LANGUAGE plpgsql AS $$
  DECLARE now text := (SELECT code FROM public.mood);
  BEGIN IF now IS NOT NULL THEN RAISE 'not in the mood' USING ERRCODE = now; END IF; RETURN true; END $$`;

test('an error that passes is no verdict: the settlement is tried again', async (t) => {
  const { queue, rows, start } = await newQueue(t, { keepDone: '1 h', maxAttempts: 1 }, MOOD);
  await rows('ALTER TABLE fairq.done_emails ADD CHECK (in_mood())');
  let begun = 0;
  const worker = start(async () => { begun++; }, { ttl: 600_000 });
  const codes = ['08P01', '40001', '40P01', '53100', '53400', '55P03', '57014', '58030', '25006'];
  for (const [n, code] of codes.entries()) {
    await rows('UPDATE mood SET code = $1', [code]);
    await queue.add(code);
    await until(`it was refused with ${code}`, () => worker.seen.errors.some((error) => (error.cause ?? error).code === code));
    await rows('UPDATE mood SET code = NULL');
    await until('it is done', () => worker.seen.completed.length === n + 1);
  }
  assert.deepStrictEqual([begun, worker.seen.failed, worker.seen.lost], [codes.length, [], []]);
});

test('a failure that the table refuses is counted without its text', async (t) => {
  const { queue, rows, start } = await newQueue(t, { backoffBase: '1 h' });
  await rows('ALTER TABLE fairq.q_emails ADD CHECK (last_error IS NULL)');
  await queue.addMany([{ data: 'bad' }, { data: 'good' }]);
  const worker = start(async (task) => { if (task.data === 'bad') throw new Error('no'); });
  await until('it has failed', () => worker.seen.failed.length === 1);
  await until('the other is done', () => worker.seen.completed.length === 1);
  assert.strictEqual(worker.seen.failed[0].error.message, 'no');
  assert.ok(says(worker, /check constraint/));
  const [task] = await queue.list();
  assert.deepStrictEqual([task.state, task.attempts, task.lastError], ['scheduled', 1, null]);
});

test('a task whose failure cannot be counted is given back for later', async (t) => {
  const { queue, rows, start } = await newQueue(t);
  await rows('ALTER TABLE fairq.q_emails ADD CHECK (attempts = 0)');
  await queue.add('bad');
  const worker = start(async () => { throw new Error('no'); });
  await until('it is told', () => worker.seen.lost.length === 1);
  assert.match(worker.seen.lost[0].reason.message, /was refused by the server, and the task is given back/);
  assert.strictEqual(worker.seen.lost[0].reason.cause.code, '23514');
  const [task] = await queue.list();
  assert.deepStrictEqual([task.state, task.attempts], ['scheduled', 0]);
  assert.ok(task.runAt - task.enqueuedAt > 50_000);
});

test('a task whose row takes no change at all is given back after a pause', async (t) => {
  const { queue, rows, start } = await newQueue(t);
  await queue.add('bad');
  await rows(`ALTER TABLE fairq.q_emails ADD CHECK (payload <> '"bad"') NOT VALID`);
  let bad = 0;
  const worker = start(async (task) => { if (task.data === 'bad' && ++bad === 1) throw new Error('no'); }, { ttl: 600_000 });
  await until('all was refused', () => worker.seen.errors.length === 3); // with its text, without, for later
  await queue.add('good');
  await until('the other is done', () => worker.seen.completed.length === 1);
  assert.deepStrictEqual([bad, (await queue.counts()).leased], [1, 1]);
  const now = performance.now.bind(performance);
  setClock(() => now() + 61_000);
  atEnd(t, () => { delete performance.now; });
  worker.place.settler.wake();
  await until('it is given back', () => worker.seen.lost.length === 1);
  await until('it runs again, and is done', () => worker.seen.completed.length === 2);
  assert.strictEqual(bad, 2);
});

test('a snooze whose delay is none is a failure', async (t) => {
  const { queue, start } = await newQueue(t, { maxAttempts: 1 });
  await queue.addMany([{ data: 'bad' }, { data: 'good' }]);
  const worker = start(async (task) => { if (task.data === 'bad') throw new Snooze('5 parsecs'); });
  await until('it has failed', () => worker.seen.dead.length === 1);
  await until('the other is done', () => worker.seen.completed.length === 1);
  assert.match((await queue.list({ state: 'dead' }))[0].lastError, /invalid input syntax for type interval: "5 parsecs"/);
});

test('a release that is refused is tried again, until the session ends', async (t) => {
  const time = freeze(t);
  for (const ends of [false, true]) {
    const made = settlerOf(t, { kind: 'back', after: 0, delay: '0' }, ['42501', '42501', '42501', ends ? '42501' : '']);
    for (const asked of [2, 3]) {
      await made.tried(asked);
      assert.deepStrictEqual(made.settled, []);
      made.alive = !(ends && asked === 3);
      time.pass(10_000);
      made.settler.wake();
    }
    await until('it is over', () => made.settled.length === 1);
    assert.deepStrictEqual([made.asked, made.settled], ends ? [3, [false]] : [4, [true]]);
  }
});

// --- hooks -------------------------------------------------------------------------

for (const name of ['start', 'stop']) {
  test(`hooks that never return keep no worker from closing: ${name}`, async (t) => {
    const { queue, start } = await newQueue(t);
    const never = gate();
    await queue.add('x');
    const worker = start(async () => {}, { hooks: name === 'start' ? { start: never.pass } : { after: never.pass, stop: never.pass } });
    atEnd(t, never.open);
    await until('a hook is called', () => never.waiting === 1);
    let closed = false;
    void worker.close({ timeout: 10 }).then(() => { closed = true; });
    await until('it is closed', () => closed);
    assert.ok(says(worker, /a hook has not returned/));
  });
}

test('a hook that never returns keeps no worker that drains from closing', async (t) => {
  const { pool, queue } = await newQueue(t);
  const never = gate();
  await queue.add('x');
  const worker = new Worker(pool, 'emails', async () => {}, { hooks: { after: never.pass } });
  worker.on('error', () => {});
  let drained = false;
  void worker.drain().then(() => { drained = true; });
  atEnd(t, never.open);
  await until('it is done', () => never.waiting === 1);
  void worker.close({ timeout: 10 });
  await until('it has ended', () => drained);
});
