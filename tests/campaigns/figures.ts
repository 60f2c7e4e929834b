// How are the results of a campaign's long run written into docs/reliability.md?
//
// The page has a pair of comments for each campaign, `<!-- figures: NAME -->` and `<!-- end -->`; the text between them is replaced by a
// table. Everything else on the page is written by hand.

import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

const docs = resolve(import.meta.dirname, "../../docs");

/** The results, in order of display: name -> value with its unit. */
export type Figures = Readonly<Record<string, string | number>>;

/**
 * The page with new lines in a campaign's place.
 * @throws if the page has no place of that name
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

/** Describes the run of the figures. @param command repeats the run, including its seed */
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
 * @param command repeats the run, including its seed
 */
export function writeFigures(campaign: string, command: string, figures: Figures): void {
  rewrite("reliability.md", (text) => withFigures(text, campaign, captionOf(command), figures));
}
