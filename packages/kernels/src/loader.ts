/// <reference path="./webassembly.d.ts" />

// How does a program get at the kernels?
//
// The two builds are compiled once per thread and instantiated once per memory: an instance is a few functions
// bound to one memory, and costs some tens of microseconds. Where the bytes of a build come from, the program says that uses the
// kernels: in Node.js it imports @quiverdb/engine/runtime/node-host, which reads them from `dist`.

/** Bytes of a WebAssembly page, the unit in which memories grow. */
export const pageBytes = 65_536;

/** Pages of the largest memory that the kernels can address: 4 GiB. */
export const pagesMax = 65_536;

/** Floats that one SIMD register holds: rows and queries are padded with zeros to a multiple of it. */
const lanes = 4;

/**
 * One query against `count` contiguous rows: writes `count` f32 to `out`. `query`, `rows` and `out` are byte
 * offsets into the instance's memory; query and rows are 16-byte aligned, `dimensionPadded` is a multiple of
 * four. Nothing is checked in the release build; the debug build traps with a WebAssembly.RuntimeError.
 */
export type RowsKernel = (
  query: number,
  rows: number,
  count: number,
  dimensionPadded: number,
  out: number,
) => void;

/** The functions of one instance. */
export type Kernels = {
  /** Dot products. */
  readonly dotRows: RowsKernel;
  /** Squared euclidean distances. */
  readonly l2Rows: RowsKernel;
  /**
   * Exact sums of rows that lie anywhere, two f64 each: for kind 0 the dot product and the row's squared norm, for 1 the squared
   * euclidean distance and 0. `addresses` are u32 byte offsets of rows.
   */
  readonly exactSums: (
    query: number,
    addresses: number,
    count: number,
    dimension: number,
    kind: number,
    out: number,
  ) => void;
  /**
   * Mixes `dimension` f64 in place by a random orthogonal map (assembly/rotate.ts). `dimension` is even, `block` the greatest power of two
   * that is not greater; `signs` are as many f64 for each round; `scale` is 1 / sqrt(block).
   */
  readonly rotate: (
    values: number,
    signs: number,
    dimension: number,
    block: number,
    rounds: number,
    scale: number,
  ) => void;
};

export type KernelName = "dotRows" | "l2Rows";

/**
 * The kernels, bound to `memory`, which stays the caller's: it lays the memory out and grows it.
 *
 * `memory` is shared, has at least one page and a maximum of at most `pagesMax`. Throws if the kernels have not been built.
 */
export function instantiate(memory: WebAssembly.Memory, options: { debug?: boolean } = {}): Kernels {
  return instantiateBuild(options.debug === true ? "debug" : "release", memory) as Kernels;
}

const modules = new Map<string, WebAssembly.Module>();

/** The exports of a build of build.mjs, bound to `memory`. Throws if it has not been built. */
export function instantiateBuild(build: string, memory: WebAssembly.Memory): WebAssembly.Instance["exports"] {
  let module = modules.get(build);
  if (module === undefined) {
    module = new WebAssembly.Module(read(build));
    modules.set(build, module);
  }
  return new WebAssembly.Instance(module, { env: { memory } }).exports;
}

type KernelReader = (build: string) => Uint8Array<ArrayBuffer>;

let read: KernelReader = (build) => {
  throw new Error(
    `Nobody has provided the kernels to this thread, so ${build} cannot be loaded. Call provideKernels first, or import ` +
      "@quiverdb/engine/runtime/node-host in Node.js",
  );
};

/** Sets how this thread gets the bytes of a build, such as those of dist/release.wasm. It asks once for each build at most. */
export function provideKernels(reader: KernelReader): void {
  read = reader;
}

/** The dimension that a row takes in memory: rounded up to whole SIMD registers. */
export function padded(dimension: number): number {
  return Math.ceil(dimension / lanes) * lanes;
}
