// What does the form of a search ask, how is it written in the address, and which call is it?
//
//   address --formOf--> form --addressOf--> address      what the user shares, reloads and goes back to
//                         \--callOf--> call -> answer
//
// The address has the fields that differ from `plain`, and always the kind: an address without a field asks nothing yet.

import type { Collection } from "@quiverdb/client";
import { endpoints } from "@quiverdb/client/endpoint-list";
import { isQuiverError } from "@quiverdb/protocol/errors";
import type { SearchResponse } from "@quiverdb/protocol/shapes/search";
import { type Facts, missingIndexes } from "./facts.ts";
import { parseFilter, parseTerms, parseVector } from "./written.ts";

export type Leg = "dense" | "sparse" | "text";
export type Kind = Leg | "hybrid";

export type Form = {
  readonly kind: Kind;
  /** Of a hybrid search, with commas between them. */
  readonly legs: string;
  readonly text: string;
  readonly operators: boolean;
  readonly source: "like" | "written";
  readonly like: string;
  readonly vector: string;
  readonly terms: string;
  readonly denseWeight: string;
  readonly sparseWeight: string;
  readonly textWeight: string;
  readonly fusionK: string;
  readonly topK: string;
  readonly filter: string;
  readonly explain: boolean;
  readonly exact: boolean;
  readonly ef: string;
  readonly diversity: string;
  /** A version by number, hash or tag, or a time; empty: now. */
  readonly at: string;
};

const plain: Form = {
  kind: "text",
  legs: "",
  text: "",
  operators: false,
  source: "like",
  like: "",
  vector: "",
  terms: "",
  denseWeight: "1",
  sparseWeight: "1",
  textWeight: "1",
  fusionK: "60",
  topK: "10",
  filter: "",
  explain: true,
  exact: false,
  ef: "",
  diversity: "",
  at: "",
};

/** The legs that the collection can answer: those that have an index. */
export function legsFor(facts: Facts): readonly Leg[] {
  const { dense_vector, sparse_vector, tf_idf_options } = facts.detail;
  const missing = missingIndexes(facts);
  const enabled = {
    dense: dense_vector.enabled,
    sparse: sparse_vector.enabled,
    text: tf_idf_options.enabled,
  };
  return (["dense", "sparse", "text"] as const).filter((leg) => enabled[leg] && !missing.includes(leg));
}

export const kindsFor = (legs: readonly Leg[]): readonly Kind[] =>
  legs.length > 1 ? [...legs, "hybrid"] : legs;

/** The legs that a form uses. */
export const legsOf = ({ kind, legs }: Form): readonly Leg[] =>
  kind === "hybrid" ? (legs.split(",").filter((leg) => leg !== "") as Leg[]) : [kind];

/** The form that an address describes, with a kind that can be answered. @param available at least one */
export function formOf(query: URLSearchParams, available: readonly Leg[]): Form {
  const kinds = kindsFor(available);
  const wanted = query.get("kind") as Kind;
  const usual = !query.has("like") && available.includes("text") ? "text" : kinds[0];
  // Two legs say the most about a text and a vector.
  const legs = available.filter((leg) => leg !== "sparse" || available.length === 2).join(",");
  const written = Object.entries(plain).flatMap(([field, value]) => {
    const text = query.get(field);
    return text === null ? [] : [[field, typeof value === "boolean" ? text === "true" : text]];
  });
  const form: Form = {
    ...plain,
    legs,
    ...Object.fromEntries(written),
    kind: kinds.includes(wanted) ? wanted : usual,
  };
  return { ...form, legs: available.filter((leg) => form.legs.split(",").includes(leg)).join(",") };
}

/** Whether an address asks for something that can be answered. */
export function isAsked(query: URLSearchParams, available: readonly Leg[]): boolean {
  // The link of a record has no kind: it asks for nearest vectors. That of a version asks for nothing yet.
  const kind = query.get("kind") ?? (query.has("like") ? "dense" : undefined);
  return kindsFor(available).some((each) => each === kind);
}

export function addressOf(form: Form): Readonly<Record<string, string>> {
  const differing = Object.entries(form).filter(
    ([field, value]) =>
      field === "kind" ||
      (value !== plain[field as keyof Form] && (field !== "legs" || form.kind === "hybrid")),
  );
  return Object.fromEntries(differing.map(([field, value]) => [field, String(value)]));
}

/** Where an error stands: a field of the form, or the weights of the legs. */
export type Place = keyof Form | "weights";

/** What a user wrote into a field cannot be sent. */
class FieldFault extends Error {
  readonly place: Place;

  constructor(place: Place, message: string) {
    super(message);
    this.place = place;
  }
}

function inField<T>(place: Place, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new FieldFault(place, (error as Error).message);
  }
}

const placeOfPath: Readonly<Record<string, Place>> = {
  query: "text",
  query_text: "text",
  syntax: "text",
  query_vector: "vector",
  query_terms: "terms",
  positive: "like",
  top_k: "topK",
  filter: "filter",
  ef_search: "ef",
  diversity: "diversity",
  fusion_constant_k: "fusionK",
  fusion_weights: "weights",
  version: "at",
  as_of: "at",
};

