// Which documents are pages of the site, where are they, and in what order?
//
// The order is that of the sidebar and of llms.txt. Every document of `isPage` is in it: one that no entry names is an error, so that no page
// is forgotten. Entries that end in * are all documents that match and have no entry of their own, by name.

import { posix } from "node:path";

export type Group = {
  readonly title: string;
  /** Paths of documents, or entries of pages that are generated: a path of the site and the text of the link. */
  readonly entries: readonly (string | Generated)[];
  /** Closed in the sidebar until it is opened; in llms.txt what a reader with little room can leave out. */
  readonly optional?: true;
};

/** A page that the build generates. `file` is relative to the site, and ends in .md, or in .html for a file that is no page of the generator. */
export type Generated = {
  readonly file: string;
  readonly text: string;
  /** Pages of its parts, listed under it. */
  readonly parts?: readonly Generated[];
};

/** Texts of links for documents whose title is long or says little in a list. */
const shortTitles: Readonly<Record<string, string>> = {
  "README.md": "First steps",
  "ARCHITECTURE.md": "Architecture",
  "CONTRIBUTING.md": "Contributing",
  "SPEC.md": "What Quiver promises (SPEC)",
  "packages/client/README.md": "@quiverdb/client",
  "packages/database/README.md": "@quiverdb/database",
  "packages/cli/README.md": "quiverdb, the command line",
  "packages/import/README.md": "@quiverdb/import",
  "packages/langchain/README.md": "@quiverdb/langchain",
  "packages/llamaindex/README.md": "@quiverdb/llamaindex",
  "packages/mcp/README.md": "@quiverdb/mcp",
  "docs/guide/start.md": "A model, a collection, REST",
};

/** The text of the link to a document. @param title its first heading */
export const linkText = (path: string, title: string): string =>
  // The headings of decisions say what was decided behind a colon or a semicolon.
  shortTitles[path] ?? title.replace(/[:;] .*$/, "");

/** Whether a file of the project has to be a page. */
export const isPage = (path: string): boolean =>
  /^((README|ARCHITECTURE|SPEC|CONTRIBUTING)\.md|docs\/.*\.md|(examples|packages\/[^/]+)\/README\.md)$/.test(
    path,
  );

/**
 * The file of a document in the site. `README.md` is `start.md`, `packages/client/README.md` is `packages/client.md`; the pages of docs/ lose
 * the folder's name.
 */
export function siteFile(path: string): string {
  if (path === "README.md") return "start.md";
  if (path.endsWith("/README.md")) return `${posix.dirname(path)}.md`;
  if (path.startsWith("docs/")) return path.slice("docs/".length);
  return path.toLowerCase();
}

/** @param generated the generated pages of the reference, in order: REST, TypeScript, command line */
const groups = (generated: readonly Generated[]): readonly Group[] => [
  {
    title: "Guide",
    entries: [
      "README.md",
      "docs/guide/start.md",
      "docs/guide/in-process-or-server.md",
      "docs/guide/data.md",
      "docs/guide/search.md",
      "docs/guide/filters.md",
      "docs/guide/text.md",
      "docs/guide/import-and-integrations.md",
      "docs/guide/python.md",
      "docs/guide/console.md",
      "examples/README.md",
    ],
  },
  {
    title: "Operate",
    entries: [
      "docs/operate/run.md",
      "docs/operate/secure.md",
      "docs/operate/back-up.md",
      "docs/operate/overload.md",
      "docs/operate/cluster.md",
      "docs/reliability.md",
    ],
  },
  {
    title: "Packages",
    entries: [
      "packages/client/README.md",
      "packages/database/README.md",
      "packages/cli/README.md",
      "packages/import/README.md",
      "packages/langchain/README.md",
      "packages/llamaindex/README.md",
      "packages/mcp/README.md",
    ],
  },
  {
    title: "Reference",
    entries: [...generated, "SPEC.md"],
  },
  {
    title: "Benchmarks",
    entries: ["docs/benchmarks.md"],
    optional: true,
  },
  {
    title: "How it is built",
    entries: ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/decisions/*"],
    optional: true,
  },
];

/**
 * The documents of each group, in order.
 * @param documents all documents that have to be pages
 * @throws Error for a document without an entry, and for an entry without a document
 */
export function arrange(
  documents: readonly string[],
  generated: readonly Generated[],
): readonly { group: Group; entries: readonly (string | Generated)[] }[] {
  const named = new Set(
    groups(generated).flatMap(({ entries }) => entries.filter((e) => typeof e === "string")),
  );
  const placed = new Set<string>();
  const arranged = groups(generated).map((group) => ({
    group,
    entries: group.entries.flatMap((entry): readonly (string | Generated)[] => {
      if (typeof entry !== "string") return [entry];
      const found = entry.endsWith("*")
        ? documents.filter((path) => path.startsWith(entry.slice(0, -1)) && !named.has(path))
        : documents.filter((path) => path === entry);
      if (found.length === 0) throw new Error(`tools/site/contents.ts: there is no document ${entry}`);
      for (const path of found) placed.add(path);
      return found;
    }),
  }));
  const forgotten = documents.filter((path) => !placed.has(path));
  if (forgotten.length > 0)
    throw new Error(`tools/site/contents.ts has no entry for ${forgotten.join(", ")}`);
  return arranged;
}
