// Can anybody install the packages and use them?
//
// The tarballs are installed into an empty project, without running any script of a package. There, programs run on this Node.js, and on Bun
// and Deno where the machine has them; typed programs compile with older compilers; bundlers make a page of the client, which a browser runs;
// and linters read the packages. The machine's own Node.js, which may be older, gets a project of its own, as those have who use a server.

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { basename, delimiter, dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { text as textOf } from "node:stream/consumers";
import { promisify } from "node:util";
import { checkPackage, createPackageFromTarballData } from "@arethetypeswrong/core";
import { build as bundle } from "esbuild";
import { publint } from "publint";
import { formatMessage } from "publint/utils";
import { build as viteBuild } from "vite";
import { compileTools } from "../compile-tools.ts";
import { readMarkdown } from "../markdown.ts";
import { pack, staged } from "./build.ts";
import { folders } from "./places.ts";

const run = promisify(execFile);
const root = join(import.meta.dirname, "../..");
const consumers = join(import.meta.dirname, "consumers");
/** What `consumers/steps.mjs` finds, everywhere. */
const expected = "dune, solaris, dune, dune+emma+solaris, QuiverError vector_not_found 404";
/** What a program finds that runs them once more in a thread, or in a worker of its page. */
const expectedTwice = `${expected}; ${expected}`;
/** What `consumers/integrations.mjs` finds. */
const integrated = "langchain bee, llamaindex whale, embeddings bee, import 1, mcp 5 tools whale";
/** What `consumers/commands.mjs` finds. */
const commanded = "dune+solaris, 2 of them: A thinking planet, 1 left, 3 restored, 1 key, 4 refused";
/** What are-the-types-wrong says of every package without CommonJS. */
const esmOnly = new Set(["CJSResolvesToESM", "NoResolution"]);

type Report = { readonly errors: string[]; readonly notes: string[] };

/** Everything; `errors` is empty if it works. */
export async function checkPackages(): Promise<Report> {
  const report: Report = { errors: [], notes: [] };
  const folder = mkdtempSync(join(tmpdir(), "quiver-packages-"));
  try {
    report.errors.push(...(await compileTools(import.meta.dirname)));
    const tarballs = await pack(join(folder, "packed"));
    await lint(tarballs, report);
    await publishAll(report);
    const project = join(folder, "project");
    await install(project, tarballs);
    await compile(project, report);
    const older = await installOlder(join(folder, "older"), tarballs, report);
    await embed(project, older, report);
    await integrate(project, report);
    await serve(project, older, report);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  return report;
}

async function lint(tarballs: readonly string[], { errors }: Report): Promise<void> {
  for (const file of tarballs) {
    const bytes = readFileSync(file);
    const tarball = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length) as ArrayBuffer;
    const { messages, pkg } = await publint({ pack: { tarball }, strict: true });
    errors.push(...messages.map((message) => `publint, ${basename(file)}: ${formatMessage(message, pkg)}`));
    const result = await checkPackage(createPackageFromTarballData(new Uint8Array(tarball)));
    if (result.types === false) {
      // The command has no types and cannot be imported.
      if (pkg.exports !== undefined) errors.push(`${basename(file)} has no types`);
      continue;
    }
    for (const problem of result.problems) {
      const resolution = "resolutionKind" in problem ? problem.resolutionKind : "";
      // Only projects of before 2022 resolve packages without their exports maps.
      if (resolution === "node10" || (resolution === "node16-cjs" && esmOnly.has(problem.kind))) continue;
      errors.push(`are-the-types-wrong, ${basename(file)}: ${JSON.stringify(problem)}`);
    }
  }
}

/** npm publishes all, except that it sends nothing, and has nothing to correct in a package.json. */
async function publishAll({ errors }: Report): Promise<void> {
  const { code, output } = await outputOf("npm", ["publish", "--workspaces", "--dry-run"], staged);
  if (code !== 0 || output.includes("auto-corrected")) errors.push(`npm publish: ${output}`);
}

const npmOptions = ["--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts"];

async function install(project: string, tarballs: readonly string[]): Promise<void> {
  makeProject(project, { type: "module" });
  await run("npm", ["install", ...npmOptions, "--loglevel=error", ...tarballs, ...frameworks()], {
    cwd: project,
  });
}

function makeProject(project: string, manifest: object): void {
  mkdirSync(project);
  writeFileSync(join(project, "package.json"), JSON.stringify({ name: "empty", private: true, ...manifest }));
  for (const name of readdirSync(consumers)) copyFileSync(join(consumers, name), join(project, name));
}

/** A Node.js that is older than the engine needs, and a project whose packages it has installed. */
type Older = { readonly node: string; readonly project: string };

/**
 * Installs with the machine's own Node.js what needs only a server. npm must find nothing to warn of.
 * @returns undefined if the machine has no other Node.js than the one that runs the tests
 */
async function installOlder(
  project: string,
  tarballs: readonly string[],
  { errors, notes }: Report,
): Promise<Older | undefined> {
  const node = process.env.QUIVER_HOST_NODE;
  if (node === undefined || node === process.execPath) {
    notes.push(
      "not tried with Node.js 20: this machine has no other Node.js than the one that runs the tests",
    );
    return undefined;
  }
  const engine = "@quiverdb/database";
  const isEngine = (tarball: string) => basename(tarball).startsWith("quiverdb-database-");
  // The package that the others name as an optional dependency, as if it were in the registry.
  const overrides = { [engine]: `file:${tarballs.find(isEngine)}` };
  makeProject(project, { type: "module", overrides });
  const clients = tarballs.filter((tarball) => !isEngine(tarball));
  const args = ["install", ...npmOptions, "--loglevel=warn", ...clients, ...frameworks()];
  const PATH = `${dirname(node)}:${process.env.PATH}`;
  const { stderr } = await run("npm", args, { cwd: project, env: { ...process.env, PATH } });
  if (stderr.includes("EBADENGINE")) errors.push(`npm with ${node}, without ${engine}: ${stderr}`);
  if (existsSync(join(project, "node_modules", engine)))
    errors.push(`npm with ${node} has installed ${engine}`);
  return { node, project };
}

/** The frameworks in the versions that the integrations are tested with. */
function frameworks(): string[] {
  return Object.values(folders).flatMap((folder) => {
    const manifest = readFileSync(join(root, "packages", folder, "package.json"), "utf8");
    const { devDependencies = {} } = JSON.parse(manifest) as { devDependencies?: Record<string, string> };
    return Object.entries(devDependencies).map(([name, version]) => `${name}@${version}`);
  });
}

/** Every flag of the compilers that can find an error in declarations, or in the program that uses them. */
const strictest = [
  "exactOptionalPropertyTypes",
  "noUncheckedIndexedAccess",
  "noPropertyAccessFromIndexSignature",
  "noImplicitOverride",
  "noImplicitReturns",
  "noFallthroughCasesInSwitch",
  "noUnusedLocals",
  "noUnusedParameters",
  "noUncheckedSideEffectImports",
  "verbatimModuleSyntax",
  "isolatedModules",
  "declaration",
  "isolatedDeclarations",
  "erasableSyntaxOnly",
].map((flag) => `--${flag}`);
const refused = ["--allowUnreachableCode", "false", "--allowUnusedLabels", "false"];

async function compile(project: string, { errors }: Report): Promise<void> {
  const compilers = {
    5: "tools/pack/node_modules/typescript-5",
    6: "tools/pack/node_modules/typescript-6",
    7: "node_modules/typescript",
  };
  // What is found by one resolution is found by the other: each has other flags.
  const resolutions = {
    nodenext: ["--module", "nodenext", ...strictest, ...refused],
    bundler: ["--module", "esnext"],
  };
  const newest = "es2022,dom,dom.iterable,esnext.disposable";
  const programs = {
    "typed.ts": newest,
    "typed-page.ts": "es2022,dom",
    "typed-integrations.ts": newest,
  };
  const compileWith = async (version: string, path: string) => {
    for (const [moduleResolution, flags] of Object.entries(resolutions)) {
      for (const [program, libraries] of Object.entries(programs)) {
        // The older compilers take half a minute for the declarations of the frameworks.
        const isSlow = version !== "7" || moduleResolution !== "nodenext";
        const skipLibCheck = program === "typed-integrations.ts" && isSlow;
        const options = [
          "--noEmit",
          "--strict",
          "--skipLibCheck",
          String(skipLibCheck),
          "--target",
          "es2022",
        ];
        const kind = ["--moduleResolution", moduleResolution, "--lib", libraries, ...flags];
        const args = [join(root, path, "bin", "tsc"), ...options, ...kind, program];
        const { output } = await outputOf(process.execPath, args, project);
        const faults = ownFaults(output);
        if (faults !== "") errors.push(`TypeScript ${version}, ${moduleResolution}, ${program}:\n${faults}`);
      }
    }
  };
  await Promise.all(Object.entries(compilers).map(([version, path]) => compileWith(version, path)));
}

/** What a compiler says, without the errors in declarations of the frameworks: each begins with the path of its file. */
const ownFaults = (output: string): string =>
  output
    .split(/^(?=\S)/m)
    .filter((fault) => !/^node_modules\/(?!@?quiverdb\/)/.test(fault))
    .join("");

async function embed(project: string, older: Older | undefined, { errors }: Report): Promise<void> {
  const embedded = await outputOf(process.execPath, ["embedded.mjs", "data"], project);
  if (embedded.output.trim() !== expected) errors.push(`@quiverdb/database found: ${embedded.output}`);
  // In one file with the program, without the files of its threads.
  const require =
    'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);';
  await bundle({
    entryPoints: [join(project, "embedded.mjs")],
    outfile: join(project, "bundled.mjs"),
    bundle: true,
    platform: "node",
    format: "esm",
    external: ["lmdb"],
    banner: { js: require },
    logLevel: "error",
  });
  const alone = await outputOf(process.execPath, ["bundled.mjs", "bundled"], project);
  if (!/file of a thread is missing.*leave out @quiverdb\/database/.test(alone.output))
    errors.push(`@quiverdb/database in one file: ${alone.output}`);
  if (older === undefined) return;
  const refused = await outputOf(older.node, ["embedded.mjs", "data"], project);
  if (!/@quiverdb\/database needs Node\.js 24 or newer; this is 2\d/.test(refused.output))
    errors.push(`@quiverdb/database, older Node.js: ${refused.output}`);
  const tools = ["node_modules/@quiverdb/mcp/dist/main.js", "--data-dir", "data"];
  const noDirectory = await outputOf(older.node, tools, older.project);
  if (!/^quiver-mcp: --data-dir .* needs Node\.js 24 or newer; this is 2\d/.test(noDirectory.output))
    errors.push(`@quiverdb/mcp --data-dir, older Node.js: ${noDirectory.output}`);
  const command = ["node_modules/quiverdb/dist/main.js", "serve"];
  const noServer = await outputOf(older.node, command, older.project);
  if (!/^quiver: serve .* needs Node\.js 24 or newer; this is 2\d/.test(noServer.output))
    errors.push(`quiver serve, older Node.js: ${noServer.output}`);
}

/** A program uses every integration, on a database in its process; the MCP server is the installed command. */
async function integrate(project: string, { errors }: Report): Promise<void> {
  const { output } = await outputOf(process.execPath, ["integrations.mjs", "integrated"], project);
  if (output.trim() !== integrated) errors.push(`the integrations found: ${output}`);
}

/** The installed command serves; programs and pages are its clients. */
async function serve(project: string, older: Older | undefined, report: Report): Promise<void> {
  const { errors } = report;
  const site = new Site(await bundled(project, errors));
  const origin = await site.listen();
  const key = "the-admin-key-of-the-test";
  const main = "node_modules/quiverdb/dist/main.js";
  const args = ["serve", "--port", "0", "--data-dir", "served", "--admin-key", key, "--cors-origin", origin];
  const server = spawn(process.execPath, [main, ...args], {
    cwd: project,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = once(server, "close");
  try {
    const url = await urlOf(server.stdout);
    for (const { node, project: place } of [{ node: process.execPath, project }, older ?? []].flat()) {
      const found = await outputOf(node, ["integrations.mjs", url, key], place);
      if (found.output.trim() !== integrated) errors.push(`the integrations on ${node}: ${found.output}`);
    }
    if (older !== undefined) {
      const { output } = await outputOf(older.node, ["commands.mjs", url, key], older.project);
      if (output.trim() !== commanded) errors.push(`quiver on ${older.node}: ${output}`);
    }
    for (const [program, ...args] of runtimes(older, report)) {
      const { output } = await outputOf(program, [...args, "client.mjs", url, key], project);
      if (output.trim() !== expectedTwice) errors.push(`@quiverdb/client on ${program}: ${output}`);
    }
    await followReadme(project, { QUIVER_URL: url, QUIVER_API_KEY: key }, report);
    const list = [main, "collections", "list", "--url", url, "--api-key", key, "--json"];
    const listed = await outputOf(process.execPath, list, project);
    if (listed.code !== 0) errors.push(`quiver collections list: ${listed.output}`);
    await findConsole(url, report);
    await browse(site, origin, `url=${encodeURIComponent(url)}&key=${key}`, report);
  } finally {
    server.kill("SIGTERM");
    const [code] = await ended;
    if (code !== 0) errors.push(`quiver serve ended with ${code}`);
    site.close();
  }
}

/** What runs JavaScript outside of a browser, each with its arguments before the program. */
function runtimes(older: Older | undefined, { notes }: Report): string[][] {
  const others = { bun: ["run"], deno: ["run", "--allow-net", "--allow-read"] };
  const folders = (process.env.PATH ?? "").split(delimiter);
  const found = Object.entries(others).flatMap(([name, args]) => {
    const path = folders.map((folder) => join(folder, name)).find((each) => existsSync(each));
    if (path === undefined) notes.push(`not run in ${name}: this machine has none`);
    return path === undefined ? [] : [[path, ...args]];
  });
  return [[process.execPath], ...(older === undefined ? [] : [[older.node]]), ...found];
}

/** The programs of README.md compile and run as it says, in whatever project. */
async function followReadme(
  project: string,
  env: Readonly<Record<string, string>>,
  { errors }: Report,
): Promise<void> {
  const { code } = readMarkdown(readFileSync(join(root, "README.md"), "utf8"));
  const names = code
    .filter(({ language }) => language === "ts")
    .map(({ text }, i) => {
      writeFileSync(join(project, `readme-${i}.mts`), text);
      return `readme-${i}.mts`;
    });
  const kind = ["--noEmit", "--target", "esnext", "--module", "nodenext", "--types", "node"];
  const tsc = join(root, "node_modules/typescript/bin/tsc");
  const compiled = await outputOf(process.execPath, [tsc, ...kind, ...names], project);
  if (compiled.code !== 0) errors.push(`README.md, compiled: ${compiled.output}`);
  for (const name of names) {
    const { code, output } = await outputOf(process.execPath, [name], project, env);
    if (code !== 0) errors.push(`README.md, ${name}: ${output}`);
  }
}

/** The server of the packages has the console, too. */
async function findConsole(url: string, { errors }: Report): Promise<void> {
  const page = await (await fetch(`${url}/`)).text();
  const script = /src="(\/console\/[\w-]+\.js)"/.exec(page)?.[1];
  const loaded = script === undefined ? undefined : await fetch(url + script);
  if (loaded?.headers.get("content-type") !== "text/javascript; charset=utf-8")
    errors.push(`quiver serve has no console: ${script ?? page.slice(0, 200)} (${loaded?.status})`);
}

/** Serves the bundles, each in a page that posts what it has found. */
class Site {
  /** JavaScript by name. */
  readonly pages: ReadonlyMap<string, string>;
  readonly #server: Server;
  #found: (text: string) => void = () => {};

  constructor(pages: ReadonlyMap<string, string>) {
    this.pages = pages;
    this.#server = createServer((request, response) => {
      const path = (request.url ?? "/").slice(1).split("?")[0];
      const script = pages.get(path.replace(/\.js$/, ""));
      if (request.method === "POST") {
        void textOf(request).then((text) => this.#found(text));
        response.end();
      } else if (script === undefined) response.writeHead(404).end();
      else if (path.endsWith(".js")) response.setHeader("content-type", "text/javascript").end(script);
      else
        response
          .setHeader("content-type", "text/html")
          .end(`<script type=module src="/${path}.js"></script>`);
    });
  }

  async listen(): Promise<string> {
    await once(this.#server.listen(0, "127.0.0.1"), "listening");
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** What the next page posts. */
  found(): Promise<string> {
    return new Promise((resolve) => {
      this.#found = resolve;
    });
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }
}

/** The first address in the log of a server. */
async function urlOf(log: NodeJS.ReadableStream): Promise<string> {
  for await (const line of createInterface({ input: log })) {
    const url = /https?:\/\/127\.0\.0\.1:\d+/.exec(line)?.[0];
    if (url === undefined) continue;
    log.resume();
    return url;
  }
  throw new Error("the server has ended before it named its address");
}

/** The page's program, as bundlers write it: name -> JavaScript. */
async function bundled(project: string, errors: string[]): Promise<Map<string, string>> {
  const entry = join(project, "page.mjs");
  const pages = new Map<string, string>();
  const common = { bundle: true, write: false, platform: "browser", format: "esm", minify: true } as const;
  const { outputFiles } = await bundle({ ...common, entryPoints: [entry] });
  pages.set("esbuild", outputFiles[0].text);
  const result = await viteBuild({
    root: project,
    logLevel: "error",
    build: { write: false, lib: { entry, formats: ["es"], fileName: "page" } },
  });
  const [output] = [result].flat() as { output: { code?: string }[] }[];
  pages.set("vite", output.output[0].code ?? "");
  for (const [name, text] of pages) {
    if (/\bfrom ?"|\bnode:/.test(text)) errors.push(`${name} has left an import in the client's bundle`);
  }
  return pages;
}

const browsers = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/** Opens the pages in a browser. */
async function browse(site: Site, origin: string, query: string, { errors, notes }: Report): Promise<void> {
  const browser = browsers.find((path) => existsSync(path));
  if (browser === undefined) {
    notes.push("not run in a browser: this machine has no Chromium");
    return;
  }
  for (const page of site.pages.keys()) {
    const profile = mkdtempSync(join(tmpdir(), "quiver-browser-"));
    const flags = [
      "--headless",
      "--no-sandbox",
      "--disable-gpu",
      "--disable-dev-shm-usage",
      `--user-data-dir=${profile}`,
    ];
    const found = site.found();
    const window = spawn(browser, [...flags, `${origin}/${page}?${query}`], { stdio: "ignore" });
    const closed = once(window, "close");
    const late = AbortSignal.timeout(60_000);
    const gone = new Promise<string>((resolve) =>
      late.addEventListener("abort", () => resolve("nothing in a minute")),
    );
    const text = await Promise.race([found, gone]);
    if (text !== expectedTwice) errors.push(`the page of ${page} found: ${text}`);
    window.kill("SIGTERM");
    await closed;
    rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** Runs a program to its end. @returns everything that it wrote */
async function outputOf(
  program: string,
  args: readonly string[],
  cwd: string,
  variables: Readonly<Record<string, string>> = {},
): Promise<{ code: number; output: string }> {
  const PATH = `${dirname(process.execPath)}:${process.env.PATH}`;
  const env = { ...process.env, PATH, ...variables };
  try {
    const { stdout, stderr } = await run(program, args, { cwd, env, maxBuffer: 2 ** 26 });
    return { code: 0, output: stdout + stderr };
  } catch (error) {
    const { code, stdout = "", stderr = "" } = error as { code?: number; stdout?: string; stderr?: string };
    return { code: code ?? 1, output: stdout + stderr };
  }
}
