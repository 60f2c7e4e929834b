// Which places of a log has this node passed, and with which hashes?

import type { Place } from "@quiverdb/engine/database/replication";

const keptMax = 256;
const recentMs = 60_000;

export class PlaceHistory {
  readonly #hashes = new Map<number, string>();
  #last: Place = { position: 0, hash: new Uint8Array() };
  #addedMs = 0;

  add(place: Place): void {
    this.#last = place;
    this.#addedMs = performance.now();
    this.#hashes.set(place.position, Buffer.from(place.hash).toString("hex"));
    if (this.#hashes.size > keptMax) this.#hashes.delete(this.#hashes.keys().next().value as number);
  }

  get last(): Place {
    return this.#last;
  }

  /** Whether it was added to lately. */
  get isRecent(): boolean {
    return performance.now() - this.#addedMs < recentMs;
  }

  /** The hash at a position; undefined if this node did not stop there, or long ago. */
  at(position: number): string | undefined {
    return this.#hashes.get(position);
  }
}
