// Does a response follow the interface?
//
// For every request: never a 500; an error has the shape of errors, a code of the table and its status; a success has the route's status
// and a body of the route's shape. No response reveals internals of the server.

import { createHash } from "node:crypto";
import { type Operation, operations } from "@quiverdb/engine/operations/operations";
import { type ErrorBody, type ErrorCode, errorKinds } from "@quiverdb/protocol/errors";
import { ErrorShape } from "@quiverdb/protocol/shapes/common";
import { VectorRecord } from "@quiverdb/protocol/shapes/vector";
import Type, { type TSchema } from "typebox";
import { Compile } from "typebox/compile";
import { adminKey } from "../server-process.ts";
import type { WireAnswer } from "./wire.ts";

type Check = (value: unknown) => string | undefined;

function checkOf(schema: TSchema): Check {
  const validator = Compile(schema);
  return (value) => {
    if (validator.Check(value)) return undefined;
    const [fault] = validator.Errors(value);
    return `${fault?.instancePath} ${fault?.message}`;
  };
}

const isError = checkOf(ErrorShape);
const isVectorRecord = checkOf(VectorRecord);
const count = Type.Integer({ minimum: 0 });
const isCounts = checkOf(
  Type.Object({ added: count, changed: count, removed: count }, { additionalProperties: false }),
);
const written = Type.Object(
  { op: Type.Enum(["added", "changed"]), id: Type.String(), vector: VectorRecord },
  { additionalProperties: false },
);
const removed = Type.Object(
  { op: Type.Literal("removed"), id: Type.String() },
  { additionalProperties: false },
);
const isDifference = checkOf(Type.Union([written, removed]));
const answerChecks = new Map<Operation, Check>();
for (const route of Object.values(operations) as Operation[]) {
  if (route.answer && route.mediaType === undefined) answerChecks.set(route, checkOf(route.answer));
}

const endpoints = (Object.values(operations) as Operation[]).map((route) => ({
  route,
  segments: route.path.split("/"),
}));

/** The operation of a request; a literal path segment wins over a parameter. */
export function routeOf(method: string, target: string): Operation | undefined {
  const segments = target.replace(/[?#].*$/s, "").split("/");
  const fitting = endpoints.filter(
    ({ route, segments: pattern }) =>
      (route.method === method || (method === "HEAD" && route.method === "GET")) &&
      pattern.length === segments.length &&
      pattern.every((part, i) => (part.startsWith("{") ? segments[i] !== "" : part === decoded(segments[i]))),
  );
  const fixedParts = (pattern: readonly string[]) => pattern.filter((part) => !part.startsWith("{")).length;
  // A GET also answers HEAD, unless the list has a separate HEAD.
  const rank = ({ route, segments: pattern }: (typeof endpoints)[number]) =>
    2 * fixedParts(pattern) + Number(route.method === method);
  return fitting.sort((a, b) => rank(b) - rank(a))[0]?.route;
}

function decoded(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}

/**
 * The fault of a response; undefined if there is none.
 * @param dataDir must not appear in it
 * @param method of the request, if it is known; otherwise only the rules for every response are checked
 * @param sent the body of the request
 */
export function faultOf(
  answer: WireAnswer,
  dataDir: string,
  method?: string,
  target?: string,
  sent?: Buffer,
): string | undefined {
  const { status, headers, body } = answer;
  const text = body.toString("utf8");
  if (!headers.has("x-request-id")) return "no x-request-id";
  if (headers.get("x-content-type-options") !== "nosniff") return "no x-content-type-options: nosniff";
  if (text.includes(dataDir)) return "the response contains the data directory";
  if (text.includes(adminKey)) return "the response contains the admin key";
  const route = method === undefined ? undefined : routeOf(method, target ?? "");
  if (status >= 400) return errorFault(answer, text, route, method === "HEAD");
  if (route === undefined || method === "HEAD") return undefined;
  if (route.mediaType === "application/octet-stream") return fileFault(answer);
  if (status !== route.status) return `status ${status}, the route promises ${route.status}`;
  if (route.mediaType !== undefined)
    return linesFault(answer, text, route === operations.diffVersions ? differenceFault : isVectorRecord);
  const check = answerChecks.get(route);
  if (check === undefined) return text === "" ? undefined : "an unexpected body";
  if (!headers.get("content-type")?.startsWith("application/json")) return "a success that is not JSON";
  const value = parsed(text);
  if (value === undefined) return "a success whose body is not JSON";
  return check(value) ?? orderFault(value, sent);
}

function errorFault(
  answer: WireAnswer,
  text: string,
  route: Operation | undefined,
  toHead: boolean,
): string | undefined {
  const { status, headers } = answer;
  if (status === 500) return "500";
  if (toHead) return text === "" ? undefined : "HEAD with a body";
  if (headers.get("content-type") !== "application/json; charset=utf-8") return "an error that is not JSON";
  const value = parsed(text);
  if (value === undefined) return "an error whose body is not JSON";
  const fault = isError(value);
  if (fault !== undefined) return `not the shape of errors: ${fault}`;
  const { code, message } = (value as ErrorBody).error;
  const kind = errorKinds[code as ErrorCode];
  if (kind === undefined) return `code ${code} is not in the table`;
  const expected = route?.statusOf?.[code] ?? kind.status;
  if (route !== undefined && status !== expected) return `status ${status} for ${code}, expected ${expected}`;
  if (message === "" || /\n\s+at /.test(message)) return "no message, or a stack";
  if (text.length > 20_000) return `an error of ${text.length} characters`;
  return undefined;
}

/** A file, or the range of it that a header requested. */
function fileFault({ status, headers, body }: WireAnswer): string | undefined {
  if (status !== 200 && status !== 206) return `status ${status} for a file`;
  const sha256 = createHash("sha256").update(body).digest("hex");
  return status === 200 && sha256 !== headers.get("x-quiver-sha256")
    ? "the file does not match its checksum"
    : undefined;
}

/** @param faultOfLine of the value of a line, and its number from 0 */
function linesFault(
  { headers }: WireAnswer,
  text: string,
  faultOfLine: (value: unknown, i: number) => string | undefined,
): string | undefined {
  const lines = text.split("\n").slice(0, -1);
  if (String(lines.length) !== headers.get("x-quiver-count"))
    return `${lines.length} lines, announced were ${headers.get("x-quiver-count")}`;
  for (const [i, line] of lines.entries()) {
    const fault = faultOfLine(parsed(line), i);
    if (fault !== undefined) return `line ${i} is not what it should be: ${fault}`;
  }
  return undefined;
}

/** The first line has numbers, each other one a record that differs. */
const differenceFault = (value: unknown, i: number): string | undefined =>
  i === 0 ? isCounts(value) : isDifference(value);

/** Search results have descending scores (Q4), unless the request is for diverse ones (Q26). */
function orderFault(value: unknown, sent: Buffer | undefined): string | undefined {
  const request = parsed(sent?.toString("utf8") ?? "") as { diversity?: unknown } | null | undefined;
  if (typeof request?.diversity === "number" && request.diversity > 0) return undefined;
  const answers = (Array.isArray(value) ? value : [value]) as { results?: { score: number }[] }[];
  for (const { results } of answers.filter((each) => Array.isArray(each?.results))) {
    if (results?.some(({ score }, i) => i > 0 && score > results[i - 1].score)) return "results out of order";
  }
  return undefined;
}

/** Undefined for invalid JSON. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
