// How are the versions of a collection read over HTTP?

import { invariant } from "@quiverdb/protocol/invariant";
import { limits } from "@quiverdb/protocol/limits";
import { json } from "../json-answer.ts";
import { integerParameter } from "../request/query.ts";
import type { Handlers } from "./handlers.ts";

export const versionHandlers: Handlers<"listVersions" | "currentVersion" | "getVersion"> = {
  listVersions({ database, params, query }) {
    const limit = integerParameter(query, "limit", 1, limits.versionsPageMax);
    const before = integerParameter(query, "before", 0, Number.MAX_SAFE_INTEGER);
    const page = database.collection(params.collection_id).versions({ limit, before });
    invariant(
      page.versions.every(({ version_number }) => version_number <= page.current_version),
      () => `a version after the current one, ${page.current_version}, is listed`,
    );
    return json(page);
  },
  currentVersion: ({ database, params }) => json(database.collection(params.collection_id).currentVersion()),
  getVersion: ({ database, params }) =>
    json(database.collection(params.collection_id).version(params.version_hash)),
};
