// Which words does a text consist of?
//
// The language-neutral half of text analysis; the other is analyzer.ts. A collection that does not keep raw text
// stores `tokenize(text).join(" ")`, so words never contain a space, and must suit every language that an index
// may choose later: nothing is folded, stemmed or left out here.
//
// The text is brought to NFKC (ﬁ -> fi, fullwidth -> plain, e + accent -> é) and lower case. A word is then
//
//   - a run of letters, digits and their marks: \p{L} \p{N} \p{M}, beginning with a letter or digit;
//   - with an apostrophe inside, between letters, whichever sign stands for it: don't, don´t, l'homme (what it means
//     depends on the language); a Hebrew quotation mark between Hebrew letters; the middle dot of Catalan l·l;
//   - with points inside, between digits: 3.14; commas group thousands or stand for the point, and 10,000.50 is 10000.50,
//     3,14 is 3.14, 1,2,3 three numbers, and the 1,4,5 of 1,4,5-trisphosphate one word;
//   - one letter followed by ++ or #: c++, c#, f#;
//   - without format characters (soft hyphen, joiners), which Unicode's rule WB4 makes transparent;
//   - in Chinese, Japanese and Korean script a whole run, which grams.ts takes apart;
//   - in other scripts without spaces, what Intl.Segmenter's dictionaries find: Thai, Lao, Khmer and Myanmar;
//   - an emoji, with all that belongs to it.
//
// All else separates: hyphens, underscores and points between letters (here we split finer than UAX #29, so
// that parts are found), symbols, lone surrogates. A fraction or exponent (½, ²) does not join the digits beside it.
//
// Takes time in proportion to the text, whatever it holds. That needs care in one place: normalizing puts a run of
// combining marks in order by insertion, and 400,000 marks took a minute; no more than `marksMax` in a row are read.
//
// The table of docs/guide/text.md has an example of each, and a test goes through it.
//
// The rules for where a word ends are here, because they look at each other's characters. They go by character-classes.ts.

import { utf8 } from "../base/bytes.ts";
import type { Steps } from "../base/steps.ts";
import {
  apostrophe,
  apostrophes,
  classAt,
  comma,
  digit,
  emoji,
  format,
  gram,
  letter,
  mark,
  middleDot,
  middleDots,
  point,
  quotation,
  quotations,
  separator,
  spaceless,
  spacelessMark,
  widthAt,
} from "./character-classes.ts";

/** Combining marks in a row that are read; Unicode's stream-safe format (UAX #15) allows as many. */
const marksMax = 30;

const beyondAscii = /[\u0080-\uffff]/;

/** The words of a text in their order: NFKC and lower case, with their marks. */
export function tokenize(text: string): string[] {
  return words(beyondAscii.test(text) ? normalized(text) : text.toLowerCase());
}

/** Minimum number of characters per step. */
const charactersPerStep = 16 * 1024;
/** White space that always separates words: after it the text can be processed as if it began there. */
const space = /[ \t\n\r]/g;

/** `tokenize` for a long text, in steps: it is split at white space, which no word, mark or run crosses. */
export function* tokenizeInSteps(text: string): Steps<string[]> {
  if (text.length <= 2 * charactersPerStep) return tokenize(text);
  const words: string[] = [];
  for (let from = 0; from < text.length; ) {
    space.lastIndex = from + charactersPerStep;
    const found = space.exec(text);
    const to = found === null ? text.length : found.index;
    for (const word of tokenize(text.slice(from, to))) words.push(word);
    from = found === null ? to : to + 1;
    yield;
  }
  return words;
}

/** The words of a text as a processed text stores them: in UTF-8, with a space between. In steps. */
export function* processedText(text: string): Steps<Uint8Array> {
  const plain = text.length <= 2 * charactersPerStep ? plainWords(text) : undefined;
  return plain ?? utf8((yield* tokenizeInSteps(text)).join(" "));
}

/** The words of a stored processed text: `tokenize(text)` of a text stored as `tokenize(text).join(" ")`. */
export function tokenizeProcessed(processed: string): string[] {
  return processed === "" ? [] : processed.split(" ");
}

// ---- Which words has a text of ASCII, without a string for each?
//
// Most texts are of letters, digits, white space and punctuation that separates. Their words are copied character by character, in a quarter
// of the time of `words`. A text with anything that takes a closer look is left to `words`, so that the rules are there alone.

