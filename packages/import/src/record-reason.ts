// What does the refusal of a request say about one of its records?
//
//   vectors[17].dense_values[3] must be a finite number, not null. Correct the request and send it again.
//   vector[3] must be a finite number, not null.
//
// The position in the request, and what to do with the request, mean nothing to whoever imports a file; neither does our name of a field.

import type { RecordInput } from "@quiverdb/client";

/** The names of the source by the fields of our records. A field that is missing has no other name. */
export type FieldNames = { readonly [Field in keyof RecordInput]?: string };

/** A field at the beginning, or one of a vector, whose name is no word, anywhere. */
const fields =
  /^(?:id|document_id|text|metadata)(?=[.[ ])|\b(?:dense_values|sparse_indices|sparse_values)\b/g;

/** What is wrong with a record. @param names what its source calls its fields */
export const reasonOf = ({ message }: { readonly message: string }, names: FieldNames = {}): string =>
  message
    .replace(/^vectors\[\d+\]\.?\s*/, "")
    .replace(/[.;] nothing was changed\..*$/i, ".")
    .replace(/ Correct the request and send it again\.$/, "")
    .replace(fields, (field) => names[field as keyof FieldNames] ?? field);
