import { inspect } from 'node:util';
import { Duration, durationText } from './values';

/** What the library itself refuses or reports. Errors of the server come as `pg` gives them. */
export class FairqError extends Error {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** The task is no longer this worker's: what its transaction wrote is rolled back. */
export class LeaseLost extends FairqError {}

/** The worker closes and has no more time for the task: it was given back, and runs again elsewhere. */
export class WorkerClosed extends FairqError {}

/**
 * Thrown by `waitUntilFinished` for a task that has ended without success, or that is not there. Its
 * message says what the worker's error says; where in the worker's code that was is apart.
 */
export class TaskFailed extends FairqError {
  /** `dead`, `cancelled`, `expired`, or `unknown` when there is no such task. */
  readonly state: string;
  /** The id of the task. */
  readonly id: string;
  /** Type and message of the last error, if there was one. */
  readonly reason: string | null;
  /** Its frames and causes in the worker, for logs: it has paths of the worker. */
  readonly workerStack: string | null;
  constructor(message: string, id: string, state: string, lastError: string | null = null) {
    const { reason, workerStack } = partsOf(lastError);
    super(reason === null ? message : `${message}: ${reason}`);
    this.id = id;
    this.state = state;
    this.reason = reason;
    this.workerStack = workerStack;
  }
}

/** Where in a `last_error` its message is over: frames of Node, Python, Ruby and Go, details, causes. */
const AFTER_MESSAGE = /^(?:\s+at |goroutine \d+ \[|\s+File "|\s*\S+:\d+:in |caused by: |Caused by |after \w+: |  (?:code|detail|hint): )/;

function partsOf(lastError: string | null): { reason: string | null; workerStack: string | null } {
  if (lastError === null) return { reason: null, workerStack: null };
  const lines = lastError.split('\n');
  const end = lines.findIndex((line, n) => n > 0 && AFTER_MESSAGE.test(line));
  if (end < 0) return { reason: lastError, workerStack: null };
  return { reason: lines.slice(0, end).join('\n').trimEnd(), workerStack: lines.slice(end).join('\n') };
}

/** Thrown by `waitUntilFinished` when the time is up. The task goes on. */
export class WaitTimeout extends FairqError {}

/** Thrown by a handler to have its task again later. No attempt is counted, and no error is noted. */
export class Snooze extends FairqError {
  readonly delay: number | string;
  constructor(delay: number | string) {
    super(`snoozed for ${typeof delay === 'number' ? `${delay} ms` : delay}`);
    this.delay = delay;
  }
}

/** Thrown by a handler, with a delay of its own in place of the queue's backoff. The attempt counts. */
export class RetryLater extends FairqError {
  readonly delay: number | string;
  constructor(message: string, delay: number | string, options?: { cause?: unknown }) {
    super(message, options);
    this.delay = delay;
  }
}

/** Thrown by a handler: the attempt failed, and no other one would fare better. The task is dead at once. */
export class Unrecoverable extends FairqError {}

/** `snooze` of a context. */
export function snooze(delay: Duration): never {
  durationText('the delay of snooze()', delay);
  throw new Snooze(delay);
}

/** `fail` of a context. */
export function fail(error: string | Error): never {
  throw error instanceof Error ? new Unrecoverable(error.message, { cause: error }) : new Unrecoverable(String(error));
}

/** The handler had not ended after the time that its `timeout` gives it. The attempt has failed. */
export class HandlerTimeout extends FairqError {}

/** The process or thread of a handler has ended before the handler had. The attempt has failed. */
export class HandlerCrashed extends FairqError {}

/** The worker has no handler for tasks of this name. The attempt has failed; another worker may have one. */
export class NoHandler extends FairqError {}

/** A class of errors, such as `TypeError`. */
export type ErrorClass = abstract new (...parameters: never[]) => Error;

/** Classes of errors, as an option has them. */
export function errorClasses(name: string, given: readonly ErrorClass[]): readonly ErrorClass[] {
  const isError = (one: unknown): boolean => typeof one === 'function' && (one === Error || one.prototype instanceof Error);
  if (!Array.isArray(given) || !given.every(isError)) {
    throw new TypeError(`${name} is a list of classes of errors, like [TypeError, RangeError]`);
  }
  return [...given];
}

/** Errors that came from another process or thread: the names of their classes, the most derived first. */
const classesElsewhere = new WeakMap<Error, readonly string[]>();

export function noteClasses(error: Error, names: readonly string[]): void {
  classesElsewhere.set(error, names);
}

/** The names of an error's classes, the most derived first: also of those that it had elsewhere. */
export function classNames(error: Error): readonly string[] {
  const noted = classesElsewhere.get(error);
  if (noted) return noted;
  const names: string[] = [];
  for (let one: unknown = Object.getPrototypeOf(error); one && one !== Object.prototype; one = Object.getPrototypeOf(one)) {
    names.push(String((one as { constructor?: { name?: unknown } }).constructor?.name));
  }
  return names;
}

/** Whether an error is of one of the classes; of one from elsewhere their names decide. */
export function isOneOf(error: unknown, classes: readonly ErrorClass[]): boolean {
  const names = error instanceof Error ? classesElsewhere.get(error) : undefined;
  return classes.some((one) => error instanceof one || names?.includes(one.name));
}

const LONGEST_ERROR = 8000;

/**
 * What is kept as `last_error`: type, message, stack and causes. The text is bounded, and has no NUL,
 * which the server cannot store.
 */
export function errorText(error: unknown): string {
  let text: string;
  try {
    text = error instanceof Error ? withCauses(error) : `thrown: ${inspect(error, { depth: 3 })}`;
  } catch {
    text = 'an error that cannot be shown';
  }
  return bounded(text.replaceAll('\0', '\\0'));
}

function withCauses(error: Error): string {
  let text = oneError(error);
  let cause = error.cause;
  for (let depth = 0; cause !== undefined && depth < 5; depth++) {
    text += `\ncaused by: ${cause instanceof Error ? oneError(cause) : inspect(cause, { depth: 2 })}`;
    cause = cause instanceof Error ? cause.cause : undefined;
  }
  return text;
}

/** The stack names type and message, unless they were changed after the error was made. */
function oneError(error: Error): string {
  const head = `${error.name}: ${error.message}`;
  const stack = typeof error.stack === 'string' ? error.stack : '';
  const details = error as { code?: unknown; detail?: unknown; hint?: unknown };
  const lines = [stack.includes(error.message) && stack !== '' ? stack : `${head}\n${stack}`];
  for (const key of ['code', 'detail', 'hint'] as const) {
    if (typeof details[key] === 'string') lines.push(`  ${key}: ${details[key]}`);
  }
  return lines.join('\n').trimEnd();
}

/** Head and tail of a text that is too long; both matter in a stack. */
function bounded(text: string): string {
  if (text.length <= LONGEST_ERROR) return text;
  const half = LONGEST_ERROR / 2;
  return `${text.slice(0, half)}\n… ${text.length - LONGEST_ERROR} characters …\n${text.slice(-half)}`;
}

/** The connection is gone, or the server says that it cannot serve now: worth another try. */
export function isConnectionError(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  if (typeof code !== 'string' || !/^[0-9A-Z]{5}$/.test(code)) return true; // not from the server
  return code.startsWith('08') || code.startsWith('57P') || code === '53300';
}

/** Another try may fare better: a lock, a deadlock, a lack of room, a statement that was stopped, a standby. */
export function isPassing(error: unknown): boolean {
  return isConnectionError(error) || /^(08|40|53|57|58|55P03$|25006$)/.test((error as { code: string }).code);
}

/** Somebody has stopped the statement, or its time was up. */
export function isCancelled(error: unknown): boolean {
  return (error as { code?: unknown } | null)?.code === '57014';
}

/** No other try will do: the queue is not there, or the role may not use it, or the database is another. */
export function isHopeless(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === 'string' &&
    ['42704', '42501', '42883', '3F000', '3D000', '28P01', '28000', '22023', '0A000'].includes(code);
}

/** An error with the SQLSTATE that the server would have given. */
export function hopeless(code: string, message: string): FairqError {
  return Object.assign(new FairqError(message), { code });
}
