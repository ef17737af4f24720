/** What a request says in its address, checked before anything is done with it. */

import type { Narrow } from './data/dead.js';
import { Problem } from './problem.js';

const LONGEST = 4096;
/** Tasks that can be chosen on a page, with room. */
const MOST_IDS = 200;

export class Params {
  constructor(private readonly values: URLSearchParams) {}

  /** A text; undefined: it is not there. An empty one is there. */
  text(name: string): string | undefined {
    const all = this.values.getAll(name);
    if (all.length > 1) {
      throw new Problem(400, `The parameter ${name} is given more than once.`);
    }
    const value = all[0];
    if (value !== undefined && (value.length > LONGEST || value.includes('\0'))) {
      throw new Problem(400, `The parameter ${name} is too long, or has a character with code 0.`);
    }
    return value;
  }

  /** A text of a form, which may be longer. */
  long(name: string): string | undefined {
    const value = this.values.get(name);
    if (value?.includes('\0') === true) {
      throw new Problem(400, `The parameter ${name} has a character with code 0.`);
    }
    return value?.replaceAll('\r\n', '\n');
  }

  /** A tenant to choose by. An empty field stands for all; `nogroup` for those without a group. */
  group(): string | undefined {
    return this.text('group') || (this.text('nogroup') === undefined ? undefined : '');
  }

  /** The same for a subgroup, with `nosubgroup`. */
  subgroup(): string | undefined {
    return this.text('subgroup') || (this.text('nosubgroup') === undefined ? undefined : '');
  }

  /** The same for a name of tasks, with `noname`. */
  name(): string | undefined {
    return this.text('name') || (this.text('noname') === undefined ? undefined : '');
  }

  /** What a list of dead tasks is narrowed to; of errors the beginning, with `noerror` for none. */
  narrow(): Narrow {
    const error = this.text('error') || (this.text('noerror') === undefined ? undefined : '');
    return { group: this.group(), subgroup: this.subgroup(), name: this.name(), error };
  }

  required(name: string): string {
    const value = this.text(name);
    if (value === undefined) {
      throw new Problem(400, `The parameter ${name} is missing.`);
    }
    return value;
  }

  /** The id of a task, as text: it may be larger than a number holds. */
  id(name: string): string | undefined {
    const value = this.text(name);
    if (value !== undefined && !isId(value)) {
      throw new Problem(
        400,
        `The parameter ${name} is no id of a task: “${value}”.`,
        'An id is a whole number above zero.',
      );
    }
    return value;
  }

  /** Ids of tasks, each once; it may be none. */
  ids(name: string): string[] {
    const all = this.values.getAll(name);
    const wrong = all.find((value) => !isId(value));
    if (wrong !== undefined || all.length > MOST_IDS) {
      throw new Problem(
        400,
        wrong === undefined ? `${all.length} tasks are chosen.` : `The parameter ${name} is no id of a task: “${wrong}”.`,
        wrong === undefined ? `It may be ${MOST_IDS}.` : 'An id is a whole number above zero.',
      );
    }
    return [...new Set(all)];
  }

  requiredId(name: string): string {
    this.required(name);
    return this.id(name)!;
  }

  uuid(name: string): string | undefined {
    const value = this.text(name);
    if (value !== undefined && !/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(value)) {
      throw new Problem(400, `The parameter ${name} is no uuid: “${value}”.`);
    }
    return value;
  }

  number(name: string): number | undefined {
    const value = this.text(name);
    if (value === undefined) {
      return undefined;
    }
    const number = value === '-Infinity' ? -Infinity : /^-?[\d.]+(e[-+]?\d+)?$/.test(value) ? Number(value) : NaN;
    if (Number.isNaN(number)) {
      throw new Problem(400, `The parameter ${name} is no number: “${value}”.`);
    }
    return number;
  }

  /** One of a few words; undefined: it is not there, or empty, which stands for all. */
  choice<Word extends string>(name: string, words: readonly Word[]): Word | undefined {
    const value = this.text(name);
    if (value === undefined || value === '') {
      return undefined;
    }
    if (!(words as readonly string[]).includes(value)) {
      throw new Problem(400, `The parameter ${name} is “${value}”.`, `It may be ${words.join(', ')}.`);
    }
    return value as Word;
  }
}

/** Whether a text is an id that a bigint holds. */
export function isId(text: string): boolean {
  return /^[1-9]\d{0,18}$/.test(text) && BigInt(text) <= 9223372036854775807n;
}
