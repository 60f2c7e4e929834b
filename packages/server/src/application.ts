// Which steps does every request pass through?
//
//   headers are there   request id, accounting  ->  stopping?  ->  CORS  ->  key  ->  known path and method?  ->  role
//                       ->  room? (admission)
//   body arrives        counted, limited                                  (request/)
//   its turn            waits for a place and a time slice                (admission); all that follows goes in slices
//   body is there       UTF-8, JSON  ->  missing?  ->  unknown fields  ->  shape
//                                                                         (request/, protocol/shapes, protocol/fields)
//   key still valid?    it can have been revoked meanwhile                (auth/access)
//   endpoint            engine                                            (routes/)
//   answer              JSON text as it is; errors through one table      (error-answer)
//   answer is out       log line, metrics, bytes given back
//
// A request is refused at the earliest step that can refuse it, and nothing is changed before the last check.

import { randomUUID } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import cors from "@fastify/cors";
import { type Database, Task } from "@quiver/engine/database/contract";
import { QuiverError } from "@quiver/protocol/errors";
import { refuseUnknownFields } from "@quiver/protocol/fields";
import { limits } from "@quiver/protocol/limits";
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import type { Logger } from "pino";
import type { TSchema } from "typebox";
import { Admission, kindOf, type Work } from "./admission.ts";
import type { AuditLog } from "./audit/audit-log.ts";
import { type Access, type Need, needOf, strictestNeed } from "./auth/access.ts";
import { type Gate, refuseTwoKeys } from "./auth/gate.ts";
import type { CompleteServerConfig } from "./config.ts";
import type { Connections } from "./connections.ts";
import { errorAnswer } from "./error-answer.ts";
import { FairShare } from "./fair-share.ts";
import { docsPath, registerDocs } from "./operations/docs.ts";
import { registerHealth } from "./operations/health.ts";
import { Metrics } from "./operations/metrics.ts";
import { registerOpenapi, serveOpenapi } from "./operations/openapi.ts";
import { arrivingBytes, BodyShare, drain, readBody } from "./request/body.ts";
import { checkBody } from "./request/body-fields.ts";
import { type ParsedBody, parseBody } from "./request/json.ts";
import { type CheckShape, checkLongArrays, type Schema } from "./request/large-validation.ts";
import { mediaTypeFault, uploadFault } from "./request/media-type.ts";
import { parseQuery } from "./request/query.ts";
import { type ShapeFault, shapeError, validatorOptions } from "./request/validation.ts";
import { Waits } from "./request/waits.ts";
import { type EndpointConfig, registerRoutes } from "./routes/register.ts";
import { createHttpServer, headersBytesMax, refuseUnreadable } from "./transport.ts";
import { KnownPaths } from "./unknown-route.ts";

declare module "fastify" {
  interface FastifyRequest {
    /** The body before parsing; absent if there is none. */
    parsedBody: ParsedBody | undefined;
    /** The client's Content-Type. For Fastify every body is JSON, so that our own reader decides. */
    declaredMediaType: string | undefined;
    bodyShare: BodyShare | undefined;
    /** The caller; absent if the endpoint needs no key. */
    access: Access | undefined;
    /** How long the client waits, and whether it is still connected. */
    waits: Waits;
    /** The request's place and its time slices. */
    work: Work;
  }
  interface FastifyContextConfig extends EndpointConfig {}
}

export type ApplicationParts = {
  readonly config: CompleteServerConfig;
  readonly database: Database;
  readonly gate: Gate;
  readonly audit: AuditLog;
  readonly logger: Logger;
  readonly connections: Connections;
  /** True from the start of a stop. */
  readonly isStopping: () => boolean;
  /** Version of the program, for the API reference. */
  readonly version: string;
};

/** How long a client may continue to send a body after it was answered. */
const lingerMs = 10_000;

/** Smaller responses are not counted, because socket buffers hold them. */
const countedAnswerBytes = 16 * 1024;

/** Status in log and metrics for a request whose client disconnected before the response. */
const clientGone = 499;

