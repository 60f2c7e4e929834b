// How does a request to search become its answer?
//
// This is the whole way of a search behind its route: make the plan, find out what it needs, acquire one view that has it, run the plan
// on the view. The plan is made and checked first. The view has all required indexes, at the newest version that any client has seen or is
// acknowledged, and the whole request runs on it.

import { type IndexKind, kinds } from "@quiverdb/protocol/shapes/index-definition";
import { type CallOptions, Deadline } from "../base/deadline.ts";
import { invariant } from "../base/invariant.ts";
import type { CollectionDefinition } from "../collection/definition.ts";
import type { Rows } from "../collection/rows.ts";
import { both, type Filter, type IsTime, withTimes } from "../filter/filter.ts";
import type { SearchedView } from "../runtime/view.ts";
import { withQuery } from "./examples.ts";
import type { FilterLookUp } from "./filter/look-up.ts";
import {
  answerOf,
  type Beam,
  checkSize,
  kindsOf,
  type Plan,
  type Planner,
  planners,
  type SearchAnswer,
  type SearchKind,
  type SearchRequest,
} from "./plan.ts";
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
  /** The beam width of dense legs for k results; undefined for the default of the index. A promise if the recall must be measured first. */
  beamWidth(beam: Beam, k: number, view: V): number | undefined | Promise<number | undefined>;
  /** Finds the records of a view that match a filter. */
  lookUpIn(view: V): FilterLookUp;
}

/** Searches only among these records. */
function restrict(plan: Plan, rows: Filter): void {
  plan.rows = rows;
  plan.filters = plan.queries.map((_, query) => both(rows, plan.filters[query] ?? null));
}

/** @param rows the records that the caller sees; null: all. No answer depends on others */
export async function answer<V extends SearchedView, K extends SearchKind>(
  collection: Searched<V>,
  kind: K,
  request: SearchRequest<K>,
  options?: CallOptions,
  rows: Rows | null = null,
): Promise<SearchAnswer<K>> {
  const deadline = Deadline.of(options);
  const planning = deadline.trace?.begin("plan");
  const planner: Planner<SearchRequest<K>> = planners[kind];
  const made = planner.plan(collection.definition, request);
  const planned = "queries" in made ? made : deadline.task.begin(made);
  const plan = { ...(planned instanceof Promise ? await planned : planned), deadline };
  checkSize(plan);
  if (plan.filters.some((filter) => filter !== null)) {
    const isTime = collection.isTime();
    plan.filters = plan.filters.map((filter) => filter && withTimes(filter, isTime));
  }
  if (rows !== null) restrict(plan, rows.at(collection.isTime()));
  const needed = kindsOf(plan);
  if (planner.index && needed.length === 0) needed.push(planner.index);
  planning?.end({ queries: plan.queries.length, legs: needed.join() });
  const acquiring = deadline.trace?.begin("acquire view");
  const filters = plan.filters.filter((filter) => filter !== null);
  if (plan.rows !== undefined) filters.push(plan.rows);
  const view = await collection.acquireView(needed, deadline, filters);
  acquiring?.end();
  try {
    const beam = needed.includes(kinds.dense)
      ? collection.beamWidth(plan.beam, legDepth(plan, firstDepth(plan)), view)
      : undefined;
    const ef = beam instanceof Promise ? await deadline.race(beam) : beam;
    const { examples } = plan;
    const dimension = collection.definition.dimension ?? 0;
    const searched = examples ? await deadline.task.finish(withQuery(view, plan, dimension, examples)) : plan;
    const answers = await runPlan(view, searched, collection.lookUpIn(view), ef);
    invariant(
      answers.length === plan.queries.length,
      () => `${answers.length} answers to ${plan.queries.length} queries`,
    );
    return answerOf(kind, answers);
  } finally {
    view.unpin();
  }
}
