// How does a handle read a collection as it was?
//
// It sends the same requests, with the version, or the time, that it is of.

import { QuiverError } from "@quiverdb/protocol/errors";
import { refuseUnknownOptions } from "@quiverdb/protocol/fields";
import type { VectorRecord } from "@quiverdb/protocol/shapes/vector";
import { endpoints } from "./endpoint-list.ts";
import type { OperationName } from "./endpoints.ts";
import type { RecordExport } from "./export.ts";
import type { RequestParts, Transport } from "./transport.ts";

/** A version, by number, hash or tag, or the one that was current at a time. */
export type PastOf = { version: number | string; asOf?: never } | { asOf: Date | string; version?: never };

/** The version as fields of a request. */
export function fieldsOf(past: Partial<PastOf>): { version?: number | string; as_of?: string } {
  refuseUnknownOptions(past, ["version", "asOf"]);
  const { version, asOf } = past;
  return {
    ...(version !== undefined && { version }),
    ...(asOf !== undefined && { as_of: asOf instanceof Date ? asOf.toISOString() : asOf }),
  };
}

/** A transport that adds the version to each request. */
export function pastTransport(transport: Transport, past: PastOf): Transport {
  const when = fieldsOf(past);
  const parts = (name: OperationName, given: RequestParts = {}): RequestParts => {
    // Where the operation takes a version, if it can be asked of one.
    const endpoint = endpoints[name];
    const place = "past" in endpoint ? endpoint.past : undefined;
    if (place === "body") return { ...given, body: { ...(given.body as object), ...when } };
    if (place === "query")
      return {
        ...given,
        query: {
          ...given.query,
          ...Object.fromEntries(Object.entries(when).map(([field, value]) => [field, String(value)])),
        },
      };
    throw new QuiverError("invalid_request", `An earlier version only gives reads; ${name} is none.`);
  };
  return {
    runtime: transport.runtime,
    form: transport.form,
    retries: transport.retries,
    request: (name, given) => transport.request(name, parts(name, given)),
    text: (name, given) => transport.text(name, parts(name, given)),
    open: (name, given) => transport.open(name, parts(name, given)),
    close: () => transport.close(),
  };
}

/** A record that two versions have differently. */
export type VersionChange = {
  op: "added" | "changed" | "removed";
  id: string;
  /** As it is at the later version; absent if it was removed. */
  vector?: VectorRecord;
};

/**
 * What differs between two versions of a collection, in order of id; created by `collection.diff()`. The request is sent on the first read.
 * Can be read once.
 */
export class VersionDiff implements AsyncIterable<VersionChange> {
  readonly #lines: AsyncIterator<string>;
  #counts: Promise<{ added: number; changed: number; removed: number }> | undefined;

  constructor(lines: RecordExport) {
    this.#lines = lines[Symbol.asyncIterator]();
  }

  /** How many records differ, and how. */
  counts(): Promise<{ added: number; changed: number; removed: number }> {
    this.#counts ??= this.#lines.next().then(({ value }) => JSON.parse(value));
    return this.#counts;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<VersionChange> {
    await this.counts();
    try {
      for (let line = await this.#lines.next(); !line.done; line = await this.#lines.next())
        yield JSON.parse(line.value);
    } finally {
      await this.#lines.return?.();
    }
  }
}
