// Which filters fit the metadata of a collection? Types alone.
//
// `Collection<Article>` accepts only filters on fields of `Article`, with operators and operands of their types. A field is a path
// (docs/guide/filters.md): `a.b` is the key `b` of the object at `a`, an array stands for its elements, and dots and backslashes of a key are
// written with a backslash before them. Paths are followed five levels deep; below, a field cannot be named in a typed filter.

import type { FieldOperators, Filter, FilterValue } from "@quiverdb/protocol/shapes/filter";

/** Metadata of which nothing is known: every field is accepted, with every operator. */
export type AnyMetadata = Record<string, unknown>;

type IsAny<Metadata> = string extends keyof Metadata ? true : [keyof Metadata] extends [never] ? true : false;

/** Different for different metadata. */
export type Brand<Metadata> = IsAny<Metadata> extends true ? "any" : (metadata: Metadata) => Metadata;

/** What `where` makes (where.ts): a filter that knows for which metadata it was made. */
export interface Made<Metadata> {
  /** Makes conditions on different metadata different types. No value has it. */
  readonly "~metadata"?: Brand<Metadata>;
  toJSON(): Filter;
}

type Shorter = [never, 0, 1, 2, 3, 4];
type Depth = 0 | 1 | 2 | 3 | 4 | 5;

/** The values that a value stands for: an array for its elements, null and undefined for none. */
type Values<T> = T extends readonly (infer Element)[] ? Values<Element> : NonNullable<T>;

/** A key as it stands in a path; any, if any key may be there. */
type Escaped<Key extends string> = string extends Key ? string : EscapedName<Key>;
type EscapedName<Key extends string> = Key extends `${infer First}${infer Rest}`
  ? `${First extends "." | "\\" ? `\\${First}` : First}${EscapedName<Rest>}`
  : "";

/** The metadata keys `id` and `document_id` need a backslash where they would mean those of the record. */
type FirstKey<Key extends string> = Key extends "id" | "document_id" ? `\\${Key}` : Escaped<Key>;

/** A pair of path and value for each key of an object and of the objects in it. */
type Entries<T, Prefix extends string, D extends Depth> = [D] extends [never]
  ? never
  : T extends object
    ? {
        [Key in keyof T & string]-?: EntryAt<
          Prefix extends "" ? FirstKey<Key> : `${Prefix}.${Escaped<Key>}`,
          T[Key],
          D
        >;
      }[keyof T & string]
    : never;
/** What is `unknown` may be anything, with any fields. */
type EntryAt<Path extends string, Value, D extends Depth> = unknown extends Value
  ? [Path | `${Path}.${string}`, FilterValue]
  :
      | [Path, Extract<Values<Value>, FilterValue>]
      | Entries<Exclude<Values<Value>, FilterValue>, Path, Shorter[D]>;

/** The fields of typed metadata with the values that they can have. */
type TypedFields<Metadata> = { [E in Entries<Metadata, "", 5> as E[0]]: E[1] } & {
  id: string;
  document_id: string;
};

/** The fields that a filter can name, with the values that they can have; `never` for an object. */
export type Fields<Metadata> =
  IsAny<Metadata> extends true ? Record<string, FilterValue> : TypedFields<Metadata>;

/** The name of a field that a filter can have: of any, or of those that the metadata of a collection has. */
export type FieldName<Metadata> = keyof Fields<Metadata> & string;

/** The operators that have an effect on the values of a field. */
export type OperatorName<Value> =
  | "exists"
  | ([Value] extends [never] ? never : "eq" | "ne" | "in" | "nin")
  | ([Extract<Value, number | string>] extends [never] ? never : "gt" | "gte" | "lt" | "lte")
  | ([Extract<Value, string>] extends [never] ? never : "contains" | "prefix");

/** `true` and `false` are one type, and the order of literals is that of their kind. */
type Bound<Value> =
  | (Extract<Value, number> extends never ? never : number)
  | (Extract<Value, string> extends never ? never : string);

