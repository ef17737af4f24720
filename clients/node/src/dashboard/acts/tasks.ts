/** Actions on tasks: on one, on those that were chosen, and on all dead ones that a list is narrowed to. */

import type { Reader } from '../database.js';
import { narrowed, type Narrow } from '../data/dead.js';
import { count } from '../format.js';
import { address, foreign, html, type Markup } from '../html.js';
import { narrowParams } from '../layout.js';
import { Problem } from '../problem.js';
import { answerOf, NOT_UNDONE, tasksAre, type Action, type Done, type Given, type Subject, type Undo } from './action.js';

/** What is kept of cancelled tasks, so that they can be put back: of so many, and of so many bytes, at most. */
const KEPT_TASKS = 1000;
const KEPT_BYTES = 4_000_000;
/** A payload that is longer is not edited in a form. */
const EDITED_CHARACTERS = 100_000;

interface Kept {
  payload: string;
  group_key: string;
  priority: string;
  cost: number;
  run_at: string | null;
  unique_key: string | null;
  max_attempts: number;
  headers: string | null;
  expires_at: string | null;
  name: string | null;
  max_lost: number;
  subgroup_key: string | null;
}

const KEPT = `k.payload::text AS payload, k.group_key, k.priority::text AS priority, k.cost,
            CASE WHEN k.state = 'scheduled' THEN k.run_at::text END AS run_at, k.unique_key, k.max_attempts,
            k.headers::text AS headers, k.expires_at::text AS expires_at, k.name, k.max_lost, k.subgroup_key`;

/** Enqueues a task as another one was; its id. */
function enqueue(writer: Reader, queue: string, task: Kept): Promise<string> {
  return answerOf<string>(
    writer,
    `SELECT fairq.enqueue($1::text, $2::jsonb, group_key => $3, priority => $4::bigint, cost => $5::float8,
            run_at => $6::timestamptz, unique_key => $7, max_attempts => $8::int, headers => $9::jsonb,
            expires_at => $10::timestamptz, name => $11, max_lost => $12::int, subgroup_key => $13)::text`,
    [
      queue,
      task.payload,
      task.group_key,
      task.priority,
      task.cost,
      task.run_at,
      task.unique_key,
      task.max_attempts,
      task.headers,
      task.expires_at,
      task.name,
      task.max_lost,
      task.subgroup_key,
    ],
  );
}

/** Puts cancelled tasks back, as new ones. */
function putBack(queue: string, tasks: readonly Kept[]): Undo {
  return async (writer) => {
    for (const task of tasks) {
      await enqueue(writer, queue, task);
    }
    return `${tasksAre(tasks.length, 'enqueued again')} Ids are new.`;
  };
}

/**
 * Cancels the tasks t of a query, and keeps what it takes to put them back, if that is not too much: else one row comes,
 * for they may be a million. How much they are is known before the first is cancelled.
 */
async function cancel(
  writer: Reader,
  queue: string,
  from: string,
  values: readonly unknown[],
): Promise<Done & { tasks: number }> {
  const rows = await writer.rows<Kept & { tasks: number; kept: boolean }>(
    `WITH wanted AS MATERIALIZED (SELECT t.* FROM ${from}),
                size AS MATERIALIZED (SELECT count(*) <= ${KEPT_TASKS} AND coalesce(sum(pg_column_size(w.payload)
                    + coalesce(pg_column_size(w.headers), 0)), 0) <= ${KEPT_BYTES} AS kept FROM wanted w),
                gone AS MATERIALIZED (SELECT w.id FROM wanted w
                    WHERE CASE WHEN (SELECT kept IS NOT NULL FROM size) THEN fairq.cancel($1::text, w.id) END)
            SELECT (SELECT count(*)::int FROM gone) AS tasks, size.kept, ${KEPT}
            FROM size LEFT JOIN (wanted k JOIN gone ON gone.id = k.id) ON size.kept ORDER BY k.id`,
    [queue, ...values],
  );
  const { tasks, kept } = rows[0]!;
  const undo = tasks > 0 && kept ? putBack(queue, rows) : undefined;
  const tooMany = tasks > 0 && undo === undefined ? ' They are too many to be put back.' : '';
  return { says: `${tasksAre(tasks, 'cancelled')}${tooMany}`, undo, tasks };
}