/** By character of ASCII: what it is in lower case, if it is a letter or a digit; otherwise 0. */
const plainCharacters = Uint8Array.from({ length: 0x80 }, (_, code) => {
  const character = String.fromCharCode(code);
  return /[a-z0-9]/i.test(character) ? character.toLowerCase().charCodeAt(0) : 0;
});
const isLetterCode = (code: number): boolean => code >= 0x61;

/** Room for the words of a text: no longer than the text and a space. */
const plainRoom = new Uint8Array(2 * charactersPerStep + 1);

/** `tokenize(text).join(" ")` in UTF-8; undefined for a text that it does not know enough about. */
function plainWords(text: string): Uint8Array | undefined {
  if (hasVariants.test(text)) return undefined;
  const lower = (at: number): number => (at < text.length ? plainCharacters[text.charCodeAt(at)] : 0);
  let length = 0;
  for (let at = 0, code = lower(0); at < text.length; ) {
    if (code === 0) {
      code = lower(++at);
      continue;
    }
    const start = at;
    for (let last = code; ; ) {
      for (; code !== 0; code = lower(++at)) {
        plainRoom[length++] = code;
        last = code;
      }
      const sign = at < text.length ? text[at] : " ";
      // Letters with a sign behind them, as in c++ and f#; numbers with commas.
      if (sign === "+" || sign === "#") {
        if (at - start === 1) return undefined;
        break;
      }
      if (sign !== "'" && sign !== "." && sign !== ",") break;
      const next = lower(at + 1);
      if (next === 0 || isLetterCode(last) !== (sign === "'") || isLetterCode(next) !== (sign === "'")) break;
      if (sign === ",") return undefined;
      plainRoom[length++] = sign.charCodeAt(0);
      code = lower(++at);
    }
    plainRoom[length++] = 0x20;
  }
  return plainRoom.slice(0, Math.max(0, length - 1));
}

/** NFKC and lower case. The last step composes what only lower case has a character for, like J̌ -> ǰ. */
function normalized(text: string): string {
  return apart(withFewMarks(text)).normalize("NFKC").toLowerCase().normalize("NFC");
}

/** Characters that NFKC would join with their neighbours, or make a space of: digits of other kinds, acute accents. */
const joining = /[\p{No}\u00b4\u1ffd]/u;
/** Their positions, which are much faster to find. */
const perhapsJoining =
  /[\u00b2-\u00be\u09f4-\u1fff\u2070-\u218b\u2460-\u2cff\u3192-\u33ff\ua830-\ua83f\ud800-\udfff]/;

/** The text with spaces around fractions and between digits and exponents, and apostrophes for acute accents. */
function apart(text: string): string {
  if (!perhapsJoining.test(text) || !joining.test(text)) return text;
  return text
    .replace(/[\u00b4\u1ffd]/g, "'")
    .replace(/[¼-¾⅐-⅞↉]/g, " $& ")
    .replace(/\p{Nd}(?=\p{No})|\p{No}(?=\p{Nd})/gu, "$& ");
}

/** The text without the marks that follow `marksMax` others. A regular expression would overflow its stack here. */
function withFewMarks(text: string): string {
  let kept = "";
  let keptTo = 0;
  let marks = 0;
  for (let at = 0, width = 1; at < text.length; at += width) {
    width = widthAt(text, at);
    if (isMark(text, at)) marks++;
    // Marks with a joiner between them become adjacent when the joiner is removed.
    else if (classAt(text, at) !== format) marks = 0;
    if (marks <= marksMax) continue;
    kept += text.slice(keptTo, at);
    keptTo = at + width;
  }
  return keptTo === 0 ? text : kept + text.slice(keptTo);
}

/** Half-width voiced sound marks are letters to Unicode, but NFKC makes combining marks of them. */
function isMark(text: string, at: number): boolean {
  const unit = text.charCodeAt(at);
  if (unit < 0x300) return false;
  const kind = classAt(text, at);
  return kind === mark || kind === spacelessMark || unit === 0xff9e || unit === 0xff9f;
}

function words(text: string): string[] {
  const found: string[] = [];
  const runs: Run[] = [];
  const isPlain = !hasVariants.test(text);
  for (let at = 0; at < text.length; ) {
    const start = at;
    const first = classAt(text, at);
    if (first === letter || first === digit) {
      at = wordEnd(text, at);
      const word = isPlain ? text.slice(start, at) : tidied(text.slice(start, at));
      found.push(first === digit && word.includes(",") ? plainNumber(word, text, start) : word);
    } else if (first === separator) at += widthAt(text, at);
    else if (first === gram) {
      at = runEnd(text, at, (kind) => kind === gram);
      found.push(tidied(text.slice(start, at)));
    } else if (first === emoji) {
      at = emojiEnd(text, at);
      found.push(text.slice(start, at));
    } else if (first === spaceless || first === spacelessMark) {
      at = runEnd(text, at, isSpaceless);
      addRun(runs, text.slice(start, at), found.length);
    } else at += widthAt(text, at);
  }
  return runs.length === 0 ? found : withWordsOf(runs, found);
}

