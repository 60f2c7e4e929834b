// How does a command take a filter?

import { readWhere, WhereError } from "@quiverdb/client/read-where";
import type { Filter } from "@quiverdb/protocol/shapes/filter";
import type { Command } from "commander";
import { UsageError } from "../exit-codes.ts";

export type FilterOptions = { where?: string; filter?: string };

/** Adds `--where` and `--filter`. @param meaning what is done with the records that match */
export function withFilter(command: Command, meaning: string): Command {
  return command
    .option("--where <text>", `${meaning}: 'color = "red" and n >= 3'`)
    .option("--filter <json>", 'the same as JSON: \'{"color": "red", "n": {"gte": 3}}\'');
}

export const whereHelp = `
Filters (--where): conditions with and, or, not and parentheses:
  color = 'red'    n != 3    n < 3    n <= 3    n > 3    n >= 3    color in ('red', "blue")    color not in ()
  n between 1 and 9    color exists    color not exists    color is null    color is not null
  color prefix 're'    color starts with 're'    color contains 'e'
A field is a path (author.name); a backslash makes the next character part of a key, and backticks stand around
names with other characters than letters, digits, _ - $ @ and around keywords (\`and\`). More: docs/guide/filters.md.`;

/** The filter of a command line, if there is one. @throws UsageError */
export function filterOf({ where, filter }: FilterOptions): Filter | undefined {
  if (where !== undefined && filter !== undefined)
    throw new UsageError("--where and --filter say the same in two ways; give one of them.");
  if (where !== undefined) {
    try {
      return readWhere(where);
    } catch (error) {
      if (error instanceof WhereError) throw new UsageError(`--where: ${error.message}`);
      throw error;
    }
  }
  if (filter === undefined) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(filter);
  } catch (error) {
    throw new UsageError(`--filter is not JSON: ${(error as Error).message}`);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new UsageError("--filter is not a JSON object.");
  return value as Filter;
}

/**
 * Whether a filter has a condition at all: `true` and `not (false)` have none, and the server changes nothing by such a filter. A filter
 * that is none is left to the server, which says where its fault is.
 */
export function hasCondition(filter: unknown): boolean {
  if (typeof filter !== "object" || filter === null) return true;
  const parts = Object.entries(filter).filter(([, part]) => part !== null);
  return parts.some(([key, part]) => {
    if (key === "not") return hasCondition(part);
    if (["and", "or", "And", "Or"].includes(key) && Array.isArray(part)) return part.some(hasCondition);
    return true;
  });
}
