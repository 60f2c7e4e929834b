// How do the methods of a database reach an engine in the same process?
//
// Each request is one call of the engine: nothing is encoded, sent or parsed. `timeoutMs` and `signal` of a call are the engine's own; there
// are no retries, since no answer is lost.

import type { AnswerOf } from "@quiverdb/client/endpoints";
import { checkFilters, checkWritable, jsonText } from "@quiverdb/client/json";
import {
  checkCallOptions,
  encodeSegment,
  type RequestParts,
  systemRuntime,
  type Transport,
} from "@quiverdb/client/transport";
import { type CallLimits, type Database, turned } from "@quiverdb/engine/database/contract";
import { isQuiverError, QuiverError } from "@quiverdb/protocol/errors";
import { refuseUnknownFields } from "@quiverdb/protocol/fields";
import { type Route, type RouteName, routes } from "@quiverdb/protocol/routes";
import { shapeFaults } from "@quiverdb/server/request/shape-check";
import { shapeError } from "@quiverdb/server/request/validation";
import { calls, type EmbeddedCall, type EmbeddedRoute } from "./calls.ts";
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

  request<R extends RouteName>(route: R, parts: RequestParts = {}): Promise<AnswerOf<R>> {
    return answered(route, parts, () => {
      if (!Object.hasOwn(calls, route)) throw serverOnly(route);
      const { params = {}, query = {}, upload } = parts;
      for (const name in params) encodeSegment(name, params[name]);
      const act = calls[route as EmbeddedRoute] as (call: EmbeddedCall<RouteName>) => unknown;
      const body = withPlainFilters(parts.body);
      requireShape(route, body, "list");
      const call = { database: this.#database, params, query, body, upload, options: limitsOf(parts) };
      return act(call as never) as AnswerOf<R> | Promise<AnswerOf<R>>;
    });
  }

  async text(route: RouteName, parts: RequestParts = {}): Promise<string> {
    if (route !== "getVector") return JSON.stringify(await this.request(route, parts));
    const { collection_id = "", vector_id = "" } = parts.params ?? {};
    return answered(route, parts, () => this.#database.collection(collection_id).get(vector_id).toJson());
  }

  open(route: RouteName, parts: RequestParts = {}): Promise<Response> {
    return answered(route, parts, () => {
      if (route === "exportVectors") return exportResponse(this.#database, parts, limitsOf(parts));
      if (route === "downloadSnapshot") return snapshotResponse(this.#database, parts);
      throw serverOnly(route);
    });
  }

  close(): Promise<void> {
    return this.#database.close();
  }
}

/** What a call gives, if its signal does not end it; an error is the one that a server gives for the same request. */
async function answered<T>(route: RouteName, parts: RequestParts, act: () => T | Promise<T>): Promise<T> {
  const { call, body } = parts;
  checkCallOptions(call);
  call?.signal?.throwIfAborted();
  const lapse = lapseOf(call?.signal);
  // What a read was given is read now. A write must not begin before it is known that it may.
  if (lapse !== undefined && routes[route].role !== "read") await lapse;
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
function requireShape(route: RouteName, body: unknown, depth: "list" | "all"): void {
  const { body: shape } = routes[route] as Route;
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

function limitsOf({ call: { timeoutMs, signal } = {} }: RequestParts): CallLimits {
  return { timeoutMs, signal };
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
 * anything else; and the same condition has different statuses on different routes.
 */
function asOfServer(route: RouteName, body: unknown, error: unknown): unknown {
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
    requireShape(route, body, "all");
  } catch (fault) {
    return fault;
  }
  if (!isQuiverError(error)) return error;
  const { statusOf } = routes[route] as Route;
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
