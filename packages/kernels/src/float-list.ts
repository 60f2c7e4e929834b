// How does a program call the kernel that reads lists of numbers?
//
//   memory: powers of ten | floats | text
//
// Each reader has a small memory of its own, because the kernel works on bytes in its memory, and its callers have them elsewhere.

import { instantiateBuild, pageBytes } from "./loader.ts";

/** Largest power of ten in the table; a float of ordinary size and 19 digits needs at most 38 + 18. */
const powersMost = 60;
const powersBytes = 8 * 128;
const floatBytes = 4;
/** The kernel reads up to eight bytes behind the text. */
const behindBytes = 8;
const CLOSE_BRACKET = 0x5d;

/** Reads numbers between two addresses; -1 where the text must be parsed in another way (assembly/floats/parse-floats.ts). */
type ParseFloats = (
  at: number,
  end: number,
  powers: number,
  powersMost: number,
  out: number,
  most: number,
) => number;

/** Reads lists of JSON numbers as 32-bit floats. */
export class FloatListReader {
  readonly #parseFloats: ParseFloats;
  readonly #memory: WebAssembly.Memory;
  readonly #text: Uint8Array;
  readonly #textAt: number;
  readonly #countMax: number;

  /** @param bytesMax of a list */
  constructor(bytesMax: number, options: { debug?: boolean } = {}) {
    // Each number takes two bytes at least: a digit and a comma.
    this.#countMax = Math.ceil(bytesMax / 2);
    this.#textAt = powersBytes + this.#countMax * floatBytes;
    const pages = Math.ceil((this.#textAt + bytesMax + behindBytes) / pageBytes);
    this.#memory = new WebAssembly.Memory({ initial: pages, maximum: pages });
    const build = options.debug === true ? "floats-debug" : "floats-release";
    this.#parseFloats = instantiateBuild(build, this.#memory).parseFloats as ParseFloats;
    this.#text = new Uint8Array(this.#memory.buffer, this.#textAt, bytesMax + behindBytes);
    const powers = new Float64Array(this.#memory.buffer, 0, 2 * powersMost + 1);
    for (let i = 0; i < powers.length; i++) powers[i] = Number(`1e${i - powersMost}`);
  }

  /**
   * The numbers between the brackets of a JSON array, each rounded as JSON.parse and then Math.fround do. Undefined if the text is not a list
   * of at least one number, or has one that is not read here: one without an ordinary 32-bit float, or one in millions at random.
   * @param list at most `bytesMax` bytes
   */
  read(list: Uint8Array): Float32Array | undefined {
    return this.view(list)?.slice();
  }

  /** The same numbers, as a view that is valid until the next call. */
  view(list: Uint8Array): Float32Array | undefined {
    if (list.length + behindBytes > this.#text.length) throw new RangeError(`a list of ${list.length} bytes`);
    this.#text.set(list);
    this.#text[list.length] = CLOSE_BRACKET;
    const end = this.#textAt + list.length;
    const count = this.#parseFloats(this.#textAt, end, 0, powersMost, powersBytes, this.#countMax);
    if (count < 0) return undefined;
    return new Float32Array(this.#memory.buffer, powersBytes, count);
  }
}
