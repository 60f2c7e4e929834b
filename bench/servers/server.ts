// What does the benchmark require of a server?
//
// A server is started with an empty directory, gets rows in the order of their ids, and is then searched over several connections by its own
// public client. Its processes are children of this one, so that what they take can be read (processes.ts).

import type { Metric } from "../engines/engine.ts";

/** Of all graphs. */
export const efConstruction = 200;

/** A record: its vector, and a number from 0 to 1 that filters select by. */
export type Row = { readonly vector: Float32Array; readonly u: number };

export type Shape = { readonly dimension: number; readonly metric: Metric; readonly connections: number };

/** What a turn asks for: the beam, and the records with u below `share`; 1: all of them, without a filter. */
export type Case = { readonly effort: number; readonly share: number };

export type Server = {
  /** The first of its processes. */
  readonly pid: number;
  /** Writes rows whose ids go up from `first`; they are durable as the server understands it. */
  add(rows: readonly Row[], first: number): Promise<void>;
  /** Everything that was added is indexed. */
  finish(): Promise<void>;
  /** Called before a turn, for what is a setting of a connection or a collection; not part of the measured time. */
  prepare?(asked: Case): Promise<void>;
  /** The ids of the k best, over one of the connections. */
  search(
    connection: number,
    query: Float32Array,
    k: number,
    asked: Case,
  ): Promise<ArrayLike<number | string>>;
  /** Bytes of its files. */
  diskBytes(): number;
  /** Ends it, waits until it has ended, and deletes its files. */
  end(): Promise<void>;
};

export type ServerKind = {
  /** As in `--servers`. */
  readonly name: string;
  readonly title: string;
  readonly isOurs?: boolean;
  /** It answers, but it stores and finds nothing: what any server costs at least. */
  readonly isBare?: boolean;
  /** Notes for the reader about how it was used. */
  readonly note: string;
  /** Why it cannot be measured with this set or on this machine; undefined if it can. */
  missing(shape: Shape): string | undefined;
  /** The versions of what is measured. */
  version(): string;
  start(shape: Shape): Promise<Server>;
};
