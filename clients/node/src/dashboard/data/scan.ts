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

/** How long a page looks, and how long one of its windows is to take. */
const SCAN_MS = 350;
const WINDOW_MS = 50;
const FIRST_WINDOW = 2000;
const LEAST_WINDOW = 200;
const LARGEST_WINDOW = 50_000;
/** So many are found in a window at most, which is what the engine's functions for pages allow. */
export const MOST_FOUND = 10_000;

/** More rows for the next window if this one was quick, fewer if it was slow. */
function nextRows(rows: number, took: number): number {
  const factor = Math.min(4, Math.max(0.25, WINDOW_MS / Math.max(took, 1)));
  return Math.round(Math.min(LARGEST_WINDOW, Math.max(LEAST_WINDOW, rows * factor)));
}

export async function scan<Cursor>(
  wanted: number,
  start: Cursor | undefined,
  read: (after: Cursor | undefined, rows: number, wanted: number) => Promise<Window<Cursor>>,
  milliseconds = SCAN_MS,
): Promise<Scan<Cursor>> {
  const end = Date.now() + milliseconds;
  const found: Cursor[] = [];
  let after = start;
  let rows = FIRST_WINDOW;
  for (;;) {
    const begin = Date.now();
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
    rows = nextRows(rows, Date.now() - begin);
  }
}
