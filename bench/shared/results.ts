// What does a benchmark store, and where?
//
// bench/results/NAME.json holds the runs of one benchmark. Each run has a key, and a later run with the same key replaces it. Rows and points
// are flat, so that one printer shows all of them (table.ts) and one page reads all of them (page.ts).
//
//   rows      one for each engine, server or case
//   points    one for each engine and search, where a run has both
//
// The unit is the last part of a column's name, and "@0.95" says at which recall; "times" is a multiple of what `options.timesOf` names.
// A figure is the median of its rounds; the same name with Min and Max has the least and the greatest, where they are recorded
// (of recall: those of all efforts).

import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { join, resolve } from "node:path";

export type Value = string | number | boolean | undefined;
export type Row = Readonly<Record<string, Value>>;

/** What was measured at once. */
export type Measured = {
  /** Unique in the file. */
  readonly key: string;
  readonly title: string;
  /** What was asked for: numbers of rows, queries, rounds. */
  readonly options: Row;
  /** What else is known of the data or the run. */
  readonly facts?: Row;
  readonly rows: readonly Row[];
  readonly points?: readonly Row[];
  /** Engines that could not be measured, with the reason. */
  readonly leftOut?: readonly string[];
};

export type Run = Measured & {
  /** YYYY-MM-DD. */
  readonly date: string;
  /** The commit that was measured, with "+" if there were changes. Of runs before 2026-11-26: the commit that recorded them. */
  readonly commit: string;
  readonly machine: string;
};

const results = resolve(import.meta.dirname, "../results");
const pathOf = (benchmark: string): string => join(results, `${benchmark}.json`);

function commitNow(): string {
  const git = (...args: string[]) =>
    execFileSync("git", args, { cwd: results, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
  try {
    const hasChanges = git("status", "--porcelain", "--untracked-files=no", "--", "../../packages") !== "";
    return `${git("rev-parse", "--short=8", "HEAD")}${hasChanges ? "+" : ""}`;
  } catch {
    return "unknown";
  }
}

/** What was measured, with the day, the commit and the machine of now. */
export const runOf = (measured: Measured): Run => ({
  ...measured,
  date: new Date().toISOString().slice(0, 10),
  commit: commitNow(),
  machine: `${cpus()[0]?.model ?? "unknown"}, ${cpus().length} cores, Node.js ${process.version}`,
});

/** The stored runs of a benchmark, in the order in which their keys came; none if it was never run. */
export function stored(benchmark: string): Run[] {
  const path = pathOf(benchmark);
  return existsSync(path) ? JSON.parse(readFileSync(path, "utf8")).runs : [];
}

/** A number with at most six significant digits: more are noise. */
const rounded = (_: string, value: unknown): unknown =>
  typeof value === "number" && !Number.isInteger(value) ? Number(value.toPrecision(6)) : value;

/** JSON with a line for each row. */
function textOf(benchmark: string, runs: readonly Run[]): string {
  const member = ([name, value]: [string, unknown]): string => {
    const isRows = Array.isArray(value) && value.length > 0;
    const text = isRows
      ? `[\n${value.map((row) => `    ${JSON.stringify(row, rounded)}`).join(",\n")}\n   ]`
      : JSON.stringify(value, rounded);
    return `   ${JSON.stringify(name)}: ${text}`;
  };
  const parts = runs.map((run) => {
    const { key, title, date, commit, machine, options, facts, rows, points, leftOut } = run;
    const ordered = { key, title, date, commit, machine, options, facts, rows, points, leftOut };
    const members = Object.entries(ordered).filter(([, value]) => value !== undefined);
    return `  {\n${members.map(member).join(",\n")}\n  }`;
  });
  return `{\n "benchmark": ${JSON.stringify(benchmark)},\n "runs": [\n${parts.join(",\n")}\n ]\n}\n`;
}

/** Stores a run in place of the one with the same key. */
export function keep(benchmark: string, run: Run): void {
  const runs = stored(benchmark);
  const at = runs.findIndex(({ key }) => key === run.key);
  if (at < 0) runs.push(run);
  else runs[at] = run;
  mkdirSync(results, { recursive: true });
  writeFileSync(pathOf(benchmark), textOf(benchmark, runs));
}
