// How is each entry of the list of routes registered as an endpoint?
//
// Invariant: every entry of `routes` is registered exactly once, and nothing under the data paths beside them. The types ensure that each
// has a handler; `registerRoutes` asserts the rest when the server starts.

import { Readable } from "node:stream";
import type { Database } from "@quiverdb/engine/database/contract";
import { isQuiverError } from "@quiverdb/protocol/errors";
import { invariant } from "@quiverdb/protocol/invariant";
import { type Route, type RouteName, routes } from "@quiverdb/protocol/routes";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { AuditedChange, AuditLog } from "../audit/audit-log.ts";
import { type Access, type Need, needOf, nobody } from "../auth/access.ts";
import type { Gate } from "../auth/gate.ts";
import { FileAnswer } from "../file-answer.ts";
import { JsonPieces } from "../json-answer.ts";
import { Lines } from "../lines-answer.ts";
import { documentation } from "../operations/openapi.ts";
import { queryOf, type RawQuery } from "../request/query.ts";
import { addressOf } from "../threads/forwarding.ts";
import { collectionHandlers } from "./collections.ts";
import type { Call, Handlers, ThreadDatabases } from "./handlers.ts";
import { indexHandlers } from "./indexes.ts";
import { keyHandlers } from "./keys.ts";
import { matchingHandlers } from "./matching.ts";
import { searchHandlers } from "./search.ts";
import { sessionHandlers } from "./sessions.ts";
import { snapshotHandlers } from "./snapshots.ts";
import { streamingHandlers } from "./streaming.ts";
import { transactionHandlers } from "./transactions.ts";
import { vectorHandlers } from "./vectors.ts";
import { versionHandlers } from "./versions.ts";

/** What Fastify stores for each endpoint. */
export type EndpointConfig = {
  /** The entry of the list of routes; absent for operational and documentation endpoints. */
  readonly route?: Route;
  readonly name?: RouteName;
  /** What it requires of its callers; by default the strictest requirement. */
  readonly need?: Need;
};

/** The dependencies of the endpoints. */
export type EndpointParts = {
  /** In a serving thread, what its routes use. */
  readonly database: Database | ThreadDatabases;
  readonly gate: Gate;
  /** Absent in a serving thread, none of whose routes is audited. */
  readonly audit: AuditLog | undefined;
  /** Called when a response was sent. */
  readonly watch: (reply: FastifyReply) => void;
  /** Called when the outcome of a change could not be written to the audit log. */
  readonly onAuditError: (request: FastifyRequest, error: unknown) => void;
};

const families = [
  collectionHandlers,
  indexHandlers,
  searchHandlers,
  transactionHandlers,
  vectorHandlers,
  matchingHandlers,
  streamingHandlers,
  versionHandlers,
  snapshotHandlers,
  sessionHandlers,
  keyHandlers,
] as const;

const handlers: Handlers<RouteName> = {
  ...collectionHandlers,
  ...indexHandlers,
  ...searchHandlers,
  ...transactionHandlers,
  ...vectorHandlers,
  ...matchingHandlers,
  ...streamingHandlers,
  ...versionHandlers,
  ...snapshotHandlers,
  ...sessionHandlers,
  ...keyHandlers,
};

type AnyHandler = (call: Call<RouteName>) => unknown;

/** `/a/{b}` in Fastify's notation: `/a/:b`. */
export const pattern = (path: string) => path.replaceAll(/\{(\w+)\}/g, ":$1");

/**
 * @param names default: all
 * @throws Error when an entry has no handler, or two
 */
export function registerRoutes(
  app: FastifyInstance,
  parts: EndpointParts,
  names?: readonly RouteName[],
): void {
  const registered: string[] = [];
  const all = Object.entries(routes) as [RouteName, Route][];
  const served = names === undefined ? all : all.filter(([name]) => names.includes(name));
  for (const [name, route] of served) {
    const files = families.filter((family) => name in family).length;
    if (files !== 1) throw new Error(`route ${name} has ${files} handlers`);
    register(app, name, route, parts);
    registered.push(`${route.method} ${pattern(route.path)}`);
  }
  if (new Set(registered).size !== served.length) throw new Error("two routes have one path");
}

/**
 * The database as it is for a caller. The only place where the filter of a key is applied: what a handler gets here has no way around it.
 */
function databaseFor(database: EndpointParts["database"]): (access: Access) => unknown {
  const restricted = new WeakMap<Access, unknown>();
  return (access) => {
    if (access.filter === null) return database;
    const known = restricted.get(access);
    if (known !== undefined) return known;
    const made = database.restrictedTo(access.filter);
    restricted.set(access, made);
    return made;
  };
}

