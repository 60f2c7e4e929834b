// How does each entry of the list of routes become an endpoint?
//
// Invariant: every entry of `routes` is registered exactly once, and nothing under the data paths beside them. The types
// see to it that each has a handler; `registerRoutes` asserts the rest when the server starts.

import type { Database } from "@quiver/engine/database/contract";
import { type Route, type RouteName, routes } from "@quiver/protocol/routes";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Gate } from "../auth/gate.ts";
import { FileAnswer } from "../file-answer.ts";
import { Lines } from "../lines-answer.ts";
import { documentation } from "../operations/openapi.ts";
import { queryOf, type RawQuery } from "../request/query.ts";
import { collectionHandlers } from "./collections.ts";
import type { Call, Handlers } from "./handlers.ts";
import { indexHandlers } from "./indexes.ts";
import { searchHandlers } from "./search.ts";
import { sessionHandlers } from "./sessions.ts";
import { snapshotHandlers } from "./snapshots.ts";
import { streamingHandlers } from "./streaming.ts";
import { transactionHandlers } from "./transactions.ts";
import { vectorHandlers } from "./vectors.ts";
import { versionHandlers } from "./versions.ts";

/** What Fastify keeps for each endpoint. */
export type EndpointConfig = {
  /** The entry of the list of routes; absent for the endpoints of operation and documentation. */
  readonly route?: Route;
  /** True where no key is asked for. */
  readonly isPublic?: boolean;
};

const families = [
  collectionHandlers,
  indexHandlers,
  searchHandlers,
  transactionHandlers,
  vectorHandlers,
  streamingHandlers,
  versionHandlers,
  snapshotHandlers,
  sessionHandlers,
] as const;

const handlers: Handlers<RouteName> = {
  ...collectionHandlers,
  ...indexHandlers,
  ...searchHandlers,
  ...transactionHandlers,
  ...vectorHandlers,
  ...streamingHandlers,
  ...versionHandlers,
  ...snapshotHandlers,
  ...sessionHandlers,
};

type AnyHandler = (call: Call<RouteName>) => unknown;

/** `/a/{b}` as Fastify writes it: `/a/:b`. */
export const pattern = (path: string) => path.replaceAll(/\{(\w+)\}/g, ":$1");

/** @throws Error when an entry has no handler, or two */
export function registerRoutes(app: FastifyInstance, database: Database, gate: Gate): void {
  const registered: string[] = [];
  for (const [name, route] of Object.entries(routes) as [RouteName, Route][]) {
    const files = families.filter((family) => name in family).length;
    if (files !== 1) throw new Error(`route ${name} has ${files} handlers`);
    register(app, name, route, database, gate);
    registered.push(`${route.method} ${pattern(route.path)}`);
  }
  if (new Set(registered).size !== Object.keys(routes).length) throw new Error("two routes have one path");
}

function register(app: FastifyInstance, name: RouteName, route: Route, database: Database, gate: Gate): void {
  const handler = handlers[name] as AnyHandler;
  const hasOwnHead = Object.values(routes as Record<string, Route>).some(
    (other) => other.method === "HEAD" && other.path === route.path,
  );
  const config = {
    route,
    isPublic: name === "createSession",
    swagger: { exposeHeadRoute: route.method === "HEAD" },
    swaggerTransform: documentation(name, route) as never,
  };
  app.route({
    method: route.method,
    url: pattern(route.path),
    // Every GET also answers HEAD, where the list does not have a HEAD of its own.
    exposeHeadRoute: route.method === "GET" && !hasOwnHead && route.mediaType === undefined,
    schema: route.body ? { body: route.body } : {},
    config,
    handler: async (request, reply) => answer(request, reply),
  });

  async function answer(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const call = {
      database,
      gate,
      params: request.params,
      query: queryOf(request.query as RawQuery, route),
      body: request.body,
      bodyText: request.bodyText,
    } as unknown as Call<RouteName>;
    const answered = await handler(call);
    reply.code(route.status);
    if (route.answer === undefined) return reply.send();
    if (answered instanceof FileAnswer) return answered.send(reply, request.headers.range);
    if (answered instanceof Lines)
      return reply
        .headers(answered.headers)
        .type(`${route.mediaType}; charset=utf-8`)
        .send(answered.stream());
    return reply.type("application/json; charset=utf-8").send(answered);
  }
}
