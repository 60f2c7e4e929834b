// What does a benchmark require of an engine?
//
// An engine runs alone in a child process (worker.ts). It gets rows in the order of their ids, then a call when all are added, and then
// searches at several efforts: the beam width of a graph, the threshold of a sparse search, or 0 if an engine has only one effort.

import { createRequire } from "node:module";
import { join } from "node:path";

/** Ids, best first; an engine may return more or fewer than k. */
export type Ids = ArrayLike<number | bigint | string>;

export type Engine<Row> = {
  /** Adds rows whose ids go up from `first`. The rows are borrowed. */
  add(rows: readonly Row[], first: number): void | Promise<void>;
  /** Completes the build: when it is done, everything added is in the index. */
  finish?(): void | Promise<void>;
  /** Waits for the work that an idle engine does on its own after that; its processor time counts as building, its duration does not. */
  settle?(): Promise<void>;
  /** Converts a query into the form that `search` takes; not part of the measured time. */
  prepare?(query: Row): unknown;
  /** The k best. */
  search(query: never, k: number, effort: number): Ids | Promise<Ids>;
  /** Bytes of the index, without separately stored source rows; undefined if unknown. */
  bytes?(): number | Promise<number>;
};

export type EngineKind<Shape, Row> = {
  /** As in `--engines`. */
  readonly name: string;
  /** Name on the page. */
  readonly title: string;
  readonly isOurs?: boolean;
  /** It maps one file several times, so that the size of its process is meaningless. */
  readonly isMappedOften?: boolean;
  /** Notes for the reader about how the engine was used. */
  readonly note?: string;
  /** Its own efforts by ascending recall, if they differ from those of the plan. */
  readonly efforts?: readonly number[];
  /** The reason why it does not support this set; undefined if it does. */
  refuses?(shape: Shape): string | undefined;
  open(shape: Shape): Engine<Row> | Promise<Engine<Row>>;
};

/** The engine of this name; the error lists the known names. */
export function kindNamed<Kind extends { readonly name: string }>(
  kinds: readonly Kind[],
  name: string,
): Kind {
  const kind = kinds.find((each) => each.name === name);
  if (kind !== undefined) return kind;
  throw new Error(`no engine is called ${name}; there are ${kinds.map((each) => each.name).join(", ")}`);
}

const require = createRequire(join(import.meta.dirname, "..", "package.json"));

/** A rival's module, from bench/node_modules. It is not installed when types are checked, so it is untyped. */
// biome-ignore lint/suspicious/noExplicitAny: see above.
export const rival = (name: string): any => require(name);
