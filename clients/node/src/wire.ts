import { inspect } from 'node:util';
import type { Row } from './database';
import {
  FairqError, HandlerTimeout, LeaseLost, RetryLater, Snooze, Unrecoverable, WorkerClosed, classNames, noteClasses,
} from './errors';

/** What a worker and the process or thread of a handler say to each other. */

export type ToChild =
  | { kind: 'task'; n: number; task: [queue: string, row: Row] }
  | { kind: 'answer'; call: number; value?: unknown; error?: ErrorParts };

export type FromChild =
  | { kind: 'call'; n: number; call: number; method: 'query' | 'progress' | 'extend'; values: unknown[] }
  | { kind: 'done'; n: number; value: unknown }
  | { kind: 'failed'; n: number; error: ErrorParts };

/** An error as a message has it: structured clones keep neither its class nor what else it has. */
export interface ErrorParts {
  names: readonly string[];
  name: string;
  message: string;
  stack: string | undefined;
  details: Record<string, string | number>;
  cause: ErrorParts | undefined;
}

const DETAILS = ['code', 'detail', 'hint', 'constraint', 'table', 'delay'];

export function errorParts(error: unknown, depth = 0): ErrorParts {
  try {
    if (error instanceof Error) return partsOf(error, depth);
  } catch { /* one that cannot be looked at */ }
  return partsOf(new Error(`thrown: ${shown(error)}`), depth);
}

function shown(value: unknown): string {
  try {
    return inspect(value, { depth: 3 });
  } catch {
    return 'an error that cannot be shown';
  }
}

function partsOf(error: Error, depth: number): ErrorParts {
  const values = error as unknown as Record<string, unknown>;
  const details = DETAILS.map((key) => [key, values[key]]).filter(([, value]) => typeof value === 'string' || typeof value === 'number');
  return {
    names: classNames(error), name: String(error.name), message: String(error.message),
    stack: typeof error.stack === 'string' ? error.stack : undefined,
    details: Object.fromEntries(details) as ErrorParts['details'],
    cause: error.cause === undefined || depth > 4 ? undefined : errorParts(error.cause, depth + 1),
  };
}

/** The classes that are the same on both sides, by their names. */
const KNOWN = new Map<string, (parts: ErrorParts) => Error>([
  ['Snooze', ({ details }) => new Snooze(details.delay)],
  ['RetryLater', ({ message, details }) => new RetryLater(message, details.delay)],
  ...[Unrecoverable, LeaseLost, WorkerClosed, HandlerTimeout, FairqError, TypeError, RangeError, SyntaxError, ReferenceError, EvalError, URIError]
    .map((One) => [One.name, ({ message }: ErrorParts) => new One(message)] as [string, (parts: ErrorParts) => Error]),
]);

export function errorFrom(parts: ErrorParts): Error {
  const known = parts.names.find((name) => KNOWN.has(name));
  const error = known === undefined ? new Error(parts.message) : (KNOWN.get(known) as (parts: ErrorParts) => Error)(parts);
  const { delay: _, ...details } = parts.details;
  Object.assign(error, details);
  const set = (key: string, value: unknown): void => {
    Object.defineProperty(error, key, { value, configurable: true, writable: true, enumerable: false });
  };
  set('name', parts.name);
  set('stack', parts.stack);
  if (parts.cause) set('cause', errorFrom(parts.cause));
  noteClasses(error, parts.names);
  return error;
}
