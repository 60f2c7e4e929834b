// Which legs does a query have?
//
// Each part of a query (a vector, terms, a text) is checked against the collection and becomes a leg: what one index is asked for. The kind
// of the index makes it (index/kind.ts). Lists of queries are read in steps.

import { QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import type * as search from "@quiverdb/protocol/shapes/search";
import type { Steps } from "../base/steps.ts";
import type { CollectionDefinition } from "../collection/definition.ts";
import { checkId } from "../collection/schema.ts";
import { invalid, requireContent } from "../index/definition-checks.ts";
import type { Leg, Searching } from "../index/kind.ts";
import { kindsWith, kindWith } from "../index/registry.ts";

/** Queries whose plans are made at a step. */
export const queriesPerStep = 16;

/** The legs of each query of a list, in steps. */
export function* eachQuery<T>(
  queries: readonly T[],
  path: string,
  legsOf: (query: T, path: string) => Leg[] | Steps<Leg[]>,
): Steps<Leg[][]> {
  if (!Array.isArray(queries)) throw invalid(path, "must be an array of queries.");
  if (queries.length > limits.batchQueriesMax)
    throw invalid(path, `has ${queries.length} queries, at most ${limits.batchQueriesMax} are allowed.`);
  const legs: Leg[][] = [];
  for (const [i, query] of queries.entries()) {
    const made = legsOf(query, `${path}[${i}]`);
    if (legs.push(Array.isArray(made) ? made : yield* made) % queriesPerStep === 0) yield;
  }
  return legs;
}

/** The id of a record, or a vector of the collection's dimension. */
export type Example = { readonly path: string; readonly given: string | Float32Array };

/** At least one is positive. */
export type Examples = { readonly positive: readonly Example[]; readonly negative: readonly Example[] };

/** The examples of a list, in steps. @param idPath of an id, for messages; default: its place in the list */
export function* eachExample(
  definition: CollectionDefinition,
  given: readonly search.Recommend["positive"][number][],
  list: string,
  idPath?: string,
): Steps<Example[]> {
  const { vectors } = kindWith("vectors");
  requireContent(definition.dense, "dense vectors", list);
  if (!Array.isArray(given)) throw invalid(list, "must be an array of ids and vectors.");
  if (given.length > limits.examplesMax)
    throw invalid(list, `has ${given.length} examples, at most ${limits.examplesMax} are allowed.`);
  const examples: Example[] = [];
  for (const [i, one] of given.entries()) {
    const path = `${list}[${i}]`;
    if (typeof one === "string") {
      checkId(one, idPath ?? path);
      examples.push({ path: idPath ?? path, given: one });
    } else examples.push({ path, given: vectors.given(definition, one, path) });
    if (i % queriesPerStep === queriesPerStep - 1) yield;
  }
  return examples;
}

/** A part of hybrid searches, and what a request says of it once for all queries. */
type HybridPart = { readonly part: NonNullable<Searching["hybrid"]>; readonly options: unknown };

/** In the order of the legs. @throws invalid_request */
export function hybridParts(request: object): HybridPart[] {
  const parts: HybridPart[] = [];
  for (const { searching } of kindsWith("searching"))
    if (searching.hybrid)
      parts.push({ part: searching.hybrid, options: searching.hybrid.options?.(request) });
  return parts;
}

/** The legs of a hybrid query, in the order of the parts. @param pathOf the path of a field */
export function* hybridLegs(
  definition: CollectionDefinition,
  query: object,
  parts: readonly HybridPart[],
  pathOf: (field: string) => string,
): Steps<Leg[]> {
  const legs: Leg[] = [];
  for (const { part, options } of parts) {
    const given = (query as Readonly<Record<string, unknown>>)[part.field];
    if (given === null || given === undefined) continue;
    const leg = part.leg(definition, given, pathOf(part.field), options);
    legs.push("kind" in leg ? leg : yield* leg);
  }
  if (legs.length >= 2) return legs;
  const paths = parts.map(({ part }) => pathOf(part.field));
  throw new QuiverError(
    "invalid_request",
    `A hybrid search needs at least two of ${paths.slice(0, -1).join(", ")} and ${paths.at(-1)}; ${legs.length} given.`,
    { path: paths[0] },
  );
}
