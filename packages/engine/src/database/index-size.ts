// How much memory will an index take, before it is there?
//
// Asked before a load, a new index and a write, so it must be cheap, and about right: dense indexes follow from their definition, the
// inverted ones from a sample of the records. The numbers were measured on 20,000 records of 4, 64 and 256 values, 50 entries
// and 240 bytes of text, of which they are within a tenth. Which codes `auto` will choose is not known; a byte for each value is taken for it.

import type { DenseIndex, IndexKind } from "@quiver/protocol/shapes/index-definition";
import type { IndexDefinitions } from "../collection/apply.ts";
import type { CollectionDefinition } from "../collection/definition.ts";
import type { Head } from "../collection/head.ts";
import { RecordReader } from "../collection/record.ts";
import { ordinalKey } from "../collection/tables.ts";
import type { Reader } from "../storage/store.ts";

/** Records that are looked at. */
const sampleCount = 32;
/** Bits of a code for each value. */
const codeBits: Readonly<Record<string, number>> = {
  binary: 1,
  quaternay: 2,
  octal: 3,
  u8: 8,
  f16: 16,
  f32: 32,
};
/** Of a record in a graph, beside code and links: its place, its levels, and its part of tables that have room. */
const recordBytes = 160;
/** Of each entry of a sparse vector or each byte of a text. */
const entryBytes = 12.6;
const textByteBytes = 1.5;
/** Of an inverted index that has anything in it: the memory in which it begins. */
const invertedBytes = 1.5 * 1024 * 1024;
/** The tables grow by doubling, so that they are larger than what is in them. */
const roomShare = 1.1;

/** Bytes of one record in a dense index: its vector, its code and its links. */
export function denseRecordBytes(
  { dimension }: CollectionDefinition,
  { quantization, index: { properties } }: DenseIndex,
): number {
  const values = dimension as number;
  const bits = codeBits[quantization.properties.data_type ?? "u8"] ?? 8;
  const m = properties.neighbors_count ?? 16;
  const m0 = properties.level_0_neighbors_count ?? 2 * m;
  return Math.ceil(roomShare * (4 * values + (values * bits) / 8 + 4 * (m0 + 1) + recordBytes));
}

/** Bytes that an index of the collection as it is now will take, about. */
export function indexSize(
  reader: Reader,
  head: Head,
  collection: CollectionDefinition,
  kind: IndexKind,
  definitions: IndexDefinitions,
): number {
  if (kind === "dense") return head.dense * denseRecordBytes(collection, definitions.dense as DenseIndex);
  const count = kind === "sparse" ? head.sparse : head.text;
  if (count === 0) return 0;
  let [bytes, seen] = [0, 0];
  for (let i = 0; i < sampleCount; i++) {
    const start = ordinalKey(Math.floor((i * head.nextOrdinal) / sampleCount));
    for (const [, stored] of reader.entries("records", { start, limit: 1 })) {
      const record = new RecordReader(stored);
      const size =
        kind === "sparse"
          ? (record.sparse?.indices.length ?? 0) * entryBytes
          : (record.text?.value.length ?? 0) * textByteBytes;
      if (size > 0) seen++;
      bytes += size;
    }
  }
  return seen === 0 ? 0 : Math.ceil(invertedBytes + (count * bytes) / seen);
}
