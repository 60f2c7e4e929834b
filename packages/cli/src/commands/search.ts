// quiver search

import { readFileSync } from "node:fs";
import type {
  Explanation,
  QueryTerms,
  SearchResponse,
  SearchResult,
  TextSyntax,
} from "@quiverdb/protocol/shapes/search";
import { type Command, Option } from "commander";
import { type ConnectionOptions, connect, parsed, QuiverCommand, withConnection } from "../command.ts";
import { UsageError } from "../exit-codes.ts";
import { type FilterOptions, filterOf, whereHelp, withFilter } from "../filter/option.ts";
import { printJson, printTable, printWarnings } from "../output.ts";
import { asItWas, type PastOptions, withPast } from "../past.ts";
import { readInteger, readNumber } from "../values.ts";

type SearchOptions = ConnectionOptions &
  FilterOptions &
  PastOptions & {
    vector?: string;
    sparse?: string;
    text?: string;
    syntax?: TextSyntax;
    topK: number;
    exact?: boolean;
    efSearch?: number;
    recallTarget?: number;
    fusionConstant?: number;
    threshold?: number;
    rawText?: boolean;
    explain?: boolean;
  };

export function searchCommand(): Command {
  const command = new QuiverCommand("search")
    .argument("<collection>")
    .option("--text <words>", "full-text query")
    .addOption(
      new Option(
        "--syntax <name>",
        'text: plain words, or operators: "a phrase", +required, -excluded, prefix*, fuzzy~1',
      ).choices(["plain", "operators"] satisfies TextSyntax[]),
    )
    .option("--vector <json>", "dense query: an array of numbers, or @FILE that contains one")
    .option(
      "--sparse <json>",
      'sparse query: {"1": 0.5, "7": 2} or pairs [[1, 0.5], [7, 2]], or @FILE that contains one',
    )
    .addOption(
      new Option("--top-k <n>", "results wanted")
        .argParser(parsed((v) => readInteger(v, 1, 10_000)))
        .default(10),
    )
    .option("--exact", "dense: scan all vectors instead of using the graph")
    .option(
      "--ef-search <n>",
      "dense: beam width of this search",
      parsed((v) => readInteger(v, 1)),
    )
    .option(
      "--recall-target <r>",
      "dense: recall that this search should reach, 0 to 1; sets the beam width by measurements",
      parsed(readNumber),
    )
    .option("--fusion-constant <k>", "hybrid: k of reciprocal rank fusion", parsed(readNumber))
    .option("--threshold <t>", "sparse: early termination, 0 (exact) to 1", parsed(readNumber))
    .option("--raw-text", "show the raw texts, if the collection stores them")
    .option("--explain", "explain the score of each result")
    .addHelpText(
      "after",
      `
  quiver search docs --text "how do bees navigate" --raw-text
  quiver search docs --text '+bees "waggle dance" -wasps navig*' --syntax operators
  quiver search docs --vector '[0.1, 0.9]' --top-k 5
  quiver search docs --text bees --vector @query.json
  quiver search docs --text bees --as-of 2026-11-27T20:15:00Z
  quiver search docs --text bees --where 'year >= 2000 and author.name starts with "B"'
${whereHelp}`,
    );
  return withConnection(withPast(withFilter(command, "search only among matching records"))).action(search);
}

