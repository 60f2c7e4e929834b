// quiver import

import { closeSync, openSync } from "node:fs";
import type { ImportFormat } from "@quiverdb/import";
import type { ColumnNames } from "@quiverdb/import/files/columns";
import { type Format, formats } from "@quiverdb/import/files/formats";
import { nameOf } from "@quiverdb/import/place";
import { type Command, Option } from "commander";
import { messageFor } from "../advice.ts";
import {
  type ConnectionOptions,
  connect,
  parsed,
  placeOf,
  QuiverCommand,
  withConnection,
} from "../command.ts";
import { exitCodes, exitCodesHelp, UsageError } from "../exit-codes.ts";
import { foreignFormats, readColumnName } from "../import/formats.ts";
import type { ImportContext, ImportOptions } from "../import/run.ts";
import { InterruptedError } from "../interruption.ts";
import { printJson, printLine } from "../output.ts";
import { formatDuration, readBytes, readDuration, readInteger } from "../values.ts";

type Flags = ConnectionOptions & {
  transaction?: boolean;
  streaming?: boolean;
  format: Format | "auto";
  from?: ImportFormat;
  source?: string;
  namespace?: string;
  omit: string[];
  ids?: string;
  idsField: string;
  idPrefix: string;
  column: (readonly [field: string, name: string])[];
  asText?: boolean;
  dimension?: number;
  batchSize: number;
  batchBytes: number;
  concurrency: number;
  create?: boolean;
  metric?: "cosine" | "euclidean" | "dot_product";
  storeRawText?: boolean;
  resume: boolean;
  state?: string;
  rejects?: string;
  maxRejects: number;
  ignoreUnknown?: boolean;
  retryFor: number;
  waitForIndex?: boolean;
  quiet?: boolean;
};

const positive = parsed((text: string) => readInteger(text, 1));

export function importCommand(finish: (code: number) => void): Command {
  const command = new QuiverCommand("import")
    .argument("<collection>")
    .argument(
      "<file...>",
      "files to import, in order; - is standard input; with --from also a server's address",
    )
    .option("--streaming", "records become visible batch by batch (default)")
    .option("--transaction", "all records become visible at once, at the end")
    .addOption(
      new Option("--format <format>", "format of the files").choices(["auto", ...formats]).default("auto"),
    )
    .addOption(
      new Option(
        "--from <database>",
        "the files are exports of this database, or the address is that of its server (default: exports are recognized)",
      ).choices(foreignFormats),
    )
    .option(
      "--source <name>",
      "--from and an address: the collection, index or table to read (default: the name of the collection here)",
    )
    .option("--namespace <name>", "--from pinecone and an address: the namespace to read")
    .addOption(
      new Option("--omit <column>", "--from pgvector: a column that is left out; may be repeated")
        .argParser((text: string, before: string[]) => [...before, text])
        .default([], "none"),
    )
    .option(
      "--ids <file>",
      "file with the ids of the vectors of .npy, .fvecs and .f32 files, one per line (default: row numbers from 0)",
    )
    .option("--ids-field <name>", "field with the id, if a line of --ids is a JSON object", "id")
    .option("--id-prefix <text>", "prefix for the ids of .npy, .fvecs and .f32 files", "")
    .addOption(
      new Option(
        "--column <field=name>",
        "CSV, Parquet, --from: the column or key that is a field of the records; may be repeated",
      )
        .argParser((text: string, before: Flags["column"]) => [...before, parsed(readColumnName)(text)])
        .default([], "columns with the names of fields"),
    )
    .option("--as-text", "CSV: keep all cells of the metadata as texts, also numbers, true and false")
    .option("--dimension <n>", "number of floats per vector in .f32 files", positive)
    .option("--batch-size <n>", "maximum number of records in one request", positive, 1_000)
    .addOption(
      new Option("--batch-bytes <size>", "maximum size of one request")
        .argParser(parsed(readBytes))
        .default(8 * 1024 ** 2, "8MiB"),
    )
    .option("--concurrency <n>", "number of concurrent requests", positive, 2)
    .option(
      "--create",
      "create the collection and its indexes if they do not exist, based on the first records",
    )
    .addOption(
      new Option(
        "--metric <metric>",
        "with --create: the dense index's metric (default: cosine; with --from and an address, the source's)",
      ).choices(["cosine", "euclidean", "dot_product"]),
    )
    .option("--store-raw-text", "with --create: store the raw texts")
    .option("--no-resume", "start from the beginning and ignore the saved progress of an interrupted import")
    .option("--state <file>", "file for the progress of the import (default: FILE.quiver-import.json)")
    .option("--rejects <file>", "write the rejected lines with their reasons to this file, as JSON Lines")
    .option("--max-rejects <n>", "stop when more lines than this are rejected", parsed(readInteger), 1_000)
    .option("--ignore-unknown", "drop and count unknown fields instead of rejecting their lines")
    .addOption(
      new Option("--retry-for <duration>", "how long to wait for a server that does not respond or restarts")
        .argParser(parsed(readDuration))
        .default(60_000, "60s"),
    )
    .option("--wait-for-index", "return when all records are indexed")
    .option("--quiet", "do not show progress")
    .addHelpText(
      "after",
      `
A JSON line is a record as in the REST interface:
  {"id": "a", "document_id": "d", "dense_values": [0.1, 0.9], "sparse_indices": [7], "sparse_values": [0.5],
   "text": "...", "metadata": {"page": 1}}
A JSON array has such records as its items. In a CSV or Parquet file the columns id, document_id, text, dense_values,
sparse_indices, sparse_values and metadata are these fields (vectors as JSON arrays, in Parquet also as lists), and all
others are fields of the metadata. .npy, .fvecs and .f32 files have vectors alone.
Exports of Qdrant, Pinecone and Chroma (JSON) and of pgvector (CSV with the columns id and embedding) are recognized.
Lines that are not such a record are rejected with file, line and reason; all others are imported. A line with an unknown
field, such as "metadta", is rejected, too; with --ignore-unknown it is imported without the field. With --transaction
and too many rejected lines nothing is imported.

--from reads another database: its exports, or its running server at an address, by its public client, which has to be
installed beside this program (npm install @qdrant/js-client-rest, chromadb, @pinecone-database/pinecone or pg). Keys are
taken from QDRANT_API_KEY, CHROMA_API_KEY and PINECONE_API_KEY; PostgreSQL has its own variables, such as PGPASSWORD.

Run the same command again to resume an interrupted import. Sending a record twice changes nothing.
${exitCodesHelp}

  quiver import docs docs.jsonl.gz --create
  quiver import shop items.csv --column id=sku --column text=description --create
  quiver import words glove.f32 --dimension 100 --ids words.txt --transaction
  quiver import books qdrant-points.jsonl --column text=content --create
  quiver import books --from qdrant http://127.0.0.1:6333 --column text=content --create
  zcat big.jsonl.gz | quiver import docs -`,
    );
  return withConnection(command).action(async (collection: string, files: string[], flags: Flags) => {
    finish(await importFiles(collection, files, flags));
  });
}

