import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { afterEach, expect, test } from "vitest";
import { checkExamples, examplesIn } from "./doc-examples.ts";

const project = resolve(import.meta.dirname, "..");
const roots: string[] = [];

afterEach(() => {
  for (const root of roots.splice(0)) rmSync(root, { recursive: true });
});

/** A project with these files, the compiler settings of ours and our node_modules. */
function fixture(files: Record<string, string>): string {
  const root = mkdtempSync(join(tmpdir(), "quiver-examples-"));
  roots.push(root);
  cpSync(join(project, "tsconfig.json"), join(root, "tsconfig.json"));
  symlinkSync(join(project, "node_modules"), join(root, "node_modules"));
  for (const [path, text] of Object.entries({ "package.json": '{ "type": "module" }', ...files })) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  return root;
}

const block = (text: string, flags = "", language = "ts"): string =>
  `\`\`\`${language}${flags}\n${text}\n\`\`\`\n`;

/** A minimal substitute for `main.ts serve` in examples. */
const server = `import { createServer } from "node:http";
const key = process.argv[process.argv.indexOf("--admin-key") + 1];
const server = createServer((_request, reply) => reply.end(key));
server.listen(0, "127.0.0.1", () => console.log("listening on http://127.0.0.1:" + server.address().port));
process.on("SIGTERM", () => server.close());
`;

test("examples are the blocks of the documents, and the ts blocks of the client's doc comments", () => {
  const root = fixture({
    "README.md": `# A\n\n${block("1;")}\n\`\`\`sh\nls\n\`\`\`\n`,
    "docs/deep/b.md": block("2;", " no-run"),
    "docs/c.txt": block("no"),
    "CONTRIBUTING.md": block("no"),
    "packages/engine/README.md": block("3;"),
    "packages/client/src/a.ts": `const x = 1;\n/**\n * Does.\n * @example\n * \`\`\`ts\n * 4;\n *   5;\n * \`\`\`\n * \`\`\`sh\n * ls\n * \`\`\`\n */\nexport const y = x;\n/* ${block("no")} */`,
  });
  const found = examplesIn(root).map(({ path, line, runs, text }) => ({
    path,
    line,
    runs,
    text: text.trimStart(),
  }));
  expect(found).toEqual([
    { path: "README.md", line: 3, runs: true, text: "1;" },
    { path: "README.md", line: 7, runs: false, text: "ls" },
    { path: "docs/deep/b.md", line: 1, runs: false, text: "2;" },
    { path: "packages/client/src/a.ts", line: 5, runs: true, text: "4;\n  5;" },
    { path: "packages/engine/README.md", line: 1, runs: true, text: "3;" },
  ]);
});

test("line n of a program is line n of its document, also in blocks that continue", () => {
  const readme = `# A\n\n${block("const a = 1;")}\nand then\n\n${block("console.log(a);", " continues")}`;
  const [example, ...others] = examplesIn(fixture({ "README.md": readme }));
  expect(others).toEqual([]);
  const lines = readme.split("\n");
  const kept = lines.map((line) => (line.includes("a =") || line.includes("log") ? line : ""));
  expect(example.text.trimEnd().split("\n")).toEqual(kept.slice(0, kept.indexOf("console.log(a);") + 1));
});

test("a type error is reported at its place in the document, and nothing runs", async () => {
  const root = fixture({
    "README.md": `# A\n\n${block('const a: number = "x";', " no-run")}`,
    "packages/cli/dist/main.js": server,
  });
  const { errors, run } = await checkExamples(root);
  expect(errors[0]).toMatch(/^README\.md\(4,7\): error TS2322/);
  expect(run).toBe(0);
});

test("without a server the examples are only compiled, and the report says so", async () => {
  const { errors, notes, compiled } = await checkExamples(
    fixture({ "README.md": block("throw new Error();") }),
  );
  expect({ errors, compiled }).toEqual({ errors: [], compiled: 1 });
  expect(notes[0]).toMatch("not run");
});

test("a client without any example is an error", async () => {
  expect((await checkExamples(fixture({ "packages/client/src/client.ts": "" }))).errors).toHaveLength(1);
  expect((await checkExamples(fixture({}))).errors).toEqual([]);
});

