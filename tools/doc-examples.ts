// Do the examples in the documents compile and run?
//
// Sources are the code blocks of README.md, docs/**/*.md, packages/*/README.md and the front page of the site, and the ```ts blocks in the
// doc comments of the packages that programs import (`importable`). Each block is a program of its own, with flags after its language:
//
//   ```ts, ```python           compiled and run
//   ```ts no-run               compiled, not run (a fragment, or something that does not end)
//   ```ts continues            one program with the block before it in the same document; also of the other languages
//   ```sh run                  run by bash, where `quiver` and `npm run quiver --` are the command line
//   ```sh                      only read: most commands are about the reader's machine (doc-commands.ts)
//   ```json                    parsed
//
// Blocks of other languages (text, nginx) are not checked.
//
// Every program is written to .cache/doc-examples with empty lines before each block, so that line n of the program is
// line n of its document and every message of the compiler or of Node.js points at the document. A program that runs
// gets a new server on an empty directory, its address in QUIVER_URL, its key in QUIVER_API_KEY and quiver-data/admin-key, and that
// directory's parent as its working directory. In a shell program the server's usual address stands for that of the new one.

import { type ChildProcess, type SpawnOptions, spawn, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { parseSync } from "rolldown/utils";
import { type Ending, endOf, startNode } from "./children.ts";
import { commandFaults } from "./doc-commands.ts";
import { type CodeBlock, type Placed, readMarkdown } from "./markdown.ts";
import { isTestFile, projectFiles } from "./project-files.ts";

const concurrentPrograms = 2;
const serverStartMaxMs = 30_000;
const serverStopMaxMs = 15_000;
const programMaxMs = 120_000;

const languages = ["ts", "python", "sh", "json"] as const;
type Language = (typeof languages)[number];

export type Example = { path: string; line: number; language: Language; runs: boolean; text: string };

export type ExamplesReport = { errors: string[]; notes: string[]; compiled: number; run: number };

/** Sources of the packages that programs import. */
const importable = /^packages\/(client|database|import|langchain|llamaindex|mcp)\/src\/[^/]+\.ts$/;

/** The address of a server in the documents, which is the one that it has without `--port`. */
const usualAddress = "http://127.0.0.1:8443";

const SERVER = join("packages", "cli", "dist", "main.js");

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
  const missing = languages.filter((language) => !isInstalled(language));
  for (const language of missing) {
    const count = programs.filter(({ example }) => example.language === language).length;
    if (count > 0)
      report.notes.push(`${count} examples were not checked: there is no ${readers[language][0]}`);
  }
  const checkable = programs.filter(({ example }) => !missing.includes(example.language));
  report.errors.push(...(await compile(root, programs)), ...(await readOthers(checkable)));
  if (report.errors.length > 0) return report;
  const runnable = checkable.filter(({ example }) => example.runs);
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
    if (/^(README\.md|docs\/.*\.md|packages\/[^/]+\/README\.md|tools\/site\/home\.md)$/.test(path)) {
      return joinBlocks(path, readMarkdown(read()).code);
    }
    const isImportable = importable.test(path) && !isTestFile(path);
    const ofComments = () => blocksInComments(path, read()).filter(({ language }) => language === "ts");
    return isImportable ? joinBlocks(path, ofComments()) : [];
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
  for (const { language: written, flags, text, line } of blocks) {
    const language = languages.find((each) => each === written);
    if (language === undefined) continue;
    const previous = examples.findLast((each) => each.language === language);
    const continues = flags.includes("continues") && previous !== undefined;
    const runs = language === "sh" ? flags.includes("run") : language !== "json" && !flags.includes("no-run");
    const example = continues ? previous : { path, line, language, runs, text: "" };
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
    const name = `${example.path.replaceAll("/", "__")}.${example.line}.${example.language}`;
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
  // Without a file the compiler would fail.
  if (!programs.some(({ example }) => example.language === "ts")) return [];
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

/** What checks a program of a language without running it: a command, its arguments before the file. */
const readers: Readonly<Record<Language, readonly string[]>> = {
  ts: ["node"],
  json: ["node"],
  python: ["python3", "-c", "import ast, sys; ast.parse(open(sys.argv[1]).read(), sys.argv[1])"],
  sh: ["bash", "-n"],
};

const isInstalled = (language: Language): boolean =>
  readers[language][0] === "node" || spawnSync(readers[language][0], ["--version"]).error === undefined;

/** What is wrong with the programs that are not TypeScript, before any of them runs. */
async function readOthers(programs: readonly Program[]): Promise<string[]> {
  const errors = programs.map(async ({ example, file, name }) => {
    const { language, path, line, text } = example;
    if (language === "ts") return [];
    if (language === "json") return jsonFault(example);
    const [command, ...args] = readers[language];
    const { code, output } = await endOf(spawn(command, [...args, file], { stdio: "pipe" }));
    if (code === 0 && language === "sh" && !example.runs) {
      const faults = await commandFaults(text);
      return faults.map((fault) => `${path}:${line}: ${fault}`);
    }
    if (code === 0) return [];
    return [`${path}:${line}: ${inTermsOfDocuments(output.trim(), [{ example, file, name }])}`, text.trim()];
  });
  return (await Promise.all(errors)).flat();
}

function jsonFault({ path, line, text }: Example): string[] {
  try {
    JSON.parse(text);
    return [];
  } catch (error) {
    return [`${path}:${line}: ${(error as Error).message}`];
  }
}

/** Starts a program that does not need to be compiled first. @param url of its server */
function start(root: string, { example, file }: Program, url: string, options: SpawnOptions): ChildProcess {
  if (example.language === "ts") return startNode([file], options);
  if (example.language === "python") return spawn("python3", [file], options);
  writeFileSync(file, `${shellStart(root)}${example.text.replaceAll(usualAddress, url)}\n`);
  return spawn("bash", [file], options);
}

/** Defines the command line under both of its names, in the empty first line, so that the others stay those of the document. */
const shellStart = (root: string): string =>
  [
    "set -euo pipefail",
    `quiver() { '${process.execPath}' '${join(root, SERVER)}' "$@"; }`,
    'npm() { while [ "$1" != -- ]; do shift; done; shift; quiver "$@"; }',
  ].join("; ");

/** Whether a program has done what it shows: curl ends well with an error of the server, too. */
const isRefused = (language: Language, output: string): boolean =>
  language === "sh" && output.includes('{"error":{');

async function runWithServer(root: string, program: Program): Promise<string[]> {
  const { path, line, language } = program.example;
  const folder = mkdtempSync(join(tmpdir(), "quiver-example-"));
  try {
    const key = randomBytes(16).toString("hex");
    const args = ["serve", "--port", "0", "--data-dir", join(folder, "server"), "--admin-key", key];
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
      mkdirSync(join(folder, "quiver-data"));
      writeFileSync(join(folder, "quiver-data", "admin-key"), key);
      const result = await endOf(start(root, program, url, options));
      if (result.code === 0 && !isRefused(language, result.output)) return [];
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
