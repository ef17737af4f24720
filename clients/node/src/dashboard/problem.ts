/** What a visitor is told instead of a page: what is wrong, and what to do about it. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly hint?: string,
  ) {
    super(message);
  }
}

/** The server does not answer. */
export class OutOfReach extends Problem {
  constructor(message: string) {
    super(503, `The database is out of reach: ${message}`, 'The next page tries again.');
  }
}

/** What the server, or the connection to it, says of an error. */
export interface DatabaseError {
  code?: string;
  message: string;
  detail?: string;
  hint?: string;
  severity?: string;
}

/** The server is not there, or is just going: the next request may find it again. */
export function isOutOfReach(error: DatabaseError): boolean {
  return error.severity === undefined || /^(08|57P0[1-3])/.test(error.code ?? '');
}

const WORDS: Record<string, string> = {
  '42501': 'The role of the dashboard may not do this',
  '55P03': 'The table is locked just now (VACUUM FULL, ALTER TABLE or the like)',
  '57014': 'This took longer than a page may take',
  '25006': 'The server is a standby, or the transaction read-only',
};

/** What to say of an error in a line. */
export function inWords(error: DatabaseError): string {
  const words = WORDS[error.code ?? ''];
  return words === undefined ? error.message : `${words}: ${error.message}`;
}

export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) {
    return error;
  }
  const known = error as DatabaseError & { errors?: Error[] };
  if (known.errors !== undefined && known.message === '') {
    known.message = known.errors.map((one) => one.message).join('; ');
  }
  if (isOutOfReach(known)) {
    return new OutOfReach(known.message);
  }
  const status = known.code === '42501' ? 403 : known.code === '57014' ? 503 : 409;
  return new Problem(status, inWords(known), known.hint ?? known.detail);
}
