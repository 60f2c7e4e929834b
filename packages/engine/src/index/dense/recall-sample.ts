// Which queries measure the recall of the graphs?
//
// A sample of the index's own vectors is drawn and searched exactly. Then the graphs are searched for each of them, once ignoring the
// vector and once for the vector itself. quality.ts evaluates the results, and recall-watch.ts decides when to measure.

import { Growable } from "../../base/growable.ts";
import type { Steps } from "../../base/steps.ts";
import type { Candidates } from "../contract.ts";
import { absent } from "../ordinal-map.ts";
import { type Beam, lengthOf } from "./beam.ts";
import type { Sample } from "./build-host.ts";
import { ExactSearch } from "./exact-search.ts";
import type { GraphSearch } from "./graph-search.ts";
import { depthOf, type HnswReader } from "./hnsw-search.ts";
import { type Measured, type Question, qualityDepth } from "./quality.ts";
import type { StoredVectors } from "./stored-vectors.ts";

export class RecallSample {
  readonly #vectors: StoredVectors;
  readonly #reader: HnswReader;

  constructor(vectors: StoredVectors, reader: HnswReader) {
    this.#vectors = vectors;
    this.#reader = reader;
  }

  /** Names of the graphs with their vectors, drawn evenly, half of them from the newest; fewer if some cannot be read. */
  sample(count: number, fresh: readonly number[] = []): Sample {
    const { dimension } = this.#vectors;
    const all = this.#vectors.graphSet?.vectorKeys() ?? [];
    const isNew = Math.min(fresh.length, count >> 1);
    const drawn = new Set<number>();
    for (let i = 0; i < isNew; i++) drawn.add(fresh[Math.floor((i * fresh.length) / isNew)]);
    const others = Math.min(count - isNew, all.length);
    for (let i = 0; i < others; i++) drawn.add(all[Math.floor((i * all.length) / others)]);
    const vectorKeys: number[] = [];
    const vectors = new Float32Array(drawn.size * dimension);
    for (const vectorKey of drawn) {
      if (!this.#vectors.graphs?.has(vectorKey)) continue;
      const vector = this.#vectors.vectorToLink(vectorKey);
      if (vector === undefined) continue;
      vectors.set(vector, vectorKeys.length * dimension);
      vectorKeys.push(vectorKey);
    }
    return { vectorKeys, vectors: vectors.subarray(0, vectorKeys.length * dimension) };
  }

  beginTruth(queries: readonly Float32Array[], k: number): Steps<Candidates[]> | undefined {
    if (!this.#vectors.canRead) return undefined;
    // A record that is about to be removed may no longer be stored.
    const isThere = (vectorKey: number) => this.#vectors.vectorToLink(vectorKey) !== undefined;
    const read = (vectorKey: number) => this.#vectors.vectorToLink(vectorKey) as Float32Array;
    return new ExactSearch(this.#vectors, queries, k, () => isThere, read).search();
  }

  /** @param isNew whether a vector was added after the exact search started: it does not count in the results */
  ask({ vectorKey, vector, truth }: Question, asked: Beam, isNew: (vectorKey: number) => boolean): Measured {
    const graphs = this.#vectors.graphs as GraphSearch;
    const wanted = bestOthers(truth, (other) => other !== vectorKey && graphs.has(other) && !isNew(other));
    const counts = (other: number) => !isNew(other);
    const count = Math.min(qualityDepth, wanted.size);
    const beam = typeof asked === "number" ? this.#reader.beamOf(qualityDepth, asked) : asked;
    const most = lengthOf(beam);
    const vectorKeys = new Growable(Uint32Array);
    graphs.search(vector, beam, most, counts, vectorKey, vectorKeys);
    const { compared } = graphs;
    const depth = depthOf(graphs, qualityDepth);
    const met = new Set<number>();
    for (let i = 0; i < Math.min(depth, vectorKeys.length); i++)
      if (wanted.has(vectorKeys.values[i])) met.add(vectorKeys.values[i]);
    let lostByCode = 0;
    if (met.size < count)
      for (const missed of wanted)
        if (!met.has(missed) && graphs.isBeyond(missed, vectorKeys, depth)) lostByCode++;
    vectorKeys.length = 0;
    graphs.search(vector, beam, depth, counts, absent, vectorKeys);
    const asGood = noWorseThan(truth, vectorKey);
    return {
      wanted: count,
      met: Math.min(count, met.size),
      lostByCode: Math.min(lostByCode, count - Math.min(count, met.size)),
      // With dot products a vector need not be among its own best results.
      isItselfFound:
        asGood.size === 0 ||
        vectorKeys.values.subarray(0, vectorKeys.length).some((each) => asGood.has(each)),
      compared,
    };
  }

  nearest(vector: Float32Array, ef: number): Candidates {
    const isThere = (vectorKey: number) => this.#vectors.vectorToLink(vectorKey) !== undefined;
    const read = (vectorKey: number) => this.#vectors.vectorToLink(vectorKey) as Float32Array;
    return this.#reader.nearest(vector, qualityDepth + 1, ef, isThere, read);
  }
}

/** The best results that tie with a given one; none if it is not among them. */
function noWorseThan({ count, ordinals, scores }: Candidates, vectorKey: number): Set<number> {
  const at = Array.from({ length: count }, (_, i) => i);
  const own = at.find((i) => ordinals[i] === vectorKey);
  if (own === undefined) return new Set();
  return new Set(at.filter((i) => scores[i] >= scores[own]).map((i) => ordinals[i]));
}

/** The best results that count, with all ties with the last one. */
function bestOthers(
  { count, ordinals, scores }: Candidates,
  counts: (vectorKey: number) => boolean,
): Set<number> {
  const others = Array.from({ length: count }, (_, i) => i)
    .filter((i) => counts(ordinals[i]))
    .sort((a, b) => scores[b] - scores[a]);
  const floor = scores[others[Math.min(qualityDepth, others.length) - 1]];
  return new Set(others.filter((i) => scores[i] >= floor).map((i) => ordinals[i]));
}
