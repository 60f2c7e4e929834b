// How are the files of an import read, with errors that speak of this program?

import type { ImportFormat, Recognition } from "@quiverdb/import";
import { sizeOf } from "@quiverdb/import/files/input-file";
import * as files from "@quiverdb/import/files/inputs";
import { nameOf } from "@quiverdb/import/place";
import { CommandError, UsageError } from "../exit-codes.ts";
import { inOptions, ofFiles } from "./words.ts";

/** What the files are, before anything is sent. @throws UsageError or CommandError */
export async function inspectInputs(options: files.InputOptions): Promise<files.Input[]> {
  try {
    return await files.inspectInputs(options);
  } catch (error) {
    throw options.foreign === undefined ? ofFiles(error) : inOptions(error);
  }
}

/** All items behind a position. @throws UsageError or CommandError; only that for another database: something may have been sent */
export async function* readItems(
  ...[inputs, options, ...more]: Parameters<typeof files.readItems>
): AsyncGenerator<files.ItemChunk> {
  try {
    yield* files.readItems(inputs, options, ...more);
  } catch (error) {
    throw options.foreign === undefined ? ofFiles(error) : inOptions(error, CommandError);
  }
}

/**
 * Finds out whether files are exports of another database.
 * @returns undefined if they are none
 * @throws UsageError if they may be, or are of several databases; QuiverError for a missing file or an unclear one
 */
export async function recognizeExports(
  paths: readonly string[],
): Promise<{ readonly format: ImportFormat; readonly what: string } | undefined> {
  let first: { path: string; format: ImportFormat | undefined; what: string } | undefined;
  for (const path of paths) {
    await sizeOf(path);
    const found = await files.recognizeFile(path, await files.detectFormat(path));
    if (found !== undefined && found.format === undefined) throw unclear(nameOf(path), found);
    const { format, what = "records of Quiver" } = found ?? { format: undefined };
    first ??= { path, format, what };
    if (first.format !== format)
      throw new UsageError(
        `${first.path} has ${first.what}, and ${path} has ${what}. Import them one after the other.`,
      );
  }
  return first?.format === undefined ? undefined : { format: first.format, what: first.what };
}

/**
 * Refuses files that are clearly something else than exports of the database that was named: of their records most would be lost.
 * @throws UsageError with what they look like; QuiverError for a missing file
 */
export async function refuseOtherExports(paths: readonly string[], from: ImportFormat): Promise<void> {
  for (const path of paths) {
    await sizeOf(path);
    const isParquet = await files.isParquetFile(path);
    const found = await files.recognizeFile(path, isParquet ? "parquet" : "jsonl");
    if (found?.format !== undefined && found.format !== from)
      throw new UsageError(
        `${nameOf(path)} has ${found.what}, and is no export of ${from}. Give --from ${found.format}, or no --from.`,
      );
    if (isParquet && from !== "pinecone")
      throw new UsageError(
        `${path} is a Parquet file, and --from ${from} does not read those. Without --from its columns are fields of the records; --column names them.`,
      );
  }
}

function unclear(title: string, { candidates, why }: Extract<Recognition, { why: string }>): UsageError {
  const options = candidates.map((format) => `--from ${format}`).join(" or ");
  if (candidates.length === 0) return new UsageError(`${title}: ${why}.`);
  return new UsageError(
    `${title} is not clearly an export of one database: ${why}. Give ${options} to read it as that, without the rest; or --format jsonl or json if these are records of Quiver.`,
  );
}
