// How are the text legs of a request's queries searched?
//
// The terms and the filter of a query are computed in steps, once for its search and its explanation.

import { QuiverError } from "@quiverdb/protocol/errors";
import { invariant } from "../../base/invariant.ts";
import type { Steps } from "../../base/steps.ts";
import type { Clause } from "../../text/operators.ts";
import type { Candidates, Visible } from "../contract.ts";
import { chosenWay } from "../inverted/query.ts";
import type { ChosenWay, Leg, LegOptions, LegSearches, SearchedVersion } from "../kind.ts";
import type { OrdinalBitmap } from "../ordinal-bitmap.ts";
import type { TextStatistics } from "./bm25.ts";
import { foundExpansions, meaningOf, unitedExpansions } from "./clause-meaning.ts";
import type { WeightedTerm } from "./term-reader.ts";
import { resolveTextQuery, type TextQuery } from "./text-query.ts";
import type { TextReader } from "./text-search.ts";

/** What one leg of a query asks. */
export interface TextLeg extends Leg {
  readonly kind: "tf-idf";
  readonly text: string;
  /** The parsed operators of the text; null if it is plain. */
  readonly clauses: readonly Clause[] | null;
  /** The text's place in the request. */
  readonly path: string;
  among?: TextAmong;
}

/** Of all shards of a collection: their statistics, and what the last word of each clause stands for. */
export type TextAmong = TextStatistics & { readonly expansions: readonly (WeightedTerm[] | null)[] };

/** Of one shard; `expansions`: all that the words could stand for. */
type TextTold = TextAmong & { readonly frequencies: ReadonlyMap<string, number> };

export class TextLegs implements LegSearches {
  readonly #reader: TextReader;
  readonly #legs: readonly TextLeg[];
  readonly #version: SearchedVersion;
  readonly #statistics: TextStatistics;
  readonly #options: LegOptions;
  /** The query of the last searched leg. */
  #query: {
    readonly leg: number;
    readonly asked: TextQuery;
    readonly statistics: TextStatistics;
  } | null = null;

  constructor(reader: TextReader, legs: readonly TextLeg[], version: SearchedVersion, options: LegOptions) {
    if (!reader.keepsPositions) refusePhrases(legs);
    this.#reader = reader;
    this.#legs = legs;
    this.#version = version;
    this.#statistics = version.statistics as TextStatistics;
    this.#options = options;
  }

  *search(leg: number, k: number): Steps<Candidates> {
    const visible = () => this.#version.visible();
    const { allowed, ofKey } = this.#options;
    const { among } = this.#legs[leg];
    const asked = yield* resolveTextQuery(this.#reader, this.#legs[leg], visible, ofKey, among?.expansions);
    const own = () =>
      ofKey === null ? this.#statistics : statisticsAmong(this.#reader, ofKey, asked.terms, visible);
    const told = among ?? own();
    const statistics = "documents" in told ? told : yield* told;
    this.#query = { leg, asked, statistics };
    return yield* this.#reader.searchTermsInSteps(
      asked.terms,
      k,
      statistics,
      visible,
      asked.accepts,
      allowed,
    );
  }

  *tell(leg: number): Steps<TextTold> {
    const visible = () => this.#version.visible();
    const { ofKey } = this.#options;
    const reader = this.#reader;
    const asked = this.#legs[leg];
    const expansions: (WeightedTerm[] | null)[] = [];
    const terms = asked.clauses === null ? yield* reader.termsInSteps(asked.text) : [];
    for (const clause of asked.clauses ?? []) {
      const found = yield* foundExpansions(reader, clause, visible, ofKey);
      expansions.push(found);
      const meaning = yield* meaningOf(reader, clause, visible, ofKey, found);
      if (clause.occur !== "mustNot") for (const need of meaning?.needs ?? []) terms.push(...need);
      yield;
    }
    if (ofKey !== null) {
      const among = yield* statisticsAmong(reader, ofKey, terms, visible);
      return { ...among, frequencies: among.frequencies ?? new Map(), expansions };
    }
    const frequencies = new Map<string, number>();
    for (const { term } of terms) {
      if (frequencies.has(term)) continue;
      if (frequencies.size % toldPerStep === 0) yield;
      frequencies.set(term, reader.frequencyOf(term, visible()));
    }
    const { documents, totalLength } = this.#statistics;
    return { documents, totalLength, frequencies, expansions };
  }

  chosen(leg: number): ChosenWay {
    const query = this.#query;
    invariant(query?.leg === leg, "a way is asked of a leg that was not searched last");
    const count = this.#options.allowed?.count ?? 0;
    return chosenWay(this.#reader.estimate(query.asked.terms, count), query.asked.terms.length, count);
  }

  *explain(leg: number, ordinals: readonly number[], onMatch: () => void): Steps<readonly object[]> {
    const query = this.#query;
    invariant(query?.leg === leg, "a leg is explained that was not searched last");
    const { documents, totalLength } = query.statistics;
    const explained = ordinals.map((ordinal) => ({
      documents,
      document_length: this.#reader.lengthOf(ordinal),
      average_length: documents > 0 ? totalLength / documents : 0,
      matches: [] as object[],
    }));
    yield* this.#reader.explain(
      ordinals,
      query.asked.terms,
      query.statistics,
      () => this.#version.visible(),
      (at, { term, weight, ...match }) => {
        onMatch();
        explained[at].matches.push({ term, query_tf: weight, ...match });
      },
    );
    return explained;
  }
}

