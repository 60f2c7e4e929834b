// How do the kinds of index differ?
//
// Everything that the rest of the engine must know about a kind is in one object of this shape: its input, how it is created and
// checkpointed, how large it will be, which status it reports, and how it is compared with the records. The code that updates, loads,
// measures or checks an index uses this object and names no kind. A new kind is a folder with such an object and a line in registry.ts.

import type { CreateCollection } from "@quiverdb/protocol/shapes/collection";
import type {
  IndexDefinition,
  IndexKind,
  IndexStatus,
  NewIndexes,
  TextAnalysis,
} from "@quiverdb/protocol/shapes/index-definition";
import type { TSchema } from "typebox";
import type { Steps } from "../base/steps.ts";
import type { Metric } from "../vector/metric.ts";
import type { Builders } from "./builders.ts";
import type { CheckpointAdapter } from "./checkpoint-adapter.ts";
import type { Candidates, Index, StoredText, Visible } from "./contract.ts";
import type { Allowed } from "./ordinal-bitmap.ts";

/** A definition as it is given, which may leave out what has a default. */
export type NewIndex = NewIndexes[IndexKind];

/** The properties of a collection that indexes depend on. */
export type IndexedCollection = {
  readonly dimension: number | null;
  /** Whether its records may have dense vectors, sparse ones and texts. */
  readonly dense: boolean;
  readonly sparse: boolean;
  readonly text: boolean;
};

/** How many records a collection has, and how many of them have vectors of each sort, and texts. */
export type ContentCounts = {
  readonly live: number;
  readonly dense: number;
  readonly sparse: number;
  readonly text: number;
};

/** The parts of a stored record that indexes use. The index owns what it returns. */
export interface StoredContent {
  readonly sparse: { readonly indices: Uint32Array; readonly values: Float32Array } | null;
  readonly text: StoredText | null;
  /** JSON text in UTF-8; borrowed. */
  readonly metadataBytes: Uint8Array | null;
}

/** What an index needs from its owner. */
export type IndexDependencies = {
  readonly builders: Builders;
  /** Bytes that loaded indexes may take; undefined: no limit. */
  readonly memoryBudgetBytes: number | undefined;
  /** Whether an index measures its recall and reacts to it; default true. */
  readonly measures?: boolean;
  /** The newest dense vector of a record, as it is stored; undefined: the record is gone. */
  readVector(ordinal: number): Uint8Array | undefined;
  /** Whether this many more bytes of optional memory may be allocated. */
  mayTake(bytes: number): boolean;
  /** Called when an index has made progress in the background. */
  onProgress(): void;
  /** Called when it can continue. */
  wake(): void;
  /** Called with a message about how it handles difficult data. */
  onNotice(notice: string): void;
  /** Threads besides the owner's that may search at a time; default 0. Their slots are numbered from 1. */
  readonly readerSlots?: number | undefined;
  /**
   * Frees something that searches cannot find from now on, when none that has found it goes on (views/view.ts). Absent: nobody but
   * the caller searches, so that is at once.
   */
  retire?(free: () => void): void;
};

/** An index of one definition: how an empty one is created, and what its checkpoint contains. */
export type IndexBlueprint<Held extends Index = Index, State = unknown> = {
  make(): Held;
  readonly checkpoint: CheckpointAdapter<Held, State>;
  /** Everything that determines the contents of the index; a checkpoint with another value cannot be used. */
  readonly deciding: Readonly<Record<string, unknown>>;
};

/** The memory of an index, and the approximate memory of each further record, in bytes. */
export type IndexSize = { readonly bytes: number; readonly recordBytes: number };

/** The records that an index is estimated for. */
export type Population = {
  readonly counts: ContentCounts;
  /** Some of them, evenly. */
  sample(): Iterable<StoredContent>;
  /** Approximate number of ranges of 1,024 ordinals in which some record has a dense vector. */
  densePages(): number;
  /** Threads that search or build at a time. */
  readonly threads: number;
};

/** The additional status fields of a loaded index. */
export type KindStatus = Pick<IndexStatus, "served_by"> & Partial<IndexStatus>;

/** Of a sample of an index's own vectors: the mean share of the ten nearest that was found, and whether each was found itself. */
export type MeasuredRecall = { readonly at10: number; readonly itself: number; readonly readsAll: boolean };

/** Which fraction of the exact results each beam width finds, as query/recall.ts measures it. */
export type MeasuredBeams = {
  /** By number of results: beam widths, ascending, and the recall of each, 0 to 1. */
  readonly rows: readonly (readonly { readonly ef: number; readonly recall: number }[])[];
  /** Records, and what had been linked or removed, when that was measured. */
  readonly count: number;
  readonly work: number;
};

