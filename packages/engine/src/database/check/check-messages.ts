// Which messages do a running database and the thread that checks a collection or snapshots exchange?

import type { CheckReport } from "@quiver/protocol/shapes/check";
import type { IndexKind } from "@quiver/protocol/shapes/index-definition";
import type { CollectionDefinition } from "../../collection/definition.ts";

export type CheckStart = CollectionCheckStart | SnapshotCheckStart;

export type SnapshotCheckStart = {
  readonly kind: "snapshots";
  readonly dataDir: string;
  /** Only those of the collection of this name. */
  readonly collection: string | undefined;
};

export type CollectionCheckStart = {
  readonly kind: "collection";
  /** Of the collection. */
  readonly directory: string;
  readonly definition: CollectionDefinition;
  /** The files that indexes in memory were written to, to be compared with the records. */
  readonly images: readonly IndexImage[];
};

/** An index in memory, written to a separate file like a checkpoint. */
export type IndexImage = { readonly kind: IndexKind; readonly path: string };

export type CheckReply =
  | { readonly ok: true; readonly report: CheckReport }
  | { readonly ok: false; readonly message: string };
