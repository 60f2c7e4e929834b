// Does an inverted index have exactly the postings of its records?
//
// `quiver check` answers this for a user who doubts the results: searches of an index that lacks a posting miss a record silently, and
// nothing else would show it.
//
// For each record, the comparison sums a hash of every posting (index/postings/posting-hash.ts); the order does not matter. Postings of
// the index are added and those of the record are subtracted. A sum that is not zero at the end names a record that differs.

import type { Steps } from "../../base/steps.ts";
import type { PostingHashes, StoredContent } from "../../index/kind.ts";

/** Records read in one step. */
const recordsPerStep = 16;

/**
 * The ordinals whose postings are not those of their record, ascending; undefined if lists were moved meanwhile.
 * @param sees whether an ordinal of the index is compared
 * @param records all records that the index should have; an unreadable one is undefined, and is not compared
 */
export function* differingOrdinals(
  postings: PostingHashes,
  sees: (ordinal: number) => boolean,
  records: Iterable<readonly [ordinal: number, record: StoredContent | undefined]>,
): Steps<number[] | undefined> {
  const sums = new Sums();
  const isWhole = yield* postings.walk((ordinal, hash) => {
    if (sees(ordinal)) sums.add(ordinal, hash);
  });
  if (!isWhole) return undefined;
  let read = 0;
  for (const [ordinal, record] of records) {
    if (record === undefined) sums.forget(ordinal);
    else for (const hash of postings.hashesOf(record)) sums.add(ordinal, -hash);
    if (++read % recordsPerStep === 0) yield;
  }
  return [...sums.notZero()].sort((a, b) => a - b);
}

/** A sum for each ordinal. */
class Sums {
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

  forget(ordinal: number): void {
    const chunk = this.#chunks.get(ordinal >>> 16);
    if (chunk !== undefined) chunk[ordinal & 0xffff] = 0;
  }

  *notZero(): Generator<number> {
    for (const [number, chunk] of this.#chunks)
      for (let at = 0; at < chunk.length; at++) if (chunk[at] !== 0) yield number * 65_536 + at;
  }
}
