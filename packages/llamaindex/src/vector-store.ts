// How does LlamaIndex.TS store and find nodes in Quiver?
//
//   node                        record of the collection
//   id_                    ->   id
//   id of its document     ->   document_id     what `delete` and `docIds` name
//   text                   ->   text            stored, and searched in the modes "hybrid" and "sparse"
//   metadata               ->   metadata        what filters name; with the node itself in `_node_content`, as other stores have it
//   embedding              ->   dense_values
//
// Maximal marginal relevance is the database's own: `mmrThreshold` is 1 - diversity.

import { type BaseNode, MetadataMode, TextNode } from "@llamaindex/core/schema";
import {
  BaseVectorStore,
  metadataDictToNode,
  nodeToMetadata,
  type VectorStoreBaseParams,
  type VectorStoreQuery,
  type VectorStoreQueryResult,
} from "@llamaindex/core/vector-store";
import {
  type Collection,
  type Database,
  type DenseIndexInput,
  ensureTexts,
  QuiverError,
  type SearchResponse,
  type SearchResult,
} from "@quiverdb/client";
import { filterOf } from "./filters.ts";

/** Where a vector store has its nodes. */
export type QuiverVectorStoreParams = VectorStoreBaseParams & {
  /** From `connect` of `@quiverdb/client` or `open` of `@quiverdb/database`. */
  database: Database;
  /** Name of the collection; the first nodes create it, with their dimension, if it does not exist. */
  collection: string;
  /** Metric of a collection that is created. Default "cosine". */
  metric?: DenseIndexInput["distance_metric_type"];
};

const mmrThresholdDefault = 0.5;

/**
 * A vector store of LlamaIndex.TS in a collection of Quiver. Query modes: "default" (vectors), "hybrid" (vectors and words; `alpha` is the
 * weight of the vectors, 0 to 1), "sparse" (words alone, BM25) and "mmr" (vectors, unlike each other; `mmrThreshold`).
 *
 * @example
 * ```ts no-run
 * import { connect } from "@quiverdb/client";
 * import { QuiverVectorStore } from "@quiverdb/llamaindex";
 * const database = connect("http://127.0.0.1:8443", { apiKey: process.env.QUIVER_API_KEY });
 * const vectorStore = new QuiverVectorStore({ database, collection: "nodes" });
 * ```
 */
export class QuiverVectorStore extends BaseVectorStore<Collection> {
  readonly storesText = true;
  override readonly isEmbeddingQuery = true;
  readonly #params: QuiverVectorStoreParams;
  readonly #collection: Collection;
  #isCreated = false;

  /** Sends no request. */
  constructor(params: QuiverVectorStoreParams) {
    super(params);
    this.#params = params;
    this.#collection = params.database.collection(params.collection);
  }

  /** The collection itself, with all its methods. */
  client(): Collection {
    return this.#collection;
  }

  /** Stores nodes with their embeddings; a node whose id is stored already replaces it. @returns their ids */
  async add(nodes: BaseNode[]): Promise<string[]> {
    if (nodes.length === 0) return [];
    await this.#create(nodes[0].getEmbedding().length);
    await this.#collection.upsert(
      nodes.map((node) => ({
        id: node.id_,
        document_id: node.sourceNode?.nodeId ?? null,
        text: node.getContent(MetadataMode.NONE),
        dense_values: node.getEmbedding(),
        metadata: nodeToMetadata(node, true),
      })),
    );
    return nodes.map(({ id_ }) => id_);
  }

  /** Deletes all nodes of a document. */
  async delete(refDocId: string): Promise<void> {
    await this.#collection.deleteMatching({ field: "document_id", eq: refDocId });
  }

  /**
   * The best nodes, in the order of their scores; with "mmr", in the order of choice.
   * @throws QuiverError invalid_request for a mode that the store does not have, or a query without what its mode needs
   */
  async query(query: VectorStoreQuery): Promise<VectorStoreQueryResult> {
    const { results } = await this.#search(query);
    return {
      nodes: results.map(nodeOf),
      similarities: results.map(({ score }) => score),
      ids: results.map(({ id }) => id),
    };
  }

  #search({
    mode,
    similarityTopK,
    queryEmbedding,
    queryStr,
    alpha,
    mmrThreshold,
    ...query
  }: VectorStoreQuery): Promise<SearchResponse> {
    const needed = <T>(value: T | undefined, name: string): T => {
      if (value !== undefined) return value;
      throw new QuiverError("invalid_request", `A query of the mode ${mode} needs ${name}.`, { path: name });
    };
    const vector = () => needed(queryEmbedding, "queryEmbedding");
    const text = () => needed(queryStr, "queryStr");
    const common = {
      top_k: similarityTopK,
      filter: filterOf(query.filters, query.docIds),
      return_raw_text: true,
      include: ["metadata" as const],
    };
    const { search } = this.#collection;
    switch (mode as string) {
      case "default":
        return search.dense({ query_vector: vector(), ...common });
      case "mmr": {
        const diversity = 1 - (mmrThreshold ?? mmrThresholdDefault);
        return search.dense({ query_vector: vector(), diversity, ...common });
      }
      case "sparse":
        return search.text({ query: text(), ...common });
      case "hybrid": {
        const fusion_weights = alpha === undefined ? undefined : { dense: alpha, text: 1 - alpha };
        return search.hybrid({ query_vector: vector(), query_text: text(), fusion_weights, ...common });
      }
      default:
        throw new QuiverError(
          "invalid_request",
          `The query mode ${JSON.stringify(mode)} is not supported; the modes are default, hybrid, sparse and mmr.`,
          { path: "mode" },
        );
    }
  }

  async #create(dimension: number): Promise<void> {
    if (this.#isCreated) return;
    const { database, collection, metric } = this.#params;
    await ensureTexts(database, collection, { dimension, metric });
    this.#isCreated = true;
  }
}

/** The node of a record; of one that something else has written, a node of its text and metadata. */
function nodeOf({ id, text, metadata }: SearchResult): BaseNode {
  const isOurs = typeof metadata?._node_content === "string";
  const node = isOurs ? metadataDictToNode(metadata) : new TextNode({ id_: id, metadata: metadata ?? {} });
  node.setContent(text ?? "");
  return node;
}
