// Are the numbers of a vector valid, in whatever form they are given?
//
// Records and queries share these checks. Error messages name the position.

import { QuiverError } from "@quiverdb/protocol/errors";
import { finiteFloat } from "@quiverdb/protocol/kind-of";
import { limits } from "@quiverdb/protocol/limits";
import { invariant } from "../base/invariant.ts";

/** A vector record breaks a rule. `path` is the field, such as `vectors[17].dense_values`. */
export function invalid(path: string, problem: string, details: Record<string, unknown> = {}): QuiverError {
  return new QuiverError("invalid_vector", `${path} ${problem}`, { path, ...details });
}

/** The first position whose value is not a finite number as a 32-bit float, or -1. */
export function firstNotFloat(values: ArrayLike<unknown>): number {
  if (values instanceof Float32Array) return firstNotFinite(values);
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    if (typeof value !== "number" || !Number.isFinite(Math.fround(value))) return i;
  }
  return -1;
}

/** The same for floats, in a loop of its own: one for all kinds of arrays makes an object of each number. */
function firstNotFinite(values: Float32Array): number {
  for (let i = 0; i < values.length; i++) if (values[i] - values[i] !== 0) return i;
  return -1;
}

type SparseInput = { readonly indices: ArrayLike<number>; readonly values: ArrayLike<number> };

/** Splits `[index, value]` and `{index, value}` entries. @throws invalid_vector */
export function readPairs(entries: ArrayLike<unknown>, path: string): SparseInput {
  const indices: number[] = [];
  const values: number[] = [];
  for (let i = 0; i < entries.length; i++) {
    const entry = entries[i] as { index: number; value: number } | [number, number] | null;
    if (Array.isArray(entry) && entry.length === 2) {
      indices.push(entry[0]);
      values.push(entry[1]);
    } else if (typeof entry === "object" && entry !== null && "index" in entry && "value" in entry) {
      indices.push(entry.index);
      values.push(entry.value);
    } else
      throw invalid(`${path}[${i}]`, "is neither [index, value] nor {index, value}; use one form for all.");
  }
  return { indices, values };
}

/**
 * Checks a sparse vector and sorts it by index.
 * @returns indices of 32 bits, ascending, and values; the arrays that were given, where they ascend
 * @throws invalid_vector naming the position
 */
export function sortSparse({ indices, values }: SparseInput, path: string, indicesPath = path): SparseInput {
  const count = indices.length;
  invariant(count === values.length, () => `${path}: ${count} indices and ${values.length} values`);
  if (count > limits.sparseEntriesMax)
    throw invalid(path, `has ${count} entries, at most ${limits.sparseEntriesMax} are allowed.`);
  let ascending = true;
  let previous = -1;
  for (let i = 0; i < count; i++) {
    const index = indices[i];
    const kept = typeof index === "number" ? index >>> 0 : -1;
    if (kept !== index)
      throw invalid(`${indicesPath}[${i}]`, `is ${index}; expected an integer from 0 to 4294967295.`);
    if (kept <= previous) ascending = false;
    previous = kept;
  }
  for (let i = 0; i < count; i++) {
    const value = values[i];
    if (typeof value !== "number" || !Number.isFinite(Math.fround(value)))
      throw invalid(`${path}[${i}]`, `is ${value}; ${finiteFloat}`);
  }
  if (ascending) return { indices, values };
  // An index and its position are one number below 2^53: numbers without a comparison function are sorted several times as fast.
  const keys = new Float64Array(count);
  for (let i = 0; i < count; i++) keys[i] = indices[i] * positions + i;
  keys.sort();
  const sorted = { indices: new Uint32Array(count), values: new Float64Array(count) };
  for (let i = 0; i < count; i++) {
    const index = Math.floor(keys[i] / positions);
    const at = keys[i] - index * positions;
    if (i > 0 && index === sorted.indices[i - 1])
      throw invalid(
        `${indicesPath}[${at}]`,
        `repeats the index ${index} of position ${keys[i - 1] - index * positions}; indices are unique.`,
      );
    sorted.indices[i] = index;
    sorted.values[i] = values[at];
  }
  return sorted;
}

/** More than a sparse vector has entries. */
const positions = 2 ** 21;
