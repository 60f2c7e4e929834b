// Which items do the files of an import contain, in order, from a given position on?

import { UsageError } from "../exit-codes.ts";
import { type Format, formats } from "./formats.ts";
import { type IdOptions, rowIds } from "./ids.ts";
import { type InputFile, openInput, readStart, sizeOf, standardInput } from "./input-file.ts";
import type { Item, Position } from "./item.ts";
import { readJsonLines, type Unknown } from "./json-lines.ts";
import { readDimension, readF32, readFvecs } from "./rows.ts";

export type InputOptions = {
  readonly files: readonly string[];
  /** undefined: the name or the first character of each file decides. */
  readonly format?: Format;
  /** Dimension of .f32 files. */
  readonly dimension?: number;
  readonly ids: IdOptions;
  /** How unknown fields of JSON lines are handled. */
  readonly unknown: Unknown;
};

/** The properties of an input file that follow from its name and its start. */
export type Input = { readonly path: string; readonly format: Format; readonly size: number };

const extensions: Readonly<Record<string, Format>> = {
  jsonl: "jsonl",
  ndjson: "jsonl",
  json: "jsonl",
  fvecs: "fvecs",
  f32: "f32",
};

/**
 * Inspects every file before anything is sent.
 * @throws UsageError for a file whose format is unclear or lacks its dimension; CommandError for a missing file
 */
export async function inspectInputs(options: InputOptions): Promise<Input[]> {
  const inputs: Input[] = [];
  for (const path of options.files) {
    const size = await sizeOf(path);
    const format = options.format ?? (await detectFormat(path));
    if (format === "f32" && options.dimension === undefined) {
      throw new UsageError(
        `${path} has raw floats; give the number of floats per vector with --dimension <n>.`,
      );
    }
    inputs.push({ path, format, size });
  }
  if (options.ids.file !== undefined) await sizeOf(options.ids.file);
  return inputs;
}

async function detectFormat(path: string): Promise<Format> {
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
  throw new UsageError(`The format of ${path} is unclear; give it with --format ${formats.join(", ")}.`);
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
  const hasRows = inputs.some(({ format }) => format !== "jsonl");
  const ids = hasRows ? await rowIds(options.ids, firstRow) : undefined;
  let bytesBefore = inputs.slice(0, from.file).reduce((sum, { size }) => sum + size, 0);
  try {
    for (let file = from.file; file < inputs.length; file++) {
      const start = file === from.file ? from : { offset: 0, number: 0 };
      const opened = await openInput(inputs[file].path, start.offset);
      for await (const items of itemsOf(opened, inputs[file], start)) {
        yield { file, items, bytesRead: bytesBefore + opened.bytesRead() };
      }
      bytesBefore += inputs[file].size;
    }
    if (options.ids.file !== undefined && (await ids?.hasMore())) {
      warn(`${options.ids.file} has more ids than there are vectors.`);
    }
  } finally {
    await ids?.close();
  }

  function itemsOf(opened: InputFile, { path, format }: Input, start: { offset: number; number: number }) {
    if (format === "jsonl" || !ids) return readJsonLines(opened.chunks, start, options.unknown);
    return format === "fvecs"
      ? readFvecs(opened.chunks, start, ids, path)
      : readF32(opened.chunks, start, ids, path, options.dimension as number);
  }
}

/** Dimension of a file of bare vectors, without reading it through. */
export async function dimensionOf(input: Input, options: InputOptions): Promise<number> {
  if (input.format === "f32") return options.dimension as number;
  return readDimension(await readStart(input.path, 4), 0, input.path);
}
