// How is a record written with as few digits as its 32-bit floats need?
//
// The server writes a float as the 64-bit number that it is, such as 0.10000000149011612. The decimal number 0.1 is nearest to the same
// 32-bit float, so an import reads it back bit for bit, and a file of vectors has half the size.

const name = '"dense_values":[';

/** A line of an export, with the shortest digits in its dense vector. Everything else stays as it is. */
export function withShortFloats(line: string): string {
  // The first one is that of the record: before it are only the id and the document's, in which quotes have backslashes.
  const at = line.indexOf('"dense_values":');
  if (at < 0 || !line.startsWith(name, at)) return line;
  const from = at + name.length;
  const to = line.indexOf("]", from);
  const values = line.slice(from, to);
  return values === ""
    ? line
    : line.slice(0, from) + values.split(",").map(shortFloat).join(",") + line.slice(to);
}

/** So few characters are never longer than what the float needs. */
const shortLength = 8;
/** Digits that distinguish every 32-bit float, and those that each number of up to so many digits has by itself. */
const digitsMax = 9;
const digitsMin = 6;
/** Smaller floats have fewer digits. */
const smallestNormal = 2 ** -126;

/** Powers of ten that are 64-bit floats. */
const powersOfTen = Array.from({ length: 23 }, (_, exponent) => Number(`1e${exponent}`));

/** The shortest decimal number that is nearest to a 32-bit float. @param text of the float as a 64-bit number */
export function shortFloat(text: string): string {
  if (text.length <= shortLength) return text;
  const value = Number(text);
  const magnitude = Math.floor(Math.log10(Math.abs(value)));
  const least = Math.abs(value) < smallestNormal ? 1 : digitsMin;
  for (let digits = least; digits < digitsMax; digits++) {
    const shorter = rounded(value, digits, digits - 1 - magnitude);
    if (Math.fround(shorter) === value) return String(shorter);
  }
  return String(Number(value.toPrecision(digitsMax)));
}

/**
 * A number with so many digits, of which so many stand behind the point. An integer divided by a power of ten, both of them exact, is
 * rounded correctly, and costs a tenth of printing and reading the digits.
 */
function rounded(value: number, digits: number, decimals: number): number {
  const power = powersOfTen[decimals];
  if (power === undefined) return Number(value.toPrecision(digits));
  return (Math.sign(value) * Math.round(Math.abs(value) * power)) / power;
}
