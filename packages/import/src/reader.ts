// How are foreign records read, from wherever they are, and from where an earlier reading ended?
//
//   pages of raw records --format--> pages of our records, each with the cursor behind it
//
// A cursor names the format, the number of records before it, and the place in the source. A file is read again from its start, and the
// records before the cursor are left out; a server is asked for what is behind it.

import { QuiverError, type RecordInput } from "@quiverdb/client";
import { type ChromaOptions, type ChromaSource, chroma } from "./chroma.ts";
import type { Format, Live, RawPage, SourceShape } from "./format.ts";
import type { Found } from "./json-values.ts";
import { pgvector } from "./pgvector.ts";
import type { PgvectorOptions } from "./pgvector-columns.ts";
import type { PgvectorSource } from "./pgvector-table.ts";
import { type PineconeOptions, type PineconeSource, pinecone } from "./pinecone.ts";
import { recordIn } from "./place.ts";
import { type QdrantOptions, type QdrantSource, qdrant } from "./qdrant.ts";
import { recognize, recognizedBytes } from "./recognize.ts";
import { RecordFault } from "./record-fault.ts";
import type { FieldNames } from "./record-reason.ts";
import { type ImportSource, Source } from "./source.ts";

/** What the formats need to know. */
export type FormatOptions = {
  chroma: ChromaOptions;
  pgvector: PgvectorOptions;
  pinecone: PineconeOptions;
  qdrant: QdrantOptions;
};
/** The name of a format. */
export type ImportFormat = keyof FormatOptions;
/** What a file that is recognized may need: the options of all formats, of which its own are used. */
export type AutoOptions = ChromaOptions & PgvectorOptions & PineconeOptions & QdrantOptions;

/** Running servers, by format. */
export type LiveSources = {
  chroma: ChromaSource;
  pgvector: PgvectorSource;
  pinecone: PineconeSource;
  qdrant: QdrantSource;
};

/** Options of `openImport`: those of the format, and how it is read. */
export type ReaderOptions<Name extends ImportFormat> = FormatOptions[Name] & ReadingOptions;

/** How a source is read, whatever its format. */
export type ReadingOptions = {
  /** Of a running server: records that are asked for at once. Default 256; of Pinecone 100, which is its most. */
  pageRecords?: number;
  /** Ends the reading, which then throws the signal's reason. */
  signal?: AbortSignal;
};

/** Some records of a source, one after the other. */
export type ImportPage = {
  /** How many records of the source are before this page. */
  readonly start: number;
  /**
   * In the order of the source. In the place of a record that cannot be carried over is the error that says where it is and why; its
   * `details.reason` is why alone.
   */
  readonly records: readonly (RecordInput | QuiverError)[];
  /** What the source calls the fields of each record. */
  readonly names: readonly FieldNames[];
  /** Of a file: the lines of the records, from 1. Of an indented record it is the first one, of a row of CSV the last one. */
  readonly lines?: readonly number[];
  /** For `pages`, to go on behind this page. */
  readonly cursor: string;
};

/** An export or a running server that is being read. */
export type ImportReader = {
  readonly format: ImportFormat;
  /** What a collection for the records needs, as far as the source tells. */
  readonly shape: SourceShape;
  /** Undefined if the source does not tell. */
  readonly recordsTotal: number | undefined;
  /** Of a file as it is stored; 0 of a server. */
  readonly bytesRead: number;
  /** Size of the file; undefined for a stream and a server. */
  readonly bytesTotal: number | undefined;
  /**
   * Reads the records, once.
   * @param cursor of an earlier page of the same source; undefined: from the first record on
   */
  pages(cursor?: string): AsyncGenerator<ImportPage>;
  /** What messages call a record: `points.json:19 (record 3)`. @param record from 0 @param line from 1, of a file */
  at(record: number, line: number | undefined): string;
  /** Closes the file or the connections that it has opened. */
  close(): Promise<void>;
};

// biome-ignore lint/suspicious/noExplicitAny: each format has a type of raw records of its own.
type AnyFormat = Format<any, any, any>;
const formats: { readonly [Name in ImportFormat]: AnyFormat } = { chroma, pgvector, pinecone, qdrant };
/** The formats that can be read. */
export const formatNames = Object.keys(formats) as ImportFormat[];

