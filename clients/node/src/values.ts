/** What callers give, checked and made what the server's functions take. */

/** Milliseconds, or an interval in PostgreSQL's words such as `'5 min'`. */
export type Duration = number | string;

/** A moment; a text has to say its time zone. */
export type Moment = Date | string;

/** The id of a task. The library gives strings, since ids have 64 bits. */
export type TaskId = string | number | bigint;

/** Whom a task counts for: a group, or a subgroup of it. */
export type GroupKey = string | number | bigint;

function shown(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value.length > 60 ? `${value.slice(0, 60)}…` : value);
  if (typeof value === 'object' && value !== null) return Array.isArray(value) ? 'an array' : 'an object';
  return String(value);
}

function refuse(what: string, value: unknown, expected: string): never {
  throw new TypeError(`${what} is ${shown(value)}; give ${expected}`);
}

export function durationText(what: string, value: Duration | null | undefined): string | null {
  if (value === undefined || value === null) return null;
  if (typeof value === 'number' && Number.isFinite(value) && value >= 0) return `${value.toFixed(3)} ms`;
  if (typeof value === 'string' && value.trim() !== '') return value;
  return refuse(what, value, "milliseconds from 0 on, or an interval such as '5 min'");
}

/** A duration that timers of this process use. */
export function milliseconds(what: string, value: number, least: number, most = 2 ** 31 - 1): number {
  if (typeof value === 'number' && value >= least && value <= most) return value;
  return refuse(what, value, `milliseconds from ${least} to ${most}`);
}

export function wholeNumber(what: string, value: number, least: number, most: number): number {
  if (Number.isInteger(value) && value >= least && value <= most) return value;
  return refuse(what, value, `a whole number from ${least} to ${most}`);
}

export function momentText(what: string, value: Moment | null | undefined): string | null {
  if (value === undefined || value === null) return null;
  if (value instanceof Date && !Number.isNaN(value.getTime())) return value.toISOString();
  if (typeof value === 'string' && value.trim() !== '') return value;
  return refuse(what, value, 'a Date that is valid, or a text with a time zone');
}

export function groupText(what: string, value: GroupKey | undefined): string | null {
  if (value === undefined) return null;
  if (typeof value === 'string' || typeof value === 'bigint') return String(value);
  if (typeof value === 'number' && Number.isFinite(value)) return String(value);
  return refuse(what, value, 'the key of a tenant as a string, number or bigint, or leave it out');
}

/** A group that is named, for what is done to it alone: never none. */
export function namedGroup(what: string, value: GroupKey): string {
  return groupText(what, value) ?? refuse(what, value, 'the key of a group');
}

/** Both keys, for what is done to a subgroup alone. That of tasks without any has the key ''. */
export function namedSubgroup(method: string, group: GroupKey, subgroup: GroupKey): [string, string] {
  const what = `the subgroup of ${method}`;
  return [namedGroup(`the group of ${method}`, group), groupText(what, subgroup) ?? refuse(what, subgroup, "the key of a subgroup, or ''")];
}

export function idText(what: string, value: TaskId): string {
  if (typeof value === 'string' && /^[0-9]{1,19}$/.test(value)) return value;
  if (typeof value === 'bigint' && value >= 0n) return String(value);
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return String(value);
  return refuse(what, value, 'the id that add() returned');
}

/** JSON for the server. `undefined`, functions and symbols have no JSON. */
export function jsonText(what: string, value: unknown): string {
  const text = JSON.stringify(value) as string | undefined;
  if (text === undefined) refuse(what, value, 'something that JSON can say (null is)');
  return text;
}

export function optionalNumber(what: string, value: number | bigint | undefined): string | null {
  if (value === undefined) return null;
  if (typeof value === 'bigint' || (typeof value === 'number' && Number.isFinite(value))) return String(value);
  return refuse(what, value, 'a number');
}

export function queueName(value: unknown): string {
  if (typeof value === 'string' && value !== '') return value;
  return refuse('the name of the queue', value, 'a text of 1 to 48 bytes');
}

/** A misspelt option would be without effect, so it is an error. */
export function checkOptions(what: string, options: object, known: readonly string[]): void {
  if (typeof options !== 'object' || options === null) refuse(`the options of ${what}`, options, 'an object');
  for (const key of Object.keys(options)) {
    if (!known.includes(key)) {
      throw new TypeError(`${what} has no option ${JSON.stringify(key)}; there are ${known.join(', ')}`);
    }
  }
}

/** An array as the server reads it: null, or texts in quotes. */
export function arrayText(values: readonly (string | null)[]): string {
  return `{${values.map((value) =>
    value === null ? 'NULL' : `"${value.replace(/["\\]/g, '\\$&')}"`).join(',')}}`;
}

export function dateOf(millis: string | null): Date | null {
  return millis === null ? null : new Date(Number(millis));
}

export function numberOf(text: string | null): number | null {
  return text === null ? null : Number(text);
}
