// Which words does a text consist of?
//
// The language-neutral half of text analysis; the other is analyzer.ts. A collection that does not keep raw text
// stores `segment(text).join(" ")`, so words never contain a space, and must suit every language that an index
// may choose later: nothing is folded, stemmed or left out here.
//
// The text is brought to NFKC (ﬁ -> fi, fullwidth -> plain, e + accent -> é) and lower case. A word is then
//
//   - a run of letters, digits and their marks: \p{L} \p{N} \p{M}, beginning with a letter or digit;
//   - with an apostrophe inside, between letters: don't, l'homme (what it means depends on the language);
//   - with points and commas inside, between digits: 3.14, 10,000 (Unicode's rules WB11 and WB12, UAX #29);
//   - without format characters (soft hyphen, joiners), which Unicode's rule WB4 makes transparent;
//   - in scripts without spaces, what Intl.Segmenter's dictionaries find: Han, Hiragana, Katakana, Thai, Lao, Khmer
//     and Myanmar.
//
// All else separates: hyphens, underscores and points between letters (here we split finer than UAX #29, so
// that parts are found), symbols, emoji, lone surrogates.
//
// Takes time in proportion to the text, whatever it holds. That needs care in one place: normalizing puts a run of
// combining marks in order by insertion, and 400,000 marks took a minute; no more than `marksMax` in a row are read.

import type { Steps } from "../base/steps.ts";

/** Combining marks in a row that are read; Unicode's stream-safe format (UAX #15) allows as many. */
const marksMax = 30;

const beyondAscii = /[\u0080-\uffff]/;

/** The words of a text in their order: NFKC and lower case, with their marks. */
export function segment(text: string): string[] {
  return words(beyondAscii.test(text) ? normalized(text) : text.toLowerCase());
}

/** Characters that are segmented at a step, at least. */
const charactersPerStep = 16 * 1024;
/** White space that separates words whatever stands beside it: after it the text goes on as if it began there. */
const space = /[ \t\n\r]/g;

/** `segment` of a long text, in steps: it is cut at white space, which no word, mark or run reaches across. */
export function* segmentInSteps(text: string): Steps<string[]> {
  if (text.length <= 2 * charactersPerStep) return segment(text);
  const words: string[] = [];
  for (let from = 0; from < text.length; ) {
    space.lastIndex = from + charactersPerStep;
    const found = space.exec(text);
    const to = found === null ? text.length : found.index;
    for (const word of segment(text.slice(from, to))) words.push(word);
    from = found === null ? to : to + 1;
    yield;
  }
  return words;
}

/** The words of a stored processed text: `segment(text)` of a text stored as `segment(text).join(" ")`. */
export function segmentProcessed(processed: string): string[] {
  return processed === "" ? [] : processed.split(" ");
}

/** NFKC and lower case. The last step composes what only lower case has a character for, like J̌ -> ǰ. */
function normalized(text: string): string {
  return withFewMarks(text).normalize("NFKC").toLowerCase().normalize("NFC");
}

// What a character is to a word.
const unknown = 0;
const separator = 1;
const letter = 2;
const digit = 3;
const mark = 4;
const format = 5;
const apostrophe = 6;
const point = 7;
const spaceless = 8;
const spacelessMark = 9;

/** The class of each code point, found when it is first met. Untouched parts of the table take no memory. */
const classes = new Uint8Array(0x110000);

function classify(character: string): number {
  const isMark = /\p{M}/u.test(character);
  if (isMark || /\p{L}/u.test(character)) {
    if (/[\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u.test(character))
      return isMark ? spacelessMark : spaceless;
    if (isMark) return mark;
    return /[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}]/u.test(character) ? spaceless : letter;
  }
  if (/\p{N}/u.test(character)) return digit;
  if (/\p{Cf}/u.test(character)) return format;
  if (character === "'" || character === "\u2019") return apostrophe;
  if (character === "." || character === ",") return point;
  return separator;
}

/** The class of the character that begins at `at`. A lone surrogate separates. */
function classAt(text: string, at: number): number {
  const unit = text.charCodeAt(at);
  const codePoint = (unit & 0xfc00) === 0xd800 ? (text.codePointAt(at) as number) : unit;
  const known = classes[codePoint];
  if (known !== unknown) return known;
  classes[codePoint] = classify(String.fromCodePoint(codePoint));
  return classes[codePoint];
}

/** UTF-16 code units of the character at `at`. */
function widthAt(text: string, at: number): number {
  return (text.charCodeAt(at) & 0xfc00) === 0xd800 && (text.charCodeAt(at + 1) & 0xfc00) === 0xdc00 ? 2 : 1;
}

/** The text without the marks that follow `marksMax` others. A regular expression would overflow its stack here. */
function withFewMarks(text: string): string {
  let kept = "";
  let keptTo = 0;
  let marks = 0;
  for (let at = 0, width = 1; at < text.length; at += width) {
    width = widthAt(text, at);
    marks = isMark(text, at) ? marks + 1 : 0;
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
  for (let at = 0; at < text.length; ) {
    const start = at;
    const first = classAt(text, at);
    if (first === letter || first === digit) {
      at = wordEnd(text, at);
      found.push(tidied(text.slice(start, at)));
    } else if (first >= spaceless) {
      at = spacelessEnd(text, at);
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
    else if (kind === apostrophe || kind === point) {
      const wanted = kind === apostrophe ? letter : digit;
      if (last !== wanted || at + 1 === text.length || classAt(text, at + 1) !== wanted) return at;
    } else if (kind !== mark && kind !== format) return at;
    at += widthAt(text, at);
  }
  return at;
}

const inner = /[\u2019\p{Cf}]/gu;

/** A word with plain apostrophes and without format characters. */
function tidied(word: string): string {
  if (!beyondAscii.test(word)) return word;
  return word.replace(inner, (character) => (character === "\u2019" ? "'" : ""));
}

function spacelessEnd(text: string, start: number): number {
  let at = start;
  while (at < text.length) {
    const kind = classAt(text, at);
    if (kind < spaceless && kind !== mark && kind !== format) break;
    at += widthAt(text, at);
  }
  return at;
}

/** A run of a script without spaces, and how many other words stand before it. */
type Run = { readonly text: string; readonly place: number };

/** Code units given to the segmenter at a time. Longer runs are cut; running text has punctuation long before. */
const segmenterUnits = 4_096;
/** The locale is fixed, so that all machines agree; the dictionaries are the same for all locales. */
const segmenter = new Intl.Segmenter("en", { granularity: "word" });
const hasLetter = /[\p{L}\p{N}]/u;

function addRun(runs: Run[], text: string, place: number): void {
  for (let at = 0; at < text.length; ) {
    let end = Math.min(text.length, at + segmenterUnits);
    if (end < text.length && widthAt(text, end - 1) === 2) end--;
    runs.push({ text: text.slice(at, end), place });
    at = end;
  }
}

/** The other words, with the words of the runs in their places. */
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
