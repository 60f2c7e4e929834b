// What is the recall of an index that follows links, and which beam width is enough?
//
// Recall is measured on the collection: a sample of its vectors is searched once exactly and once for each beam width, by the legs that
// searches have. The sampled record itself does not count, and the graph search does not use its links: they lead straight to the true
// neighbours, and with them the reported recall was 0.17 too high. Queries that resemble the vectors of the collection reach this recall;
// others can reach less.

import { readU32Key } from "../base/bytes.ts";
import { anonymous, Task } from "../base/scheduler.ts";
import type { Steps } from "../base/steps.ts";
import type { IndexDefinitions } from "../collection/apply.ts";
import { ordinalKey } from "../collection/tables.ts";
import type { Candidates } from "../index/contract.ts";
import type { Beams, Kind, Leg, LegBeam, LegOptions } from "../index/kind.ts";
import { kindsWith, kindWith } from "../index/registry.ts";
import type { View } from "../views/view.ts";
import { Legs } from "./legs.ts";
import type { Beam } from "./plan.ts";

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

/** The index of a view that is measured, and how. The view must have one. */
function measuredIn(view: View): { kind: Kind; measuring: NonNullable<Kind["measuring"]>; beams: Beams } {
  for (const kind of kindsWith("measuring")) {
    const index = view.indexes[kind.name];
    if (index !== undefined) return { kind, measuring: kind.measuring, beams: kind.measuring.beams(index) };
  }
  throw new Error("Invariant broken: the view has no index whose recall is measured");
}

type Sample = { readonly ordinal: number; readonly leg: Leg };

/** Up to `count` records that the index has, drawn evenly, without repetition and deterministically. */
function sampleOf(view: View, count: number): Sample[] {
  const { kind, measuring } = measuredIn(view);
  const samples = new Map<number, Sample>();
  // The golden ratio's multiples are spread evenly over any range, however many are taken.
  for (let i = 0; i < 4 * count && samples.size < count; i++) {
    const start = Math.floor(((0.5 + i * 0.618_033_988_749_894_9) % 1) * view.ordinalEnd);
    for (const [key, value] of view.readTxn.entries(kind.table, { start: ordinalKey(start), limit: 1 })) {
      const ordinal = readU32Key(key);
      samples.set(ordinal, { ordinal, leg: measuring.legOf(value) });
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

const unlimited = { allowed: null, ofKey: null };

/** The exact results of each sample, one after the other; those that one pass over all vectors answers come together. */
function exactAnswers(
  view: View,
  samples: readonly Sample[],
  k: number,
): (sample: number) => Steps<Candidates> {
  const queries = samples.map(({ leg }) => [leg]);
  const legs = new Legs(view, queries, { ...unlimited, ef: undefined, isExact: true });
  return (sample) => legs.of(sample)[0].search(k);
}

/** Searches for a sample as if the sample were not in the graph. */
function searchBut(view: View, { ordinal, leg }: Sample, k: number, beam: LegBeam): Steps<Candidates> {
  const options: LegOptions = { ...unlimited, ...beam, isExact: false, without: ordinal };
  return new Legs(view, [[leg]], options).of(0)[0].search(k);
}

/** Runs steps. @param tell told the milliseconds that they took, without what ran between them */
function* timed<T>(steps: Steps<T>, tell: (ms: number) => void): Steps<T> {
  for (let ms = 0; ; ) {
    const beganMs = performance.now();
    const step = steps.next();
    ms += performance.now() - beganMs;
    if (step.done) {
      tell(ms);
      return step.value;
    }
    yield;
  }
}

/** Measures the index of a pinned view. @param beam of the searches; default: the index's own */
export function* measureRecall(
  view: View,
  count: number,
  topK: number,
  beam: LegBeam = { ef: undefined },
): Steps<RecallMeasurement> {
  const { beams } = measuredIn(view);
  const samples = sampleOf(view, count);
  const truthOf = exactAnswers(view, samples, topK + 1);
  let [sum, worst, searchMs, exactMs] = [0, 1, 0, 0];
  for (const [i, sample] of samples.entries()) {
    yield;
    const truth = yield* timed(truthOf(i), (ms) => {
      exactMs += ms;
    });
    const found = yield* timed(searchBut(view, sample, topK + 1, beam), (ms) => {
      searchMs += ms;
    });
    const share = shareOf(truth, found, sample.ordinal, topK);
    sum += share;
    worst = Math.min(worst, share);
  }
  const queries = samples.length;
  const ef = beams.waiting === null ? null : beams.beamOf(topK, beam.ef);
  if (queries === 0) return { recall: 1, worst: 1, ef, queries, searchMs: 0, exactMs: 0 };
  return {
    recall: sum / queries,
    worst,
    ef,
    queries,
    searchMs: searchMs / queries,
    exactMs: exactMs / queries,
  };
}

/** Beams that are measured, and the numbers of results that they are measured for. */
const measuredBeams = [
  10, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024, 1_536, 2_048, 3_072, 4_096,
];
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
   * The beam for a recall at k results; its width is beyond `beamMax` if no width reaches it; undefined (use the index's own) if nothing is known
   * and much is still being built. The first call measures; later calls use the known values, and start a new measurement in the background
   * when much has changed.
   * @param pin pins a view for the measuring
   */
  async beamFor(recall: number, k: number, view: View, pin: () => View): Promise<LegBeam> {
    const { beams } = measuredIn(view);
    if (beams.waiting !== null && beams.waiting <= tailShareMax * beams.count) {
      if (beams.measuredBeams === undefined) await this.#measureOnce(pin);
      else if (beams.work - beams.measuredBeams.work > efChange * beams.measuredBeams.count)
        // If the measurement fails, the next search tries again.
        this.#measureOnce(pin).catch(() => undefined);
    }
    if (beams.measuredBeams === undefined) return { ef: undefined };
    const depth = depths.findIndex((measured) => measured >= k);
    const row = beams.measuredBeams.rows[depth < 0 ? depths.length - 1 : depth];
    const point = row.find((measured) => measured.recall >= recall);
    if (point === undefined) return { ef: beams.beamMax + 1 };
    // For more results than were measured, the beam width grows in proportion.
    const ef = Math.ceil(point.ef * Math.max(1, k / depths[depths.length - 1]));
    return { ef, mayCut: beams.askCut(k, ef, recall), mayWiden: true };
  }

  #measureOnce(pin: () => View): Promise<void> {
    this.#measuring ??= this.#measure(pin()).finally(() => {
      this.#measuring = undefined;
    });
    return this.#measuring;
  }

  async #measure(view: View): Promise<void> {
    try {
      await new Task(anonymous).finish(measureBeams(view));
    } finally {
      view.unpin();
    }
  }
}

