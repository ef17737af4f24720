import {
  CreateSettings, GroupSettings, QueueSettings, alterQueue, createQueue, setGroup, setGroupDefaults, setSubgroup, setSubgroupDefaults,
} from './administration';
import { Connection, Database, Queryable, Row, Statement } from './database';
import { ENQUEUE, PUBLISH, TaskOptions, enqueueValues, manyValues, publishValues } from './enqueue';
import { FairqError, TaskFailed, WaitTimeout, isConnectionError } from './errors';
import type { Handler } from './handlers';
import { EnqueuedTask, Hooks, enqueueWith, hooksOf } from './hooks';
import { NamedTask, TaskDefinition } from './named';
import { SCHEDULE, SCHEDULES, Schedule, ScheduleOptions, scheduleOf, scheduleValues } from './schedules';
import { TASK_COLUMNS, Task } from './task';
import { STATUS_COLUMNS, State, TaskStatus, statusOf } from './status';
import {
  GroupKey, TaskId, checkOptions, dateOf, idText, milliseconds, namedGroup, namedSubgroup, numberOf, queueName, wholeNumber,
} from './values';
import { Backoff, sleep } from './waiting';

const COUNTS = new Statement(`SELECT ready, leased, scheduled, overflow, held, dead FROM fairq.queue_stats WHERE queue = $1`);
const STATS = new Statement(`SELECT enqueue_rate, claim_rate, ack_rate,
  extract(epoch FROM oldest_ready_age) * 1000, extract(epoch FROM wait_p50) * 1000, extract(epoch FROM wait_p95) * 1000,
  extract(epoch FROM wait_p99) * 1000, extract(epoch FROM run_p50) * 1000, extract(epoch FROM run_p95) * 1000,
  extract(epoch FROM run_p99) * 1000, enqueued, acked, nacked, dead_total FROM fairq.queue_stats WHERE queue = $1`);
const PEEK = new Statement(`SELECT ${TASK_COLUMNS} FROM fairq.peek($1, $2)`);
const GET = new Statement(`SELECT ${STATUS_COLUMNS} FROM fairq.get_task($1, $2)`);
const LIST = new Statement(`SELECT ${STATUS_COLUMNS} FROM fairq.tasks($1, $2, $3, $5) ORDER BY id LIMIT $4`);
const POSITION = new Statement(`SELECT (p).ahead, extract(epoch FROM (p).starts_at) * 1000, (p).exact, (p).state
  FROM (SELECT fairq.get_task_position($1, $2) AS p OFFSET 0) t`);
const OUTCOME = new Statement(`SELECT (o).state, (o).result, (o).last_error, extract(epoch FROM (o).done_at) * 1000
  FROM (SELECT fairq.await($1, $2, $3) AS o OFFSET 0) t`);

/** One round of a wait: its statement has a snapshot, which holds up vacuum. */
const WAIT_ROUND = 5000;

export interface QueueOptions {
  /** Named prepared statements; false behind a pooler in transaction mode. */
  prepare?: boolean;
  /** What is done around the calls that add tasks: `enqueue` of these. */
  hooks?: Hooks | readonly Hooks[];
}

export interface AddOptions extends TaskOptions {
  /** In the transaction of this client. */
  client?: Queryable;
}

/** Of the calls that change something. */
export interface CallOptions {
  /** In the transaction of this client. */
  client?: Queryable;
}

export type ManyOptions = CallOptions;

/** One of many tasks: its data, and beside it what `add` takes. */
export interface NewTask<Data = unknown> extends TaskOptions {
  data: Data;
}

/** One of many tasks as BullMQ has it. */
export interface BulkTask<Data = unknown> {
  name?: string;
  data: Data;
  opts?: TaskOptions;
}

export interface Counts {
  ready: number;
  leased: number;
  scheduled: number;
  overflow: number;
  held: number;
  dead: number;
}

