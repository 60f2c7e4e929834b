// How often does each value of a field occur in all shards together?
//
// Each shard lists its most frequent values. A value that a shard does not list occurs there at most as often as its last one. The lists are
// long enough when the wanted values are known in every shard that could have them, and no other value can be as frequent; otherwise longer
// ones are asked for.

import type { Facets, FacetValues, FacetVectors } from "@quiverdb/protocol/shapes/matching";
import type { Deadline } from "../../base/deadline.ts";
import { compareCounted } from "../../query/facets.ts";
import { told } from "../../query/filter/warnings.ts";
import type { ShardOptions } from "./call.ts";

import { agreed } from "./sharded-search.ts";
import type { Shards } from "./shards.ts";

/** The first lists have so many values more than are wanted, and each further one is so many times as long. */
const firstFactor = 4;
const firstMin = 256;
const growthFactor = 16;

export async function unitedFacets(
  shards: Shards,
  request: FacetVectors,
  limit: number,
  at: ShardOptions,
  deadline: Deadline,
): Promise<Facets> {
  for (let length = Math.max(firstMin, firstFactor * limit); ; length *= growthFactor) {
    const all = await shards.all("facet", { request, limit: length }, deadline, at);
    const names = request.fields ?? [null];
    const lists = names.map((name) =>
      all.map(
        ({ facets }) =>
          (name === null ? facets : (facets as Record<string, FacetValues>)[name]) as FacetValues,
      ),
    );
    const united = lists.map((ofShards) => unite(ofShards, limit, length));
    if (united.some((values) => values === undefined)) continue;
    const [first] = united as FacetValues[];
    const isEmpty = united.some((values) => values?.length === 0);
    const warnings = isEmpty ? agreed(all.map((each) => each.warnings ?? [])) : [];
    const facets = request.fields
      ? Object.fromEntries(request.fields.map((name, i) => [name, united[i] as FacetValues]))
      : first;
    return { facets, ...told({ warnings }) };
  }
}

/** The most frequent values; undefined if the lists are too short to know. @param length of the lists, if there are more values */
function unite(ofShards: readonly FacetValues[], limit: number, length: number): FacetValues | undefined {
  /** How often a value can occur that is not in a shard's list. */
  const unlisted = ofShards.map((list) => (list.length < length ? 0 : (list.at(-1)?.count ?? 0)));
  const counts = new Map<FacetValues[number]["value"], { count: number; unknown: number }>();
  const unknown = unlisted.reduce((sum, most) => sum + most, 0);
  for (const [shard, list] of ofShards.entries())
    for (const { value, count } of list) {
      const known = counts.get(value) ?? { count: 0, unknown };
      counts.set(value, { count: known.count + count, unknown: known.unknown - unlisted[shard] });
    }
  const ranked = [...counts]
    .map(([value, { count, unknown: missing }]) => ({ value, count, missing }))
    .sort((a, b) => compareCounted([a.value, a.count], [b.value, b.count]));
  const wanted = ranked.slice(0, limit);
  const least = wanted.at(-1)?.count ?? 0;
  const isCertain =
    wanted.every(({ missing }) => missing === 0) &&
    (unknown === 0 || least > unknown) &&
    ranked.slice(limit).every(({ count, missing }) => missing === 0 || count + missing < least);
  return isCertain ? wanted.map(({ value, count }) => ({ value, count })) : undefined;
}
