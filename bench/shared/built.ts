// When are the indexes of a collection complete?

import { setTimeout as sleep } from "node:timers/promises";
import type { Indexes } from "../../packages/protocol/src/shapes/index-definition.ts";

const pollMs = 20;

/**
 * Waits until all records are in the final places of every index: those of a dense index leave its tail for the graph.
 * @param ask returns the collection's indexes @throws if one has failed
 */
export async function built(ask: () => Indexes | Promise<Indexes>): Promise<void> {
  const isBuilt = ({ status }: Required<Indexes>[keyof Indexes]): boolean => {
    if (status.failure !== undefined) throw new Error(status.failure);
    return status.state === "ready" && (status.records_in_tail ?? 0) === 0;
  };
  while (!Object.values(await ask()).every(isBuilt)) await sleep(pollMs);
}
