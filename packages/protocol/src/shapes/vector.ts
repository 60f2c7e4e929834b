// How is a vector record represented in requests and responses?

import Type, { type Static, type TSchema } from "typebox";
import { Fields, Maybe } from "./common.ts";

/** `[index, value]`. */
export const IndexValuePair = Type.Unsafe<[number, number]>({
  type: "array",
  items: { type: "number" },
  minItems: 2,
  maxItems: 2,
} as unknown as TSchema);

export const IndexValue = Fields({
  index: Type.Integer({ minimum: 0, maximum: 0xffff_ffff }),
  value: Type.Number(),
});

/**
 * The values of a dense vector: numbers, or the bytes of 32-bit floats, which cost a quarter of the size and nothing to parse. The type is
 * that of a call in the same process, where the floats are an array; in a request they are `{"f32": "<base64>"}`. One schema and no `anyOf`,
 * so that a wrong number is reported with its position.
 */
export const DenseVector = (description: string) =>
  Type.Unsafe<DenseVector>({
    type: ["array", "object"],
    items: { type: "number" },
    properties: {
      f32: {
        type: "string",
        description: "32-bit floats, little-endian, as padded base64 (RFC 4648).",
      },
    },
    required: ["f32"],
    additionalProperties: false,
    description,
  } as unknown as TSchema);

/** The id of a record, or a vector. */
export const ExportedRecords = Type.String({ description: "One JSON vector record per line." });

export type Example = string | DenseVector;
export const Example = (description: string) =>
  Type.Unsafe<Example>({
    ...DenseVector(description),
    type: ["string", "array", "object"],
  } as unknown as TSchema);

/** What a write asks of the record that it changes. */
const ifRecord = {
  if_match: Maybe(
    Type.Integer({
      minimum: 1,
      description:
        'Refuses the whole write with 412 `record_changed` unless this version wrote the record: `include: ["version"]` tells it.',
    }),
  ),
  if_absent: Maybe(
    Type.Boolean({
      description: "true refuses the whole write with 412 `record_changed` if there is a record of this id.",
    }),
  ),
};

export const VectorInput = Fields(
  {
    id: Type.String({ description: "Unique identifier, 1 to 512 bytes of UTF-8." }),
    document_id: Maybe(
      Type.String({ description: "Document the vector belongs to, 1 to 512 bytes of UTF-8." }),
    ),
    dense_values: Maybe(
      DenseVector(
        'Exactly `dimension` finite numbers, stored as 32-bit floats; or {"f32": their bytes in base64}.',
      ),
    ),
    sparse_indices: Maybe(
      Type.Array(Type.Integer({ minimum: 0, maximum: 0xffff_ffff }), {
        description: "Unique unsigned 32-bit indices in any order, one for each of sparse_values.",
      }),
    ),
    sparse_values: Maybe(
      Type.Array(Type.Union([Type.Number(), IndexValuePair, IndexValue]), {
        description:
          "Values for sparse_indices; or, without sparse_indices, pairs [index, value] or objects {index, value}.",
      }),
    ),
    text: Maybe(Type.String({ description: "Text content, indexed for BM25." })),
    metadata: Maybe(
      Type.Unsafe<Record<string, unknown>>({
        type: "object",
        description: "Any JSON object up to 64 KiB; it is returned unchanged.",
      } as unknown as TSchema),
    ),
    ...ifRecord,
  },
  {
    description:
      "A vector record. It must have at least one of dense_values, sparse_indices with sparse_values, or text.",
  },
);

/** A record of a call in the same process. `metadataJson`, if given, is the exact JSON text of `metadata`. */
export const ExactVectorInput = Fields({
  ...VectorInput.properties,
  metadataJson: Type.Optional(Type.String()),
});

export const UpsertVectors = Fields({
  vectors: Type.Array(VectorInput, { description: "Records to create or replace by id, in order." }),
});

const ifVersion = Maybe(
  Type.Integer({
    minimum: 0,
    description: "Refuses the write with 412 `version_changed` unless this version is the current one.",
  }),
);

export const StreamingUpsert = Fields({ ...UpsertVectors.properties, if_version: ifVersion });
/** The same as a parameter of a query string. */
export const IfVersion = Fields({ if_version: ifVersion });
/** Of a deletion. */
export const IfMatch = Fields({ if_match: ifRecord.if_match });
export const IfVersionOrMatch = Fields({ if_version: ifVersion, ...IfMatch.properties });

const nullable = <T>(schema: Record<string, unknown>) =>
  Type.Unsafe<T | null>({ ...schema, type: [schema.type, "null"] } as unknown as TSchema);

export const VectorRecord = Type.Object(
  {
    id: Type.String({ description: "Its id, unique in the collection." }),
    document_id: nullable<string>({ type: "string", description: "The document that it belongs to." }),
    dense_values: nullable<number[]>({
      type: "array",
      items: { type: "number" },
      description: "The exact 32-bit values that were stored, independent of the index's quantization.",
    }),
    sparse_values: nullable<[number, number][]>({
      type: "array",
      items: IndexValuePair,
      description: "Pairs [index, value], ordered by index.",
    }),
    sparse_indices: nullable<number[]>({
      type: "array",
      items: { type: "integer" },
      description: "The indices of sparse_values, ascending.",
    }),
    text: nullable<string>({ type: "string", description: "null unless the collection has store_raw_text." }),
    metadata: nullable<Record<string, unknown>>({ type: "object", description: "As it was written." }),
  },
  { description: "A record as it is read; null for what it does not have." },
);

export const VectorRecords = Type.Array(VectorRecord);

/** A record; fields that were not asked for are absent. */
export const PartialRecord = Type.Partial(
  Type.Object({
    ...VectorRecord.properties,
    dense_f32: nullable<string>({
      type: "string",
      description:
        'The bytes of dense_values, as `{"f32": ...}` of a request has them: a quarter of the size, and nothing to parse.',
    }),
    version: Type.Integer({ description: "The version that wrote it, which if_match of a write takes." }),
  }),
);

/** Numbers of a dense vector. */
export type DenseVector = readonly number[] | Float32Array;
export type IndexValuePair = Static<typeof IndexValuePair>;
export type IndexValue = Static<typeof IndexValue>;
export type VectorInput = Static<typeof VectorInput>;
export type ExactVectorInput = Static<typeof ExactVectorInput>;
export type UpsertVectors = Static<typeof UpsertVectors>;
export type VectorRecord = Static<typeof VectorRecord>;
export type ExportedRecords = Static<typeof ExportedRecords>;
export type VectorRecords = Static<typeof VectorRecords>;
