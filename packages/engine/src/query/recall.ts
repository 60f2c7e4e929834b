// How much of the truth does the dense index find, and which beam finds enough?
//
// Measured on the collection itself: vectors drawn from it are asked as queries, once by exact search and once for each beam. A
// record that is its own query is left out of both answers. Queries that are like the collection's vectors find as much;
// others can find less.
//
// Between two searches the event loop gets a turn when they have held it for long.

import { setImmediate as nextTurn } from "node:timers/promises";
import { limits } from "@quiver/protocol/limits";
import { readU32Key } from "../base/bytes.ts";
import { invariant } from "../base/invariant.ts";
import { ordinalKey } from "../collection/tables.ts";
import type { Candidates } from "../index/contract.ts";
import { efMax, type HnswIndex } from "../index/hnsw/hnsw-index.ts";
import type { View } from "../runtime/view.ts";
import { readFloats } from "../vector/floats.ts";
import { vectorsOf } from "./search.ts";

export type RecallMeasurement = {
  /** Mean over the queries of the share of the exact answers that were found, 0 to 1. */
  readonly recall: number;
  /** The least share of one query. */
  readonly worst: number;
  /** Queries that were asked; fewer than wanted where the collection has fewer vectors. */
  readonly queries: number;
  /** Mean milliseconds of a search through the index, and of an exact one. */
  readonly searchMs: number;
  readonly exactMs: number;
};

/** Gives the event loop a turn when it has been held for longer than a slice. */
class Breath {
  #end = performance.now() + limits.searchSliceMs;

  async take(): Promise<void> {
    if (performance.now() < this.#end) return;
    await nextTurn();
    this.#end = performance.now() + limits.searchSliceMs;
  }
}

type Sample = { readonly ordinal: number; readonly vector: Float32Array };

/** Up to `count` records with dense vectors, drawn evenly and without repetition by a sequence that is always the same. */
function sampleOf(view: View, count: number): Sample[] {
  const samples = new Map<number, Sample>();
  // The golden ratio's multiples are spread evenly over any range, however many are taken.
  for (let i = 0; i < 4 * count && samples.size < count; i++) {
    const start = Math.floor(((0.5 + i * 0.618_033_988_749_894_9) % 1) * view.ordinalEnd);
    for (const [key, value] of view.snapshot.entries("dense", { start: ordinalKey(start), limit: 1 })) {
      const ordinal = readU32Key(key);
      samples.set(ordinal, { ordinal, vector: readFloats(value) });
    }
  }
  return [...samples.values()];
}

/** The k best of an answer but for one ordinal: their ordinals, and the least score. */
function bestBut(found: Candidates, ordinal: number, k: number): { ordinals: Set<number>; floor: number } {
  const hits = Array.from({ length: found.count }, (_, i) => i)
    .filter((i) => found.ordinals[i] !== ordinal)
    .sort((a, b) => found.scores[b] - found.scores[a]);
  const best = hits.slice(0, k);
  return {
    ordinals: new Set(best.map((i) => found.ordinals[i])),
    floor: best.length === 0 ? Number.NEGATIVE_INFINITY : found.scores[best[best.length - 1]],
  };
}

/** The share of the exact answer that was found. What ties with its last is as good. */
function shareOf(exact: Candidates, found: Candidates, ordinal: number, k: number): number {
  const truth = bestBut(exact, ordinal, k);
  if (truth.ordinals.size === 0) return 1;
  let met = 0;
  for (let i = 0; i < found.count; i++)
    if (found.ordinals[i] !== ordinal && found.scores[i] >= truth.floor) met++;
  return Math.min(1, met / truth.ordinals.size);
}

/** Measures the index of a pinned view. @param ef beam; default: the index's own */
export async function measureRecall(
  view: View,
  count: number,
  topK: number,
  ef?: number,
): Promise<RecallMeasurement> {
  const index = denseOf(view);
  const breath = new Breath();
  const samples = sampleOf(view, count);
  const vectorOf = vectorsOf(view);
  let [sum, worst, searchMs, exactMs] = [0, 1, 0, 0];
  for (const { ordinal, vector } of samples) {
    await breath.take();
    const begin = performance.now();
    const found = index.search(vector, topK + 1, { ef, visible: view.visible, vectorOf });
    const between = performance.now();
    const exact = index.searchExactly(vector, topK + 1, view.visible, vectorOf);
    exactMs += performance.now() - between;
    searchMs += between - begin;
    const share = shareOf(exact, found, ordinal, topK);
    sum += share;
    worst = Math.min(worst, share);
  }
  const queries = samples.length;
  if (queries === 0) return { recall: 1, worst: 1, queries, searchMs: 0, exactMs: 0 };
  return { recall: sum / queries, worst, queries, searchMs: searchMs / queries, exactMs: exactMs / queries };
}

function denseOf(view: View): HnswIndex {
  const index = view.indexes.dense;
  invariant(index !== undefined, "the view has no dense index");
  return index;
}

/** Beams that are measured, and the numbers of results that they are measured for. */
const beams = [10, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024, 1_536, 2_048, 3_072, 4_096];
const depths = [1, 10, 100];
const effortSample = 50;
/** Measured anew when the index holds so many times as many records, or so much fewer. */
const effortGrowth = 1.5;

/** Which beam reaches which recall, as measured on a collection. */
export class EffortTable {
  /** By depth, by beam: the recall. */
  #recalls: number[][] = [];
  #count = 0;
  #measuring: Promise<void> | undefined;

