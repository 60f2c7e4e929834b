// Which sets of allowed ordinals must every search be right with?

import fc from "fast-check";
import type { Candidates } from "../../src/index/contract.ts";
import { type Allowed, OrdinalBitmap } from "../../src/index/ordinal-bitmap.ts";
import { bestOf } from "./best-of.ts";
import { asMap } from "./reference.ts";

export type AllowedSet = { readonly name: string; readonly allowed: OrdinalBitmap };

export const bitmapOf = (ordinals: Iterable<number>): OrdinalBitmap =>
  OrdinalBitmap.of(Uint32Array.from(ordinals).sort());

/** Random sets of some ordinals, ascending: none, one, few, half, all but one, all; and all plus missing ones. */
export function allowedSets(ordinals: readonly number[], next: () => number): AllowedSet[] {
  const draw = (share: number) => ordinals.filter(() => next() < share);
  const one = ordinals[Math.floor(next() * ordinals.length)];
  const end = (ordinals.at(-1) ?? 0) + 1;
  const sets: Readonly<Record<string, readonly number[]>> = {
    none: [],
    "only missing ones": [end + 40, end + 1_000],
    one: [one],
    few: draw(8 / Math.max(1, ordinals.length)),
    "one in 20": draw(0.05),
    half: draw(0.5),
    "a stretch": ordinals.slice(ordinals.length >> 2, ordinals.length >> 1),
    "all but one": ordinals.filter((ordinal) => ordinal !== one),
    all: ordinals,
    "all and more": Array.from({ length: end + 100 }, (_, ordinal) => ordinal),
  };
  return Object.entries(sets).map(([name, set]) => ({ name, allowed: bitmapOf(set) }));
}

/** The k best allowed ones of a complete result, with all ties. */
export function bestAllowed(all: Candidates, allowed: OrdinalBitmap, k: number): Map<number, number> {
  return bestOf(new Map([...asMap(all)].filter(([ordinal]) => allowed.has(ordinal))), k);
}

/** Which of some records are allowed, and whether others are, too; null: no set. */
export type AllowedShare = {
  readonly modulus: number;
  readonly rest: number;
  readonly isMore: boolean;
} | null;

/** Every one to none of the records. */
export const anyAllowed: fc.Arbitrary<AllowedShare> = fc.option(
  fc.record({ modulus: fc.integer({ min: 1, max: 5 }), rest: fc.nat(5), isMore: fc.boolean() }),
);

/** @param ordinals that are held */
export function allowedOf(share: AllowedShare, ordinals: readonly number[]): Allowed {
  if (share === null) return null;
  const { modulus, rest, isMore } = share;
  const more = isMore ? [(ordinals.at(-1) ?? 0) + 1, (ordinals.at(-1) ?? 0) + 70] : [];
  return bitmapOf([...ordinals.filter((ordinal) => ordinal % modulus === rest), ...more]);
}
