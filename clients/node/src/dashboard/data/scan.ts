/**
 * Reading a table that may be long: in windows, each of so many rows in the order of an index,
 * until the page is full or its time is over. A page never waits for a whole table; the next one
 * goes on where it stopped.
 */

export interface Window<Cursor> {
  /** what was found in the window, in order */
  found: Cursor[];
  /** the last row of the window; undefined: there was none left */
  last?: Cursor;
}

export interface Scan<Cursor> {
  found: Cursor[];
  /** where to go on; undefined: this is the end of the table */
  next?: Cursor;
  /** the page stopped for its time, not because it is full */
  unfinished: boolean;
}

const SCAN_MS = 350;
const FIRST_WINDOW = 2000;
const LARGEST_WINDOW = 50_000;

export async function scan<Cursor>(
  wanted: number,
  start: Cursor | undefined,
  read: (after: Cursor | undefined, rows: number, wanted: number) => Promise<Window<Cursor>>,
): Promise<Scan<Cursor>> {
  const end = Date.now() + SCAN_MS;
  const found: Cursor[] = [];
  let after = start;
  for (let rows = FIRST_WINDOW; ; rows = Math.min(4 * rows, LARGEST_WINDOW)) {
    const window = await read(after, rows, wanted + 1 - found.length);
    found.push(...window.found);
    if (found.length > wanted) {
      found.length = wanted;
      return { found, next: found[wanted - 1]!, unfinished: false };
    }
    if (window.last === undefined) {
      return { found, unfinished: false };
    }
    after = window.last;
    if (Date.now() > end) {
      return { found, next: after, unfinished: true };
    }
  }
}