export async function createApplication(parts: ApplicationParts): Promise<FastifyInstance> {
  const { config, database, gate, connections, isStopping } = parts;
  const budget = new FairShare(config.bodiesInMemoryBytesMax);
  const answers = new FairShare(config.answersInMemoryBytesMax);
  const admission = new Admission(config.queueWaitMs, config.keyRequestsMax, answers);
  const metrics = new Metrics(
    database,
    () => budget.taken,
    () => answers.taken,
    admission,
  );
  const account = accounting(parts.logger, metrics, connections);
  const paths = new KnownPaths();
  const privateTexts = [config.dataDir];

  const app: FastifyInstance = Fastify({
    logger: false,
    genReqId: requestIdOf,
    bodyLimit: config.bodyLimitBytes,
    ajv: { customOptions: validatorOptions },
    schemaErrorFormatter: (faults) => shapeError(faults as unknown as ShapeFault[]),
    // The list of routes defines which GET endpoints answer HEAD.
    exposeHeadRoutes: true,
    routerOptions: {
      maxParamLength: headersBytesMax,
      querystringParser: parseQuery as never,
    },
    forceCloseConnections: "idle",
    return503OnClosing: false,
    serverFactory: (listener) => createHttpServer(config, connections, listener as never, parts.logger),
    clientErrorHandler: (error, socket) => {
      const requestId = randomUUID();
      refuseUnreadable(error, socket as never, connections, requestId, (status) =>
        account.unreadable(requestId, status),
      );
    },
    frameworkErrors: (error, request, reply) => {
      const { request: asRequest, reply: asReply } = plain(request, reply);
      account.begin(asRequest, asReply);
      try {
        enter(asRequest);
        sendError(error, asRequest, asReply);
      } catch (refusal) {
        sendError(refusal, asRequest, asReply);
      }
    },
  });

  app.decorateRequest("parsedBody", undefined);
  app.decorateRequest("declaredMediaType", undefined);
  app.decorateRequest("bodyShare", undefined);
  app.decorateRequest("access", undefined);
  app.decorateRequest("waits", undefined as never);
  app.decorateRequest("work", undefined as never);
  // Responses are JSON text already, or a small object; their schemas serve only the API reference.
  app.setSerializerCompiler(() => (value) => JSON.stringify(value));
  app.addHook("onRoute", ({ method, url }) => {
    for (const each of Array.isArray(method) ? method : [method]) paths.add(each, url);
  });

  app.addHook("onRequest", (request, reply, done) => {
    account.begin(request, reply);
    if (isStopping() && request.routeOptions.url !== "/health/live") {
      throw new QuiverError("shutting_down", "The server is stopping. Send the request again later.");
    }
    done();
  });
  if (config.corsOrigins.length > 0) {
    await app.register(cors, {
      origin: config.corsOrigins.includes("*") ? "*" : [...config.corsOrigins],
      methods: ["GET", "HEAD", "POST", "DELETE"],
      exposedHeaders: [
        "x-request-id",
        "x-quiver-version",
        "x-quiver-count",
        "x-quiver-sha256",
        "x-quiver-hash",
        "content-range",
        "retry-after",
      ],
      maxAge: 600,
      strictPreflight: false,
    });
  }
  app.addHook("onRequest", (request, reply, done) => {
    const need = needFor(request);
    const access = need.role === "anyone" ? undefined : enter(request);
    request.access = access;
    if (request.is404) throw paths.errorFor(request.method, request.raw.url ?? "/");
    const { params } = request as { params: Record<string, string> };
    access?.require(need, params.collection_id);
    for (const name in params) if (params[name] === "") throw paths.errorFor(request.method, "");
    declareJson(request);
    const { route, name } = request.routeOptions.config;
    if (route !== undefined && name !== undefined) {
      const kind = kindOf(name);
      const key = payerOf(request);
      const times = {
        defaultMs: kind === "search" ? config.requestDeadlineMs : undefined,
        maxMs: config.requestDeadlineMaxMs,
        workMs: kind === "export" ? undefined : config.requestWorkMaxMs,
      };
      const payer = {
        key,
        weight: access?.weight,
        group: params.collection_id,
        expectedMs: route.upload ? 0 : bodyMsPerByte * declaredBytes(request),
      };
      request.waits = new Waits(request.raw, reply.raw, times, payer, access);
      const work = admission.arrive({ kind, key, deadline: request.waits.deadline });
      request.work = work;
      reply.raw.once("close", () => work.left());
    }
    done();
  });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", async (request: FastifyRequest, stream: IncomingMessage) => {
    const share = new BodyShare(budget, payerOf(request));
    request.bodyShare = share;
    const { declaredMediaType } = request;
    if (request.routeOptions.config.route?.upload) return acceptUpload(request, stream);
    const bytes = await readBody(
      stream,
      share,
      config.bodyLimitBytes,
      () => mediaTypeFault(declaredMediaType, request.headers["content-encoding"]),
      arrivalTask(request),
    );
    if (bytes === undefined) return undefined;
    // Parsing the body is the first work of a request, if its path exists.
    if (request.work === undefined) return undefined;
    await request.work.begin();
    request.parsedBody = await request.work.task.finish(parseBody(bytes));
    return request.parsedBody.value;
  });
  app.addHook("preValidation", async (request) => {
    const { route, name } = request.routeOptions.config;
    if (route === undefined || name === undefined) return;
    checkBody(route, name, request.body);
    // Fastify validates a large body without its long arrays; those are validated here, in steps.
    const schema = route.body as Schema | undefined;
    if (schema === undefined || request.parsedBody?.spans === undefined) return;
    const check: CheckShape = (part, value) => {
      const validate = request.compileValidationSchema(part as Record<string, unknown>);
      return validate(value) ? undefined : (validate.errors as unknown as ShapeFault[]);
    };
    request.body = await request.work.task.finish(checkLongArrays(schema, request.body, check));
  });
  // Other endpoints, such as metrics and pages, queue as well. Health is always answered at once.
  app.addHook("preHandler", async (request) => {
    if (request.work !== undefined || request.routeOptions.url?.startsWith("/health/")) return;
    await new Task({ key: payerOf(request) }).slice();
  });
  app.addHook("preHandler", (request, _reply, done) => {
    if (request.validationError) {
      // An unknown field may be a misspelt required one, so it is named first. Of a large body only the part without long arrays is left
      // here.
      refuseUnknownFields(request.routeOptions.config.route?.body as TSchema, request.body);
      throw request.validationError;
    }
    if (request.parsedBody !== undefined) request.body = request.parsedBody.value;
    done();
  });
  app.addHook("onSend", (request, reply, payload, done) => {
    if (isStopping()) reply.header("connection", "close");
    // When a stream fails, the status was already sent: the connection is cut, and only the log has the reason.
    hold(
      request,
      reply,
      typeof payload === "string" ? payload.length : Number(reply.getHeader("content-length") ?? 0),
    );
    if (payload instanceof Readable) payload.once("error", (error) => account.fault(request, error));
    done();
  });
  app.setErrorHandler((error, request, reply) => sendError(error, request, reply));
  app.setNotFoundHandler((request) => {
    throw paths.errorFor(request.method, request.raw.url ?? "/");
  });

  await registerOpenapi(app, parts.version);
  registerRoutes(app, { database, gate, audit: parts.audit, onAuditError: account.fault });
  registerHealth(app, database);
  metrics.register(app);
  serveOpenapi(app);
  await registerDocs(app);
  await app.ready();
  return app;

  /** @throws invalid_request, unauthorized, rate_limited */
  function enter(request: FastifyRequest): Access {
    refuseTwoKeys(request.raw.rawHeaders);
    return gate.enter(request.headers, request.ip);
  }

  /** Counts a response until the client has read it, and aborts it if the client reads nothing for too long. */
  function hold(request: FastifyRequest, reply: FastifyReply, bytes: number): void {
    reply.raw.setTimeout(config.answerStallMs, () => reply.raw.socket?.destroy());
    if (bytes < countedAnswerBytes) return;
    const key = payerOf(request);
    answers.force(key, bytes);
    reply.raw.once("close", () => answers.giveBack(key, bytes));
  }

  function sendError(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
    if (request.waits?.isGone || (request.raw.destroyed && !request.raw.complete)) {
      // The client disconnected before the response, so the error has no recipient.
      reply.hijack();
      return;
    }
    const answer = errorAnswer(error, request.routeOptions.config.route, request.id, privateTexts);
    // Without this, a source that has lost its reader would be read at full speed.
    if (!request.raw.complete && request.raw.listenerCount("data") === 0)
      drain(request.raw, arrivalTask(request));
    const { code, details } = answer.body.error;
    if (answer.serverFault) account.fault(request, error);
    // Fastify closes the connection after a fault in a body. Here the body was read completely or is being discarded, so the connection can
    // stay open.
    if (reply.hasHeader("connection")) reply.removeHeader("connection");
    if (answer.status === 401) reply.header("www-authenticate", "Bearer");
    if (answer.status === 503 || answer.status === 429) {
      reply.header("retry-after", String(details.retry_after_seconds ?? 1));
    }
    if (code === "method_not_allowed") reply.header("allow", (details.allowed as string[]).join(", "));
    reply.code(answer.status).type("application/json; charset=utf-8").send(JSON.stringify(answer.body));
  }
}

