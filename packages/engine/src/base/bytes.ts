// How are numbers and strings written as bytes, and how are bytes compared?
//
// Keys are big-endian so that their byte order is their numeric order. Versions and sequence numbers are
// integers below 2^53 in eight bytes: at a million commits a second they last 285 years.

import { host } from "./host.ts";
import { invariant } from "./invariant.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const lenientDecoder = new TextDecoder("utf-8", { ignoreBOM: true });
const hexOfByte = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

export const emptyBytes = new Uint8Array(0);

export function utf8(text: string): Uint8Array {
  return encoder.encode(text);
}

/** Decodes UTF-8; throws on invalid bytes. */
export function text(bytes: Uint8Array): string {
  return decoder.decode(bytes);
}

/** Decodes UTF-8 that may be damaged: what is invalid becomes U+FFFD. */
export function lenientText(bytes: Uint8Array): string {
  return lenientDecoder.decode(bytes);
}

/** The length of a text in UTF-8 if it is more than `max` bytes; otherwise 0. */
export function bytesBeyond(value: string, max: number): number {
  // A UTF-16 unit takes at most three bytes, so a short text need not be counted.
  if (3 * value.length <= max) return 0;
  let bytes = value.length;
  for (let i = 0; i < value.length; i++) {
    const unit = value.charCodeAt(i);
    // Of a surrogate pair, each half counts for two bytes.
    if (unit >= 0x80) bytes += unit < 0x800 || (unit >= 0xd800 && unit <= 0xdfff) ? 1 : 2;
  }
  return bytes > max ? bytes : 0;
}

/** The key of an ordinal: four bytes, big-endian. */
export function u32Key(value: number): Uint8Array {
  const bytes = new Uint8Array(4);
  writeU32(bytes, 0, value);
  return bytes;
}

function writeU32(bytes: Uint8Array, offset: number, value: number): void {
  bytes[offset] = value >>> 24;
  bytes[offset + 1] = value >>> 16;
  bytes[offset + 2] = value >>> 8;
  bytes[offset + 3] = value;
}

export function readU32Key(bytes: Uint8Array, offset = 0): number {
  return (
    ((bytes[offset] << 24) | (bytes[offset + 1] << 16) | (bytes[offset + 2] << 8) | bytes[offset + 3]) >>> 0
  );
}

/** Two bytes, little-endian. @throws RangeError beyond the end */
export function readU16LE(bytes: Uint8Array, at: number): number {
  if (at + 2 > bytes.length) throw new RangeError(`2 bytes at ${at} of ${bytes.length}`);
  return bytes[at] | (bytes[at + 1] << 8);
}

/** Four bytes, little-endian. @throws RangeError beyond the end */
export function readU32LE(bytes: Uint8Array, at: number): number {
  if (at + 4 > bytes.length) throw new RangeError(`4 bytes at ${at} of ${bytes.length}`);
  return (bytes[at] | (bytes[at + 1] << 8) | (bytes[at + 2] << 16) | (bytes[at + 3] << 24)) >>> 0;
}

export function writeU32LE(bytes: Uint8Array, at: number, value: number): void {
  bytes[at] = value;
  bytes[at + 1] = value >>> 8;
  bytes[at + 2] = value >>> 16;
  bytes[at + 3] = value >>> 24;
}

/** The key of a version or sequence number: eight bytes, big-endian. `value` is an integer in [0, 2^53). */
export function u53Key(value: number): Uint8Array {
  const bytes = new Uint8Array(8);
  writeU53(bytes, 0, value);
  return bytes;
}

export function writeU53(bytes: Uint8Array, offset: number, value: number): void {
  writeU32(bytes, offset, Math.floor(value / 0x1_0000_0000));
  writeU32(bytes, offset + 4, value % 0x1_0000_0000);
}

export function readU53(bytes: Uint8Array, offset = 0): number {
  return readU32Key(bytes, offset) * 0x1_0000_0000 + readU32Key(bytes, offset + 4);
}

/** Order of two byte strings; for UTF-8 this is the order of code points. Negative: `a` comes first. */
export function compareBytes(a: Uint8Array, b: Uint8Array): number {
  return host.compare(a, b);
}

/** Order of two strings by code points, which is also their order as UTF-8 bytes. */
export function compareText(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const x = a.charCodeAt(i);
    const y = b.charCodeAt(i);
    if (x !== y) {
      // UTF-16 sorts surrogates (astral characters) before U+E000..U+FFFF; code points sort them after.
      const xSurrogate = x >= 0xd800 && x <= 0xdfff;
      const ySurrogate = y >= 0xd800 && y <= 0xdfff;
      return xSurrogate === ySurrogate ? x - y : xSurrogate ? 1 : -1;
    }
  }
  return a.length - b.length;
}

export function toHex(bytes: Uint8Array): string {
  let hex = "";
  for (let i = 0; i < bytes.length; i++) hex += hexOfByte[bytes[i]];
  return hex;
}

/** The bytes of a hex text, up to the first pair of characters that is not hex. */
export function fromHex(hex: string): Uint8Array {
  const end = /^(?:[0-9a-f]{2})*/i.exec(hex)?.[0].length ?? 0;
  return Uint8Array.from({ length: end / 2 }, (_, i) => Number.parseInt(hex.slice(2 * i, 2 * i + 2), 16));
}

/** Appends byte strings to each other. */
export function concatenated(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/**
 * Frees the memory of an array that nobody uses any more, without waiting for the garbage collector: it does not see that memory outside of
 * the heap is scarce, or collects the whole heap to get a little of it. The array is empty afterwards. Does nothing if it is a small part of
 * its buffer, which others may use.
 */
export function release({ buffer, byteLength }: ArrayBufferView): void {
  if (buffer instanceof ArrayBuffer && 2 * byteLength > buffer.byteLength) buffer.transfer(0);
}

// ---- How are bytes appended if their number is not known in advance?

const littleEndian = new Uint8Array(Uint16Array.of(1).buffer)[0] === 1;
if (!littleEndian)
  throw new Error("Quiver stores little-endian numbers and runs on little-endian machines only.");

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

  /** Makes room for so many bytes, to be written. */
  #view(bytes: number): DataView {
    const at = this.#room(bytes);
    const { buffer, byteOffset } = this.#bytes;
    return new DataView(buffer, byteOffset + at, bytes);
  }

  /** Writes integers of 32 bits. */
  u32s(values: ArrayLike<number>): void {
    const view = this.#view(4 * values.length);
    for (let i = 0; i < values.length; i++) view.setUint32(4 * i, values[i], true);
  }

  /** Writes numbers as 32-bit floats. */
  f32s(values: ArrayLike<number>): void {
    if (values instanceof Float32Array) {
      const { buffer, byteOffset, byteLength } = values;
      this.bytes(new Uint8Array(buffer, byteOffset, byteLength));
      return;
    }
    // `new Float32Array(values)` takes 50 ns for each number of an array.
    const view = this.#view(4 * values.length);
    for (let i = 0; i < values.length; i++) view.setFloat32(4 * i, values[i], true);
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
