// Which collections are unloaded when others need memory?
//
// First the caches of indexes shrink. Then idle collections are unloaded, least recently used first.

import type { Background } from "../base/background.ts";
import { collectGarbage } from "../process/collect-garbage.ts";
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

  /** Unloads idle collections while the loaded ones exceed the budget. The most recently used one stays loaded in any case. */
  async balance(): Promise<void> {
    const budget = this.#dependencies.budgetBytes;
    if (budget === undefined || this.#balancing || this.#dependencies.isClosing()) return;
    await this.#unloadIdle(budget, 1);
    for (const collection of this.#collections.opened) collection.retryPostponed();
    this.#dependencies.background.once("collecting garbage", collectGarbage);
  }

  /** Frees memory for a reservation: unloads idle collections. Resolves when their memory is free. */
  async freeMemory(indexBytesMax: number, isAgain: boolean): Promise<void> {
    const isAny = await this.#unloadIdle(indexBytesMax, 0);
    if (!isAny && isAgain) return;
    // The timer of the garbage collection does not keep the process alive; this one does.
    const waiting = setInterval(() => {}, 1_000);
    await collectGarbage();
    clearInterval(waiting);
  }

  /**
   * Shrinks caches and unloads idle collections, least recently used first, down to the given number of bytes or collections. Runs one at a
   * time.
   * @returns whether memory was freed
   */
  async #unloadIdle(bytesMax: number, staying: number): Promise<boolean> {
    while (this.#balancing) await this.#balancing;
    const unloading = this.#unload(bytesMax, staying).finally(() => {
      this.#balancing = null;
    });
    this.#balancing = unloading;
    return unloading;
  }

  async #unload(bytesMax: number, staying: number): Promise<boolean> {
    const loaded = this.#collections.opened
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
      await oldest.calls.unload();
      this.#dependencies.log.info({ collection: oldest.name, bytesMax }, "unloaded an idle collection");
    }
    return bytes < before;
  }
}
