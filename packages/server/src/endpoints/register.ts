// How does each operation become an endpoint?
//
// A request is validated and admitted by the application's hooks. Here it becomes a call of the operation, and the answer a response; changes
// that the audit log records are between two of its lines.
//
// Invariant: every operation is registered exactly once, and nothing under the data paths beside them.

import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import type { Database } from "@quiverdb/engine/database/contract";
import {
  type CallParts,
  runOperation,
  type ServerSide,
  type ThreadServed,
} from "@quiverdb/engine/operations/operation";
import { allOperations, type Operation, type OperationName } from "@quiverdb/engine/operations/operations";
import { readParameters } from "@quiverdb/engine/operations/parameters";
import { isQuiverError, QuiverError } from "@quiverdb/protocol/errors";
import { invariant } from "@quiverdb/protocol/invariant";
import type { Filter } from "@quiverdb/protocol/shapes/filter";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { AuditedChange, AuditLog } from "../audit/audit-log.ts";
import { type Access, type Need, needOf, nobody } from "../auth/access.ts";
import type { Gate } from "../auth/gate.ts";
import { FileAnswer } from "../file-answer.ts";
import { Lines } from "../lines-answer.ts";
import { documentation } from "../operations/openapi.ts";
import type { ParsedBody } from "../request/json.ts";
import { queryOf, type RawQuery } from "../request/query.ts";
import { addressOf } from "../threads/forwarding.ts";
import { decodeBody } from "./decode.ts";
import { type Encoded, encodeAnswer, RecordList } from "./encode.ts";
import { eventStream, type Page } from "./events.ts";

/** In a serving thread: what it serves, and the same for a caller with a filter. */
export type ThreadDatabases = ThreadServed & { restrictedTo(filter: Filter): ThreadServed };

/** What Fastify stores for each endpoint. */
export type EndpointConfig = {
  /** Absent for operational and documentation endpoints. */
  readonly operation?: Operation;
  readonly name?: OperationName;
  /** What it requires of its callers; by default the strictest requirement. */
  readonly need?: Need;
};

/** The dependencies of the endpoints. */
export type EndpointParts = {
  /** In a serving thread, what its operations use. */
  readonly database: Database | ThreadDatabases;
  readonly gate: Gate;
  /** Absent in a serving thread, none of whose operations is audited. */
  readonly audit: AuditLog | undefined;
  /** Whether the server begins to stop, so that streams without an end are to end. */
  readonly isEnding: () => boolean;
  /** Called when a response was sent. */
  readonly watch: (reply: FastifyReply) => void;
  /** Called when the outcome of a change could not be written to the audit log. */
  readonly onAuditError: (request: FastifyRequest, error: unknown) => void;
};

/** `/a/{b}` in Fastify's notation: `/a/:b`. */
const pattern = (path: string) => path.replaceAll(/\{(\w+)\}/g, ":$1");

/** @param isServed of an operation; default: all */
export function registerOperations(
  app: FastifyInstance,
  parts: EndpointParts,
  isServed: (operation: Operation) => boolean = () => true,
): void {
  const served = allOperations.filter(([, operation]) => isServed(operation));
  for (const [name, operation] of served) register(app, name, operation, parts);
  const addresses = new Set(served.map(([, { method, path }]) => `${method} ${pattern(path)}`));
  if (addresses.size !== served.length) throw new Error("two operations have one path");
}

