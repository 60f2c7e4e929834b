import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { promisify } from "node:util";
import { connect, type QuiverClient } from "@quiverdb/client";
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { adminKey, startTestServer, type TestServer } from "../../server/test/running.ts";
import { browserPath, openBrowser, skipReason, Tab } from "./browser.ts";
import { dimension, fill, notes } from "./library.ts";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const records = 600;

const pictureOf = async (page: Page): Promise<string> =>
  `data:image/png;base64,${(await page.locator("canvas").screenshot()).toString("base64")}`;

/** How many pixels of two pictures of one size are not the same. */
function changed(page: Page, one: string, other: string): Promise<number> {
  return page.evaluate(
    async (pictures) => {
      const [a, b] = await Promise.all(
        pictures.map(async (source) => {
          const image = new Image();
          image.src = source;
          await image.decode();
          const context = new OffscreenCanvas(image.width, image.height).getContext("2d");
          if (context === null) throw new Error("there is no canvas");
          context.drawImage(image, 0, 0);
          return new Uint32Array(context.getImageData(0, 0, image.width, image.height).data.buffer);
        }),
      );
      return a.reduce((count, pixel, i) => count + Number(pixel !== b[i]), 0);
    },
    [one, other],
  );
}

/** Drops a file on the page. */
async function drop(page: Page, name: string, content: string): Promise<void> {
  const dataTransfer = await page.evaluateHandle(
    ([fileName, text]) => {
      const made = new DataTransfer();
      made.items.add(new File([text], fileName));
      return made;
    },
    [name, content],
  );
  await page.getByRole("heading", { name: "Collections" }).dispatchEvent("drop", { dataTransfer });
}

/** What a program in TypeScript that the page shows writes to the console. It must be JavaScript, but for the import. */
async function run(code: string): Promise<{ readonly id: string }[]> {
  const body = code.replace('import { connect } from "@quiverdb/client";', "");
  const AsyncFunction = (async () => {}).constructor as new (
    ...parts: string[]
  ) => (...values: unknown[]) => Promise<void>;
  let written: unknown;
  const log = (value: unknown) => {
    written = value;
  };
  const ended = new AsyncFunction("connect", "process", "console", body);
  await ended(connect, { env: { QUIVER_API_KEY: adminKey } }, { log });
  return written as { readonly id: string }[];
}

/** The answers to the requests of curl that the page shows. The server is in this process, which must not wait for them. */
async function runCurl(code: string): Promise<string> {
  const env = { ...process.env, QUIVER_API_KEY: adminKey };
  return (await promisify(execFile)("bash", ["-c", code], { env, timeout: 30_000 })).stdout;
}

async function copied(page: Page, language: string): Promise<string> {
  await page.getByLabel("Language").getByText(language).click();
  await page.getByRole("button", { name: `Copy as ${language}` }).click();
  await page.getByText("Copied").waitFor();
  return page.evaluate("navigator.clipboard.readText()");
}

