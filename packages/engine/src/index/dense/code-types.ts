// Which types of codes exist, how large are they, and how accurate?
//
// encoding.ts describes how a vector is encoded, and kernels/assembly/hnsw/keys.ts the layout of the bits.

import type { MetricName } from "@quiverdb/protocol/shapes/index-definition";

/** From the most to the least precise; their numbers are those of kernels/assembly/hnsw/keys.ts. */
export const hnswDataTypes = ["f32", "f16", "u8", "octal", "quaternary", "binary"] as const;
/** A type of codes. */
export type HnswDataType = (typeof hnswDataTypes)[number];

/** By which the kernels know the types. */
export const dataTypeNumbers: Readonly<Record<HnswDataType, number>> = {
  f32: 0,
  f16: 1,
  u8: 2,
  octal: 3,
  quaternary: 4,
  binary: 5,
};

/** How candidates for links are found: by product (0) or by distance (1). See docs/decisions/hnsw-graph.md. */
export const buildModes: Readonly<Record<MetricName, number>> = { cosine: 1, euclidean: 1, dot_product: 0 };

/** The parameters of a type of codes. */
export type CodeKind = {
  /** Values in a block of whole registers. */
  readonly blockValues: number;
  readonly blockBytes: number;
  /** Bytes of a query's value. */
  readonly queryValueBytes: number;
  /** Codes are u + zero in [least, most]; 0 for floats. */
  readonly zero: number;
  readonly least: number;
  readonly most: number;
  readonly isRotated: boolean;
  /** Quantization steps to try: relative to the largest value for u8, to the root mean square for fewer bits. */
  readonly steps: readonly number[];
};

const float = { queryValueBytes: 4, zero: 0, least: 0, most: 0, isRotated: false, steps: [] };
const bits = { queryValueBytes: 1, least: 0, isRotated: true };
export const codeKinds: Readonly<Record<HnswDataType, CodeKind>> = {
  f32: { ...float, blockValues: 4, blockBytes: 16 },
  f16: { ...float, blockValues: 8, blockBytes: 16 },
  u8: {
    blockValues: 16,
    blockBytes: 16,
    queryValueBytes: 1,
    zero: 64,
    least: 1,
    most: 127,
    isRotated: false,
    steps: [1 / 63.49, 0.85 / 63.49, 0.7 / 63.49, 0.5 / 63.49],
  },
  octal: {
    ...bits,
    blockValues: 128,
    blockBytes: 48,
    zero: 3.5,
    most: 7,
    steps: [0.48, 0.53, 0.586, 0.65, 0.72],
  },
  quaternary: {
    ...bits,
    blockValues: 64,
    blockBytes: 16,
    zero: 1.5,
    most: 3,
    steps: [0.8, 0.9, 1, 1.1, 1.22],
  },
  binary: { ...bits, blockValues: 128, blockBytes: 16, zero: 0.5, most: 1, steps: [1] },
};

/** Fields before a query's values: scale f32, offset i32, weight f32, constant f32. */
export const queryFieldsBytes = 16;

/** Bytes of a code and of a query's code with its fields. */
export function codeSizes(
  dataType: HnswDataType,
  dimension: number,
): { readonly codeBytes: number; readonly queryBytes: number } {
  const { blockValues, blockBytes, queryValueBytes } = codeKinds[dataType];
  const blocks = Math.ceil(dimension / blockValues);
  return {
    // The last register of a u8 code may contain following bytes; the query is zero there.
    codeBytes: dataType === "u8" ? 4 * Math.ceil(dimension / 4) : blocks * blockBytes,
    queryBytes: queryFieldsBytes + blocks * blockValues * queryValueBytes,
  };
}

/** How many of the best by code are scored exactly, so that codes cost little recall; by measurement. */
export function rescoreDepth(dataType: HnswDataType, k: number): number {
  const [times, least] = rescoreDepths[dataType];
  return Math.max(k + least, Math.ceil(times * k));
}

/**
 * How many are scored at first where more follow if the best are among the last of them (rescoring.ts): half of what is scored beyond k, and
 * so many that the best can be before the last quarter. 10 of 50,000 x 768 by 2 bits: 35 rows a query instead of 60, a tenth of the time of
 * a search, and a recall of 0.9975 instead of 0.9980. One bit orders too badly for that: 0.01 less.
 */
export function firstDepth(dataType: HnswDataType, depth: number, k: number): number {
  if (dataType === "binary") return depth;
  return Math.min(depth, Math.max(k + Math.ceil((depth - k) / 2), Math.ceil((4 / 3) * k)));
}

const rescoreDepths: Readonly<Record<HnswDataType, readonly [times: number, least: number]>> = {
  f32: [1, 0],
  f16: [1, 4],
  u8: [1.5, 14],
  octal: [3, 30],
  quaternary: [5, 50],
  binary: [10, 100],
};
