// What does a link to a file of the project lead to?
//
// The documents link to sources, often to a line. A site that is built from a clone does not know where that clone is published, and a link to
// another place could show another version. So the site has the files themselves: plain pages with numbered lines, without scripts, at
// source/PATH.html. A folder is a list of its files, each with the question that its first line answers. Only what is linked is made, and
// what is in the folders that are linked.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, posix } from "node:path";

const fileBytesMax = 256 * 1024;

/** The address of a file or folder in the site. */
const sourceAddress = (path: string): string => `/source/${path}.html`;

const style = `:root{color-scheme:light dark}
body{margin:0;font:14px/1.6 ui-monospace,"SF Mono","Cascadia Mono","DejaVu Sans Mono",monospace}
header{position:sticky;top:0;padding:.6rem 1rem;background:light-dark(#f6f6f7,#202127);font-family:system-ui,sans-serif}
a{color:light-dark(#5746d8,#a79cff)}
ol,ul{margin:0;padding:1rem 1rem 4rem}
ol{counter-reset:line;list-style:none}
li{white-space:pre-wrap;overflow-wrap:anywhere;padding-left:4.5rem;text-indent:-4.5rem;scroll-margin-top:4rem}
ol>li::before{counter-increment:line;content:counter(line);display:inline-block;box-sizing:border-box;width:4.5rem;padding-right:1rem;text-indent:0;text-align:right;color:light-dark(#6b6d7a,#8d909e)}
li:target{background:light-dark(#ebe8ff,#2b2753)}
ul li{padding:0;text-indent:0;list-style:none;font-family:system-ui,sans-serif}`;

const escaped = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");

/** Collects what is linked, and writes the pages of it. */
export class SourcePages {
  readonly #root: string;
  readonly #files: ReadonlySet<string>;
  readonly #wanted = new Set<string>();

  /** @param files all files of the project */
  constructor(root: string, files: readonly string[]) {
    this.#root = root;
    this.#files = new Set(files);
  }

  /** The address of a file or folder, which gets a page. @throws Error for what is neither */
  address(path: string): string {
    if (!this.#files.has(path) && this.#entriesOf(path).length === 0)
      throw new Error(`${path} is no file of the project`);
    this.#wanted.add(path);
    return sourceAddress(path);
  }

  /** @param folder of the static files of the site */
  write(folder: string): number {
    // Pages of folders want further pages: the set grows while it is walked.
    for (const path of this.#wanted) {
      const file = join(folder, `.${sourceAddress(path)}`);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, this.#files.has(path) ? this.#fileAsPage(path) : this.#folderAsPage(path));
    }
    return this.#wanted.size;
  }

  #entriesOf(folder: string): string[] {
    const prefix = folder === "." ? "" : `${folder}/`;
    const below = [...this.#files].filter((path) => path.startsWith(prefix));
    return [...new Set(below.map((path) => prefix + path.slice(prefix.length).split("/")[0]))].sort();
  }

  #read(path: string): string | undefined {
    const bytes = readFileSync(join(this.#root, path));
    return bytes.length > fileBytesMax || bytes.includes(0) ? undefined : bytes.toString("utf8");
  }

  #fileAsPage(path: string): string {
    const text = this.#read(path);
    if (text === undefined) return this.#page(path, "<p>This file is not text, or too long for a page.</p>");
    const lines = text.replace(/\n$/, "").split("\n");
    return this.#page(
      path,
      `<ol>${lines.map((line, at) => `<li id="L${at + 1}">${escaped(line)}</li>`).join("")}</ol>`,
    );
  }

  #folderAsPage(folder: string): string {
    const items = this.#entriesOf(folder).map((path) => {
      const isFile = this.#files.has(path);
      const [, question] = (isFile && /^\/\/ (.+\?)\n/.exec(this.#read(path) ?? "")) || [];
      const name = escaped(posix.basename(path) + (isFile ? "" : "/"));
      return `<li>${this.#link(folder, path, name)}${question === undefined ? "" : ` ${escaped(question)}`}</li>`;
    });
    return this.#page(folder, `<ul>${items.join("\n")}</ul>`);
  }

  #link(from: string, to: string, text: string): string {
    this.#wanted.add(to);
    const address = posix.relative(posix.dirname(sourceAddress(from)), sourceAddress(to));
    return `<a href="${encodeURI(address)}">${text}</a>`;
  }

  #page(path: string, content: string): string {
    const folder = posix.dirname(path);
    const up = folder === "." ? "" : `${this.#link(path, folder, escaped(`${folder}/`))}`;
    const home = posix.relative(posix.dirname(sourceAddress(path)), "/index.html");
    return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta name="robots" content="noindex"><link rel="icon" href="${home.replace("index.html", "icon.svg")}">
<title>${escaped(path)} - Quiver</title><style>${style}</style></head>
<body><header><a href="${home}">Quiver</a> / ${up}${escaped(posix.basename(path))}</header><main>${content}</main></body></html>
`;
  }
}
