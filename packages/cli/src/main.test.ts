// The command line from the user's view: real processes, a real server, real files.

import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import { connect, createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { gunzipSync, gzipSync } from "node:zlib";
import { createClient, type QuiverClient } from "@quiverdb/client";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const main = join(import.meta.dirname, "../dist/main.js");
/** For what depends on which modules are loaded. */
const sources = join(import.meta.dirname, "main.ts");
const adminKey = "cli-test-key";

type Result = { code: number | null; out: string; err: string };
type Running = { child: ChildProcess; ended: Promise<Result> };

let folder: string;
let server: Running & { url: string };
let client: QuiverClient;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "quiver-cli-"));
  server = await serve(["--data-dir", join(folder, "data")], { QUIVER_ADMIN_KEY: adminKey });
  client = createClient({ url: server.url, apiKey: adminKey });
});
afterAll(async () => {
  server.child.kill("SIGTERM");
  expect((await server.ended).code).toBe(0);
  rmSync(folder, { recursive: true });
});

/** An environment without variables that the developer may have set. */
function cleanEnv(more: Record<string, string> = {}): Record<string, string | undefined> {
  const others = Object.entries(process.env).filter(([name]) => !name.startsWith("QUIVER_"));
  return { ...Object.fromEntries(others), ...more };
}

function start(
  args: readonly string[],
  options: {
    env?: Record<string, string>;
    cwd?: string;
    input?: string;
    nodeFlags?: string[];
    program?: string;
  } = {},
): Running {
  const child = spawn(process.execPath, [...(options.nodeFlags ?? []), options.program ?? main, ...args], {
    env: cleanEnv(options.env),
    cwd: options.cwd ?? folder,
  });
  child.stdin.on("error", () => undefined).end(options.input ?? "");
  let out = "";
  let err = "";
  child.stdout.setEncoding("utf8").on("data", (text) => {
    out += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text) => {
    err += text;
  });
  const ended = new Promise<Result>((done) => child.once("close", (code) => done({ code, out, err })));
  return { child, ended };
}

/** Runs a command without a server. */
const quiver = (...args: string[]): Promise<Result> => start(args).ended;

/** Runs a client command against the server of these tests. */
const ask = (args: readonly string[], input?: string): Promise<Result> =>
  start(args, { input, env: { QUIVER_URL: server.url, QUIVER_API_KEY: adminKey } }).ended;

async function serve(
  args: readonly string[],
  env: Record<string, string> = {},
  cwd?: string,
): Promise<Running & { url: string; lines: string[] }> {
  const running = start(["serve", "--port", "0", "--log-level", "warn", ...args], { env, cwd });
  const lines: string[] = [];
  const url = await new Promise<string>((found, failed) => {
    createInterface({ input: running.child.stdout as NodeJS.ReadableStream }).on("line", (line) => {
      lines.push(line);
      const match = /http:\/\/127\.0\.0\.1:\d+$/.exec(line);
      if (match) found(match[0]);
    });
    void running.ended.then(({ code, err }) => failed(new Error(`the server ended with ${code}: ${err}`)));
  });
  await createClient({ url }).waitUntilReady({ timeoutMs: 30_000 });
  return { ...running, url, lines };
}

async function listen(): Promise<{ port: number; other: Server }> {
  const other = createServer();
  await new Promise<void>((ready) => other.listen(0, "127.0.0.1", ready));
  return { port: (other.address() as { port: number }).port, other };
}

/** A port on which nothing listens. */
async function freePort(): Promise<number> {
  const { port, other } = await listen();
  await new Promise((closed) => other.close(closed));
  return port;
}

const file = (name: string, content: string | Uint8Array): string => {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
};

const recordLines = (count: number, more = ""): string =>
  Array.from({ length: count }, (_, i) => `{"id":"r${i}","dense_values":[${i},1]${more}}\n`).join("");

