// Where does a number with commas end, and how is it written as a word?
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
export function numberEnd(text: string, start: number, comma: number): number {
  for (const pattern of [thousands, locants, decimals]) {
    pattern.lastIndex = start;
    const found = pattern.exec(text);
    if (found !== null && found[0].length > comma - start) return start + found[0].length;
  }
  return comma;
}

/** The number at `start` as it is written without commas for thousands, and with a decimal point; locants as they are. */
export function plainNumber(word: string, text: string, start: number): string {
  thousands.lastIndex = start;
  if (thousands.test(text)) return word.replaceAll(",", "");
  locants.lastIndex = start;
  return locants.test(text) ? word : word.replace(",", ".");
}
