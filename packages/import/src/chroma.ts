// How is an export of Chroma read?
//
// Pages of `collection.get(include=["embeddings", "documents", "metadatas"])` as JSON, one after the other: each has a list for the ids and
// one for each kind of content. A page is read whole, so export with `limit` and `offset`.

import type { RecordInput } from "@quiver/client";
import { type JsonObject, jsonObjects } from "./json-values.ts";
import { idOf, invalidRecord, type MetadataKeys, metadataParts } from "./record-parts.ts";
import type { Source } from "./source.ts";

/** Which keys of the metadata of Chroma are more than metadata. */
export type ChromaOptions = Pick<MetadataKeys, "document">;

const kinds = ["embeddings", "documents", "metadatas"] as const;

export async function* readChroma(source: Source, options: ChromaOptions): AsyncGenerator<RecordInput> {
  let record = 0;
  for await (const page of jsonObjects(source, [])) {
    for (const one of rowsOf(page, record)) {
      yield {
        id: idOf(one.id, record),
        ...metadataParts(one.metadatas, options, record),
        ...(Array.isArray(one.embeddings) && { dense_values: one.embeddings as number[] }),
        ...(typeof one.documents === "string" && { text: one.documents }),
      };
      record++;
    }
  }
}

function* rowsOf(page: JsonObject, record: number): Generator<JsonObject> {
  const { ids } = page;
  if (!Array.isArray(ids)) throw invalidRecord(record, "has no list of ids before it");
  for (const kind of kinds) {
    const list = page[kind];
    // What was not included in the export is null.
    if (list === undefined || list === null) continue;
    if (!Array.isArray(list) || list.length !== ids.length)
      throw invalidRecord(record, `begins a page with ${ids.length} ids and another number of ${kind}`);
  }
  for (const [i, id] of ids.entries())
    yield { id, ...Object.fromEntries(kinds.map((kind) => [kind, (page[kind] as unknown[] | null)?.[i]])) };
}