describe("filters", () => {
  it("select records in search, export and count, and what is deleted", async () => {
    const lines = ["red", "blue", "red"].map((color, i) =>
      JSON.stringify({ id: `r${i}`, dense_values: [1, i], metadata: { color, n: i } }),
    );
    await client.createCollection({
      name: "filtered",
      dense_vector: { enabled: true, dimension: 2, auto_create_index: true },
    });
    await ask(["import", "filtered", "-"], lines.join("\n"));
    const where = ["--where", "color = 'red' and n >= 1"];
    expect(await ask(["count", "filtered", ...where])).toMatchObject({ code: 0, out: "1\n" });
    expect(await ask(["count", "filtered", "--json"])).toMatchObject({ code: 0, out: '{"count":3}\n' });
    expect(await ask(["facets", "filtered", "color", "n", "--limit", "2"])).toMatchObject({
      code: 0,
      out: "color\t2\tred\ncolor\t1\tblue\nn\t1\t0\nn\t1\t1\n",
    });
    expect(await ask(["facets", "filtered", "color", "--json", ...where])).toMatchObject({
      code: 0,
      out: '{"facets":{"color":[{"value":"red","count":1}]}}\n',
    });
    expect((await ask(["search", "filtered", "--vector", "[1,0]", ...where])).out).toMatch(
      /^1\t[\d.]+\tr2\n$/,
    );
    expect((await ask(["export", "filtered", "--filter", '{"color":"red","n":2}'])).out).toMatch(
      /^\{"id":"r2".*\n$/,
    );
    for (const wrong of [
      ["--where", "colour = 'red'"],
      ["--filter", '{"colour":"red"}', "--explain"],
    ]) {
      const nothing = await ask(["search", "filtered", "--vector", "[1,0]", ...wrong]);
      expect(nothing, wrong[0]).toEqual({
        code: 0,
        out: "",
        err: 'No results.\nNo record was found with a field "colour" (did you mean color?). Records have: color, n.\n',
      });
    }
    const warned =
      'No record was found with a field "colour" (did you mean color?). Records have: color, n.\n';
    const elsewhere = ["--where", "colour = 'red'"];
    const counted = await ask(["count", "filtered", ...elsewhere, "--json"]);
    expect(counted).toMatchObject({ code: 0, err: warned });
    expect(JSON.parse(counted.out)).toMatchObject({
      count: 0,
      warnings: [{ code: "absent_field", path: "filter.field" }],
    });
    expect(await ask(["delete", "filtered", ...elsewhere, "--yes"])).toEqual({
      code: 0,
      out: "Deleted 0 records.\n",
      err: warned,
    });
    expect((await ask(["search", "filtered", "--vector", "[1,0]", "--where", "n > 9"])).err).toBe(
      "No results.\n",
    );
    const misspelt = await ask(["count", "filtered", "--where", "color = red"]);
    expect(misspelt).toMatchObject({ code: 2, out: "" });
    expect(misspelt.err).toContain("  color = red\n          ^\n");
    expect(await ask(["delete", "filtered"])).toMatchObject({ code: 2 });
    const unconfirmed = await ask(["delete", "filtered", ...where]);
    expect(unconfirmed).toMatchObject({ code: 2 });
    expect(unconfirmed.err).toContain("would permanently delete 1 record");
    expect((await ask(["delete", "filtered", ...where, "--yes"])).out).toBe("Deleted 1 record.\n");
    expect(await ask(["count", "filtered"])).toMatchObject({ out: "2\n" });
    const change = ["update", "filtered", "--set", '{"color":"green","n":null}', "--where", "color = 'blue'"];
    const asked = await ask(change);
    expect(asked).toMatchObject({ code: 2, out: "" });
    expect(asked.err).toContain("would change 1 record");
    expect((await ask([...change, "--yes"])).out).toBe("Changed 1 record.\n");
    expect(JSON.parse((await ask(["get", "filtered", "r1"])).out).metadata).toEqual({ color: "green" });
    expect(await ask(["update", "filtered", "--set", "[1]", ...where, "--yes"])).toMatchObject({ code: 2 });
    expect((await ask(["fields", "filtered"])).err).toContain("fields declare filtered FIELD keyword");
    expect(await ask(["fields", "declare", "filtered", "color", "colour"])).toMatchObject({ code: 2 });
    const declared = await ask(["fields", "declare", "filtered", "color", "keyword", "--wait"]);
    expect(declared).toMatchObject({ code: 0 });
    expect(declared.out).toMatch(/^Declared color .* as keyword\./);
    expect((await ask(["fields", "filtered"])).out).toMatch(/^color\tkeyword\tready\t100\.0%\t/);
    expect((await ask(["fields", "drop", "filtered", "color"])).code).toBe(0);
    expect(JSON.parse((await ask(["fields", "filtered", "--json"])).out)).toEqual([]);
    // What the preview says is what --yes does: without any condition, nothing.
    for (const every of [
      ["--where", "true"],
      ["--where", "not (false)"],
      ["--filter", "{}"],
      ["--filter", '{"And":[{"or":[]}]}'],
    ]) {
      const [preview, confirmed] = [
        await ask(["delete", "filtered", ...every]),
        await ask(["delete", "filtered", ...every, "--yes"]),
      ];
      expect(preview).toEqual(confirmed);
      expect(preview).toMatchObject({ code: 2, out: "" });
      expect(preview.err).toContain("--where 'id exists'");
    }
    const all = ["delete", "filtered", "--where", "id exists"];
    expect((await ask(all)).err).toContain("would permanently delete 2 records");
    expect((await ask([...all, "--yes"])).out).toBe("Deleted 2 records.\n");
  });
});

describe("help and wrong usage", () => {
  it("every command has help, and help exits with 0", async () => {
    const root = await quiver("--help");
    expect(root.code).toBe(0);
    const commands = [...root.out.matchAll(/^ {2}([a-z]+) /gm)].map(([, name]) => name);
    for (const name of [
      "serve",
      "collections",
      "index",
      "import",
      "export",
      "search",
      "get",
      "versions",
      "transactions",
    ]) {
      expect(commands).toContain(name);
      const help = await quiver(name, "--help");
      expect(help.code).toBe(0);
      expect(help.out).toContain(`Usage: quiver ${name}`);
    }
  });

  it("a command loads what it needs alone", async () => {
    const hooks =
      'import{registerHooks}from"node:module";import{writeSync}from"node:fs";' +
      'registerHooks({load(url,context,next){writeSync(2,url+"\\n");return next(url,context)}})';
    const nodeFlags = ["--import", `data:text/javascript,${encodeURIComponent(hooks)}`];
    const env = { QUIVER_URL: server.url, QUIVER_API_KEY: adminKey };
    for (const args of [
      ["--version"],
      ["--help"],
      ["collections"],
      ["search", "--help"],
      ["import", "--help"],
      ["help", "count"],
    ]) {
      const { code, err } = await start(args, { program: sources, nodeFlags, env }).ended;
      expect(code).toBe(0);
      expect(err).toContain("/cli/src/program.ts");
      expect(err, args.join(" ")).not.toMatch(/node_modules\/(typebox|cli-progress|lmdb|fastify)\//);
    }
  });

  it("serve's help lists every flag with its variable and default", async () => {
    const { out } = await quiver("serve", "--help");
    const words = out.replaceAll(/\s+/g, " ");
    expect(words).toContain(
      "--port <number> TCP port; 0 selects a free one (env: QUIVER_PORT, default: 8443)",
    );
    expect(words).toContain("(env: QUIVER_DATA_DIR, default: ./quiver-data)");
    expect(words).toContain("(env: QUIVER_NO_AUTH, default: off)");
    expect(words).toContain("quiver.config.json");
  });

  it.each([
    [["serve", "--prot", "9000"], "Did you mean --port?"],
    [["serve", "--data_dir=x"], "Did you mean --data-dir?"],
    [["import", "c", "f", "--dimensions", "3"], "Did you mean --dimension?"],
    [["import", "c", "f", "--dry"], "unknown option '--dry'. See quiver import --help."],
    [["colections"], "Did you mean quiver collections?"],
    [["frobnicate"], "unknown command 'frobnicate'. See quiver --help."],
    [["collections", "creat"], "Did you mean quiver collections create?"],
    [["index", "creat", "c", "dense"], "Did you mean quiver index create?"],
    [["serve", "--port", "http"], '--port "http": expected a whole number'],
    [["serve", "--no-auth", "--host", "0.0.0.0"], "--no-auth: noAuth would open the database"],
    [["serve", "--config", "missing.json"], "--config missing.json: cannot read"],
    [["import", "c"], "missing required argument"],
    [["import", "c", "f", "--batch-size", "0"], "at least 1"],
    [["index", "create", "c", "text", "--stop-words", "@missing.txt"], "no such file"],
    [["search", "c"], "give --text, --vector or --sparse"],
    [["search", "c", "--vector", "[1,"], "--vector is not JSON"],
    [["search", "c", "--text", "x", "--recall-target", "0.9"], "for a search with --vector"],
    [["collections", "create", "c"], "Nothing is enabled"],
  ])("%j exits with 2 and advice", async (args, message) => {
    const { code, err, out } = await quiver(...args);
    expect(err).toContain(message);
    expect(code).toBe(2);
    expect(out).toBe("");
    expect(err).not.toMatch(/^ {4}at /m);
  });
});

describe("quiver serve", () => {
  it("prefers flags over environment over file, and reports a generated key once", async () => {
    const cwd = mkdtempSync(join(folder, "serve-"));
    writeFileSync(
      join(cwd, "quiver.config.json"),
      '{"dataDir": "from-file", "logLevel": "error", "bodyLimit": "2KiB"}',
    );
    const env = { QUIVER_DATA_DIR: join(cwd, "from-env"), QUIVER_LOG_LEVEL: "silent" };
    const first = await serve([], env, cwd);
    try {
      expect(existsSync(join(cwd, "from-env"))).toBe(true);
      expect(existsSync(join(cwd, "from-file"))).toBe(false);
      const keyFile = join(cwd, "from-env", "admin-key");
      expect(first.lines.join("\n")).toContain("generated and written to");
      expect(statSync(keyFile).mode & 0o777).toBe(0o600);
      const keyed = createClient({ url: first.url, apiKey: readFileSync(keyFile, "utf8") });
      await keyed.createCollection({ name: "kept", tf_idf_options: { enabled: true } });
      const large = keyed.collection("kept").upsert({ id: "a", text: "x".repeat(3_000) });
      await expect(large).rejects.toMatchObject({ code: "body_too_large", status: 413 });
    } finally {
      first.child.kill("SIGTERM");
    }
    expect((await first.ended).code).toBe(0);

    const second = await serve(
      ["--data-dir", join(cwd, "from-env")],
      { QUIVER_DATA_DIR: join(cwd, "wrong") },
      cwd,
    );
    expect(second.lines.join("\n")).not.toContain("generated and written to");
    second.child.kill("SIGINT");
    const { code, out } = await second.ended;
    expect(code).toBe(0);
    expect(out).toContain("Stopped.");
    expect(existsSync(join(cwd, "wrong"))).toBe(false);
  });

  it("names the unknown key of a file", async () => {
    const cwd = mkdtempSync(join(folder, "serve-"));
    writeFileSync(join(cwd, "quiver.config.json"), '{"prot": 1}');
    const { code, err } = await start(["serve"], { cwd }).ended;
    expect(code).toBe(2);
    expect(err).toContain('quiver.config.json: unknown key "prot"; did you mean port?');
  });

  it("reports a port in use", async () => {
    const { port, other } = await listen();
    const { code, err } = await quiver(
      "serve",
      "--port",
      String(port),
      "--data-dir",
      join(folder, "unused"),
      "--no-auth",
    );
    other.close();
    expect(code).toBe(1);
    expect(err).toMatch(new RegExp(`^quiver: .*port ${port} .* in use`, "m"));
    expect(err).not.toMatch(/^ {4}at /m);
    // No data directory and no key are left behind.
    expect(existsSync(join(folder, "unused"))).toBe(false);
  });

  it("finishes an upload in progress, and a second signal does not wait for it", async () => {
    const upload = async (name: string) => {
      const running = await serve(["--data-dir", join(folder, name), "--no-auth"]);
      const uploads = createClient({ url: running.url });
      await uploads.createCollection({ name: "u", tf_idf_options: { enabled: true } });
      const body = '{"vectors":[{"id":"a","text":"begun before the signal"}]}';
      const socket = connect(Number(new URL(running.url).port), "127.0.0.1");
      socket.write(
        `POST /vectordb/collections/u/streaming/upsert HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body.slice(0, 20)}`,
      );
      // The request has been accepted when its beginning has certainly been read.
      await uploads.listCollections();
      await new Promise((done) => setTimeout(done, 200));
      running.child.kill("SIGTERM");
      while (!running.lines.some((line) => line.startsWith("Stopping")))
        await new Promise((done) => setTimeout(done, 5));
      return { running, socket, rest: body.slice(20) };
    };

    const patient = await upload("patient");
    patient.socket.write(patient.rest);
    const answer = await new Promise<string>((done) =>
      patient.socket.once("data", (data) => done(String(data))),
    );
    expect(answer).toMatch(/^HTTP\/1\.1 200 /);
    expect((await patient.running.ended).code).toBe(0);

    const impatient = await upload("impatient");
    impatient.running.child.kill("SIGTERM");
    const { code, err } = await impatient.running.ended;
    expect([code, err]).toEqual([130, expect.stringContaining("stopped at once by a second signal")]);
    impatient.socket.destroy();
  });

  it("refuses a data directory that another server has open", async () => {
    const { code, err } = await quiver(
      "serve",
      "--port",
      "0",
      "--data-dir",
      join(folder, "data"),
      "--no-auth",
    );
    expect(code).toBe(1);
    expect(err).toMatch(/^quiver: /m);
    expect(err).not.toMatch(/^ {4}at /m);
  });
});

describe("collections, indexes, records", () => {
  it("are created, used and deleted", async () => {
    const created = await ask([
      "collections",
      "create",
      "life",
      "--dimension",
      "2",
      "--sparse",
      "--text",
      "--store-raw-text",
      "--json",
    ]);
    expect(JSON.parse(created.out)).toMatchObject({ name: "life", store_raw_text: true, vectors_count: 0 });
    for (const kind of ["dense", "sparse", "text"]) {
      expect((await ask(["index", "create", "life", kind, "--wait"])).code).toBe(0);
    }
    const line =
      '{"id":"a","dense_values":[1,0],"sparse_values":[[3,1]],"text":"bees dance","metadata":{"n":9007199254740993}}';
    expect((await ask(["import", "life", "-", "--json"], `${line}\n`)).code).toBe(0);
    expect((await ask(["get", "life", "a"])).out).toContain('"metadata":{"n":9007199254740993}');

    const searches = [
      ["--vector", "[1,0]"],
      ["--sparse", '{"3":1}'],
      ["--sparse", "[[3,1]]"],
      ["--text", "bee"],
      ["--text", "bee", "--vector", "[1,0]"],
      ["--text", "bee", "--vector", "[1,0]", "--sparse", '{"3":1}', "--raw-text"],
    ];
    for (const query of searches) {
      const { out, code } = await ask(["search", "life", ...query, "--json"]);
      expect(code).toBe(0);
      expect(JSON.parse(out).results.map(({ id }: { id: string }) => id)).toEqual(["a"]);
    }
    // Without a terminal, columns are separated by tabs.
    expect((await ask(["search", "life", "--text", "bee", "--raw-text"])).out).toMatch(
      /^1\t\d\.\d{4}\ta\tbees dance\n$/,
    );

    expect((await ask(["index", "show", "life"])).out.split("\n")[0]).toMatch(
      /^dense\tdense\tready\t100\.0%\t1\t/,
    );
    const explained = await ask(["search", "life", "--text", "bees", "--sparse", "[[3,2]]", "--explain"]);
    expect(explained.out).toMatch(
      /^1\t0\.0328\ta\tsparse #1 2\.0000 = 3 2\.0000; text #1 (\d\.\d{4}) = bee \1\n$/,
    );
    expect((await ask(["index", "analyze", "life", "The bees dance"])).out).toBe(
      "0\tthe\t\ta stop word\n1\tbees\tbee\t\n2\tdance\tdanc\t\n",
    );
    expect(JSON.parse((await ask(["index", "analyze", "life", "Bees", "--json"])).out)).toEqual({
      language: "english",
      terms: [{ position: 0, word: "bees", term: "bee", dropped: null }],
    });
    expect(JSON.parse((await ask(["versions", "life", "--json"])).out).versions).toHaveLength(2);
    expect((await ask(["versions", "copy", "life", "draft"])).out).toBe('"draft" has 1 record.\n');
    await client.collection("draft").patch("a", { changed: true });
    expect((await ask(["versions", "merge", "life", "draft"])).out).toBe(
      "Version 2: 0 added, 1 changed, 0 removed, 0 conflicts.\n",
    );
    await client.collection("draft").patch("a", { by: "draft" });
    await client.collection("life").patch("a", { by: "life" });
    const conflict = await ask(["versions", "merge", "life", "draft"]);
    expect([conflict.code, conflict.err]).toEqual([1, expect.stringContaining("changed on both sides")]);
    const merged = await ask(["versions", "merge", "life", "draft", "--on-conflict", "theirs", "--json"]);
    expect(JSON.parse(merged.out)).toMatchObject({ changed: 1, conflicts: [{ id: "a" }] });
    expect((await ask(["collections", "alias", "alive", "life"])).out).toBe('"alive" stands for "life".\n');
    expect((await ask(["collections", "aliases"])).out).toBe("alive\tlife\n");
    expect((await ask(["get", "alive", "a"])).out).toContain('"by":"draft"');
    expect((await ask(["collections", "unalias", "alive"])).code).toBe(0);
    expect((await ask(["collections", "delete", "draft", "--yes"])).code).toBe(0);
    expect((await ask(["collections", "show", "life"])).out).toMatch(/^records +1$/m);
    expect((await ask(["collections"])).out).toMatch(/^life\tyes\t1\t2\tyes\tyes\t\d+\t\d+\t$/m);
    const listed = JSON.parse((await ask(["collections", "--json"])).out);
    expect(listed.find(({ name }: { name: string }) => name === "life")).toMatchObject({
      vectors_count: 1,
      dense_vector: { dimension: 2 },
      loaded: true,
      memory_bytes: expect.any(Number),
      disk_bytes: expect.any(Number),
    });
    expect((await ask(["collections", "show", "life"])).out).toMatch(/^on disk +[\d.]+ [KM]iB$/m);
    expect((await ask(["collections", "unload", "life"])).code).toBe(0);
    expect((await ask(["collections", "load", "life"])).code).toBe(0);
    expect((await ask(["index", "delete", "life", "sparse"])).code).toBe(0);

    const ownWords = async (list: string) => {
      expect((await ask(["index", "delete", "life", "text"])).code).toBe(0);
      const created = await ask(["index", "create", "life", "text", "--stop-words", list, "--json"]);
      return JSON.parse(created.out).stop_words;
    };
    expect(await ownWords("dance, The")).toEqual(["dance", "The"]);
    expect((await ask(["search", "life", "--text", "dance", "--json"])).out).toContain('"results":[]');
    expect(await ownWords(`@${file("words.txt", "the\r\n10,000\n\n")}`)).toEqual(["the", "10,000"]);
    expect(await ownWords("")).toEqual([]);

    const unsure = await ask(["collections", "delete", "life"]);
    expect([unsure.code, unsure.err]).toEqual([2, expect.stringContaining("its 1 record permanently")]);
    expect((await ask(["collections", "delete", "life", "--yes"])).code).toBe(0);
    expect((await ask(["get", "life", "a"])).code).toBe(1);
  });

  it("show, commit and abort transactions that others have left open", async () => {
    const left = await client.createCollection({ name: "left", tf_idf_options: { enabled: true } });
    const first = await left.transaction();
    await first.upsert({ id: "a", text: "x" });
    expect((await ask(["transactions", "left"])).out).toMatch(new RegExp(`^${first.id}\\t.*\\topen\\t1\\t0`));
    expect((await ask(["transactions", "commit", "left", first.id])).code).toBe(0);
    expect(await left.has("a")).toBe(true);
    const second = await left.transaction();
    expect((await ask(["transactions", "abort", "left", second.id])).code).toBe(0);
    const again = await ask(["transactions", "abort", "left", second.id, "--json"]);
    expect(again.code).toBe(1);
    expect(JSON.parse(again.err)).toMatchObject({ error: { code: "transaction_not_open" } });
  });

  it("search with operators", async () => {
    const hive = await client.createCollection({
      name: "hive",
      dense_vector: { enabled: true, dimension: 2 },
      tf_idf_options: { enabled: true },
    });
    await hive.createDenseIndex({ distance_metric_type: "cosine" });
    const created = await ask(["index", "create", "hive", "text", "--positions", "--json"]);
    expect(JSON.parse(created.out).positions).toBe(true);
    await hive.upsert([
      { id: "a", text: "bees dance", dense_values: [1, 0] },
      { id: "b", text: "dance, bees", dense_values: [0, 1] },
    ]);
    const search = (text: string, syntax: string, ...more: string[]) =>
      ask(["search", "hive", "--text", text, "--syntax", syntax, ...more]);
    expect((await search('"bees dance"', "operators")).out).toMatch(/^1\t\d\.\d{4}\ta\n$/);
    expect((await search('"bees dance"', "plain")).out.split("\n")).toHaveLength(3);
    const hybrid = await search('"bees dance"', "operators", "--vector", "[0,1]", "--explain");
    expect(hybrid.out).toMatch(/\ta\tdense #2 .*; text #1 .*\n.*\tb\tdense #1 [\d.]+\n$/);
    const open = await search('bees "dance', "operators");
    expect([open.code, open.err]).toEqual([1, expect.stringContaining("position 5")]);
    expect((await search("bees", "lucene")).code).toBe(2);
  });

  it("load nothing of the engine, nor anything else of which a client has no use", async () => {
    const printing = `import { registerHooks } from "node:module";
      registerHooks({ load(url, context, next) { process.stderr.write(url + "\\n"); return next(url, context); } });`;
    const nodeFlags = ["--import", `data:text/javascript,${encodeURIComponent(printing)}`];
    const env = { QUIVER_URL: server.url, QUIVER_API_KEY: adminKey };
    for (const args of [["collections", "list"], ["search", "filtered", "--text", "x"], ["--help"]]) {
      const { err } = await start(args, { program: sources, env, nodeFlags }).ended;
      const loaded = err.split("\n").filter((line) => line.startsWith("file:"));
      expect(loaded.length).toBeGreaterThan(30);
      const foreign =
        /\/(engine|kernels|database|lmdb|fastify|pino|typebox|csv-parse|hyparquet|cli-progress)\//;
      expect(loaded.filter((url) => foreign.test(url))).toEqual([]);
    }
  });

  it("report clearly what is wrong with the server or the key", async () => {
    const wrongKey = await start(["collections", "--url", server.url, "--api-key", "wrong"]).ended;
    expect([wrongKey.code, wrongKey.err]).toEqual([1, expect.stringMatching(/^quiver: .*key/)]);
    const noKey = await start(["collections", "--url", server.url]).ended;
    expect([noKey.code, noKey.err]).toEqual([1, expect.stringContaining("--api-key-file")]);
    const url = `http://127.0.0.1:${await freePort()}`;
    const nobody = await start(["collections", "--url", url]).ended;
    expect([nobody.code, nobody.err]).toEqual([
      1,
      expect.stringContaining(`No server answers at ${url} (ECONNREFUSED)`),
    ]);
    expect(nobody.err).toContain("quiver serve");
    const asJson = await start(["collections", "--url", url, "--json"]).ended;
    expect(JSON.parse(asJson.err).error).toMatchObject({ code: "connection_failed", details: { url } });
    const keyFile = file("key", `${adminKey}\n`);
    expect((await start(["collections", "--url", server.url, "--api-key-file", keyFile]).ended).code).toBe(0);
  });
});

describe("a directory without a server", () => {
  it("[P3] every command opens it with --data-dir, and a server that has it open is named", async () => {
    const directory = join(folder, "own data");
    const own = (...args: string[]) =>
      start([...args, "--data-dir", directory], { env: { QUIVER_URL: server.url } }).ended;
    const missing = await own("collections", "list");
    expect([missing.code, missing.err]).toEqual([2, expect.stringContaining("there is no such directory")]);
    expect(existsSync(directory)).toBe(false);
    const records = file("own.jsonl", recordLines(20, ',"text":"Bees dance","metadata":{"n":1}'));
    expect(await own("collections", "create", "own", "--dimension", "2", "--text")).toMatchObject({
      code: 0,
      err: "",
    });
    expect((await own("index", "create", "own", "text")).code).toBe(0);
    expect((await own("import", "own", records)).code).toBe(0);
    expect((await own("count", "own", "--where", "n = 1")).out.trim()).toBe("20");
    const found = JSON.parse((await own("search", "own", "--text", "bee", "--top-k", "3", "--json")).out);
    expect(found.results).toHaveLength(3);
    expect(JSON.parse((await own("get", "own", "r7")).out).dense_values).toEqual([7, 1]);
    expect((await own("export", "own", "--output", join(folder, "own.out.jsonl"))).code).toBe(0);
    expect(readFileSync(join(folder, "own.out.jsonl"), "utf8").split("\n")).toHaveLength(21);
    const keys = await own("keys", "list");
    expect([keys.code, keys.err]).toEqual([2, expect.stringContaining("belong to a server")]);
    const both = await own("collections", "list", "--url", server.url);
    expect([both.code, both.err]).toEqual([2, expect.stringContaining("Give --url or --data-dir, not both")]);
    const other = await serve(["--data-dir", directory], { QUIVER_ADMIN_KEY: adminKey });
    const inUse = await own("collections", "list");
    expect([inUse.code, inUse.err]).toEqual([
      1,
      expect.stringMatching(
        new RegExp(`in use by process ${other.child.pid} on host .* send it requests with --url`),
      ),
    ]);
    const inJson = await own("collections", "list", "--json");
    expect([inJson.code, JSON.parse(inJson.err).error]).toMatchObject([
      1,
      { code: "data_directory_in_use", details: { pid: other.child.pid } },
    ]);
    other.child.kill("SIGTERM");
    await other.ended;
  });

  it("[R16] with other files, or where nothing can be written, is refused by commands and by the server", async () => {
    const foreign = mkdtempSync(join(folder, "foreign-"));
    writeFileSync(join(foreign, "notes.txt"), "of somebody");
    const records = file("foreign.jsonl", recordLines(2));
    const commands = [
      ["collections", "list"],
      ["import", "c", records, "--create"],
      ["serve", "--port", "0", "--no-auth"],
    ];
    for (const args of commands) {
      const refused = await quiver(...args, "--data-dir", foreign);
      expect([refused.code, refused.out]).toEqual([1, ""]);
      expect(refused.err).toMatch(/^quiver: The directory .* it has "notes\.txt"\..* with --force\.\n$/);
      const inTheWay = await quiver(...args, "--data-dir", join(foreign, "notes.txt", "data"));
      // Commands that make no directory say that there is none.
      expect([inTheWay.code, inTheWay.out]).toEqual([args[0] === "collections" ? 2 : 1, ""]);
      if (args[0] !== "collections") expect(inTheWay.err).toMatch(/^quiver: .*notes\.txt is a file\. .*\n$/);
    }
    expect(readdirSync(foreign)).toEqual(["notes.txt"]);
    expect((await quiver("collections", "list", "--data-dir", foreign, "--force")).code).toBe(0);
    expect((await quiver("collections", "list", "--data-dir", foreign)).code).toBe(0);
    expect((await ask(["collections", "list", "--force"])).code).toBe(2);
  });
});

describe("errors of the server", () => {
  it("are told in commands and options of the command line", async () => {
    await client.createCollection({
      name: "it's told",
      dense_vector: { enabled: true, dimension: 2 },
      sparse_vector: { enabled: true, auto_create_index: true },
      tf_idf_options: { enabled: true },
    });
    const name = "it's told";
    const cases: readonly (readonly [args: readonly string[], words: string])[] = [
      [["search", name, "--vector", "[1,0]"], "quiver index create 'it'\\''s told' dense"],
      [["search", name, "--text", "x"], "quiver index create 'it'\\''s told' text"],
      [["search", "nothing", "--text", "x"], '"quiver collections create nothing"'],
      [["import", "nothing", file("lone.jsonl", '{"id":"a"}\n')], '"quiver import nothing FILE --create"'],
      [["index", "create", name, "sparse"], '"quiver index delete COLLECTION sparse"'],
      [["transactions", "abort", name, "1-0"], '"quiver transactions list COLLECTION"'],
      [["keys", "revoke", "0123"], '"quiver keys list"'],
      [["collections", "create", "wide", "--dimension", "70000"], "--dimension must be"],
      [["search", name, "--sparse", "[[1,1]]", "--threshold", "2"], "--threshold must be"],
      [["count", name, "--filter", '{"n":{"gt":true}}'], "In the filter, n.gt is a boolean"],
    ];
    for (const [args, words] of cases) {
      const { code, err } = await ask(args);
      expect(err).toContain(words);
      expect(code, args.join(" ")).toBe(1);
      expect(err).not.toMatch(/\b(GET|POST|PUT|PATCH|DELETE) |send it again| {4}at /);
    }
    await client.collection(name).createDenseIndex({ distance_metric_type: "cosine" });
    expect((await ask(["search", name, "--vector", "[1]"])).err).toBe(
      "quiver: --vector has 1 value, the collection's dimension is 2.\n",
    );
  });
});

describe("quiver import", () => {
  const report = ({ out }: Result) => JSON.parse(out);

  it.each(["--streaming", "--transaction"])("reads JSON Lines, plain and compressed, %s", async (mode) => {
    const name = `plain${mode}`;
    const files = [
      file("one.jsonl", recordLines(1_500)),
      file("two.jsonl.gz", gzipSync('{"id":"last","dense_values":[0,1]}')),
    ];
    const result = await ask(["import", name, ...files, mode, "--create", "--json"]);
    expect(result.code).toBe(0);
    expect(report(result)).toMatchObject({ records: 1_501, rejected: 0, outcome: "done", resumed: false });
    const collection = client.collection(name);
    expect((await collection.describe()).vectors_count).toBe(1_501);
    expect((await collection.get("r1499")).dense_values).toEqual([1_499, 1]);
    expect((await collection.indexes()).dense).toMatchObject({ distance_metric_type: "cosine" });
    expect(existsSync(`${files[0]}.quiver-import.json`)).toBe(false);
    // Without a terminal: no bar, no control characters.
    expect(result.err).not.toContain("\u001b");
  });

  it("reads .fvecs and .f32 with ids from a file or from row numbers", async () => {
    const rows = [
      [1, 2, 3],
      [-0.1, 1e-20, 7],
    ];
    const floats = rows.map((row) => Buffer.from(new Float32Array(row).buffer));
    const f32 = file("rows.f32", gzipSync(Buffer.concat(floats)));
    const fvecs = file(
      "rows.fvecs",
      Buffer.concat(floats.flatMap((row) => [Buffer.from(new Int32Array([3]).buffer), row])),
    );
    const ids = file("ids.txt", '"the first"\nsecond\n');
    expect(
      (await ask(["import", "rows", fvecs, "--create", "--metric", "euclidean", "--id-prefix", "v"])).code,
    ).toBe(0);
    expect((await ask(["import", "rows", f32, "--dimension", "3", "--ids", ids])).code).toBe(0);
    const collection = client.collection("rows");
    for (const [id, row] of [
      ["v0", 0],
      ["v1", 1],
      ["the first", 0],
      ["second", 1],
    ] as const) {
      expect((await collection.get(id)).dense_values).toEqual(rows[row].map(Math.fround));
    }
    expect((await collection.indexes()).dense?.distance_metric_type).toBe("euclidean");
    const unclear = await ask(["import", "rows", f32]);
    expect([unclear.code, unclear.err]).toEqual([2, expect.stringContaining("--dimension")]);
  });

  const faulty = [
    '{"id":"good0","dense_values":[1,2]}',
    '{"id":"short","dense_values":[1]}',
    "not json",
    "",
    '{"id":7,"dense_values":[1,2]}',
    '{"id":"good1","dense_values":[1,2]}',
    '{"id":"huge","dense_values":[1e999,2]}',
    '{"id":"empty"}',
    '{"id":"text","text":"not enabled"}',
    '{"id":"good2","dense_values":[3,4],"metadata":{"a":1}}',
  ].join("\n");

  it.each(["--streaming", "--transaction"])(
    "reports rejected lines with file, line and reason and imports the rest, %s",
    async (mode) => {
      const collection = await client.createCollection({
        name: `faulty${mode}`,
        dense_vector: { enabled: true, dimension: 2 },
      });
      const path = file("faulty.jsonl", faulty);
      const rejects = join(folder, "rejects.jsonl");
      const result = await ask(["import", collection.name, path, mode, "--rejects", rejects, "--json"]);
      expect(result.code).toBe(3);
      expect(report(result)).toMatchObject({ records: 3, rejected: 6 });
      expect(report(result).rejected_lines.map(({ line }: { line: number }) => line)).toEqual([
        2, 3, 5, 7, 8, 9,
      ]);
      expect(result.err).toContain(`${path}:2: rejected (invalid_vector): dense_values has 1 value`);
      expect(result.err).toContain(`${path}:3: rejected (invalid_json): is not JSON`);
      for (const i of [0, 1, 2]) expect(await collection.has(`good${i}`)).toBe(true);
      expect((await collection.describe()).vectors_count).toBe(3);
      const kept = readFileSync(rejects, "utf8")
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line.replace("1e999", "0")));
      expect(kept[0]).toMatchObject({ line: 2, code: "invalid_vector", record: { id: "short" } });
      expect(kept[1]).toMatchObject({ line: 3, raw: "not json" });
    },
  );

  it.each(["--streaming", "--transaction"])(
    "[E9] rejects lines with unknown fields, and with --ignore-unknown imports and counts them, %s",
    async (mode) => {
      const collection = await client.createCollection({
        name: `unknown${mode}`,
        dense_vector: { enabled: true, dimension: 2 },
      });
      const lines = [
        '{"id":"a","dense_values":[1,2],"metadta":{"n":1}}',
        '{"id":"b","dense_values":[1,2],"lang":"en","metadta":{"n":1}}',
        '{"id":"c","dense_values":[1,2],"metadata":{"lang":"en","n":9007199254740993}}',
      ];
      const path = file("unknown.jsonl", lines.join("\n"));
      const args = ["import", collection.name, path, mode];
      const strict = await ask([...args, "--json"]);
      expect(strict.code).toBe(3);
      expect(report(strict)).toMatchObject({ records: 1, rejected: 2, records_with_ignored_fields: 0 });
      expect(report(strict).rejected_lines[0]).toMatchObject({ line: 1, code: "unknown_field" });
      expect(strict.err).toContain(
        `${path}:1: rejected (unknown_field): metadta is not a known field; did you mean \`metadata\`?`,
      );
      expect((await collection.describe()).vectors_count).toBe(1);

      const lenient = await ask([...args, "--ignore-unknown", "--json"]);
      expect(lenient.code).toBe(0);
      expect(report(lenient)).toMatchObject({
        records: 3,
        rejected: 0,
        records_with_ignored_fields: 2,
        ignored_fields: [
          { field: "metadta", records: 2 },
          { field: "lang", records: 1 },
        ],
      });
      expect((await collection.get("b")).metadata).toBeNull();
      expect(await collection.getJson("c")).toContain('{"lang":"en","n":9007199254740993}');
      const told = await ask([...args, "--ignore-unknown"]);
      expect(told.out).toContain("Unknown fields were removed from 2 records: metadta (2), lang (1).");
    },
  );

  it("stops when too many lines are rejected; a transaction then stores nothing", async () => {
    const collection = await client.createCollection({
      name: "too-many",
      dense_vector: { enabled: true, dimension: 2 },
    });
    const path = file("faulty.jsonl", faulty);
    const result = await ask(["import", "too-many", path, "--transaction", "--max-rejects", "2"]);
    expect(result.code).toBe(1);
    expect(result.err).toContain("nothing of the import was stored in the collection");
    expect((await collection.describe()).vectors_count).toBe(0);
    expect((await collection.transactions())[0].status).toHaveProperty("Aborted");
    expect(existsSync(`${path}.quiver-import.json`)).toBe(false);
  });

  it.each(["--streaming", "--transaction"])(
    "that fails before anything is acknowledged leaves no state and no transaction, %s",
    async (mode) => {
      const name = `fails${mode}`;
      const collection = await client.createCollection({
        name,
        dense_vector: { enabled: true, dimension: 2 },
      });
      const path = file(`${name}.json`, "[}");
      const state = file(`${name}.json.quiver-import.json`, "of an earlier import");
      const result = await ask(["import", name, path, mode]);
      expect(result.code).toBe(1);
      expect(result.err).toContain("behind 0 items");
      expect(result.err).toContain(
        mode === "--transaction" ? "nothing of the import was stored" : "No record was acknowledged.",
      );
      expect(result.err).not.toContain("again to resume");
      expect(existsSync(state)).toBe(false);
      for (const { status } of await collection.transactions()) expect(status).toHaveProperty("Aborted");
    },
  );

  it.each(["printed.jsonl", "printed.json", "-"])(
    "refuses records over several lines as a whole, from %s",
    async (given) => {
      await client.createCollection({
        name: `printed ${given}`,
        dense_vector: { enabled: true, dimension: 2 },
      });
      const content = JSON.stringify({ id: "a", dense_values: [1, 2] }, null, 2);
      const source = given === "-" ? given : file(given, content);
      const result = await ask(["import", `printed ${given}`, source], content);
      expect(result.code).toBe(1);
      expect(result.out).toBe("");
      expect(result.err).toContain("begins with a JSON object that is written over several lines");
      expect(result.err).toContain("jq -c .");
      expect(
        result.err
          .trimEnd()
          .split("\n")
          .filter((line) => !line.startsWith("No record")).length,
      ).toBe(1);
    },
  );

  it("advises what to do when another transaction is open", async () => {
    const collection = await client.createCollection({
      name: "busy",
      dense_vector: { enabled: true, dimension: 2 },
    });
    await using _ = await collection.transaction();
    const result = await ask(["import", "busy", file("busy.jsonl", recordLines(1)), "--transaction"]);
    expect(result.code).toBe(1);
    expect(result.err).toContain("There is an on-going transaction!");
    expect(result.err).toContain("quiver transactions list busy");
  });

  it("lets the later of two lines with one id win, however many requests are in progress", async () => {
    const lines = Array.from(
      { length: 4_000 },
      (_, i) => `{"id":"s${i % 40}","dense_values":[${i},1]}\n`,
    ).join("");
    const path = file("same.jsonl", lines);
    const args = ["import", "same", path, "--create", "--batch-size", "10", "--concurrency", "8"];
    expect((await ask(args)).code).toBe(0);
    for (const i of [0, 17, 39]) {
      expect((await client.collection("same").get(`s${i}`)).dense_values).toEqual([3_960 + i, 1]);
    }
  });

  it("imports a file that is larger than its memory limit", async () => {
    const padding = "x".repeat(1_000);
    const lines = Array.from(
      { length: 60_000 },
      (_, i) => `{"id":"${i}","dense_values":[1],"metadata":{"p":"${padding}"}}\n`,
    );
    const path = file("large.jsonl.gz", gzipSync(lines.join(""), { level: 1 }));
    const result = await start(["import", "large", path, "--create", "--quiet", "--json"], {
      env: { QUIVER_URL: server.url, QUIVER_API_KEY: adminKey },
      nodeFlags: ["--max-old-space-size=40"],
    }).ended;
    expect(result.code).toBe(0);
    expect(report(result).records).toBe(60_000);
    await client.deleteCollection("large");
  });

  it.each(["--streaming", "--transaction"])("resumes after Ctrl-C where it stopped, %s", async (mode) => {
    const name = `interrupted${mode}`;
    const path = file(`${name}.jsonl`, recordLines(20_000));
    const args = [
      "import",
      name,
      path,
      mode,
      "--create",
      "--batch-size",
      "50",
      "--concurrency",
      "1",
      "--json",
    ];
    const env = { QUIVER_URL: server.url, QUIVER_API_KEY: adminKey };
    const first = start(args, { env });
    const state = `${path}.quiver-import.json`;
    const acknowledged = () => (existsSync(state) ? JSON.parse(readFileSync(state, "utf8")).acknowledged : 0);
    while (acknowledged() < 1_000) await new Promise((done) => setTimeout(done, 5));
    first.child.kill("SIGINT");
    const stopped = await first.ended;
    expect(stopped.code).toBe(130);
    expect(report(stopped)).toMatchObject({ outcome: "interrupted", state_file: state });
    const before = report(stopped).records;
    expect(acknowledged()).toBe(before);
    expect(before).toBeLessThan(20_000);
    const visible = (await client.collection(name).describe()).vectors_count;
    expect(visible).toBe(mode === "--streaming" ? before : 0);

    const second = await start(args, { env }).ended;
    expect(second.code).toBe(0);
    expect(second.err).toContain(`Resuming after line ${before.toLocaleString("en-US")}`);
    expect(report(second)).toMatchObject({
      records: 20_000,
      records_this_run: 20_000 - before,
      resumed: true,
    });
    expect((await client.collection(name).describe()).vectors_count).toBe(20_000);
    expect(existsSync(state)).toBe(false);
  });

  it("starts over, and says why, if the file or the collection differs, or on request", async () => {
    const path = file("changing.jsonl", `${recordLines(3)}{"id":"x"`);
    const args = ["import", "changing", path, "--create", "--max-rejects", "0", "--json"];
    // The last line is rejected, so the import fails and leaves the collection, but no saved state.
    expect((await ask(args)).code).toBe(1);
    const state = `${path}.quiver-import.json`;
    const interrupted = async () => {
      writeFileSync(path, recordLines(5_000));
      const run = start([...args, "--batch-size", "10", "--concurrency", "1"], {
        env: { QUIVER_URL: server.url, QUIVER_API_KEY: adminKey },
      });
      while (!existsSync(state) || JSON.parse(readFileSync(state, "utf8")).acknowledged < 100) {
        await new Promise((done) => setTimeout(done, 5));
      }
      run.child.kill("SIGTERM");
      expect((await run.ended).code).toBe(130);
    };

    await interrupted();
    writeFileSync(path, recordLines(10));
    const changed = await ask(args);
    expect(changed.err).toContain(`${path} has changed since. Starting from the beginning.`);
    expect(report(changed)).toMatchObject({ records: 10, resumed: false });

    await interrupted();
    await client.deleteCollection("changing");
    const recreated = await ask(args);
    expect(recreated.err).toContain("whether it is still the same collection. Starting from the beginning.");
    expect(report(recreated)).toMatchObject({ records: 5_000, resumed: false });
    expect((await client.collection("changing").describe()).vectors_count).toBe(5_000);

    await interrupted();
    expect(report(await ask([...args, "--no-resume"]))).toMatchObject({ records: 5_000, resumed: false });
  });

  it("fails with a saved state when the server stays down, and waits for one that restarts", async () => {
    const dataDir = join(folder, "restarted");
    const env = { QUIVER_ADMIN_KEY: adminKey };
    const first = await serve(["--data-dir", dataDir], env);
    const path = file("restart.jsonl", recordLines(10_000));
    const args = [
      "import",
      "restarted",
      path,
      "--create",
      "--url",
      first.url,
      "--api-key",
      adminKey,
      "--batch-size",
      "20",
      "--json",
    ];
    const importing = start([...args, "--retry-for", "30s"]);
    const state = `${path}.quiver-import.json`;
    while (!existsSync(state) || JSON.parse(readFileSync(state, "utf8")).acknowledged < 500) {
      await new Promise((done) => setTimeout(done, 5));
    }
    first.child.kill("SIGKILL");
    await first.ended;
    // It fails at once, with a saved state, if it may not wait.
    const impatient = await start([...args, "--retry-for", "0s", "--state", join(folder, "own-state.json")])
      .ended;
    expect(impatient.code).toBe(1);
    expect(JSON.parse(impatient.err.trim().split("\n").at(-1) as string).error.code).toBe(
      "connection_failed",
    );

    const port = new URL(first.url).port;
    const second = await serve(["--data-dir", dataDir, "--port", port], env);
    const result = await importing.ended;
    expect(result.err).toContain("Retrying for up to 30.0 s");
    expect(result.code).toBe(0);
    expect(report(result).records).toBe(10_000);
    second.child.kill("SIGTERM");
    expect((await second.ended).code).toBe(0);
  });
});

describe("quiver export", () => {
  it("writes what import reads back exactly", async () => {
    const original = await client.createCollection({
      name: "original",
      dense_vector: { enabled: true, dimension: 2 },
      sparse_vector: { enabled: true },
      tf_idf_options: { enabled: true },
      store_raw_text: true,
    });
    const lines = [
      '{"id":"a","document_id":"d","dense_values":[0.1,-2],"sparse_values":[[5,0.25],[4294967295,1]],"text":"ü \\u0000 \\"x\\"","metadata":{"n":9007199254740993,"x":1e999,"s":"\\ud83d\\ude00"}}',
      '{"id":"b","text":"only text"}',
      '{"id":"c","sparse_indices":[],"sparse_values":[],"text":"empty sparse"}',
    ];
    expect((await ask(["import", "original", "-"], lines.join("\n"))).code).toBe(0);
    const path = join(folder, "export.jsonl.gz");
    const exported = await ask(["export", "original", "--output", path, "--json"]);
    expect(exported.code).toBe(0);
    expect(JSON.parse(exported.err)).toMatchObject({ records: 3, version: 1 });
    expect(existsSync(`${path}.partial`)).toBe(false);
    const again = await ask(["export", "original", "--output", path]);
    expect([again.code, again.err]).toEqual([
      2,
      expect.stringContaining("exists. Name another file, or replace it with --overwrite."),
    ]);
    expect((await ask(["export", "original", "--output", path, "--overwrite"])).code).toBe(0);
    const copied = await ask(["import", "copy", path, "--create", "--store-raw-text", "--json"]);
    expect([copied.code, copied.err]).toEqual([0, ""]);
    const copy = client.collection("copy");
    for (const id of ["a", "b", "c"]) expect(await copy.getJson(id)).toBe(await original.getJson(id));
    const toStdout = await ask(["export", "copy"]);
    expect(toStdout.out).toBe(gunzipSync(readFileSync(path)).toString());
  });

  it("leaves no file when it is interrupted, and says so", async () => {
    // A server that has sent a part of the export and no more.
    const lines = '{"id":"a","dense_values":[0.10000000149011612]}\n'.repeat(5_000);
    const slow = createHttpServer((_request, response) => {
      response.writeHead(200, {
        "content-type": "application/x-ndjson",
        "x-quiver-version": "1",
        "x-quiver-count": "9999",
      });
      response.write(lines);
    });
    await new Promise<void>((ready) => slow.listen(0, "127.0.0.1", ready));
    try {
      const path = join(folder, "interrupted.jsonl");
      const url = `http://127.0.0.1:${(slow.address() as { port: number }).port}`;
      const running = start(["export", "slow", "--output", path], { env: { QUIVER_URL: url } });
      await expect
        .poll(() => existsSync(`${path}.partial`) && statSync(`${path}.partial`).size, { timeout: 20_000 })
        .toBeGreaterThan(0);
      expect(readFileSync(`${path}.partial`, "utf8")).toMatch(/^\{"id":"a","dense_values":\[0\.1\]\}\n/);
      running.child.kill("SIGINT");
      const { code, err, out } = await running.ended;
      expect([code, out]).toEqual([130, ""]);
      expect(err).toContain(`${path} was not written.`);
      expect(err).not.toMatch(/^ {4}at /m);
      expect([existsSync(path), existsSync(`${path}.partial`)]).toEqual([false, false]);
    } finally {
      slow.closeAllConnections();
      slow.close();
    }
  });

  it("leaves no file when it fails", async () => {
    const path = join(folder, "none.jsonl");
    const { code, err } = await ask(["export", "nobody", "--output", path]);
    expect(code).toBe(1);
    expect(err).toContain("nobody");
    expect(existsSync(path)).toBe(false);
  });
});
