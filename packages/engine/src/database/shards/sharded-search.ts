// How does a collection of several shards search?
//
//   plan -> what texts need of all shards (`tell`) -> hits of each leg, from each shard (`find`) -> merged, fused, grouped, made diverse
//        -> deeper, where groups need more -> what results have (`results`), from the shards of the hits
//
// A shard ranks its hits by score and id, and each leg's hits are merged by the same order: so exact legs give what one store would, to the last
// digit. From there on the rest is what runPlan does (query/search.ts). A hit is named by one number, of its shard and its ordinal there.

import type { IndexDefinition } from "@quiverdb/protocol/shapes/index-definition";
import type { Explanation, SearchResponse, SearchResult } from "@quiverdb/protocol/shapes/search";
import type { Warning } from "@quiverdb/protocol/shapes/warning";
import { type CallOptions, Deadline } from "../../base/deadline.ts";
import { invariant } from "../../base/invariant.ts";
import { turned } from "../../base/scheduler.ts";
import { readIndexDefinitions } from "../../collection/apply.ts";
import type { KeyFilter } from "../../collection/key-filter.ts";
import { kindNamed, kindWith } from "../../index/registry.ts";
import { planned, withQuery } from "../../query/answer.ts";
import { composed, Explainer } from "../../query/explain.ts";
import { told } from "../../query/filter/warnings.ts";
import { requireIndexes } from "../../query/legs.ts";
import {
  answerOf,
  type Plan,
  type SearchAnswer,
  type SearchKind,
  type SearchRequest,
} from "../../query/plan.ts";
import { fuse, type Hit, type Ranking, rankHits } from "../../query/rank.ts";
import { receivedResponse } from "../../query/result.ts";
import { legDepth } from "../../query/search.ts";
import { firstDepth, nextDepth, type Selected, select } from "../../query/selection.ts";
import type { CollectionParts } from "../collection-calls.ts";
import type { ShardOptions } from "./call.ts";
import type { AskedLegs, FoundInShard, FoundRecord } from "./shard.ts";
import type { Shards } from "./shards.ts";

/** Ordinals are u32. */
const perShard = 2 ** 32;
const keyOf = (shard: number, ordinal: number): number => shard * perShard + ordinal;
const shardOfKey = (key: number): number => Math.floor(key / perShard);

/** What is found for a query in all shards. */
type Found = Selected & { readonly rankings: Ranking[]; readonly records: ReadonlyMap<number, FoundRecord> };

/**
 * Searches all shards at one version.
 * @param home what a plan needs of the collection
 * @param version an earlier one; undefined: the newest
 */
export async function searchShards<K extends SearchKind>(
  shards: Shards,
  { searches, state }: CollectionParts,
  kind: K,
  request: SearchRequest<K>,
  options: CallOptions | undefined,
  keyFilter: KeyFilter | null,
  version: number | undefined,
): Promise<SearchAnswer<K>> {
  const deadline = Deadline.of(options);
  const plan = await planned(searches, kind, request, deadline, keyFilter);
  const search = (at: ShardOptions) =>
    new ShardedSearch(shards, state, plan, { kind, request }, deadline, at).run();
  const found = await shards.atOneVersion(deadline, version, search);
  // A program that searches in a loop (searches.ts).
  if (options === undefined) await turned();
  return answerOf(kind, found);
}

class ShardedSearch {
  readonly #shards: Shards;
  readonly #state: CollectionParts["state"];
  #plan: Plan;
  #asked: AskedLegs;
  readonly #deadline: Deadline;
  readonly #at: ShardOptions;

  constructor(
    shards: Shards,
    state: CollectionParts["state"],
    plan: Plan,
    asked: AskedLegs,
    deadline: Deadline,
    at: ShardOptions,
  ) {
    this.#shards = shards;
    this.#state = state;
    this.#plan = plan;
    this.#asked = asked;
    this.#deadline = deadline;
    this.#at = at;
  }

