// Does an inverted index have what its records say, no more and no less?
//
// Both are made into one number for each record: the sum of a hash of every posting, which does not depend on order. The index
// adds, the records subtract, and what is not zero at the end names its record. Two sums that are wrong by chance alike are as
// likely as one in 2^32.

import { crc32 } from "node:zlib";
import type { RecordReader } from "../../collection/record.ts";
import type { SparseIndex } from "../../index/sparse/sparse-index.ts";
import type { TextIndex } from "../../index/text/text-index.ts";
import { segment, segmentProcessed } from "../../text/segment.ts";

/** A sum for each ordinal. */
export class PostingSums {
  readonly #chunks = new Map<number, Uint32Array>();

  add(ordinal: number, hash: number): void {
    const number = ordinal >>> 16;
    let chunk = this.#chunks.get(number);
    if (chunk === undefined) {
      chunk = new Uint32Array(65_536);
      this.#chunks.set(number, chunk);
    }
    chunk[ordinal & 0xffff] += hash;
  }

  /** What is known of an ordinal does not count. */
  forget(ordinal: number): void {
    const chunk = this.#chunks.get(ordinal >>> 16);
    if (chunk !== undefined) chunk[ordinal & 0xffff] = 0;
  }

  /** Ordinals of which index and record differ. */
  *notZero(): Generator<number> {
    for (const [number, chunk] of this.#chunks)
      for (let at = 0; at < chunk.length; at++) if (chunk[at] !== 0) yield number * 65_536 + at;
  }
}

const float = new Float32Array(1);
const floatBits = new Uint32Array(float.buffer);

/** Scatters a pair of numbers over 32 bits (the end of MurmurHash3). */
function mix(a: number, b: number): number {
  let h = Math.imul(a ^ 0x9e3779b9, 0x85ebca6b) ^ Math.imul(b, 0xc2b2ae35);
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

function weightHash(dimension: number, weight: number): number {
  float[0] = weight;
  return mix(dimension, floatBits[0]);
}

const termHash = (term: string, tf: number): number => mix(crc32(term), tf);

/** An index, as hashes of its postings and of those that a record should have. */
export type PostingSide = {
  walk(add: (ordinal: number, hash: number) => void): Generator<void, boolean>;
  hashesOf(record: RecordReader): Iterable<number>;
};

export function sparsePostings(index: SparseIndex): PostingSide {
  return {
    walk: (add) => index.weights((dimension, ordinal, weight) => add(ordinal, weightHash(dimension, weight))),
    *hashesOf(record) {
      const { sparse } = record;
      if (sparse === null) return;
      for (let i = 0; i < sparse.indices.length; i++) yield weightHash(sparse.indices[i], sparse.values[i]);
    },
  };
}

export function textPostings(index: TextIndex): PostingSide {
  return {
    walk: (add) => index.frequencies((term, ordinal, tf) => add(ordinal, termHash(term, tf))),
    *hashesOf(record) {
      const { text } = record;
      if (text === null) return;
      const words = text.kind === "raw" ? segment(text.value) : segmentProcessed(text.value);
      const frequencies = new Map<string, number>();
      index.analyzer.read(words, (term) => frequencies.set(term, (frequencies.get(term) ?? 0) + 1));
      for (const [term, tf] of frequencies) yield termHash(term, tf);
    },
  };
}
