// Which steps does every request pass through?
//
//   headers are there   request id, accounting  ->  stopping?  ->  CORS  ->  key  ->  known path and method?  ->  role
//                       ->  room? (admission)
//   body arrives        counted, limited                                  (request/)
//   its turn            waits for a place and a time slice                (admission); all that follows goes in slices
//   body is there       UTF-8, JSON  ->  missing?  ->  unknown fields  ->  shape
//                                                                         (request/, protocol/shapes, protocol/fields)
//   key still valid?    it can have been revoked meanwhile                (auth/access)
//   endpoint            engine                                            (engine/operations)
//   answer              JSON text as it is; errors through one table      (error-answer)
//   answer is out       log line, metrics, bytes given back
//
// A request is refused at the earliest step that can refuse it, and nothing is changed before the last check.
//
// A hook that can answer at once takes a callback: a promise costs a round of microtasks. Fastify reads no body: what it would do for each
// is more than the reading itself (docs/decisions/rest-path.md).

import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import cors from "@fastify/cors";
import { type Database, Task } from "@quiverdb/engine/database/contract";
import { QuiverError } from "@quiverdb/protocol/errors";
import { refuseUnknownFields } from "@quiverdb/protocol/fields";
import { limits } from "@quiverdb/protocol/limits";
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import type { TSchema } from "typebox";
import { Accounting } from "./accounting.ts";
import { Admission, type Work } from "./admission.ts";
import type { AuditLog } from "./audit/audit-log.ts";
import { type Access, type Need, strictestNeed } from "./auth/access.ts";
import { type Gate, refuseTwoKeys } from "./auth/gate.ts";
import { type ClusterSide, positionHeader } from "./cluster-side.ts";
import type { CompleteServerConfig } from "./config.ts";
import type { Connections } from "./connections.ts";
import { type EndpointConfig, registerOperations, type ThreadDatabases } from "./endpoints/register.ts";
import { errorAnswer } from "./error-answer.ts";
import { type Counts, FairShare } from "./fair-share.ts";
import { asksForPage, registerConsole, sendUnknownPage } from "./operations/console.ts";
import { docsPath, registerDocs } from "./operations/docs.ts";
import { registerHealth, registerLive } from "./operations/health.ts";
import { registerLlms } from "./operations/llms.ts";
import type { ServerLog } from "./operations/log.ts";
import { Metrics, type ThreadMetrics } from "./operations/metrics.ts";
import { registerOpenapi, serveOpenapi } from "./operations/openapi.ts";
import type { RequestTrace, Tracing } from "./operations/tracing.ts";
import { arrivingBytes, BodyShare, readBody } from "./request/body.ts";
import { checkBody } from "./request/body-fields.ts";
import { inviteBody, isUninvited } from "./request/early-answer.ts";
import { type ParsedBody, parseBody, parseLines } from "./request/json.ts";
import { type CheckShape, checkLongArrays, type Schema } from "./request/large-validation.ts";
import { bodyFormatOf, uploadFault } from "./request/media-type.ts";
import { parseMsgpack } from "./request/msgpack.ts";
import { parseQuery } from "./request/query.ts";
import { type ShapeFault, shapeError, validatorOptions } from "./request/validation.ts";
import { Waits } from "./request/waits.ts";
import { addressOf, type OwnerSocket } from "./threads/forwarding.ts";
import type { SharedLimit } from "./threads/shared-counts.ts";
import { createHttpServer, createOwnerServer, headersBytesMax, refuseUnreadable } from "./transport.ts";
import { KnownPaths } from "./unknown-route.ts";

type RequestListener = (request: IncomingMessage, response: ServerResponse) => void;

declare module "fastify" {
  interface FastifyRequest {
    /** What its endpoint is; asking Fastify for it makes a new object each time. */
    endpoint: EndpointConfig & { readonly url?: string };
    /** The body before parsing; absent if there is none. */
    parsedBody: ParsedBody | undefined;
    bodyShare: BodyShare | undefined;
    /** The caller; absent if the endpoint needs no key. */
    access: Access | undefined;
    /** How long the client waits, and whether it is still connected. */
    waits: Waits;
    /** The request's place and its time slices. */
    work: Work;
    /** Present if requests are traced. */
    trace: RequestTrace | undefined;
  }
  interface FastifyContextConfig extends EndpointConfig {}
}

/** The application of the thread that owns the database: every endpoint. */
export type OwnerParts = {
  readonly database: Database;
  readonly audit: AuditLog;
  /** Where serving threads forward to; absent: this thread takes the connections. */
  readonly socket?: OwnerSocket | undefined;
  /** What the serving threads have counted. */
  readonly threadMetrics: ThreadMetrics;
};

