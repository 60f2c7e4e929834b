// What is a filter, once it is read?
//
// A tree of `and`, `or` and `not` over leaves. A leaf asks one condition of one field. The forms in which a filter can be written are
// those of read-filter.ts; all of them become this one. `and` of nothing holds for every record, `or` of nothing for none.

import { type IndexDefinitions, metadataPrefix } from "@quiverdb/protocol/shapes/index-definition";
import type { Field } from "../metadata/field.ts";
import type { Condition } from "./condition.ts";

export type Leaf = {
  readonly kind: "leaf";
  readonly field: Field;
  readonly condition: Condition;
  /** The condition as it was written; `isNegated`: the leaf is what that negates. */
  readonly written: { readonly operator: string; readonly operand: unknown; readonly isNegated: boolean };
  /** Where the field, and what it is compared with, stand in the request. */
  readonly places: { readonly field: string; readonly operand: string };
};

export type Filter =
  | { readonly kind: "and" | "or"; readonly parts: readonly Filter[] }
  | { readonly kind: "not"; readonly part: Filter }
  | Leaf;

/** The leaves, from left to right. */
export function leavesOf(filter: Filter): Leaf[] {
  const leaves: Leaf[] = [];
  const visit = (part: Filter): void => {
    if (part.kind === "leaf") leaves.push(part);
    else if (part.kind === "not") visit(part.part);
    else part.parts.forEach(visit);
  };
  visit(filter);
  return leaves;
}

/** The leaves under an even number of negations, from left to right: those that make fewer records match. */
export function affirmedLeavesOf(filter: Filter, isNegated = false): Leaf[] {
  if (filter.kind === "leaf") return isNegated ? [] : [filter];
  if (filter.kind === "not") return affirmedLeavesOf(filter.part, !isNegated);
  return filter.parts.flatMap((part) => affirmedLeavesOf(part, isNegated));
}

/** The filter as a request could have it, for another thread to read. */
export function writtenFilter(filter: Filter): object {
  switch (filter.kind) {
    case "leaf": {
      const { operator, operand, isNegated } = filter.written;
      const leaf = { field: filter.field.name, [operator]: operand };
      return isNegated ? { not: leaf } : leaf;
    }
    case "not":
      return { not: writtenFilter(filter.part) };
    default:
      return { [filter.kind]: filter.parts.map(writtenFilter) };
  }
}

/** Both filters; null stands for every record. */
export function both(first: Filter | null, second: Filter | null): Filter | null {
  if (first === null || second === null) return first ?? second;
  return { kind: "and", parts: [first, second] };
}

/** Which fields are declared as `datetime`. */
export type IsTime = (field: string) => boolean;

export const timesOf =
  (definitions: Readonly<IndexDefinitions>): IsTime =>
  (field) =>
    definitions[`${metadataPrefix}${field}`]?.type === "datetime";

/** The filter where fields are declared as `datetime`. @throws invalid_filter where an operand is no moment */
export function withTimes(filter: Filter, isTime: IsTime): Filter {
  switch (filter.kind) {
    case "leaf":
      return isTime(filter.field.name) ? { ...filter, condition: filter.condition.asTime() } : filter;
    case "not":
      return { kind: "not", part: withTimes(filter.part, isTime) };
    default:
      return { kind: filter.kind, parts: filter.parts.map((part) => withTimes(part, isTime)) };
  }
}

/** Filters with equal keys hold for the same records. */
export function keyOf(filter: Filter): string {
  switch (filter.kind) {
    case "leaf":
      return `${JSON.stringify(filter.field.name)} ${filter.condition.key}`;
    case "not":
      return `not (${keyOf(filter.part)})`;
    default:
      return `${filter.kind} (${filter.parts.map(keyOf).join(", ")})`;
  }
}
