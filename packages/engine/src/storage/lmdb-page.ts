// How is a page of an LMDB file laid out, and is a given page intact?
//
// LMDB pages have no checksums, and LMDB trusts them: one flipped bit can silently lose a part of a table, or crash the process. So
// Quiver also has a reader of its own that trusts nothing (lmdb-file.ts). The layout is that of the LMDB in lmdb-js 3.5 (data
// version 2, little-endian, 64 bits):
//
//   page      u64 number | u64 transaction | u16 - | u16 flags | u16 lower | u16 upper | u16 offsets ... free ... nodes
//             lower, upper and the node offsets are relative to the end of these 24 bytes
//   leaf      node: u32 bytes of the value | u16 flags | u16 bytes of the key | key | value
//   branch    node: u48 page of the child | u16 bytes of the key | key, the lower bound of the child's keys (the first node has none)
//   overflow  a long value, which follows the header of its first page; its node has u64 page | u64 transaction | u64 pages
//   meta      pages 0 and 1, of which the newer counts: the roots of the two trees, and the last page (lmdb-meta.ts)

import { invariant } from "../base/invariant.ts";

/** Bytes of a page before its node offsets. */
export const headerBytes = 24;
const nodeHeaderBytes = 8;

export const pageFlags = { branch: 1, leaf: 2, overflow: 4, meta: 8 } as const;
/** Flags of a leaf's node. */
export const nodeFlags = { overflow: 1, tree: 2 } as const;

/** The longest key that LMDB accepts at any page size in use. */
const keyBytesMax = 1_978;

export const u16At = (bytes: Uint8Array, at: number): number => bytes[at] | (bytes[at + 1] << 8);
export const u32At = (bytes: Uint8Array, at: number): number =>
  (bytes[at] | (bytes[at + 1] << 8) | (bytes[at + 2] << 16) | (bytes[at + 3] << 24)) >>> 0;
/** Exact below 2^53. Greater values are out of range for every field, so their rounding does no harm. */
export const u64At = (bytes: Uint8Array, at: number): number =>
  u32At(bytes, at) + u32At(bytes, at + 4) * 0x1_0000_0000;

/** A node of a leaf. `key` and `value` are views on the page. */
export type LeafNode = {
  readonly key: Uint8Array;
  readonly flags: number;
  /** Bytes of the value, be it inline or in overflow pages. */
  readonly valueBytes: number;
  /** The bytes in the leaf itself: the value, or the reference to its overflow pages. */
  readonly inline: Uint8Array;
};

/** A child of a branch and the lower bound of its keys; null for the first child, which has none. */
export type Child = { readonly page: number; readonly from: Uint8Array | null };

/** The number of nodes according to the page header; -1 if the header is impossible. */
export function nodeCount(page: Uint8Array): number {
  const lower = u16At(page, 20);
  const upper = u16At(page, 22);
  if (lower > upper || headerBytes + upper > page.length || lower % 2 !== 0) return -1;
  return lower / 2;
}

/** Byte offset of the i-th node in its page. */
const placeOf = (page: Uint8Array, i: number): number => headerBytes + u16At(page, headerBytes + 2 * i);

/** The i-th node of a leaf; undefined if its offset or lengths are impossible. */
export function leafNode(page: Uint8Array, i: number): LeafNode | undefined {
  return nodeAt(page, placeOf(page, i));
}

/** The leaf node that starts at a byte offset; undefined if none can start there. */
export function nodeAt(page: Uint8Array, at: number): LeafNode | undefined {
  invariant(at >= headerBytes, () => `a node is looked for at ${at}, in the header of its page`);
  if (at + nodeHeaderBytes > page.length) return undefined;
  const valueBytes = u32At(page, at);
  const flags = u16At(page, at + 4);
  const keyBytes = u16At(page, at + 6);
  const keyAt = at + nodeHeaderBytes;
  const valueAt = keyAt + keyBytes;
  const inlineBytes = flags & nodeFlags.overflow ? 24 : valueBytes;
  if (keyBytes < 1 || keyBytes > keyBytesMax || valueAt + inlineBytes > page.length) return undefined;
  return {
    key: page.subarray(keyAt, valueAt),
    flags,
    valueBytes,
    inline: page.subarray(valueAt, valueAt + inlineBytes),
  };
}

/** The i-th child of a branch; undefined if its offset or length is impossible. */
export function childAt(page: Uint8Array, i: number): Child | undefined {
  invariant(i >= 0 && headerBytes + 2 * i + 2 <= page.length, () => `a page has no place for a child ${i}`);
  const at = placeOf(page, i);
  if (at + nodeHeaderBytes > page.length) return undefined;
  const keyBytes = u16At(page, at + 6);
  const keyAt = at + nodeHeaderBytes;
  if (keyBytes > keyBytesMax || keyAt + keyBytes > page.length) return undefined;
  const child = u32At(page, at) + u16At(page, at + 4) * 0x1_0000_0000;
  return { page: child, from: i === 0 ? null : page.subarray(keyAt, keyAt + keyBytes) };
}

/** Bytes that a node occupies in its page. */
function nodeBytes(page: Uint8Array, i: number, isLeaf: boolean): number {
  const at = placeOf(page, i);
  const keyBytes = u16At(page, at + 6);
  const isOverflow = isLeaf && (u16At(page, at + 4) & nodeFlags.overflow) !== 0;
  const valueBytes = !isLeaf ? 0 : isOverflow ? 24 : u32At(page, at);
  const bytes = nodeHeaderBytes + keyBytes + valueBytes;
  return bytes + (bytes & 1);
}

/**
 * What is wrong with the header or the node layout of a branch or leaf; undefined if it is intact.
 * @param txnMax the latest transaction that may have written this page
 */
export function pageProblem(page: Uint8Array, number: number, txnMax: number): string | undefined {
  invariant(number >= 2, () => `the meta page ${number} is checked as a branch or leaf`);
  const flags = u16At(page, 18);
  if (u64At(page, 0) !== number) return `has the page number ${u64At(page, 0)}`;
  if (flags !== pageFlags.branch && flags !== pageFlags.leaf) return `is neither branch nor leaf (${flags})`;
  if (u64At(page, 8) > txnMax)
    return `was written by transaction ${u64At(page, 8)}, after its parent's (${txnMax})`;
  const count = nodeCount(page);
  if (count < 0) return "has bounds that cannot be";
  const isLeaf = flags === pageFlags.leaf;
  if (count < (isLeaf ? 1 : 2)) return `has ${count} nodes`;
  const nodesAt = headerBytes + u16At(page, 22);
  let bytes = 0;
  const places = new Set<number>();
  for (let i = 0; i < count; i++) {
    const place = placeOf(page, i);
    const node = isLeaf ? leafNode(page, i) : childAt(page, i);
    if (node === undefined || place < nodesAt || places.has(place)) return `has no node in place ${i}`;
    places.add(place);
    bytes += nodeBytes(page, i, isLeaf);
  }
  // LMDB packs nodes without gaps, so a corrupted length shows.
  if (bytes !== page.length - nodesAt)
    return `has nodes of ${bytes} bytes in a space of ${page.length - nodesAt}`;
  return undefined;
}
