// How is a filter read that was written as text: --where 'color = "red" and n >= 3'?
//
// By recursive descent, with one method for each rule. Each text has one filter in JSON, and write-where.ts goes the other way:
//
//   filter     conjunction { "or" conjunction }                   {"or": [...]}
//   conjunction      part { "and" part }                          {"and": [...]}
//   part       "not" part                                         {"not": ...}
//            | "(" filter ")"
//            | "true" | "false"                                   {"and": []}, {"or": []}
//            | field operator value                               {"field": ..., "eq": ...}
//            | field [ "not" ] "in" "(" [ value { "," value } ] ")"
//            | field [ "not" ] "between" value "and" value          {"and": [{"field": ..., "gte": ...}, {"field": ..., "lte": ...}]}
//            | field [ "not" ] "exists"                           {"field": ..., "exists": true}
//            | field "is" [ "not" ] "null"                        {"field": ..., "exists": false}
//   operator   "=" | "!=" | "<>" | "<" | "<=" | ">" | ">=" | "contains" | "prefix" | "starts with"
//   field      letters, digits, "_", "-", "$", "@", "." between keys, "\" before any other character of a key
//            | a path between backticks, in which a backtick is written twice
//   value      "text" | 'text' with the escapes of JSON and \'  | a number of JSON | "true" | "false"
//
// Keywords are written in upper or lower case. A field that is called like one stands between backticks. What operators and paths mean:
// docs/guide/filters.md.

import type { Filter, FilterValue } from "@quiverdb/protocol/shapes/filter";

/** Words that are no field without backticks. */
export const keywords = [
  "and",
  "or",
  "not",
  "in",
  "exists",
  "contains",
  "prefix",
  "starts",
  "with",
  "true",
  "false",
];

/** What stands before a value. Longer signs come first. */
const comparisons: readonly (readonly [sign: string, operator: string])[] = [
  ["!=", "ne"],
  ["<>", "ne"],
  ["<=", "lte"],
  [">=", "gte"],
  ["==", "eq"],
  ["=", "eq"],
  ["<", "lt"],
  [">", "gt"],
];

/** Characters of a field without backticks. */
export const plainFieldCharacter = /[\p{L}\p{N}\p{M}_$@.-]/u;

/** More levels are refused by the server, too; the stack of calls never grows further. */
const levelsMax = 100;

/** A text that is not a filter. */
export class WhereError extends Error {
  override readonly name = "WhereError";
  /** Offset in the text of what could not be read. */
  readonly position: number;

  constructor(problem: string, text: string, position: number) {
    super(`${problem}\n${excerpt(text, position)}`);
    this.position = position;
  }
}

/** The filter of a text. @throws WhereError with the position in words and under a copy of the line */
export function readWhere(text: string): Filter {
  return new Reader(text).whole();
}

class Reader {
  readonly #text: string;
  #at = 0;
  #levels = 0;

  constructor(text: string) {
    this.#text = text;
  }

