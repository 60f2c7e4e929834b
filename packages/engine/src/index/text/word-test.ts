// Which words does a prefix or fuzzy word stand for?

import { EditDistance } from "../../text/edit-distance.ts";

/** Words that begin with a prefix, or that are at most `distance` edits (1 or 2) from a word. */
export type WordTest = { readonly prefix: string } | { readonly fuzzy: string; readonly distance: number };

/** Tests the code units from `begin` to `end`, exclusive. */
export type UnitsTest = (units: Uint16Array, begin: number, end: number) => boolean;

/** The test as a function of code units, which compares words of a dictionary without making strings of them. */
export function testOf(test: WordTest): UnitsTest {
  if ("prefix" in test) {
    const { prefix } = test;
    return (units, begin, end) => {
      if (end - begin < prefix.length) return false;
      for (let i = 0; i < prefix.length; i++) if (units[begin + i] !== prefix.charCodeAt(i)) return false;
      return true;
    };
  }
  const { fuzzy, distance } = test;
  const distances = new EditDistance(fuzzy);
  return (units, begin, end) => distances.toUnits(units, begin, end, distance) <= distance;
}
