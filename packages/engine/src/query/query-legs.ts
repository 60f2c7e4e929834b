// Which legs does a query have?
//
// Each part of a query (a vector, terms, a text) is checked against the collection and becomes a leg: what one index is asked for. Legs of
// texts and lists of queries are made in steps.

import { counted } from "@quiverdb/protocol/counted";
import { QuiverError } from "@quiverdb/protocol/errors";
import { finiteFloat } from "@quiverdb/protocol/kind-of";
import { limits } from "@quiverdb/protocol/limits";
import { kinds } from "@quiverdb/protocol/shapes/index-definition";
import * as search from "@quiverdb/protocol/shapes/search";
import type { DenseVector } from "@quiverdb/protocol/shapes/vector";
import { bytesBeyond } from "../base/bytes.ts";
import type { Steps } from "../base/steps.ts";
import type { CollectionDefinition } from "../collection/definition.ts";
import { checkId, firstNotFloat, readPairs, sortSparse } from "../collection/schema.ts";
import type { Leg } from "../index/kind.ts";
import type { DenseLeg, SparseLeg, TextLeg } from "../index/legs.ts";
import { parseInSteps } from "../text/operators.ts";

/** A request that cannot be answered. @param path the field */
export function invalid(path: string, problem: string): QuiverError {
  return new QuiverError("invalid_request", `${path} ${problem}`, { path });
}

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
  requireEnabled(definition.dense, "dense vectors", list);
  if (!Array.isArray(given)) throw invalid(list, "must be an array of ids and vectors.");
  if (given.length > limits.examplesMax)
    throw invalid(list, `has ${given.length} examples, at most ${limits.examplesMax} are allowed.`);
  const examples: Example[] = [];
  for (const [i, one] of given.entries()) {
    const path = `${list}[${i}]`;
    if (typeof one === "string") {
      checkId(one, idPath ?? path);
      examples.push({ path: idPath ?? path, given: one });
    } else examples.push({ path, given: denseLeg(definition, one, path).vector });
    if (i % queriesPerStep === queriesPerStep - 1) yield;
  }
  return examples;
}

export function denseLeg(definition: CollectionDefinition, vector: DenseVector, path: string): DenseLeg {
  requireEnabled(definition.dense, "dense vectors", path);
  if (!Array.isArray(vector) && !ArrayBuffer.isView(vector))
    throw invalid(path, "must be an array of numbers.");
  if (vector.length !== definition.dimension)
    throw invalid(
      path,
      `has ${counted(vector.length, "value")}, the collection's dimension is ${definition.dimension}.`,
    );
  const wrong = firstNotFloat(vector);
  if (wrong >= 0) throw invalid(`${path}[${wrong}]`, `is ${vector[wrong]}; ${finiteFloat}`);
  return { kind: kinds.dense, vector: new Float32Array(vector) };
}

export function sparseLeg(
  definition: CollectionDefinition,
  terms: search.QueryTerms,
  threshold: number,
  path: string,
): SparseLeg {
  requireEnabled(definition.sparse, "sparse vectors", path);
  if (!Array.isArray(terms)) throw invalid(path, "must be an array of {index, value}.");
  const read = readAscending(terms);
  if (read !== undefined) return { kind: kinds.sparse, ...read, threshold };
  try {
    const { indices, values } = sortSparse(readPairs(terms, path), path);
    return { kind: kinds.sparse, indices, values: new Float32Array(values), threshold };
  } catch (error) {
    if (error instanceof QuiverError && error.code === "invalid_vector")
      throw new QuiverError("invalid_request", error.message, error.details);
    throw error;
  }
}

export function* textLeg(
  definition: CollectionDefinition,
  text: string,
  syntax: search.TextSyntax,
  path: string,
): Steps<TextLeg> {
  requireEnabled(definition.text, "text search", path);
  checkText(text, path);
  const clauses = syntax === "operators" ? yield* parseInSteps(text, path) : null;
  return { kind: kinds.text, text, clauses, path };
}

export function syntaxOf({ syntax }: { syntax?: search.TextSyntax | null }): search.TextSyntax {
  const wanted = syntax ?? "plain";
  if (search.textSyntaxes.includes(wanted)) return wanted;
  throw invalid("syntax", `is ${JSON.stringify(syntax)}; expected one of ${search.textSyntaxes.join(", ")}.`);
}

/** Checks a text that is searched for or analysed. @throws invalid_request */
export function checkText(text: unknown, path: string): asserts text is string {
  if (typeof text !== "string") throw invalid(path, "must be a string.");
  const bytes = bytesBeyond(text, limits.queryTextBytesMax);
  if (bytes > 0) throw invalid(path, `has ${bytes} bytes, at most ${limits.queryTextBytesMax} are allowed.`);
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

function requireEnabled(enabled: boolean, kind: string, path: string): void {
  if (!enabled)
    throw new QuiverError("modality_not_enabled", `${path} is given, but the collection has no ${kind}.`, {
      path,
    });
}

type HybridLegs = Pick<search.HybridSearch, "query_vector" | "query_terms" | "query_text">;

/** The legs of a hybrid query, always in the order dense, sparse, text. */
export function* hybridLegs(
  definition: CollectionDefinition,
  query: HybridLegs,
  { threshold, syntax }: { threshold: number; syntax: search.TextSyntax },
  field: (name: string) => string,
): Steps<Leg[]> {
  const legs: Leg[] = [];
  const { query_vector, query_terms, query_text } = query;
  if (query_vector != null) legs.push(denseLeg(definition, query_vector, field("query_vector")));
  if (query_terms != null) legs.push(sparseLeg(definition, query_terms, threshold, field("query_terms")));
  if (query_text != null) legs.push(yield* textLeg(definition, query_text, syntax, field("query_text")));
  if (legs.length < 2)
    throw new QuiverError(
      "invalid_request",
      `A hybrid search needs at least two of ${field("query_vector")}, ${field("query_terms")} and ${field("query_text")}; ` +
        `${legs.length} given.`,
      { path: field("query_vector") },
    );
  return legs;
}