/** The application of a serving thread: the operations that serving threads run. */
export type ThreadParts = {
  readonly database: ThreadDatabases;
  /** Answers what is not for this thread. */
  readonly forward: RequestListener;
  /** Whether a request is for this thread. */
  readonly isOwn: (request: IncomingMessage) => boolean;
};

/** What the threads of a server count together. */
export type SharedLimits = {
  /** How many take connections. */
  readonly threads: number;
  countsOf(limit: SharedLimit): Counts;
};

export type ApplicationParts = {
  readonly config: CompleteServerConfig;
  readonly owner?: OwnerParts;
  readonly thread?: ThreadParts;
  /** Absent where one thread does it all. */
  readonly shared?: SharedLimits | undefined;
  /** Of a node of a cluster. */
  readonly cluster?: ClusterSide | undefined;
  readonly gate: Gate;
  readonly log: ServerLog;
  /** Absent if nobody wants traces. */
  readonly tracing?: Tracing | undefined;
  readonly connections: Connections;
  /** True from the start of a stop. */
  readonly isStopping: () => boolean;
  /** True before that, when the requests in progress are to end soon. Default: as `isStopping`. */
  readonly isEnding?: () => boolean;
  /** Collections by their aliases; replaced when one changes. */
  readonly aliases: { readonly current: ReadonlyMap<string, string> };
  /** Version of the program, for the API reference. */
  readonly version: string;
};

export type Application = { readonly app: FastifyInstance; readonly metrics: Metrics };

