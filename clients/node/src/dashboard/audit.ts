/** Who did what: a line for each action, to the log of the process or to a file. */

import { appendFileSync, openSync } from 'node:fs';

import { writtenOut } from './html.js';
import { UsageError } from './options.js';
import { Problem } from './problem.js';

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

  /**
   * Written as a whole when this returns; an error is the action's, which is then not done. What tenants wrote neither
   * breaks the line nor speaks to a terminal.
   */
  write(entry: AuditEntry): void {
    const line = writtenOut(JSON.stringify({ audit: new Date().toISOString(), ...entry }));
    try {
      appendFileSync(this.file, `${line}\n`);
    } catch (error) {
      throw new Problem(
        500,
        `The line of the audit cannot be written: ${(error as Error).message}.`,
        'Without it nothing is done. Make room where it goes, and do it again.',
      );
    }
  }
}
