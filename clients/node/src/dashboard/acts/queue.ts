/** Actions on a queue as a whole. */

import type { Reader } from '../database.js';
import { address, foreign, html } from '../html.js';
import { answerOf, UNDONE, type Action, type Subject } from './action.js';

const toQueue = ({ queue }: Subject): string => address('/queue', { queue });

async function pause(writer: Reader, queue: string): Promise<string> {
  await answerOf(writer, 'SELECT fairq.pause($1::text)', [queue]);
  return `Queue ${queue} is paused.`;
}

async function resume(writer: Reader, queue: string): Promise<string> {
  await answerOf(writer, 'SELECT fairq.resume($1::text)', [queue]);
  return `Queue ${queue} is resumed.`;
}

export const QUEUE: Record<string, Action> = {
  'pause-queue': {
    verb: 'Pause the queue',
    about: ['queue'],
    says: ({ queue }) => html`Claims return nothing from queue ${foreign(queue)} until it is resumed. What is in flight
            goes on, and producers enqueue as before.`,
    undoing: UNDONE,
    perform: async (writer, { queue }) => ({
      says: await pause(writer, queue),
      undo: (later) => resume(later, queue),
    }),
    then: toQueue,
  },
  'resume-queue': {
    verb: 'Resume the queue',
    about: ['queue'],
    says: ({ queue }) => html`Claims return tasks of queue ${foreign(queue)} again.`,
    undoing: UNDONE,
    perform: async (writer, { queue }) => ({
      says: await resume(writer, queue),
      undo: (later) => pause(later, queue),
    }),
    then: toQueue,
  },
};
