// How is a filter written in a request?
//
// The engine reads filters itself (engine/query/filter), because a fault must be reported as `invalid_filter` with its path in a tree. So the
// schema describes a filter and accepts everything.

import Type, { type TSchema } from "typebox";
import { limits } from "../limits.ts";

/** A value that a field of the metadata can be compared with. */
export type FilterValue = string | number | boolean;

/** The operators of a field; all that are given must hold. */
export type FieldOperators = {
  /** It has this value; of an array, one of its elements. */
  readonly eq?: FilterValue | null;
  /** The opposite of `eq`, so also where the field is absent. */
  readonly ne?: FilterValue | null;
  /** It has one of these values, at most 10,000. */
  readonly in?: readonly FilterValue[] | null;
  /** The opposite of `in`. */
  readonly nin?: readonly FilterValue[] | null;
  /** It is greater: numbers as numbers, texts by code points, a declared datetime by time. */
  readonly gt?: number | string | null;
  /** It is greater or equal. */
  readonly gte?: number | string | null;
  /** It is less. */
  readonly lt?: number | string | null;
  /** It is less or equal. */
  readonly lte?: number | string | null;
  /** Whether the field has a value. */
  readonly exists?: boolean | null;
  /** It is a text that contains this one. */
  readonly contains?: string | null;
  /** It is a text that begins with this one. */
  readonly prefix?: string | null;
};

/** A filter, in any of its forms: docs/guide/filters.md. */
export type Filter =
  | { readonly and: readonly Filter[] }
  | { readonly or: readonly Filter[] }
  | { readonly not: Filter }
  | ({ readonly field: string } & FieldOperators)
  | { readonly And: readonly Filter[] }
  | { readonly Or: readonly Filter[] }
  | {
      readonly Is: {
        readonly field_name: string;
        readonly operator: "Equal" | "NotEqual";
        readonly field_value: FilterValue;
      };
    }
  | { readonly [field: string]: FilterValue | FieldOperators | undefined };

const schema = {
  description:
    `Only records whose metadata, id and document_id satisfy it. {"color": "red", "n": {"gte": 1}}; {"field": "a.b", "in": [1, 2]}; ` +
    `{"and": [...]}, {"or": [...]}, {"not": ...}. Operators: eq, ne, in, nin, gt, gte, lt, lte, exists, contains, prefix. ` +
    `At most ${limits.filterLeavesMax} conditions, ${limits.filterLevelsMax} levels and ${limits.filterValuesMax} values in a list.`,
  examples: [{ color: "red", n: { gte: 1 } }],
} as unknown as TSchema;

/** A key whose value is a filter. */
export const FilterField = Type.Optional(Type.Unsafe<Filter | null>(schema));

/** The same where there must be one. */
export const RequiredFilter = Type.Unsafe<Filter>(schema);
