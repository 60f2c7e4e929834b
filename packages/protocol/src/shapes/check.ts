// What does a check of stored data report?

import Type, { type Static } from "typebox";
import { OneOf } from "./common.ts";

/** Kinds of findings, by the object that they concern. */
export const findingKinds = [
  "file",
  "checksum",
  "catalog",
  "collection",
  "record",
  "id",
  "document",
  "version",
  "transaction",
  "checkpoint",
  "index",
  "snapshot",
  "snapshot_missing",
  "snapshot_stray",
  "snapshot_chain",
] as const;

export const Finding = Type.Object(
  {
    kind: OneOf(findingKinds, { description: "The kind of object that the finding concerns." }),
    message: Type.String({ description: "What was found, and what was expected." }),
    collection: Type.Optional(
      Type.String({ description: "Name of the collection, or of its directory if the name is unknown." }),
    ),
    table: Type.Optional(Type.String({ description: "Table of the collection's store." })),
    key: Type.Optional(Type.String({ description: "Key in the table, in hex." })),
    page: Type.Optional(Type.Integer({ description: "Page of the store's file." })),
    ordinal: Type.Optional(Type.Integer({ description: "Internal number of the record." })),
    record_id: Type.Optional(Type.String()),
    version: Type.Optional(Type.Integer()),
    snapshot_id: Type.Optional(Type.String()),
    derived: Type.Optional(
      Type.Boolean({ description: "True if nothing is lost, because the data is rebuilt from the records." }),
    ),
  },
  { description: "A deviation from what was expected." },
);

export const CheckReport = Type.Object({
  findings: Type.Array(Finding, { description: "The first 10,000." }),
  findings_total: Type.Integer({ minimum: 0 }),
  collections: Type.Array(
    Type.Object({
      name: Type.String(),
      version: Type.Union([Type.Integer(), Type.Null()], { description: "The version that was checked." }),
      records: Type.Integer({ minimum: 0, description: "Live records that were read." }),
      versions: Type.Integer({ minimum: 0, description: "Versions in the log." }),
      hashes_derived: Type.Integer({
        minimum: 0,
        description:
          "Versions whose hash was recomputed from the parent's hash and the changes; the others changed records that no longer exist.",
      }),
      indexes: Type.Array(Type.String(), { description: "Indexes that were compared with the records." }),
      indexes_not_compared: Type.Array(
        Type.Object({ index: Type.String(), reason: Type.String({ description: "Why not." }) }),
        { description: "The other indexes of the collection. They are derived from the records." },
      ),
    }),
  ),
  snapshots: Type.Integer({ minimum: 0, description: "Snapshot files that were read completely." }),
});

export type Finding = Static<typeof Finding>;
export type CheckReport = Static<typeof CheckReport>;
export type NotCompared = CheckReport["collections"][number]["indexes_not_compared"][number];
