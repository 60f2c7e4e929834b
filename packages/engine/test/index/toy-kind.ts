// A kind of index for tests: which records have a text of a given length?
//
// It proves that a kind is one object: a collection can do everything with it that it does with other indexes. To be searched over HTTP, it has
// shapes and an operation beside (packages/server/test/toy-kind.test.ts).

import { Fields } from "@quiverdb/protocol/shapes/common";
import type { IndexKind, SparseIndex } from "@quiverdb/protocol/shapes/index-definition";
import { TextSearch } from "@quiverdb/protocol/shapes/search";
import Type, { type Static } from "typebox";
import { type Index, seenAndAllowed } from "../../src/index/contract.ts";
import { invalid } from "../../src/index/definition-checks.ts";
import type { Kind, Leg, PreparedRecords } from "../../src/index/kind.ts";

export const toyName = "toy" as IndexKind;

/** Counts of the operations on all toy indexes. */
export const toyCalls = { made: 0, restored: 0, saved: 0, closed: 0 };

/** Records whose texts have this many characters. */
export interface ToyLeg extends Leg {
  readonly length: number;
}

const { query: _, query_text: __, syntax: ___, ...common } = TextSearch.properties;

export const ToySearch = Fields({ length: Type.Integer(), ...common });
export const BatchToySearch = Fields({ queries: Type.Array(Type.Integer()), ...common });

function legOf(length: unknown, path: string): ToyLeg {
  if (typeof length !== "number" || length < 0) throw invalid(path, `is ${length}; expected 0 or more.`);
  return { kind: toyName, length };
}

type ToyState = { readonly end: number; readonly lengths: readonly (readonly [number, number])[] };

export class Toy implements Index {
  /** Ordinal -> length. */
  readonly lengths: Map<number, number>;
  readonly retired = new Set<number>();
  /** Records that are not in a checkpoint. */
  changes = 0;
  end = 0;

  constructor(lengths: readonly (readonly [number, number])[] = []) {
    toyCalls.made++;
    this.lengths = new Map(lengths);
  }

  get count(): number {
    return this.lengths.size;
  }

  has(ordinal: number): boolean {
    return this.lengths.has(ordinal);
  }

  add(ordinal: number, length: number): void {
    this.lengths.set(ordinal, length);
    this.changes++;
    this.end = ordinal + 1;
  }

  retire(ordinal: number): void {
    if (this.has(ordinal)) this.retired.add(ordinal);
  }

  remove(ordinal: number): void {
    this.retired.delete(ordinal);
    if (this.lengths.delete(ordinal)) this.changes++;
  }

  /** Records whose texts have this many characters. */
  withLength(length: number): number[] {
    return [...this.lengths].filter((each) => each[1] === length).map(([ordinal]) => ordinal);
  }

  readonly memoryBytes = 100;
  readonly restoredBytes = 100;
  check(): void {}
  close(): void {
    toyCalls.closed++;
    this.lengths.clear();
  }
}

export const toyKind: Kind<SparseIndex, Toy, ToyState, PreparedRecords, Toy> = {
  name: toyName,
  define: () => ({ name: "toy", quantization: 64, sample_threshold: 1 }),
  automatic: { definition: {}, isWanted: () => false },
  table: "records",
  countOf: ({ text }) => text,
  blueprint: () => ({
    make: () => new Toy(),
    checkpoint: {
      changes: (index) => index.changes,
      hasNews: () => false,
      isIdle: () => true,
      async save(index, write) {
        const { changes } = index;
        const isCheckpointed = await write(
          { end: index.end, lengths: [...index.lengths] } satisfies ToyState,
          [],
        );
        if (!isCheckpointed) return;
        toyCalls.saved++;
        index.changes -= changes;
      },
      endOf: ({ end }) => end,
      async restored({ end, lengths }, load) {
        await load([]);
        toyCalls.restored++;
        const index = new Toy(lengths);
        index.end = end;
        return index;
      },
    },
    deciding: { toyFormat: 1 },
  }),
  add(index, ordinal, _bytes, content) {
    const { text } = content();
    if (text !== null) index.add(ordinal, text.value.length);
  },
  estimate: (_collection, _definition, { counts }) => ({ bytes: 10 * counts.text, recordBytes: 10 }),
  search: (index, legs, version, { allowed }) => ({
    *search(leg, k) {
      yield;
      const sees = seenAndAllowed(version.visible(), allowed);
      const all = index.withLength((legs as readonly ToyLeg[])[leg].length);
      const ordinals = all.filter((ordinal) => sees === null || sees(ordinal)).slice(0, k);
      return { count: ordinals.length, ordinals, scores: ordinals.map(() => 1) };
    },
    *explain(leg, ordinals, onMatch) {
      yield;
      onMatch();
      return ordinals.map(() => ({ length: (legs as readonly ToyLeg[])[leg].length }));
    },
  }),
  searching: {
    single: {
      name: "toy",
      shape: ToySearch,
      leg: (_collection, { length }: Static<typeof ToySearch>) => legOf(length, "length"),
    },
    batch: {
      name: "batchToy",
      shape: BatchToySearch,
      queries: "queries",
      leg: (_collection, length, path) => legOf(length, path),
    },
  },
  growth: (recordBytes, records) => recordBytes * records,
  status: () => ({ served_by: "toys" }),
  postings: (index) => ({
    *walk(add) {
      for (const [ordinal, length] of index.lengths) add(ordinal, length);
      yield;
      return true;
    },
    *hashesOf({ text }) {
      if (text !== null) yield text.value.length;
    },
  }),
};
