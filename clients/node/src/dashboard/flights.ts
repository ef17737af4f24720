/** How long leases have been there, as the dashboard has seen it. */

/** How long something has been in flight, as far as it was seen. */
export type InFlight =
  | { since: 'unknown' }
  /** 'new': not longer; 'start': longer; 'seen': so long, but for the time between two samples */
  | { since: 'new' | 'start' | 'seen'; seconds: number };

/** More leases than this are not followed: that would cost more than it tells. */
export const FOLLOWED = 5000;

/** Since when leases have been there: the engine does not tell when a claim was. */
export class Flights {
  /** by receipt; from the first look on: those that were there then are older than that */
  private since = new Map<string, number>();
  private first: number | undefined;
  private last: number | undefined;

  /** Takes what is in flight now; undefined: that is not followed. */
  look(time: number, receipts: readonly string[] | undefined): void {
    if (receipts === undefined) {
      this.since = new Map();
      this.first = this.last = undefined;
      return;
    }
    this.first ??= time;
    this.since = new Map(receipts.map((one) => [one, this.since.get(one) ?? time]));
    this.last = time;
  }

  of(receipt: string): InFlight {
    const now = Date.now() / 1000;
    const since = this.since.get(receipt);
    if (this.last === undefined) {
      return { since: 'unknown' };
    }
    return since === undefined
      ? { since: 'new', seconds: now - this.last }
      : { since: since === this.first ? 'start' : 'seen', seconds: now - since };
  }
}
