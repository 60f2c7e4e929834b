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
}

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
    const asked = yield* resolveTextQuery(this.#reader, this.#legs[leg], visible, ofKey);
    const statistics =
      ofKey === null ? this.#statistics : yield* statisticsAmong(this.#reader, ofKey, asked.terms, visible);
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
