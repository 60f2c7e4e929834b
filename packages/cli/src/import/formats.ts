// Which columns and keys can the command line name?

import type { ImportFormat } from "@quiverdb/import";
import { columnFields } from "@quiverdb/import/files/formats";

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

/** `id=sku` -> `["id", "sku"]`. @throws Error with what is expected */
export function readColumnName(text: string): readonly [field: string, name: string] {
  const [, field, name] = /^([^=]*)=(.+)$/s.exec(text) ?? [];
  if (field !== undefined && Object.hasOwn(columnFields, field)) return [field, name];
  throw new Error(`expected FIELD=COLUMN, with one of the fields ${Object.keys(columnFields).join(", ")}`);
}
