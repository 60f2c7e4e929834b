// Which operations does the model cover, and why are the others excluded?

import type { OperationName } from "@quiverdb/engine/operations/operations";

/** Routes that the sequences call and whose responses the model predicts. */
export const modelled: ReadonlySet<OperationName> = new Set<OperationName>([
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
  "createMetadataIndex",
  "getMetadataIndexes",
  "deleteMetadataIndex",
  "countVectors",
  "facetVectors",
  "scrollVectors",
  "fetchVectors",
  "deleteMatching",
  "updateMatching",
  "patchVector",
  "searchDense",
  "searchBatchDense",
  "searchSparse",
  "searchBatchSparse",
  "searchText",
  "searchBatchText",
  "searchHybrid",
  "searchBatchHybrid",
  "recommend",
  "neighbors",
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

const aliases = "aliases are names, not data; server/merging.test.ts switches them under load";

const earlier =
  "the model knows one version; earlier ones are compared with collections of their records in engine/database/earlier-versions.test.ts, and after every request in engine/log/past-records.test.ts";

/** Routes that the model excludes, with the reasons. A new route must be listed here or above. */
export const notModelled: Readonly<Record<string, string>> = {
  checkSnapshots: checks,
  checkAllSnapshots: checks,
  createKey: keys,
  listKeys: keys,
  revokeKey: keys,
  readAudit: keys,
  listAliases: aliases,
  putAlias: aliases,
  deleteAlias: aliases,
  ...Object.fromEntries(
    (
      [
        ...["patchCollection", "copyCollection", "vectorHistory", "putCurrentVersion"],
        ...[
          "putCurrentVersionByHash",
          "restoreVersion",
          "diffVersions",
          "readChanges",
          "putTag",
          "deleteTag",
          "mergeCollection",
        ],
      ] as const
    ).map((name) => [name, earlier]),
  ),
};
