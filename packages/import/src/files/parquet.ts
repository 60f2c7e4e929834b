// How are records read from a Parquet file?
//
// Its columns are fields of the records as those of a CSV file are (columns.ts), with the types that they have in the file: lists become
// arrays, structs objects, 64-bit integers keep all their digits, and times become ISO 8601. A file is read by row groups, a slice of one at
// a time, so memory holds the values of a slice. A position in the file is a number of rows.

import zlib from "node:zlib";
import {
  type AsyncBuffer,
  asyncBufferFromFile,
  type Compressors,
  type FileMetaData,
  parquetMetadataAsync,
  parquetReadObjects,
  parquetSchema,
} from "hyparquet";
import { parsed } from "../json-values.ts";
import { standardInput } from "../place.ts";
import { rowOf, type Table, tableOf } from "./columns.ts";
import type { TableOptions } from "./csv.ts";
import { fileFault, optionFault } from "./faults.ts";
import type { Item, ReadFrom } from "./item.ts";

/** Rows of a slice at most. */
const rowsAtOnce = 10_000;

/** Snappy is part of the library. */
const compressors: Compressors = {
  GZIP: (bytes) => zlib.gunzipSync(bytes),
  ZSTD: (bytes) => {
    if (zlib.zstdDecompressSync === undefined)
      throw new Error(
        `its ZSTD compression needs Node.js 22.15 or newer, and this is ${process.versions.node}`,
      );
    return zlib.zstdDecompressSync(bytes);
  },
  BROTLI: (bytes) => zlib.brotliDecompressSync(bytes),
};

/**
 * Yields the rows behind `from`, a slice at a time.
 * @param onRead called with the part of the file that has been read, 0 to 1
 * @throws QuiverError invalid_request for wrong columns, source_failed for a file that is no Parquet
 */
export async function* readParquet(
  path: string,
  from: ReadFrom,
  options: TableOptions,
  onRead: (part: number) => void,
): AsyncGenerator<Item[]> {
  const opened = await openParquet(path);
  const table = tableOf(namesOf(opened), options.columns, path);
  for await (const { rows, start } of slicesOf(path, opened, from.number, onRead))
    yield rows.map((row, i) => itemOf(table, row, start + i + 1));
}

/** The columns of the files that Pinecone imports. */
const pineconeColumns = ["id", "values", "sparse_values", "metadata"];

/** Whether a file has vectors of Pinecone: `values` are lists, and no column is of another use. */
export async function isPineconeParquet(path: string): Promise<boolean> {
  const opened = await openParquet(path);
  const names = namesOf(opened);
  const values = parquetSchema(opened.metadata).children.find(({ element }) => element.name === "values");
  const isList = values !== undefined && values.children.length > 0;
  return isList && names.includes("id") && names.every((name) => pineconeColumns.includes(name));
}

/** The rows of a file as lines of JSON. Metadata that is stored as a text is the object in it. */
export async function* linesOfParquet(
  path: string,
  onRead: (part: number) => void,
): AsyncGenerator<Uint8Array> {
  for await (const { rows } of slicesOf(path, await openParquet(path), 0, onRead))
    for (const { metadata, ...row } of rows) {
      // A text that is no JSON stays one, and its record is refused for it.
      const inText = typeof metadata === "string" ? parsed(metadata) : undefined;
      yield Buffer.from(`${jsonOf({ ...row, metadata: inText === undefined ? metadata : inText })}\n`);
    }
}

type Opened = { readonly file: AsyncBuffer; readonly metadata: FileMetaData };

const namesOf = ({ metadata }: Opened): string[] =>
  parquetSchema(metadata).children.map(({ element }) => element.name);

/** The rows of a file behind the first `before` ones, a slice of a row group at a time. @param onRead see `readParquet` */
async function* slicesOf(
  path: string,
  { file, metadata }: Opened,
  before: number,
  onRead: (part: number) => void,
): AsyncGenerator<{ readonly rows: readonly Record<string, unknown>[]; readonly start: number }> {
  const total = Number(metadata.num_rows);
  let groupEnd = 0;
  for (const group of metadata.row_groups) {
    const groupStart = groupEnd;
    groupEnd += Number(group.num_rows);
    for (let start = Math.max(groupStart, before); start < groupEnd; start += rowsAtOnce) {
      const end = Math.min(start + rowsAtOnce, groupEnd);
      const rows = await rowsOf(path, file, metadata, start, end);
      onRead(end / total);
      yield { rows, start };
    }
  }
}

async function openParquet(path: string): Promise<Opened> {
  if (path === standardInput)
    throw optionFault("A Parquet file is read from its end, which is not possible with standard input.");
  const file = await asyncBufferFromFile(path);
  try {
    return { file, metadata: await parquetMetadataAsync(file) };
  } catch (error) {
    throw fileFault(`${path}: is not a Parquet file: ${(error as Error).message}.`, error);
  }
}

async function rowsOf(
  path: string,
  file: AsyncBuffer,
  metadata: FileMetaData,
  rowStart: number,
  rowEnd: number,
): Promise<Record<string, unknown>[]> {
  try {
    return await parquetReadObjects({ file, metadata, compressors, rowStart, rowEnd, useOffsetIndex: true });
  } catch (error) {
    const why = `rows from ${rowStart + 1} on cannot be read: ${(error as Error).message}`;
    throw fileFault(`${path}: ${why}.`, error);
  }
}

function itemOf(table: Table, row: Record<string, unknown>, number: number): Item {
  const texts = table.columns.map(({ name, isText, field }) => {
    const value = row[name];
    if (value === null || value === undefined) return undefined;
    // JSON fields may be stored as texts, too.
    if (typeof value === "string" && field !== null && !isText) return value;
    return isText && typeof value !== "string" ? JSON.stringify(String(value)) : jsonOf(value);
  });
  return rowOf(table, texts, { number, end: number });
}

/** JSON text of a value; NaN, which JSON does not have, is null. */
function jsonOf(value: unknown): string {
  if (typeof value === "bigint") return String(value);
  if (value === null || value === undefined || typeof value !== "object")
    return JSON.stringify(value ?? null);
  if (value instanceof Date) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(jsonOf).join(",")}]`;
  if (ArrayBuffer.isView(value)) return `[${Array.from(value as never, jsonOf).join(",")}]`;
  const members = Object.entries(value).map(([key, held]) => `${JSON.stringify(key)}:${jsonOf(held)}`);
  return `{${members.join(",")}}`;
}
