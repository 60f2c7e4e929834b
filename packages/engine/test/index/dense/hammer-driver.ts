// Is every answer of a dense reader right for its version, while the owner builds, sweeps, replaces and forgets?
//
// Vectors repeat, and some are zero: vector keys have duplicates, come and go as heads of their rings, and one has no direction. Jobs of builders are
// done late and by turns, so the tail is never empty for long. Graphs are small, so that there are several, and are given up.

import { finishAtOnce } from "../../../src/base/steps.ts";
import { keepBest } from "../../../src/base/top-k.ts";
import type { Candidates, Index } from "../../../src/index/contract.ts";
import { HnswIndex } from "../../../src/index/dense/hnsw-index.ts";
import { denseKind } from "../../../src/index/dense/kind.ts";
import type { DenseLeg } from "../../../src/index/dense/legs.ts";
import type { LegOptions } from "../../../src/index/kind.ts";
import { OrdinalBitmap } from "../../../src/index/ordinal-bitmap.ts";
import { bytesOfFloats } from "../../../src/vector/floats.ts";
import { exactScore, metrics } from "../../../src/vector/metric.ts";
import type { HammerAnswer, HammerDriver, HammeredVersion } from "../hammer-driver.ts";
import { LateBuilders } from "./late-builders.ts";

const dimension = 12;
const metric = "cosine";

const buildersOf = new WeakMap<Index, LateBuilders>();

/** What ends the checkpoints that are being written: until then graphs are held, and what is removed stays marked as living. */
const checkpointsOf = new WeakMap<Index, (() => void)[]>();

function endCheckpoints(index: Index): void {
  for (const end of checkpointsOf.get(index)?.splice(0) ?? []) end();
}

function mixed(a: number, b: number): number {
  let hash = Math.imul(a ^ 0x9e37_79b9, 0x85eb_ca6b) ^ b;
  hash = Math.imul(hash ^ (hash >>> 15), 0xc2b2_ae35);
  hash = Math.imul(hash ^ (hash >>> 13), 0x27d4_eb2f);
  return (hash ^ (hash >>> 16)) >>> 0;
}

/** The vector of an ordinal: a third has that of one of a few thousand others, one of a hundred is zero. */
function vectorOf(seed: number, ordinal: number): Float32Array {
  const drawn = mixed(seed, ordinal);
  const vector = new Float32Array(dimension);
  if (drawn % 100 === 0) return vector;
  const content = drawn % 3 === 0 ? mixed(seed, (ordinal >>> 9) * 64 + (drawn % 40)) : drawn;
  for (let i = 0; i < dimension; i++) vector[i] = mixed(content, i) / 2 ** 31 - 1 + (content % 7) / 3;
  return vector;
}

type Truth = { readonly ordinals: Uint32Array; readonly scores: Float64Array };

function truthOf(
  query: Float32Array,
  { seed, ordinals }: HammeredVersion,
  allowed: OrdinalBitmap | null,
): Truth {
  const seen = Uint32Array.from(ordinals.filter((ordinal) => allowed === null || allowed.has(ordinal)));
  const scores = Float64Array.from(seen, (ordinal) =>
    exactScore(metrics[metric], query, vectorOf(seed, ordinal)),
  );
  return { ordinals: seen, scores };
}

/** What is wrong with an exact answer. */
function differenceOf(found: Candidates, expected: Candidates): string | undefined {
  const scores = new Map<number, number>();
  for (let i = 0; i < found.count; i++) scores.set(found.ordinals[i], found.scores[i]);
  if (scores.size !== found.count) return "a record was found twice";
  for (let i = 0; i < expected.count; i++) {
    const [ordinal, score] = [expected.ordinals[i], expected.scores[i]];
    if (scores.get(ordinal) !== score)
      return `record ${ordinal} has the score ${scores.get(ordinal)} instead of ${score}`;
  }
  return found.count === expected.count ? undefined : `${found.count} records instead of ${expected.count}`;
}