function* measureBeams(view: View): Steps<void> {
  const { beams } = measuredIn(view);
  const { work } = beams;
  const deepest = depths[depths.length - 1];
  const sample = sampleOf(view, efSample);
  const truthOf = exactAnswers(view, sample, deepest + 1);
  const truths: Candidates[] = [];
  for (const i of sample.keys()) truths.push(yield* truthOf(i));
  const points: { ef: number; recall: number }[][] = depths.map(() => []);
  for (const beam of measuredBeams) {
    for (const [row, depth] of depths.entries()) {
      // A search may use a wider beam than requested: the table has the one that was used.
      const ef = beams.beamOf(depth + 1, beam);
      if (points[row].at(-1)?.ef === ef) continue;
      let sum = 0;
      for (const [i, drawn] of sample.entries()) {
        yield;
        sum += shareOf(truths[i], yield* searchBut(view, drawn, depth + 1, { ef }), drawn.ordinal, depth);
      }
      points[row].push({ ef, recall: sample.length === 0 ? 1 : sum / sample.length });
    }
    if (points.every((row) => row[row.length - 1].recall === 1)) break;
  }
  beams.measuredBeams = { rows: points, count: beams.count, work };
}

/** The recall that searches should reach which set neither it nor a beam; null: none. */
export function recallTargetOf(definitions: Readonly<IndexDefinitions>): number | null {
  const { name, measuring } = kindWith("measuring");
  const definition = definitions[name];
  return definition === undefined ? null : measuring.targetOf(definition);
}

/** The beam of legs with vectors. A promise if the recall must be measured first. */
export function beamOfLegs(
  { exact, efSearch, recallTarget }: Beam,
  k: number,
  view: View,
  definitions: Readonly<IndexDefinitions>,
  beams: BeamTable,
): LegBeam | Promise<LegBeam> {
  if (exact || efSearch !== null) return { ef: efSearch ?? undefined };
  const target = recallTarget ?? recallTargetOf(definitions);
  return target === null ? { ef: undefined } : beams.beamFor(target, k, view, () => view.pin());
}