/** Estimated work per byte of a body, in milliseconds. */
const bodyMsPerByte = 30 / 2 ** 20;

/** Declared length of a request's body; if it declares none, the size that is parsed in one step. */
function declaredBytes({ raw }: FastifyRequest): number {
  if (raw.headers["transfer-encoding"] !== undefined) return limits.bodyPieceBytes;
  return Number(raw.headers["content-length"] ?? 0);
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
function acceptUpload(request: FastifyRequest, stream: IncomingMessage): IncomingMessage {
  const fault = uploadFault(request.declaredMediaType, request.headers["content-encoding"]);
  if (fault === undefined) return stream;
  stream.on("error", () => undefined).resume();
  throw fault;
}

/** The log line, the numbers and the memory of each request. */
function accounting(logger: Logger, metrics: Metrics, connections: Connections) {
  return {
    begin(request: FastifyRequest, reply: FastifyReply): void {
      const begun = performance.now();
      const { raw } = request;
      reply.header("x-request-id", request.id);
      metrics.requestBegins();
      connections.begin(raw, reply.raw);
      reply.raw.once("finish", () => linger(raw));
      reply.raw.once("close", () => {
        request.bodyShare?.end();
        const ms = performance.now() - begun;
        const status = reply.raw.writableFinished ? reply.raw.statusCode : clientGone;
        const route = request.is404 ? "unknown" : (request.routeOptions.url ?? "unknown");
        metrics.requestEnds(route, request.method, status, ms / 1000);
        logger.info(
          { request_id: request.id, method: request.method, route, status, ms: Math.round(ms * 100) / 100 },
          "request",
        );
      });
    },
    unreadable(requestId: string, status: number): void {
      metrics.requestBegins();
      metrics.requestEnds("unreadable", "other", status, 0);
      logger.info({ request_id: requestId, route: "unreadable", status }, "request");
    },
    fault(request: FastifyRequest, error: unknown): void {
      const route = request.routeOptions.url ?? "unknown";
      logger.error({ request_id: request.id, method: request.method, route, err: error }, "request failed");
    },
  };
}

/** After an early response Node.js continues to read the request, so that the client can read the response; this limits for how long. */
function linger(request: IncomingMessage): void {
  if (request.complete) return;
  const timer = setTimeout(() => request.socket.destroy(), lingerMs);
  timer.unref();
  request.once("close", () => clearTimeout(timer));
}

/** The client's own id if it is well-formed, so that logs on both sides can be joined. */
function requestIdOf(request: { headers: IncomingMessage["headers"] }): string {
  const given = request.headers["x-request-id"];
  return typeof given === "string" && /^[\w.:-]{1,128}$/.test(given) ? given : randomUUID();
}

function needFor(request: FastifyRequest): Need {
  const { url, config } = request.routeOptions;
  if (url === docsPath || url?.startsWith(`${docsPath}/`)) return { role: "anyone", collections: "nowhere" };
  return config.route ? needOf(config.route) : (config.need ?? strictestNeed);
}

/**
 * Fastify selects a parser by the content type, and rejects a header that it cannot parse even if the body is empty. So all bodies go to
 * one parser, which knows the declared type.
 */
function declareJson(request: FastifyRequest): void {
  const { headers } = request.raw;
  request.declaredMediaType = headers["content-type"];
  const hasBody = headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
  if (hasBody) headers["content-type"] = "application/json";
  else delete headers["content-type"];
}

/** Fastify's type for the arguments of `frameworkErrors` lacks the defaults of its own generics. */
function plain(request: unknown, reply: unknown) {
  return { request: request as FastifyRequest, reply: reply as FastifyReply };
}
