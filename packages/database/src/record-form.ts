// In which form do records reach the engine in the same process?
//
// As the objects that the caller gave: nothing is encoded. Records that are given as JSON text are parsed by the server's parser, because
// numbers of metadata keep their text.

import { invalidRecord, RawRecord, requireRecord, unwritable } from "@quiverdb/client/record";
import type { Form } from "@quiverdb/client/transport";
import { finishAtOnce, type VectorWrite } from "@quiverdb/engine/database/contract";
import { refuseUnknownFields } from "@quiverdb/protocol/fields";
import { VectorInput } from "@quiverdb/protocol/shapes/vector";
import { readVectors } from "@quiverdb/server/request/dense-vectors";
import { withExactMetadata } from "@quiverdb/server/request/exact-metadata";
import { parseLines } from "@quiverdb/server/request/json";

/** Parts are the engine's records. */
export const recordForm: Form<VectorWrite> = {
  vector: (values) => (values instanceof Float64Array ? Array.from(values) : values),
  record(record, position) {
    if (record instanceof RawRecord) {
      return { part: parsedRecord(record.json, position), bytes: record.json.length };
    }
    requireRecord(record, position);
    // The engine looks again, and knows one more.
    refuseUnknownFields(VectorInput, record, position === null ? "" : `vectors[${position}]`);
    const { dense_values, metadata } = record;
    const part = {
      ...record,
      ...(dense_values instanceof Float64Array && { dense_values: Array.from(dense_values) }),
      ...(metadata != null && metadataOf(metadata, position)),
    } as VectorWrite;
    return { part, bytes: sizeOf(part) };
  },
  records: (parts) => ({ body: { vectors: parts } }),
  single: (part) => ({ body: part }),
};

/**
 * Metadata as JSON has it: dates as text, without keys that are undefined. The caller may change its own object afterwards. The engine stores the
 * text, and counts the levels of what was parsed.
 */
function metadataOf(
  metadata: object,
  position: number | null,
): Pick<VectorWrite, "metadata" | "metadataJson"> {
  try {
    const metadataJson = JSON.stringify(metadata);
    return { metadata: JSON.parse(metadataJson), metadataJson };
  } catch (cause) {
    throw unwritable(position, cause);
  }
}

function parsedRecord(json: string, position: number | null): VectorWrite {
  if (json.trim() === "") throw invalidRecord(position, "", "is an empty text, expected a record.");
  const parsed = finishAtOnce(parseLines(Buffer.from(json.replaceAll("\n", " "))));
  const { vectors } = parsed.value as { vectors: VectorInput[] };
  finishAtOnce(readVectors(vectors, "dense_values", "vectors", parsed));
  const [record] = finishAtOnce(withExactMetadata(vectors, parsed, "vectors"));
  return record;
}

/** Approximate bytes of a record: what its numbers and texts take. */
function sizeOf({ dense_values, sparse_values, text, metadata }: VectorWrite): number {
  const numbers =
    ((dense_values as ArrayLike<number> | null)?.length ?? 0) + 2 * (sparse_values?.length ?? 0);
  return 64 + 4 * numbers + (text?.length ?? 0) + (metadata == null ? 0 : 256);
}
