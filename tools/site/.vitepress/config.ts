// What does the generator make of the pages?
//
// Nothing of the site asks another host for anything: the search is local, the fonts are those of the reader's system.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { slug } from "github-slugger";

type Contents = { base: string; out: string; sidebar: unknown[] };

const cache = join(import.meta.dirname, "../../../.cache/site");
const { base, out, sidebar } = JSON.parse(readFileSync(join(cache, "contents.json"), "utf8")) as Contents;

/** Addresses of static files, which are no pages of the generator: the browser has to load them. */
const isStatic = (href: string): boolean => /^\/(source\/|reference\/|openapi\.json|llms)/.test(href);

export default {
  title: "Quiver",
  description:
    "A vector database in TypeScript: dense, sparse, full-text and hybrid search, transactions and versions, as a REST service or in your process.",
  lang: "en",
  base,
  srcDir: join(cache, "pages"),
  cacheDir: join(cache, "vitepress"),
  outDir: out,
  metaChunk: true,
  // The index of the search is one file, which is loaded when the search is opened.
  vite: { build: { chunkSizeWarningLimit: 5_000 } },
  head: [["link", { rel: "icon", href: `${base}icon.svg`, type: "image/svg+xml" }]],
  markdown: {
    // Of the themes that come with it, those whose comments can be read by everybody (WCAG AA).
    theme: { light: "github-light-high-contrast", dark: "github-dark-default" },
    // The documents' links name headings as code hosts do.
    anchor: { slugify: slug },
    config(markdown: { core: { ruler: { push(name: string, rule: (state: State) => void): void } } }) {
      markdown.core.ruler.push("static-files", ({ tokens }) => {
        for (const token of tokens.flatMap(({ children }) => children ?? [])) {
          const href = token.type === "link_open" ? token.attrGet("href") : null;
          if (href === null || !isStatic(href)) continue;
          token.attrSet("href", base + href.slice(1));
          token.attrSet("target", "_self");
        }
      });
    },
  },
  themeConfig: {
    logo: "/icon.svg",
    nav: [
      { text: "Start", link: "/start" },
      { text: "Search", link: "/guide/search" },
      { text: "Operate", link: "/operate/run" },
      {
        text: "Reference",
        items: [
          { text: "REST", link: "/rest/" },
          { text: "TypeScript", link: "/api/" },
          { text: "Commands", link: "/cli/" },
          { text: "Promises (SPEC)", link: "/spec" },
        ],
      },
      { text: "Benchmarks", link: "/benchmarks" },
    ],
    sidebar,
    outline: { level: [2, 3] },
    search: { provider: "local", options: { detailedView: true } },
    docFooter: { prev: "Before", next: "Next" },
    externalLinkIcon: true,
  },
};

type Token = {
  type: string;
  children: Token[] | null;
  attrGet(name: string): string | null;
  attrSet(name: string, value: string): void;
};
type State = { tokens: Token[] };
