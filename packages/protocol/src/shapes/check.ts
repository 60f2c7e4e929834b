// What does a check of stored data find?

import Type, { type Static } from "typebox";
import { OneOf } from "./common.ts";

/** Where something was found, by what it is about. */
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
    kind: OneOf(findingKinds, { description: "What the finding is about." }),
    message: Type.String({ description: "What was found, and what was expected." }),
    collection: Type.Optional(
      Type.String({ description: "Name, or the directory's where that is not known." }),
    ),
    table: Type.Optional(Type.String({ description: "Table of the collection's store." })),
    key: Type.Optional(Type.String({ description: "Key in the table, in hex." })),
    page: Type.Optional(Type.Integer({ description: "Page of the store's file." })),
    ordinal: Type.Optional(Type.Integer({ description: "Internal number of a record." })),
    record_id: Type.Optional(Type.String()),
    version: Type.Optional(Type.Integer()),
    snapshot_id: Type.Optional(Type.String()),
    derived: Type.Optional(
      Type.Boolean({ description: "True where nothing is lost: it is made again from the records." }),
    ),
  },
  { description: "Something that is not what it must be." },
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
          "Versions whose hash was computed again from its parent's and its changes; the others changed records that are gone by now.",
      }),
      indexes: Type.Array(Type.String(), { description: "Indexes that were compared with the records." }),
    }),
  ),
  snapshots: Type.Integer({ minimum: 0, description: "Files of snapshots that were read to their end." }),
});

export type FindingKind = (typeof findingKinds)[number];
export type Finding = Static<typeof Finding>;
export type CheckReport = Static<typeof CheckReport>;
