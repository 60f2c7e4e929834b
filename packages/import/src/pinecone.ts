// How is an export of Pinecone read?
//
// Vectors as its interface gives them, `{ id, values, sparseValues, metadata }` (or `sparse_values`, as in Python): lines of them, an array,
// or answers and bodies of requests, `{ vectors: [...] }` and `{ vectors: { id: {...} } }`, one after the other.

import type { RecordInput } from "@quiver/client";
import { jsonObjects } from "./json-values.ts";
import { idOf, type MetadataKeys, metadataParts, sparseParts } from "./record-parts.ts";
import type { Source } from "./source.ts";

/** Which keys of the metadata of Pinecone are more than metadata. */
export type PineconeOptions = MetadataKeys;

export async function* readPinecone(source: Source, options: PineconeOptions): AsyncGenerator<RecordInput> {
  let record = 0;
  for await (const { id, values, sparseValues, sparse_values, metadata } of jsonObjects(source, [
    "vectors",
  ])) {
    // An index of sparse vectors answers with empty dense ones.
    const isDense = Array.isArray(values) && values.length > 0;
    yield {
      id: idOf(id, record),
      ...metadataParts(metadata, options, record),
      ...(isDense && { dense_values: values as number[] }),
      ...sparseParts(sparseValues ?? sparse_values, record),
    };
    record++;
  }
}