export async function createApplication(parts: ApplicationParts): Promise<Application> {
  const { config, owner, thread, shared, cluster, gate, connections, isStopping } = parts;
  const counts = (limit: SharedLimit) => shared?.countsOf(limit);
  const budget = new FairShare(config.bodiesInMemoryBytesMax, undefined, counts("bodies"));
  const answers = new FairShare(config.answersInMemoryBytesMax, undefined, counts("answers"));
  const admission = new Admission(config.queueWaitMs, config.keyRequestsMax, answers, {
    threads: thread === undefined ? 1 : (shared?.threads ?? 1),
    requests: counts("requests"),
  });
  const metrics = new Metrics(
    owner?.database,
    () => budget.taken,
    () => answers.taken,
    admission,
  );
  const account = new Accounting(parts.log, metrics, connections, answers, config.answerStallMs);
  const paths = new KnownPaths();
  const privateTexts = [config.dataDir];

  const app: FastifyInstance = Fastify({
    logger: false,
    genReqId: requestIdOf,
    bodyLimit: config.bodyLimitBytes,
    ajv: { customOptions: validatorOptions },
    schemaErrorFormatter: (faults) => shapeError(faults as unknown as ShapeFault[]),
    // The operations define which GET endpoints answer HEAD.
    exposeHeadRoutes: true,
    routerOptions: {
      maxParamLength: headersBytesMax,
      querystringParser: parseQuery as never,
    },
    forceCloseConnections: "idle",
    return503OnClosing: false,
    serverFactory: (listener) => {
      const own = listener as unknown as RequestListener;
      if (owner?.socket) return createOwnerServer(config, connections, own, owner.socket);
      const server = createHttpServer(
        config,
        connections,
        thread ? divided(own, thread) : cluster ? passing(own, cluster) : own,
        parts.log.logger,
      );
      const count = counts("connections");
      if (thread && count) connections.limit(server, count, config.connectionsMax);
      return server;
    },
    clientErrorHandler: (error, socket) => {
      const requestId = randomUUID();
      refuseUnreadable(error, socket as never, connections, requestId, (status) =>
        account.unreadable(requestId, status),
      );
    },
    frameworkErrors: (error, request, reply) => {
      const { request: asRequest, reply: asReply } = plain(request, reply);
      account.begin(asRequest, asReply);
      void (async () => enter(asRequest))().then(
        () => sendError(error, asRequest, asReply),
        (refusal: unknown) => sendError(refusal, asRequest, asReply),
      );
    },
  });

  app.decorateRequest("endpoint", undefined as never);
  app.decorateRequest("parsedBody", undefined);
  app.decorateRequest("bodyShare", undefined);
  app.decorateRequest("access", undefined);
  app.decorateRequest("waits", undefined as never);
  app.decorateRequest("work", undefined as never);
  app.decorateRequest("trace", undefined);
  // Responses are JSON text already, or a small object; their schemas serve only the API reference.
  app.setSerializerCompiler(() => (value) => JSON.stringify(value));
  app.addHook("onRoute", ({ method, url }) => {
    for (const each of Array.isArray(method) ? method : [method]) paths.add(each, url);
  });

  app.addHook("onRequest", (request, reply, done) => {
    account.begin(request, reply);
    if (isStopping() && request.endpoint.url !== "/health/live") {
      throw new QuiverError("shutting_down", "The server is stopping. Send the request again later.");
    }
    done();
  });
  if (config.corsOrigins.length > 0) {
    await app.register(cors, {
      origin: config.corsOrigins.includes("*") ? "*" : [...config.corsOrigins],
      methods: ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"],
      exposedHeaders: [
        "x-request-id",
        "x-quiver-version",
        "x-quiver-count",
        "x-quiver-sha256",
        "x-quiver-hash",
        "x-quiver-position",
        "content-range",
        "retry-after",
      ],
      maxAge: 600,
      strictPreflight: false,
    });
  }
  app.addHook("onRequest", (request, reply, done) => {
    const isUnknown = () => paths.methodsOf(request.raw.url ?? "/").length === 0;
    if (request.is404 && asksForPage(request.raw) && isUnknown()) {
      void sendUnknownPage(reply, config.console);
      return;
    }
    const need = needFor(request);
    const behind = need.role === "anyone" ? undefined : cluster?.catalogReached(request.headers);
    const entering =
      need.role === "anyone"
        ? undefined
        : behind === undefined
          ? enter(request)
          : behind.then(() => enter(request));
    if (entering instanceof Promise)
      entering.then((access) => admit(request, need, access, done)).catch(done);
    else admit(request, need, entering, done);
  });
  const admit = (
    request: FastifyRequest,
    need: Need,
    access: Access | undefined,
    done: (error?: Error) => void,
  ): void => {
    request.access = access;
    if (request.is404) throw paths.errorFor(request.method, request.raw.url ?? "/");
    const { params } = request as { params: Record<string, string> };
    const given = params.collection_id;
    // From here on the request is one for the collection itself: whatever the alias stands for next.
    if (parts.aliases.current.size > 0 && given !== undefined)
      params.collection_id = parts.aliases.current.get(given) ?? given;
    access?.require(need, params.collection_id);
    for (const name in params) if (params[name] === "") throw paths.errorFor(request.method, "");
    const body = declaredBody(request.raw);
    const { operation, name } = request.endpoint;
    if (operation === undefined || name === undefined) {
      done();
      return;
    }
    const kind = operation.work;
    const key = payerOf(request);
    const times = {
      defaultMs: kind === "search" ? config.requestDeadlineMs : undefined,
      maxMs: config.requestDeadlineMaxMs,
      workMs: kind === "export" || kind === "feed" ? undefined : config.requestWorkMaxMs,
    };
    const payer = {
      key,
      weight: access?.weight,
      group: params.collection_id,
      expectedMs: operation.upload ? 0 : bodyMsPerByte * (body?.expectedBytes ?? 0),
    };
    if (parts.tracing !== undefined)
      request.trace = parts.tracing.request(
        request.method,
        request.endpoint.url ?? "unknown",
        request.headers,
        params.collection_id,
      );
    request.waits = new Waits(request.raw, times, payer, access, request.trace, operation);
    request.work = admission.arrive({ kind, key, deadline: request.waits.deadline });
    if (body === undefined || bodyless.has(request.method)) done();
    else if (operation.upload) {
      request.body = acceptUpload(request.raw, body);
      done();
    } else void takeBody(request, body).then(() => done(), done);
  };
  app.addHook("preValidation", (request, _reply, done) => {
    const { operation, name } = request.endpoint;
    if (operation === undefined || name === undefined) return done();
    request.body = checkBody(operation, name, request.body);
    const schema = operation.body as Schema | undefined;
    const parsed = request.parsedBody;
    if (schema === undefined || parsed === undefined) return done();
    // Fastify validates a body without its long arrays. Floats are numbers already; other long arrays are validated here, in steps.
    if (parsed.floatsField !== undefined)
      request.body = { ...(parsed.value as object), [parsed.floatsField]: [] };
    if (parsed.spans === undefined) return done();
    const check: CheckShape = (part, value) => {
      const validate = request.compileValidationSchema(part as Record<string, unknown>);
      return validate(value) ? undefined : (validate.errors as unknown as ShapeFault[]);
    };
    void request.work.task.finish(checkLongArrays(schema, request.body, check)).then((shell) => {
      request.body = shell;
      done();
    }, done);
  });
  app.addHook("preHandler", (request, _reply, done) => {
    if (request.validationError) {
      // An unknown field may be a misspelt required one, so it is named first. Of a large body only the part without long arrays is left
      // here.
      refuseUnknownFields(request.endpoint.operation?.body as TSchema, request.body);
      throw request.validationError;
    }
    if (request.parsedBody !== undefined) request.body = request.parsedBody.value;
    // Other endpoints, such as metrics and pages, queue as well. Health is always answered at once.
    if (request.work !== undefined || request.endpoint.url?.startsWith("/health/")) return done();
    void new Task({ key: payerOf(request) }).slice().then(() => done(), done);
  });
  if (cluster !== undefined) {
    app.addHook("preHandler", (request, _reply, done) => {
      const before = request.work === undefined ? undefined : cluster.before(request);
      if (before === undefined) return done();
      request.waits.deadline.race(before).then(() => done(), done);
    });
    app.addHook("onSend", (request, reply, payload, done) => {
      reply.header(positionHeader, cluster.position(request));
      const united = reply.statusCode === 200 ? cluster.united(request, payload) : undefined;
      if (united === undefined) done();
      else united.then((text) => done(null, text), done);
    });
  }
  app.addHook("onSend", (request, reply, payload, done) => {
    if (isStopping()) reply.header("connection", "close");
    const bytes =
      typeof payload === "string" ? payload.length : Number(reply.getHeader("content-length") ?? 0);
    account.holds(request, reply, payerOf(request), bytes);
    // The answers of the endpoints of the list are watched once they were sent; pages and metrics from here on.
    if (request.work === undefined) account.watch(reply);
    // When a stream fails, the status was already sent: the connection is cut, and only the log has the reason.
    if (payload instanceof Readable)
      payload.once("error", (error) => {
        cluster?.told(error, request);
        const { serverFault } = errorAnswer(error, request.endpoint.operation, request.id, privateTexts);
        account.cut(request, error, serverFault);
      });
    done();
  });
  app.setErrorHandler((error, request, reply) => sendError(error, request, reply));
  app.setNotFoundHandler((request) => {
    throw paths.errorFor(request.method, request.raw.url ?? "/");
  });

  const isEnding = parts.isEnding ?? isStopping;
  const endpoints = { gate, isEnding, watch: account.watch, onAuditError: account.fault };
  if (owner !== undefined) {
    const { database, audit } = owner;
    await registerOpenapi(app, parts.version);
    registerOperations(app, { ...endpoints, database, audit });
    registerHealth(app, database, config.clock, () => cluster?.degraded());
    if (cluster !== undefined) {
      cluster.register(app);
      metrics.describeCluster(() => cluster.status());
    }
    metrics.register(app, owner.threadMetrics, config.clock, (err) =>
      parts.log.logger.error({ err }, "the metrics of the last hour could not be read"),
    );
    serveOpenapi(app);
    registerDocs(app);
    registerLlms(app);
    if (config.console) registerConsole(app);
  } else if (thread !== undefined) {
    registerOperations(
      app,
      { ...endpoints, database: thread.database, audit: undefined },
      ({ threads }) => threads === true,
    );
    registerLive(app);
  }
  await app.ready();
  return { app, metrics };

  /** What is for this thread is answered here; a thread that stops refuses everything itself. */
  function divided(own: RequestListener, { isOwn, forward }: ThreadParts): RequestListener {
    return (request, response) => (isOwn(request) || isStopping() ? own : forward)(request, response);
  }

  /** A node answers others for its shards; a request for a collection that it does not serve it passes on. */
  function passing(own: RequestListener, side: ClusterSide): RequestListener {
    return (request, response) => {
      if (!isStopping() && side.answersNode(request, response)) return;
      const answer = () => {
        if (isStopping() || !side.passesOn(request, response)) own(request, response);
      };
      const resolved = side.resolves(request);
      if (resolved === undefined) answer();
      else void resolved.then(answer);
    };
  }

  /** @throws invalid_request, unauthorized, rate_limited */
  function enter(request: FastifyRequest): Access | Promise<Access> {
    refuseTwoKeys(request.raw.rawHeaders);
    return gate.enter(request.headers, addressOf(request.raw));
  }

  /** Reads and parses the body of a request. */
  async function takeBody(request: FastifyRequest, body: DeclaredBody): Promise<void> {
    const { raw, work } = request;
    const share = new BodyShare(budget, payerOf(request));
    request.bodyShare = share;
    const { operation } = request.endpoint;
    const format = bodyFormatOf(
      body.mediaType,
      raw.headers["content-encoding"],
      operation?.records === "vectors",
    );
    const fault = () => (typeof format === "string" ? undefined : format);
    // A body in chunks can be empty, and an empty one needs no type. A declared type tells that there is one, and so does `Expect`.
    const isCertain = body.bytes > 0 || body.mediaType !== undefined || isUninvited(raw);
    if (typeof format !== "string" && isCertain) throw format;
    const bytes = await readBody(raw, body.bytes, share, config.bodyLimitBytes, fault, () =>
      arrivalTask(request),
    );
    if (bytes === undefined) return;
    // Parsing the body is the first work of a request.
    await work.begin();
    const steps =
      format === "msgpack"
        ? parseMsgpack(bytes)
        : format === "ndjson"
          ? parseLines(bytes)
          : parseBody(bytes, operation?.vectorField);
    const parsed = work.task.begin(steps);
    request.parsedBody = parsed instanceof Promise ? await parsed : parsed;
    request.body = request.parsedBody.value;
  }

  function sendError(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
    if (request.waits?.isGone || (request.raw.destroyed && !request.raw.complete)) {
      // The client disconnected before the response, so the error has no recipient.
      reply.hijack();
      return;
    }
    const told = cluster === undefined ? error : cluster.told(error, request);
    const answer = errorAnswer(told, request.endpoint.operation, request.id, privateTexts);
    const { code, details } = answer.body.error;
    if (answer.serverFault) account.fault(request, error);
    if (answer.status === 401) reply.header("www-authenticate", "Bearer");
    if (answer.status === 503 || answer.status === 429) {
      reply.header("retry-after", String(details.retry_after_seconds ?? 1));
    }
    if (code === "method_not_allowed") reply.header("allow", (details.allowed as string[]).join(", "));
    reply.code(answer.status).type("application/json; charset=utf-8").send(JSON.stringify(answer.body));
    if (request.work !== undefined) account.watch(reply);
  }
}

