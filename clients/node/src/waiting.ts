/** A sleep; with an `until` that settles first, until then. */
export function sleep(millis: number, until?: Promise<unknown>): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, millis);
    void until?.then(() => { clearTimeout(timer); resolve(); });
  });
}

/** Waits between tries: longer each time, and not the same for all that failed together. */
export class Backoff {
  private tries = 0;

  constructor(private readonly first = 50, private readonly most = 10_000) {}

  next(): number {
    const longest = Math.min(this.most, this.first * 2 ** this.tries++);
    return longest * (0.5 + Math.random() / 2);
  }

  reset(): void {
    this.tries = 0;
  }
}

/** A bell that one loop waits for. A ring that comes before the wait is not lost. */
export class Bell {
  private rung = false;
  private wake: (() => void) | undefined;

  ring(): void {
    this.rung = true;
    this.wake?.();
  }

  /** It rings by itself after so many milliseconds, if that is said. */
  async heard(within = Infinity): Promise<void> {
    const timer = within < Infinity ? setTimeout(() => this.ring(), within) : undefined;
    if (!this.rung) await new Promise<void>((resolve) => { this.wake = resolve; });
    clearTimeout(timer);
    this.wake = undefined;
    this.rung = false;
  }
}
