import type { Handler, HandlerOptions } from './handlers';
import type { AddOptions, CallOptions, NewTask, Queue } from './queue';
import type { ScheduleOptions } from './schedules';
import type { TaskOptions } from './enqueue';
import { checkOptions, type TaskId } from './values';

/** A value, or what says it of the data of a task. */
export type Of<Data, T> = T | ((data: Data) => T | undefined);

const DEFAULTS = ['group', 'subgroup', 'priority', 'cost', 'delay', 'uniqueKey', 'uniqueFor', 'onDuplicate', 'maxAttempts', 'maxLost', 'lease'] as const;
/** Of the handler of a name. */
export const HANDLER_OPTIONS: readonly string[] = ['handler', 'file', 'thread', 'timeout', 'backoff', 'giveUpOn'] satisfies readonly (keyof HandlerOptions)[];
const OF_SCHEDULES: readonly string[] = ['group', 'subgroup', 'priority', 'cost'];

type Default = typeof DEFAULTS[number];

/** What is said of all tasks of a name; what `add` says of one goes before it. */
export type TaskDefaults<Data> = { [Option in Default]?: Of<Data, NonNullable<TaskOptions[Option]>> };

export interface TaskDefinition<Data = unknown, Result = unknown> extends TaskDefaults<Data>, HandlerOptions<Data, Result> {}

/** What is said in options; the task has its name. */
function said(method: string, options: object): object {
  if ('name' in options) throw new TypeError(`${method} has no option "name": the task has one`);
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}

/** The tasks of one name in a queue, with their types: made by `queue.task`. It adds them, and is their handler in a worker. */
export class NamedTask<Data = unknown, Result = unknown> {
  readonly queue: Queue;
  readonly name: string;
  /** For a worker. */
  readonly work: HandlerOptions<Data, Result>;
  private readonly defaults: TaskDefaults<Data>;

  constructor(queue: Queue, name: string, given: TaskDefinition<Data, Result> | Handler<Data, Result> = {}) {
    if (typeof name !== 'string' || name === '') throw new TypeError(`the name of task() is ${JSON.stringify(name)}; give a text of 1 to 100 bytes`);
    if (typeof given !== 'function' && (typeof given !== 'object' || given === null)) throw new TypeError(`task ${JSON.stringify(name)} is no function, and no object with options`);
    const entries = Object.entries(typeof given === 'function' ? { handler: given } : given);
    const isDefault = ([option]: [string, unknown]): boolean => (DEFAULTS as readonly string[]).includes(option);
    this.queue = queue;
    this.name = name;
    this.defaults = Object.fromEntries(entries.filter(isDefault)) as TaskDefaults<Data>;
    this.work = Object.fromEntries(entries.filter((one) => !isDefault(one))) as HandlerOptions<Data, Result>;
    for (const option of Object.keys(this.work)) {
      if (!HANDLER_OPTIONS.includes(option)) throw new TypeError(`task ${JSON.stringify(name)} has no option ${JSON.stringify(option)}; there are ${[...HANDLER_OPTIONS, ...DEFAULTS].join(', ')}`);
    }
  }

  /**
   * The same task with a handler, or a file, and options of the work: where what adds tasks is to be without the code
   * that works on them.
   */
  handledBy(given: Handler<Data, Result> | HandlerOptions<Data, Result>): NamedTask<Data, Result> {
    const work = typeof given === 'function' ? { handler: given } : given;
    checkOptions('handledBy()', work, HANDLER_OPTIONS);
    return new NamedTask<Data, Result>(this.queue, this.name, { ...this.defaults, ...this.work, ...work });
  }

  /** Adds a task, and returns its id. */
  async add(data: Data, options: Omit<AddOptions, 'name'> = {}): Promise<string> {
    return this.queue.add(data, this.optionsOf('add()', data, options));
  }

  async addMany(tasks: readonly Omit<NewTask<Data>, 'name'>[], options: CallOptions = {}): Promise<string[]> {
    return this.queue.addMany(tasks.map(({ data, ...task }) =>
      ({ data, ...this.optionsOf('addMany()', data as Data, task) })), options);
  }

  /** A task at each tick of a clock. Of the options of the task these hold: group, subgroup, priority and cost. */
  async schedule(name: string, cron: string, options: Omit<ScheduleOptions, 'name' | 'data'> & { data: Data } & CallOptions): Promise<Date | null> {
    const defaults = Object.entries(this.defaultsOf(options.data)).filter(([option]) => OF_SCHEDULES.includes(option));
    return this.queue.schedule(name, cron, { ...Object.fromEntries(defaults), ...said('schedule()', options), name: this.name });
  }

  /** The result of a task that is acknowledged in time; else an error that says what became of it. */
  async waitUntilFinished(id: TaskId, options: { timeout?: number } = {}): Promise<Result | null> {
    return await this.queue.waitUntilFinished(id, options) as Result | null;
  }

  /** Of one task. Where it says a time itself, the delay of all would be another one. */
  private optionsOf(method: string, data: Data, options: object): TaskOptions {
    const own = said(method, options);
    const { delay, ...defaults } = this.defaultsOf(data);
    return { ...defaults, ...('runAt' in own ? {} : { delay }), ...own, name: this.name };
  }

  private defaultsOf(data: Data): TaskOptions {
    const said = Object.entries(this.defaults).map(([option, value]: [string, unknown]) =>
      [option, typeof value === 'function' ? (value as (data: Data) => unknown)(data) : value]);
    return Object.fromEntries(said.filter(([, value]) => value !== undefined)) as TaskOptions;
  }
}
