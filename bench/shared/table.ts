// How are results shown as a table?
//
// In Markdown, on the page and on the terminal.

import type { Measured, Row, Value } from "./results.ts";

export const ms = (value: number): string => value.toFixed(3);
export const whole = (value: number): string => Math.round(value).toLocaleString("en");

const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;

export const table = (titles: readonly string[], rows: readonly (readonly string[])[]): string =>
  [line(titles), `|${"---|".repeat(titles.length)}`, ...rows.map(line)].join("\n");

const cellOf = (value: Value): string => {
  if (value === undefined) return "-";
  if (typeof value !== "number") return String(value);
  return Number.isInteger(value) ? value.toLocaleString("en") : String(Number(value.toPrecision(4)));
};

/** All rows with all their columns; notes are for the reader of the JSON. */
function tableOf(rows: readonly Row[]): string {
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))].filter((name) => name !== "note");
  const used = columns.filter((name) => rows.some((row) => row[name] !== undefined));
  return table(
    used,
    rows.map((row) => used.map((name) => cellOf(row[name]))),
  );
}

/** What was measured at once, for the terminal. */
export function shown({ title, options, facts, rows, points = [], leftOut = [] }: Measured): string {
  const about = Object.entries({ ...options, ...facts }).map(([name, value]) => `${name} ${cellOf(value)}`);
  const reasons = leftOut.map((reason) => `- Left out: ${reason}`);
  const tables = [rows, points].filter((each) => each.length > 0).map(tableOf);
  return [`## ${title}`, about.join(", "), ...tables, ...reasons].join("\n\n");
}
