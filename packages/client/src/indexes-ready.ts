// When are the indexes of a collection ready for a version?

import type { Transport } from "./transport.ts";
import { type WaitOptions, waitFor } from "./wait.ts";

/**
 * Resolves when every index of a collection is ready, with all records of a version in their final places. An index that is not loaded
 * counts as ready: it catches up when it is loaded again.
 */
export function waitForIndexes(
  transport: Transport,
  collection: string,
  version: number,
  options: WaitOptions,
): Promise<true> {
  const params = { collection_id: collection };
  return waitFor(
    `Indexing of collection ${JSON.stringify(collection)}`,
    async (call) => {
      const indexes = Object.values(await transport.request("getIndexes", { params, call }));
      const { indexes: ofFields } = await transport.request("getMetadataIndexes", { params, call });
      const isReady = [...indexes, ...ofFields].every(
        ({ status: { state, complete_version } }) =>
          state === "unloaded" || (state === "ready" && complete_version >= version),
      );
      return isReady || undefined;
    },
    options,
    transport.runtime,
  );
}
