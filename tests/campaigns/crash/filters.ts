// Which filters do the clients of a crash campaign ask, and what must be found?
//
// Metadata has fields of every type, some of which are declared and no longer declared meanwhile, while others never have an index. What a
// filter must find is computed by plain code (engine/filter/test/naive-filter.ts) from the records of the ledger.

import type { CallOptions, Collection } from "@quiverdb/client";
import type { Filter } from "@quiverdb/protocol/shapes/filter";
import type { MetadataIndex } from "@quiverdb/protocol/shapes/index-definition";
import type { ScrollPage, ScrollVectors } from "@quiverdb/protocol/shapes/matching";
import { naiveMatches } from "../../../packages/engine/test/filter/naive-filter.ts";
import type { ModelRecord } from "../../model.ts";
import type { IndexState } from "./ledger.ts";

type Random = () => number;
type FieldType = MetadataIndex["type"];

const upTo = (random: Random, n: number): number => Math.floor(random() * n);
const pick = <T>(random: Random, from: readonly T[]): T => from[upTo(random, from.length)];

/** Fields that can have an index. All texts of `at` are of one form, so that they compare alike as texts and as times. */
export const declarable: Readonly<Record<string, FieldType>> = {
  color: "keyword",
  n: "number",
  tags: "keyword",
  ok: "boolean",
  at: "datetime",
  odd: "keyword",
};

const colors = ["red", "green", "färbig 色"];
const tags = ["a", "b", "ab", "c"];
const odd = [1, "1", true, null, [2, "x"]];
const time = (random: Random): string => new Date(1_700_000_000_000 + 1_000 * upTo(random, 20)).toISOString();

/** @param stamp makes it unique */
export function randomMetadata(random: Random, stamp: number): Record<string, unknown> {
  return {
    stamp,
    color: pick(random, colors),
    n: upTo(random, 12),
    ...(random() < 0.6 && { tags: tags.filter(() => random() < 0.4) }),
    ...(random() < 0.7 && { ok: random() < 0.5 }),
    ...(random() < 0.5 && { at: time(random) }),
    ...(random() < 0.5 && { odd: pick(random, odd) }),
    ...(random() < 0.8 && { deep: { level: upTo(random, 4) } }),
    plain: upTo(random, 6),
  };
}

export function randomPatch(random: Random): Record<string, unknown> {
  return pick<(random: Random) => Record<string, unknown>>(random, [
    () => ({ color: pick(random, colors), n: upTo(random, 12) }),
    () => ({ ok: null, plain: upTo(random, 6) }),
    () => ({ tags: [pick(random, tags)], deep: { more: upTo(random, 3) } }),
    () => ({ at: time(random), odd: pick(random, odd) }),
  ])(random);
}

const conditions: readonly ((random: Random) => Filter)[] = [
  (random) => ({ color: pick(random, colors) }),
  (random) => ({ field: "color", in: [pick(random, colors), "none"] }),
  (random) => ({ field: "color", prefix: pick(random, ["r", "fä"]) }),
  (random) => ({ n: { gte: upTo(random, 12), lt: upTo(random, 14) } }),
  (random) => ({ field: "n", in: [upTo(random, 12), upTo(random, 12)] }),
  (random) => ({ tags: pick(random, tags) }),
  (random) => ({ ok: random() < 0.5 }),
  (random) => ({ field: "at", [pick(random, ["lt", "gte"])]: time(random) }),
  (random) => ({ odd: pick(random, [1, "1", true, 2, "x"]) }),
  (random) => ({ "deep.level": upTo(random, 4) }),
  (random) => ({ plain: { gt: upTo(random, 6) } }),
  (random) => ({ field: pick(random, [...Object.keys(declarable), "deep"]), exists: random() < 0.5 }),
];

export function randomFilter(random: Random, levels = 2): Filter {
  const dice = random();
  if (levels === 0 || dice < 0.5) return pick(random, conditions)(random);
  if (dice < 0.65) return { not: randomFilter(random, levels - 1) };
  const parts = Array.from({ length: 2 }, () => randomFilter(random, levels - 1));
  return dice < 0.85 ? { and: parts } : { or: parts };
}

