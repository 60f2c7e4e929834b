// Do collections move when nodes are removed or stay away, one step at a time, and always with a node that serves them?

import { setTimeout as delay } from "node:timers/promises";
import type { CatalogEntry } from "@quiverdb/engine/database/replication";
import { randomNumbers } from "@quiverdb/kernels/random";
import { beforeEach, describe, expect, test } from "vitest";
import { seed } from "../../../tests/seed.ts";
import { Moves } from "./moves.ts";
import { replicasAmong } from "./placement.ts";

const replaceMs = 500;

/** A cluster of which only the catalog is there, and which nodes serve what. */
class Model {
  readonly members = new Set<string>();
  readonly living = new Set<string>();
  /** `collection node` of what a node serves. */
  readonly served = new Set<string>();
  entries: CatalogEntry[] = [];
  position = 0;
  /** Of the change that is being made. */
  making = 0;
  readonly #plans = new Map<string, Moves>();

  join(node: string): void {
    this.members.add(node);
    this.living.add(node);
    this.#plans.set(node, new Moves(node, this.#replica, () => this.known, replaceMs, this.#change));
  }

  get known(): number {
    return Math.max(this.position, this.making);
  }

  make(internalId: string, replicationFactor: number | null, origin?: { internalId: string }): void {
    const count = replicationFactor ?? 3;
    const replicas = replicasAmong([...this.members], origin?.internalId ?? internalId, count);
    const definition = { name: internalId, replicationFactor, ...(origin && { origin }) };
    this.entries.push({ internalId, replicas, definition } as never);
    for (const node of replicas) this.served.add(`${internalId} ${node}`);
  }

  readonly #replica = {
    entries: () => this.entries,
    nodes: () => new Map(Array.from(this.members, (node) => [node, ""])),
  };

  readonly #change = async (internalId: string, replicas: readonly string[]) => {
    this.position++;
    const before = this.serving(internalId).length;
    const entry = this.entries.find((each) => each.internalId === internalId) as CatalogEntry;
    const left = (entry.replicas ?? []).filter((node) => !replicas.includes(node));
    entry.replicas = replicas;
    for (const node of left) this.served.delete(`${internalId} ${node}`);
    if (before > 0) expect(this.serving(internalId), `${internalId} is served by nobody`).not.toEqual([]);
  };

  planOf(node: string, told: Parameters<Moves["plan"]>[0]): Promise<void> | undefined {
    return this.#plans.get(node)?.plan(told);
  }

  /** Living nodes that serve a collection. */
  serving(internalId: string): string[] {
    return [...this.living].filter((node) => this.served.has(`${internalId} ${node}`));
  }

  /** Some copies arrive, then all nodes plan. */
  async step(random: () => number): Promise<void> {
    for (const { internalId, replicas = [] } of this.entries)
      for (const node of replicas)
        if (this.living.has(node) && this.serving(internalId).length > 0 && random() < 0.6)
          this.served.add(`${internalId} ${node}`);
    const told = [...this.living].map((node) => ({
      node,
      // It may not have seen the last changes yet.
      catalog: random() < 0.7 ? this.position : this.position - 1,
      broken: Object.fromEntries(
        this.entries
          .filter(
            ({ internalId, replicas }) =>
              replicas?.includes(node) && !this.served.has(`${internalId} ${node}`),
          )
          .map(({ internalId }) => [internalId, "copying"]),
      ),
    }));
    for (const node of this.living) await this.#plans.get(node)?.plan(told);
  }
}

