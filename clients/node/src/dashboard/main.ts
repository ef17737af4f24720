#!/usr/bin/env node
/** Starts the dashboard, or says why it cannot. */

import { userInfo } from 'node:os';

import { Database } from './database.js';
import { histograms } from './data/queues.js';
import { server } from './data/server.js';
import { isLoopback, parseOptions, USAGE, UsageError, type Options } from './options.js';
import { Problem } from './problem.js';
import { Sampler } from './sampler.js';
import { Audit } from './audit.js';
import { setBasePath } from './html.js';
import { Dashboard } from './server.js';

const VERSION: string = (require('../../package.json') as { version: string }).version;

/** Whether this database has what the dashboard shows. */
async function check(database: Database): Promise<void> {
  await database.read(async (reader) => {
    const there = await server(reader);
    if (there.cluster) {
      throw new Problem(
        0,
        `database ${there.database} is a proxy of a cluster, which has no tasks of its own`,
        'Connect to a node: SELECT node, connection FROM fairq.nodes says where they are.',
      );
    }
    if (there.extension === null) {
      throw new Problem(
        0,
        `database ${there.database} does not have the extension pgfairq`,
        'Is it another database that has the queues? Else, as a superuser: CREATE EXTENSION pgfairq.',
      );
    }
    // Of what takes the library to be preloaded, and no look at a table.
    await histograms(reader);
    if (!there.monitor) {
      process.stderr.write(
        `pgfairq-dashboard: role ${there.role} is not a member of pg_monitor, and sees figures of queues only ` +
          `whose tables it may read. GRANT pg_monitor TO ${there.role}; changes that.\n`,
      );
    }
  });
}

function say(options: Options, port: number): void {
  const host = options.host.includes(':') ? `[${options.host}]` : options.host;
  const lines = [`pgfairq dashboard: http://${host}:${port}${options.basePath}/`];
  if (options.tokenIsNew) {
    lines.push(`token to sign in:  ${options.token}`);
  }
  if (options.userHeader !== undefined) {
    lines.push(`Who reaches this port can say who they are, in the header ${options.userHeader}: let only the proxy do so.`);
  } else if (options.token === undefined) {
    lines.push('No token is asked for: every user of this machine sees what the role may read (see --token-file).');
  }
  if (!isLoopback(options.host)) {
    lines.push('It can be reached from other machines, without encryption: put a proxy with TLS in front of it.');
  }
  process.stdout.write(`${lines.join('\n')}\n`);
}

function untilSignal(): Promise<void> {
  return new Promise((resolve) => {
    process.once('SIGINT', () => resolve());
    process.once('SIGTERM', () => resolve());
  });
}

async function run(options: Options): Promise<void> {
  // pg takes the user of the environment; libpq that of the process, where there is none.
  process.env['PGUSER'] ??= process.env['USER'] ?? userInfo().username;
  const audit = new Audit(options.auditFile);
  setBasePath(options.basePath);
  const database = new Database(options.connection === undefined ? {} : { connectionString: options.connection });
  await check(database);
  const sampler = new Sampler(database, options.sample, options.historyDays);
  await sampler.start();
  const dashboard = new Dashboard(options, database, sampler, audit);
  const http = await dashboard.listen();
  const bound = http.address();
  say(options, typeof bound === 'object' && bound !== null ? bound.port : options.port);
  await untilSignal();
  sampler.stop();
  await dashboard.close(http);
  await database.close();
}

/** What is wrong, in a line or two; then the end. */
function fail(error: Error & { code?: string }, options?: Options): never {
  const words =
    error.code === 'EADDRINUSE' ? `port ${options?.port} is in use; give another one with --listen` : error.message;
  process.stderr.write(`pgfairq-dashboard: ${words}\n`);
  if (error instanceof Problem && error.hint !== undefined && error.status !== 503) {
    process.stderr.write(`${error.hint}\n`);
  }
  if (error instanceof UsageError) {
    process.stderr.write('pgfairq-dashboard --help says what there is\n');
  }
  process.exit(error instanceof UsageError ? 2 : 1);
}

function main(args: readonly string[]): void {
  if (args.includes('--help')) {
    process.stdout.write(USAGE);
    return;
  }
  if (args.includes('--version')) {
    process.stdout.write(`${VERSION}\n`);
    return;
  }
  let options: Options | undefined;
  try {
    options = parseOptions(args, process.env);
  } catch (error) {
    fail(error as Error);
  }
  run(options).then(
    () => process.exit(0),
    (error: Error) => fail(error, options),
  );
}

main(process.argv.slice(2));
