// Which codes fit the data?
//
// `auto` chooses the smallest type of code whose re-scored recall@10 is expected to be within 0.01 of that of f32. Most of this margin is
// reserved for the graph, which is built with the same codes and loses more by them (octal on glove100-100k: 0.005 here, 0.013 in the
// graph), and for chance; only 0.002 of it may be lost on the sample. There, records are ranked by the keys of their codes, with records of
// the sample as queries, and the best of the usual depth (rescoreDepth) are scored exactly. Equal records count once, because with
// duplicates any code finds neighbours at distance zero.
//
// A sample is sparser than the collection will be, and so easier: the errors of codes are constant, but neighbours get closer as the
// collection grows. If the data have the local dimension d, N / n times as many records reduce the distances by (N / n)^(1 / d), and the
// errors of squared distances weigh (N / n)^(2 / d) times as much. So errors are scaled up by this factor for a collection of a million; d
// is estimated from the distances to the neighbours in the sample (Levina and Bickel, NIPS 2004).

import type { MetricName } from "@quiverdb/protocol/shapes/index-definition";
import { exactSquaredDistance } from "../../vector/exact.ts";
import { buildModes, dataTypeNumbers, type HnswDataType, rescoreDepth } from "./code-types.ts";
import { Encoding, type EncodingState } from "./encoding.ts";
import { Graph } from "./graph.ts";

export type CalibrationRequest = {
  readonly metric: MetricName;
  readonly dataType: HnswDataType | "auto";
  readonly dimension: number;
  readonly range: { readonly min: number; readonly max: number } | undefined;
  readonly seed: number;
  /** The vectors of the sample, one after the other. */
  readonly rows: Float32Array;
};

/** From the smallest on. */
const candidates: readonly HnswDataType[] = ["binary", "quaternary", "octal", "u8", "f16"];

/** Share of values that a range may cut off. */
const clampedMax = 0.01;

/** How much less recall than by f32 is allowed to the ranking by codes. */
const bound = 0.002;
const k = 10;
const queriesMax = 100;
const rowsMax = 2_000;
/** Fewer records than this are too few for an estimate. */
const rowsMin = 100;
/** Values of vectors that are compared at most, so that long vectors do not take minutes. */
const valuesMax = 8_000_000;
/** The size for which errors are enlarged. */
const collectionSize = 1_000_000;
const growthMax = 8;

export function calibrate(request: CalibrationRequest): EncodingState {
  const { range, rows } = request;
  if (range === undefined) return chosen(request);
  const clampedShare = rows.filter((value) => value < range.min || value > range.max).length / rows.length;
  // A range that clamps more than outliers does not fit these data; each vector has its own scale, so a range is not needed.
  if (clampedShare <= clampedMax) return { ...chosen(request), clampedShare };
  const state = chosen({ ...request, range: undefined });
  const reason = `${state.reason}; the range ${range.min} to ${range.max} is not applied, because it clamps ${(100 * clampedShare).toFixed(1)} % of the values`;
  return { ...state, clampedShare, reason };
}

function chosen(request: CalibrationRequest): EncodingState {
  const { dataType, dimension, rows } = request;
  const sample = Array.from({ length: rows.length / dimension }, (_, i) =>
    rows.subarray(i * dimension, (i + 1) * dimension),
  );
  if (dataType !== "auto") {
    return { ...encodingOf(request, dataType, sample).toState(), reason: "as the index is defined" };
  }
  const different = withoutEqual(sample);
  if (different.length < rowsMin) {
    const reason = `the sample has ${different.length} different records, too few to measure by`;
    return { ...encodingOf(request, "u8", sample).toState(), reason };
  }
  const measured: string[] = [];
  const measure = measurement(request, different);
  const grown = `errors enlarged ${measure.growth.toFixed(1)} times as for a million`;
  for (const type of candidates) {
    const recall = measure.recallOf(type);
    measured.push(`${type} ${recall.toFixed(3)}`);
    if (recall < 1 - bound) continue;
    const reason = `re-scored recall@${k} on a sample of ${measure.count}, ${grown}: ${measured.join(", ")}; at least ${1 - bound} is required`;
    return { ...encodingOf(request, type, sample).toState(), reason };
  }
  const reason = `re-scored recall@${k} on a sample of ${measure.count}, ${grown}: ${measured.join(", ")}; none reaches ${1 - bound}`;
  return { ...encodingOf(request, "f32", sample).toState(), reason };
}

function encodingOf(
  { metric, dimension, range, seed }: CalibrationRequest,
  dataType: HnswDataType,
  sample: readonly Float32Array[],
): Encoding {
  return new Encoding({ metric, dataType, dimension, range, seed }, sample);
}

const latin1 = new TextDecoder("latin1");

