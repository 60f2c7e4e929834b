// Is the beam with a cutoff as good as the one that it replaces, for less, and who takes it?

import { metricNames } from "@quiverdb/protocol/shapes/index-definition";
import { describe, expect, test } from "vitest";
import { clustered } from "../../../test/index/dense/clustered.ts";
import { LateBuilders } from "../../../test/index/dense/late-builders.ts";
import { finishAtOnce } from "../../base/steps.ts";
import { bytesOfFloats } from "../../vector/floats.ts";
import { OrdinalBitmap } from "../ordinal-bitmap.ts";
import type { CutBeam } from "./beam.ts";
import { HnswIndex } from "./hnsw-index.ts";
import type { HnswOptions } from "./hnsw-options.ts";
import { type GraphPass, HnswReader } from "./hnsw-search.ts";
import type { HnswState } from "./saved-changes.ts";

const dimension = 32;
const count = 8_000;
const all = clustered(count + 200, dimension, 5);
const rows = all.slice(0, count);
const queries = all.slice(count);
const shape = { dimension, metric: "euclidean", dataType: "u8", searchers: 2 } as const;

function indexOf(options: Partial<HnswOptions> = {}): HnswIndex {
  const index = new HnswIndex({ ...shape, ...options });
  for (const [ordinal, row] of rows.entries()) index.add(ordinal, bytesOfFloats(row));
  while (index.tidy());
  return index;
}

const cutOf = (index: HnswIndex): CutBeam => {
  const cut = index.quality?.cut;
  if (cut == null) throw new Error("no cutoff was chosen");
  return cut;
};

/** The pass of a search, which has one. @param mayCut whether the beam is one that reaches an asked recall */
function passOf(reader: HnswReader, query: Float32Array, k: number, ef?: number, mayCut = false): GraphPass {
  reader.begin(query, k, () => null, { ef, mayCut, vectorOf: (ordinal) => rows[ordinal] });
  return reader.lastPass as GraphPass;
}

/** What searches find of the right results, and the vectors that they compare. */
function foundBy(reader: HnswReader, ef: number | undefined, mayCut = false) {
  const found = { met: 0, compared: 0 };
  for (const query of queries) {
    const right = new Set(reader.searchExactly(query, 10, null).ordinals);
    for (const ordinal of reader.search(query, 10, { ef, mayCut }).ordinals)
      if (right.has(ordinal)) found.met++;
    found.compared += reader.walk(query, passOf(reader, query, 10, ef, mayCut)).distances;
  }
  return found;
}

describe.each(metricNames.filter((metric) => metric !== "dot_product"))("%s", (metric) => {
  test.each(["u8", "f16", "f32"] as const)(
    "[N13] a search of %s codes that sets no beam finds as much as with the beam of the definition, for fewer comparisons",
    (dataType) => {
      const index = indexOf({ metric, dataType });
      const { reader } = index;
      const ef = reader.efDefault;
      expect(cutOf(index).most).toBe(1.25 * ef);
      const [cut, plain] = [foundBy(reader, undefined), foundBy(reader, ef)];
      expect(cut.met).toBeGreaterThanOrEqual(plain.met - 0.002 * 10 * queries.length);
      expect(cut.met).toBeGreaterThanOrEqual(0.99 * 10 * queries.length);
      expect(cut.compared).toBeLessThan(0.9 * plain.compared);
    },
  );
});

test("[N5] a beam that reaches an asked recall gets a cutoff of its own, which is measured later, and again when a tenth has changed", async () => {
  const index = indexOf();
  const { reader } = index;
  const askedCutOf = (ef: number) => passOf(reader, queries[0], 10, ef, true).beam;
  expect(askedCutOf(64)).toBe(64);
  // None for another number of results than was measured, nor for a beam that is hardly longer than what is never cut.
  expect(index.askCut(20, 96, 0.9)).toBe(false);
  expect(index.askCut(1, 96, 0.9)).toBe(false);
  expect(index.askCut(10, 11, 0.9)).toBe(false);
  // Whoever asks for all gets the beam that found all.
  expect(index.askCut(10, 96, 1)).toBe(false);
  while (index.tidy());
  expect(index.quality?.askedCuts).toBeUndefined();
  expect(index.askCut(10, 64, 0.95)).toBe(false);
  expect(index.askCut(10, 256, 0.999)).toBe(false);
  while (index.tidy());
  expect(index.quality?.askedCuts?.map(({ ef, recall }) => [ef, recall])).toEqual([
    [64, 0.95],
    [256, 0.999],
  ]);
  expect(askedCutOf(64)).toMatchObject({ most: 128, least: 11 });
  expect(askedCutOf(256)).toMatchObject({ most: 512 });
  expect(askedCutOf(128)).toBe(128);
  expect(passOf(reader, queries[0], 11, 64, true).beam).toBe(64);
  expect(passOf(reader, queries[0], 10, 64).beam).toBe(64);
  const [cut, plain] = [foundBy(reader, 64, true), foundBy(reader, 64)];
  expect(cut.met).toBeGreaterThanOrEqual(0.95 * 10 * queries.length);
  expect(cut.compared).toBeLessThan(0.9 * plain.compared);
  // What is known is not measured again, but for a greater recall.
  const known = index.quality;
  expect(index.askCut(10, 64, 0.9)).toBe(true);
  for (const k of [1, 20]) expect(index.askCut(k, 64, 0.9)).toBe(false);
  while (index.tidy());
  expect(index.quality).toBe(known);
  // Until that of a greater one is known, only searches for the lesser one take the cutoff.
  expect(index.askCut(10, 64, 0.97)).toBe(false);
  expect(index.askCut(10, 64, 0.95)).toBe(true);
  while (index.tidy());
  expect(index.askCut(10, 64, 0.97)).toBe(true);
  expect(index.quality?.askedCuts?.find(({ ef }) => ef === 64)).toMatchObject({ recall: 0.97 });
  const restored = await restoredFrom(index);
  expect(restored.askCut(10, 64, 0.97)).toBe(true);
  expect(passOf(restored.reader, queries[0], 10, 256, true).beam).toEqual(askedCutOf(256));
  for (let ordinal = 0; ordinal < count / 8; ordinal++) index.remove(ordinal);
  while (index.tidy());
  const workOf = () => index.quality?.askedCuts?.find(({ ef }) => ef === 256)?.work;
  const before = workOf();
  index.askCut(10, 256, 0.9);
  while (index.tidy());
  expect(workOf()).toBeGreaterThan(before as number);
});

