import { fork } from 'node:child_process';
import path from 'node:path';
import { inspect } from 'node:util';
import { Worker as Thread } from 'node:worker_threads';
import { HandlerCrashed } from './errors';
import type { TaskContext } from './run';
import type { Task } from './task';
import { FromChild, ToChild, errorFrom, errorParts } from './wire';

const PROGRAM = path.join(__dirname, 'child.js');

/** A process or a thread, as what is common to both. */
interface Channel {
  send(message: ToChild): void;
  kill(): Promise<unknown>;
}

type OnMessage = (message: FromChild | null) => void;
type OnEnd = (how: string, cause?: unknown) => void;

function newProcess(file: string, onMessage: OnMessage, onEnd: OnEnd): Channel {
  const debugged = process.execArgv.some((argument) => argument.startsWith('--inspect'));
  const child = fork(PROGRAM, [file, String(process.pid)], {
    serialization: 'advanced', stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    // two cannot listen at one port
    ...(debugged ? { execArgv: process.execArgv.filter((argument) => !argument.startsWith('--inspect')) } : {}),
  });
  const ended = new Promise<void>((resolve) => {
    child.on('message', (message) => onMessage(message as FromChild | null));
    child.on('error', (error) => { onEnd(`could not be started: ${error.message}`, error); resolve(); });
    child.on('exit', (code, signal) => { onEnd(signal === null ? `has ended with exit code ${code}` : `was killed by ${signal}`); resolve(); });
  });
  return {
    send: (message) => { child.send(message, () => {}); }, // that it is gone is told by its exit
    kill: () => { child.kill('SIGKILL'); return ended; },
  };
}

function newThread(file: string, onMessage: OnMessage, onEnd: OnEnd): Channel {
  const child = new Thread(PROGRAM, { workerData: { pgfairq: file } });
  child.on('message', onMessage);
  child.on('error', (error: unknown) => onEnd(`has ended: ${error instanceof Error ? error.message : inspect(error)}`, error)); // it may throw anything
  child.on('exit', (code) => onEnd(`has ended with exit code ${code}`));
  return { send: (message) => child.postMessage(message), kill: () => child.terminate() };
}

/** A task that a process or thread works on, and who waits for its end. */
interface Work {
  readonly context: TaskContext;
  resolve(value: unknown): void;
  reject(error: unknown): void;
}

/** One process or thread. It works on a task at a time. */
class Child {
  alive = true;
  private readonly channel: Channel;
  private readonly what: string;
  private n = 0;
  private work: Work | undefined;

  constructor(file: string, inThread: boolean) {
    this.what = `the ${inThread ? 'thread' : 'process'} of the handler`;
    this.channel = (inThread ? newThread : newProcess)(file, (message) => this.hear(message), (how, cause) => this.end(how, cause));
  }

  run(task: Task, context: TaskContext): Promise<unknown> {
    const { signal } = context;
    const kill = (): void => {
      this.ended()?.reject(signal.reason);
      void this.kill();
    };
    return new Promise<unknown>((resolve, reject) => {
      this.work = { context, resolve, reject };
      signal.addEventListener('abort', kill);
      this.channel.send({ kind: 'task', n: ++this.n, task: task.parts });
    }).finally(() => signal.removeEventListener('abort', kill));
  }

  async kill(): Promise<void> {
    this.alive = false;
    await this.channel.kill();
  }

  private hear(message: FromChild | null): void {
    if (message?.n === undefined) return; // of the application's code, which may send what it likes
    if (message.kind === 'call') return void this.answer(message);
    if (message.n !== this.n) return;
    if (message.kind === 'done') this.ended()?.resolve(message.value);
    else this.ended()?.reject(errorFrom(message.error));
  }

  /** Whose end it is. A call that comes from now on, also together with the end, comes too late. */
  private ended(): Work | undefined {
    const { work } = this;
    this.work = undefined;
    return work;
  }

  private async answer({ n, call, method, values }: FromChild & { kind: 'call' }): Promise<void> {
    try {
      const context = n === this.n ? this.work?.context : undefined;
      if (!context) throw new Error(`${method}() was called after the handler had ended`);
      const value = await answers[method](context, ...values as [never, never]);
      this.channel.send({ kind: 'answer', call, value });
    } catch (error) {
      this.channel.send({ kind: 'answer', call, error: errorParts(error) });
    }
  }

  private end(how: string, cause?: unknown): void {
    this.alive = false;
    this.ended()?.reject(new HandlerCrashed(`${this.what} ${how}`, cause === undefined ? {} : { cause }));
  }
}

const answers = {
  async query({ tx }: TaskContext, config: unknown, values: unknown[] | undefined): Promise<unknown> {
    const { rows, rowCount, command } = await tx.query(config, values);
    return { rows, rowCount, command };
  },
  progress: ({ progress }: TaskContext, value: unknown) => progress(value),
  extend: ({ extend }: TaskContext, lease: string | number | undefined) => extend(lease),
};

/** The processes or threads of a handler that is a file: as many as tasks of it run at a time. They are kept for others. */
export class Children {
  private readonly file: string;
  private readonly inThreads: boolean;
  private readonly all = new Set<Child>();
  private readonly idle: Child[] = [];

  constructor(file: string, inThreads: boolean) {
    this.file = file;
    this.inThreads = inThreads;
  }

  readonly handler = async (task: Task, context: TaskContext): Promise<unknown> => {
    context.signal.throwIfAborted(); // no process begins, and none that is kept ends, for what is lost already
    const child = this.take();
    try {
      return await child.run(task, context);
    } finally {
      if (child.alive) this.idle.push(child);
      else void child.kill().then(() => this.all.delete(child)); // close() waits for it
    }
  };

  async close(): Promise<void> {
    await Promise.all([...this.all].map((child) => child.kill()));
  }

  private take(): Child {
    for (let child = this.idle.pop(); child; child = this.idle.pop()) {
      if (child.alive) return child;
      this.all.delete(child);
    }
    const child = new Child(this.file, this.inThreads);
    this.all.add(child);
    return child;
  }
}
