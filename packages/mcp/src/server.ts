// Which tools does a language model get on a database?
//
//   list_collections, describe_collection    what there is, and what can be searched
//   search, similar, fetch                   records
//   upsert, delete                           only with `write: true`
//
// A tool's arguments have the field names of the REST interface; unknown ones are refused, so that a misspelt filter does not select
// everything. Its result is the answer as JSON, in the text and as structured content. A failure of the database is a result that is marked
// as an error, with code and message, so that the model can correct its call.

import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import type { CallToolResult } from "@modelcontextprotocol/sdk/types.js";
import { type Collection, type Database, type Embed, isQuiverError, QuiverError } from "@quiverdb/client";
import { z } from "zod";
import { version } from "./version.ts";

/** Which database the tools use, and what they may do. */
export type QuiverMcpOptions = {
  /** From `connect` of `@quiverdb/client` or `open` of `@quiverdb/database`. */
  database: Database;
  /** Whether the tools that change records exist. Default false. */
  write?: boolean;
  /** Makes vectors of texts: searches by meaning take a text, and `upsert` embeds texts. Default: none. */
  embed?: Embed;
};

/** Results of one search; more would fill the context of a model. */
const topKMax = 100;
const idsMax = 100;
const recordsMax = 1_000;

const collection = z.string().describe("Name of the collection, as list_collections gives it.");
const filter = z
  .record(z.string(), z.unknown())
  .optional()
  .describe(
    'Only records whose metadata satisfy it: {"color": "red", "n": {"gte": 1}}; {"and": [...]}, {"or": [...]}, {"not": {...}}. ' +
      "Operators: eq, ne, in, nin, gt, gte, lt, lte, exists, contains, prefix.",
  );
const include = z
  .array(z.enum(["metadata", "text", "dense_values", "sparse_values"]))
  .default(["metadata", "text"])
  .describe("Fields of each record.");
const topK = z.number().int().min(1).max(topKMax).default(10).describe("Number of results.");
const numbers = z.array(z.number());
const queryTerms = z
  .array(z.strictObject({ index: z.number().int().min(0), value: z.number() }))
  .describe("Sparse query.");

const kinds = ["text", "dense", "sparse", "hybrid"] as const;
type Kind = (typeof kinds)[number];

type SearchArguments = {
  kind?: Kind;
  query_text?: string;
  query_vector?: number[];
  query_terms?: { index: number; value: number }[];
  filter?: Record<string, unknown>;
  top_k: number;
  include: ("metadata" | "text" | "dense_values" | "sparse_values")[];
};

/**
 * An MCP server with tools on a database. Connect it to a transport of the SDK.
 *
 * @example
 * ```ts no-run
 * import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
 * import { connect } from "@quiverdb/client";
 * import { createMcpServer } from "@quiverdb/mcp";
 * const database = connect("http://127.0.0.1:8443", { apiKey: process.env.QUIVER_API_KEY });
 * await createMcpServer({ database }).connect(new StdioServerTransport());
 * ```
 */
export function createMcpServer({ database, write = false, embed }: QuiverMcpOptions): McpServer {
  const server = new McpServer(
    { name: "quiver", version },
    {
      instructions:
        "A vector database. Begin with list_collections and describe_collection; then search, and fetch records by id." +
        (write ? "" : " Read-only: records cannot be changed."),
    },
  );
  const reads = { readOnlyHint: true, openWorldHint: false };

  server.registerTool(
    "list_collections",
    {
      description: "Names and descriptions of all collections.",
      annotations: reads,
    },
    () => result(async () => ({ collections: await database.listCollections() })),
  );

  server.registerTool(
    "describe_collection",
    {
      description:
        "A collection: number of records, which kinds of vectors and texts it has, its indexes, and the indexed fields of the metadata.",
      inputSchema: z.strictObject({ collection }),
      annotations: reads,
    },
    ({ collection }) =>
      result(async () => {
        const one = database.collection(collection);
        const [detail, indexes, metadata_indexes, sample] = await Promise.all([
          one.describe(),
          one.indexes(),
          one.metadataIndexes(),
          one.scroll({ limit: 3, include: ["metadata"] }),
        ]);
        return { ...detail, indexes, metadata_indexes, sample_records: sample.vectors };
      }),
  );

  server.registerTool(
    "search",
    {
      description: `Records that fit a query best. text: by words (BM25). dense: by nearness of vectors${
        embed === undefined
          ? ""
          : "; without query_vector, that of query_text is used, so it is a search by meaning"
      }. sparse: by sparse vectors. hybrid: at least two of them at once, which is best for questions.`,
      inputSchema: z.strictObject({
        collection,
        kind: z
          .enum(kinds)
          .optional()
          .describe("Default: what the given queries need; several of them make a hybrid search."),
        query_text: z.string().optional().describe("Words to search for, or a question."),
        query_vector: numbers.optional().describe("A vector of the collection's dimension."),
        query_terms: queryTerms.optional(),
        filter,
        top_k: topK,
        include,
      }),
      annotations: reads,
    },
    ({ collection, ...query }, { signal }) =>
      result(() => search(database.collection(collection), query, embed, signal)),
  );

  server.registerTool(
    "similar",
    {
      description: "Records whose dense vectors are like those of some records, and unlike those of others.",
      inputSchema: z.strictObject({
        collection,
        positive: z.array(z.string()).min(1).describe("Ids of records that results should be like."),
        negative: z.array(z.string()).optional().describe("Ids of records that results should be unlike."),
        filter,
        top_k: topK,
        include,
      }),
      annotations: reads,
    },
    ({ collection, include, ...request }, { signal }) =>
      result(() =>
        database
          .collection(collection)
          .search.recommend({ ...request, ...included(include) } as never, { signal }),
      ),
  );

  server.registerTool(
    "fetch",
    {
      description: "Records by their ids; null where there is none.",
      inputSchema: z.strictObject({ collection, ids: z.array(z.string()).min(1).max(idsMax), include }),
      annotations: reads,
    },
    ({ collection, ids, include }, { signal }) =>
      result(async () => ({
        records: await database.collection(collection).fetch({ ids, include }, { signal }),
      })),
  );

  if (write) addWriteTools(server, database, embed);
  return server;
}

