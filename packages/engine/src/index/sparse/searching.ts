// How do requests ask for the records with the greatest dot products?

import { QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import * as search from "@quiverdb/protocol/shapes/search";
import { readPairs, sortSparse } from "../../vector/given.ts";
import { invalid, requireContent } from "../definition-checks.ts";
import type { IndexedCollection, Searching } from "../kind.ts";
import type { SparseLeg } from "./legs.ts";

function leg({ sparse }: IndexedCollection, terms: unknown, path: string, threshold: number): SparseLeg {
  requireContent(sparse, "sparse vectors", path);
  if (!Array.isArray(terms)) throw invalid(path, "must be an array of {index, value}.");
  const read = readAscending(terms);
  if (read !== undefined) return { kind: "sparse", ...read, threshold };
  try {
    const { indices, values } = sortSparse(readPairs(terms, path), path);
    return {
      kind: "sparse",
      indices: new Uint32Array(indices),
      values: new Float32Array(values),
      threshold,
    };
  } catch (error) {
    if (error instanceof QuiverError && error.code === "invalid_vector")
      throw new QuiverError("invalid_request", error.message, error.details);
    throw error;
  }
}

/** A query's terms in one pass, if they are valid and ascend, as those of most queries do. */
function readAscending(
  terms: readonly unknown[],
): { indices: Uint32Array<ArrayBuffer>; values: Float32Array<ArrayBuffer> } | undefined {
  const count = terms.length;
  if (count > limits.sparseEntriesMax) return undefined;
  const indices = new Uint32Array(count);
  const values = new Float32Array(count);
  for (let i = 0, previous = -1; i < count; i++) {
    const term = terms[i];
    if (typeof term !== "object" || term === null || Array.isArray(term)) return undefined;
    const { index, value } = term as { index?: unknown; value?: unknown };
    if (typeof index !== "number" || typeof value !== "number") return undefined;
    indices[i] = index;
    values[i] = value;
    // What is not an integer of 32 bits, or not a finite float, is changed by the array.
    if (indices[i] !== index || index <= previous || values[i] - values[i] !== 0) return undefined;
    previous = index;
  }
  return { indices, values };
}

function thresholdOf(value: number | null | undefined, path: string): number {
  const threshold = value ?? 0;
  if (!(threshold >= 0 && threshold <= 1))
    throw invalid(path, `is ${threshold}; expected a number from 0 to 1.`);
  return threshold;
}

export const sparseSearching: Searching<number> = {
  options: ({ early_terminate_threshold }: search.SparseSearch | search.BatchSparseSearch) =>
    thresholdOf(early_terminate_threshold, "early_terminate_threshold"),
  single: {
    name: "sparse",
    shape: search.SparseSearch,
    leg: (collection, { query_terms }: search.SparseSearch, threshold) =>
      leg(collection, query_terms, "query_terms", threshold),
  },
  batch: {
    name: "batchSparse",
    shape: search.BatchSparseSearch,
    queries: "query_terms_list",
    leg: (collection, query: unknown[] | { query_terms?: unknown } | null | undefined, path, threshold) =>
      Array.isArray(query)
        ? leg(collection, query, path, threshold)
        : leg(collection, query?.query_terms, `${path}.query_terms`, threshold),
  },
  hybrid: {
    field: "query_terms",
    weight: "sparse",
    options: ({ sparse_early_terminate_threshold }: search.HybridSearch) =>
      thresholdOf(sparse_early_terminate_threshold, "sparse_early_terminate_threshold"),
    leg,
  },
};
