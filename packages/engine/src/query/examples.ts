// For what does a search by examples search?
//
// Examples are records, given by id, or vectors. The search is for their average, as by Qdrant's strategy `average_vector`:
//
//     query = mean(positive)                        without negative examples
//     query = 2 * mean(positive) - mean(negative)   else: as far beyond the positive ones as these are from the negative ones
//
// With cosine, these are the means of the directions: as in scores, lengths do not count. A single example alone is the query itself, so
// that scores are those of a search for it. Means are computed in double precision, in the order of the examples. Records are read from
// the searched view, and are no results.

import { QuiverError } from "@quiverdb/protocol/errors";
import { kinds } from "@quiverdb/protocol/shapes/index-definition";
import type { Steps } from "../base/steps.ts";
import { ordinalOf, type Sees, vectorNotFound } from "../collection/reading.ts";
import { ordinalKey } from "../collection/tables.ts";
import { Predicate } from "../filter/predicate.ts";
import type { DenseLeg } from "../index/hnsw/legs.ts";
import type { SearchedView } from "../runtime/view.ts";
import { squaredNorm } from "../vector/exact.ts";
import { readFloats } from "../vector/floats.ts";
import { metricOf } from "./legs.ts";
import type { Plan } from "./plan.ts";
import { type Example, type Examples, invalid } from "./query-legs.ts";

/** Values that are read at a step, about. */
const valuesPerStep = 65_536;

/**
 * The plan with the query that its examples make in this view; their records are excluded from its results.
 * @throws vector_not_found; invalid_request for a record without a dense vector: with the path of the example
 */
export function* withQuery(
  view: SearchedView,
  plan: Plan,
  dimension: number,
  { positive, negative }: Examples,
): Steps<Plan> {
  const excluded = new Set<number>();
  const isAlone = positive.length + negative.length === 1;
  const isDirection = metricOf(view).name === "cosine" && !isAlone;
  const average = new Float64Array(dimension);
  const weighted = [
    ...positive.map((example) => ({ example, weight: (negative.length === 0 ? 1 : 2) / positive.length })),
    ...negative.map((example) => ({ example, weight: -1 / negative.length })),
  ];
  const sees = plan.rows === undefined ? null : new Predicate(plan.rows);
  let read = 0;
  for (const { example, weight } of weighted) {
    add(average, vectorOf(view, example, sees, excluded), weight, isDirection);
    read += dimension;
    if (read < valuesPerStep) continue;
    read = 0;
    yield;
  }
  const vector = Float32Array.from(average);
  if (!vector.every(Number.isFinite))
    throw invalid(
      "positive",
      "and negative have an average that is beyond the range of a 32-bit float; send smaller vectors.",
    );
  const leg: DenseLeg = { kind: kinds.dense, vector };
  return { ...plan, queries: [[leg]], selection: { ...plan.selection, excluded } };
}

function add(sum: Float64Array, vector: Float32Array, weight: number, isDirection: boolean): void {
  const length = isDirection ? Math.sqrt(squaredNorm(vector, 0, vector.length)) : 1;
  // A vector whose values are all zero has no direction.
  if (length === 0) return;
  const factor = weight / length;
  for (let i = 0; i < vector.length; i++) sum[i] += factor * vector[i];
}

/** @param excluded gets the ordinal of a record */
function vectorOf(
  view: SearchedView,
  { given, path }: Example,
  sees: Sees,
  excluded: Set<number>,
): Float32Array {
  if (typeof given !== "string") return given;
  const ordinal = ordinalOf(view.readTxn, given, sees);
  if (ordinal === undefined) {
    const { code, message, details } = vectorNotFound(given);
    throw new QuiverError(code, `${path}: ${message}`, { ...details, path });
  }
  const bytes = view.readTxn.get("dense", ordinalKey(ordinal));
  if (bytes === undefined)
    throw invalid(
      path,
      "names a record without a dense vector; name records that have one, or send vectors.",
    );
  excluded.add(ordinal);
  return readFloats(bytes);
}
