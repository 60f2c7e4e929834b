// How are bytes appended if their number is not known in advance?

const littleEndian = new Uint8Array(Uint16Array.of(1).buffer)[0] === 1;
if (!littleEndian)
  throw new Error("Quiver stores little-endian numbers and runs on little-endian machines only.");

/** A growing array of bytes. Numbers are little-endian. `take` returns the bytes and starts anew. */
export class ByteWriter {
  #bytes: Buffer;
  #length = 0;

  constructor(initialBytes = 4096) {
    this.#bytes = Buffer.allocUnsafeSlow(initialBytes);
  }

  get length(): number {
    return this.#length;
  }

  #room(bytes: number): number {
    const at = this.#length;
    const needed = at + bytes;
    if (needed > this.#bytes.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.#bytes.length * 2));
      this.#bytes.copy(larger, 0, 0, at);
      this.#bytes = larger;
    }
    this.#length = needed;
    return at;
  }

  u8(value: number): void {
    const at = this.#room(1);
    this.#bytes[at] = value;
  }

  u16(value: number): void {
    const at = this.#room(2);
    this.#bytes.writeUInt16LE(value, at);
  }

  u32(value: number): void {
    const at = this.#room(4);
    this.#bytes.writeUInt32LE(value, at);
  }

  /** Overwrites four bytes, such as a length that becomes known later. */
  setU32(at: number, value: number): void {
    this.#bytes.writeUInt32LE(value, at);
  }

  bytes(source: Uint8Array): void {
    const at = this.#room(source.length);
    this.#bytes.set(source, at);
  }

  /** Writes a u32 length in bytes, then the UTF-8. */
  text32(text: string): void {
    const length = Buffer.byteLength(text);
    this.u32(length);
    const at = this.#room(length);
    this.#bytes.write(text, at, length, "utf8");
  }

  /** Writes a u16 length in bytes, then the UTF-8. The caller must check that the length fits. */
  text16(text: string): void {
    const length = Buffer.byteLength(text);
    this.u16(length);
    const at = this.#room(length);
    this.#bytes.write(text, at, length, "utf8");
  }

  /** Writes numbers as 32-bit floats. */
  f32s(values: ArrayLike<number>): void {
    const floats = Float32Array.from(values);
    this.bytes(new Uint8Array(floats.buffer));
  }

  take(): Uint8Array<ArrayBuffer> {
    const taken = new Uint8Array(this.#length);
    taken.set(this.#bytes.subarray(0, this.#length));
    this.#length = 0;
    return taken;
  }
}
