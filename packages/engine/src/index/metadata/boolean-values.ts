// Which records have true, and which have false?

import type { Steps } from "../../base/steps.ts";
import type { BitmapBuilder } from "../bitmap-builder.ts";
import { GrowingBitmap } from "./growing-bitmap.ts";
import type { ValuePart } from "./value-part.ts";

export class BooleanValues {
  readonly yes: GrowingBitmap;
  readonly no: GrowingBitmap;

  constructor(yes = new GrowingBitmap(), no = new GrowingBitmap()) {
    this.yes = yes;
    this.no = no;
  }

  get pairs(): number {
    return this.yes.count + this.no.count;
  }

  add(ordinal: number, values: readonly boolean[]): void {
    for (const value of values) (value ? this.yes : this.no).add(ordinal);
  }

  /** Adds the records with a value. */
  addEqual(into: BitmapBuilder, value: boolean): void {
    const { words, firstWord } = value ? this.yes : this.no;
    into.addWords(words, Math.max(0, firstWord));
  }

  /** All pairs, false before true. */
  parts(): ValuePart<boolean>[] {
    return [part(false, this.no), part(true, this.yes)];
  }

  *entries(): Generator<readonly [value: boolean, ordinal: number]> {
    for (const each of this.parts()) yield* each;
  }

  /** The same values of the records that are kept, in steps. */
  *without(keeps: (ordinal: number) => boolean): Steps<BooleanValues> {
    const made = new BooleanValues();
    let count = 0;
    for (const [value, ordinal] of this.entries()) {
      if (keeps(ordinal)) made.add(ordinal, [value]);
      if (++count % pairsPerStep === 0) yield;
    }
    return made;
  }

  get memoryBytes(): number {
    return this.yes.memoryBytes + this.no.memoryBytes;
  }

  /** Bitmaps have nothing that could disagree. */
  check(): void {}
}

const part = (value: boolean, records: GrowingBitmap): ValuePart<boolean> => ({
  least: value,
  greatest: value,
  *[Symbol.iterator]() {
    for (const ordinal of records.ordinals()) yield [value, ordinal] as const;
  },
});

/** Pairs that are copied at a step. */
const pairsPerStep = 4_096;
