// What is the role of a character in a word?

import { isGramCharacter } from "./grams.ts";

const unknown = 0;
export const separator = 1;
export const letter = 2;
export const digit = 3;
export const mark = 4;
export const format = 5;
export const apostrophe = 6;
export const point = 7;
/** A letter or mark of a script without spaces that has dictionaries, and of one that is taken apart. */
export const spaceless = 8;
export const spacelessMark = 9;
export const gram = 10;
export const emoji = 11;
/** Signs that belong to a word between certain letters only. */
export const middleDot = 12;
export const quotation = 13;
export const comma = 14;

/** The class of each code point, found when it is first met. Untouched parts of the table take no memory. */
const classes = new Uint8Array(0x110000);

function classify(character: string): number {
  const isMark = /\p{M}/u.test(character);
  if (isMark || /\p{L}/u.test(character)) {
    if (/[\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u.test(character))
      return isMark ? spacelessMark : spaceless;
    if (isMark) return mark;
    return isGramCharacter(character) ? gram : letter;
  }
  if (/\p{N}/u.test(character)) return isGramCharacter(character) ? gram : digit;
  if (/\p{Cf}/u.test(character)) return format;
  if (apostrophes.includes(character)) return apostrophe;
  if (character === ".") return point;
  if (character === ",") return comma;
  if (middleDots.includes(character)) return middleDot;
  if (quotations.includes(character)) return quotation;
  return isEmoji(character) ? emoji : separator;
}

/** The signs that stand for each of these. */
export const apostrophes = "'`\u2018\u2019\u201b\u2032\u05f3";
export const middleDots = "\u00b7\u2022\u2027";
export const quotations = '"\u201d\u05f4';

/** What most systems show as a picture. Of older symbols those that have one too: ❤ and ☎, and not © and ↔. */
function isEmoji(character: string): boolean {
  if (/[\p{Emoji_Presentation}\p{Regional_Indicator}]/u.test(character)) return true;
  const codePoint = character.codePointAt(0) as number;
  const isSymbol = codePoint >= 0x1f000 || (codePoint >= 0x2600 && codePoint <= 0x27bf);
  return isSymbol && /\p{Extended_Pictographic}/u.test(character);
}

/** The class of the character that begins at `at`. A lone surrogate separates. */
export function classAt(text: string, at: number): number {
  const unit = text.charCodeAt(at);
  const codePoint = (unit & 0xfc00) === 0xd800 ? (text.codePointAt(at) as number) : unit;
  const known = classes[codePoint];
  if (known !== unknown) return known;
  classes[codePoint] = classify(String.fromCodePoint(codePoint));
  return classes[codePoint];
}

/** UTF-16 code units of the character at `at`. */
export function widthAt(text: string, at: number): number {
  return (text.charCodeAt(at) & 0xfc00) === 0xd800 && (text.charCodeAt(at + 1) & 0xfc00) === 0xdc00 ? 2 : 1;
}
