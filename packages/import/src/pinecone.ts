// How are the vectors of Pinecone read?
//
// As its interface gives them, `{ id, values, sparseValues, metadata }` (or `sparse_values`, as in Python): from a file with lines of them, an
// array, or answers and bodies of requests, `{ vectors: [...] }` and `{ vectors: { id: {...} } }` (of its client in JavaScript `records`, of a
// query `matches`), one after the other; or from its server: a page of ids is listed, and the vectors of these ids are fetched.

import { QuiverError } from "@quiverdb/client";
import type { Format, Live, LiveReading, Metric } from "./format.ts";
import { exportPages, type JsonObject, jsonObjects } from "./json-values.ts";
import { peer } from "./peer.ts";
import { RecordFault } from "./record-fault.ts";
import {
  denseParts,
  idOf,
  type MetadataKeys,
  metadataNames,
  metadataParts,
  sparseNames,
  sparseParts,
} from "./record-parts.ts";

/** Which keys of the metadata of Pinecone are more than metadata. */
export type PineconeOptions = MetadataKeys;

/** What is used of the client `@pinecone-database/pinecone`. */
export type PineconeClientLike = {
  /** The indexes of the project. */
  indexes: {
    /** What an index is: its dimension, its metric and its address. */
    describe(name: string): Promise<PineconeIndexModel>;
  };
  /** A namespace of an index. */
  index(options: { name: string; namespace: string }): {
    /** Number of records of each namespace. */
    describeIndexStats(): Promise<{ namespaces?: Record<string, { recordCount: number }> }>;
    /** A page of ids, and the token of the next one. */
    listPaginated(options: { limit: number; paginationToken?: string }): Promise<{
      vectors?: readonly { id?: string }[];
      pagination?: { next?: string };
    }>;
    /** Records by their ids. */
    fetch(options: { ids: string[] }): Promise<{ records: Readonly<Record<string, unknown>> }>;
  };
};

type Field = { type?: string; dimension?: unknown; metric?: unknown };
type PineconeIndexModel = { schema: { fields: Readonly<Record<string, object>> } };

/** A namespace of an index: by a client, or by a key. */
export type PineconeSource = {
  /** Name of the index. */
  index: string;
  /** Default: the only one with records. */
  namespace?: string;
} & (
  | { client: PineconeClientLike }
  | {
      apiKey: string;
      /** Address of the service that knows the indexes. Default: Pinecone's. */
      url?: string | URL;
    }
);

type PineconeModule = {
  Pinecone: new (options: { apiKey: string; controllerHostUrl?: string }) => PineconeClientLike;
};

const metrics: Readonly<Record<string, Metric>> = {
  cosine: "cosine",
  euclidean: "euclidean",
  dotproduct: "dot_product",
};

export const pinecone: Format<JsonObject, PineconeOptions, PineconeSource> = {
  title: "Pinecone",
  pageRecordsMax: 100,
  read: (source) => jsonObjects(source, exportPages.pinecone),
  live,
  record: (raw, options) => {
    const { id, values, metadata, score } = raw;
    if (score !== undefined && hasNoVector(raw)) throw new RecordFault(queryWithValues);
    const { name, value } = sparseOf(raw);
    return {
      id: idOf(id),
      ...metadataParts(metadata, options, "metadata"),
      // An index of sparse vectors answers with empty dense ones.
      ...(!isEmpty(values) && denseParts(values, "values")),
      ...sparseParts(value, name),
    };
  },
  names: (raw, options) => ({
    dense_values: "values",
    ...sparseNames(sparseOf(raw).name),
    ...metadataNames("metadata", options),
  }),
};

/** What is wrong with a match of a query that has no vector. */
export const queryWithValues = "has no values; query Pinecone with includeValues: true";

const isEmpty = (list: unknown): boolean => Array.isArray(list) && list.length === 0;

