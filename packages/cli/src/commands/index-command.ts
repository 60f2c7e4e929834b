// quiver index

import { readFileSync } from "node:fs";
import { limits } from "@quiverdb/protocol/limits";
import type { DropReason, Indexes, TextLanguage } from "@quiverdb/protocol/shapes/index-definition";
import { type Command, Option } from "commander";
import { type ConnectionOptions, connect, parsed, QuiverCommand, withConnection } from "../command.ts";
import { UsageError } from "../exit-codes.ts";
import { printJson, printLine, printTable } from "../output.ts";
import { formatBytes, readInteger, readNumber } from "../values.ts";

const metrics = ["cosine", "euclidean", "dot_product"] as const;
const dataTypes = ["auto", "binary", "quaternary", "octal", "u8", "f16", "f32"] as const;
const levels = [16, 32, 64, 128, 256] as const;
type Level = (typeof levels)[number];

type CreateOptions = ConnectionOptions & {
  indexName?: string;
  metric: (typeof metrics)[number];
  quantization?: (typeof dataTypes)[number];
  range?: { min: number; max: number };
  efConstruction?: number;
  efSearch?: number;
  neighbors?: number;
  level0Neighbors?: number;
  layers?: number;
  cacheSize?: number;
  recallTarget?: number;
  levels?: string;
  sampleThreshold?: number;
  k1?: number;
  b?: number;
  language?: string;
  stopWords?: string[];
  positions?: boolean;
  wait?: boolean;
};

export function indexCommand(): Command {
  const command = new QuiverCommand("index");
  const count = parsed((text: string) => readInteger(text, 1));
  withConnection(
    command
      .command("create")
      .description("create an index; it is built in the background")
      .argument("<collection>")
      .argument("<kind>", "dense, sparse or text")
      .option("--index-name <name>", "name of the index (default: its kind)")
      .addOption(new Option("--metric <metric>", "dense: the metric").choices(metrics).default("cosine"))
      .addOption(quantizationOption())
      .option("--range <min,max>", "dense: value range, for types binary to u8", parsed(readRange))
      .option("--ef-construction <n>", "dense: beam width while building", count)
      .option("--ef-search <n>", "dense: beam width of searches", count)
      .option("--neighbors <n>", "dense: maximum links of a node above level 0", count)
      .option("--level-0-neighbors <n>", "dense: maximum links of a node at level 0", count)
      .option("--layers <n>", "dense: maximum number of levels of the graph", count)
      .option("--cache-size <n>", "dense: full-precision vectors kept in memory (default: all)", count)
      .option(
        "--recall-target <r>",
        "dense: recall that searches should reach, 0 to 1; sets the beam width by measurements",
        parsed(readNumber),
      )
      .addOption(
        new Option(
          "--levels <n>",
          `sparse: number of quantization levels of the stored values (default: ${limits.sparseLevelsDefault})`,
        ).choices(levels.map(String)),
      )
      .option(
        "--sample-threshold <n>",
        `records sampled before the index decides (default: ${limits.sampleThresholdDefault})`,
        count,
      )
      .option(
        "--k1 <n>",
        `text: term-frequency saturation (default: ${limits.k1Default})`,
        parsed(readNumber),
      )
      .option("--b <n>", `text: length normalization (default: ${limits.bDefault})`, parsed(readNumber))
      .option("--language <name>", "text: language of stemming and stop words, or none (default: english)")
      .option(
        "--stop-words <list>",
        'text: stop words that replace those of the language: a,b,c or @FILE with one per line; "" for none',
        parsed(readWords),
      )
      .option("--positions", "text: store the positions of words, for phrase queries")
      .option("--wait", "return when the index has been built"),
  ).action(create);
  withConnection(
    command
      .command("show", { isDefault: true })
      .description("the indexes of a collection and their progress")
      .argument("<collection>"),
  ).action(show);
  withConnection(
    command
      .command("analyze")
      .description("show the terms that the text index produces from a text")
      .argument("<collection>")
      .argument("<text>", "the text, in quotes if it contains spaces"),
  ).action(analyze);
  withConnection(
    command
      .command("recall")
      .description("measure the recall of the dense index")
      .argument("<collection>")
      .addOption(
        new Option("--sample <n>", "number of vectors used as queries").argParser(count).default(100),
      )
      .addOption(new Option("-k, --top-k <n>", "results compared").argParser(count).default(10))
      .addOption(new Option("--ef-search <n>", "beam width (default: that of the index)").argParser(count)),
  ).action(recall);
  withConnection(
    command
      .command("delete")
      .description("delete an index; the records are kept")
      .argument("<collection>")
      .argument("<kind>", "dense, sparse or text"),
  ).action(remove);
  return command;
}

