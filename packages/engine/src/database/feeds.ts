// Which structure serves which index definition?
//
// One line for each kind: a definition becomes an empty index and the feed that fills it.

import type { DenseIndex, IndexKind, SparseIndex, TextIndex } from "@quiver/protocol/shapes/index-definition";
import type { IndexDefinitions } from "../collection/apply.ts";
import type { CollectionDefinition } from "../collection/definition.ts";
import { FlatIndex } from "../index/flat/flat-index.ts";
import { SparseIndex as SparsePostings } from "../index/sparse/sparse-index.ts";
import { TextIndex as TextPostings } from "../index/text/text-index.ts";
import { Feed } from "../indexing/feed.ts";

/** What serves searches of each kind. */
export const servedBy: Readonly<Record<IndexKind, string>> = {
  dense: "flat",
  sparse: "inverted",
  "tf-idf": "inverted",
};

const makers = {
  dense: (collection: CollectionDefinition, definition: DenseIndex) => () =>
    new FlatIndex({ dimension: collection.dimension as number, metric: definition.distance_metric_type }),
  sparse: (_collection: CollectionDefinition, _definition: SparseIndex) => () => new SparsePostings(),
  "tf-idf":
    (_collection: CollectionDefinition, { language, k1, b }: TextIndex) =>
    () =>
      new TextPostings({ language: language ?? "english", k1, b }),
} as const;

/** The feed of an index of a collection. */
export function makeFeed(
  collection: CollectionDefinition,
  kind: IndexKind,
  definitions: IndexDefinitions,
): Feed {
  const definition = definitions[kind];
  if (!definition) throw new Error(`Invariant broken: the collection has no ${kind} index`);
  const make = makers[kind] as (c: CollectionDefinition, d: typeof definition) => () => Feed["index"];
  return new Feed(kind, make(collection, definition));
}
