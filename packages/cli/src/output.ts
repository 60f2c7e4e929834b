// How does a command print its results?
//
// On a terminal: aligned columns, truncated to its width. Otherwise: the same rows, complete and separated by tabs, for cut and awk. With
// --json: one JSON value.

import { stripVTControlCharacters } from "node:util";
import type { Warning } from "@quiverdb/client";

export type Column<T> = {
  readonly title: string;
  readonly value: (row: T) => string | number | null | undefined;
  /** How a number is shown on a terminal; elsewhere it stays a number. */
  readonly format?: (value: number) => string;
  readonly right?: boolean;
};

const gap = "  ";
/** Some terminals report a width of 0. */
const widthUnknown = 100;

export function printJson(value: unknown): void {
  process.stdout.write(`${JSON.stringify(value, null, process.stdout.isTTY ? 2 : undefined)}\n`);
}

export function printLine(line = ""): void {
  process.stdout.write(`${line}\n`);
}

/** Prints on stderr what the server warns of. */
export function printWarnings({ warnings = [] }: { readonly warnings?: readonly Warning[] }): void {
  for (const { message } of warnings) process.stderr.write(`${printable(message)}\n`);
}

/** Prints rows; if there are none, prints `empty` on stderr. */
export function printTable<T>(rows: readonly T[], columns: readonly Column<T>[], empty: string): void {
  if (rows.length === 0) {
    process.stderr.write(`${empty}\n`);
    return;
  }
  const { isTTY } = process.stdout;
  const cells = rows.map((row) =>
    columns.map(({ value, format }) => {
      const cell = value(row);
      return plain(isTTY && typeof cell === "number" ? (format?.(cell) ?? cell) : cell);
    }),
  );
  printLine(
    isTTY
      ? alignedTable(columns, cells, process.stdout.columns || widthUnknown)
      : cells.map((row) => row.join("\t")).join("\n"),
  );
}

/** Aligned columns, each line at most `width` wide: the last column is truncated. */
export function alignedTable(
  columns: readonly { readonly title: string; readonly right?: boolean }[],
  cells: readonly (readonly string[])[],
  width: number,
): string {
  const widths = columns.map(({ title }, i) =>
    cells.reduce((most, row) => Math.max(most, row[i].length), title.length),
  );
  const line = (row: readonly string[]) => {
    const padded = row.map((cell, i) =>
      columns[i].right ? cell.padStart(widths[i]) : cell.padEnd(widths[i]),
    );
    const joined = padded.join(gap).trimEnd();
    return joined.length <= width ? joined : `${joined.slice(0, Math.max(0, width - 1))}…`;
  };
  return [columns.map(({ title }) => title), ...cells].map(line).join("\n");
}

function plain(value: string | number | null | undefined): string {
  return value === null || value === undefined ? "" : printable(String(value));
}

/** Text on one line without control characters, so that stored data cannot move the terminal's cursor. */
function printable(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is removed.
  return stripVTControlCharacters(text).replace(/[\u0000-\u001f\u007f-\u009f\s]+/g, " ");
}