test("each example runs against its own server; a failure names the document", async () => {
  const fetchKey = "const key = await (await fetch(process.env.QUIVER_URL!)).text();";
  const root = fixture({
    "README.md": `${block(`${fetchKey}\nif (key !== process.env.QUIVER_API_KEY) throw new Error("no key");`)}\n${block('throw new Error("left");', " no-run")}`,
    "docs/bad.md": `\n\n${block('throw new Error("boom");')}`,
    "packages/cli/dist/main.js": server,
  });
  const { errors, compiled, run } = await checkExamples(root);
  expect({ compiled, run }).toEqual({ compiled: 3, run: 2 });
  expect(errors).toHaveLength(1);
  expect(errors[0]).toMatch("docs/bad.md:3: the example failed (exit code 1)");
  expect(errors[0]).toMatch("docs/bad.md:4");
});

test("a server that does not start is reported with its output", async () => {
  const root = fixture({
    "README.md": block("1;"),
    "packages/cli/dist/main.js": 'console.error("no room"); process.exit(1);',
  });
  const { errors } = await checkExamples(root);
  expect(errors[0]).toMatch(/README\.md:1: the server did not start:\nno room/);
});

/** As the server above, and a command line whose command `get` prints an error as curl does. */
const commandLine = `if (process.argv[2] === "serve") {\n${server.replace('import { createServer } from "node:http";', 'const { createServer } = await import("node:http");')}\n}
else if (process.argv[2] === "get") console.log('{"error":{"code":"vector_not_found"}}');
else console.log(process.argv.slice(2).join(" "));
`;

test("commands that are marked run by bash, with the command line under both of its names and the example's server", async () => {
  const address = 'test "$(curl -sS http://127.0.0.1:8443)" = "$(cat quiver-data/admin-key)"';
  const root = fixture({
    "docs/good.md": block(
      `test "$(quiver a 1)" = "a 1"\ntest "$(npm run -s quiver -- b 2)" = "b 2"\n${address}`,
      " run",
      "sh",
    ),
    "docs/fails.md": block("quiver a\nfalse\necho after", " run", "sh"),
    "docs/refused.md": block("quiver get x", " run", "sh"),
    "docs/unread.md": block("exit 1", "", "sh"),
    "packages/cli/dist/main.js": commandLine,
  });
  const { errors, run } = await checkExamples(root);
  expect(run).toBe(3);
  expect(errors.map((error) => error.split(": ")[0]).sort()).toEqual([
    "docs/fails.md:1",
    "docs/refused.md:1",
  ]);
});

test("what is no bash, no Python or no JSON is told at its place, and nothing runs", async () => {
  const root = fixture({
    "docs/a.md": `\n${block("if then", "", "sh")}`,
    "docs/b.md": block("def (:", " no-run", "python"),
    "docs/c.md": block("{ a: 1 }", "", "json"),
    "docs/d.md": block("anything {", "", "text"),
    "packages/cli/dist/main.js": server,
  });
  const { errors, run, compiled } = await checkExamples(root);
  const places = errors.map((error) => /^docs\/\w+\.md:\d+/.exec(error)?.[0]);
  expect([run, compiled]).toEqual([0, 3]);
  expect(places.filter((place) => place !== undefined)).toEqual([
    "docs/a.md:2",
    "docs/b.md:1",
    "docs/c.md:1",
  ]);
});

test.skipIf(spawnSync("python3", ["--version"]).error !== undefined)(
  "Python examples run against a server of their own",
  async () => {
    const fetchKey = [
      "import os, urllib.request",
      "key = urllib.request.urlopen(os.environ['QUIVER_URL']).read().decode()",
      "assert key == os.environ['QUIVER_API_KEY']",
    ].join("\n");
    const root = fixture({
      "docs/good.md": block(fetchKey, "", "python"),
      "docs/bad.md": block("assert False, 'boom'", "", "python"),
      "packages/cli/dist/main.js": server,
    });
    const { errors, run } = await checkExamples(root);
    expect(run).toBe(2);
    expect(errors).toHaveLength(1);
    expect(errors[0]).toMatch(/^docs\/bad\.md:1: the example failed/);
    expect(errors[0]).toMatch("boom");
  },
);
