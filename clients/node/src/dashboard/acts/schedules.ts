/** Actions on schedules: run now, pause, edit. A schedule is replaced as a whole, so what is not changed is read before. */

import type { Reader } from '../database.js';
import { address, foreign, html } from '../html.js';
import { Problem } from '../problem.js';
import { answerOf, UNDONE, type Action, type Done, type Given, type Subject } from './action.js';

interface Definition {
  queue: string;
  cron: string;
  timezone: string;
  catch_up: string;
  overlap: boolean;
  active: boolean;
  group_key: string;
  subgroup_key: string | null;
  priority: string | null;
  cost: number;
  payload: string;
  headers: string | null;
  task_name: string | null;
}

async function definition(reader: Reader, name: string): Promise<Definition> {
  const found = await reader.row<Omit<Definition, 'payload'> & { payload: string | null; owner: string }>(
    `SELECT queue, owner, cron, timezone, catch_up, overlap, active, group_key, subgroup_key, priority::text AS priority, cost,
            payload::text AS payload, headers::text AS headers, task_name
            FROM fairq.schedules WHERE name = $1::text`,
    [name],
  );
  if (found === undefined) {
    throw new Problem(404, `There is no schedule “${name}”.`, 'It may have been removed.');
  }
  if (found.payload === null) {
    throw new Problem(
      403,
      `The role of the dashboard may not act as “${found.owner}”, who owns the schedule.`,
      `GRANT "${found.owner}" TO the role of the dashboard.`,
    );
  }
  return found as Definition;
}

/** Makes it as it is said; it stays its owner's. */
function put(writer: Reader, name: string, one: Definition): Promise<unknown> {
  return answerOf(
    writer,
    `SELECT fairq.schedule($1::text, $2::text, $3::text, $4::jsonb, group_key => $5, priority => $6::bigint,
            cost => $7::float8, headers => $8::jsonb, timezone => $9, catch_up => $10, overlap => $11::boolean,
            active => $12::boolean, task_name => $13, subgroup_key => $14)`,
    [
      name,
      one.queue,
      one.cron,
      one.payload,
      one.group_key,
      one.priority,
      one.cost,
      one.headers,
      one.timezone,
      one.catch_up,
      one.overlap,
      one.active,
      one.task_name,
      one.subgroup_key,
    ],
  );
}

async function changed(
  writer: Reader,
  { schedule }: Subject,
  change: Partial<Definition>,
  says: string,
): Promise<Done> {
  const earlier = await definition(writer, schedule);
  await put(writer, schedule, { ...earlier, ...change });
  return {
    says,
    undo: async (later) => {
      await put(later, schedule, earlier);
      return `Schedule ${schedule} is as it was.`;
    },
  };
}

/** Enqueues a task as a tick would; it is the dashboard's role that does. */
async function runNow(writer: Reader, { schedule }: Subject): Promise<Done> {
  const one = await definition(writer, schedule);
  const id = await answerOf<string>(
    writer,
    `SELECT fairq.enqueue($1::text, $2::jsonb, group_key => $3, priority => $4::bigint, cost => $5::float8,
            headers => coalesce($6::jsonb, '{}') || jsonb_build_object('schedule', $7::text), name => $8, subgroup_key => $9)::text`,
    [one.queue, one.payload, one.group_key, one.priority, one.cost, one.headers, schedule, one.task_name, one.subgroup_key],
  );
  return {
    says: `Schedule ${schedule} has enqueued task ${id}.`,
    undo: async (later) => {
      const gone = await answerOf<boolean>(later, 'SELECT fairq.cancel($1::text, $2::bigint)', [one.queue, id]);
      return gone ? `Task ${id} is cancelled.` : `Task ${id} has ended already.`;
    },
    to: address('/task', { queue: one.queue, id }),
  };
}

const FLAGS = ['no', 'yes'] as const;

function edit(writer: Reader, subject: Subject, given: Given): Promise<Done> {
  const text = (name: string): string => String(given[name]);
  return changed(
    writer,
    subject,
    {
      cron: text('cron'),
      timezone: text('timezone'),
      payload: text('payload'),
      group_key: text('group_key'),
      task_name: text('task_name') || null,
      catch_up: text('catch_up'),
      overlap: text('overlap') === 'yes',
    },
    `Schedule ${subject.schedule} is changed.`,
  );
}

const then = ({ schedule }: Subject): string => address('/schedule', { name: schedule });
const about = ['schedule'] as const;

export const SCHEDULES: Record<string, Action> = {
  'run-schedule': {
    verb: 'Run it now',
    about,
    says: ({ schedule }) => html`A task is enqueued as at a tick of schedule ${foreign(schedule)}, whether the last one has ended
            or not. The next tick stays.`,
    undoing: 'For ten minutes the task can be cancelled, if it has not ended by then.',
    perform: runNow,
    then,
  },
  'pause-schedule': {
    verb: 'Pause the schedule',
    about,
    says: ({ schedule }) => html`Schedule ${foreign(schedule)} has no ticks until it is resumed. Its tasks go on.`,
    undoing: UNDONE,
    perform: (writer, subject) => changed(writer, subject, { active: false }, `Schedule ${subject.schedule} is paused.`),
    then,
  },
  'resume-schedule': {
    verb: 'Resume the schedule',
    about,
    says: ({ schedule }) => html`Schedule ${foreign(schedule)} has ticks again, from the next one on.`,
    undoing: UNDONE,
    perform: (writer, subject) => changed(writer, subject, { active: true }, `Schedule ${subject.schedule} is resumed.`),
    then,
  },
  'edit-schedule': {
    verb: 'Change the schedule',
    about,
    fields: [
      { kind: 'text', name: 'cron', label: 'When', note: 'cron, or @every 15 s' },
      { kind: 'text', name: 'timezone', label: 'Time zone', note: 'such as Europe/Berlin' },
      { kind: 'text', name: 'task_name', label: 'Name of its tasks', note: 'may be empty' },
      { kind: 'text', name: 'group_key', label: 'Tenant', note: 'may be empty' },
      { kind: 'text', name: 'payload', label: 'Payload', note: 'JSON', json: true },
      { kind: 'text', name: 'catch_up', label: 'Catch up', note: 'ticks without a worker', choices: ['none', 'one', 'all'] },
      { kind: 'text', name: 'overlap', label: 'May overlap', note: 'while its last task is there', choices: FLAGS },
    ],
    before: async (reader, { schedule }) => {
      const one = await definition(reader, schedule);
      const { cron, timezone, task_name, group_key, payload, catch_up } = one;
      return { cron, timezone, task_name, group_key, payload, catch_up, overlap: one.overlap ? 'yes' : 'no' };
    },
    says: ({ schedule }) => html`Schedule ${foreign(schedule)} gets what is given here, from the next tick on.`,
    undoing: UNDONE,
    perform: edit,
    then,
  },
  'remove-schedule': {
    verb: 'Remove the schedule',
    danger: true,
    about,
    says: ({ schedule }) => html`Schedule ${foreign(schedule)} is removed. Its tasks go on.`,
    undoing: 'For ten minutes it can be made anew, as it was; it is then the dashboard’s role that owns it.',
    perform: async (writer, { schedule }) => {
      const earlier = await definition(writer, schedule);
      await answerOf(writer, 'SELECT fairq.unschedule($1::text)', [schedule]);
      return {
        says: `Schedule ${schedule} is removed.`,
        undo: async (later) => {
          await put(later, schedule, earlier);
          return `Schedule ${schedule} is there again.`;
        },
      };
    },
    then: () => address('/schedules'),
  },
};
