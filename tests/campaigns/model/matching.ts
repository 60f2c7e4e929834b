// Do filters select, count, list and change what the model says?
//
// The model evaluates filters by plain code (engine/filter/test/naive-filter.ts), over records whose metadata has any schema.

import { deepStrictEqual as same } from "node:assert/strict";
import { naiveMatches } from "../../../packages/engine/test/filter/naive-filter.ts";
import type { ModelCollection, ModelRecord, Ranked } from "../../model.ts";
import type { CommandOf } from "./commands.ts";
import type { Pair } from "./pair.ts";

type Ask = (
  expected: string | readonly string[],
  ...call: Parameters<Pair["asked"]>
) => Promise<{ readonly json: unknown; readonly text: string }>;

// biome-ignore lint/suspicious/noExplicitAny: answers of all routes are looked into.
type Any = any;

const byId = (a: { id: string }, b: { id: string }) => (a.id < b.id ? -1 : 1);

const matching = (model: ModelCollection, filter: object): ModelRecord[] =>
  [...model.records.values()].filter((record) => naiveMatches(record as never, filter)).sort(byId);

/** Searches, counts, lists and exports with a filter. */
export async function compareFiltered(
  { name, filter, limit, field, vector, terms, text }: CommandOf<"filter">,
  model: ModelCollection,
  ask: Ask,
): Promise<void> {
  const expected = matching(model, filter);
  const ids = new Set(expected.map(({ id }) => id));
  const count = await ask("ok", "countVectors", name, {}, { filter });
  same(withoutWarnings(count.json, expected.length), { count: expected.length });
  const all: string[] = [];
  for (let cursor: string | null = null, page = 0; page === 0 || cursor !== null; page++) {
    const { json } = await ask(
      "ok",
      "scrollVectors",
      name,
      {},
      { filter, limit, cursor, include: ["metadata"] },
    );
    const { vectors, next_cursor } = json as Any;
    for (const one of vectors) {
      same(one.metadata, model.records.get(one.id)?.metadata ?? null);
      all.push(one.id);
    }
    cursor = next_cursor;
  }
  same(all, [...ids]);
  const exported = await ask(
    "ok",
    "exportVectors",
    name,
    {},
    undefined,
    `?filter=${encodeURIComponent(JSON.stringify(filter))}`,
  );
  const lines = exported.text.split("\n").filter((line) => line !== "");
  same(new Set(lines.map((line) => JSON.parse(line).id)), ids);
  await compareFacet(name, filter, field, expected, ask);
  const asked = [...ids].slice(0, 3).concat("no such id");
  const fetched = (await ask("ok", "fetchVectors", name, {}, { ids: asked, include: ["text"] })).json as Any;
  same(
    fetched.map((one: Any) => one?.id ?? null),
    asked.map((id) => (model.records.has(id) ? id : null)),
  );
  const searches = [
    ...(model.metric ? [["searchDense", { query_vector: vector, exact: true }] as const] : []),
    ...(model.hasSparse ? [["searchSparse", { query_terms: terms }] as const] : []),
    ...(model.text ? [["searchText", { query: text.join(" ") }] as const] : []),
  ];
  for (const [route, body] of searches) {
    const found = async (more: object): Promise<Ranked> =>
      ((await ask("ok", route, name, {}, { ...body, ...more })).json as Any).results;
    const unfiltered = await found({ top_k: 100 });
    const filtered = unfiltered.filter(({ id }) => ids.has(id));
    same(await found({ top_k: 100, filter }), filtered);
    same(await found({ top_k: limit, filter, offset: 1 }), filtered.slice(1, 1 + limit));
  }
  if (model.metric) {
    const { json } = await ask("ok", "searchDense", name, {}, { query_vector: vector, top_k: limit, filter });
    const dense = expected.filter(({ dense_values }) => dense_values).length;
    same((json as Any).results.length, Math.min(limit, dense));
    await compareExamples(name, filter, limit, model, ask);
  }
}

/** Searches by the examples of records: results are those of a search for the same vector, without the examples. */
async function compareExamples(
  name: string,
  filter: object,
  limit: number,
  model: ModelCollection,
  ask: Ask,
): Promise<void> {
  const results = async (...call: Parameters<Ask>): Promise<Ranked> =>
    ((await ask(...call)).json as Any).results;
  const examples = [...model.records.values()].filter(({ dense_values }) => dense_values).slice(0, 2);
  for (const { id: vector_id, dense_values } of examples) {
    const more = { filter, top_k: 100, exact: true };
    const all = await results("ok", "searchDense", name, {}, { query_vector: dense_values, ...more });
    const others = all.filter(({ id }) => id !== vector_id);
    same(await results("ok", "recommend", name, {}, { positive: [vector_id], ...more }), others);
    const query = `?top_k=${limit}&filter=${encodeURIComponent(JSON.stringify(filter))}`;
    const near = await results("ok", "neighbors", name, { vector_id }, undefined, query);
    same(near.length, Math.min(limit, others.length));
    const few = Math.min(limit, 3);
    const body = { query_vector: dense_values, diversity: 0.5, ...more, top_k: few };
    const scoresFor = async (id: string) => {
      const query_vector = model.records.get(id)?.dense_values;
      const scores = await results("ok", "searchDense", name, {}, { ...more, query_vector });
      return new Map(scores.map((one) => [one.id, one.score]));
    };
    same(await results("ok", "searchDense", name, {}, body), await diverse(all, few, scoresFor));
  }
  await ask("vector_not_found", "neighbors", name, { vector_id: "no such id" });
  const asked = { positive: ["no such id"], filter };
  await ask("vector_not_found", "recommend", name, {}, asked);
}

