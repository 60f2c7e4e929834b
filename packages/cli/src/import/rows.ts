// How are records read from a file of bare vectors?
//
//   .fvecs   rows of  int32 dimension | dimension x float32     (texmex, little-endian)
//   .f32     rows of                    dimension x float32     (little-endian, with --dimension)
//
// After an error in the framing of such a file, the following rows cannot be trusted, so the import of the file stops; a value that is not
// finite rejects only its row.

import { encodeRecord } from "@quiver/client/record";
import { limits } from "@quiver/protocol/limits";
import { CommandError } from "../exit-codes.ts";
import type { RowIds } from "./ids.ts";
import type { Item, ReadFrom } from "./item.ts";

const int32Bytes = 4;
const float32Bytes = 4;

/** Yields the rows of each chunk of an .fvecs file. `path` is for messages. */
export async function* readFvecs(
  chunks: AsyncIterable<Buffer>,
  from: ReadFrom,
  ids: RowIds,
  path: string,
): AsyncGenerator<Item[]> {
  let dimension: number | undefined;
  const rowBytes = (pending: Buffer) => {
    if (dimension === undefined) {
      if (pending.length < int32Bytes) return undefined;
      dimension = readDimension(pending, 0, path);
    }
    return int32Bytes + dimension * float32Bytes;
  };
  const values = (row: Buffer, number: number) => {
    const own = row.readInt32LE(0);
    if (own !== dimension) {
      throw new CommandError(
        `${path}, row ${number}: has ${own} dimensions, but the rows before have ${dimension}. The file is damaged or not in the fvecs format.`,
      );
    }
    return row.subarray(int32Bytes);
  };
  yield* readRows(chunks, from, ids, path, rowBytes, values);
}

/** Yields the rows of each chunk of a file of raw floats. */
export async function* readF32(
  chunks: AsyncIterable<Buffer>,
  from: ReadFrom,
  ids: RowIds,
  path: string,
  dimension: number,
): AsyncGenerator<Item[]> {
  yield* readRows(
    chunks,
    from,
    ids,
    path,
    () => dimension * float32Bytes,
    (row) => row,
  );
}

/** The dimension at the start of an .fvecs file. @throws CommandError */
export function readDimension(start: Buffer, offset: number, path: string): number {
  const dimension = start.length >= offset + int32Bytes ? start.readInt32LE(offset) : 0;
  if (dimension >= 1 && dimension <= limits.dimensionMax) return dimension;
  throw new CommandError(
    `${path}: the first row has ${dimension} dimensions, expected 1 to ${limits.dimensionMax}. The file is not in the fvecs format.`,
  );
}

async function* readRows(
  chunks: AsyncIterable<Buffer>,
  from: ReadFrom,
  ids: RowIds,
  path: string,
  rowBytes: (pending: Buffer) => number | undefined,
  values: (row: Buffer, number: number) => Buffer,
): AsyncGenerator<Item[]> {
  let pending: Buffer = Buffer.alloc(0);
  let { offset, number } = from;
  for await (const chunk of chunks) {
    pending = pending.length === 0 ? chunk : Buffer.concat([pending, chunk]);
    const size = rowBytes(pending);
    if (size === undefined || pending.length < size) continue;
    const count = Math.floor(pending.length / size);
    const rowIds = await ids.take(count);
    const items: Item[] = [];
    for (let i = 0; i < count; i++) {
      number++;
      offset += size;
      const bytes = values(pending.subarray(i * size, (i + 1) * size), number);
      items.push(rowItem(number, offset, rowIds[i], floats(bytes)));
    }
    yield items;
    pending = pending.subarray(count * size);
  }
  if (pending.length > 0) {
    throw new CommandError(
      `${path} ends in the middle of row ${number + 1}: ${pending.length} bytes are left over. The file is truncated, or the dimension is wrong.`,
    );
  }
}

/** The floats of a row, copied: the row need not be aligned. */
function floats(bytes: Buffer): Float32Array {
  const values = new Float32Array(bytes.length / float32Bytes);
  for (let i = 0; i < values.length; i++) values[i] = bytes.readFloatLE(i * float32Bytes);
  return values;
}

function rowItem(number: number, end: number, id: string, values: Float32Array): Item {
  const wrong = values.findIndex((value) => !Number.isFinite(value));
  if (wrong < 0) {
    return { number, end, id, json: encodeRecord({ id, dense_values: values }, number) };
  }
  const reason = `dense_values[${wrong}] is ${values[wrong]}, expected a finite number`;
  return { number, end, id, json: JSON.stringify({ id }), problem: { code: "invalid_vector", reason } };
}
