/** What can be done, each in a transaction of its own, and what is asked before. */

import type { Database } from './database.js';
import { count } from './format.js';
import { address, foreign, html, type Child, type Markup } from './html.js';
import { groupParams, subgroupParams } from './layout.js';
import type { Params } from './params.js';
import { Problem } from './problem.js';

/** What an action is about: parameters of its address. */
interface Subject {
  queue: string;
  group: string;
  subgroup: string;
  name: string;
  id: string;
}

type Part = keyof Subject;

/** A number to be given, or left as it is. */
export interface Field {
  name: string;
  label: string;
  note: string;
  lowest: number;
  highest: number;
  whole: boolean;
}

export interface Action {
  /** what the button says */
  verb: string;
  danger?: boolean;
  about: readonly Part[];
  fields?: readonly Field[];
  /** what will happen, in a sentence or two */
  says: (subject: Subject) => Child;
  sql: string;
  /** what has happened, from the answer of the function */
  outcome: (answer: unknown, subject: Subject) => string;
  /** where the visitor goes then */
  then: (subject: Subject) => string;
}

const toQueue = ({ queue }: Subject): string => address('/queue', { queue });
const toTenant = ({ queue, group }: Subject): string => address('/tenant', { queue, group });
const toSubgroup = ({ queue, group, subgroup }: Subject): string => address('/subgroup', { queue, group, subgroup });
const toTask = ({ queue, id }: Subject): string => address('/task', { queue, id });
const toDead = ({ queue }: Subject): string => address('/dead', { queue });
const toDeadOfTenant = ({ queue, group }: Subject): string => address('/dead', { queue, ...groupParams(group) });

const revived = (answer: unknown): string =>
  `${count(Number(answer))} ${Number(answer) === 1 ? 'task is' : 'tasks are'} ready again.`;

const tenant = ({ queue, group }: Subject): Markup =>
  html`${group === '' ? 'tasks without a group' : html`tenant ${foreign(group)}`} in queue ${foreign(queue)}`;

const subgroupOf = (subject: Subject): Markup =>
  html`${subject.subgroup === '' ? 'tasks without a subgroup' : html`subgroup ${foreign(subject.subgroup)}`} of ${tenant(subject)}`;

const FIELDS: readonly Field[] = [
  {
    name: 'weight',
    label: 'Weight',
    note: 'its share beside others; 1 is usual',
    lowest: 0.001,
    highest: 1000,
    whole: false,
  },
  {
    name: 'max_leased',
    label: 'In flight at most',
    note: '0: no limit',
    lowest: 0,
    highest: 2147483647,
    whole: true,
  },
  { name: 'rate', label: 'Claims a second', note: '0: no limit', lowest: 0, highest: 1000000, whole: false },
  { name: 'burst', label: 'Burst', note: '0: as many as the rate', lowest: 0, highest: 1000000, whole: true },
];

const QUEUE: Record<string, Action> = {
  'pause-queue': {
    verb: 'Pause the queue',
    about: ['queue'],
    says: ({
      queue,
    }) => html`Claims return nothing from queue ${foreign(queue)} until it is resumed. What is in flight goes on,
            and producers enqueue as before.`,
    sql: 'SELECT fairq.pause($1::text)',
    outcome: (_, { queue }) => `Queue ${queue} is paused.`,
    then: toQueue,
  },
  'resume-queue': {
    verb: 'Resume the queue',
    about: ['queue'],
    says: ({ queue }) => html`Claims return tasks of queue ${foreign(queue)} again.`,
    sql: 'SELECT fairq.resume($1::text)',
    outcome: (_, { queue }) => `Queue ${queue} is resumed.`,
    then: toQueue,
  },
  'revive-all': {
    verb: 'Revive all dead tasks',
    danger: true,
    about: ['queue'],
    says: ({ queue }) =>
      html`All dead tasks of queue ${foreign(queue)} become ready, with all attempts, and run again.`,
    sql: 'SELECT fairq.revive_all($1::text)',
    outcome: revived,
    then: toDead,
  },
};