test("a beam that is asked for, a filter, many results and products take beams of one length", () => {
  const index = indexOf();
  const { reader } = index;
  const cut = cutOf(index);
  const [query] = queries;
  const allowed = OrdinalBitmap.of(Uint32Array.from({ length: count / 2 }, (_, i) => 2 * i));
  expect(passOf(reader, query, 10)).toEqual({ beam: cut, isAmong: false });
  expect(passOf(reader, query, 10, 128)).toEqual({ beam: 128, isAmong: false });
  expect(passOf(reader, query, 11)).toEqual({ beam: 128, isAmong: false });
  reader.begin(query, 10, () => null, { allowed, way: "graph" });
  expect(typeof reader.lastPass?.beam).toBe("number");
  expect(indexOf({ metric: "dot_product" }).quality?.cut).toBeUndefined();
});

test("a version that sees too little of what a cut search found is searched by a longer beam", () => {
  const { reader } = indexOf();
  const [query] = queries;
  const near = new Set(reader.searchExactly(query, 300, null).ordinals);
  const visible = (ordinal: number) => !near.has(ordinal);
  const right = reader.searchExactly(query, 10, visible);
  const [found] = finishAtOnce(reader.begin(query, 10, () => visible, {}));
  expect(new Set(found.ordinals)).toEqual(new Set(right.ordinals));
  expect(reader.lastPass).toEqual({ beam: 512, isAmong: false });
});

test("readers of other threads and an index that is opened again take the same beam", async () => {
  const index = indexOf();
  const cut = cutOf(index);
  const attached = HnswReader.attach(index.descriptor, 1);
  const vectorOf = (ordinal: number) => rows[ordinal];
  for (const query of queries.slice(0, 20)) {
    expect(attached.search(query, 10, { vectorOf })).toEqual(index.reader.search(query, 10, {}));
    expect(passOf(attached, query, 10).beam).toEqual(cut);
  }
  const restored = await restoredFrom(index);
  expect(index.hasNewBeams).toBe(false);
  expect(passOf(restored.reader, queries[0], 10).beam).toEqual(cut);
});

/** An index that has the checkpoint of another. */
async function restoredFrom(index: HnswIndex): Promise<HnswIndex> {
  const images: Uint8Array[] = [];
  let state: HnswState | undefined;
  index.save((saved, graphs, done) => {
    state = saved;
    images.push(...graphs.map(({ image }) => image.slice()));
    done(true);
  });
  const options = { ...shape, readVector: (ordinal: number) => bytesOfFloats(rows[ordinal]) };
  return HnswIndex.restored(options, state as HnswState, async (graphs) => {
    for (const [i, { image }] of graphs.entries()) image.set(images[i]);
  });
}

test("[N14] an index is settled when its first cutoff is chosen, and not before; a checkpoint has it", () => {
  const builders = new LateBuilders();
  const index = new HnswIndex({ ...shape, builders });
  for (const [ordinal, row] of rows.entries()) index.add(ordinal, bytesOfFloats(row));
  for (let turn = 0; turn < 100_000 && !index.isSettled; turn++) {
    builders.work();
    if (index.quality === undefined) expect(index.isSettled).toBe(false);
    while (index.tidy());
  }
  const chosen = cutOf(index);
  expect(index.isSettled).toBe(true);
  expect(index.hasNewBeams).toBe(true);
  while (index.tidy());
  expect(cutOf(index)).toBe(chosen);
});
