// How are numbers and strings written as bytes, and how are bytes compared?
//
// Keys are big-endian so that their byte order is their numeric order. Versions and sequence numbers are
// integers below 2^53 in eight bytes: at a million commits a second they last 285 years.

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export const emptyBytes = new Uint8Array(0);

export function utf8(text: string): Uint8Array {
  return encoder.encode(text);
}

/** Decodes UTF-8; throws on invalid bytes. */
export function text(bytes: Uint8Array): string {
  return decoder.decode(bytes);
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
  return Buffer.compare(a, b);
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
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("hex");
}

export function fromHex(hex: string): Uint8Array {
  return new Uint8Array(Buffer.from(hex, "hex"));
}
