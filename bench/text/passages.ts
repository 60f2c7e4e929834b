// Which English passages are searched?
//
// Two dictionaries that Debian packages bring: the GNU Collaborative International Dictionary of English (`dict-gcide`) and WordNet
// (`wordnet-base`). A passage is a sense of WordNet, its words and its explanation, or an entry of the former without pronunciations and
// marks of origin; long entries are cut at paragraphs. They are shuffled, because alphabetic neighbours share words, and the first passages
// must be a sample of all.
//
// If more passages are needed than exist, new ones are composed of sentences of different passages: as many as a randomly drawn passage
// has.

import { existsSync } from "node:fs";
import { randomNumbers } from "../../packages/kernels/src/random.ts";
import { bytesOf, inCache, made } from "../shared/files.ts";

const gcide = "/usr/share/dictd/gcide.dict.dz";
const wordNet = ["adj", "adv", "noun", "verb"].map((part) => `/usr/share/wordnet/data.${part}`);

/** A passage ends with the paragraph in which it reaches this number of words. */
const wordsEnough = 60;
const wordsMin = 4;
const seed = 4;

/** The reason why there are no passages here; undefined if there are. */
export function missingPassages(paths: readonly string[] = [gcide, ...wordNet]): string | undefined {
  const absent = paths.filter((path) => !existsSync(path));
  return absent.length === 0
    ? undefined
    : `skipped: ${absent.join(", ")} not found; install the Debian packages dict-gcide and wordnet-base`;
}

const textOf = (path: string): string => Buffer.from(bytesOf(path)).toString("latin1");
const wordCount = (text: string): number => text.split(" ").length;

/** `offset file type count word id word id ... | explanation`; the number of words is hexadecimal. */
function senseOf(line: string): string {
  const [fields, explanation] = line.split(" | ");
  const [, , , count, ...rest] = fields.split(" ");
  const words = Array.from({ length: Number.parseInt(count, 16) }, (_, i) => rest[2 * i]);
  return `${words.join(", ").replaceAll("_", " ")}: ${explanation.trim()}`;
}

const senses = (): string[] =>
  wordNet.flatMap((path) =>
    textOf(path)
      .split("\n")
      // The licence stands before the senses, indented.
      .filter((line) => /^\d/.test(line))
      .map(senseOf),
  );

/** A paragraph in plain characters: without \pronunciations\, [sources] and {marks}; [=a] and [ae] become letters. */
const plain = (paragraph: string): string =>
  paragraph
    .replaceAll(/\\[^\\]{0,120}\\/g, " ")
    .replaceAll(/\[[^\]]*(?:Webster|PJC|WordNet|Century Dict)[^\]]*\]/g, " ")
    .replaceAll(/\[[^a-zA-Z\]]{0,2}([a-zA-Z]{1,2})[^a-zA-Z\]]{0,2}\]/g, "$1")
    .replaceAll(/[{}_`*"]/g, "")
    .replaceAll(/\s+/g, " ")
    .trim();

/** Passages of one entry: its paragraphs, joined until they are long enough. */
function passagesOfEntry(entry: string): string[] {
  const passages: string[] = [];
  let open = "";
  for (const paragraph of entry.split(/\n\s*\n/)) {
    open = `${open} ${plain(paragraph)}`.trim();
    if (wordCount(open) < wordsEnough) continue;
    passages.push(open);
    open = "";
  }
  return open === "" ? passages : [...passages, open];
}

const entries = (): string[] =>
  textOf(gcide)
    // An entry begins at the margin; what belongs to it is indented.
    .split(/\n(?=[^\s])/)
    .filter((entry) => !entry.includes("00-database") && /\n\s/.test(entry))
    .flatMap(passagesOfEntry);

function shuffle(items: string[], next: () => number): string[] {
  for (let i = items.length - 1; i > 0; i--) {
    const j = Math.floor(next() * (i + 1));
    [items[i], items[j]] = [items[j], items[i]];
  }
  return items;
}

/** All passages of the dictionaries, always in the same random order. */
export function passages(): string[] {
  const bytes = made(inCache("text/passages.txt"), () => {
    const all = [...senses(), ...entries()].filter((passage) => wordCount(passage) >= wordsMin);
    return Buffer.from(shuffle(all, randomNumbers(seed)).join("\n"));
  });
  return Buffer.from(bytes.buffer).toString().split("\n");
}

/** How many passages the dictionaries have. */
export const realCount = (): number => passages().length;

const sentencesOf = (passage: string): string[] => passage.split(/(?<=[.;:]) /);

/** The first `count` of these passages; if there are fewer, passages composed of their sentences follow. */
export function resampled(real: readonly string[], count: number): string[] {
  const chosen = real.slice(0, count);
  if (chosen.length === count) return chosen;
  const next = randomNumbers(seed + 1);
  const draw = <T>(items: readonly T[]): T => items[Math.floor(next() * items.length)];
  const shapes = real.map(sentencesOf);
  // Sentences are drawn uniformly, so that word frequencies and mean lengths are those of the real passages.
  const sentences = shapes.flat();
  while (chosen.length < count) {
    const shape = draw(shapes);
    chosen.push(shape.map(() => draw(sentences)).join(" "));
  }
  return chosen;
}