const TENANT: Record<string, Action> = {
  'pause-tenant': {
    verb: 'Pause the tenant',
    about: ['queue', 'group'],
    says: (subject) => html`Claims return nothing of ${tenant(subject)} until it is resumed. Others go on.`,
    sql: 'SELECT fairq.pause_group($1::text, $2::text)',
    outcome: (_, { group }) => `Tenant ${group} is paused.`,
    then: toTenant,
  },
  'resume-tenant': {
    verb: 'Resume the tenant',
    about: ['queue', 'group'],
    says: (subject) => html`Claims return tasks of ${tenant(subject)} again.`,
    sql: 'SELECT fairq.resume_group($1::text, $2::text)',
    outcome: (_, { group }) => `Tenant ${group} is resumed.`,
    then: toTenant,
  },
  'revive-tenant': {
    verb: 'Revive the dead tasks',
    danger: true,
    about: ['queue', 'group'],
    says: (subject) => html`All dead tasks of ${tenant(subject)} become ready, with all attempts, and run again.`,
    sql: 'SELECT fairq.revive_group($1::text, $2::text)',
    outcome: revived,
    then: toDeadOfTenant,
  },
  'set-tenant': {
    verb: 'Set weight and limits',
    about: ['queue', 'group'],
    fields: FIELDS,
    says: (
      subject,
    ) => html`The ${tenant(subject)} gets what is given here; what is left empty stays as it is. Limits are in force at
            once, a weight for tasks that get their place from now on.`,
    sql: `SELECT fairq.set_group($1::text, $2::text, weight => $3::float8, max_leased => $4::int,
            rate => $5::float8, burst => $6::int)`,
    outcome: (_, { group }) => `Weight and limits of tenant ${group} are set.`,
    then: toTenant,
  },
  'reset-tenant': {
    verb: 'Back to defaults',
    about: ['queue', 'group'],
    says: (subject) =>
      html`Weight, limits and a pause of ${tenant(subject)} are taken away; it has what the queue gives each tenant.`,
    sql: 'SELECT fairq.reset_group($1::text, $2::text)',
    outcome: (answer, { group }) =>
      answer === true ? `Tenant ${group} has the defaults again.` : `Tenant ${group} had nothing of its own.`,
    then: toTenant,
  },
};

const SUBGROUP: Record<string, Action> = {
  'pause-subgroup': {
    verb: 'Pause the subgroup',
    about: ['queue', 'group', 'subgroup'],
    says: (subject) =>
      html`Claims return nothing of ${subgroupOf(subject)} until it is resumed. Others go on, also those of the tenant.`,
    sql: 'SELECT fairq.pause_subgroup($1::text, $2::text, $3::text)',
    outcome: (_, { group, subgroup }) => `Subgroup ${subgroup} of tenant ${group} is paused.`,
    then: toSubgroup,
  },
  'resume-subgroup': {
    verb: 'Resume the subgroup',
    about: ['queue', 'group', 'subgroup'],
    says: (subject) => html`Claims return tasks of ${subgroupOf(subject)} again.`,
    sql: 'SELECT fairq.resume_subgroup($1::text, $2::text, $3::text)',
    outcome: (_, { group, subgroup }) => `Subgroup ${subgroup} of tenant ${group} is resumed.`,
    then: toSubgroup,
  },
  'revive-subgroup': {
    verb: 'Revive the dead tasks',
    danger: true,
    about: ['queue', 'group', 'subgroup'],
    says: (subject) => html`All dead tasks of ${subgroupOf(subject)} become ready, with all attempts, and run again.`,
    sql: `SELECT coalesce(sum(fairq.revive($1::text, t.id)), 0)
            FROM fairq.tasks($1::text, 'dead', $2::text) t WHERE coalesce(t.subgroup_key, '') = $3::text`,
    outcome: revived,
    then: ({ queue, group, subgroup }) =>
      address('/dead', { queue, ...groupParams(group), ...subgroupParams(subgroup) }),
  },
  'set-subgroup': {
    verb: 'Set weight and limits',
    about: ['queue', 'group', 'subgroup'],
    fields: FIELDS,
    says: (
      subject,
    ) => html`The ${subgroupOf(subject)} gets what is given here; what is left empty stays as it is. Limits are in force at
            once, a weight for tasks that get their place from now on.`,
    sql: `SELECT fairq.set_subgroup($1::text, $2::text, $3::text, weight => $4::float8, max_leased => $5::int,
            rate => $6::float8, burst => $7::int)`,
    outcome: (_, { group, subgroup }) => `Weight and limits of subgroup ${subgroup} of tenant ${group} are set.`,
    then: toSubgroup,
  },
  'reset-subgroup': {
    verb: 'Back to defaults',
    about: ['queue', 'group', 'subgroup'],
    says: (subject) =>
      html`Weight, limits and a pause of ${subgroupOf(subject)} are taken away; it has what the queue gives each subgroup.`,
    sql: 'SELECT fairq.reset_subgroup($1::text, $2::text, $3::text)',
    outcome: (answer, { group, subgroup }) =>
      answer === true
        ? `Subgroup ${subgroup} of tenant ${group} has the defaults again.`
        : `Subgroup ${subgroup} of tenant ${group} had nothing of its own.`,
    then: toSubgroup,
  },
};