export type Operands<Value> = {
  eq: Value;
  ne: Value;
  in: readonly Value[];
  nin: readonly Value[];
  gt: Bound<Value>;
  gte: Bound<Value>;
  lt: Bound<Value>;
  lte: Bound<Value>;
  exists: boolean;
  contains: string;
  prefix: string;
} & { [Name in keyof FieldOperators]-?: unknown };

/** The operators of a field with values of this type; all that are given must hold. */
export type OperatorsOf<Value> = { readonly [Name in OperatorName<Value>]?: Operands<Value>[Name] | null };

/** Keys that the short form cannot have. */
type Reserved = "and" | "or" | "not" | "field" | "And" | "Or" | "Is";

type TypedFilter<Metadata> =
  | Made<Metadata>
  // What the imported `where` makes: somebody chose not to have it checked.
  | Made<AnyMetadata>
  | { readonly and: readonly FilterOf<Metadata>[] }
  | { readonly or: readonly FilterOf<Metadata>[] }
  | { readonly not: FilterOf<Metadata> }
  | {
      [Name in FieldName<Metadata>]: { readonly field: Name } & OperatorsOf<Fields<Metadata>[Name]>;
    }[FieldName<Metadata>]
  | ({
      readonly [Name in Exclude<FieldName<Metadata>, Reserved>]?:
        | Fields<Metadata>[Name]
        | OperatorsOf<Fields<Metadata>[Name]>;
    } & { readonly [Name in Reserved]?: never });

type UntypedFilter =
  // Conditions on any metadata.
  | Pick<Made<AnyMetadata>, "toJSON">
  | Filter
  | { readonly and: readonly UntypedFilter[] }
  | { readonly or: readonly UntypedFilter[] }
  | { readonly not: UntypedFilter };

/** A filter on records with this metadata: a plain object, or what `where` makes. */
export type FilterOf<Metadata> = IsAny<Metadata> extends true ? UntypedFilter : TypedFilter<Metadata>;

/**
 * A patch of the metadata (RFC 7396): some of its keys, with their new values; of an object again some keys, of an array the whole. Null
 * removes a key that the metadata need not have.
 */
export type PatchOf<Metadata> = { readonly [Key in keyof Metadata]?: PatchAt<Metadata, Key> };
type PatchAt<Metadata, Key extends keyof Metadata> =
  | PatchedValue<Metadata[Key]>
  | (undefined extends Metadata[Key] ? null : string extends Key ? null : never);
type PatchedValue<Value> = unknown extends Value
  ? unknown
  : Value extends readonly unknown[]
    ? Value
    : Value extends object
      ? PatchOf<Value>
      : Value;

/** A request whose filters, and fields to group and order by, fit the metadata. */
export type For<Metadata, Request> = Request extends readonly (infer Item)[]
  ? readonly For<Metadata, Item>[]
  : Request extends object
    ? { [Key in keyof Request]: Part<Metadata, Key, Request[Key]> }
    : Request;
type Part<Metadata, Key, Value> = Key extends "filter"
  ? FilterOf<Metadata> | null | undefined
  : Key extends "group_by" | "field"
    ? FieldName<Metadata> | Extract<Value, null | undefined>
    : Key extends "queries" | "query_terms_list" | "order_by"
      ? For<Metadata, Value>
      : Value;

/** An answer whose records have metadata of a type: the same with the type in place of any object. */
export type Found<Metadata, Answer> = Answer extends readonly (infer Item)[]
  ? Found<Metadata, Item>[]
  : Answer extends { results: readonly (infer Item)[] }
    ? Omit<Answer, "results"> & { results: Found<Metadata, Item>[] }
    : Answer extends { vectors: readonly (infer Item)[] }
      ? Omit<Answer, "vectors"> & { vectors: Found<Metadata, Item>[] }
      : Answer extends { metadata?: unknown }
        ? {
            [Name in keyof Answer]: Name extends "metadata"
              ? Metadata | Extract<Answer[Name], null | undefined>
              : Answer[Name];
          }
        : Answer;

/** Types an answer. Nothing is checked at run time, as with the records that are written. */
export function found<Metadata, Answer>(answer: Promise<Answer>): Promise<Found<Metadata, Answer>> {
  return answer as Promise<never>;
}
