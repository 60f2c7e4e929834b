// How does metadata come back unchanged although a JavaScript number is a 64-bit float?
//
// `12345678901234567890`, `1e999`, `-0`, `5.0` and `0.1000000000000000055511151231257827` are JSON numbers that a
// parsed object cannot give back as they were. Where metadata has a number at all, its text is cut out of the body's
// text, every number in it is compared with what JavaScript would write for it, and when one differs the vector gets
// `metadataJson`: the metadata as JSON text in which each such number stands as it was sent.
//
// The text of numbers cannot be told from their parsed values (0.1 may have been any of many texts), so the criterion
// is the presence of a number. Cutting costs one pass over the body's text that skips strings with `indexOf`: a tenth
// of what `JSON.parse` took for the same text. Requests without numbers in metadata pay for one walk over it.

import type { VectorWrite } from "@quiver/engine/database/contract";
import { QuiverError } from "@quiver/protocol/errors";
import { limits } from "@quiver/protocol/limits";
import type { VectorInput } from "@quiver/protocol/shapes/vector";

/** The two parts of JSON that TypeScript's library does not describe yet. */
type SourceText = {
  parse(
    text: string,
    reviver: (key: string, value: unknown, context: { source?: string }) => unknown,
  ): unknown;
  rawJSON(text: string): unknown;
};
const { parse: parseWithSource, rawJSON } = JSON as unknown as SourceText;

/** Where the records stand in a body: `{"vectors": [...]}`, or the body is the one record. */
export type RecordsAt = "vectors" | "body";

/**
 * Completes parsed records to what the engine takes. The records are changed in place.
 * @param text the body that the records were parsed from
 * @throws invalid_request when metadata is nested too deeply
 */
export function withExactMetadata(
  vectors: readonly VectorInput[],
  text: string,
  at: RecordsAt,
): readonly VectorWrite[] {
  let numbers = false;
  vectors.forEach((vector, index) => {
    // A key of this name is an unknown key when a client sends it; the engine would take it as ours.
    if (Object.hasOwn(vector, "metadataJson")) delete (vector as VectorWrite).metadataJson;
    const { metadata } = vector;
    if (metadata === null || metadata === undefined) return;
    const { depth, hasNumber } = measure(metadata);
    if (depth > limits.metadataDepthMax)
      throw tooDeep(at === "body" ? "metadata" : `vectors[${index}].metadata`);
    numbers ||= hasNumber;
  });
  if (!numbers) return vectors;
  const spans = metadataSpans(text, at);
  vectors.forEach((vector, index) => {
    const span = spans[index];
    if (span === undefined || vector.metadata === null || vector.metadata === undefined) return;
    const exact = exactJson(text.slice(span.start, span.end));
    if (exact !== undefined) (vector as VectorWrite).metadataJson = exact;
  });
  return vectors;
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

/** Depth (1 for a flat object; counting stops one above the limit) and whether there is a number anywhere. */
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

/** JSON text with all numbers as in `text`; undefined when plain re-serialising gives the same. */
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

const QUOTE = 0x22;
const COMMA = 0x2c;
const OPEN_BRACKET = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const isBlank = (code: number) => code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;

/**
 * Spans of the values of `metadata`, by position of the record. `text` is valid JSON of the right shape. Of keys that
 * occur twice the last counts, as in `JSON.parse`.
 */
export function metadataSpans(text: string, at: RecordsAt): (Span | undefined)[] {
  let spans: (Span | undefined)[] = [];
  const root = afterBlanks(text, 0);
  if (at === "body") return [metadataOf(text, root).span];
  members(text, root, (key, start) => {
    if (key !== "vectors") return pastValue(text, start);
    spans = [];
    if (text.charCodeAt(start) !== OPEN_BRACKET) return pastValue(text, start);
    let position = afterBlanks(text, start + 1);
    while (text.charCodeAt(position) !== CLOSE_BRACKET) {
      const { span, end } = metadataOf(text, position);
      spans.push(span);
      position = afterBlanks(text, end);
      if (text.charCodeAt(position) === COMMA) position = afterBlanks(text, position + 1);
    }
    return position + 1;
  });
  return spans;
}

/** Span of `metadata` in the object that starts at `position`, and the end of that object. */
function metadataOf(text: string, position: number): { span: Span | undefined; end: number } {
  if (text.charCodeAt(position) !== OPEN_BRACE) return { span: undefined, end: pastValue(text, position) };
  let span: Span | undefined;
  const end = members(text, position, (key, start) => {
    const valueEnd = pastValue(text, start);
    if (key === "metadata") span = { start, end: valueEnd };
    return valueEnd;
  });
  return { span, end };
}

/**
 * Calls `visit` for each member of the object that starts at `position`, with the key and the start of the value;
 * it returns the end of the value. Returns the end of the object.
 */
function members(text: string, position: number, visit: (key: string, start: number) => number): number {
  position = afterBlanks(text, position + 1);
  while (text.charCodeAt(position) !== CLOSE_BRACE) {
    const keyEnd = pastString(text, position);
    const raw = text.slice(position + 1, keyEnd - 1);
    const key = raw.includes("\\") ? (JSON.parse(`"${raw}"`) as string) : raw;
    const colon = afterBlanks(text, keyEnd);
    position = afterBlanks(text, visit(key, afterBlanks(text, colon + 1)));
    if (text.charCodeAt(position) === COMMA) position = afterBlanks(text, position + 1);
  }
  return position + 1;
}

function afterBlanks(text: string, position: number): number {
  while (isBlank(text.charCodeAt(position))) position++;
  return position;
}

/** End of the value that starts at `position`. Nesting is counted, not recursed into. */
function pastValue(text: string, position: number): number {
  const first = text.charCodeAt(position);
  if (first === QUOTE) return pastString(text, position);
  if (first !== OPEN_BRACE && first !== OPEN_BRACKET) return pastScalar(text, position);
  let depth = 0;
  for (;;) {
    const code = text.charCodeAt(position);
    if (code === QUOTE) {
      position = pastString(text, position);
      continue;
    }
    if (code === OPEN_BRACE || code === OPEN_BRACKET) depth++;
    else if (code === CLOSE_BRACE || code === CLOSE_BRACKET) depth--;
    position++;
    if (depth === 0) return position;
  }
}

function pastScalar(text: string, position: number): number {
  for (; position < text.length; position++) {
    const code = text.charCodeAt(position);
    if (code === COMMA || code === CLOSE_BRACE || code === CLOSE_BRACKET || isBlank(code)) break;
  }
  return position;
}

/** A quote ends the string unless an odd number of backslashes stands before it. */
function pastString(text: string, position: number): number {
  for (let quote = position; ; ) {
    quote = text.indexOf('"', quote + 1);
    let slashes = 0;
    while (text.charCodeAt(quote - 1 - slashes) === BACKSLASH) slashes++;
    if (slashes % 2 === 0) return quote + 1;
  }
}
