/** How tasks are shown on more than one page. */

import type { Context } from '../context.js';
import type { DoneTask } from '../data/archive.js';
import type { Queue, QueueStats } from '../data/queues.js';
import { taskPage, type State, type Task } from '../data/tasks.js';
import { endsOf } from '../../status.js';
import { bytes, count, decimal, duration, moment, NOTHING, percent } from '../format.js';
import { address, foreign, foreignBlock, html, type Child, type Markup } from '../html.js';
import {
  badge,
  facts,
  groupParams,
  nameLink,
  nextPage,
  notShown,
  number,
  queueLink,
  subgroupLink,
  subgroupParams,
  table,
  taskLink,
  tenantLink,
  type Column,
} from '../layout.js';

const LEVELS: Partial<Record<State, 'good' | 'warn' | 'bad'>> = {
  leased: 'good',
  held: 'warn',
  overflow: 'warn',
  dead: 'bad',
};

export const stateBadge = (state: State): Markup => badge(state, LEVELS[state] ?? '');

/** The beginning of a text, and whether there is more. */
export function excerpt(text: string | null, length: number | null, tooLarge: string = NOTHING): Markup {
  if (text === null) {
    return html`${tooLarge}`;
  }
  return html`<code>${foreign(text)}</code>${(length ?? 0) > [...text].length && html`<span class="none"> …</span>`}`;
}

/** The first line of an error; the others are on the task's page. */
export function firstLine(text: string | null, length: number | null): Markup | '' {
  if (text === null) {
    return '';
  }
  const line = text.split('\n', 1)[0]!;
  return excerpt(line, length ?? [...text].length);
}

/** The boxes in which tasks of a list are chosen, where something can be done to them: the column, and its cell. */
export function chosenColumn(context: Context): { columns: Column[]; cells: (id: string) => Child[] } {
  const all = html`<input type="checkbox" class="all" hidden aria-label="Choose all that are shown"><span class="unseen">Choose</span>`;
  return context.writable
    ? {
        columns: [{ name: 'Choose', shown: all }],
        cells: (id) => [html`<input type="checkbox" name="id" value="${id}" aria-label="Choose task ${id}">`],
      }
    : { columns: [], cells: () => [] };
}

/** The moment that the history of a task says, which its owner could have written. */
export function momentOf(text: string | null, now: number): Markup {
  const time = Date.parse(text ?? '') / 1000;
  return moment(Number.isNaN(time) ? null : time, now);
}

/** How far something is, of 1; null: it was not told in a way that is known. */
function partOf(progress: unknown): number | null {
  if (typeof progress === 'number') {
    return progress >= 0 && progress <= 1 ? progress : progress > 1 && progress <= 100 ? progress / 100 : null;
  }
  const { done, total, percent } = (progress ?? {}) as Record<string, unknown>;
  if (typeof percent === 'number') {
    return percent >= 0 && percent <= 100 ? percent / 100 : null;
  }
  return typeof done === 'number' && typeof total === 'number' && total > 0 && done >= 0 && done <= total
    ? done / total
    : null;
}

/** What a handler has told of its progress: a bar for a part or a percentage, and for done of total; else the text. */
export function progressBar(progress: string | null): Markup | '' {
  if (progress === null) {
    return '';
  }
  let part: number | null = null;
  try {
    part = partOf(JSON.parse(progress));
  } catch {
    // longer than what is shown
  }
  return part === null
    ? excerpt(progress, null)
    : html`<progress max="1" value="${part.toFixed(3)}" aria-label="progress"></progress> ${percent(part)}`;
}

/** The name of a task, in a list. */
export const named = (name: string | null): Child => (name === null ? '' : foreign(name));

/** An error with its other lines behind the first one, where there are any. */
function errorCell(error: string): Markup {
  const [line, ...others] = error.split('\n');
  return others.length === 0
    ? foreign(error)
    : html`<details><summary>${foreign(line!)}</summary>${foreignBlock(error)}</details>`;
}

/** How the last runs of a task have ended that failed or were lost, the latest first. */
export function endsTable(history: string | null, now: number): Markup | false {
  const ends = endsOf(history).slice(-10).reverse();
  return (
    ends.length > 0 &&
    html`<h2>Failures and losses</h2>${table(
      [number('When'), number('Attempt'), 'End', number('Ran'), 'Worker', 'Error'],
      ends.map((one) => [
        moment(one.at.getTime() / 1000, now),
        String(one.attempt),
        badge(one.end, one.end === 'lost' ? 'warn' : 'bad'),
        duration(one.seconds),
        foreign(one.worker),
        one.error === null ? '' : errorCell(one.error),
      ]),
      '',
      'How its last runs ended that failed or were lost, the latest first',
    )}`
  );
}

/** The time that counters and quantiles of a queue are of. */
export function counted(stats: QueueStats, now: number): string {
  return stats.stats_reset === null ? 'no time' : `the last ${duration(Math.max(0, now - stats.stats_reset))}`;
}

const ofMost = (number: number, most: number): string => `${number}/${most === 0 ? '∞' : most}`;

function when(one: Task, now: number): Child {
  switch (one.state) {
    case 'leased':
      return html`lease ends ${moment(one.lease_until, now)}`;
    case 'scheduled':
      return html`due ${moment(one.run_at, now)}`;
    default:
      return one.expires_at === null ? '' : html`expires ${moment(one.expires_at, now)}`;
  }
}

interface OfSubgroup {
  group_key: string;
  subgroup_key: string | null;
}

