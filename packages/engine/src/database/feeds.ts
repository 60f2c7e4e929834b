// Which structure serves which index definition?
//
// One line for each kind: a definition becomes an empty index and the feed that fills it.

import { createHash, randomInt } from "node:crypto";
import { join } from "node:path";
import type { DenseIndex, IndexKind, SparseIndex, TextIndex } from "@quiver/protocol/shapes/index-definition";
import type { IndexDefinitions } from "../collection/apply.ts";
import type { CollectionDefinition } from "../collection/definition.ts";
import type { Index } from "../index/contract.ts";
import { efMax, HnswIndex, type HnswOptions, type HnswState } from "../index/hnsw/hnsw-index.ts";
import type { GraphBuilders } from "../index/hnsw/jobs.ts";
import {
  type SparseOptions,
  SparseIndex as SparsePostings,
  type SparseState,
} from "../index/sparse/sparse-index.ts";
import { type TextOptions, TextIndex as TextPostings, type TextState } from "../index/text/text-index.ts";
import { Feed } from "../indexing/feed.ts";
import { Keeper, type KeptForm } from "../indexing/keeper.ts";
import { denseForm, invertedForm } from "../indexing/kept-forms.ts";
import type { Builders } from "../runtime/builders.ts";

/** What a feed needs from the house. */
export type FeedSurroundings = {
  /** Of the collection; indexes that are kept on disk have files in it. */
  readonly directory: string;
  readonly builders: Builders;
  /** Bytes that loaded indexes may take; undefined: no limit. */
  readonly memoryBudgetBytes: number | undefined;
  /** The newest dense vector of a record, as it is stored; undefined: the record is gone. */
  readVector(ordinal: number): Uint8Array | undefined;
  /** Whether so many bytes more may be taken that an index can do without. */
  mayTake(bytes: number): boolean;
  /** An index has come further in the background. */
  onProgress(): void;
  /** A feed can go on. */
  wake(): void;
  /** An index says what it does about data that are hard for it. */
  onNotice(notice: string): void;
  /** Does in the background what never fails. */
  run(act: () => Promise<void>): void;
  /** Something went wrong that does no harm but to speed. */
  onProblem(what: string, problem: unknown): void;
};

/** What a dense index needs of them. */
export type DenseSurroundings = Pick<
  FeedSurroundings,
  "memoryBudgetBytes" | "readVector" | "mayTake" | "onProgress" | "onNotice" | "onProblem" | "wake"
> & {
  readonly builders: GraphBuilders;
  /** Whether recall is measured and acted upon; default true. */
  readonly measures?: boolean;
};

/** Increased when the bytes of a graph, or what a code means, change: kept indexes of before are not used. */
const graphFormat = 5;

/** ... when the bytes of a run or a dictionary do, or what a text's terms are; the runtime's tables of characters say that too. */
const postingFormat = 3;
const analysisFormat = { number: 2, icu: process.versions.icu, unicode: process.versions.unicode };

/** Records by which codes are calibrated where the definition does not say. */
const sampleDefault = 1_000;

export function hnswOptions(
  { dimension }: CollectionDefinition,
  { distance_metric_type, quantization, index }: DenseIndex,
  around: DenseSurroundings,
): HnswOptions {
  const { properties } = index;
  const { data_type, range, sample_threshold } = quantization.properties;
  const m = properties.neighbors_count ?? 16;
  // Half of the budget is for full-precision vectors; codes and links are beside them.
  const allowed =
    around.memoryBudgetBytes === undefined
      ? Number.POSITIVE_INFINITY
      : Math.floor(around.memoryBudgetBytes / 2 / (4 * (dimension as number) + 16));
  return {
    dimension: dimension as number,
    metric: distance_metric_type,
    dataType: quantization.type === "auto" ? "auto" : (data_type as HnswOptions["dataType"]),
    range: range ?? undefined,
    m,
    m0: properties.level_0_neighbors_count ?? 2 * m,
    efConstruction: Math.min(properties.ef_construction ?? 128, efMax),
    efSearch: properties.ef_search ?? 128,
    levelsMax: properties.num_layers ?? 9,
    sampleCount: sample_threshold ?? sampleDefault,
    cacheMax: properties.max_cache_size ?? allowed,
    builders: around.builders,
    fingerprintKey: [randomInt(2 ** 32), randomInt(2 ** 32)],
    measures: around.measures ?? true,
    readVector: around.readVector,
    mayTake: around.mayTake,
    onProgress: around.onProgress,
    onMore: around.wake,
    onNotice: around.onNotice,
    onError: () => around.wake(),
  };
}

/** How an index is kept, and what a kept one must be of, to be of use: a hash of everything that decides what it is made of. */
type KeptKind<Options, Held extends Index, State> = {
  readonly options: Options;
  readonly configuration: string;
  readonly form: KeptForm<Held, State>;
};

const hashOf = (deciding: object): string =>
  createHash("sha256").update(JSON.stringify(deciding)).digest("hex");

