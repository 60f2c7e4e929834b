// What does a benchmark require of an engine under test?
//
// An engine runs alone in a child process (shared/worker.ts). It gets records in the order of their ids, then a call when all are added, and
// then searches at several efforts: the beam width of a graph, the threshold of a sparse search, the number of a filter, or 0 if there is only
// one. One interface serves dense, sparse and text search; an engine refuses what it cannot do.

import { createRequire } from "node:module";
import { join } from "node:path";
import type { Tree } from "./filter.ts";

/** Ids, best first; an engine may return more or fewer than k. */
export type Ids = ArrayLike<number | bigint | string>;

/** Different dimensions, ascending, and their values, greater than 0, side by side. */
export type SparseVector = { readonly indices: Uint32Array; readonly values: Float32Array };

/** A record or a query. What the kind of search needs is set. */
export type Item = {
  readonly vector?: Float32Array;
  readonly terms?: SparseVector;
  readonly text?: string;
  /** Of a record: its numbers, which filters select by. */
  readonly fields?: Readonly<Record<string, number>>;
  /** Of a query: its filter at each effort; null: none. */
  readonly filters?: readonly (Tree | null)[];
};

export type Metric = "cosine" | "euclidean" | "dot_product";

/** What an engine is told before it gets records. */
export type Shape = {
  readonly kind: "dense" | "sparse" | "text";
  /** Total number of records. */
  readonly count: number;
  /** An empty directory for this engine. */
  readonly directory: string;
  /** Names of the fields, each of which gets an index. */
  readonly fields: readonly string[];
  /** Of a dense set. */
  readonly dimension: number;
  readonly metric: Metric;
  /** Of its graph; with `ef`, that is the beam of every search, and an effort is the number of a filter. */
  readonly efConstruction: number;
  readonly ef?: number;
  /** Of a text set: as English, with stems and stop words, or as lower case only. */
  readonly language: "none" | "english";
};

/** What is the same for most sets. */
export const plainShape = {
  fields: [],
  dimension: 0,
  metric: "cosine",
  efConstruction: 200,
  language: "none",
} as const satisfies Partial<Shape>;

export type Engine = {
  /** Adds records whose ids go up from `first`. They are borrowed. */
  add(items: readonly Item[], first: number): void | Promise<void>;
  /** Completes the build: when it is done, everything added is in the index. */
  finish?(): void | Promise<void>;
  /** Waits for the work that an idle engine does on its own after that; its processor time counts as building, its duration does not. */
  settle?(): Promise<void>;
  /** Converts a query into the form that `search` takes; not part of the measured time. */
  prepare?(query: Item): unknown;
  /** The k best. */
  search(query: never, k: number, effort: number): Ids | Promise<Ids>;
  /** Bytes of the index, without separately stored source records; undefined if unknown. */
  bytes?(): number | Promise<number>;
};

export type EngineKind = {
  /** As in `--engines`. */
  readonly name: string;
  /** Name on the page. */
  readonly title: string;
  readonly isOurs?: boolean;
  /** It maps one file several times, so that the size of its process is meaningless. */
  readonly isMappedOften?: boolean;
  /** How the engine was used, for the reader of the results. */
  readonly note?: string;
  /** Its own efforts by ascending recall, if they differ from those of the set. */
  readonly efforts?: readonly number[];
  /** The reason why it does not support this set; undefined if it does. */
  refuses?(shape: Shape): string | undefined;
  open(shape: Shape): Engine | Promise<Engine>;
};

/** M of all graphs in which it can be set. */
export const m = 16;
/** Of BM25, wherever they can be set; where they cannot, they are these. */
export const k1 = 1.2;
export const b = 0.75;

/** The one of this name; the error lists the known names. */
export function kindNamed<Kind extends { readonly name: string }>(
  kinds: readonly Kind[],
  name: string,
): Kind {
  const kind = kinds.find((each) => each.name === name);
  if (kind !== undefined) return kind;
  throw new Error(`nothing is called ${name}; there are ${kinds.map((each) => each.name).join(", ")}`);
}

/** A new array of length 1; of zeros where `values` are. */
export function normalised(values: Float32Array): Float32Array {
  let squared = 0;
  for (const value of values) squared += value * value;
  const scale = squared > 0 ? 1 / Math.sqrt(squared) : 0;
  return values.map((value) => value * scale);
}

export const pairsOf = ({ indices, values }: SparseVector): [number, number][] =>
  Array.from(indices, (index, i) => [index, values[i]]);

export const bytesOf = ({ buffer, byteOffset, byteLength }: Float32Array): Buffer =>
  Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength);

const require = createRequire(join(import.meta.dirname, "..", "package.json"));

/** A rival's module, from bench/node_modules. It is not installed when types are checked, so it is untyped. */
// biome-ignore lint/suspicious/noExplicitAny: see above.
export const rival = (name: string): any => require(name);
