'use strict';
// What an application has done around its tasks, and OpenTelemetry, with the real API and a provider of this file's.
// Seen to fail, each with its guard removed:
// - "in their order": WorkerHooks.run() that reduces from the left; without `before`; Worker.succeed() that tells no `after`;
//   WorkerHooks.tell() that does not wait for what was told of the task before
// - "harm no task": WorkerHooks.tell() without its catch
// - "before the worker ends": WorkerHooks.stop() that does not wait for what is under way
// - "ends run()": Worker.serve() without start()
// - "headers": Queue.hooked() that adds the tasks as they were
// - "one trace": openTelemetry() without inject; without extract; around() without context.with
// - "what the application says": what is injected goes before it

const test = require('node:test');
const assert = require('node:assert');
const { AsyncLocalStorage } = require('node:async_hooks');
const otel = require('@opentelemetry/api');
const { Queue, Unrecoverable, Worker } = require('pgfairq');
const { openTelemetry } = require('pgfairq/opentelemetry');
const { newQueue, until } = require('./support.js');

test('hooks are called in their order, around the handler', async (t) => {
  const { queue, start } = await newQueue(t, { maxAttempts: 1 });
  const told = [];
  const hooks = (who) => ({
    start: async (worker) => { told.push(`start ${who} ${worker.queues} ${worker.name}`); },
    around: async (task, context, next) => {
      told.push(`in ${who}`);
      try {
        return await next();
      } finally {
        told.push(`out ${who}`);
      }
    },
    before: async (task, { signal }) => { told.push(`before ${who} ${task.name} ${signal.aborted}`); },
    after: (task, result) => { told.push(`after ${who} ${task.name} ${result}`); },
    failed: (task, error) => { told.push(`failed ${who} ${task.name} ${error.message}`); },
    dead: (task, error) => { told.push(`dead ${who} ${task.name} ${error.message}`); },
    lost: (task, reason) => { told.push(`lost ${who} ${task.name} ${reason.name}`); },
    stop: (worker) => { told.push(`stop ${who} ${worker.queues}`); },
  });
  const worker = start({
    good: async () => { told.push('good'); return 5; },
    bad: async () => { throw new Unrecoverable('no'); },
    gone: async (task, { tx }) => { await tx.query('SELECT 1'); await queue.cancel(task.id); },
  }, { hooks: [hooks('a'), hooks('b')], name: 'w' });
  const around = (name) => ['in a', 'in b', `before a ${name} false`, `before b ${name} false`];
  for (const [name, end] of [['good', 'after b good 5'], ['bad', 'dead b bad no'], ['gone', 'lost b gone LeaseLost']]) {
    await queue.add(1, { name });
    await until(`the end of ${name} is told`, () => told.includes(end));
  }
  await worker.close();
  assert.deepStrictEqual(told, ['start a emails w', 'start b emails w',
    ...around('good'), 'good', 'out b', 'out a', 'after a good 5', 'after b good 5',
    ...around('bad'), 'out b', 'out a', 'failed a bad no', 'failed b bad no', 'dead a bad no', 'dead b bad no',
    ...around('gone'), 'out b', 'out a', 'lost a gone LeaseLost', 'lost b gone LeaseLost',
    'stop a emails', 'stop b emails']);
});

test('around gives the handler a scope, and what it returns', async (t) => {
  const { queue, start } = await newQueue(t, { keepDone: '1 h' });
  const scope = new AsyncLocalStorage();
  start(async (task) => `${scope.getStore()} ${task.data}`, {
    concurrency: 2, hooks: { around: (task, context, next) => scope.run(`scope of ${task.data}`, async () => `<${await next()}>`) },
  });
  const ids = await queue.addMany([{ data: 'x' }, { data: 'y' }]);
  const results = await Promise.all(ids.map((id) => queue.waitUntilFinished(id, { timeout: 100_000 })));
  assert.deepStrictEqual(results, ['<scope of x x>', '<scope of y y>']);
});

