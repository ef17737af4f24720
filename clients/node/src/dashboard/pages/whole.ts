/** A whole payload, as plain text. */

import type { Context } from '../context.js';
import { DONE_PARTS, wholeOfDone } from '../data/archive.js';
import { findQueue } from '../data/queues.js';
import { whole, WHOLE_CHARACTERS, WHOLE_PARTS } from '../data/tasks.js';
import { Problem } from '../problem.js';

export type TextPage = (context: Context) => Promise<string>;

function text(found: { text: string | null; length: number | null } | undefined): string {
  if (found === undefined || found.text === null) {
    throw new Problem(404, 'There is no such task any more, or it has no such part.');
  }
  const cut = found.length! > WHOLE_CHARACTERS;
  return cut ? `${found.text}\n\n[cut: the first ${WHOLE_CHARACTERS} of ${found.length} characters]\n` : found.text;
}

export const wholePage: TextPage = async ({ reader, params }) => {
  const part = params.choice('part', WHOLE_PARTS) ?? 'payload';
  const queue = await findQueue(reader, params.required('queue'));
  return text(await whole(reader, queue.queue, params.requiredId('id'), part));
};

export const wholeDonePage: TextPage = async ({ reader, params }) => {
  const part = params.choice('part', DONE_PARTS) ?? 'payload';
  const queue = await findQueue(reader, params.required('queue'));
  if (queue.done_readable === null) {
    throw new Problem(404, `Queue “${queue.queue}” does not keep done tasks.`);
  }
  return text(await wholeOfDone(reader, queue, params.requiredId('id'), part));
};