function addWriteTools(server: McpServer, database: Database, embed: Embed | undefined): void {
  const record = z.strictObject({
    id: z.string(),
    document_id: z.string().optional(),
    text: z.string().optional(),
    metadata: z.record(z.string(), z.unknown()).optional(),
    dense_values: numbers.optional(),
    sparse_indices: z.array(z.number().int().min(0)).optional(),
    sparse_values: numbers.optional(),
  });

  server.registerTool(
    "upsert",
    {
      description: `Creates records, or replaces them by id. All of them or none are written.${
        embed === undefined ? "" : " Texts without dense_values get the vector of their text."
      }`,
      inputSchema: z.strictObject({ collection, records: z.array(record).min(1).max(recordsMax) }),
      annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false },
    },
    ({ collection, records }, { signal }) =>
      result(async () => {
        const target = database.collection(collection);
        const { dense_vector } = await target.describe({ signal });
        const complete =
          embed === undefined || !dense_vector.enabled ? records : await embedded(records, embed, signal);
        // One request, so that it is atomic.
        await target.upsert(complete, { signal, batchBytes: Number.MAX_SAFE_INTEGER });
        return { upserted: records.length };
      }),
  );

  server.registerTool(
    "delete",
    {
      description: "Deletes records: those with some ids, or all that match a filter.",
      inputSchema: z.strictObject({
        collection,
        ids: z.array(z.string()).min(1).max(recordsMax).optional(),
        filter,
      }),
      annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false },
    },
    ({ collection, ids, filter }, { signal }) =>
      result(async () => {
        if ((ids === undefined) === (filter === undefined))
          throw new QuiverError("invalid_request", "delete takes either ids or a filter.");
        const matching = ids === undefined ? filter : { field: "id", in: ids };
        return {
          deleted: await database.collection(collection).deleteMatching(matching as never, { signal }),
        };
      }),
  );
}

async function search(
  target: Collection,
  { kind, query_text, query_vector, query_terms, include, ...rest }: SearchArguments,
  embed: Embed | undefined,
  signal: AbortSignal,
): Promise<object> {
  const given = [query_text, query_vector, query_terms].filter((query) => query !== undefined).length;
  if (kind === undefined && given === 0)
    throw new QuiverError("invalid_request", "A search needs query_text, query_vector or query_terms.");
  const inferred =
    given > 1 ? "hybrid" : query_text !== undefined ? "text" : query_vector ? "dense" : "sparse";
  const wanted = kind ?? inferred;
  const common = { ...(rest as { top_k: number; filter?: never }), ...included(include) };
  const call = { signal };
  const needs = (query: string) =>
    new QuiverError("invalid_request", `A search of the kind ${wanted} needs ${query}.`, { kind: wanted });
  const vectorOf = async () => {
    if (query_vector !== undefined) return query_vector;
    if (embed === undefined || query_text === undefined) return undefined;
    return (await embed([query_text], { signal }))[0];
  };
  if (wanted === "text") {
    if (query_text === undefined) throw needs("query_text");
    return target.search.text({ query: query_text, ...common }, call);
  }
  if (wanted === "sparse") {
    if (query_terms === undefined) throw needs("query_terms");
    return target.search.sparse({ query_terms, ...common }, call);
  }
  if (wanted === "dense") {
    const vector = await vectorOf();
    if (vector === undefined)
      throw needs(embed === undefined ? "query_vector" : "query_vector or query_text");
    return target.search.dense({ query_vector: vector, ...common }, call);
  }
  // Two queries are enough for a hybrid search: a vector of the text is added only where there is one query.
  const vector = given > 1 ? query_vector : await vectorOf();
  return target.search.hybrid({ query_text, query_vector: vector, query_terms, ...common }, call);
}

/** The options that add fields to results. */
function included(include: SearchArguments["include"]) {
  return {
    return_raw_text: include.includes("text"),
    include: include.filter((field) => field !== "text"),
  };
}

type TextRecord = { text?: string; dense_values?: number[] };

async function embedded<T extends TextRecord>(records: T[], embed: Embed, signal: AbortSignal) {
  const bare = records.filter(({ text, dense_values }) => text !== undefined && dense_values === undefined);
  if (bare.length === 0) return records;
  const vectors = await embed(
    bare.map(({ text }) => text as string),
    { signal },
  );
  const vectorOf = new Map(bare.map((record, i) => [record, vectors[i]]));
  return records.map((record) => ({
    ...record,
    dense_values: record.dense_values ?? vectorOf.get(record),
  }));
}

/** A tool's result: JSON, or the database's error. */
async function result(act: () => Promise<object>): Promise<CallToolResult> {
  try {
    const answer = await act();
    return {
      content: [{ type: "text", text: JSON.stringify(answer) }],
      structuredContent: answer as Record<string, unknown>,
    };
  } catch (error) {
    if (!isQuiverError(error)) throw error;
    const { code, message, details } = error;
    return {
      isError: true,
      content: [{ type: "text", text: JSON.stringify({ error: { code, message, details } }) }],
    };
  }
}
