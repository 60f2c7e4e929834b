// How do the methods of a database reach an engine in the same process?
//
// Each request runs an operation (engine/operations): nothing is encoded, sent or parsed. `timeoutMs` and `signal` of a call are the engine's
// own; there are no retries, since no answer is lost.

import type { AnswerOf } from "@quiverdb/client/endpoints";
import { checkFilters, checkWritable, jsonText } from "@quiverdb/client/json";
import {
  checkCallOptions,
  encodeSegment,
  type RequestParts,
  systemRuntime,
  type Transport,
} from "@quiverdb/client/transport";
import {
  type CallLimits,
  type Database,
  type LineExport,
  type RecordPage,
  type SnapshotFile,
  type StoredVector,
  turned,
} from "@quiverdb/engine/database/contract";
import { keyFor, runOperation } from "@quiverdb/engine/operations/operation";
import { type Operation, type OperationName, operations } from "@quiverdb/engine/operations/operations";
import { readParameters } from "@quiverdb/engine/operations/parameters";
import { isQuiverError, QuiverError } from "@quiverdb/protocol/errors";
import { refuseUnknownFields } from "@quiverdb/protocol/fields";
import { Empty } from "@quiverdb/protocol/shapes/common";
import type { Includable } from "@quiverdb/protocol/shapes/include";
import { FetchedVectors, ScrollPage } from "@quiverdb/protocol/shapes/matching";
import { VectorRecord, VectorRecords } from "@quiverdb/protocol/shapes/vector";
import { ChangesPage, RecordHistory } from "@quiverdb/protocol/shapes/version";
import { shapeFaults } from "@quiverdb/server/request/shape-check";
import { shapeError } from "@quiverdb/server/request/validation";
import { recordForm } from "./record-form.ts";
import { exportResponse, snapshotResponse } from "./responses.ts";

export class EmbeddedTransport implements Transport {
  readonly runtime = systemRuntime;
  readonly form = recordForm;
  readonly retries = 0;
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  request<R extends OperationName>(name: R, parts: RequestParts = {}): Promise<AnswerOf<R>> {
    return answered(name, parts, async () => {
      const operation = operationOf(name, parts);
      const body = bodyOf(operation, parts);
      requireShape(operation, body, "list");
      const records: StoredVector[] = [];
      const given = await this.#run(operation, parts, body, (record) => records.push(record));
      return asObjects(operation, operation.oneByOne ? records : given, body) as AnswerOf<R>;
    });
  }

