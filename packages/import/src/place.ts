// What does a message call a place in a source?
//
//   points.jsonl:18              a line, and the record on it that has its number
//   points.json:19 (record 3)    another record whose line is known
//   Qdrant, record 3             a record where there are no lines
//
// Lines and records count from 1. A source that has no name is left out: `line 19 (record 3)`, `record 3`.

/** The path that means standard input. */
export const standardInput = "-";

/** What messages call a file. */
export const nameOf = (path: string): string => (path === standardInput ? "standard input" : path);

/** `1 item`, `1,234 items`. */
export const countOf = (count: number, noun: string): string =>
  `${count.toLocaleString("en-US")} ${noun}${count === 1 ? "" : "s"}`;

/** A line. */
export const lineIn = (name: string | undefined, line: number): string =>
  name === undefined ? `line ${line}` : `${name}:${line}`;

/**
 * A record.
 * @param unit what the records of the source are called
 * @param number of the record, from 1
 * @param line on which it is, if that is known
 */
export function recordIn(
  name: string | undefined,
  unit: string,
  number: number,
  line: number | undefined,
): string {
  const record = `${unit} ${number}`;
  if (line === undefined) return name === undefined ? record : `${name}, ${record}`;
  return line === number ? lineIn(name, line) : `${lineIn(name, line)} (${record})`;
}
