import { existsSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { Children } from './children';
import { ErrorClass, HandlerTimeout, NoHandler, errorClasses } from './errors';
import { HANDLER_OPTIONS, NamedTask } from './named';
import type { TaskContext } from './run';
import type { Task } from './task';
import { Duration, checkOptions, durationText, milliseconds } from './values';

/** Which handler works on a task: the one of its name. */

export type Handler<Data = unknown, Result = unknown> =
  (task: Task<Data>, context: TaskContext) => Promise<Result> | Result;

/** How tasks of a handler are worked on. */
export interface WorkOptions {
  /** The handler has so long, in milliseconds; then the attempt has failed. */
  timeout?: number;
  /** When the next attempt is, in place of the queue's backoff: always so long after, or as the function says. */
  backoff?: Duration | ((attempt: number, error: unknown) => Duration);
  /** Errors after which no other attempt would fare better, beside those of the worker. */
  giveUpOn?: readonly ErrorClass[];
}

/** What works on a task: a function, or a file whose default export is one. */
export interface HandlerOptions<Data = unknown, Result = unknown> extends WorkOptions {
  handler?: Handler<Data, Result>;
  /** A file for a process of its own: it may compute, crash or hang, and no other task suffers. */
  file?: string | URL;
  /** The file is run in a thread in place of a process. */
  thread?: boolean;
}

/** Handlers by the names of their tasks; that of `''` is for all others. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type Handlers = Record<string, Handler<any, any> | HandlerOptions<any, any> | NamedTask<any, any>>;

/** One handler, checked. */
export interface Entry extends WorkOptions {
  readonly call: Handler;
  readonly children: Children | undefined;
}

function filePath(what: string, file: string | URL): string {
  const found = file instanceof URL ? fileURLToPath(file) : file;
  if (typeof found !== 'string' || !path.isAbsolute(found)) {
    throw new TypeError(`the file of ${what} is ${JSON.stringify(found)}; give an absolute path, such as that of require.resolve('./file.js'), or a URL of file:`);
  }
  if (!existsSync(found)) throw new TypeError(`the file of ${what} is not there: ${found}`);
  return found;
}

function entryOf(what: string, given: Handler | HandlerOptions): Entry {
  if (typeof given === 'function') return { call: given, children: undefined };
  if (typeof given !== 'object' || given === null) throw new TypeError(`${what} is no function, and no object with a handler or a file`);
  checkOptions(what, given, HANDLER_OPTIONS);
  const { handler, file, thread = false, timeout, backoff } = given;
  if ((handler === undefined) === (file === undefined)) throw new TypeError(`${what} has ${handler ? 'both a handler and a file' : 'neither a handler nor a file'}; give one of them`);
  if (handler !== undefined && typeof handler !== 'function') throw new TypeError(`the handler of ${what} is no function`);
  if (typeof thread !== 'boolean') throw new TypeError(`thread of ${what} is no boolean`);
  if (thread && file === undefined) throw new TypeError(`${what} has a thread and no file; give the file whose default export is the handler`);
  if (timeout !== undefined) milliseconds(`the timeout of ${what}`, timeout, 1);
  if (typeof backoff !== 'function') durationText(`the backoff of ${what}`, backoff);
  const children = file === undefined ? undefined : new Children(filePath(what, file), thread);
  return {
    call: handler ?? (children as Children).handler, children, timeout, backoff,
    giveUpOn: errorClasses(`giveUpOn of ${what}`, given.giveUpOn ?? []),
  };
}

/** The error of a handler that has had its time. */
export function timedOut(task: Task, timeout: number): HandlerTimeout {
  return new HandlerTimeout(`the handler of ${String(task)} had not ended after ${timeout} ms`);
}

/** The key of a handler: of one queue, or of any. */
const key = (queue: string | null, name: string): string => JSON.stringify([queue, name]);

/** The handlers of a worker. */
export class HandlerTable {
  private readonly entries = new Map<string, Entry>();
  private readonly all: Entry | undefined;

  constructor(given: Handler | Handlers, queues: readonly string[]) {
    if (typeof given === 'function') {
      this.all = { call: given, children: undefined };
      return;
    }
    if (typeof given !== 'object' || given === null || given instanceof NamedTask || Object.keys(given).length === 0) {
      throw new TypeError('the handler is no function, and no object of handlers by name; give what works on a task');
    }
    for (const [name, one] of Object.entries(given)) {
      const what = `handler ${JSON.stringify(name)}`;
      if (!(one instanceof NamedTask)) {
        this.entries.set(key(null, name), entryOf(what, one));
        continue;
      }
      const queue = one.queue.name;
      if (!queues.includes(queue)) throw new TypeError(`${what} is of queue ${JSON.stringify(queue)}, which the worker does not serve; it serves ${quoted(queues)}`);
      if (this.entries.has(key(queue, one.name))) throw new TypeError(`${what}: there is another one for ${JSON.stringify(one.name)} of queue ${JSON.stringify(queue)}`);
      this.entries.set(key(queue, one.name), entryOf(what, one.work));
    }
  }

  find(task: Task): Entry {
    if (this.all) return this.all;
    const { queue, name } = task;
    const found = this.entries.get(key(queue, name)) ?? this.entries.get(key(null, name)) ??
      this.entries.get(key(queue, '')) ?? this.entries.get(key(null, ''));
    if (found) return found;
    const names = [...new Set([...this.entries.keys()].map((one) => (JSON.parse(one) as string[])[1]))];
    throw new NoHandler(`this worker has no handler for a task ${name === '' ? 'without a name' : `named ${JSON.stringify(name)}`} ` +
      `in queue ${JSON.stringify(queue)}; it has handlers for ${quoted(names)}`);
  }

  /** Ends the processes and threads of handlers. */
  async close(): Promise<void> {
    await Promise.all([...this.entries.values()].map(({ children }) => children?.close()));
  }
}

const quoted = (names: readonly string[]): string => names.map((name) => JSON.stringify(name)).join(', ');
