// Which records have the same vector?
//
// Graph, tail and cache know vectors, not records: each distinct vector has one *vector key* there, the ordinal of the record that
// brought it. Further records with that vector, its *duplicates*, are kept here alone. A vector key lives for as long as any of its records,
// also after the record that it is the ordinal of was removed; as ordinals are never used again, neither are vector keys.
//
//   vector key 7, alone           nothing here
//   vector key 7 with 12 and 15   next: 7 -> 12 -> 15 -> 7, previous: likewise the other way round; vectorKeyOf: 12 -> 7, 15 -> 7
//   the same without 7      the same, and 7 is `headless`: vectorKeyOf: 7 -> 7
//
// Invariants (see check):
//   1. next and previous are the same rings, each with one vector key; vectorKeyOf leads from every other record of a ring to it.
//   2. A ring has a duplicate at least; a headless vector key has one.
//
// Other threads walk the rings while one changes them. What they see may come and go in the middle of a walk, but every record that their
// version sees is met:
//   - A record is added at the end of a ring: it leads back to the vector key before any other record leads to it.
//   - A record that is taken out is passed by first. It goes on leading to the next one until no search goes on that may stand there.
//     That one may be taken out, too, and leads on likewise; so each walk comes to the vector key.
//   - A vector key that has no record any more stays headless for those who have found it: that its own record was closed may be forgotten.

import { invariant } from "../../base/invariant.ts";
import type { Visible } from "../contract.ts";
import { absent, OrdinalMap, OrdinalMapReader, type SharedOrdinalMap } from "../ordinal-map.ts";

/** What a checkpoint stores. */
export type DuplicateVectorsState = {
  /** Vector keys and their duplicates, by turns. */
  readonly pairs: Uint32Array;
  readonly headless: Uint32Array;
};

type Retire = (free: () => void) => void;

/** What a thread needs to look up. Can be posted to it. */
export type SharedDuplicateVectors = {
  readonly vectorKeys: SharedOrdinalMap;
  readonly next: SharedOrdinalMap;
  readonly isEmpty: boolean;
};

/** What searches ask. */
export class DuplicateVectorsReader {
  readonly #vectorKeys: OrdinalMapReader;
  readonly #next: OrdinalMapReader;
  readonly #isEmpty: () => boolean;

  constructor(vectorKeys: OrdinalMapReader, next: OrdinalMapReader, isEmpty: () => boolean) {
    this.#vectorKeys = vectorKeys;
    this.#next = next;
    this.#isEmpty = isEmpty;
  }

  /** The duplicates of another thread. */
  static attach({ vectorKeys, next, isEmpty }: SharedDuplicateVectors): DuplicateVectorsReader {
    return new DuplicateVectorsReader(
      new OrdinalMapReader(vectorKeys),
      new OrdinalMapReader(next),
      () => isEmpty,
    );
  }

  /** Whether every record is alone with its vector. */
  get isEmpty(): boolean {
    return this.#isEmpty();
  }

  /** The vector key of a duplicate; `absent` for every other ordinal. */
  vectorKeyOf(ordinal: number): number {
    const vectorKey = this.#vectorKeys.get(ordinal);
    return vectorKey === ordinal ? absent : vectorKey;
  }

  /** Whether the record that a vector key is the ordinal of was removed. */
  isHeadless(vectorKey: number): boolean {
    return !this.isEmpty && this.#vectorKeys.get(vectorKey) === vectorKey;
  }