test('what before throws is an error of the attempt; the others harm no task', async (t) => {
  const { queue, start } = await newQueue(t, { maxAttempts: 1 });
  let called = 0;
  const boom = (name) => async () => { throw new Error(`of ${name}`); };
  const worker = start(async (task) => {
    called++;
    if (task.data === 'bad') throw new Error('no');
  }, { hooks: [
    { before: (task) => { if (task.data === 'refused') throw new Error('of before'); } },
    { after: boom('after'), failed: boom('failed'), dead: boom('dead'), stop: boom('stop') },
  ] });
  await queue.addMany([{ data: 'refused' }, { data: 'bad' }, { data: 'good' }]);
  await until('all have ended', () => worker.seen.dead.length === 2 && worker.seen.completed.length === 1);
  await worker.close();
  await worker.seen.running;
  assert.strictEqual(called, 2);
  assert.deepStrictEqual(worker.seen.failed.map(({ error }) => error.message), ['of before', 'no']);
  assert.deepStrictEqual(worker.seen.errors.map((error) => error.message).sort(),
    ['of after', 'of dead', 'of dead', 'of failed', 'of failed', 'of stop']);
});

test('what hooks still do is done before the worker ends', async (t) => {
  const { queue, rows, start } = await newQueue(t);
  const order = [];
  const after = async () => {
    await until('its session has ended', async () => (await rows('SELECT FROM fairq.sessions')).length === 0);
    for (let n = 0; n < 50; n++) await rows('SELECT 1'); // longer than the worker takes to end, were it not to wait
    order.push('after');
  };
  const worker = start(async () => {}, { hooks: { after, stop: () => { order.push('stop'); } } });
  await queue.add(1);
  await until('it is done', () => worker.seen.completed.length === 1);
  await worker.close();
  order.push('closed');
  assert.deepStrictEqual(order, ['after', 'stop', 'closed']);
});

test('what start throws ends run()', async (t) => {
  const { start } = await newQueue(t);
  let stopped = false;
  const worker = start(async () => {}, { hooks: { start: () => { throw new Error('not today'); }, stop: () => { stopped = true; } } });
  await assert.rejects(worker.seen.running, /not today/);
  assert.strictEqual(stopped, false);
});

test('headers that hooks write go with the tasks, whatever adds them', async (t) => {
  const { pool, queue } = await newQueue(t);
  const seen = [];
  const hooked = new Queue(pool, 'emails', { hooks: [
    { enqueue: async (tasks, next) => {
      for (const { headers, queue: to, name, data } of tasks) headers.by = [to, name ?? '', data].join(' ');
      const added = await next();
      seen.push(added);
      return added;
    } },
    { enqueue: (tasks, next) => next() },
  ] });
  await queue.subscribe('topic');
  const given = { own: 1 };
  const id = await hooked.add(1, { name: 'a', headers: given });
  const many = await hooked.addMany([{ data: 2 }, { data: 3, name: 'b' }]);
  await hooked.addBulk([{ name: 'c', data: 4 }]);
  await hooked.publish('topic', 5, { name: 'd' });
  await hooked.task('e').add(6);
  assert.deepStrictEqual((await queue.list()).map(({ headers }) => headers), [{ own: 1, by: 'emails a 1' }, { by: 'emails  2' }, { by: 'emails b 3' },
    { by: 'emails c 4' }, { by: 'topic d 5' }, { by: 'emails e 6' }]);
  assert.deepStrictEqual(given, { own: 1 });
  assert.deepStrictEqual(seen.slice(0, 2), [[id], many]);
  const idle = new Queue(pool, 'emails', { hooks: { enqueue: (tasks, next) => next() } });
  assert.strictEqual((await queue.get(await idle.add(7))).headers, null);
  const closed = new Queue(pool, 'emails', { hooks: { enqueue: async () => { throw new Error('not now'); } } });
  await assert.rejects(closed.add(8), /not now/);
  assert.strictEqual((await queue.counts()).ready, 7);
});

