/** The command line. */

import { readFileSync } from 'node:fs';

import { PAGES, TEXTS } from './pages/all.js';
import { newToken } from './visits.js';

export const USAGE = `usage: pgfairq-dashboard [option...] [connection string]

Shows the queues of a database with pgfairq in a browser. Without a connection string it takes
DATABASE_URL, or else PGHOST, PGUSER, PGDATABASE and so on.

  --listen [HOST:]PORT   where to listen; 127.0.0.1:8642
  --host NAME            another name by which browsers reach it (may be given again)
  --base-path PATH       the path by which browsers reach it below a proxy, such as /queues
  --write                lets who has signed in pause, resume, revive, cancel and set weights
  --token-file FILE      the token to sign in with; else PGFAIRQ_DASHBOARD_TOKEN, else a new one
                         is made and printed if one is needed: with --write, or where others than
                         this machine can connect
  --user-header NAME     a proxy in front has signed visitors in, and says in this header who they
                         are; it is trusted, so only the proxy may reach the port
  --role-header NAME     in this header it says which roles they have
  --operator-role ROLE   who has this one may act, with --write; others look. operator
  --audit-file FILE      a line for each action goes there; else to the standard error
  --sample SECONDS       time between samples for the charts, 1 to 60; 5
  --history DAYS         keeps figures of each minute in a table, 1 to 90 days, so that charts survive
                         a restart; it needs the table of DASHBOARD.md
  --help, --version
`;

export interface Options {
  connection: string | undefined;
  host: string;
  port: number;
  names: string[];
  write: boolean;
  /** what addresses begin with; empty: nothing */
  basePath: string;
  /** undefined: none is asked for */
  token: string | undefined;
  /** whether it was made here, and has to be told */
  tokenIsNew: boolean;
  sample: number;
  /** in small letters; undefined: visitors sign in with the token, if there is one */
  userHeader: string | undefined;
  roleHeader: string | undefined;
  operatorRole: string;
  auditFile: string | undefined;
  /** how many days are kept in the table; undefined: none */
  historyDays: number | undefined;
}

const WITH_VALUE = [
  '--listen',
  '--host',
  '--base-path',
  '--token-file',
  '--user-header',
  '--role-header',
  '--operator-role',
  '--audit-file',
  '--sample',
  '--history',
];

/** What is wrong with the command line. */
export class UsageError extends Error {}

const SHORTEST_TOKEN = 16;

export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host);
}

function listenAddress(value: string): { host: string; port: number } {
  const match = /^(?:(\[[0-9a-f:.]+\]|[^:[\]]+):)?(\d{1,5})$/i.exec(value);
  const port = Number(match?.[2]);
  if (match === null || port > 65535) {
    throw new UsageError(`--listen is “${value}”; it takes a port, or a host and a port, such as 127.0.0.1:8642`);
  }
  return { host: (match[1] ?? '127.0.0.1').replace(/^\[|\]$/g, ''), port };
}

function sampleSeconds(value: string): number {
  const seconds = /^\d+(\.\d+)?$/.test(value) ? Number(value) : NaN;
  if (!(seconds >= 1 && seconds <= 60)) {
    throw new UsageError(`--sample is “${value}”; it takes seconds, from 1 to 60`);
  }
  return seconds;
}

function historyDays(value: string | undefined): number | undefined {
  const days = value === undefined ? undefined : /^\d+$/.test(value) ? Number(value) : NaN;
  if (days !== undefined && !(days >= 1 && days <= 90)) {
    throw new UsageError(`--history is “${value}”; it takes a number of days, from 1 to 90`);
  }
  return days;
}

function givenToken(file: string | undefined, environment: NodeJS.ProcessEnv): string | undefined {
  let token = environment['PGFAIRQ_DASHBOARD_TOKEN'];
  if (file !== undefined) {
    try {
      token = readFileSync(file, 'utf8').trim();
    } catch (error) {
      throw new UsageError(`--token-file cannot be read: ${(error as Error).message}`);
    }
  }
  if (token !== undefined && token.length < SHORTEST_TOKEN) {
    throw new UsageError(
      `the token has ${token.length} characters; it takes ${SHORTEST_TOKEN} or more, such as openssl rand -hex 16 gives`,
    );
  }
  return token;
}