  /** Calls for each record of a vector key, until the call returns false. */
  each(vectorKey: number, take: (ordinal: number) => boolean): void {
    if (!this.isHeadless(vectorKey) && !take(vectorKey)) return;
    for (let at = this.#next.get(vectorKey); at !== absent && at !== vectorKey; at = this.#next.get(at))
      if (!take(at)) return;
  }

  /** A visible record of the vector key; `absent` if there is none. */
  seen(vectorKey: number, visible: Visible): number {
    let seen = absent;
    this.each(vectorKey, (ordinal) => {
      if (visible !== null && !visible(ordinal)) return true;
      seen = ordinal;
      return false;
    });
    return seen;
  }

  /** Whether a version sees any record of a vector key. */
  seesVectorKey(visible: Visible): Visible {
    return visible === null || this.isEmpty
      ? visible
      : (vectorKey) => this.seen(vectorKey, visible) !== absent;
  }

  /** Reads the vector of a vector key through a visible record: other records may no longer be stored. */
  readerOf<Vector>(
    visible: () => Visible,
    vectorOf?: (ordinal: number) => Vector,
  ): ((vectorKey: number) => Vector) | undefined {
    if (vectorOf === undefined || this.isEmpty) return vectorOf;
    return (vectorKey) => {
      const seen = this.seen(vectorKey, visible());
      return vectorOf(seen === absent ? vectorKey : seen);
    };
  }
}

export class DuplicateVectors extends DuplicateVectorsReader {
  readonly #vectorKeys: OrdinalMap;
  readonly #next: OrdinalMap;
  readonly #previous = new OrdinalMap();
  #copyCount = 0;
  #headlessCount = 0;
  /** Records that were taken out and still lead on, and vector keys that are gone and still headless. */
  #leaving = 0;
  readonly #retire: Retire;

  /** @param retire calls when no search goes on that has begun before; default: at once */
  constructor(retire: Retire = (free) => free()) {
    const vectorKeys = new OrdinalMap(retire);
    const next = new OrdinalMap(retire);
    super(vectorKeys, next, () => vectorKeys.size === 0);
    this.#vectorKeys = vectorKeys;
    this.#next = next;
    this.#retire = retire;
  }

