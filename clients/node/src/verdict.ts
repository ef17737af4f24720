import { ErrorClass, NoHandler, RetryLater, Snooze, Unrecoverable, errorText, isOneOf } from './errors';
import type { Entry } from './handlers';
import type { Verdict } from './settler';
import type { Task } from './task';
import { durationText } from './values';

/**
 * What an error of a handler means for its task. An error that throws when it is looked at, or whose
 * delay is none, is a failure like others: with the error that says so.
 */
export function verdictOf(error: unknown, giveUpOn: readonly ErrorClass[], entry: Entry | undefined, task: Task):
  { verdict: Verdict; error: unknown } {
  try {
    return { verdict: lookAt(error, giveUpOn, entry, task), error };
  } catch (wrong) {
    return { verdict: { kind: 'nack', error: errorText(wrong), delay: null }, error: wrong };
  }
}

/** A task whose end is refused comes again after so long, in milliseconds. */
const BACK = 60_000;

/**
 * What to ask for when the server has refused a verdict, and would at another try. Each step asks less: an
 * acknowledgement becomes a failure, a failure goes without its delay or its text, then the task is given back
 * for later, and in the end at once, after a pause, which writes nothing that a table could refuse. No less can be
 * asked: what is refused then, as for want of a privilege, is tried again until the session ends.
 */
export function insteadOf(verdict: Verdict, error: unknown): Verdict | undefined {
  const code = String((error as { code?: unknown } | null)?.code);
  switch (verdict.kind) {
    case 'ack':
      if (verdict.result !== null && code === '55000') return { ...verdict, result: null }; // the queue keeps none
      return { kind: 'nack', error: errorText(error), delay: null };
    case 'release': // a snooze
      return { kind: 'nack', error: errorText(error), delay: null };
    case 'nack':
    case 'final':
      if (verdict.kind === 'nack' && verdict.delay !== null && code.startsWith('22')) return { ...verdict, delay: null };
      if (verdict.error !== null) return { ...verdict, error: null };
      return { kind: 'back', after: 0, delay: `${BACK} ms` };
    case 'back':
      return verdict.delay === '0' ? undefined : { kind: 'back', after: BACK, delay: '0' };
  }
}

/** One that says itself what comes next is not looked for in giveUpOn; nor that there is no handler, for another worker may have one. */
function lookAt(error: unknown, giveUpOn: readonly ErrorClass[], entry: Entry | undefined, task: Task): Verdict {
  if (error instanceof Snooze) return { kind: 'release', delay: durationText('the delay of Snooze', error.delay) as string };
  if (error instanceof RetryLater) {
    return { kind: 'nack', error: errorText(error), delay: durationText('the delay of RetryLater', error.delay) };
  }
  const final = error instanceof Unrecoverable || (!(error instanceof NoHandler) && isOneOf(error, [...giveUpOn, ...entry?.giveUpOn ?? []]));
  if (final) return { kind: 'final', error: errorText(error) };
  const backoff = typeof entry?.backoff === 'function' ? entry.backoff(task.attempt, error) : entry?.backoff;
  return { kind: 'nack', error: errorText(error), delay: durationText('what the backoff of the handler has returned', backoff) };
}
