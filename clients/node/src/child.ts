import { pathToFileURL } from 'node:url';
import { Worker as Thread, parentPort, workerData } from 'node:worker_threads';
import { fail, snooze } from './errors';
import { Task } from './task';
import type { TaskContext } from './run';
import { ErrorParts, FromChild, ToChild, errorFrom, errorParts } from './wire';

/**
 * What runs in the process or the thread of a handler that is a file. All that it does at the server
 * it asks its worker for, which has the lease and the transaction.
 */

/** What the handler of a file gets beside its task. */
export interface FileContext extends Pick<TaskContext, 'extend' | 'progress' | 'snooze' | 'fail'> {
  /** The transaction of the task. Results have `rows`, `rowCount` and `command`. */
  readonly tx: Pick<TaskContext['tx'], 'query'>;
}

/** The default export of a file that is a handler. */
export type FileHandler<Data = unknown, Result = unknown> = (task: Task<Data>, context: FileContext) => Promise<Result> | Result;

const post = (message: FromChild): void => {
  if (parentPort) parentPort.postMessage(message);
  else process.send?.(message);
};

const file = parentPort ? (workerData as { pgfairq: string }).pgfairq : process.argv[2];
const loading = load();
loading.catch(() => {}); // the first task is told

async function load(): Promise<FileHandler> {
  const module = await import(pathToFileURL(file).href) as { default?: unknown };
  const found = [module.default, (module.default as { default?: unknown } | undefined)?.default].find((one) => typeof one === 'function');
  if (!found) throw new TypeError(`${file} has no handler; its default export, or module.exports, has to be a function`);
  return found as FileHandler;
}

let calls = 0;
const asked = new Map<number, { resolve: (value: unknown) => void; reject: (error: Error) => void }>();

async function ask(n: number, method: 'query' | 'progress' | 'extend', values: unknown[]): Promise<unknown> {
  const call = ++calls;
  return new Promise((resolve, reject) => {
    post({ kind: 'call', n, call, method, values }); // throws what cannot be cloned
    asked.set(call, { resolve, reject });
  });
}

function answered({ call, value, error }: { call: number; value?: unknown; error?: ErrorParts }): void {
  const waiting = asked.get(call);
  asked.delete(call);
  if (error) waiting?.reject(errorFrom(error));
  else waiting?.resolve(value);
}

function contextOf(n: number): FileContext {
  return {
    tx: { query: (config, values) => ask(n, 'query', [config, values]) },
    progress: async (value) => { await ask(n, 'progress', [value]); },
    extend: async (lease) => await ask(n, 'extend', [lease]) as Date,
    snooze, fail,
  };
}

async function work(n: number, [queue, row]: (ToChild & { kind: 'task' })['task']): Promise<void> {
  try {
    const handler = await loading;
    post({ kind: 'done', n, value: await handler(new Task(queue, row), contextOf(n)) });
  } catch (error) {
    post({ kind: 'failed', n, error: errorParts(error) });
  }
}

function hear(message: ToChild): void {
  if (message.kind === 'answer') answered(message);
  else void work(message.n, message.task);
}

/** Whose worker was killed has lost its task, and does not compute on in vain, also not without an await. */
const WATCH = `setInterval(() => {
  if (process.ppid !== ${Number(process.argv[3])}) process.kill(process.pid, 'SIGKILL');
}, 500);`;

if (parentPort) {
  parentPort.on('message', hear);
} else {
  process.on('message', (message) => hear(message as ToChild));
  process.on('disconnect', () => process.exit());
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => {}); // the worker ends it when it is time
  new Thread(WATCH, { eval: true }).unref();
}