/** Rates a second in the last minute; times in milliseconds, null while there are none; totals since the counting began. */
export interface Stats {
  enqueueRate: number;
  claimRate: number;
  ackRate: number;
  oldestReadyAge: number | null;
  wait: { p50: number | null; p95: number | null; p99: number | null };
  run: { p50: number | null; p95: number | null; p99: number | null };
  enqueued: number;
  acked: number;
  nacked: number;
  deadTotal: number;
}

export interface Position {
  state: State;
  ahead: number | null;
  startsAt: Date | null;
  exact: boolean;
}

/** How a task has ended; or its present state. */
export interface Outcome<Result = unknown> {
  state: 'acked' | 'cancelled' | 'expired' | State;
  result: Result | null;
  lastError: string | null;
  doneAt: Date | null;
}

/** A queue: adds tasks, looks at them, and administers them. */
export class Queue<Data = unknown, Result = unknown> {
  readonly name: string;
  private readonly database: Database;
  private readonly hooks: readonly Hooks[];

  constructor(connection: Connection, name: string, options: QueueOptions = {}) {
    checkOptions('Queue', options, ['prepare', 'hooks']);
    this.name = queueName(name);
    this.hooks = hooksOf(options.hooks).filter(({ enqueue }) => enqueue);
    this.database = new Database(connection, options.prepare ?? true);
  }

  /** Ends the connections, if the queue has made them itself. */
  async close(): Promise<void> {
    await this.database.close();
  }

  // --- adding -----------------------------------------------------------------

  /** Adds a task, and returns its id. With `client`, in its transaction: the task is there when that commits. */
  async add(data: Data, options: AddOptions = {}): Promise<string> {
    const [id] = await this.hooked(this.name, [{ data, options }], async ([task]) =>
      [await this.text(ENQUEUE, enqueueValues(this.name, data, task.options), options.client)]);
    return id;
  }

  /**
   * The tasks of a name, with types and options of their own. In place of a handler alone there are its
   * options, and for what adds tasks these without a handler.
   */
  task<TaskData = Data, TaskResult = Result>(name: string,
    definition?: Handler<TaskData, TaskResult> | TaskDefinition<TaskData, TaskResult>): NamedTask<TaskData, TaskResult> {
    return new NamedTask<TaskData, TaskResult>(this as unknown as Queue, name, definition);
  }

  /** Adds many in one statement, and returns their ids in the order given. */
  async addMany(tasks: readonly NewTask<Data>[], options: ManyOptions = {}): Promise<string[]> {
    checkOptions('addMany()', options, ['client']);
    return this.many(tasks.map(({ data, ...taskOptions }) => ({ data, options: taskOptions })), options.client);
  }

  /** `addMany`, for tasks as BullMQ has them. */
  async addBulk(tasks: readonly BulkTask<Data>[], options: ManyOptions = {}): Promise<string[]> {
    checkOptions('addBulk()', options, ['client']);
    return this.many(tasks.map((task) => {
      checkOptions('a task of addBulk()', task, ['name', 'data', 'opts']);
      return { data: task.data, options: { ...task.opts, ...(task.name === undefined ? {} : { name: task.name }) } };
    }), options.client);
  }

  private async many(tasks: readonly { data: unknown; options: TaskOptions }[], client?: Queryable): Promise<string[]> {
    if (tasks.length === 0) return [];
    return this.hooked(this.name, tasks, async (some) => {
      const { statement, values } = manyValues(this.name, some);
      const ids = new Array<string>(tasks.length);
      for (const [n, id] of await this.database.ask(statement, values, client)) ids[Number(n) - 1] = id as string;
      return ids;
    });
  }

  /** Adds the tasks with the headers that the hooks have put into them. */
  private async hooked<Options extends TaskOptions, T>(queue: string, tasks: readonly { data: unknown; options: Options }[],
    add: (tasks: readonly { data: unknown; options: Options }[]) => Promise<T>): Promise<T> {
    if (this.hooks.length === 0) return add(tasks);
    const shown = tasks.map(({ data, options }): EnqueuedTask => ({ queue, name: options.name, data, headers: { ...options.headers } }));
    return enqueueWith(this.hooks, shown, () => add(tasks.map(({ data, options }, n) => {
      const { headers } = shown[n];
      return { data, options: options.headers === undefined && Object.keys(headers).length === 0 ? options : { ...options, headers } };
    })));
  }

