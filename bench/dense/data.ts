// Which vectors are searched, with which queries, and what is the ground truth?
//
// Sets in the data folder are read in place. Generated sets, and ground truths that no file contains, are computed once and stored in
// bench/.cache. A ground truth is the exact order of the flat index, which computes distances in f64.
//
// The generated sets look like embeddings: their points lie near a subspace of few dimensions, in clusters of different
// sizes, with a little noise in all dimensions. Pure noise in many dimensions has no near neighbours and measures nothing.

import "../../packages/engine/src/process/node-host.ts";
import { VectorRows } from "../../packages/engine/src/index/dense/vector-rows.ts";
import { bytesOfFloats } from "../../packages/engine/src/vector/floats.ts";
import { exactNearest } from "../../packages/engine/test/index/exact-nearest.ts";
import { randomNumbers } from "../../packages/kernels/src/random.ts";
import { type Metric, normalised } from "../engines/engine.ts";
import { bytesOf, inCache, inData, made, madePart, missingFolder } from "../shared/files.ts";
import { normal } from "../shared/random.ts";

/** Number of neighbours per query in the ground truth. */
export const truthCount = 100;

export type DataSet = {
  readonly name: string;
  readonly metric: Metric;
  readonly dimension: number;
  readonly rows: readonly Float32Array[];
  readonly queries: readonly Float32Array[];
  /** False if rows were left out, which changes the ground truth. */
  readonly isWhole: boolean;
};

type Source = {
  readonly title: string;
  readonly metric: Metric;
  /** Files that must exist in the data folder. */
  readonly folder?: string;
  /** All rows, or at least the first `rowsMax`. */
  readonly rows: (rowsMax: number) => Float32Array[];
  /** Of all rows; undefined: `rows` returns all. */
  readonly rowCount?: number;
  readonly queries: () => Float32Array[];
  readonly truth?: string;
};

const floats = (bytes: Uint8Array): Float32Array => new Float32Array(bytes.buffer as ArrayBuffer);
const floatsOf = (path: string): Float32Array => floats(bytesOf(path));

function cut(all: Float32Array, dimension: number): Float32Array[] {
  return Array.from({ length: all.length / dimension }, (_, i) =>
    all.subarray(i * dimension, (i + 1) * dimension),
  );
}

/** The texmex formats: each row is its length and its values, four bytes each. */
function texmex(path: string): Float32Array[] {
  const all = floatsOf(path);
  const dimension = new Int32Array(all.buffer)[0];
  return Array.from({ length: all.length / (dimension + 1) }, (_, i) =>
    all.slice(i * (dimension + 1) + 1, (i + 1) * (dimension + 1)),
  );
}

const glove = (metric: Metric, truth: string): Source => ({
  title: `glove100-100k, 100,000 x 100, ${metric.replace("_", " ")}`,
  metric,
  folder: "glove100-100k",
  rows: () => cut(floatsOf(inData("glove100-100k/base.f32")), 100),
  queries: () => cut(floatsOf(inData("glove100-100k/queries.f32")), 100),
  truth: `glove100-100k/${truth}`,
});

/** Pixels of Fashion-MNIST: bytes, after a header. */
const pixels = (path: string, header: number): Float32Array[] =>
  cut(Float32Array.from(bytesOf(inData(path)).subarray(header)), 784);

type Clusters = { dimension: number; count: number; seed: number };

const clustersQueries = 1_000;
const clustersCentres = 400;
const clustersInner = 24;
/** Wide enough that clusters overlap, and a beam of k does not find everything. */
const clustersSpread = 0.6;
/** Relative to the length of the values in the subspace. */
const clustersNoise = 0.2;

/** Rows of a generated set and, after them, its queries: normalised, from one distribution. */
function clusters({ dimension, count, seed }: Clusters): Float32Array {
  const next = normal(seed);
  const draw = (length: number) => Float64Array.from({ length }, next);
  const map = draw(clustersInner * dimension);
  const centres = Array.from({ length: clustersCentres }, () => ({
    at: draw(clustersInner),
    // Some clusters are three times as wide as others.
    spread: clustersSpread * 3 ** (Math.abs(next()) / 2),
  }));
  const all = new Float32Array((count + clustersQueries) * dimension);
  const noise = clustersNoise * Math.sqrt(clustersInner);
  const row = new Float32Array(dimension);
  for (let i = 0; i < count + clustersQueries; i++) {
    // The absolute value of a normal number makes the first clusters the most crowded.
    const { at, spread } = centres[Math.floor((Math.abs(next()) * clustersCentres) / 2) % clustersCentres];
    const inner = at.map((value) => value + spread * next());
    for (let j = 0; j < dimension; j++) {
      let value = noise * next();
      for (let l = 0; l < clustersInner; l++) value += inner[l] * map[l * dimension + j];
      row[j] = value;
    }
    all.set(normalised(row), i * dimension);
  }
  return all;
}

const wordsTopics = 3_000;
/** The values of a dimension are smaller, the later it comes. */
const wordsDecay = 0.3;
/** What all rows have in common, and what those of a topic have, relative to what is their own. */
const wordsShared = { all: 0.6, topic: 0.8 };

/**
 * Rows that are like embeddings of words, and their queries: a direction that all share makes some rows neighbours of very many, topics are
 * as frequent as words are (Zipf), and a few dimensions count more than the others.
 */