/** What a measurement of recall asks of an index that follows links. */
export interface Beams {
  /** Records, and what has been linked or removed. */
  readonly count: number;
  readonly work: number;
  /** Vectors that no graph has yet, which every search compares; null: there is no graph. */
  readonly waiting: number | null;
  readonly beamMax: number;
  /** The beam of a search for k records. @param ef the one that it sets; default: none */
  beamOf(k: number, ef?: number): number;
  /**
   * Searches for k records ask for this recall, which a beam of `ef` reaches. One that ends by distance may reach it too, and more of it for
   * queries that are unlike the vectors; that is measured later.
   * @returns whether it is known for at least this recall: `LegOptions.mayCut`
   */
  askCut(k: number, ef: number, recall: number): boolean;
  /** The latest measurement; a checkpoint has it. */
  measuredBeams: MeasuredBeams | undefined;
}

/** An inverted index, as hashes of its postings and of those that a record should have. */
export type PostingHashes = {
  /** @returns whether it was completed; false if lists were moved meanwhile */
  walk(add: (ordinal: number, hash: number) => void): Generator<void, boolean>;
  hashesOf(record: StoredContent): Iterable<number>;
};

/** Stored records. */
export type StoredRecords = {
  /** Ascending. */
  readonly ordinals: Uint32Array;
  /** End offset of each record in `bytes`. */
  readonly ends: Uint32Array;
  readonly bytes: Uint8Array;
};

/** Records that were prepared elsewhere, in order: the one that comes next, and those behind it. */
export interface PreparedRecords {
  readonly isAtEnd: boolean;
  /** Of the next record. */
  readonly ordinal: number;
  /** Terms of the record before it. */
  readonly previousLength: number;
  /** Leaves the record out. */
  next(): void;
}

/** How records are added if preparing them takes long: builders prepare them, and they are added in steps. */
export interface Preparation<Held extends Index = Index, Prepared extends PreparedRecords = PreparedRecords> {
  /** Takes ownership of the memory of the records. */
  prepare(builders: Builders, records: StoredRecords): Promise<Prepared>;
  /** Takes one step of adding the next record, and advances after the last step. @returns whether it was added */
  enter(index: Held, prepared: Prepared): boolean;
}

/** The request of one leg of a query to an index of its kind. */
export interface Leg {
  readonly kind: IndexKind;
  /** In a collection of several shards: what they have told together (`Kind.unite`). */
  among?: unknown;
}

/** The version that is searched. */
export interface SearchedVersion {
  /** The visible records; called again at each step. */
  visible(): Visible;
  /** The stored dense vector of a record that it sees; borrowed until the next call. */
  vectorOf(ordinal: number): Uint8Array;
  /** The `statistics` of the index when the version was current; undefined if it has none. */
  readonly statistics: unknown;
}

/** How legs are searched. */
export type LegOptions = {
  /** The ordinals that may be found at all; null: every one. */
  readonly allowed: Allowed;
  /**
   * The ordinals that match the filter of the caller's key, `allowed` among them; null: there is none, and every record exists for the
   * caller. What is found, and its scores, depend on no others. Like `allowed`, it can have ordinals that the version does not see.
   */
  readonly ofKey: Allowed;
  /** Whether every vector is read. */
  readonly isExact: boolean;
  /** The beam of a graph; undefined: the index's own. */
  readonly ef: number | undefined;
  /** Whether the beam that is set may end by distance, see `Beams.askCut`; default false. */
  readonly mayCut?: boolean;
  /** Whether it is widened, as one that is not set, for a query that is far from all records; default false. */
  readonly mayWiden?: boolean;
  /** A record that a graph is searched without, as if it had not been added, where no other record has its vector. */
  readonly without?: number;
};

/** The beam of legs. */
export type LegBeam = Pick<LegOptions, "ef" | "mayCut" | "mayWiden">;

/** How an index has used the set of allowed ordinals, and what it expected of each way, in microseconds. */
export type ChosenWay = { readonly way: string; readonly estimates: Readonly<Record<string, number>> };

/** A vector that a leg compared with its query on the way through a graph. */
export type Visit = {
  /** A record with the vector, and its score; null if the version has none, as of a vector that was removed. */
  readonly record: { readonly ordinal: number; readonly score: number } | null;
  /** Position of the visit whose links led to it; -1: the search began there. */
  readonly from: number;
};

/** What a leg did to be answered. */
export type LegAccount = {
  readonly way: string;
  /** The width of its beam; absent: it followed no links. */
  readonly beam?: number;
  /** Vectors that were compared with the query, and comparisons, on all levels of a graph. */
  readonly visited: number;
  readonly distances: number;
  /** In order. */
  readonly visits?: readonly Visit[];
};

/** The legs of one kind of a request's queries, in order, on one version. */
export interface LegSearches {
  /**
   * The k best records of a leg, with all ties with the last, in steps, between which the index may be used and changed. Legs are searched
   * one after the other, each once.
   */
  search(leg: number, k: number): Steps<Candidates>;
  /** What the other shards of the collection must know of this one to answer a leg as if all were one, as data; absent: nothing. */
  tell?(leg: number): Steps<unknown>;
  /** How the leg that was searched last used `allowed`, which is a set; absent where there is one way only. */
  chosen?(leg: number, k: number): ChosenWay;
  /**
   * What the leg that was searched last did, found out by doing it again; absent where nothing is told.
   * @param visitsMax visits that are listed; 0: none
   */
  account?(leg: number, visitsMax: number): Steps<LegAccount>;
  /**
   * Explains the scores of records found by the last searched leg: additional fields of their explanations. The sum of a record's matches,
   * in their order and starting with 0, is its score, bit for bit.
   * @param onMatch called for each match; an error that it throws ends the call
   */
  explain(leg: number, ordinals: readonly number[], onMatch: () => void): Steps<readonly object[]>;
}

