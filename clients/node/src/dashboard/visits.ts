/**
 * Who has signed in: random numbers in a cookie, known to this process alone. A page's forms carry
 * a second one, without which nothing is written.
 */

import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';

import type { Undo } from './acts/action.js';

export interface Visit {
  readonly csrf: string;
  /** who it is: for people, and for the audit */
  readonly user: string;
  /** whether it may act, where the dashboard can */
  readonly operator: boolean;
  expires: number;
  /** what the last action came to; said once, on the next page */
  notice?: string | undefined;
  /** how the last action is undone, until then */
  undo?: { readonly id: string; readonly says: string; readonly run: Undo; readonly until: number; readonly to: string } | undefined;
}

const VISIT_MS = 12 * 3600 * 1000;
const VISITS = 1000;
/** So many wrong tokens an address may give within so long. */
const GUESSES = 20;
const GUESSES_MS = 60_000;
/** So long an action can be undone. */
export const UNDO_MS = 600_000;

/** Whether two texts are equal, in a time that does not depend on where they differ. */
export function sameText(a: string, b: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(a), digest(b));
}

export function newToken(): string {
  return randomBytes(24).toString('base64url');
}

export class Visits {
  private readonly visits = new Map<string, Visit>();

  /** Without a token nobody signs in: visits are those of users whom a proxy names. */
  constructor(
    private readonly token: string | undefined,
    private readonly cookie: string,
    private readonly path = '/',
  ) {}

  /** How many wrong tokens have come from an address of late. */
  private readonly wrong = new Map<string, { count: number; until: number }>();

  /** Whether an address has guessed too often to be heard: from then on for a minute at most. */
  isGuessing(address: string): boolean {
    const found = this.wrong.get(address);
    return found !== undefined && found.until > Date.now() && found.count >= GUESSES;
  }

  private noteGuess(address: string): void {
    const now = Date.now();
    let found = this.wrong.get(address);
    if (found === undefined || found.until <= now) {
      this.wrong.delete(address);
      const oldest = this.wrong.keys().next();
      if (this.wrong.size >= VISITS && !oldest.done) {
        this.wrong.delete(oldest.value);
      }
      found = { count: 0, until: now + GUESSES_MS };
      this.wrong.set(address, found);
    }
    found.count += 1;
  }

  /** Whether this is the token; a wrong one is counted. */
  isToken(token: string, address: string): boolean {
    if (this.token !== undefined && sameText(token, this.token)) {
      return true;
    }
    this.noteGuess(address);
    return false;
  }

  private begin(key: string, user: string, operator: boolean): Visit {
    const oldest = this.visits.keys().next();
    if (this.visits.size >= VISITS && !oldest.done) {
      this.visits.delete(oldest.value);
    }
    const visit = { csrf: newToken(), user, operator, expires: Date.now() + VISIT_MS };
    this.visits.set(key, visit);
    return visit;
  }

  /** The cookie of a new visit; undefined: this is not the token. `secure`: the browser came by TLS. */
  signIn(token: string, address: string, secure: boolean): string | undefined {
    if (!this.isToken(token, address)) {
      return undefined;
    }
    const name = newToken();
    this.begin(name, 'token', true);
    return this.header(name, VISIT_MS / 1000, secure);
  }

  /** The visit of a user whom a proxy names, as an operator or as a viewer; it goes on while there is room. */
  ofUser(user: string, operator: boolean): Visit {
    const key = `${operator ? 'operator' : 'viewer'} ${user}`;
    const known = this.visits.get(key);
    if (known === undefined || known.expires < Date.now()) {
      this.visits.delete(key);
      return this.begin(key, user, operator);
    }
    return known;
  }

  find(cookies: string | undefined): Visit | undefined {
    const name = this.nameIn(cookies);
    const visit = name === undefined ? undefined : this.visits.get(name);
    if (visit !== undefined && visit.expires < Date.now()) {
      this.visits.delete(name!);
      return undefined;
    }
    return visit;
  }

  /** Ends a visit; the cookie that says so to the browser. */
  signOut(cookies: string | undefined): string {
    const name = this.nameIn(cookies);
    if (name !== undefined) {
      this.visits.delete(name);
    }
    return this.header('', 0, false);
  }

  private nameIn(cookies: string | undefined): string | undefined {
    const found = (cookies ?? '').split(/; */).find((one) => one.startsWith(`${this.cookie}=`));
    return found?.slice(this.cookie.length + 1);
  }

  private header(value: string, seconds: number, secure: boolean): string {
    return `${this.cookie}=${value}; Path=${this.path}; HttpOnly; SameSite=Strict; Max-Age=${seconds}${secure ? '; Secure' : ''}`;
  }
}
