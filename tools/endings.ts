// Which stems are lost or merged when words are stemmed without their diacritics, and which endings would help?
//
//   node tools/launch.mjs run tools/endings.ts DIR [language ...] [--learn]
//
// DIR has a word list for each language, in a file of the language's name, one word per line. The tool prints the number of words with
// marks, how many of them the stemmer alone joins with their plain spelling, and the fractions of *lost* and *merged* pairs of words
// (packages/engine/test/text/joined-words.ts): for words that are folded and then stemmed, without and with the endings of
// packages/engine/src/text/endings.ts in between. The dictionary test measures the latter on a sample (dictionary.test.ts).
//
// With --learn it proposes such a table, from short endings to longer ones: an ending is added if its own spelling gives the reference's
// stem to more words than the shorter ending does, by at least `gainMin` of all words. A list of base forms gives wrong proposals: evaluate
// a proposal on words of running text.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { endingSpeller, endings } from "@quiverdb/engine/text/endings";
import { fold } from "@quiverdb/engine/text/fold";
import { languages, respelt } from "@quiverdb/engine/text/languages";
import { type TextLanguage, textLanguages } from "@quiverdb/protocol/shapes/index-definition";
import { compareStems, type Stem, stemmerOf, wordsOf } from "../packages/engine/test/text/joined-words.ts";

/** Fraction of the words that an entry must correct. */
const gainMin = 0.0005;
const lettersMax = 7;
/** Number of words that are sampled evenly from a list. */
const wordsMax = 100_000;

/** A word in letters, without and with its marks, and the stem that it should have. */
type Example = { readonly plain: string; readonly written: readonly string[]; readonly stem: string };
/** Folded ending -> the spelling that the stemmer should get. */
type Endings = Record<string, string>;

const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: { learn: { type: "boolean", default: false } },
});
const [directory, ...asked] = positionals;
if (directory === undefined) throw new Error("expected the directory of the word lists");
for (const name of textLanguages) {
  const path = join(directory, name);
  const stem = stemmerOf(name);
  if (stem === undefined || !existsSync(path) || (asked.length > 0 && !asked.includes(name))) continue;
  const words = evenly(wordsOf(readFileSync(path, "utf8").split("\n"))).map((word) =>
    respelt(word, languages[name].spellings ?? {}),
  );
  if (flags.learn) console.log(`  ${name}: "${Object.values(learn(words, stem)).join(" ")}",`);
  else report(name, words, stem);
}

function evenly(words: readonly string[]): string[] {
  const step = Math.max(1, words.length / wordsMax);
  return Array.from({ length: Math.floor(words.length / step) }, (_, i) => words[Math.floor(i * step)]);
}

function report(name: TextLanguage, words: readonly string[], stem: Stem): void {
  const marked = words.filter((word) => fold(word) !== word);
  const met = marked.filter((word) => stem(word) === stem(fold(word))).length / Math.max(1, marked.length);
  const share = (part: number) => `${(100 * part).toFixed(1)} %`;
  const row = [name, String(words.length), share(marked.length / words.length), share(met)];
  for (const list of new Set(["", endings[name] ?? ""])) {
    const spell = endingSpeller(list);
    const { byReference, byTerm, lost, merged } = compareStems(words, stem, (word) =>
      stem(spell(fold(word))),
    );
    row.push(share(lost / byReference), share(merged / byTerm));
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
    // Letters that fold to two letters, or to none, cannot be in a table of single letters.
    if (letters.some((letter) => letter.length !== 1)) return [];
    return [{ plain: letters.join(""), written, stem: stem(word) }];
  });
  if (examples.length > 0) visit(examples, 0, "");
  return table;
}

/** The best spelling of an ending, among the usual ones and the inherited one. */
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
