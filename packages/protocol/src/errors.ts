// Which errors can Quiver return, and what does each mean?
//
// All modules share one table: the engine throws `QuiverError` with a code of this table, the server translates it into an HTTP response in
// one place, and the client rebuilds the same class from the response. Codes are stable: they are never renamed and never change their
// meaning.

/** The properties of a code. `status` is the HTTP status unless the route names another one. */
export type ErrorKind = {
  readonly status: number;
  /** True when the same request may succeed later, unchanged. */
  readonly retryable: boolean;
  /** When the error occurs, in one sentence, for the API reference. */
  readonly meaning: string;
};

const kind = (status: number, meaning: string, retryable = false): ErrorKind => ({
  status,
  retryable,
  meaning,
});

/** Every error code, in the order of the API reference. */
export const errorKinds = {
  invalid_request: kind(400, "A field is missing, of the wrong type or out of range; nothing was changed."),
  unknown_field: kind(
    400,
    "A body, a record or the query string has an unknown field; details.suggestion is the most similar known name, if there is one. Nothing was changed.",
  ),
  invalid_json: kind(400, "The request body is not JSON in UTF-8."),
  invalid_msgpack: kind(
    400,
    "The request body is not MessagePack, or has a value that JSON does not have; details.byte_offset says where.",
  ),
  invalid_vector: kind(400, "A vector record breaks a rule of its collection; nothing was changed."),
  invalid_filter: kind(
    400,
    "A filter is not of the documented form, or exceeds a limit; details.path says where. Nothing was changed.",
  ),
  invalid_name: kind(400, "The collection name is empty, too long or has a character that is not allowed."),
  invalid_version_hash: kind(400, "The path does not name a version of this collection."),
  invalid_credentials: kind(400, "The user name or password given to create a session is wrong."),
  modality_not_enabled: kind(400, "The collection was created without this kind of vector or text."),
  max_vectors_exceeded: kind(400, "The operation would exceed the collection's max_vectors."),
  transaction_not_open: kind(400, "The transaction was already committed, aborted or failed."),
  invalid_snapshot: kind(
    400,
    "A backup file is truncated, damaged, of a newer format or not a backup file; the details name the position.",
  ),
  snapshot_chain_broken: kind(
    400,
    "The base version of an incremental backup is not the version of the file before it.",
  ),
  version_not_kept: kind(
    400,
    "The change log no longer reaches back to the version, or the version never existed.",
  ),
  version_not_found: kind(
    404,
    "The version does not exist yet, or the time is before the collection was made.",
  ),
  version_gone: kind(
    410,
    "The version can no longer be read; details.oldest_version is the oldest that can, beside those with a tag.",
  ),
  tag_not_found: kind(404, "The collection has no tag of this name."),
  version_changed: kind(412, "Another version is current than if_version names; nothing was changed."),
  record_changed: kind(
    412,
    "A record is not as if_match or if_absent asks; details.vector_id and details.version say which, and which version wrote it (null: it does not exist). Nothing was changed.",
  ),
  tag_already_exists: kind(409, "The collection has a tag of this name; nothing was changed."),
  unauthorized: kind(401, "The request carries no API key, or one that is not valid."),
  forbidden: kind(403, "The key is valid, but its role or its collections do not allow this request."),
  collection_not_found: kind(404, "There is no collection with this name."),
  index_not_found: kind(404, "The collection has no index of this kind."),
  transaction_not_found: kind(404, "The collection has no transaction with this id."),
  vector_not_found: kind(404, "The collection has no vector with this id."),
  key_not_found: kind(404, "There is no API key with this id."),
  snapshot_not_found: kind(404, "There is no snapshot with this id."),
  route_not_found: kind(404, "No endpoint has this path."),
  method_not_allowed: kind(405, "The endpoint exists, but not with this method."),
  collection_already_exists: kind(409, "A collection with this name already exists."),
  merge_conflict: kind(
    409,
    "Records were changed in the copy and in its original; details.conflicts lists the first 1,000. Nothing was changed.",
  ),
  alias_not_found: kind(404, "There is no alias of this name."),
  collection_has_aliases: kind(409, "The collection has aliases, which must be deleted or moved first."),
  index_already_exists: kind(409, "The collection already has an index of this kind."),
  transaction_ongoing: kind(409, "The collection already has an open transaction."),
  data_directory_in_use: kind(
    409,
    "Another process, or this one, has the data directory open; details has the process id (pid), the host and the time (since) of the owner. Raised only where a directory is opened.",
  ),
  data_directory_foreign: kind(
    409,
    "The directory has files, but none that says it is a data directory of Quiver; details.found names some of them. Nothing was changed. Raised only where a directory is opened.",
  ),
  idempotency_key_reused: kind(
    422,
    "The Idempotency-Key was used for another request within the last 24 hours; nothing was changed.",
  ),
  too_many_idempotency_keys: kind(
    429,
    "The answers to as many writes with an Idempotency-Key as possible are kept already; nothing was changed.",
  ),
  body_too_large: kind(413, "The request body is larger than the server's limit."),
  unsupported_media_type: kind(
    415,
    "The Content-Type of the request body is not application/json, or another that the endpoint takes.",
  ),
  range_not_satisfiable: kind(416, "The Range header requests bytes beyond the end of the file."),
  rate_limited: kind(429, "Too many failed attempts to authenticate from this address.", true),
  too_many_sessions: kind(
    429,
    "The limit on live sessions is reached; no session is ended to make room. details.retry_after_seconds is the time until the first may expire.",
  ),
  headers_too_large: kind(431, "The request's headers are larger than the server's limit."),
  data_corrupted: kind(500, "A stored record failed its checksum; the details name its key."),
  format_too_new: kind(500, "The data directory was written by a newer version of Quiver."),
  format_too_old: kind(
    500,
    "The data directory was written by a version of Quiver whose format is no longer supported.",
  ),
  storage_failed: kind(
    500,
    "A read or write of the store failed; nothing was applied, unless details.applied is unknown.",
  ),
  internal: kind(500, "The operation failed on the server; the request id is in the log."),
  indexing_behind: kind(
    429,
    "Records are written faster than the collection's indexes can apply them; nothing was changed.",
    true,
  ),
  overloaded: kind(503, "A queue of the server is full, or the request would wait in it for too long.", true),
  shutting_down: kind(503, "The server is stopping and accepts no new requests.", true),
  not_ready: kind(
    503,
    "The server is still recovering its collections, or an index that the search needs is not up to date yet; details.progress tells how far it is, 0 to 1.",
    true,
  ),
  log_unavailable: kind(
    503,
    "The log of the cluster does not answer; reads go on. details.applied tells whether a write may have been applied.",
    true,
  ),
  log_diverged: kind(
    503,
    "Replicas of the collection have applied different logs, so that it takes no writes until an operator chooses one.",
  ),
  request_timeout: kind(408, "The request did not arrive completely in time.", true),
  deadline_exceeded: kind(
    504,
    "The request did not finish before its deadline. Reads and searches were stopped; no part of a write was applied.",
    true,
  ),
  memory_budget_exceeded: kind(
    507,
    "The operation would exceed the memory budget of the process or of the collection; nothing was changed.",
  ),
  storage_full: kind(
    507,
    "The disk is full, or the collection has used all its record numbers; nothing was applied.",
  ),
  connection_failed: kind(
    0,
    "The client received no response: connection refused, reset or timed out. Raised by the client only.",
    true,
  ),
  embedding_failed: kind(
    0,
    "An embedding returned no vector for a text, or its endpoint an error. Raised by the client only.",
  ),
  source_failed: kind(
    0,
    "The server that an import reads from did not answer or refused, its client is not installed, or a file could not be read to its end. Raised by @quiverdb/import only.",
  ),
} as const satisfies Record<string, ErrorKind>;

