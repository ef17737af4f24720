/** Actions on a tenant, and on a subgroup of one: pauses, weights and limits. */

import type { Reader } from '../database.js';
import { settingsOfSubgroup } from '../data/subgroups.js';
import { settingsOfTenant, type TenantSettings } from '../data/tenants.js';
import { address, foreign, html, type Markup } from '../html.js';
import { Problem } from '../problem.js';
import { answerOf, UNDONE, type Action, type Done, type Field, type Given, type Subject } from './action.js';

type Settings = Pick<TenantSettings, 'weight' | 'max_leased' | 'rate' | 'burst' | 'paused'>;

const FIELDS: readonly Field[] = [
  {
    kind: 'number',
    name: 'weight',
    label: 'Weight',
    note: 'its share beside others; 1 is usual',
    lowest: 0.001,
    highest: 1000,
    whole: false,
  },
  {
    kind: 'number',
    name: 'max_leased',
    label: 'In flight at most',
    note: '0: no limit',
    lowest: 0,
    highest: 2147483647,
    whole: true,
  },
  {
    kind: 'number',
    name: 'rate',
    label: 'Claims a second',
    note: '0: no limit',
    lowest: 0,
    highest: 1000000,
    whole: false,
  },
  {
    kind: 'number',
    name: 'burst',
    label: 'Burst',
    note: '0: as many as the rate',
    lowest: 0,
    highest: 1000000,
    whole: true,
  },
];

export const tenantOf = ({ queue, group }: Subject): Markup =>
  html`${group === '' ? 'tasks without a group' : html`tenant ${foreign(group)}`} in queue ${foreign(queue)}`;

const subgroupOf = (subject: Subject): Markup =>
  html`${subject.subgroup === '' ? 'tasks without a subgroup' : html`subgroup ${foreign(subject.subgroup)}`} of ${tenantOf(subject)}`;

/** What the actions on a tenant and those on a subgroup have different. */
interface Kind {
  /** the end of the functions' names */
  suffix: 'group' | 'subgroup';
  word: 'tenant' | 'subgroup';
  keys: (subject: Subject) => string[];
  /** in a sentence, as markup and as text */
  shown: (subject: Subject) => Markup;
  told: (subject: Subject) => string;
  settings: (reader: Reader, subject: Subject) => Promise<Settings | undefined>;
  then: (subject: Subject) => string;
}

const TENANT: Kind = {
  suffix: 'group',
  word: 'tenant',
  keys: ({ queue, group }) => [queue, group],
  shown: tenantOf,
  told: ({ group }) => (group === '' ? 'tasks without a group' : `tenant ${group}`),
  settings: (reader, { queue, group }) => settingsOfTenant(reader, queue, group),
  then: ({ queue, group }) => address('/tenant', { queue, group }),
};

const SUBGROUP: Kind = {
  suffix: 'subgroup',
  word: 'subgroup',
  keys: ({ queue, group, subgroup }) => [queue, group, subgroup],
  shown: subgroupOf,
  told: ({ group, subgroup }) => `${subgroup === '' ? 'tasks without a subgroup' : `subgroup ${subgroup}`} of tenant ${group}`,
  settings: (reader, { queue, group, subgroup }) => settingsOfSubgroup(reader, queue, group, subgroup),
  then: ({ queue, group, subgroup }) => address('/subgroup', { queue, group, subgroup }),
};

const capital = (text: string): string => text[0]!.toUpperCase() + text.slice(1);

async function set(writer: Reader, kind: Kind, subject: Subject, given: Given): Promise<void> {
  const keys = kind.keys(subject);
  const places = keys.map((_, index) => `$${index + 1}::text`).join(', ');
  const next = keys.length;
  await answerOf(
    writer,
    `SELECT fairq.set_${kind.suffix}(${places}, weight => $${next + 1}::float8, max_leased => $${next + 2}::int,
            rate => $${next + 3}::float8, burst => $${next + 4}::int)`,
    [...keys, given['weight'] ?? null, given['max_leased'] ?? null, given['rate'] ?? null, given['burst'] ?? null],
  );
}

