// quiver export

import { createWriteStream, existsSync } from "node:fs";
import { rename, rm } from "node:fs/promises";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import type { Collection } from "@quiverdb/client";
import type { Command } from "commander";
import { showStage } from "../backup/stages.ts";
import { type ConnectionOptions, connect, QuiverCommand, withConnection } from "../command.ts";
import { UsageError } from "../exit-codes.ts";
import { type FilterOptions, filterOf, whereHelp, withFilter } from "../filter/option.ts";
import { interruptible } from "../interruption.ts";
import { printWarnings } from "../output.ts";
import { asItWas, type PastOptions, whenOf, withPast } from "../past.ts";
import { withShortFloats } from "../short-floats.ts";
import { countOf, formatDuration } from "../values.ts";

type ExportOptions = ConnectionOptions &
  FilterOptions &
  PastOptions & { output?: string; overwrite?: boolean; gzip?: boolean; quiet?: boolean };

/** Lines are joined into pieces of about this size, because a write per line would cost more than the line itself. */
const pieceChars = 64 * 1024;

export function exportCommand(): Command {
  const command = new QuiverCommand("export")
    .argument("<collection>")
    .option(
      "--output <file>",
      "write to this file instead of standard output; it appears when it is complete",
    )
    .option("--overwrite", "replace the file that --output names")
    .option("--gzip", "compress with gzip (also if the file name ends in .gz)")
    .option("--quiet", "do not show progress")
    .addHelpText(
      "after",
      `
Dense values have as few digits as their 32-bit floats need. The export contains texts only if the collection stores raw texts (created with --store-raw-text).

  quiver export docs --output docs.jsonl.gz
  quiver import docs-copy docs.jsonl.gz --create
${whereHelp}`,
    );
  return withConnection(withPast(withFilter(command, "write only matching records"))).action(run);
}

async function run(name: string, options: ExportOptions): Promise<void> {
  const { output } = options;
  if (output !== undefined && !options.overwrite && existsSync(output))
    throw new UsageError(`${output} exists. Name another file, or replace it with --overwrite.`);
  const startedAt = Date.now();
  // An export has no time limit; --timeout applies only to its start.
  const client = await connect(options, { timeoutMs: 24 * 3_600_000 });
  const collection = client.collection(name);
  const outcome = output === undefined ? "The output is not complete." : `${output} was not written.`;
  const { records, version } = await interruptible((signal) => write(collection, options, signal), outcome);
  const ms = Date.now() - startedAt;
  const report = { collection: name, records, version, seconds: ms / 1000, output: output ?? "-" };
  process.stderr.write(
    options.json
      ? `${JSON.stringify(report)}\n`
      : `Exported ${countOf(records, "record")} of ${JSON.stringify(name)}, version ${version}, in ${formatDuration(ms)}.\n`,
  );
  const filter = filterOf(options);
  if (records > 0 || filter === undefined) return;
  // An export is a stream of records, which has no place for warnings.
  const parts = { params: { collection_id: name }, body: { filter, ...whenOf(options) } };
  printWarnings(await client.request("countVectors", parts));
}

async function write(collection: Collection, options: ExportOptions, signal: AbortSignal) {
  const { output, gzip } = options;
  const exported = asItWas(collection, options).export({ filter: filterOf(options), signal });
  const version = await exported.version();
  const count = await exported.count();
  const stage = showStage(`${collection.name}: ${countOf(count, "record")}`, null, {
    quiet: options.quiet ?? false,
    stream: process.stderr,
  });
  let records = 0;
  async function* pieces() {
    let piece = "";
    for await (const line of exported) {
      records++;
      piece += withShortFloats(line);
      piece += "\n";
      if (piece.length < pieceChars) continue;
      yield piece;
      stage.update((100 * records) / count);
      piece = "";
    }
    yield piece;
  }
  const source = Readable.from(pieces());
  const compress = gzip || output?.endsWith(".gz");
  // A truncated export must not look like a complete one.
  const partial = output === undefined ? undefined : `${output}.partial`;
  const target = partial === undefined ? process.stdout : createWriteStream(partial);
  try {
    await (compress
      ? pipeline(source, createGzip(), target, { end: partial !== undefined, signal })
      : pipeline(source, target, { end: partial !== undefined, signal }));
    if (partial !== undefined && output !== undefined) await rename(partial, output);
    stage.update(100);
  } catch (error) {
    if (partial !== undefined) await rm(partial, { force: true });
    throw error;
  } finally {
    stage.end();
  }
  return { records, version };
}
