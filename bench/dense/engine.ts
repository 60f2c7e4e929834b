// What does the benchmark ask of an engine?
//
// An engine runs alone in a child process (worker.ts). It is given rows in the order of their ids, told when there are no
// more, and then asked for nearest neighbours at several efforts. All graphs are asked for with the same M and
// ef_construction; what an engine calls its effort is its beam, ef.

import { createRequire } from "node:module";
import { join } from "node:path";

/** Links of a node, and the beam of the building, everywhere where they can be set. */
export const m = 16;
export const efConstruction = 200;

export type Metric = "cosine" | "euclidean" | "dot_product";

/** What an engine is told of the set that it will hold. */
export type Shape = {
  readonly dimension: number;
  readonly metric: Metric;
  /** Rows that will be added, all in all. */
  readonly count: number;
  /** An empty directory of its own. */
  readonly directory: string;
};

/** Ids, nearest first; an engine may give more or fewer than k. */
export type Ids = ArrayLike<number | bigint | string>;

export type Engine = {
  /** Adds rows whose ids go up from `first`. The rows are borrowed. */
  add(rows: readonly Float32Array[], first: number): void | Promise<void>;
  /** Ends the building: everything added is in the graph when it is done. */
  finish?(): void | Promise<void>;
  /** Makes of a query what `search` takes; happens before the clock starts. */
  prepare?(query: Float32Array): unknown;
  /** The k nearest with a beam of ef, which is never less than k. */
  search(query: never, k: number, ef: number): Ids | Promise<Ids>;
  /** Bytes of codes and graph per vector, where the engine can tell. */
  bytesPerVector?(): number;
};

export type EngineKind = {
  /** As in `--engines`. */
  readonly name: string;
  /** As on the page. */
  readonly title: string;
  readonly isOurs?: boolean;
  /** It maps one file several times, so that the size of its process says nothing. */
  readonly isMappedOften?: boolean;
  /** What a reader has to know about how it was asked. */
  readonly note?: string;
  /** Why it cannot do this set; undefined when it can. */
  refuses?(shape: Shape): string | undefined;
  open(shape: Shape): Engine | Promise<Engine>;
};

const require = createRequire(join(import.meta.dirname, "..", "package.json"));

/** A rival's module, from bench/node_modules. It is not there when types are checked, so it has none. */
// biome-ignore lint/suspicious/noExplicitAny: see above.
export const rival = (name: string): any => require(name);

/** A new array of length 1; of zeros where `values` are. */
export function normalised(values: Float32Array): Float32Array {
  let squared = 0;
  for (const value of values) squared += value * value;
  const scale = squared > 0 ? 1 / Math.sqrt(squared) : 0;
  return values.map((value) => value * scale);
}
