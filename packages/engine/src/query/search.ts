// How does a plan become results?
//
// All queries of a request, all legs of a query and all fetches run on one pinned view, in steps: a long request lets other work run between
// two queries of a batch, between steps of a search, and where very many hits tie. Before each query and each leg it checks the deadline.

import { limits } from "@quiverdb/protocol/limits";
import type { FilterExplanation, SearchResponse } from "@quiverdb/protocol/shapes/search";
import type { Warning } from "@quiverdb/protocol/shapes/warning";
import type { Steps } from "../base/steps.ts";
import { readHead } from "../collection/head.ts";
import { type Filter, keyOf } from "../filter/filter.ts";
import type { LegBeam } from "../index/kind.ts";
import type { SearchedView } from "../views/view.ts";
import { accountOf, Explainer } from "./explain.ts";
import type { FilterLookUp, FoundSet } from "./filter/look-up.ts";
import { told } from "./filter/warnings.ts";
import { Legs, type SearchedLeg } from "./legs.ts";
import type { Plan } from "./plan.ts";
import { fuse, type Hit, type IdOf, type Ranking, rankCandidates, rankHits } from "./rank.ts";
import { fetchAll, ResultSize } from "./result.ts";
import { firstDepth, hitsIn, nextDepth, type Selected, select } from "./selection.ts";

/**
 * Executes every query of the plan.
 * @param view pinned by the caller, who unpins it afterwards
 * @param lookUp of the view
 * @param beam of legs that search a graph; default: the index's own
 * @returns the responses, in the order of the queries
 */
export function* runPlan(
  view: SearchedView,
  plan: Plan,
  lookUp: FilterLookUp,
  beam: LegBeam = { ef: undefined },
): Steps<SearchResponse[]> {
  const answering: Answering = {
    view,
    plan,
    explainer: plan.explain ? new Explainer(plan.fusion) : null,
    size: new ResultSize(),
    responses: new Array<SearchResponse>(plan.queries.length),
  };
  yield* eachQuery(view, plan, lookUp, beam, (query) => answerQuery(answering, query));
  return answering.responses;
}

/** What answers of a request's queries have in common. */
type Answering = {
  readonly view: SearchedView;
  readonly plan: Plan;
  readonly explainer: Explainer | null;
  readonly size: ResultSize;
  readonly responses: SearchResponse[];
};

// Generators are functions of their modules, or methods of classes, wherever searches call them. A generator that a call makes for itself
// (`function*` inside of a function, a method of an object literal) gets a map of its own in V8's old generation, which keeps all that it
// uses until a full collection: of 10 KB of a search, 2 KB stayed, and a collection of the young generation took 13 ms instead of one.
function* answerQuery(
  { view, plan, explainer, size, responses }: Answering,
  { query, legsOf, filtered }: QueryRun,
): Steps<void> {
  const { deadline } = plan;
  const found = yield* runQuery(view, legsOf, plan);
  const { hits, groups, rankings } = found;
  const account = tellsOfWork(plan) ? yield* accountOf(view, found.legs, plan) : undefined;
  const explanations = explainer && (yield* explainer.explain(found.legs, rankings, hits));
  const fetching = deadline.trace?.begin("fetch", { hits: hits.length });
  const results = yield* fetchAll(view, hits, plan, size);
  fetching?.end();
  if (explanations) for (const [at, result] of results.entries()) result.explanation = explanations[at];
  if (groups) for (const [at, result] of results.entries()) result.group = groups[at];
  responses[query] = { results, ...told(filtered) };
  if (filtered?.explained)
    responses[query].filter = { ...filtered.explained, legs: waysOf(found.legs, found.depth) };
  if (account !== undefined) Object.assign(responses[query], account);
}

/** Whether a response has what was done for it: that would tell of records that a caller with a filter does not see. */
export const tellsOfWork = ({ explain, walk, keyFilter }: Plan): boolean =>
  keyFilter === undefined && (explain || walk === true);

/** A query of a plan, as it is run. */
export type QueryRun = {
  /** Its position. */
  readonly query: number;
  /** Its legs, anew by each call. */
  readonly legsOf: () => readonly SearchedLeg[];
  /** Of its filter: what is probably wrong with it, and how its matches were found; null: it has none. */
  readonly filtered: {
    readonly warnings: readonly Warning[];
    readonly explained?: Omit<FilterExplanation, "legs">;
  } | null;
};

