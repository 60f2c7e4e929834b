// Which terms does a clause of a text query stand for?
//
// Terms are stems, but prefixes and fuzzy words match words. So each is compared with terms, and with the forms of words (analyzer.ts)
// that the index keeps where they differ from their term; it stands for the terms of all matches. A prefix also stands for its own
// stem: "running*" finds runs. A fuzzy word is compared as it is written and by its stem, as if the typing error were not in the
// ending: "galcier~" (galcier) finds glaciers (glacier).
//
// Chinese, Japanese and Korean are found by parts anyway: there a prefix is what it would be without its sign, and a fuzzy word
// stands for any of its pieces.
//
// If a word matches more terms than it may stand for, those remain that occur in most records of the searched version. Records that
// only other versions have do not count.

import { limits } from "@quiverdb/protocol/limits";
import { compareText } from "../../base/bytes.ts";
import type { Steps } from "../../base/steps.ts";
import { EditDistance } from "../../text/edit-distance.ts";
import { fold } from "../../text/fold.ts";
import { isRun } from "../../text/grams.ts";
import { type Clause, isExpanding } from "../../text/operators.ts";
import type { Visible } from "../contract.ts";
import type { Allowed } from "../ordinal-bitmap.ts";
import type { TermReader, WeightedTerm } from "./term-reader.ts";

/** Of a step: words that are compared, terms whose records are counted, and postings that are read. */
const wordsPerStep = 1_024;
const termsPerStep = 64;
const postingsPerStep = 50_000;

/** The meaning of a clause for an index. */
export type Meaning = {
  readonly occur: Clause["occur"];
  /** Terms of which a record must have one, for each word that is not dropped; at least one list, which may be empty. */
  readonly needs: readonly (readonly WeightedTerm[])[];
  /** The terms of a phrase and their places in it; null of other clauses. */
  readonly phrase: readonly PlacedTerm[] | null;
};

/** A term of a phrase, and its place in it. */
export type PlacedTerm = { readonly term: string; readonly place: number };

/** The last word of a clause, if it stands for words of the index; null: it does not. */
const expandingWord = (clause: Clause): string | null => {
  const last = clause.words[clause.words.length - 1];
  return isExpanding(clause) && !(clause.kind === "prefix" && isRun(last)) ? last : null;
};

/**
 * The meaning of a clause, in steps; null where the analyzer drops all words: the clause then has no effect.
 * @param known what a prefix or fuzzy word stands for, if that is known; undefined: it is looked up
 */
export function* meaningOf(
  index: TermReader,
  clause: Clause,
  visible: () => Visible,
  rows: Allowed = null,
  known?: WeightedTerm[] | null,
): Steps<Meaning | null> {
  const { occur, kind, words } = clause;
  const needs: WeightedTerm[][] = [];
  const phrase: PlacedTerm[] = [];
  const expanding = expandingWord(clause);
  const plain = expanding === null ? words : words.slice(0, -1);
  for (const { term, position: place } of yield* index.analyzer.analyzeQuery(plain)) {
    if (term === null) continue;
    needs.push([{ term, weight: 1 }]);
    phrase.push({ term, place });
  }
  if (expanding !== null) {
    const expansions = isRun(expanding)
      ? piecesOf(index, expanding)
      : known !== undefined
        ? known
        : yield* expansionsOf(index, clause, expanding, visible, rows);
    if (expansions !== null) needs.push(expansions);
  }
  if (needs.length === 0) return null;
  return { occur, needs, phrase: kind === "phrase" ? phrase : null };
}

/** The equivalent terms of a run; null if it is a stop word. */
function piecesOf(index: TermReader, run: string): WeightedTerm[] | null {
  const terms = new Set(index.analyzer.queryTerms([run]));
  return terms.size === 0 ? null : Array.from(terms, (term) => ({ term, weight: 1 })).sort(byWeight);
}

/** All terms that the last word of a clause could stand for; null if it stands for none of the index. */
export function* foundExpansions(
  index: TermReader,
  clause: Clause,
  visible: () => Visible,
  rows: Allowed,
): Steps<WeightedTerm[] | null> {
  const word = expandingWord(clause);
  return word === null || isRun(word) ? null : yield* everyExpansion(index, clause, word, visible, rows);
}

/** The terms that a prefix or fuzzy word expands to, best first; null if it is not a word. */
function* expansionsOf(
  index: TermReader,
  clause: Clause,
  word: string,
  visible: () => Visible,
  rows: Allowed,
): Steps<WeightedTerm[] | null> {
  const found = yield* everyExpansion(index, clause, word, visible, rows);
  // The terms of an excluded clause are not scored, so all of them can count.
  if (found === null || clause.occur === "mustNot") return found;
  return (yield* mostFrequent(index, found, visible, rows)).sort(byWeight);
}

