// How are the vectors of many records read without arrays of their numbers?
//
//   {"id":"a","dense_values":[0.1,-0.25, ... ]},{"id":"b","dense_values":[ ... ]}
//                            ^--- the kernel ---^                        32-bit floats, straight from the bytes
//   {"id":"a","dense_values":"<mark>0"},{"id":"b","dense_values":"<mark>1"}            the rest, by JSON.parse
//
// As for a single vector (number-list.ts), nothing is assumed of the text around a list. The records that JSON.parse makes must have every
// mark, each in a `dense_values` of its own; otherwise the text is parsed as any other.

import { FloatArena } from "./float-arena.ts";
import { floatListReader, listBytesMax, listOf, mark } from "./number-list.ts";

const field = "dense_values";
const quotedField = `"${field}"`;
/** A shorter list is parsed as fast by JSON.parse. */
const listBytesMin = 128;

/** The vectors of the records of one body, by the position of the record. */
export class RecordFloats {
  readonly floats = new Map<number, Float32Array>();
  readonly arena = new FloatArena();

  /**
   * Parses a part of a body that has records. Their vectors become empty lists, and are in `floats`.
   * @param before, behind text to put around it
   * @param recordsOf the records of the parsed value
   * @param first the position of the first of these records
   * @throws SyntaxError
   */
  parse(
    bytes: Buffer,
    recordsOf: (value: unknown) => unknown,
    first: number,
    before = "",
    behind = "",
  ): unknown {
    const lists: Float32Array[] = [];
    const text = this.#withMarks(bytes, lists);
    if (text !== undefined) {
      const value = parsed(before + text + behind);
      if (value !== undefined && this.#take(recordsOf(value), lists, first)) return value;
    }
    return JSON.parse(before + bytes.toString() + behind);
  }

  /** The text with a mark in place of each list that the kernel has read; undefined if there is none. */
  #withMarks(bytes: Buffer, lists: Float32Array[]): string | undefined {
    let text = "";
    let copied = 0;
    for (let place = listOf(bytes, quotedField, 0); place !== undefined; ) {
      const { behindKey, open, close } = place;
      const length = close - open;
      const floats =
        length >= listBytesMin && length <= listBytesMax
          ? floatListReader().view(bytes.subarray(open + 1, close))
          : undefined;
      if (floats !== undefined) {
        text += `${bytes.toString("utf8", copied, open)}"${mark}${lists.length}"`;
        copied = close + 1;
        const kept = this.arena.take(floats.length);
        kept.set(floats);
        lists.push(kept);
      }
      place = listOf(bytes, quotedField, floats === undefined ? behindKey : copied);
    }
    return lists.length === 0 ? undefined : text + bytes.toString("utf8", copied);
  }

  /** Gives the records their vectors. @returns false if they do not have each mark once */
  #take(records: unknown, lists: readonly Float32Array[], first: number): boolean {
    if (!Array.isArray(records)) return false;
    const marked = (records as ({ [field]?: unknown } | null)[]).flatMap((record, i) => {
      const value = record?.[field];
      return typeof value === "string" && value.startsWith(mark) ? [{ record, i, value }] : [];
    });
    if (marked.length !== lists.length || marked.some(({ value }, k) => value !== `${mark}${k}`))
      return false;
    for (const [k, { record, i }] of marked.entries()) {
      (record as { [field]: unknown })[field] = [];
      this.floats.set(first + i, lists[k]);
    }
    return true;
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // What is wrong is found in the text as it was sent.
    return undefined;
  }
}
