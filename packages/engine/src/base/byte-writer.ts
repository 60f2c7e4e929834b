// How are bytes put one after another without knowing how many there will be?

const littleEndian = new Uint8Array(Uint16Array.of(1).buffer)[0] === 1;
if (!littleEndian)
  throw new Error("Quiver stores little-endian numbers and runs on little-endian machines only.");

/** Bytes that grow at the end. Numbers are little-endian. `take` hands the bytes over and starts anew. */
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

  /** Sets four bytes that were written before, such as a length that is known later. */
  setU32(at: number, value: number): void {
    this.#bytes.writeUInt32LE(value, at);
  }

  bytes(source: Uint8Array): void {
    const at = this.#room(source.length);
    this.#bytes.set(source, at);
  }

  /** Writes UTF-8 behind its length in bytes as u32. */
  text32(text: string): void {
    const length = Buffer.byteLength(text);
    this.u32(length);
    const at = this.#room(length);
    this.#bytes.write(text, at, length, "utf8");
  }

  /** Writes UTF-8 behind its length in bytes as u16; the caller has checked that it fits. */
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
