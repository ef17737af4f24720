import { CloseOptions, Worker } from './worker';
import { checkOptions, milliseconds } from './values';

export interface SignalOptions extends CloseOptions {
  /** Which signals; SIGTERM and SIGINT. */
  signals?: readonly NodeJS.Signals[];
}

/**
 * Closes the workers at the first signal, and without patience at the second. The process ends by
 * itself when nothing is left to do. Returns a function that takes the handlers of signals away.
 */
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export function closeOnSignal(workers: Worker<any, any> | readonly Worker<any, any>[], options: SignalOptions = {}): () => void {
  checkOptions('closeOnSignal()', options, ['timeout', 'signals']);
  const timeout = milliseconds('timeout', options.timeout ?? 30_000, 0);
  const all = workers instanceof Worker ? [workers] : [...workers];
  const signals = options.signals ?? ['SIGTERM', 'SIGINT'];
  let seen = 0;
  const onSignal = (): void => {
    seen++;
    void Promise.all(all.map((worker) => worker.close({ timeout: seen === 1 ? timeout : 0 }))).then(remove);
  };
  const remove = (): void => { for (const signal of signals) process.removeListener(signal, onSignal); };
  for (const signal of signals) process.on(signal, onSignal);
  return remove;
}
