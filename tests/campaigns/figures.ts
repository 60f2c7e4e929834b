// What did a campaign's long run see? Written into a page of docs (most into docs/reliability.md), in the campaign's own place there.
//
// The page has a pair of comments for each campaign, `<!-- figures: NAME -->` and `<!-- end -->`; what stands between them is
// replaced by a table. Everything else on the page is written by hand.

import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

const docs = resolve(import.meta.dirname, "../../docs");

/** What was seen, in the order in which it is shown: name -> value with its unit. */
export type Figures = Readonly<Record<string, string | number>>;

/**
 * The page with other lines in a campaign's place.
 * @throws where the page has no place of that name
 */
export function withLines(text: string, campaign: string, lines: readonly string[]): string {
  const start = `<!-- figures: ${campaign} -->`;
  const from = text.indexOf(start);
  const to = text.indexOf("<!-- end -->", from);
  if (from < 0 || to < 0) throw new Error(`the page has no place for the figures of "${campaign}"`);
  return `${text.slice(0, from + start.length)}\n${lines.join("\n")}\n${text.slice(to)}`;
}

/** The page with a campaign's table in its place. @throws as `withLines` does */
export function withFigures(text: string, campaign: string, caption: string, figures: Figures): string {
  const rows = Object.entries(figures).map(([what, value]) => {
    const shown = typeof value === "number" ? value.toLocaleString("en-US") : value;
    return `| ${what} | ${shown} |`;
  });
  return withLines(text, campaign, [caption, "", "| seen | |", "|---|---:|", ...rows]);
}

/** Which run the figures are of. @param command how it is repeated, its seed included */
export function captionOf(command: string): string {
  const commit = execFileSync("git", ["rev-parse", "--short", "HEAD"], { encoding: "utf8" }).trim();
  const day = new Date().toISOString().slice(0, 10);
  return `Latest long run: \`${command}\`, ${day}, at ${commit}.`;
}

/** Replaces a page of docs. @param page its file name */
export function rewrite(page: string, change: (text: string) => string): void {
  const path = join(docs, page);
  writeFileSync(path, change(readFileSync(path, "utf8")));
}

/**
 * Replaces a campaign's figures in docs/reliability.md.
 * @param command how the run is repeated, its seed included
 */
export function writeFigures(campaign: string, command: string, figures: Figures): void {
  rewrite("reliability.md", (text) => withFigures(text, campaign, captionOf(command), figures));
}

/** Tells once a minute how far a long run is. */
export async function whileTelling<T>(line: () => string, run: Promise<T>): Promise<T> {
  const telling = setInterval(() => process.stdout.write(`${line()}\n`), 60_000);
  try {
    return await run;
  } finally {
    clearInterval(telling);
  }
}
