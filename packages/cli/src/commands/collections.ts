// quiver collections

import { type Collection, type Database, isQuiverError } from "@quiverdb/client";
import type { CollectionDetail, CollectionSummary } from "@quiverdb/protocol/shapes/collection";
import type { Command } from "commander";
import { type ConnectionOptions, connect, parsed, QuiverCommand, withConnection } from "../command.ts";
import { UsageError } from "../exit-codes.ts";
import { printJson, printLine, printTable } from "../output.ts";
import { countOf, formatBytes, formatCount, readInteger } from "../values.ts";

type CreateOptions = ConnectionOptions & {
  description?: string;
  dimension?: number;
  sparse?: boolean;
  text?: boolean;
  storeRawText?: boolean;
  maxVectors?: number;
  shards?: number;
  replicas?: number;
};

export function collectionsCommand(): Command {
  const command = new QuiverCommand("collections");
  withConnection(
    command.command("list", { isDefault: true }).description("list all collections (default)"),
  ).action(list);
  withConnection(
    command
      .command("create")
      .description("create a collection; at least one of --dimension, --sparse and --text")
      .argument("<name>")
      .option("--description <text>", "free text")
      .option(
        "--dimension <n>",
        "enable dense vectors with this number of values",
        parsed((v) => readInteger(v, 1)),
      )
      .option("--sparse", "enable sparse vectors")
      .option("--text", "enable full-text search")
      .option("--store-raw-text", "store the raw texts, so that they can be read and exported")
      .option(
        "--max-vectors <n>",
        "maximum number of records",
        parsed((v) => readInteger(v, 1)),
      )
      .option(
        "--shards <n>",
        "in a cluster: into how many shards the records are divided, for ever",
        parsed((v) => readInteger(v, 1)),
      )
      .option(
        "--replicas <n>",
        "in a cluster: how many nodes hold it, or each of its shards",
        parsed((v) => readInteger(v, 1)),
      ),
  ).action(create);
  withConnection(command.command("show").description("one collection").argument("<name>")).action(show);
  withConnection(
    command
      .command("delete")
      .description("delete a collection and all its data")
      .argument("<name>")
      .option("--yes", "confirm the deletion (required; there is no prompt)"),
  ).action(remove);
  withConnection(
    command.command("load").description("load the indexes into memory").argument("<name>"),
  ).action(load);
  withConnection(
    command.command("unload").description("free the memory of the indexes").argument("<name>"),
  ).action(unload);
  withConnection(command.command("aliases").description("list aliases, other names of collections")).action(
    aliases,
  );
  withConnection(
    command
      .command("alias")
      .description("make an alias stand for a collection, whatever it stood for")
      .argument("<alias>")
      .argument("<name>"),
  ).action(alias);
  withConnection(
    command.command("unalias").description("delete an alias; its collection stays").argument("<alias>"),
  ).action(unalias);
  return command;
}

async function aliases(options: ConnectionOptions): Promise<void> {
  const all = await (await connect(options)).aliases();
  if (options.json) return printJson(all);
  printTable(
    all,
    [
      { title: "ALIAS", value: (each) => each.alias },
      { title: "COLLECTION", value: ({ collection }) => collection },
    ],
    "There are no aliases. Make one with: quiver collections alias ALIAS NAME",
  );
}

async function alias(given: string, name: string, options: ConnectionOptions): Promise<void> {
  const put = await (await connect(options)).putAlias(given, name);
  if (options.json) return printJson(put);
  printLine(`${JSON.stringify(given)} stands for ${JSON.stringify(name)}.`);
}

async function unalias(given: string, options: ConnectionOptions): Promise<void> {
  await (await connect(options)).deleteAlias(given);
  if (options.json) return printJson({ deleted: given });
  printLine(`Deleted the alias ${JSON.stringify(given)}.`);
}

async function list(options: ConnectionOptions): Promise<void> {
  const client = await connect(options);
  const summaries = await client.listCollections();
  const collections: Listed[] = [];
  for (let from = 0; from < summaries.length; from += askedAtOnce) {
    const some = summaries.slice(from, from + askedAtOnce);
    const listed = await Promise.all(some.map((summary) => detailed(client, summary)));
    collections.push(...listed.filter((each) => each !== undefined));
  }
  if (options.json) return printJson(collections);
  const yes = (value: boolean | undefined) => (value === undefined ? "" : value ? "yes" : "no");
  printTable(
    collections,
    [
      { title: "NAME", value: ({ name }) => name },
      { title: "LOADED", value: ({ damaged, loaded }) => (damaged ? "damaged" : yes(loaded)) },
      { title: "RECORDS", value: ({ vectors_count }) => vectors_count, format: formatCount, right: true },
      { title: "DIMENSIONS", value: ({ dense_vector }) => dense_vector?.dimension, right: true },
      { title: "SPARSE", value: ({ sparse_vector }) => yes(sparse_vector?.enabled) },
      { title: "TEXT", value: ({ tf_idf_options }) => yes(tf_idf_options?.enabled) },
      { title: "MEMORY", value: ({ memory_bytes }) => memory_bytes, format: formatBytes, right: true },
      { title: "DISK", value: ({ disk_bytes }) => disk_bytes, format: formatBytes, right: true },
      { title: "DESCRIPTION", value: ({ description }) => description },
    ],
    "There are no collections. Create one with: quiver collections create NAME --dimension 384",
  );
}

