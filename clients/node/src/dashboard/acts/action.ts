/** What an action is: what is asked before, what is done, and how it can be undone. */

import type { Reader } from '../database.js';
import type { Narrow } from '../data/dead.js';
import { count } from '../format.js';
import type { Child } from '../html.js';
import type { Params } from '../params.js';
import { Problem } from '../problem.js';

/** What an action is about: parameters of its address. */
export interface Subject {
  queue: string;
  group: string;
  subgroup: string;
  id: string;
  /** of a schedule */
  schedule: string;
  /** tasks that were chosen one by one */
  ids: string[];
  /** what a list is narrowed to */
  narrow: Narrow;
}

type Part = 'queue' | 'group' | 'subgroup' | 'id' | 'schedule';

interface Named {
  name: string;
  label: string;
  note: string;
}

/** A number to be given, or left as it is. */
export interface NumberField extends Named {
  kind: 'number';
  lowest: number;
  highest: number;
  whole: boolean;
}

/** A text to be given; an empty one is one. */
export interface TextField extends Named {
  kind: 'text';
  /** it is JSON, and may have many lines */
  json?: boolean;
  /** it may be one of these only */
  choices?: readonly string[];
}

export type Field = NumberField | TextField;
export type Given = Readonly<Record<string, number | string | null>>;

/** How what was done is taken back, and what is said then. */
export type Undo = (writer: Reader) => Promise<string>;

export interface Done {
  /** what has happened */
  says: string;
  /** undefined: this cannot be undone */
  undo?: Undo | undefined;
  /** where the visitor goes, if not where `then` says */
  to?: string;
}

export interface Action {
  /** what the button says */
  verb: string;
  danger?: boolean;
  about: readonly Part[];
  /** whether it is for what a list is narrowed to, or for tasks that were chosen */
  of?: 'narrowed' | 'chosen';
  fields?: readonly Field[];
  /** what the fields have before something is given */
  before?: (reader: Reader, subject: Subject) => Promise<Given>;
  /** what will happen, in a sentence or two */
  says: (subject: Subject) => Child;
  /** what of it can be undone, in a sentence */
  undoing: string;
  perform: (writer: Reader, subject: Subject, given: Given) => Promise<Done>;
  /** where the visitor goes then, or who leaves it */
  then: (subject: Subject) => string;
}

export const UNDONE = 'It can be undone for ten minutes.';
export const NOT_UNDONE = 'It cannot be undone.';

export const tasksAre = (number: number, what: string): string =>
  `${count(number)} ${number === 1 ? 'task is' : 'tasks are'} ${what}.`;

/** The one value that a function answers. */
export async function answerOf<T>(writer: Reader, sql: string, values: readonly unknown[]): Promise<T> {
  return Object.values((await writer.row<Record<string, T>>(sql, values)) ?? {})[0] as T;
}

export function subjectOf(action: Action, params: Params): Subject {
  const subject: Subject = { queue: '', group: '', subgroup: '', id: '', schedule: '', ids: [], narrow: {} };
  for (const part of action.about) {
    subject[part] = part === 'id' ? params.requiredId(part) : params.required(part);
  }
  if (action.of === 'narrowed') {
    subject.narrow = params.narrow();
  }
  if (action.of === 'chosen') {
    subject.ids = params.ids('id');
    if (subject.ids.length === 0) {
      throw new Problem(400, 'No task was chosen.', 'Tick the boxes of those it is to be done to.');
    }
  }
  return subject;
}

function numberOf({ name, label, lowest, highest, whole }: NumberField, form: Params): number | null {
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
}

function textOf({ name, label, json, choices }: TextField, form: Params): string {
  const text = form.long(name) ?? '';
  if (json === true) {
    try {
      JSON.parse(text);
    } catch (error) {
      throw new Problem(400, `${label} is no JSON: ${(error as Error).message}.`, 'A text is in double quotes.');
    }
  }
  if (choices !== undefined && !choices.includes(text)) {
    throw new Problem(400, `${label} is “${text}”.`, `It may be ${choices.join(', ')}.`);
  }
  return text;
}

/** What was given for the fields; an empty number stays as it is. */
export function givenOf(action: Action, form: Params): Given {
  return Object.fromEntries(
    (action.fields ?? []).map((field) => [
      field.name,
      field.kind === 'number' ? numberOf(field, form) : textOf(field, form),
    ]),
  );
}
