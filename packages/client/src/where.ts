// How is a filter put together in a program?
//
//   where("color").eq("red").and(where("n").gte(3))      {"and": [{"field": "color", "eq": "red"}, {"field": "n", "gte": 3}]}
//
// Conditions are immutable values that become plain filters where JSON is written, so they can stand wherever a filter can, also inside
// of plain ones. `collection.where` knows the metadata of its collection; the types are those of filter-types.ts.

import type { FieldOperators, Filter } from "@quiverdb/protocol/shapes/filter";
import type {
  AnyMetadata,
  FieldName,
  Fields,
  FilterOf,
  Made,
  Operands,
  OperatorName,
} from "./filter-types.ts";

/** A filter that can be extended. Immutable: each method returns a new one. */
export class Where<Metadata = AnyMetadata> implements Made<Metadata> {
  declare readonly "~metadata"?: Made<Metadata>["~metadata"];
  /** The filter as a plain object, as it is sent. */
  readonly filter: Filter;

  constructor(filter: Filter) {
    this.filter = filter;
  }

  /** This holds, and so do the others. */
  and(...others: readonly FilterOf<Metadata>[]): Where<Metadata> {
    return this.#joined("and", others);
  }

  /** This holds, or one of the others. */
  or(...others: readonly FilterOf<Metadata>[]): Where<Metadata> {
    return this.#joined("or", others);
  }

  /** This does not hold. */
  not(): Where<Metadata> {
    return new Where({ not: this.filter });
  }

  /** The filter as a plain object. */
  toJSON(): Filter {
    return this.filter;
  }

  /** A chain of one kind stays one list. */
  #joined(kind: "and" | "or", others: readonly FilterOf<Metadata>[]): Where<Metadata> {
    const mine = (this.filter as Partial<Record<typeof kind, readonly Filter[]>>)[kind] ?? [this.filter];
    return new Where({ [kind]: [...mine, ...others.map(plain)] } as Filter);
  }
}

/** The filter as a plain object, also where conditions stand inside of it. */
function plain(filter: unknown): Filter {
  return filter instanceof Where ? filter.filter : (filter as Filter);
}

/** The begin of a condition, `where("color")`: a method for each operator. */
export type WhereField<Metadata, Value> = {
  readonly [Name in Exclude<OperatorName<Value>, "exists">]: (
    operand: Operands<Value>[Name],
  ) => Where<Metadata>;
} & {
  /** Whether the field has a value. Default: true. */
  readonly exists: (wanted?: boolean) => Where<Metadata>;
};

/** Begins a condition on a field: a path of the metadata such as `a.b`, `id` or `document_id`. */
export type WhereFunction<Metadata> = <Name extends FieldName<Metadata>>(
  field: Name,
) => WhereField<Metadata, Fields<Metadata>[Name]>;

const names = ["eq", "ne", "in", "nin", "gt", "gte", "lt", "lte", "exists", "contains", "prefix"] as const;

/**
 * Begins a condition on a field, of metadata of which nothing is known.
 *
 * @example
 * ```ts no-run
 * import { type Collection, where } from "@quiverdb/client";
 * declare const collection: Collection;
 * const wanted = where("color").eq("red").and(where("n").gte(3), where("tags").in(["new", "sale"]).not());
 * console.log(await collection.count(wanted));
 * ```
 */
export const where: WhereFunction<AnyMetadata> = (field) => {
  const condition = (name: keyof FieldOperators) => (operand: unknown) =>
    new Where({ field, [name]: operand === undefined && name === "exists" ? true : operand });
  return Object.fromEntries(names.map((name) => [name, condition(name)])) as never;
};

/** `where` for metadata of a type, without a collection. */
export const whereOf = <Metadata>(): WhereFunction<Metadata> => where as never;
