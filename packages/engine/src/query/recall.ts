// What is the recall of the dense index, and which beam width is enough?
//
// Recall is measured on the collection: a sample of its vectors is searched once exactly and once for each beam width. The sampled record
// itself does not count, and the graph search does not use its links: they lead straight to the true neighbours, and with them the
// reported recall was 0.17 too high. Queries that resemble the vectors of the collection reach this recall; others can reach less.

import { readU32Key } from "../base/bytes.ts";
import { Deadline } from "../base/deadline.ts";
import { invariant } from "../base/invariant.ts";
import type { IndexDefinitions } from "../collection/apply.ts";
import { ordinalKey } from "../collection/tables.ts";
import type { Candidates } from "../index/contract.ts";
import { efMax } from "../index/dense/graph-layout.ts";
import type { HnswIndex } from "../index/dense/hnsw-index.ts";
import { exactQueriesFor } from "../index/dense/legs.ts";
import { readFloats } from "../vector/floats.ts";
import type { View } from "../views/view.ts";
import { vectorsOf } from "./legs.ts";
import type { Beam } from "./plan.ts";
import { Slices } from "./slices.ts";

export type RecallMeasurement = {
  /** Mean over the queries of the fraction of the exact results that were found, 0 to 1. */
  readonly recall: number;
  /** The lowest recall of a single query. */
  readonly worst: number;
  /** The beam width of the measured searches; null if the index has no graph yet and all records were scanned. */
  readonly ef: number | null;
  /** Number of queries; fewer than requested if the collection has fewer vectors. */
  readonly queries: number;
  /** Mean milliseconds of a search through the index, and of an exact one. */
  readonly searchMs: number;
  readonly exactMs: number;
};

/** The dense index of a view that must have one. */
function denseOf(view: View): HnswIndex {
  const index = view.indexes.dense;
  invariant(index !== undefined, "the view has no dense index");
  return index as HnswIndex;
}

type Sample = { readonly ordinal: number; readonly vector: Float32Array };

/** Up to `count` records with dense vectors, drawn evenly, without repetition and deterministically. */
function sampleOf(view: View, count: number): Sample[] {
  const samples = new Map<number, Sample>();
  // The golden ratio's multiples are spread evenly over any range, however many are taken.
  for (let i = 0; i < 4 * count && samples.size < count; i++) {
    const start = Math.floor(((0.5 + i * 0.618_033_988_749_894_9) % 1) * view.ordinalEnd);
    for (const [key, value] of view.readTxn.entries("dense", { start: ordinalKey(start), limit: 1 })) {
      const ordinal = readU32Key(key);
      samples.set(ordinal, { ordinal, vector: readFloats(value) });
    }
  }
  return [...samples.values()];
}

/** The k best of some results without one ordinal: their ordinals, and the lowest score. */
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

/** The fraction of the exact results that was found. A record that ties with the last one counts as well. */
function shareOf(exact: Candidates, found: Candidates, ordinal: number, k: number): number {
  const truth = bestBut(exact, ordinal, k);
  if (truth.ordinals.size === 0) return 1;
  let met = 0;
  for (let i = 0; i < found.count; i++)
    if (found.ordinals[i] !== ordinal && found.scores[i] >= truth.floor) met++;
  return Math.min(1, met / truth.ordinals.size);
}

function exactAnswers(
  view: View,
  samples: readonly Sample[],
  k: number,
  slices: Slices,
): Promise<Candidates[]> {
  const queries = samples.map(({ vector }) => vector);
  return slices.finish(denseOf(view).reader.beginExactly(queries, k, () => view.visible, vectorsOf(view)));
}

/** Searches for a sample as if the sample were not in the graph. */
async function searchBut(
  view: View,
  { ordinal, vector }: Sample,
  k: number,
  ef: number | undefined,
  slices: Slices,
): Promise<Candidates> {
  await slices.pause();
  const options = { ef, vectorOf: vectorsOf(view), without: ordinal };
  return (await slices.finish(denseOf(view).reader.begin(vector, k, () => view.visible, options)))[0];
}

