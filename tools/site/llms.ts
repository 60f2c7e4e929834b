// What does a language model get of the documents?
//
// Every page also as Markdown, at its address with .md; llms.txt lists them (https://llmstxt.org): a title, a summary, and a list of links
// for each group of the sidebar. llms-full.txt has the pages themselves, but for the groups that a reader can leave out and the reference,
// which would be longer than everything else.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Generated, Group } from "./contents.ts";

export type ListedPage = Generated & {
  /** Its first sentence; absent for what is generated. */
  readonly about?: string;
};

const title = "Quiver";
const summary =
  'A vector database for TypeScript programs and for any client of a REST API: dense, sparse and full-text search, hybrid search that fuses them, filters, transactions, streaming writes and versions. It runs as a server (`npx quiverdb serve`) or inside your process (`open("./data")`); both give the same `Database` type.';

/**
 * @param out folder of the built site, with the pages as Markdown
 * @param base path of the site on its host, with a slash at both ends
 */
export function writeLlms(
  out: string,
  base: string,
  contents: readonly { group: Group; pages: readonly ListedPage[] }[],
): void {
  const line = ({ file, text, about }: ListedPage) =>
    `- [${text}](${base}${file})${about === undefined ? "" : `: ${about}`}`;
  const flat = (page: ListedPage): ListedPage[] => [page, ...(page.parts ?? [])];
  const required = contents.filter(({ group }) => !group.optional);
  const optional = contents.filter(({ group }) => group.optional);
  const sections = required.map(
    ({ group, pages: listed }) => `## ${group.title}\n\n${listed.flatMap(flat).map(line).join("\n")}`,
  );
  const rest = optional.flatMap(({ pages: listed }) => listed.map(line));
  const list = [`# ${title}`, `> ${summary}`, ...sections, `## Optional\n\n${rest.join("\n")}`];
  writeFileSync(join(out, "llms.txt"), `${list.join("\n\n")}\n`);

  const documents = required.flatMap(({ pages: listed }) =>
    listed.filter(({ about }) => about !== undefined),
  );
  const texts = documents.map(({ file }) => readFileSync(join(out, file), "utf8").trim());
  writeFileSync(join(out, "llms-full.txt"), `${[`# ${title}`, `> ${summary}`, ...texts].join("\n\n")}\n`);
}