async function importFiles(collection: string, files: readonly string[], flags: Flags): Promise<number> {
  if (flags.transaction && flags.streaming)
    throw new UsageError("Give --transaction or --streaming, not both.");
  if (flags.rejects !== undefined) requireWritable(flags.rejects);
  const interrupt = new AbortController();
  // Before anything is opened: a wrong use makes no data directory.
  const options = await importOptions(collection, files, flags, interrupt.signal);
  const unlisten = onSignals(interrupt);
  const context: ImportContext = {
    client: await connect(flags, {
      mayCreate: flags.create ?? false,
      // All attempts and waits together must be long enough for a restart.
      timeoutMs: flags.timeout + flags.retryFor,
      retryForMs: flags.retryFor,
      onRetry: ({ retry, error }) => {
        if (retry !== 1) return;
        context.say(`${messageFor(error)} Retrying for up to ${formatDuration(flags.retryFor)}.`);
      },
    }),
    place: placeOf(flags),
    stderr: process.stderr,
    interrupt: interrupt.signal,
    say: (line) => process.stderr.write(`${line}\n`),
  };
  try {
    // Loaded when it runs: the help of the command needs nothing of it.
    const { describeReport, runImport } = await import("../import/run.ts");
    const report = await runImport(options, context);
    if (flags.json) printJson(report);
    else printLine(describeReport(report, options));
    return report.exit_code;
  } catch (error) {
    // Before its first record is sent, an import has no progress that would be saved.
    if (error === interrupt.signal.reason) throw new InterruptedError("Interrupted: nothing was imported.");
    throw error;
  } finally {
    unlisten();
  }
}

function requireWritable(path: string): void {
  try {
    closeSync(openSync(path, "a"));
  } catch (error) {
    throw new UsageError(`--rejects ${path}: ${(error as Error).message}.`);
  }
}