/** Only the records of one client. */
export const ownFilter = (client: number, filter: Filter): Filter => ({
  and: [{ field: "id", prefix: `c${client}-` }, filter],
});

export const matching = (records: Iterable<ModelRecord>, filter: Filter): ModelRecord[] =>
  [...records].filter((record) => naiveMatches(record as never, filter));

/**
 * Compares what a filter counts, lists and finds in facets with the records that there are.
 * @param filter all records that it matches are among these
 * @param fields that are declared
 * @returns comparisons
 * @throws if anything differs
 */
export async function compareMatches(
  collection: Collection,
  filter: Filter,
  records: Iterable<ModelRecord>,
  fields: IndexState["fields"],
  random: Random,
  call: CallOptions = {},
): Promise<number> {
  const expected = matching(records, filter);
  const ids = expected.map(({ id }) => id).sort();
  same("count", filter, await collection.count(filter, call), expected.length);
  // A few pages.
  const limit = Math.max(1, Math.ceil(expected.length / (1 + upTo(random, 5))));
  same("list", filter, await listed(collection, { filter }, limit, call), ids);
  const facet = pick(random, ["color", "n", "tags", "ok", "at", "odd", "plain"]);
  const facets = await collection.facet({ field: facet, filter, limit: 10_000 }, call);
  same(
    `facet of ${facet}`,
    filter,
    facets.map(({ value, count }) => JSON.stringify([value, count])).sort(),
    [...facetOf(expected, facet)].map((counted) => JSON.stringify(counted)).sort(),
  );
  const declared = Object.entries(fields ?? {});
  if (declared.length === 0) return 3;
  const [field, type] = pick(random, declared);
  // An index is walked only where there are many pages.
  const some = random() < 0.5 ? limit : Math.max(1, Math.floor(expected.length / 25));
  const found = await listed(collection, { filter, order_by: { field } }, some, call);
  same(`list by ${field}`, filter, found, inOrder(expected, field, type));
  return 4;
}

async function listed(
  collection: Collection,
  request: Pick<ScrollVectors, "filter" | "order_by">,
  limit: number,
  call: CallOptions,
): Promise<string[]> {
  const ids: string[] = [];
  for (let cursor: string | null = null, page = 0; page === 0 || cursor !== null; page++) {
    const listing: ScrollPage = await collection.scroll({ ...request, limit, cursor }, call);
    ids.push(...listing.vectors.map(({ id }) => id as string));
    cursor = listing.next_cursor;
  }
  return ids;
}

type Scalar = string | number | boolean;

const valuesOf = ({ metadata }: ModelRecord, field: string): Scalar[] =>
  [((metadata ?? {}) as Record<string, unknown>)[field]].flat().filter((value) => value != null) as Scalar[];

function facetOf(records: readonly ModelRecord[], field: string): Map<Scalar, number> {
  const counts = new Map<Scalar, number>();
  for (const record of records)
    for (const value of new Set(valuesOf(record, field))) counts.set(value, 1 + (counts.get(value) ?? 0));
  return counts;
}

/** The records with a value of the type, by their least value and by id. No text here has a surrogate, so `<` compares code points. */
function inOrder(records: readonly ModelRecord[], field: string, type: FieldType): string[] {
  const wanted = type === "keyword" || type === "datetime" ? "string" : type;
  const order = (a: Scalar, b: Scalar): number => (a < b ? -1 : a > b ? 1 : 0);
  return records
    .flatMap((record) => {
      const [least] = valuesOf(record, field)
        .filter((value) => typeof value === wanted)
        .sort(order);
      return least === undefined ? [] : [{ id: record.id, least }];
    })
    .sort((a, b) => order(a.least, b.least) || order(a.id, b.id))
    .map(({ id }) => id);
}

function same(what: string, filter: Filter, found: unknown, expected: unknown): void {
  const [there, right] = [JSON.stringify(found), JSON.stringify(expected)];
  if (there !== right)
    throw new Error(
      `the ${what} with ${JSON.stringify(filter)} is ${there.slice(0, 2_000)}, not ${right.slice(0, 2_000)}`,
    );
}