/** As many as a request has by default, because requests end with a page where reading may have to go on. */
const filePageRecords = 1_000;
const livePageRecords = 256;

/**
 * Opens an export, or a running server.
 * @param given the format; "auto" finds out which database has written a file
 * @throws QuiverError invalid_request for what cannot be read with these options, or not be recognized; source_failed for a server that
 *   refuses; the system's error for a file that cannot be opened
 */
export async function openImport<Name extends ImportFormat>(
  given: Name,
  source: ImportSource | LiveSources[Name],
  options: ReaderOptions<Name>,
): Promise<ImportReader>;
export async function openImport(
  given: "auto",
  source: ImportSource,
  options: AutoOptions & ReadingOptions,
): Promise<ImportReader>;
export async function openImport(
  given: ImportFormat | "auto",
  source: ImportSource | LiveSources[ImportFormat],
  { signal, pageRecords, ...options }: ReadingOptions & FormatOptions[ImportFormat],
): Promise<ImportReader> {
  if (given !== "auto" && !Object.hasOwn(formats, given))
    throw new QuiverError(
      "invalid_request",
      `There is no format ${JSON.stringify(given)}; there are ${formatNames.join(", ")}.`,
    );
  const file = isBytes(source) ? await Source.open(source, signal) : undefined;
  const format = given === "auto" ? await formatOf(file) : given;
  const chosen: AnyFormat = formats[format];
  const at: ImportReader["at"] = (record, line) =>
    file === undefined ? recordIn(chosen.title, "record", record + 1, line) : file.recordAt(record, line);
  const of = <Raw>(pages: (from: Cursor) => AsyncIterable<RawPage<Raw>>) => ({
    format,
    at,
    pages: (cursor?: string) => ourPages(chosen, options, readCursor(format, cursor), at, pages),
  });
  if (file !== undefined)
    return {
      shape: {},
      recordsTotal: undefined,
      bytesTotal: file.bytesTotal,
      get bytesRead() {
        return file.bytesRead;
      },
      ...of(({ records }) => filePages(chosen.read(file, options), records)),
      close: () => file.close(),
    };
  const max = chosen.pageRecordsMax;
  const ask = <T>(call: () => Promise<T>) => asked(chosen.title, call, signal);
  const live: Live<unknown> = await chosen.live(source, options, {
    pageRecords: atMost(max, pageRecords ?? Math.min(livePageRecords, max)),
    ask,
  });
  return {
    shape: live.shape,
    recordsTotal: live.recordsTotal,
    bytesRead: 0,
    bytesTotal: undefined,
    ...of(({ next }) => (next === null ? noPages() : live.pages(next))),
    close: live.close,
  };
}

/** The format of a file, by its beginning. @throws QuiverError invalid_request if that does not tell */
async function formatOf(file: Source | undefined): Promise<ImportFormat> {
  if (file === undefined)
    throw new QuiverError("invalid_request", "A server is not recognized; name its format.");
  const recognized = recognize(await file.head(recognizedBytes));
  if (recognized?.format !== undefined) return recognized.format;
  await file.close();
  if (recognized === undefined) file.throwFault();
  const why =
    recognized === undefined
      ? `is no export of ${formatNames.join(", ")} by its first records. Name its format, or write its records with upsert if they are Quiver's.`
      : recognized.candidates.length === 0
        ? `cannot be read: ${recognized.why}.`
        : `is not clearly an export of one database: ${recognized.why}. Name its format, if it is one.`;
  throw new QuiverError("invalid_request", `${file.title} ${why}`, {
    candidates: recognized?.candidates ?? [],
  });
}

const isBytes = (source: unknown): source is ImportSource =>
  typeof source !== "object" ||
  source === null ||
  source instanceof URL ||
  source instanceof Blob ||
  Symbol.asyncIterator in source;

function atMost(max: number, pageRecords: number): number {
  if (Number.isInteger(pageRecords) && pageRecords >= 1 && pageRecords <= max) return pageRecords;
  throw new QuiverError(
    "invalid_request",
    `pageRecords is ${pageRecords}, expected a whole number from 1 to ${max}.`,
  );
}

/** A place between two records. */
type Cursor = {
  readonly format: ImportFormat;
  /** Records before it. */
  readonly records: number;
  /** In the terms of the source; undefined: its first record; null: behind its last one. */
  readonly next?: string | null;
};

