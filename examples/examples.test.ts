// Each example, run as its first lines say, with a model of the test.

import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, unlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { connect, ensureTexts, openAiEmbeddings, withEmbeddings } from "@quiverdb/client";
import { startServer } from "@quiverdb/database";
import { afterEach, beforeEach, expect, it } from "vitest";
import { browserPath, openBrowser, skipReason } from "../packages/console/test/browser.ts";
import { type StubModel, stubModel } from "./test/stub-model.ts";

const run = promisify(execFile);
const here = import.meta.dirname;
let folder: string;
let model: StubModel;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "quiver-examples-"));
  model = await stubModel();
});
afterEach(async () => {
  await model[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});

const environment = (more = {}) => ({ ...process.env, OPENAI_BASE_URL: model.url, ...more });

/** What an example prints. */
async function outputOf(program: string, ...args: string[]): Promise<string> {
  const options = { env: environment(), cwd: folder };
  return (await run(process.execPath, [join(here, program), ...args], options)).stdout;
}

const write = (name: string, text: string) => writeFileSync(join(folder, name), text);

it("markdown-search.ts finds sections, and a second run embeds only what has changed", async () => {
  write(
    "bees.md",
    "# Bees\n\nBees dance in the hive.\n\n## Food\n\nNectar becomes honey.\n\n```\n# no heading\n```\n",
  );
  write("whales.md", "Whales sing in the ocean.\n");
  const first = await outputOf("markdown-search.ts", ".", "who can dance");
  const [counts, best] = first.split("\n");
  expect(counts).toBe("3 sections embedded, 0 files forgotten");
  expect(best).toMatch(/^0\.\d{4} {2}bees\.md: Bees$/);
  model.embedded.length = 0;
  write("whales.md", "Whales migrate.\n");
  write("spiders.md", "# Spiders\n\nSpiders weave in the attic.\n");
  expect(await outputOf("markdown-search.ts", ".", "attic")).toMatch(
    /^2 sections embedded, 0 files forgotten\n0\.\d{4} {2}spiders\.md: Spiders\n/,
  );
  expect(model.embedded).toHaveLength(3);
  unlinkSync(join(folder, "bees.md"));
  const last = await outputOf("markdown-search.ts", ".", "who can dance");
  expect(last).toContain("0 sections embedded, 1 files forgotten");
  expect(last).not.toContain("bees.md");
});

it("rag.ts answers from what it finds, and names its sources", async () => {
  write("bees.md", "# Bees\n\nBees dance in the hive.\n");
  write("whales.md", "# Whales\n\nWhales sing in the ocean.\n");
  const answer = await outputOf("rag.ts", ".", "Where do whales sing?");
  expect(answer).toContain("Whales sing in the ocean.");
  expect(answer).not.toContain("Bees dance");
  expect(answer).toMatch(/Sources: .*\[1\] whales\.md/);
});

const apiKey = "the-admin-key";
const serverOf = (corsOrigins: string[] = []) =>
  startServer({ dataDir: join(folder, "data"), port: 0, adminKey: apiKey, logLevel: "silent", corsOrigins });

type Program = AsyncDisposable & {
  /** The first address that it prints. */
  readonly origin: string;
};

/** A program that serves until it is ended, also what it has started. @param exitCode what it has to end with */
async function serving(
  [program, ...args]: readonly [string, ...string[]],
  cwd: string,
  env: object = {},
  exitCode = 0,
): Promise<Program> {
  const options = { cwd, env: environment(env) };
  const child: ChildProcess = spawn(program, args, {
    ...options,
    shell: process.platform === "win32" && program === "npm",
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = once(child, "close");
  const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
  const origin = await new Promise<string>((found, failed) => {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: programs colour parts of the address.
    const plain = (line: string) => line.replace(/\u001b\[\d+m/g, "");
    lines.on("line", (line) => {
      const url = /https?:\/\/127\.0\.0\.1:\d+/.exec(plain(line))?.[0];
      if (url !== undefined) found(url);
    });
    void ended.then(([code]) => failed(new Error(`${program} ${args[0]} ended with ${code}`)));
  });
  return {
    origin,
    [Symbol.asyncDispose]: async () => {
      child.kill("SIGTERM");
      expect((await ended)[0]).toBe(exitCode);
      await expect(fetch(origin)).rejects.toThrow("fetch failed");
    },
  };
}

async function answerOf(url: string): Promise<{ status: number; body: object[] }> {
  const response = await fetch(url);
  return { status: response.status, body: (await response.json()) as object[] };
}

it("express-route.ts stores and searches articles", async () => {
  const server = await serverOf();
  const env = { QUIVER_URL: server.url, QUIVER_API_KEY: apiKey, PORT: "0" };
  {
    await using app = await serving([process.execPath, join(here, "express-route.ts")], folder, env);
    const put = async (id: string, body: object) => {
      const headers = { "content-type": "application/json" };
      const init = { method: "PUT", headers, body: JSON.stringify(body) };
      return (await fetch(`${app.origin}/articles/${id}`, init)).status;
    };
    expect(await put("bees", { text: "Bees dance in the hive.", year: 1999 })).toBe(204);
    expect(await put("whales", { text: "Whales sing in the ocean.", year: 2020 })).toBe(204);
    const search = (query: string) => answerOf(`${app.origin}/search?${query}`);
    const found = await search("q=who+can+dance");
    expect(found.body[0]).toMatchObject({
      id: "bees",
      text: "Bees dance in the hive.",
      metadata: { year: 1999 },
    });
    expect((await search("q=who+can+dance&year=2000")).body).toMatchObject([{ id: "whales" }]);
    expect((await search("")).status).toBe(400);
    expect((await search("q=x&year=soon")).status).toBe(400);
    expect(await put("bad", { text: "no year", year: "x".repeat(70_000) })).toBe(400);
  }
  await server.close();
});

/** The articles of the pages' tests. */
async function storeArticles(url: string): Promise<void> {
  const embed = openAiEmbeddings({ url: model.url, model: "any" });
  const dimension = async () => (await embed(["dimension"]))[0].length;
  const articles = withEmbeddings(
    await ensureTexts(connect(url, { apiKey }), "articles", { dimension }),
    embed,
  );
  await articles.upsert([
    { id: "bees", text: "Bees dance in the hive.", metadata: { year: 1999 } },
    { id: "whales", text: "Whales sing and dance in the ocean.", metadata: { year: 2020 } },
  ]);
}

it("next-route searches articles", async () => {
  const route = join(here, "next-route");
  const server = await serverOf();
  await storeArticles(server.url);
  {
    const command = ["npm", "start", "--", "--hostname", "127.0.0.1", "--port", "0"] as const;
    await using app = await serving(command, route, {
      // npm would take the project of an outer npm, which it finds in the environment.
      npm_config_local_prefix: undefined,
      QUIVER_URL: server.url,
      QUIVER_API_KEY: apiKey,
      NEXT_TELEMETRY_DISABLED: "1",
    });
    const search = (query: string) => answerOf(`${app.origin}/search?${query}`);
    expect((await search("q=in+the+hive")).body[0]).toMatchObject({
      id: "bees",
      text: "Bees dance in the hive.",
      metadata: { year: 1999 },
    });
    expect((await search("q=in+the+hive&year=2000")).body).toMatchObject([{ id: "whales" }]);
    expect((await search("")).status).toBe(400);
    expect((await search("q=x&year=soon")).status).toBe(400);
  }
  await server.close();
});

it.skipIf(browserPath === undefined)(`browser-page searches as one types${skipReason}`, async () => {
  const vite = join(here, "../node_modules/vite/bin/vite.js");
  const command = [process.execPath, vite, join(here, "browser-page"), "--host", "127.0.0.1"] as const;
  // Vite ends as by the signal.
  await using page = await serving(command, folder, {}, 143);
  const server = await serverOf([page.origin]);
  await storeArticles(server.url);
  const browser = await openBrowser();
  try {
    const tab = await browser.newPage();
    const errors: Error[] = [];
    tab.on("pageerror", (error) => errors.push(error));
    const fill = async (values: Readonly<Record<string, string>>) => {
      for (const [label, value] of Object.entries(values)) await tab.getByLabel(label).fill(value);
    };
    await tab.goto(page.origin);
    await fill({ Address: server.url, "Key, of": apiKey, Words: "dance" });
    await expect.poll(() => tab.getByRole("listitem").allTextContents()).toHaveLength(2);
    await fill({ "From year": "2000" });
    await expect
      .poll(() => tab.getByRole("listitem").allTextContents())
      .toEqual(["Whales sing and dance in the ocean. 2020"]);
    await fill({ Words: "" });
    await expect.poll(() => tab.getByRole("listitem").count()).toBe(0);
    // The same page at another address is another origin, which the server was not told of.
    const other = page.origin.replace("127.0.0.1", "localhost");
    await tab.goto(other);
    await fill({ Address: server.url, "Key, of": apiKey, Words: "dance" });
    await expect.poll(() => tab.getByRole("status").textContent()).toContain(`--cors-origin ${other}`);
    expect(errors).toEqual([]);
  } finally {
    await browser.close();
    await server.close();
  }
});
