// Does a collection have the indexes that a search needs?

import { QuiverError } from "@quiverdb/protocol/errors";
import type { IndexKind } from "@quiverdb/protocol/shapes/index-definition";
import type { IndexDefinitions } from "../collection/apply.ts";

/** @throws index_not_found naming the call that creates it */
export function requireIndexes(
  definitions: IndexDefinitions,
  kinds: readonly IndexKind[],
  name: string,
): void {
  for (const kind of kinds)
    if (!definitions[kind])
      throw new QuiverError(
        "index_not_found",
        `The collection '${name}' has no ${kind} index. Create it with POST /vectordb/collections/${encodeURIComponent(name)}/indexes/${kind}.`,
        { index_type: kind, name },
      );
}