  async run(): Promise<SearchResponse[]> {
    await this.#readExamples();
    await this.#unite();
    const queries = this.#plan.queries.length;
    const found: Found[] = [];
    const told: (readonly FoundInShard[])[] = [];
    for (let depth = firstDepth(this.#plan); ; ) {
      const inShards = await this.#shards.all("find", { ...this.#asked, depth }, this.#deadline, this.#at);
      let isShort = false;
      for (let query = 0; query < queries; query++) {
        if (found[query] !== undefined && !found[query].isShort) continue;
        told[query] = inShards.map((ofShard) => ofShard[query]);
        found[query] = await this.#merge(told[query], depth);
        isShort ||= found[query].isShort;
      }
      const next = isShort ? nextDepth(depth) : undefined;
      if (next === undefined) return this.#respond(found, told, depth);
      depth = next;
    }
  }

  /** Reads the examples of the plan from their shards: they make its query. */
  async #readExamples(): Promise<void> {
    const { examples } = this.#plan;
    if (examples === undefined) return;
    const ids = [...examples.positive, ...examples.negative].flatMap(({ given }) =>
      typeof given === "string" ? [given] : [],
    );
    const of = (number: number) => ids.filter((id) => this.#shards.of(id) === number);
    const read = await this.#shards.all(
      "examples",
      (number) => ({ ids: of(number) }),
      this.#deadline,
      this.#at,
    );
    const byId = new Map<string, { ordinal: number; dense: Uint8Array | undefined }>();
    for (const [shard, vectors] of read.entries())
      for (const [i, vector] of vectors.entries())
        if (vector !== undefined)
          byId.set(of(shard)[i], { ordinal: keyOf(shard, vector.ordinal), dense: vector.dense });
    const reader = { metric: () => this.#metric(), find: (id: string) => byId.get(id) };
    const dimension = this.#state.definition.dimension ?? 0;
    this.#plan = await this.#deadline.task.finish(withQuery(reader, this.#plan, dimension, examples));
    this.#asked = { ...this.#asked, legs: this.#plan.queries };
  }

  #metric() {
    const { name, vectors } = kindWith("vectors");
    const definitions = this.#state.read((readTxn) => readIndexDefinitions(readTxn));
    requireIndexes(definitions, [name], this.#state.name);
    return vectors.metricOf(definitions[name] as IndexDefinition);
  }

  /** Asks what legs need to know of all shards. */
  async #unite(): Promise<void> {
    const { queries } = this.#plan;
    if (!queries.some((legs) => legs.some((leg) => kindNamed(leg.kind).unite !== undefined))) return;
    const all = await this.#shards.all("tell", this.#asked, this.#deadline, this.#at);
    const among = queries.map((legs, query) =>
      legs.map((leg, i) =>
        kindNamed(leg.kind).unite?.(
          leg,
          all.map((ofShard) => ofShard[query][i]),
        ),
      ),
    );
    this.#asked = { ...this.#asked, among };
  }

  /** The hits of a query, of those of all shards. */
  async #merge(ofShards: readonly FoundInShard[], depth: number): Promise<Found> {
    const records = new Map<number, FoundRecord>();
    for (const [shard, { records: own }] of ofShards.entries())
      for (const record of own) records.set(keyOf(shard, record.ordinal), record);
    const at = (key: number): FoundRecord => {
      const record = records.get(key);
      invariant(record !== undefined, "a hit of a shard has no record");
      return record;
    };
    const idOf = (key: number) => at(key).id;
    const plan = this.#plan;
    const { fusion } = plan;
    const k = legDepth(plan, depth);
    const { task } = this.#deadline;
    const rankings: Ranking[] = [];
    for (const [i, { kind }] of (ofShards[0]?.legs ?? []).map((_, leg) => [leg, this.#legAt(leg)] as const)) {
      const hits: Hit[] = [];
      for (const [shard, { legs }] of ofShards.entries())
        for (const [j, ordinal] of legs[i].ordinals.entries())
          hits.push({ ordinal: keyOf(shard, ordinal), score: legs[i].scores[j] });
      rankings.push({
        hits: await task.finish(rankHits(idOf, hits, k)),
        weight: fusion === null ? 1 : fusion.weights[kind],
      });
    }
    const hits =
      fusion === null
        ? rankings[0].hits
        : await task.finish(rankHits(idOf, fuse(rankings, fusion.constant), depth));
    const reader = {
      metric: () => this.#metric(),
      vectorOf: (key: number) => at(key).dense as Uint8Array,
      groupsBy: () => (key: number) => at(key).group ?? null,
    };
    const selected = await task.finish(select(reader, plan, hits, depth));
    return { ...selected, rankings, records };
  }

  /** The kind of a leg: that of all queries which have it. */
  #legAt(leg: number) {
    const legs = this.#plan.queries.find((each) => each.length > leg);
    invariant(legs !== undefined, `no query has a leg ${leg}`);
    return legs[leg];
  }

