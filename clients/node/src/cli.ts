#!/usr/bin/env node
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { Worker } from './worker';
import { closeOnSignal } from './signals';

const USAGE = `usage: pgfairq worker FILE [--timeout SECONDS]

Runs the workers that the module FILE exports until SIGTERM or SIGINT. What runs then has
SECONDS (30) to end, and is given back after that; a second signal does not wait.
`;

/** Whatever of the module's exports is a worker, or an array of workers. */
function workersOf(module: Record<string, unknown>): Worker[] {
  const exported = Object.values(module).flatMap((value) =>
    // a CommonJS module that is imported has its exports in `default`, too
    typeof value === 'object' && value !== null && !(value instanceof Worker) && !Array.isArray(value) ? Object.values(value) : value);
  return [...new Set(exported.flat().filter((value): value is Worker => value instanceof Worker))];
}

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    allowPositionals: true, options: { timeout: { type: 'string' }, help: { type: 'boolean', short: 'h' } },
  });
  if (values.help) {
    process.stdout.write(USAGE);
    return 0;
  }
  const seconds = Number(values.timeout ?? 30);
  if (positionals[0] !== 'worker' || positionals.length !== 2 || !(seconds >= 0)) throw new UsageError();
  const workers = workersOf(await import(pathToFileURL(path.resolve(positionals[1])).href) as Record<string, unknown>);
  if (workers.length === 0) throw new Error(`${positionals[1]} exports no Worker; export const worker = new Worker(…)`);
  const done = closeOnSignal(workers, { timeout: seconds * 1000 });
  try {
    await Promise.all(workers.map((worker) => worker.run()));
  } catch (error) {
    await Promise.all(workers.map((worker) => worker.close({ timeout: seconds * 1000 })));
    throw error;
  } finally {
    done();
  }
  return 0;
}

class UsageError extends Error {}

function wrongArguments(error: unknown): boolean {
  return error instanceof UsageError || /^ERR_PARSE_ARGS/.test(String((error as { code?: unknown })?.code));
}

main().then((code) => process.exit(code), (error: unknown) => {
  if (wrongArguments(error)) process.stderr.write(`${error instanceof UsageError ? '' : `${(error as Error).message}\n`}${USAGE}`);
  else process.stderr.write(`pgfairq: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exit(wrongArguments(error) ? 2 : 1);
});
