// How are the records of Chroma read?
//
// Pages of `collection.get(include=["embeddings", "documents", "metadatas"])`, one after the other, each with a list for the ids and one for
// each kind of content: as JSON in a file (a page is read whole, so export with `limit` and `offset`), or from its server. A file may also
// have the records themselves, `{ id, embedding, document, metadata, uri }`.

import { QuiverError, type RecordInput } from "@quiverdb/client";
import type { Format, Live, LiveReading, Metric } from "./format.ts";
import { type Found, type JsonObject, jsonObjects } from "./json-values.ts";
import { addressOf, peer } from "./peer.ts";
import { recordIn } from "./place.ts";
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
import type { Source } from "./source.ts";

/** Which keys of the metadata of Chroma are more than metadata. */
export type ChromaOptions = Pick<MetadataKeys, "document"> & {
  /** The key of the metadata whose value is a sparse vector; it leaves the metadata. Default: none. */
  sparse?: string;
};

const kinds = ["embeddings", "documents", "metadatas", "uris"] as const;
type Kind = (typeof kinds)[number];
/** Where Chroma keeps the URI of a record among its metadata. */
const uriKey = "chroma:uri";

/** What is used of the client `chromadb`. */
export type ChromaClientLike = {
  /** Opens a collection by its name. */
  getCollection(options: { name: string; embeddingFunction: never }): Promise<ChromaCollectionLike>;
};

/** What is used of a collection of `chromadb`. */
export type ChromaCollectionLike = {
  readonly name: string;
  readonly configuration: { hnsw?: { space?: unknown } | null; spann?: { space?: unknown } | null };
  readonly metadata?: unknown;
  /** Number of records. */
  count(): Promise<number>;
  /** A page of records, in the order of Chroma. */
  get(options: { limit: number; offset: number; include: Kind[] }): Promise<object>;
};

/** A collection of a server: by a client, or by its address. */
export type ChromaSource = { collection: string } & (
  | { client: ChromaClientLike }
  | { url: string | URL; apiKey?: string; tenant?: string; database?: string }
);

type ChromaModule = {
  ChromaClient: new (options: {
    host: string;
    port: number;
    ssl: boolean;
    tenant?: string;
    database?: string;
    headers?: Record<string, string>;
  }) => ChromaClientLike;
};

const metrics: Readonly<Record<string, Metric>> = { cosine: "cosine", l2: "euclidean", ip: "dot_product" };

/** What a record has of each kind, and what the source calls that: `embeddings[3]` in a page. */
type Row = { readonly id: unknown; readonly nameOf: (kind: Kind) => string } & {
  readonly [kind in Kind]?: unknown;
};

export const chroma: Format<Row, ChromaOptions, ChromaSource> = {
  title: "Chroma",
  pageRecordsMax: 10_000,
  read: readPages,
  live,
  record: ({ id, embeddings, documents, metadatas, uris, nameOf }, { document, sparse: sparseKey }) => {
    const { [sparseKey ?? ""]: sparse, ...others } = (metadatas ?? {}) as JsonObject;
    const metadata = sparseKey === undefined ? metadatas : others;
    const name = nameOf("metadatas");
    return {
      id: idOf(id),
      ...metadataParts(
        typeof uris === "string" ? { ...(metadata as object), [uriKey]: uris } : metadata,
        { document },
        name,
      ),
      ...denseParts(embeddings, nameOf("embeddings")),
      ...(sparseKey !== undefined && sparseParts(sparse, `${name}.${sparseKey}`)),
      ...(typeof documents === "string" && { text: documents }),
    } satisfies RecordInput;
  },
  names: ({ nameOf }, { document, sparse }) => ({
    ...metadataNames(nameOf("metadatas"), { document }),
    dense_values: nameOf("embeddings"),
    text: nameOf("documents"),
    ...(sparse !== undefined && sparseNames(`${nameOf("metadatas")}.${sparse}`)),
  }),
};

async function* readPages(source: Source): AsyncGenerator<Found<Row>> {
  let record = 0;
  for await (const { raw, line } of jsonObjects(source, [])) {
    for (const row of raw instanceof RecordFault
      ? [raw]
      : rowsIn(raw, record, source.recordAt(record, line))) {
      yield { raw: row, line };
      record++;
    }
  }
}

