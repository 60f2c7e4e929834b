// Which operations are there on versions?

import { limits } from "@quiverdb/protocol/limits";
import * as version from "@quiverdb/protocol/shapes/version";
import { collectionPath, operation } from "./operation.ts";
import { fieldsOf, integer } from "./parameters.ts";

const restoring = {
  repeat: "refused",
  work: "write",
  role: "write",
  tag: "Versions",
  answer: version.Version,
  errors: [400, 404, 410, 500],
} as const;

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
  putCurrentVersion: operation(
    {
      once: true,
      ...restoring,
      method: "PUT",
      path: `${collectionPath}/versions/current`,
      summary: "Make a version whose vectors are those of an earlier one",
      body: version.PutCurrentVersion,
    },
    ({ collection, body, options }) => collection.restoreVersion(body, options),
    { version: 1 },
  ),
  putCurrentVersionByHash: operation(
    {
      once: true,
      ...restoring,
      method: "PUT",
      path: `${collectionPath}/versions/current/{version_hash}`,
      summary: "The same, by the hash of the version",
    },
    ({ collection, params, options }) => collection.restoreVersion({ version: params.version_hash }, options),
  ),
  restoreVersion: operation(
    {
      once: true,
      ...restoring,
      method: "POST",
      path: `${collectionPath}/versions/{version}/restore`,
      summary: "The same, by number, hash or tag",
    },
    ({ collection, params, options }) => collection.restoreVersion({ version: params.version }, options),
  ),
  diffVersions: operation(
    {
      method: "GET",
      path: `${collectionPath}/versions/{version}/diff/{other}`,
      work: "export",
      role: "read",
      tag: "Versions",
      summary:
        "Compare two versions: a line with the numbers of added, changed and removed vectors, then a line for each, by id",
      answer: version.DiffLines,
      mediaType: "application/x-ndjson",
      expectedMs: () => Number.POSITIVE_INFINITY,
      errors: [400, 404, 410, 500],
    },
    ({ collection, params, options }) =>
      collection.diff({ version: params.version }, { version: params.other }, options),
  ),
  readChanges: operation(
    {
      method: "GET",
      path: `${collectionPath}/changes`,
      work: "feed",
      events: true,
      role: "read",
      tag: "Versions",
      summary:
        "Read what has changed since a version, page by page; an empty page can wait for a write. With `Accept: text/event-stream`, an endless stream of events",
      query: {
        since: fieldsOf(version.ChangesSince).since,
        limit: integer(1, limits.fetchedMax, "Maximum number of changes, 1 to 1,000. Default: 100."),
        wait_ms: integer(0, limits.changesWaitMsMax, "How long an empty page waits for a write, in ms."),
      },
      answer: version.ChangesPage,
      errors: [400, 404, 410, 500],
    },
    ({ collection, query, options }) =>
      collection.changes(query as { since?: string; limit?: number; wait_ms?: number }, options),
  ),
  putTag: operation(
    {
      once: true,
      method: "PUT",
      path: `${collectionPath}/versions/tags/{tag}`,
      repeat: "refused",
      role: "write",
      work: "administration",
      tag: "Versions",
      summary: "Name a version, which stays readable while it has the name",
      body: version.PutTag,
      answer: version.Tag,
      errors: [400, 404, 409, 410, 500],
    },
    ({ collection, params, body, options }) =>
      collection.putTag(params.tag, { version: body.version ?? null }, options),
    { version: 1 },
  ),
  deleteTag: operation(
    {
      once: true,
      method: "DELETE",
      path: `${collectionPath}/versions/tags/{tag}`,
      done: "tag_not_found",
      role: "write",
      work: "administration",
      tag: "Versions",
      summary: "Delete a tag",
      status: 204,
      errors: [404, 500],
    },
    ({ collection, params, options }) => collection.deleteTag(params.tag, options),
  ),
};
