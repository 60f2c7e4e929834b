// How are many records split into requests?
//
//   caller's records --form--> parts --pack--> batches --send, at most `concurrency` at once--> database
//
// A batch ends when it has `batchRecords` records or when one more would make its body larger than `batchBytes`; a single larger record is
// sent alone. Each request is atomic, but the call as a whole is not: when a request fails, the error has the number of acknowledged
// records from the first one on, and its positions refer to the caller's array.
//
// Invariant: when an error is thrown from this file, no request of the call is in progress.

import { QuiverError } from "@quiverdb/protocol/errors";
import { invariant } from "@quiverdb/protocol/invariant";
import { kindOf } from "@quiverdb/protocol/kind-of";
import { quiverError } from "./answer.ts";
import type { AnyMetadata } from "./filter-types.ts";
import type { RawRecord, RecordInput } from "./record.ts";
import type { BatchOptions, CallOptions, Form, RequestParts } from "./transport.ts";

const upsertDefaults = { batchRecords: 1_000, batchBytes: 8 * 1024 * 1024, concurrency: 1 } as const;

/** One record, or any number of them from an array, a generator or an asynchronous source. */
export type Records<Metadata = AnyMetadata> =
  | RecordInput<Metadata>
  | RawRecord
  | Iterable<RecordInput<Metadata> | RawRecord>
  | AsyncIterable<RecordInput<Metadata> | RawRecord>;

type AnyRecord = RecordInput<unknown> | RawRecord;

/** What has a condition or a key is one request. */
export const batchingOf = (
  options: BatchOptions & CallOptions,
  isConditional = false,
): BatchOptions & CallOptions =>
  isConditional || options.idempotencyKey !== undefined
    ? { ...options, batchRecords: Number.MAX_SAFE_INTEGER, batchBytes: Number.MAX_SAFE_INTEGER }
    : options;

/** What an upsert of many records has done. */
export type UpsertResult = {
  /** Records that the server has acknowledged: durable and, for a streaming upsert, searchable. */
  upserted: number;
  /** Number of requests sent. */
  requests: number;
};

type Batch = { readonly start: number; readonly parts: readonly unknown[] };

/**
 * Sends records in batches.
 * @param send sends one request's body and resolves when the server has acknowledged it
 * @throws QuiverError of the first request that failed, with `details.acknowledged`; any error that `records` throws
 */
export async function upsertInBatches(
  records: Records<unknown>,
  options: BatchOptions,
  form: Form,
  send: (body: Pick<RequestParts, "body" | "contentType">) => Promise<unknown>,
): Promise<UpsertResult> {
  const concurrency = atLeastOne("concurrency", options.concurrency ?? upsertDefaults.concurrency);
  const order = new AcknowledgedPrefix(options.onProgress);
  const underWay = new Set<Promise<void>>();
  let failure: { start: number; error: unknown } | undefined;
  let requests = 0;

  const sendBatch = async (batch: Batch) => {
    try {
      await send(form.records(batch.parts));
      order.acknowledge(batch.start, batch.parts.length);
    } catch (error) {
      // If several requests fail, the first one in the caller's order is reported.
      if (failure === undefined || batch.start < failure.start) {
        failure = { start: batch.start, error: rebase(error, batch) };
      }
    }
  };

  try {
    for await (const batch of batches(asSource(records), options, form)) {
      while (underWay.size >= concurrency) await Promise.race(underWay);
      if (failure) break;
      requests++;
      const sending = sendBatch(batch).finally(() => underWay.delete(sending));
      underWay.add(sending);
    }
  } catch (error) {
    failure ??= { start: Number.MAX_SAFE_INTEGER, error };
  }
  await Promise.all(underWay);
  invariant(underWay.size === 0, `${underWay.size} requests are under way at the end`);
  if (failure) throw withAcknowledged(failure.error, order.acknowledged);
  invariant(order.waiting === 0, `${order.waiting} acknowledged requests have a gap before them`);
  return { upserted: order.acknowledged, requests };
}