/** The field that an error is about; undefined: the search as a whole. */
export function placeOf(error: unknown, { source }: Form): Place | undefined {
  if (error instanceof FieldFault) return error.place;
  if (!isQuiverError(error)) return undefined;
  if (error.code === "invalid_filter") return "filter";
  if (error.code === "vector_not_found") return "like";
  if (/^(version_|tag_)/.test(error.code)) return "at";
  const place = placeOfPath[String(error.details.path).split(/[.[]/)[0]];
  const isVector = place === "vector" || place === "terms";
  return isVector && source === "like" ? "like" : place;
}

type Method = "text" | "sparse" | "dense" | "recommend" | "hybrid";

const operations = {
  text: "searchText",
  sparse: "searchSparse",
  dense: "searchDense",
  recommend: "recommend",
  hybrid: "searchHybrid",
} as const;

/** A call of `collection.search`. */
export type Call = { readonly method: Method; readonly request: object };

export const answerOf = ({ search }: Collection, { method, request }: Call): Promise<SearchResponse> =>
  search[method](request as never);

/** The path of a call's endpoint, encoded. */
export const pathOf = ({ method }: Call, collection: string): string =>
  endpoints[operations[method]].path.replace("{collection_id}", encodeURIComponent(collection));

/** The version or the time that a text names. */
function whenOf(text: string): { version?: string; as_of?: string } {
  const at = text.trim();
  if (at === "") return {};
  return /^\d{4}-\d\d-\d\d/.test(at) ? { as_of: at } : { version: at };
}

const numberOf = (text: string): number | undefined => (text.trim() === "" ? undefined : Number(text));

/** The shortest number that is the same 32-bit float: 0.1 for 0.10000000149011612. */
function shortFloat(value: number): number {
  for (let digits = 6; digits < 9; digits++) {
    const short = Number(value.toPrecision(digits));
    if (Math.fround(short) === value) return short;
  }
  return value;
}

/**
 * The call for a form. Reads the record that a sparse or hybrid search is to be like.
 * @throws Error with a place for what a field has and cannot be sent; what the server refuses, it says itself
 */
export async function callOf(collection: Collection, form: Form, storesText: boolean): Promise<Call> {
  const { kind, source, like } = form;
  const legs = legsOf(form);
  const [usesDense, usesSparse] = [legs.includes("dense"), legs.includes("sparse")];
  if (kind === "hybrid" && legs.length < 2)
    throw new FieldFault("legs", "A hybrid search needs at least two legs.");
  if (legs.includes("text") && form.text.trim() === "")
    throw new FieldFault("text", "Write what to look for.");
  if (source === "like" && (usesDense || usesSparse) && like.trim() === "")
    throw new FieldFault("like", "Write the id of a record, or the vector itself.");
  const common = {
    top_k: numberOf(form.topK),
    filter: inField("filter", () => parseFilter(form.filter)),
    explain: form.explain || undefined,
    return_raw_text: storesText || undefined,
    ...whenOf(form.at),
  };
  const dense = { exact: form.exact || undefined, ef_search: numberOf(form.ef) };
  const syntax = form.operators ? "operators" : undefined;
  if (kind === "text") return { method: "text", request: { query: form.text, syntax, ...common } };
  if (kind === "dense") {
    const rest = { ...common, ...dense, diversity: numberOf(form.diversity) };
    return source === "like"
      ? { method: "recommend", request: { positive: [like], ...rest } }
      : {
          method: "dense",
          request: { query_vector: inField("vector", () => parseVector(form.vector)), ...rest },
        };
  }
  const { version, as_of: asOf } = whenOf(form.at);
  const past =
    version === undefined
      ? asOf === undefined
        ? collection
        : collection.at({ asOf })
      : collection.at({ version });
  const example = source === "like" && (usesDense || usesSparse) ? await past.get(like) : undefined;
  const partOf = <T>(place: Place, stored: T | null | undefined, read: () => T): T => {
    if (example === undefined) return inField(place, read);
    if (stored != null) return stored;
    throw new FieldFault(
      "like",
      `The record ${like} has no ${place === "vector" ? "dense" : "sparse"} vector.`,
    );
  };
  const termsOf = () => partOf("terms", example?.sparse_values, () => parseTerms(form.terms));
  if (kind === "sparse") return { method: "sparse", request: { query_terms: termsOf(), ...common } };
  const weights = legs.map((leg) => numberOf(form[`${leg}Weight`]));
  const request = {
    query_vector: usesDense
      ? partOf("vector", example?.dense_values?.map(shortFloat), () => parseVector(form.vector))
      : undefined,
    query_terms: usesSparse ? termsOf() : undefined,
    ...(legs.includes("text") && { query_text: form.text, syntax }),
    ...common,
    ...dense,
    fusion_constant_k: form.fusionK === plain.fusionK ? undefined : numberOf(form.fusionK),
    fusion_weights: weights.some((weight) => weight !== 1)
      ? Object.fromEntries(legs.map((leg, i) => [leg, weights[i]]))
      : undefined,
  };
  return { method: "hybrid", request };
}