  get shared(): SharedDuplicateVectors {
    return { vectorKeys: this.#vectorKeys.shared, next: this.#next.shared, isEmpty: this.isEmpty };
  }

  /** Records besides those that are vector keys of themselves, less vector keys whose record is gone. */
  get extraCount(): number {
    return this.#copyCount - this.#headlessCount;
  }

  /** A vector key gets another record. */
  add(vectorKey: number, ordinal: number): void {
    const last = this.#previous.get(vectorKey);
    const before = last === absent ? vectorKey : last;
    invariant(
      ordinal > before,
      () => `the record ${ordinal} follows ${before} in the ring of the vector key ${vectorKey}`,
    );
    this.#copyCount++;
    this.#vectorKeys.set(ordinal, vectorKey);
    this.#next.set(ordinal, vectorKey);
    this.#previous.set(vectorKey, ordinal);
    this.#previous.set(ordinal, before);
    this.#next.set(before, ordinal);
  }

  /** Takes a record that is held out. Returns the vector key that has no record any more, or `absent`. */
  remove(ordinal: number): number {
    const vectorKey = this.vectorKeyOf(ordinal);
    if (vectorKey === absent) {
      if (this.#next.get(ordinal) === absent) return ordinal;
      this.#vectorKeys.set(ordinal, ordinal);
      this.#headlessCount++;
      return absent;
    }
    const next = this.#next.get(ordinal);
    const previous = this.#previous.get(ordinal);
    invariant(
      next !== absent && previous !== absent,
      () => `the record ${ordinal} of the vector key ${vectorKey} is in no ring`,
    );
    this.#copyCount--;
    this.#vectorKeys.delete(ordinal);
    this.#previous.delete(ordinal);
    this.#deleteLater(this.#next, ordinal);
    if (next !== previous) {
      this.#next.set(previous, next);
      this.#previous.set(next, previous);
      return absent;
    }
    // It was the only duplicate: what is left of the ring is the vector key.
    this.#next.delete(vectorKey);
    this.#previous.delete(vectorKey);
    if (this.#vectorKeys.get(vectorKey) === absent) return absent;
    this.#deleteLater(this.#vectorKeys, vectorKey);
    this.#headlessCount--;
    invariant(
      this.#headlessCount >= 0 && this.#copyCount >= this.#headlessCount,
      () => `${this.#copyCount} duplicates are of ${this.#headlessCount} vector keys without a record`,
    );
    return vectorKey;
  }

  #deleteLater(map: OrdinalMap, ordinal: number): void {
    this.#leaving++;
    this.#retire(() => {
      this.#leaving--;
      invariant(this.#leaving >= 0, "a record that led on was taken out twice");
      map.delete(ordinal);
    });
  }

  /** What a checkpoint stores of the vector keys that it contains: their records below `end`. */
  state(isCheckpointed: (vectorKey: number) => boolean, end: number): DuplicateVectorsState {
    const pairs: number[] = [];
    const headless: number[] = [];
    for (const [ordinal, vectorKey] of this.#vectorKeys.entries())
      if (vectorKey === ordinal) {
        // A vector key that is gone is not.
        if (isCheckpointed(vectorKey)) headless.push(vectorKey);
      } else if (ordinal < end && isCheckpointed(vectorKey)) pairs.push(vectorKey, ordinal);
    return { pairs: Uint32Array.from(pairs), headless: Uint32Array.from(headless) };
  }

  /** Restores from a checkpoint. Returns the headless vector keys of which the checkpoint has no record. */
  restore({ pairs, headless }: DuplicateVectorsState): number[] {
    invariant(
      this.#copyCount === 0 && pairs.length % 2 === 0,
      `${pairs.length} numbers are restored as pairs, beside ${this.#copyCount} duplicates`,
    );
    for (let i = 0; i < pairs.length; i += 2) this.add(pairs[i], pairs[i + 1]);
    const empty: number[] = [];
    for (const vectorKey of headless) {
      if (this.#next.get(vectorKey) === absent) empty.push(vectorKey);
      else {
        this.#vectorKeys.set(vectorKey, vectorKey);
        this.#headlessCount++;
      }
    }
    return empty;
  }

  get memoryBytes(): number {
    return this.#vectorKeys.memoryBytes + this.#next.memoryBytes + this.#previous.memoryBytes;
  }

  clear(): void {
    this.#vectorKeys.clear();
    this.#next.clear();
    this.#previous.clear();
    this.#copyCount = 0;
    this.#headlessCount = 0;
  }

  /** @param isVectorKey whether an ordinal is a vector key that is held */
  check(isVectorKey: (ordinal: number) => boolean): void {
    for (const map of [this.#vectorKeys, this.#next, this.#previous]) map.check();
    let headless = 0;
    let leaving = 0;
    for (const [ordinal, vectorKey] of this.#vectorKeys.entries()) {
      const isInRing = this.#next.get(ordinal) !== absent;
      if (vectorKey === ordinal && isInRing) headless++;
      else if (vectorKey === ordinal) leaving++;
      else invariant(isInRing, `the record ${ordinal} of the vector key ${vectorKey} is in no ring`);
    }
    invariant(
      headless === this.#headlessCount,
      `${headless} names have no record, ${this.#headlessCount} counted`,
    );
    for (const [ordinal, next] of this.#next.entries()) {
      if (this.#previous.get(ordinal) === absent) {
        leaving++;
        continue;
      }
      const vectorKey = this.vectorKeyOf(ordinal) === absent ? ordinal : this.vectorKeyOf(ordinal);
      const vectorKeyOfNext = this.vectorKeyOf(next) === absent ? next : this.vectorKeyOf(next);
      invariant(
        vectorKey === vectorKeyOfNext,
        `the records ${ordinal} and ${next} of one ring have two vector keys`,
      );
      invariant(
        this.#previous.get(next) === ordinal,
        `the ring of ${vectorKey} is not the same in both directions`,
      );
      invariant(next !== ordinal, `the ring of ${vectorKey} has no duplicate`);
      invariant(isVectorKey(vectorKey), `the vector key ${vectorKey} of record ${ordinal} is not held`);
    }
    invariant(
      leaving === this.#leaving,
      `${leaving} records lead on that were taken out, ${this.#leaving} counted`,
    );
  }
}
