// How much of everything is allowed?
//
// Every queue, batch, tail, request and effort has its limit here and nowhere else. Bytes are UTF-8 bytes.

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
  /** Of a text index; the longest list of a language has 781. */
  stopWordsMax: 2_000,
  stopWordBytesMax: 255,

  topKMax: 10_000,
  topKDefault: 10,
  /** Every leg of a hybrid search fetches at least this many, or `legFactor` times top_k. */
  legMin: 50,
  legFactor: 3,
  fusionConstantDefault: 60,
  batchQueriesMax: 10_000,
  /** Queries of a request times their top_k. */
  resultsPerRequestMax: 1_000_000,
  /** Bytes of ids and texts that the results of one request may have. */
  resultBytesMax: 256 * 1024 * 1024,
  /** Bytes of the stored vectors of a document that are read at once. */
  documentBytesMax: 256 * 1024 * 1024,
  /** Matched terms and dimensions that the explanations of one request may list. */
  explainedMatchesMax: 100_000,
  queryTextBytesMax: 1024 * 1024,
  /** Clauses with an operator that a text query may have. */
  queryOperatorsMax: 1_024,
  /** Prefixes and fuzzy words among them: each goes through the dictionary. */
  queryExpandingMax: 16,
  /** Terms that a prefix or a fuzzy word stands for: the most frequent ones. */
  queryExpansionsMax: 1_024,

  efMax: 1_000_000,
  /** Queries of one recall measurement. */
  recallSampleMax: 10_000,
  recallSampleDefault: 100,
  layersMax: 64,
  neighboursMax: 2_048,
  sampleThresholdMax: 10_000_000,

  bodyBytesDefault: 64 * 1024 * 1024,
  /** Bytes of request bodies, and of answers, that may be in memory at a time. What is parsed from a body takes several times as much. */
  bodiesInMemoryBytesDefault: 256 * 1024 * 1024,
  answersInMemoryBytesDefault: 256 * 1024 * 1024,
  /** Records of one streaming request or one call on a transaction. */
  recordsPerRequestMax: 1_000_000,
  /** Every collection has files, memory maps and a few buffers open. */
  collectionsMax: 4_096,

  /** Ordinals are u32; the last value is kept as a sentinel. */
  ordinalMax: 0xffff_fffe,
  transactionIdleMsDefault: 3_600_000,
  transactionsKept: 1_000,
  versionsKeptDefault: 1_000,
  /** The latest log entries whose opIds a collection remembers, so that none of them is applied a second time. */
  entriesRemembered: 1_024,
  versionsPageMax: 1_000,

  /** Bytes of encoded records that one group commit may hold; a larger request commits alone. */
  groupCommitBytesMax: 32 * 1024 * 1024,
  groupCommitRequestsMax: 4_096,
  /** Bytes of requests that may wait for the writer before new ones are refused with `overloaded`. */
  writerQueueBytesMax: 256 * 1024 * 1024,
  /** Requests that may wait for the writer, likewise. */
  writerQueueRequestsMax: 16_384,
  /** Milliseconds for which a task may hold the event loop at a time. */
  sliceMs: 4,
  /** Milliseconds between two slices in which arriving connections are taken, at most. */
  arrivalsMs: 4,
  /** Batches of texts that are analysed ahead of an index, or wait to be added. */
  analysedBatchesMax: 16,

  /** Snapshots that are kept of one collection, uploaded ones included. */
  snapshotsPerCollectionMax: 100,
  /** Snapshots that are being made, received or restored at a time. */
  snapshotJobsMax: 4,
  /** Snapshots that one restore may put together. */
  snapshotChainMax: 100,
  /** A block of a backup is written when it has so many bytes; a single record can make it larger. */
  snapshotBlockBytes: 1024 * 1024,
  snapshotBlockBytesMax: 64 * 1024 * 1024,
  /** Bytes that one store write of a restore changes, about: it holds them in memory. */
  restoreWriteBytes: 32 * 1024 * 1024,

  /** A commit is acknowledged after so long, in milliseconds, although the indexes do not serve all of its records yet. */
  commitWaitMs: 20_000,
  /** Records that streaming writes may be ahead of the indexes before they are slowed down to a share of the indexes' speed. */
  indexBacklogRecordsMax: 100_000,
  /** The same, in bytes of dense vectors: searches scan what is not linked yet. */
  indexBacklogBytesMax: 256 * 1024 * 1024,
  /** Of the records that indexes take, so many are let in meanwhile: the backlog gets smaller. */
  indexBacklogShare: 0.8,
  /** Milliseconds that a write waits for the indexes before it is refused, and writes that may wait in one collection. */
  indexBacklogWaitMs: 10_000,
  indexBacklogWaitingMax: 256,
  /** Searches that may wait for one collection's indexes. */
  viewWaitersMax: 16_384,

  /** A start waits for so long for an owner of its data directory that is ending. */
  lockWaitMsDefault: 10_000,

  /** Exports that may run at a time: each holds a version of its collection, whose space is not used again meanwhile. */
  exportsMax: 64,

  /** Milliseconds that a client may say it waits for; of a timer, too. What is more than the server allows is cut to that. */
  requestDeadlineMsMax: 2 ** 31 - 1,
  requestDeadlineMsDefault: 60_000,
  requestDeadlineMaxMsDefault: 60_000,
  requestWorkMaxMsDefault: 30_000,
  /** A request that has waited for so long for its turn is refused. */
  queueWaitMsDefault: 2_000,
  /** Requests that are under way in a server, and of one key. */
  requestsMax: 8_192,
  keyRequestsMaxDefault: 2_048,
  /** A request is large when more work is expected of it than this. */
  largeWorkMs: 20,
  /** Large requests that are worked on at a time, and of one key. */
  largeRunningMax: 24,
  largeRunningKeyMax: 8,
  /** Weight of an API key: its share of the server's time beside others. */
  keyWeightMax: 100,
  /** Bytes of a body that is parsed, checked or encoded at once; larger ones take several time slices. */
  bodyPieceBytes: 64 * 1024,
  /** An answer of which the client reads nothing for so long is given up. */
  answerStallMsDefault: 120_000,
  /** Bytes of log lines that wait to be written; further ones are counted and left out. */
  logWaitingBytesMax: 16 * 1024 * 1024,
  /** Findings of a check that are told one by one; all are counted. */
  findingsMax: 10_000,

  sessionIdleMs: 24 * 3_600_000,
  sessionsMax: 10_000,
  /** API keys, expired ones included. */
  apiKeysMax: 10_000,
  apiKeyNameBytesMax: 255,
  /** Names and prefixes that one API key may be limited to. */
  apiKeyCollectionsMax: 100,
  /** Failed attempts to authenticate that one address may make in a window, before more are refused unheard. */
  authFailuresMaxDefault: 60,
  authFailureWindowMs: 60_000,
  /** Addresses whose failed attempts are remembered; beyond it the one that began longest ago is forgotten. */
  authAddressesMax: 10_000,
  /** The audit log begins a new file beyond this; so many older ones are kept beside it. */
  auditFileBytesMax: 16 * 1024 * 1024,
  auditOldFilesMax: 4,
  auditPageMax: 1_000,
  auditPageDefault: 100,
  /** Milliseconds between two looks at the files of the TLS certificate and its key. */
  tlsLookMs: 2_000,
} as const;
