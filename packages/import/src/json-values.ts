// Which records are in a JSON file, of whatever layout?
//
//   a document a line             parsed line by line, which is fast; a line that cannot be read is one fault, and the next one is read
//   an array of records           read as a stream, record by record; a fault ends the reading, since nothing behind it can be trusted
//   a page { ...: [records] }     the same; pages may follow each other
//
// The layout is that of the beginning of the file (`areLines`).

import { QuiverError } from "@quiverdb/client";
import { JSONParser, TokenType } from "@streamparser/json";
import { byteOrderMark, lineFeed, splitLines } from "./files/lines.ts";
import { RecordFault } from "./record-fault.ts";
import type { Source } from "./source.ts";

export type JsonObject = { readonly [name: string]: unknown };

/** Something of a file, or why there is nothing in its place. */
export type Found<Raw> = {
  readonly raw: Raw | RecordFault;
  /** On which it begins, or its row ends; from 1. */
  readonly line: number;
};

/** Where the records are in the answers and requests of a database, in the order in which these are looked for. */
export const exportPages = {
  qdrant: ["result.points", "points"],
  pinecone: ["vectors", "records", "matches"],
} as const;

/** The longest line that is looked at to find out whether the file is lines of JSON. */
const lineBytesMax = 16 * 1024 * 1024;
const utf8 = new TextDecoder("utf-8", { fatal: true });
const hasMark = (bytes: Uint8Array): boolean => byteOrderMark.every((byte, i) => bytes[i] === byte);

/**
 * The objects of a file: elements of its arrays, or the documents themselves.
 * @param pages paths of the arrays or maps of records in a document, such as `result.points`; documents without any are records
 * @throws QuiverError invalid_json with the line if the rest of the file cannot be read
 */
export async function* jsonObjects(
  source: Source,
  pages: readonly string[],
): AsyncGenerator<Found<JsonObject>> {
  const head = await beginning(source);
  // Blank lines are no records, and what ended the reading is thrown behind them.
  for await (const { raw, line } of head === "" || areLines(head)
    ? fromLines(source, pages)
    : streamed(source, head[0] === "[" ? [] : pages, head[0] === "["))
    yield { raw: asObject(raw), line };
}

function asObject(value: unknown): JsonObject | RecordFault {
  if (value instanceof RecordFault) return value;
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as JsonObject;
  return new RecordFault(`is ${JSON.stringify(value).slice(0, 100)}, expected an object`, "invalid_json");
}

/** As much of the file as says whether it is lines. */
async function beginning(source: Source): Promise<string> {
  for (let bytes = 64 * 1024; ; bytes *= 2) {
    const head = await source.head(bytes);
    const text = new TextDecoder().decode(head).trimStart();
    // The last line of what was read may be cut.
    const whole = linesOf(text).slice(0, -1);
    const isEnough = text.startsWith("[") || whole.length >= 2 || (whole.length === 1 && areLines(whole[0]));
    if (isEnough || head.length < bytes || bytes >= lineBytesMax) return text;
  }
}

const linesOf = (text: string): string[] => text.split("\n").filter((line) => line.trim() !== "");

/**
 * Whether a file has a document a line. It has if the first line is one; or if the first line is none, does not go on in the next one, and
 * that one is a document: then the first line is a faulty record.
 */
