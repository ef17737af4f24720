/** Who did what: a line for each action, to the log of the process or to a file. */

import { openSync, writeSync } from 'node:fs';

import { UsageError } from './options.js';

export interface AuditEntry {
  user: string;
  address: string;
  action: string;
  /** what it was for */
  subject: Record<string, unknown>;
  /** what came of it; or why nothing did */
  outcome?: string;
  error?: string;
}

export class Audit {
  private readonly file: number;

  /** Without a path, lines go to the standard error. */
  constructor(path: string | undefined) {
    try {
      this.file = path === undefined ? 2 : openSync(path, 'a', 0o600);
    } catch (error) {
      throw new UsageError(`--audit-file cannot be written: ${(error as Error).message}`);
    }
  }

  /** Written when this returns; an error is the action's, which is then not done. */
  write(entry: AuditEntry): void {
    writeSync(this.file, `${JSON.stringify({ audit: new Date().toISOString(), ...entry })}\n`);
  }
}
