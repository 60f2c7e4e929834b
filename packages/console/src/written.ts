// How is what a user writes into a field read?

import { readWhere } from "@quiverdb/client/read-where";
import { writeWhere } from "@quiverdb/client/write-where";
import type { Filter, FilterValue } from "@quiverdb/protocol/shapes/filter";

/** A filter as JSON, or in the language of `--where`; undefined if nothing is written. @throws Error that says what is wrong, and where */
export function parseFilter(text: string): Filter | undefined {
  if (text.trim() === "") return undefined;
  if (!text.trimStart().startsWith("{")) return readWhere(text);
  try {
    return JSON.parse(text) as Filter;
  } catch (error) {
    throw new Error(`The filter is not JSON: ${(error as Error).message}`);
  }
}

/** The filter with one more condition. @param text a filter that the server accepts, or nothing */
export function narrowed(text: string, field: string, value: FilterValue): string {
  const condition = { field, eq: value };
  const before = parseFilter(text);
  if (before === undefined) return writeWhere(condition);
  const { and = [before] } = before as { readonly and?: readonly Filter[] };
  return writeWhere({ and: [...and, condition] });
}

/** Numbers, in brackets or not, between commas or blanks. @throws Error */
export function parseVector(text: string): number[] {
  const words = text.split(/[\s,[\]]+/).filter((word) => word !== "");
  if (words.length === 0) throw new Error("Write the numbers of the vector, or search like a record.");
  return words.map((word, i) => {
    const value = Number(word);
    if (Number.isFinite(value)) return value;
    throw new Error(`Number ${i + 1} of the vector is ${JSON.stringify(word)}, expected a number.`);
  });
}

/** `index:value`, between commas or blanks. @throws Error */
export function parseTerms(text: string): [number, number][] {
  const words = text.split(/[\s,]+/).filter((word) => word !== "");
  if (words.length === 0) throw new Error("Write the terms of the sparse query, or search like a record.");
  return words.map((word) => {
    const match = /^(\d+):(.+)$/.exec(word);
    const value = Number(match?.[2]);
    if (match !== null && Number.isFinite(value)) return [Number(match[1]), value];
    throw new Error(`The sparse query has ${JSON.stringify(word)}, expected index:value, such as 17:0.8.`);
  });
}
