// Which formats can the files of an import have, and what are the parts of these?

import type { ImportFormat } from "../reader.ts";

/** `jsonl`, `json`, `csv` and `parquet` have records, the others vectors alone. */
export const formats = ["jsonl", "json", "csv", "parquet", "npy", "fvecs", "f32"] as const;
export type Format = (typeof formats)[number];

/** Whether a file has vectors without ids, so that its rows need some. */
export const hasBareVectors = (format: Format | ImportFormat): boolean =>
  format === "npy" || format === "fvecs" || format === "f32";

/** Whether a file has columns, of which each is a field of the records. */
export const hasColumns = (format: Format): boolean => format === "csv" || format === "parquet";

/** The fields of a record that columns may be, and whether they are texts; the others are JSON. */
export const columnFields: Readonly<Record<string, boolean>> = {
  id: true,
  document_id: true,
  text: true,
  dense_values: false,
  sparse_indices: false,
  sparse_values: false,
  metadata: false,
};

/** What the items of a file are called. */
export type Unit = "line" | "row" | "item" | "record";

export function unitOf(format: Format | ImportFormat): Unit {
  switch (format) {
    case "jsonl":
      return "line";
    case "json":
      return "item";
    case "chroma":
    case "pinecone":
    case "qdrant":
      return "record";
    default:
      return "row";
  }
}
