// How is a folder of Markdown kept in a collection?
//
// Each section (a heading with the text below it) is a record, with the file as its document. A second run embeds only files that have
// changed, and forgets files that are gone; readers see all of a run's changes, or none.

import { createHash } from "node:crypto";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import {
  type Database,
  ensureTexts,
  type RecordInput,
  type TextCollection,
  withEmbeddings,
} from "@quiverdb/client";
import { embed } from "./model.ts";

export type Section = { path: string; heading: string; hash: string };

/** Brings the collection up to date with the folder. @returns the collection, and how many sections were embedded and files forgotten */
export async function indexFolder(
  database: Database,
  folder: string,
): Promise<{ sections: TextCollection<Section>; embedded: number; forgotten: number }> {
  const dimension = async () => (await embed(["dimension"]))[0].length;
  const sections = withEmbeddings(await ensureTexts<Section>(database, "markdown", { dimension }), embed);
  const { collection } = sections;
  const stored = await storedHashes(sections);

  const paths = globSync("**/*.md", { cwd: folder, exclude: ["**/node_modules/**"] }).sort();
  const changed: string[] = [];
  const records: RecordInput<Section>[] = [];
  for (const path of paths) {
    const text = readFileSync(join(folder, path), "utf8");
    const hash = createHash("sha256").update(text).digest("hex");
    if (stored.get(path) === hash) continue;
    changed.push(path);
    records.push(...sectionsOf(path, text, hash));
  }
  const gone = [...stored.keys()].filter((path) => !paths.includes(path));
  const stale = [...changed, ...gone].filter((path) => stored.has(path));
  if (records.length === 0 && stale.length === 0) return { sections, embedded: 0, forgotten: 0 };

  await using transaction = await collection.transaction();
  for (const path of stale)
    for (const { id } of await collection.byDocument(path)) await transaction.delete(id);
  await transaction.upsert(sections.records(records));
  await transaction.commit();
  return { sections, embedded: records.length, forgotten: gone.length };
}

/** The hash of each stored file. */
async function storedHashes({ collection }: TextCollection<Section>): Promise<Map<string, string>> {
  const hashes = new Map<string, string>();
  let cursor: string | null | undefined;
  do {
    const page = await collection.scroll({ include: ["metadata"], limit: 1_000, cursor });
    for (const { metadata } of page.vectors) {
      const { path, hash } = metadata as Section;
      hashes.set(path, hash);
    }
    cursor = page.next_cursor;
  } while (cursor != null);
  return hashes;
}

function sectionsOf(path: string, text: string, hash: string): RecordInput<Section>[] {
  // A line that begins with # inside of a code block is no heading.
  let isCode = false;
  const parts: { heading: string; lines: string[] }[] = [{ heading: path, lines: [] }];
  for (const line of text.split("\n")) {
    if (line.startsWith("```")) isCode = !isCode;
    const heading = isCode ? null : /^#{1,6}\s+(.+)/.exec(line);
    if (heading !== null) parts.push({ heading: heading[1], lines: [] });
    parts.at(-1)?.lines.push(line);
  }
  return parts
    .map(({ heading, lines }) => ({ heading, text: lines.join("\n").trim() }))
    .filter(({ text }) => text !== "")
    .map(({ heading, text }, i) => ({
      id: `${path}#${i}`,
      document_id: path,
      text,
      metadata: { path, heading, hash },
    }));
}
