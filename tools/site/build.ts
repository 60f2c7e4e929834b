// How does the site come about?
//
//   documents of the project  --links of the site-->  \
//   OpenAPI document of a server, declarations of the  >  .cache/site/pages  --VitePress-->  the site  --links checked-->
//   packages, help of the command line  -->           /
//
// The documents stay where they are, readable on a code host; the pages are a copy whose links are those of the site. The generator gets what
// is in .vitepress beside this file, and the table of contents as a file.

import {
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { dirname, join, posix, resolve } from "node:path";
import { fromMarkdown } from "mdast-util-from-markdown";
import { toString as textOf } from "mdast-util-to-string";
import { build } from "vitepress";
import { installOnce } from "../install-once.ts";
import { projectFiles } from "../project-files.ts";
import { writeApiReference } from "./api.ts";
import { writeCommandReference } from "./cli.ts";
import { arrange, type Generated, isPage, linkText, siteFile } from "./contents.ts";
import { deadLinks } from "./dead-links.ts";
import { withSiteLinks } from "./links.ts";
import { type ListedPage, writeLlms } from "./llms.ts";
import { writeRestReference } from "./rest.ts";
import { SourcePages } from "./source-pages.ts";

const root = resolve(import.meta.dirname, "../..");
const cache = join(root, ".cache", "site");
const pages = join(cache, "pages");
/** The static files, for the generator; it copies them as they are. */
const files = join(pages, "public");
/** The site itself. */
const out = join(cache, "built");

/** What .vitepress/config.ts needs to know. */
export type SiteContents = {
  base: string;
  out: string;
  sidebar: readonly SidebarItem[];
};
export type SidebarItem = { text: string; link: string; collapsed?: boolean; items?: SidebarItem[] };

/**
 * Builds the site, in the cache.
 * @param base path of the site on its host, with a slash at both ends
 * @returns what is wrong with it: dead links, what is exported and not documented
 */
export async function buildSite(base: string): Promise<string[]> {
  rmSync(pages, { recursive: true, force: true });
  mkdirSync(files, { recursive: true });
  const project = projectFiles(root);
  const documents = project.filter(isPage);
  const sources = new SourcePages(root, project);

  const rest = await writeRestReference(pages, files);
  const commands = await writeCommandReference(pages);
  const { page: api, errors } = await writeApi();
  const contents = arrange(documents, [rest, api, commands]).map(({ group, entries }) => ({
    group,
    pages: entries.map((entry) => (typeof entry === "string" ? copyDocument(entry) : entry)),
  }));
  writeFileSync(join(pages, "index.md"), linked("tools/site/home.md"));
  cpSync(join(root, "packages/console/src/icon.svg"), join(files, "icon.svg"));
  sources.write(files);

  const sidebar = contents.map(({ group, pages: listed }) => {
    const items = listed.map(item);
    // Without a link, VitePress makes a button of the title, and puts the button that opens the group into it.
    return { text: group.title, link: items[0].link, collapsed: group.optional === true, items };
  });
  writeFileSync(join(cache, "contents.json"), JSON.stringify({ base, out, sidebar } satisfies SiteContents));
  await build(import.meta.dirname);
  for (const file of globSync("**/*.md", { cwd: pages })) {
    mkdirSync(dirname(join(out, file)), { recursive: true });
    writeFileSync(join(out, file), readFileSync(join(pages, file), "utf8").replaceAll("](/", `](${base}`));
  }
  writeLlms(out, base, contents);
  const made = globSync("**/*.html", { cwd: out }).filter((file) => !file.startsWith("reference"));
  return [...errors, ...deadLinks(out, base, made)];

  /** A document with the links of the site. */
  function linked(path: string): string {
    return withSiteLinks(path, readFileSync(join(root, path), "utf8"), (target) => {
      if (isPage(target)) return `/${siteFile(target)}`;
      if (documents.includes(`${target}/README.md`)) return `/${siteFile(`${target}/README.md`)}`;
      if (/\.(png|svg)$/.test(target)) return copyImage(target);
      const inFolder = documents.filter((document) => posix.dirname(document) === target);
      return inFolder.length > 1 && target !== "." ? writeIndex(target, inFolder) : sources.address(target);
    });
  }

  function copyDocument(path: string): ListedPage {
    const text = linked(path);
    const file = siteFile(path);
    mkdirSync(dirname(join(pages, file)), { recursive: true });
    writeFileSync(join(pages, file), text);
    const { title, about } = beginningOf(path, text);
    return { file, text: linkText(path, title), about };
  }
}

/**
 * Puts the site that was built into a folder.
 * @throws Error if the folder has something else in it, which would be lost
 */
export function publishSite(folder: string): void {
  if (existsSync(folder) && readdirSync(folder).length > 0 && !existsSync(join(folder, "llms.txt")))
    throw new Error(
      `${folder} has files that are not of a site; name an empty folder, or one that does not exist.`,
    );
  rmSync(folder, { recursive: true, force: true });
  cpSync(out, folder, { recursive: true });
}

function copyImage(path: string): string {
  const file = siteFile(path);
  mkdirSync(dirname(join(files, file)), { recursive: true });
  cpSync(join(root, path), join(files, file));
  return `/${file}`;
}

/** The page of a folder of documents: a list of them. */
function writeIndex(folder: string, documents: readonly string[]): string {
  const file = `${siteFile(folder)}/index.md`;
  const lines = documents.map((path) => {
    const { title } = beginningOf(path, readFileSync(join(root, path), "utf8"));
    return `- [${title}](/${siteFile(path)})`;
  });
  const name = posix.basename(folder).replaceAll("-", " ");
  const title = name.charAt(0).toUpperCase() + name.slice(1);
  mkdirSync(dirname(join(pages, file)), { recursive: true });
  writeFileSync(join(pages, file), `# ${title}\n\n${lines.join("\n")}\n`);
  return `/${file}`;
}

/** The title of a document and its first sentence, as plain text. */
function beginningOf(path: string, text: string): { title: string; about: string } {
  const { children } = fromMarkdown(text);
  const heading = children.find((node) => node.type === "heading");
  const paragraph = children.find((node) => node.type === "paragraph");
  if (heading === undefined || paragraph === undefined)
    throw new Error(`${path} has no heading, or no paragraph`);
  const about = textOf(paragraph).replaceAll(/\s+/g, " ");
  return { title: textOf(heading), about: /^.+?[.](?= |$)/.exec(about)?.[0] ?? about };
}

function item({ file, text, parts }: Generated): SidebarItem {
  const link = `/${file.replace(/(^|\/)index\.md$/, "$1").replace(/\.md$/, "")}`;
  return parts === undefined ? { text, link } : { text, link, collapsed: true, items: parts.map(item) };
}

/** The reference of the packages, from what `npm run pack` makes of them. */
async function writeApi(): ReturnType<typeof writeApiReference> {
  installOnce(join(root, "tools", "pack"), "what the packages are made with");
  const { stage } = await import("../pack/build.ts");
  return await writeApiReference(root, await stage(), pages);
}
