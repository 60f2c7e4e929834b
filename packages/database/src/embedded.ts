// How do the methods of a database reach an engine in the same process?
//
// Each request is one call of the engine: nothing is encoded, sent or parsed. `timeoutMs` and `signal` of a call are the engine's own; there
// are no retries, since no answer is lost.

import type { AnswerOf } from "@quiverdb/client/endpoints";
import { checkFilters, jsonText } from "@quiverdb/client/json";
import {
  checkCallOptions,
  type RequestParts,
  systemRuntime,
  type Transport,
} from "@quiverdb/client/transport";
import { type CallLimits, type Database, turned } from "@quiverdb/engine/database/contract";
import { isQuiverError, QuiverError } from "@quiverdb/protocol/errors";
import { type Route, type RouteName, routes } from "@quiverdb/protocol/routes";
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

  async request<R extends RouteName>(route: R, parts: RequestParts = {}): Promise<AnswerOf<R>> {
    try {
      return await this.#answer(route, parts);
    } finally {
      const turning = turned();
      if (turning !== undefined) await turning;
    }
  }

  async #answer<R extends RouteName>(route: R, parts: RequestParts): Promise<AnswerOf<R>> {
    const { params = {}, query = {}, body, upload, call } = parts;
    checkCallOptions(call);
    call?.signal?.throwIfAborted();
    if (!Object.hasOwn(calls, route)) throw serverOnly(route);
    const act = calls[route as EmbeddedRoute] as (call: EmbeddedCall<RouteName>) => unknown;
    const request = {
      database: this.#database,
      params,
      query,
      body: withPlainFilters(body),
      upload,
      options: limitsOf(parts),
    };
    try {
      return (await act(request as never)) as AnswerOf<R>;
    } catch (error) {
      throw withStatusOf(route, error);
    }
  }

  async text(route: RouteName, parts: RequestParts = {}): Promise<string> {
    if (route !== "getVector") return JSON.stringify(await this.request(route, parts));
    const { collection_id = "", vector_id = "" } = parts.params ?? {};
    try {
      return this.#database.collection(collection_id).get(vector_id).toJson();
    } finally {
      await turned();
    }
  }

  async open(route: RouteName, parts: RequestParts = {}): Promise<Response> {
    checkCallOptions(parts.call);
    try {
      if (route === "exportVectors") return await exportResponse(this.#database, parts, limitsOf(parts));
      if (route === "downloadSnapshot") return snapshotResponse(this.#database, parts);
      throw serverOnly(route);
    } finally {
      await turned();
    }
  }

  close(): Promise<void> {
    return this.#database.close();
  }
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
  const isFiltered = (query: unknown) =>
    typeof query === "object" && query !== null && "filter" in query && query.filter != null;
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

/** The error with the status that the server gives on this route: the same condition has different ones on different routes. */
function withStatusOf(route: RouteName, error: unknown): unknown {
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
