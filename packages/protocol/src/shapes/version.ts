// How is a version of a collection represented in the API?

import Type, { type Static } from "typebox";

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

export const VersionList = Type.Object(
  {
    versions: Type.Array(Version, { description: "Newest first." }),
    current_hash: Type.String({ description: "Hash of the current version." }),
    current_version: numberOf("the current version"),
  },
  { description: "Versions of a collection." },
);

export type Version = Static<typeof Version>;
export type VersionList = Static<typeof VersionList>;
