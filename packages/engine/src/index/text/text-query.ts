// Which terms does a text query score, and which records may it find?
//
// A plain query scores its words and finds every record that has one. A query with operators (text/operators.ts) becomes
//
//   - weighted terms, in the order of its clauses, which the index adds up as those of a plain query. A required clause
//     is scored like any other, an excluded one not at all. A phrase is scored by its words, in the records that have the
//     phrase. What a prefix stands for is scored as if the query had all of it; of a fuzzy word, a term d edits away
//     counts 1 / (1 + d);
//   - a filter: the records that satisfy all required clauses and no excluded one. It is kept apart from the terms, so that
//     df, and with it every score, is what it would be without it.
//
// A record satisfies a clause when it has each of its words, a term for a prefix or fuzzy word, and of a phrase the words
// in their places. So an excluded clause excludes exactly what the required one would leave.
//
// Terms are stems, and the rest of a stemmed word is not in the index. A prefix is therefore compared as it is written,
// and stands besides for the word's own stem: "running*" finds runs. A fuzzy word is compared as it is written, and by its
// stem, as if the slip left the ending alone: "glacers~" (glacer) finds glaciers (glacier).
//
// Nothing here depends on what only older versions have: of more terms than a word may stand for, those remain that most
// records of the searched version have.
//
// The index is asked by `termsOf`, `analyzer`, `expand`, `holdersOf` and `positionsOf` alone. `visible` may be asked
// about a record more than once.

import { limits } from "@quiver/protocol/limits";
import type { AnalyzedWord } from "@quiver/protocol/shapes/index-definition";
import { compareText } from "../../base/bytes.ts";
import { EditDistance } from "../../text/edit-distance.ts";
import { type Clause, isExpanding } from "../../text/operators.ts";
import type { Visible } from "../contract.ts";
import {
  contains,
  differenceOf,
  intersectionOf,
  noOrdinals,
  type OrdinalSet,
  unionOf,
} from "./ordinal-sets.ts";
import type { Accepts, TextIndex, WeightedTerm } from "./text-index.ts";

export type TextQuery = { readonly terms: readonly WeightedTerm[]; readonly accepts: Accepts };

/** What this file asks an index for. */
export type TermSource = Pick<TextIndex, "termsOf" | "analyzer" | "expand" | "holdersOf" | "positionsOf">;

const findsNothing: TextQuery = { terms: [], accepts: null };

/**
 * The terms and the filter of a query, valid until the index changes.
 * @param query its text, and its clauses where it has operators; a phrase needs an index that keeps positions
 */
export function resolveTextQuery(
  index: TermSource,
  query: { readonly text: string; readonly clauses: readonly Clause[] | null },
  visible: Visible,
): TextQuery {
  if (query.clauses === null) return { terms: index.termsOf(query.text), accepts: null };
  const meanings = query.clauses.flatMap((clause) => meaningOf(index, clause, visible) ?? []);
  const wanted = meanings.filter(({ occur }) => occur !== "mustNot");
  if (wanted.length === 0) return findsNothing;
  const allowed = allowedBy(index, meanings);
  return allowed === "nothing" ? findsNothing : { terms: termsOf(index, wanted), accepts: allowed };
}

/** What a clause means to an index. */
type Meaning = {
  readonly occur: Clause["occur"];
  /** Terms of which a record must have one, for each word that is not dropped; at least one list, which may be empty. */
  readonly needs: readonly (readonly WeightedTerm[])[];
  /** The terms of a phrase and their places in it; null of other clauses. */
  readonly phrase: readonly PlacedTerm[] | null;
};

type PlacedTerm = { readonly term: string; readonly place: number };

/** null where all words are dropped: the clause is as good as not there. */
function meaningOf(index: TermSource, clause: Clause, visible: Visible): Meaning | null {
  const { occur, kind, words } = clause;
  const needs: WeightedTerm[][] = [];
  const phrase: PlacedTerm[] = [];
  for (const analyzed of index.analyzer.analyze(words)) {
    const { term, position: place } = analyzed;
    if (isExpanding(clause) && place === words.length - 1) {
      const expansions = expansionsOf(index, clause, analyzed, visible);
      if (expansions !== null) needs.push(expansions);
    } else if (term !== null) {
      needs.push([{ term, weight: 1 }]);
      phrase.push({ term, place });
    }
  }
  if (needs.length === 0) return null;
  return { occur, needs, phrase: kind === "phrase" ? phrase : null };
}

/** What a prefix or fuzzy word stands for, best first; null where it is no word. A stop word is a word here. */
function expansionsOf(
  index: TermSource,
  { occur, kind, distance }: Clause,
  { word, term, dropped }: AnalyzedWord,
  visible: Visible,
): WeightedTerm[] | null {
  const folded = index.analyzer.folded(word);
  if (dropped === "too_long" || folded === "") return null;
  const found = kind === "prefix" ? prefixed(index, folded, term) : similar(index, folded, term, distance);
  // The terms of an excluded clause are not scored, so all of them can count.
  if (occur === "mustNot") return found;
  return mostFrequent(index, found, visible).sort(byWeight);
}

