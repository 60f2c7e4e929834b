// Are pages in the order of values, and facets, what plain code finds, and made in steps that do not grow with the records?

import { randomNumbers } from "@quiverdb/kernels/random";
import { expect, test } from "vitest";
import { utf8 } from "../base/bytes.ts";
import { finishAtOnce, type Steps } from "../base/steps.ts";
import type { CollectionDefinition } from "../collection/definition.ts";
import { prepareCollection } from "../collection/format.ts";
import { encodeUpserts } from "../collection/schema.ts";
import { collectionTables } from "../collection/tables.ts";
import type { FieldType } from "../filter/condition.ts";
import { MetadataIndex } from "../index/fields/metadata-index.ts";
import { BitmapBuilder, type OrdinalBitmap } from "../index/ordinal-bitmap.ts";
import { LocalSequencer, randomOpId } from "../log/sequencer.ts";
import { type Field, fieldNamed } from "../metadata/field.ts";
import { MemoryStore } from "../storage/memory.ts";
import { facetsOf } from "./facets.ts";
import type { FilteredVersion } from "./filter/matching.ts";
import { type Page, type PageEnd, pageByValue } from "./scroll.ts";

const definition: CollectionDefinition = {
  name: "test",
  dense: false,
  dimension: null,
  sparse: true,
  text: false,
  maxVectors: null,
  replicationFactor: null,
  storeRawText: false,
};
const field = fieldNamed("f") as Field;
const idOf = (i: number): string => `r${String(i).padStart(6, "0")}`;

type Values = readonly unknown[];

/** A version whose records have these values; record i has ordinal i. Counts the records that are read. */
function versionOf(values: Values, type: FieldType | null): FilteredVersion & { reads: { count: number } } {
  const store = new MemoryStore(collectionTables);
  prepareCollection(store, 1, definition);
  const sequencer = new LocalSequencer(store, {
    versionsKept: 1,
    maxVectors: null,
    clock: () => 1,
    newOpId: randomOpId,
  });
  const records = values.map((f, i) => ({
    id: idOf(i),
    sparse_values: [[1, 1]] as [number, number][],
    metadata: { f },
  }));
  for (const outcome of [
    ...sequencer.write([{ kind: "upsert", batch: encodeUpserts(definition, records, "") }]),
  ].flat())
    expect(outcome.ok).toBe(true);
  const index = type && new MetadataIndex(field, type);
  if (index) for (const [i, f] of values.entries()) index.add(i, utf8(JSON.stringify({ f })));
  const txn = store.beginRead();
  const reads = { count: 0, fields: [], isAll: false };
  const readTxn = {
    get(table: string, key: Uint8Array) {
      if (table === "records") reads.count++;
      return txn.get(table, key);
    },
    entries: txn.entries.bind(txn),
    keys: txn.keys.bind(txn),
  };
  return { readTxn, ordinalEnd: values.length, reads, ...(index && { indexes: { "metadata:f": index } }) };
}

function setOf(end: number, has: (i: number) => boolean): OrdinalBitmap {
  const set = new BitmapBuilder(end);
  for (let i = 0; i < end; i++) if (has(i)) set.add(i);
  return set.finish();
}

const isOf: Readonly<Record<FieldType, (value: unknown) => boolean>> = {
  keyword: (value) => typeof value === "string",
  number: (value) => typeof value === "number",
  boolean: (value) => typeof value === "boolean",
  datetime: (value) => typeof value === "string" && !Number.isNaN(Date.parse(value)),
};

/** All ids in the order of a field's values, by sorting. */
function inOrder(
  values: Values,
  type: FieldType,
  isDescending: boolean,
  has: (i: number) => boolean,
): string[] {
  const sign = isDescending ? -1 : 1;
  const key = (value: unknown) => (type === "datetime" ? Date.parse(value as string) : (value as never));
  const order = (a: unknown, b: unknown) => (key(a) < key(b) ? -sign : key(a) > key(b) ? sign : 0);
  return values
    .flatMap((own, i) => {
      const typed = [own].flat().filter(isOf[type]).sort(order);
      return typed.length > 0 && has(i) ? [{ id: idOf(i), first: typed[0] }] : [];
    })
    .sort((a, b) => order(a.first, b.first) || (a.id < b.id ? -1 : 1))
    .map(({ id }) => id);
}