  /**
   * The beam for a recall at k results; beyond `efMax` where no beam reaches it. The first call measures; later ones answer by
   * what is known, and have it measured anew in the background when the index has grown.
   * @param pin pins a view for the measuring
   */
  async efFor(recall: number, k: number, view: View, pin: () => View): Promise<number> {
    const { count } = denseOf(view);
    if (this.#count === 0) await this.#measureOnce(pin);
    else if (count > effortGrowth * this.#count || count * effortGrowth < this.#count)
      // A view is pinned at once; what goes wrong is tried again by the next search.
      void this.#measureOnce(pin).catch(() => undefined);
    const depth = depths.findIndex((measured) => measured >= k);
    const row = this.#recalls[depth < 0 ? depths.length - 1 : depth] ?? [];
    const at = row.findIndex((measured) => measured >= recall);
    if (at < 0) return efMax + 1;
    // More results than were ever measured need a beam that is longer by as much.
    return Math.ceil(beams[at] * Math.max(1, k / depths[depths.length - 1]));
  }

  #measureOnce(pin: () => View): Promise<void> {
    this.#measuring ??= this.#measure(pin()).finally(() => {
      this.#measuring = undefined;
    });
    return this.#measuring;
  }

  async #measure(view: View): Promise<void> {
    try {
      const index = denseOf(view);
      const breath = new Breath();
      const vectorOf = vectorsOf(view);
      const deepest = depths[depths.length - 1];
      const sample = sampleOf(view, effortSample);
      const truths: Candidates[] = [];
      for (const { vector } of sample) {
        await breath.take();
        truths.push(index.searchExactly(vector, deepest + 1, view.visible, vectorOf));
      }
      const recalls: number[][] = depths.map(() => []);
      for (const ef of beams) {
        const sums = depths.map(() => 0);
        for (const [i, { ordinal, vector }] of sample.entries()) {
          for (const [j, depth] of depths.entries()) {
            await breath.take();
            const found = index.search(vector, depth + 1, { ef, visible: view.visible, vectorOf });
            sums[j] += shareOf(truths[i], found, ordinal, depth);
          }
        }
        for (const j of depths.keys()) recalls[j].push(sample.length === 0 ? 1 : sums[j] / sample.length);
        if (recalls.every((row) => row[row.length - 1] === 1)) break;
      }
      this.#recalls = recalls;
      this.#count = Math.max(1, index.count);
    } finally {
      view.unpin();
    }
  }
}
