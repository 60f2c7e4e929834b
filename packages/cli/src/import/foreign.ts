// How are the records of another database read, from its exports or from its running server?
//
// @quiverdb/import reads and converts them, page by page. Here a page becomes items, and its end a position: the cursor of the page, from which
// a later run goes on. What a server has in the middle of a page may have moved until then, so an import goes on at the beginning of a page.

import { isQuiverError, QuiverError } from "@quiverdb/client";
import { encodeRecord } from "@quiverdb/client/record";
import {
  type FormatOptions,
  type ImportFormat,
  type ImportPage,
  type LiveSources,
  openImport,
  type ReaderOptions,
} from "@quiverdb/import";
import { reasonOf } from "@quiverdb/import/record-reason";
import { CommandError, UsageError } from "../exit-codes.ts";
import type { ColumnNames } from "./columns.ts";
import { optionNames } from "./formats.ts";
import { standardInput, standardInputStream } from "./input-file.ts";
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

/** The variables with the keys of the servers. PostgreSQL has its own ones, which its client reads. */
const keyVariables = {
  chroma: "CHROMA_API_KEY",
  pinecone: "PINECONE_API_KEY",
  qdrant: "QDRANT_API_KEY",
} as const;

export const isAddress = (source: string): boolean => /^[a-z][a-z\d+.-]*:\/\//i.test(source);

/** The options of a format, as the command line has them. @throws UsageError for a field that cannot be named */
export function foreignOptions(
  format: ImportFormat,
  columns: ColumnNames,
  omit: readonly string[],
): Foreign["options"] {
  const known = optionNames[format];
  const unknown = Object.keys(columns).filter((field) => !Object.hasOwn(known, field));
  if (unknown.length > 0)
    throw new UsageError(
      `--column ${unknown[0]}=...: of --from ${format} the fields ${Object.keys(known).join(", ")} can be named.`,
    );
  if (omit.length > 0 && format !== "pgvector")
    throw new UsageError("--omit leaves out columns of --from pgvector.");
  const named = Object.fromEntries(Object.entries(columns).map(([field, name]) => [known[field], name]));
  if (format !== "pgvector") return named;
  return { columns: named, ...(omit.length > 0 && { omit }) };
}

/**
 * A running server.
 * @param address of the server, or a connection string
 * @param name of the collection, index or table
 * @throws UsageError for a namespace that is none of Pinecone, or a key that is missing
 */
export function foreignServer(
  format: ImportFormat,
  address: string,
  name: string,
  namespace: string | undefined,
): LiveSources[ImportFormat] {
  if (namespace !== undefined && format !== "pinecone")
    throw new UsageError("--namespace belongs to --from pinecone.");
  if (format === "pgvector") return { url: address, table: name };
  const apiKey = process.env[keyVariables[format]];
  if (format !== "pinecone")
    return { url: address, collection: name, ...(apiKey !== undefined && { apiKey }) };
  if (apiKey === undefined) throw new UsageError(`Give the key of Pinecone in ${keyVariables.pinecone}.`);
  return { url: address, apiKey, index: name, ...(namespace !== undefined && { namespace }) };
}

/** What messages, states and reports call a server: without the password that its address may have. */
export function nameOfServer(address: string, name: string, namespace?: string): string {
  const url = URL.parse(address);
  if (url === null) throw new UsageError("The address of the server cannot be read.");
  const { protocol, host, pathname } = url;
  const inside = namespace === undefined ? name : `${name}/${namespace}`;
  return `${protocol}//${host}${pathname === "/" ? "" : pathname}#${inside}`;
}

/** Opens a file, or the server. @param parquet the lines of a Parquet file. @throws UsageError for what the options of the command line can solve */
export async function openForeign(path: string, foreign: Foreign, parquet?: AsyncIterable<Uint8Array>) {
  const { format, options, server, signal } = foreign;
  const file = parquet ?? (path === standardInput ? standardInputStream() : path);
  const readerOptions = { ...options, signal } as ReaderOptions<ImportFormat>;
  try {
    return await openImport(format, server ?? file, readerOptions);
  } catch (error) {
    throw inOptions(error);
  }
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
  } catch (error) {
    // Records before this one may have been sent already.
    throw inOptions(error, CommandError);
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

/** The names of options of @quiverdb/import, and what they are called here. */
const words: readonly (readonly [option: RegExp, here: string])[] = [
  [/the option vector\b/, "--column dense_values=NAME"],
  [/the option sparse\b/, "--column sparse_values=NAME"],
  [/the option namespace\b/, "--namespace"],
  [/the option columns\b/, "--column FIELD=COLUMN"],
  [/\bcolumns\.vector\b/, "--column dense_values=COLUMN"],
  [/\bcolumns\.sparse\b/, "--column sparse_values=COLUMN"],
  [/\bcolumns\.id\b/, "--column id=COLUMN"],
  [/\bwith omit\b/, "with --omit"],
  [/the option metric\b/, "--metric"],
];

/** An error that names options of @quiverdb/import, in those of the command line. @param Kind a failure, if something was done before */
export function inOptions(
  error: unknown,
  Kind: typeof CommandError | typeof UsageError = UsageError,
): unknown {
  if (!isQuiverError(error, "invalid_request")) return error;
  const message = words.reduce((text, [option, here]) => text.replace(option, here), error.message);
  return new Kind(message, { cause: error });
}
