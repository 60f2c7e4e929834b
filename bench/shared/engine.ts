// What does a benchmark ask of an engine?
//
// An engine runs alone in a child process (worker.ts). It is given rows in the order of their ids, told when there are no
// more, and then asked for what is nearest at several efforts: the beam of a graph, the threshold of a sparse search, and 0
// where an engine knows one effort only.

import { createRequire } from "node:module";
import { join } from "node:path";

/** Ids, best first; an engine may give more or fewer than k. */
export type Ids = ArrayLike<number | bigint | string>;

export type Engine<Row> = {
  /** Adds rows whose ids go up from `first`. The rows are borrowed. */
  add(rows: readonly Row[], first: number): void | Promise<void>;
  /** Ends the building: everything added is in the index when it is done. */
  finish?(): void | Promise<void>;
  /** Makes of a query what `search` takes; happens before the clock starts. */
  prepare?(query: Row): unknown;
  /** The k best. */
  search(query: never, k: number, effort: number): Ids | Promise<Ids>;
  /** Bytes of the index, without the rows it was built from where they stand apart; left out where it cannot tell. */
  bytes?(): number | Promise<number>;
};

export type EngineKind<Shape, Row> = {
  /** As in `--engines`. */
  readonly name: string;
  /** As on the page. */
  readonly title: string;
  readonly isOurs?: boolean;
  /** It maps one file several times, so that the size of its process says nothing. */
  readonly isMappedOften?: boolean;
  /** What a reader has to know about how it was asked. */
  readonly note?: string;
  /** Its own efforts, by ascending recall, where they are not those of the plan. */
  readonly efforts?: readonly number[];
  /** Why it cannot do this set; undefined when it can. */
  refuses?(shape: Shape): string | undefined;
  open(shape: Shape): Engine<Row> | Promise<Engine<Row>>;
};

/** The engine of this name; fails with the names there are. */
export function kindNamed<Kind extends { readonly name: string }>(
  kinds: readonly Kind[],
  name: string,
): Kind {
  const kind = kinds.find((each) => each.name === name);
  if (kind !== undefined) return kind;
  throw new Error(`no engine is called ${name}; there are ${kinds.map((each) => each.name).join(", ")}`);
}

const require = createRequire(join(import.meta.dirname, "..", "package.json"));

/** A rival's module, from bench/node_modules. It is not there when types are checked, so it has none. */
// biome-ignore lint/suspicious/noExplicitAny: see above.
export const rival = (name: string): any => require(name);
