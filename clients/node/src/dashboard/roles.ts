/**
 * Who a visitor is. With a token: who has it. Behind a proxy that has signed visitors in: who its headers say, which is
 * trusted; so only the proxy may reach this port.
 */

import type { IncomingMessage } from 'node:http';

import type { Options } from './options.js';
import { Problem } from './problem.js';
import type { Visit, Visits } from './visits.js';

const LONGEST_NAME = 200;

/** A header's one value; two of a name are nobody's. */
function header(message: IncomingMessage, name: string): string | undefined {
  const values = message.headersDistinct[name] ?? [];
  return values.length === 1 ? values[0]!.trim() : undefined;
}

/** Whether one of the roles in the header, parted by commas or blanks, is that of operators. */
function isOperator(message: IncomingMessage, options: Options): boolean {
  const words = options.roleHeader === undefined ? '' : (header(message, options.roleHeader) ?? '');
  return words.split(/[\s,;]+/).includes(options.operatorRole);
}

/** The visit of whom the proxy names. */
function named(message: IncomingMessage, options: Options, visits: Visits): Visit {
  const user = header(message, options.userHeader!);
  if (user === undefined || user === '' || user.length > LONGEST_NAME) {
    throw new Problem(
      401,
      'The proxy in front of this dashboard has not said who you are.',
      `It is to send the header ${options.userHeader}, once.`,
    );
  }
  return visits.ofUser(user, options.write && isOperator(message, options));
}

/** Who asks; undefined: nobody has signed in, or that is not asked for. */
export function visitOf(message: IncomingMessage, options: Options, visits: Visits | undefined): Visit | undefined {
  if (visits === undefined) {
    return undefined;
  }
  return options.userHeader === undefined ? visits.find(message.headers.cookie) : named(message, options, visits);
}
