import { Row } from './database';
import { dateOf } from './values';

/** The columns of `fairq.task` that a task is made of; times in milliseconds. */
export const TASK_COLUMNS = `id, group_key, payload, headers, attempt, priority,
  extract(epoch FROM enqueued_at) * 1000, extract(epoch FROM expires_at) * 1000, name, subgroup_key`;

/** The place of the first column after them. */
export const AFTER_TASK = 10;

/** A task as a handler gets it, and as `peek` shows it. Its JSON is read when it is asked for. */
export class Task<Data = unknown> {
  /** 64 bits, so a string. */
  readonly id: string;
  readonly queue: string;
  readonly group: string;
  /** Of the group; null: none. */
  readonly subgroup: string | null;
  /** 1 is the first. */
  readonly attempt: number;
  readonly priority: number;
  /** The payload as the server has it: for numbers that JavaScript cannot hold. */
  readonly rawData: string;
  private readonly row: Row;
  private parsed: { data?: Data; headers?: Record<string, unknown> | null } = {};

  constructor(queue: string, row: Row) {
    this.queue = queue;
    this.row = row;
    this.id = row[0] as string;
    this.group = row[1] as string;
    this.subgroup = row[9];
    this.rawData = row[2] as string;
    this.attempt = Number(row[4]);
    this.priority = Number(row[5]);
  }

  /** The payload. */
  get data(): Data {
    if (!('data' in this.parsed)) this.parsed.data = JSON.parse(this.rawData) as Data;
    return this.parsed.data as Data;
  }

  get headers(): Record<string, unknown> | null {
    if (this.parsed.headers === undefined) {
      const value: unknown = this.row[3] === null ? null : JSON.parse(this.row[3] as string);
      this.parsed.headers = value as Record<string, unknown> | null;
    }
    return this.parsed.headers as Record<string, unknown> | null;
  }

  /** What kind of task it is: the option `name` of `add`; earlier versions kept it in the header `task`. */
  get name(): string {
    const name = this.row[8] ?? this.headers?.task;
    return typeof name === 'string' ? name : '';
  }

  get enqueuedAt(): Date {
    return dateOf(this.row[6]) as Date;
  }

  get expiresAt(): Date | null {
    return dateOf(this.row[7]);
  }

  /** What another process makes the task of. */
  get parts(): [queue: string, row: Row] {
    return [this.queue, this.row];
  }

  /** For messages: its id and its name. */
  toString(): string {
    return `task ${this.id}${this.name === '' ? '' : ` (${JSON.stringify(this.name.slice(0, 100))})`}`;
  }

  toJSON(): object {
    const { id, queue, group, subgroup, attempt, priority, name, data, headers, enqueuedAt, expiresAt } = this;
    return { id, queue, group, subgroup, attempt, priority, name, data, headers, enqueuedAt, expiresAt };
  }
}
