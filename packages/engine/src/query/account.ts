// What did the legs of a query do to be answered?
//
// Told after the search, from the same view, by legs that replay what they did; a search that is not asked for it does none of this. It tells
// of all records of the collection, so callers who see only some are not told.

import { limits } from "@quiverdb/protocol/limits";
import type { SearchResponse, Walk } from "@quiverdb/protocol/shapes/search";
import type { Steps } from "../base/steps.ts";
import type { Visit } from "../index/kind.ts";
import type { SearchedView } from "../runtime/view.ts";
import type { SearchedLeg } from "./legs.ts";
import type { Plan } from "./plan.ts";

/** The parts of a response about the work of the query that was searched last. @param legs of it */
export function* accountOf(
  view: SearchedView,
  legs: readonly SearchedLeg[],
  { explain, walk }: Pick<Plan, "explain" | "walk">,
): Steps<Pick<SearchResponse, "legs" | "walk">> {
  const told: Record<string, object> = {};
  let visits: readonly Visit[] = [];
  let isCut = false;
  for (const leg of legs) {
    // One more than are listed, to know whether there are more.
    const account = leg.account(walk ? limits.walkVisitsMax + 1 : 0);
    if (account === undefined) continue;
    const { visits: listed = [], ...work } = yield* account;
    told[leg.kind] = work;
    isCut ||= listed.length > limits.walkVisitsMax;
    visits = listed.slice(0, limits.walkVisitsMax);
  }
  return {
    ...(explain && Object.keys(told).length > 0 && { legs: told }),
    ...(walk && { walk: { visits: visits.map((visit) => visitOf(view, visit)), is_cut: isCut } }),
  };
}

function visitOf(view: SearchedView, { record, from }: Visit): Walk["visits"][number] {
  return {
    id: record && view.recordIds.of(view.readTxn, record.ordinal).id,
    from: from < 0 ? null : from,
    score: record?.score ?? null,
  };
}