function words({ dimension, count, seed }: Clusters): Float32Array {
  const [next, uniform] = [normal(seed), randomNumbers(seed)];
  const draw = () => Float64Array.from({ length: dimension }, (_, j) => next() * (1 + j) ** -wordsDecay);
  const common = draw();
  const topics = Array.from({ length: wordsTopics }, draw);
  const all = new Float32Array((count + clustersQueries) * dimension);
  for (let i = 0; i < count + clustersQueries; i++) {
    // Uniform in the logarithm of the rank, as in Zipf's law.
    const topic = topics[Math.floor(wordsTopics ** uniform()) - 1];
    const row = Float32Array.from(draw(), (own, j) => {
      return own + wordsShared.all * common[j] + wordsShared.topic * topic[j];
    });
    all.set(normalised(row), i * dimension);
  }
  return all;
}

function generated(name: string, shape: Clusters, kind: "clusters" | "words" = "clusters"): Source {
  const { dimension, count } = shape;
  const make = kind === "clusters" ? clusters : words;
  /** Only these are read, so that an engine's process does not grow by what it does not get. */
  const read = (from: number, rows: number) => {
    const [path, rowBytes] = [inCache(`dense/${name}.f32`), 4 * dimension];
    const all = () => bytesOfFloats(make(shape));
    return cut(floats(madePart(path, all, from * rowBytes, rows * rowBytes)), dimension);
  };
  return {
    title: `${kind} (generated), ${count.toLocaleString("en")} x ${dimension}, cosine`,
    metric: "cosine",
    rows: (rowsMax) => read(0, Math.min(rowsMax, count)),
    queries: () => read(count, clustersQueries),
    rowCount: count,
  };
}

const sources: Readonly<Record<string, Source>> = {
  "glove-cosine": glove("cosine", "gt_cosine_top100.ivecs"),
  "glove-dot": glove("dot_product", "gt_dot_top100.ivecs"),
  "glove-l2": glove("euclidean", "gt_l2_top100.ivecs"),
  mnist: {
    title: "fashion-mnist, 60,000 x 784, euclidean",
    metric: "euclidean",
    folder: "fashion-mnist",
    rows: () => pixels("fashion-mnist/train-images-idx3-ubyte.gz", 16),
    queries: () => pixels("fashion-mnist/queries-t10k-first1000.u8.gz", 0),
    truth: "fashion-mnist/gt_l2_top100.ivecs",
  },
  siftsmall: {
    title: "siftsmall, 10,000 x 128, euclidean",
    metric: "euclidean",
    folder: "siftsmall",
    rows: () => texmex(inData("siftsmall/siftsmall_base.fvecs")),
    queries: () => texmex(inData("siftsmall/siftsmall_query.fvecs")),
    truth: "siftsmall/siftsmall_groundtruth.ivecs",
  },
  clusters768: generated("clusters768", { dimension: 768, count: 100_000, seed: 1 }),
  "clusters128-1m": generated("clusters128-1m", { dimension: 128, count: 1_000_000, seed: 2 }),
  "clusters100-1m": generated("clusters100-1m", { dimension: 100, count: 1_000_000, seed: 3 }),
  "words100-1m": generated("words100-1m", { dimension: 100, count: 1_000_000, seed: 5 }, "words"),
  words200: generated("words200", { dimension: 200, count: 50_000, seed: 4 }, "words"),
};

const setNames: readonly string[] = Object.keys(sources);

function sourceOf(name: string): Source {
  const source = sources[name];
  if (source === undefined) throw new Error(`no set is called ${name}; there are ${setNames.join(", ")}`);
  return source;
}

export const titleOf = (name: string): string => sourceOf(name).title;

/** The reason why a set cannot be read here; undefined if it can. */
export function missing(name: string): string | undefined {
  const { folder } = sourceOf(name);
  return folder === undefined ? undefined : missingFolder(folder);
}

/** The set, or its first `rowsMax` rows and all of its queries. */
export function readSet(name: string, rowsMax = Number.POSITIVE_INFINITY): DataSet {
  const source = sourceOf(name);
  const all = source.rows(rowsMax);
  const rows = rowsMax < all.length ? all.slice(0, rowsMax) : all;
  const isWhole = rows.length === (source.rowCount ?? all.length);
  return {
    name,
    metric: source.metric,
    dimension: rows[0].length,
    rows,
    queries: source.queries(),
    isWhole,
  };
}

/** The ids of the nearest 100 rows, nearest first, for each of the first `count` queries. */
export function truthOf(set: DataSet, count: number): Int32Array[] {
  const source = sourceOf(set.name);
  if (set.isWhole && source.truth !== undefined) {
    return texmex(inData(source.truth))
      .slice(0, count)
      .map((row) => new Int32Array(row.buffer));
  }
  const path = inCache(`dense/${set.name}-${set.rows.length}-${count}.truth`);
  const bytes = made(path, () => new Uint8Array(bruteForce(set, count).buffer));
  const all = new Int32Array(bytes.buffer as ArrayBuffer);
  return Array.from({ length: all.length / truthCount }, (_, i) =>
    all.subarray(i * truthCount, (i + 1) * truthCount),
  );
}

/** The places of the nearest rows: `truthCount` for each of the first `count` queries. */
export function bruteForce(
  { dimension, metric, rows, queries }: Omit<DataSet, "name" | "isWhole">,
  count: number,
): Int32Array {
  const index = new VectorRows({ dimension, metric });
  rows.forEach((row, i) => void index.add(i, row));
  const truth = new Int32Array(count * truthCount);
  for (let i = 0; i < count; i++) {
    const { ordinals, scores } = exactNearest(index, queries[i], truthCount);
    // An index returns its candidates in any order.
    const byScore = [...ordinals.keys()].sort((a, b) => scores[b] - scores[a]);
    truth.set(
      byScore.map((place) => ordinals[place]),
      i * truthCount,
    );
  }
  return truth;
}
