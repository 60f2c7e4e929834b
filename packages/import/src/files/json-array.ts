// Where does each item of a JSON array begin and end?
//
//   [ item , item , item ]
//
// The array is never held as a whole: the bytes of an item are found by counting brackets outside of strings, and its text is parsed like a
// line of JSON Lines. A fault inside of an item rejects the item; one between items ends the import, since nothing behind it can be trusted.

import { countOf } from "../place.ts";
import { fileFault } from "./faults.ts";
import type { ReadFrom } from "./item.ts";
import { byteOrderMark, keptOfLongBytes, type Line, lineFeed } from "./lines.ts";

/** What may come next: the array; an item or its end; a comma or its end; an item; nothing. */
type Expected = "array" | "first" | "comma" | "item" | "nothing";

const words: Readonly<Record<Expected, string>> = {
  array: "a JSON array",
  first: "an item or ]",
  comma: "a comma or ]",
  item: "an item",
  nothing: "nothing more",
};

const byteOf = (character: string): number => character.charCodeAt(0);
const [open, close, openBrace, closeBrace, quote, backslash, comma] = [...'[]{}"\\,'].map(byteOf);
const isBlank = (byte: number): boolean => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;

/**
 * Yields the items that end in each chunk, as lines with numbers from 1. `end` is the offset just behind an item, from where reading resumes.
 * @param path for messages
 * @param bytesMax a longer item is yielded without its bytes, and is never held in memory
 * @throws QuiverError source_failed if the content is not one array
 */
export async function* splitArray(
  chunks: AsyncIterable<Buffer>,
  from: ReadFrom,
  path: string,
  bytesMax: number,
): AsyncGenerator<Line[]> {
  const scanner = new Scanner(from, path, bytesMax);
  for await (const chunk of chunks) {
    const items = scanner.scan(chunk);
    if (items.length > 0) yield items;
  }
  scanner.end();
}

/** An item that is being read: the brackets that are open, and where in a string it is. */
type Item = { depth: number; inString: boolean; isEscaped: boolean };

class Scanner {
  readonly #path: string;
  readonly #bytesMax: number;
  /** Of the next byte. */
  #offset: number;
  #number: number;
  /** Of the next byte; undefined if the array is read on from where a state of an earlier release says. */
  #line: number | undefined;
  /** Of the item. */
  #firstLine: number | undefined;
  #expected: Expected;
  /** Null: between items. */
  #item: Item | null = null;
  #parts: Buffer[] = [];
  #length = 0;

  constructor({ offset, number, line }: ReadFrom, path: string, bytesMax: number) {
    this.#offset = offset;
    this.#number = number;
    this.#line = offset === 0 ? 1 : line;
    this.#expected = offset === 0 ? "array" : "comma";
    this.#path = path;
    this.#bytesMax = bytesMax;
  }

  scan(chunk: Buffer): Line[] {
    const items: Line[] = [];
    let begin = 0;
    for (let at = 0; at < chunk.length; at++, this.#offset++) {
      const byte = chunk[at];
      if (this.#item === null) {
        if (!this.#between(byte)) continue;
        begin = at;
        this.#firstLine = this.#line;
        this.#item = { depth: 0, inString: false, isEscaped: false };
      }
      const ends = this.#within(this.#item, byte);
      if (ends === undefined) continue;
      // A number or a word ends before the byte that follows it.
      const behind = ends === "with" ? at + 1 : at;
      this.#keep(chunk.subarray(begin, behind));
      items.push(this.#take(this.#offset + (ends === "with" ? 1 : 0)));
      if (ends === "before") this.#between(byte);
    }
    if (this.#item !== null) this.#keep(chunk.subarray(begin));
    return items;
  }

  end(): void {
    if (this.#item === null && this.#expected === "nothing") return;
    throw fileFault(
      `${this.#place}: ends within its array, behind ${countOf(this.#number, "item")}. The file is truncated.`,
    );
  }

  /** The file, with the line that is being read. */
  get #place(): string {
    return this.#line === undefined ? this.#path : `${this.#path}:${this.#line}`;
  }

  /** A byte between items. @returns whether an item begins with it */
  #between(byte: number): boolean {
    if (byte === lineFeed) this.#countLine();
    if (isBlank(byte) || (this.#offset < 3 && byte === byteOrderMark[this.#offset])) return false;
    const isEnd = byte === close && (this.#expected === "first" || this.#expected === "comma");
    if (isEnd) this.#expected = "nothing";
    else if (byte === open && this.#expected === "array") this.#expected = "first";
    else if (byte === comma && this.#expected === "comma") this.#expected = "item";
    else if ((this.#expected === "first" || this.#expected === "item") && byte !== comma && byte !== close)
      return true;
    else
      throw fileFault(
        `${this.#place}, byte ${this.#offset + 1}, behind ${countOf(this.#number, "item")}: has ${JSON.stringify(String.fromCharCode(byte))}, expected ${words[this.#expected]}.`,
      );
    return false;
  }

  /** A byte of an item. @returns whether the item ends with this byte, or ended before it */
  #within(item: Item, byte: number): "with" | "before" | undefined {
    // The one behind a number or a word is no part of it.
    if (byte === lineFeed && (item.depth > 0 || item.inString)) this.#countLine();
    if (item.inString) {
      if (item.isEscaped) item.isEscaped = false;
      else if (byte === backslash) item.isEscaped = true;
      else if (byte === quote) {
        item.inString = false;
        return item.depth === 0 ? "with" : undefined;
      }
      return undefined;
    }
    if (byte === quote) item.inString = true;
    else if (byte === open || byte === openBrace) item.depth++;
    else if (item.depth === 0)
      return byte === comma || byte === close || isBlank(byte) ? "before" : undefined;
    else if (byte === close || byte === closeBrace) {
      item.depth--;
      return item.depth === 0 ? "with" : undefined;
    }
    return undefined;
  }

  #countLine(): void {
    if (this.#line !== undefined) this.#line++;
  }

  #keep(part: Buffer): void {
    this.#length += part.length;
    this.#parts.push(part);
    if (this.#length <= this.#bytesMax) return;
    this.#parts = [Buffer.from(Buffer.concat(this.#parts).subarray(0, keptOfLongBytes))];
  }

  #take(end: number): Line {
    const bytes = this.#parts.length === 1 ? this.#parts[0] : Buffer.concat(this.#parts);
    const [first, last] = [this.#firstLine, this.#line];
    const place = {
      number: ++this.#number,
      end,
      ...(first !== undefined && last !== undefined && { lines: { first, last } }),
    };
    const line: Line =
      this.#length > this.#bytesMax
        ? { ...place, bytes: undefined, start: bytes.subarray(0, keptOfLongBytes) }
        : { ...place, bytes };
    this.#parts = [];
    this.#length = 0;
    this.#item = null;
    this.#expected = "comma";
    return line;
  }
}
