// How do the records of another vector database come into a collection?
//
//   file --bytes, gunzip--> values (json-values.ts, or CSV) --\      of which database: recognize.ts
//                                                              pages (reader.ts) --records--> collection.upsert --> database
//   running server --its public client--> pages --------------/
//
// Files of any size are read as a stream and servers by pages, so memory stays constant; only a page of Chroma in a file is read whole.
// Records keep their ids: running an import again writes the same records.

import {
  type BatchOptions,
  type Collection,
  type Database,
  QuiverError,
  type RecordInput,
  type TextCollection,
} from "@quiverdb/client";
import type { Metric } from "./format.ts";
import { addNeeds, ensureCollection, metricOf, needsOf } from "./needed-collection.ts";
import { prepended } from "./prepended.ts";
import {
  type AutoOptions,
  detailsOf,
  type FormatOptions,
  type ImportFormat,
  type ImportPage,
  type ImportReader,
  type LiveSources,
  openImport,
} from "./reader.ts";
import { reasonOf } from "./record-reason.ts";
import type { ImportSource } from "./source.ts";

export type { ChromaClientLike, ChromaCollectionLike, ChromaOptions, ChromaSource } from "./chroma.ts";
export type { Metric, SourceShape } from "./format.ts";
export { addNeeds, ensureCollection, metricOf, type Needs, needsOf } from "./needed-collection.ts";
export type { PgvectorColumns, PgvectorOptions } from "./pgvector-columns.ts";
export type { PgClientLike, PgvectorSource } from "./pgvector-table.ts";
export type { PineconeClientLike, PineconeOptions, PineconeSource } from "./pinecone.ts";
export type { QdrantClientLike, QdrantOptions, QdrantSource } from "./qdrant.ts";
export {
  type AutoOptions,
  type FormatOptions,
  formatNames,
  type ImportFormat,
  type ImportPage,
  type ImportReader,
  type LiveSources,
  openImport,
  type ReaderOptions,
  type ReadingOptions,
} from "./reader.ts";
export { type Recognition, recognize, recognizedBytes } from "./recognize.ts";
export type { FieldNames } from "./record-reason.ts";
export type { ImportSource } from "./source.ts";

/** Counts are those of this call, which begins behind its `cursor` if it was given one. */
export type ImportProgress = {
  /** Bytes that were read of the file, as it is stored; 0 of a server. */
  bytesRead: number;
  /** Size of the file; undefined for a stream and a server. */
  bytesTotal: number | undefined;
  /** Records that the call reads, if the source tells: servers do, files do not. */
  recordsTotal: number | undefined;
  /** Records that are durable in the collection, from the first one on. */
  acknowledged: number;
  /** Everything before it is durable: with it as an option, a later call goes on from there. Undefined until the first page is. */
  cursor: string | undefined;
};

/** Options of an import: those of its format, of the upserts, and these. */
export type ImportOptions<Format extends ImportFormat> = FormatOptions[Format] & WritingOptions;

/** Options of an import whatever its format. */
export type WritingOptions = Omit<BatchOptions, "onProgress"> & {
  /** Called after each request. */
  onProgress?: (progress: ImportProgress) => void;
  /** Aborts the import, which then throws the signal's reason. What was acknowledged stays. */
  signal?: AbortSignal;
  /** Goes on behind the records of an earlier call that gave this cursor. Source and options must be the same. */
  cursor?: string;
  /** Of a running server: records that are asked for at once. Default 256; of Pinecone 100, which is its most. */
  pageRecords?: number;
};

/** What an import has done. */
export type ImportResult = {
  /** The given format, or the one that was recognized. */
  format: ImportFormat;
  /** Records that are in the collection. */
  records: number;
  /** Bytes that were read of the file, as it is stored. */
  bytesRead: number;
};

/**
 * Where the records go: either kind of collection (with `withEmbeddings`, records without a vector get that of their text), or the name of one
 * that is created if it is missing, with what the source tells and the first records have: the kinds of content, the dimension, the metric.
 */
export type ImportTarget =
  | Pick<Collection, "upsert">
  | Pick<TextCollection, "upsert">
  | {
      database: Database;
      collection: string;
      /** Of a new dense index. Default: the source's; of a file "cosine". */
      metric?: Metric;
    };

/**
 * Writes the records of another database into a collection: of an export, or of a running server.
 * @param format the other database; "auto" recognizes the export of one by its first records
 * @param source path, URL of a file, Blob, or bytes, where gzip is recognised; or a server: `{ url, ... }`, or `{ client, ... }` with its public
 *   client, which stays open
 * @param target a collection that has what the records have, or `{ database, collection: name }`, where it is created if it is missing
 * @throws QuiverError invalid_json or invalid_vector, source_failed if a server does not answer, its client is not installed, or a file cannot
 *   be read to its end, and whatever `upsert` throws. The message about a record names its line, or its number, and its fields as the
 *   source calls them; its number, from 0, is `details.record`, its line `details.line`. Any has `details.acknowledged`, and the cursor for
 *   going on in `details.cursor`
 *
 * @example
 * ```ts no-run
 * import { connect } from "@quiverdb/client";
 * import { importFrom } from "@quiverdb/import";
 * const database = connect("http://127.0.0.1:8443");
 * await importFrom("auto", "articles.jsonl", database.collection("articles"), { text: "content" });
 *
 * const qdrant = { url: "http://127.0.0.1:6333", collection: "books" };
 * await importFrom("qdrant", qdrant, { database, collection: "books" }, {
 *   text: "content",
 *   onProgress: ({ acknowledged, recordsTotal, cursor }) => console.log(acknowledged, recordsTotal, cursor),
 * });
 * ```
 */