/** The first of all equal rows. */
function withoutEqual(rows: readonly Float32Array[]): Float32Array[] {
  const byBytes = new Map<string, Float32Array>();
  for (const row of rows) {
    // Every byte is a character of its own in latin1.
    const bytes = latin1.decode(new Uint8Array(row.buffer, row.byteOffset, row.byteLength));
    if (!byBytes.has(bytes)) byBytes.set(bytes, row);
  }
  return [...byBytes.values()];
}

type Measurement = { readonly count: number; readonly growth: number; recallOf(type: HnswDataType): number };

function measurement(request: CalibrationRequest, all: readonly Float32Array[]): Measurement {
  const count = Math.min(
    all.length,
    rowsMax,
    Math.max(2 * rowsMin, Math.floor(valuesMax / request.dimension)),
  );
  const sample = Array.from({ length: count }, (_, i) => all[Math.floor((i * all.length) / count)]);
  const queryCount = Math.min(queriesMax, count);
  const queries = Array.from({ length: queryCount }, (_, i) => Math.floor((i * count) / queryCount));
  const exact = keysBy(request, "f32", sample, queries);
  const growth = Math.min(
    growthMax,
    Math.max(1, (collectionSize / count) ** (2 / localDimension(sample, queries))),
  );
  return {
    count,
    growth,
    recallOf(type) {
      const keys = keysBy(request, type, sample, queries);
      const depth = rescoreDepth(type, k);
      let met = 0;
      for (const [i, query] of queries.entries()) {
        const truth = new Set(least(exact[i], query, k));
        const enlarged = exact[i].map((key, row) => key + growth * (keys[i][row] - key));
        for (const row of least(enlarged, query, depth)) if (truth.has(row)) met++;
      }
      return met / (queries.length * Math.min(k, count - 1));
    },
  };
}

/** For each query the keys of all rows, as a search computes them. */
function keysBy(
  request: CalibrationRequest,
  dataType: HnswDataType,
  sample: readonly Float32Array[],
  queries: readonly number[],
): Float32Array[] {
  const encoding = encodingOf(request, dataType, sample);
  const { codeBytes, queryBytes } = encoding;
  const batch = 64;
  const graph = new Graph({
    codeBytes,
    queryBytes,
    dataType: dataTypeNumbers[dataType],
    m: 2,
    m0: batch,
    efConstruction: 1,
    efMax: 1,
    buildMode: buildModes[request.metric],
    memoryBytesMax: Math.min(
      2 ** 32,
      2 ** 20 + 2 * sample.length * (codeBytes + 4 * batch + 512) + 8 * queryBytes,
    ),
    scratchCount: 1,
  });
  const nodes = sample.map((row, i) => {
    const node = graph.make(i, 0);
    graph.encode(node, encoding, row);
    return node;
  });
  return queries.map((query) => {
    graph.setQuery(encoding, sample[query]);
    const keys = new Float32Array(sample.length);
    const [ids, out] = [graph.placeOf("batch"), graph.placeOf("keys")];
    for (let from = 0; from < nodes.length; from += batch) {
      const count = Math.min(batch, nodes.length - from);
      // Groups of four are read: the last one is repeated to fill the group.
      for (let i = 0; i < Math.ceil(count / 4) * 4; i++)
        graph.words[ids / 4 + i] = nodes[Math.min(from + i, nodes.length - 1)];
      graph.kernels.keysOf(graph.placeOf("query"), ids, count, out);
      keys.set(graph.floats.subarray(out / 4, out / 4 + count), from);
    }
    // Distances of f32 codes are complete; the keys of other codes lack the term that depends only on the query.
    const constant = dataType === "f32" ? graph.floats[graph.placeOf("query") / 4 + 3] : 0;
    if (constant !== 0) for (let i = 0; i < keys.length; i++) keys[i] -= constant;
    return keys;
  });
}

/** The rows with the smallest keys, except one. */
function least(keys: Float32Array, but: number, count: number): number[] {
  return Array.from(keys.keys())
    .filter((row) => row !== but)
    .sort((a, b) => keys[a] - keys[b] || a - b)
    .slice(0, count);
}

/** How fast neighbours grow in number with their distance: the estimate of Levina and Bickel from 20 neighbours, 2 to 100. */
function localDimension(sample: readonly Float32Array[], queries: readonly number[]): number {
  const neighbours = Math.min(20, sample.length - 1);
  let sum = 0;
  let terms = 0;
  for (const query of queries) {
    const squared = sample
      .map((row) => exactSquaredDistance(sample[query], row, 0))
      .sort((a, b) => a - b)
      .filter((distance) => distance > 0)
      .slice(0, neighbours);
    const farthest = squared[squared.length - 1];
    for (const distance of squared.slice(0, -1)) {
      sum += Math.log(farthest / distance) / 2;
      terms++;
    }
  }
  return terms === 0 || sum === 0 ? 100 : Math.min(100, Math.max(2, terms / sum));
}