/** Terms whose records are counted at a step. */
const toldPerStep = 64;

/** What all shards have told of a leg, as if they were one. */
export function unitedText({ clauses }: TextLeg, told: readonly TextTold[]): TextAmong {
  const frequencies = new Map<string, number>();
  for (const { frequencies: own } of told)
    for (const [term, df] of own) frequencies.set(term, df + (frequencies.get(term) ?? 0));
  const sum = (of: "documents" | "totalLength") => told.reduce((all, each) => all + each[of], 0);
  return {
    documents: sum("documents"),
    totalLength: sum("totalLength"),
    frequencies,
    expansions: (clauses ?? []).map((clause, i) =>
      unitedExpansions(
        clause,
        told.map(({ expansions }) => expansions[i]),
        (term) => frequencies.get(term) ?? 0,
      ),
    ),
  };
}

/** Rejects phrases, which need an index with positions. @throws invalid_request at the first one */
function refusePhrases(legs: readonly TextLeg[]): void {
  for (const { clauses, path } of legs) {
    const phrase = clauses?.find(({ kind }) => kind === "phrase");
    if (phrase === undefined) continue;
    const { position } = phrase;
    throw new QuiverError(
      "invalid_request",
      `${path}, at position ${position}: a phrase needs the positions of words, which the text index does not store. Recreate the index with "positions": true, or search without the quotes.`,
      { path, position },
    );
  }
}

/** Terms whose frequencies are remembered for a set. */
const termsMax = 10_000;

type Counted = TextStatistics & { readonly frequencies: Map<string, number> };

/** By the set, and by the index. */
const known = new WeakMap<OrdinalBitmap, WeakMap<TextReader, Counted>>();

/**
 * The statistics of these records, with the frequencies of some terms. A caller that sees only some records must not learn of the others by
 * scores: so the number of texts, their average length and the frequencies of terms are those of the records that the caller sees. They are
 * counted where they are needed first, in steps, and remembered with the set of these records, which is made for one version and one filter
 * (query/filter/look-up.ts).
 * @param ofKey made for the searched version; it can have ordinals that the version does not see
 * @param visible returns the visibility test; called again after each step
 */
export function* statisticsAmong(
  reader: TextReader,
  ofKey: OrdinalBitmap,
  terms: readonly WeightedTerm[],
  visible: () => Visible,
): Steps<TextStatistics> {
  const counted = yield* countedOf(reader, ofKey, visible);
  const frequencies = new Map<string, number>();
  for (const { term } of terms) {
    let df = frequencies.get(term) ?? counted.frequencies.get(term);
    if (df === undefined) {
      yield;
      df = reader.frequencyAmong(term, visible(), ofKey);
      if (counted.frequencies.size < termsMax) counted.frequencies.set(term, df);
    }
    frequencies.set(term, df);
  }
  return { documents: counted.documents, totalLength: counted.totalLength, frequencies };
}

function* countedOf(reader: TextReader, ofKey: OrdinalBitmap, visible: () => Visible): Steps<Counted> {
  let ofIndexes = known.get(ofKey);
  if (ofIndexes === undefined) {
    ofIndexes = new WeakMap();
    known.set(ofKey, ofIndexes);
  }
  const before = ofIndexes.get(reader);
  if (before !== undefined) return before;
  const counted: Counted = { ...(yield* reader.lengthsAmong(ofKey, visible)), frequencies: new Map() };
  ofIndexes.set(reader, counted);
  return counted;
}
