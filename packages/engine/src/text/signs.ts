// How are signs written in words that can be written in several ways?

import { apostrophes, middleDots, quotations } from "./character-classes.ts";

/** Signs that are written in several ways, and how words have them; format characters, which they do not have. */
const variants = /[`\u2018\u2019\u201b\u2032\u05f3"\u201d\u2022\u2027♯\p{Cf}]/gu;
/** Whether a text may have such signs. */
export const hasVariants = /[`\u0080-\uffff]/;

/** A word with one sign for each meaning and without format characters. */
export function tidied(word: string): string {
  // Puts marks that a joiner separated in order.
  return hasVariants.test(word) ? word.replace(variants, usual).normalize("NFC") : word;
}

function usual(sign: string): string {
  if (apostrophes.includes(sign)) return "'";
  if (middleDots.includes(sign)) return "\u00b7";
  if (quotations.includes(sign)) return "\u05f4";
  return sign === "♯" ? "#" : "";
}