describe("[Y13] collections", () => {
  let model: Model;
  let random: () => number;
  const settle = async () => {
    for (let i = 0; i < 60; i++) await model.step(random);
  };
  beforeEach(() => {
    model = new Model();
    random = randomNumbers(seed);
    for (const node of ["a", "b", "c", "d", "e"]) model.join(node);
    for (let i = 0; i < 30; i++) model.make(`c${i}`, [null, 1, 2, 5][i % 4]);
  });
  const placement = () => model.entries.map(({ replicas }) => replicas);

  test("stay where they are while nodes come, go for a moment and come back", async () => {
    const before = placement();
    model.join("f");
    await settle();
    model.living.delete("b");
    await settle();
    model.living.add("b");
    await settle();
    expect(placement()).toEqual(before);
  });

  test("of a removed node get another one, which serves them before it leaves", async () => {
    model.members.delete("a");
    await settle();
    for (const { internalId, replicas, definition } of model.entries) {
      expect(replicas).not.toContain("a");
      expect(replicas).toHaveLength(Math.min(4, definition.replicationFactor ?? 3));
      expect(model.serving(internalId).sort()).toEqual(replicas);
    }
  });

  test("of a node that stays away get another one where there is one, and it finds nothing when it comes back", async () => {
    // Of what it alone has there is no copy to take.
    model.entries = model.entries.filter(({ definition }) => definition.replicationFactor !== 1);
    model.living.delete("b");
    await settle();
    await delay(2 * replaceMs);
    await settle();
    for (const { internalId, replicas = [], definition } of model.entries) {
      const wanted = definition.replicationFactor ?? 3;
      // Where all five had it, it stays one of them.
      expect(replicas.includes("b")).toBe(wanted === 5);
      expect(replicas).toHaveLength(wanted);
      expect(model.serving(internalId)).toHaveLength(wanted === 5 ? 4 : wanted);
    }
    const after = placement();
    model.living.add("b");
    await settle();
    expect(placement()).toEqual(after);
  });

  test("and their copies move to the same nodes, where they can be merged", async () => {
    for (let i = 0; i < 30; i++) model.make(`copy of c${i}`, [null, 1, 2, 5][i % 4], { internalId: `c${i}` });
    model.make("copy of a copy", null, { internalId: "copy of c0" });
    model.entries[60].replicas = model.entries[0].replicas;
    for (const node of ["e", "a"]) {
      model.members.delete(node);
      for (let i = 0; i < 4; i++) await settle();
      model.living.delete(node);
    }
    for (let i = 0; i < 30; i++) expect(model.entries[30 + i].replicas).toEqual(model.entries[i].replicas);
    expect(model.entries[60].replicas).toEqual(model.entries[0].replicas);
  });

  test("stay with the node that has made them until the others know of them, and have them", async () => {
    const [entry] = model.entries;
    Object.assign(entry, {
      replicas: ["a", "b", "c"],
      madeOn: "a",
      definition: { name: "c0#0", replicationFactor: 2, shard: { number: 0, of: 1 } },
    });
    model.entries = [entry];
    // The change that makes it is being made here; the others have not seen it, and so miss nothing.
    model.making = model.position + 1;
    const told = ["a", "b", "c"].map((node) => ({ node, catalog: model.position, broken: {} }));
    const plan = async () => {
      for (const node of ["a", "b", "c"]) await model.planOf(node, told);
    };
    await plan();
    expect(entry.replicas).toEqual(["a", "b", "c"]);
    model.position = model.making;
    await plan();
    expect(entry.replicas).toEqual(["a", "b", "c"]);
    for (const each of told) each.catalog = model.position;
    await plan();
    expect(entry.replicas).toEqual(["b", "c"]);
  });

  test("whose nodes are removed one after the other are all on those that remain", async () => {
    for (const node of ["e", "a", "c"]) {
      model.members.delete(node);
      await settle();
      model.living.delete(node);
    }
    for (const { replicas, definition } of model.entries)
      expect(replicas).toHaveLength(Math.min(2, definition.replicationFactor ?? 3));
  });

  test("of several shards leave the node that made them when the others have them", async () => {
    const entry = {
      internalId: "c99-1",
      replicas: ["a", "b", "c"],
      madeOn: "c",
      definition: { name: "made#1", replicationFactor: 2, shard: { number: 1, of: 2 } },
    };
    model.entries.push(entry as never);
    model.served.add("c99-1 c");
    await settle();
    expect(entry.replicas).toEqual(["a", "b"]);
    expect(model.serving("c99-1").sort()).toEqual(["a", "b"]);
  });

  test("that only a dead node has are left to it", async () => {
    const alone = model.entries.find(({ replicas }) => replicas?.length === 1) as CatalogEntry;
    const [node] = alone.replicas as string[];
    model.living.delete(node);
    await settle();
    await delay(2 * replaceMs);
    await settle();
    expect(alone.replicas).toEqual([node]);
  });
});
