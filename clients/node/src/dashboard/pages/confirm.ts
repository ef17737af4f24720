/** The page that asks before something is done. */

import { numbersOf, subjectOf, type Action, type Subject } from '../actions.js';
import type { Context, View } from '../context.js';
import type { Reader } from '../database.js';
import { settingsOfSubgroup } from '../data/subgroups.js';
import { settingsOfTenant, type TenantSettings } from '../data/tenants.js';
import { task } from '../data/tasks.js';
import { html, type Child, type Markup } from '../html.js';
import { NOTHING } from '../format.js';
import { facts } from '../layout.js';
import type { Params } from '../params.js';
import { excerpt, stateBadge } from './parts.js';

type Given = Pick<TenantSettings, 'weight' | 'max_leased' | 'rate' | 'burst'>;

/** What the action is about, as far as that helps to decide. */
async function detail(context: Context): Promise<Child> {
  const { reader, params } = context;
  const id = params.id('id');
  if (id === undefined) {
    return false;
  }
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

function inputs(action: Action, values: readonly (number | null)[]): Markup {
  return html`<div class="fields">${(action.fields ?? []).map(
    (field, index) => html`<label>${field.label}
        <input name="${field.name}" inputmode="decimal" value="${values[index] ?? ''}"><span class="none">${field.note}</span></label>`,
  )}</div>`;
}

function chosen(action: Action, values: readonly (number | null)[]): Markup {
  return html`${facts((action.fields ?? []).map((field, index) => [field.label, values[index] === null ? 'as it is' : String(values[index])]))}
        ${(action.fields ?? []).map((field, index) => html`<input type="hidden" name="${field.name}" value="${values[index] ?? ''}">`)}`;
}

/** What was given to what the action is about. */
function ownOf(reader: Reader, action: Action, { queue, group, subgroup }: Subject): Promise<Given | undefined> {
  return action.about.includes('subgroup')
    ? settingsOfSubgroup(reader, queue, group, subgroup)
    : settingsOfTenant(reader, queue, group);
}

/**
 * Asks. An action that takes numbers has two steps: they are given (there is no form yet), then
 * shown again.
 */
export async function confirmPage(context: Context, action: Action, form: Params | undefined): Promise<View> {
  const subject = subjectOf(action, context.params);
  const asks = action.fields !== undefined && form === undefined;
  const own = asks ? await ownOf(context.reader, action, subject) : undefined;
  const values =
    form !== undefined
      ? numbersOf(action, form)
      : (action.fields ?? []).map((field) => own?.[field.name as keyof Given] ?? null);
  const fields = asks ? inputs(action, values) : chosen(action, values);
  const button = asks
    ? html`<button>Go on</button>`
    : html`<button name="confirmed" value="yes"${action.danger === true && html` class="danger"`}>${action.verb}</button>`;
  return {
    title: asks ? action.verb : `${action.verb}?`,
    body: html`<p>${action.says(subject)}</p>${await detail(context)}
            <form method="post" action="${context.withParams({})}" class="confirm" id="confirm">
            <input type="hidden" name="csrf" value="${context.visit!.csrf}">${fields}
            <p class="actions">${button} <a class="button" href="${action.then(subject)}">Leave it</a></p></form>`,
  };
}
