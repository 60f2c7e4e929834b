// quiver import

import { type Command, Option } from "commander";
import { type ConnectionOptions, connect, parsed, QuiverCommand, withConnection } from "../command.ts";
import { exitCodes, exitCodesHelp, UsageError } from "../exit-codes.ts";
import { type Format, formats } from "../import/inputs.ts";
import { describeReport, type ImportContext, type ImportOptions, runImport } from "../import/run.ts";
import { printJson, printLine } from "../output.ts";
import { formatDuration, readBytes, readDuration, readInteger } from "../values.ts";

type Flags = ConnectionOptions & {
  transaction?: boolean;
  streaming?: boolean;
  format: Format | "auto";
  ids?: string;
  idsField: string;
  idPrefix: string;
  dimension?: number;
  batchSize: number;
  batchBytes: number;
  concurrency: number;
  create?: boolean;
  metric: "cosine" | "euclidean" | "dot_product";
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
    .description("import files of any size: JSON Lines, .fvecs, raw .f32; each may be compressed with gzip")
    .argument("<collection>")
    .argument("<file...>", "files, one after the other; - is standard input")
    .option("--streaming", "records become visible batch by batch (this is the default)")
    .option("--transaction", "all records become visible at once, when all of them are in")
    .addOption(
      new Option("--format <format>", "what the files hold").choices(["auto", ...formats]).default("auto"),
    )
    .option(
      "--ids <file>",
      "ids of the vectors of .fvecs and .f32 files, one a line (default: row numbers from 0)",
    )
    .option("--ids-field <name>", "field that is the id where a line of --ids is a JSON object", "id")
    .option("--id-prefix <text>", "put before the ids of .fvecs and .f32 files", "")
    .option("--dimension <n>", "floats of a vector in .f32 files", positive)
    .option("--batch-size <n>", "most records of one request", positive, 1_000)
    .addOption(
      new Option("--batch-bytes <size>", "most bytes of one request")
        .argParser(parsed(readBytes))
        .default(8 * 1024 ** 2, "8MiB"),
    )
    .option("--concurrency <n>", "requests under way at once", positive, 2)
    .option(
      "--create",
      "create the collection and its indexes where they are missing, as the first records need it",
    )
    .addOption(
      new Option("--metric <metric>", "with --create: the dense index's metric")
        .choices(["cosine", "euclidean", "dot_product"])
        .default("cosine"),
    )
    .option("--store-raw-text", "with --create: keep the texts as they are")
    .option("--no-resume", "start from the beginning, whatever an interrupted import has noted")
    .option("--state <file>", "where to note how far the import is (default: FILE.quiver-import.json)")
    .option("--rejects <file>", "write the rejected lines with their reasons to this file, as JSON Lines")
    .option("--max-rejects <n>", "stop when more lines than this are rejected", parsed(readInteger), 1_000)
    .option(
      "--ignore-unknown",
      "leave fields that are not known out of the records, and count them, instead of rejecting their lines",
    )
    .addOption(
      new Option("--retry-for <duration>", "how long to wait for a server that does not answer, or restarts")
        .argParser(parsed(readDuration))
        .default(60_000, "60s"),
    )
    .option("--wait-for-index", "return when the indexes have taken over everything")
    .option("--quiet", "show no progress")
    .addHelpText(
      "after",
      `
A JSON line is a record as the interface takes it:
  {"id": "a", "document_id": "d", "dense_values": [0.1, 0.9], "sparse_indices": [7], "sparse_values": [0.5],
   "text": "...", "metadata": {"page": 1}}
Lines that are not such a record are rejected with file, line and reason; all others are imported. A line with a field
that is not known, such as "metadta", is rejected, too; with --ignore-unknown it is imported without the field. With --transaction
and too many rejected lines nothing is imported.

An interrupted import goes on when the same command is run again. A record that is sent twice stays the same.
${exitCodesHelp}

  quiver import docs docs.jsonl.gz --create
  quiver import words glove.f32 --dimension 100 --ids words.txt --transaction
  zcat big.jsonl.gz | quiver import docs -`,
    );
  return withConnection(command).action(async (collection: string, files: string[], flags: Flags) => {
    finish(await importFiles(collection, files, flags));
  });
}

async function importFiles(collection: string, files: readonly string[], flags: Flags): Promise<number> {
  if (flags.transaction && flags.streaming)
    throw new UsageError("Give --transaction or --streaming, not both.");
  const interrupt = new AbortController();
  const unlisten = onSignals(interrupt);
  const context: ImportContext = {
    client: connect(flags, {
      // Attempts and waits together must be able to outlast a restart.
      timeoutMs: flags.timeout + flags.retryFor,
      retryForMs: flags.retryFor,
      onRetry: ({ retry, error }) => {
        if (retry !== 1) return;
        context.say(`${error.message} Trying again for up to ${formatDuration(flags.retryFor)}.`);
      },
    }),
    stderr: process.stderr,
    interrupt: interrupt.signal,
    say: (line) => process.stderr.write(`${line}\n`),
  };
  try {
    const report = await runImport(importOptions(collection, files, flags), context);
    if (flags.json) printJson(report);
    else printLine(describeReport(report));
    return report.exit_code;
  } finally {
    unlisten();
  }
}

function importOptions(collection: string, files: readonly string[], flags: Flags): ImportOptions {
  return {
    collection,
    input: {
      files,
      format: flags.format === "auto" ? undefined : flags.format,
      dimension: flags.dimension,
      unknown: flags.ignoreUnknown ? "ignore" : "reject",
      ids: { file: flags.ids, field: flags.idsField, prefix: flags.idPrefix },
    },
    mode: flags.transaction ? "transaction" : "streaming",
    batchRecords: flags.batchSize,
    batchBytes: flags.batchBytes,
    concurrency: flags.concurrency,
    create: flags.create ? { metric: flags.metric, storeRawText: flags.storeRawText ?? false } : undefined,
    resume: flags.resume,
    statePath: flags.state,
    rejectsPath: flags.rejects,
    rejectsMax: flags.maxRejects,
    waitForIndex: flags.waitForIndex ?? false,
    quiet: flags.quiet ?? false,
  };
}

/** The first signal ends the import in order, the second one at once; the note of how far it is stays valid. */
function onSignals(interrupt: AbortController): () => void {
  const stop = () => {
    if (interrupt.signal.aborted) process.exit(exitCodes.interrupted);
    process.stderr.write(
      "\nInterrupted: waiting for the answers that are under way. A second signal stops at once.\n",
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