/** What is wrong with an approximate answer: what it has must be right, and enough. */
function faultOf(found: Candidates, truth: Truth, k: number): string | undefined {
  const scores = new Map<number, number>();
  for (let i = 0; i < truth.ordinals.length; i++) scores.set(truth.ordinals[i], truth.scores[i]);
  if (new Set(found.ordinals).size !== found.count) return "a record was found twice";
  for (let i = 0; i < found.count; i++) {
    const score = scores.get(found.ordinals[i]);
    if (score === undefined) return `record ${found.ordinals[i]} was found, which the version does not see`;
    if (score !== found.scores[i])
      return `record ${found.ordinals[i]} has the score ${found.scores[i]} instead of ${score}`;
  }
  const wanted = Math.min(k, truth.ordinals.length);
  return found.count < wanted ? `${found.count} records instead of ${wanted}` : undefined;
}

function ask(reader: object, version: HammeredVersion, random: () => number): HammerAnswer {
  const { seed, ordinals } = version;
  const from = ordinals[Math.floor(random() * ordinals.length)] ?? 0;
  const query = vectorOf(seed, from);
  for (let i = 0; i < dimension; i++) query[i] += random() < 0.5 ? 0 : random() - 0.5;
  const k = 1 + Math.floor(random() * 20);
  const share = random() < 0.5 ? 1 : random() ** 2;
  const allowed =
    share === 1 ? null : OrdinalBitmap.of(Uint32Array.from(ordinals.filter(() => random() < share)));
  const isExact = random() < 0.4;
  const ef = random() < 0.5 ? undefined : 32 + Math.floor(random() * 200);
  const options: LegOptions = { allowed, ofKey: null, isExact, ef };
  const leg: DenseLeg = { kind: "dense", vector: query };
  const question = `dense k=${k} ${isExact ? "exact" : `ef=${ef}`} allowed=${allowed?.count ?? "all"} like=${from}`;
  const found = finishAtOnce(denseKind.search(reader as never, [leg], version, options).search(0, k));
  const truth = truthOf(query, version, allowed);
  const expected = keepBest(truth.ordinals, truth.scores, truth.ordinals.length, k);
  const wrong = isExact ? differenceOf(found, expected) : faultOf(found, truth, k);
  if (isExact) return { question, ...(wrong !== undefined && { wrong }) };
  const floor = Math.min(...expected.scores);
  const wanted = Math.min(k, expected.count);
  const met = Math.min(wanted, Array.from(found.scores).filter((score) => score >= floor).length);
  return { question, wanted, found: met, ...(wrong !== undefined && { wrong }) };
}

export const denseDriver: HammerDriver = {
  kind: denseKind,
  make(seed, { retire, readerSlots = 0 }) {
    const builders = new LateBuilders();
    const index = new HnswIndex({
      dimension,
      metric,
      dataType: "u8",
      m: 6,
      efConstruction: 40,
      sampleCount: 150,
      memoryBytesMax: 2 ** 20,
      searchers: 1 + readerSlots,
      builders,
      seed,
      retire: retire && ((free) => retire(free)),
      readVector: (ordinal) => bytesOfFloats(vectorOf(seed, ordinal)),
      cacheMax: 500,
      // Graphs are ordered again and again.
      orderedBytesMin: 0,
    });
    buildersOf.set(index, builders);
    checkpointsOf.set(index, []);
    return index;
  },
  add: (index, seed, ordinal) => (index as HnswIndex).add(ordinal, bytesOfFloats(vectorOf(seed, ordinal))),
  disturb(index, random) {
    const builders = buildersOf.get(index) as LateBuilders;
    for (let jobs = Math.floor(random() * 6); jobs > 0 && builders.work(); jobs--);
    if (random() < 0.2) (index as HnswIndex).tidy();
    if (random() < 0.05)
      (index as HnswIndex).save((_state, _graphs, done) => checkpointsOf.get(index)?.push(() => done(true)));
    if (random() < 0.1) endCheckpoints(index);
    if ((index as HnswIndex).failure !== undefined) throw (index as HnswIndex).failure;
  },
  check(index, seed) {
    const builders = buildersOf.get(index) as LateBuilders;
    // The end of one lets the next begin, which holds the graphs again.
    do endCheckpoints(index);
    while (builders.work() || checkpointsOf.get(index)?.length);
    (index as HnswIndex).check((vectorKey) => vectorOf(seed, vectorKey));
  },
  ask,
  vectorOf: (seed, ordinal) => bytesOfFloats(vectorOf(seed, ordinal)),
};
