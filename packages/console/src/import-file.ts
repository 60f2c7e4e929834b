// How does a file become records of a collection?
//
// Each line is a record in JSON, as `quiver import` takes it and `quiver export` writes it:
//
//   {"id": "a", "dense_values": [0.1, 0.9], "sparse_indices": [7], "sparse_values": [0.5], "text": "...", "metadata": {"page": 1}}
//
// The file is read and sent in batches, so it may be larger than memory. A line goes to the server as it is: JavaScript cannot hold every
// number that JSON can. The first faulty line ends the import; sending a record again changes nothing, so the corrected file can be imported
// from its beginning.

import { type Collection, type QuiverClient, RawRecord } from "@quiverdb/client";
import { isQuiverError } from "@quiverdb/protocol/errors";
import { countOf } from "./parts/format.ts";
import { messageOf } from "./parts/loading.tsx";

/** Lines of one request. */
const batchLines = 500;
/** Characters of one request, unless a single line has more. */
const batchCharsMax = 2_000_000;

/** `number` counts from 1. */
type Line = { readonly number: number; readonly json: string; readonly record: Record<string, unknown> };

/** A name for the collection of a file: `books.jsonl` is of `books`. */
export const nameOfFile = (file: string): string =>
  file.replace(/\.(jsonl|ndjson|json|txt)$/i, "").replace(/[/\\?#%\s]+/g, "-");

/**
 * Imports a file of JSON Lines. A collection that does not exist is made, with an index for everything that the first records have.
 * @param tell called with the share of the file that is imported, 0 to 1
 * @returns the number of records
 * @throws Error that names the line, and says how many records were imported before it
 */
export async function importFile(
  client: QuiverClient,
  name: string,
  file: File,
  tell: (share: number) => void,
  signal: AbortSignal,
): Promise<number> {
  const collection = client.collection(name);
  let imported = 0;
  let batch: Line[] = [];
  let chars = 0;
  let isReady = false;
  let isMade = false;
  const send = async (share: number) => {
    if (batch.length === 0) return;
    if (!isReady) isMade = await ensureCollection(client, name, batch, signal);
    isReady = true;
    try {
      await collection.upsert(
        batch.map(({ json }) => new RawRecord(json)),
        { signal, batchRecords: batchLines },
      );
    } catch (error) {
      throw faultOf(error, batch);
    }
    imported += batch.length;
    batch = [];
    chars = 0;
    tell(share);
  };
  try {
    for await (const { number, json, share } of linesOf(file)) {
      signal.throwIfAborted();
      if (json.trim() === "") continue;
      batch.push({ number, json, record: recordOf(`Line ${number}`, json) });
      chars += json.length;
      if (batch.length >= batchLines || chars >= batchCharsMax) await send(share);
    }
    await send(1);
  } catch (error) {
    if (imported === 0) {
      // So that the corrected file gets a collection that fits it. What went wrong is what the user must know, whether or not this succeeds.
      if (isMade) await dropIfEmpty(collection).catch(() => undefined);
      throw error;
    }
    const before = `The first ${countOf(imported, "record")} of the file ${imported === 1 ? "is" : "are"} imported.`;
    throw new Error(`${messageOf(error)} ${before}`, { cause: error });
  }
  if (imported === 0) throw new Error("The file has no records.");
  return imported;
}

/** The lines of a file, each with the share of the file that is read. */
async function* linesOf(
  file: File,
): AsyncGenerator<{ readonly number: number; readonly json: string; readonly share: number }> {
  const reader = file.stream().getReader();
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let number = 0;
  let rest = "";
  let read = 0;
  for (let isDone = false; !isDone; ) {
    const chunk = await reader.read();
    isDone = chunk.done;
    read += chunk.value?.length ?? 0;
    try {
      rest += decoder.decode(chunk.value, { stream: !isDone });
    } catch (cause) {
      throw new Error(`The file is not a text in UTF-8. Expected a file of JSON Lines.`, { cause });
    }
    const lines = rest.split("\n");
    rest = isDone ? "" : (lines.pop() ?? "");
    for (const json of lines) yield { number: ++number, json, share: read / file.size };
  }
}

/** @param what the text is, for messages. @throws Error if it is no object */
export function recordOf(what: string, json: string): Record<string, unknown> {
  let record: unknown;
  try {
    record = JSON.parse(json);
  } catch (cause) {
    throw new Error(`${what} is not JSON: ${(cause as Error).message}.`, { cause });
  }
  if (typeof record === "object" && record !== null && !Array.isArray(record))
    return record as Record<string, unknown>;
  throw new Error(`${what} is not a record. Expected an object such as {"id": "a", "text": "..."}.`);
}

/** The error of a request with the number of the line in place of the position in the request. */
function faultOf(error: unknown, batch: readonly Line[]): unknown {
  const position = isQuiverError(error) ? /\bvectors\[(\d+)\]/.exec(error.message) : null;
  const line = batch[Number(position?.[1])];
  if (line === undefined) return error;
  return new Error(`Line ${line.number}: ${wordsOfRecord(error, Number(position?.[1]))}`, { cause: error });
}

/** An error of a request in words about one of its records. The client adds how many came before; of a request of its own there are none. */
export const wordsOfRecord = (error: unknown, position: number): string =>
  messageOf(error)
    .replaceAll(`vectors[${position}].`, "")
    .replaceAll(/vectors\[\d+\]/g, "the record");

async function dropIfEmpty(collection: Collection): Promise<void> {
  const { vectors_count } = await collection.describe();
  if (vectors_count === 0) await collection.drop();
}

/** @returns whether the collection was made: what exists stays as it is */
async function ensureCollection(
  client: QuiverClient,
  name: string,
  first: readonly Line[],
  signal: AbortSignal,
): Promise<boolean> {
  try {
    await client.getCollection(name, { signal });
    return false;
  } catch (error) {
    if (!isQuiverError(error, "collection_not_found")) throw error;
  }
  const dimension = first
    .map(({ record }) => dimensionOf(record.dense_values))
    .find((one) => one !== undefined);
  const hasSparse = first.some(({ record }) => Array.isArray(record.sparse_values));
  const hasText = first.some(({ record }) => typeof record.text === "string");
  if (dimension === undefined && !hasSparse && !hasText)
    throw new Error(
      `The first records have neither "dense_values" nor "sparse_values" nor "text", so no collection fits them.`,
    );
  const made = await client.createCollection(
    {
      name,
      dense_vector: { enabled: dimension !== undefined, dimension },
      sparse_vector: { enabled: hasSparse },
      tf_idf_options: { enabled: hasText },
      store_raw_text: true,
    },
    { signal },
  );
  if (dimension !== undefined) await made.createDenseIndex({ distance_metric_type: "cosine" }, { signal });
  if (hasSparse) await made.createSparseIndex({}, { signal });
  if (hasText) await made.createTextIndex({}, { signal });
  return true;
}

/** Of a vector as numbers, or as the bytes of its floats in base64. */
function dimensionOf(values: unknown): number | undefined {
  if (Array.isArray(values)) return values.length;
  const { f32 } = (values ?? {}) as { f32?: unknown };
  return typeof f32 === "string" ? atob(f32).length / 4 : undefined;
}
