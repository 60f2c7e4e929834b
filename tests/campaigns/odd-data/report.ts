// How are the figures of the battery shown in tests/odd-data/results.md?
//
// By kind of data and metric: the lowest recall of all orders of arrival, next to hnswlib's. By type of codes: how many cases meet the
// requirements, and the recall of the median and the worst case.

import { type MetricName, metricNames } from "@quiverdb/protocol/shapes/index-definition";
import { captionOf, rewrite, withLines } from "../figures.ts";
import type { Case } from "../odd-data.ts";
import { emptyQueriesMax, itselfFirstMin, recallMin } from "./marks.ts";

/** Replaces the tables. @param command repeats the run */
export function writeFigures(cases: readonly Case[], command: string): void {
  const lines = [captionOf(command), "", ...tableByType(cases), "", ...tableByData(cases)];
  rewrite("../tests/odd-data/results.md", (text) => withLines(text, "odd-data", lines));
}

type Faulty = Pick<Case, "counted">;

const reachesMarks = ({ counted }: Faulty): boolean =>
  counted !== undefined &&
  counted.recall >= recallMin &&
  counted.itselfFirst >= itselfFirstMin &&
  counted.emptyQueries <= emptyQueriesMax;

const recallOf = ({ counted }: Faulty): number => counted?.recall ?? 0;
const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;

/** A line for each type of codes, and one for hnswlib. */
export function tableByType(cases: readonly Case[]): string[] {
  const rows = Map.groupBy(cases, ({ type }) => type)
    .entries()
    .map(([type, own]) => {
      const recalls = own.map(recallOf).sort((a, b) => a - b);
      const reaching = own.filter(reachesMarks).length;
      const middle = recalls[Math.floor(recalls.length / 2)];
      const empty = own.reduce((sum, { counted }) => sum + (counted?.emptyQueries ?? 0), 0);
      const queries = own.reduce((sum, { counted }) => sum + (counted?.queries ?? 0), 0);
      const itself = Math.min(...own.map(({ counted }) => counted?.itselfFirst ?? 0));
      return `| ${type} | ${own.length} | ${reaching} | ${middle.toFixed(3)} | ${recalls[0].toFixed(3)} | ${percent(itself)} | ${empty} of ${queries} |`;
    });
  return [
    "| type | cases | reach all marks | middle recall | least recall | least share that finds itself first | queries without a right result |",
    "|---|---:|---:|---:|---:|---:|---:|",
    ...rows,
  ];
}

/** A line for each kind of data: by metric `auto`, `f32` and hnswlib. Values below the requirement, and failed cases, are bold. */
export function tableByData(cases: readonly Case[]): string[] {
  const cell = (own: readonly Case[], metric: MetricName): string => {
    const shown = (["auto", "f32", "hnswlib"] as const).map((type) => {
      const some = own.filter((each) => each.metric === metric && each.type === type);
      if (some.length === 0) return "–";
      if (some.some(({ counted }) => counted === undefined)) return "**fault**";
      const least = Math.min(...some.map(recallOf));
      return least < recallMin ? `**${least.toFixed(3)}**` : least.toFixed(3);
    });
    return shown.join(" · ");
  };
  const rows = Map.groupBy(cases, ({ data }) => data)
    .entries()
    .map(([data, own]) => `| ${data} | ${metricNames.map((metric) => cell(own, metric)).join(" | ")} |`);
  return [
    "Recall@10 of `auto` · `f32` · hnswlib:",
    "",
    `| data | ${metricNames.map((name) => name.replace("_", " ")).join(" | ")} |`,
    `|---|${metricNames.map(() => "---:").join("|")}|`,
    ...rows,
  ];
}
