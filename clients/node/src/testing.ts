import { AssertionError } from 'node:assert';
import { inspect, isDeepStrictEqual } from 'node:util';
import type { Connection, Queryable } from './database';
import { ErrorClass, FairqError, HandlerTimeout, LeaseLost, errorClasses, fail, snooze } from './errors';
import { Entry, Handler, HandlerTable, Handlers, timedOut } from './handlers';
import { Hooks, WorkerHooks, hooksOf } from './hooks';
import { NamedTask } from './named';
import type { CallOptions, Queue } from './queue';
import type { TaskContext } from './run';
import type { State, TaskStatus } from './status';
import { Task } from './task';
import type { TaskTransaction } from './transaction';
import { Duration, GroupKey, checkOptions, durationText, groupText, jsonText, wholeNumber } from './values';
import { verdictOf } from './verdict';
import { Worker, WorkerOptions } from './worker';

/** For the tests of an application. `testTask`, `testContext` and `runInline` need no server. */

// --- a task and a context -------------------------------------------------------

export interface TestTaskOptions {
  id?: string;
  queue?: string;
  name?: string;
  group?: GroupKey;
  subgroup?: GroupKey;
  attempt?: number;
  priority?: number;
  headers?: Record<string, unknown>;
  enqueuedAt?: Date;
  expiresAt?: Date;
}

const TASK_OPTIONS = ['id', 'queue', 'name', 'group', 'subgroup', 'attempt', 'priority', 'headers', 'enqueuedAt', 'expiresAt'];

/** A task as a handler gets it; its data has been JSON, as that of a queue. */
export function testTask<Data>(data: Data, options: TestTaskOptions = {}): Task<Data> {
  checkOptions('testTask()', options, TASK_OPTIONS);
  const millis = (date: Date | undefined): string | null => (date === undefined ? null : String(date.getTime()));
  return new Task<Data>(options.queue ?? 'test', [
    options.id ?? '1', groupText('the group of testTask()', options.group) ?? '', jsonText('the data of testTask()', data),
    options.headers === undefined ? null : jsonText('the headers of testTask()', options.headers),
    String(wholeNumber('the attempt of testTask()', options.attempt ?? 1, 1, 1_000_000)), String(options.priority ?? 4),
    millis(options.enqueuedAt ?? new Date()), millis(options.expiresAt), options.name ?? null,
    groupText('the subgroup of testTask()', options.subgroup) ?? null,
  ]);
}

/** A context as a handler gets it, and what the handler has done with it. */
export interface TestContext extends TaskContext {
  /** What was given to `progress`. */
  readonly progressed: unknown[];
  /** What was given to `extend`. */
  readonly extended: (Duration | undefined)[];
  /** Takes the task away from the handler: `signal` is aborted, and what asks the server throws. */
  lose(reason?: Error): void;
}

export interface TestContextOptions {
  /** What `tx` asks: a client with a transaction of the test's, or a stand-in. Without it `tx` throws. */
  tx?: Queryable;
}

export function testContext(options: TestContextOptions = {}): TestContext {
  checkOptions('testContext()', options, ['tx']);
  const controller = new AbortController();
  const { signal } = controller;
  const client = (): Queryable => {
    signal.throwIfAborted();
    if (!options.tx) throw new FairqError('this context has no transaction; give it one: { tx: client }');
    return options.tx;
  };
  const tx: TaskTransaction = {
    query: async (config: unknown, values?: unknown) => client().query(config, values),
    client: async () => client() as Awaited<ReturnType<TaskTransaction['client']>>,
  };
  const progressed: unknown[] = [];
  const extended: (Duration | undefined)[] = [];
  return {
    tx, signal, snooze, fail, progressed, extended,
    lose: (reason = new LeaseLost('the lease is lost')) => controller.abort(reason),
    progress: async (value) => {
      signal.throwIfAborted();
      progressed.push(JSON.parse(jsonText('the value of progress()', value)));
    },
    extend: async (lease) => {
      signal.throwIfAborted();
      durationText('the lease of extend()', lease);
      extended.push(lease);
      return new Date(Date.now() + (typeof lease === 'number' ? lease : 30_000));
    },
  };
}