function readCursor(format: ImportFormat, text: string | undefined): Cursor {
  if (text === undefined) return { format, records: 0 };
  let cursor: Partial<Cursor> = {};
  try {
    cursor = JSON.parse(text);
  } catch {
    // Refused below.
  }
  if (cursor?.format === format && Number.isSafeInteger(cursor.records)) return cursor as Cursor;
  throw new QuiverError(
    "invalid_request",
    `The cursor ${JSON.stringify(text).slice(0, 100)} is not one of an import of the format ${format}.`,
  );
}

async function* ourPages<Raw>(
  { record, names }: AnyFormat,
  options: object,
  from: Cursor,
  at: ImportReader["at"],
  pages: (from: Cursor) => AsyncIterable<RawPage<Raw>>,
): AsyncGenerator<ImportPage> {
  let start = from.records;
  for await (const { raws, lines, next } of pages(from)) {
    const records = raws.map((raw, i) => {
      try {
        if (raw instanceof RecordFault) throw raw;
        return record(raw, options);
      } catch (error) {
        if (!(error instanceof RecordFault)) throw error;
        const reason = `${error.message}.`;
        const place = detailsOf(start + i, lines?.[i]);
        return new QuiverError(error.code, `${at(start + i, lines?.[i])}: ${reason}`, { ...place, reason });
      }
    });
    const cursor: Cursor = { format: from.format, records: start + raws.length, next };
    yield {
      start,
      records,
      names: records.map((ours, i) => (ours instanceof QuiverError ? {} : names(raws[i], options))),
      ...(lines !== undefined && { lines }),
      cursor: JSON.stringify(cursor),
    };
    start += raws.length;
  }
}

/** Where a record is, for a program. @param record from 0 */
export const detailsOf = (record: number, line: number | undefined): { record: number; line?: number } => ({
  record,
  ...(line !== undefined && { line }),
});

/** The records of a file behind the first ones. What was read before a fault of the file is still a page. */
async function* filePages<Raw>(
  records: AsyncIterable<Found<Raw>>,
  leaveOut: number,
): AsyncGenerator<RawPage<Raw>> {
  let left = leaveOut;
  let page: Found<Raw>[] = [];
  const take = () => {
    const taken = { raws: page.map(({ raw }) => raw), lines: page.map(({ line }) => line), next: null };
    page = [];
    return taken;
  };
  try {
    for await (const record of records) {
      if (left > 0) {
        left--;
        continue;
      }
      page.push(record);
      if (page.length === filePageRecords) yield take();
    }
  } catch (error) {
    if (page.length > 0) yield take();
    throw error;
  }
  if (page.length > 0) yield take();
}

async function* noPages(): AsyncGenerator<never> {}

/** The answer of a source's client; its error as one of ours. An interruption does not wait for the answer. */
async function asked<T>(title: string, call: () => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  signal?.throwIfAborted();
  let stop: (() => void) | undefined;
  const interrupted = new Promise<never>((_, reject) => {
    stop = () => reject(signal?.reason);
    signal?.addEventListener("abort", stop, { once: true });
  });
  try {
    return await Promise.race([call(), interrupted]);
  } catch (cause) {
    if (signal?.aborted === true || cause instanceof QuiverError) throw cause;
    throw new QuiverError("source_failed", `${title} refused: ${messageOf(cause)}.`, {}, { cause });
  } finally {
    if (stop !== undefined) signal?.removeEventListener("abort", stop);
  }
}

/** The message of a client's error, with what the server said and with its cause: `fetch failed` alone does not say what to do. */
function messageOf(error: unknown): string {
  const { message, code, data, cause, errors } = Object(error) as ClientError;
  // Several addresses of a host were tried.
  const [first] = errors ?? [];
  const own = (message || code || String(first ?? error)).trim().replace(/\s*\n\s*/g, ", ");
  const more = data?.status?.error ?? (cause ? messageOf(cause) : undefined);
  return `${own.replace(/\.$/, "")}${more === undefined ? "" : ` (${more})`}`;
}

/** What clients put into their errors: `data` that of Qdrant. */
type ClientError = {
  message?: string;
  code?: string;
  data?: { status?: { error?: string } };
  cause?: unknown;
  errors?: readonly unknown[];
};
