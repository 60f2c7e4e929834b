// Is the definition of a text index complete and possible, and what are its defaults?

import { checkFields } from "@quiverdb/protocol/fields";
import { kindOf } from "@quiverdb/protocol/kind-of";
import { limits } from "@quiverdb/protocol/limits";
import {
  CreateTextIndex,
  indexNames,
  type TextIndex,
  textLanguages,
} from "@quiverdb/protocol/shapes/index-definition";
import { bytesBeyond } from "../../base/bytes.ts";
import { canonicalStopWord } from "../../text/analyzer.ts";
import { invalid, nameOf, oneOf, requireEnabled, sampleThreshold } from "../definition-checks.ts";
import type { IndexedCollection } from "../kind.ts";

/** The definition with all defaults filled in. @throws unknown_field, invalid_request, modality_not_enabled */
export function defineTextIndex(collection: IndexedCollection, given: CreateTextIndex): TextIndex {
  checkFields(CreateTextIndex, given);
  requireEnabled(collection.text, "tf-idf", "text search");
  const name = nameOf(given.name, indexNames["tf-idf"]);
  const { language, stop_words, positions } = given;
  const k1 = given.k1 ?? limits.k1Default;
  const b = given.b ?? limits.bDefault;
  if (typeof k1 !== "number" || !(k1 >= 0 && k1 <= 1000))
    throw invalid("k1", `is ${k1}; expected a number from 0 to 1000.`);
  if (typeof b !== "number" || !(b >= 0 && b <= 1))
    throw invalid("b", `is ${b}; expected a number from 0 to 1.`);
  oneOf(language ?? "english", textLanguages, "language");
  if (typeof (positions ?? false) !== "boolean")
    throw invalid("positions", `is ${kindOf(positions)}; expected true or false.`);
  return {
    name,
    sample_threshold: sampleThreshold(given),
    k1,
    b,
    language: language ?? "english",
    positions: positions ?? false,
    ...(stop_words != null && { stop_words: checkStopWords(stop_words) }),
  };
}

/** A copy of the list as it was given. */
function checkStopWords(words: readonly unknown[]): string[] {
  if (!Array.isArray(words)) throw invalid("stop_words", "must be an array of words.");
  if (words.length > limits.stopWordsMax)
    throw invalid("stop_words", `has ${words.length} words, at most ${limits.stopWordsMax} are allowed.`);
  // A loop, for array methods skip the holes that an array in the same process can have.
  for (let i = 0; i < words.length; i++) {
    const problem = stopWordProblem(words[i]);
    if (problem !== null)
      throw invalid(
        `stop_words[${i}]`,
        `${problem}; expected one word of 1 to ${limits.stopWordBytesMax} bytes of UTF-8.`,
      );
  }
  return words.slice();
}

function stopWordProblem(word: unknown): string | null {
  if (typeof word !== "string") return `is ${kindOf(word)}`;
  if (!word.isWellFormed()) return "has half of a surrogate pair, which UTF-8 cannot hold";
  const bytes = bytesBeyond(word, limits.stopWordBytesMax);
  if (bytes > 0) return `has ${bytes} bytes`;
  const canonical = canonicalStopWord(word);
  if (canonical === "") return "has no letter or digit";
  // What texts have as several words would never be found in one.
  const words = canonical.split(" ").length;
  return words === 1 ? null : `is ${words} words`;
}
