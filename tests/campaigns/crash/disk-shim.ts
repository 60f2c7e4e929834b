// How is the shim compiled, and how are its faults configured?

import { execFileSync, spawnSync } from "node:child_process";
import { closeSync, openSync, readSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { pick, type Random } from "./load.ts";

/** The reason why the shim cannot be used here; null if it can. */
export function whyNoShim(): string | null {
  if (process.platform !== "linux") return "the shim is made for Linux";
  return spawnSync("gcc", ["--version"]).status === 0 ? null : "gcc is not installed";
}

/** Compiles the shim into a folder. @returns its path */
export function compileShim(folder: string): string {
  const shim = join(folder, "disk-shim.so");
  const source = join(import.meta.dirname, "disk-shim.c");
  execFileSync("gcc", ["-O2", "-shared", "-fPIC", "-o", shim, source, "-ldl", "-lpthread"]);
  return shim;
}

/** The environment of a process that is to run under the shim. */
export function shimEnvironment(
  shim: string,
  files: { directory: string; log?: string; faults?: string },
): Record<string, string> {
  return {
    LD_PRELOAD: shim,
    UV_USE_IO_URING: "0",
    QUIVER_SHIM_DIR: files.directory,
    ...(files.log && { QUIVER_SHIM_LOG: files.log }),
    ...(files.faults && { QUIVER_SHIM_FAULTS: files.faults }),
  };
}

export const calls = { write: 1, sync: 2, meta: 4, names: 8, growth: 16 } as const;
export const files = { catalog: 1, collection: 2, others: 4 } as const;
export const errors = { EIO: 5, ENOSPC: 28, EROFS: 30 } as const;

export type Fault = {
  /** Sums of `calls` and of `files`. */
  calls: number;
  files: number;
  /** How many of these calls pass before one fails. */
  pass: number;
  /** How many fail then; -1 for all. */
  fail: number;
  error: number;
};

/** @param random from 0 up to, and without, 1 */
export const drawnFault = (random: Random): Fault => ({
  calls: pick(random, [
    calls.write,
    calls.sync,
    calls.meta,
    calls.growth,
    calls.names,
    calls.write + calls.sync,
  ]),
  files: pick(random, [files.catalog, files.collection, files.collection, files.others, 7]),
  pass: Math.floor(random() * 10),
  fail: pick(random, [1, 1, 3, -1, -1]),
  error: pick(random, [errors.EIO, errors.ENOSPC]),
});

const numbers = 7;

/** The control file that makes calls fail while the server runs. */
export class Faults {
  readonly path: string;

  constructor(path: string) {
    this.path = path;
    writeFileSync(path, new Uint8Array(4096));
  }

  set({ calls, files, pass, fail, error }: Fault): void {
    // The calls to fail are written last: nothing fails until then.
    this.#write([0, 0, 0, 0, 0, 0, 0]);
    this.#write([0, files, pass, fail < 0 ? Number.MAX_SAFE_INTEGER : fail, error, 0, 0]);
    this.#write([calls]);
  }

  clear(): void {
    this.#write([0]);
  }

  /** Number of failed calls since the last `set`. */
  get failed(): number {
    return Number(this.#read()[6]);
  }

  /** Number of calls since the last `set`. */
  get matched(): number {
    return Number(this.#read()[5]);
  }

  #write(values: readonly number[]): void {
    const file = openSync(this.path, "r+");
    try {
      writeSync(file, new Uint8Array(BigInt64Array.from(values, BigInt).buffer), 0, 8 * values.length, 0);
    } finally {
      closeSync(file);
    }
  }

  #read(): BigInt64Array {
    const values = new BigInt64Array(numbers);
    const file = openSync(this.path, "r");
    try {
      readSync(file, new Uint8Array(values.buffer), 0, 8 * numbers, 0);
    } finally {
      closeSync(file);
    }
    return values;
  }
}
