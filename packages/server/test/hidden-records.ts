// What could a key with a filter ask, in order to learn of records that it does not see?
//
// Requests for two collections: one has hidden records between those that the key sees, and one has the latter alone. To every request of
// the key both must give the same answer, byte for byte.

import type { OperationName } from "@quiverdb/engine/operations/operations";
import { randomNumbers } from "@quiverdb/kernels/random";

/** Of the key. */
export const tenantFilter = { tenant: "a" } as const;

/** A number below a bound; the same seed gives the same numbers. */
export type Random = (below: number) => number;

export function randomOf(seed: number): Random {
  const next = randomNumbers(seed);
  return (below) => Math.floor(next() * below);
}

const words = [
  ["fox", "foxes", "navigate", "navigation", "navigating", "bee", "bees", "valley", "rivers"],
  ["carve", "carved", "glacier", "glaciers", "fjord", "mountain", "universe", "universal", "quick"],
].flat();
/** Words of hidden records alone; most begin like others. */
const hiddenWords = [
  "navigators",
  "foxglove",
  "foxtrot",
  "secretive",
  "glacially",
  "universities",
  "beeline",
];

const pick = <T>(random: Random, of: readonly T[]): T => of[random(of.length)];
const wordsOf = (random: Random, of: readonly string[], count: number): string =>
  Array.from({ length: count }, () => pick(random, of)).join(" ");

export type TestRecord = { id: string; metadata: { tenant: string } & Record<string, unknown> } & Record<
  string,
  unknown
>;

/** Records in the order in which they are written; `tenant` says who sees them. Hidden ones are larger in every respect. */
export function records(random: Random, count: number): TestRecord[] {
  return Array.from({ length: count }, (_, i) => {
    const isHidden = random(3) > 0;
    const large = isHidden ? 20 : 1;
    return {
      id: `${isHidden ? "h" : "v"}${i}`,
      document_id: `doc${random(12)}`,
      dense_values: [random(9) - 4, random(9) - 4, random(9) - 4, 1],
      sparse_values: [
        [1 + random(6), large * (1 + random(9))],
        [10 + random(6), large * (1 + random(9))],
      ],
      text: wordsOf(
        random,
        isHidden ? [...words, ...hiddenWords] : words,
        (1 + random(12)) * (isHidden ? 4 : 1),
      ),
      metadata: {
        tenant: isHidden ? pick(random, ["b", "c"]) : "a",
        color: pick(random, ["red", "green", "blue", ...(isHidden ? ["black"] : [])]),
        n: random(isHidden ? 1_000 : 50),
        tags: [pick(random, ["x", "y"]), isHidden ? "z" : "x"],
      },
    };
  });
}

export type Asked = {
  readonly name: OperationName;
  readonly params?: Record<string, string>;
  readonly body?: unknown;
  readonly query?: string;
};

const filters: readonly unknown[] = [
  { color: "red" },
  { color: "black" },
  { tenant: "b" },
  { not: { tenant: "a" } },
  { or: [{ tenant: "c" }, { n: { gte: 25 } }] },
  { n: { lt: 20 } },
  { tags: "z" },
  { id: { prefix: "h" } },
  { document_id: { in: ["doc1", "doc2"] } },
  { or: [] },
  { n: { is: 3 } },
];

