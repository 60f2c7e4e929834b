// What did a campaign's long run see? Written into docs/reliability.md, in the campaign's own place there.
//
// That page has a pair of comments for each campaign, `<!-- figures: NAME -->` and `<!-- end -->`; what stands between them is
// replaced by a table. Everything else on the page is written by hand.

import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";

const page = resolve(import.meta.dirname, "../../docs/reliability.md");

/** What was seen, in the order in which it is shown: name -> value with its unit. */
export type Figures = Readonly<Record<string, string | number>>;

/**
 * The page with a campaign's table in its place.
 * @throws where the page has no place of that name
 */
export function withFigures(text: string, campaign: string, caption: string, figures: Figures): string {
  const start = `<!-- figures: ${campaign} -->`;
  const from = text.indexOf(start);
  const to = text.indexOf("<!-- end -->", from);
  if (from < 0 || to < 0)
    throw new Error(`docs/reliability.md has no place for the figures of "${campaign}"`);
  const rows = Object.entries(figures).map(([what, value]) => {
    const shown = typeof value === "number" ? value.toLocaleString("en-US") : value;
    return `| ${what} | ${shown} |`;
  });
  const table = [caption, "", "| seen | |", "|---|---:|", ...rows].join("\n");
  return `${text.slice(0, from + start.length)}\n${table}\n${text.slice(to)}`;
}

/**
 * Replaces a campaign's figures in docs/reliability.md.
 * @param command how the run is repeated, its seed included
 */
export function writeFigures(campaign: string, command: string, figures: Figures): void {
  const commit = execFileSync("git", ["rev-parse", "--short", "HEAD"], { encoding: "utf8" }).trim();
  const day = new Date().toISOString().slice(0, 10);
  const caption = `Latest long run: \`${command}\`, ${day}, at ${commit}.`;
  writeFileSync(page, withFigures(readFileSync(page, "utf8"), campaign, caption, figures));
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
