// What are the limits?
//
// Every queue, batch, buffer, request and search has its limit here and nowhere else, and so have the numbers that a request may leave out.
// Bytes are UTF-8 bytes.

export const limits = {
  collectionNameBytesMax: 255,
  idBytesMax: 512,
  descriptionBytesMax: 65_536,
  metadataBytesMax: 65_536,
  metadataDepthMax: 64,
  dimensionMax: 65_535,
  sparseEntriesMax: 1_048_576,
  textBytesMax: 4 * 1024 * 1024,
  indexNameBytesMax: 255,
  /** Stop words of a text index; the longest built-in list has 781. */
  stopWordsMax: 2_000,
  stopWordBytesMax: 255,

  topKMax: 10_000,
  topKDefault: 10,
  /** Every leg of a hybrid search fetches at least this many, or `legFactor` times top_k. */
  legMin: 50,
  legFactor: 3,
  fusionConstantDefault: 60,
  batchQueriesMax: 10_000,
  /** Number of queries of a request times top_k. */
  resultsPerRequestMax: 1_000_000,
  /** Bytes of ids and texts in the results of one request. */
  resultBytesMax: 256 * 1024 * 1024,
  /** Bytes of stored vectors that a read by document id returns. */
  documentBytesMax: 256 * 1024 * 1024,
  /** Matched terms and dimensions in the explanations of one request. */
  explainedMatchesMax: 100_000,
  /** Visited vectors that the answer to one search with `walk` lists. */
  walkVisitsMax: 2_000,
  /** Examples in one search by example. */
  examplesMax: 1_000,
  /** Candidates that a diverse search chooses from, and bytes of their vectors. */
  diversityCandidatesMax: 1_000,
  diversityBytesMax: 64 * 1024 * 1024,
  queryTextBytesMax: 1024 * 1024,
  /** Clauses with an operator in one text query. */
  queryOperatorsMax: 1_024,
  /** Prefixes and fuzzy words among them: each one scans the dictionary. */
  queryExpandingMax: 16,
  /** Terms that a prefix or fuzzy word expands to: the most frequent ones. */
  queryExpansionsMax: 1_024,

  /** Conditions of one filter. */
  filterLeavesMax: 1_024,
  /** Levels of and, or and not in a filter, with the condition below them. */
  filterLevelsMax: 16,
  /** Values in one `in` or `nin` of a filter. */
  filterValuesMax: 10_000,
  /** Warnings of one answer about its filter. */
  warningsMax: 10,
  /** Characters of the name of a field; a longer key fits into no metadata. */
  filterFieldLengthMax: 65_536,
  /** Bytes of the ids that a delete by filter deletes, and of the records, with their vectors, that an update by filter writes. */
  changeBytesMax: 256 * 1024 * 1024,
  /** Records that a delete or an update by filter changes: the writer applies them as one version, some ten seconds in which it writes nothing else. */
  changeRecordsMax: 2_000_000,
  /** Records in one fetch, and in one page of a scroll. */
  fetchedMax: 10_000,
  scrollDefault: 100,
  /** Fields in one facet, and values of each. */
  facetFieldsMax: 16,
  facetMax: 10_000,
  facetDefault: 100,
  /** Results of each group of a search. */
  groupSizeMax: 1_000,
  /** Hits that are ranked to find results of enough groups. */
  groupDepthMax: 100_000,
  /** Metadata indexes of one collection; each reads every record that is written. */
  metadataIndexesMax: 64,
  /** Characters of the name of a field with an index. */
  metadataIndexFieldMax: 512,

  efMax: 1_000_000,
  efDefault: 128,
  /** Queries in one recall measurement. */
  recallSampleMax: 10_000,
  recallSampleDefault: 100,
  layersMax: 64,
  layersDefault: 9,
  neighboursMax: 2_048,
  neighboursDefault: 16,
  sampleThresholdMax: 10_000_000,
  sampleThresholdDefault: 1_000,
  sparseLevelsDefault: 256,
  k1Default: 1.2,
  bDefault: 0.75,

  bodyBytesDefault: 64 * 1024 * 1024,
  /** Bytes of a body that are still read, and thrown away, when its request was answered before it had arrived. */
  lateBodyBytesMax: 1024 * 1024,
  /** Bytes of request bodies, and of responses, in memory at a time. A parsed body takes several times its size. */
  bodiesInMemoryBytesDefault: 256 * 1024 * 1024,
  answersInMemoryBytesDefault: 256 * 1024 * 1024,
  /** Records in one streaming request or one call on a transaction. */
  recordsPerRequestMax: 1_000_000,
  /** Each collection needs open files, memory maps and a few buffers. */
  collectionsMax: 4_096,
  /** Of a collection of a cluster. Each shard counts as a collection. */
  shardsMax: 1_024,

  /** Ordinals are u32; the last value is kept as a sentinel. */
  ordinalMax: 0xffff_fffe,
  transactionIdleMsDefault: 3_600_000,
  transactionsKept: 1_000,
  versionsKeptDefault: 1_000,
  /** Logs of a new cluster. */
  clusterLogsDefault: 8,
  /** So long the logs of a cluster keep what a node that is away has not read; one that was away longer copies from another. */
  clusterKeepMsDefault: 24 * 3_600_000,
  clusterReplaceMsDefault: 15 * 60_000,
  /** A collection remembers the opIds of this many latest log entries, so that none of them is applied twice. */
  entriesRemembered: 1_024,
  versionsPageMax: 1_000,
  /** Tags of a collection. */
  tagsMax: 1_000,
  /** Answers to writes with an Idempotency-Key that a collection keeps. */
  answersMax: 1_000_000,
  /** The same for creating, copying and deleting collections and aliases. */
  catalogAnswersMax: 10_000,
  aliasesMax: 10_000,
  /** Conflicts that a merge lists. */
  conflictsShown: 1_000,
  /** How long a reader of changes may wait for a write. */
  changesWaitMsMax: 30_000,
  /** Earlier versions that are open for searches at a time. */
  pastVersionsMax: 16,

  /** Bytes of encoded records in one group commit; a larger request commits alone. */
  groupCommitBytesMax: 32 * 1024 * 1024,
  groupCommitRequestsMax: 4_096,
  /** Bytes of requests that wait for the writer; beyond this, new ones are rejected with `overloaded`. */
  writerQueueBytesMax: 256 * 1024 * 1024,
  /** Number of requests that wait for the writer, likewise. */
  writerQueueRequestsMax: 16_384,
  /** Length of a task's time slice on the event loop, in milliseconds. */
  sliceMs: 4,
  /** Longest time between two moments at which new connections are accepted, in milliseconds. */
  arrivalsMs: 4,
  /** Batches of texts that are analysed before the index needs them, or wait to be added. */
  analysedBatchesMax: 16,

  /** Stored snapshots of one collection, uploaded ones included. */
  snapshotsPerCollectionMax: 100,
  /** Snapshots that are created, uploaded or restored at a time. */
  snapshotJobsMax: 4,
  /** Snapshots in one restore. */
  snapshotChainMax: 100,
  /** A block of a backup is written once it has this many bytes; a single record can make it larger. */
  snapshotBlockBytes: 1024 * 1024,
  snapshotBlockBytesMax: 64 * 1024 * 1024,
  /** Approximate bytes in one store write of a restore; the write holds them in memory. */
  restoreWriteBytes: 32 * 1024 * 1024,

  /** A commit is acknowledged after this time (milliseconds) even if the indexes do not have all of its records yet. */
  commitWaitMs: 20_000,
  /** Records by which streaming writes may be ahead of the indexes; beyond this, writes are slowed to a fraction of the indexing rate. */
  indexBacklogRecordsMax: 100_000,
  /** The same in bytes of dense vectors: searches scan vectors that are not in the graph yet. */
  indexBacklogBytesMax: 256 * 1024 * 1024,
  /** That fraction of the indexing rate. Below 1, so the backlog shrinks. */
  indexBacklogShare: 0.8,
  /** How long a write waits for the indexes before it is rejected (milliseconds), and how many writes of one collection may wait. */
  indexBacklogWaitMs: 10_000,
  indexBacklogWaitingMax: 256,
  /** A search of a server waits this long (milliseconds) for an index that lags; then it is rejected with its progress. */
  indexWaitMs: 5_000,
  /** After a start, a server says that it is ready after this time (milliseconds) even if indexes still lag. */
  recoveryWaitMs: 2_000,
  /** Searches that may wait for the indexes of one collection. */
  viewWaitersMax: 16_384,

  /** How long a start waits for another process that has the data directory open and is stopping. */
  lockWaitMsDefault: 10_000,

  /** Exports at a time: each one pins a version of its collection, whose disk space cannot be reused meanwhile. */
  exportsMax: 64,

  /** Largest timeout that a client may set, in milliseconds; also the largest delay of a timer. The server reduces it to its own maximum. */
  requestDeadlineMsMax: 2 ** 31 - 1,
  requestDeadlineMsDefault: 60_000,
  requestDeadlineMaxMsDefault: 60_000,
  requestWorkMaxMsDefault: 30_000,
  /** A request that has waited in a queue for this long is rejected. */
  queueWaitMsDefault: 2_000,
  /** Requests in progress in a server, and of one key. */
  requestsMax: 8_192,
  keyRequestsMaxDefault: 2_048,
  /** A request with more estimated work than this is large. */
  largeWorkMs: 20,
  /** Large requests that are executed at a time, and those of one key. */
  largeRunningMax: 24,
  largeRunningKeyMax: 8,
  /** Weight of an API key: its share of the server's time relative to other keys. */
  keyWeightMax: 100,
  /** A body up to this size is parsed, validated or encoded in one step; larger ones take several time slices. */
  bodyPieceBytes: 64 * 1024,
  /** A response is aborted when the client reads nothing of it for this long. */
  answerStallMsDefault: 120_000,
  /** Bytes of log lines that wait to be written; further lines are dropped and counted. */
  logWaitingBytesMax: 16 * 1024 * 1024,
  /** Findings that a check lists; all are counted. */
  findingsMax: 10_000,

  sessionIdleMs: 24 * 3_600_000,
  sessionsMax: 10_000,
  /** API keys, expired ones included. */
  apiKeysMax: 10_000,
  apiKeyNameBytesMax: 255,
  /** Names and prefixes in the collection list of one API key. */
  apiKeyCollectionsMax: 100,
  /** Characters of the JSON text of a key's filter. */
  apiKeyFilterLengthMax: 8_192,
  /** Failed authentication attempts of one address in a window; further attempts are rejected without a check of the key. */
  authFailuresMaxDefault: 60,
  authFailureWindowMs: 60_000,
  /** Addresses whose failed attempts are remembered; beyond this, the one with the oldest window is forgotten. */
  authAddressesMax: 10_000,
  /** The audit log starts a new file beyond this size, and keeps this many older files. */
  auditFileBytesMax: 16 * 1024 * 1024,
  auditOldFilesMax: 4,
  auditPageMax: 1_000,
  auditPageDefault: 100,
  /** Interval at which the files of the TLS certificate and its key are checked, in milliseconds. */
  tlsLookMs: 2_000,
} as const;