/** Counts the records that are acknowledged without a gap; batches are acknowledged in any order. */
class AcknowledgedPrefix {
  acknowledged = 0;
  readonly #waiting = new Map<number, number>();
  readonly #onProgress: BatchOptions["onProgress"];

  constructor(onProgress: BatchOptions["onProgress"]) {
    this.#onProgress = onProgress;
  }

  /** Requests that are acknowledged, and one before them is not. */
  get waiting(): number {
    return this.#waiting.size;
  }

  acknowledge(start: number, count: number): void {
    invariant(
      count > 0 && start >= this.acknowledged,
      `${count} records from ${start} on are acknowledged, and so are the first ${this.acknowledged}`,
    );
    this.#waiting.set(start, count);
    const before = this.acknowledged;
    for (;;) {
      const next = this.#waiting.get(this.acknowledged);
      if (next === undefined) break;
      this.#waiting.delete(this.acknowledged);
      this.acknowledged += next;
    }
    if (this.acknowledged > before) this.#onProgress?.({ acknowledged: this.acknowledged });
  }
}

async function* batches(
  records: Iterable<AnyRecord> | AsyncIterable<AnyRecord>,
  options: BatchOptions,
  form: Form,
): AsyncGenerator<Batch> {
  const countMax = atLeastOne("batchRecords", options.batchRecords ?? upsertDefaults.batchRecords);
  const bytesMax = atLeastOne("batchBytes", options.batchBytes ?? upsertDefaults.batchBytes);
  let start = 0;
  let parts: unknown[] = [];
  let bytes = 0;
  const take = (): Batch => {
    const batch = { start, parts };
    start += parts.length;
    parts = [];
    bytes = 0;
    return batch;
  };
  for await (const record of records) {
    const encoded = form.record(record, start + parts.length);
    const isFull = parts.length >= countMax || bytes + parts.length + encoded.bytes > bytesMax;
    if (parts.length > 0 && isFull) yield take();
    parts.push(encoded.part);
    bytes += encoded.bytes;
  }
  if (parts.length > 0) yield take();
}

function asSource(records: Records<unknown>): Iterable<AnyRecord> | AsyncIterable<AnyRecord> {
  if (typeof records === "object" && records !== null) {
    if (Symbol.iterator in records || Symbol.asyncIterator in records) {
      return records as Iterable<AnyRecord>;
    }
    return [records as AnyRecord];
  }
  throw new QuiverError(
    "invalid_request",
    `records is ${kindOf(records)}; expected a record or an iterable of records.`,
  );
}

/** The error of a batch, with positions of the caller's array instead of the request's. */
function rebase(error: unknown, batch: Batch): unknown {
  if (!(error instanceof QuiverError)) return error;
  const details = rebaseDetails(error.details, batch.start) as Record<string, unknown>;
  const unknownFate =
    error.code === "connection_failed" ? { in_doubt: [batch.start, batch.start + batch.parts.length] } : {};
  const message = rebaseText(error.message, batch.start);
  return quiverError(error.code, error.status, message, { ...details, ...unknownFate }, error);
}

function rebaseText(text: string, start: number): string {
  return text.replace(/\bvectors\[(\d+)\]/g, (_, index: string) => `vectors[${Number(index) + start}]`);
}

function rebaseDetails(value: unknown, start: number): unknown {
  if (typeof value === "string") return rebaseText(value, start);
  if (Array.isArray(value)) return value.map((item) => rebaseDetails(item, start));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, rebaseDetails(item, start)]));
}

function withAcknowledged(error: unknown, acknowledged: number): unknown {
  if (!(error instanceof QuiverError)) return error;
  const before =
    acknowledged > 0
      ? ` The first ${acknowledged === 1 ? "record was" : `${acknowledged} records were`} acknowledged.`
      : "";
  const details = { ...error.details, acknowledged };
  return quiverError(error.code, error.status, error.message + before, details, error.cause ?? error);
}

function atLeastOne(name: string, value: number): number {
  if (Number.isInteger(value) && value >= 1) return value;
  throw new QuiverError("invalid_request", `${name} is ${value}, expected a whole number of at least 1.`);
}
