/** Whom requests come from, and what browsers may do with the answers. */

import type { IncomingMessage } from 'node:http';

import { isLoopback } from './options.js';
import { Problem } from './problem.js';

/** Nothing is loaded but the script, the stylesheet and the icon, from here; nothing else runs or frames. */
export const HEADERS: Readonly<Record<string, string>> = {
  'Content-Security-Policy': [
    "default-src 'none'",
    "script-src 'self'",
    "connect-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ].join('; '),
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
  // Not no-referrer: browsers would say of our own forms that they come from nowhere.
  'Referrer-Policy': 'same-origin',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Permissions-Policy': 'camera=(), microphone=(), geolocation=()',
  'Cache-Control': 'no-store',
  'X-Robots-Tag': 'noindex',
};

/** The names by which the dashboard is reached, as browsers say them in the header Host. */
export function acceptedHosts(host: string, port: number, names: readonly string[]): Set<string> {
  const bracketed = host.includes(':') ? `[${host}]` : host;
  const own = isLoopback(host) ? ['localhost', '127.0.0.1', '[::1]', bracketed] : [bracketed];
  const withPort = [...own, ...names].map((name) => `${name.toLowerCase()}:${port}`);
  // Behind a proxy, or at port 80, a name comes alone.
  return new Set([...withPort, ...names, ...(port === 80 ? own : [])]);
}

/**
 * Refuses a request that names another host: a page of others, whose name leads to this machine
 * (DNS rebinding), could else read and write as its visitor.
 */
export function checkHost(request: IncomingMessage, accepted: ReadonlySet<string>): void {
  if (!accepted.has((request.headers.host ?? '').toLowerCase())) {
    throw new Problem(
      421,
      'This dashboard is not reached by that name.',
      'Start it with --host and the name, if it is to be.',
    );
  }
}

/** Refuses what pages of others send. Browsers say where a POST comes from. */
export function checkOrigin(request: IncomingMessage): void {
  const host = (request.headers.host ?? '').toLowerCase();
  const { origin } = request.headers;
  if (origin !== `http://${host}` && origin !== `https://${host}`) {
    throw new Problem(403, 'This does not come from a page of this dashboard.');
  }
}

/** Whether the browser came by TLS, to a proxy before us: it says so itself of its forms, and so do proxies. */
export function cameByTls(request: IncomingMessage): boolean {
  const { origin, 'x-forwarded-proto': forwarded } = request.headers;
  return /^https:/i.test(origin ?? '') || /^https\b/i.test(String(forwarded ?? ''));
}

/** Whether a program asks, rather than a browser for its visitor. */
export function wantsJson(request: IncomingMessage): boolean {
  const accept = (request.headers.accept ?? '').toLowerCase();
  return accept.includes('application/json') && !accept.includes('text/html');
}

/** The token that a program sends. */
export function bearerOf(request: IncomingMessage): string | undefined {
  return /^Bearer +(\S+)$/i.exec(request.headers.authorization ?? '')?.[1];
}

/** A form of who has signed in may have a payload in it. */
const LARGEST_FORM = 16_384;
const LARGEST_PAYLOAD_FORM = 1_048_576;

/** The fields of a form. */
export async function readForm(request: IncomingMessage, signedIn: boolean): Promise<URLSearchParams> {
  const type = (request.headers['content-type'] ?? '').split(';')[0]!.trim().toLowerCase();
  if (type !== 'application/x-www-form-urlencoded') {
    throw new Problem(415, 'This is no form.');
  }
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request) {
    size += (chunk as Buffer).length;
    if (size > (signedIn ? LARGEST_PAYLOAD_FORM : LARGEST_FORM)) {
      throw new Problem(413, 'The form is too large.');
    }
    chunks.push(chunk as Buffer);
  }
  return new URLSearchParams(Buffer.concat(chunks).toString('utf8'));
}
