// Which records have true, and which have false?

import type { Steps } from "../../base/steps.ts";
import type { BitmapBuilder } from "../bitmap-builder.ts";
import { GrowingBitmap } from "./growing-bitmap.ts";

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

  *entries(): Generator<[value: boolean, ordinal: number]> {
    for (const ordinal of this.yes.ordinals()) yield [true, ordinal];
    for (const ordinal of this.no.ordinals()) yield [false, ordinal];
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

/** Pairs that are copied at a step. */
const pairsPerStep = 4_096;
