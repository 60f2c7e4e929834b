// Do all replicas have one state?
//
// Each replica tells a hash of its state and the position that it has; hashes of one position must be equal. Writes go on meanwhile, so
// the comparison begins again where replicas were at different positions.

import type { CatalogEntry } from "@quiverdb/engine/database/replication";

/** Hash of all that replicas of a collection have in common, at a position of its log. */
export type ReplicaState = { readonly position: number; readonly sha256: string };

export type CheckedCollection = {
  readonly name: string;
  /** `busy`: it is written all the time, and its replicas were at different positions each time; `incomplete`: some did not answer. */
  readonly outcome: "equal" | "different" | "incomplete" | "busy";
  readonly replicas: readonly ({ readonly node: string } & ReplicaState)[];
  readonly failed?: readonly string[];
};

type StateOf = (node: string, internalId: string) => Promise<ReplicaState>;

const attempts = 20;

/** @param stateOf asks a node; rejects if it does not answer */
export async function checkStates(
  entries: readonly CatalogEntry[],
  stateOf: StateOf,
): Promise<CheckedCollection[]> {
  const checked: CheckedCollection[] = [];
  for (const entry of entries) checked.push(await checkState(entry, stateOf));
  return checked;
}

async function checkState(
  { internalId, definition: { name }, replicas = [] }: CatalogEntry,
  stateOf: StateOf,
): Promise<CheckedCollection> {
  for (let attempt = 0; ; attempt++) {
    const states = await Promise.allSettled(
      replicas.map(async (node) => ({ node, ...(await stateOf(node, internalId)) })),
    );
    const found = states.flatMap((state) => (state.status === "fulfilled" ? [state.value] : []));
    const failed = states.flatMap((state) =>
      state.status === "rejected" ? [String((state.reason as Error).message)] : [],
    );
    const isOnePosition = new Set(found.map(({ position }) => position)).size <= 1;
    if (!isOnePosition && attempt < attempts) continue;
    const isEqual = new Set(found.map(({ sha256 }) => sha256)).size <= 1;
    const ofEqual = failed.length > 0 ? "incomplete" : "equal";
    const ofOnePosition = isEqual ? ofEqual : "different";
    const outcome = isOnePosition ? ofOnePosition : "busy";
    return { name, outcome, replicas: found, ...(failed.length > 0 && { failed }) };
  }
}
