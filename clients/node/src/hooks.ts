import type { TaskContext } from './run';
import type { Task } from './task';

type Awaitable = void | Promise<void>;

/** A task that is about to be added. What a hook puts into its headers goes with it. */
export interface EnqueuedTask {
  /** Of `publish` the topic. */
  readonly queue: string;
  readonly name: string | undefined;
  readonly data: unknown;
  readonly headers: Record<string, unknown>;
}

/** What hooks know of a worker. */
export interface WorkerInfo {
  readonly name: string;
  readonly queues: readonly string[];
}

/**
 * What an application has done around its tasks: of a queue `enqueue`, of a worker the others. Hooks
 * of a list are called in its order; of `around` and `enqueue` the first is the outermost.
 */
export interface Hooks {
  /** Around the call that adds tasks; `next` does it, and returns their ids, or of `publish` how many. */
  enqueue?<T>(tasks: readonly EnqueuedTask[], next: () => Promise<T>): Promise<T>;
  /** Before the worker connects. What it throws ends `run()`. */
  start?(worker: WorkerInfo): Awaitable;
  /** Around `before` and the handler: for what has a scope, such as an AsyncLocalStorage. `next` calls them. */
  around?(task: Task, context: TaskContext, next: () => Promise<unknown>): Promise<unknown>;
  /** Before the handler. What it throws is an error of the attempt. */
  before?(task: Task, context: TaskContext): Awaitable;
  /** The task is done: acknowledged, and committed. */
  after?(task: Task, result: unknown): Awaitable;
  /** The attempt failed, and was counted. */
  failed?(task: Task, error: unknown): Awaitable;
  /** After `failed`: it was the last attempt, and the task is dead. */
  dead?(task: Task, error: unknown): Awaitable;
  /** The task was no longer the worker's, or nobody can say. */
  lost?(task: Task, reason: Error): Awaitable;
  /** All handlers have ended, and what they did is settled. */
  stop?(worker: WorkerInfo): Awaitable;
}

const OF_WORKER = ['start', 'around', 'before', 'after', 'failed', 'dead', 'lost', 'stop'] as const;
const NAMES: readonly string[] = ['enqueue', ...OF_WORKER];

/** One, or a list of them, as an option has it. */
export function hooksOf(given: Hooks | readonly Hooks[] | undefined): readonly Hooks[] {
  const list = given === undefined ? [] : Array.isArray(given) ? [...given as readonly Hooks[]] : [given as Hooks];
  for (const hooks of list) {
    if (typeof hooks !== 'object' || hooks === null) throw new TypeError(`hooks is ${String(hooks)}; give an object with ${NAMES.join(', ')}, or a list of such`);
    for (const [name, hook] of Object.entries(hooks)) {
      if (!NAMES.includes(name)) throw new TypeError(`there is no hook ${JSON.stringify(name)}; there are ${NAMES.join(', ')}`);
      if (typeof hook !== 'function') throw new TypeError(`the hook ${name} is no function`);
    }
  }
  return list;
}

/** The hooks of a queue around what adds tasks. */
export function enqueueWith<T>(list: readonly Hooks[], tasks: readonly EnqueuedTask[], add: () => Promise<T>): Promise<T> {
  return list.reduceRight<() => Promise<T>>((next, hooks) =>
    async () => (hooks.enqueue ? hooks.enqueue(tasks, next) : next()), add)();
}

type Ending = 'after' | 'failed' | 'dead' | 'lost';

/** The hooks of a worker. */
export class WorkerHooks {
  private readonly list: readonly Hooks[];
  private readonly report: (error: unknown) => void;
  private readonly wrap: boolean;
  /** Hooks of tasks that have ended, which no task waits for. */
  private readonly underWay = new Set<Promise<void>>();
  /** What is told of a task is told in its order. */
  private readonly last = new WeakMap<Task, Promise<void>>();

  constructor(list: readonly Hooks[], report: (error: unknown) => void) {
    this.list = list;
    this.report = report;
    this.wrap = list.some((hooks) => hooks.before !== undefined || hooks.around !== undefined);
  }

  has(name: Ending): boolean {
    return this.list.some((hooks) => hooks[name] !== undefined);
  }

  /** The handler, with what is before and around it. */
  run<T>(task: Task, context: TaskContext, handler: () => Promise<T> | T): Promise<T> | T {
    if (!this.wrap) return handler();
    const inner = async (): Promise<unknown> => {
      for (const hooks of this.list) await hooks.before?.(task, context);
      return handler();
    };
    return this.list.reduceRight<() => Promise<unknown>>((next, hooks) =>
      async () => (hooks.around ? hooks.around(task, context, next) : next()), inner)() as Promise<T>;
  }

  /** No task suffers from what these throw, or how long they take. */
  tell(name: Ending, task: Task, about: unknown): void {
    if (!this.has(name)) return;
    const earlier = this.last.get(task);
    const told = (async () => {
      await earlier;
      for (const hooks of this.list) {
        try {
          await (hooks[name] as ((task: Task, about: unknown) => Awaitable) | undefined)?.call(hooks, task, about);
        } catch (error) {
          this.report(error);
        }
      }
    })();
    this.last.set(task, told);
    this.underWay.add(told);
    void told.then(() => this.underWay.delete(told));
  }

  async start(worker: WorkerInfo): Promise<void> {
    for (const hooks of this.list) await hooks.start?.(worker);
  }

  get telling(): boolean {
    return this.underWay.size > 0;
  }

  /** When all is told. */
  async told(): Promise<void> {
    while (this.underWay.size > 0) await Promise.all(this.underWay);
  }

  async stop(worker: WorkerInfo): Promise<void> {
    await this.told();
    for (const hooks of this.list) {
      try {
        await hooks.stop?.(worker);
      } catch (error) {
        this.report(error);
      }
    }
  }
}