async function create(name: string, kindName: string, options: CreateOptions): Promise<void> {
  const kind = kindOf(kindName);
  const collection = (await connect(options)).collection(name);
  if (kind === "dense") await collection.createDenseIndex(denseDefinition(options));
  if (kind === "sparse") {
    await collection.createSparseIndex({
      name: options.indexName,
      quantization: options.levels === undefined ? undefined : (Number(options.levels) as Level),
      sample_threshold: options.sampleThreshold,
    });
  }
  if (kind === "tf-idf") {
    await collection.createTextIndex({
      name: options.indexName,
      sample_threshold: options.sampleThreshold,
      k1: options.k1,
      b: options.b,
      language: options.language as TextLanguage | undefined,
      stop_words: options.stopWords,
      positions: options.positions,
    });
  }
  if (options.wait) await collection.waitForIndex();
  if (options.json) return printJson((await collection.indexes())[kind] ?? null);
  const state = options.wait ? "It is ready." : "It is built in the background; searches work meanwhile.";
  printLine(`Created the ${kindName} index of ${JSON.stringify(name)}. ${state}`);
}

/** Also takes the spelling of published clients. */
function quantizationOption(): Option {
  const option = new Option("--quantization <type>", "dense: auto, or the type of the codes (default: auto)");
  const read = option.choices(dataTypes).parseArg;
  return option.argParser((text, before) => read?.(text === "quaternay" ? "quaternary" : text, before));
}

function denseDefinition(options: CreateOptions) {
  const { quantization = "auto", range, sampleThreshold } = options;
  return {
    name: options.indexName,
    distance_metric_type: options.metric,
    quantization:
      quantization === "auto"
        ? { type: "auto" as const, properties: { sample_threshold: sampleThreshold } }
        : { type: "scalar" as const, properties: { data_type: quantization, range } },
    index: {
      type: "hnsw" as const,
      properties: {
        ef_construction: options.efConstruction,
        ef_search: options.efSearch,
        neighbors_count: options.neighbors,
        level_0_neighbors_count: options.level0Neighbors,
        num_layers: options.layers,
        max_cache_size: options.cacheSize,
        recall_target: options.recallTarget,
      },
    },
  };
}

async function show(name: string, options: ConnectionOptions): Promise<void> {
  const indexes = await (await connect(options)).collection(name).indexes();
  if (options.json) return printJson(indexes);
  printTable(
    Object.entries(indexes),
    [
      { title: "KIND", value: ([kind]) => (kind === "tf-idf" ? "text" : kind) },
      { title: "NAME", value: ([, { name }]) => name },
      { title: "STATE", value: ([, { status }]) => status.state },
      { title: "DONE", value: ([, { status }]) => `${status.percentage_complete.toFixed(1)}%`, right: true },
      { title: "RECORDS", value: ([, { status }]) => status.records_indexed, right: true },
      { title: "MEMORY", value: ([, { status }]) => formatBytes(status.memory_bytes), right: true },
      { title: "SERVED BY", value: ([, { status }]) => status.served_by },
    ],
    `${JSON.stringify(name)} has no index. Create one with: quiver index create ${name} dense`,
  );
}

const reasons: Readonly<Record<DropReason, string>> = {
  stop_word: "a stop word",
  too_long: "too long",
  no_letters: "no letters",
};

async function analyze(name: string, text: string, options: ConnectionOptions): Promise<void> {
  const analysis = await (await connect(options)).collection(name).analyzeText(text);
  if (options.json) return printJson(analysis);
  printTable(
    analysis.terms,
    [
      { title: "PLACE", value: ({ position }) => position, right: true },
      { title: "WORD", value: ({ word }) => word },
      { title: "TERM", value: ({ term }) => term },
      { title: "DROPPED", value: ({ dropped }) => dropped && reasons[dropped] },
    ],
    "The text has no words.",
  );
}

type RecallOptions = ConnectionOptions & { sample: number; topK: number; efSearch?: number };

async function recall(name: string, options: RecallOptions): Promise<void> {
  const { sample, topK, efSearch } = options;
  const measured = await (await connect(options)).collection(name).measureRecall({ sample, topK, efSearch });
  if (options.json) return printJson(measured);
  const { queries, search_ms, exact_ms } = measured;
  printLine(
    `recall@${topK} ${measured.recall.toFixed(4)} (worst query ${measured.worst_recall.toFixed(2)}) over ${queries} queries; ` +
      `${search_ms.toFixed(3)} ms per search, ${exact_ms.toFixed(3)} ms per exact search`,
  );
}

async function remove(name: string, kindName: string, options: ConnectionOptions): Promise<void> {
  await (await connect(options)).collection(name).deleteIndex(kindOf(kindName));
  if (options.json) return printJson({ deleted: kindName });
  printLine(`Deleted the ${kindName} index of ${JSON.stringify(name)}.`);
}

function kindOf(name: string): keyof Indexes {
  if (name === "dense" || name === "sparse") return name;
  if (["text", "tf-idf", "tf_idf"].includes(name)) return "tf-idf";
  throw new UsageError(`There is no index of kind ${JSON.stringify(name)}; expected dense, sparse or text.`);
}

function readWords(text: string): string[] {
  const words = text.startsWith("@") ? readFileSync(text.slice(1), "utf8").split(/\r?\n/) : text.split(",");
  return words.map((word) => word.trim()).filter((word) => word !== "");
}

function readRange(text: string): { min: number; max: number } {
  const [min, max] = text.split(",").map(Number);
  if (Number.isFinite(min) && Number.isFinite(max) && min < max) return { min, max };
  throw new Error("expected two numbers, the smaller one first, such as -1,1");
}
