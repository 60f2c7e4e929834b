// What type does a received value have, in a word or two?

/** The type with its article: `null`, `an array`, `an object`, `a string`; `missing` for undefined. It stands behind "is" in messages. */
export function kindOf(value: unknown): string {
  if (value === undefined) return "missing";
  if (value === null) return "null";
  if (Array.isArray(value)) return "an array";
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}

/** What is expected of a value of a vector. It stands behind "is NaN; " and the like in messages. */
export const finiteFloat = "expected a finite number within the range of a 32-bit float (about ±3.4e38).";