/** Where the word that begins at `start` ends. */
function wordEnd(text: string, start: number): number {
  // The last letter or digit seen, marks and format characters aside: what an apostrophe or point may follow.
  let last = separator;
  let at = start;
  while (at < text.length) {
    const kind = classAt(text, at);
    if (kind === letter || kind === digit) last = kind;
    else if (kind !== mark && kind !== format) {
      const next = kind === separator ? at : behindSign(text, start, at, last);
      if (next === at) return at - start <= 2 ? at + signsAt(text, start, at) : at;
      at = next;
      continue;
    }
    at += widthAt(text, at);
  }
  return at;
}

/** Where a word continues after the sign at `at`, or `at` if it does not. @param last the letter or digit before */
function behindSign(text: string, start: number, at: number, last: number): number {
  const next = at + 1 < text.length ? classAt(text, at + 1) : separator;
  switch (classAt(text, at)) {
    case apostrophe:
      return last === letter && next === letter ? at + 1 : at;
    case point:
      return last === digit && next === digit ? at + 1 : at;
    case comma:
      return last === digit && next === digit ? numberEnd(text, start, at) : at;
    case middleDot:
      return betweenL.test(text.slice(at - 1, at + 2)) ? at + 1 : at;
    case quotation:
      return betweenHebrew.test(text.slice(at - 1, at + 2)) ? at + 1 : at;
    default:
      return at;
  }
}

const betweenL = /^l.l$/;
const betweenHebrew = /^[\u05d0-\u05ea].[\u05d0-\u05ea]$/;

/** UTF-16 code units of the signs at `at` that belong to the letter before, which is all of its word: c++, f#. */
function signsAt(text: string, start: number, at: number): number {
  if (at - start !== widthAt(text, start) || classAt(text, start) !== letter) return 0;
  if (text.startsWith("++", at)) return text[at + 2] === "+" ? 0 : 2;
  if (text[at] !== "#" && text[at] !== "♯") return 0;
  const next = at + 1 < text.length ? classAt(text, at + 1) : separator;
  return next === letter || text[at + 1] === "#" ? 0 : 1;
}

const isSpaceless = (kind: number): boolean => kind === spaceless || kind === spacelessMark;

/** Where the characters of a script end that begin at `start`, with marks and format characters among them. */
function runEnd(text: string, start: number, isOfScript: (kind: number) => boolean): number {
  let at = start;
  while (at < text.length) {
    const kind = classAt(text, at);
    if (!isOfScript(kind) && kind !== mark && kind !== format) break;
    at += widthAt(text, at);
  }
  return at;
}

/** The end of the emoji that starts at `start`, including its variation, skin tone, tags, and joined characters. */
function emojiEnd(text: string, start: number): number {
  let at = start + widthAt(text, start);
  if (isRegional(text, start)) return at < text.length && isRegional(text, at) ? at + 2 : at;
  while (at < text.length) {
    const codePoint = text.codePointAt(at) as number;
    const isJoined = codePoint === 0x200d && at + 1 < text.length && classAt(text, at + 1) === emoji;
    if (isJoined) at += 1 + widthAt(text, at + 1);
    else if (classAt(text, at) === mark || isModifier(codePoint)) at += widthAt(text, at);
    else break;
  }
  return at;
}

const isRegional = (text: string, at: number): boolean => {
  const codePoint = text.codePointAt(at) as number;
  return codePoint >= 0x1f1e6 && codePoint <= 0x1f1ff;
};

/** Skin tones, and the tags that some flags have. */
const isModifier = (codePoint: number): boolean =>
  (codePoint >= 0x1f3fb && codePoint <= 0x1f3ff) || (codePoint >= 0xe0020 && codePoint <= 0xe007f);

// ---- Which words do runs of scripts without spaces consist of?
//
// Thai, Lao, Khmer and Myanmar: what the dictionaries of Intl.Segmenter find.

/** A run of a script without spaces, and the number of other words before it. */
type Run = { readonly text: string; readonly place: number };