function keptDense(
  collection: CollectionDefinition,
  definition: DenseIndex,
  around: DenseSurroundings,
): KeptKind<HnswOptions, HnswIndex, HnswState> {
  const options = hnswOptions(collection, definition, around);
  const { dimension, metric, dataType, range, m, m0, efConstruction, levelsMax, sampleCount } = options;
  const deciding = { dimension, metric, dataType, range, m, m0, efConstruction, levelsMax, sampleCount };
  return { options, configuration: hashOf({ graphFormat, ...deciding }), form: denseForm(options) };
}

function keptSparse(
  _collection: CollectionDefinition,
  { quantization }: SparseIndex,
  { mayTake }: DenseSurroundings,
): KeptKind<SparseOptions, SparsePostings, SparseState> {
  const deciding = { levels: quantization };
  const options: SparseOptions = { ...deciding, mayTake };
  const form = invertedForm<SparsePostings, SparseState>((state, load) =>
    SparsePostings.restored(options, state, load),
  );
  return { options, configuration: hashOf({ postingFormat, ...deciding }), form };
}

function keptText(
  _collection: CollectionDefinition,
  { language, stop_words: stopWords, k1, b, positions }: TextIndex,
  { mayTake }: DenseSurroundings,
): KeptKind<TextOptions, TextPostings, TextState> {
  const deciding = {
    language: language ?? "english",
    stopWords: stopWords ?? null,
    k1,
    b,
    positions: positions ?? false,
  };
  const options: TextOptions = { ...deciding, mayTake };
  const form = invertedForm<TextPostings, TextState>((state, load) =>
    TextPostings.restored(options, state, load),
  );
  return { options, configuration: hashOf({ postingFormat, analysisFormat, ...deciding }), form };
}

const keptKinds = { dense: keptDense, sparse: keptSparse, "tf-idf": keptText } as const;

/** How an index of a collection is kept, for whoever reads what was kept without serving it. */
export function keptIndex<Held extends Index>(
  collection: CollectionDefinition,
  kind: IndexKind,
  definitions: IndexDefinitions,
  around: DenseSurroundings,
): Omit<KeptKind<unknown, Held, unknown>, "options"> {
  const kept = keptKinds[kind] as unknown as (
    c: CollectionDefinition,
    d: unknown,
    a: DenseSurroundings,
  ) => KeptKind<unknown, Held, unknown>;
  return kept(collection, definitions[kind], around);
}

function denseFeed(collection: CollectionDefinition, definition: DenseIndex, around: FeedSurroundings): Feed {
  const kept = keptDense(collection, definition, around);
  const keeper = keeperOf("dense", kept, around);
  return new Feed<HnswIndex>("dense", () => new HnswIndex(kept.options), keeper) as unknown as Feed;
}

function sparseFeed(
  collection: CollectionDefinition,
  definition: SparseIndex,
  around: FeedSurroundings,
): Feed {
  const kept = keptSparse(collection, definition, around);
  const keeper = keeperOf("sparse", kept, around);
  return new Feed<SparsePostings>(
    "sparse",
    () => new SparsePostings(kept.options),
    keeper,
  ) as unknown as Feed;
}

function textFeed(collection: CollectionDefinition, definition: TextIndex, around: FeedSurroundings): Feed {
  const kept = keptText(collection, definition, around);
  const keeper = keeperOf("tf-idf", kept, around);
  const { language, stopWords = null, positions: hasPositions = false } = kept.options;
  const analysis = { language, stopWords, hasPositions };
  return new Feed<TextPostings>("tf-idf", () => new TextPostings(kept.options), keeper, {
    analyse: (rows) => around.builders.analyse(rows, analysis),
    onArrival: () => around.wake(),
    run: (act) => around.run(act),
  }) as unknown as Feed;
}

/** Where an index of a collection is kept. */
export const checkpointPath = (directory: string, kind: IndexKind): string =>
  join(directory, "checkpoints", kind);

function keeperOf<Held extends Index, State>(
  kind: IndexKind,
  { configuration, form }: KeptKind<unknown, Held, State>,
  { directory, builders, onProblem }: FeedSurroundings,
): Keeper<Held, State> {
  return new Keeper(checkpointPath(directory, kind), configuration, form, builders, (problem) =>
    onProblem(`a ${kind} index could not be kept on disk, or read from it`, problem),
  );
}

const makers = { dense: denseFeed, sparse: sparseFeed, "tf-idf": textFeed } as const;

/** The feed of an index of a collection. */
export function makeFeed(
  collection: CollectionDefinition,
  kind: IndexKind,
  definitions: IndexDefinitions,
  around: FeedSurroundings,
): Feed {
  const definition = definitions[kind];
  if (!definition) throw new Error(`Invariant broken: the collection has no ${kind} index`);
  const make = makers[kind] as (c: CollectionDefinition, d: typeof definition, a: FeedSurroundings) => Feed;
  return make(collection, definition, around);
}