function register(app: FastifyInstance, name: RouteName, route: Route, parts: EndpointParts): void {
  const handler = handlers[name] as AnyHandler;
  const hasOwnHead = Object.values(routes as Record<string, Route>).some(
    (other) => other.method === "HEAD" && other.path === route.path,
  );
  const need = needOf(route);
  const config = {
    route,
    name,
    need,
    swagger: { exposeHeadRoute: route.method === "HEAD" },
    swaggerTransform: documentation(name, route) as never,
  };
  app.route({
    method: route.method,
    url: pattern(route.path),
    // Every GET also answers HEAD, unless the list has a separate HEAD entry.
    exposeHeadRoute: route.method === "GET" && !hasOwnHead && route.mediaType === undefined,
    schema: route.body ? { body: route.body } : {},
    // A hook reports validation faults, because it checks for unknown fields first.
    attachValidation: true,
    config,
    handler: answer,
  });
  const databaseOf = databaseFor(parts.database);
  const isBodyName = need.collections === "body.name";

  async function answer(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const access: Access = request.access ?? nobody;
    const params = request.params as Record<string, string>;
    const call = {
      database: databaseOf(access),
      gate: parts.gate,
      audit: parts.audit,
      access,
      address: addressOf(request.raw),
      names: {},
      params,
      query: queryOf(request.query as RawQuery, route),
      body: request.body,
      parsed: request.parsedBody,
      work: request.work,
      deadline: request.waits.deadline,
    } as unknown as Call<RouteName>;
    if (isBodyName) access.requireCollection(bodyName(request) ?? "");
    // It has begun already if there was a body.
    if (request.parsedBody === undefined) await request.work.begin();
    let answered: unknown;
    try {
      if (route.audited) {
        invariant(parts.audit !== undefined, `${name} is audited, and there is no audit log`);
        answered = await recorded(parts.audit, request, access, call, route.audited);
      } else {
        access.requireValid();
        answered = await handler(call);
      }
    } finally {
      request.work.end();
    }
    reply.code(route.status);
    send(request, reply, answered);
    parts.watch(reply);
    return reply;
  }

  function send(request: FastifyRequest, reply: FastifyReply, answered: unknown): void {
    if (typeof answered === "string") reply.type("application/json; charset=utf-8").send(answered);
    else if (route.answer === undefined) reply.send();
    else if (answered instanceof FileAnswer) answered.send(reply, request.headers.range);
    else if (answered instanceof Lines)
      reply.headers(answered.headers).type(`${route.mediaType}; charset=utf-8`).send(answered.stream());
    else {
      invariant(
        answered instanceof JsonPieces,
        () => `the handler of ${name} has returned ${typeof answered}`,
      );
      reply
        .type("application/json; charset=utf-8")
        .header("content-length", answered.bytes)
        .send(Readable.from(answered.pieces, { objectMode: false }));
    }
  }

  /** Executes a change between its two lines in the audit log. */
  async function recorded(
    audit: AuditLog,
    request: FastifyRequest,
    access: Access,
    call: Call<RouteName>,
    fields: readonly string[],
  ): Promise<unknown> {
    const { names } = call;
    for (const [what, text] of Object.entries(call.params)) names[what] = short(text);
    for (const field of fields) {
      const text = textOf(fieldOf(request.body, field));
      if (text !== undefined) names[field] = text;
    }
    const change = (): AuditedChange => ({
      operation: name,
      who: access.who,
      what: { ...names },
      request_id: request.id,
      address: addressOf(request.raw),
    });
    const outcome = async (phase: "done" | "failed", code?: string) => {
      try {
        await audit.record(change(), phase, code);
      } catch (error) {
        parts.onAuditError(request, error);
      }
    };
    await audit.record(change(), "begun");
    let answered: unknown;
    try {
      access.requireValid();
      answered = await handler(call);
    } catch (error) {
      await outcome("failed", isQuiverError(error) ? error.code : "internal");
      throw error;
    }
    await outcome("done");
    return answered;
  }
}

/** No valid name is longer; rejected names must not fill the log. */
const short = (text: string) => text.slice(0, 300);

/** The audit log's form of a value of a body; undefined if the value is absent. */
function textOf(value: unknown): string | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value === "string") return short(value);
  // A list is recorded completely; the request's shape limits its length.
  if (Array.isArray(value)) return JSON.stringify(value.map((each) => short(String(each))));
  return short(JSON.stringify(value));
}

/** @param path `a.b`: the field b of a */
function fieldOf(body: unknown, path: string): unknown {
  let found = body;
  for (const field of path.split(".")) found = (found as Record<string, unknown> | null | undefined)?.[field];
  return found;
}

/** The `name` of a body that has one. */
function bodyName(request: FastifyRequest): string | undefined {
  const { name } = (request.body ?? {}) as { name?: unknown };
  return typeof name === "string" ? name : undefined;
}
