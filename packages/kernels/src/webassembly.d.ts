// Which part of the WebAssembly interface do we use?
//
// Node.js has it, but neither TypeScript's own libraries without the browser's nor the types of Node.js declare it.

declare namespace WebAssembly {
  class Memory {
    constructor(descriptor: { initial: number; maximum?: number; shared?: boolean });
    readonly buffer: ArrayBuffer | SharedArrayBuffer;
    /** Adds pages of 64 KiB; returns the number of pages before. Throws RangeError beyond the maximum. */
    grow(pages: number): number;
  }
  class Module {
    constructor(bytes: Uint8Array);
  }
  class Instance {
    constructor(module: Module, imports: Record<string, Record<string, unknown>>);
    readonly exports: Record<string, unknown>;
  }
  /** Whether the bytes are a module that this machine can compile. */
  function validate(bytes: Uint8Array): boolean;
  class RuntimeError extends Error {}
}
