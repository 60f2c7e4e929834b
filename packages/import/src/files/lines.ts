// Where does each line of a stream of bytes begin and end?

/** A line without its line break. `bytes` is undefined if the line was longer than allowed; then `start` has its first bytes. */
export type Line = {
  /** From 1. */
  readonly number: number;
  /** Of an item of an array: the lines on which it begins and ends. */
  readonly lines?: { readonly first: number; readonly last: number };
  /** Offset just after its line break. */
  readonly end: number;
  readonly bytes: Buffer | undefined;
  /** The line's first bytes, if it was too long. */
  readonly start?: Buffer;
};

export const lineFeed = 0x0a;
const carriageReturn = 0x0d;
/** That a file may begin with. */
export const byteOrderMark: Buffer = Buffer.from([0xef, 0xbb, 0xbf]);
/** The beginning of what is too long, for messages. */
export const keptOfLongBytes = 1_024;

/**
 * Splits at line feeds; a carriage return before one belongs to the break. Yields the lines that end in each chunk.
 * @param lineBytesMax a longer line is yielded without its bytes, and is never held in memory
 */
export async function* splitLines(
  chunks: AsyncIterable<Uint8Array>,
  from: { readonly offset: number; readonly number: number },
  lineBytesMax: number,
): AsyncGenerator<Line[]> {
  let { offset, number } = from;
  let parts: Buffer[] = [];
  let length = 0;
  let longStart: Buffer | undefined;

  const add = (part: Buffer) => {
    length += part.length;
    if (longStart) return;
    parts.push(part);
    if (length <= lineBytesMax) return;
    longStart = Buffer.from(Buffer.concat(parts).subarray(0, keptOfLongBytes));
    parts = [];
  };
  const finish = (breakBytes: number): Line => {
    offset += length + breakBytes;
    number++;
    const whole = parts.length === 1 ? parts[0] : Buffer.concat(parts);
    const bytes = whole.at(-1) === carriageReturn ? whole.subarray(0, -1) : whole;
    const line = longStart
      ? { number, end: offset, bytes: undefined, start: longStart }
      : { number, end: offset, bytes };
    parts = [];
    length = 0;
    longStart = undefined;
    return line;
  };

  for await (const { buffer, byteOffset, length: size } of chunks) {
    const chunk = Buffer.from(buffer, byteOffset, size);
    const lines: Line[] = [];
    let at = 0;
    for (let next = chunk.indexOf(lineFeed, at); next >= 0; next = chunk.indexOf(lineFeed, at)) {
      add(chunk.subarray(at, next));
      lines.push(finish(1));
      at = next + 1;
    }
    if (at < chunk.length) add(chunk.subarray(at));
    if (lines.length > 0) yield lines;
  }
  if (length > 0) yield [finish(0)];
}
