// How do the methods of a database reach it?
//
// There are two ways: over HTTP (http-transport.ts), and in the same process (@quiverdb/database). Both take the names of operations, and
// give the same answers and errors. What differs is the form in which vectors and records are passed on.

import { QuiverError } from "@quiverdb/protocol/errors";
import { refuseUnknownOptions } from "@quiverdb/protocol/fields";
import type { AnswerOf, OperationName } from "./endpoints.ts";
import type { DenseValues, RawRecord, RecordInput } from "./record.ts";

/** Options of a single call. */
export type CallOptions = {
  /** Aborts the call, which then throws the signal's reason. */
  signal?: AbortSignal;
  /** Milliseconds for this request including all retries. */
  timeoutMs?: number;
  /** Maximum number of retries of this request. */
  retries?: number;
  /**
   * Of a write, 1 to 255 printable ASCII characters, such as a random UUID: a request with the same key is answered alike for 24 hours, and not
   * done again. So with a key every write is sent again after a lost answer. A write of several requests is not split.
   */
  idempotencyKey?: string;
};

/** On what a write depends: `ifMatch`: it is refused with `record_changed` unless this version wrote the record. */
export type IfMatch = { ifMatch?: number };

/** Options of calls that write many records. */
export type BatchOptions = {
  /** Maximum number of records in one request. Default 1,000. */
  batchRecords?: number;
  /** Maximum size of one request's body in bytes. Default 8 MiB. */
  batchBytes?: number;
  /**
   * Number of concurrent requests. Default 1. With more, two records with the same id in different requests may be applied in either order.
   */
  concurrency?: number;
  /** Called when the number of acknowledged records, counted from the first one on, has grown. */
  onProgress?: (progress: { acknowledged: number }) => void;
};

/** Options of all calls, and additional ones of calls that send records or commit. */
const callOptions: readonly (keyof (CallOptions & BatchOptions) | "waitForIndex")[] = [
  "signal",
  "timeoutMs",
  "retries",
  "idempotencyKey",
  "batchRecords",
  "batchBytes",
  "concurrency",
  "onProgress",
  "waitForIndex",
];

/** @throws QuiverError unknown_field for an unknown option; invalid_request for a time that is not above 0, or a wrong key */
export function checkCallOptions(call: CallOptions | undefined): void {
  refuseUnknownOptions(call, callOptions);
  const { timeoutMs, idempotencyKey: key } = call ?? {};
  if (key !== undefined && !/^[\x20-\x7e]{1,255}$/.test(key))
    throw new QuiverError(
      "invalid_request",
      "idempotencyKey must be 1 to 255 printable ASCII characters, such as a random UUID.",
      { path: "idempotencyKey" },
    );
  if (timeoutMs !== undefined && !(timeoutMs > 0))
    throw new QuiverError(
      "invalid_request",
      `timeoutMs must be a number above 0 (milliseconds), not ${timeoutMs}.`,
      { path: "timeoutMs" },
    );
}

/** The error for a part of an address that nothing can have. */
export const invalidSegment = (name: string, value: unknown, why: string): QuiverError =>
  new QuiverError("invalid_request", `${name} ${JSON.stringify(value)} ${why}`, { path: name });

/**
 * A part of an address, percent-encoded.
 * @param name of the parameter, for messages
 * @throws QuiverError invalid_request
 */
export function encodeSegment(name: string, value: string | undefined): string {
  if (typeof value !== "string") throw invalidSegment(name, value, "is not a string.");
  if (value === "") throw invalidSegment(name, value, "is empty; expected at least one character.");
  try {
    return encodeURIComponent(value);
  } catch {
    throw invalidSegment(name, value, "has half of a surrogate pair, which UTF-8 cannot represent.");
  }
}

export type Runtime = {
  /** Milliseconds since 1970. */
  now(): number;
  /** At least 0, below 1. */
  random(): number;
  /** Resolves after `ms` milliseconds; rejects with the signal's reason if it aborts before. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
};

export const systemRuntime: Runtime = {
  now: () => Date.now(),
  random: () => Math.random(),
  sleep: (ms, signal) =>
    new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason);
      const stop = () => {
        clearTimeout(timer);
        reject(signal.reason);
      };
      const timer = setTimeout(() => {
        signal.removeEventListener("abort", stop);
        resolve();
      }, ms);
      signal.addEventListener("abort", stop, { once: true });
    }),
};

const delayStepMs = 100;
const delayMaxMs = 5_000;

/**
 * Milliseconds to wait before a retry: random between 0 and a step that doubles with each retry, up to a maximum.
 * @param retries that were made before
 */
export function retryDelayMs(retries: number, { random }: Pick<Runtime, "random">): number {
  return Math.round(random() * Math.min(delayMaxMs, delayStepMs * 2 ** Math.min(retries, 20)));
}

/** The parts of a request besides its endpoint. */
export type RequestParts = {
  params?: Readonly<Record<string, string>>;
  query?: Readonly<Record<string, string | undefined>>;
  /** A value to send as JSON, or bytes of the `contentType`. */
  body?: unknown;
  /** Default: application/json. */
  contentType?: string;
  /** Returns the bytes of a file to send, anew for every attempt. */
  upload?: () => ReadableStream<Uint8Array> | Blob;
  /** Headers of this request only. */
  headers?: Readonly<Record<string, string>>;
  call?: CallOptions;
  /** `refused`: it is sent again only if it was certainly not executed. Default: as its operation says. */
  repeat?: "refused";
  /** True if an earlier call may already have executed the request. */
  inDoubt?: boolean;
  /**
   * Called when a request that may already have been executed gets an error response. It returns if the request was executed and throws if
   * not.
   */
  settle?: (error: QuiverError) => Promise<void>;
};

/** The form in which vectors and records are passed on. */
export interface Form<Part = unknown> {
  /** A query's vector. */
  vector(values: DenseValues): unknown;
  /**
   * A record, and its approximate size in bytes.
   * @param position of the record in the caller's array, for messages; null: it is no array
   * @throws QuiverError invalid_vector for what no database could store
   */
  record(record: RecordInput<unknown> | RawRecord, position: number | null): { part: Part; bytes: number };
  /** The body of a request that writes records, and the body of one that writes a single record. */
  records(parts: readonly Part[]): Pick<RequestParts, "body" | "contentType">;
  single(part: Part): Pick<RequestParts, "body" | "contentType">;
}

/** A way to a database. */
export interface Transport {
  readonly runtime: Runtime;
  readonly form: Form;
  /** How often an interrupted download is resumed in a row, unless a call says otherwise. */
  readonly retries: number;
  /** Executes an operation and returns its answer. */
  request<R extends OperationName>(route: R, parts?: RequestParts): Promise<AnswerOf<R>>;
  /** Like `request`, but returns the JSON text of the answer. */
  text(route: OperationName, parts?: RequestParts): Promise<string>;
  /** Returns the answer with its body unread. */
  open(route: OperationName, parts?: RequestParts): Promise<Response>;
  /** Ends what `open` began; nothing over HTTP. */
  close(): Promise<void>;
}
