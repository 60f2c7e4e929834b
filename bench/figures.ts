// Which rows of a result are ours, which is the best rival, and how are figures compared?

import type { Row, Run } from "./shared/results.ts";

export const num = (row: Row | undefined, name: string): number => Number(row?.[name] ?? Number.NaN);
export const isOurs = (row: Row): boolean => row.ours === true;
export const isRival = (row: Row): boolean => !isOurs(row) && row.bare !== true;
export const isWhole = ({ engine }: Row): boolean => engine === "Quiver, the whole engine";

/** The row with the least of a figure. */
export const least = (rows: readonly Row[], name: string): Row | undefined =>
  rows
    .filter((row) => row[name] !== undefined)
    .toSorted((a, b) => num(a, name) - num(b, name))
    .at(0);

/** How many times Quiver's best the best rival costs; figures of Quiver's best are 1. */
export const timesOfRival = ({ rows }: Run, at: string): number =>
  num(least(rows.filter(isRival), `cpuMs${at}`), `times${at}`);

const filterRecallMin = 0.9;

/** The best rival among the points of one filter and share. */
export function bestRival({ rows, points = [] }: Run, filter: string, share: number): Row | undefined {
  const rivals = new Set(rows.filter(isRival).map(({ engine }) => engine));
  const known = points.filter(
    (each) =>
      each.filter === filter &&
      each.share === share &&
      rivals.has(each.engine) &&
      num(each, "recall") >= filterRecallMin,
  );
  return least(known, "cpuMs");
}
