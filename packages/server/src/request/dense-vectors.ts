// How are the dense vectors of a body read that are given as bytes?
//
// `{"f32": "<base64>"}` becomes an array of 32-bit floats, in place. What the numbers must be (how many, finite) is checked by the engine, as
// for any other vector, with their position.

import { endianness } from "node:os";
import type { Steps } from "@quiverdb/engine/database/contract";
import { fieldError } from "@quiverdb/protocol/errors";
import type { DenseVector } from "@quiverdb/protocol/shapes/vector";
import { FloatArena } from "./float-arena.ts";
import type { ParsedBody } from "./json.ts";

const isBigEndian = endianness() === "BE";
const floatBytes = 4;

/** Records or queries whose vectors are read in a step. */
const itemsPerStep = 64;

/**
 * Replaces a vector that is given as bytes.
 * @param at path of the object that has the field; empty for a body
 * @throws invalid_request for text that is not base64 of whole floats
 */
export function readVector(object: object, field: string, at = "", arena = new FloatArena()): void {
  const fields = object as Record<string, DenseVector | { readonly f32: string } | null | undefined>;
  const given = fields[field];
  if (typeof given !== "object" || given === null || !("f32" in given)) return;
  fields[field] = floatsOfText(given.f32, `${at === "" ? field : `${at}.${field}`}.f32`, arena);
}

/** The same for a list of ids and vectors, in steps. @param path of the list */
export function* readExamples(examples: readonly unknown[], path: string): Steps<void> {
  const list = examples as (string | DenseVector | { readonly f32: string })[];
  const arena = new FloatArena();
  for (const [i, given] of list.entries()) {
    if (i % itemsPerStep === itemsPerStep - 1) yield;
    if (typeof given === "object" && given !== null && "f32" in given)
      list[i] = floatsOfText(given.f32, `${path}[${i}].f32`, arena);
  }
}

/**
 * The same for each object of a list, in steps.
 * @param path of the list
 * @param parsed of the body: has the vectors that were read already
 */
export function* readVectors(
  objects: readonly object[],
  field: string,
  path: string,
  { floats, arena = new FloatArena() }: Pick<ParsedBody, "floats" | "arena"> = {},
): Steps<void> {
  for (let i = 0; i < objects.length; i++) {
    if (i % itemsPerStep === itemsPerStep - 1) yield;
    const read = floats?.get(i);
    if (read === undefined) readVector(objects[i], field, `${path}[${i}]`, arena);
    else (objects[i] as Record<string, unknown>)[field] = read;
  }
}

/** The floats of bytes in base64. @param path of the text, for messages */
function floatsOfText(text: string, path: string, arena: FloatArena): Float32Array {
  const padding = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
  const byteCount = (text.length / 4) * 3 - padding;
  if (text.length % 4 !== 0)
    throw notFloats(path, "base64 in whole groups of four characters, padded", `${text.length} characters`);
  const { floats, bytes } = roomFor(byteCount, path, arena);
  // Node.js leaves out what is not base64.
  if (bytes.write(text, "base64") !== byteCount) {
    const at = text.search(/[^\w+/-]/);
    throw notFloats(path, "base64", `something else at position ${at} of ${text.length} characters`);
  }
  if (isBigEndian) bytes.swap32();
  return floats;
}

/** The floats of little-endian bytes, in memory of their own. @throws invalid_request. @param path for messages */
export function floatsOf(given: Buffer, path: string, arena: FloatArena): Float32Array {
  const { floats, bytes } = roomFor(given.length, path, arena);
  bytes.set(given);
  if (isBigEndian) bytes.swap32();
  return floats;
}

function roomFor(
  byteCount: number,
  path: string,
  arena: FloatArena,
): { floats: Float32Array; bytes: Buffer } {
  if (byteCount % floatBytes !== 0)
    throw notFloats(path, "the bytes of whole 32-bit floats", `${byteCount} bytes`);
  const floats = arena.take(byteCount / floatBytes);
  return { floats, bytes: Buffer.from(floats.buffer, floats.byteOffset, byteCount) };
}

const notFloats = (path: string, expected: string, received: string) =>
  fieldError(path, expected, received, `${path} must be ${expected}, not ${received}.`);
