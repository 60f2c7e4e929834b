// Which operations are there on versions?

import { limits } from "@quiverdb/protocol/limits";
import * as version from "@quiverdb/protocol/shapes/version";
import { collectionPath, operation } from "./operation.ts";
import { integer } from "./parameters.ts";

export const versions = {
  listVersions: operation(
    {
      method: "GET",
      path: `${collectionPath}/versions`,
      role: "read",
      tag: "Versions",
      summary: "List versions",
      query: {
        limit: integer(1, limits.versionsPageMax, "Maximum number of versions to return, 1 to 1,000."),
        before: integer(0, Number.MAX_SAFE_INTEGER, "Return only versions with a smaller number."),
      },
      answer: version.VersionList,
      errors: [404, 500],
    },
    ({ collection, query }) => collection.versions(query),
  ),
  currentVersion: operation(
    {
      method: "GET",
      path: `${collectionPath}/versions/current`,
      role: "read",
      tag: "Versions",
      summary: "Get current version",
      answer: version.Version,
    },
    ({ collection }) => collection.currentVersion(),
  ),
  getVersion: operation(
    {
      method: "GET",
      path: `${collectionPath}/versions/{version_hash}`,
      role: "read",
      tag: "Versions",
      summary: "Get version by hash",
      answer: version.Version,
    },
    ({ collection, params }) => collection.version(params.version_hash),
  ),
};