export function areLines(head: string): boolean {
  const [first = "", second = ""] = linesOf(head);
  if (first.startsWith("[")) return false;
  return parsed(first) !== undefined || (!/[[{,:]\s*$/.test(first) && parsed(second) !== undefined);
}

async function* fromLines(source: Source, pages: readonly string[]): AsyncGenerator<Found<unknown>> {
  for await (const lines of splitLines(source, { offset: 0, number: 0 }, Number.POSITIVE_INFINITY))
    for (const { bytes, number: line } of lines)
      for (const raw of recordsOf(bytes as Buffer, pages)) yield { raw, line };
}

function recordsOf(bytes: Uint8Array, pages: readonly string[]): readonly unknown[] {
  let text: string;
  try {
    text = utf8.decode(bytes);
  } catch {
    return [new RecordFault("is not UTF-8", "invalid_json")];
  }
  if (text.trim() === "") return [];
  try {
    return elementsOf(JSON.parse(text), pages);
  } catch (error) {
    return [new RecordFault(`is not JSON: ${faultOfJson(error)}`, "invalid_json")];
  }
}

/** What `JSON.parse` says of a text that is a line of a file: the line of the text would be taken for one of the file. */
export const faultOfJson = (error: unknown): string =>
  (error as Error).message.replace(/ at position \d+ \(line 1 column (\d+)\)$/, " at column $1");

/** The records of a document: those of its pages, or itself. */
export function elementsOf(document: unknown, pages: readonly string[]): readonly unknown[] {
  for (const page of pages) {
    let at: unknown = document;
    for (const name of page.split(".")) at = (at as JsonObject | null | undefined)?.[name];
    if (typeof at === "object" && at !== null) return Array.isArray(at) ? at : Object.values(at);
  }
  return [document];
}

async function* streamed(
  source: Source,
  pages: readonly string[],
  isArray: boolean,
): AsyncGenerator<Found<unknown>> {
  const paths = isArray ? ["$.*"] : ["$", ...pages.map((page) => `$.${page}.*`)];
  const parser = new JSONParser({ paths, keepStack: false, separator: "" });
  const place = new Place();
  const found: Found<unknown>[] = [];
  let isPage = false;
  let failure: Error | undefined;
  parser.onToken = ({ token, offset }) => place.pass(token, offset);
  parser.onError = (error) => {
    failure ??= error;
  };
  parser.onValue = ({ value, stack }) => {
    const isDocument = stack.length === 0;
    const line = place.begin(value);
    if (!isDocument || isArray) found.push({ raw: value, line });
    // A document whose records were emitted is no record itself.
    else if (!isPage) found.push(...elementsOf(value, pages).map((raw) => ({ raw, line })));
    isPage = !isDocument;
  };
  let record = 0;
  const taken = () => {
    record += found.length;
    return found.splice(0);
  };
  const invalid = (what: string) =>
    new QuiverError("invalid_json", `${source.at(place.line)}: ${what}: ${(failure as Error).message}.`, {
      record,
      line: place.line,
    });
  const characters = new TextDecoder("utf-8", { fatal: true });
  let isFirst = true;
  for await (const bytes of source) {
    // The first chunk is the whole beginning, and so has the whole mark.
    const chunk = isFirst && hasMark(bytes) ? bytes.subarray(byteOrderMark.length) : bytes;
    isFirst = false;
    place.enter(chunk);
    try {
      // The parser would put replacement characters in the place of what is no UTF-8.
      characters.decode(chunk, { stream: true });
      parser.write(chunk);
    } catch (error) {
      failure ??= error as Error;
    }
    yield* taken();
    if (failure !== undefined) {
      place.reach(/ chunk position "(\d+)"/.exec(failure.message)?.[1]);
      throw invalid("is not JSON");
    }
  }
  place.enter(new Uint8Array());
  if (!parser.isEnded) parser.end();
  yield* taken();
  if (failure !== undefined) throw invalid("is cut off");
}

/** On which lines values begin, while tokens pass by. */
class Place {
  /** Of the last token. */
  line = 1;
  /** Lines on which the brackets that are open, or were closed last, have opened. */
  readonly #opened: number[] = [];
  #depth = 0;
  #chunk: Uint8Array = new Uint8Array();
  /** Of the chunk, in the file. */
  #start = 0;
  /** Up to which line breaks are counted, in the file. */
  #counted = 0;

  enter(chunk: Uint8Array): void {
    this.#countTo(this.#start + this.#chunk.length);
    this.#start += this.#chunk.length;
    this.#chunk = chunk;
  }

  pass(token: TokenType, offset: number): void {
    this.#countTo(offset);
    if (token === TokenType.LEFT_BRACE || token === TokenType.LEFT_BRACKET)
      this.#opened[this.#depth++] = this.line;
    else if (token === TokenType.RIGHT_BRACE || token === TokenType.RIGHT_BRACKET) this.#depth--;
  }

  /** Goes on to a byte of the chunk, if the parser has told at which it ended. */
  reach(position: string | undefined): void {
    if (position !== undefined) this.#countTo(this.#start + Number(position));
  }

  /** The first line of a value that the last token has completed. */
  begin(value: unknown): number {
    return typeof value === "object" && value !== null ? this.#opened[this.#depth] : this.line;
  }

  #countTo(offset: number): void {
    const end = Math.min(offset, this.#start + this.#chunk.length);
    for (; this.#counted < end; this.#counted++)
      if (this.#chunk[this.#counted - this.#start] === lineFeed) this.line++;
  }
}

/** The value of a JSON text; undefined if it is none. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
