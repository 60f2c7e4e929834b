// How do the records of another vector database come into a collection?
//
//   file --bytes, gunzip--> values (json-values.ts, or CSV) --format--> records --collection.upsert--> database
//
// Files of any size are read as a stream, so memory stays constant; only a page of Chroma is read whole. Records keep their ids: running an
// import again writes the same records.

import {
  type BatchOptions,
  type Collection,
  QuiverError,
  type RecordInput,
  type TextCollection,
} from "@quiver/client";
import { type ChromaOptions, readChroma } from "./chroma.ts";
import { type PgvectorOptions, readPgvector } from "./pgvector.ts";
import { type PineconeOptions, readPinecone } from "./pinecone.ts";
import { type QdrantOptions, readQdrant } from "./qdrant.ts";
import { type ImportSource, Source } from "./source.ts";

export type { ChromaOptions } from "./chroma.ts";
export type { PgvectorOptions } from "./pgvector.ts";
export type { PineconeOptions } from "./pinecone.ts";
export type { QdrantOptions } from "./qdrant.ts";
export type { ImportSource } from "./source.ts";

/** What the formats need to know. */
export type FormatOptions = {
  /** Pages of `collection.get` as JSON. */
  chroma: ChromaOptions;
  /** CSV with a header, as `COPY` writes it. */
  pgvector: PgvectorOptions;
  /** Vectors as JSON, as requests and answers have them. */
  pinecone: PineconeOptions;
  /** Points as JSON, or answers of `points/scroll`. */
  qdrant: QdrantOptions;
};
/** The database that a file comes from. */
export type ImportFormat = keyof FormatOptions;

/** How far an import is. */
export type ImportProgress = {
  /** Bytes that were read of the file, as it is stored. */
  bytesRead: number;
  /** Size of the file; undefined for a stream. */
  bytesTotal: number | undefined;
  /** Records that are durable in the collection, from the first one on. */
  acknowledged: number;
};

/** Options of an import: those of its format, of the upserts, and these. */
export type ImportOptions<Format extends ImportFormat> = FormatOptions[Format] &
  Omit<BatchOptions, "onProgress"> & {
    /** Called after each request. */
    onProgress?: (progress: ImportProgress) => void;
    /** Aborts the import, which then throws the signal's reason. What was acknowledged stays. */
    signal?: AbortSignal;
  };

/** What an import has done. */
export type ImportResult = {
  /** Records that are in the collection. */
  records: number;
  /** Bytes that were read of the file, as it is stored. */
  bytesRead: number;
};

/** Either kind of collection: with `withEmbeddings`, records without a vector get that of their text. */
export type ImportTarget = Pick<Collection, "upsert"> | Pick<TextCollection, "upsert">;

type Read = (source: Source, options: never) => AsyncIterable<RecordInput>;
const formats: { readonly [Format in ImportFormat]: Read } = {
  chroma: readChroma,
  pgvector: readPgvector,
  pinecone: readPinecone,
  qdrant: readQdrant,
};

/**
 * Writes the records of another database's export into a collection.
 * @param format what the file was exported from
 * @param source path, URL of a file, Blob, or bytes; gzip is recognised
 * @param collection one that has what the records have: vectors of the same dimension, texts
 * @throws QuiverError invalid_json or invalid_vector with the number of the record (from 0), and whatever `upsert` throws, with
 *   `details.acknowledged`
 *
 * @example
 * ```ts no-run
 * import { connect } from "@quiver/client";
 * import { importFrom } from "@quiver/import";
 * const collection = connect("http://127.0.0.1:8443").collection("articles");
 * await importFrom("qdrant", "articles.jsonl", collection, {
 *   text: "content",
 *   onProgress: ({ bytesRead, bytesTotal, acknowledged }) => console.log(acknowledged, bytesRead, bytesTotal),
 * });
 * ```
 */
export async function importFrom<Format extends ImportFormat>(
  format: Format,
  source: ImportSource,
  collection: ImportTarget,
  options: ImportOptions<Format> = {} as ImportOptions<Format>,
): Promise<ImportResult> {
  if (!Object.hasOwn(formats, format)) {
    throw new QuiverError(
      "invalid_request",
      `There is no format ${JSON.stringify(format)}; there are ${Object.keys(formats).join(", ")}.`,
    );
  }
  const { onProgress, signal, batchBytes, batchRecords, concurrency, ...own } = options;
  const opened = await Source.open(source, signal);
  const { upserted } = await collection.upsert(formats[format](opened, own as never), {
    batchBytes,
    batchRecords,
    concurrency,
    signal,
    onProgress: ({ acknowledged }) =>
      onProgress?.({ acknowledged, bytesRead: opened.bytesRead, bytesTotal: opened.bytesTotal }),
  });
  return { records: upserted, bytesRead: opened.bytesRead };
}
