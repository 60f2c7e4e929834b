// What does a route file give, and what is its handler given?

import type { IncomingMessage } from "node:http";
import type { Database, Deadline } from "@quiver/engine/database/contract";
import type { RouteName, routes } from "@quiver/protocol/routes";
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

export type Call<Name extends RouteName> = {
  readonly database: Database;
  readonly gate: Gate;
  readonly audit: AuditLog;
  /** What the caller may do. The role, and a collection named in path or body, are checked already. */
  readonly access: Access;
  /** Of the other end of the connection. */
  readonly address: string;
  /** What the audit log names beside the path's parameters; a handler adds what only it knows. */
  readonly names: Record<string, string>;
  /** Percent-decoded. */
  readonly params: { readonly [Parameter in PathParameter<RouteOf<Name>["path"]>]: string };
  readonly query: Query;
  /** Checked against the route's shape; of an upload the request itself, unread. */
  readonly body: BodyOf<Name>;
  /** For how long the client waits. */
  readonly deadline: Deadline;
  /** The request's time slices. */
  readonly work: Work;
  /** What `body` was parsed from; there where the route takes a body. */
  readonly parsed: ParsedBody;
};

/** A handler throws `QuiverError`; the status of its success and of its errors stands in the list of routes. */
export type Handlers<Names extends RouteName> = {
  readonly [Name in Names]: (call: Call<Name>) => AnswerOf<Name>;
};