/** Code units per call of the segmenter. Longer runs are cut; real text has punctuation long before. */
const segmenterUnits = 4_096;
/** The locale is fixed, so that all machines agree; the dictionaries are the same for all locales. */
const segmenter = new Intl.Segmenter("en", { granularity: "word" });
const hasLetter = /[\p{L}\p{N}]/u;

/** Adds a run. @param place the number of other words before it */
function addRun(runs: Run[], text: string, place: number): void {
  for (let at = 0; at < text.length; ) {
    let end = Math.min(text.length, at + segmenterUnits);
    if (end < text.length && widthAt(text, end - 1) === 2) end--;
    runs.push({ text: text.slice(at, end), place });
    at = end;
  }
}

/** The other words, with the words of the runs inserted. */
function withWordsOf(runs: readonly Run[], others: readonly string[]): string[] {
  const found: string[] = [];
  let taken = 0;
  for (let at = 0; at < runs.length; ) {
    // A call of the segmenter costs 10 microseconds, so it gets many runs at a time, each on a line of its own.
    const first = at;
    let units = 0;
    while (at < runs.length && units < segmenterUnits) units += runs[at++].text.length + 1;
    const lines = runs.slice(first, at).map((run) => run.text);
    let line = first;
    for (; taken < runs[line].place; taken++) found.push(others[taken]);
    for (const { segment: piece } of segmenter.segment(lines.join("\n"))) {
      if (piece === "\n") for (line++; taken < runs[line].place; taken++) found.push(others[taken]);
      else if (hasLetter.test(piece)) found.push(tidied(piece));
    }
  }
  for (; taken < others.length; taken++) found.push(others[taken]);
  return found;
}

// ---- How are signs written in words that can be written in several ways?

/** Signs that are written in several ways, and how words have them; format characters, which they do not have. */
const variants = /[`\u2018\u2019\u201b\u2032\u05f3"\u201d\u2022\u2027♯\p{Cf}]/gu;
/** Whether a text may have such signs. */
const hasVariants = /[`\u0080-\uffff]/;

/** A word with one sign for each meaning and without format characters. */
function tidied(word: string): string {
  // Puts marks that a joiner separated in order.
  return hasVariants.test(word) ? word.replace(variants, usual).normalize("NFC") : word;
}

function usual(sign: string): string {
  if (apostrophes.includes(sign)) return "'";
  if (middleDots.includes(sign)) return "\u00b7";
  if (quotations.includes(sign)) return "\u05f4";
  return sign === "♯" ? "#" : "";
}

// ---- Where does a number with commas end, and how is it written as a word?
//
// Commas group thousands or stand for the point: 10,000.50 is 10000.50, and 3,14 is 3.14. 1,2,3 are three numbers, and the 1,4,5 of
// 1,4,5-trisphosphate is one word.

/** Digits in groups of three, or as in India of two before the last three, and no further digit. */
const thousands =
  /(?<!\p{Nd},)(?:\p{Nd}{1,3}(?:,\p{Nd}{3}){1,12}|\p{Nd}{1,2}(?:,\p{Nd}{2}){1,12},\p{Nd}{3})(?![,\p{Nd}]\p{Nd}|\p{Nd})/uy;
/** Places of atoms in the name of a molecule: 1,4,5-trisphosphate, PtdIns(3,4)P. */
const locants = /(?<!\p{Nd},)\p{Nd}{1,2}(?:,\p{Nd}{1,2}){1,12}(?=-\p{L}|\)\p{L})/uy;
/** Digits with one comma, which is a decimal one; two years are a list. */
const decimals = /(?<!\p{Nd},)(?!\p{Nd}{4},\p{Nd}{4}(?!\p{Nd}))\p{Nd}{1,40},\p{Nd}{1,40}(?![.,]?\p{Nd})/uy;

/** The end of the number that starts at `start` and has its first comma at `comma`; `comma` if it is a list. */
function numberEnd(text: string, start: number, comma: number): number {
  for (const pattern of [thousands, locants, decimals]) {
    pattern.lastIndex = start;
    const found = pattern.exec(text);
    if (found !== null && found[0].length > comma - start) return start + found[0].length;
  }
  return comma;
}

/** The number at `start` as it is written without commas for thousands, and with a decimal point; locants as they are. */
function plainNumber(word: string, text: string, start: number): string {
  thousands.lastIndex = start;
  if (thousands.test(text)) return word.replaceAll(",", "");
  locants.lastIndex = start;
  return locants.test(text) ? word : word.replace(",", ".");
}
