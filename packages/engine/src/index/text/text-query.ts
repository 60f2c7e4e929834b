// Which terms does a text query score, and which records may it find?
//
// A plain query scores its words and finds every record that has one. A query with operators (text/operators.ts) becomes
//
//   - weighted terms, in the order of its clauses, which the index adds up as those of a plain query. A required clause
//     is scored like any other, an excluded one not at all. A phrase is scored by its words, in the records that have the
//     phrase. What a prefix stands for is scored as if the query had all of it; of a fuzzy word, a term d edits away
//     counts 1 / (1 + d);
//   - a filter: the records that satisfy all required clauses and no excluded one. It is kept apart from the terms, so that
//     it changes neither document frequencies nor scores.
//
// A record satisfies a clause when it has each of its words, a term for a prefix or fuzzy word, and of a phrase the words
// in their places. So an excluded clause excludes exactly what the required one would leave.
//
// A query can be expensive: a thousand phrases of frequent words. So it is evaluated in steps, and other calls may use and change the
// index between them. The searched version does not see records that are added meanwhile, and records that it sees are not removed:
// the sets made so far stay right for it. Each term's records are fetched once. Phrases are tested last, and only on records that
// satisfy all cheaper conditions.
//
// Which terms a clause stands for: clause-meaning.ts. `visible` may be asked about a record more than once.

import type { Steps } from "../../base/steps.ts";
import type { Clause } from "../../text/operators.ts";
import type { Visible } from "../contract.ts";
import type { Accepts } from "../inverted/best.ts";
import type { Allowed } from "../ordinal-bitmap.ts";
import {
  contains,
  differenceOf,
  intersectionOf,
  noOrdinals,
  type OrdinalSet,
  unionInSteps,
  unionOf,
} from "../ordinal-sets.ts";
import { type Meaning, meaningOf, type PlacedTerm } from "./clause-meaning.ts";
import type { TermReader, WeightedTerm } from "./term-reader.ts";

export type TextQuery = { readonly terms: readonly WeightedTerm[]; readonly accepts: Accepts };

/** Of a step: needs whose weights are added up, terms whose records are intersected or united, records that are tested for a short phrase. */
const needsPerStep = 1_024;
const termsPerStep = 64;
const recordsPerStep = 64;
/** Postings that are united at a step. */
const postingsPerStep = 50_000;

const findsNothing: TextQuery = { terms: [], accepts: null };

/**
 * The terms and the filter of a query, valid for the searched version as long as no visible record is removed.
 * @param query its text, and its clauses if it has operators; a phrase needs an index with positions
 * @param visible returns the visibility test; called at each step that needs it
 * @param rows the records whose words a prefix or fuzzy word stands for; null: all
 * @param expansions what the last word of each clause stands for, if that is known; undefined: it is looked up
 */
export function* resolveTextQuery(
  index: TermReader,
  query: { readonly text: string; readonly clauses: readonly Clause[] | null },
  visible: () => Visible,
  rows: Allowed = null,
  expansions?: readonly (WeightedTerm[] | null)[],
): Steps<TextQuery> {
  if (query.clauses === null) return { terms: yield* index.termsInSteps(query.text), accepts: null };
  const meanings: Meaning[] = [];
  for (const [i, clause] of query.clauses.entries()) {
    const meaning = yield* meaningOf(index, clause, visible, rows, expansions?.[i]);
    if (meaning !== null) meanings.push(meaning);
    yield;
  }
  if (meanings.every(({ occur }) => occur === "mustNot")) return findsNothing;
  const holders = new Holders(index);
  const { required, excluded } = yield* allowedBy(holders, meanings);
  if (required?.length === 0) return findsNothing;
  const terms = yield* termsOf(holders, meanings, required);
  return { terms, accepts: acceptsOf(required, excluded) };
}

/** The records that have a term, fetched once for a query: it can have the same word in a thousand clauses. */
class Holders {
  readonly index: TermReader;
  readonly #known = new Map<string, OrdinalSet>();

  constructor(index: TermReader) {
    this.index = index;
  }

  of(term: string): OrdinalSet {
    let holders = this.#known.get(term);
    if (holders === undefined) {
      holders = this.index.holdersOf(term);
      this.#known.set(term, holders);
    }
    return holders;
  }
}

