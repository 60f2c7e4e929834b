// Which items do the files of an import contain, in order, from a given position on?

import type { SourceShape } from "../format.ts";
import { standardInput } from "../place.ts";
import type { ImportFormat } from "../reader.ts";
import { type Recognition, recognize, recognizedBytes } from "../recognize.ts";
import { readCsv, type TableOptions } from "./csv.ts";
import { optionFault } from "./faults.ts";
import { type Foreign, openForeign, readForeign } from "./foreign.ts";
import { type Format, formats, hasBareVectors, type Unit, unitOf } from "./formats.ts";
import { type IdOptions, type RowIds, rowIds } from "./ids.ts";
import { openInput, readStart, sizeOf } from "./input-file.ts";
import type { Item, Position, ReadFrom } from "./item.ts";
import { readJsonArray, readJsonLines, type Unknown } from "./json-lines.ts";
import { isPineconeParquet, linesOfParquet, readParquet } from "./parquet.ts";
import { npyHeader, npyHeaderBytesMax, readDimension, readF32, readFvecs, readNpy } from "./rows.ts";

export type InputOptions = {
  readonly files: readonly string[];
  /** undefined: the name or the first character of each file decides. */
  readonly format?: Format;
  /** Dimension of .f32 files. */
  readonly dimension?: number;
  readonly ids: IdOptions;
  /** How unknown fields of JSON records are handled. */
  readonly unknown: Unknown;
  /** Of CSV and Parquet files. */
  readonly table: TableOptions;
  /** The records are those of another database. If it is a server, `files` has its name alone. */
  readonly foreign?: Foreign;
};

/** The properties of an input file that follow from its name and its start. */
export type Input = {
  readonly path: string;
  readonly format: Format | ImportFormat;
  /** What its items are called. */
  readonly unit: Unit;
  /** Bytes of a file, records of a server; 0 if it is not known. */
  readonly size: number;
  /** What a server tells of its records. */
  readonly shape?: SourceShape;
};

const extensions: Readonly<Record<string, Format>> = {
  jsonl: "jsonl",
  ndjson: "jsonl",
  csv: "csv",
  tsv: "csv",
  parquet: "parquet",
  npy: "npy",
  fvecs: "fvecs",
  f32: "f32",
};

/**
 * Inspects every file before anything is sent.
 * @throws QuiverError invalid_request for a file whose format is unclear or lacks its dimension, source_failed for a missing file
 */
export async function inspectInputs(options: InputOptions): Promise<Input[]> {
  const { foreign } = options;
  if (foreign?.server !== undefined) return [await inspectServer(options.files[0], foreign)];
  const inputs: Input[] = [];
  for (const path of options.files) {
    const size = await sizeOf(path);
    const format = foreign?.format ?? options.format ?? (await detectFormat(path));
    if (format === "f32" && options.dimension === undefined) {
      throw optionFault(
        `${path} has raw floats; give the number of floats per vector with the option dimension.`,
      );
    }
    inputs.push({ path, format, unit: unitOf(format), size });
  }
  if (options.ids.file !== undefined) await sizeOf(options.ids.file);
  return inputs;
}

async function inspectServer(path: string, foreign: Foreign): Promise<Input> {
  const { recordsTotal = 0, shape, close } = await openForeign(path, foreign);
  await close();
  return { path, format: foreign.format, unit: "record", size: recordsTotal, shape };
}

/** Whether a file is Parquet, by its name or its first bytes. */
export async function isParquetFile(path: string): Promise<boolean> {
  if (path === standardInput) return false;
  return /\.parquet$/i.test(path) || (await readStart(path, 4)).toString("latin1") === "PAR1";
}

/** Which database has written a file; undefined if nothing in it is another database's. */
export async function recognizeFile(path: string, format: Format): Promise<Recognition | undefined> {
  if (format === "parquet")
    return (await isPineconeParquet(path))
      ? { format: "pinecone", what: 'vectors of Pinecone with "values" in Parquet' }
      : undefined;
  const isJsonOrCsv = ["jsonl", "json", "csv"].includes(format);
  return isJsonOrCsv ? recognize(await readStart(path, recognizedBytes)) : undefined;
}

