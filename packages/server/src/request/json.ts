// How is a JSON body parsed, and where exactly is an invalid one wrong?
//
// `JSON.parse` uses its own stack for nested values, so depth cannot exhaust the thread's stack. It treats `__proto__` and `constructor` as
// ordinary keys, and if a key occurs twice, it keeps the last value.

import { isAscii, isUtf8 } from "node:buffer";
import type { Steps } from "@quiverdb/engine/database/contract";
import { QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import type { FloatArena } from "./float-arena.ts";
import { NotJson, parseInPieces, type RecordSpans } from "./large-json.ts";
import { parseWithFloats } from "./number-list.ts";
import { RecordFloats } from "./record-floats.ts";

/** What a body in MessagePack has that JSON values cannot say, by the position of the record. */
export type BinaryParts = {
  /** The exact JSON text of metadata, if it is not what JSON.stringify writes. */
  readonly metadata: ReadonlyMap<number, string>;
};

/** A parsed body and its source. */
export type ParsedBody = {
  readonly value: unknown;
  readonly bytes: Buffer;
  /** The start and end of each of its "vectors" in bytes, of a large body or one of many records. Undefined for a small body. */
  readonly spans: RecordSpans | undefined;
  /** Dense vectors of records, by position, that are floats already: the records have an empty list in their place. */
  readonly floats?: ReadonlyMap<number, Float32Array>;
  /** Where they lie. */
  readonly arena?: FloatArena;
  /** Present if the body is MessagePack. */
  readonly binary?: BinaryParts;
  /** The field that was read as an array of floats, if one was (number-list.ts). */
  readonly floatsField?: string | undefined;
};

/** Bytes that are validated as UTF-8 in one step. */
const utf8PieceBytes = 1024 * 1024;

/**
 * Parses a body; only a large one takes more than one step.
 * @param floatsField a field that may have many numbers, which may be read as floats
 * @throws invalid_json with line, column and position
 */
export function* parseBody(bytes: Buffer, floatsField?: string): Steps<ParsedBody> {
  const read = floatsField === undefined ? undefined : parseWithFloats(bytes, floatsField);
  if (read !== undefined) return { bytes, value: read, spans: undefined, floatsField };
  const isSmall = bytes.length <= limits.bodyPieceBytes;
  // Text of only ASCII, as most small bodies are, is copied and not decoded.
  const isSimple = isSmall && isAscii(bytes);
  if (!isSimple) yield* assertUtf8(bytes);
  try {
    if (!isSmall) return { bytes, ...(yield* parseInPieces(bytes)) };
    if (bytes.includes(recordsField)) return parseSmallRecords(bytes);
    return { bytes, value: JSON.parse(bytes.toString(isSimple ? "latin1" : "utf8")), spans: undefined };
  } catch (error) {
    if (!(error instanceof SyntaxError || error instanceof NotJson)) throw error;
    throw yield* notJson(bytes.toString("utf8"));
  }
}

const recordsField = '"vectors"';

function parseSmallRecords(bytes: Buffer): ParsedBody {
  const records = new RecordFloats();
  const recordsOf = (value: unknown) => (value as { vectors?: unknown } | null)?.vectors;
  const value = records.parse(bytes, recordsOf, 0);
  return { bytes, value, spans: undefined, floats: records.floats, arena: records.arena };
}

/**
 * Parses lines of JSON, each of them a record: the same as `{"vectors": [...]}` with the records of all lines. Blank lines are skipped.
 * @throws invalid_json with line, column, position, and the record's path
 */
export function* parseLines(bytes: Buffer): Steps<ParsedBody> {
  yield* assertUtf8(bytes);
  const vectors: unknown[] = [];
  const spans: RecordSpans = [];
  const records = new RecordFloats();
  let steppedAt = 0;
  for (let from = 0; from < bytes.length; ) {
    const newline = bytes.indexOf(lineFeed, from);
    const end = newline < 0 ? bytes.length : newline;
    const line = bytes.subarray(from, end);
    if (!isBlank(line)) {
      vectors.push(yield* parseLine(bytes, from, end, vectors.length, records));
      spans.push(from, end);
    }
    from = end + 1;
    if (from - steppedAt < limits.bodyPieceBytes) continue;
    steppedAt = from;
    yield;
  }
  return { bytes, value: { vectors }, spans, floats: records.floats, arena: records.arena };
}

function* parseLine(
  bytes: Buffer,
  from: number,
  end: number,
  index: number,
  records: RecordFloats,
): Steps<unknown> {
  try {
    if (end - from > limits.bodyPieceBytes) return (yield* parseInPieces(bytes.subarray(from, end))).value;
    return records.parse(bytes.subarray(from, end), (record) => [record], index);
  } catch (error) {
    if (!(error instanceof SyntaxError || error instanceof NotJson)) throw error;
    throw yield* notJson(bytes.toString("utf8", from, end), bytes.toString("utf8", 0, from), index);
  }
}

const lineFeed = 0x0a;

/** Whether a line has no character but blanks. */
function isBlank(line: Buffer): boolean {
  for (const byte of line) if (byte !== 0x20 && byte !== 0x09 && byte !== 0x0d) return false;
  return true;
}

/** The text of a body, whole. */
export const textOf = ({ bytes }: ParsedBody): string => bytes.toString("utf8");

function* assertUtf8(bytes: Buffer): Steps<void> {
  for (let from = 0; from < bytes.length; ) {
    let to = Math.min(bytes.length, from + utf8PieceBytes);
    // A character is not split: its continuation bytes belong to the previous piece.
    for (let back = 0; to < bytes.length && back < 3 && (bytes[to] & 0xc0) === 0x80; back++) to--;
    const piece = bytes.subarray(from, to);
    if (!isUtf8(piece)) {
      const offset = from + invalidUtf8Offset(piece);
      throw new QuiverError(
        "invalid_json",
        `The request body is not UTF-8: the bytes at offset ${offset} are not a valid character. Send JSON encoded as UTF-8.`,
        { byte_offset: offset },
      );
    }
    from = to;
    if (from < bytes.length) yield;
  }
}

const linesPerStep = 16 * 1024;

/**
 * @param before the text before, if `text` is one of several lines
 * @param index of the record that the line is
 */
function* notJson(rest: string, before = "", index?: number): Steps<QuiverError> {
  const fault = yield* firstFault(rest);
  const position = before.length + (fault?.position ?? rest.length);
  const expected = fault?.expected ?? "a JSON value";
  const text = before + rest;
  let line = 1;
  let lineBegin = 0;
  for (let end = text.indexOf("\n"); end >= 0 && end < position; end = text.indexOf("\n", lineBegin)) {
    line++;
    lineBegin = end + 1;
    if (line % linesPerStep === 0) yield;
  }
  const column = position - lineBegin + 1;
  const [what, place] = index === undefined ? ["body", ""] : ["line", ` (vectors[${index}])`];
  const found = position >= text.length ? `the ${what} ends` : `there is ${shown(text, position)}`;
  return new QuiverError(
    "invalid_json",
    `The request body is not JSON: at line ${line}${place}, column ${column} ${found}, expected ${expected}. ` +
      "Correct the body and send it again.",
    { position, line, column, ...(index !== undefined && { path: `vectors[${index}]` }) },
  );
}

/** One character, never more of a body than that. */
function shown(text: string, position: number): string {
  const code = text.codePointAt(position) ?? 0;
  const printable = code > 0x20 && (code < 0x7f || code > 0x9f) && !(code >= 0xd800 && code <= 0xdfff);
  return printable && code !== 0xfeff
    ? `"${String.fromCodePoint(code)}"`
    : `the character U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}

/** Offset of the first byte that is not part of valid UTF-8, found by halving: a prefix of valid text is valid. */
function invalidUtf8Offset(bytes: Buffer): number {
  let good = 0;
  let bad = bytes.length;
  while (good < bad) {
    const middle = (good + bad + 1) >>> 1;
    if (validPrefix(bytes, middle)) good = middle;
    else bad = middle - 1;
  }
  // `good` may lie inside a character whose first bytes are valid; the offset of its first byte is reported.
  while (good > 0 && !isUtf8(bytes.subarray(0, good))) good--;
  return good;
}

/** True if the first `length` bytes are valid, or would be with more bytes after them. */
function validPrefix(bytes: Buffer, length: number): boolean {
  for (let cut = 0; cut <= 3 && cut <= length; cut++) {
    if (!isUtf8(bytes.subarray(0, length - cut))) continue;
    return cut === 0 || beginsCharacter(bytes.subarray(length - cut, length));
  }
  return false;
}

/** True if one to three bytes can be completed to a character. */
function beginsCharacter(bytes: Buffer): boolean {
  const missing = [];
  for (let count = 1; count <= 3; count++) {
    for (const filler of [0x80, 0x90, 0xa0, 0xbf]) missing.push(Buffer.alloc(count, filler));
  }
  return missing.some((rest) => isUtf8(Buffer.concat([bytes, rest])));
}

const literals = ["true", "false", "null"];
const numberPattern = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;

type Fault = { readonly position: number; readonly expected: string };

/** Characters that are read at a step. */
const charactersPerStep = 16 * 1024;

/** Finds the first violation of the grammar of RFC 8259. Only used for texts that `JSON.parse` rejected. */
function* firstFault(text: string): Steps<Fault | undefined> {
  let pauseAt = charactersPerStep;
  const closers: string[] = [];
  let at = 0;
  const fault = (expected: string, position = at) => ({ position, expected });
  /** Lets other tasks run if much was read since the last pause. */
  function* pause(): Steps<void> {
    if (at < pauseAt) return;
    yield;
    pauseAt = at + charactersPerStep;
  }
  function* skipBlanks(): Steps<void> {
    for (; at < text.length && " \t\n\r".includes(text[at]); at++) if (at >= pauseAt) yield* pause();
  }
  /** Skips a string; returns its fault, or undefined. */
  function* passString(): Steps<Fault | undefined> {
    if (text[at] !== '"') return fault("a string in double quotes");
    for (at++; text[at] !== '"'; at++) {
      if (at >= pauseAt) yield* pause();
      if (at >= text.length) return fault("the closing quote of a string");
      if (text.charCodeAt(at) < 0x20)
        return fault("an escape such as \\n instead of a bare control character");
      if (text[at] !== "\\") continue;
      at++;
      if (text[at] === "u") {
        if (!/^[0-9a-fA-F]{4}$/.test(text.slice(at + 1, at + 5)))
          return fault("four hex digits after \\u", at + 1);
        at += 4;
      } else if (!'"\\/bfnrt'.includes(text[at] ?? " ")) return fault("a valid escape");
    }
    at++;
    return undefined;
  }
  function* passKey(): Steps<Fault | undefined> {
    yield* skipBlanks();
    const wrong = yield* passString();
    if (wrong) return wrong;
    yield* skipBlanks();
    if (text[at] !== ":") return fault('":" after a key');
    at++;
    return undefined;
  }

  for (;;) {
    yield* pause();
    // A value is expected.
    yield* skipBlanks();
    const first = text[at];
    let opened = false;
    if (first === "{" || first === "[") {
      at++;
      yield* skipBlanks();
      const closer = first === "{" ? "}" : "]";
      if (text[at] === closer) at++;
      else {
        closers.push(closer);
        opened = true;
        if (first === "{") {
          const wrong = yield* passKey();
          if (wrong) return wrong;
        }
      }
    } else if (first === '"') {
      const wrong = yield* passString();
      if (wrong) return wrong;
    } else {
      const literal = literals.find((word) => text.startsWith(word, at));
      numberPattern.lastIndex = at;
      const number = literal === undefined ? numberPattern.exec(text)?.[0] : undefined;
      if (literal === undefined && number === undefined) return fault("a JSON value");
      at += (literal ?? number ?? "").length;
    }
    if (opened) continue;
    // A value is complete: a comma introduces the next one, closing brackets end open containers.
    for (;;) {
      yield* skipBlanks();
      const closer = closers.at(-1);
      if (closer === undefined) return at < text.length ? fault("the end of the body") : undefined;
      if (text[at] === closer) {
        closers.pop();
        at++;
        continue;
      }
      if (text[at] !== ",") return fault(`"," or "${closer}"`);
      at++;
      if (closer === "}") {
        const wrong = yield* passKey();
        if (wrong) return wrong;
      }
      break;
    }
  }
}
