// How are the points of Qdrant read?
//
// As its REST interface gives them, `{ id, payload, vector }`: from a file with lines of them, an array, or the answers of `POST /points/scroll`,
// `{ result: { points } }`, one after the other; or from its server, by scrolling in the order of ids.

import { QuiverError, type RecordInput } from "@quiverdb/client";
import type { Format, Live, LiveReading, Metric, SourceShape } from "./format.ts";
import { exportPages, type JsonObject, jsonObjects } from "./json-values.ts";
import { addressOf, peer } from "./peer.ts";
import { RecordFault } from "./record-fault.ts";
import {
  choiceNeeded,
  idOf,
  type MetadataKeys,
  metadataNames,
  metadataParts,
  shown,
  sparseNames,
  sparseParts,
} from "./record-parts.ts";

/** Which keys of the payload are more than metadata, and which vector is which. */
export type QdrantOptions = MetadataKeys & {
  /** Name of the dense vector to take, if points have several. Default: the only one. */
  vector?: string;
  /** Name of the sparse vector to take. Default: the only one. */
  sparse?: string;
};

/** What is used of the client `@qdrant/js-client-rest`. */
export type QdrantClientLike = {
  /** What a collection is: its vectors and how they are compared. */
  getCollection(name: string): Promise<{
    config: { params: { vectors?: unknown; sparse_vectors?: unknown } };
  }>;
  /** Number of points. */
  count(name: string, options: { exact: boolean }): Promise<{ count: number }>;
  /** A page of points, and where the next one begins. */
  scroll(
    name: string,
    options: {
      limit: number;
      offset?: string | number;
      with_payload: boolean;
      with_vector: boolean | string[];
    },
  ): Promise<{ points: readonly unknown[]; next_page_offset?: unknown }>;
};

/** A collection of a server: by a client, or by its address. */
export type QdrantSource = { collection: string } & (
  | { client: QdrantClientLike }
  | { url: string | URL; apiKey?: string }
);

type QdrantModule = {
  QdrantClient: new (options: {
    url: string;
    port: null;
    prefix?: string;
    headers?: Record<string, string>;
    checkCompatibility: boolean;
  }) => QdrantClientLike;
};

const metrics: Readonly<Record<string, Metric>> = {
  Cosine: "cosine",
  Euclid: "euclidean",
  Dot: "dot_product",
};

export const qdrant: Format<JsonObject, QdrantOptions, QdrantSource> = {
  title: "Qdrant",
  pageRecordsMax: 10_000,
  read: (source) => jsonObjects(source, exportPages.qdrant),
  live,
  record: (raw, options) => ({
    id: idOf(raw.id),
    ...metadataParts(raw.payload, options, "payload"),
    ...vectorParts(raw, options),
  }),
  names: (raw, options) => {
    const { dense, sparse } = vectorsOf(raw, options);
    return {
      ...metadataNames("payload", options),
      dense_values: dense?.name ?? "vector",
      ...(sparse !== undefined && sparseNames(sparse.name)),
    };
  },
};

async function live(
  source: QdrantSource,
  options: QdrantOptions,
  { pageRecords, ask }: LiveReading,
): Promise<Live<JsonObject>> {
  const { collection } = source;
  const client = "client" in source ? source.client : await clientOf(source);
  const { params } = (await ask(() => client.getCollection(collection))).config;
  const { shape, wanted } = shapeOf(collection, params, options);
  const { count } = await ask(() => client.count(collection, { exact: true }));
  async function* pages(from: string | undefined) {
    let offset = from;
    do {
      const page = await ask(() =>
        client.scroll(collection, {
          limit: pageRecords,
          ...(offset !== undefined && { offset: pointId(offset) }),
          with_payload: true,
          with_vector: wanted,
        }),
      );
      const { next_page_offset: next = null } = page;
      offset = next === null ? undefined : String(next);
      yield { raws: page.points as JsonObject[], next: offset ?? null };
    } while (offset !== undefined);
  }
  return { shape, recordsTotal: count, pages, close: async () => undefined };
}

async function clientOf({ url, apiKey }: Extract<QdrantSource, { url: unknown }>): Promise<QdrantClientLike> {
  const { QdrantClient } = await peer<QdrantModule>("@qdrant/js-client-rest", "Qdrant");
  const { origin, pathname } = addressOf(url, "Qdrant");
  return new QdrantClient({
    url: origin,
    port: null,
    ...(pathname !== "/" && { prefix: pathname.replace(/\/$/, "") }),
    // As `apiKey` it would be warned of at each start that a server of http:// is asked with it.
    ...(apiKey !== undefined && { headers: { "api-key": apiKey } }),
    checkCompatibility: false,
  });
}

