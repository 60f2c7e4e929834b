// How is an export of Qdrant read?
//
// Points as its REST interface gives them, `{ id, payload, vector }`: lines of them, an array, or the answers of `POST /points/scroll`,
// `{ result: { points } }`, one after the other.

import { QuiverError, type RecordInput } from "@quiver/client";
import { jsonObjects } from "./json-values.ts";
import { idOf, invalidRecord, type MetadataKeys, metadataParts, sparseParts } from "./record-parts.ts";
import type { Source } from "./source.ts";

/** Which keys of the payload are more than metadata, and which vector is which. */
export type QdrantOptions = MetadataKeys & {
  /** Name of the dense vector to take, if points have several. Default: the only one. */
  vector?: string;
  /** Name of the sparse vector to take. Default: the only one. */
  sparse?: string;
};

export async function* readQdrant(source: Source, options: QdrantOptions): AsyncGenerator<RecordInput> {
  let record = 0;
  for await (const { id, payload, vector, vectors } of jsonObjects(source, ["result.points", "points"])) {
    yield {
      id: idOf(id, record),
      ...metadataParts(payload, options, record),
      ...vectorParts(vector ?? vectors, options, record),
    };
    record++;
  }
}

function vectorParts(vector: unknown, options: QdrantOptions, record: number): Partial<RecordInput> {
  if (vector === undefined || vector === null) return {};
  const named = Array.isArray(vector) ? { "": vector } : (vector as Record<string, unknown>);
  const isDense = (value: unknown) => Array.isArray(value);
  const dense = chosen(named, isDense, options.vector, "vector", record);
  const sparse = chosen(named, (value) => !isDense(value), options.sparse, "sparse", record);
  if (Array.isArray(dense) && Array.isArray(dense[0]))
    throw invalidRecord(record, "has a multivector; a record has one dense vector");
  return { ...(dense !== undefined && { dense_values: dense as number[] }), ...sparseParts(sparse, record) };
}

/** The vector of this name, or the only one of its kind. */
function chosen(
  named: Readonly<Record<string, unknown>>,
  isKind: (value: unknown) => boolean,
  name: string | undefined,
  option: "vector" | "sparse",
  record: number,
): unknown {
  const all = Object.entries(named).filter(([, value]) => value !== null && isKind(value));
  if (name !== undefined) return all.find(([other]) => other === name)?.[1];
  if (all.length <= 1) return all[0]?.[1];
  throw new QuiverError(
    "invalid_request",
    `Record ${record} of the file has the vectors ${all.map(([other]) => other).join(", ")}; choose one with the option ${option}.`,
    { record, option },
  );
}
