// How does the console look?
//
//   npm run screenshots
//
// Fills a server with notes, opens the console in the Chromium of this machine, and writes docs/images/console-*.png.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { connect, type QuiverClient } from "@quiverdb/client";
import { startServer } from "@quiverdb/server/server";
import type { Page } from "playwright-core";
import { browserPath, type Look, openBrowser, Tab } from "../packages/console/test/browser.ts";
import { fill, notes } from "../packages/console/test/library.ts";

const records = 4_000;
const images = resolve(import.meta.dirname, "../docs/images");
const key = "screenshots";

type Shot = {
  readonly name: string;
  readonly look: Look;
  readonly path: string;
  /** Pixels. */
  readonly height?: number;
  readonly prepare?: (page: Page, client: QuiverClient) => Promise<unknown>;
};

const shots: readonly Shot[] = [
  {
    name: "collections",
    look: "light",
    path: "collections",
    prepare: (page) => page.getByText("unloaded").waitFor(),
  },
  { name: "overview", look: "dark", path: "collections/notes" },
  {
    name: "search",
    look: "light",
    height: 1_120,
    path: "collections/notes/search",
    async prepare(page) {
      await page.getByText("Hybrid", { exact: true }).click();
      await page.getByRole("textbox", { name: "Text" }).fill("bee honey pollen");
      await page.getByLabel("Id of the record").fill("note-00012");
      await page.getByRole("button", { name: "Search" }).click();
      await page.getByText("Why").first().click();
      await page.evaluate("scrollTo(0, 0)");
    },
  },
  {
    name: "records",
    look: "light",
    path: "collections/notes/records?id=note-00012",
    prepare: (page) => page.getByText("Search like this record").waitFor(),
  },
  {
    name: "map",
    look: "dark",
    path: "collections/notes/map",
    async prepare(page) {
      await page.getByText(/^([\d,]+) of \1 records$/).waitFor({ timeout: 120_000 });
      await page.getByLabel("Id of a record on the map").fill("note-00012");
      await page.getByRole("button", { name: "Select" }).click();
      await page.getByText("Search like this record").waitFor();
      await page.getByRole("button", { name: "Show the way" }).click();
      await page.getByText("of its steps are on the map").waitFor();
      await page.locator(".map").scrollIntoViewIfNeeded();
    },
  },
  { name: "versions", look: "light", path: "collections/notes/versions" },
  { name: "transactions", look: "light", path: "collections/notes/transactions" },
  {
    name: "metrics",
    look: "dark",
    path: "metrics",
    height: 1_000,
    prepare: (_page, client) => work(client, 30_000),
  },
  {
    name: "keys",
    look: "light",
    path: "keys",
    prepare: (page) => page.getByText("web shop").first().waitFor(),
  },
  {
    name: "rest",
    look: "dark",
    path: "rest",
    async prepare(page) {
      await page.getByLabel("Find an operation").fill("analyze");
      await page.getByRole("button", { name: /Show the terms/ }).click();
      await page.getByLabel("collection_id").fill("notes");
      await page.getByLabel("Body (JSON)").fill('{\n  "text": "The bees are dancing"\n}');
      await page.getByRole("button", { name: "Send" }).click();
      await page.getByRole("region", { name: "Answer" }).waitFor();
    },
  },
];

/** Searches and writes for a while, so that there is something to count. */
async function work(client: QuiverClient, ms: number): Promise<void> {
  const collection = client.collection("notes");
  const end = performance.now() + ms;
  for (let round = 0; performance.now() < end; round++) {
    await collection.search.text({ query: "bee honey pollen" });
    await collection.neighbors("note-00012");
    if (round % 10 < 3) await collection.upsert(notes(20, 200_000 + 20 * round));
    await sleep(40 + 30 * Math.sin(round / 20));
  }
}

async function fillServer(client: QuiverClient): Promise<void> {
  await fill(client, records);
  const few = await client.createCollection({
    name: "articles",
    description: "Texts of the magazine",
    tf_idf_options: { enabled: true },
    store_raw_text: true,
  });
  await few.createTextIndex();
  await few.upsert(notes(250).map(({ id, text, metadata }) => ({ id, text, metadata })));
  const pictures = await client.createCollection({
    name: "pictures",
    dense_vector: { enabled: true, dimension: 64 },
  });
  await pictures.createDenseIndex({ distance_metric_type: "dot_product" });
  await pictures.upsert(notes(120).map(({ id, dense_values }) => ({ id, dense_values })));
  await pictures.waitForIndex();
  await pictures.unload();
  await client.createKey({ name: "web shop", role: "read", collections: ["articles"] });
  await client.createKey({ name: "importer", role: "write" });
}

const dataDir = mkdtempSync(join(tmpdir(), "quiver-screenshots-"));
const server = await startServer({ dataDir, port: 0, adminKey: key, logLevel: "silent" });
try {
  if (browserPath === undefined)
    throw new Error("This machine has no Chromium; set QUIVER_CHROMIUM to the path of one.");
  const client = connect(server.url, { apiKey: key });
  await fillServer(client);
  const browser = await openBrowser();
  try {
    for (const { name, look, path, height = 860, prepare } of shots) {
      const tab = await Tab.open(browser, server.url, look);
      await tab.page.setViewportSize({ width: 1280, height });
      await tab.signIn(key);
      await tab.go(path);
      await tab.page.getByRole("heading", { level: 1 }).waitFor();
      await tab.page.getByText("Loading…").first().waitFor({ state: "detached" });
      await prepare?.(tab.page, client);
      // What moves comes to rest.
      await tab.page.waitForTimeout(700);
      await tab.page.screenshot({ path: join(images, `console-${name}.png`) });
      if (tab.faults.length > 0) throw new Error(`${name}: ${tab.faults.join("; ")}`);
      await tab.close();
      console.log(`console-${name}.png`);
    }
  } finally {
    await browser.close();
  }
} finally {
  await server.close();
  rmSync(dataDir, { recursive: true, force: true });
}
