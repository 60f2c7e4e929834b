// How does a request to search become its answer?
//
// This is the whole way of a search behind its route: make the plan, find out what it needs, acquire one view that has it, run the plan
// on the view. The plan is made and checked first. The view has all required indexes, at the newest version that any client has seen or is
// acknowledged, and the whole request runs on it.

import { type IndexKind, kinds } from "@quiver/protocol/shapes/index-definition";
import type { SearchResponse } from "@quiver/protocol/shapes/search";
import { type CallOptions, Deadline } from "../base/deadline.ts";
import { invariant } from "../base/invariant.ts";
import type { Steps } from "../base/steps.ts";
import type { IndexDefinitions } from "../collection/apply.ts";
import type { CollectionDefinition } from "../collection/definition.ts";
import type { View } from "../runtime/view.ts";
import type { Reader } from "../storage/store.ts";
import { checkSize, kindsOf, type Plan } from "./plan.ts";
import { type BeamTable, beamWidth } from "./recall.ts";
import { legDepth, runPlan } from "./search.ts";

/** What a search needs of the collection that it searches. */
export interface Searched {
  readonly definition: CollectionDefinition;
  /** Beam widths by recall, for the current dense index. */
  readonly beams: BeamTable;
  /** The definitions of the indexes at a version; the caller does not change them. */
  indexDefinitions(reader: Reader): Readonly<IndexDefinitions>;
  /** A view with these indexes, pinned for the caller, who unpins it. @throws index_not_found, also for one that is deleted meanwhile */
  acquireView(needed: readonly IndexKind[], deadline: Deadline): View | Promise<View>;
}

/**
 * The answers to the queries of a request, in order.
 * @param makePlan checks the request; in steps where that may take long
 * @param kind of index that the endpoint requires, even for an empty batch
 */
export async function answer(
  collection: Searched,
  makePlan: (definition: CollectionDefinition) => Plan | Steps<Plan>,
  options: CallOptions | undefined,
  kind?: IndexKind,
): Promise<SearchResponse[]> {
  const deadline = Deadline.of(options);
  const made = makePlan(collection.definition);
  const plan = { ...("queries" in made ? made : await deadline.task.finish(made)), deadline };
  checkSize(plan);
  const needed = kindsOf(plan);
  if (kind && needed.length === 0) needed.push(kind);
  const view = await collection.acquireView(needed, deadline);
  try {
    const beam = needed.includes(kinds.dense)
      ? beamWidth(
          plan.beam,
          legDepth(plan),
          view,
          collection.indexDefinitions(view.readTxn),
          collection.beams,
        )
      : undefined;
    const ef = beam instanceof Promise ? await deadline.race(beam) : beam;
    const answers = await runPlan(view, plan, ef);
    invariant(
      answers.length === plan.queries.length,
      () => `${answers.length} answers to ${plan.queries.length} queries`,
    );
    return answers;
  } finally {
    view.unpin();
  }
}