describe.skipIf(browserPath === undefined)(`the console in a browser${skipReason}`, () => {
  let server: TestServer;
  let client: QuiverClient;
  let browser: Browser;
  const tabs: Tab[] = [];

  beforeAll(async () => {
    server = await startTestServer();
    client = connect(server.url, { apiKey: adminKey });
    await fill(client, records);
    browser = await openBrowser();
  });
  afterEach(async () => {
    const open = tabs.splice(0);
    await Promise.all(open.map((tab) => tab.close()));
    // Nothing went wrong behind the page, and nothing was asked of another host.
    expect(open.flatMap(({ faults }) => faults)).toEqual([]);
  });
  afterAll(async () => {
    await browser?.close();
    await server?.end();
  });

  async function openTab(
    key: string | null = adminKey,
    look: "light" | "dark" = "light",
    { url }: TestServer = server,
  ): Promise<Tab> {
    const tab = await Tab.open(browser, url, look);
    tabs.push(tab);
    if (key !== null) await tab.signIn(key);
    return tab;
  }
  const stored = (tab: Tab) => tab.page.evaluate("JSON.stringify([{...sessionStorage}, {...localStorage}])");

  test("[H24] the API reference works beside it, and sends what it is told to", async () => {
    const tab = await openTab(null);
    // Its script has 4.4 MB.
    tab.page.setDefaultTimeout(120_000);
    await tab.page.goto(`${server.url}/docs`);
    await tab.page.getByRole("button", { name: "Test Request" }).first().click();
    await tab.page.getByRole("button", { name: "Send" }).first().click();
    await tab.page.getByText("401 Unauthorized").waitFor();
    await tab.page.getByText('"unauthorized"').waitFor();
  });

  describe("signing in", () => {
    test("[U5] asks for the key once and keeps it for this tab", async () => {
      const tab = await openTab();
      await tab.page.getByRole("heading", { name: "Collections" }).waitFor();
      expect(await stored(tab)).toBe(JSON.stringify([{ "quiver-key": adminKey }, {}]));
      await tab.page.reload();
      await tab.page.getByRole("link", { name: "notes" }).waitFor();
      expect(tab.keys.get("/")).toBeUndefined();
      expect(tab.keys.get("/vectordb/collections")).toBe(`Bearer ${adminKey}`);
      await tab.page.getByRole("button", { name: "Sign out" }).click();
      await tab.page.getByLabel("Key").waitFor();
      expect(await stored(tab)).toBe("[{},{}]");
    });

    test("[U5] says that a key is wrong, and asks again", async () => {
      const tab = await openTab(null);
      await tab.page.getByLabel("Key").fill("wrong");
      await tab.page.keyboard.press("Enter");
      await tab.page.getByRole("alert").getByText("The key is not valid").waitFor();
      expect(await stored(tab)).toBe("[{},{}]");
    });

    test("[U5] asks again when the key is revoked", async () => {
      const { key, key_id } = await client.createKey({ name: "short", role: "read" });
      const tab = await openTab(key);
      await tab.page.getByRole("link", { name: "notes" }).waitFor();
      await client.revokeKey(key_id);
      await tab.page.getByRole("alert").getByText("no longer valid").waitFor();
      expect(await stored(tab)).toBe("[{},{}]");
    });

    test("[U5] needs no key on a server without authentication", async () => {
      const open = await startTestServer({ adminKey: undefined, noAuth: true });
      try {
        const tab = await Tab.open(browser, open.url);
        tabs.push(tab);
        await tab.page.getByText("There are no collections yet.").waitFor();
        expect(await tab.page.getByRole("button", { name: "Sign out" }).count()).toBe(0);
      } finally {
        await open.end();
      }
    });
  });

  describe("a first visit", () => {
    let empty: TestServer;
    let its: QuiverClient;
    beforeAll(async () => {
      empty = await startTestServer();
      its = connect(empty.url, { apiKey: adminKey });
    });
    afterEach(async () => {
      for (const { name } of await its.listCollections()) await its.deleteCollection(name);
    });
    afterAll(() => empty?.end());

    test("[U13] loads a sample with progress, has searches of it that find something, and removes it by one button", async () => {
      const tab = await openTab(adminKey, "light", empty);
      const { page } = tab;
      const isSeen = Promise.withResolvers<void>();
      await page.route("**/streaming/upsert", async (route) => {
        await isSeen.promise;
        await route.continue();
      });
      await page.getByText("There are no collections yet").waitFor();
      await page.getByRole("button", { name: "Load the sample" }).click();
      await page.getByRole("progressbar", { name: "Loading the sample" }).waitFor();
      isSeen.resolve();
      await page.getByRole("button", { name: "Remove the sample" }).waitFor();
      await page.getByRole("row").filter({ hasText: "sample" }).getByText("120").waitFor();
      const collection = its.collection("sample");
      expect(Object.keys(await collection.indexes()).sort()).toEqual(["dense", "sparse", "tf-idf"]);
      const facet = await collection.facet({ field: "topic" });
      expect(facet.map(({ count }) => count)).toEqual(Array(12).fill(10));
      const ideas = page.getByRole("region", { name: "Sample" }).getByRole("link");
      for (let i = 0; i < 4; i++) {
        await ideas.nth(i).click();
        await page.getByText("results in").waitFor();
        expect(await page.getByRole("article").count()).toBeGreaterThan(2);
        await tab.go("collections");
      }
      await page.getByRole("button", { name: "Remove the sample" }).click();
      await page.getByText("There are no collections yet").waitFor();
      expect(await its.listCollections()).toEqual([]);
    });

    test("[U13] imports a dropped file into a collection that fits it", async () => {
      const { page } = await openTab(adminKey, "light", empty);
      await page.getByText("There are no collections yet").waitFor();
      const lines = [
        '{"id": "dune", "dense_values": [0.9, 0.1], "text": "A desert planet.", "metadata": {"n": 9007199254740993}}',
        '{"id": "emma", "sparse_indices": [7], "sparse_values": [0.5]}',
      ];
      await drop(page, "my books.jsonl", lines.join("\r\n"));
      const dialog = page.getByRole("dialog");
      expect(await dialog.getByLabel("Collection").inputValue()).toBe("my-books");
      await dialog.getByLabel("Collection").fill("books");
      await dialog.getByRole("button", { name: "Import" }).click();
      await page.getByRole("table").getByRole("link", { name: "dune" }).waitFor();
      const books = its.collection("books");
      const { dense_vector, sparse_vector, tf_idf_options, vectors_count } = await books.describe();
      expect([dense_vector.dimension, sparse_vector.enabled, tf_idf_options.enabled]).toEqual([
        2,
        true,
        true,
      ]);
      expect(vectors_count).toBe(2);
      expect(Object.keys(await books.indexes()).sort()).toEqual(["dense", "sparse", "tf-idf"]);
      // JavaScript cannot hold this number.
      expect(await books.getJson("dune")).toContain("9007199254740993");
    });

    test("[U13] an import names the line that is wrong, and what was imported before it", async () => {
      const { page } = await openTab(adminKey, "light", empty);
      await page.getByRole("button", { name: "Choose a file" }).click();
      const dialog = page.getByRole("dialog");
      const importing = async (content: string) => {
        const buffer = Buffer.from(content);
        await dialog.getByLabel("File").setInputFiles({ name: "a.jsonl", mimeType: "text/plain", buffer });
        await dialog.getByRole("button", { name: "Import" }).click();
      };
      const says = (text: string) => dialog.getByRole("alert").getByText(text).waitFor();
      await importing('{"id": "a", "dense_values": [1, 0]}\n\n{"id": "b", "dense_values": [1]}');
      await says("Line 3: dense_values has 1 value, the collection's dimension is 2");
      await importing('{"id": "a", "text": "x"}\n{"id": ');
      await says("Line 2 is not JSON");
      await importing('{"id": "a", "txt": "x"}');
      await says('neither "dense_values" nor "sparse_values" nor "text"');
      await importing("[1]");
      await says("Line 1 is not a record");
      await importing("");
      await says("The file has no records");
      // No attempt has left a collection behind that would not fit the corrected file.
      expect(await its.listCollections()).toEqual([]);
      const record = (i: number) => JSON.stringify({ id: `r${i}`, dense_values: i === 699 ? [1] : [1, i] });
      await importing(Array.from({ length: 800 }, (_, i) => record(i)).join("\n"));
      await says("Line 700: dense_values has 1 value");
      await says("The first 500 records of the file are imported.");
      expect((await its.collection("a").describe()).vectors_count).toBe(500);
    });

    test("[U13] shows programs with the address of the server, which run as they are copied", async () => {
      const { page } = await openTab(adminKey, "light", empty);
      await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
      const typescript = await copied(page, "TypeScript");
      const curl = await copied(page, "curl");
      expect((await run(typescript)).map(({ id }) => id)).toEqual(["dune", "emma"]);
      await its.deleteCollection("books");
      expect(await runCurl(curl)).toContain('"id":"dune"');
      expect((await its.collection("books").describe()).vectors_count).toBe(1);
    });
  });

  test("[U14] every page says that the server does not answer, and goes on when it is back", async () => {
    const first = await startTestServer();
    const { dataDir, url } = first;
    const kept = await connect(url, { apiKey: adminKey }).createCollection({
      name: "notes",
      dense_vector: { enabled: true, dimension: 2 },
    });
    await kept.createDenseIndex({ distance_metric_type: "cosine" });
    await kept.upsert([{ id: "note-00012", dense_values: [1, 0] }]);
    const tab = await openTab(adminKey, "light", first);
    const { page } = tab;
    await tab.go("collections/notes/records");
    await page.getByRole("table").getByRole("link", { name: "note-00012" }).waitFor();
    await first.close();
    const says = page.getByRole("alert").getByText(`The server at ${new URL(url).host} does not answer`);
    // This page asks nothing by itself, and keeps what it has.
    await says.waitFor();
    await page.getByRole("table").getByRole("link", { name: "note-00012" }).waitFor();
    for (const path of pages) {
      await tab.go(path);
      await page.getByRole("heading", { level: 1 }).waitFor();
      expect([path, await says.count()]).toEqual([path, 1]);
    }
    await page.getByText("every operation of").waitFor();
    const second = await startTestServer({ dataDir, port: Number(new URL(url).port) });
    try {
      await says.waitFor({ state: "detached" });
      // The page could not be loaded before.
      await page.getByRole("button", { name: "Send" }).waitFor();
    } finally {
      await second.end();
    }
  });

  test("[U6] a collection is made, unloaded, loaded and, when its name was written, deleted", async () => {
    const { page } = await openTab();
    await page.getByRole("button", { name: "New collection" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("textbox", { name: "Name", exact: true }).fill("made");
    await dialog.getByLabel("Dimension").fill("3");
    await dialog.getByLabel("Metric").selectOption("euclidean");
    await dialog.getByLabel("Sparse vectors").check();
    await dialog.getByRole("button", { name: "Create" }).click();
    const row = page.getByRole("row").filter({ hasText: "made" });
    await row.getByText("ready").waitFor();
    expect(await row.getByRole("cell").nth(4).textContent()).toMatch(/^[\d.]+ [KM]iB$/);
    const indexes = await client.collection("made").indexes();
    expect(Object.keys(indexes).sort()).toEqual(["dense", "sparse", "tf-idf"]);
    expect(indexes.dense?.distance_metric_type).toBe("euclidean");
    await row.getByRole("button", { name: "Unload" }).click();
    await row.getByText("unloaded").waitFor();
    await row.getByRole("button", { name: "Load" }).click();
    await row.getByText("ready").waitFor();
    await row.getByRole("button", { name: "Delete" }).click();
    const confirm = dialog.getByRole("button", { name: "Delete" });
    expect(await confirm.isDisabled()).toBe(true);
    await dialog.getByLabel("to confirm").fill("mad");
    expect(await confirm.isDisabled()).toBe(true);
    await dialog.getByLabel("to confirm").fill("made");
    await confirm.click();
    await expect
      .poll(async () => (await client.listCollections()).map(({ name }) => name))
      .toEqual(["notes"]);
    await row.waitFor({ state: "detached" });
  });

  test("[U6] the list shows counts, sizes and the states of indexes, and follows changes", async () => {
    const { page } = await openTab();
    const row = page.getByRole("row").filter({ hasText: "notes" });
    await row.getByText("597").waitFor();
    await row.getByText("ready").waitFor();
    await client.collection("notes").upsert(notes(1, 90_000));
    await row.getByText("598").waitFor();
    await client.collection("notes").delete("note-90000");
  });

  test("[U6] indexes are made and deleted on the page of a collection", async () => {
    await client.createCollection({ name: "bare", dense_vector: { enabled: true, dimension: 2 } });
    const tab = await openTab();
    await tab.go("collections/bare");
    const { page } = tab;
    await page.getByRole("button", { name: "Create dense index" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Create" }).click();
    await page.getByRole("row").filter({ hasText: "Dense" }).getByText("ready").waitFor();
    await page.getByRole("button", { name: "Index a field" }).click();
    await page.getByRole("dialog").getByLabel("Field").fill("color");
    await page.getByRole("dialog").getByRole("button", { name: "Create" }).click();
    await page.getByRole("row").filter({ hasText: "color" }).getByText("ready").waitFor();
    await page.getByRole("button", { name: "Delete the index color" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await page.getByRole("row").filter({ hasText: "color" }).waitFor({ state: "detached" });
    expect(await client.collection("bare").metadataIndexes()).toEqual([]);
    await client.deleteCollection("bare");
  });

  test("[U6] the list names the indexes that are missing, and one record is one record", async () => {
    const half = await client.createCollection({
      name: "half",
      dense_vector: { enabled: true, dimension: 2 },
      sparse_vector: { enabled: true },
      tf_idf_options: { enabled: true },
    });
    await half.createTextIndex();
    await half.upsert([{ id: "a", text: "bees" }]);
    const tab = await openTab();
    const { page } = tab;
    const row = page.getByRole("row").filter({ hasText: "half" });
    await row.getByText("no dense index").waitFor();
    await row.getByText("no sparse index").waitFor();
    expect(await row.getByText(/no text index|ready/).count()).toBe(0);
    await half.unload();
    await row.getByText("unloaded").waitFor();
    await row.getByText("no dense index").waitFor();
    await tab.go("collections/half");
    await page.getByText("1 record", { exact: true }).waitFor();
    await page.getByText("no sparse index").waitFor();
    await client.deleteCollection("half");
  });

  test("[U6] an index shows how far it is while it is built", async () => {
    const large = await client.createCollection({
      name: "large",
      dense_vector: { enabled: true, dimension: 128 },
    });
    const vector = (i: number) => Float32Array.from({ length: 128 }, (_, d) => Math.sin((i + 1) * (d + 1)));
    await large.upsert(
      Array.from({ length: 12_000 }, (_, i) => ({ id: String(i), dense_values: vector(i) })),
    );
    const tab = await openTab();
    await tab.go("collections/large");
    await tab.page.getByRole("button", { name: "Create dense index" }).click();
    await tab.page.getByRole("dialog").getByRole("button", { name: "Create" }).click();
    await tab.page.getByRole("progressbar", { name: "Building the index Dense" }).waitFor();
    await tab.go("collections");
    await tab.page.getByRole("progressbar", { name: "Building the index dense of large" }).waitFor();
    await tab.go("collections/large");
    await tab.page
      .getByRole("row")
      .filter({ hasText: "Dense" })
      .getByText("ready")
      .waitFor({ timeout: 90_000 });
    await client.deleteCollection("large");
  });

  describe("a search", () => {
    const query = "bee honey pollen";
    async function searchPage(): Promise<Tab> {
      const tab = await openTab();
      await tab.go("collections/notes/search");
      await tab.page.getByRole("form", { name: "Search" }).waitFor();
      return tab;
    }
    const shownIds = (tab: Tab) => tab.page.getByRole("article").getByRole("link").allTextContents();

    test("[U7] for a text shows the results of the interface, and the terms that make a score", async () => {
      const tab = await searchPage();
      await tab.page.getByRole("textbox", { name: "Text" }).fill(query);
      await tab.page.getByRole("button", { name: "Search" }).click();
      await tab.page.getByText("results in").waitFor();
      const { results } = await client.collection("notes").search.text({ query, explain: true });
      expect(await shownIds(tab)).toEqual(results.map(({ id }) => id));
      await tab.page.getByText("Why").first().click();
      const first = tab.page.getByRole("article").first();
      for (const { term } of results[0].explanation?.["tf-idf"]?.matches ?? [])
        await first.getByText(term, { exact: true }).waitFor();
      await tab.page.getByText("BM25 with k1 1.2").waitFor();
    });

    test("[U7] like a record, or for a written vector, with a filter whose plan is shown", async () => {
      const tab = await searchPage();
      const { page } = tab;
      await page.getByText("Dense", { exact: true }).click();
      await page.getByLabel("Id of the record").fill("note-00012");
      await page.getByLabel("Filter").fill('{"year": {"gte": 2010}}');
      await page.getByRole("button", { name: "Search" }).click();
      await page.getByText("The filter matches").waitFor();
      const filter = { year: { gte: 2010 } };
      const liked = await client.collection("notes").search.recommend({ positive: ["note-00012"], filter });
      expect(await shownIds(tab)).toEqual(liked.results.map(({ id }) => id));
      const { dense_values } = await client.collection("notes").get("note-00030");
      await page.getByText("Written", { exact: true }).click();
      await page.getByLabel("Dense: 64 numbers").fill(JSON.stringify(dense_values));
      await page.getByLabel("Filter").fill("");
      await page.getByRole("button", { name: "Search" }).click();
      await expect.poll(() => shownIds(tab).then((ids) => ids[0])).toBe("note-00030");
    });

    test("[U7] with a filter on a misspelt field names the field that could be meant", async () => {
      const { page } = await searchPage();
      await page.getByRole("textbox", { name: "Text" }).fill(query);
      await page.getByLabel("Filter").fill('{"yaer": 2010}');
      await page.getByRole("button", { name: "Search" }).click();
      await page.getByText('No record was found with a field "yaer" (did you mean year?)').waitFor();
    });

    test("[U7] for sparse terms", async () => {
      const tab = await searchPage();
      await tab.page.getByText("Sparse", { exact: true }).click();
      await tab.page.getByText("Written", { exact: true }).click();
      await tab.page.getByLabel("Sparse: index:value").fill("3:1 5:0.5");
      await tab.page.getByRole("button", { name: "Search" }).click();
      await tab.page.getByText("results in").waitFor();
      const { results } = await client.collection("notes").search.sparse({
        query_terms: [
          [3, 1],
          [5, 0.5],
        ],
      });
      expect(await shownIds(tab)).toEqual(results.map(({ id }) => id));
    });

    test("[U7] of several kinds draws the ranks of each and the order that they make", async () => {
      const tab = await searchPage();
      const { page } = tab;
      await page.getByText("Hybrid", { exact: true }).click();
      await page.getByLabel("Weight of text").fill("2");
      await page.getByRole("textbox", { name: "Text" }).fill(query);
      await page.getByLabel("Id of the record").fill("note-00012");
      await page.getByRole("button", { name: "Search" }).click();
      const drawing = page.getByRole("img", { name: /Ranks of each leg/ });
      await drawing.waitFor();
      const { dense_values } = await client.collection("notes").get("note-00012");
      const { results } = await client.collection("notes").search.hybrid({
        query_vector: dense_values ?? [],
        query_text: query,
        fusion_weights: { text: 2 },
        explain: true,
      });
      expect(await shownIds(tab)).toEqual(results.map(({ id }) => id));
      const legs = results.flatMap(({ explanation }) => [explanation?.dense, explanation?.["tf-idf"]]);
      expect(await drawing.locator("circle").count()).toBe(legs.filter((leg) => leg).length);
    });

    test("[U7] that is refused shows the message of the server", async () => {
      const tab = await searchPage();
      await tab.page.getByRole("textbox", { name: "Text" }).fill("bee");
      await tab.page.getByLabel("Filter").fill('{"year": {"gte": []}}');
      await tab.page.getByRole("button", { name: "Search" }).click();
      await tab.page.getByRole("alert").getByText("invalid_filter").waitFor();
      await tab.page.getByLabel("Filter").fill("{");
      await tab.page.getByRole("button", { name: "Search" }).click();
      await tab.page.getByRole("alert").getByText("The filter is not JSON").waitFor();
    });

    test("[U7] keeps what is typed while the page is still being drawn", async () => {
      const tab = await openTab();
      const { page } = tab;
      // Frames that come late, as on a busy machine.
      await page.addInitScript(`
        const [soon, lateMs] = [setTimeout, 1500];
        globalThis.setTimeout = (act, ms = 0, ...args) => soon(act, ms < 200 ? lateMs : ms, ...args);
        globalThis.requestAnimationFrame = (act) => soon(() => act(performance.now()), lateMs);
      `);
      await page.reload();
      await tab.go("collections/notes/search");
      const field = page.getByRole("textbox", { name: "Text" });
      await field.fill("bee");
      await page.waitForTimeout(2_000);
      expect(await field.inputValue()).toBe("bee");
    });

    test("[U7] is in the address: kept on a reload, shared, and found again on the way back", async () => {
      const tab = await searchPage();
      const { page } = tab;
      await page.getByRole("textbox", { name: "Text" }).fill("bee & honey");
      await page.getByRole("spinbutton", { name: "Results" }).fill("4");
      await page.getByLabel("Filter").fill('{"year": {"gte": 2010}}');
      await page.getByRole("button", { name: "Search" }).click();
      await page.getByText("results in").waitFor();
      const ids = await shownIds(tab);
      expect(ids).toHaveLength(4);
      const address = page.url();
      for (const part of ["kind=text", "topK=4", "year", "honey"]) expect(address).toContain(part);
      await page.reload();
      await expect.poll(() => shownIds(tab)).toEqual(ids);
      expect(await page.getByRole("textbox", { name: "Text" }).inputValue()).toBe("bee & honey");
      expect(await page.getByLabel("Filter").inputValue()).toBe('{"year": {"gte": 2010}}');
      const other = await openTab();
      await other.page.goto(address);
      await expect.poll(() => shownIds(other)).toEqual(ids);
      await page.getByText("Hybrid", { exact: true }).click();
      await page.getByLabel("sparse", { exact: true }).check();
      await page.getByLabel("Weight of sparse").fill("0.5");
      await page.getByLabel("Id of the record").fill("note-00012");
      await page.getByRole("button", { name: "Search" }).click();
      await page.getByRole("img", { name: /Ranks of each leg/ }).waitFor();
      await page.reload();
      await page.getByRole("img", { name: /Ranks of each leg/ }).waitFor();
      expect(await page.getByLabel("Weight of sparse").inputValue()).toBe("0.5");
      await page.goBack();
      await expect.poll(() => shownIds(tab)).toEqual(ids);
      expect(await page.getByRole("radio", { name: "Text" }).isChecked()).toBe(true);
    });

    test("[U7] offers only the kinds that the collection can answer", async () => {
      const part = await client.createCollection({
        name: "part",
        dense_vector: { enabled: true, dimension: 2 },
        tf_idf_options: { enabled: true },
      });
      await part.createTextIndex();
      const tab = await openTab();
      const { page } = tab;
      const kinds = () => page.getByLabel("Kind of search").locator("label").allTextContents();
      await tab.go("collections/part/search");
      await page.getByText("Dense search needs an index that does not exist yet").waitFor();
      expect(await kinds()).toEqual(["Text"]);
      // An address may ask for more than there is.
      await tab.go("collections/part/search?kind=dense&like=a");
      await page.getByRole("textbox", { name: "Text" }).waitFor();
      await page.getByRole("link", { name: "Create it" }).click();
      await page.getByRole("button", { name: "Create dense index" }).waitFor();
      await part.createDenseIndex({ distance_metric_type: "cosine" });
      await tab.go("collections/part/search");
      await expect.poll(kinds).toEqual(["Dense", "Text", "Hybrid"]);
      expect(await page.getByText("needs an index").count()).toBe(0);
      await client.deleteCollection("part");
    });

    test("[U7] that is wrong says so beside the field", async () => {
      const { page } = await searchPage();
      const search = () => page.getByRole("button", { name: "Search" }).click();
      const field = (label: string) => page.getByLabel(label, { exact: true }).and(page.locator("[id]"));
      const says = async (label: string, text: string) => {
        await expect.poll(() => field(label).getAttribute("aria-invalid")).toBe("true");
        const id = await field(label).getAttribute("aria-describedby");
        await page.locator(`[id="${id}"]`).getByText(text).waitFor();
        expect(await page.getByRole("alert").count()).toBe(1);
      };
      await search();
      await page.getByRole("alert").getByText("Write what to look for.").waitFor();
      await page.getByRole("textbox", { name: "Text" }).fill("bee");
      await page.getByLabel("Filter").fill('{"year": {"gte": []}}');
      await search();
      await says("Filter", "gte");
      await page.getByLabel("Filter").fill("");
      await page.getByText("Dense", { exact: true }).click();
      await page.getByLabel("Id of the record").fill("note-99999");
      await search();
      await says("Id of the record", "note-99999");
      await page.getByText("Written", { exact: true }).click();
      await page.getByLabel("Dense: 64 numbers").fill("[1, 2]");
      await search();
      await says("Dense: 64 numbers", "64");
      await page.getByLabel("Dense: 64 numbers").fill("[1, two]");
      await search();
      await says("Dense: 64 numbers", 'Number 2 of the vector is "two"');
    });

    test("[U7] is copied as TypeScript and as curl, which find the same", async () => {
      const tab = await searchPage();
      const { page } = tab;
      await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
      const find = async () => {
        await page.getByRole("button", { name: "Search", exact: true }).click();
        await page.getByText("results in").waitFor();
        const ids = await shownIds(tab);
        const summary = page.getByText("Copy as TypeScript or curl");
        if (!(await page.getByLabel("Language").isVisible())) await summary.click();
        expect((await run(await copied(page, "TypeScript"))).map(({ id }) => id)).toEqual(ids);
        const answer = JSON.parse(await runCurl(await copied(page, "curl"))) as { results: { id: string }[] };
        expect(answer.results.map(({ id }) => id)).toEqual(ids);
        return ids;
      };
      await page.getByRole("textbox", { name: "Text" }).fill("the bee's honey");
      await page.getByLabel("Filter").fill('{"subject": "insects"}');
      const insects = await find();
      await page.getByText("Hybrid", { exact: true }).click();
      await page.getByLabel("Weight of text").fill("0.5");
      await page.getByLabel("Id of the record").fill("note-00013");
      await page.getByLabel("Filter").fill("");
      await page.getByRole("button", { name: "Search", exact: true }).click();
      await page.getByRole("img", { name: /Ranks of each leg/ }).waitFor();
      expect(await find()).not.toEqual(insects);
    });
  });

  test("[U8] records are paged, filtered and ordered; one shows its fields and its neighbours", async () => {
    const tab = await openTab();
    const { page } = tab;
    await tab.go("collections/notes/records");
    const ids = async () => (await page.getByRole("table").getByRole("link").allTextContents()).slice(0, 3);
    await expect.poll(ids).toEqual(["note-00000", "note-00001", "note-00002"]);
    await page.getByRole("button", { name: "Next" }).click();
    await expect.poll(ids).toEqual(["note-00028", "note-00029", "note-00030"]);
    await page.getByRole("button", { name: "Previous" }).click();
    await expect.poll(ids).toEqual(["note-00000", "note-00001", "note-00002"]);
    await page.getByLabel("Filter").fill('{"subject": "music"}');
    await page.getByRole("button", { name: "Show" }).click();
    await expect.poll(ids).toEqual(["note-00010", "note-00016", "note-00022"]);
    await page.getByLabel("Order").selectOption("year desc");
    const order_by = { field: "year", direction: "desc" } as const;
    const ordered = await client
      .collection("notes")
      .scroll({ filter: { subject: "music" }, order_by, limit: 3 });
    await expect.poll(ids).toEqual(ordered.vectors.map(({ id }) => id));
    await tab.go("collections/notes/records?id=note-00012");
    const panel = page.getByRole("complementary", { name: "Record note-00012" });
    await panel.getByText('"subject": "insects"').waitFor();
    const { results } = await client.collection("notes").neighbors("note-00012", { top_k: 10 });
    await expect
      .poll(() => panel.getByRole("listitem").getByRole("link").allTextContents())
      .toEqual(results.map(({ id }) => id));
    await panel.getByRole("link", { name: "Search like this record" }).click();
    await page.getByText("results in").waitFor();
  });

  test("[U8] a filter is written in the language of the command, and the values of declared fields narrow it", async () => {
    const tab = await openTab();
    const { page } = tab;
    await tab.go("collections/notes/records");
    const status = page.getByRole("status");
    await status.getByText("597 records").waitFor();
    const notesOf = client.collection("notes");
    const facets = page.getByRole("region", { name: "Values of fields" });
    const [most] = await notesOf.facet({ field: "year", limit: 1 });
    const shown = facets.getByRole("listitem").filter({ hasText: String(most.value) });
    expect(await shown.textContent()).toBe(`${most.value}${most.count}`);
    await page.getByLabel("Filter").fill("subject in ('music', 'chess') and year >= 2010");
    await page.getByRole("button", { name: "Show", exact: true }).click();
    const filter = { subject: { in: ["music", "chess"] }, year: { gte: 2010 } };
    await status.getByText(`${await notesOf.count(filter)} records match`).waitFor();
    await facets.getByRole("button", { name: "Only subject chess" }).click();
    await status
      .getByText(`${await notesOf.count({ subject: "chess", year: { gte: 2010 } })} records match`)
      .waitFor();
    expect(await page.getByLabel("Filter").inputValue()).toBe(
      'subject in ("music", "chess") and year >= 2010 and subject = "chess"',
    );
    // JSON is narrowed, too.
    await page.getByLabel("Filter").fill('{"year": {"gte": 2010}}');
    await page.getByRole("button", { name: "Show", exact: true }).click();
    await facets.getByRole("button", { name: "Only subject music" }).click();
    await status
      .getByText(`${await notesOf.count({ subject: "music", year: { gte: 2010 } })} records match`)
      .waitFor();
    await page.getByLabel("Filter").fill("subject = music");
    await page.getByRole("button", { name: "Show", exact: true }).click();
    await page.getByRole("alert").getByText("expected a value").waitFor();
    expect(await page.getByRole("alert").getByText("^").textContent()).toContain("subject = music");
  });

  test("[U15] records are added, edited, exported, imported and deleted, one by one and by a filter", async () => {
    const made = await client.createCollection({
      name: "shelf",
      dense_vector: { enabled: true, dimension: 2 },
      sparse_vector: { enabled: true },
      tf_idf_options: { enabled: true },
      store_raw_text: true,
    });
    await made.createMetadataIndex("n", "number");
    const tab = await openTab();
    const { page } = tab;
    await tab.go("collections/shelf/records");
    const dialog = page.getByRole("dialog");
    const record = dialog.getByLabel("Record (JSON)");
    const open = (name: string) => page.getByRole("button", { name, exact: true }).click();
    const submit = (name: string) => dialog.getByRole("button", { name, exact: true }).click();
    await open("Add a record");
    expect(Object.keys(JSON.parse(await record.inputValue()))).toEqual([
      "id",
      "dense_values",
      "sparse_indices",
      "sparse_values",
      "text",
      "metadata",
    ]);
    await record.fill('{"id": "a", "dense_values": [1]}');
    await submit("Save");
    await dialog
      .getByRole("alert")
      .getByText("dense_values has 1 value, the collection's dimension is 2")
      .waitFor();
    await record.fill(
      '{"id": "a", "dense_values": [1, 0], "sparse_indices": [7], "sparse_values": [0.5], "text": "bees", "metadata": {"n": 9007199254740993}}',
    );
    await submit("Save");
    const panel = page.getByRole("complementary", { name: "Record a" });
    await panel.getByText("9007199254740993").waitFor();
    await open("Add a record");
    await record.fill('{"id": "a", "dense_values": [0, 1]}');
    await submit("Save");
    await dialog.getByRole("alert").getByText("There is a record a already").waitFor();
    await dialog.getByRole("button", { name: "Cancel" }).click();
    // What is not edited stays as it is.
    await open("Edit");
    await expect.poll(() => record.inputValue()).toContain('"n": 9007199254740993');
    await record.fill((await record.inputValue()).replace("bees", "wasps"));
    await submit("Save");
    await panel.getByText("wasps").waitFor();
    const json = await made.getJson("a");
    expect(json).toContain("9007199254740993");
    expect(JSON.parse(json)).toMatchObject({ dense_values: [1, 0], sparse_indices: [7], text: "wasps" });
    await made.upsert(
      Array.from({ length: 40 }, (_, n) => ({ id: `r${n}`, dense_values: [1, n], metadata: { n } })),
    );
    const show = async (filter: string, says: string) => {
      await page.getByLabel("Filter").fill(filter);
      await open("Show");
      await page.getByRole("status").getByText(says).waitFor();
    };
    await show("n < 10", "10 records match");
    const downloading = page.waitForEvent("download");
    await open("Export");
    await submit("Export");
    const file = await (await downloading).path();
    const exported = readFileSync(file, "utf8");
    expect(
      exported
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line).id)
        .sort(),
    ).toEqual(Array.from({ length: 10 }, (_, n) => `r${n}`));
    await open("Change all that match");
    await dialog.getByText("Change 10 records").waitFor();
    await dialog.getByLabel("Patch (JSON)").fill('{"seen": true}');
    await submit("Change");
    await page.getByRole("status").getByText("Changed 10 records.").waitFor();
    expect(await made.count({ seen: true })).toBe(10);
    await open("Delete all that match");
    expect(await dialog.getByRole("button", { name: "Delete" }).isDisabled()).toBe(true);
    await dialog.getByLabel("to confirm").fill("shelf");
    await submit("Delete");
    await page.getByRole("status").getByText("Deleted 10 records. 0 records match").waitFor();
    expect(await made.count()).toBe(31);
    await open("Import");
    expect(await dialog.getByLabel("Collection").inputValue()).toBe("shelf");
    await dialog
      .getByLabel("File")
      .setInputFiles({ name: "b.jsonl", mimeType: "text/plain", buffer: Buffer.from(exported) });
    await submit("Import");
    await page.getByRole("status").getByText("10 records match").waitFor();
    await page.getByRole("table").getByRole("link", { name: "r3" }).click();
    await open("Delete");
    await submit("Delete");
    await page.getByRole("status").getByText("Deleted r3.").waitFor();
    expect([await made.has("r3"), await made.count()]).toEqual([false, 40]);
    await client.deleteCollection("shelf");
  });

  test("[U9] the map draws every record, by kind, and a click shows the record and its neighbours", async () => {
    const tab = await openTab();
    const { page } = tab;
    await tab.go("collections/notes/map");
    await page.getByLabel("Layout").getByText("PCA").click();
    await page.getByRole("button", { name: "Draw" }).click();
    await page.getByText("597 of 597 records").waitFor();
    await page.getByText("insects", { exact: false }).first().waitFor();
    expect(await page.getByLabel("Colour by").inputValue()).toBe("subject");
    // Something is drawn: a picture of points has more colours than an empty one.
    const canvas = page.locator("canvas");
    const box = await canvas.boundingBox();
    if (box === null) throw new Error("the map is not shown");
    await page.getByLabel("Id of a record on the map").fill("note-00012");
    await page.getByRole("button", { name: "Select" }).click();
    const { results } = await client.collection("notes").neighbors("note-00012", { top_k: 10 });
    const panel = page.getByRole("complementary", { name: "Record note-00012" });
    await panel.getByRole("button", { name: results[0].id }).waitFor();
    // The mark is where the point is: a click there selects a record.
    const mark = await page.locator(".mark").first().boundingBox();
    if (mark === null) throw new Error("the selected record is not marked");
    expect(await page.locator(".mark.neighbor").count()).toBe(10);
    await page.mouse.click(mark.x + mark.width / 2, mark.y + mark.height / 2);
    await page.getByRole("complementary", { name: "Record note-" }).waitFor();
    // The keyboard moves it.
    const before = await page.locator(".mark").first().boundingBox();
    await page.getByRole("application").focus();
    await page.keyboard.press("ArrowRight");
    await expect.poll(async () => (await page.locator(".mark").first().boundingBox())?.x).not.toBe(before?.x);
    await page.getByLabel("Id of a record on the map").fill("nothing");
    await page.getByRole("button", { name: "Select" }).click();
    await page.getByRole("alert").getByText("no record of this id").waitFor();
    await page.getByLabel("Filter").fill('{"subject": "music"}');
    await page.getByRole("button", { name: "Draw" }).click();
    await page.getByText("99 of 597 records").waitFor();
    await page.getByLabel("Filter").fill('{"year": {"gte": []}}');
    await page.getByRole("button", { name: "Draw" }).click();
    await page.getByRole("alert").getByText("gte").waitFor();
  });

  test("[U9] the map draws the way of a search, step by step or at once, and is used by keyboard alone", async () => {
    const walked = await client.createCollection({
      name: "walked",
      dense_vector: { enabled: true, dimension },
    });
    await walked.createDenseIndex({
      distance_metric_type: "cosine",
      quantization: { type: "auto", properties: { sample_threshold: 100 } },
    });
    await walked.upsert(notes(500).map(({ id, dense_values, metadata }) => ({ id, dense_values, metadata })));
    await walked.waitForIndex();
    const tab = await openTab();
    const { page } = tab;
    await tab.go("collections/walked/map");
    await page.getByLabel("Layout").getByText("PCA").click();
    await page.getByRole("button", { name: "Draw" }).click();
    await page.getByText("500 of 500 records").waitFor();
    const before = await pictureOf(page);
    const query = page.getByLabel("Search like a record (its id), or for a vector");
    await query.focus();
    await page.keyboard.type("note-00012");
    await page.keyboard.press("Tab");
    await page.keyboard.press("ControlOrMeta+a");
    await page.keyboard.type("40");
    await page.keyboard.press("Enter");
    const way = page.getByRole("region", { name: "The way of a search" });
    const options = { top_k: 10, ef_search: 40, explain: true, walk: true };
    const { results, legs, walk } = await walked.neighbors("note-00012", options);
    const edges = walk?.visits.filter(({ from }) => from !== null).length ?? 0;
    expect(edges).toBeGreaterThan(60);
    const told = `With a beam of ${legs?.dense?.beam} the search visited ${legs?.dense?.visited} vectors and computed ${legs?.dense?.distances} distances. ${edges} of its steps are on the map.`;
    await way.getByRole("status").getByText(told).waitFor();
    expect(await way.getByRole("listitem").first().textContent()).toContain(results[0].id);
    // The edges are seen: with less motion at once.
    await expect.poll(async () => changed(page, before, await pictureOf(page))).toBeGreaterThan(2_000);
    const whole = changed(page, before, await pictureOf(page));
    await way.getByRole("button", { name: "Clear" }).focus();
    await page.keyboard.press("Enter");
    await expect.poll(async () => changed(page, before, await pictureOf(page))).toBe(0);
    // Otherwise they appear one after the other.
    await page.emulateMedia({ reducedMotion: "no-preference" });
    // The time of the page goes on only here: however long the machine takes, the drawing is at its first second.
    await page.clock.install();
    await page.clock.pauseAt(Date.now() + 3_600_000);
    await way.getByRole("button", { name: "Show the way" }).click();
    await way.getByRole("status").waitFor();
    await page.clock.runFor(1_000);
    const part = await changed(page, before, await pictureOf(page));
    expect(part).toBeGreaterThan(100);
    expect(part).toBeLessThan(0.8 * (await whole));
    await page.clock.runFor(3_000);
    expect(await changed(page, before, await pictureOf(page))).toBe(await whole);
    await page.clock.resume();
    await query.fill("[0, 1]");
    await way.getByRole("button", { name: "Show the way" }).click();
    await way.getByRole("alert").getByText("the collection's dimension is 64").waitFor();
    await client.deleteCollection("walked");
  });

  test("[U9] the map arranges records by UMAP, and shows how far it is", async () => {
    const tab = await openTab();
    await tab.go("collections/notes/map");
    await tab.page.getByText(/^UMAP, \d+ %$/).waitFor();
    await tab.page.getByText("597 of 597 records").waitFor({ timeout: 90_000 });
  });

  test("[U10] versions are a time line, and follow commits", async () => {
    const tab = await openTab();
    const { page } = tab;
    await tab.go("collections/notes/versions");
    const { current_version, versions } = await client.collection("notes").versions();
    await page.getByRole("img", { name: `${versions.length} versions from` }).waitFor();
    const current = page.getByRole("row").filter({ hasText: "current" });
    expect(await current.getByRole("cell").first().textContent()).toContain(String(current_version));
    await client.collection("notes").upsert(notes(1, 90_001));
    await expect
      .poll(() => current.getByRole("cell").first().textContent())
      .toContain(String(current_version + 1));
    await client.collection("notes").delete("note-90001");
  });

  test("[U10] transactions show their states and operations, and an open one can be ended", async () => {
    const collection = await client.createCollection({
      name: "ledger",
      dense_vector: { enabled: true, dimension: 2 },
    });
    const open = await collection.transaction();
    await open.upsert([
      { id: "a", dense_values: [1, 0] },
      { id: "b", dense_values: [0, 1] },
    ]);
    const tab = await openTab();
    await tab.go("collections/ledger/transactions");
    const row = tab.page.getByRole("row").filter({ hasText: open.id });
    await row.getByText("open", { exact: true }).waitFor();
    expect(await row.getByRole("cell").nth(3).textContent()).toBe("2");
    await row.getByRole("button", { name: "Commit" }).click();
    await tab.page.getByRole("dialog").getByRole("button", { name: "Commit" }).click();
    await row.getByText("complete").waitFor();
    expect((await collection.describe()).vectors_count).toBe(2);
    const second = await collection.transaction();
    const next = tab.page.getByRole("row").filter({ hasText: second.id });
    await next.getByRole("button", { name: "Abort" }).click();
    await tab.page.getByRole("dialog").getByRole("button", { name: "Abort" }).click();
    await next.getByText("aborted").waitFor();
    await client.deleteCollection("ledger");
  });

  test("a collection that does not exist is told in the words of the console, with a way to the others", async () => {
    const tab = await openTab();
    const { page } = tab;
    for (const place of ["collections/nowhere", "collections/nowhere/search"]) {
      await tab.go(place);
      await page.getByRole("heading", { name: "There is no collection nowhere" }).waitFor();
      expect(await page.getByText(/GET |POST |collection_not_found/).count()).toBe(0);
    }
    await page.getByRole("main").getByRole("link", { name: "All collections" }).click();
    await page.getByRole("link", { name: "notes" }).waitFor();
    // It is shown as soon as there is one, and no longer when it is deleted.
    await tab.go("collections/nowhere");
    await client.createCollection({ name: "nowhere", tf_idf_options: { enabled: true } });
    await page.getByRole("navigation", { name: "Collection" }).waitFor();
    await client.deleteCollection("nowhere");
    await page.getByRole("heading", { name: "There is no collection nowhere" }).waitFor();
  });

  test("the metrics of one reading are those of a second, not of 1 seconds", async () => {
    const tab = await openTab();
    const { page } = tab;
    let readings = 0;
    // A server that has just started has no other.
    await page.route("**/metrics/last-hour", (route) => route.fulfill({ json: { times: [], series: [] } }));
    await page.route("**/metrics", (route) => (readings++ === 0 ? route.continue() : route.abort()));
    await tab.go("metrics");
    await page
      .getByText(/, the last 1 second$/)
      .first()
      .waitFor();
  });

  test("[U9] the map shows the record under the pointer, and lights the hits of a search", async () => {
    const tab = await openTab();
    const { page } = tab;
    await tab.go("collections/notes/search?kind=text&text=bee");
    await page.getByText("results in").waitFor();
    await page.getByRole("link", { name: "Show on the map" }).click();
    const { results } = await client.collection("notes").search.text({ query: "bee" });
    await page.getByRole("status").getByText(`${results.length} hits of the search`).waitFor();
    await page.getByLabel("Layout").getByText("PCA").click();
    await page.getByRole("button", { name: "Draw" }).click();
    await page.getByText("597 of 597 records").waitFor();
    const rings = page.locator(".mark.hit");
    expect(await rings.evaluateAll((all) => all.map((each) => (each as HTMLElement).dataset.id))).toEqual(
      results.map(({ id }) => id),
    );
    const lit = await pictureOf(page);
    const ring = await rings.first().boundingBox();
    if (ring === null) throw new Error("a hit has no ring");
    await page.mouse.move(ring.x + ring.width / 2, ring.y + ring.height / 2);
    const tip = page.getByRole("tooltip");
    await tip.getByText(/^note-\d{5}$/).waitFor();
    await tip.getByText("subject").waitFor();
    await page.mouse.move(2, 2);
    await tip.waitFor({ state: "detached" });
    await page.getByRole("link", { name: "Light all records" }).click();
    await rings.first().waitFor({ state: "detached" });
    expect(await changed(page, lit, await pictureOf(page))).toBeGreaterThan(1_000);
  });

  test("[U9] a map of many records shows the first ones while it reads the others", async () => {
    const many = await client.createCollection({
      name: "many",
      dense_vector: { enabled: true, dimension: 2 },
    });
    await many.upsert(
      Array.from({ length: 2_500 }, (_, i) => ({ id: `r${i}`, dense_values: [i % 50, i % 7] })),
    );
    const tab = await openTab();
    const { page } = tab;
    const isOver = Promise.withResolvers<void>();
    let asked = 0;
    await page.context().route("**/vectors/scroll", async (route) => {
      if (asked++ > 0) await isOver.promise;
      await route.continue();
    });
    await tab.go("collections/many/map");
    await page.getByRole("application", { name: "Map of 2,000 records" }).waitFor();
    isOver.resolve();
    await page.getByRole("application", { name: "Map of 2,500 records" }).waitFor();
    await client.deleteCollection("many");
  });

  test("[U9] the drawing of a map can be stopped, and begun again", async () => {
    const tab = await openTab();
    const { page } = tab;
    const isAsked = Promise.withResolvers<void>();
    const isOver = Promise.withResolvers<void>();
    await page.context().route("**/vectors/scroll", async (route) => {
      isAsked.resolve();
      await isOver.promise;
      await route.continue().catch(() => undefined);
    });
    await tab.go("collections/notes/map");
    await isAsked.promise;
    await page.getByRole("button", { name: "Stop" }).click();
    await page.getByRole("status").getByText("Stopped").waitFor();
    isOver.resolve();
    expect(await page.getByRole("button", { name: "Stop" }).count()).toBe(0);
    await page.getByRole("button", { name: "Draw" }).click();
    await page.getByText("597 of 597 records").waitFor();
  });

  test("[U10] the page of metrics begins with what the server has counted before", async () => {
    const { results } = await client.collection("notes").search.text({ query: "bee" });
    expect(results.length).toBeGreaterThan(0);
    const tab = await openTab();
    const { page } = tab;
    await page.route("**/metrics", (route) => route.abort());
    await tab.go("metrics");
    const drawn = (name: RegExp) => page.getByRole("img", { name }).waitFor();
    await drawn(/^Searches: .*text [\d.]+\/s/);
    await page
      .getByRole("listitem")
      .filter({ hasText: /^text [\d.]+ m?s$/ })
      .waitFor();
    await drawn(/^Slow requests: above 100 ms [\d.]+ a minute, above 1 s [\d.]+ a minute/);
    await drawn(/^Memory: process [\d.]+ MiB, indexes [\d.]+ [KM]iB, JavaScript [\d.]+ MiB, request bodies/);
    await drawn(/^Indexed: .*notes 100 %/);
  });

  test("[U10] metrics are drawn from what the server counts", async () => {
    const tab = await openTab();
    await tab.go("metrics");
    const memory = tab.page.getByRole("img", { name: /^Memory: process [\d.]+ MiB/ });
    await memory.waitFor();
    await tab.page.getByRole("img", { name: /^Requests: answered [\d.]+\/s/ }).waitFor();
    await tab.page.getByRole("img", { name: /^Records: notes/ }).waitFor();
  });

  test("[U10] the nodes of a cluster are a table, with how far each is", async () => {
    const tab = await openTab();
    const { page } = tab;
    const gauges = `quiver_cluster_node_alive{node="n1"} 1
quiver_cluster_node_alive{node="n2"} 0
quiver_cluster_node_alive{node="n3"} 1
quiver_cluster_catalog_position{node="n1"} 12
quiver_cluster_catalog_position{node="n3"} 12
quiver_cluster_log_position{node="n1"} 1500
quiver_cluster_log_position{node="n3"} 1437
quiver_cluster_collections_copied{node="n1"} 0
quiver_cluster_collections_copied{node="n3"} 1
quiver_cluster_shards{node="n3"} 17
quiver_cluster_copied_bytes{node="n3",collection="docs#2"} 3000000
quiver_cluster_copy_size_bytes{node="n3",collection="docs#2"} 4000000
quiver_cluster_publish_seconds 0.004
quiver_cluster_collections_diverged 0
`;
    await page.route("**/metrics", async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, body: (await response.text()) + gauges });
    });
    await tab.go("metrics");
    const row = (node: string) => page.getByRole("row").filter({ hasText: node });
    await row("n1").getByText("alive").waitFor();
    await row("n2").getByText("away").waitFor();
    await row("n3").getByText("63", { exact: true }).waitFor();
    await row("n3").getByText("17", { exact: true }).waitFor();
    await page.getByRole("progressbar", { name: "Copying docs#2 to n3" }).waitFor();
    await page.getByText("The log acknowledges a message in 4").waitFor();
  });

  test("[U10] a key is made, shown once, and revoked; the audit log has it", async () => {
    const tab = await openTab();
    const { page } = tab;
    await tab.go("keys");
    await page.getByRole("button", { name: "New key" }).click();
    await page.getByRole("dialog").getByRole("textbox", { name: "Name", exact: true }).fill("web shop");
    await page.getByRole("dialog").getByLabel("Only these collections").fill("notes");
    await page.getByRole("dialog").getByRole("button", { name: "Create" }).click();
    const key = await page.getByLabel("The key", { exact: true }).inputValue();
    expect(await connect(server.url, { apiKey: key }).listCollections()).toHaveLength(1);
    await page.getByRole("dialog").getByRole("button", { name: "Close" }).click();
    expect(await page.content()).not.toContain(key);
    await page.getByRole("button", { name: "Revoke web shop" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await page
      .getByRole("row")
      .filter({ hasText: "web shop" })
      .filter({ hasText: "never" })
      .waitFor({ state: "detached" });
    await page.getByRole("row").filter({ hasText: "revokeKey" }).filter({ hasText: "done" }).waitFor();
  });

  test("[U10] the REST page sends every operation, with an example of its body", async () => {
    const tab = await openTab();
    const { page } = tab;
    await tab.go("rest");
    await page.getByRole("button", { name: "Send" }).click();
    await page.getByRole("status").getByText("200 OK").waitFor();
    await page.getByRole("region", { name: "Answer" }).getByText('"name": "notes"').waitFor();
    await page.getByLabel("Find an operation").fill("analyze");
    await page.getByRole("button", { name: /Show the terms/ }).click();
    await page.getByLabel("collection_id").fill("notes");
    const body = page.getByLabel("Body (JSON)");
    expect(JSON.parse(await body.inputValue())).toHaveProperty("text");
    await body.fill('{"text": "dancing bees"}');
    await page.getByRole("button", { name: "Send" }).click();
    await page.getByRole("region", { name: "Answer" }).getByText('"term": "danc"').waitFor();
  });

  const pages = [
    "collections",
    "collections/notes/overview",
    "collections/notes/search?like=note-00012",
    "collections/notes/records?id=note-00012",
    "collections/notes/map",
    "collections/notes/versions",
    "collections/notes/transactions",
    "metrics",
    "keys",
    "rest",
  ];

  for (const [look, width] of [
    ["light", 1280],
    ["dark", 390],
  ] as const) {
    test(`[U11] every page is accessible and can be read, ${look}, ${width} pixels wide`, async () => {
      const tab = await openTab(null, look);
      const { page } = tab;
      await page.setViewportSize({ width, height: 860 });
      const findings: unknown[] = [];
      const inspect = async (where: string, of = page) => {
        expect([where, await of.evaluate("document.documentElement.scrollWidth - innerWidth")]).toEqual([
          where,
          0,
        ]);
        if (width < 640) {
          // Each row is a card: nothing is cut off, or has to be scrolled to.
          const wide = `[...document.querySelectorAll("main *")].filter((each) => each.scrollWidth > each.clientWidth + 1 &&
            ["auto", "scroll"].includes(getComputedStyle(each).overflowX) && !["PRE", "TEXTAREA"].includes(each.tagName)).map((each) => each.outerHTML)`;
          expect([where, await of.evaluate(wide)]).toEqual([where, []]);
          const unnamed = `[...document.querySelectorAll("td:not(:empty)")].filter((cell) =>
            !cell.matches(":has(button)") && getComputedStyle(cell, "::before").content === "none").length`;
          expect([where, await of.evaluate(unnamed)]).toEqual([where, 0]);
        }
        await of.evaluate(axe);
        const run = `axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"] })`;
        const { violations } = (await of.evaluate(run)) as {
          violations: { id: string; nodes: { html: string; failureSummary: string }[] }[];
        };
        findings.push(
          ...violations.map(({ id, nodes }) => [where, id, nodes[0].html, nodes[0].failureSummary]),
        );
      };
      await page.getByLabel("Key").waitFor();
      await inspect("sign in");
      await tab.signIn(adminKey);
      for (const path of pages) {
        await tab.go(path);
        await page.getByText("Loading…").first().waitFor({ state: "detached" });
        await page.getByRole("heading", { level: 1 }).waitFor();
        await inspect(path);
      }
      await tab.go("collections");
      await page.getByRole("button", { name: "New collection" }).click();
      await inspect("a dialog");
      await page.keyboard.press("Escape");
      await page.getByRole("button", { name: "Import a file" }).click();
      await inspect("the dialog of an import");
      await tab.go("collections/notes/records");
      await page.getByRole("button", { name: "Add a record" }).click();
      await inspect("a new record");
      await page.keyboard.press("Escape");
      await page.getByLabel("Filter").fill("year > 2000 and");
      await page.getByRole("button", { name: "Show", exact: true }).click();
      await page.getByRole("alert").waitFor();
      await inspect("a filter that is wrong");
      await page.getByLabel("Filter").fill("year > 2000");
      await page.getByRole("button", { name: "Show", exact: true }).click();
      await page.getByRole("button", { name: "Delete all that match" }).click();
      await inspect("a deletion by filter");
      await page.keyboard.press("Escape");
      await tab.go("collections/notes/map?kind=text&text=bee");
      await page.getByText("hits of").waitFor();
      await inspect("a map with the hits of a search");
      await tab.go("collections/notes/search?kind=hybrid&legs=dense,text&text=bee&like=note-00012");
      await page.getByText("Copy as TypeScript or curl").click();
      await page.getByText("Why").first().click();
      await inspect("a search that has found something");
      await page.getByLabel("Filter").fill("{");
      await page.getByRole("button", { name: "Search" }).click();
      await page.getByRole("alert").waitFor();
      await inspect("a search that is wrong");
      const empty = await startTestServer();
      const first = (await openTab(adminKey, look, empty)).page;
      await first.setViewportSize({ width, height: 860 });
      await first.getByRole("button", { name: "Load the sample" }).waitFor();
      await inspect("a first visit", first);
      await first.getByRole("button", { name: "Load the sample" }).click();
      await first.getByRole("button", { name: "Remove the sample" }).waitFor();
      await inspect("the sample", first);
      await empty.end();
      await first.getByRole("alert").waitFor();
      await inspect("a server that does not answer", first);
      expect(findings).toEqual([]);
      const ground = await page.evaluate("getComputedStyle(document.body).backgroundColor");
      expect(ground).toBe(look === "dark" ? "rgb(17, 18, 24)" : "rgb(246, 246, 250)");
    });
  }

  test("[U11] everything is done by keyboard: signing in, going to a page, searching, a dialog", async () => {
    const { page } = await openTab(null);
    const focused = () =>
      page.evaluate("document.activeElement?.textContent || document.activeElement?.ariaLabel || ''");
    const tabTo = async (label: string) => {
      for (let presses = 0; presses < 60; presses++) {
        await page.keyboard.press("Tab");
        if (String(await focused()).trim() === label) return;
      }
      throw new Error(`the keyboard does not reach ${label}`);
    };
    // The field gets the focus.
    await page.locator("input:focus").waitFor();
    await page.keyboard.type(adminKey);
    await page.keyboard.press("Enter");
    await page.getByRole("link", { name: "notes" }).waitFor();
    await tabTo("notes");
    await page.keyboard.press("Enter");
    await page.getByRole("navigation", { name: "Collection" }).waitFor();
    await tabTo("Search");
    await page.keyboard.press("Enter");
    await page.getByRole("form", { name: "Search" }).waitFor();
    await page.getByRole("textbox", { name: "Text" }).focus();
    await page.keyboard.type("honey");
    await page.keyboard.press("Enter");
    await page.getByText("results in").waitFor();
    await page.keyboard.press("Shift+Tab");
    await page.keyboard.press("ArrowLeft");
    await page.getByLabel("Sparse: index:value").or(page.getByLabel("Id of the record")).first().waitFor();
    await page.goto(`${server.url}/#/collections`);
    await page.getByRole("button", { name: "New collection" }).waitFor();
    await tabTo("New collection");
    await page.keyboard.press("Enter");
    await page.getByRole("dialog").waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
  });

  test("[U11] the first visit and the code of a search work by keyboard", async () => {
    const empty = await startTestServer();
    try {
      const { page } = await openTab(adminKey, "light", empty);
      const press = async (label: string) => {
        for (let presses = 0; presses < 80; presses++) {
          const isThere = await page.evaluate(
            (wanted) => document.activeElement?.textContent?.trim() === wanted,
            label,
          );
          if (isThere) return page.keyboard.press("Enter");
          await page.keyboard.press("Tab");
        }
        throw new Error(`the keyboard does not reach ${label}`);
      };
      await page.getByText("There are no collections yet").waitFor();
      await press("Choose a file");
      await page.getByRole("dialog").waitFor();
      await page.keyboard.press("Escape");
      await page.getByRole("dialog").waitFor({ state: "detached" });
      await press("Copy as TypeScript");
      await page.getByText(/Copied|the code is selected/).waitFor();
      await press("Load the sample");
      await page.getByRole("button", { name: "Remove the sample" }).waitFor();
      await press("Texts about the way home");
      await page.getByText("results in").waitFor();
      await press("Copy as TypeScript or curl");
      await press("Copy as TypeScript");
      await page.getByText(/Copied|the code is selected/).waitFor();
      await page.goto(`${empty.url}/#/collections`);
      await page.getByRole("button", { name: "Remove the sample" }).waitFor();
      await press("Remove the sample");
      await page.getByText("There are no collections yet").waitFor();
    } finally {
      await empty.end();
    }
  });

  test("[U12] a key that may only read sees the data, and is told that it may not change it", async () => {
    const { key } = await client.createKey({ name: "reader", role: "read" });
    const before = await server.fingerprint("notes");
    const tab = await openTab(key);
    const { page } = tab;
    for (const path of pages.filter((each) => each !== "keys")) {
      await tab.go(path);
      await page.getByText("Loading…").first().waitFor({ state: "detached" });
      expect([path, await page.getByRole("alert").allTextContents()]).toEqual([path, []]);
    }
    await tab.go("keys");
    await page.getByRole("alert").getByText("This key may not do that").first().waitFor();
    await tab.go("collections");
    await page.getByRole("button", { name: "New collection" }).click();
    await page.getByRole("dialog").getByRole("textbox", { name: "Name", exact: true }).fill("forbidden");
    await page.getByRole("dialog").getByRole("button", { name: "Create" }).click();
    await page.getByRole("alert").getByText("This key may not do that").waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Delete notes" }).click();
    await page.getByRole("dialog").getByLabel("to confirm").fill("notes");
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await page.getByRole("alert").getByText("This key may not do that").waitFor();
    expect(await server.fingerprint("notes")).toEqual(before);
  });

  test("[U12] a key that is limited to records sees only those", async () => {
    const { key } = await client.createKey({ name: "musician", role: "read", filter: { subject: "music" } });
    const tab = await openTab(key);
    const { page } = tab;
    await page.getByRole("link", { name: "notes" }).waitFor();
    await tab.go("collections/notes/records");
    await expect
      .poll(async () => (await page.getByRole("table").getByRole("link").allTextContents()).slice(0, 2))
      .toEqual(["note-00010", "note-00016"]);
  });
});