// --- run inline -----------------------------------------------------------------

export interface InlineOptions extends TestTaskOptions, TestContextOptions {
  /** Hooks of a worker that the handler would have, but `start` and `stop`. What they throw is thrown. */
  hooks?: Hooks | readonly Hooks[];
  /** Those of the worker. */
  giveUpOn?: readonly ErrorClass[];
  /** With this many a failure is the last one. */
  maxAttempts?: number;
}

export interface InlineEnd<Result = unknown> {
  /** `failed`: it would be tried again. */
  outcome: 'done' | 'failed' | 'dead' | 'snoozed' | 'lost';
  /** As whoever waits for the task gets it. */
  result: Result | null;
  error: unknown;
  /** Until the next attempt; null: the queue's backoff, or there is none. */
  delay: string | null;
  progressed: unknown[];
}

/** Calls a handler as a worker would, tells the hooks, and says what would become of the task. */
export async function runInline<Data, Result>(handler: Handler<Data, Result> | NamedTask<Data, Result> | Handlers, data: Data,
  options: InlineOptions = {}): Promise<InlineEnd<Result>> {
  checkOptions('runInline()', options, [...TASK_OPTIONS, 'tx', 'hooks', 'giveUpOn', 'maxAttempts']);
  const { tx, hooks, giveUpOn, maxAttempts, ...of } = options;
  const named = handler instanceof NamedTask ? { queue: handler.queue.name, name: handler.name } : {};
  const task = testTask(data, { ...of, ...named });
  const table = new HandlerTable(handler instanceof NamedTask ? { [handler.name]: handler } : handler as Handler | Handlers, [task.queue]);
  const problems: unknown[] = [];
  const told = new WorkerHooks(hooksOf(hooks), (error) => problems.push(error));
  const classes = errorClasses('giveUpOn', giveUpOn ?? []);
  const context = testContext({ tx });
  const none = { result: null, error: undefined, delay: null, progressed: context.progressed };
  const work = async (): Promise<InlineEnd<Result>> => {
    let entry: Entry | undefined;
    try {
      const { call, timeout } = entry = table.find(task);
      const value = await inTime(timeout, task, context, async () => told.run(task, context, () => call(task, context)));
      if (context.signal.aborted) throw context.signal.reason;
      const result = value === undefined ? null : JSON.parse(jsonText('the result of the handler', value)) as Result;
      told.tell('after', task, value);
      return { ...none, outcome: 'done', result };
    } catch (thrown) {
      if (context.signal.aborted && !(context.signal.reason instanceof HandlerTimeout)) {
        told.tell('lost', task, thrown);
        return { ...none, outcome: 'lost', error: thrown };
      }
      const { verdict, error } = verdictOf(thrown, classes, entry, task);
      if (verdict.kind === 'release') return { ...none, outcome: 'snoozed', delay: verdict.delay };
      told.tell('failed', task, error);
      const dead = verdict.kind === 'final' || (maxAttempts !== undefined && task.attempt >= maxAttempts);
      if (dead) told.tell('dead', task, error);
      return { ...none, outcome: dead ? 'dead' : 'failed', error, delay: verdict.kind === 'nack' && !dead ? verdict.delay : null };
    }
  };
  const end = await work();
  await told.told();
  await table.close();
  if (problems.length > 0) throw problems[0];
  return end;
}

async function inTime<T>(timeout: number | undefined, task: Task, context: TestContext, work: () => Promise<T>): Promise<T> {
  if (timeout === undefined) return work();
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      const error = timedOut(task, timeout);
      context.lose(error);
      reject(error);
    }, timeout);
  });
  return Promise.race([work(), late]).finally(() => clearTimeout(timer));
}

// --- with a server --------------------------------------------------------------

/** What a worker did. */
export interface Drained {
  completed: { task: Task; result: unknown }[];
  failed: { task: Task; error: unknown }[];
  dead: { task: Task; error: unknown }[];
  lost: { task: Task; reason: Error }[];
}

