import { Statement } from './database';
import {
  Duration, GroupKey, Moment, TaskId, arrayText, checkOptions, durationText, groupText, idText, jsonText, momentText, optionalNumber,
} from './values';

/** What can be said of one task. */
export interface TaskOptions {
  /** Whom the task counts for; fairness is between groups. */
  group?: GroupKey;
  /** Whom of the group it counts for, such as a user of the tenant; for queues with `subgroups`. */
  subgroup?: GroupKey;
  /** 0 to 9 in a fair queue, the lower first; else any number. */
  priority?: number | bigint;
  /** How many turns of its group the task takes; 1. */
  cost?: number;
  /** Not before so long from now. */
  delay?: Duration;
  /** Not before then. */
  runAt?: Moment;
  /** What the task is about: at most one of a key waits, and at most one is in flight. */
  uniqueKey?: string;
  /** If one of the key waits: `keep` it, or `replace` it by this one. */
  onDuplicate?: 'keep' | 'replace';
  /** How long the key is remembered, also when the task has ended. */
  uniqueFor?: Duration;
  /** For this task, in place of the queue's. */
  maxAttempts?: number;
  /** For this task, in place of the queue's. A worker's session takes the place of both. */
  lease?: Duration;
  /** What travels with the payload, such as a trace id. */
  headers?: Record<string, unknown>;
  /** After how many lost leases the task is dead, in place of the queue's; 0: no limit. */
  maxLost?: number;
  /** What kind of task it is, for `task.name`: 1 to 100 bytes. */
  name?: string;
  /** Not begun then or later. `'infinity'`: never expires. */
  expiresAt?: Moment;
  /** Held until these tasks of the queue have ended. */
  after?: readonly TaskId[];
  /** What it means that one of them failed. */
  onDead?: 'hold' | 'cancel' | 'run';
}

const TASK_OPTIONS = ['group', 'subgroup', 'priority', 'cost', 'delay', 'runAt', 'uniqueKey', 'onDuplicate', 'uniqueFor',
  'maxAttempts', 'lease', 'headers', 'name', 'maxLost', 'expiresAt', 'after', 'onDead'] as const;

/** The same for a topic, and for each of many; a column is an array for the server then. */
type Column = 'payload' | 'group' | 'priority' | 'cost' | 'runAt' | 'uniqueKey' | 'onDuplicate' | 'maxAttempts' | 'lease' |
  'headers' | 'expiresAt' | 'uniqueFor' | 'delay' | 'name' | 'maxLost' | 'subgroup' | 'after' | 'onDead';

const ARGUMENTS: Record<Column, { argument: string; type: string }> = {
  payload: { argument: 'payload', type: 'jsonb' },
  group: { argument: 'group_key', type: 'text' },
  priority: { argument: 'priority', type: 'bigint' },
  cost: { argument: 'cost', type: 'float8' },
  runAt: { argument: 'run_at', type: 'timestamptz' },
  uniqueKey: { argument: 'unique_key', type: 'text' },
  onDuplicate: { argument: 'on_duplicate', type: 'text' },
  maxAttempts: { argument: 'max_attempts', type: 'int' },
  lease: { argument: 'lease', type: 'interval' },
  headers: { argument: 'headers', type: 'jsonb' },
  expiresAt: { argument: 'expires_at', type: 'timestamptz' },
  uniqueFor: { argument: 'unique_for', type: 'interval' },
  delay: { argument: 'delay', type: 'interval' },
  name: { argument: 'name', type: 'text' },
  maxLost: { argument: 'max_lost', type: 'int' },
  subgroup: { argument: 'subgroup_key', type: 'text' },
  after: { argument: 'after', type: 'bigint[]' },
  onDead: { argument: 'on_dead', type: 'text' },
};
const COLUMNS = Object.keys(ARGUMENTS) as Column[];
const TOPIC_COLUMNS = COLUMNS.filter((column) => column !== 'after' && column !== 'onDead');

function call(columns: Column[], value: (column: Column, n: number) => string): string {
  return columns.map((column, n) => `${ARGUMENTS[column].argument} => ${value(column, n)}`).join(', ');
}

const placeholder = (column: Column, n: number): string => `$${n + 2}::${ARGUMENTS[column].type}`;

export const ENQUEUE = new Statement(`SELECT fairq.enqueue($1, ${call(COLUMNS, placeholder)})`);
export const PUBLISH = new Statement(`SELECT fairq.publish($1, ${call(TOPIC_COLUMNS, placeholder)})`);

