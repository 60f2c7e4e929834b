// How is the vector of a small body read without an array of its numbers?
//
//   {"query_vector":[0.1,-0.25, ... ],"top_k":10}
//                   ^--- the kernel ---^              32-bit floats, straight from the bytes
//   {"query_vector":"<mark>","top_k":10}              the rest, by JSON.parse
//
// JSON.parse takes 44 ns for each number, and the engine another 12 for rounding and checking it; the kernel takes 30. The result is that of
// JSON.parse and Math.fround. Nothing is assumed of the text around the list: the kernel reads what stands behind the first occurrence of
// the key, and the mark, which no request can contain, shows whether JSON.parse takes this place for the value of the key. If not, or
// if the kernel meets anything but ordinary numbers, the whole text is parsed as any other, which also finds out what is wrong with it.

import { isUtf8 } from "node:buffer";
import { randomBytes } from "node:crypto";
import { FloatListReader } from "@quiverdb/kernels/float-list";
import { limits } from "@quiverdb/protocol/limits";

/** Bytes of the longest list that is read at once; 65,536 numbers at least. */
export const listBytesMax = 256 * 1024;
/** In a shorter body there is nothing to gain. */
const bodyBytesMin = 256;

/** Text that no request contains. */
export const mark = randomBytes(16).toString("hex");
const markText = `"${mark}"`;

let reader: FloatListReader | undefined;

/** The reader of this thread. */
export function floatListReader(): FloatListReader {
  reader ??= new FloatListReader(listBytesMax);
  return reader;
}

const openBracket = 0x5b;
const closeBracket = 0x5d;
const colonMark = 0x3a;

/**
 * The value of a body, in which the list of numbers under `key` is an array of floats. Undefined if there is no such list, or if anything
 * may be wrong with the body.
 * @param key one of the body's own fields
 */
export function parseWithFloats(bytes: Buffer, key: string): Record<string, unknown> | undefined {
  if (bytes.length < bodyBytesMin || bytes.length > listBytesMax + limits.bodyPieceBytes) return undefined;
  const place = listOf(bytes, `"${key}"`, 0);
  if (place === undefined) return undefined;
  const { open, close } = place;
  const restBytes = bytes.length - (close - open);
  if (close < 0 || close - open > listBytesMax || restBytes > limits.bodyPieceBytes) return undefined;
  const before = bytes.subarray(0, open);
  const behind = bytes.subarray(close + 1);
  if (!isUtf8(before) || !isUtf8(behind)) return undefined;
  const floats = floatListReader().read(bytes.subarray(open + 1, close));
  if (floats === undefined) return undefined;
  const value = parsed(before.toString() + markText + behind.toString());
  if (value === undefined || !Object.hasOwn(value, key) || value[key] !== mark) return undefined;
  value[key] = floats;
  return value;
}

/**
 * The brackets of the list that follows the next occurrence of a key, whatever that occurrence is. A negative `close` means that no list
 * follows. Undefined if the key does not occur.
 */
export function listOf(
  bytes: Buffer,
  quotedKey: string,
  from: number,
): { behindKey: number; open: number; close: number } | undefined {
  const keyAt = bytes.indexOf(quotedKey, from, "latin1");
  if (keyAt < 0) return undefined;
  const behindKey = keyAt + quotedKey.length;
  const colon = afterBlanks(bytes, behindKey);
  const open = bytes[colon] === colonMark ? afterBlanks(bytes, colon + 1) : bytes.length;
  const close = bytes[open] === openBracket ? bytes.indexOf(closeBracket, open) : -1;
  return { behindKey, open, close };
}

function parsed(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    // What is wrong is found in the text as it was sent.
    return undefined;
  }
}

function afterBlanks(bytes: Buffer, from: number): number {
  let at = from;
  while (bytes[at] === 0x20 || bytes[at] === 0x0a || bytes[at] === 0x0d || bytes[at] === 0x09) at++;
  return at;
}
