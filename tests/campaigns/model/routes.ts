// Which routes does the model cover, and why are the others excluded?

import type { RouteName } from "@quiver/protocol/routes";

/** Routes that the sequences call and whose responses the model predicts. */
export const modelled: ReadonlySet<RouteName> = new Set<RouteName>([
  "createCollection",
  "listCollections",
  "loadedCollections",
  "getCollection",
  "deleteCollection",
  "checkCollection",
  "loadCollection",
  "unloadCollection",
  "createDenseIndex",
  "createSparseIndex",
  "createTextIndex",
  "analyzeText",
  "getIndexes",
  "measureRecall",
  "deleteIndex",
  "searchDense",
  "searchBatchDense",
  "searchSparse",
  "searchBatchSparse",
  "searchText",
  "searchBatchText",
  "searchHybrid",
  "searchBatchHybrid",
  "createTransaction",
  "listTransactions",
  "getTransactionStatus",
  "commitTransaction",
  "abortTransaction",
  "addVector",
  "upsertVectors",
  "deleteVectorInTransaction",
  "vectorsByDocument",
  "getVector",
  "vectorExists",
  "deleteVector",
  "exportVectors",
  "streamingUpsert",
  "streamingDelete",
  "streamingDeleteAlias",
  "listVersions",
  "currentVersion",
  "getVersion",
  "createSession",
  "createSnapshot",
  "listSnapshots",
  "listAllSnapshots",
  "uploadSnapshot",
  "getSnapshot",
  "downloadSnapshot",
  "deleteSnapshot",
  "restoreCollection",
]);

const checks = "checks find what nobody may do to files; tests/campaigns/corruption.ts damages them";
const keys =
  "keys change who may ask, not what is answered; tests/campaigns/security.ts asks every route with every role";

/** Routes that the model excludes, with the reasons. A new route must be listed here or above. */
export const notModelled: Readonly<Record<string, string>> = {
  checkSnapshots: checks,
  checkAllSnapshots: checks,
  createKey: keys,
  listKeys: keys,
  revokeKey: keys,
  readAudit: keys,
};
