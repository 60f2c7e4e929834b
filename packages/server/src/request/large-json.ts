// How is a large body parsed without blocking the thread?
//
// `JSON.parse` cannot pause, and takes half a second for 64 MiB. So a large body is parsed in pieces, between which other tasks run. A
// value, or a run of array items, that ends within a piece is parsed by `JSON.parse` as a whole; a larger container is opened, and its
// parts are handled in the same way. The result is that of `JSON.parse`: every piece goes through it, and the brackets, commas and colons
// between pieces are checked here. If either finds a fault, the caller locates it in the whole text (json.ts).
//
//   {"vectors":[ {...},{...},{...} , {...},{...} , ... ],"x":1}
//   ^open      ^open  one piece       one piece          ^piece
//
// Only containers larger than a piece are opened, so there are few of them. Nesting deeper than `openMax` is an attack rather than data:
// the innermost container is then parsed at once if it is small enough, and rejected otherwise.
//
// The positions of the items of the array "vectors" are recorded, because exact metadata is extracted from their bytes (exact-metadata.ts);
// and their vectors are read as floats (record-floats.ts).

import type { Steps } from "@quiverdb/engine/database/contract";
import { QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import { RecordFloats } from "./record-floats.ts";

const quoteMark = 0x22;
const comma = 0x2c;
const colon = 0x3a;
const openBracket = 0x5b;
const backslash = 0x5c;
const closeBracket = 0x5d;
const openBrace = 0x7b;
const closeBrace = 0x7d;

const openMax = 256;
const deepBytesMax = 4 * 1024 * 1024;

/** The text is not JSON; the position is found elsewhere. */
export class NotJson extends Error {}

/** Start and end of each record of a body, in bytes. */
export type RecordSpans = number[];

type Frame =
  | { readonly kind: "array"; readonly value: unknown[]; readonly spans: RecordSpans | undefined }
  | { readonly kind: "object"; readonly value: object; key: string };

/**
 * The value of a body.
 * @param bytes valid UTF-8
 * @throws NotJson; QuiverError for excessive nesting
 */
export function* parseInPieces(
  bytes: Buffer,
): Steps<Pick<RecordFloats, "floats" | "arena"> & { value: unknown; spans: RecordSpans }> {
  const records = new RecordFloats();
  const scanner = new Scanner(bytes);
  let spans: RecordSpans = [];
  const frames: Frame[] = [];
  let at = scanner.afterBlanks(0);
  let root: unknown;
  let begin = at;

  /** Adds a value to the innermost open container. */
  const put = (value: unknown): void => {
    const frame = frames.at(-1);
    if (frame === undefined) root = value;
    else if (frame.kind === "array") frame.value.push(value);
    else define(frame.value, frame.key, value);
  };
  /** Consumes what follows a value. @returns whether another part of the container follows */
  const passSeparator = (): boolean => {
    at = scanner.afterBlanks(at);
    const frame = frames.at(-1) as Frame;
    const closer = frame.kind === "array" ? closeBracket : closeBrace;
    if (bytes[at] === closer) {
      at++;
      return false;
    }
    if (bytes[at] !== comma) throw new NotJson();
    at = scanner.afterBlanks(at + 1);
    return true;
  };
  const readKey = (frame: Frame & { kind: "object" }): void => {
    if (bytes[at] !== quoteMark) throw new NotJson();
    const end = scanner.pastString(at);
    frame.key = parsePiece(bytes, at, end) as string;
    at = scanner.afterBlanks(end);
    if (bytes[at] !== colon) throw new NotJson();
    at = scanner.afterBlanks(at + 1);
  };

  for (;;) {
    yield;
    // A value, or a run of items, begins at `at`.
    const top = frames.at(-1);
    let isOpened = false;
    const run = top?.kind === "array" ? scanner.pastItems(at, top.spans) : -1;
    if (top?.kind === "array" && run > at) {
      const piece = bytes.subarray(at, run);
      const items = orNotJson(() =>
        top.spans === undefined
          ? JSON.parse(`[${piece.toString()}]`)
          : records.parse(piece, (value) => value, top.value.length, "[", "]"),
      ) as unknown[];
      for (const item of items) top.value.push(item);
      at = run;
    } else {
      const end = scanner.pastValue(at, limits.bodyPieceBytes);
      const first = bytes[at];
      const isContainer = first === openBrace || first === openBracket;
      if (end < 0 && isContainer && frames.length < openMax) {
        if (top?.kind === "array") top.spans?.push(at);
        const isRecords = frames.length === 1 && top?.kind === "object" && top.key === "vectors";
        if (isRecords) spans = [];
        begin = at;
        at = scanner.afterBlanks(at + 1);
        const isArray = first === openBracket;
        if (bytes[at] === (isArray ? closeBracket : closeBrace)) {
          // Only white space remains.
          at++;
          if (top?.kind === "array") top.spans?.push(at);
          put(isArray ? [] : {});
        } else {
          isOpened = true;
          if (isArray) frames.push({ kind: "array", value: [], spans: isRecords ? spans : undefined });
          else {
            const frame: Frame = { kind: "object", value: {}, key: "" };
            frames.push(frame);
            readKey(frame);
          }
        }
      } else {
        const to = end >= 0 ? end : yield* scanner.pastLong(at);
        if (isContainer && to - at > deepBytesMax) throw tooDeep(begin);
        if (top?.kind === "array") top.spans?.push(at, to);
        put(parsePiece(bytes, at, to));
        at = to;
      }
    }
    if (isOpened) continue;
    for (;;) {
      const frame = frames.at(-1);
      if (frame === undefined) {
        if (scanner.afterBlanks(at) < bytes.length) throw new NotJson();
        return { value: root, spans, floats: records.floats, arena: records.arena };
      }
      if (passSeparator()) {
        if (frame.kind === "object") readKey(frame);
        break;
      }
      frames.pop();
      const outer = frames.at(-1);
      if (outer?.kind === "array") outer.spans?.push(at);
      put(frame.value);
    }
  }
}

const parsePiece = (bytes: Buffer, from: number, to: number): unknown =>
  orNotJson(() => JSON.parse(bytes.toString("utf8", from, to)));

function orNotJson<T>(parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    if (error instanceof SyntaxError) throw new NotJson();
    throw error;
  }
}

