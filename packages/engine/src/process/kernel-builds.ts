// Where are the bytes of a compiled kernel?
//
// Here, in the file that the kernels' build has written. The published package has another module in place of this one, which contains the
// bytes, so that bundlers need not know of files (tools/pack/kernels.ts).

import { readFileSync } from "node:fs";

/** @param build name of it: `release`, `hnsw-release`, ... @throws Error if the kernels have not been built */
export function kernelBytes(build: string): Uint8Array<ArrayBuffer> {
  try {
    return readFileSync(new URL(`../../../kernels/dist/${build}.wasm`, import.meta.url));
  } catch (cause) {
    throw new Error("The kernels have not been built. Run `npm run kernels` and start again.", { cause });
  }
}