function call<T>(writer: Reader, verb: 'pause' | 'resume' | 'reset', kind: Kind, subject: Subject): Promise<T> {
  const keys = kind.keys(subject);
  const places = keys.map((_, index) => `$${index + 1}::text`).join(', ');
  return answerOf<T>(writer, `SELECT fairq.${verb}_${kind.suffix}(${places})`, keys);
}

/** Gives back what it had before. */
async function restore(writer: Reader, kind: Kind, subject: Subject, earlier: Settings | undefined): Promise<string> {
  await call(writer, 'reset', kind, subject);
  const { weight, max_leased, rate, burst } = earlier ?? {};
  if ([weight, max_leased, rate, burst].some((value) => (value ?? null) !== null)) {
    await set(writer, kind, subject, { weight: weight ?? null, max_leased: max_leased ?? null, rate: rate ?? null, burst: burst ?? null });
  }
  if (earlier?.paused === true) {
    await call(writer, 'pause', kind, subject);
  }
  return `${capital(kind.told(subject))} ${kind.word === 'tenant' && subject.group === '' ? 'have' : 'has'} the settings of before again.`;
}

/** Does something with the settings of one, and can give back those that it had. */
async function changed(
  writer: Reader,
  kind: Kind,
  subject: Subject,
  change: () => Promise<string>,
): Promise<Done> {
  const earlier = await kind.settings(writer, subject);
  return { says: await change(), undo: (later) => restore(later, kind, subject, earlier) };
}

function actionsOn(kind: Kind, others: string): Record<string, Action> {
  const { word, shown, told, then } = kind;
  const about = kind === TENANT ? (['queue', 'group'] as const) : (['queue', 'group', 'subgroup'] as const);
  const common = { about, undoing: UNDONE, then };
  return {
    [`pause-${word}`]: {
      ...common,
      verb: `Pause the ${word}`,
      says: (subject) => html`Claims return nothing of ${shown(subject)} until it is resumed. ${others}`,
      perform: (writer, subject) =>
        changed(writer, kind, subject, async () => {
          await call(writer, 'pause', kind, subject);
          return `${capital(told(subject))} is paused.`;
        }),
    },
    [`resume-${word}`]: {
      ...common,
      verb: `Resume the ${word}`,
      says: (subject) => html`Claims return tasks of ${shown(subject)} again.`,
      perform: (writer, subject) =>
        changed(writer, kind, subject, async () => {
          await call(writer, 'resume', kind, subject);
          return `${capital(told(subject))} is resumed.`;
        }),
    },
    [`set-${word}`]: {
      ...common,
      verb: 'Set weight and limits',
      fields: FIELDS,
      before: async (reader, subject) => {
        const own = await kind.settings(reader, subject);
        return { weight: own?.weight ?? null, max_leased: own?.max_leased ?? null, rate: own?.rate ?? null, burst: own?.burst ?? null };
      },
      says: (subject) => html`The ${shown(subject)} gets what is given here; what is left empty stays as it is. Limits
            are in force at once, a weight for tasks that get their place from now on.`,
      perform: (writer, subject, given) => {
        if (Object.values(given).every((value) => value === null)) {
          throw new Problem(400, 'Nothing was given, so nothing was changed.', 'Give a weight or a limit.');
        }
        return changed(writer, kind, subject, async () => {
          await set(writer, kind, subject, given);
          return `Weight and limits of ${told(subject)} are set.`;
        });
      },
    },
    [`reset-${word}`]: {
      ...common,
      verb: 'Back to defaults',
      says: (subject) =>
        html`Weight, limits and a pause of ${shown(subject)} are taken away; it has what the queue gives each ${word}.`,
      perform: (writer, subject) =>
        changed(writer, kind, subject, async () =>
          (await call<boolean>(writer, 'reset', kind, subject))
            ? `${capital(told(subject))} has the defaults again.`
            : `${capital(told(subject))} had nothing of its own.`,
        ),
    },
  };
}

export const TENANTS: Record<string, Action> = {
  ...actionsOn(TENANT, 'Others go on.'),
  ...actionsOn(SUBGROUP, 'Others go on, also those of the tenant.'),
};
