// How are the records of another database read as items, from its exports or from its running server?
//
// A page becomes items, and its end a position: the cursor of the page, from which a later import goes on. What a server has in the middle of
// a page may have moved until then, so an import goes on at the beginning of a page.

import { isQuiverError, QuiverError } from "@quiverdb/client";
import { encodeRecord } from "@quiverdb/client/record";
import { standardInput } from "../place.ts";
import {
  type FormatOptions,
  type ImportFormat,
  type ImportPage,
  type ImportReader,
  type LiveSources,
  openImport,
  type ReaderOptions,
} from "../reader.ts";
import { reasonOf } from "../record-reason.ts";
import { standardInputStream } from "./input-file.ts";
import type { Item, ReadFrom } from "./item.ts";

/** What the records are, and how they are read. */
export type Foreign = {
  readonly format: ImportFormat;
  readonly options: FormatOptions[ImportFormat];
  /** Absent: the files are exports. */
  readonly server?: LiveSources[ImportFormat];
  /** Ends a reading at once. */
  readonly signal?: AbortSignal;
};

/** Opens a file, or the server. @param parquet the lines of a Parquet file */
export function openForeign(
  path: string,
  { format, options, server, signal }: Foreign,
  parquet?: AsyncIterable<Uint8Array>,
): Promise<ImportReader> {
  const file = parquet ?? (path === standardInput ? standardInputStream() : path);
  return openImport(format, server ?? file, { ...options, signal } as ReaderOptions<ImportFormat>);
}

/**
 * Yields the records behind `from`, a page at a time.
 * @param onRead called with what was read so far: bytes of a file, records of a server
 * @param parquet the lines of a Parquet file, whose reader tells itself what was read
 */
export async function* readForeign(
  path: string,
  from: ReadFrom,
  foreign: Foreign,
  onRead: (amount: number) => void,
  parquet?: AsyncIterable<Uint8Array>,
): AsyncGenerator<Item[]> {
  const reader = await openForeign(path, foreign, parquet);
  try {
    for await (const page of reader.pages(from.cursor)) {
      if (parquet === undefined)
        onRead(foreign.server === undefined ? reader.bytesRead : page.start + page.records.length);
      // The rows of Parquet have numbers, and no lines.
      yield itemsOf(parquet === undefined ? page : { ...page, lines: undefined });
    }
  } finally {
    await reader.close();
  }
}

function itemsOf({ records, names, lines, start, cursor }: ImportPage): Item[] {
  return records.map((record, i) => {
    const number = start + i + 1;
    const place = {
      number,
      end: number,
      ...(lines !== undefined && { lines: { first: lines[i], last: lines[i] } }),
      ...(i === records.length - 1 ? { cursor } : { isWithin: true }),
    };
    const refused = (code: string, reason: string): Item => ({
      ...place,
      json: "null",
      id: undefined,
      problem: { code, reason },
    });
    if (record instanceof QuiverError) return refused(record.code, String(record.details.reason));
    try {
      return { ...place, json: encodeRecord(record, i), id: record.id, names: names[i] };
    } catch (error) {
      if (!isQuiverError(error)) throw error;
      return refused(error.code, reasonOf(error, names[i]));
    }
  });
}