/** Measures the index of a pinned view. @param ef beam; default: the index's own */
export async function measureRecall(
  view: View,
  count: number,
  topK: number,
  ef?: number,
  deadline: Deadline = Deadline.none,
): Promise<RecallMeasurement> {
  const index = denseOf(view);
  const slices = new Slices(deadline);
  const samples = sampleOf(view, count);
  let [sum, worst, searchMs, exactMs] = [0, 1, 0, 0];
  const groupSize = exactQueriesFor(topK + 1);
  for (let from = 0; from < samples.length; from += groupSize) {
    const group = samples.slice(from, from + groupSize);
    const begin = slices.heldMs;
    const truths = await exactAnswers(view, group, topK + 1, slices);
    exactMs += slices.heldMs - begin;
    for (const [i, sample] of group.entries()) {
      const before = slices.heldMs;
      const found = await searchBut(view, sample, topK + 1, ef, slices);
      searchMs += slices.heldMs - before;
      const share = shareOf(truths[i], found, sample.ordinal, topK);
      sum += share;
      worst = Math.min(worst, share);
    }
  }
  const queries = samples.length;
  const beam = index.encoding === undefined ? null : index.reader.beamOf(topK, ef);
  if (queries === 0) return { recall: 1, worst: 1, ef: beam, queries, searchMs: 0, exactMs: 0 };
  return {
    recall: sum / queries,
    worst,
    ef: beam,
    queries,
    searchMs: searchMs / queries,
    exactMs: exactMs / queries,
  };
}

/** Beams that are measured, and the numbers of results that they are measured for. */
const beams = [10, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024, 1_536, 2_048, 3_072, 4_096];
const depths = [1, 10, 100];
const efSample = 50;
/** The measurement is repeated when this multiple of the measured number of records has been linked or removed. */
const efChange = 0.5;
/** Maximum fraction of the records in the tail for a measurement: the tail is scanned, so any beam width finds its records. */
const tailShareMax = 0.02;

/** Beam widths by recall, measured on a collection. The index stores the table, and its checkpoint contains it. */
export class BeamTable {
  #measuring: Promise<void> | undefined;

  /**
   * The beam width for a recall at k results; beyond `efMax` if no width reaches it; undefined (use the index's own) if nothing is known
   * and much is still being built. The first call measures; later calls use the known values, and start a new measurement in the background
   * when much has changed.
   * @param pin pins a view for the measuring
   */
  async efFor(recall: number, k: number, view: View, pin: () => View): Promise<number | undefined> {
    const index = denseOf(view);
    if (index.encoding !== undefined && index.tailCount <= tailShareMax * index.count) {
      if (index.measuredEf === undefined) await this.#measureOnce(pin);
      else if (index.work - index.measuredEf.work > efChange * index.measuredEf.count)
        // If the measurement fails, the next search tries again.
        this.#measureOnce(pin).catch(() => undefined);
    }
    if (index.measuredEf === undefined) return undefined;
    const depth = depths.findIndex((measured) => measured >= k);
    const row = index.measuredEf.rows[depth < 0 ? depths.length - 1 : depth];
    const point = row.find((measured) => measured.recall >= recall);
    if (point === undefined) return efMax + 1;
    // For more results than were measured, the beam width grows in proportion.
    return Math.ceil(point.ef * Math.max(1, k / depths[depths.length - 1]));
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
      const { work } = index;
      const slices = new Slices();
      const deepest = depths[depths.length - 1];
      const sample = sampleOf(view, efSample);
      const truths = await exactAnswers(view, sample, deepest + 1, slices);
      const points: { ef: number; recall: number }[][] = depths.map(() => []);
      for (const beam of beams) {
        for (const [row, depth] of depths.entries()) {
          // A search may use a wider beam than requested: the table has the one that was used.
          const ef = index.reader.beamOf(depth + 1, beam);
          if (points[row].at(-1)?.ef === ef) continue;
          let sum = 0;
          for (const [i, drawn] of sample.entries())
            sum += shareOf(
              truths[i],
              await searchBut(view, drawn, depth + 1, ef, slices),
              drawn.ordinal,
              depth,
            );
          points[row].push({ ef, recall: sample.length === 0 ? 1 : sum / sample.length });
        }
        if (points.every((row) => row[row.length - 1].recall === 1)) break;
      }
      index.measuredEf = { rows: points, count: index.count, work };
    } finally {
      view.unpin();
    }
  }
}

/** The beam width of dense legs; undefined for the default of the index. A promise if the recall must be measured first. */
export function beamWidth(
  { exact, efSearch, recallTarget }: Beam,
  k: number,
  view: View,
  definitions: Readonly<IndexDefinitions>,
  beams: BeamTable,
): number | undefined | Promise<number | undefined> {
  if (exact || efSearch !== null) return efSearch ?? undefined;
  const target = recallTarget ?? definitions.dense?.index.properties.recall_target ?? null;
  return target === null ? undefined : beams.efFor(target, k, view, () => view.pin());
}