/**
 * Half of a result's value is its score, the other half how unlike the results before it it is.
 * @param scoresFor scores of all records for the vector of one: the server's own, because the model's differ in the last bits
 */
async function diverse(
  ranked: Ranked,
  limit: number,
  scoresFor: (id: string) => Promise<Map<string, number>>,
): Promise<Ranked> {
  const left = [...ranked];
  const chosen = left.splice(0, 1);
  const scores: Map<string, number>[] = [];
  while (chosen.length < limit && left.length > 0) {
    scores.push(await scoresFor((chosen.at(-1) as Ranked[number]).id));
    const nearest = (id: string) => Math.max(...scores.map((one) => one.get(id) as number));
    const values = left.map(({ id, score }) => 0.5 * score - 0.5 * nearest(id));
    chosen.push(...left.splice(values.indexOf(Math.max(...values)), 1));
  }
  return chosen;
}

async function compareFacet(
  name: string,
  filter: object,
  field: string,
  expected: readonly ModelRecord[],
  ask: Ask,
): Promise<void> {
  const { json } = await ask("ok", "facetVectors", name, {}, { field, filter, limit: 1_000 });
  for (const { value, count } of (json as Any).facets) {
    const having = expected.filter((record) => naiveMatches(record as never, { field, eq: value }));
    same([value, count], [value, having.length]);
  }
  // Every record with a plain value is in some facet.
  const values = (json as Any).facets.map(({ value }: Any) => value);
  const plain = [...values.filter((value: unknown) => value !== "")];
  const covered = expected.filter((record) => naiveMatches(record as never, { field, in: [...plain, ""] }));
  const operands = [
    { field, gte: "" },
    { field, gte: -1e308 },
    { field, lte: 1e308 },
    { field, in: [true, false] },
  ];
  same(
    covered.length,
    expected.filter((record) => operands.some((one) => naiveMatches(record as never, one))).length,
  );
}

/** RFC 7396. */
function merged(target: unknown, patch: unknown): unknown {
  const isObject = (value: unknown): value is object =>
    typeof value === "object" && value !== null && !Array.isArray(value);
  if (!isObject(patch)) return patch;
  const members = new Map(isObject(target) ? Object.entries(target) : []);
  for (const [key, value] of Object.entries(patch))
    if (value === null) members.delete(key);
    else members.set(key, merged(members.get(key), value));
  return Object.fromEntries(members);
}

/** The record with a patch merged into its metadata. */
export const patched = (record: ModelRecord, patch: Record<string, unknown>): ModelRecord => ({
  ...record,
  metadata: merged(record.metadata ?? {}, patch) as Record<string, unknown>,
});

/** Changes records by filter or by id. */
export async function changeMatching(
  command: CommandOf<"deleteMatching"> | CommandOf<"updateMatching"> | CommandOf<"patch">,
  model: ModelCollection,
  ask: Ask,
): Promise<void> {
  const { name } = command;
  if (command.do === "patch") {
    const record = model.records.get(command.id);
    const expected = record === undefined ? "vector_not_found" : "ok";
    await ask(expected, "patchVector", name, { vector_id: command.id }, { metadata: command.patch });
    if (record !== undefined) model.upsert([patched(record, command.patch)]);
    return;
  }
  const { filter } = command;
  const records = matching(model, filter);
  if (command.do === "deleteMatching") {
    const { json } = await ask(["ok", "invalid_filter"], "deleteMatching", name, {}, { filter });
    if ("error" in (json as object)) return;
    same(withoutWarnings(json, records.length), { deleted: records.length });
    model.deleteAll(records.map(({ id }) => id));
    return;
  }
  const { json } = await ask(
    ["ok", "invalid_filter"],
    "updateMatching",
    name,
    {},
    { filter, metadata: command.patch },
  );
  if ("error" in (json as object)) return;
  same(withoutWarnings(json, records.length), { updated: records.length });
  model.upsert(records.map((record) => patched(record, command.patch)));
}

/** Declares fields, or deletes their declarations. */
export async function changeDeclared(
  command: CommandOf<"declare"> | CommandOf<"undeclare">,
  model: ModelCollection,
  ask: Ask,
): Promise<void> {
  const { name, field } = command;
  const before = model.declared.get(field);
  if (command.do === "declare") {
    const isOther = before !== undefined && before !== command.type;
    await ask(
      isOther ? "index_already_exists" : "ok",
      "createMetadataIndex",
      name,
      { field },
      { type: command.type },
    );
    if (!isOther) model.declared.set(field, command.type);
  } else {
    await ask(before === undefined ? "index_not_found" : "ok", "deleteMetadataIndex", name, { field });
    model.declared.delete(field);
  }
  const { json } = await ask("ok", "getMetadataIndexes", name);
  const listed = (json as Any).indexes.map((index: Any) => [index.field, index.type]);
  same(new Map(listed), model.declared);
}

/** An answer without its warnings, which only one may have where no record matches. */
function withoutWarnings(answer: Any, matching: number): Any {
  const { warnings, ...others } = answer;
  if (matching > 0) same(warnings, undefined);
  return others;
}
