import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { checkLinks } from "./links.ts";

const roots: string[] = [];

afterEach(() => {
  for (const root of roots.splice(0)) rmSync(root, { recursive: true });
});

function check(files: Record<string, string>): string[] {
  const root = mkdtempSync(join(tmpdir(), "quiver-links-"));
  roots.push(root);
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  return checkLinks(root);
}

describe("packages", () => {
  // In two parts, because the check reads this file, too.
  const old = "qui" + "ver";
  const ours = `${old}db`;

  test.each([
    ["an import of the old scope", "a.ts", `import { open } from "@${old}/database";`],
    ["an import of the old name", "a.mjs", `await import("${old}");`],
    ["a dependency", "package.json", `{ "dependencies": { "${old}": "^0.1.0" } }`],
    ["npm install", "a.md", `Say \`npm install --save-exact ${old}\`.`],
    ["npm install of several", "a.md", `npm i chromadb ${old}@latest`],
    ["npx", "Dockerfile", `CMD npx -y ${old} serve`],
    ["another program", "a.ts", `say("pnpm dlx ${old} serve");`],
    ["an unpublished package", "a.md", `npm install ${ours} chromadb`],
    ["an unpublished package of the scope", "a.md", `npm install pg @${ours}/import`],
    ["an unpublished package that npx fetches", "a.md", `npx -y @${ours}/mcp`],
  ])("wrong: %s", (_name, path, text) => {
    expect(check({ [path]: `\n${text}\n` })).toEqual([expect.stringMatching(`^${path}:2: `)]);
  });

  test.each([
    ["tarballs", `npm install ./packed/*.tgz ./packed/${ours}-client-0.1.0.tgz chromadb`],
    ["the installed command", `npx ${ours} serve && npx ${old}-mcp --help; npx -p ${ours} ${old} serve`],
    ["a script and a folder", `npm run ${old} -- --help; npm install --prefix /opt/${old} x.tgz`],
    [
      "the name of the project",
      `npm install, which ${ours} needs\nnpx\n${old} serve, "${old}": "./dist/main.js"`,
    ],
  ])("right: %s", (_name, text) => {
    expect(check({ "a.txt": text })).toEqual([]);
  });
});

