// quiver export

import { createWriteStream } from "node:fs";
import { rename, rm } from "node:fs/promises";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import type { Collection } from "@quiver/client";
import type { Command } from "commander";
import { type ConnectionOptions, connect, QuiverCommand, withConnection } from "../command.ts";
import { formatCount, formatDuration } from "../values.ts";

type ExportOptions = ConnectionOptions & { output?: string; gzip?: boolean };

/** Lines are joined to pieces of about this size: a write for each line would cost more than the line. */
const PIECE_CHARS = 64 * 1024;

export function exportCommand(): Command {
  const command = new QuiverCommand("export")
    .description("write all records of one version as JSON Lines, which import takes back exactly")
    .argument("<collection>")
    .option(
      "--output <file>",
      "write to this file instead of standard output; it appears when it is complete",
    )
    .option("--gzip", "compress (also when the file's name ends in .gz)")
    .addHelpText(
      "after",
      `
Texts are in the export only where the collection stores raw texts (--store-raw-text when it was created).

  quiver export docs --output docs.jsonl.gz
  quiver import docs-copy docs.jsonl.gz --create`,
    );
  return withConnection(command).action(run);
}

async function run(name: string, options: ExportOptions): Promise<void> {
  const startedAt = Date.now();
  // An export takes as long as it takes; only its start is bounded by --timeout.
  const collection = connect(options, { timeoutMs: 24 * 3_600_000 }).collection(name);
  const { records, version } = await write(collection, options);
  const ms = Date.now() - startedAt;
  const report = { collection: name, records, version, seconds: ms / 1000, output: options.output ?? "-" };
  process.stderr.write(
    options.json
      ? `${JSON.stringify(report)}\n`
      : `Exported ${formatCount(records)} records of ${JSON.stringify(name)}, version ${version}, in ${formatDuration(ms)}.\n`,
  );
}

async function write(collection: Collection, { output, gzip }: ExportOptions) {
  const exported = collection.export();
  const version = await exported.version();
  let records = 0;
  async function* pieces() {
    let piece = "";
    for await (const line of exported) {
      records++;
      piece += line;
      piece += "\n";
      if (piece.length < PIECE_CHARS) continue;
      yield piece;
      piece = "";
    }
    yield piece;
  }
  const source = Readable.from(pieces());
  const compress = gzip || output?.endsWith(".gz");
  // A cut-off export must never be taken for a complete one.
  const partial = output === undefined ? undefined : `${output}.partial`;
  const target = partial === undefined ? process.stdout : createWriteStream(partial);
  try {
    await (compress
      ? pipeline(source, createGzip(), target, { end: partial !== undefined })
      : pipeline(source, target, { end: partial !== undefined }));
    if (partial !== undefined && output !== undefined) await rename(partial, output);
  } catch (error) {
    if (partial !== undefined) await rm(partial, { force: true });
    throw error;
  }
  return { records, version };
}
