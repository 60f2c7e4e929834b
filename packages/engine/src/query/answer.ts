// How does a request to search become its answer?
//
// This is the whole way of a search behind its route: make the plan, find out what it needs, acquire one view that has it, run the plan
// on the view. The plan is made and checked first. The view has all required indexes, at the newest version that any client has seen or is
// acknowledged, and the whole request runs on it.

import { QuiverError } from "@quiverdb/protocol/errors";
import type { IndexKind } from "@quiverdb/protocol/shapes/index-definition";
import { type CallOptions, Deadline } from "../base/deadline.ts";
import { invariant } from "../base/invariant.ts";
import type { Steps } from "../base/steps.ts";
import type { CollectionDefinition } from "../collection/definition.ts";
import type { KeyFilter } from "../collection/key-filter.ts";
import { ordinalOf, vectorNotFound } from "../collection/reading.ts";
import { ordinalKey } from "../collection/tables.ts";
import { both, type Filter, type IsTime, withTimes } from "../filter/filter.ts";
import { Predicate } from "../filter/predicate.ts";
import { invalid } from "../index/definition-checks.ts";
import type { LegBeam } from "../index/kind.ts";
import { kindNamed, kindWith } from "../index/registry.ts";
import { squaredNorm } from "../vector/exact.ts";
import { readFloats } from "../vector/floats.ts";
import type { Metric } from "../vector/metric.ts";
import type { SearchedView } from "../views/view.ts";
import type { FilterLookUp } from "./filter/look-up.ts";
import { metricOf } from "./legs.ts";
import {
  answerOf,
  type Beam,
  checkSize,
  kindsOf,
  type Plan,
  planSearch,
  requireNoVersion,
  type SearchAnswer,
  type SearchKind,
  type SearchRequest,
} from "./plan.ts";
import type { Example, Examples } from "./query-legs.ts";
import { legDepth, runPlan } from "./search.ts";
import { firstDepth } from "./selection.ts";

/** What a search needs of the collection that it searches. */
export interface Searched<V extends SearchedView> {
  readonly definition: CollectionDefinition;
  /** Which fields are declared as times now, for filters. */
  isTime(): IsTime;
  /**
   * A view with these indexes, pinned for the caller, who unpins it.
   * @param filters whose matches will be looked up in the view
   * @throws index_not_found, also for one that is deleted meanwhile
   */
  acquireView(needed: readonly IndexKind[], deadline: Deadline, filters: readonly Filter[]): V | Promise<V>;
  /** The beam of legs with vectors for k results. A promise if the recall must be measured first. */
  beamOfLegs(beam: Beam, k: number, view: V): LegBeam | Promise<LegBeam>;
  /** Finds the records of a view that match a filter. */
  lookUpIn(view: V): FilterLookUp;
}

/** Searches only among these records. */
function restrict(plan: Plan, keyFilter: Filter): void {
  plan.keyFilter = keyFilter;
  plan.filters = plan.queries.map((_, query) => both(keyFilter, plan.filters[query] ?? null));
}

const hasBeams = (kind: IndexKind): boolean => kindNamed(kind).measuring !== undefined;

/** The whole plan of a request. @param keyFilter the records that the caller sees; null: all. @throws invalid_request and others */
export function planned<K extends SearchKind>(
  collection: Pick<Searched<SearchedView>, "definition" | "isTime">,
  kind: K,
  request: SearchRequest<K>,
  deadline: Deadline,
  keyFilter: KeyFilter | null,
): Plan | Promise<Plan> {
  const complete = (plan: Plan): Plan => {
    plan.deadline = deadline;
    checkSize(plan);
    if (plan.filters.some((filter) => filter !== null)) {
      const isTime = collection.isTime();
      plan.filters = plan.filters.map((filter) => filter && withTimes(filter, isTime));
    }
    if (keyFilter !== null) {
      requireNoVersion(plan.include);
      restrict(plan, keyFilter.at(collection.isTime()));
    }
    return plan;
  };
  const made = planSearch(collection.definition, kind, request);
  const plan = "queries" in made ? made : deadline.task.begin(made);
  return plan instanceof Promise ? plan.then(complete) : complete(plan);
}

