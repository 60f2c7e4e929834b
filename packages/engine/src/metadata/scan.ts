// Which values does a record's metadata have at some fields?
//
// Metadata is stored as the JSON text that was written, and that text is all that is stored. One pass over its bytes finds the values of
// all wanted fields: it compares keys as bytes, skips every other value without decoding it, decodes a string or a number only if somebody
// asks for it, and ends when all wanted keys were found. This takes a fraction of the time of JSON.parse, which makes objects of everything
// (docs/decisions/filters.md).
//
// The text comes from JSON.stringify, so a key is never repeated.

import { lenientText, utf8 } from "../base/bytes.ts";
import { invariant } from "../base/invariant.ts";
import type { Field } from "./field.ts";

export type ValueType = "string" | "number" | "boolean" | "object";

/** A value that a scan has found. Borrowed: it changes with the next one. */
export interface FoundValue {
  readonly type: ValueType;
  /** The value of a number, as a 64-bit float. */
  readonly number: number;
  /** The value of a boolean. */
  readonly boolean: boolean;
  /** The value of a string. */
  readonly text: string;
  /** Whether a string is `text`, whose UTF-8 is `bytes`. */
  isText(text: string, bytes: Uint8Array): boolean;
}

/** No text has it in UTF-8. */
const noText = Uint8Array.of(0xff);

/** The bytes that `FoundValue.isText` compares: half of a character has none, and as UTF-8 it would be another one. */
export const bytesOfText = (text: string): Uint8Array => (text.isWellFormed() ? utf8(text) : noText);

/** A key on the way to wanted fields. */
type Node = {
  /** The wanted fields that end here. */
  readonly fields: number[];
  readonly keys: { readonly text: string; readonly bytes: Uint8Array; readonly node: Node }[];
};

const quote = 0x22;
const comma = 0x2c;
const minus = 0x2d;
const point = 0x2e;
const zero = 0x30;
const nine = 0x39;
const openBracket = 0x5b;
const backslash = 0x5c;
const closeBracket = 0x5d;
const letterF = 0x66;
const letterN = 0x6e;
const letterT = 0x74;
const openBrace = 0x7b;
const closeBrace = 0x7d;

/** Finds the values of some fields, in one record after the other. */
export class MetadataScanner implements FoundValue {
  readonly #root: Node = { fields: [], keys: [] };
  #bytes: Uint8Array = new Uint8Array(0);
  /** The next byte. */
  #at = 0;
  #visit: (field: number, value: FoundValue) => void = () => {};
  /** The value that was found: its type, and where its text is, without quotes. */
  type: ValueType = "object";
  boolean = false;
  #from = 0;
  #to = 0;
  /** Whether the string that was read last has a backslash. */
  #isEscaped = false;

  /** @param fields of the metadata; `visit` gets their positions */
  constructor(fields: readonly Field[]) {
    for (const [position, { keys }] of fields.entries()) {
      let node = this.#root;
      for (const text of keys) {
        let next = node.keys.find((key) => key.text === text)?.node;
        if (next === undefined) {
          next = { fields: [], keys: [] };
          node.keys.push({ text, bytes: bytesOfText(text), node: next });
        }
        node = next;
      }
      node.fields.push(position);
    }
  }

  /**
   * Calls `visit` with each value of each field, in the order of the text: strings, numbers, booleans and objects. Neither null nor an
   * array is a value; an array's elements are.
   * @param metadata JSON text of an object, in UTF-8
   */
  scan(metadata: Uint8Array, visit: (field: number, value: FoundValue) => void): void {
    this.#bytes = metadata;
    this.#at = 0;
    this.#visit = visit;
    this.#blanks();
    this.#members(this.#root);
  }

