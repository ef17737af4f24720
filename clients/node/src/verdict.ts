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
