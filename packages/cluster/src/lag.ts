// For how long has this node been behind the others?
//
// It is behind in a log while another node tells a position that this one had not reached when it heard it.

/** A node that is behind for so long passes requests on. */
const behindMs = 10_000;

export class Lag {
  /** Since when, and up to which position, by log. */
  readonly #behind = new Map<
    number,
    { sinceMs: number; target: number; position: (log: number) => number }
  >();

  /** @param logs positions of another node @param position of this one */
  heard(logs: readonly number[], position: (log: number) => number): void {
    for (const [log, target] of logs.entries()) {
      if (target <= position(log)) continue;
      const known = this.#behind.get(log);
      if (known === undefined || position(log) >= known.target)
        this.#behind.set(log, { sinceMs: performance.now(), target, position });
    }
  }

  isBehind(log: number): boolean {
    const known = this.#behind.get(log);
    if (known === undefined) return false;
    if (known.position(log) >= known.target) {
      this.#behind.delete(log);
      return false;
    }
    return performance.now() - known.sinceMs > behindMs;
  }
}
