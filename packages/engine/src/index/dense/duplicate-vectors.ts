// Which records have the same vector?
//
// Graph, tail and cache know vectors, not records: each distinct vector has one *name* there, the ordinal of the record that
// brought it. Further records with that vector, its *copies*, are kept here alone. A name lives for as long as any of its records,
// also after the record that it is the ordinal of was removed; as ordinals are never used again, neither are names.
//
//   name 7, alone           nothing here
//   name 7 with 12 and 15   next: 7 -> 12 -> 15 -> 7, previous: likewise the other way round; nameOf: 12 -> 7, 15 -> 7
//   the same without 7      the same, and 7 is `headless`: nameOf: 7 -> 7
//
// Invariants (see check):
//   1. next and previous are the same rings, each with one name; nameOf leads from every other record of a ring to it.
//   2. A ring has a copy at least; a headless name has one.
//
// Other threads walk the rings while one changes them. What they see may come and go in the middle of a walk, but every record that their
// version sees is met:
//   - A record is added at the end of a ring: it leads back to the name before any other record leads to it.
//   - A record that is taken out is passed by first. It goes on leading to the next one until no search goes on that may stand there.
//     That one may be taken out, too, and leads on likewise; so each walk comes to the name.
//   - A name that has no record any more stays headless for those who have found it: that its own record was closed may be forgotten.

import { invariant } from "../../base/invariant.ts";
import type { Visible } from "../contract.ts";
import { absent, OrdinalMap, OrdinalMapReader, type SharedOrdinalMap } from "../ordinal-map.ts";

/** What a checkpoint stores. */
export type DuplicateVectorsState = {
  /** Names and their copies, by turns. */
  readonly pairs: Uint32Array;
  readonly headless: Uint32Array;
};

type Retire = (free: () => void) => void;

/** What a thread needs to look up. Can be posted to it. */
export type SharedDuplicateVectors = {
  readonly names: SharedOrdinalMap;
  readonly next: SharedOrdinalMap;
  readonly isEmpty: boolean;
};

/** What searches ask. */
export class DuplicateVectorsReader {
  readonly #names: OrdinalMapReader;
  readonly #next: OrdinalMapReader;
  readonly #isEmpty: () => boolean;

  constructor(names: OrdinalMapReader, next: OrdinalMapReader, isEmpty: () => boolean) {
    this.#names = names;
    this.#next = next;
    this.#isEmpty = isEmpty;
  }

  /** The copies of another thread. */
  static attach({ names, next, isEmpty }: SharedDuplicateVectors): DuplicateVectorsReader {
    return new DuplicateVectorsReader(new OrdinalMapReader(names), new OrdinalMapReader(next), () => isEmpty);
  }

  /** Whether every record is alone with its vector. */
  get isEmpty(): boolean {
    return this.#isEmpty();
  }

  /** The name of a copy; `absent` for every other ordinal. */
  nameOf(ordinal: number): number {
    const name = this.#names.get(ordinal);
    return name === ordinal ? absent : name;
  }

  /** Whether the record that a name is the ordinal of was removed. */
  isHeadless(name: number): boolean {
    return !this.isEmpty && this.#names.get(name) === name;
  }

  /** Calls for each record of a name, until the call returns false. */
  each(name: number, take: (ordinal: number) => boolean): void {
    if (!this.isHeadless(name) && !take(name)) return;
    for (let at = this.#next.get(name); at !== absent && at !== name; at = this.#next.get(at))
      if (!take(at)) return;
  }

  /** A visible record of the name; `absent` if there is none. */
  seen(name: number, visible: Visible): number {
    let seen = absent;
    this.each(name, (ordinal) => {
      if (visible !== null && !visible(ordinal)) return true;
      seen = ordinal;
      return false;
    });
    return seen;
  }
}

export class DuplicateVectors extends DuplicateVectorsReader {
  readonly #names: OrdinalMap;
  readonly #next: OrdinalMap;
  readonly #previous = new OrdinalMap();
  #copyCount = 0;
  #headlessCount = 0;
  /** Records that were taken out and still lead on, and names that are gone and still headless. */
  #leaving = 0;
  readonly #retire: Retire;

  /** @param retire calls when no search goes on that has begun before; default: at once */
  constructor(retire: Retire = (free) => free()) {
    const names = new OrdinalMap(retire);
    const next = new OrdinalMap(retire);
    super(names, next, () => names.size === 0);
    this.#names = names;
    this.#next = next;
    this.#retire = retire;
  }