/** As in `JSON.parse`: if a key occurs twice, the last one counts, and `__proto__` is an ordinary key. */
function define(object: object, key: string, value: unknown): void {
  Object.defineProperty(object, key, { value, writable: true, enumerable: true, configurable: true });
}

const tooDeep = (position: number) =>
  new QuiverError(
    "invalid_request",
    `The request body is nested more than ${openMax} levels deep at byte ${position}. Send flatter data; nothing was changed.`,
    { path: "body", expected: `at most ${openMax} levels`, byte_offset: position },
  );

/** Limit of consecutive white space, in bytes. */
const blanksMax = 1024 * 1024;

const tooBlank = (position: number) =>
  new QuiverError(
    "invalid_request",
    `The request body has more than ${blanksMax} bytes of white space in one place, at byte ${position}. Send it without; nothing was changed.`,
    { path: "body", byte_offset: position },
  );

/** Bytes of a run after which the end of its array is searched for natively: fifty times as fast, where the run goes on. */
const runLong = 32;

/** Finds the ends of values by brackets and quotes alone, without checking what is between them. */
class Scanner {
  readonly #bytes: Buffer;
  /** By byte: where it comes next after `from`. */
  readonly #nexts: Record<number, { from: number; at: number }> = Object.fromEntries(
    [quoteMark, openBracket, openBrace, closeBracket].map((byte) => [byte, { from: 0, at: -1 }]),
  );

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  afterBlanks(position: number): number {
    const bytes = this.#bytes;
    const stop = Math.min(bytes.length, position + blanksMax);
    let at = position;
    while (at < stop && isBlank(bytes[at])) at++;
    if (at === position + blanksMax) throw tooBlank(position);
    return at;
  }

  /** End of the string whose quote is at `position`. A quote ends it unless an odd number of backslashes stands before. */
  pastString(position: number): number {
    const bytes = this.#bytes;
    for (let quote = position; ; ) {
      quote = bytes.indexOf(quoteMark, quote + 1);
      if (quote < 0) throw new NotJson();
      let slashes = 0;
      while (bytes[quote - 1 - slashes] === backslash) slashes++;
      if (slashes % 2 === 0) return quote + 1;
    }
  }

  /** End of the value that begins at `position`; -1 where it does not end within `most` bytes. */
  pastValue(position: number, most: number): number {
    const bytes = this.#bytes;
    const stop = Math.min(bytes.length, position + most);
    let depth = 0;
    // Bytes in a row that are no bracket and no quote, of an array: a vector is a long run of them.
    let run = 0;
    for (let at = position; at < stop; ) {
      const byte = bytes[at];
      if (byte === quoteMark) {
        at = this.#stringEnd(at, stop);
        run = Number.NEGATIVE_INFINITY;
        if (at < 0) return -1;
      } else if (byte === openBrace || byte === openBracket) {
        depth++;
        at++;
        run = byte === openBracket ? 0 : Number.NEGATIVE_INFINITY;
        continue;
      } else if (byte === closeBrace || byte === closeBracket) {
        // The end of a number: the bracket or comma that follows it, or a fault.
        if (depth === 0) return at > position ? at : this.#fault();
        depth--;
        at++;
        run = Number.NEGATIVE_INFINITY;
      } else {
        if (depth === 0 && (byte === comma || isBlank(byte))) return at > position ? at : this.#fault();
        at++;
        if (++run === runLong) at = this.#flatEnd(at);
        continue;
      }
      if (depth === 0) return at;
    }
    // A number can also end at the end of the body.
    return depth === 0 && stop === bytes.length && stop > position ? stop : -1;
  }

  /** The end of the array that `position` is in, before its bracket; `position` itself if a string or container comes first. */
  #flatEnd(position: number): number {
    const end = this.#next(closeBracket, position);
    for (const inner of [quoteMark, openBracket, openBrace])
      if (this.#next(inner, position) < end) return position;
    return end === Number.POSITIVE_INFINITY ? position : end;
  }

  /** Where a byte comes next, from `position` on; Infinity where it does not. Found once for all positions up to there. */
  #next(byte: number, position: number): number {
    const { at, from } = this.#nexts[byte];
    if (from <= position && position <= at) return at;
    const found = this.#bytes.indexOf(byte, position);
    this.#nexts[byte] = { from: position, at: found < 0 ? Number.POSITIVE_INFINITY : found };
    return this.#nexts[byte].at;
  }

  /** End of the last item within the piece that begins at `position`; -1 if not even the first item ends in it. */
  pastItems(position: number, spans: RecordSpans | undefined): number {
    const bytes = this.#bytes;
    const stop = position + limits.bodyPieceBytes;
    let end = -1;
    for (let at = position; at < stop; ) {
      const to = this.pastValue(at, stop - at);
      if (to < 0) break;
      spans?.push(at, to);
      end = to;
      const behind = this.afterBlanks(to);
      if (bytes[behind] !== comma) break;
      at = this.afterBlanks(behind + 1);
    }
    return end;
  }

  /** End of a long string or number, or of a container that is not opened. */
  *pastLong(position: number): Steps<number> {
    const bytes = this.#bytes;
    let depth = 0;
    let pieceEnd = position + limits.bodyPieceBytes;
    for (let at = position; at < bytes.length; ) {
      if (at >= pieceEnd) {
        yield;
        pieceEnd = at + limits.bodyPieceBytes;
      }
      const byte = bytes[at];
      if (byte === quoteMark) at = this.pastString(at);
      else if (byte === openBrace || byte === openBracket) {
        depth++;
        at++;
        continue;
      } else if (byte === closeBrace || byte === closeBracket) {
        if (depth === 0) return at;
        depth--;
        at++;
      } else {
        if (depth === 0 && (byte === comma || isBlank(byte))) return at;
        at++;
        continue;
      }
      if (depth === 0) return at;
    }
    if (depth > 0) throw new NotJson();
    return bytes.length;
  }

  /** End of a string, or -1 where it does not end before `stop`. */
  #stringEnd(position: number, stop: number): number {
    const bytes = this.#bytes;
    for (let at = position + 1; at < stop; at++) {
      if (bytes[at] === backslash) at++;
      else if (bytes[at] === quoteMark) return at + 1;
    }
    return -1;
  }

  #fault(): never {
    throw new NotJson();
  }
}

const isBlank = (byte: number) => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