  whole(): Filter {
    const filter = this.#filter();
    if (this.#at < this.#text.length) this.#fail("expected `and`, `or` or the end");
    return filter;
  }

  #filter(): Filter {
    const parts = [this.#conjunction()];
    while (this.#takeWord("or")) parts.push(this.#conjunction());
    return parts.length === 1 ? parts[0] : { or: parts };
  }

  #conjunction(): Filter {
    const parts = [this.#part()];
    while (this.#takeWord("and")) parts.push(this.#part());
    return parts.length === 1 ? parts[0] : { and: parts };
  }

  #part(): Filter {
    if (++this.#levels > levelsMax) this.#fail(`expected at most ${levelsMax} levels`);
    const part = this.#partOfLevel();
    this.#levels--;
    return part;
  }

  #partOfLevel(): Filter {
    if (this.#takeWord("not")) return { not: this.#part() };
    if (this.#takeWord("true")) return { and: [] };
    if (this.#takeWord("false")) return { or: [] };
    if (!this.#take("(")) return this.#condition();
    const filter = this.#filter();
    if (!this.#take(")")) this.#fail("expected `and`, `or` or `)`");
    return filter;
  }

  #condition(): Filter {
    const field = this.#field();
    for (const [sign, operator] of comparisons)
      if (this.#take(sign)) return { field, [operator]: this.#value() };
    if (this.#takeWord("contains")) return { field, contains: this.#string() };
    if (this.#takeWord("prefix")) return { field, prefix: this.#string() };
    if (this.#takeWord("starts")) {
      if (!this.#takeWord("with")) this.#fail("expected `with` after `starts`");
      return { field, prefix: this.#string() };
    }
    if (this.#takeWord("is")) {
      const isNegated = this.#takeWord("not");
      if (!this.#takeWord("null")) this.#fail("expected `null` or `not null` after `is`");
      return { field, exists: isNegated };
    }
    const isNegated = this.#takeWord("not");
    if (this.#takeWord("exists")) return { field, exists: !isNegated };
    if (this.#takeWord("in")) return { field, [isNegated ? "nin" : "in"]: this.#list() };
    if (this.#takeWord("between")) {
      const between = this.#range(field);
      return isNegated ? { not: between } : between;
    }
    if (this.#isWord("like") || this.#isWord("ilike"))
      this.#fail(
        "there are no patterns: write `starts with 'x'` for like 'x%', and `contains 'x'` for like '%x%'",
      );
    return this.#fail(
      isNegated
        ? "expected `in`, `between` or `exists` after `not`"
        : "expected an operator: = != < <= > >= in, between, contains, prefix, starts with, exists, is null, and not in, not between, not exists, is not null",
    );
  }

  #range(field: string): Filter {
    const gte = this.#value();
    if (!this.#takeWord("and"))
      this.#fail("expected `and` between the ends of a range, as in between 1 and 9");
    return {
      and: [
        { field, gte },
        { field, lte: this.#value() },
      ],
    };
  }

  #field(): string {
    this.#skipBlanks();
    const start = this.#at;
    if (this.#text[start] === "`") return this.#quotedField();
    while (this.#at < this.#text.length) {
      const character = String.fromCodePoint(this.#text.codePointAt(this.#at) as number);
      if (character === "\\") this.#at++;
      else if (!plainFieldCharacter.test(character)) break;
      this.#at += character === "\\" ? this.#lengthOfCharacter() : character.length;
    }
    const name = this.#text.slice(start, this.#at);
    if (name !== "" && !keywords.includes(name.toLowerCase())) return name;
    return this.#fail(
      name === ""
        ? "expected a field"
        : `expected a field; \`${name}\` is a keyword, and a field of this name stands between backticks`,
      start,
    );
  }

  /** Of the character here; 0 at the end. */
  #lengthOfCharacter(): number {
    return (this.#text.codePointAt(this.#at) ?? 0) > 0xffff ? 2 : Math.min(1, this.#text.length - this.#at);
  }

  #quotedField(): string {
    const start = this.#at;
    let name = "";
    for (;;) {
      const end = this.#text.indexOf("`", this.#at + 1);
      if (end < 0) this.#fail("expected a backtick at the end of this field", start);
      name += this.#text.slice(this.#at + 1, end);
      this.#at = end + 1;
      if (this.#text[this.#at] !== "`") return name;
      name += "`";
    }
  }

  #list(): FilterValue[] {
    if (!this.#take("(")) this.#fail("expected a list such as (1, 2)");
    const values: FilterValue[] = [];
    if (this.#take(")")) return values;
    do values.push(this.#value());
    while (this.#take(","));
    if (!this.#take(")")) this.#fail("expected `,` or `)`");
    return values;
  }

  #value(): FilterValue {
    this.#skipBlanks();
    const sign = this.#text[this.#at];
    if (sign === '"' || sign === "'") return this.#string();
    if (this.#takeWord("true")) return true;
    if (this.#takeWord("false")) return false;
    const number = this.#match(/-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\p{L}\p{N}_.$@-])/uy);
    if (number === undefined) {
      if (this.#isWord("null")) this.#fail("no value is equal to null: write `is null` or `is not null`");
      return this.#fail("expected a value: a number, true, false, or a text in quotes such as 'red'");
    }
    if (Number.isFinite(Number(number))) return Number(number);
    const [side, most] = number.startsWith("-") ? ["<", -Number.MAX_VALUE] : [">", Number.MAX_VALUE];
    return this.#fail(
      `expected a number that fits into 64 bits; those beyond are all ${side} ${most}`,
      this.#at - number.length,
    );
  }

  #string(): string {
    this.#skipBlanks();
    const start = this.#at;
    const quote = this.#text[start];
    if (quote !== '"' && quote !== "'") this.#fail("expected a text in quotes, such as 'red'");
    let string = "";
    this.#at++;
    for (;;) {
      const character = this.#text[this.#at++];
      if (character === undefined) return this.#fail("expected a quote at the end of this text", start);
      if (character === quote) return string;
      string += character === "\\" ? this.#escaped() : character;
    }
  }

  /** What an escape stands for; its backslash is read. */
  #escaped(): string {
    const start = this.#at - 1;
    const character = this.#text[this.#at++];
    if (character === "u") {
      const digits = this.#match(/[0-9a-fA-F]{4}/y);
      if (digits !== undefined) return String.fromCharCode(Number.parseInt(digits, 16));
    } else if (character !== undefined && Object.hasOwn(escapes, character)) return escapes[character];
    return this.#fail(
      "expected an escape of JSON: \\\\ \\\" \\' \\/ \\n \\r \\t \\b \\f or \\u and four digits",
      start,
    );
  }

  #skipBlanks(): void {
    while (/\s/.test(this.#text[this.#at] ?? "")) this.#at++;
  }

  #take(sign: string): boolean {
    this.#skipBlanks();
    const isHere = this.#text.startsWith(sign, this.#at);
    if (isHere) this.#at += sign.length;
    return isHere;
  }

  /** A keyword, which ends where no field could go on. */
  #takeWord(word: string): boolean {
    const isHere = this.#isWord(word);
    if (isHere) this.#at += word.length;
    return isHere;
  }

  #isWord(word: string): boolean {
    this.#skipBlanks();
    const isHere = this.#text.slice(this.#at, this.#at + word.length).toLowerCase() === word;
    const next = this.#text.codePointAt(this.#at + word.length);
    return isHere && (next === undefined || !/[\p{L}\p{N}\p{M}_$@.\\-]/u.test(String.fromCodePoint(next)));
  }

  /** @param pattern sticky */
  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const [found] = pattern.exec(this.#text) ?? [];
    if (found !== undefined) this.#at += found.length;
    return found;
  }

  #fail(expected: string, position?: number): never {
    if (position === undefined) this.#skipBlanks();
    const at = position ?? this.#at;
    throw new WhereError(`${expected}, at character ${at + 1}:`, this.#text, at);
  }
}

const escapes: Readonly<Record<string, string>> = {
  "\\": "\\",
  '"': '"',
  "'": "'",
  "/": "/",
  n: "\n",
  r: "\r",
  t: "\t",
  b: "\b",
  f: "\f",
};

const shownMax = 60;

/** The surroundings of a position on one line, and a caret below it. */
function excerpt(text: string, position: number): string {
  const start = Math.max(0, position - shownMax);
  const shown = (part: string) =>
    Array.from(part, (character) => (/[\p{C}\s]/u.test(character) ? " " : character));
  const before = shown(text.slice(start, position));
  const after = shown(text.slice(position, position + shownMax));
  return `  ${before.join("")}${after.join("")}\n  ${" ".repeat(before.length)}^`;
}