  get shared(): SharedDuplicateVectors {
    return { names: this.#names.shared, next: this.#next.shared, isEmpty: this.isEmpty };
  }

  /** Records besides those that are names of themselves, less names whose record is gone. */
  get extraCount(): number {
    return this.#copyCount - this.#headlessCount;
  }

  /** A name gets another record. */
  add(name: number, ordinal: number): void {
    const last = this.#previous.get(name);
    const before = last === absent ? name : last;
    this.#copyCount++;
    this.#names.set(ordinal, name);
    this.#next.set(ordinal, name);
    this.#previous.set(name, ordinal);
    this.#previous.set(ordinal, before);
    this.#next.set(before, ordinal);
  }

  /** Takes a record that is held out. Returns the name that has no record any more, or `absent`. */
  remove(ordinal: number): number {
    const name = this.nameOf(ordinal);
    if (name === absent) {
      if (this.#next.get(ordinal) === absent) return ordinal;
      this.#names.set(ordinal, ordinal);
      this.#headlessCount++;
      return absent;
    }
    const next = this.#next.get(ordinal);
    const previous = this.#previous.get(ordinal);
    this.#copyCount--;
    this.#names.delete(ordinal);
    this.#previous.delete(ordinal);
    this.#deleteLater(this.#next, ordinal);
    if (next !== previous) {
      this.#next.set(previous, next);
      this.#previous.set(next, previous);
      return absent;
    }
    // It was the only copy: what is left of the ring is the name.
    this.#next.delete(name);
    this.#previous.delete(name);
    if (this.#names.get(name) === absent) return absent;
    this.#deleteLater(this.#names, name);
    this.#headlessCount--;
    return name;
  }

  #deleteLater(map: OrdinalMap, ordinal: number): void {
    this.#leaving++;
    this.#retire(() => {
      this.#leaving--;
      map.delete(ordinal);
    });
  }

  /** What a checkpoint stores of the names that it contains: their records below `end`. */
  state(isCheckpointed: (name: number) => boolean, end: number): DuplicateVectorsState {
    const pairs: number[] = [];
    const headless: number[] = [];
    for (const [ordinal, name] of this.#names.entries())
      if (name === ordinal) {
        // A name that is gone is not.
        if (isCheckpointed(name)) headless.push(name);
      } else if (ordinal < end && isCheckpointed(name)) pairs.push(name, ordinal);
    return { pairs: Uint32Array.from(pairs), headless: Uint32Array.from(headless) };
  }

  /** Restores from a checkpoint. Returns the headless names of which the checkpoint has no record. */
  restore({ pairs, headless }: DuplicateVectorsState): number[] {
    for (let i = 0; i < pairs.length; i += 2) this.add(pairs[i], pairs[i + 1]);
    const empty: number[] = [];
    for (const name of headless) {
      if (this.#next.get(name) === absent) empty.push(name);
      else {
        this.#names.set(name, name);
        this.#headlessCount++;
      }
    }
    return empty;
  }

  get memoryBytes(): number {
    return this.#names.memoryBytes + this.#next.memoryBytes + this.#previous.memoryBytes;
  }

  clear(): void {
    this.#names.clear();
    this.#next.clear();
    this.#previous.clear();
    this.#copyCount = 0;
    this.#headlessCount = 0;
  }

  /** @param isName whether an ordinal is a name that is held */
  check(isName: (ordinal: number) => boolean): void {
    for (const map of [this.#names, this.#next, this.#previous]) map.check();
    let headless = 0;
    let leaving = 0;
    for (const [ordinal, name] of this.#names.entries()) {
      const isInRing = this.#next.get(ordinal) !== absent;
      if (name === ordinal && isInRing) headless++;
      else if (name === ordinal) leaving++;
      else invariant(isInRing, `the record ${ordinal} of the name ${name} is in no ring`);
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
      const name = this.nameOf(ordinal) === absent ? ordinal : this.nameOf(ordinal);
      const nameOfNext = this.nameOf(next) === absent ? next : this.nameOf(next);
      invariant(name === nameOfNext, `the records ${ordinal} and ${next} of one ring have two names`);
      invariant(
        this.#previous.get(next) === ordinal,
        `the ring of ${name} is not the same in both directions`,
      );
      invariant(next !== ordinal, `the ring of ${name} has no copy`);
      invariant(isName(name), `the name ${name} of record ${ordinal} is not held`);
    }
    invariant(
      leaving === this.#leaving,
      `${leaving} records lead on that were taken out, ${this.#leaving} counted`,
    );
  }
}
