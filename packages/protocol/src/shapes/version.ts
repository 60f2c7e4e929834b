// How is a version of a collection represented in the API?

import Type, { type Static, type TObject } from "typebox";
import { Fields, Maybe } from "./common.ts";
import { VectorRecord } from "./vector.ts";

const numberOf = (which: string) =>
  Type.Integer({ minimum: 0, description: `Number of ${which}; each durable write adds one.` });

export const Version = Type.Object(
  {
    hash: Type.String({
      description: "64 hex characters; SHA-256 of the parent's hash and the changes in order.",
    }),
    version_number: numberOf("the version"),
    timestamp: Type.Integer({ description: "Creation time in Unix seconds." }),
    vector_count: Type.Integer({ minimum: 0, description: "Live vectors of this version." }),
  },
  { description: "The state of a collection after a durable write." },
);

export const Tag = Type.Object(
  {
    name: Type.String({ description: "Its name." }),
    version: numberOf("the version that it keeps"),
    hash: Type.String({ description: "Hash of that version." }),
  },
  { description: "A name for a version, which stays readable while the tag exists." },
);

export const VersionList = Type.Object(
  {
    versions: Type.Array(Version, { description: "Newest first." }),
    current_hash: Type.String({ description: "Hash of the current version." }),
    current_version: numberOf("the current version"),
    oldest_readable: numberOf("the oldest version that can be read, beside those with a tag"),
    tags: Type.Array(Tag, { description: "By name." }),
  },
  { description: "Versions of a collection." },
);

/** What names a version, or a time. */
const VersionName = Type.Unsafe<number | string>({
  type: ["integer", "string"],
  description: "Number, hash or tag of a version.",
});
const versionName = Maybe({
  ...VersionName,
  description: "Reads the collection as it was at this version: its number, its hash or a tag.",
} as typeof VersionName);
const asOfTime = Maybe(
  Type.String({
    description:
      "Reads the collection as it was at this time, in ISO 8601: 2026-11-27T20:15:00Z. Not beside version.",
  }),
);

/** A request that can be asked of an earlier version. */
export const AtVersion = <T extends TObject>(shape: T) =>
  Fields(
    { ...(shape.properties as T["properties"]), version: versionName, as_of: asOfTime },
    optionsOf(shape),
  );

function optionsOf(shape: TObject): { description?: string } {
  const { description } = shape as { description?: string };
  return description === undefined ? {} : { description };
}

/** The two as parameters of a query string. */
export const WhenFields = Fields({
  version: Maybe(Type.String({ description: (versionName as { description?: string }).description ?? "" })),
  as_of: asOfTime,
});

export const ChangesSince = Fields({
  since: Maybe(
    Type.String({ description: "A version, or the `next` of a page: changes after it. Default: 0, all." }),
  ),
});

export const PutTag = Fields(
  { version: Maybe(VersionName) },
  { description: "The version that the tag names; left out: the current one." },
);

export const PutCurrentVersion = Fields({ version: VersionName });

const changes = Type.Array(
  Type.Object({
    version: numberOf("the version that made the change"),
    op: Type.Unsafe<"upsert" | "delete">({ type: "string", enum: ["upsert", "delete"] }),
    id: Type.String({ description: "Id of the record." }),
    place: Type.String({ description: "The `since` of what comes after this change." }),
    vector: Type.Optional(
      Type.Unsafe<VectorRecord>({
        ...VectorRecord,
        description: "As it was written; absent if it was deleted.",
      }),
    ),
  }),
  { description: "In order." },
);

export const ChangesPage = Type.Object(
  {
    changes,
    next: Type.String({ description: "The `since` of the next page." }),
    current_version: numberOf("the current version"),
  },
  { description: "What has changed." },
);

export const DiffLines = Type.String({
  description:
    'Lines of JSON: {"added": n, "changed": n, "removed": n}, then {"op": "added" | "changed" | "removed", "id", "vector"}; vector is the record at the later version, absent if it was removed.',
});

const states = Type.Array(
  Type.Object({
    version: numberOf("the version that wrote this state"),
    until: Type.Unsafe<number | null>({
      type: ["integer", "null"],
      description: "Number of the version that replaced or deleted it; null: none.",
    }),
    vector: Type.Unsafe<VectorRecord>(VectorRecord),
  }),
  { description: "Newest first." },
);

export const RecordHistory = Type.Object(
  { id: Type.String({ description: "Id of the record." }), states },
  { description: "Every state of a record that is kept." },
);

export type Version = Static<typeof Version>;
export type VersionList = Static<typeof VersionList>;
export type ChangesPage = Static<typeof ChangesPage>;
export type Tag = Static<typeof Tag>;
export type RecordHistory = Static<typeof RecordHistory>;
export type DiffLines = Static<typeof DiffLines>;