function prefixed(index: TermSource, prefix: string, stem: string | null): WeightedTerm[] {
  const terms = new Set(index.expand({ prefix }));
  if (stem !== null) terms.add(stem);
  return Array.from(terms, (term) => ({ term, weight: 1 }));
}

function similar(index: TermSource, folded: string, stem: string | null, distance: number): WeightedTerm[] {
  const nearest = new Map<string, number>();
  for (const fuzzy of new Set([folded, stem ?? folded])) {
    const distances = new EditDistance(fuzzy);
    for (const term of index.expand({ fuzzy, distance })) {
      const edits = distances.to(term, distance);
      nearest.set(term, Math.min(edits, nearest.get(term) ?? edits));
    }
  }
  return Array.from(nearest, ([term, edits]) => ({ term, weight: 1 / (1 + edits) }));
}

/** At most `queryExpansionsMax` of the terms: of equal weight, those that most visible records have. */
function mostFrequent(index: TermSource, terms: WeightedTerm[], visible: Visible): WeightedTerm[] {
  if (terms.length <= limits.queryExpansionsMax) return terms;
  const dfOf = (term: string): number => {
    const holders = index.holdersOf(term);
    return visible === null ? holders.length : holders.filter((ordinal) => visible(ordinal)).length;
  };
  return terms
    .map((weighted) => ({ weighted, df: dfOf(weighted.term) }))
    .sort((a, b) => b.weighted.weight - a.weighted.weight || b.df - a.df || byWeight(a.weighted, b.weighted))
    .slice(0, limits.queryExpansionsMax)
    .map(({ weighted }) => weighted);
}

function byWeight(a: WeightedTerm, b: WeightedTerm): number {
  return b.weight - a.weight || compareText(a.term, b.term);
}

/** The terms of the clauses, each where it comes first, with its weights added up. */
function termsOf(index: TermSource, wanted: readonly Meaning[]): WeightedTerm[] {
  const terms: { term: string; weight: number; within: Accepts }[] = [];
  const everywhere = new Map<string, { weight: number }>();
  for (const meaning of wanted) {
    const within = scopeOf(index, meaning);
    for (const { term, weight } of meaning.needs.flat()) {
      const known = within === null ? everywhere.get(term) : undefined;
      if (known !== undefined) known.weight += weight;
      else {
        const weighted = { term, weight, within };
        terms.push(weighted);
        if (within === null) everywhere.set(term, weighted);
      }
    }
  }
  return terms;
}

/** Which records a clause's terms count for. All that are found have what is required, so only other phrases ask. */
function scopeOf(index: TermSource, meaning: Meaning): Accepts {
  if (meaning.phrase === null || meaning.occur === "must") return null;
  const having = satisfying(index, meaning);
  return (ordinal) => contains(having, ordinal);
}

/** The filter of the required and excluded clauses. */
function allowedBy(index: TermSource, meanings: readonly Meaning[]): Accepts | "nothing" {
  const setsOf = (occur: Clause["occur"]) =>
    meanings.filter((meaning) => meaning.occur === occur).map((meaning) => satisfying(index, meaning));
  const excluded = unionOf(setsOf("mustNot"));
  const required = setsOf("must");
  if (required.length === 0) return excluded.length === 0 ? null : (ordinal) => !contains(excluded, ordinal);
  const allowed = differenceOf(intersectionOf(required), excluded);
  return allowed.length === 0 ? "nothing" : (ordinal) => contains(allowed, ordinal);
}

/** The records held that satisfy a clause. */
function satisfying(index: TermSource, { needs, phrase }: Meaning): OrdinalSet {
  const having = intersectionOf(
    needs.map((alternatives) => unionOf(alternatives.map(({ term }) => index.holdersOf(term)))),
  );
  if (phrase === null || having.length === 0) return having.length === 0 ? noOrdinals : having;
  return having.filter((ordinal) => hasPhrase(index, phrase, ordinal));
}

/** Whether a record that has all terms of a phrase has them in their places somewhere. */
function hasPhrase(index: TermSource, phrase: readonly PlacedTerm[], ordinal: number): boolean {
  const positions = new Map(phrase.map(({ term }) => [term, index.positionsOf(term, ordinal)]));
  const placed = phrase.map(({ term, place }) => ({ place, at: positions.get(term) as Uint32Array }));
  const rarest = placed.reduce((best, other) => (other.at.length < best.at.length ? other : best));
  const others = placed.filter((other) => other !== rarest);
  return rarest.at.some((position) =>
    others.every(({ place, at }) => contains(at, position - rarest.place + place)),
  );
}