  /** Adds a task to each queue that has subscribed to the topic; returns to how many. */
  async publish(topic: string, data: unknown, options: AddOptions = {}): Promise<number> {
    return this.hooked(topic, [{ data, options }], async ([task]) =>
      Number(await this.text(PUBLISH, publishValues(topic, data, task.options), options.client)));
  }

  async subscribe(topic: string, options: CallOptions = {}): Promise<void> {
    await this.call('subscribe', [topic, this.name], options);
  }

  async unsubscribe(topic: string, options: CallOptions = {}): Promise<boolean> {
    return await this.call('unsubscribe', [topic, this.name], options) === 't';
  }

  // --- looking ----------------------------------------------------------------

  /** How many tasks there are in each state. */
  async counts(): Promise<Counts> {
    const [ready, leased, scheduled, overflow, held, dead] = (await this.oneRow(COUNTS)).map(Number);
    return { ready, leased, scheduled, overflow, held, dead };
  }

  async stats(): Promise<Stats> {
    const row = await this.oneRow(STATS);
    const quantiles = (at: number): Stats['wait'] =>
      ({ p50: numberOf(row[at]), p95: numberOf(row[at + 1]), p99: numberOf(row[at + 2]) });
    return {
      enqueueRate: Number(row[0]), claimRate: Number(row[1]), ackRate: Number(row[2]), oldestReadyAge: numberOf(row[3]),
      wait: quantiles(4), run: quantiles(7),
      enqueued: Number(row[10]), acked: Number(row[11]), nacked: Number(row[12]), deadTotal: Number(row[13]),
    };
  }

  /** What would be claimed next, in order. */
  async peek(limit = 10): Promise<Task<Data>[]> {
    const rows = await this.database.ask(PEEK, [this.name, wholeNumber('the limit of peek()', limit, 1, 100_000)]);
    return rows.map((row) => new Task<Data>(this.name, row));
  }

  /** A task in whatever state; null if there is none, which is also when it is done. */
  async get(id: TaskId, options: CallOptions = {}): Promise<TaskStatus<Data> | null> {
    checkOptions('get()', options, ['client']);
    const [row] = await this.database.ask(GET, [this.name, idText('the id of get()', id)], options.client);
    return row ? statusOf<Data>(this.name, row) : null;
  }

  /** Tasks by state, group and name, by id. Reads the whole table of the queue. */
  async list(options: { state?: State; group?: GroupKey; name?: string; limit?: number } & CallOptions = {}): Promise<TaskStatus<Data>[]> {
    checkOptions('list()', options, ['state', 'group', 'name', 'limit', 'client']);
    const rows = await this.database.ask(LIST, [this.name, options.state ?? null,
      options.group === undefined ? null : namedGroup('the group of list()', options.group),
      wholeNumber('the limit of list()', options.limit ?? 100, 1, 1_000_000), options.name ?? null], options.client);
    return rows.map((row) => statusOf<Data>(this.name, row));
  }

  /** How many tasks are ahead of one, and about when it will start. */
  async position(id: TaskId): Promise<Position | null> {
    const [row] = await this.database.ask(POSITION, [this.name, idText('the id of position()', id)]);
    if (!row || row[3] === null) return null;
    return { state: row[3] as State, ahead: numberOf(row[0]), startsAt: dateOf(row[1]), exact: row[2] === 't' };
  }

  /**
   * How the task has ended, as soon as it has, or after the time its present state; null if there is
   * none. The wait keeps a connection of the pool. Results are kept by queues with `keepDone`.
   */
  async outcome(id: TaskId, options: { timeout?: number } = {}): Promise<Outcome<Result> | null> {
    checkOptions('outcome()', options, ['timeout']);
    const until = performance.now() + milliseconds('timeout', options.timeout ?? 0, 0);
    const backoff = new Backoff();
    const task = idText('the id of outcome()', id);
    for (;;) {
      const left = Math.max(0, until - performance.now());
      try {
        const outcome = await this.lookAtOutcome(task, Math.min(left, WAIT_ROUND));
        if (!outcome || ENDED.has(outcome.state) || left <= WAIT_ROUND) return outcome;
      } catch (error) { // the server may be starting again
        if (!isConnectionError(error) || left === 0) throw error;
        await sleep(Math.min(backoff.next(), left));
      }
    }
  }