/** The format of a file of records or vectors, by its name or its first bytes. @throws QuiverError invalid_request if it is unclear */
export async function detectFormat(path: string): Promise<Format> {
  const name = path.replace(/\.gz$/i, "");
  const extension = /\.([^./\\]+)$/.exec(name)?.[1].toLowerCase() ?? "";
  const known = extensions[extension];
  if (known) return known;
  if (path === standardInput) return "jsonl";
  const start = (await readStart(path, 4_096))
    .toString("latin1")
    .replace(/^\u00ef\u00bb\u00bf/, "")
    .trimStart();
  if (start === "" || start.startsWith("{")) return "jsonl";
  if (start.startsWith("[")) return "json";
  if (start.startsWith("PAR1")) return "parquet";
  if (start.startsWith("\u0093NUMPY")) return "npy";
  throw optionFault(
    `The format of ${path} is unclear; give it with the option format: ${formats.join(", ")}.`,
  );
}

/** The items of a chunk of a file, and how much of the whole input has been read so far. */
export type ItemChunk = {
  readonly file: number;
  readonly items: readonly Item[];
  readonly bytesRead: number;
};

/**
 * Yields all items after `from`.
 * @param warn called if ids are left over
 */
export async function* readItems(
  inputs: readonly Input[],
  options: InputOptions,
  from: Position,
  firstRow: number,
  warn: (message: string) => void,
): AsyncGenerator<ItemChunk> {
  const hasRows = inputs.some(({ format }) => hasBareVectors(format));
  const ids = hasRows ? await rowIds(options.ids, firstRow) : undefined;
  let bytesBefore = inputs.slice(0, from.file).reduce((sum, { size }) => sum + size, 0);
  try {
    for (let file = from.file; file < inputs.length; file++) {
      const start = file === from.file ? from : { offset: 0, number: 0 };
      const progress = { bytes: 0 };
      for await (const items of itemsOf(inputs[file], options, start, ids, progress))
        yield { file, items, bytesRead: bytesBefore + progress.bytes };
      bytesBefore += inputs[file].size;
    }
    if (options.ids.file !== undefined && (await ids?.hasMore())) {
      warn(`${options.ids.file} has more ids than there are vectors.`);
    }
  } finally {
    await ids?.close();
  }
}

/** @param ids of bare vectors. @param progress how far the file has been read */
async function* itemsOf(
  { path, format, size }: Input,
  options: InputOptions,
  start: ReadFrom,
  ids: RowIds | undefined,
  progress: { bytes: number },
): AsyncGenerator<readonly Item[]> {
  const onPart = (part: number) => {
    progress.bytes = Math.round(part * size);
  };
  if (options.foreign !== undefined) {
    const isParquet = options.foreign.server === undefined && (await isParquetFile(path));
    const lines = isParquet ? linesOfParquet(path, onPart) : undefined;
    const onRead = (amount: number) => {
      progress.bytes = amount;
    };
    yield* readForeign(path, start, options.foreign, onRead, lines);
    return;
  }
  if (format === "parquet") {
    yield* readParquet(path, start, options.table, onPart);
    return;
  }
  const header = format === "npy" ? npyHeader(await readStart(path, npyHeaderBytesMax), path) : undefined;
  const begin = { ...start, offset: Math.max(start.offset, header?.dataOffset ?? 0) };
  const { chunks, bytesRead } = await openInput(path, begin.offset);
  for await (const items of read()) {
    progress.bytes = bytesRead();
    yield items;
  }

  function read(): AsyncGenerator<readonly Item[]> {
    if (format === "csv") return readCsv(path, chunks, begin, options.table);
    if (format === "json") return readJsonArray(chunks, begin, path, options.unknown);
    if (ids === undefined || format === "jsonl") return readJsonLines(chunks, begin, path, options.unknown);
    if (header !== undefined) return readNpy(chunks, begin, ids, path, header);
    if (format === "fvecs") return readFvecs(chunks, begin, ids, path);
    return readF32(chunks, begin, ids, path, options.dimension as number);
  }
}

/** Dimension of a file of bare vectors, without reading it through. */
export async function dimensionOf(input: Input, options: InputOptions): Promise<number> {
  if (input.format === "f32") return options.dimension as number;
  if (input.format === "npy")
    return npyHeader(await readStart(input.path, npyHeaderBytesMax), input.path).dimension;
  return readDimension(await readStart(input.path, 4), 0, input.path);
}
