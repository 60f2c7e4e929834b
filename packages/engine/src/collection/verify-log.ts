// Do the log entries that a collection remembers agree with its head?
//
// Every row lies in the bucket of its opId, the numbers of a bucket rise, none is given twice, and none is after the head's.

import type { Finding } from "@quiver/protocol/shapes/check";
import { toHex } from "../base/bytes.ts";
import type { Head } from "./head.ts";
import { recentRowBytes, recentRows } from "./recent-entries.ts";

export class LogCheck {
  readonly #find: (finding: Finding) => void;
  readonly #sequences = new Set<number>();

  constructor(find: (finding: Finding) => void) {
    this.#find = find;
  }

  #bad(message: string, key?: Uint8Array): void {
    this.#find({ kind: "collection", table: "recent", ...(key && { key: toHex(key) }), message });
  }

  /** A bucket of entries. */
  recent(key: Uint8Array, body: Uint8Array): void {
    if (key.length !== 1 || body.length === 0 || body.length % recentRowBytes !== 0) {
      this.#bad("A bucket of log entries has the wrong length.", key);
      return;
    }
    let last = 0;
    for (const { sequence, opId } of recentRows(body)) {
      if (opId[0] !== key[0])
        this.#bad(`The log entry ${sequence} has the opId ${toHex(opId.slice())}, of another bucket.`, key);
      if (sequence <= last) this.#bad(`The log entry ${sequence} comes after the entry ${last}.`, key);
      if (this.#sequences.has(sequence)) this.#bad(`The log entry ${sequence} has two opIds.`, key);
      this.#sequences.add(sequence);
      last = sequence;
    }
  }

  conclude(head: Head): void {
    for (const sequence of this.#sequences)
      if (sequence > head.sequence)
        this.#bad(`The log entry ${sequence} is remembered; the head is at entry ${head.sequence}.`);
  }
}