/** Requests for details that are under way at a time. */
const askedAtOnce = 8;

/** A damaged collection has no details; the memory of indexes and the size on the disk are not told to a key with a filter. */
type Listed = CollectionSummary & Partial<CollectionDetail> & { memory_bytes?: number };

/** Undefined if the collection has been deleted meanwhile. */
async function detailed(client: Database, summary: CollectionSummary): Promise<Listed | undefined> {
  if (summary.damaged) return summary;
  const collection = client.collection(summary.name);
  try {
    const detail = await collection.describe();
    return { ...summary, ...detail, ...(await memoryOf(collection)) };
  } catch (error) {
    if (isQuiverError(error, "collection_not_found")) return undefined;
    throw error;
  }
}

async function memoryOf(collection: Collection): Promise<{ memory_bytes?: number }> {
  try {
    const indexes = Object.values(await collection.indexes());
    return { memory_bytes: indexes.reduce((sum, { status }) => sum + status.memory_bytes, 0) };
  } catch (error) {
    if (isQuiverError(error, "forbidden")) return {};
    throw error;
  }
}

async function create(name: string, options: CreateOptions): Promise<void> {
  if (options.dimension === undefined && !options.sparse && !options.text) {
    throw new UsageError(
      "Nothing is enabled; give at least one of --dimension <n> (dense vectors), --sparse and --text.",
    );
  }
  const collection = await (await connect(options, { mayCreate: true })).createCollection({
    name,
    description: options.description,
    dense_vector:
      options.dimension === undefined ? undefined : { enabled: true, dimension: options.dimension },
    sparse_vector: options.sparse ? { enabled: true } : undefined,
    tf_idf_options: options.text ? { enabled: true } : undefined,
    config: {
      max_vectors: options.maxVectors,
      shards: options.shards,
      replication_factor: options.replicas,
    },
    store_raw_text: options.storeRawText,
  });
  const detail = await collection.describe();
  if (options.json) return printJson(detail);
  const { dense_vector, sparse_vector, tf_idf_options } = detail;
  const kinds = Object.entries({ dense: dense_vector, sparse: sparse_vector, text: tf_idf_options });
  const commands = kinds
    .filter(([, { enabled }]) => enabled)
    .map(([kind]) => `quiver index create ${name} ${kind}`);
  printLine(`Created ${JSON.stringify(name)}. Create its indexes with: ${commands.join(", ")}`);
}

async function show(name: string, options: ConnectionOptions): Promise<void> {
  const detail = await (await connect(options)).getCollection(name);
  if (options.json) return printJson(detail);
  printDetail(detail);
}

async function remove(name: string, options: ConnectionOptions & { yes?: boolean }): Promise<void> {
  const client = await connect(options);
  if (!options.yes) {
    const { vectors_count } = await client.getCollection(name);
    throw new UsageError(
      `Deleting ${JSON.stringify(name)} deletes its ${countOf(vectors_count, "record")} permanently. Repeat the command with --yes to confirm.`,
    );
  }
  await client.deleteCollection(name);
  if (options.json) return printJson({ deleted: name });
  printLine(`Deleted ${JSON.stringify(name)}.`);
}

async function load(name: string, options: ConnectionOptions): Promise<void> {
  const detail = await (await connect(options)).collection(name).load();
  if (options.json) return printJson(detail);
  printLine(`Loaded ${JSON.stringify(name)}.`);
}

async function unload(name: string, options: ConnectionOptions): Promise<void> {
  const message = await (await connect(options)).collection(name).unload();
  if (options.json) return printJson({ unloaded: name });
  printLine(message);
}

function printDetail(detail: CollectionDetail): void {
  const dense = detail.dense_vector.enabled ? `${detail.dense_vector.dimension} dimensions` : "no";
  const yes = (value: boolean) => (value ? "yes" : "no");
  const rows: [string, string][] = [
    ["name", detail.name],
    ["description", detail.description ?? ""],
    ["records", formatCount(detail.vectors_count)],
    ["dense vectors", dense],
    ["sparse vectors", yes(detail.sparse_vector.enabled)],
    ["text", yes(detail.tf_idf_options.enabled)],
    ["raw text stored", yes(detail.store_raw_text)],
    [
      "most records",
      detail.config.max_vectors === null ? "no limit" : formatCount(detail.config.max_vectors),
    ],
    ["shards", detail.config.shards === undefined ? "" : formatCount(detail.config.shards)],
    ["loaded", yes(detail.loaded)],
    ["on disk", detail.disk_bytes === undefined ? "" : formatBytes(detail.disk_bytes)],
  ];
  for (const [title, value] of rows) if (value !== "") printLine(`${title.padEnd(16)}${value}`);
}
