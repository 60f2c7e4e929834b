// What does a query with operators ask for?
//
//   bees dance            words
//   "waggle dance"        a phrase: these words, one behind the other
//   +bees  -wasps         required; excluded
//   navig*  navigate~1    words that begin so; words that are nearly so
//
// A query is read from left to right. A clause begins at the start of the query and after white space, nowhere else, and
// only there do `+`, `-` and `"` mean anything; `*` and `~` mean something only at the end of a clause, behind a letter or
// digit. Everything else is text, and text means what it means in a plain query: `state-of-the-art`, `c++`, `5"` and
// `a * b` have no operator. Clauses are not nested. What looks like an operator and cannot be one, a quote that nothing
// closes or a distance of 3, is refused with its place, for guessing would answer another question.
//
//   query  = { white space | clause }
//   clause = [ "+" | "-" ] ( phrase | text [ "*" | "~" [ "1" | "2" ] ] )
//   phrase = '"' { any character but '"' } '"'
//
// A backslash before `" + - * ~ \` makes text of it.
//
// Clauses have words, not terms: the language, and with it the stop words, are the index's own. Texts without any
// operator that follow each other are one clause, tokenized as a whole, so that a query without operators has the very
// words of the plain query.
//
// Takes time in proportion to the query.

import { QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import { finishAtOnce, type Steps } from "../base/steps.ts";
import { gramsOfQuery, isRun, lettersOf } from "./grams.ts";
import { tokenizeInSteps } from "./tokenize.ts";

/** Characters that are read at a step. */
const charactersPerStep = 16 * 1024;

/** Whether records should match a clause, for a better score, must match it, or must not. */
export type Occur = "should" | "must" | "mustNot";

export type Clause = {
  readonly occur: Occur;
  /** The last word of a prefix or fuzzy clause is a pattern that expands to many terms. */
  readonly kind: "words" | "phrase" | "prefix" | "fuzzy";
  /** From `tokenize`; at least one, and for a phrase two, or a run (grams.ts) of three characters. */
  readonly words: readonly string[];
  /** Of a fuzzy clause: edits allowed, 1 or 2; else 0. */
  readonly distance: number;
  /** Where in the query the clause begins, in UTF-16 code units from 0. */
  readonly position: number;
};

/** Whether the last word of a clause expands to many terms. */
export function isExpanding({ kind }: Clause): boolean {
  return kind === "prefix" || kind === "fuzzy";
}

type Edges = Pick<Clause, "occur" | "position">;

/**
 * The clauses of a query in their order, without those that have no words.
 * @param path of the query in the request, for messages
 * @throws invalid_request with the path, and the position in the query
 */
export function parseOperators(query: string, path: string): Clause[] {
  return finishAtOnce(parseInSteps(query, path));
}

/** `parseOperators`, in steps. */
export function* parseInSteps(query: string, path: string): Steps<Clause[]> {
  const clauses: Clause[] = [];
  let operators = 0;
  let expanding = 0;
  // Where the text without operators begins that the next clause may continue; -1: there is none.
  let textFrom = -1;
  let pauseAt = charactersPerStep;
  for (let at = skipSpace(query, 0); at < query.length; ) {
    if (at >= pauseAt) {
      yield;
      pauseAt = at + charactersPerStep;
    }
    const { end, isText, clause } = yield* readClause(query, at, path);
    // Only a closing quote can be directly followed by something, which is text.
    const tokenTo = tokenEnd(query, end);
    if (isText) {
      if (textFrom < 0) textFrom = at;
    } else {
      if (textFrom >= 0) yield* pushText(clauses, query, textFrom, at);
      textFrom = -1;
      if (++operators > limits.queryOperatorsMax)
        throw tooMany(path, at, `${limits.queryOperatorsMax} clauses with an operator`);
      if (clause !== null && isExpanding(clause) && ++expanding > limits.queryExpandingMax)
        throw tooMany(path, at, `${limits.queryExpandingMax} prefixes and fuzzy words`);
      if (clause !== null) clauses.push(clause);
      if (tokenTo > end) textFrom = end;
    }
    at = skipSpace(query, tokenTo);
  }
  if (textFrom >= 0) yield* pushText(clauses, query, textFrom, query.length);
  return clauses;
}

/** Adds the clause of a text without operators, if it has words. */
function* pushText(clauses: Clause[], query: string, from: number, to: number): Steps<void> {
  const clause = yield* clauseOf("words", { occur: "should", position: from }, query.slice(from, to));
  if (clause !== null) clauses.push(clause);
}

/** The end of a clause and its contents; null if it is plain text or has no words. */
type ReadClause = { readonly end: number; readonly isText: boolean; readonly clause: Clause | null };

/** Reads the clause that begins at `at`. */
function* readClause(query: string, at: number, path: string): Steps<ReadClause> {
  const isSigned = hasSign(query, at);
  const occur = !isSigned ? "should" : query[at] === "+" ? "must" : "mustNot";
  const edges: Edges = { occur, position: at };
  const from = isSigned ? at + 1 : at;
  if (query[from] === '"') {
    const to = closingQuote(query, from, path);
    return {
      end: to + 1,
      isText: false,
      clause: yield* clauseOf("phrase", edges, query.slice(from + 1, to)),
    };
  }
  const end = tokenEnd(query, from);
  const body = query.slice(from, end);
  const suffix = suffixOf(body);
  if (suffix === "") {
    if (!isSigned) return { end, isText: true, clause: null };
    return { end, isText: false, clause: yield* clauseOf("words", edges, body) };
  }
  const text = body.slice(0, -suffix.length);
  if (suffix === "*") return { end, isText: false, clause: yield* clauseOf("prefix", edges, text) };
  const distance = distanceOf(suffix, path, end - suffix.length);
  return { end, isText: false, clause: yield* clauseOf("fuzzy", edges, text, distance) };
}

/** A sign must directly precede its word or phrase: `+ a`, `++` and `--flag` have none. */
function hasSign(query: string, at: number): boolean {
  if (query[at] !== "+" && query[at] !== "-") return false;
  const next = query[at + 1];
  return next !== undefined && next !== "+" && next !== "-" && !isSpace(query, at + 1);
}

/** The `*`, or the `~` with its number, at the end of a text after a letter or digit; "" if there is none. */
function suffixOf(body: string): string {
  const at = body.endsWith("*") ? body.length - 1 : body.lastIndexOf("~");
  if (at <= 0 || !/[\p{L}\p{N}\p{M}]$/u.test(body.slice(Math.max(0, at - 2), at))) return "";
  const suffix = body.slice(at);
  return suffix === "*" || /^~[\d.]*$/.test(suffix) ? suffix : "";
}

function distanceOf(suffix: string, path: string, at: number): number {
  if (suffix === "~" || suffix === "~1") return 1;
  if (suffix === "~2") return 2;
  throw refusal(
    path,
    at,
    `"${suffix.slice(0, 10)}" is no distance; expected ~1 or ~2, or \\~ where the sign itself is meant`,
  );
}

function closingQuote(query: string, from: number, path: string): number {
  let at = from + 1;
  while (at < query.length && query[at] !== '"') at += query[at] === "\\" ? 2 : 1;
  if (at >= query.length)
    throw refusal(
      path,
      from,
      'the quote is not closed; close it, or write \\" where the sign itself is meant',
    );
  const next = query[at + 1];
  if (next === "~" || next === "*")
    throw refusal(path, at + 1, `"${next}" cannot follow a phrase; remove it, or put a space before it`);
  return at;
}

/** A clause of a text's words, or null if it has none. A phrase of one word is that word, a run several. */
function* clauseOf(kind: Clause["kind"], edges: Edges, text: string, distance = 0): Steps<Clause | null> {
  const words = yield* tokenizeInSteps(unescaped(text));
  if (words.length === 0) return null;
  const isOne = words.length === 1 && (!isRun(words[0]) || gramsOfQuery(lettersOf(words[0])).length === 1);
  const actual = kind === "phrase" && isOne ? "words" : kind;
  return { ...edges, kind: actual, words, distance };
}

/** The text without the backslashes that escape. */
function unescaped(text: string): string {
  return text.includes("\\") ? text.replace(/\\(["+\-*~\\])/g, "$1") : text;
}

const space = /\s/;

function isSpace(query: string, at: number): boolean {
  return space.test(query[at]);
}

function skipSpace(query: string, from: number): number {
  let at = from;
  while (at < query.length && isSpace(query, at)) at++;
  return at;
}

/** Where the next white space is, or the query's end. */
function tokenEnd(query: string, from: number): number {
  let at = from;
  while (at < query.length && !isSpace(query, at)) at++;
  return at;
}

function tooMany(path: string, at: number, limit: string): QuiverError {
  return refusal(path, at, `the query has more than ${limit}; make several queries of it`);
}

function refusal(path: string, position: number, problem: string): QuiverError {
  return new QuiverError("invalid_request", `${path}, at position ${position}: ${problem}.`, {
    path,
    position,
  });
}
