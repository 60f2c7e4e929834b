// What does a route file export, and what do its handlers receive?

import type { IncomingMessage } from "node:http";
import type { Database, Deadline, RestrictedDatabase } from "@quiverdb/engine/database/contract";
import type { ThreadCollection } from "@quiverdb/engine/database/threads/thread-database";
import type { RouteName, routes } from "@quiverdb/protocol/routes";
import type { Filter } from "@quiverdb/protocol/shapes/filter";
import type { Static, TSchema } from "typebox";
import type { Work } from "../admission.ts";
import type { AuditLog } from "../audit/audit-log.ts";
import type { Access } from "../auth/access.ts";
import type { Gate } from "../auth/gate.ts";
import type { FileAnswer } from "../file-answer.ts";
import type { JsonPieces, JsonText } from "../json-answer.ts";
import type { Lines } from "../lines-answer.ts";
import type { ParsedBody } from "../request/json.ts";
import type { Query } from "../request/query.ts";

type RouteOf<Name extends RouteName> = (typeof routes)[Name];

type PathParameter<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? Name | PathParameter<Rest>
  : never;

type BodyOf<Name extends RouteName> =
  RouteOf<Name> extends { readonly upload: true }
    ? IncomingMessage | undefined
    : RouteOf<Name> extends { readonly body: infer Shape extends TSchema }
      ? Static<Shape>
      : undefined;

type AnswerOf<Name extends RouteName> =
  RouteOf<Name> extends { readonly mediaType: infer Media }
    ? Media extends "application/octet-stream"
      ? FileAnswer
      : Lines | Promise<Lines>
    : RouteOf<Name> extends { readonly answer: TSchema }
      ? JsonText | Promise<JsonText | JsonPieces>
      : void | Promise<void>;

/** Searches that serving threads answer themselves. */
export const threadSearches = [
  "searchDense",
  "searchBatchDense",
  "searchSparse",
  "searchBatchSparse",
  "searchText",
  "searchBatchText",
  "searchHybrid",
  "searchBatchHybrid",
] as const satisfies readonly RouteName[];

/** All routes that serving threads answer themselves; the others are the owner's. */
export const threadRoutes = [
  ...threadSearches,
  "streamingUpsert",
  "streamingDelete",
  "streamingDeleteAlias",
] as const satisfies readonly RouteName[];

/** The part of a database that they use. */
export type ThreadServed = { collection(name: string): ThreadCollection };

/** In a serving thread: the same for a caller with a filter. */
export type ThreadDatabases = ThreadServed & { restrictedTo(filter: Filter): ThreadServed };

/** A route that takes keys with a filter gets a database that has only what such keys may use. */
type DatabaseOf<Name extends RouteName> = Name extends (typeof threadRoutes)[number]
  ? ThreadServed
  : RouteOf<Name> extends { readonly rows: string }
    ? Database | RestrictedDatabase
    : Database;

export type Call<Name extends RouteName> = {
  readonly database: DatabaseOf<Name>;
  readonly gate: Gate;
  readonly audit: AuditLog;
  /** The caller's permissions. The role, and a collection named in path or body, are already checked. */
  readonly access: Access;
  /** Remote address of the connection. */
  readonly address: string;
  /** Names for the audit log in addition to the path parameters; a handler adds those that only it knows. */
  readonly names: Record<string, string>;
  /** Percent-decoded. */
  readonly params: { readonly [Parameter in PathParameter<RouteOf<Name>["path"]>]: string };
  readonly query: Query;
  /** Validated against the route's shape; for an upload, the unread request itself. */
  readonly body: BodyOf<Name>;
  /** How long the client waits. */
  readonly deadline: Deadline;
  /** The request's time slices. */
  readonly work: Work;
  /** The source text of `body`, if the route has a body. */
  readonly parsed: ParsedBody;
};

/** A handler throws `QuiverError`; the list of routes has the status of success and of errors. */
export type Handlers<Names extends RouteName> = {
  readonly [Name in Names]: (call: Call<Name>) => AnswerOf<Name>;
};
