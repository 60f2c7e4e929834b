// Which spellings count as the same?
//
// Folding takes away what writers leave out: accents, Arabic and Hebrew vowel points, apostrophes, skin
// tones; and it writes letters of their own as the usual substitute (ß -> ss, ø -> o) and every script's
// decimal digits as 0 to 9. Marks that make another letter stay: vowel signs of Indic scripts, Thai tones, voiced kana (a
// fold would turn "key" into "oyster"), й, ї and ў.
//
// Devanagari writes a nasal before a consonant of its class as a letter or as a dot (हिन्दी, हिंदी), the dot with or without
// its moon, and leaves the dot below a letter out (ज़, ज): all are the same.

/** Nonspacing marks that are accents or points, as decomposition (NFD) leaves them; and signs inside words. */
const dropped = [
  "'\\u00b7\\u02bc\\u05f3\\u05f4", // apostrophes, and what else is inside of words
  "\\u0300-\\u036f\\u1ab0-\\u1aff\\u1dc0-\\u1dff\\u20d0-\\u20ff\\ufe20-\\ufe2f", // combining diacritics
  "\\u0483-\\u0487", // Cyrillic titles and breathings
  "\\u0591-\\u05bd\\u05bf\\u05c1\\u05c2\\u05c4\\u05c5\\u05c7", // Hebrew points and accents
  "\\u093c", // Devanagari nukta
  "\\u0610-\\u061a\\u0640\\u064b-\\u065f\\u0670\\u06d6-\\u06dc\\u06df-\\u06e4\\u06e7\\u06e8\\u06ea-\\u06ed", // Arabic
  "\\ufe00-\\ufe0f\\u{e0100}-\\u{e01ef}", // variation selectors
  "\\u{1f3fb}-\\u{1f3ff}", // skin tones
].join("");

/** A letter whose mark makes it another letter, or a mark to drop. The first alternative matches two characters. */
const letterOrMark = new RegExp(`\\u0438\\u0306|\\u0456\\u0308|\\u0443\\u0306|[${dropped}]`, "gu");

const substitutes: Readonly<Record<string, string>> = {
  ß: "ss",
  ø: "o",
  æ: "ae",
  œ: "oe",
  ł: "l",
  đ: "d",
  ð: "d",
  þ: "th",
  ħ: "h",
  ŧ: "t",
  ŋ: "n",
  ı: "i",
  ĸ: "k",
  ς: "σ",
  ة: "ه",
  ى: "ي",
  ی: "ي",
  ک: "ك",
};
const substituted = new RegExp(`[${Object.keys(substitutes).join("")}]`, "gu");
/** Devanagari nasals before a consonant of their class, without a vowel between, and the dot with a moon. */
const nasals = /ङ्(?=[क-घ])|ञ्(?=[च-झ])|ण्(?=[ट-ढ])|न्(?=[त-ध])|म्(?=[प-भ])|\u0901/g;
const digits = /\p{Nd}/gu;
const isDigit = /\p{Nd}/u;
const beyondAscii = /[\u0080-\uffff]/;

/** The folded word, in NFC. Folding twice changes nothing. Empty only where the word had no letter or digit. */
export function fold(word: string): string {
  if (!beyondAscii.test(word)) return word.includes("'") ? word.replaceAll("'", "") : word;
  return word
    .normalize("NFD")
    .replace(letterOrMark, (found) => (found.length === 2 && found.charCodeAt(0) < 0xd800 ? found : ""))
    .replace(nasals, "\u0902")
    .replace(substituted, (found) => substitutes[found])
    .replace(digits, decimal)
    .normalize("NFC");
}

/** 0 to 9 for a decimal digit of any script: Unicode gives each script's ten digits ten places in a row. */
function decimal(character: string): string {
  const codePoint = character.codePointAt(0) as number;
  if (codePoint < 0x80) return character;
  let first = codePoint;
  while (isDigit.test(String.fromCodePoint(first - 1))) first--;
  return String((codePoint - first) % 10);
}
