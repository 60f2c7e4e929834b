// Do the examples in the documents compile and run?
//
// Sources are the ```ts blocks of README.md, docs/**/*.md and packages/*/README.md, and those in the doc comments of
// the packages that programs import (`importable`). Each block is a program of its own, with two flags after `ts`:
//
//   ```ts no-run      compiled, not run (a fragment, or something that does not end)
//   ```ts continues   one program with the block before it in the same document
//
// Every program is written to .cache/doc-examples with empty lines before each block, so that line n of the program is
// line n of its document and every message of the compiler or of Node.js points at the document. A program that runs
// gets a new server on an empty directory, its address in QUIVER_URL, its key in QUIVER_API_KEY, and that directory's
// parent as its working directory.

import type { ChildProcess } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { parseSync } from "rolldown/utils";
import { type Ending, endOf, startNode } from "./children.ts";
import { type CodeBlock, type Placed, readMarkdown } from "./markdown.ts";
import { isTestFile, projectFiles } from "./project-files.ts";

const concurrentPrograms = 2;
const serverStartMaxMs = 30_000;
const serverStopMaxMs = 15_000;
const programMaxMs = 120_000;

export type Example = { path: string; line: number; runs: boolean; text: string };

export type ExamplesReport = { errors: string[]; notes: string[]; compiled: number; run: number };

/** Sources of the packages that programs import. */
const importable = /^packages\/(client|database|import|langchain|llamaindex|mcp)\/src\/[^/]+\.ts$/;

const SERVER = join("packages", "cli", "src", "main.ts");

/** Compiles all examples and runs those without `no-run`; errors refer to the lines of the documents. */
export async function checkExamples(root: string): Promise<ExamplesReport> {
  const examples = examplesIn(root);
  const report: ExamplesReport = { errors: [], notes: [], compiled: examples.length, run: 0 };
  if (examples.length === 0) {
    if (existsSync(join(root, "packages", "client", "src", "client.ts"))) {
      report.errors.push(
        "there is a client but no example: README.md, docs/ and the client's comments have no ```ts",
      );
    }
    return report;
  }
  const programs = writePrograms(root, examples);
  report.errors.push(...(await compile(root, programs)));
  if (report.errors.length > 0) return report;
  const runnable = programs.filter(({ example }) => example.runs);
  if (!existsSync(join(root, SERVER))) {
    report.notes.push(`${runnable.length} examples were compiled but not run: ${SERVER} does not exist`);
    return report;
  }
  report.run = runnable.length;
  const queue = runnable.values();
  const worker = async () => {
    for (const program of queue) report.errors.push(...(await runWithServer(root, program)));
  };
  await Promise.all(Array.from({ length: concurrentPrograms }, worker));
  return report;
}

/** All examples of the project, in the order of documents and lines. */
export function examplesIn(root: string): Example[] {
  return projectFiles(root).flatMap((path) => {
    const read = () => readFileSync(join(root, path), "utf8");
    if (/^(README\.md|docs\/.*\.md|packages\/[^/]+\/README\.md)$/.test(path)) {
      return joinBlocks(path, readMarkdown(read()).code);
    }
    const isImportable = importable.test(path) && !isTestFile(path);
    return isImportable ? joinBlocks(path, blocksInComments(path, read())) : [];
  });
}

/** The code blocks in the doc comments of a TypeScript file. */
function blocksInComments(path: string, source: string): Placed<CodeBlock>[] {
  return parseSync(path, source)
    .comments.filter(({ type, value }) => type === "Block" && value.startsWith("*"))
    .flatMap(({ value, start }) => {
      const markdown = value.slice(1).replaceAll(/^[ \t]*\* ?/gm, "");
      const linesBefore = source.slice(0, start).split("\n").length - 1;
      return readMarkdown(markdown).code.map((block) => ({ ...block, line: block.line + linesBefore }));
    });
}