  /** The result of a task that is acknowledged in time; else an error that says what became of it. */
  async waitUntilFinished(id: TaskId, options: { timeout?: number } = {}): Promise<Result | null> {
    const timeout = options.timeout ?? 30_000;
    const outcome = await this.outcome(id, { ...options, timeout });
    const text = String(id);
    if (!outcome) throw new TaskFailed(`there is no task ${text} in queue ${this.name}, or its end is not remembered: keepDone`, text, 'unknown');
    if (outcome.state === 'acked') return outcome.result;
    if (!ENDED.has(outcome.state)) throw new WaitTimeout(`task ${text} is ${outcome.state} after ${timeout} ms`);
    throw new TaskFailed(`task ${text} is ${outcome.state}`, text, outcome.state, outcome.lastError);
  }

  private async lookAtOutcome(id: string, timeout: number): Promise<Outcome<Result> | null> {
    const [[state, result, lastError, doneAt]] = await this.database.ask(OUTCOME, [this.name, id, `${timeout.toFixed(3)} ms`]);
    if (state === null) return null;
    return {
      state: state as Outcome['state'], lastError, doneAt: dateOf(doneAt),
      result: result === null ? null : JSON.parse(result) as Result,
    };
  }

  // --- changing what is there ---------------------------------------------------

  /** Removes a task in whatever state; a worker that has it is told. */
  async cancel(id: TaskId, options: CallOptions = {}): Promise<boolean> {
    return await this.call('cancel', [this.name, idText('the id of cancel()', id)], options) === 't';
  }

  /** Makes a dead task ready again, with all its attempts. */
  async revive(id: TaskId, options: CallOptions = {}): Promise<boolean> {
    return await this.call('revive', [this.name, idText('the id of revive()', id)], options) === '1';
  }

  async reviveGroup(group: GroupKey, options: CallOptions = {}): Promise<number> {
    return Number(await this.call('reviveGroup', [this.name, namedGroup('the group of reviveGroup()', group)], options));
  }

  async reviveAll(options: CallOptions = {}): Promise<number> {
    return Number(await this.call('reviveAll', [this.name], options));
  }

  /** Removes all tasks that are not leased; how many. */
  async purge(options: CallOptions = {}): Promise<number> {
    return Number(await this.call('purge', [this.name], options));
  }

  async purgeGroup(group: GroupKey, options: CallOptions = {}): Promise<number> {
    return Number(await this.call('purgeGroup', [this.name, namedGroup('the group of purgeGroup()', group)], options));
  }

  async pause(options: CallOptions = {}): Promise<void> {
    await this.call('pause', [this.name], options);
  }

  async resume(options: CallOptions = {}): Promise<void> {
    await this.call('resume', [this.name], options);
  }

  async pauseGroup(group: GroupKey, options: CallOptions = {}): Promise<void> {
    await this.call('pauseGroup', [this.name, namedGroup('the group of pauseGroup()', group)], options);
  }

  async resumeGroup(group: GroupKey, options: CallOptions = {}): Promise<void> {
    await this.call('resumeGroup', [this.name, namedGroup('the group of resumeGroup()', group)], options);
  }

  /** Weight and limits of a group. */
  async setGroup(group: GroupKey, settings: GroupSettings, options: CallOptions = {}): Promise<void> {
    await this.set(setGroup(this.name, namedGroup('the group of setGroup()', group), settings), options);
  }

  /** Takes all of that away, a pause included. */
  async resetGroup(group: GroupKey, options: CallOptions = {}): Promise<boolean> {
    return await this.call('resetGroup', [this.name, namedGroup('the group of resetGroup()', group)], options) === 't';
  }

  async setGroupDefaults(settings: GroupSettings, options: CallOptions = {}): Promise<void> {
    await this.set(setGroupDefaults(this.name, settings), options);
  }

