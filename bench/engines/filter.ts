// What is a filter of a benchmark, and how do engines get it?
//
// A tree of ranges that every engine gets in its own form.

import type { Filter } from "../../packages/protocol/src/shapes/filter.ts";

/** From `from` on, if there is one, below `to`. */
export type Range = { readonly field: string; readonly from?: number; readonly to: number };
export type Tree =
  | Range
  | { readonly and: readonly Tree[] }
  | { readonly or: readonly Tree[] }
  | { readonly not: Tree };

export const holds = (tree: Tree, fields: Readonly<Record<string, number>>): boolean => {
  if ("field" in tree)
    return (tree.from === undefined || fields[tree.field] >= tree.from) && fields[tree.field] < tree.to;
  if ("and" in tree) return tree.and.every((part) => holds(part, fields));
  if ("or" in tree) return tree.or.some((part) => holds(part, fields));
  return !holds(tree.not, fields);
};

/** As SQL has it, without `not`, which not every engine knows. */
export const sqlOf = (tree: Tree): string => {
  if ("field" in tree) {
    const { field, from, to } = tree;
    return from === undefined ? `(${field} < ${to})` : `(${field} >= ${from} and ${field} < ${to})`;
  }
  if ("and" in tree) return `(${tree.and.map(sqlOf).join(" and ")})`;
  if ("or" in tree) return `(${tree.or.map(sqlOf).join(" or ")})`;
  const { not } = tree;
  if ("field" in not) {
    const { field, from, to } = not;
    return from === undefined ? `(${field} >= ${to})` : `(${field} < ${from} or ${field} >= ${to})`;
  }
  if ("not" in not) return sqlOf(not.not);
  const parts = "and" in not ? not.and : not.or;
  const negated = parts.map((part) => ({ not: part }));
  return sqlOf("and" in not ? { or: negated } : { and: negated });
};

/** As Quiver has it. @param less taken from the upper bound of each range, so that no filter is asked twice; no value is so near a bound */
export function quiverFilter(tree: Tree, less: number): Filter {
  if ("field" in tree) {
    const to = { field: tree.field, lt: tree.to - less };
    return tree.from === undefined ? to : { ...to, gte: tree.from };
  }
  if ("and" in tree) return { and: tree.and.map((part) => quiverFilter(part, less)) };
  if ("or" in tree) return { or: tree.or.map((part) => quiverFilter(part, less)) };
  return { not: quiverFilter(tree.not, less) };
}

/** The ranges of a tree that is a conjunction of them; null for others. */
export function rangesOf(tree: Tree): Range[] | null {
  if ("field" in tree) return [tree];
  if (!("and" in tree)) return null;
  const parts = tree.and.map(rangesOf);
  return parts.includes(null) ? null : (parts as Range[][]).flat();
}