/** Estimated work per byte of a body, in milliseconds. */
const bodyMsPerByte = 30 / 2 ** 20;

/** What the headers say of a body. */
type DeclaredBody = {
  readonly mediaType: string | undefined;
  /** Content-Length; NaN if there is none. */
  readonly bytes: number;
  /** If there is no Content-Length: the size that is parsed in one step. */
  readonly expectedBytes: number;
};

/** Methods whose body is not read. */
const bodyless = new Set(["GET", "HEAD", "TRACE"]);

/**
 * What a request says of its body; undefined if it has none. Its headers are removed, because Fastify would read the body again, and rejects
 * a Content-Type that it cannot parse even if the body is empty.
 */
function declaredBody({ headers }: IncomingMessage): DeclaredBody | undefined {
  const {
    "content-type": mediaType,
    "content-length": length,
    "transfer-encoding": transferEncoding,
  } = headers;
  headers["content-type"] = undefined;
  headers["content-length"] = undefined;
  headers["transfer-encoding"] = undefined;
  const bytes = length === undefined ? Number.NaN : Number(length);
  if (transferEncoding !== undefined) return { mediaType, bytes, expectedBytes: limits.bodyPieceBytes };
  return bytes > 0 ? { mediaType, bytes, expectedBytes: bytes } : undefined;
}

