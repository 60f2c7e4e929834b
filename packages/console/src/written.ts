// How is what a user writes into a field read?

import type { Filter } from "@quiverdb/protocol/shapes/filter";

/** A filter as JSON; undefined if nothing is written. @throws Error that says what is wrong */
export function parseFilter(text: string): Filter | undefined {
  if (text.trim() === "") return undefined;
  try {
    return JSON.parse(text) as Filter;
  } catch (error) {
    throw new Error(`The filter is not JSON: ${(error as Error).message}`);
  }
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
