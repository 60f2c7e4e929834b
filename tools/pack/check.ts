// Can anybody install the packages and use them?
//
// The tarballs are installed into an empty project. There, programs run on this Node.js and on the machine's own, which may be older; typed
// programs compile with older compilers; bundlers make a page of the client, which a browser runs; and linters read the packages.

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
import { basename, dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { text as textOf } from "node:stream/consumers";
import { promisify } from "node:util";
import { checkPackage, createPackageFromTarballData } from "@arethetypeswrong/core";
import { build as bundle } from "esbuild";
import { publint } from "publint";
import { formatMessage } from "publint/utils";
import { build as viteBuild } from "vite";
import { compileTools } from "../compile-tools.ts";
import { pack } from "./build.ts";
import { folders } from "./places.ts";

const run = promisify(execFile);
const root = join(import.meta.dirname, "../..");
const consumers = join(import.meta.dirname, "consumers");
/** What `consumers/steps.mjs` finds, everywhere. */
const expected = "dune, solaris, dune, dune+emma+solaris, QuiverError vector_not_found 404";
/** What `consumers/integrations.mjs` finds. */
const integrated = "langchain bee, llamaindex whale, embeddings bee, import 1, mcp 5 tools whale";
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
    const project = join(folder, "project");
    await install(project, tarballs);
    await compile(project, report);
    const olderNode = olderNodeOf(report);
    await embed(project, olderNode, report);
    await integrate(project, report);
    await serve(project, olderNode, report);
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

async function install(project: string, tarballs: readonly string[]): Promise<void> {
  mkdirSync(project);
  writeFileSync(
    join(project, "package.json"),
    JSON.stringify({ name: "empty", private: true, type: "module" }),
  );
  for (const name of readdirSync(consumers)) copyFileSync(join(consumers, name), join(project, name));
  const options = ["--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"];
  await run("npm", ["install", ...options, ...tarballs, ...frameworks()], { cwd: project });
}

/** The frameworks in the versions that the integrations are tested with. */
function frameworks(): string[] {
  return Object.values(folders).flatMap((folder) => {
    const manifest = readFileSync(join(root, "packages", folder, "package.json"), "utf8");
    const { devDependencies = {} } = JSON.parse(manifest) as { devDependencies?: Record<string, string> };
    return Object.entries(devDependencies).map(([name, version]) => `${name}@${version}`);
  });
}

async function compile(project: string, { errors }: Report): Promise<void> {
  const compilers = {
    5: "tools/pack/node_modules/typescript-5",
    6: "tools/pack/node_modules/typescript-6",
    7: "node_modules/typescript",
  };
  const modules = { nodenext: "nodenext", bundler: "esnext" };
  const newest = "es2022,dom,dom.iterable,esnext.disposable";
  // The declarations of the frameworks themselves need not be without errors in every compiler.
  const programs = {
    "typed.ts": { libraries: newest, skipLibCheck: "false" },
    "typed-page.ts": { libraries: "es2022,dom", skipLibCheck: "false" },
    "typed-integrations.ts": { libraries: newest, skipLibCheck: "true" },
  };
  for (const [version, path] of Object.entries(compilers)) {
    for (const [moduleResolution, module] of Object.entries(modules)) {
      for (const [program, { libraries, skipLibCheck }] of Object.entries(programs)) {
        const options = ["--noEmit", "--strict", "--skipLibCheck", skipLibCheck, "--target", "es2022"];
        const kind = ["--module", module, "--moduleResolution", moduleResolution, "--lib", libraries];
        const args = [join(root, path, "bin", "tsc"), ...options, ...kind, program];
        const { output } = await outputOf(process.execPath, args, project);
        if (output !== "") errors.push(`TypeScript ${version}, ${moduleResolution}, ${program}:\n${output}`);
      }
    }
  }
}

/** The machine's own Node.js, if it is another version than this one, as one of a user may be. */
function olderNodeOf({ notes }: Report): string | undefined {
  const host = process.env.QUIVER_HOST_NODE;
  if (host !== undefined && host !== process.execPath) return host;
  notes.push("not tried with Node.js 20: this machine has no other Node.js than the one that runs the tests");
  return undefined;
}

async function embed(project: string, olderNode: string | undefined, { errors }: Report): Promise<void> {
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
  if (olderNode === undefined) return;
  const refused = await outputOf(olderNode, ["embedded.mjs", "data"], project);
  if (!/@quiverdb\/database needs Node\.js 24 or newer; this is 2\d/.test(refused.output))
    errors.push(`@quiverdb/database, older Node.js: ${refused.output}`);
  const command = await outputOf(olderNode, ["node_modules/quiverdb/dist/main.js", "--version"], project);
  if (!/^quiver: needs Node\.js 24 or newer; this is 2\d/.test(command.output))
    errors.push(`quiver, older Node.js: ${command.output}`);
  const tools = ["node_modules/@quiverdb/mcp/dist/main.js", "--data-dir", "data"];
  const noDirectory = await outputOf(olderNode, tools, project);
  if (!/^quiver-mcp: --data-dir .* needs Node\.js 24 or newer; this is 2\d/.test(noDirectory.output))
    errors.push(`@quiverdb/mcp --data-dir, older Node.js: ${noDirectory.output}`);
}

/** A program uses every integration, on a database in its process; the MCP server is the installed command. */
async function integrate(project: string, { errors }: Report): Promise<void> {
  const { output } = await outputOf(process.execPath, ["integrations.mjs", "integrated"], project);
  if (output.trim() !== integrated) errors.push(`the integrations found: ${output}`);
}

/** The installed command serves; programs and pages are its clients. */
async function serve(project: string, olderNode: string | undefined, report: Report): Promise<void> {
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
    for (const node of [process.execPath, olderNode]) {
      if (node === undefined) continue;
      const { output } = await outputOf(node, ["client.mjs", url, key], project);
      if (output.trim() !== expected) errors.push(`@quiverdb/client on ${node}: ${output}`);
      const found = await outputOf(node, ["integrations.mjs", url, key], project);
      if (found.output.trim() !== integrated) errors.push(`the integrations on ${node}: ${found.output}`);
    }
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
    if (text !== expected) errors.push(`the page of ${page} found: ${text}`);
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
): Promise<{ code: number; output: string }> {
  const env = { ...process.env, PATH: `${dirname(process.execPath)}:${process.env.PATH}` };
  try {
    const { stdout, stderr } = await run(program, args, { cwd, env, maxBuffer: 2 ** 26 });
    return { code: 0, output: stdout + stderr };
  } catch (error) {
    const { code, stdout = "", stderr = "" } = error as { code?: number; stdout?: string; stderr?: string };
    return { code: code ?? 1, output: stdout + stderr };
  }
}
