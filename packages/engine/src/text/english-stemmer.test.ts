/// <reference path="./modules.d.ts" />

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { randomNumbers } from "@quiverdb/kernels/random";
import snowball from "snowball-stemmers";
import { test } from "vitest";
import { englishStem } from "./english-stemmer.ts";

const twin = snowball.newStemmer("english");

test("words of a dictionary have the stems that they have in Snowball", () => {
  const samples = new URL("../../test/text/words/english.txt", import.meta.url);
  const words = readFileSync(samples, "utf8").toLowerCase().split(/\s+/);
  assert(words.length > 1_000);
  for (const word of words) assert.equal(englishStem(word), twin.stem(word), word);
});

test("so have words made of all the endings and of what decides about them", () => {
  const next = randomNumbers(21);
  const parts =
    "a e i o u y b d l n r s t tt w x z ' 's 's' bb dd ff gg mm nn pp rr ss us at bl iz é yy sses ied ies ed eed ing edly eedly ingly " +
    "anci enci ogi li bli abli alli fulli lessli ousli entli aliti biliti iviti tional ational alism ation ization izer ator iveness " +
    "fulness ousness icate ative alize iciti ical ful ness ic ance ence able ible ate ive ize iti al ism ion er ous ant ent ment ement " +
    "arsen commun gener succeed proceed exceed canning inning earring herring outing andes atlas bias cosmos dying early gently howe " +
    "idly lying news only singly skies skis sky tying ugly";
  const all = parts.split(" ");
  for (let i = 0; i < 100_000; i++) {
    const count = 1 + Math.floor(next() * 5);
    const word = Array.from({ length: count }, () => all[Math.floor(next() * all.length)]).join("");
    assert.equal(englishStem(word), twin.stem(word), word);
  }
});
