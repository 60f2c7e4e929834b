// How do the parts of foreign records become those of ours?

import { QuiverError, type RecordInput } from "@quiverdb/client";
import type { JsonObject } from "./json-values.ts";
import { RecordFault } from "./record-fault.ts";
import type { FieldNames } from "./record-reason.ts";

/** Keys of the metadata that are more than metadata. */
export type MetadataKeys = {
  /** The key whose value is the text of the record; it leaves the metadata. Default: none. */
  text?: string;
  /** The key whose value is the id of the document; it stays in the metadata, too. Default: none. */
  document?: string;
};

/** The error for a choice that the caller has to make: records have several vectors, and one is taken. */
export const choiceNeeded = (
  what: string,
  names: readonly string[],
  option: "vector" | "sparse",
): QuiverError =>
  new QuiverError(
    "invalid_request",
    `${what} the vectors ${names.join(", ")}; choose one with the option ${option}.`,
    { option, vectors: names },
  );

/** A value in a message. */
export const shown = (value: unknown): string => JSON.stringify(value).slice(0, 100);

/** An id as text. Numbers that JavaScript has rounded would merge records, so they are refused. @param name of its field in the source */
export function idOf(id: unknown, name = "id"): string {
  if (typeof id === "string" && id !== "") return id;
  if (typeof id === "bigint" || (typeof id === "number" && Number.isSafeInteger(id))) return String(id);
  const what =
    typeof id === "number" ? `the ${name} ${id}, which JavaScript cannot hold exactly` : `no ${name}`;
  throw new RecordFault(`has ${what}; expected a text, or a whole number below 2^53`);
}

/** Metadata, with the text and the document that are in it. @param name of its field in the source */
export function metadataParts(
  metadata: unknown,
  keys: MetadataKeys,
  name: string,
): Pick<RecordInput, "text" | "document_id" | "metadata"> {
  if (metadata != null && (typeof metadata !== "object" || Array.isArray(metadata)))
    throw new RecordFault(`has no object in ${name}, but ${shown(metadata)}`);
  const all = { ...(metadata as JsonObject | null | undefined) };
  const textAt = (key: string | undefined, what: string) => {
    const value = key === undefined ? undefined : all[key];
    if (value === undefined || value === null) return undefined;
    if (typeof value === "string") return value;
    throw new RecordFault(`has no ${what} in ${name}.${key}, but ${shown(value)}`);
  };
  const text = textAt(keys.text, "text");
  const document_id = textAt(keys.document, "document id");
  if (text !== undefined) delete all[keys.text as string];
  return {
    ...(text !== undefined && { text }),
    ...(document_id !== undefined && { document_id }),
    ...(Object.keys(all).length > 0 && { metadata: all }),
  };
}

/** What the source calls the parts that come from its metadata. */
export const metadataNames = (name: string, { text, document }: MetadataKeys): FieldNames => ({
  metadata: name,
  ...(text !== undefined && { text: `${name}.${text}` }),
  ...(document !== undefined && { document_id: `${name}.${document}` }),
});

/** A dense vector, whose numbers are the database's to check; nothing where there is none. @param name of its field in the source */
export function denseParts(vector: unknown, name: string): Pick<RecordInput, "dense_values"> {
  if (vector === undefined || vector === null) return {};
  if (!Array.isArray(vector)) throw new RecordFault(`has no vector in ${name}, but ${shown(vector)}`);
  return { dense_values: vector };
}

type SparseParts = Pick<RecordInput, "sparse_indices" | "sparse_values">;

/** `{ indices, values }`, as Qdrant and Pinecone have it; nothing for an empty one. @param name of its field in the source */
export function sparseParts(sparse: unknown, name: string): SparseParts {
  if (sparse === undefined || sparse === null) return {};
  const { indices, values } = sparse as { indices?: unknown; values?: unknown };
  if (!Array.isArray(indices) || !Array.isArray(values))
    throw new RecordFault(`has no sparse vector with indices and values in ${name}, but ${shown(sparse)}`);
  return indices.length === 0 ? {} : { sparse_indices: indices, sparse_values: values };
}

/** What the source calls the parts of `{ indices, values }`. */
export const sparseNames = (name: string): FieldNames => ({
  sparse_indices: `${name}.indices`,
  sparse_values: `${name}.values`,
});