test('wrong hooks are refused', async (t) => {
  const { pool } = await newQueue(t);
  for (const make of [(hooks) => new Worker(pool, 'emails', async () => {}, { hooks }), (hooks) => new Queue(pool, 'emails', { hooks })]) {
    assert.throws(() => make(5), /hooks is 5; give an object with enqueue, start, around, before, after, failed, dead, lost, stop/);
    assert.throws(() => make([null]), /hooks is null/);
    assert.throws(() => make({ befor: () => {} }), /there is no hook "befor"; there are enqueue, start/);
    assert.throws(() => make([{ after: true }]), /the hook after is no function/);
  }
});

// --- OpenTelemetry --------------------------------------------------------------

/** A provider as the API has it, which keeps spans; a propagator of W3C's `traceparent`; a context that follows calls. */
function telemetry(t) {
  const spans = [];
  let number = 0;
  const hex = (length) => (++number).toString(16).padStart(length, '0');
  const tracer = {
    startSpan(name, options, context) {
      const parent = otel.trace.getSpanContext(context ?? otel.context.active());
      const own = { traceId: parent?.traceId ?? hex(32), spanId: hex(16), traceFlags: 1 };
      const span = { name, kind: options.kind, attributes: { ...options.attributes }, parent: parent?.spanId, ...own, exceptions: [], status: undefined, ended: 0 };
      spans.push(span);
      return {
        spanContext: () => own, isRecording: () => true,
        setAttribute: (key, value) => { span.attributes[key] = value; },
        recordException: (error) => { span.exceptions.push(error); },
        setStatus: (status) => { span.status = status; },
        end: () => { span.ended++; },
      };
    },
  };
  const storage = new AsyncLocalStorage();
  otel.context.setGlobalContextManager({
    active: () => storage.getStore() ?? otel.ROOT_CONTEXT,
    with: (context, call, that, ...values) => storage.run(context, () => call.call(that, ...values)),
    bind: (context, target) => target, enable() { return this; }, disable() { return this; },
  });
  otel.propagation.setGlobalPropagator({
    fields: () => ['traceparent', 'tracestate'],
    inject(context, carrier, setter) {
      const { traceId, spanId } = otel.trace.getSpanContext(context);
      setter.set(carrier, 'traceparent', `00-${traceId}-${spanId}-01`);
      setter.set(carrier, 'tracestate', 'test=1');
    },
    extract(context, carrier, getter) {
      const parts = /^00-([0-9a-f]{32})-([0-9a-f]{16})-01$/.exec(getter.get(carrier, 'traceparent'));
      return parts ? otel.trace.setSpanContext(context, { traceId: parts[1], spanId: parts[2], traceFlags: 1, isRemote: true }) : context;
    },
  });
  t.after(() => { otel.context.disable(); otel.propagation.disable(); });
  return { spans, hooks: openTelemetry({ tracerProvider: { getTracer: () => tracer } }) };
}

