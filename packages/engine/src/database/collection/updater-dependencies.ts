// What a collection provides to its indexes.

import { ordinalKey } from "../../collection/tables.ts";
import type { Indexer } from "../../indexing/indexer.ts";
import type { UpdaterDependencies } from "../updaters.ts";
import type { CollectionMemory } from "./memory.ts";
import type { CollectionState } from "./state.ts";

/**
 * @param memory undefined: caches get no memory
 * @param indexer of the collection; null when there is none
 */
export function updaterDependencies(
  state: CollectionState,
  memory: CollectionMemory | undefined,
  indexer: () => Indexer | null,
): UpdaterDependencies {
  const { directory, builders, memoryBudgetBytes, log, readerSlots } = state.dependencies;
  return {
    directory,
    builders,
    memoryBudgetBytes,
    readerSlots,
    readVector: (ordinal) => state.read((readTxn) => readTxn.get("dense", ordinalKey(ordinal))?.slice()),
    mayTake: (bytes) => memory?.mayTake(bytes) ?? false,
    onProgress: () => indexer()?.progressed(),
    onNotice: (notice) => log.info(state.logged, `dense index: ${notice}`),
    wake: () => indexer()?.wake(),
    retire: (free) => {
      const owner = indexer();
      if (owner === null) free();
      else owner.retire(free);
    },
    run: (act) => state.background.once("analysing texts", act),
    onProblem: (what, problem) => log.warn({ ...state.logged, err: problem }, what),
  };
}
