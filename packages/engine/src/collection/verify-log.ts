// Do the log entries that a collection remembers agree with its head?
//
// Their numbers must ascend through all blocks and the latest rows, and the last number must be that of the head.

import type { Finding } from "@quiverdb/protocol/shapes/check";
import { readU53, toHex } from "../base/bytes.ts";
import type { Head } from "./head.ts";
import { recentBlockBytes, recentRowBytes, rowsOf } from "./recent-entries.ts";

export class LogCheck {
  readonly #find: (finding: Finding) => void;
  #latest: number[] = [];
  /** The last entry of the last block. */
  #lastOfBlocks = 0;

  constructor(find: (finding: Finding) => void) {
    this.#find = find;
  }

  #bad(message: string, table: "meta" | "recent", key?: Uint8Array): void {
    this.#find({ kind: "collection", table, ...(key && { key: toHex(key) }), message });
  }

  /** The latest entries, which do not fill a block yet. */
  latest(body: Uint8Array): void {
    if (body.length >= recentBlockBytes || body.length % recentRowBytes !== 0)
      this.#bad(`The latest log entries have ${body.length} bytes, which is no number of them.`, "meta");
    else this.#latest = Array.from(rowsOf(body), ({ sequence }) => sequence);
  }

  /** Checks a block of entries, in order. */
  block(key: Uint8Array, body: Uint8Array): void {
    if (key.length !== 8 || body.length !== recentBlockBytes) {
      this.#bad("A block of log entries has the wrong length.", "recent", key);
      return;
    }
    for (const { sequence } of rowsOf(body)) {
      if (sequence <= this.#lastOfBlocks)
        this.#bad(`The log entry ${sequence} comes after entry ${this.#lastOfBlocks}.`, "recent", key);
      this.#lastOfBlocks = sequence;
    }
    if (this.#lastOfBlocks !== readU53(key))
      this.#bad(`A block of log entries ends with ${this.#lastOfBlocks}, not with its key.`, "recent", key);
  }

  conclude(head: Head): void {
    let last = this.#lastOfBlocks;
    for (const sequence of this.#latest) {
      if (sequence <= last) this.#bad(`The log entry ${sequence} comes after entry ${last}.`, "meta");
      last = sequence;
    }
    // A restored collection remembers no entries from before the restore.
    if (last !== 0 && last !== head.sequence)
      this.#bad(`The last log entry that is remembered is ${last}; the head is at ${head.sequence}.`, "meta");
  }
}
