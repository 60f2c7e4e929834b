// Which records have the same vector?
//
// Graph, tail and cache know vectors, not records: each distinct vector has one *name* there, the ordinal of the record that
// brought it. Further records with that vector, its *copies*, are kept here alone. A name lives for as long as any of its records,
// also after the record that it is the ordinal of was removed; as ordinals are never used again, neither are names.
//
//   name 7, alone           nothing here
//   name 7 with 12 and 15   next: 7 -> 12 -> 15 -> 7, previous: likewise the other way round; nameOf: 12 -> 7, 15 -> 7
//   the same without 7      the same, and 7 is `headless`
//
// Invariants (see check):
//   1. next and previous are the same rings, each with one name; nameOf leads from every other record of a ring to it.
//   2. A ring has a copy at least; a headless name has one.

import { invariant } from "../../base/invariant.ts";
import type { Visible } from "../contract.ts";
import { absent, OrdinalMap } from "../ordinal-map.ts";

/** What a checkpoint stores. */
export type CopiesState = {
  /** Names and their copies, by turns. */
  readonly pairs: Uint32Array;
  readonly headless: Uint32Array;
};

export class Copies {
  readonly #names = new OrdinalMap();
  readonly #next = new OrdinalMap();
  readonly #previous = new OrdinalMap();
  readonly #headless = new Set<number>();

  /** Whether every record is alone with its vector. */
  get isEmpty(): boolean {
    return this.#names.size === 0;
  }

  /** Records besides those that are names of themselves, less names whose record is gone. */
  get extraCount(): number {
    return this.#names.size - this.#headless.size;
  }

  /** The name of a copy; `absent` for every other ordinal. */
  nameOf(ordinal: number): number {
    return this.#names.get(ordinal);
  }

  /** Whether the record that a name is the ordinal of was removed. */
  isHeadless(name: number): boolean {
    return this.#headless.size > 0 && this.#headless.has(name);
  }

  /** A name gets another record. */
  add(name: number, ordinal: number): void {
    const last = this.#previous.get(name);
    const before = last === absent ? name : last;
    this.#next.set(before, ordinal);
    this.#previous.set(ordinal, before);
    this.#next.set(ordinal, name);
    this.#previous.set(name, ordinal);
    this.#names.set(ordinal, name);
  }

  /** Takes a record that is held out. Returns the name that has no record any more, or `absent`. */
  remove(ordinal: number): number {
    const name = this.#names.get(ordinal);
    if (name === absent) {
      if (this.#next.get(ordinal) === absent) return ordinal;
      this.#headless.add(ordinal);
      return absent;
    }
    const next = this.#next.get(ordinal);
    const previous = this.#previous.get(ordinal);
    this.#names.delete(ordinal);
    this.#next.delete(ordinal);
    this.#previous.delete(ordinal);
    if (next !== previous) {
      this.#next.set(previous, next);
      this.#previous.set(next, previous);
      return absent;
    }
    // It was the only copy: the ring consists only of the name now.
    this.#next.delete(name);
    this.#previous.delete(name);
    return this.#headless.delete(name) ? name : absent;
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

  /** What a checkpoint stores of the names that it contains: their records below `end`. */
  state(isCheckpointed: (name: number) => boolean, end: number): CopiesState {
    const pairs: number[] = [];
    for (const [ordinal, name] of this.#names.entries())
      if (ordinal < end && isCheckpointed(name)) pairs.push(name, ordinal);
    return {
      pairs: Uint32Array.from(pairs),
      headless: Uint32Array.from(this.#headless).filter(isCheckpointed),
    };
  }

  /** Restores from a checkpoint. Returns the headless names of which the checkpoint has no record. */
  restore({ pairs, headless }: CopiesState): number[] {
    for (let i = 0; i < pairs.length; i += 2) this.add(pairs[i], pairs[i + 1]);
    const empty: number[] = [];
    for (const name of headless) {
      if (this.#next.get(name) === absent) empty.push(name);
      else this.#headless.add(name);
    }
    return empty;
  }

  get memoryBytes(): number {
    return (
      this.#names.memoryBytes + this.#next.memoryBytes + this.#previous.memoryBytes + 40 * this.#headless.size
    );
  }

  clear(): void {
    this.#names.clear();
    this.#next.clear();
    this.#previous.clear();
    this.#headless.clear();
  }

  /** @param isName whether an ordinal is a name that is held */
  check(isName: (ordinal: number) => boolean): void {
    for (const map of [this.#names, this.#next, this.#previous]) map.check();
    for (const [ordinal, next] of this.#next.entries()) {
      const name = this.#names.get(ordinal) === absent ? ordinal : this.#names.get(ordinal);
      const nameOfNext = this.#names.get(next) === absent ? next : this.#names.get(next);
      invariant(name === nameOfNext, `the records ${ordinal} and ${next} of one ring have two names`);
      invariant(
        this.#previous.get(next) === ordinal,
        `the ring of ${name} is not the same in both directions`,
      );
      invariant(next !== ordinal, `the ring of ${name} has no copy`);
      invariant(isName(name), `the name ${name} of record ${ordinal} is not held`);
    }
    invariant(this.#next.size === this.#previous.size, "the rings differ in their directions");
    for (const name of this.#headless)
      invariant(this.#next.get(name) !== absent, `the name ${name} has no record`);
  }
}