  async text(name: OperationName, parts: RequestParts = {}): Promise<string> {
    if (name !== "getVector") return JSON.stringify(await this.request(name, parts));
    return answered(name, parts, async () =>
      ((await this.#run(operationOf(name, parts), parts)) as StoredVector).toJson(),
    );
  }

  open(name: OperationName, parts: RequestParts = {}): Promise<Response> {
    return answered(name, parts, async () => {
      const operation = operationOf(name, parts);
      const given = await this.#run(operation, parts);
      return operation.mediaType === "application/x-ndjson"
        ? exportResponse(given as LineExport)
        : snapshotResponse(given as SnapshotFile, parts);
    });
  }

  /** What the engine gives. */
  #run(
    operation: Operation,
    parts: RequestParts,
    body?: unknown,
    take?: (record: StoredVector) => void,
  ): unknown {
    const { params = {}, query = {}, upload } = parts;
    return runOperation(operation, {
      database: this.#database,
      params,
      query: readParameters(operation.query, query),
      body,
      upload: operation.upload ? bytesOfUpload(upload) : undefined,
      take,
      options: limitsOf(operation, parts),
      reaches: () => true,
    });
  }

  close(): Promise<void> {
    return this.#database.close();
  }
}

/** The operation of a request. @throws route_not_found for one that only a server has; invalid_request for a part of the path */
function operationOf(name: OperationName, { params }: RequestParts): Operation {
  const operation: Operation | undefined = operations[name];
  if (operation === undefined || operation.isOfServer) throw serverOnly(name);
  for (const each in params) encodeSegment(each, params[each]);
  return operation;
}

/** The body of a request: without the objects that a caller may change, and with what JSON has. */
function bodyOf({ patch }: Operation, { body: given }: RequestParts): unknown {
  const body = withPlainFilters(given);
  return patch ? withExactPatch(body as { metadata: object }) : body;
}

/** A patch as JSON has it. @throws invalid_request for a number that JSON does not have: as null it would remove the key */
function withExactPatch<Patch extends { metadata: object }>(body: Patch): Patch {
  const { metadata } = body;
  return typeof metadata === "object"
    ? { ...body, metadata: JSON.parse(jsonText(metadata, "metadata")) }
    : body;
}

/** An answer with its records as objects. */
function asObjects({ answer }: Operation, given: unknown, body: unknown): unknown {
  const { include } = (body ?? {}) as { include?: readonly Includable[] };
  const objectOf = (record: StoredVector | null) => record?.toRecord(include) ?? null;
  switch (answer) {
    case undefined:
      return undefined;
    case Empty:
      return {};
    case VectorRecord:
      return (given as StoredVector).toRecord();
    case VectorRecords:
    case FetchedVectors:
      return (given as readonly (StoredVector | null)[]).map(objectOf);
    case ChangesPage: {
      const page = given as { changes: { vector?: StoredVector }[] };
      const changes = page.changes.map(({ vector, ...change }) =>
        vector === undefined ? change : { ...change, vector: vector.toRecord() },
      );
      return { ...page, changes };
    }
    case RecordHistory: {
      const { id, states } = given as { id: string; states: { vector: StoredVector }[] };
      return { id, states: states.map((state) => ({ ...state, vector: state.vector.toRecord() })) };
    }
    case ScrollPage: {
      const page = given as RecordPage;
      return { ...page, vectors: page.vectors.map(objectOf) };
    }
    default:
      return given;
  }
}

/** What a call gives, if its signal does not end it; an error is the one that a server gives for the same request. */
async function answered<T>(route: OperationName, parts: RequestParts, act: () => T | Promise<T>): Promise<T> {
  const { call, body } = parts;
  checkCallOptions(call);
  call?.signal?.throwIfAborted();
  const lapse = lapseOf(call?.signal);
  // What a read was given is read now. A write must not begin before it is known that it may.
  if (lapse !== undefined && operations[route].role !== "read") await lapse;
  try {
    const answer = await act();
    if (lapse !== undefined) await lapse;
    return answer;
  } catch (error) {
    throw asOfServer(route, body, error);
  } finally {
    const turning = turned();
    if (turning !== undefined) await turning;
  }
}

/** The mark that signals of `AbortSignal.timeout` have; undefined where they have none. */
const timerMark = Object.getOwnPropertySymbols(AbortSignal.timeout(0)).find(
  (symbol) => !(symbol in new AbortController().signal),
);
/** Signals whose timers have had a turn. */
const turnedSignals = new WeakSet<AbortSignal>();

/**
 * Resolves when a signal of `AbortSignal.timeout(0)` has aborted, and then rejects if it has: otherwise a search that is answered at once would
 * be faster than its timer, which over HTTP always ends it. Undefined where there is nothing to wait for, as for every other signal, and for one
 * that was waited for before. It takes a millisecond, the least that a timer takes; `timeoutMs` costs none.
 */
function lapseOf(signal: AbortSignal | undefined): Promise<void> | undefined {
  if (signal === undefined || turnedSignals.has(signal)) return undefined;
  turnedSignals.add(signal);
  if (timerMark !== undefined && !(timerMark in signal)) return undefined;
  // Timers of the same delay end in the order in which they began.
  const lapse = new Promise((resolve) => setTimeout(resolve, 0)).then(() => signal.throwIfAborted());
  // It is awaited unless the call fails before.
  lapse.catch(() => undefined);
  return lapse;
}

/**
 * Refuses a request that has not the shape of its route, with the error that a server gives.
 * @param depth `list`: the engine looks at what is in lists
 * @throws unknown_field, invalid_request
 */
function requireShape({ body: shape }: Operation, body: unknown, depth: "list" | "all"): void {
  if (shape === undefined) return;
  const sent = asSent(body, depth);
  const faults = shapeFaults(shape, sent, depth);
  if (faults === undefined) return;
  refuseUnknownFields(shape, sent);
  throw shapeError(faults);
}

/** A body as a server would get it: records without the text of their metadata, which record-form.ts adds. */
function asSent(body: unknown, depth: "list" | "all"): unknown {
  if (body === undefined) return {};
  if (typeof body !== "object" || body === null) return body;
  if ("metadataJson" in body) {
    const { metadataJson: _, ...record } = body;
    return record;
  }
  if (depth === "list" || !("vectors" in body) || !Array.isArray(body.vectors)) return body;
  return { ...body, vectors: body.vectors.map((vector) => asSent(vector, "list")) };
}

function limitsOf(
  operation: Operation,
  { call: { timeoutMs, signal, idempotencyKey } = {} }: RequestParts,
): CallLimits {
  return { timeoutMs, signal, idempotencyKey: keyFor(operation, idempotencyKey) };
}

/**
 * A request with its filters as JSON has them: `where()` makes objects that become filters when they are written, and a caller may change
 * its own filter afterwards.
 */
function withPlainFilters(body: unknown): unknown {
  if (typeof body !== "object" || body === null || Array.isArray(body)) return body;
  const { filter, queries } = body as { filter?: unknown; queries?: unknown };
  // An array is refused as a query; its `filter` is a method.
  const isFiltered = (query: unknown) =>
    typeof query === "object" &&
    query !== null &&
    !Array.isArray(query) &&
    "filter" in query &&
    query.filter != null;
  if (!isFiltered(body) && !(Array.isArray(queries) && queries.some(isFiltered))) return body;
  checkFilters(body);
  const plain = (value: unknown, path: string) => (value == null ? value : JSON.parse(jsonText(value, path)));
  return {
    ...body,
    ...(filter != null && { filter: plain(filter, "filter") }),
    ...(Array.isArray(queries) && {
      queries: queries.map((query, i) =>
        isFiltered(query) ? { ...query, filter: plain(query.filter, `queries[${i}].filter`) } : query,
      ),
    }),
  };
}

/**
 * The error that the server gives for the request: where the shape of the request explains a refusal, that is told, as the server does before
 * anything else; and the same condition has different statuses on different operations.
 */
function asOfServer(route: OperationName, body: unknown, error: unknown): unknown {
  const isRefusal = isQuiverError(error) ? error.status < 500 : error instanceof TypeError;
  if (!isRefusal) return error;
  const isOfRecords =
    route === "addVector" || (typeof body === "object" && body !== null && "vectors" in body);
  try {
    // What of records could not be sent was refused before (record-form.ts).
    if (!isOfRecords) {
      checkFilters(body);
      checkWritable(body);
    }
    requireShape(operations[route], body, "all");
  } catch (fault) {
    return fault;
  }
  if (!isQuiverError(error)) return error;
  const { statusOf } = operations[route] as Operation;
  const status = statusOf?.[error.code];
  return status === undefined
    ? error
    : Object.defineProperty(error, "status", { value: status, enumerable: true });
}

const serverOnly = (route: string) =>
  new QuiverError(
    "route_not_found",
    `A database in the same process has no ${route}: keys, sessions and the audit log belong to a server.`,
    { path: route },
  );

/** The bytes of a Blob or a stream, piece by piece. */
async function* bytesOfUpload(upload: RequestParts["upload"]): AsyncGenerator<Uint8Array> {
  const source = upload?.();
  if (source === undefined) return;
  yield* source instanceof Blob ? source.stream() : source;
}
