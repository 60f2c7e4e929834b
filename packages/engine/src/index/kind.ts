// What is different from one kind of index to the next?
//
// Everything that the rest of the engine has to know of a kind stands in one object of this shape: what it is fed with, how it is
// made and checkpointed, how large it will be, which status it reports, and how it is compared with the records. The code that
// updates, loads, measures or checks an index uses this object and names no kind. A new kind is a folder with such an object and a
// line in registry.ts.

import type {
  DenseIndex,
  IndexKind,
  IndexStatus,
  SparseIndex,
  TextIndex,
} from "@quiver/protocol/shapes/index-definition";
import type { Steps } from "../base/steps.ts";
import type { CheckpointAdapter } from "./checkpoint-adapter.ts";
import type { Candidates, Index, Visible } from "./contract.ts";
import type { GraphBuilders } from "./hnsw/jobs.ts";
import type { Allowed } from "./ordinal-bitmap.ts";
import type { AnalysedTexts } from "./text/analysed.ts";

export type IndexDefinition = DenseIndex | SparseIndex | TextIndex;

/** What a collection is, as far as indexes depend on it. */
export type IndexedCollection = {
  readonly dimension: number | null;
  /** Whether its records may have dense vectors, sparse ones and texts. */
  readonly dense: boolean;
  readonly sparse: boolean;
  readonly text: boolean;
};

/** How many of a collection's records have vectors of each sort, and texts. */
export type ContentCounts = { readonly dense: number; readonly sparse: number; readonly text: number };

/** A text as it is stored: as it was written, or its words with a space between. */
export type StoredText = { readonly kind: "raw" | "processed"; readonly value: string };

/** A stored record, as far as indexes take it. The index owns what it returns. */
export interface StoredContent {
  readonly sparse: { readonly indices: Uint32Array; readonly values: Float32Array } | null;
  readonly text: StoredText | null;
}

/** What an index needs from those who own it. */
export type IndexDependencies = {
  readonly builders: GraphBuilders;
  /** Bytes that loaded indexes may take; undefined: no limit. */
  readonly memoryBudgetBytes: number | undefined;
  /** Whether an index measures what it finds, and acts upon it; default true. */
  readonly measures?: boolean;
  /** The newest dense vector of a record, as it is stored; undefined: the record is gone. */
  readVector(ordinal: number): Uint8Array | undefined;
  /** Whether so many bytes more may be taken that an index can do without. */
  mayTake(bytes: number): boolean;
  /** An index has come further in the background. */
  onProgress(): void;
  /** It can go on. */
  wake(): void;
  /** It says what it does about data that are hard for it. */
  onNotice(notice: string): void;
  /** Threads besides the owner's that may search at a time; default 0. Their slots are numbered from 1. */
  readonly readerSlots?: number | undefined;
  /**
   * Frees something that searches cannot find from now on, when none that has found it goes on (runtime/view.ts). Absent: nobody but
   * the caller searches, so that is at once.
   */
  retire?(free: () => void): void;
};

/** An index of one definition: how an empty one is made, and what a checkpoint stores of it. */
export type IndexBlueprint<Held extends Index = Index, State = unknown> = {
  make(): Held;
  readonly checkpoint: CheckpointAdapter<Held, State>;
  /** Everything that decides what the index is made of: a checkpoint made of anything else is of no use. */
  readonly deciding: Readonly<Record<string, unknown>>;
};

/** What an index takes, and about what each further record will, in bytes. */
export type IndexSize = { readonly bytes: number; readonly recordBytes: number };

/** The records that an index is estimated for. */
export type Population = {
  readonly counts: ContentCounts;
  /** Some of them, evenly. */
  sample(): Iterable<StoredContent>;
  /** Stretches of 1,024 ordinals in which some record has a dense vector, about. */
  densePages(): number;
  /** Threads that search or build at a time. */
  readonly threads: number;
};

/** What an index that is loaded says of itself besides what all say. */
export type KindStatus = Pick<IndexStatus, "served_by"> & Partial<IndexStatus>;

/** Of a sample of an index's own vectors: the mean share of the ten nearest that was found, and whether each was found itself. */
export type MeasuredRecall = { readonly at10: number; readonly itself: number; readonly readsAll: boolean };

/** An inverted index, as hashes of its postings and of those that a record should have. */
export type PostingHashes = {
  /** @returns whether it came to its end; false where lists were moved meanwhile */
  walk(add: (ordinal: number, hash: number) => void): Generator<void, boolean>;
  hashesOf(record: StoredContent): Iterable<number>;
};

/** Texts of stored records that another thread analyses. */
export type TextAnalysisOptions = {
  readonly language: NonNullable<TextIndex["language"]>;
  readonly stopWords: readonly string[] | null;
  readonly hasPositions: boolean;
};

/** Stored records whose texts are to be analysed. */
export type TextRows = {
  /** Ascending. */
  readonly ordinals: Uint32Array;
  /** End offset of each record in `bytes`. */
  readonly ends: Uint32Array;
  readonly bytes: Uint8Array;
};

