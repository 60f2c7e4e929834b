// How is metadata returned unchanged although a JavaScript number is a 64-bit float?
//
// `12345678901234567890`, `1e999`, `-0`, `5.0` and `0.1000000000000000055511151231257827` are JSON numbers that a parsed object cannot
// reproduce. If metadata contains a number, its text is extracted from the body, and every number in it is compared with what JavaScript
// would write. If one differs, the vector gets `metadataJson`: the metadata as JSON text with each such number as it was sent.
//
// The original text of a number does not follow from its parsed value (many texts parse to 0.1), so any number triggers the extraction. The
// extraction is one pass over the body's text that skips strings and arrays of numbers with `indexOf`; requests without numbers in metadata
// pay only for one walk over the metadata.

import type { Steps, VectorWrite } from "@quiverdb/engine/database/contract";
import { QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import type { VectorInput } from "@quiverdb/protocol/shapes/vector";
import { type ParsedBody, textOf } from "./json.ts";

/** The two functions of JSON that TypeScript's library does not declare yet. */
type SourceText = {
  parse(
    text: string,
    reviver: (key: string, value: unknown, context: { source?: string }) => unknown,
  ): unknown;
  rawJSON(text: string): unknown;
};
const { parse: parseWithSource } = JSON as unknown as SourceText;
/** A number that JSON.stringify writes with this text. */
export const { rawJSON } = JSON as unknown as SourceText;

/** Where a body has its records: in `{"vectors": [...]}`, or the body is a single record. */
export type RecordsAt = "vectors" | "body";

/** Records per step. */
const recordsPerStep = 64;

/**
 * Converts parsed records to the engine's form, in steps and in place.
 * @param body the text that the records were parsed from
 * @throws invalid_request when metadata is nested too deeply
 */
export function* withExactMetadata(
  vectors: readonly VectorInput[],
  body: ParsedBody,
  at: RecordsAt,
): Steps<readonly VectorWrite[]> {
  let numbers = false;
  for (const [index, vector] of vectors.entries()) {
    if (index % recordsPerStep === recordsPerStep - 1) yield;
    const { metadata } = vector;
    if (metadata === null || metadata === undefined) continue;
    const { depth, hasNumber } = measure(metadata);
    if (depth > limits.metadataDepthMax)
      throw tooDeep(at === "body" ? "metadata" : `vectors[${index}].metadata`);
    numbers ||= hasNumber;
  }
  if (!numbers) return vectors;
  if (body.binary !== undefined) {
    for (const [index, text] of body.binary.metadata) (vectors[index] as VectorWrite).metadataJson = text;
    return vectors;
  }
  const texts = metadataTexts(body, at);
  for (const [index, vector] of vectors.entries()) {
    if (index % recordsPerStep === recordsPerStep - 1) yield;
    const text = texts(index);
    if (text === undefined || vector.metadata === null || vector.metadata === undefined) continue;
    const exact = exactJson(text);
    if (exact !== undefined) (vector as VectorWrite).metadataJson = exact;
  }
  return vectors;
}

/** The text of a record's metadata, by the record's position. In a large body only the requested record is scanned. */
function metadataTexts(body: ParsedBody, at: RecordsAt): (index: number) => string | undefined {
  const { bytes, spans } = body;
  if (at === "vectors" && spans !== undefined)
    return (index) => {
      const text = bytes.toString("utf8", spans[2 * index], spans[2 * index + 1]);
      const [span] = metadataSpans(text, "body");
      return span && text.slice(span.start, span.end);
    };
  const text = textOf(body);
  const found = metadataSpans(text, at);
  return (index) => found[index] && text.slice(found[index].start, found[index].end);
}

const tooDeep = (path: string) =>
  new QuiverError(
    "invalid_request",
    `${path} is nested more than ${limits.metadataDepthMax} levels deep. Flatten it; nothing was changed.`,
    {
      path,
      expected: `at most ${limits.metadataDepthMax} levels`,
      received: `more than ${limits.metadataDepthMax} levels`,
    },
  );

/** Depth (1 for a flat object; counting stops one above the limit) and whether it contains a number. */
function measure(root: object): { depth: number; hasNumber: boolean } {
  let hasNumber = false;
  let level: object[] = [root];
  let depth = 0;
  while (level.length > 0 && depth <= limits.metadataDepthMax) {
    depth++;
    const next: object[] = [];
    for (const container of level) {
      for (const value of Array.isArray(container) ? container : Object.values(container)) {
        if (typeof value === "number") hasNumber = true;
        else if (typeof value === "object" && value !== null) next.push(value);
      }
    }
    level = next;
  }
  return { depth, hasNumber };
}

/** JSON text with all numbers as in `text`; undefined if plain serialisation gives the same. */
function exactJson(text: string): string | undefined {
  let exact = true;
  const value = parseWithSource(text, (_key, value, { source }) => {
    if (typeof value !== "number" || source === undefined || String(value) === source) return value;
    exact = false;
    return rawJSON(source);
  });
  return exact ? undefined : JSON.stringify(value);
}

type Span = { readonly start: number; readonly end: number };

/**
 * Spans of the values of `metadata`, by position of the record. `text` is valid JSON of the right shape. If a key occurs twice, the last
 * one counts, as in `JSON.parse`.
 */
export function metadataSpans(text: string, at: RecordsAt): (Span | undefined)[] {
  const cursor = new JsonCursor(text);
  const root = cursor.afterBlanks(0);
  if (at === "body") return [metadataOf(cursor, root).span];
  let spans: (Span | undefined)[] = [];
  cursor.members(root, (key, start) => {
    if (key !== "vectors") return cursor.pastValue(start);
    spans = [];
    return cursor.items(start, (item) => {
      const { span, end } = metadataOf(cursor, item);
      spans.push(span);
      return end;
    });
  });
  return spans;
}

/** Span of `metadata` in the object that starts at `position`, and the end of that object. */
function metadataOf(cursor: JsonCursor, position: number): { span: Span | undefined; end: number } {
  let span: Span | undefined;
  const end = cursor.members(position, (key, start) => {
    const valueEnd = cursor.pastValue(start);
    if (key === "metadata") span = { start, end: valueEnd };
    return valueEnd;
  });
  return { span, end };
}

const quoteMark = 0x22;
const comma = 0x2c;
const openBracket = 0x5b;
const backslash = 0x5c;
const closeBracket = 0x5d;
const openBrace = 0x7b;
const closeBrace = 0x7d;

/** Finds the end of values in valid JSON without parsing them. Positions are offsets in the text. */
class JsonCursor {
  readonly #text: string;
  readonly #nextQuote: (from: number) => number;
  readonly #nextOpen: (from: number) => number;
  readonly #nextClose: (from: number) => number;

  constructor(text: string) {
    this.#text = text;
    this.#nextQuote = nextOf(text, '"');
    this.#nextOpen = nextOf(text, "[");
    this.#nextClose = nextOf(text, "]");
  }

  /**
   * Calls `visit` for each member of the object that starts at `position`, with the key and the start of the value;
   * it returns the end of the value. Returns the end of the object; of another value, its end.
   */
  members(position: number, visit: (key: string, start: number) => number): number {
    const text = this.#text;
    if (text.charCodeAt(position) !== openBrace) return this.pastValue(position);
    let at = this.afterBlanks(position + 1);
    while (text.charCodeAt(at) !== closeBrace) {
      const keyEnd = this.#pastString(at);
      const raw = text.slice(at + 1, keyEnd - 1);
      const key = raw.includes("\\") ? (JSON.parse(`"${raw}"`) as string) : raw;
      const colon = this.afterBlanks(keyEnd);
      at = this.#afterComma(visit(key, this.afterBlanks(colon + 1)));
    }
    return at + 1;
  }

  /** The same for the items of an array. */
  items(position: number, visit: (start: number) => number): number {
    if (this.#text.charCodeAt(position) !== openBracket) return this.pastValue(position);
    let at = this.afterBlanks(position + 1);
    while (this.#text.charCodeAt(at) !== closeBracket) at = this.#afterComma(visit(at));
    return at + 1;
  }

  afterBlanks(position: number): number {
    let at = position;
    while (isBlank(this.#text.charCodeAt(at))) at++;
    return at;
  }

  /** End of the value that starts at `position`. Nesting is counted, without recursion. */
  pastValue(position: number): number {
    const text = this.#text;
    const first = text.charCodeAt(position);
    if (first === quoteMark) return this.#pastString(position);
    if (first === openBracket) {
      const close = this.#nextClose(position);
      if (close < this.#nextOpen(position + 1) && close < this.#nextQuote(position)) return close + 1;
    } else if (first !== openBrace) return this.#pastScalar(position);
    let depth = 0;
    for (let at = position; ; ) {
      const code = text.charCodeAt(at);
      if (code === quoteMark) {
        at = this.#pastString(at);
        continue;
      }
      if (code === openBrace || code === openBracket) depth++;
      else if (code === closeBrace || code === closeBracket) depth--;
      at++;
      if (depth === 0) return at;
    }
  }

  #afterComma(position: number): number {
    const at = this.afterBlanks(position);
    return this.#text.charCodeAt(at) === comma ? this.afterBlanks(at + 1) : at;
  }

  #pastScalar(position: number): number {
    let at = position;
    for (; at < this.#text.length; at++) {
      const code = this.#text.charCodeAt(at);
      if (code === comma || code === closeBrace || code === closeBracket || isBlank(code)) break;
    }
    return at;
  }

  /** A quote ends the string unless an odd number of backslashes stands before it. */
  #pastString(position: number): number {
    for (let quote = position; ; ) {
      quote = this.#text.indexOf('"', quote + 1);
      let slashes = 0;
      while (this.#text.charCodeAt(quote - 1 - slashes) === backslash) slashes++;
      if (slashes % 2 === 0) return quote + 1;
    }
  }
}

const isBlank = (code: number) => code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;

/**
 * The next position of a character; Infinity if there is none. Positions must not decrease between calls; each character of the text is
 * then scanned at most once.
 */
function nextOf(text: string, character: string): (from: number) => number {
  let found = -1;
  return (from) => {
    if (found < from) {
      const index = text.indexOf(character, from);
      found = index < 0 ? Number.POSITIVE_INFINITY : index;
    }
    return found;
  };
}
