// Which formats can the files of an import have?

import type { ImportFormat } from "@quiverdb/import";

/** `jsonl`, `json`, `csv` and `parquet` have records, the others vectors alone. */
export const formats = ["jsonl", "json", "csv", "parquet", "npy", "fvecs", "f32"] as const;
export type Format = (typeof formats)[number];

/** Which option of a database's format names what is a field of the record, by field. */
export const optionNames: Readonly<Record<ImportFormat, Readonly<Record<string, string>>>> = {
  chroma: { document_id: "document", sparse_values: "sparse" },
  pgvector: {
    id: "id",
    document_id: "document",
    text: "text",
    dense_values: "vector",
    sparse_values: "sparse",
    metadata: "metadata",
  },
  pinecone: { document_id: "document", text: "text" },
  qdrant: { document_id: "document", text: "text", dense_values: "vector", sparse_values: "sparse" },
};

/** Databases whose exports and servers are read. */
export const foreignFormats = Object.keys(optionNames) as ImportFormat[];

/** Whether a file has vectors without ids, so that its rows need some. */
export const hasBareVectors = (format: Format | ImportFormat): boolean =>
  format === "npy" || format === "fvecs" || format === "f32";

/** Whether a file has columns, of which each is a field of the records. */
export const hasColumns = (format: Format): boolean => format === "csv" || format === "parquet";
