// How are bytes appended if their number is not known in advance?

import { writeU32LE } from "./bytes.ts";
import { host } from "./host.ts";
import { invariant } from "./invariant.ts";

const littleEndian = new Uint8Array(Uint16Array.of(1).buffer)[0] === 1;
if (!littleEndian)
  throw new Error("Quiver stores little-endian numbers and runs on little-endian machines only.");

const encoder = new TextEncoder();
const bytesMin = 64;

/** A growing array of bytes. Numbers are little-endian. `take` returns the bytes and starts anew. */
export class ByteWriter {
  #bytes: Uint8Array;
  #length = 0;

  constructor(initialBytes = 4096) {
    this.#bytes = host.allocate(initialBytes);
  }

  get length(): number {
    return this.#length;
  }

  #room(bytes: number): number {
    const at = this.#length;
    const needed = at + bytes;
    if (needed > this.#bytes.length) this.#grow(needed);
    this.#length = needed;
    return at;
  }

  #grow(needed: number): void {
    const larger = host.allocate(Math.max(needed, this.#bytes.length * 2, bytesMin));
    larger.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = larger;
  }

  u8(value: number): void {
    const at = this.#room(1);
    this.#bytes[at] = value;
  }

  u16(value: number): void {
    const at = this.#room(2);
    this.#bytes[at] = value;
    this.#bytes[at + 1] = value >>> 8;
  }

  u32(value: number): void {
    const at = this.#room(4);
    writeU32LE(this.#bytes, at, value);
  }

  /** Overwrites four bytes, such as a length that becomes known later. */
  setU32(at: number, value: number): void {
    writeU32LE(this.#bytes, at, value);
  }

  bytes(source: Uint8Array): void {
    const at = this.#room(source.length);
    this.#bytes.set(source, at);
  }

  /** Writes a u32 length in bytes, then the UTF-8. */
  text32(text: string): void {
    const at = this.#room(4);
    this.setU32(at, this.#text(text));
  }

  /** Writes a u16 length in bytes, then the UTF-8. The caller must check that the length fits. */
  text16(text: string): void {
    const at = this.#room(2);
    const length = this.#text(text);
    invariant(length <= 0xffff, `a text of ${length} bytes has a length of 16 bits`);
    this.#bytes[at] = length;
    this.#bytes[at + 1] = length >>> 8;
  }

  /** @returns the bytes written */
  #text(text: string): number {
    const from = this.#length;
    for (let rest = text; ; ) {
      const { read, written } = encoder.encodeInto(rest, this.#bytes.subarray(this.#length));
      this.#length += written;
      if (read === rest.length) return this.#length - from;
      rest = rest.slice(read);
      this.#grow(this.#length + 3 * rest.length);
    }
  }

  /** Writes numbers as 32-bit floats. */
  f32s(values: ArrayLike<number>): void {
    const { buffer, byteOffset, byteLength } =
      values instanceof Float32Array ? values : new Float32Array(values);
    this.bytes(new Uint8Array(buffer, byteOffset, byteLength));
  }

  /** The bytes, in a buffer that may have room for more; nobody else has it. */
  take(): Uint8Array<ArrayBuffer> {
    const { buffer } = this.#bytes;
    const isOwn = buffer instanceof ArrayBuffer && buffer.byteLength === this.#bytes.byteLength;
    if (isOwn && 2 * this.#length > buffer.byteLength) {
      const given = new Uint8Array(buffer, 0, this.#length);
      this.#bytes = new Uint8Array(0);
      this.#length = 0;
      return given;
    }
    const taken = new Uint8Array(this.#length);
    taken.set(this.#bytes.subarray(0, this.#length));
    this.#length = 0;
    return taken;
  }
}
