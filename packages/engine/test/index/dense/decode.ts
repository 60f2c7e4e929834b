// Which vector does a code represent? The reverse of encoding.ts, for tests.

import { codeKinds } from "../../../src/index/dense/code-types.ts";
import type { Encoding } from "../../../src/index/dense/encoding.ts";

/** The residual, in units, of which the code is nearly; rotated where the type is. */
export function decode(encoding: Encoding, code: Uint8Array, factor: number): Float64Array {
  const { dataType, dimension } = encoding;
  const { zero, blockValues, blockBytes } = codeKinds[dataType];
  const decoded = new Float64Array(Math.ceil(dimension / blockValues) * blockValues);
  const view = new DataView(code.buffer, code.byteOffset, code.byteLength);
  for (let i = 0; i < decoded.length; i++) {
    const at = Math.floor(i / blockValues) * blockBytes;
    const byte = (i % blockValues) & 15;
    const register = (i % blockValues) >> 4;
    let level = 0;
    if (dataType === "f32") decoded[i] = view.getFloat32(4 * i, true) * factor;
    else if (dataType === "f16") decoded[i] = floatOf(view.getUint16(2 * i, true)) * factor;
    else {
      if (dataType === "u8") level = i < code.length ? code[i] : zero;
      else if (dataType === "binary") level = (code[at + byte] >> register) & 1;
      else if (dataType === "quaternary") level = (code[at + byte] >> (2 * register)) & 3;
      else {
        level = (code[at + 16 * (register >> 2) + byte] >> (2 * (register & 3))) & 3;
        level |= ((code[at + 32 + byte] >> register) & 1) << 2;
      }
      decoded[i] = 2 * (level - zero) * factor;
    }
  }
  return decoded;
}

/** The value of an f16 that `halfOf` made. */
function floatOf(half: number): number {
  const size = half & 0x7fff;
  return (half & 0x8000 ? -1 : 1) * (1 + (size & 1023) / 1024) * (size === 0 ? 0 : 2 ** ((size >> 10) - 15));
}