/** The task in whose slices a body is read. Reading has the lowest priority among the work of a key, so started work comes first. */
const arrivalTask = (request: FastifyRequest): Task =>
  new Task({
    key: payerOf(request),
    group: "bodies",
    expectedMs: Number.POSITIVE_INFINITY,
    arrivingBytes,
  });

/** The account that a request is charged to. */
const payerOf = ({ access }: FastifyRequest): string => access?.payer ?? "nobody";

/** The body of an upload is not read here: its handler streams it. */
function acceptUpload(request: IncomingMessage, { mediaType }: DeclaredBody): IncomingMessage {
  const fault = uploadFault(mediaType, request.headers["content-encoding"]);
  if (fault !== undefined) throw fault;
  inviteBody(request);
  return request;
}

/** The client's own id if it is well-formed, so that logs on both sides can be joined. */
function requestIdOf(request: { headers: IncomingMessage["headers"] }): string {
  const given = request.headers["x-request-id"];
  return typeof given === "string" && /^[\w.:-]{1,128}$/.test(given) ? given : randomUUID();
}

function needFor({ endpoint: { need, url } }: FastifyRequest): Need {
  if (need !== undefined) return need;
  const isDocs = url === docsPath || url?.startsWith(`${docsPath}/`);
  return isDocs ? { role: "anyone", collections: "nowhere", takesFilter: true } : strictestNeed;
}

/** Fastify's type for the arguments of `frameworkErrors` lacks the defaults of its own generics. */
function plain(request: unknown, reply: unknown) {
  return { request: request as FastifyRequest, reply: reply as FastifyReply };
}