/** The same, all of them and in no order. Here a stop word counts as a word. */
function* everyExpansion(
  index: TermReader,
  { kind, distance }: Clause,
  word: string,
  visible: () => Visible,
  rows: Allowed,
): Steps<WeightedTerm[] | null> {
  const { analyzer } = index;
  const form = analyzer.form(word);
  if (analyzer.analyze([word])[0].dropped === "too_long" || fold(form) === "") return null;
  // Forms have apostrophes inside, and terms do not.
  const written = new Set([form, fold(form)]);
  const { term: stem } = analyzer.of(word);
  return kind === "prefix"
    ? yield* prefixed(index, written, stem, visible, rows)
    : yield* similar(index, stem === "" ? written : written.add(stem), distance, visible, rows);
}

function* prefixed(
  index: TermReader,
  prefixes: ReadonlySet<string>,
  stem: string,
  visible: () => Visible,
  rows: Allowed,
): Steps<WeightedTerm[]> {
  const terms = new Set(stem === "" ? [] : [stem]);
  for (const prefix of prefixes)
    for (const { term } of yield* index.expand({ prefix }, visible, rows)) terms.add(term);
  return Array.from(terms, (term) => ({ term, weight: 1 }));
}

function* similar(
  index: TermReader,
  words: ReadonlySet<string>,
  distance: number,
  visible: () => Visible,
  rows: Allowed,
): Steps<WeightedTerm[]> {
  const nearest = new Map<string, number>();
  for (const fuzzy of words) {
    const distances = new EditDistance(fuzzy);
    const expansions = yield* index.expand({ fuzzy, distance }, visible, rows);
    for (const [i, { form, term }] of expansions.entries()) {
      if (i % wordsPerStep === wordsPerStep - 1) yield;
      const edits = distances.to(form, distance);
      nearest.set(term, Math.min(edits, nearest.get(term) ?? edits));
    }
  }
  return Array.from(nearest, ([term, edits]) => ({ term, weight: 1 / (1 + edits) }));
}

/** At most `queryExpansionsMax` of the terms: of equal weight, those that most visible records have. */
function* mostFrequent(
  index: TermReader,
  terms: WeightedTerm[],
  visible: () => Visible,
  rows: Allowed,
): Steps<WeightedTerm[]> {
  if (terms.length <= limits.queryExpansionsMax) return terms;
  const counted: { weighted: WeightedTerm; df: number }[] = [];
  let [counts, read] = [0, 0];
  for (const weighted of terms) {
    const sees = visible();
    const holders = index.holdersOf(weighted.term);
    const isCounted = (ordinal: number) =>
      (sees === null || sees(ordinal)) && (rows === null || rows.has(ordinal));
    const df = sees === null && rows === null ? holders.length : holders.filter(isCounted).length;
    // A term of removed records may be there for a while, or not.
    if (df > 0) counted.push({ weighted, df });
    read += holders.length;
    if (++counts % termsPerStep !== 0 && read < postingsPerStep) continue;
    read = 0;
    yield;
  }
  return firstByFrequency(counted);
}

/** Those of counted terms that a word may stand for. */
const firstByFrequency = (counted: { weighted: WeightedTerm; df: number }[]): WeightedTerm[] =>
  counted
    .sort((a, b) => b.weighted.weight - a.weighted.weight || b.df - a.df || byWeight(a.weighted, b.weighted))
    .slice(0, limits.queryExpansionsMax)
    .map(({ weighted }) => weighted);

/**
 * What the last word of a clause stands for in all shards together, as `expansionsOf` finds it in one.
 * @param found by each shard; null: it is not a word. @param dfOf the records of all shards that have a term
 */
export function unitedExpansions(
  { occur }: Clause,
  found: readonly (readonly WeightedTerm[] | null)[],
  dfOf: (term: string) => number,
): WeightedTerm[] | null {
  if (found.some((terms) => terms === null)) return null;
  const nearest = new Map<string, number>();
  for (const { term, weight } of found.flatMap((terms) => terms ?? []))
    nearest.set(term, Math.max(weight, nearest.get(term) ?? 0));
  const terms = Array.from(nearest, ([term, weight]): WeightedTerm => ({ term, weight }));
  if (occur === "mustNot") return terms;
  if (terms.length <= limits.queryExpansionsMax) return terms.sort(byWeight);
  const counted = terms.map((weighted) => ({ weighted, df: dfOf(weighted.term) }));
  return firstByFrequency(counted.filter(({ df }) => df > 0)).sort(byWeight);
}

function byWeight(a: WeightedTerm, b: WeightedTerm): number {
  return b.weight - a.weight || compareText(a.term, b.term);
}
