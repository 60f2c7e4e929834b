// How are records read from a file of bare vectors?
//
//   .fvecs   rows of  int32 dimension | dimension x float32     (texmex, little-endian)
//   .f32     rows of                    dimension x float32     (little-endian; the dimension is an option)
//   .npy     a header, then rows of     dimension x float32, or float64     (a NumPy array of two dimensions in C order, little-endian)
//
// After an error in the framing of such a file, the following rows cannot be trusted, so the import of the file stops; a value that is not
// finite rejects only its row.

import { encodeRecord } from "@quiverdb/client/record";
import { limits } from "@quiverdb/protocol/limits";
import type { FieldNames } from "../record-reason.ts";
import { fileFault } from "./faults.ts";
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
  const size = (pending: Buffer) => {
    if (dimension === undefined) {
      if (pending.length < int32Bytes) return undefined;
      dimension = readDimension(pending, 0, path);
    }
    return int32Bytes + dimension * float32Bytes;
  };
  const values = (row: Buffer, number: number) => {
    const own = row.readInt32LE(0);
    if (own !== dimension) {
      throw fileFault(
        `${path}, row ${number}: has ${own} dimensions, but the rows before have ${dimension}. The file is damaged or not in the fvecs format.`,
      );
    }
    return row.subarray(int32Bytes);
  };
  yield* readRows(chunks, from, ids, path, { size, values });
}

/** Yields the rows of each chunk of a file of raw floats. */
export const readF32 = (
  chunks: AsyncIterable<Buffer>,
  from: ReadFrom,
  ids: RowIds,
  path: string,
  dimension: number,
): AsyncGenerator<Item[]> => readRows(chunks, from, ids, path, { size: () => dimension * float32Bytes });

/** What the header of an .npy file says: where its rows begin, and how many of which size there are. */
export type NpyHeader = {
  readonly dataOffset: number;
  readonly rows: number;
  readonly dimension: number;
  readonly valueBytes: 4 | 8;
};

/** More than a header has. */
export const npyHeaderBytesMax = 70_000;

/** The header at the start of an .npy file. @throws QuiverError source_failed for an array that is not one of vectors */
export function npyHeader(start: Buffer, path: string): NpyHeader {
  const wrong = (why: string) => fileFault(`${path} ${why}.`);
  if (start.length < 12 || start.toString("latin1", 0, 6) !== "\u0093NUMPY")
    throw wrong("is not in the npy format");
  const isFirstVersion = start[6] === 1;
  const from = isFirstVersion ? 10 : 12;
  const dataOffset = from + (isFirstVersion ? start.readUInt16LE(8) : start.readUInt32LE(8));
  if (dataOffset > start.length) throw wrong("ends within its header");
  const header = start.toString("latin1", from, dataOffset);
  const type = /'descr'\s*:\s*'([^']*)'/.exec(header)?.[1];
  const shape = /'shape'\s*:\s*\(([^)]*)\)/
    .exec(header)?.[1]
    .split(",")
    .filter((part) => part.trim() !== "")
    .map(Number);
  if (type !== "<f4" && type !== "<f8")
    throw wrong(
      `has values of the type ${JSON.stringify(type ?? "?")}; expected float32 or float64: np.save(file, array.astype("<f4"))`,
    );
  if (/'fortran_order'\s*:\s*True/.test(header))
    throw wrong("has its values column by column; save it with np.save(file, np.ascontiguousarray(array))");
  if (shape?.length !== 2 || !shape.every(Number.isSafeInteger))
    throw wrong(`has the shape (${shape?.join(", ") ?? "?"}); expected (vectors, dimension)`);
  const [rows, dimension] = shape;
  if (dimension < 1 || dimension > limits.dimensionMax)
    throw wrong(`has vectors of ${dimension} dimensions; expected 1 to ${limits.dimensionMax}`);
  return { dataOffset, rows, dimension, valueBytes: type === "<f4" ? 4 : 8 };
}

/** Yields the rows of each chunk of an .npy file, whose header is known. @param chunks without the header */
export async function* readNpy(
  chunks: AsyncIterable<Buffer>,
  from: ReadFrom,
  ids: RowIds,
  path: string,
  { rows, dimension, valueBytes }: NpyHeader,
): AsyncGenerator<Item[]> {
  const size = () => dimension * valueBytes;
  let read = from.number;
  for await (const items of readRows(chunks, from, ids, path, { size, valueBytes })) {
    read += items.length;
    yield items;
  }
  if (read !== rows)
    throw fileFault(`${path} has ${read} rows, but its header says ${rows}. The file is damaged.`);
}

/** The dimension at the start of an .fvecs file. @throws QuiverError source_failed */
export function readDimension(start: Buffer, offset: number, path: string): number {
  const dimension = start.length >= offset + int32Bytes ? start.readInt32LE(offset) : 0;
  if (dimension >= 1 && dimension <= limits.dimensionMax) return dimension;
  throw fileFault(
    `${path}: the first row has ${dimension} dimensions, expected 1 to ${limits.dimensionMax}. The file is not in the fvecs format.`,
  );
}

/** How the rows of a file lie in it. */
type Layout = {
  /** Bytes of each; undefined if the first bytes do not say it yet. */
  size(pending: Buffer): number | undefined;
  /** The floats of a row, if it has more than these. */
  values?(row: Buffer, number: number): Buffer;
  readonly valueBytes?: 4 | 8;
};

async function* readRows(
  chunks: AsyncIterable<Buffer>,
  from: ReadFrom,
  ids: RowIds,
  path: string,
  { size: sizeOf, values = (row) => row, valueBytes = float32Bytes }: Layout,
): AsyncGenerator<Item[]> {
  let pending: Buffer = Buffer.alloc(0);
  let { offset, number } = from;
  for await (const chunk of chunks) {
    pending = pending.length === 0 ? chunk : Buffer.concat([pending, chunk]);
    const size = sizeOf(pending);
    if (size === undefined || pending.length < size) continue;
    const count = Math.floor(pending.length / size);
    const rowIds = await ids.take(count);
    const items: Item[] = [];
    for (let i = 0; i < count; i++) {
      number++;
      offset += size;
      const bytes = values(pending.subarray(i * size, (i + 1) * size), number);
      items.push(rowItem(number, offset, rowIds[i], floats(bytes, valueBytes)));
    }
    yield items;
    pending = pending.subarray(count * size);
  }
  if (pending.length > 0) {
    throw fileFault(
      `${path} ends in the middle of row ${number + 1}: ${pending.length} bytes are left over. The file is truncated, or the dimension is wrong.`,
    );
  }
}

/** The floats of a row, copied: the row need not be aligned. */
function floats(bytes: Buffer, valueBytes: 4 | 8): Float32Array {
  const values = new Float32Array(bytes.length / valueBytes);
  for (let i = 0; i < values.length; i++)
    values[i] = valueBytes === 4 ? bytes.readFloatLE(i * 4) : bytes.readDoubleLE(i * 8);
  return values;
}

/** A row has a vector, and no field. */
const rowNames: FieldNames = { dense_values: "vector" };

function rowItem(number: number, end: number, id: string, values: Float32Array): Item {
  const wrong = values.findIndex((value) => !Number.isFinite(value));
  if (wrong < 0) {
    return { number, end, id, json: encodeRecord({ id, dense_values: values }, number), names: rowNames };
  }
  const reason = `vector[${wrong}] is ${values[wrong]}, expected a finite number`;
  return { number, end, id, json: JSON.stringify({ id }), problem: { code: "invalid_vector", reason } };
}