function listed(
  version: FilteredVersion,
  among: OrdinalBitmap,
  limit: number,
  type: FieldType,
  isDescending: boolean,
): string[] {
  const ids: string[] = [];
  for (let after: PageEnd | null = null, page = 0; page === 0 || after !== null; page++) {
    const made: Page = finishAtOnce(pageByValue(version, among, limit, after, { field, type, isDescending }));
    ids.push(...made.ordinals.map(idOf));
    after = made.end;
  }
  return ids;
}

const drawn: Readonly<Record<FieldType, (next: () => number, i: number) => unknown>> = {
  keyword: (next, i) =>
    [`w${Math.floor(next() * 90)}`, `only ${i}`, ["b", "a", "zz"], 7, null][Math.floor(next() * 5)],
  number: (next, i) =>
    [Math.floor(next() * 9), next() * 1e6, [3, -i, i], [i, i + 0.25, i + 0.5], "text", 1e308][
      Math.floor(next() * 6)
    ],
  boolean: (next) => [true, false, [true, false], "no", null][Math.floor(next() * 5)],
  datetime: (next, i) =>
    [
      new Date(1e12 + 1e7 * Math.floor(next() * 50)).toISOString(),
      new Date(1e12 + i).toISOString(),
      "never",
      5,
    ][Math.floor(next() * 4)],
};

for (const type of Object.keys(drawn) as FieldType[])
  test(`[W10] pages by ${type} are those of sorting all records, with an index and without`, () => {
    const next = randomNumbers(3);
    const values = Array.from({ length: 3_000 }, (_, i) => drawn[type](next, i));
    for (const version of [versionOf(values, type), versionOf(values, null)])
      for (const has of [() => true, (i: number) => i % 3 === 1, (i: number) => i < 100]) {
        const among = setOf(values.length, has);
        for (const isDescending of [false, true])
          for (const limit of [40, 149])
            expect(listed(version, among, limit, type, isDescending)).toEqual(
              inOrder(values, type, isDescending, has),
            );
      }
  });

/** The steps of work, and the most records that one of them reads. */
function measured<T>(
  work: Steps<T>,
  reads: { count: number },
): { steps: number; readsMax: number; reads: number; value: T } {
  const before = reads.count;
  let [steps, readsMax] = [0, 0];
  for (;;) {
    const from = reads.count;
    const step = work.next();
    steps++;
    readsMax = Math.max(readsMax, reads.count - from);
    if (step.done) return { steps, readsMax, reads: reads.count - before, value: step.value };
  }
}

test.each([
  ["keyword", (i: number) => `value ${(i * 7_919) % 40_000}`],
  ["number", (i: number) => (i * 7_919) % 40_000],
] as const)(
  "[Q20] a further page by %s costs its own records, not those of the collection",
  (type, drawnOf) => {
    const values = Array.from({ length: 40_000 }, (_, i) => drawnOf(i));
    const version = versionOf(values, type);
    const among = setOf(values.length, () => true);
    let after: PageEnd | null = null;
    for (let page = 0; page < 5; page++) {
      const work = pageByValue(version, among, 50, after, { field, type, isDescending: false });
      const { steps, reads, readsMax, value } = measured(work, version.reads);
      expect(readsMax).toBeLessThanOrEqual(32);
      // With the last one of the page before.
      expect(reads).toBeLessThanOrEqual(53);
      if (page > 0) expect(steps).toBeLessThan(10);
      after = value.end;
    }
  },
);

test("[Q20] facets of records with values of other types are counted in steps, whether these match or not", () => {
  const values = Array.from({ length: 40_000 }, (_, i) => (i % 2 === 0 ? i : `v${i % 5}`));
  const version = versionOf(values, "keyword");
  for (const has of [(i: number) => i < 200, () => true]) {
    const counting = facetsOf(version, [field], setOf(values.length, has), 10);
    const { steps, readsMax, value: all } = measured(counting, version.reads);
    const [value] = all;
    expect(steps).toBeGreaterThan(20_000 / 4_096);
    expect(readsMax).toBeLessThanOrEqual(32);
    const matching = values.filter((_, i) => has(i));
    const count = (wanted: unknown) => matching.filter((each) => each === wanted).length;
    expect(value).toHaveLength(10);
    for (const facet of value) expect(facet.count).toBe(count(facet.value));
    expect(value.slice(0, 5).map((facet) => facet.value)).toEqual(["v0", "v1", "v2", "v3", "v4"]);
  }
});
