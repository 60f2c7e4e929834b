// How do requests ask for the vectors that are near to a vector?

import { counted } from "@quiverdb/protocol/counted";
import { finiteFloat } from "@quiverdb/protocol/kind-of";
import * as search from "@quiverdb/protocol/shapes/search";
import { firstNotFloat } from "../../vector/given.ts";
import { invalid, requireContent } from "../definition-checks.ts";
import type { IndexedCollection, Searching } from "../kind.ts";
import type { DenseLeg } from "./legs.ts";

/** A vector that a request gives, as one of the collection. @throws invalid_request, modality_not_enabled, with the position */
export function givenVector(
  { dense, dimension }: IndexedCollection,
  vector: unknown,
  path: string,
): Float32Array {
  requireContent(dense, "dense vectors", path);
  if (!Array.isArray(vector) && !ArrayBuffer.isView(vector))
    throw invalid(path, "must be an array of numbers.");
  const values = vector as ArrayLike<number>;
  if (values.length !== dimension)
    throw invalid(
      path,
      `has ${counted(values.length, "value")}, the collection's dimension is ${dimension}.`,
    );
  const wrong = firstNotFloat(values);
  if (wrong >= 0) throw invalid(`${path}[${wrong}]`, `is ${values[wrong]}; ${finiteFloat}`);
  return new Float32Array(values);
}

export const legOfVector = (vector: Float32Array): DenseLeg => ({ kind: "dense", vector });

const leg = (collection: IndexedCollection, vector: unknown, path: string): DenseLeg =>
  legOfVector(givenVector(collection, vector, path));

export const denseSearching: Searching = {
  single: {
    name: "dense",
    shape: search.DenseSearch,
    leg: (collection, request: search.DenseSearch) => leg(collection, request.query_vector, "query_vector"),
  },
  batch: {
    name: "batchDense",
    shape: search.BatchDenseSearch,
    queries: "queries",
    leg: (collection, query: { vector?: unknown } | null | undefined, path) =>
      leg(collection, query?.vector, `${path}.vector`),
  },
  hybrid: { field: "query_vector", weight: "dense", leg },
};
