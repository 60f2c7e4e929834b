// What do the pages of all benchmarks have in common?

import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { chart, logarithmicTicks } from "./chart.ts";
import { type At, at, type EngineResult, type Point, type SetResult } from "./results.ts";

const docs = resolve(import.meta.dirname, "../../docs");

export const cpu = (point: Point): number => point.cpuMs;
export const ms = (value: number): string => value.toFixed(3);
export const whole = (value: number): string => Math.round(value).toLocaleString("en");

/** Writes a page or a picture below docs. */
export function writeDocument(path: string, text: string): void {
  mkdirSync(dirname(join(docs, path)), { recursive: true });
  writeFileSync(join(docs, path), text);
}

/** The engine that needs the least CPU time at a recall, of those that reach it. */
export const fastest = (
  recall: number,
  engines: readonly EngineResult[],
): { engine: EngineResult; at: At } | undefined =>
  engines
    .flatMap((engine) => {
      const found = at(recall, engine.points, cpu);
      return found === undefined ? [] : [{ engine, at: found }];
    })
    .toSorted((a, b) => a.at.value - b.at.value)[0];

export const isOurs = (engine: EngineResult): boolean => engine.isOurs;
export const isRival = (engine: EngineResult): boolean => !engine.isOurs;

/** A line of a table. */
export const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;

/** The head of a table. */
export const head = (titles: readonly string[]): string =>
  `${line(titles)}\n|${"---|".repeat(titles.length)}`;

export const titleCell = ({ title, isOurs }: EngineResult): string => (isOurs ? `**${title}**` : title);

export function bytesCell({ bytesEach, grownEach }: EngineResult): string {
  const parts: string[] = [];
  if (bytesEach !== undefined) parts.push(whole(bytesEach));
  if (grownEach !== undefined) parts.push(`${whole(grownEach)} (process)`);
  return parts.join(", ") || "not told";
}

/** Footer of a table: what was measured, when and where, and which of these `kinds` are missing. */
export function footer(result: SetResult, kinds: readonly { readonly title: string }[] = []): string {
  const { rowCount, queryCount, rounds, day, processor, facts, leftOut, engines } = result;
  const told = [`${whole(rowCount)} rows`, facts ?? [], `${queryCount} queries`, `${rounds} rounds`].flat();
  const known = [...engines.map(({ title }) => title), ...leftOut.map((reason) => reason.split(": ")[0])];
  const unasked = kinds.filter(({ title }) => !known.includes(title));
  const reasons = [...leftOut, ...unasked.map(({ title }) => `${title}: not asked in this run.`)]
    .map((reason) => `- Left out: ${reason}\n`)
    .join("");
  return `${told.join(", ")}, ${day}, ${processor}.\n${reasons === "" ? "" : `\n${reasons}`}`;
}

/** The notes of the engines, each once. */
export function noteLines(results: readonly SetResult[]): string {
  const notes = new Map(results.flatMap(({ engines }) => engines.map(({ title, note }) => [title, note])));
  return [...notes]
    .flatMap(([title, note]) => (note === undefined ? [] : [`- **${title}.** ${note}`]))
    .join("\n");
}

export type Goal = {
  readonly wanted: string;
  readonly figure: string;
  /** Undefined where it was not measured. */
  readonly isMet: boolean | undefined;
};

/** The goal, the measured value, and whether the goal is reached. */
export function goalTable(goals: readonly Goal[]): string {
  const verdict = (isMet: boolean | undefined): string =>
    isMet === undefined ? "not measured" : isMet ? "yes" : "**no**";
  const lines = goals.map(({ wanted, figure, isMet }) => line([wanted, figure, verdict(isMet)]));
  return `${head(["goal", "measured", "reached"])}\n${lines.join("\n")}`;
}

/**
 * CPU time against recall, `from` one on: further down and to the right is better. With `hasExact` the right end is named 1,
 * for there are engines that miss nothing.
 */
export function recallPicture(
  { title, engines }: SetResult,
  k: number,
  { from = 0.8, hasExact = false } = {},
): string {
  const to = 0.9995;
  // The axis is logarithmic in the error: each halving has the same length.
  const stretch = (recall: number): number => -Math.log2(1 - Math.min(recall, to));
  const shown = engines.flatMap(({ points }) => points.filter(({ recall }) => recall >= from));
  const costs = shown.map(cpu);
  const ticks = logarithmicTicks(Math.min(...costs), Math.max(...costs));
  return chart(
    title,
    {
      title: `recall@${k}`,
      from: stretch(from),
      to: stretch(to),
      ticks: [0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, ...(hasExact ? [1] : [])]
        .filter((recall) => recall >= from)
        .map((recall) => ({ value: stretch(recall), label: String(recall) })),
    },
    {
      title: "CPU ms a query",
      from: ticks[0].value,
      to: ticks[ticks.length - 1].value,
      ticks,
      isLogarithmic: true,
    },
    engines.map((engine) => ({
      title: engine.title,
      isOurs: engine.isOurs,
      points: engine.points.map(({ recall, cpuMs }) => [stretch(recall), cpuMs] as const),
    })),
  );
}