/** The options by name, and the arguments that are none. */
function split(args: readonly string[]): { options: [string, string][]; rest: string[] } {
  const options: [string, string][] = [];
  const rest: string[] = [];
  for (let index = 0; index < args.length; index += 1) {
    const argument = args[index]!;
    const [, name, given] = /^(--[a-z-]+)(?:=(.*))?$/s.exec(argument) ?? [];
    if (name === undefined) {
      if (argument.startsWith('-')) {
        throw new UsageError(`there is no option ${argument}`);
      }
      rest.push(argument);
    } else if (name === '--write') {
      options.push([name, '']);
    } else if (WITH_VALUE.includes(name)) {
      const value = given ?? args[(index += 1)];
      if (value === undefined) {
        throw new UsageError(`${name} takes a value`);
      }
      options.push([name, value]);
    } else {
      throw new UsageError(`there is no option ${name}`);
    }
  }
  return { options, rest };
}

/** Addresses that are no pages. */
const OTHERS = ['/act', '/undo', '/sign-in', '/sign-out', '/healthz'];

function basePath(value: string): string {
  const path = value.replace(/\/+$/, '');
  if (path !== '' && !/^(\/(?!\.\.?(\/|$))[\w.~-]+)+$/.test(path)) {
    throw new UsageError(`--base-path is “${value}”; it takes a path such as /queues`);
  }
  // Of /queue it could not be told whether a proxy has left that there or taken it away.
  if (PAGES.has(path) || TEXTS.has(path) || OTHERS.includes(path)) {
    throw new UsageError(`--base-path is “${value}”, which is an address of the dashboard's own; take another one, such as /queues`);
  }
  return path;
}

function headerName(option: string, value: string | undefined): string | undefined {
  if (value !== undefined && !/^[\w-]+$/.test(value)) {
    throw new UsageError(`${option} is “${value}”; it takes the name of a header, such as X-Forwarded-User`);
  }
  return value?.toLowerCase();
}

type Headers = Pick<Options, 'userHeader' | 'roleHeader' | 'operatorRole'>;

/** What a proxy says of visitors. */
function headers(last: (name: string) => string | undefined, write: boolean): Headers {
  const userHeader = headerName('--user-header', last('--user-header'));
  const roleHeader = headerName('--role-header', last('--role-header'));
  const operatorRole = last('--operator-role') ?? 'operator';
  if (userHeader === undefined && (roleHeader !== undefined || last('--operator-role') !== undefined)) {
    throw new UsageError('--role-header and --operator-role are for visitors whom --user-header names; give that, too');
  }
  if (userHeader !== undefined && write && roleHeader === undefined) {
    throw new UsageError('--write with --user-header takes --role-header, which says who may act');
  }
  if (!/^[^\s,;]+$/.test(operatorRole)) {
    throw new UsageError(`--operator-role is “${operatorRole}”; it takes one word`);
  }
  return { userHeader, roleHeader, operatorRole };
}

export function parseOptions(args: readonly string[], environment: NodeJS.ProcessEnv): Options {
  const { options, rest } = split(args);
  if (rest.length > 1) {
    throw new UsageError('there is more than one connection string');
  }
  const last = (name: string): string | undefined => options.filter(([one]) => one === name).at(-1)?.[1];
  const connection = rest[0] ?? environment['DATABASE_URL'];
  if (connection !== undefined && !/^(postgres(ql)?:\/\/|socket:)/.test(connection)) {
    throw new UsageError('the connection string is no address such as postgresql://user@host/database');
  }
  const { host, port } = listenAddress(last('--listen') ?? '8642');
  const write = last('--write') !== undefined;
  const given = givenToken(last('--token-file'), environment);
  const proxy = headers(last, write);
  if (proxy.userHeader !== undefined && given !== undefined) {
    throw new UsageError('there is a token, and --user-header; give one of them');
  }
  const needed = proxy.userHeader === undefined && (write || !isLoopback(host));
  return {
    ...proxy,
    basePath: basePath(last('--base-path') ?? ''),
    auditFile: last('--audit-file'),
    historyDays: historyDays(last('--history')),
    connection,
    host,
    port,
    names: options.filter(([name]) => name === '--host').map(([, value]) => value.toLowerCase()),
    write,
    token: given ?? (needed ? newToken() : undefined),
    tokenIsNew: given === undefined && needed,
    sample: sampleSeconds(last('--sample') ?? '5'),
  };
}