/** Ids are UUIDs or unsigned 64-bit integers, which the client takes as bigints where numbers end. */
function pointId(text: string): string | number {
  if (!/^\d+$/.test(text)) return text;
  return Number.isSafeInteger(Number(text)) ? Number(text) : (BigInt(text) as unknown as number);
}

type VectorParams = { size?: number; distance?: string; multivector_config?: unknown };

/** What the collection has, and which of its vectors are wanted. */
function shapeOf(
  collection: string,
  { vectors, sparse_vectors }: { vectors?: unknown; sparse_vectors?: unknown },
  options: QdrantOptions,
): { shape: SourceShape; wanted: boolean | string[] } {
  const isSingle = typeof (vectors as VectorParams | undefined)?.size === "number";
  const dense = (isSingle ? { "": vectors } : (vectors ?? {})) as Record<string, VectorParams>;
  const sparse = Object.keys((sparse_vectors ?? {}) as object);
  const what = `The collection ${JSON.stringify(collection)} of Qdrant has`;
  const denseName = oneOf(Object.keys(dense), options.vector, "vector", what);
  const sparseName = oneOf(sparse, options.sparse, "sparse", what);
  const { size, distance = "", multivector_config } = denseName === undefined ? {} : dense[denseName];
  if (multivector_config !== undefined && multivector_config !== null) {
    const name = denseName === "" ? "" : ` ${JSON.stringify(denseName)}`;
    throw new QuiverError("invalid_request", `${what} multivectors${name}; a record has one dense vector.`, {
      vector: denseName,
    });
  }
  const isAll = Object.keys(dense).length <= 1 && sparse.length <= 1;
  return {
    shape: {
      dimension: size,
      ...(Object.hasOwn(metrics, distance) ? { metric: metrics[distance] } : { otherMetric: distance }),
      sparse: sparseName !== undefined,
      text: options.text !== undefined,
    },
    wanted: isAll || [denseName, sparseName].filter((name) => name !== undefined),
  };
}

function oneOf(
  names: readonly string[],
  wanted: string | undefined,
  option: "vector" | "sparse",
  what: string,
): string | undefined {
  if (wanted === undefined) {
    if (names.length > 1) throw choiceNeeded(what, names, option);
    return names[0];
  }
  if (names.includes(wanted)) return wanted;
  const kind = option === "vector" ? "dense" : "sparse";
  throw new QuiverError(
    "invalid_request",
    `${what} no ${kind} vector named ${JSON.stringify(wanted)}; it has ${names.join(", ") || "none"}.`,
    { option, vectors: names },
  );
}

function vectorParts(raw: JsonObject, options: QdrantOptions): Partial<RecordInput> {
  const { dense, sparse } = vectorsOf(raw, options);
  if (Array.isArray(dense?.value) && Array.isArray(dense.value[0]))
    throw new RecordFault(`has a multivector in ${dense.name}; a record has one dense vector`);
  return {
    ...(dense !== undefined && { dense_values: dense.value as number[] }),
    ...(sparse !== undefined && sparseParts(sparse.value, sparse.name)),
  };
}

/** A vector of a point, and where it is in it: `vector`, `vector.title`. */
type Vector = { readonly name: string; readonly value: unknown };

function vectorsOf(
  { vector, vectors }: JsonObject,
  options: QdrantOptions,
): { readonly dense?: Vector; readonly sparse?: Vector } {
  const given = vector ?? vectors;
  if (given === undefined || given === null) return {};
  const field = given === vector ? "vector" : "vectors";
  if (typeof given !== "object") throw new RecordFault(`has no vector in ${field}, but ${shown(given)}`);
  const named = (Array.isArray(given) ? { "": given } : given) as JsonObject;
  const isDense = (value: unknown) => Array.isArray(value);
  const of = (isKind: (value: unknown) => boolean, option: "vector" | "sparse"): Vector | undefined => {
    const found = chosen(named, isKind, options[option], option);
    if (found === undefined) return undefined;
    const [name, value] = found;
    return { name: name === "" ? field : `${field}.${name}`, value };
  };
  return { dense: of(isDense, "vector"), sparse: of((value) => !isDense(value), "sparse") };
}

/** The vector of this name, or the only one of its kind. */
function chosen(
  named: Readonly<Record<string, unknown>>,
  isKind: (value: unknown) => boolean,
  name: string | undefined,
  option: "vector" | "sparse",
): [name: string, value: unknown] | undefined {
  const all = Object.entries(named).filter(([, value]) => value !== null && isKind(value));
  if (name !== undefined) return all.find(([other]) => other === name);
  if (all.length <= 1) return all[0];
  throw choiceNeeded(
    "The records have",
    all.map(([other]) => other),
    option,
  );
}
