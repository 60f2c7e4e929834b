// How are snapshots and restores represented in the API?

import Type, { type Static } from "typebox";
import { limits } from "../limits.ts";
import { Fields, Maybe } from "./common.ts";

const NullableInteger = (description: string) =>
  Type.Unsafe<number | null>({ type: ["integer", "null"], description });

export const CreateSnapshot = Fields(
  {
    since_version: Maybe(
      Type.Integer({
        minimum: 0,
        description:
          "Creates an incremental snapshot: only the changes since this version, which the collection must still list.",
      }),
    ),
    since_hash: Maybe(
      Type.String({
        description:
          "The hash of since_version; the request is rejected if the collection's version has another hash.",
      }),
    ),
  },
  { description: "An empty object creates a full snapshot of the current version." },
);

export const Snapshot = Type.Object(
  {
    id: Type.String({ description: "Names the snapshot in requests." }),
    collection_name: Type.String({ description: "The collection that the snapshot was taken from." }),
    version_number: Type.Integer({ description: "The version that the snapshot contains." }),
    hash: Type.String({ description: "The version's hash." }),
    vector_count: Type.Integer({ description: "Live vectors of the version." }),
    since_version: NullableInteger("The base version of an incremental snapshot; null in a full one."),
    since_hash: Type.Unsafe<string | null>({
      type: ["string", "null"],
      description: "The hash of the base version; null in a full one.",
    }),
    records_stored: Type.Integer({ description: "Number of vectors in the file." }),
    size_bytes: Type.Integer({ description: "Size of the file in bytes." }),
    sha256: Type.String({ description: "SHA-256 of the file, 64 hex characters." }),
    timestamp: Type.Integer({ description: "Creation time in Unix seconds." }),
    damaged: Type.Optional(
      Type.String({
        description:
          "Present only if the file is known to be damaged or missing: the reason. Such a snapshot can be neither downloaded nor restored.",
      }),
    ),
  },
  { description: "A file with one version of a collection, or with the changes since an earlier one." },
);

export const RunningSnapshot = Type.Object({
  id: Type.String({ description: "The id that the snapshot will have." }),
  collection_name: Type.String(),
  percentage_complete: Type.Number({ minimum: 0, maximum: 100 }),
});

export const SnapshotList = Type.Object({
  snapshots: Type.Array(Snapshot, { description: "Oldest first." }),
  running: Type.Array(RunningSnapshot, { description: "Snapshots that are being created." }),
});

export const RestoreCollection = Fields({
  snapshots: Type.Array(Type.String(), {
    minItems: 1,
    maxItems: limits.snapshotChainMax,
    description: "Ids: a full snapshot, then incremental ones, each based on the one before it.",
  }),
  overwrite: Maybe(
    Type.Boolean({
      description:
        "Replaces an existing collection of this name atomically. By default the restore is rejected if the collection exists.",
    }),
  ),
});

export const RestoredCollection = Type.Object({
  name: Type.String(),
  version_number: Type.Integer(),
  hash: Type.String(),
  vector_count: Type.Integer(),
});

export const SnapshotBytes = Type.String({
  description: "The file, as `createSnapshot` wrote it.",
});

export type CreateSnapshot = Static<typeof CreateSnapshot>;
export type Snapshot = Static<typeof Snapshot>;
export type RunningSnapshot = Static<typeof RunningSnapshot>;
export type SnapshotList = Static<typeof SnapshotList>;
export type RestoreCollection = Static<typeof RestoreCollection>;
export type RestoredCollection = Static<typeof RestoredCollection>;
export type SnapshotBytes = Static<typeof SnapshotBytes>;
