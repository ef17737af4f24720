import {
  CreateSettings, GroupSettings, QueueSettings, alterQueue, createQueue, setGroup, setGroupDefaults, setSubgroup, setSubgroupDefaults,
} from './administration';
import { Connection, Database, Queryable, Row, Statement } from './database';
import { ENQUEUE, PUBLISH, TaskOptions, enqueueValues, manyValues, publishValues } from './enqueue';
import { FairqError, TaskFailed, WaitTimeout, isConnectionError } from './errors';
import { SCHEDULE, SCHEDULES, Schedule, ScheduleOptions, UNSCHEDULE, scheduleOf, scheduleValues } from './schedules';
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
}

export interface AddOptions extends TaskOptions {
  /** In the transaction of this client. */
  client?: Queryable;
}

export interface ManyOptions {
  client?: Queryable;
}

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

  constructor(connection: Connection, name: string, options: QueueOptions = {}) {
    checkOptions('Queue', options, ['prepare']);
    this.name = queueName(name);
    this.database = new Database(connection, options.prepare ?? true);
  }

  /** Ends the connections, if the queue has made them itself. */
  async close(): Promise<void> {
    await this.database.close();
  }

  // --- adding -----------------------------------------------------------------

  /** Adds a task, and returns its id. With `client`, in its transaction: the task is there when that commits. */
  async add(data: Data, options: AddOptions = {}): Promise<string> {
    return this.text(ENQUEUE, enqueueValues(this.name, data, options), options.client);
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
    const { statement, values } = manyValues(this.name, tasks);
    const ids = new Array<string>(tasks.length);
    for (const [n, id] of await this.database.ask(statement, values, client)) ids[Number(n) - 1] = id as string;
    return ids;
  }

  /** Adds a task to each queue that has subscribed to the topic; returns to how many. */
  async publish(topic: string, data: unknown, options: AddOptions = {}): Promise<number> {
    return Number(await this.text(PUBLISH, publishValues(topic, data, options), options.client));
  }

  async subscribe(topic: string): Promise<void> {
    await this.text(new Statement('SELECT fairq.subscribe($1, $2)'), [topic, this.name]);
  }

  async unsubscribe(topic: string): Promise<boolean> {
    return this.yes('SELECT fairq.unsubscribe($1, $2)', [topic, this.name]);
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
  async get(id: TaskId): Promise<TaskStatus<Data> | null> {
    const [row] = await this.database.ask(GET, [this.name, idText('the id of get()', id)]);
    return row ? statusOf<Data>(this.name, row) : null;
  }

  /** Tasks by state, group and name, by id. Reads the whole table of the queue. */
  async list(options: { state?: State; group?: GroupKey; name?: string; limit?: number } = {}): Promise<TaskStatus<Data>[]> {
    checkOptions('list()', options, ['state', 'group', 'name', 'limit']);
    const rows = await this.database.ask(LIST, [this.name, options.state ?? null,
      options.group === undefined ? null : namedGroup('the group of list()', options.group),
      wholeNumber('the limit of list()', options.limit ?? 100, 1, 1_000_000), options.name ?? null]);
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
    throw new TaskFailed(`task ${text} is ${outcome.state}${outcome.lastError ? `: ${outcome.lastError}` : ''}`, text, outcome.state);
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
  async cancel(id: TaskId): Promise<boolean> {
    return this.yes('SELECT fairq.cancel($1, $2)', [this.name, idText('the id of cancel()', id)]);
  }

  /** Makes a dead task ready again, with all its attempts. */
  async revive(id: TaskId): Promise<boolean> {
    return await this.text(new Statement('SELECT fairq.revive($1, $2)'), [this.name, idText('the id of revive()', id)]) === '1';
  }

  async reviveGroup(group: GroupKey): Promise<number> {
    return this.number('SELECT fairq.revive_group($1, $2)', [this.name, namedGroup('the group of reviveGroup()', group)]);
  }

  async reviveAll(): Promise<number> {
    return this.number('SELECT fairq.revive_all($1)', [this.name]);
  }

  /** Removes all tasks that are not leased; how many. */
  async purge(): Promise<number> {
    return this.number('SELECT fairq.purge($1)', [this.name]);
  }

  async purgeGroup(group: GroupKey): Promise<number> {
    return this.number('SELECT fairq.purge_group($1, $2)', [this.name, namedGroup('the group of purgeGroup()', group)]);
  }

  async pause(): Promise<void> {
    await this.text(new Statement('SELECT fairq.pause($1)'), [this.name]);
  }

  async resume(): Promise<void> {
    await this.text(new Statement('SELECT fairq.resume($1)'), [this.name]);
  }

  async pauseGroup(group: GroupKey): Promise<void> {
    await this.text(new Statement('SELECT fairq.pause_group($1, $2)'), [this.name, namedGroup('the group of pauseGroup()', group)]);
  }

  async resumeGroup(group: GroupKey): Promise<void> {
    await this.text(new Statement('SELECT fairq.resume_group($1, $2)'), [this.name, namedGroup('the group of resumeGroup()', group)]);
  }

  /** Weight and limits of a group. */
  async setGroup(group: GroupKey, settings: GroupSettings): Promise<void> {
    const { statement, values } = setGroup(this.name, namedGroup('the group of setGroup()', group), settings);
    await this.database.ask(statement, values);
  }

  /** Takes all of that away, a pause included. */
  async resetGroup(group: GroupKey): Promise<boolean> {
    return this.yes('SELECT fairq.reset_group($1, $2)', [this.name, namedGroup('the group of resetGroup()', group)]);
  }

  async setGroupDefaults(settings: GroupSettings): Promise<void> {
    const { statement, values } = setGroupDefaults(this.name, settings);
    await this.database.ask(statement, values);
  }

  /** Of a group. The subgroup of tasks that have none is `''`. */
  async pauseSubgroup(group: GroupKey, subgroup: GroupKey): Promise<void> {
    await this.text(new Statement('SELECT fairq.pause_subgroup($1, $2, $3)'), [this.name, ...namedSubgroup('pauseSubgroup()', group, subgroup)]);
  }

  async resumeSubgroup(group: GroupKey, subgroup: GroupKey): Promise<void> {
    await this.text(new Statement('SELECT fairq.resume_subgroup($1, $2, $3)'), [this.name, ...namedSubgroup('resumeSubgroup()', group, subgroup)]);
  }

  /** Weight and limits of a subgroup within its group. */
  async setSubgroup(group: GroupKey, subgroup: GroupKey, settings: GroupSettings): Promise<void> {
    const { statement, values } = setSubgroup(this.name, ...namedSubgroup('setSubgroup()', group, subgroup), settings);
    await this.database.ask(statement, values);
  }

  /** Takes all of that away, a pause included. */
  async resetSubgroup(group: GroupKey, subgroup: GroupKey): Promise<boolean> {
    return this.yes('SELECT fairq.reset_subgroup($1, $2, $3)', [this.name, ...namedSubgroup('resetSubgroup()', group, subgroup)]);
  }

  /** Of subgroups that have none of their own, whatever their group. */
  async setSubgroupDefaults(settings: GroupSettings): Promise<void> {
    const { statement, values } = setSubgroupDefaults(this.name, settings);
    await this.database.ask(statement, values);
  }

  // --- schedules ----------------------------------------------------------------

  /** Adds a task at each tick of a clock: cron, or `@every 10 min`. The same call again changes nothing. Returns the next tick. */
  async schedule(name: string, cron: string, options: ScheduleOptions = {}): Promise<Date | null> {
    return dateOf(await this.text(SCHEDULE, scheduleValues(this.name, name, cron, options)));
  }

  async unschedule(name: string): Promise<boolean> {
    return this.yes(UNSCHEDULE.text, [name]);
  }

  /** Those of this queue. */
  async schedules(): Promise<Schedule[]> {
    return (await this.database.ask(SCHEDULES, [this.name])).map(scheduleOf);
  }

  // --- the queue itself -----------------------------------------------------------

  /** Makes the queue in the database; `ifNotExists` leaves one that is there as it is. */
  async create(settings: CreateSettings = {}): Promise<void> {
    const { statement, values } = createQueue(this.name, settings);
    await this.database.ask(statement, values);
  }

  async alter(settings: QueueSettings): Promise<void> {
    const { statement, values } = alterQueue(this.name, settings);
    await this.database.ask(statement, values);
  }

  /** With all its tasks; false if there is none. */
  async drop(): Promise<boolean> {
    return this.yes('SELECT fairq.drop_queue($1)', [this.name]);
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

  private async yes(sql: string, values: unknown[]): Promise<boolean> {
    return await this.text(new Statement(sql), values) === 't';
  }

  private async number(sql: string, values: unknown[]): Promise<number> {
    return Number(await this.text(new Statement(sql), values));
  }
}

const ENDED = new Set(['acked', 'dead', 'cancelled', 'expired']);