/** What the server does fastest, for tasks that say no more than this. */
const FAST: Column[] = ['payload', 'group', 'priority', 'cost', 'runAt', 'uniqueKey', 'name', 'subgroup'];
export const ENQUEUE_MANY = new Statement(`SELECT n, id FROM unnest(fairq.enqueue_many($1, $2::jsonb[], $3::text[],
  $4::bigint[], $5::float8[], $6::timestamptz[], $7::text[], names => $8::text[], subgroup_keys => $9::text[]))
  WITH ORDINALITY AS t (id, n)`);

/** Keys are taken in their order, so that two calls do not wait for each other in a circle. Arrays travel as texts. */
export const ENQUEUE_EACH = new Statement(`SELECT n, fairq.enqueue($1, ${call(COLUMNS, (column) =>
  column === 'after' ? 'v_after::bigint[]' : `v_${column.toLowerCase()}`)})
  FROM (SELECT * FROM unnest(${COLUMNS.map((column, n) =>
    `$${n + 2}::${column === 'after' ? 'text' : ARGUMENTS[column].type}[]`).join(', ')})
    WITH ORDINALITY AS t (${COLUMNS.map((column) => `v_${column.toLowerCase()}`).join(', ')}, n)
    ORDER BY v_uniquekey COLLATE "C", n) t`);

/** The arguments after the queue, or the topic, in the order of the columns. */
function texts(what: string, data: unknown, options: TaskOptions, others: readonly string[]): Record<Column, string | null> {
  checkOptions(what, options, [...TASK_OPTIONS, ...others]);
  const text = (key: 'uniqueKey' | 'onDuplicate' | 'onDead' | 'name'): string | null => {
    const value = options[key];
    if (value !== undefined && typeof value !== 'string') throw new TypeError(`${key} of ${what} is no text`);
    return value ?? null;
  };
  return {
    payload: jsonText(`the data of ${what}`, data),
    group: groupText(`the group of ${what}`, options.group),
    priority: optionalNumber(`the priority of ${what}`, options.priority),
    cost: optionalNumber(`the cost of ${what}`, options.cost),
    runAt: momentText(`runAt of ${what}`, options.runAt),
    uniqueKey: text('uniqueKey'),
    onDuplicate: text('onDuplicate'),
    maxAttempts: optionalNumber(`maxAttempts of ${what}`, options.maxAttempts),
    lease: durationText(`the lease of ${what}`, options.lease),
    headers: headersText(what, options.headers),
    expiresAt: momentText(`expiresAt of ${what}`, options.expiresAt),
    uniqueFor: durationText(`uniqueFor of ${what}`, options.uniqueFor),
    delay: durationText(`the delay of ${what}`, options.delay),
    name: text('name'),
    maxLost: optionalNumber(`maxLost of ${what}`, options.maxLost),
    subgroup: groupText(`the subgroup of ${what}`, options.subgroup),
    after: options.after === undefined ? null : `{${options.after.map((id) => idText(`after of ${what}`, id)).join(',')}}`,
    onDead: text('onDead'),
  };
}

function headersText(what: string, headers: TaskOptions['headers']): string | null {
  if (headers !== undefined && (typeof headers !== 'object' || headers === null || Array.isArray(headers))) {
    throw new TypeError(`the headers of ${what} are no object`);
  }
  return headers === undefined ? null : jsonText(`the headers of ${what}`, headers);
}

export function enqueueValues(queue: string, data: unknown, options: TaskOptions): unknown[] {
  const row = texts('add()', data, options, ['client']);
  return [queue, ...COLUMNS.map((column) => row[column])];
}

export function publishValues(topic: string, data: unknown, options: TaskOptions): unknown[] {
  const row = texts('publish()', data, options, ['client']);
  if (row.after !== null || row.onDead !== null) throw new TypeError('publish() has no after and no onDead: the queues are not known');
  return [topic, ...TOPIC_COLUMNS.map((column) => row[column])];
}

/** The statement for many tasks and its values. */
export function manyValues(queue: string, tasks: readonly { data: unknown; options: TaskOptions }[]):
  { statement: Statement; values: unknown[] } {
  const rows = tasks.map(({ data, options }, n) => texts(`task ${n} of addMany()`, data, options, []));
  const array = (column: Column): string => arrayText(rows.map((row) => row[column]));
  const fast = rows.every((row) => COLUMNS.every((column) => row[column] === null || FAST.includes(column)));
  if (fast) return { statement: ENQUEUE_MANY, values: [queue, ...FAST.map(array)] };
  return { statement: ENQUEUE_EACH, values: [queue, ...COLUMNS.map((column) =>
    // arguments whose NULL is not the default
    column === 'onDuplicate' || column === 'onDead' ? arrayText(rows.map((row) => row[column])) : array(column))] };
}
