// How are the dense vectors of a body read that are given as bytes?
//
// `{"f32": "<base64>"}` becomes an array of 32-bit floats, in place. What the numbers must be (how many, finite) is checked by the engine, as
// for any other vector, with their position.

import { endianness } from "node:os";
import type { Steps } from "@quiver/engine/database/contract";
import type { DenseVector } from "@quiver/protocol/shapes/vector";
import { fieldError } from "./validation.ts";

const isBigEndian = endianness() === "BE";
const floatBytes = 4;

/** Records or queries whose vectors are read in a step. */
const itemsPerStep = 64;

/**
 * Replaces a vector that is given as bytes.
 * @param at path of the object that has the field; empty for a body
 * @throws invalid_request for text that is not base64 of whole floats
 */
export function readVector(object: object, field: string, at = ""): void {
  const fields = object as Record<string, DenseVector | { readonly f32: string } | null | undefined>;
  const given = fields[field];
  if (typeof given !== "object" || given === null || !("f32" in given)) return;
  fields[field] = floatsOfText(given.f32, `${at === "" ? field : `${at}.${field}`}.f32`);
}

/**
 * The same for each object of a list, in steps.
 * @param path of the list
 * @param floats of MessagePack: vectors that were read already, by position
 */
export function* readVectors(
  objects: readonly object[],
  field: string,
  path: string,
  floats?: ReadonlyMap<number, Float32Array>,
): Steps<void> {
  for (let i = 0; i < objects.length; i++) {
    if (i % itemsPerStep === itemsPerStep - 1) yield;
    const read = floats?.get(i);
    if (read === undefined) readVector(objects[i], field, `${path}[${i}]`);
    else (objects[i] as Record<string, unknown>)[field] = read;
  }
}

/** The floats of bytes in base64. @param path of the text, for messages */
function floatsOfText(text: string, path: string): Float32Array {
  const padding = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
  const byteCount = (text.length / 4) * 3 - padding;
  if (text.length % 4 !== 0)
    throw notFloats(path, "base64 in whole groups of four characters, padded", `${text.length} characters`);
  const bytes = Buffer.from(new ArrayBuffer(byteCount));
  // Node.js leaves out what is not base64.
  if (bytes.write(text, "base64") !== byteCount) {
    const at = text.search(/[^\w+/-]/);
    throw notFloats(path, "base64", `something else at position ${at} of ${text.length} characters`);
  }
  return ownFloats(bytes, path);
}

/** The floats of little-endian bytes, in memory of their own. @throws invalid_request. @param path for messages */
export function floatsOf(bytes: Buffer, path: string): Float32Array {
  const own = Buffer.from(new ArrayBuffer(bytes.length));
  bytes.copy(own);
  return ownFloats(own, path);
}

/** @param bytes a whole buffer, which is changed if this machine is big-endian */
function ownFloats(bytes: Buffer, path: string): Float32Array {
  if (bytes.length % floatBytes !== 0)
    throw notFloats(path, "the bytes of whole 32-bit floats", `${bytes.length} bytes`);
  if (isBigEndian) bytes.swap32();
  return new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / floatBytes);
}

const notFloats = (path: string, expected: string, received: string) =>
  fieldError(path, expected, received, `${path} must be ${expected}, not ${received}.`);
