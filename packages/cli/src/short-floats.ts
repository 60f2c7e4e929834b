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
/** Digits that distinguish every 32-bit float, and those that every one of up to so many digits has by itself. */
const digitsMax = 9;
const digitsMin = 6;
/** Smaller floats have fewer digits. */
const smallestNormal = 2 ** -126;

/** The shortest decimal number that is nearest to a 32-bit float. @param text of the float as a 64-bit number */
export function shortFloat(text: string): string {
  if (text.length <= shortLength) return text;
  const value = Number(text);
  const least = Math.abs(value) < smallestNormal ? 1 : digitsMin;
  // From above, as most floats need eight or nine digits: if so many are not enough, fewer are not either. Zeros at the end are not written.
  let shortest: number | undefined;
  for (let digits = digitsMax - 1; digits >= least; digits--) {
    const shorter = Number(value.toPrecision(digits));
    if (Math.fround(shorter) !== value) break;
    shortest = shorter;
  }
  return String(shortest ?? Number(value.toPrecision(digitsMax)));
}