export async function importFrom<Format extends ImportFormat>(
  format: Format,
  source: ImportSource | LiveSources[Format],
  target: ImportTarget,
  options?: ImportOptions<Format>,
): Promise<ImportResult>;
export async function importFrom(
  format: "auto",
  source: ImportSource,
  target: ImportTarget,
  options?: AutoOptions & WritingOptions,
): Promise<ImportResult>;
export async function importFrom(
  format: ImportFormat | "auto",
  source: ImportSource | LiveSources[ImportFormat],
  target: ImportTarget,
  options: AutoOptions & WritingOptions = {},
): Promise<ImportResult> {
  const { onProgress, cursor, batchBytes, batchRecords, concurrency, ...own } = options;
  const { signal } = own;
  const reader = await openImport(format as "auto", source as ImportSource, own);
  const durable = new DurablePages(reader);
  try {
    const first = reader.pages(cursor);
    const { collection, pages } =
      "upsert" in target ? { collection: target, pages: first } : await made(target, reader, first);
    const records = async function* (): AsyncGenerator<RecordInput> {
      for await (const page of pages) {
        durable.sent(page);
        for (const record of page.records) {
          if (record instanceof QuiverError) throw record;
          yield record;
        }
      }
    };
    const { upserted } = await collection.upsert(records(), {
      batchBytes,
      batchRecords,
      concurrency,
      signal,
      onProgress: ({ acknowledged }) =>
        onProgress?.({
          acknowledged,
          bytesRead: reader.bytesRead,
          bytesTotal: reader.bytesTotal,
          recordsTotal: reader.recordsTotal === undefined ? undefined : reader.recordsTotal - durable.before,
          cursor: durable.cursorAt(acknowledged),
        }),
    });
    return { format: reader.format, records: upserted, bytesRead: reader.bytesRead };
  } catch (error) {
    throw durable.inSource(error);
  } finally {
    await reader.close();
  }
}

/** The collection for the records, made if it is missing, and all pages. */
async function made(
  { database, collection: name, metric }: Extract<ImportTarget, { database: Database }>,
  reader: ImportReader,
  pages: AsyncGenerator<ImportPage>,
): Promise<{ collection: Collection; pages: AsyncIterable<ImportPage> }> {
  const { done, value: first } = await pages.next();
  const needs = needsOf(reader.shape);
  for (const record of done === true ? [] : first.records)
    if (!(record instanceof QuiverError)) addNeeds(needs, record);
  if (needs.dimension === undefined && !needs.sparse && !needs.text)
    throw new QuiverError(
      "invalid_request",
      `The first records of the import have no vectors and no text, so no collection can be created for them.`,
    );
  const choice = { metric: () => metricOf(reader.shape, metric), storeRawText: needs.text };
  const collection = await ensureCollection(database, name, needs, choice);
  return { collection, pages: done === true ? pages : prepended(first, pages) };
}

/** Up to which page everything is acknowledged, and where the records behind it are in the source. */
class DurablePages {
  /** Those that are not acknowledged as a whole. */
  readonly #sent: (ImportPage & { readonly end: number })[] = [];
  readonly #reader: ImportReader;
  #records = 0;
  #cursor: string | undefined;
  /** Records of the source before those of this import. */
  before = 0;

  constructor(reader: ImportReader) {
    this.#reader = reader;
  }

  /** A page whose records are sent from now on. */
  sent(page: ImportPage): void {
    if (this.#records === 0) this.before = page.start;
    this.#records += page.records.length;
    this.#sent.push({ ...page, end: this.#records });
  }

  cursorAt(acknowledged: number): string | undefined {
    while (this.#sent.length > 0 && this.#sent[0].end <= acknowledged)
      this.#cursor = (this.#sent.shift() as { cursor: string }).cursor;
    return this.#cursor;
  }

  /** The error of an upsert, which names a record by its position in the call, in terms of the source; and how to go on. */
  inSource(error: unknown): unknown {
    if (!(error instanceof QuiverError)) return error;
    const { code, details, status } = error;
    let { message } = error;
    let place: object = {};
    const position = /^vectors\[(\d+)\]/.exec(String(details.path ?? message))?.[1];
    if (position !== undefined) {
      const record = this.before + Number(position);
      const page = this.#sent.find(
        ({ start, records }) => start <= record && record < start + records.length,
      );
      const at = record - (page?.start ?? 0);
      const line = page?.lines?.[at];
      place = detailsOf(record, line);
      message = `${this.#reader.at(record, line)}: ${reasonOf(error, page?.names[at])}`;
    }
    const cursor = this.cursorAt(Number(details.acknowledged ?? 0));
    const more = { ...place, ...(cursor !== undefined && { cursor }) };
    const told = new QuiverError(code, message, { ...details, ...more }, { cause: error });
    // Routes have statuses of their own.
    return Object.defineProperty(told, "status", { value: status });
  }
}