  /** Of a group. The subgroup of tasks that have none is `''`. */
  async pauseSubgroup(group: GroupKey, subgroup: GroupKey, options: CallOptions = {}): Promise<void> {
    await this.call('pauseSubgroup', [this.name, ...namedSubgroup('pauseSubgroup()', group, subgroup)], options);
  }

  async resumeSubgroup(group: GroupKey, subgroup: GroupKey, options: CallOptions = {}): Promise<void> {
    await this.call('resumeSubgroup', [this.name, ...namedSubgroup('resumeSubgroup()', group, subgroup)], options);
  }

  /** Weight and limits of a subgroup within its group. */
  async setSubgroup(group: GroupKey, subgroup: GroupKey, settings: GroupSettings, options: CallOptions = {}): Promise<void> {
    await this.set(setSubgroup(this.name, ...namedSubgroup('setSubgroup()', group, subgroup), settings), options);
  }

  /** Takes all of that away, a pause included. */
  async resetSubgroup(group: GroupKey, subgroup: GroupKey, options: CallOptions = {}): Promise<boolean> {
    return await this.call('resetSubgroup', [this.name, ...namedSubgroup('resetSubgroup()', group, subgroup)], options) === 't';
  }

  /** Of subgroups that have none of their own, whatever their group. */
  async setSubgroupDefaults(settings: GroupSettings, options: CallOptions = {}): Promise<void> {
    await this.set(setSubgroupDefaults(this.name, settings), options);
  }

  // --- schedules ----------------------------------------------------------------

  /** Adds a task at each tick of a clock: cron, or `@every 10 min`. The same call again changes nothing. Returns the next tick. */
  async schedule(name: string, cron: string, options: ScheduleOptions & CallOptions = {}): Promise<Date | null> {
    return dateOf(await this.text(SCHEDULE, scheduleValues(this.name, name, cron, options), options.client));
  }

  async unschedule(name: string, options: CallOptions = {}): Promise<boolean> {
    return await this.call('unschedule', [name], options) === 't';
  }

  /** Those of this queue. */
  async schedules(): Promise<Schedule[]> {
    return (await this.database.ask(SCHEDULES, [this.name])).map(scheduleOf);
  }

  // --- the queue itself -----------------------------------------------------------

  /** Makes the queue in the database; `ifNotExists` leaves one that is there as it is. */
  async create(settings: CreateSettings = {}, options: CallOptions = {}): Promise<void> {
    await this.set(createQueue(this.name, settings), options);
  }

  async alter(settings: QueueSettings, options: CallOptions = {}): Promise<void> {
    await this.set(alterQueue(this.name, settings), options);
  }

  /** With all its tasks; false if there is none. */
  async drop(options: CallOptions = {}): Promise<boolean> {
    return await this.call('dropQueue', [this.name], options) === 't';
  }

  // --- asking ---------------------------------------------------------------------

  private async oneRow(statement: Statement): Promise<Row> {
    const [row] = await this.database.ask(statement, [this.name]);
    if (!row) throw new FairqError(`there is no queue ${JSON.stringify(this.name)}, or this role may not read it`);
    return row;
  }

  private async text(statement: Statement, values: unknown[], client?: Queryable): Promise<string> {
    const [[value]] = await this.database.ask(statement, values, client);
    return value as string;
  }

  /** Calls the server's function of the same name. */
  private async call(method: string, values: unknown[], options: CallOptions): Promise<string> {
    checkOptions(`${method === 'dropQueue' ? 'drop' : method}()`, options, ['client']);
    const name = method.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    const parameters = values.map((_, n) => `$${n + 1}`).join(', ');
    return this.text(new Statement(`SELECT fairq.${name}(${parameters})`), values, options.client);
  }

  private async set({ statement, values }: { statement: Statement; values: unknown[] }, options: CallOptions): Promise<void> {
    checkOptions('the last argument', options, ['client']);
    await this.database.ask(statement, values, options.client);
  }
}

const ENDED = new Set(['acked', 'dead', 'cancelled', 'expired']);
