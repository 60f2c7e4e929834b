// How do stored bytes become floats?
//
// Vectors are stored and passed on as little-endian f32, at any offset; typed arrays want them aligned and in the
// order of the machine. WebAssembly is little-endian everywhere, and so is every machine that we run on.

import { invariant } from "../base/invariant.ts";

invariant(
  new Uint8Array(Uint32Array.of(1).buffer)[0] === 1,
  "Quiver needs a little-endian machine: vectors are copied between bytes and floats as they are",
);

/** The f32 values of 4 * n bytes at any offset, as a new array. The bytes are borrowed. */
export function readFloats(bytes: Uint8Array): Float32Array {
  invariant(bytes.byteLength % 4 === 0, `${bytes.byteLength} bytes are not whole f32 values`);
  const floats = new Float32Array(bytes.byteLength / 4);
  new Uint8Array(floats.buffer).set(bytes);
  return floats;
}

/** The bytes of `floats`, as a view: they change with them. */
export function bytesOfFloats(floats: Float32Array): Uint8Array {
  return new Uint8Array(floats.buffer, floats.byteOffset, floats.byteLength);
}