/** A read of the key. @param ids of all records */
export function anyRead(random: Random, ids: readonly string[]): Asked {
  const id = () => (random(8) === 0 ? "none" : pick(random, ids));
  const filter = () => (random(2) === 0 ? pick(random, filters) : null);
  const vector = () => [random(9) - 4, random(9) - 4, random(9) - 4, 1];
  const terms = () => [
    [1 + random(6), 1 + random(3)],
    [10 + random(6), 1 + random(3)],
  ];
  const text = () => wordsOf(random, [...words, ...hiddenWords], 1 + random(3));
  const operators = () =>
    `${pick(random, ["", "+", "-"])}${pick(random, ["nav*", "fox*", "glac*", "navigatio*", "universit*", "foxgl~", "bees~1", "secret*"])} ${text()}`;
  const common = () => ({
    top_k: 1 + random(20),
    filter: filter(),
    ...(random(2) === 0 && { explain: true }),
    ...(random(3) === 0 && { offset: random(5) }),
    ...(random(3) === 0 && { score_threshold: random(2) }),
    ...(random(3) === 0 && { include: ["metadata", "text"] }),
    ...(random(3) === 0 && { group_by: pick(random, ["document_id", "color", "tenant", "tags"]) }),
  });
  const exact = () => random(2) === 0;
  const threshold = () => pick(random, [0, 0.3, 0.9]);
  const query = () => (random(2) === 0 ? { query: text() } : { query: operators(), syntax: "operators" });
  const hybrid = () => ({ query_vector: vector(), query_terms: terms(), query_text: text() });
  const includes = () => ({ include: pick(random, [null, [], ["metadata"]]) });
  const kinds: readonly (() => Asked)[] = [
    () => ({ name: "searchDense", body: { query_vector: vector(), exact: exact(), ...common() } }),
    () => ({
      name: "searchBatchDense",
      body: { queries: [{ vector: vector(), filter: filter() }, { vector: vector() }], ...common() },
    }),
    () => ({
      name: "searchDense",
      body: { query_vector: vector(), exact: true, diversity: 0.5, ...common() },
    }),
    () => ({
      name: "recommend",
      body: {
        positive: [id(), vector()],
        negative: random(2) === 0 ? [id()] : [],
        exact: exact(),
        ...common(),
      },
    }),
    () => ({ name: "neighbors", params: { vector_id: id() }, query: "top_k=5" }),
    () => ({
      name: "searchSparse",
      body: { query_terms: terms(), early_terminate_threshold: threshold(), ...common() },
    }),
    () => ({
      name: "searchBatchSparse",
      body: { query_terms_list: [terms(), { query_terms: terms(), filter: filter() }], ...common() },
    }),
    () => ({ name: "searchText", body: { ...query(), ...common() } }),
    () => ({ name: "searchText", body: { ...query(), ...common() } }),
    () => ({
      name: "searchBatchText",
      body: { queries: [text(), { query: text(), filter: filter() }], ...common() },
    }),
    () => ({
      name: "searchHybrid",
      body: { ...hybrid(), sparse_early_terminate_threshold: threshold(), ...common() },
    }),
    () => ({
      name: "searchBatchHybrid",
      body: { queries: [{ ...hybrid(), filter: filter() }, hybrid()], ...common() },
    }),
    () => ({ name: "countVectors", body: { filter: filter() } }),
    () => ({
      name: "facetVectors",
      body: { field: pick(random, ["tenant", "color", "tags", "id", "document_id", "n"]), filter: filter() },
    }),
    () => ({ name: "scrollVectors", body: { filter: filter(), limit: 1 + random(30), ...includes() } }),
    () => ({
      name: "scrollVectors",
      body: {
        filter: filter(),
        limit: 1 + random(30),
        order_by: { field: pick(random, ["n", "color"]), direction: pick(random, ["asc", "desc"]) },
        ...includes(),
      },
    }),
    () => ({ name: "fetchVectors", body: { ids: [id(), id(), id(), id()], ...includes() } }),
    () => ({ name: "getVector", params: { vector_id: id() } }),
    () => ({ name: "vectorExists", params: { vector_id: id() } }),
    () => ({ name: "vectorsByDocument", query: `?document_id=doc${random(14)}` }),
    () => ({
      name: "exportVectors",
      query: random(2) === 0 ? "" : `?filter=${encodeURIComponent(JSON.stringify(filter() ?? {}))}`,
    }),
    () => ({ name: "getCollection" }),
    () => ({ name: "listTransactions" }),
    () => ({ name: "analyzeText", body: { text: text() } }),
  ];
  return pick(random, kinds)();
}

/** A write of the key that takes no id of a hidden record. @param ids of all records */
export function anyWrite(random: Random, ids: readonly string[], number: number): Asked {
  const visible = () =>
    pick(
      random,
      ids.filter((id) => id.startsWith("v")),
    );
  const written = (tenant: string) => ({
    id: random(2) === 0 ? visible() : `v-new${number}`,
    text: wordsOf(random, words, 3),
    dense_values: [random(9) - 4, 1, 1, 1],
    metadata: { tenant, color: "green", n: random(50) },
  });
  const tenant = () => (random(4) === 0 ? "b" : "a");
  const kinds: readonly (() => Asked)[] = [
    () => ({ name: "streamingUpsert", body: { vectors: [written("a"), written(tenant())] } }),
    () => ({
      name: pick(random, ["streamingDelete", "streamingDeleteAlias", "deleteVector"] as const),
      params: { vector_id: pick(random, ids) },
    }),
    () => ({
      name: "patchVector",
      params: { vector_id: pick(random, ids) },
      body: { metadata: { color: "blue" } },
    }),
    () => ({
      name: "patchVector",
      params: { vector_id: visible() },
      body: { metadata: { tenant: tenant() } },
    }),
    () => ({ name: "updateMatching", body: { filter: pick(random, filters), metadata: { seen: number } } }),
    () => ({ name: "updateMatching", body: { filter: { color: "red" }, metadata: { tenant: tenant() } } }),
    () => ({ name: "deleteMatching", body: { filter: { n: number % 50 } } }),
    () => ({ name: "deleteMatching", body: { filter: { tenant: "b" } } }),
  ];
  return pick(random, kinds)();
}

/** An answer of the collection `alone` or `mixed` without the name, and with the length of a cursor in place of its letters: it is encrypted. */
export const comparable = (text: string): string =>
  text
    .replaceAll('"alone"', '"mixed"')
    .replaceAll("'alone'", "'mixed'")
    .replace(/"next_cursor":"([^"]*)"/, (_, cursor: string) => `"next_cursor":${cursor.length}`);
