/** The page that asks before something is done. */

import { givenOf, subjectOf, type Action, type Field, type Given, type Subject } from '../acts/action.js';
import type { Context, View } from '../context.js';
import { deadGroups } from '../data/dead.js';
import { findQueue, queueStats } from '../data/queues.js';
import { task } from '../data/tasks.js';
import { count, NOTHING } from '../format.js';
import { html, type Child, type Markup } from '../html.js';
import { facts } from '../layout.js';
import type { Params } from '../params.js';
import { excerpt, stateBadge } from './parts.js';

/** The one task that the action is about, as far as that helps to decide. */
async function oneTask(context: Context): Promise<Child> {
  const { reader, params } = context;
  const id = params.requiredId('id');
  const found = await reader.attempt(() => task(reader, params.required('queue'), id));
  const one = found.value;
  return (
    one !== undefined &&
    facts([
      ['state', stateBadge(one.state)],
      ['name', one.name === null ? NOTHING : excerpt(one.name, null)],
      ['tenant', excerpt(one.group_key, null)],
      ...(one.subgroup_key === null ? [] : ([['subgroup', excerpt(one.subgroup_key, null)]] as const)),
      ['payload', excerpt([...one.payload!].slice(0, 160).join(''), one.payload_length)],
    ])
  );
}

/** How many dead tasks it is for. */
async function howMany(context: Context, subject: Subject): Promise<Child> {
  const { reader } = context;
  const queue = await findQueue(reader, subject.queue);
  const total = (await queueStats(reader, [queue.queue]))[0]?.dead ?? 0;
  const found = await reader.attempt(() => deadGroups(reader, queue, subject.narrow, { total }));
  const some = found.value;
  return (
    some !== undefined &&
    html`<p>They are ${some.next === undefined ? '' : 'at least '}<b>${count(some.seen)}</b> of ${count(total)} dead tasks.</p>`
  );
}

function detail(context: Context, action: Action, subject: Subject): Promise<Child> {
  if (action.of === 'narrowed') {
    return howMany(context, subject);
  }
  return action.about.includes('id') ? oneTask(context) : Promise.resolve(false);
}

function input(field: Field, value: string | number | null): Markup {
  if (field.kind === 'number') {
    return html`<input name="${field.name}" inputmode="decimal" value="${value ?? ''}">`;
  }
  if (field.choices !== undefined) {
    return html`<select name="${field.name}">${field.choices.map(
      (one) => html`<option${one === value && html` selected`}>${one}</option>`,
    )}</select>`;
  }
  return field.json === true
    ? html`<textarea name="${field.name}" rows="10" spellcheck="false">${'\n'}${value ?? ''}</textarea>`
    : html`<input name="${field.name}" value="${value ?? ''}">`;
}

function inputs(action: Action, values: Given): Markup {
  return html`<div class="fields">${(action.fields ?? []).map(
    (field) => html`<label${field.kind === 'text' && html` class="wide"`}>${field.label}
        ${input(field, values[field.name] ?? null)}<span class="none">${field.note}</span></label>`,
  )}</div>`;
}

function chosen(action: Action, values: Given): Markup {
  const shown = (field: Field): Child => {
    const value = values[field.name] ?? null;
    if (field.kind === 'number') {
      return value === null ? 'as it is' : String(value);
    }
    const text = String(value ?? '');
    return text === '' ? NOTHING : excerpt([...text].slice(0, 400).join(''), [...text].length);
  };
  return html`${facts((action.fields ?? []).map((field) => [field.label, shown(field)]))}
        ${(action.fields ?? []).map((field) => html`<input type="hidden" name="${field.name}" value="${values[field.name] ?? ''}">`)}`;
}

/**
 * Asks. An action that takes something has two steps: it is given (there is no form yet), then
 * shown again.
 */
export async function confirmPage(context: Context, action: Action, form: Params | undefined): Promise<View> {
  const subject = subjectOf(action, context.params);
  const asks = action.fields !== undefined && form === undefined;
  const values = form !== undefined ? givenOf(action, form) : ((await action.before?.(context.reader, subject)) ?? {});
  const fields = asks ? inputs(action, values) : chosen(action, values);
  const button = asks
    ? html`<button>Check</button>`
    : html`<button name="confirmed" value="yes"${action.danger === true && html` class="danger"`}>${action.verb}</button>`;
  return {
    title: asks ? action.verb : `${action.verb}?`,
    body: html`<p>${action.says(subject)}</p><p>${action.undoing}</p>${await detail(context, action, subject)}
            <form method="post" action="${context.withParams({})}" class="confirm" id="confirm">
            <input type="hidden" name="csrf" value="${context.visit!.csrf}">${fields}
            <p class="actions">${button} <a class="button" href="${action.then(subject)}">Leave it</a></p></form>`,
  };
}
