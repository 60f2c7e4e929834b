// Each example, run as its first lines say, with a model of the test.

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, unlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { startServer } from "@quiver/database";
import { afterEach, beforeEach, expect, it } from "vitest";
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

it("express-route.ts stores and searches articles", async () => {
  const apiKey = "the-admin-key";
  const dataDir = join(folder, "data");
  const server = await startServer({ dataDir, port: 0, adminKey: apiKey, logLevel: "silent" });
  const env = environment({ QUIVER_URL: server.url, QUIVER_API_KEY: apiKey, PORT: "0" });
  const app = spawn(process.execPath, [join(here, "express-route.ts")], {
    env,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = once(app, "close");
  try {
    const [line] = (await once(createInterface({ input: app.stdout }), "line")) as [string];
    const { origin } = new URL(line);
    const put = async (id: string, body: object) => {
      const headers = { "content-type": "application/json" };
      const init = { method: "PUT", headers, body: JSON.stringify(body) };
      return (await fetch(`${origin}/articles/${id}`, init)).status;
    };
    expect(await put("bees", { text: "Bees dance in the hive.", year: 1999 })).toBe(204);
    expect(await put("whales", { text: "Whales sing in the ocean.", year: 2020 })).toBe(204);
    const search = async (query: string) => {
      const response = await fetch(`${origin}/search?${query}`);
      return { status: response.status, body: (await response.json()) as object[] };
    };
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
  } finally {
    app.kill("SIGTERM");
    expect((await ended)[0]).toBe(0);
    await server.close();
  }
});