const PUT_BACK = `For ten minutes they can be put back, as new tasks with new ids, which run from the beginning: up to ${count(KEPT_TASKS)} of them.`;

const toTask = ({ queue, id }: Subject): string => address('/task', { queue, id });
const toDead = ({ queue, narrow }: Subject): string => address('/dead', { queue, ...narrowParams(narrow) });

/** Which dead tasks these are, in a sentence. */
function deadOf({ queue, narrow }: Subject): Markup {
  const { group, subgroup, name, error } = narrow;
  return html`All dead tasks${
    name !== undefined && (name === '' ? ' without a name' : html` named ${foreign(name)}`)
  }${
    error !== undefined && (error === '' ? ' without an error' : html` whose error begins with ${foreign(error)} (# is any number)`)
  }${
    subgroup !== undefined && (subgroup === '' ? ' without a subgroup' : html` of subgroup ${foreign(subgroup)}`)
  }${group !== undefined && (group === '' ? ' without a group' : html` of tenant ${foreign(group)}`)} in queue ${foreign(queue)}`;
}

const DEAD = `fairq.tasks($1::text, 'dead', $2::text) t WHERE ${narrowed('$3', '$4', '$5')}`;

function narrowValues({ group, subgroup, name, error }: Narrow): (string | null)[] {
  return [group ?? null, subgroup ?? null, name ?? null, error ?? null];
}

/** Revives what is narrowed: all, and those of a tenant, by the functions that the engine has for it. */
function revive(writer: Reader, { queue, narrow }: Subject): Promise<string> {
  const { group, subgroup, name, error } = narrow;
  if (subgroup === undefined && name === undefined && error === undefined) {
    return group === undefined
      ? answerOf(writer, 'SELECT fairq.revive_all($1::text)', [queue])
      : answerOf(writer, 'SELECT fairq.revive_group($1::text, $2::text)', [queue, group]);
  }
  return answerOf(
    writer,
    `WITH wanted AS MATERIALIZED (SELECT t.id FROM ${DEAD})
            SELECT coalesce(sum(fairq.revive($1::text, w.id)), 0) FROM wanted w`,
    [queue, ...narrowValues(narrow)],
  );
}

const MANY: Record<string, Action> = {
  'revive-dead': {
    verb: 'Revive the dead tasks',
    danger: true,
    about: ['queue'],
    of: 'narrowed',
    says: (subject) => html`${deadOf(subject)} become ready, with all attempts, and run again.`,
    undoing: NOT_UNDONE,
    perform: async (writer, subject) => ({ says: tasksAre(Number(await revive(writer, subject)), 'ready again') }),
    then: toDead,
  },
  'cancel-dead': {
    verb: 'Cancel the dead tasks',
    danger: true,
    about: ['queue'],
    of: 'narrowed',
    says: (subject) => html`${deadOf(subject)} are removed; where done tasks are kept, they are there as dead.`,
    undoing: PUT_BACK,
    perform: (writer, { queue, narrow }) => cancel(writer, queue, DEAD, narrowValues(narrow)),
    then: toDead,
  },
  'revive-tasks': {
    verb: 'Revive the chosen tasks',
    danger: true,
    about: ['queue'],
    of: 'chosen',
    says: ({ queue, ids }) =>
      html`${tasksAre(ids.length, 'chosen')} Those that are dead in queue ${foreign(queue)} become ready, with all attempts, and run again.`,
    undoing: NOT_UNDONE,
    perform: async (writer, { queue, ids }) => ({
      says: tasksAre(
        Number(
          await answerOf(
            writer,
            'SELECT coalesce(sum(fairq.revive($1::text, u.id)), 0) FROM unnest($2::bigint[]) u(id)',
            [queue, ids],
          ),
        ),
        'ready again',
      ),
    }),
    then: ({ queue }) => address('/dead', { queue }),
  },
  'cancel-tasks': {
    verb: 'Cancel the chosen tasks',
    danger: true,
    about: ['queue'],
    of: 'chosen',
    says: ({ queue, ids }) =>
      html`${tasksAre(ids.length, 'chosen')} They are removed from queue ${foreign(queue)}, in whatever state they are. If a worker has
            one, its acknowledgement will be refused.`,
    undoing: PUT_BACK,
    perform: (writer, { queue, ids }) =>
      cancel(writer, queue, 'unnest($2::bigint[]) u(id), LATERAL fairq.get_task($1::text, u.id) t', [ids]),
    then: ({ queue }) => address('/tasks', { queue }),
  },
};

interface Edited extends Kept {
  state: string;
}

/** A dead task with all that an edited one has of it. */
async function deadTask(reader: Reader, { queue, id }: Subject): Promise<Edited> {
  const task = await reader.row<Edited>(
    `SELECT k.state, ${KEPT} FROM fairq.get_task($1::text, $2::bigint) k`,
    [queue, id],
  );
  if (task?.state !== 'dead') {
    throw new Problem(409, `Task ${id} is not dead${task === undefined ? '; it is gone' : ''}.`, 'Only a dead task is edited.');
  }
  if (task.payload.length > EDITED_CHARACTERS) {
    throw new Problem(
      409,
      `The payload of task ${id} has ${count(task.payload.length)} characters.`,
      `A form edits ${count(EDITED_CHARACTERS)} at most; enqueue it by SQL.`,
    );
  }
  return task;
}

async function retryEdited(writer: Reader, subject: Subject, given: Given): Promise<Done> {
  const { queue, id } = subject;
  const task = await deadTask(writer, subject);
  const waiting =
    task.unique_key !== null &&
    (await writer.row('SELECT FROM fairq.get_task_by_key($1::text, $2::text) t WHERE t.id <> $3::bigint', [
      queue,
      task.unique_key,
      id,
    ])) !== undefined;
  if (waiting) {
    throw new Problem(409, `Another task of the unique key of task ${id} is there.`, 'Cancel that one first.');
  }
  if (!(await answerOf<boolean>(writer, 'SELECT fairq.cancel($1::text, $2::bigint)', [queue, id]))) {
    throw new Problem(409, `Task ${id} is gone.`);
  }
  const next = await enqueue(writer, queue, {
    ...task,
    payload: given['payload'] as string,
    name: (given['name'] as string) || null,
  });
  return { says: `Task ${next} is enqueued in place of task ${id}.`, to: address('/task', { queue, id: next }) };
}

const ONE: Record<string, Action> = {
  revive: {
    verb: 'Revive the task',
    about: ['queue', 'id'],
    says: ({ queue, id }) =>
      html`Dead task ${id} of queue ${foreign(queue)} becomes ready, with all attempts, and runs again.`,
    undoing: NOT_UNDONE,
    perform: async (writer, { queue, id }) => {
      const revived = await answerOf(writer, 'SELECT fairq.revive($1::text, $2::bigint)', [queue, id]);
      return {
        says:
          Number(revived) === 1
            ? `Task ${id} is ready again.`
            : `Task ${id} was not revived: it is not dead, or another task of its unique key waits.`,
      };
    },
    then: toTask,
  },
  'edit-task': {
    verb: 'Retry with these',
    about: ['queue', 'id'],
    fields: [
      { kind: 'text', name: 'name', label: 'Name', note: 'which handler it is for; may be empty' },
      { kind: 'text', name: 'payload', label: 'Payload', note: 'JSON', json: true },
    ],
    before: async (reader, subject) => {
      const { name, payload } = await deadTask(reader, subject);
      return { name, payload };
    },
    says: ({ queue, id }) => html`Dead task ${id} of queue ${foreign(queue)} is cancelled, and a new one enqueued in its
            place, with what is given here. Tenant, priority, headers and the rest are as they were.`,
    undoing: NOT_UNDONE,
    perform: retryEdited,
    then: toTask,
  },
  cancel: {
    verb: 'Cancel the task',
    danger: true,
    about: ['queue', 'id'],
    says: ({ queue, id }) => html`Task ${id} of queue ${foreign(queue)} is removed, in whatever state it is. If a worker has
            it, its acknowledgement will be refused.`,
    undoing: 'For ten minutes it can be put back, as a new task with a new id, which runs from the beginning.',
    perform: async (writer, { queue, id }) => {
      const { undo, tasks } = await cancel(writer, queue, 'fairq.get_task($1::text, $2::bigint) t', [id]);
      return { says: tasks === 0 ? `There is no task ${id} any more.` : `Task ${id} is cancelled.`, undo };
    },
    then: ({ queue }) => address('/queue', { queue }),
  },
};

export const TASKS: Record<string, Action> = { ...MANY, ...ONE };