/** The stable code of an error, by which programs tell errors apart. */
export type ErrorCode = keyof typeof errorKinds;

export type ErrorDetails = Readonly<Record<string, unknown>>;

/** Body of every error response. */
export type ErrorBody = { error: { code: ErrorCode; message: string; details: ErrorDetails } };

/**
 * The error class of all modules. `message` states what was received, what was expected and what to do; `details` repeats the position and
 * the numbers for programs.
 */
export class QuiverError extends Error {
  /** Always "QuiverError". */
  override readonly name = "QuiverError";
  /** Tells errors apart, and never changes its meaning. */
  readonly code: ErrorCode;
  /** Position and numbers of the message, by code. */
  readonly details: ErrorDetails;

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.details = details;
  }

  /** HTTP status of the code, unless a route names another. */
  get status(): number {
    return errorKinds[this.code].status;
  }

  /** Whether the same request may succeed later. */
  get retryable(): boolean {
    return errorKinds[this.code].retryable;
  }
}

/** An `invalid_request` about one field, with its path, such as `vectors[17].dense_values[3]`. */
export function fieldError(path: string, expected: string, received: string, message: string): QuiverError {
  return new QuiverError("invalid_request", `${message} Correct the request and send it again.`, {
    path,
    expected,
    received,
  });
}

/** True for a `QuiverError`, and, if a code is given, only for that code. */
export function isQuiverError(error: unknown, code?: ErrorCode): error is QuiverError {
  return error instanceof QuiverError && (code === undefined || error.code === code);
}