describe("links", () => {
  const guide = "# Guide\n\n## How it `works`, again\n\n## Twice\n\n## Twice\n";

  test.each([
    ["a file", "[g](docs/guide.md)"],
    ["a folder", "[g](docs/)"],
    ["a heading", "[g](docs/guide.md#how-it-works-again)"],
    ["the second of two equal headings", "[g](docs/guide.md#twice-1)"],
    ["a heading of its own", "# Here\n\n[g](#here)"],
    ["a file from the top", "[g](/docs/guide.md)"],
    ["an address", "[g](https://example.org/x) <mailto:a@example.org>"],
    ["an image in HTML", '<p><img src="docs/guide.md"></p>'],
    ["an id in HTML", '<a id="spot"></a>\n\n[g](#spot)'],
    ["code is not a link", "`[g](nowhere.md)`"],
  ])("%s", (_name, readme) => {
    expect(check({ "README.md": readme, "docs/guide.md": guide })).toEqual([]);
  });

  test.each([
    ["a missing file", "[g](docs/none.md)", "docs/none.md is not a file"],
    ["a missing image", "![g](docs/none.png)", "docs/none.png is not a file"],
    ["a missing heading", "[g](docs/guide.md#none)", "docs/guide.md has no heading #none"],
    ["a missing heading of its own", "[g](#none)", "README.md has no heading #none"],
    ["by reference", "[g][ref]\n\n[ref]: none.md", "none.md is not a file"],
    ["in a table", "| a |\n|---|\n| [g](none.md) |", "none.md is not a file"],
    ["in HTML", '<p><a href="none.md">g</a></p>', "none.md is not a file"],
    ["another case", "[g](docs/Guide.md)", "docs/Guide.md is not a file"],
    ["outside the project", "[g](../other.md)", "../other.md is not a file"],
  ])("dead: %s", (_name, readme, fault) => {
    const errors = check({ "README.md": readme, "docs/guide.md": guide });
    expect(errors).toHaveLength(1);
    expect(errors[0]).toMatch(/^README\.md:\d+: link "/);
    expect(errors[0]).toContain(fault);
  });

  test("a link is relative to its document, and the error names its line", () => {
    const errors = check({ "docs/guide.md": "# G\n\n[a](guide.md) [b](docs/guide.md)\n" });
    expect(errors).toEqual([
      'docs/guide.md:3: link "docs/guide.md": docs/docs/guide.md is not a file of the project',
    ]);
  });
});

describe("names of code", () => {
  const code = "export class Store {\n  async *read() {}\n  #close() {}\n}\nexport const limits = {};\n";

  test.each(["`Store`", "`Store.read`", "`Store.#close`", "`limits`", "none"])(
    "%s leads to its file",
    (text) => {
      expect(check({ "README.md": `[${text}](src/a.ts)`, "src/a.ts": code })).toEqual([]);
    },
  );

  test.each([
    ["a name that is gone", "[`none`](src/a.ts)", "none does not occur in the file"],
    ["a method that is gone", "[`Store.write`](src/a.ts)", "write does not occur in the file"],
    ["a missing file", "[`Store`](src/b.ts)", "src/b.ts is not a file"],
  ])("dead: %s", (_name, readme, fault) => {
    expect(check({ "README.md": readme, "src/a.ts": code })).toEqual([expect.stringContaining(fault)]);
  });
});

describe("rules", () => {
  const spec = "# Spec\n\n- **[X1]** One.\n- **[X2]** Two, unlike [X9] in the text.\n";
  const cites = (...titles: string[]) =>
    titles.map((title) => `test(${JSON.stringify(title)}, () => {});\n`).join("");

  test("each cited once or more", () => {
    const body = `${cites("[X1] one", "[X1] one again")}describe(\`[X2] \${a}\`, () => {});`;
    expect(check({ "SPEC.md": spec, "tests/a.test.ts": body })).toEqual([]);
  });

  test("test.each and a shared suite cite too", () => {
    const suite = 'export const suite = () => { test.each([1])("[X2] %i", () => {}); };';
    const files = { "SPEC.md": spec, "a/a.test.ts": cites("[X1]"), "a/testing/suite.ts": suite };
    expect(check(files)).toEqual([]);
  });

  test("an uncited rule", () => {
    const errors = check({ "SPEC.md": spec, "a.test.ts": cites("[X1] one") });
    expect(errors).toEqual(["SPEC.md:4: rule [X2] is cited by no test title"]);
  });

  test("a skipped test, a comment and a source file cite nothing", () => {
    const body = `${cites("[X1]")}test.skip("[X2]", () => {});\n// test("[X2]")\n`;
    const errors = check({ "SPEC.md": spec, "a.test.ts": body, "b.ts": cites("[X2]") });
    expect(errors).toEqual(["SPEC.md:4: rule [X2] is cited by no test title"]);
  });

  test("a citation of no rule", () => {
    const errors = check({ "SPEC.md": spec, "a.test.ts": cites("[X1]", "[X2]", "[X3] three") });
    expect(errors).toEqual(["a.test.ts:3: the test title cites [X3], which is no rule of SPEC.md"]);
  });

  test("a citation without any SPEC.md", () => {
    expect(check({ "a.test.ts": cites("[X1]") })).toHaveLength(1);
    expect(check({ "a.test.ts": cites("no rule") })).toEqual([]);
  });

  test("an id twice", () => {
    const errors = check({ "SPEC.md": `${spec}- **[X1]** Again.\n`, "a.test.ts": cites("[X1] [X2]") });
    expect(errors).toEqual(["SPEC.md:5: rule [X1] has its id from line 3; ids are unique"]);
  });
});
