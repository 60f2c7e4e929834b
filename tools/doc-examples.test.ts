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

const block = (text: string, flags = ""): string => `\`\`\`ts${flags}\n${text}\n\`\`\`\n`;

/** A minimal substitute for `main.ts serve` in examples. */
const server = `import { createServer } from "node:http";
const key = process.argv[process.argv.indexOf("--admin-key") + 1];
const server = createServer((_request, reply) => reply.end(key));
server.listen(0, "127.0.0.1", () => console.log("listening on http://127.0.0.1:" + (server.address() as any).port));
process.on("SIGTERM", () => server.close());
`;

test("examples are the ts blocks of the documents and of the client's doc comments", () => {
  const root = fixture({
    "README.md": `# A\n\n${block("1;")}\n\`\`\`sh\nls\n\`\`\`\n`,
    "docs/deep/b.md": block("2;", " no-run"),
    "docs/c.txt": block("no"),
    "CONTRIBUTING.md": block("no"),
    "packages/engine/README.md": block("3;"),
    "packages/client/src/a.ts": `const x = 1;\n/**\n * Does.\n * @example\n * \`\`\`ts\n * 4;\n *   5;\n * \`\`\`\n */\nexport const y = x;\n/* ${block("no")} */`,
  });
  const found = examplesIn(root).map(({ path, line, runs, text }) => ({
    path,
    line,
    runs,
    text: text.trimStart(),
  }));
  expect(found).toEqual([
    { path: "README.md", line: 3, runs: true, text: "1;" },
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
    "packages/cli/src/main.ts": server,
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
    "packages/cli/src/main.ts": server,
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
    "packages/cli/src/main.ts": 'console.error("no room"); process.exit(1);',
  });
  const { errors } = await checkExamples(root);
  expect(errors[0]).toMatch(/README\.md:1: the server did not start:\nno room/);
});