  get number(): number {
    return numberAt(this.#bytes, this.#from, this.#to);
  }

  get text(): string {
    return this.#isEscaped
      ? (JSON.parse(lenientText(this.#bytes.subarray(this.#from - 1, this.#to + 1))) as string)
      : shortText(this.#bytes, this.#from, this.#to);
  }

  isText(text: string, bytes: Uint8Array): boolean {
    return this.#isEscaped ? this.text === text : this.#hasBytes(bytes);
  }

  /** Whether the text that was found is these bytes. */
  #hasBytes(bytes: Uint8Array): boolean {
    const from = this.#from;
    if (bytes.length !== this.#to - from) return false;
    for (let i = 0; i < bytes.length; i++) if (this.#bytes[from + i] !== bytes[i]) return false;
    return true;
  }

  #blanks(): void {
    while (isBlank(this.#bytes[this.#at])) this.#at++;
  }

  /** Passes the members of the object that begins here, until all keys of the node were found. */
  #members(node: Node): void {
    let wanted = node.keys.length;
    this.#at++;
    this.#blanks();
    while (this.#bytes[this.#at] !== closeBrace) {
      const inside = this.#key(node);
      this.#blanks();
      // The colon.
      this.#at++;
      this.#blanks();
      if (inside === null) this.#skip();
      else {
        this.#value(inside);
        if (--wanted === 0 && node === this.#root) return;
      }
      this.#afterItem();
    }
    this.#at++;
  }

  /** Passes a comma, and blanks. */
  #afterItem(): void {
    this.#blanks();
    if (this.#bytes[this.#at] !== comma) return;
    this.#at++;
    this.#blanks();
  }

  /** Passes a key. @returns where it leads; null: to nothing that is wanted */
  #key(node: Node): Node | null {
    this.#string();
    for (const key of node.keys) if (this.isText(key.text, key.bytes)) return key.node;
    return null;
  }

  /** Passes a value, and visits what is wanted of it. */
  #value(node: Node): void {
    switch (this.#bytes[this.#at]) {
      case openBracket:
        this.#at++;
        this.#blanks();
        while (this.#bytes[this.#at] !== closeBracket) {
          this.#value(node);
          this.#afterItem();
        }
        this.#at++;
        return;
      case openBrace:
        this.#found(node, "object");
        if (node.keys.length === 0) this.#skip();
        else this.#members(node);
        return;
      case quote:
        this.#string();
        this.#found(node, "string");
        return;
      case letterN:
        this.#at += 4;
        return;
      case letterT:
      case letterF:
        this.boolean = this.#bytes[this.#at] === letterT;
        this.#at += this.boolean ? 4 : 5;
        this.#found(node, "boolean");
        return;
      default:
        this.#from = this.#at;
        this.#scalar();
        this.#to = this.#at;
        this.#found(node, "number");
    }
  }

  #found(node: Node, type: ValueType): void {
    this.type = type;
    for (const field of node.fields) this.#visit(field, this);
  }

  /** Passes a string, and notes where it is. */
  #string(): void {
    const bytes = this.#bytes;
    let at = this.#at + 1;
    this.#from = at;
    this.#isEscaped = false;
    for (;;) {
      const byte = bytes[at];
      if (byte === quote) break;
      if (byte === backslash) {
        this.#isEscaped = true;
        at++;
      } else if (byte === undefined) this.#cutShort();
      at++;
    }
    this.#to = at;
    this.#at = at + 1;
  }

  /** Passes a number, or a word. */
  #scalar(): void {
    const bytes = this.#bytes;
    let at = this.#at;
    for (; at < bytes.length; at++) {
      const byte = bytes[at];
      if (byte === comma || byte === closeBrace || byte === closeBracket || isBlank(byte)) break;
    }
    if (at === this.#at) this.#cutShort();
    this.#at = at;
  }

  #cutShort(): never {
    invariant(false, () => `metadata of ${this.#bytes.length} bytes is no JSON object at byte ${this.#at}`);
  }

  /** Passes a value that nobody wants. */
  #skip(): void {
    const bytes = this.#bytes;
    const first = bytes[this.#at];
    if (first === quote) this.#string();
    else if (first === openBrace || first === openBracket) this.#skipInside();
    else this.#scalar();
  }

  /** Passes an object or an array. */
  #skipInside(): void {
    const bytes = this.#bytes;
    let depth = 0;
    do {
      const byte = bytes[this.#at];
      if (byte === quote) {
        this.#string();
        continue;
      }
      if (byte === openBrace || byte === openBracket) depth++;
      else if (byte === closeBrace || byte === closeBracket) depth--;
      else if (byte === undefined) this.#cutShort();
      this.#at++;
    } while (depth > 0);
  }
}

const isBlank = (byte: number): boolean =>
  byte <= 0x20 && (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09);

/** Longer texts, and those that are not ASCII, are decoded by the system, whose call costs as much as these characters. */
const shortLength = 24;

function shortText(bytes: Uint8Array, from: number, to: number): string {
  if (to - from > shortLength) return lenientText(bytes.subarray(from, to));
  let text = "";
  for (let i = from; i < to; i++) {
    if (bytes[i] >= 0x80) return lenientText(bytes.subarray(from, to));
    text += String.fromCharCode(bytes[i]);
  }
  return text;
}

/** Powers of ten that are 64-bit floats. */
const powersOfTen = Array.from({ length: 23 }, (_, exponent) => Number(`1e${exponent}`));

/**
 * The number that a JSON text says. Up to 15 digits without an exponent are a quotient of two floats that are exact, and so rounded
 * correctly (Clinger, How to read floating point numbers accurately, 1990); others are read by the system.
 */
function numberAt(bytes: Uint8Array, from: number, to: number): number {
  let digits = 0;
  let decimals = -1;
  let count = 0;
  let at = bytes[from] === minus ? from + 1 : from;
  for (; at < to; at++) {
    const byte = bytes[at];
    if (byte >= zero && byte <= nine) {
      digits = 10 * digits + (byte - zero);
      count++;
      if (decimals >= 0) decimals++;
    } else if (byte === point) decimals = 0;
    else break;
  }
  if (at < to || count > 15) return Number(lenientText(bytes.subarray(from, to)));
  const value = decimals > 0 ? digits / powersOfTen[decimals] : digits;
  return bytes[from] === minus ? -value : value;
}