/**
 * How requests ask for a kind: which searches ask for it alone, for one thing or for many, which part of a hybrid search does, and how what is
 * asked becomes a leg. query/plan.ts makes the rest of a plan. It takes an option of a request wherever the shape has it: so the shape decides
 * whether a search has a beam, diversity or a walk.
 * @typeParam Options what a request says once for all of its queries, such as how texts are parsed
 */
export interface Searching<Options = unknown> {
  /** The options of its own searches; absent: there are none. @throws invalid_request */
  options?(request: object): Options;
  /** A search for one thing. */
  readonly single: {
    /** What operations call it. */
    readonly name: string;
    readonly shape: TSchema;
    /** @throws invalid_request, modality_not_enabled, with the field */
    leg(collection: IndexedCollection, request: object, options: Options): Leg | Steps<Leg>;
  };
  /** A search for many; absent: there is none. */
  readonly batch?: {
    /** Begins with `batch`. */
    readonly name: string;
    readonly shape: TSchema;
    /** The field that has the queries, an array: `queries` but for a contract that says otherwise. */
    readonly queries: string;
    /** @param query an item of the array, which can be anything. @param path of the item. @throws as above, with the position */
    leg(collection: IndexedCollection, query: unknown, path: string, options: Options): Leg | Steps<Leg>;
  };
  /** What a hybrid search, and each query of a batch of them, says of the kind; absent: it has no part in them. */
  readonly hybrid?: {
    readonly field: string;
    /** The name of its weight in `fusion_weights`. */
    readonly weight: string;
    options?(request: object): Options;
    /** @param given the value of the field. @throws as above */
    leg(collection: IndexedCollection, given: unknown, path: string, options: Options): Leg | Steps<Leg>;
  };
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
  define(collection: IndexedCollection, given: NewIndex): Definition;
  /** An index that is created with its collection, where the request asks for it; absent if there is none. */
  readonly automatic?: {
    readonly definition: NewIndex;
    isWanted(request: CreateCollection): boolean;
  };
  /** The table of the store that it is built from. */
  readonly table: "records" | "dense";
  /** Of a collection's records, those that belong into it. */
  countOf(counts: ContentCounts): number;
  blueprint(
    collection: IndexedCollection,
    definition: Definition,
    dependencies: IndexDependencies,
  ): IndexBlueprint<Held, State>;
  /** Adds the stored record of an ordinal, if it concerns the index. @param bytes owned by the index */
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
  /** The `among` of a leg, of what each shard has told (`LegSearches.tell`); absent where they tell nothing. */
  unite?(leg: Leg, told: readonly unknown[]): unknown;
  /** How requests ask for it; absent: none does. */
  readonly searching?: Searching;
  /** Bytes that it grows by at most with so many records, which have so many bytes besides their dense vectors. */
  growth(recordBytes: number, records: number, otherBytes: number): number;
  /** @param index undefined: it is not loaded */
  status(index: Held | undefined): KindStatus;
  /** The latest measurement of its recall; undefined if it is not measured, or exact anyway. */
  recall?(index: Held): MeasuredRecall | undefined;
  /** How the recall of its beams is measured; absent where searches are exact. */
  readonly measuring?: {
    beams(index: Held): Beams;
    /** A leg that asks for what a record has in the kind's table. */
    legOf(stored: Uint8Array): Leg;
    /** The recall that searches which set neither it nor a beam should reach; null: the index's own beam decides. */
    targetOf(definition: Definition): number | null;
  };
  /** What its vectors have, so that examples can be searched for, and results be diverse; absent where there are none. */
  readonly vectors?: {
    metric(reader: Reading): Metric;
    metricOf(definition: Definition): Metric;
    /** A vector that a request gives. @throws invalid_request, modality_not_enabled, with the position */
    given(collection: IndexedCollection, vector: unknown, path: string): Float32Array;
    legOf(vector: Float32Array): Leg;
  };
  /**
   * What an index makes of a text, in steps; absent where there is nothing to tell. @throws invalid_request
   * @param definition of the index; called when the text is valid
   */
  analyze?(text: unknown, definition: () => Definition): Steps<TextAnalysis>;
  /** Maximum number of records that it may be behind before writes wait; absent: no limit. */
  backlogMax?(index: Held): number;
  /** How its postings are compared with the records; absent where `prove` does it. */
  postings?(index: Held): PostingHashes;
  /** Verifies an index that has all its records. @param vectorOf the stored vector. @throws an error with the violation */
  prove?(index: Held, vectorOf: (ordinal: number) => Uint8Array): void;
}
