// When does a collection move to another node?
//
// When a node that holds it is removed, or is away for longer than `--replace-after`; a restart moves nothing. One node plans: the first by name
// of those that live. It looks at the catalog and at what the others tell, and changes which nodes hold a collection, in two steps:
//
//   1. further nodes, by rendezvous hashing, so that the living ones are as many as there should be; they copy it (healing.ts), if any serves it
//   2. when all of these serve it: no longer the one that is removed or away
//
// So the old holder serves until the new ones do, and what is interrupted is planned again. A node that is away is not replaced where there is
// no other: it catches up when it comes back.

import type { CatalogEntry, Replica } from "@quiverdb/engine/database/replication";
import { replicasAmong, replicationFactorDefault } from "./placement.ts";

/** What is known of a node that lives. */
type Living = {
  readonly node: string;
  /** Position of the catalog that it has applied. */
  readonly catalog: number;
  /** Collections that it should serve and does not, by internal id. */
  readonly broken: Readonly<Record<string, string>>;
};

/** Collections that move at a time; each node copies some of them (healing.ts). */
const movingMax = 32;

export class Moves {
  readonly #node: string;
  readonly #replica: Pick<Replica, "entries" | "nodes">;
  readonly #knownPosition: () => number;
  readonly #replaceMs: number;
  readonly #replicationFactor: number;
  readonly #change: (internalId: string, replicas: readonly string[]) => Promise<void>;
  /** When nodes were last seen, as far as this one knows. */
  readonly #seenMs = new Map<string, number>();
  #isPlanning = false;

  /**
   * @param knownPosition of the catalog: that of the last change of which something may be known here
   * @param replaceMs how long a node may be away before others take its place
   * @param replicationFactor of collections that do not say
   */
  constructor(
    node: string,
    replica: Pick<Replica, "entries" | "nodes">,
    knownPosition: () => number,
    replaceMs: number,
    change: (internalId: string, replicas: readonly string[]) => Promise<void>,
    replicationFactor = replicationFactorDefault,
  ) {
    this.#replicationFactor = replicationFactor;
    this.#node = node;
    this.#replica = replica;
    this.#knownPosition = knownPosition;
    this.#replaceMs = replaceMs;
    this.#change = change;
  }

  /** Makes the next changes, if this node plans. @param living this node, and the others that live */
  async plan(living: readonly Living[]): Promise<void> {
    const now = performance.now();
    const members = [...this.#replica.nodes().keys()];
    for (const node of members) if (!this.#seenMs.has(node)) this.#seenMs.set(node, now);
    for (const { node } of living) this.#seenMs.set(node, now);
    const planner = living
      .map(({ node }) => node)
      .filter((node) => members.includes(node))
      .sort()[0];
    if (planner !== this.#node || this.#isPlanning) return;
    this.#isPlanning = true;
    try {
      const isAway = (node: string) => now - (this.#seenMs.get(node) as number) > this.#replaceMs;
      const usable = members.filter((node) => !isAway(node));
      let moving = 0;
      const entries = new Map(Array.from(this.#replica.entries(), (entry) => [entry.internalId, entry]));
      // A copy moves to where its original moves: a merge needs both at one node.
      const rootOf = (entry: CatalogEntry): string => {
        const original = entries.get(entry.definition.origin?.internalId ?? "");
        return original === undefined ? entry.internalId : rootOf(original);
      };
      for (const entry of entries.values()) {
        const next = this.#next(entry, rootOf(entry), members, usable, living);
        if (next === undefined) continue;
        if (next === "copying") moving++;
        else await this.#change(entry.internalId, next);
        if (moving >= movingMax) return;
      }
    } finally {
      this.#isPlanning = false;
    }
  }

  /** The nodes that shall hold a collection next; undefined: those that do. */
  #next(
    { internalId, replicas = [], definition, madeOn }: CatalogEntry,
    root: string,
    members: readonly string[],
    usable: readonly string[],
    living: readonly Living[],
  ): readonly string[] | "copying" | undefined {
    const wanted = definition.replicationFactor ?? this.#replicationFactor;
    const staying = replicas.filter((node) => usable.includes(node));
    // A change that is being made here is seen before it is whole: others may not know it yet.
    const position = this.#knownPosition();
    const isServed = (node: string) => {
      const known = living.find((each) => each.node === node);
      return known !== undefined && known.catalog >= position && !(internalId in known.broken);
    };
    if (staying.length === replicas.length || replicas.length === 0) {
      // The node that made a shard, by a restore or a copy, is one too many when the others have it.
      const isMaker = (node: string) => node === madeOn && definition.shard !== undefined;
      const others = replicas.filter((node) => !isMaker(node));
      if (others.length === replicas.length || others.length < wanted) return undefined;
      return others.every(isServed) ? others : "copying";
    }
    const others = usable.filter((node) => !replicas.includes(node));
    const missing = Math.max(0, wanted - staying.length);
    const isAnywhere = living.some(({ node, broken }) => replicas.includes(node) && !(internalId in broken));
    const further = isAnywhere ? replicasAmong(others, root, missing) : [];
    if (further.length > 0) return [...replicas, ...further].sort();
    // Removed nodes leave; those that are away only where others have taken their place.
    const after = missing > 0 ? replicas.filter((node) => members.includes(node)) : staying;
    if (after.length === replicas.length || after.length === 0) return undefined;
    return after.filter((node) => usable.includes(node)).every(isServed) ? after : "copying";
  }
}