/** @param keyFilter the records that the caller sees; null: all. No answer depends on others */
export async function answer<V extends SearchedView, K extends SearchKind>(
  collection: Searched<V>,
  kind: K,
  request: SearchRequest<K>,
  options?: CallOptions,
  keyFilter: KeyFilter | null = null,
): Promise<SearchAnswer<K>> {
  const deadline = Deadline.of(options);
  const planning = deadline.trace?.begin("plan");
  const made = planned(collection, kind, request, deadline, keyFilter);
  const plan = made instanceof Promise ? await made : made;
  const needed = kindsOf(plan);
  planning?.end({ queries: plan.queries.length, legs: needed.join() });
  const acquiring = deadline.trace?.begin("acquire view");
  const filters = plan.filters.filter((filter) => filter !== null);
  if (plan.keyFilter !== undefined) filters.push(plan.keyFilter);
  const acquired = collection.acquireView(needed, deadline, filters);
  const view = acquired instanceof Promise ? await acquired : acquired;
  acquiring?.end();
  try {
    const beam = needed.some(hasBeams)
      ? collection.beamOfLegs(plan.beam, legDepth(plan, firstDepth(plan)), view)
      : undefined;
    const beamOfAll = beam instanceof Promise ? await deadline.race(beam) : beam;
    const { examples } = plan;
    const dimension = collection.definition.dimension ?? 0;
    const { task } = deadline;
    const searched = examples
      ? await task.finish(withQuery(examplesIn(view, plan), plan, dimension, examples))
      : plan;
    const running = task.begin(runPlan(view, searched, collection.lookUpIn(view), beamOfAll));
    const answers = running instanceof Promise ? await running : running;
    invariant(
      answers.length === plan.queries.length,
      () => `${answers.length} answers to ${plan.queries.length} queries`,
    );
    return answerOf(kind, answers);
  } finally {
    view.unpin();
  }
}

// ---- For what does a search by examples search?
//
// Examples are records, given by id, or vectors. The search is for their average, as by Qdrant's strategy `average_vector`:
//
//     query = mean(positive)                        without negative examples
//     query = 2 * mean(positive) - mean(negative)   else: as far beyond the positive ones as these are from the negative ones
//
// With cosine, these are the means of the directions: as in scores, lengths do not count. A single example alone is the query itself, so
// that scores are those of a search for it. Means are computed in double precision, in the order of the examples. Records are read from
// the searched view, and are no results.

/** Where examples are read. */
export interface ExampleReader {
  metric(): Metric;
  /** Of the record of an id; undefined: there is none. Its vector: undefined if it has none. */
  find(id: string): { readonly ordinal: number; readonly dense: Uint8Array | undefined } | undefined;
}

function examplesIn(view: SearchedView, { keyFilter }: Plan): ExampleReader {
  const sees = keyFilter === undefined ? null : new Predicate(keyFilter);
  return {
    metric: () => metricOf(view),
    find(id) {
      const ordinal = ordinalOf(view.readTxn, id, sees);
      return ordinal === undefined
        ? undefined
        : { ordinal, dense: view.readTxn.get("dense", ordinalKey(ordinal)) };
    },
  };
}

/** Values that are read at a step, about. */
const valuesPerStep = 65_536;

/**
 * The plan with the query that its examples make in this view; their records are excluded from its results.
 * @throws vector_not_found; invalid_request for a record without a dense vector: with the path of the example
 */
export function* withQuery(
  reader: ExampleReader,
  plan: Plan,
  dimension: number,
  { positive, negative }: Examples,
): Steps<Plan> {
  const excluded = new Set<number>();
  const isAlone = positive.length + negative.length === 1;
  const isDirection = reader.metric().name === "cosine" && !isAlone;
  const average = new Float64Array(dimension);
  const weighted = [
    ...positive.map((example) => ({ example, weight: (negative.length === 0 ? 1 : 2) / positive.length })),
    ...negative.map((example) => ({ example, weight: -1 / negative.length })),
  ];
  let read = 0;
  for (const { example, weight } of weighted) {
    add(average, vectorOf(reader, example, excluded), weight, isDirection);
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
  const leg = kindWith("vectors").vectors.legOf(vector);
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
function vectorOf(reader: ExampleReader, { given, path }: Example, excluded: Set<number>): Float32Array {
  if (typeof given !== "string") return given;
  const found = reader.find(given);
  if (found === undefined) {
    const { code, message, details } = vectorNotFound(given);
    throw new QuiverError(code, `${path}: ${message}`, { ...details, path });
  }
  if (found.dense === undefined)
    throw invalid(
      path,
      "names a record without a dense vector; name records that have one, or send vectors.",
    );
  excluded.add(found.ordinal);
  return readFloats(found.dense);
}
