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
import { UsageError } from "../exit-codes.ts";
import { type Column, columnsOf, rowOf, unreadableTable } from "./columns.ts";
import type { TableOptions } from "./csv.ts";
import { standardInput } from "./input-file.ts";
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
 * @throws UsageError for wrong columns; CommandError for a file that is no Parquet
 */
export async function* readParquet(
  path: string,
  from: ReadFrom,
  options: TableOptions,
  onRead: (part: number) => void,
): AsyncGenerator<Item[]> {
  const { file, metadata } = await openParquet(path);
  const names = parquetSchema(metadata).children.map(({ element }) => element.name);
  const columns = columnsOf(names, options.columns, path);
  const rows = Number(metadata.num_rows);
  let groupEnd = 0;
  for (const group of metadata.row_groups) {
    const groupStart = groupEnd;
    groupEnd += Number(group.num_rows);
    for (let start = Math.max(groupStart, from.number); start < groupEnd; start += rowsAtOnce) {
      const end = Math.min(start + rowsAtOnce, groupEnd);
      const read = await rowsOf(path, file, metadata, start, end);
      onRead(end / rows);
      yield read.map((row, i) => itemOf(columns, row, start + i + 1));
    }
  }
}

async function openParquet(path: string): Promise<{ file: AsyncBuffer; metadata: FileMetaData }> {
  if (path === standardInput)
    throw new UsageError("A Parquet file is read from its end, which is not possible with standard input.");
  const file = await asyncBufferFromFile(path);
  try {
    return { file, metadata: await parquetMetadataAsync(file) };
  } catch (error) {
    throw unreadableTable(path, `is not a Parquet file: ${(error as Error).message}.`, error);
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
    throw unreadableTable(
      path,
      `rows from ${rowStart + 1} on cannot be read: ${(error as Error).message}.`,
      error,
    );
  }
}

function itemOf(columns: readonly Column[], row: Record<string, unknown>, number: number): Item {
  const texts = columns.map(({ name, isText, field }) => {
    const value = row[name];
    if (value === null || value === undefined) return undefined;
    // JSON fields may be stored as texts, too.
    if (typeof value === "string" && field !== null && !isText) return value;
    return isText && typeof value !== "string" ? JSON.stringify(String(value)) : jsonOf(value);
  });
  return rowOf(columns, texts, { number, end: number });
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