test('what adds a task and what works on it are in one trace, by traceparent and tracestate in its headers', async (t) => {
  const { pool, queue, start } = await newQueue(t, { maxAttempts: 2 });
  const { spans, hooks } = telemetry(t);
  const traced = new Queue(pool, 'emails', { hooks });
  const active = [];
  const root = otel.trace.setSpanContext(otel.ROOT_CONTEXT, { traceId: 'f'.repeat(32), spanId: 'e'.repeat(16), traceFlags: 1 });
  const id = await otel.context.with(root, () => traced.add(1, { name: 'good', group: 42 }));
  const { headers } = await queue.get(id);
  const [enqueue] = spans;
  assert.deepStrictEqual(headers, { traceparent: `00-${'f'.repeat(32)}-${enqueue.spanId}-01`, tracestate: 'test=1' });
  assert.deepStrictEqual([enqueue.name, enqueue.kind, enqueue.parent, enqueue.ended], ['enqueue good', otel.SpanKind.PRODUCER, 'e'.repeat(16), 1]);
  const worker = start(async (task, { tx, snooze }) => {
    active.push(otel.trace.getSpanContext(otel.context.active()).spanId);
    if (task.name === 'bad') throw new TypeError('no');
    if (task.name === 'snoozed' && task.headers.traceparent && active.length === 4) snooze(1);
    if (task.name === 'gone') { await tx.query('SELECT 1'); await queue.cancel(task.id); }
  }, { hooks });
  await until('it is done', () => worker.seen.completed.length === 1);
  const [, process] = spans;
  assert.deepStrictEqual([process.name, process.kind, process.traceId, process.parent, process.ended, active[0]],
    ['process good', otel.SpanKind.CONSUMER, 'f'.repeat(32), enqueue.spanId, 1, process.spanId]);
  assert.deepStrictEqual(process.attributes, {
    'messaging.system': 'pgfairq', 'messaging.operation.type': 'process', 'messaging.operation.name': 'process',
    'messaging.destination.name': 'emails', 'messaging.message.id': id, 'pgfairq.task.name': 'good', 'pgfairq.group': '42',
    'pgfairq.attempt': 1, 'pgfairq.outcome': 'done',
  });
  assert.deepStrictEqual(enqueue.attributes, {
    'messaging.system': 'pgfairq', 'messaging.operation.type': 'send', 'messaging.operation.name': 'enqueue', 'messaging.destination.name': 'emails',
    'messaging.batch.message_count': 1, 'pgfairq.task.name': 'good',
  });

  await traced.add(2, { name: 'bad' });
  await until('it is dead', () => worker.seen.dead.length === 1);
  const attempts = spans.filter((span) => span.attributes['pgfairq.task.name'] === 'bad' && span.kind === otel.SpanKind.CONSUMER);
  assert.deepStrictEqual(attempts.map((span) => [span.attributes['pgfairq.attempt'], span.attributes['pgfairq.outcome'], span.attributes['error.type'], span.status,
    span.exceptions.length, span.ended]),
    [1, 2].map((attempt) => [attempt, 'failed', 'TypeError', { code: otel.SpanStatusCode.ERROR, message: 'no' }, 1, 1]));
  assert.strictEqual(attempts[0].traceId, attempts[1].traceId);
  await traced.add(3, { name: 'snoozed' });
  await until('it is done', () => worker.seen.completed.length === 2);
  await traced.add(4, { name: 'gone' });
  await until('it is lost', () => worker.seen.lost.length === 1);
  const outcomes = (name) => spans.filter(({ kind, attributes }) => kind === otel.SpanKind.CONSUMER && attributes['pgfairq.task.name'] === name)
    .map(({ attributes, ended }) => [attributes['pgfairq.outcome'], ended]);
  assert.deepStrictEqual(outcomes('snoozed'), [['snoozed', 1], ['done', 1]]);
  assert.deepStrictEqual(outcomes('gone'), [['lost', 1]]);

  spans.length = 0;
  await traced.addMany([{ data: 1, name: 'a' }, { data: 2, name: 'b' }]);
  await assert.rejects(traced.add(1n), TypeError);
  assert.deepStrictEqual(spans.filter(({ kind }) => kind === otel.SpanKind.PRODUCER).map(({ attributes, status, ended }) =>
    [attributes['messaging.batch.message_count'], attributes['pgfairq.task.name'], status?.code, ended]),
  [[2, undefined, undefined, 1], [1, undefined, otel.SpanStatusCode.ERROR, 1]]);
});

test('what the application says of the trace goes before', async (t) => {
  const { pool, queue, start } = await newQueue(t);
  const { spans, hooks } = telemetry(t);
  const traceparent = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`;
  const id = await new Queue(pool, 'emails', { hooks }).add(1, { headers: { traceparent } });
  assert.strictEqual((await queue.get(id)).headers.traceparent, traceparent);
  await queue.addMany([{ data: 2, headers: { traceparent: 5 } }, { data: 3 }]); // nonsense, and of what has no tracing
  const worker = start(async () => {}, { hooks });
  await until('all are done', () => worker.seen.completed.length === 3);
  const attempts = spans.filter(({ kind }) => kind === otel.SpanKind.CONSUMER);
  assert.deepStrictEqual(attempts.map(({ parent }) => parent), ['b'.repeat(16), undefined, undefined]);
  assert.throws(() => openTelemetry({ tracer: 1 }), /openTelemetry\(\) has no option "tracer"; there are tracerProvider/);
});