function joinBlocks(path: string, blocks: readonly Placed<CodeBlock>[]): Example[] {
  const examples: Example[] = [];
  for (const { language, flags, text, line } of blocks) {
    if (language !== "ts") continue;
    const previous = examples.at(-1);
    const continues = flags.includes("continues") && previous !== undefined;
    const example = continues ? previous : { path, line, runs: !flags.includes("no-run"), text: "" };
    // The text begins on the line after the fence.
    example.text += "\n".repeat(line - lineBreaks(example.text)) + text;
    if (!continues) examples.push(example);
  }
  return examples;
}

const lineBreaks = (text: string): number => text.split("\n").length - 1;

type Program = { example: Example; name: string; file: string };

const programsDir = (root: string): string => join(root, ".cache", "doc-examples");

function writePrograms(root: string, examples: readonly Example[]): Program[] {
  const folder = programsDir(root);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  return examples.map((example) => {
    const name = `${example.path.replaceAll("/", "__")}.${example.line}.ts`;
    const file = join(folder, name);
    writeFileSync(file, `${example.text}\n`);
    return { example, name, file };
  });
}

/** Replaces names and lines of programs in a message by those of the documents. */
function inTermsOfDocuments(message: string, programs: readonly Program[]): string {
  return programs.reduce(
    (text, { example, name, file }) =>
      text
        .replaceAll(`file://${file}`, example.path)
        .replaceAll(file, example.path)
        .replaceAll(name, example.path),
    message,
  );
}

async function compile(root: string, programs: readonly Program[]): Promise<string[]> {
  const folder = programsDir(root);
  // An example may define a value without using it.
  const compilerOptions = { noUnusedLocals: false, noUnusedParameters: false };
  const config = { extends: "../../tsconfig.json", compilerOptions, include: ["*.ts"], exclude: [] };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(config));
  const tsc = join(root, "node_modules", "typescript", "bin", "tsc");
  const { code, output } = await endOf(startNode([tsc, "-p", folder, "--pretty", "false"], { cwd: folder }));
  if (code === 0) return [];
  return inTermsOfDocuments(output, programs)
    .split("\n")
    .filter((line) => line.trim() !== "");
}

async function runWithServer(root: string, program: Program): Promise<string[]> {
  const { path, line } = program.example;
  const folder = mkdtempSync(join(tmpdir(), "quiver-example-"));
  try {
    const key = randomBytes(16).toString("hex");
    const args = ["serve", "--port", "0", "--data-dir", join(folder, "data"), "--admin-key", key];
    const server = startNode([join(root, SERVER), ...args], { cwd: folder });
    const ended = endOf(server);
    try {
      const url = await addressOf(server);
      if (url === undefined) {
        server.kill("SIGKILL");
        return [`${path}:${line}: the server did not start:\n${(await ended).output}`];
      }
      const env = { ...process.env, QUIVER_URL: url, QUIVER_API_KEY: key };
      const options = { cwd: folder, env, timeout: programMaxMs };
      const result = await endOf(startNode([program.file], options));
      if (result.code === 0) return [];
      const how = result.signal === null ? `exit code ${result.code}` : `signal ${result.signal}`;
      return [
        `${path}:${line}: the example failed (${how}):\n${inTermsOfDocuments(result.output, [program])}`,
      ];
    } finally {
      await stop(server, ended);
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The address that the server prints when it listens; undefined if it exits or prints nothing in time. */
async function addressOf(server: ChildProcess): Promise<string | undefined> {
  const lines = [server.stdout, server.stderr].map((stream) =>
    createInterface({ input: stream as NodeJS.ReadableStream }),
  );
  return await new Promise((done) => {
    const giveUp = setTimeout(() => done(undefined), serverStartMaxMs);
    const settle = (address: string | undefined) => {
      clearTimeout(giveUp);
      done(address);
    };
    server.once("close", () => settle(undefined));
    for (const reader of lines) {
      reader.on("line", (line) => {
        const address = /http:\/\/127\.0\.0\.1:\d+/.exec(line)?.[0];
        if (address !== undefined) settle(address);
      });
    }
  });
}

async function stop(server: ChildProcess, ended: Promise<Ending>): Promise<void> {
  const kill = setTimeout(() => server.kill("SIGKILL"), serverStopMaxMs);
  server.kill("SIGTERM");
  await ended;
  clearTimeout(kill);
}