/** The subgroups of tasks in a list, where there are any: the column, and its cell of a task. */
export function subgroupColumn(
  queue: string,
  tasks: readonly OfSubgroup[],
): { columns: string[]; cells: (one: OfSubgroup) => Child[] } {
  return tasks.some((one) => one.subgroup_key !== null)
    ? {
        columns: ['Subgroup'],
        cells: (one) => [one.subgroup_key === null ? '' : subgroupLink(queue, one.group_key, one.subgroup_key)],
      }
    : { columns: [], cells: () => [] };
}

/** Whose a task is. */
export function ofWhom(queue: string, one: OfSubgroup): Markup {
  return html`of ${
    one.subgroup_key !== null && html`subgroup ${subgroupLink(queue, one.group_key, one.subgroup_key)} of `
  }tenant ${tenantLink(queue, one.group_key)} in queue ${queueLink(queue)}`;
}

export function taskTable(context: Context, queue: string, tasks: readonly Task[], none: Child): Markup {
  const { now } = context.server;
  const { columns, cells } = subgroupColumn(queue, tasks);
  const choose = chosenColumn(context);
  return table(
    [
      ...choose.columns,
      number('Id'),
      'State',
      'Name',
      'Tenant',
      ...columns,
      'Payload',
      number('Attempts'),
      number('Lost'),
      number('Enqueued'),
      'When',
      'Last error',
    ],
    tasks.map((one) => [
      ...choose.cells(one.id),
      taskLink(queue, one.id),
      stateBadge(one.state),
      named(one.name),
      tenantLink(queue, one.group_key),
      ...cells(one),
      excerpt(one.payload, one.payload_length, 'large'),
      ofMost(one.attempts, one.max_attempts),
      one.lost === 0 ? '' : ofMost(one.lost, one.max_lost),
      moment(one.enqueued_at, now),
      when(one, now),
      firstLine(one.last_error, one.last_error_length),
    ]),
    none,
  );
}

/** The dead, with what they died of. */
export function deadTable(context: Context, queue: string, tasks: readonly Task[], none: Child): Markup {
  const { columns, cells } = subgroupColumn(queue, tasks);
  const choose = chosenColumn(context);
  return table(
    [
      ...choose.columns,
      number('Id'),
      'Name',
      'Tenant',
      ...columns,
      'Last error',
      'Payload',
      number('Attempts'),
      number('Lost'),
      number('Died'),
      number('Enqueued'),
    ],
    tasks.map((one) => [
      ...choose.cells(one.id),
      taskLink(queue, one.id),
      named(one.name),
      tenantLink(queue, one.group_key),
      ...cells(one),
      firstLine(one.last_error, one.last_error_length),
      excerpt(one.payload, one.payload_length, 'large'),
      String(one.attempts),
      String(one.lost),
      momentOf(one.ended_at, context.server.now),
      moment(one.enqueued_at, context.server.now),
    ]),
    none,
  );
}

/** A text of a task with a link to the whole where it is cut. */
export function long(
  title: string,
  text: string | null,
  length: number | null,
  whole: Record<string, string>,
  path: string,
): Markup | false {
  if (text === null) {
    return false;
  }
  const cut = (length ?? 0) > [...text].length;
  return html`<h2>${title}</h2>${foreignBlock(text)}
        ${
          cut &&
          html`<p class="next">The first ${count([...text].length)} of ${count(length)} characters.
            <a href="${address(path, whole)}">The whole (${bytes(length)})</a></p>`
        }`;
}

export function outcomeBadge(outcome: string): Markup {
  return badge(outcome, outcome === 'acked' ? 'good' : outcome === 'dead' ? 'bad' : 'warn');
}

export const between = (from: number | null, to: number | null): string =>
  from === null || to === null ? NOTHING : duration(Math.max(0, to - from));

export function doneFacts(queue: string, one: DoneTask, now: number): Markup {
  return facts([
    ['outcome', outcomeBadge(one.outcome)],
    ['name', one.name === null ? NOTHING : nameLink('/archive', queue, one.name)],
    ['attempts', String(one.attempts)],
    ['lost', String(one.lost)],
    ['enqueued', moment(one.enqueued_at, now)],
    ['claimed', moment(one.claimed_at, now)],
    ['done', moment(one.done_at, now)],
    ['ran', between(one.claimed_at, one.done_at)],
    ['run at', moment(one.run_at, now)],
    ['priority', one.priority],
    ['cost', decimal(one.cost)],
    ['unique key', one.unique_key === null ? NOTHING : foreign(one.unique_key)],
  ]);
}

/** The first tasks of a tenant, or of a subgroup of it, and where the others are. */
export async function ownTasks(context: Context, queue: Queue, group: string, subgroup?: string): Promise<Markup> {
  const { reader } = context;
  const wanted = { queue, group, subgroup, limit: 10, milliseconds: 150 };
  const tasks = await reader.attempt(() => taskPage(reader, wanted));
  context.data['tasks'] = tasks.value?.tasks ?? null;
  const lists = {
    queue: queue.queue,
    ...groupParams(group),
    ...(subgroup === undefined ? {} : subgroupParams(subgroup)),
  };
  return html`<h2>Its tasks, the oldest first</h2>
            ${
              tasks.problem !== undefined
                ? notShown('Tasks are not shown.', tasks.problem)
                : html`${taskTable(
                    context,
                    queue.queue,
                    tasks.value.tasks,
                    tasks.value.unfinished ? 'None among those that were looked at in the time of a page.' : 'None.',
                  )}
                ${nextPage(context, '/tasks', tasks.value.next === undefined ? undefined : { ...lists, after: tasks.value.next }, 'All its tasks')}`
            }
            <p class="next"><a href="${address('/dead', lists)}">Its dead tasks</a>
            ${queue.done_readable !== null && html`<a href="${address('/archive', lists)}">Its done tasks</a>`}</p>`;
}
