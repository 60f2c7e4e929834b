// Which words are the dictionary test's?
//
//   node tools/launch.mjs run tools/word-samples.ts DIR [language ...]
//
// DIR has a list of words for each language, in a file of its name, one word a line. Of each list, put in the order of the words without their
// marks, this draws evenly spaced runs of neighbours, so that words of one stem are in it, and writes them, a run a line, to
// packages/engine/src/text/test/words. The same list gives the same sample.

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fold } from "@quiverdb/engine/text/fold";
import { languages } from "@quiverdb/engine/text/languages";
import { textLanguages } from "@quiverdb/protocol/shapes/index-definition";
import { wordsOf } from "../packages/engine/test/text/joined-words.ts";

const neighbours = 25;
/** Runs of a language with a stemmer, and of one without: nothing is measured of the latter but that spellings meet. */
const runsStemmed = 40;
const runsFolded = 12;

const samples = new URL("../packages/engine/test/text/words/", import.meta.url);
const [directory, ...asked] = process.argv.slice(2);
if (directory === undefined) throw new Error("expected the directory of the word lists");
for (const name of textLanguages) {
  const path = join(directory, name);
  if (!existsSync(path) || (asked.length > 0 && !asked.includes(name))) continue;
  const runs = drawn(
    readFileSync(path, "utf8"),
    languages[name].stemmer === undefined ? runsFolded : runsStemmed,
  );
  writeFileSync(new URL(`${name}.txt`, samples), `${runs.map((run) => run.join(" ")).join("\n")}\n`);
}

function drawn(list: string, count: number): string[][] {
  // Letters with marks stand behind all others in code points, far from the words of their stem.
  const words = wordsOf(list.split("\n")).map((word) => ({ word, plain: fold(word) }));
  words.sort((a, b) => order(a.plain, b.plain) || order(a.word, b.word));
  const step = Math.max(neighbours, Math.floor(words.length / count));
  // In the middle of each part: what a list begins with is no sample of it.
  const first = Math.floor((step - neighbours) / 2);
  return Array.from({ length: count }, (_, i) =>
    words.slice(first + i * step, first + i * step + neighbours).map(({ word }) => word),
  );
}

/** By UTF-16 units: the same everywhere, as a locale's order is not. */
function order(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}
