// How is a filter written as the text that --where takes?
//
// The other direction of read-where.ts: what it reads from the text means the same as the filter, and is equal to `plainFilter` of it.

import { invariant } from "@quiverdb/protocol/invariant";
import type { Filter, FilterValue } from "@quiverdb/protocol/shapes/filter";
import { keywords, plainFieldCharacter } from "./read-where.ts";

const signs: Readonly<Record<string, string>> = {
  eq: "=",
  ne: "!=",
  gt: ">",
  gte: ">=",
  lt: "<",
  lte: "<=",
  contains: "contains",
  prefix: "prefix",
};

type Plain =
  | { readonly and: readonly Plain[] }
  | { readonly or: readonly Plain[] }
  | { readonly not: Plain }
  | { readonly field: string };

/** The filter with one operator in each leaf, and neither short forms, those of other clients, nor lists of one part. */
export function plainFilter(filter: Filter): Plain {
  const given = filter as Readonly<Record<string, unknown>>;
  for (const kind of ["and", "or"] as const) {
    const parts = given[kind] ?? given[kind === "and" ? "And" : "Or"];
    if (Array.isArray(parts)) return joined(kind, parts.map(plainFilter));
  }
  if ("not" in given) return { not: plainFilter(given.not as Filter) };
  if ("Is" in given) {
    const { field_name, operator, field_value } = given.Is as Record<string, unknown>;
    return { field: field_name as string, [operator === "Equal" ? "eq" : "ne"]: field_value };
  }
  if (typeof given.field === "string") return leaf(given.field, given);
  const fields = Object.entries(given).map(([field, value]) =>
    typeof value === "object" ? leaf(field, value as object) : { field, eq: value },
  );
  return joined("and", fields);
}

const joined = (kind: "and" | "or", parts: readonly Plain[]): Plain =>
  parts.length === 1 ? parts[0] : ({ [kind]: parts } as Plain);

function leaf(field: string, operators: object): Plain {
  const held = Object.entries(operators).filter(([name, operand]) => name !== "field" && operand !== null);
  return joined(
    "and",
    held.map(([name, operand]) => ({ field, [name]: operand })),
  );
}

/** The text of a filter. */
export function writeWhere(filter: Filter): string {
  return write(plainFilter(filter));
}

function write(filter: Plain): string {
  if ("and" in filter) return filter.and.length === 0 ? "true" : filter.and.map(inParentheses).join(" and ");
  if ("or" in filter) return filter.or.length === 0 ? "false" : filter.or.map(inParentheses).join(" or ");
  if ("not" in filter) return `not ${inParentheses(filter.not)}`;
  const { field, ...operators } = filter;
  const [[name, operand]] = Object.entries(operators) as [string, unknown][];
  return `${writeField(field)} ${writeOperator(name, operand)}`;
}

/** Lists stay what they are inside of others. */
function inParentheses(filter: Plain): string {
  const parts = "and" in filter ? filter.and : "or" in filter ? filter.or : [];
  return parts.length === 0 ? write(filter) : `(${write(filter)})`;
}

function writeField(field: string): string {
  const isPlain = field !== "" && Array.from(field).every((character) => plainFieldCharacter.test(character));
  return isPlain && !keywords.includes(field.toLowerCase()) ? field : `\`${field.replaceAll("`", "``")}\``;
}

function writeOperator(name: string, operand: unknown): string {
  if (name === "exists") return operand === true ? "exists" : "not exists";
  if (name === "in" || name === "nin")
    return `${name === "in" ? "in" : "not in"} (${(operand as FilterValue[]).map(writeValue).join(", ")})`;
  invariant(Object.hasOwn(signs, name), `operator ${name} has no text`);
  return `${signs[name]} ${writeValue(operand)}`;
}

/** As JSON; minus zero, which JSON has and JavaScript does not write, keeps its sign. */
const writeValue = (value: unknown): string => (Object.is(value, -0) ? "-0" : JSON.stringify(value));
