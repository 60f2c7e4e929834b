// Which collections leave memory when others need it?
//
// Indexes give up what they can do without; then those collections are unloaded that were not used for the longest time, and are idle.

import type { Background } from "../base/background.ts";
import { collectGarbage } from "../runtime/collect-garbage.ts";
import type { OpenCollection } from "./collection.ts";
import type { Collections } from "./collections.ts";
import type { DatabaseLog } from "./contract.ts";

export type BalanceDependencies = {
  /** Bytes that loaded indexes may take; undefined: no limit. */
  readonly budgetBytes: number | undefined;
  readonly background: Background;
  readonly log: DatabaseLog;
  isClosing(): boolean;
};

export class MemoryBalance {
  readonly #collections: Collections;
  readonly #dependencies: BalanceDependencies;
  #balancing: Promise<unknown> | null = null;

  constructor(collections: Collections, dependencies: BalanceDependencies) {
    this.#collections = collections;
    this.#dependencies = dependencies;
  }

  /** Unloads idle collections while the loaded ones exceed the budget. The most recently used one stays, even where it alone does. */
  async balance(): Promise<void> {
    const budget = this.#dependencies.budgetBytes;
    if (budget === undefined || this.#balancing || this.#dependencies.isClosing()) return;
    await this.#unloadIdle(budget, 1);
    for (const collection of this.#collections.served.values()) collection.retryPostponed();
    this.#dependencies.background.once("collecting garbage", collectGarbage);
  }

  /** For what is about to take memory: idle collections leave, and what they had is free when this resolves. */
  async freeMemory(indexBytesMax: number, isAgain: boolean): Promise<void> {
    const isAny = await this.#unloadIdle(indexBytesMax, 0);
    if (!isAny && isAgain) return;
    // The collector's timer does not keep a process alive that waits for nothing else.
    const waiting = setInterval(() => {}, 1_000);
    await collectGarbage();
    clearInterval(waiting);
  }

  /** Makes caches smaller and unloads idle collections, least recently used first, down to so many bytes or so many collections. One at a time does this. @returns whether any memory was given back */
  async #unloadIdle(bytesMax: number, staying: number): Promise<boolean> {
    while (this.#balancing) await this.#balancing;
    const unloading = this.#unload(bytesMax, staying).finally(() => {
      this.#balancing = null;
    });
    this.#balancing = unloading;
    return unloading;
  }

  async #unload(bytesMax: number, staying: number): Promise<boolean> {
    const loaded = [...this.#collections.served.values()]
      .filter((collection) => collection.isLoaded)
      .sort((a, b) => b.lastUsedMs - a.lastUsedMs);
    const before = loaded.reduce((sum, collection) => sum + collection.expectedBytes, 0);
    let bytes = before;
    for (const collection of loaded.toReversed()) {
      if (bytes <= bytesMax) break;
      bytes -= collection.giveUp(bytes - bytesMax);
    }
    while (bytes > bytesMax && loaded.length > staying) {
      const oldest = loaded.pop() as OpenCollection;
      if (oldest.isBusy) continue;
      bytes -= oldest.expectedBytes;
      await oldest.unload();
      this.#dependencies.log.info({ collection: oldest.name, bytesMax }, "unloaded an idle collection");
    }
    return bytes < before;
  }
}
