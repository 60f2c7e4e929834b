// Which filter of Quiver is a filter of LlamaIndex.TS?
//
//   { filters: [{ key, operator, value }, ...], condition }   ->   { and | or: [{ field, [operator]: operand }, ...] }
//
// A key is a key of the metadata, not a path, so its dots are escaped.

import type { MetadataFilter, MetadataFilters } from "@llamaindex/core/vector-store";
import { type Filter, QuiverError } from "@quiverdb/client";

const operators = {
  "==": "eq",
  "!=": "ne",
  ">": "gt",
  ">=": "gte",
  "<": "lt",
  "<=": "lte",
  in: "in",
  nin: "nin",
  // An array of the metadata stands for its elements.
  any: "in",
  contains: "eq",
  text_match: "contains",
} as const;

/** The filter of a query; undefined if every node matches. */
export function filterOf(
  filters: MetadataFilters | undefined,
  docIds: readonly string[] | undefined,
): Filter | undefined {
  const parts: Filter[] = [];
  if (docIds !== undefined) parts.push({ field: "document_id", in: docIds });
  const conditions = (filters?.filters ?? []).map(conditionOf);
  if (conditions.length > 0)
    parts.push(filters?.condition === "or" ? { or: conditions } : { and: conditions });
  return parts.length > 1 ? { and: parts } : parts[0];
}

function conditionOf({ key, operator, value }: MetadataFilter): Filter {
  const field = fieldOf(key);
  if (operator === "is_empty")
    return {
      or: [
        { field, exists: false },
        { field, eq: "" },
      ],
    };
  if (operator === "all") return { and: listOf(key, value).map((eq) => ({ field, eq })) };
  if (!Object.hasOwn(operators, operator)) {
    throw new QuiverError("invalid_filter", `The operator ${JSON.stringify(operator)} is not supported.`, {
      path: key,
    });
  }
  const name = operators[operator];
  return { field, [name]: name === "in" || name === "nin" ? listOf(key, value) : value } as Filter;
}

/** A key of the metadata as a path. */
function fieldOf(key: string): string {
  const escaped = key.replaceAll(/[\\.]/g, "\\$&");
  return key === "id" || key === "document_id" ? `\\${escaped}` : escaped;
}

function listOf(key: string, value: MetadataFilter["value"]): readonly (string | number)[] {
  if (Array.isArray(value)) return value;
  throw new QuiverError("invalid_filter", `The filter on ${JSON.stringify(key)} needs a list of values.`, {
    path: key,
  });
}