/** The sparse vector, and its field: as its interface, or as its client in Python calls it. */
const sparseOf = ({ sparseValues, sparse_values }: JsonObject): { name: string; value: unknown } =>
  (sparseValues ?? sparse_values) === sparseValues
    ? { name: "sparseValues", value: sparseValues }
    : { name: "sparse_values", value: sparse_values };

/** Whether a vector has neither dense nor sparse values: so a query answers that was not asked for them. */
export function hasNoVector(raw: JsonObject): boolean {
  const sparse = sparseOf(raw).value as JsonObject | undefined | null;
  return [raw.values, sparse?.indices].every((list) => list === undefined || list === null || isEmpty(list));
}

async function live(
  source: PineconeSource,
  options: PineconeOptions,
  { pageRecords, ask }: LiveReading,
): Promise<Live<JsonObject>> {
  const client = "client" in source ? source.client : await clientOf(source);
  const { dense, sparse } = fieldsOf(source.index, await ask(() => client.indexes.describe(source.index)));
  const { namespaces = {} } = await ask(() =>
    client.index({ name: source.index, namespace: "" }).describeIndexStats(),
  );
  const namespace = source.namespace ?? onlyNamespace(source.index, Object.keys(namespaces));
  const index = client.index({ name: source.index, namespace });
  async function* pages(from: string | undefined) {
    let token = from;
    do {
      const place = { limit: pageRecords, ...(token !== undefined && { paginationToken: token }) };
      const { vectors = [], pagination } = await ask(() => index.listPaginated(place));
      token = pagination?.next === "" ? undefined : pagination?.next;
      const ids = vectors.map(({ id }) => id as string);
      if (ids.length === 0) continue;
      const { records } = await ask(() => index.fetch({ ids }));
      // What was deleted between both requests is not there.
      const raws = ids.flatMap((id) => (Object.hasOwn(records, id) ? [records[id] as JsonObject] : []));
      yield { raws, next: token ?? null };
    } while (token !== undefined);
  }
  const metric = String(dense?.metric);
  return {
    shape: {
      ...(dense !== undefined && { dimension: Number(dense.dimension) }),
      ...(Object.hasOwn(metrics, metric) ? { metric: metrics[metric] } : { otherMetric: metric }),
      sparse: sparse !== undefined,
      text: options.text !== undefined,
    },
    recordsTotal: Object.hasOwn(namespaces, namespace) ? namespaces[namespace].recordCount : undefined,
    pages,
    close: async () => undefined,
  };
}

async function clientOf({ apiKey, url }: Extract<PineconeSource, { apiKey: string }>) {
  const { Pinecone } = await peer<PineconeModule>("@pinecone-database/pinecone", "Pinecone");
  return new Pinecone({ apiKey, ...(url !== undefined && { controllerHostUrl: String(url) }) });
}

/** The vectors of an index. One that embeds texts itself has its vectors in the field of the text. */
function fieldsOf(index: string, { schema }: PineconeIndexModel): { dense?: Field; sparse?: Field } {
  const { _values, _sparse_values: sparse, ...others } = schema.fields as Readonly<Record<string, Field>>;
  const embedded = Object.values(others).filter(({ type }) => type === "semantic_text");
  const dense = _values ?? (embedded.length === 1 ? embedded[0] : undefined);
  if (dense !== undefined || sparse !== undefined) return { dense, sparse };
  throw new QuiverError(
    "invalid_request",
    `The index ${JSON.stringify(index)} of Pinecone has documents with the fields ${Object.keys(others).join(", ")}, and not the vectors that its interface lists. Write its documents to a file of JSON Lines.`,
    { index },
  );
}

/** Ids are unique within a namespace, so several together would overwrite each other's records. */
function onlyNamespace(index: string, names: readonly string[]): string {
  if (names.length <= 1) return names[0] ?? "";
  throw new QuiverError(
    "invalid_request",
    `The index ${JSON.stringify(index)} of Pinecone has the namespaces ${names.map((name) => JSON.stringify(name)).join(", ")}; choose one with the option namespace, and give each a collection of its own.`,
    { option: "namespace", namespaces: names },
  );
}
