// Do the parts of the site do what the pages rely on? What needs the generators is tried by the check itself, which builds the site.

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { projectFiles } from "../project-files.ts";
import { arrange, isPage, linkText, siteFile } from "./contents.ts";
import { deadLinks } from "./dead-links.ts";
import { withSiteLinks } from "./links.ts";
import { writeLlms } from "./llms.ts";
import { serveSite } from "./serve.ts";
import { SourcePages } from "./source-pages.ts";

const folders: string[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

function folderWith(files: Record<string, string>): string {
  const folder = mkdtempSync(join(tmpdir(), "quiver-site-test-"));
  folders.push(folder);
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  return folder;
}

describe("links", () => {
  const seen = (document: string) => withSiteLinks("docs/a.md", document, (path) => `/<${path}>`);

  test("destinations become addresses of the site, and nothing else changes", () => {
    expect(seen("[a](b.md) and [b.md](../README.md#x), `[c](d.md)`")).toBe(
      "[a](/%3Cdocs/b.md%3E) and [b.md](/%3CREADME.md%3E#x), `[c](d.md)`",
    );
    expect(seen("![text](images/a.svg)\n\n[ref]: ../packages/x.ts#L3 'title'\n")).toBe(
      "![text](/%3Cdocs/images/a.svg%3E)\n\n[ref]: /%3Cpackages/x.ts%3E#L3 'title'\n",
    );
    expect(seen("[![text](images/a.svg)](/docs/)")).toBe("[![text](/%3Cdocs/images/a.svg%3E)](/%3Cdocs%3E)");
  });

  test("addresses of other hosts and links within the page stay", () => {
    const document =
      "[a](https://example.org/b.md) <http://127.0.0.1:8443> [c](#d) [e](mailto:f@example.org)";
    expect(seen(document)).toBe(document);
  });

  test("a link in HTML, which nothing would replace, is an error", () => {
    expect(() => seen('<a href="b.md">b</a>')).toThrow("docs/a.md: a link in HTML");
  });
});

describe("contents", () => {
  const documents = projectFiles(resolve(import.meta.dirname, "../..")).filter(isPage);

  test("every document of the project has one place, and a page of its own", () => {
    const entries = arrange(documents, []).flatMap(({ entries }) => entries);
    expect(entries.toSorted()).toEqual(documents);
    expect(new Set(documents.map(siteFile)).size).toBe(documents.length);
  });

  test("a document that is not listed, and one that does not exist, are errors", () => {
    expect(() => arrange([...documents, "docs/new.md"], [])).toThrow("no entry for docs/new.md");
    const without = documents.filter((path) => path !== "docs/guide/filters.md");
    expect(() => arrange(without, [])).toThrow("no document docs/guide/filters.md");
  });

  test("a link to a decision has the part of its title that names it", () => {
    expect(linkText("docs/decisions/x.md", "One writer: why; and how")).toBe("One writer");
    expect(linkText("README.md", "Quiver")).toBe("First steps");
  });
});

describe("sources", () => {
  test("a file is a page with an element for each line, and its folder a list of what is in it", () => {
    const files = {
      "src/a.ts": "// What is this?\nif (1 < 2) {}\n",
      "src/deep/b.json": "{}",
      "other.md": "",
    };
    const root = folderWith(files);
    const sources = new SourcePages(root, Object.keys(files));
    expect(sources.address("src/a.ts")).toBe("/source/src/a.ts.html");
    expect(() => sources.address("src/none.ts")).toThrow("src/none.ts is no file of the project");
    const site = folderWith({ "index.html": "" });
    expect(sources.write(site)).toBe(4);
    const page = readFileSync(join(site, "source/src/a.ts.html"), "utf8");
    expect(page).toContain('<li id="L2">if (1 &lt; 2) {}</li>');
    expect(page).not.toContain('id="L3"');
    const folder = readFileSync(join(site, "source/src.html"), "utf8");
    expect(folder).toContain('<a href="src/a.ts.html">a.ts</a> What is this?');
    writeFileSync(join(site, "icon.svg"), "");
    const pages = ["src.html", "src/a.ts.html", "src/deep.html", "src/deep/b.json.html"];
    expect(
      deadLinks(
        site,
        "/",
        pages.map((name) => `source/${name}`),
      ),
    ).toEqual([]);
  });
});

describe("dead links", () => {
  test("a link must name a file of the site and an element of that page", () => {
    const site = folderWith({
      "index.html":
        '<h1 id="top"></h1><a href="b.html#there">b</a><a href="#top">t</a><a href="/x/sub/">s</a><a href="https://example.org">e</a>',
      "b.html":
        '<p id="there"></p><a href="none.html">n</a><a href="index.html#no">i</a><a href="/outside.html">o</a>',
      "sub/index.html": '<a href="../b.html">b</a><img src="../none.png">',
    });
    expect(deadLinks(site, "/x/", ["index.html", "b.html", "sub/index.html"])).toEqual([
      'b.html: link "none.html": the site has no none.html',
      'b.html: link "index.html#no": index.html has nothing called #no',
      'b.html: link "/outside.html": it is outside of /x/',
      'sub/index.html: link "../none.png": the site has no none.png',
    ]);
  });

  test("what is on every page is told once, and nothing may be loaded from another host", () => {
    const page = '<a href="gone.html">g</a><script src="https://cdn.example.org/a.js"></script>';
    const site = folderWith({ "a.html": page, "b.html": page });
    expect(deadLinks(site, "/", ["a.html", "b.html"])).toEqual([
      'a.html (and 1 more): link "gone.html": the site has no gone.html',
      "a.html (and 1 more): loads https://cdn.example.org/a.js from another host",
    ]);
  });
});

test("llms.txt has a title, a summary and lists of links, llms-full.txt the documents that are not optional", () => {
  const out = folderWith({ "a.md": "# A\n\nFirst.\n", "b.md": "# B\n\nSecond.\n" });
  const page = (name: string, about?: string) => ({ file: `${name}.md`, text: name.toUpperCase(), about });
  writeLlms(out, "/x/", [
    {
      group: { title: "One", entries: [] },
      pages: [page("a", "First."), { ...page("r"), parts: [page("p")] }],
    },
    { group: { title: "Two", entries: [], optional: true }, pages: [page("b", "Second.")] },
  ]);
  const list = readFileSync(join(out, "llms.txt"), "utf8");
  expect(list).toMatch(
    /^# Quiver\n\n> .+\n\n## One\n\n- \[A\]\(\/x\/a\.md\): First\.\n- \[R\]\(\/x\/r\.md\)\n- \[P\]/,
  );
  expect(list.endsWith("\n\n## Optional\n\n- [B](/x/b.md): Second.\n")).toBe(true);
  const full = readFileSync(join(out, "llms-full.txt"), "utf8");
  expect(full.endsWith("\n\n# A\n\nFirst.\n")).toBe(true);
});

test("the built site is served with its base, and nothing outside of it", async () => {
  const around = folderWith({
    "outside.txt": "x",
    "site/index.html": "home",
    "site/404.html": "none",
    "site/sub/page.html": "page",
  });
  const { address, close } = await serveSite(join(around, "site"), 0, "/x/");
  try {
    const answer = async (path: string) => {
      const response = await fetch(new URL(path, address));
      return [response.status, await response.text()];
    };
    expect(await answer("/x/")).toEqual([200, "home"]);
    expect(await answer("/x/sub/page?q=1")).toEqual([200, "page"]);
    for (const path of ["/", "/y/", "/x/none", "/x/%zz", "/x/..%2foutside.txt", "/x/%00"])
      expect(await answer(path), path).toEqual([404, "none"]);
  } finally {
    close();
  }
});