/** Runs every query of a plan, those with one filter after each other. */
export function* eachQuery(
  view: SearchedView,
  plan: Plan,
  lookUp: FilterLookUp,
  beam: LegBeam,
  run: (query: QueryRun) => Steps<void>,
): Steps<void> {
  const { deadline } = plan;
  const isAll = plan.keyFilter === undefined;
  for (const { filter, queries } of groupsOf(plan)) {
    const filtering = filter === null ? undefined : deadline.trace?.begin("filter");
    const matches = filter && (yield* lookUp.matching(filter));
    filtering?.end();
    const allowed = matches?.set ?? null;
    const filtered = filter &&
      matches && {
        warnings: allowed?.count === 0 && isAll ? yield* lookUp.warnings(filter, matches) : [],
        ...(plan.explain && isAll && { explained: yield* tellFilter(view, lookUp, filter, matches) }),
      };
    const ofGroup = queries.map((query) => plan.queries[query]);
    const ofKey = plan.keyFilter ? (yield* lookUp.matching(plan.keyFilter)).set : null;
    const options = { allowed, ofKey, isExact: plan.beam.exact, ...beam };
    const legs = new Legs(view, ofGroup, options);
    for (const [i, query] of queries.entries()) {
      deadline.check();
      if (i > 0) yield;
      let isFirst = true;
      const legsOf = () => {
        const made = isFirst ? legs.of(i) : new Legs(view, [ofGroup[i]], options).of(0);
        isFirst = false;
        return made;
      };
      yield* run({ query, legsOf, filtered });
    }
  }
}

/** How the records that match a filter were found. */
function* tellFilter(
  view: SearchedView,
  lookUp: FilterLookUp,
  filter: Filter,
  { recordsRead, absent }: FoundSet,
): Steps<Omit<FilterExplanation, "legs">> {
  return {
    matching: (yield* lookUp.visible(filter)).count,
    records: readHead(view.readTxn).live,
    ...(recordsRead === undefined ? { is_known: true } : { is_known: false, records_read: recordsRead }),
    ...(absent.length > 0 && { absent_fields: [...absent], known_fields: yield* lookUp.fields() }),
  };
}

/** How each leg of a query used the filter. */
export function waysOf(legs: readonly SearchedLeg[], depth: number): FilterExplanation["legs"] {
  const ways = legs.flatMap((leg) => {
    const chosen = leg.chosen(depth);
    if (chosen === undefined) return [];
    // A way that cannot be taken costs infinitely much, which JSON cannot say.
    const possible = Object.entries(chosen.estimates).filter(([, us]) => Number.isFinite(us));
    return [[leg.kind, { way: chosen.way, estimated_us: Object.fromEntries(possible) }]];
  });
  return Object.fromEntries(ways);
}

/** Queries with one filter, whose matches are found once. Only one set of matches is in memory at a time. */
type Group = { readonly filter: Filter | null; readonly queries: number[] };

function groupsOf({ queries, filters }: Plan): Iterable<Group> {
  if (queries.length === 1) return [{ filter: filters[0] ?? null, queries: [0] }];
  const groups = new Map<string, Group>();
  for (let query = 0; query < queries.length; query++) {
    const filter = filters[query] ?? null;
    const key = filter === null ? "" : keyOf(filter);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, { filter, queries: [query] });
    else group.queries.push(query);
  }
  return groups.values();
}

/** Results that each leg of a plan's queries fetches, to rank so many. */
export function legDepth({ fusion }: Plan, depth: number): number {
  return fusion === null ? depth : Math.max(limits.legFactor * depth, limits.legMin);
}

/** The results of a query, best first, and the legs and rankings that they come from. */
type Found = Selected & {
  legs: readonly SearchedLeg[];
  rankings: Ranking[];
  /** Hits that each leg was asked for. */
  depth: number;
};

/** Runs a query, again and deeper where its results are too few for their groups. @param legsOf made anew for each run */
function* runQuery(view: SearchedView, legsOf: () => readonly SearchedLeg[], plan: Plan): Steps<Found> {
  for (let depth = firstDepth(plan); ; ) {
    const legs = legsOf();
    const { hits, rankings } = yield* rankQuery(view, legs, plan, depth);
    const selected = yield* select(hitsIn(view), plan, hits, depth);
    const next = selected.isShort ? nextDepth(depth) : undefined;
    if (next === undefined) return { ...selected, legs, rankings, depth: legDepth(plan, depth) };
    depth = next;
  }
}

function* rankQuery(
  view: SearchedView,
  legs: readonly SearchedLeg[],
  plan: Plan,
  depth: number,
): Steps<{ hits: Hit[]; rankings: Ranking[] }> {
  const { fusion } = plan;
  const idOf = (ordinal: number) => view.recordIds.of(view.readTxn, ordinal).id;
  if (fusion === null) {
    const hits = yield* runLeg(idOf, legs[0], plan, depth);
    return { hits, rankings: [{ hits, weight: 1 }] };
  }
  const ofLeg = legDepth(plan, depth);
  const rankings: Ranking[] = [];
  for (const leg of legs)
    rankings.push({ hits: yield* runLeg(idOf, leg, plan, ofLeg), weight: fusion.weights[leg.kind] });
  const hits = yield* rankHits(idOf, fuse(rankings, fusion.constant), depth);
  return { hits, rankings };
}

export function* runLeg(idOf: IdOf, leg: SearchedLeg, { deadline }: Plan, k: number): Steps<Hit[]> {
  deadline.check();
  const span = deadline.trace?.begin("leg", { kind: leg.kind, k });
  const hits = yield* rankCandidates(idOf, yield* leg.search(k), k);
  span?.end({ hits: hits.length });
  return hits;
}