  async #respond(
    found: readonly Found[],
    inShards: readonly (readonly FoundInShard[])[],
    depth: number,
  ): Promise<SearchResponse[]> {
    const results = await this.#results(found, depth);
    return found.map(({ groups }, query) => {
      const ofQuery = results[query];
      if (groups) for (const [at, result] of ofQuery.entries()) result.group = groups[at];
      return { results: ofQuery, ...summary(inShards[query]) };
    });
  }

  /** The results of each query. Only an id, a document and a score need nothing more of the shards. */
  async #results(found: readonly Found[], depth: number): Promise<SearchResult[][]> {
    const { include, returnRawText, explain, fusion } = this.#plan;
    if (include.length === 0 && !returnRawText && !explain)
      return found.map(({ hits, records }) =>
        hits.map(({ ordinal, score }) => {
          const { id, documentId } = records.get(ordinal) as FoundRecord;
          return { id, document_id: documentId, score, text: null };
        }),
      );
    const explainer = explain ? new Explainer(fusion) : null;
    const standings = found.map(({ rankings, hits }) =>
      explainer === null ? [] : rankings.map((ranking) => explainer.standings(ranking, hits)),
    );
    const own = (shard: number, hits: readonly Hit[]) =>
      hits.filter(({ ordinal }) => shardOfKey(ordinal) === shard);
    const inShard = ({ ordinal, score }: Hit) => ({ ordinal: ordinal % perShard, score });
    const wantedOf = (shard: number) =>
      found.map(({ hits }, query) => ({
        hits: own(shard, hits).map(inShard),
        ...(explain && {
          explained: standings[query].map((ofLeg) =>
            own(
              shard,
              hits.filter((_, at) => ofLeg[at] !== null),
            ).map(({ ordinal }) => ordinal % perShard),
          ),
        }),
      }));
    const answers = await this.#shards.all(
      "results",
      (shard) => ({ ...this.#asked, wanted: wantedOf(shard), depth }),
      this.#deadline,
      this.#at,
    );
    return found.map(({ hits }, query) => {
      const rest = answers.map((answer) => receivedResponse(answer[query].response).results.values());
      const results = hits.map(({ ordinal }) => rest[shardOfKey(ordinal)].next().value as SearchResult);
      if (!explain) return results;
      const ofLegs = standings[query].map((ofLeg, leg) => {
        const details = answers.map((answer) => answer[query].details[leg].values());
        return hits.flatMap(({ ordinal }, at) =>
          ofLeg[at] === null ? [] : [details[shardOfKey(ordinal)].next().value as object],
        );
      });
      const kinds = standings[query].map((_, leg) => this.#plan.queries[query][leg].kind);
      const explanations: Explanation[] = composed(kinds, standings[query], ofLegs);
      for (const [at, result] of results.entries()) result.explanation = explanations[at];
      return results;
    });
  }
}

/** What a response has beside its results, of what the shards say. */
function summary(ofShards: readonly FoundInShard[]): Omit<SearchResponse, "results"> {
  const isFound = ofShards.some(({ legs }) => legs.some(({ ordinals }) => ordinals.length > 0));
  const filters = ofShards.flatMap(({ filter }) => filter ?? []);
  const accounts = ofShards.flatMap(({ account }) => account ?? []);
  return {
    ...told(isFound ? null : { warnings: agreed(ofShards.map(({ warnings }) => warnings)) }),
    ...(filters.length > 0 && { filter: unitedFilter(filters) }),
    ...(accounts.some(({ legs }) => legs) && { legs: unitedLegs(accounts) }),
    ...(accounts.some(({ walk }) => walk) && { walk: unitedWalk(accounts) }),
  };
}

/** The warnings that every shard has which has any: one that has the field that another misses has none. */
export function agreed(ofShards: readonly (readonly Warning[])[]): Warning[] {
  const [first = [], ...others] = ofShards;
  const isSame = (a: Warning, b: Warning) => a.code === b.code && a.path === b.path;
  return first.filter((warning) => others.every((list) => list.some((each) => isSame(each, warning))));
}

type FilterTold = NonNullable<SearchResponse["filter"]>;

function unitedFilter(filters: readonly FilterTold[]): FilterTold {
  const [first] = filters;
  const sum = (of: (filter: FilterTold) => number) => filters.reduce((all, each) => all + of(each), 0);
  const isKnown = filters.every(({ is_known }) => is_known);
  const absent = (first.absent_fields ?? []).filter((field) =>
    filters.every(({ absent_fields }) => absent_fields?.includes(field)),
  );
  const known = [...new Set(filters.flatMap(({ known_fields = [] }) => known_fields))];
  return {
    matching: sum(({ matching }) => matching),
    records: sum(({ records }) => records),
    is_known: isKnown,
    ...(!isKnown && { records_read: sum(({ records_read = 0 }) => records_read) }),
    ...(absent.length > 0 && { absent_fields: absent, known_fields: known }),
    // Each shard chooses by its own costs; the first one's ways stand for all.
    legs: first.legs,
  };
}

type Account = Pick<SearchResponse, "legs" | "walk">;

type LegWork = NonNullable<NonNullable<Account["legs"]>["dense"]>;

/** The work of all shards together. */
function unitedLegs(accounts: readonly Account[]): NonNullable<Account["legs"]> {
  const united: Record<string, LegWork> = {};
  for (const { legs = {} } of accounts)
    for (const [kind, work] of Object.entries(legs)) {
      const all = united[kind] ?? { ...work, visited: 0, distances: 0 };
      const [visited, distances] = [all.visited + work.visited, all.distances + work.distances];
      united[kind] = { ...all, visited, distances };
    }
  return united;
}

/** The walks through the graphs of all shards, one after the other. */
function unitedWalk(accounts: readonly Account[]): NonNullable<Account["walk"]> {
  const visits: NonNullable<Account["walk"]>["visits"] = [];
  let isCut = false;
  for (const { walk } of accounts) {
    const begin = visits.length;
    for (const visit of walk?.visits ?? [])
      visits.push({ ...visit, from: visit.from === null ? null : begin + visit.from });
    isCut ||= walk?.is_cut === true;
  }
  return { visits, is_cut: isCut };
}