/**
 * The database as it is for a caller. The only place where the filter of a key is applied: what an operation gets here has no way around it.
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

function register(
  app: FastifyInstance,
  name: OperationName,
  operation: Operation,
  parts: EndpointParts,
): void {
  const hasOwnHead = allOperations.some(
    ([, { method, path }]) => method === "HEAD" && path === operation.path,
  );
  const need = needOf(operation);
  const config = {
    operation,
    name,
    need,
    swagger: { exposeHeadRoute: operation.method === "HEAD" },
    swaggerTransform: documentation(name, operation) as never,
  };
  app.route({
    method: operation.method,
    url: pattern(operation.path),
    // Every GET also answers HEAD, unless there is an operation for it.
    exposeHeadRoute: operation.method === "GET" && !hasOwnHead && operation.mediaType === undefined,
    schema: operation.body ? { body: operation.body } : {},
    // A hook reports validation faults, because it checks for unknown fields first.
    attachValidation: true,
    config,
    handler: answer,
  });
  const databaseOf = databaseFor(parts.database);
  const isBodyName = need.collections === "body.name";
  const { audited } = operation;

  async function answer(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const access: Access = request.access ?? nobody;
    const call: CallParts = {
      database: databaseOf(access),
      params: request.params as Record<string, string>,
      query: readParameters(operation.query, queryOf(request.query as RawQuery, operation.query)),
      body: request.body,
      upload: operation.upload ? uploadOf(request, access) : undefined,
      options: request.waits.deadline,
      reader: access.payer,
      reaches: (each) => access.reaches(each),
      server: operation.isOfServer ? serverSide(parts, request) : undefined,
    };
    if (isBodyName) access.requireCollection(bodyName(request) ?? "");
    // It has begun already if there was a body.
    if (request.parsedBody === undefined) await request.work.begin();
    if (operation.events === true && asksForEvents(request)) return sendEvents(request, reply, access, call);
    let encoded: Encoded;
    try {
      if (audited !== undefined) encoded = await recorded(request, access, call, audited);
      else {
        access.requireValid();
        encoded = await perform(request, access, call);
      }
    } finally {
      request.work.end();
    }
    reply.code(operation.status);
    send(request, reply, encoded);
    parts.watch(reply);
    return reply;
  }

  /** Sends pages as events until the client goes or the server stops. The first page may be refused like any other request. */
  async function sendEvents(
    request: FastifyRequest,
    reply: FastifyReply,
    access: Access,
    call: CallParts,
  ): Promise<FastifyReply> {
    const { work, headers } = request;
    const read = async (since: string | undefined, wait: number) => {
      access.requireValid();
      const query = { ...(call.query as object), since, wait_ms: wait };
      return (await runOperation(operation, { ...call, query })) as Page;
    };
    const end = work.hold();
    try {
      const lastId = headers["last-event-id"];
      const since = typeof lastId === "string" ? lastId : (call.query as { since?: string }).since;
      const first = await read(since, 0);
      const stream = eventStream(first, { read, isEnding: parts.isEnding, requestId: request.id });
      stream.once("close", end);
      reply.headers({ "cache-control": "no-store", "x-accel-buffering": "no" });
      reply.type("text/event-stream; charset=utf-8").send(stream);
    } catch (error) {
      end();
      throw error;
    } finally {
      work.end();
    }
    parts.watch(reply);
    return reply;
  }

  /** Runs the operation. @param names of the audit log, to which those of the answer are added */
  async function perform(
    { work, parsedBody }: FastifyRequest,
    access: Access,
    call: CallParts,
    names?: Record<string, string>,
  ): Promise<Encoded> {
    const { body, query } = call;
    const decoding = decodeBody(operation, body, parsedBody as ParsedBody, work.task);
    if (decoding !== undefined) await decoding;
    const ms = operation.expectedMs?.(body as never, query as never);
    const waits = ms === undefined ? undefined : work.expect(ms);
    if (waits !== undefined) await waits;
    const list = operation.oneByOne ? new RecordList() : undefined;
    const given = await runOperation(operation, list === undefined ? call : { ...call, take: list.take });
    if (operation.records !== undefined) parsedBody?.arena?.free();
    for (const [as, field] of Object.entries(operation.auditedAnswer ?? {}))
      if (names !== undefined) names[as] = String((given as Record<string, unknown>)[field]);
    if (list !== undefined) return list.end();
    return encodeAnswer(operation, given, body ?? query, work, access);
  }

  function send(request: FastifyRequest, reply: FastifyReply, encoded: Encoded): void {
    if (typeof encoded === "string") reply.type("application/json; charset=utf-8").send(encoded);
    else if (encoded === undefined) reply.send();
    else if (encoded instanceof FileAnswer) encoded.send(reply, request.headers.range);
    else if (encoded instanceof Lines)
      reply.headers(encoded.headers).type(`${operation.mediaType}; charset=utf-8`).send(encoded.stream());
    else
      reply
        .type("application/json; charset=utf-8")
        .header("content-length", encoded.bytes)
        .send(Readable.from(encoded.pieces, { objectMode: false }));
  }

  /** Executes a change between its two lines in the audit log. */
  async function recorded(
    request: FastifyRequest,
    access: Access,
    call: CallParts,
    fields: readonly string[],
  ): Promise<Encoded> {
    const { audit } = parts;
    invariant(audit !== undefined, `${name} is audited, and there is no audit log`);
    const names: Record<string, string> = {};
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
    let encoded: Encoded;
    try {
      access.requireValid();
      encoded = await perform(request, access, call, names);
    } catch (error) {
      await outcome("failed", isQuiverError(error) ? error.code : "internal");
      throw error;
    }
    await outcome("done");
    return encoded;
  }
}

const asksForEvents = ({ method, headers }: FastifyRequest): boolean =>
  method === "GET" && /(?:^|[\s,])text\/event-stream(?:$|[\s;,])/i.test(headers.accept ?? "");

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

/** The bytes of a file that arrives. They end with an error if the key was revoked or has expired meanwhile. */
async function* uploadOf({ body }: FastifyRequest, access: Access): AsyncGenerator<Uint8Array> {
  const source = (body as IncomingMessage | undefined) ?? Readable.from([]);
  // A rejected upload is not destroyed, so that the client can read the response (request/early-answer.ts).
  for await (const chunk of source.iterator({ destroyOnReturn: false })) {
    access.requireValid();
    yield chunk;
  }
  access.requireValid();
}

/** What only a server has, for a request. */
const serverSide = ({ gate, audit }: EndpointParts, request: FastifyRequest): ServerSide => ({
  logIn: (username, password) => gate.logIn(username, password, addressOf(request.raw)),
  get keys() {
    // A key created while anyone may create one would remain valid when the server is later started with authentication.
    if (gate.keys !== undefined) return gate.keys;
    throw new QuiverError(
      "forbidden",
      "The server runs without authentication, so it has no API keys. Start it with an admin key to manage them.",
    );
  },
  readAudit(limit) {
    invariant(audit !== undefined, "the audit log is read where there is none");
    return audit.read(limit);
  },
});