async function importOptions(
  collection: string,
  files: readonly string[],
  flags: Flags,
  signal: AbortSignal,
): Promise<ImportOptions> {
  const columns = Object.fromEntries(flags.column);
  const { ofFiles } = await import("../import/words.ts");
  const input = await inputOf(collection, files, flags, columns, signal).catch((error) => {
    throw ofFiles(error);
  });
  return {
    collection,
    input: {
      ...input,
      format: flags.format === "auto" ? undefined : flags.format,
      dimension: flags.dimension,
      unknown: flags.ignoreUnknown ? "ignore" : "reject",
      table: { columns, asText: flags.asText ?? false },
      ids: { file: flags.ids, field: flags.idsField, prefix: flags.idPrefix },
    },
    mode: flags.transaction ? "transaction" : "streaming",
    batchRecords: flags.batchSize,
    batchBytes: flags.batchBytes,
    concurrency: flags.concurrency,
    create: flags.create
      ? // Other databases give back the texts that they were given.
        { metric: flags.metric, storeRawText: flags.storeRawText ?? input.foreign !== undefined }
      : undefined,
    resume: flags.resume,
    statePath: flags.state,
    rejectsPath: flags.rejects,
    rejectsMax: flags.maxRejects,
    waitForIndex: flags.waitForIndex ?? false,
    quiet: flags.quiet ?? false,
  };
}

/** The files, or the server of another database. */
async function inputOf(
  collection: string,
  files: readonly string[],
  flags: Flags,
  columns: ColumnNames,
  signal: AbortSignal,
): Promise<Pick<ImportOptions["input"], "files" | "foreign">> {
  const { source, namespace, omit } = flags;
  if (flags.from !== undefined && flags.format !== "auto")
    throw new UsageError("Give --from or --format, not both.");
  const { foreignOptions, foreignServer, isAddress, nameOfServer } = await import("../import/foreign.ts");
  const [address] = files;
  if (flags.from === undefined && (source !== undefined || namespace !== undefined))
    throw new UsageError(`--${source === undefined ? "namespace" : "source"} belongs to --from.`);
  const format = flags.from ?? (await recognized(files, flags, columns));
  if (format === undefined) {
    if (omit.length > 0) throw new UsageError("--omit belongs to --from.");
    return { files };
  }
  const options = foreignOptions(format, columns, omit);
  if (!files.some(isAddress)) {
    if (source !== undefined || namespace !== undefined)
      throw new UsageError(
        `--${source === undefined ? "namespace" : "source"} belongs to the address of a server; ${address} is a file.`,
      );
    if (flags.from !== undefined) {
      const { refuseOtherExports } = await import("../import/inputs.ts");
      await refuseOtherExports(files, flags.from);
    }
    return { files, foreign: { format, options, signal } };
  }
  if (files.length > 1) throw new UsageError("Give one address, or files.");
  const name = source ?? collection;
  const server = foreignServer(format, address, name, namespace);
  return { files: [nameOfServer(address, name, namespace)], foreign: { format, options, server, signal } };
}

/** The database whose exports the files are, if they are not read as files of ours. */
async function recognized(
  files: readonly string[],
  flags: Flags,
  columns: ColumnNames,
): Promise<ImportFormat | undefined> {
  const { isAddress } = await import("../import/foreign.ts");
  const address = files.find(isAddress);
  if (address !== undefined)
    throw new UsageError(
      `${address.replace(/^(.*?:\/\/)[^/]*@/, "$1")} is the address of a server; say of which database with --from ${foreignFormats.join(", ")}.`,
    );
  if (flags.format !== "auto") return undefined;
  const { recognizeExports } = await import("../import/inputs.ts");
  const found = await recognizeExports(files);
  // A table whose vectors are named is read as any table.
  if (found === undefined || (found.format === "pgvector" && columns.dense_values !== undefined))
    return undefined;
  if (!flags.quiet)
    process.stderr.write(
      `${files.map(nameOf).join(", ")}: ${found.what}, read as with --from ${found.format}.\n`,
    );
  return found.format;
}

/** The first signal stops the import in an orderly way, the second one at once; the saved progress stays valid. */
function onSignals(interrupt: AbortController): () => void {
  const stop = () => {
    if (interrupt.signal.aborted) process.exit(exitCodes.interrupted);
    process.stderr.write(
      "\nInterrupted: waiting for the responses to the requests in progress. A second signal stops at once.\n",
    );
    interrupt.abort();
  };
  process.on("SIGINT", stop);
  process.on("SIGTERM", stop);
  return () => {
    process.off("SIGINT", stop);
    process.off("SIGTERM", stop);
  };
}