/** Records that were prepared elsewhere, in order: the one that comes next, and those behind it. */
export interface PreparedRecords {
  readonly isAtEnd: boolean;
  /** Of the record that comes next. */
  readonly ordinal: number;
  /** Terms of the record before it. */
  readonly previousLength: number;
  /** Leaves the record out. */
  next(): void;
}

/** How records become entries where that takes long: other threads prepare them, and they are entered in steps. */
export interface Preparation<Held extends Index = Index, Prepared extends PreparedRecords = PreparedRecords> {
  /** How another thread analyses their texts. */
  readonly analysis: TextAnalysisOptions;
  /** What that thread has made of them. */
  read(analysed: AnalysedTexts): Prepared;
  /** Takes a step towards entering the record that comes next, and moves on with the last one. @returns whether it is entered */
  enter(index: Held, prepared: Prepared): boolean;
}

/** What one leg of a query asks an index of its kind for. */
export interface Leg {
  readonly kind: IndexKind;
}

/** The version that is searched. */
export interface SearchedVersion {
  /** What it sees; asked anew at each step. */
  visible(): Visible;
  /** The stored dense vector of a record that it sees; borrowed until the next call. */
  vectorOf(ordinal: number): Uint8Array;
  /** What `statistics` of the index was when the version was current; undefined where it has none. */
  readonly statistics: unknown;
}

/** How legs are searched. */
export type LegOptions = {
  /** The ordinals that may be found at all; null: every one. */
  readonly allowed: Allowed;
  /** Whether every vector is read. */
  readonly isExact: boolean;
  /** The beam of a graph; undefined: the index's own. */
  readonly ef: number | undefined;
};

/** The legs of one kind of a request's queries, in order, on one version. */
export interface LegSearches {
  /**
   * The k best records of a leg, and what ties with the last; in steps, between which the index may be used and changed. Legs are
   * asked for one after the other, each once.
   */
  search(leg: number, k: number): Steps<Candidates>;
  /**
   * What made the scores of records that the leg searched last has found: further fields of their explanations. Added up in their
   * order and beginning with 0, the matches of a record are its score, bit for bit.
   * @param onMatch called for each match; what it throws ends the call
   */
  explain(leg: number, ordinals: readonly number[], onMatch: () => void): Steps<readonly object[]>;
}

export interface Kind<
  Definition extends IndexDefinition = IndexDefinition,
  Held extends Index = Index,
  State = unknown,
  Prepared extends PreparedRecords = PreparedRecords,
  Reading extends object = object,
> {
  readonly name: IndexKind;
  /** A definition with all defaults. @throws unknown_field, invalid_request, modality_not_enabled */
  define(collection: IndexedCollection, given: Definition): Definition;
  /** The definition of an index that is created with its collection; absent where there is no such. */
  readonly automatic?: Definition;
  /** The table of the store that it is fed from. */
  readonly table: "records" | "dense";
  /** Of a collection's records, those that belong into it. */
  countOf(counts: ContentCounts): number;
  blueprint(
    collection: IndexedCollection,
    definition: Definition,
    dependencies: IndexDependencies,
  ): IndexBlueprint<Held, State>;
  /** Adds what is stored under an ordinal, if it concerns the index. @param bytes the index's to keep */
  add(index: Held, ordinal: number, bytes: Uint8Array, content: () => StoredContent): void;
  /** Absent where adding a record never takes long. */
  preparation?(definition: Definition): Preparation<Held, Prepared>;
  /** The size of an index of these records with nothing left to build or merge, without caches. */
  estimate(collection: IndexedCollection, definition: Definition, population: Population): IndexSize;
  /**
   * What a thread needs to search the index as it is now, and as long as the epoch lasts; to be posted to it. Absent: it can be searched
   * in its owner's thread alone.
   */
  descriptor?(index: Held): object;
  /** A reader of the index that was described; memories that the thread knows keep their instances. @param slot of the thread, from 1 */
  attach?(descriptor: object, slot: number): Reading;
  /**
   * Begins to search legs of this kind. @throws invalid_request where the index cannot answer one
   * @param reader that of the index in the thread that owns it, or one that was attached
   */
  search(reader: Reading, legs: readonly Leg[], version: SearchedVersion, options: LegOptions): LegSearches;
  /** Bytes that it grows by at most with so many records, which have so many bytes besides their dense vectors. */
  growth(recordBytes: number, records: number, otherBytes: number): number;
  /** @param index undefined: it is not loaded */
  status(index: Held | undefined): KindStatus;
  /** What it was last seen to find; undefined where that is not measured, or exact anyway. */
  recall?(index: Held): MeasuredRecall | undefined;
  /** Most records that it may be behind before writes wait; absent: as many as any. */
  backlogMax?(index: Held): number;
  /** How its postings are compared with the records; absent where `prove` does it. */
  postings?(index: Held): PostingHashes;
  /** Proves an index that has all its records. @param vectorOf the stored vector. @throws with what is wrong */
  prove?(index: Held, vectorOf: (ordinal: number) => Uint8Array): void;
}
