// What do the indexes of a collection get from it?

import { ordinalKey } from "../../collection/tables.ts";
import type { CatchUp } from "../../indexing/catch-up.ts";
import type { FeedDependencies } from "../feeds.ts";
import type { CollectionMemory } from "./memory.ts";
import type { CollectionState } from "./state.ts";

/**
 * @param memory undefined: they may take none that they can do without
 * @param catchUp that their feeds belong to; null: they belong to none
 */
export function feedDependencies(
  state: CollectionState,
  memory: CollectionMemory | undefined,
  catchUp: () => CatchUp | null,
): FeedDependencies {
  const { directory, builders, memoryBudgetBytes, log } = state.dependencies;
  return {
    directory,
    builders,
    memoryBudgetBytes,
    readVector: (ordinal) => state.read((snapshot) => snapshot.get("dense", ordinalKey(ordinal))?.slice()),
    mayTake: (bytes) => memory?.mayTake(bytes) ?? false,
    onProgress: () => catchUp()?.progressed(),
    onNotice: (notice) => log.info(state.logged, `dense index: ${notice}`),
    wake: () => catchUp()?.wake(),
    run: (act) => state.background.once("analysing texts", act),
    onProblem: (what, problem) => log.warn({ ...state.logged, err: problem }, what),
  };
}
