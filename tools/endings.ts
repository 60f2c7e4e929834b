// What do words lose and confuse when they are stemmed without their marks, and which endings would help?
//
//   node tools/launch.mjs run tools/endings.ts DIR [language ...] [--learn]
//
// DIR has a list of words for each language, in a file of its name, one word a line. The reference is the stemmer on words as
// they are written, its stem folded. Two words that the reference joins and the term does not are *lost*; two that only the term
// joins, and that differ in more than marks, are *merged*. Both are shares of pairs; measured are words that are folded and then
// stemmed, and those that get the endings of packages/engine/src/text/endings.ts in between.
//
// With --learn it proposes such a table, from short endings to longer ones: an ending is entered where its own spelling gives
// more words the reference's stem than that of the shorter ending, by `gainMin` of all words. A list of base forms teaches the
// wrong thing: compare a proposal on words of running text.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { endingSpeller, endings } from "@quiver/engine/text/endings";
import { fold } from "@quiver/engine/text/fold";
import { type Language, languages, respelt } from "@quiver/engine/text/languages";
import type { TextLanguage } from "@quiver/protocol/shapes/index-definition";
import snowball from "snowball-stemmers";

/** Share of the words that an entry has to put right. */
const gainMin = 0.0005;
const lettersMax = 7;
/** Words that are read of a list, evenly. */
const wordsMax = 100_000;

/** A word in letters, without and with its marks, and the stem that it should have. */
type Example = { readonly plain: string; readonly written: readonly string[]; readonly stem: string };
type Stem = (word: string) => string;
/** Folded ending -> as the stemmer should see it. */
type Endings = Record<string, string>;

const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: { learn: { type: "boolean", default: false } },
});
const [directory, ...asked] = positionals;
if (directory === undefined) throw new Error("expected the directory of the word lists");
for (const [name, language] of Object.entries(languages) as [TextLanguage, Language][]) {
  const path = join(directory, name);
  if (language.stemmer === undefined || !existsSync(path)) continue;
  if (asked.length > 0 && !asked.includes(name)) continue;
  const words = wordsOf(path).map((word) => respelt(word, language.spellings ?? {}));
  const stemmer = snowball.newStemmer(language.stemmer);
  const stem = (word: string) => fold(stemmer.stem(word) || word);
  if (flags.learn) console.log(`  ${name}: "${Object.values(learn(words, stem)).join(" ")}",`);
  else report(name, words, stem);
}

function wordsOf(path: string): string[] {
  const lines = readFileSync(path, "utf8").split("\n");
  const words = new Set(lines.map((line) => line.trim().normalize("NFC").toLowerCase()));
  const all = [...words].filter((word) => /^\p{L}[\p{L}\p{M}]+$/u.test(word));
  const step = Math.max(1, all.length / wordsMax);
  return Array.from({ length: Math.floor(all.length / step) }, (_, i) => all[Math.floor(i * step)]);
}

function report(name: TextLanguage, words: readonly string[], stem: Stem): void {
  const marked = words.filter((word) => fold(word) !== word);
  const met = marked.filter((word) => stem(word) === stem(fold(word))).length / Math.max(1, marked.length);
  const share = (part: number) => `${(100 * part).toFixed(1)} %`;
  const row = [name, String(words.length), share(marked.length / words.length), share(met)];
  for (const list of new Set(["", endings[name] ?? ""])) {
    const spell = endingSpeller(list);
    const { lost, merged } = compare(words, stem, (word) => stem(spell(fold(word))));
    row.push(share(lost), share(merged));
  }
  console.log(`| ${row.join(" | ")} |`);
}

function learn(words: readonly string[], stem: Stem): Endings {
  const table: Endings = {};
  const least = Math.max(4, gainMin * words.length);
  const visit = (examples: readonly Example[], length: number, inherited: string): void => {
    const ending = examples[0].plain.slice(examples[0].plain.length - length);
    const chosen = length === 0 ? "" : spellingOf(examples, ending, inherited, stem, least);
    if (chosen !== inherited) table[ending] = chosen;
    if (length === lettersMax || examples.length < least) return;
    const longer = examples.filter(({ plain }) => plain.length > length + 1);
    const groups = Map.groupBy(longer, ({ plain }) => plain[plain.length - length - 1]);
    for (const group of groups.values()) visit(group, length + 1, chosen);
  };
  const examples = words.flatMap((word): Example[] => {
    const written = Array.from(word);
    const letters = written.map(fold);
    // Letters that fold to two, or to none, have no place in a table of letters.
    if (letters.some((letter) => letter.length !== 1)) return [];
    return [{ plain: letters.join(""), written, stem: stem(word) }];
  });
  if (examples.length > 0) visit(examples, 0, "");
  return table;
}

/** The best way to spell an ending, of the usual ones and the inherited. */
function spellingOf(
  examples: readonly Example[],
  ending: string,
  inherited: string,
  stem: Stem,
  least: number,
): string {
  const spellings = Map.groupBy(examples, ({ written }) =>
    written.slice(written.length - ending.length).join(""),
  );
  const usual = [...spellings].sort((a, b) => b[1].length - a[1].length).slice(0, 3);
  const right = (spelling: string) =>
    examples.filter(({ plain, stem: wanted }) => {
      return stem(plain.slice(0, plain.length - spelling.length) + spelling) === wanted;
    }).length;
  let best = { spelling: inherited, count: right(inherited) + least - 1 };
  for (const spelling of new Set([...usual.map(([spelling]) => spelling), ending])) {
    const count = spelling === inherited ? 0 : right(spelling);
    if (count > best.count) best = { spelling, count };
  }
  return best.spelling;
}

/** Shares of the pairs that one stem joins and the other does not. */
function compare(words: readonly string[], reference: Stem, other: Stem): { lost: number; merged: number } {
  const joined = words.map((word) => [reference(word), other(word), fold(word)]);
  const byReference = pairs(joined.map(([stem]) => stem));
  const byOther = pairs(joined.map(([, stem]) => stem));
  const byBoth = pairs(joined.map(([a, b]) => `${a} ${b}`));
  const byMarks =
    pairs(joined.map(([, , plain]) => plain)) - pairs(joined.map(([a, , plain]) => `${a} ${plain}`));
  return { lost: (byReference - byBoth) / byReference, merged: (byOther - byBoth - byMarks) / byOther };
}

/** Pairs of equal keys. */
function pairs(keys: readonly string[]): number {
  const counts = new Map<string, number>();
  for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1);
  return [...counts.values()].reduce((sum, count) => sum + (count * (count - 1)) / 2, 0);
}
