// How do logs stay short?
//
// What all nodes have is removed, apart from the last messages, which tell a node that returns where it was. A node that is away holds this
// up for a time; if it stays away longer, it copies what it misses.

import type { JetStreamManager } from "@nats-io/jetstream";
import { logStream } from "./names.ts";

/** Messages that a log keeps in any case. */
const keptMessages = 1_024;

/** How far a living node has noted that it read each log. */
type Reading = { readonly node: string; readonly noted: readonly number[] };

export class Trimming {
  readonly #node: string;
  readonly #manager: JetStreamManager;
  readonly #keepMs: number;
  /** Up to which position this node has removed messages, by log. */
  readonly #removed: number[] = [];
  /** Since when nodes are away, as far as this one knows. */
  readonly #awaySinceMs = new Map<string, number>();

  /** @param keepMs how long a node that is away holds it up */
  constructor(node: string, manager: JetStreamManager, keepMs: number) {
    this.#node = node;
    this.#manager = manager;
    this.#keepMs = keepMs;
  }

  /**
   * @param living this node, and the others that live
   * @param nodes all that the catalog has
   * @returns whether this node is the one that removes, and none is away that may come back soon
   */
  async trim(living: readonly Reading[], nodes: Iterable<string>): Promise<boolean> {
    const there = new Set(living.map(({ node }) => node));
    if ([...there].sort()[0] !== this.#node) return false;
    const now = performance.now();
    for (const node of nodes) {
      if (there.has(node)) this.#awaySinceMs.delete(node);
      else if (!this.#awaySinceMs.has(node)) this.#awaySinceMs.set(node, now);
    }
    for (const sinceMs of this.#awaySinceMs.values()) if (now - sinceMs < this.#keepMs) return false;
    for (let log = 0; log < living[0].noted.length; log++) {
      const seq = Math.min(...living.map(({ noted }) => noted[log] ?? 0)) - keptMessages;
      if (seq <= (this.#removed[log] ?? 0) + keptMessages) continue;
      this.#removed[log] = seq;
      // It is tried again with the next messages.
      await this.#manager.streams.purge(logStream(log), { seq }).catch(() => undefined);
    }
    return true;
  }
}