async function search(name: string, options: SearchOptions): Promise<void> {
  const { search } = asItWas((await connect(options)).collection(name), options);
  const common = {
    top_k: options.topK,
    filter: filterOf(options),
    return_raw_text: options.rawText,
  };
  const dense = { ef_search: options.efSearch, recall_target: options.recallTarget, exact: options.exact };
  const vector = options.vector === undefined ? undefined : readVector(options.vector);
  const terms = options.sparse === undefined ? undefined : readTerms(options.sparse);
  const { text, syntax } = options;
  const kinds = [vector, terms, text].filter((query) => query !== undefined).length;
  const isDense = Object.values(dense).some((value) => value !== undefined);
  if (isDense && vector === undefined)
    throw new UsageError("--ef-search, --recall-target and --exact are for a search with --vector.");
  if (kinds === 0) throw new UsageError("Nothing to search for; give --text, --vector or --sparse.");
  const asked = { ...common, explain: options.explain };
  const ask = (): Promise<SearchResponse> => {
    if (kinds > 1) {
      return search.hybrid({
        query_vector: vector,
        query_terms: terms,
        query_text: text,
        syntax,
        fusion_constant_k: options.fusionConstant,
        sparse_early_terminate_threshold: options.threshold,
        ...asked,
        ...dense,
      });
    }
    if (vector) return search.dense({ query_vector: vector, ...asked, ...dense });
    if (terms)
      return search.sparse({ query_terms: terms, early_terminate_threshold: options.threshold, ...asked });
    return search.text({ query: text, syntax, ...asked });
  };
  const answer = await ask();
  if (options.json) printJson(answer);
  else printResults(answer.results, options);
  printWarnings(answer);
}

function printResults(results: readonly SearchResult[], { rawText, explain }: SearchOptions): void {
  const hasDocuments = results.some(({ document_id }) => document_id !== null);
  printTable(
    results.map((result, i) => ({ ...result, rank: i + 1 })),
    [
      { title: "RANK", value: ({ rank }) => rank, right: true },
      { title: "SCORE", value: ({ score }) => score.toFixed(4), right: true },
      { title: "ID", value: ({ id }) => id },
      ...(hasDocuments ? [{ title: "DOCUMENT", value: ({ document_id }: SearchResult) => document_id }] : []),
      ...(explain ? [{ title: "WHY", value: ({ explanation }: SearchResult) => reason(explanation) }] : []),
      ...(rawText ? [{ title: "TEXT", value: ({ text }: SearchResult) => text }] : []),
    ],
    "No results.",
  );
}

/** `dense #2 0.9701; text #1 2.3041 = glacier 1.2000 + carv 1.1041`: rank, score and matches of each leg. */
function reason(explanation: Explanation | undefined): string {
  const { dense, sparse, "tf-idf": text } = explanation ?? {};
  const leg = (name: string, standing: Standing | null | undefined, parts: readonly string[]) => {
    if (!standing) return [];
    const { rank, score } = standing;
    return `${name} #${rank} ${score.toFixed(4)}${parts.length > 0 ? ` = ${parts.join(" + ")}` : ""}`;
  };
  return [
    leg("dense", dense, []),
    leg(
      "sparse",
      sparse,
      sparse?.matches.map(({ index, product }) => `${index} ${product.toFixed(4)}`) ?? [],
    ),
    leg(
      "text",
      text,
      text?.matches.map(({ term, contribution }) => `${term} ${contribution.toFixed(4)}`) ?? [],
    ),
  ]
    .flat()
    .join("; ");
}

type Standing = { rank: number; score: number };

function readVector(given: string): number[] {
  const value = readJson("--vector", given);
  if (Array.isArray(value) && value.every((item) => typeof item === "number")) return value;
  throw new UsageError("--vector: expected a JSON array of numbers such as [0.1, 0.9].");
}

function readTerms(given: string): QueryTerms {
  const value = readJson("--sparse", given);
  if (Array.isArray(value)) return value as QueryTerms;
  const pairs = Object.entries(value as Record<string, unknown>);
  if (
    typeof value === "object" &&
    value !== null &&
    pairs.every(([, weight]) => typeof weight === "number")
  ) {
    return pairs.map(([index, weight]) => ({ index: Number(index), value: weight as number }));
  }
  throw new UsageError('--sparse: expected {"index": value, ...} or [[index, value], ...].');
}

function readJson(flag: string, given: string): unknown {
  let text = given;
  if (given.startsWith("@")) {
    try {
      text = readFileSync(given === "@-" ? 0 : given.slice(1), "utf8");
    } catch (error) {
      throw new UsageError(`${flag} ${given}: ${(error as Error).message}`);
    }
  }
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new UsageError(
      `${flag} is not JSON: ${(error as Error).message}. Expected is something like ${flag === "--vector" ? "'[0.1, 0.9]'" : `'{"7": 0.5}'`}.`,
    );
  }
}