/** The records of a page, or the only one of a record. @param record number of the first one, with its place */
function rowsIn(raw: JsonObject, record: number, place: string): Iterable<Row> {
  if ("ids" in raw || !("id" in raw)) return rowsOf(raw, record, place, (kind, i) => `${kind}[${i}]`);
  const { id, embedding, document, metadata, uri } = raw;
  const nameOf = (kind: Kind) => kind.replace(/s$/, "");
  return [{ id, embeddings: embedding, documents: document, metadatas: metadata, uris: uri, nameOf }];
}

/**
 * @param record number of the first record of the page, from 0, with its place
 * @param nameIn what a record of the page is called
 */
function* rowsOf(
  page: JsonObject,
  record: number,
  place: string,
  nameIn: (kind: Kind, i: number) => string,
): Generator<Row> {
  const { ids } = page;
  const wrong = (why: string) => new QuiverError("invalid_vector", `${place}: ${why}.`, { record });
  if (!Array.isArray(ids))
    throw wrong("is neither a page of Chroma, which has a list of ids, nor a record with an id");
  for (const kind of kinds) {
    const list = page[kind];
    // What was not included in the export is null.
    if (list === undefined || list === null) continue;
    if (!Array.isArray(list) || list.length !== ids.length)
      throw wrong(
        `begins a page with ${ids.length} ${ids.length === 1 ? "id" : "ids"} and another number of ${kind}`,
      );
  }
  for (const [i, id] of ids.entries())
    yield {
      id,
      ...Object.fromEntries(kinds.map((kind) => [kind, (page[kind] as unknown[] | null)?.[i]])),
      nameOf: (kind) => nameIn(kind, i),
    };
}

async function live(
  source: ChromaSource,
  options: ChromaOptions,
  { pageRecords, ask }: LiveReading,
): Promise<Live<Row>> {
  const client = "client" in source ? source.client : await clientOf(source);
  const collection = await ask(() =>
    // Without one, the client looks for the package of the function that the collection was made with.
    client.getCollection({ name: source.collection, embeddingFunction: noFunction as never }),
  );
  const { configuration, metadata } = collection;
  const told =
    configuration.hnsw?.space ??
    configuration.spann?.space ??
    (metadata as JsonObject | undefined)?.["hnsw:space"];
  const space = String(told ?? "l2");
  async function* pages(from: string | undefined) {
    for (let offset = Number(from ?? 0); ; ) {
      const at = offset;
      const page = await ask(() => collection.get({ limit: pageRecords, offset: at, include: [...kinds] }));
      const place = recordIn("Chroma", "record", offset + 1, undefined);
      const raws = [...rowsOf(withoutEmptyLists(page as JsonObject), offset, place, (kind) => kind)];
      offset += raws.length;
      yield { raws, next: raws.length < pageRecords ? null : String(offset) };
      if (raws.length < pageRecords) return;
    }
  }
  return {
    shape: {
      ...(Object.hasOwn(metrics, space) ? { metric: metrics[space] } : { otherMetric: space }),
      sparse: options.sparse !== undefined,
      // A document is a part of every record, also where the first ones have none.
      text: true,
    },
    recordsTotal: await ask(() => collection.count()),
    pages,
    close: async () => undefined,
  };
}

/** Of what no record has, the client gives an empty list. */
const withoutEmptyLists = (page: JsonObject): JsonObject =>
  Object.fromEntries(
    Object.entries(page).filter(
      ([kind, list]) => kind === "ids" || !(Array.isArray(list) && list.length === 0),
    ),
  );

const noFunction = {
  name: "none",
  generate: () => Promise.reject(new RecordFault("is not embedded here")),
};

async function clientOf({ url, apiKey, tenant, database }: Extract<ChromaSource, { url: unknown }>) {
  const { ChromaClient } = await peer<ChromaModule>("chromadb", "Chroma");
  const { protocol, hostname, port, pathname } = addressOf(url, "Chroma");
  if (pathname !== "/")
    throw new QuiverError(
      "invalid_request",
      `Chroma's client takes addresses without a path, not ${pathname}.`,
    );
  const ssl = protocol === "https:";
  return new ChromaClient({
    host: hostname,
    port: port === "" ? (ssl ? 443 : 80) : Number(port),
    ssl,
    ...(tenant !== undefined && { tenant }),
    ...(database !== undefined && { database }),
    ...(apiKey !== undefined && { headers: { "x-chroma-token": apiKey } }),
  });
}