/** The terms of the clauses that are not excluded, ordered by first occurrence, with their weights added up. */
function* termsOf(
  holders: Holders,
  meanings: readonly Meaning[],
  required: OrdinalSet | null,
): Steps<WeightedTerm[]> {
  const terms: { term: string; weight: number; within: OrdinalSet | null }[] = [];
  const everywhere = new Map<string, { weight: number }>();
  for (const meaning of meanings) {
    if (meaning.occur === "mustNot") continue;
    const within = yield* scopeOf(holders, meaning, required);
    for (const [i, alternatives] of meaning.needs.entries()) {
      if (i % needsPerStep === needsPerStep - 1) yield;
      for (const { term, weight } of alternatives) {
        const known = within === null ? everywhere.get(term) : undefined;
        if (known !== undefined) known.weight += weight;
        else {
          const weighted = { term, weight, within };
          terms.push(weighted);
          if (within === null) everywhere.set(term, weighted);
        }
      }
    }
  }
  return terms;
}

/** The records that a clause's terms count for. All found records satisfy the required clauses, so only optional phrases need this. */
function* scopeOf(holders: Holders, meaning: Meaning, required: OrdinalSet | null): Steps<OrdinalSet | null> {
  if (meaning.phrase === null || meaning.occur === "must") return null;
  return yield* satisfying(holders, meaning, required);
}

/** The records that the required clauses leave, null: all of them; and those that are excluded. */
function* allowedBy(
  holders: Holders,
  meanings: readonly Meaning[],
): Steps<{ required: OrdinalSet | null; excluded: OrdinalSet }> {
  const having = (occur: Clause["occur"]) => meanings.filter((meaning) => meaning.occur === occur);
  let required: OrdinalSet | null = null;
  // Phrases are tested last, when the fewest records remain.
  const easiestFirst = having("must").sort((a, b) => Number(a.phrase !== null) - Number(b.phrase !== null));
  for (const meaning of easiestFirst) {
    required = yield* satisfying(holders, meaning, required);
    if (required.length === 0) return { required, excluded: noOrdinals };
  }
  const sets: OrdinalSet[] = [];
  for (const meaning of having("mustNot")) sets.push(yield* satisfying(holders, meaning, required));
  const excluded = unionOf(sets);
  return { required: required && differenceOf(required, excluded), excluded };
}

function acceptsOf(required: OrdinalSet | null, excluded: OrdinalSet): Accepts {
  // Removes the excluded records from the required ones.
  if (required !== null) return (ordinal) => contains(required, ordinal);
  return excluded.length === 0 ? null : (ordinal) => !contains(excluded, ordinal);
}

/** The records held that satisfy a clause. @param among those that matter; null: all */
function* satisfying(
  holders: Holders,
  { needs, phrase }: Meaning,
  among: OrdinalSet | null,
): Steps<OrdinalSet> {
  let having = among;
  const asked = new Set<string>();
  for (const [i, alternatives] of needs.entries()) {
    // A clause of many words mostly has some of them several times.
    const [{ term }] = alternatives.length === 1 ? alternatives : [{ term: null }];
    if (term !== null && asked.has(term)) continue;
    if (term !== null) asked.add(term);
    const one = term !== null ? holders.of(term) : yield* holdersOfAny(holders.index, alternatives);
    having = having === null ? one : intersectionOf([having, one]);
    if (having.length === 0) return noOrdinals;
    if (i % termsPerStep === 0) yield;
  }
  if (having === null || phrase === null) return having ?? noOrdinals;
  const kept = new Uint32Array(having.length);
  let count = 0;
  for (const [i, ordinal] of having.entries()) {
    if (hasPhrase(holders.index, phrase, ordinal)) kept[count++] = ordinal;
    if (i % recordsPerStep === 0 || phrase.length > recordsPerStep) yield;
  }
  return kept.subarray(0, count);
}

/** The records that have one of some terms. */
function* holdersOfAny(index: TermReader, terms: readonly WeightedTerm[]): Steps<OrdinalSet> {
  const sets: OrdinalSet[] = [];
  let read = 0;
  for (const { term } of terms) {
    const set = index.holdersOf(term);
    sets.push(set);
    read += set.length;
    if (sets.length % termsPerStep !== 0 && read < postingsPerStep) continue;
    read = 0;
    yield;
  }
  return yield* unionInSteps(sets);
}

/** Whether a record that has all terms of a phrase has them in their places somewhere. */
function hasPhrase(index: TermReader, phrase: readonly PlacedTerm[], ordinal: number): boolean {
  const positions = new Map<string, Uint32Array>();
  let rarest = phrase[0];
  let rarestAt: Uint32Array | undefined;
  for (const placed of phrase) {
    if (positions.has(placed.term)) continue;
    const at = index.positionsOf(placed.term, ordinal);
    positions.set(placed.term, at);
    if (rarestAt === undefined || at.length < rarestAt.length) [rarest, rarestAt] = [placed, at];
  }
  const isAt = (position: number): boolean =>
    phrase.every(({ term, place }) =>
      contains(positions.get(term) as Uint32Array, position - rarest.place + place),
    );
  return rarestAt?.some(isAt) === true;
}