/** The dead of a name, by the functions for one; of all tenants, or of that which $3 is. */
const revivedOf = (group: 'NULL' | '$3'): string =>
  `SELECT coalesce(sum(fairq.revive($1::text, t.id)), 0)
            FROM fairq.tasks($1::text, 'dead', ${group}::text, $2::text) t`;

const NAME: Record<string, Action> = {
  'revive-name': {
    verb: 'Revive the dead tasks',
    danger: true,
    about: ['queue', 'name'],
    says: ({ queue, name }) =>
      html`All dead tasks named ${foreign(name)} of queue ${foreign(queue)} become ready, with all attempts, and run again.`,
    sql: revivedOf('NULL'),
    outcome: revived,
    then: ({ queue, name }) => address('/dead', { queue, name }),
  },
  'revive-tenant-name': {
    verb: 'Revive the dead tasks',
    danger: true,
    about: ['queue', 'name', 'group'],
    says: (subject) =>
      html`All dead tasks named ${foreign(subject.name)} of ${tenant(subject)} become ready, with all attempts, and run again.`,
    sql: revivedOf('$3'),
    outcome: revived,
    then: ({ queue, group, name }) => address('/dead', { queue, ...groupParams(group), name }),
  },
};

const TASK: Record<string, Action> = {
  revive: {
    verb: 'Revive the task',
    about: ['queue', 'id'],
    says: ({ queue, id }) =>
      html`Dead task ${id} of queue ${foreign(queue)} becomes ready, with all attempts, and runs again.`,
    sql: 'SELECT fairq.revive($1::text, $2::bigint)',
    outcome: (answer, { id }) =>
      Number(answer) === 1
        ? `Task ${id} is ready again.`
        : `Task ${id} was not revived: it is not dead, or another task of its unique key waits.`,
    then: toTask,
  },
  cancel: {
    verb: 'Cancel the task',
    danger: true,
    about: ['queue', 'id'],
    says: ({
      queue,
      id,
    }) => html`Task ${id} of queue ${foreign(queue)} is removed, in whatever state it is. If a worker has it,
            its acknowledgement will be refused. This cannot be undone.`,
    sql: 'SELECT fairq.cancel($1::text, $2::bigint)',
    outcome: (answer, { id }) => (answer === true ? `Task ${id} is cancelled.` : `There is no task ${id} any more.`),
    then: toQueue,
  },
};

export const ACTIONS: ReadonlyMap<string, Action> = new Map(
  Object.entries({ ...QUEUE, ...TENANT, ...SUBGROUP, ...NAME, ...TASK }),
);

export function subjectOf(action: Action, params: Params): Subject {
  const subject: Subject = { queue: '', group: '', subgroup: '', name: '', id: '' };
  for (const part of action.about) {
    subject[part] = part === 'id' ? params.requiredId(part) : params.required(part);
  }
  return subject;
}

/** What was given for the fields; an empty one stays as it is. */
export function numbersOf(action: Action, form: Params): (number | null)[] {
  return (action.fields ?? []).map(({ name, label, lowest, highest, whole }) => {
    const text = (form.text(name) ?? '').trim();
    if (text === '') {
      return null;
    }
    const value = /^\d*\.?\d+(e[-+]?\d+)?$/i.test(text) ? Number(text) : NaN;
    if (!(value >= lowest && value <= highest) || (whole && !Number.isInteger(value))) {
      throw new Problem(
        400,
        `${label} is “${text}”.`,
        `It may be ${whole ? 'a whole number' : 'a number'} from ${lowest} to ${highest}.`,
      );
    }
    return value;
  });
}

export async function perform(
  database: Database,
  action: Action,
  subject: Subject,
  numbers: readonly (number | null)[],
): Promise<string> {
  if (action.fields !== undefined && numbers.every((value) => value === null)) {
    return 'Nothing was given, so nothing was changed.';
  }
  const values = [...action.about.map((part) => subject[part]), ...numbers];
  const [row] = await database.write<Record<string, unknown>>(action.sql, values);
  return action.outcome(Object.values(row ?? {})[0], subject);
}

export type { Subject };
