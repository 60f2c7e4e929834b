// How is a version of a collection represented in the API?

import Type, { type Static } from "typebox";

export const Version = Type.Object({
  hash: Type.String({
    description: "64 hex characters; SHA-256 of the parent's hash and the changes in order.",
  }),
  version_number: Type.Integer({ minimum: 0 }),
  timestamp: Type.Integer({ description: "Creation time in Unix seconds." }),
  vector_count: Type.Integer({ minimum: 0, description: "Live vectors of this version." }),
});

export const VersionList = Type.Object({
  versions: Type.Array(Version, { description: "Newest first." }),
  current_hash: Type.String(),
  current_version: Type.Integer(),
});

export type Version = Static<typeof Version>;
export type VersionList = Static<typeof VersionList>;