/** Has a worker work until nothing can be claimed, and tells what it did. An error that concerns no task is thrown. */
export async function drain(connection: Connection, queues: string | readonly string[], handlers: Handler | Handlers,
  options: WorkerOptions = {}): Promise<Drained> {
  const worker = new Worker(connection, queues, handlers, { prefetch: 0, ...options });
  const drained: Drained = { completed: [], failed: [], dead: [], lost: [] };
  const errors: Error[] = [];
  worker.on('completed', (task, result) => drained.completed.push({ task, result }));
  worker.on('failed', (task, error) => drained.failed.push({ task, error }));
  worker.on('dead', (task, error) => drained.dead.push({ task, error }));
  worker.on('lost', (task, reason) => drained.lost.push({ task, reason }));
  worker.on('error', (error) => errors.push(error));
  await worker.drain();
  if (errors.length > 0) throw errors[0];
  return drained;
}

export interface Expected {
  name?: string;
  /** What its data has, or is; an object may have more. */
  data?: unknown;
  /** Likewise. */
  headers?: Record<string, unknown>;
  group?: GroupKey;
  subgroup?: GroupKey | null;
  priority?: number;
  /** Any, if not said. */
  state?: State;
  /** So many of these, in place of one or more. 0: none. */
  count?: number;
}

const EXPECTED = ['name', 'data', 'headers', 'group', 'subgroup', 'priority', 'state', 'count'];

/** That there are such tasks in the queue; returns them. With `client` also those of its transaction. */
export async function assertEnqueued<Data>(queue: Queue<Data> | NamedTask<Data>, expected: Expected = {}, options: CallOptions = {}):
  Promise<TaskStatus<Data>[]> {
  checkOptions('assertEnqueued()', expected, EXPECTED);
  const { count, ...wanted } = queue instanceof NamedTask ? { name: queue.name, ...expected } : expected;
  const of = queue instanceof NamedTask ? queue.queue as Queue<Data> : queue;
  if (count !== undefined) wholeNumber('the count of assertEnqueued()', count, 0, LOOKED_AT);
  const all = await of.list({ limit: LOOKED_AT, ...(wanted.name === undefined ? {} : { name: wanted.name }), ...options });
  const { group, subgroup, ...same } = wanted;
  const found = all.filter((task) => includes(task, same) &&
    (group === undefined || task.group === String(group)) &&
    (subgroup === undefined || task.subgroup === (subgroup === null ? null : String(subgroup))));
  if (count === undefined ? found.length > 0 : found.length === count) return found;
  throw new AssertionError({
    message: `${count === undefined ? 'no task is' : `${found.length} in place of ${count} tasks are`} enqueued in ${JSON.stringify(of.name)} with ` +
      `${inspect(wanted, { breakLength: Infinity })}${listed(count === undefined ? all : found)}`,
    expected: wanted, actual: found, operator: 'assertEnqueued',
  });
}

/** That there is no such task in the queue. */
export async function refuteEnqueued<Data>(queue: Queue<Data> | NamedTask<Data>, expected: Omit<Expected, 'count'> = {}, options: CallOptions = {}): Promise<void> {
  await assertEnqueued(queue, { ...expected, count: 0 }, options);
}

const LOOKED_AT = 10_000;
const SHOWN = 10;

function listed(tasks: readonly TaskStatus[]): string {
  if (tasks.length === 0) return '; there is none';
  const lines = tasks.slice(0, SHOWN).map(({ id, name, state, group, subgroup, data }) =>
    `\n  ${id} ${inspect({ name, data, group, subgroup, state }, { breakLength: Infinity })}`);
  return `; there are${lines.join('')}${tasks.length > SHOWN ? `\n  and ${tasks.length - SHOWN} more` : ''}`;
}

/** Whether a value has all that is expected: an object may have more. */
function includes(actual: unknown, expected: unknown): boolean {
  const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value);
  if (!isObject(expected) || !isObject(actual)) return isDeepStrictEqual(actual, expected);
  return Object.entries(expected).every(([key, value]) => includes(actual[key], value));
}
