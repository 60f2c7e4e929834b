// What do requests about the records that match a filter contain?

import Type, { type Static, type TSchema } from "typebox";
import { limits } from "../limits.ts";
import { Fields, Maybe, mapOf, OneOf } from "./common.ts";
import { FilterField, type FilterValue, RequiredFilter } from "./filter.ts";
import { Include } from "./include.ts";
import { IfMatch, PartialRecord } from "./vector.ts";
import { Warnings } from "./warning.ts";

export const CountMatching = Fields({ filter: FilterField });
export const Count = Type.Object({
  count: Type.Integer({ description: "Records that match." }),
  warnings: Warnings,
});

export const DeleteMatching = Fields({ filter: RequiredFilter });
export const Deleted = Type.Object({
  deleted: Type.Integer({ description: "Records that were deleted." }),
  warnings: Warnings,
});

const Patch = Type.Unsafe<Record<string, unknown>>({
  type: "object",
  description:
    "Merged into the metadata (RFC 7396): keys are replaced, objects merged, and null removes a key.",
} as unknown as TSchema);

export const PatchMetadata = Fields({ metadata: Patch, ...IfMatch.properties });
/** Of a call in the same process; `metadataJson` is the exact JSON text of `metadata`. */
export const ExactPatch = Fields({
  ...PatchMetadata.properties,
  metadataJson: Type.Optional(Type.String()),
});

export const UpdateMatching = Fields({ filter: RequiredFilter, metadata: Patch });
export const ExactUpdateMatching = Fields({
  ...UpdateMatching.properties,
  metadataJson: Type.Optional(Type.String()),
});
export const Updated = Type.Object({
  updated: Type.Integer({ description: "Records that were updated." }),
  warnings: Warnings,
});

export const FetchVectors = Fields({
  ids: Type.Array(Type.String(), { maxItems: limits.fetchedMax, description: "Ids of records." }),
  include: Include("Default: all of them."),
});

export const FetchedVectors = Type.Array(Type.Union([PartialRecord, Type.Null()]), {
  description: "In the order of the ids, null where there is no record.",
});

export const ScrollVectors = Fields({
  filter: FilterField,
  limit: Maybe(
    Type.Integer({
      minimum: 1,
      maximum: limits.fetchedMax,
      default: limits.scrollDefault,
      description: "Records of a page.",
    }),
  ),
  cursor: Maybe(
    Type.String({
      description:
        "The next_cursor of the page before, which had the same filter and order_by, and was asked for with the same key.",
    }),
  ),
  order_by: Maybe(
    Fields(
      {
        field: Type.String({
          description:
            "A field with a metadata index, or `id`, by which records are listed without `order_by` (only `asc`).",
        }),
        direction: Maybe(OneOf(["asc", "desc"], { default: "asc" })),
      },
      {
        description:
          "Order by the value of a field, ties by id; records without a value of the index's type are left out, and of several values the least (asc) or greatest (desc) counts. Default: by id.",
      },
    ),
  ),
  include: Include("Default: all of them."),
});
export const ScrollPage = Type.Object(
  {
    vectors: Type.Array(PartialRecord, {
      description: "The records of the page, with the fields that were asked for.",
    }),
    next_cursor: Type.Unsafe<string | null>({
      type: ["string", "null"],
      description:
        "Continues after the last record of this page, also after writes; null: there are no more.",
    } as unknown as TSchema),
    warnings: Warnings,
  },
  { description: "A page of records." },
);

const FacetField = "A field of the metadata, `id` or `document_id`.";

export const FacetVectors = Fields(
  {
    field: Maybe(Type.String({ description: FacetField })),
    fields: Maybe(
      Type.Array(Type.String({ description: FacetField }), {
        minItems: 1,
        maxItems: limits.facetFieldsMax,
        description:
          "Several fields, all of one version. The answer then has an object with the values of each.",
      }),
    ),
    filter: FilterField,
    limit: Maybe(
      Type.Integer({
        minimum: 1,
        maximum: limits.facetMax,
        default: limits.facetDefault,
        description: "Values that are listed; of several fields, for each.",
      }),
    ),
  },
  { description: "Either `field` or `fields`." },
);

export const FacetValues = Type.Array(
  Type.Object({
    value: Type.Unsafe<FilterValue>({
      type: ["string", "number", "boolean"],
      description: "A value of the field.",
    } as unknown as TSchema),
    count: Type.Integer({ description: "Matching records with this value." }),
  }),
  {
    description:
      "The values of one field. Most frequent first; ties: numbers, then strings, then booleans, each ascending.",
  },
);

export const Facets = Type.Object(
  {
    facets: Type.Union([FacetValues, mapOf(FacetValues, { description: "By the names that `fields` has." })]),
    warnings: Warnings,
  },
  { description: "How often each value of a field occurs; with `fields`, of each." },
);

export type CountMatching = Static<typeof CountMatching>;
export type Count = Static<typeof Count>;
export type Deleted = Static<typeof Deleted>;
export type DeleteMatching = Static<typeof DeleteMatching>;
export type PatchMetadata = Static<typeof PatchMetadata>;
export type ExactPatch = Static<typeof ExactPatch>;
export type Updated = Static<typeof Updated>;
export type UpdateMatching = Static<typeof UpdateMatching>;
export type ExactUpdateMatching = Static<typeof ExactUpdateMatching>;
export type FetchVectors = Static<typeof FetchVectors>;
export type FetchedVectors = Static<typeof FetchedVectors>;
export type ScrollVectors = Static<typeof ScrollVectors>;
export type ScrollPage = Static<typeof ScrollPage>;
export type FacetVectors = Static<typeof FacetVectors>;
/** The values of one field. */
export type FacetValues = Static<typeof FacetValues>;
export type Facets = Static<typeof Facets>;
