// What is a thread called for that checks a collection or its snapshots?

import type { IndexKind } from "@quiverdb/protocol/shapes/index-definition";
import type { CollectionDefinition } from "../../collection/definition.ts";

export type CheckStart = CollectionCheckStart | SnapshotCheckStart;

export type SnapshotCheckStart = {
  readonly kind: "snapshots";
  readonly dataDir: string;
  /** Only the snapshots of the collection with this name. */
  readonly collection: string | undefined;
};

export type CollectionCheckStart = {
  readonly kind: "collection";
  /** The directory of the collection. */
  readonly directory: string;
  readonly definition: CollectionDefinition;
  /** Files with the indexes that were in memory, for comparison with the records. */
  readonly images: readonly IndexImage[];
};

/** An index that was in memory, written to a file like a checkpoint. */
export type IndexImage = { readonly kind: IndexKind; readonly path: string };
