// Keys and the audit log at the command line, and all of it over HTTPS: real processes, a real server.

import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const main = join(import.meta.dirname, "../../dist/main.js");
const certificates = join(import.meta.dirname, "../../../server/test/certificates");
const authority = join(certificates, "first-cert.pem");

let folder: string;
let server: { child: ChildProcess; url: string };

const environment = (more: Record<string, string | undefined>) => {
  const others = Object.entries(process.env).filter(([name]) => !name.startsWith("QUIVER_"));
  return { ...Object.fromEntries(others), ...more };
};

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "quiver-cli-keys-"));
  const files = ["--tls-cert", authority, "--tls-key", join(certificates, "first-key.pem")];
  const args = ["serve", "--port", "0", "--log-level", "warn", "--data-dir", join(folder, "data"), ...files];
  const child = spawn(process.execPath, [main, ...args], { env: environment({}), cwd: folder });
  const url = await new Promise<string>((found, failed) => {
    createInterface({ input: child.stdout }).on("line", (line) => {
      const match = /https:\/\/127\.0\.0\.1:\d+$/.exec(line);
      if (match) found(match[0]);
    });
    child.once("exit", (code) => failed(new Error(`the server ended with ${code}`)));
  });
  server = { child, url };
});
afterAll(async () => {
  const ended = new Promise((resolve) => server.child.once("exit", resolve));
  server.child.kill("SIGTERM");
  expect(await ended).toBe(0);
  rmSync(folder, { recursive: true });
});

/** Runs a client command; by default as the admin, and trusting the certificate. */
function ask(args: readonly string[], more: Record<string, string | undefined> = {}) {
  const admin = readFileSync(join(folder, "data", "admin-key"), "utf8").trim();
  const env = { QUIVER_URL: server.url, QUIVER_API_KEY: admin, NODE_EXTRA_CA_CERTS: authority, ...more };
  const child = spawn(process.execPath, [main, ...args], { env: environment(env), cwd: folder });
  child.stdin.end();
  const texts = { out: "", err: "" };
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    texts.out += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    texts.err += text;
  });
  return new Promise<{ code: number | null; out: string; err: string }>((resolve) =>
    child.once("close", (code) => resolve({ code, ...texts })),
  );
}

describe("quiver keys", () => {
  it("creates a key that a script can read from standard output, with the given permissions", async () => {
    expect((await ask(["collections", "create", "logs-1", "--dimension", "2"])).code).toBe(0);
    expect((await ask(["collections", "create", "other", "--dimension", "2"])).code).toBe(0);
    const made = await ask(
      [
        "keys",
        "create",
        "log reader",
        "--role",
        "read",
        "--collection",
        "a",
        "--collection",
        "logs-*",
      ].concat(["--expires", "30d"]),
    );
    expect(made.code, made.err).toBe(0);
    const key = made.out.trim();
    expect(key).toMatch(/^qk_[0-9a-f]{16}_[\w-]{43}$/);
    expect(made.err).toContain("role read, a logs-*, expires ");
    const asReader = { QUIVER_API_KEY: key };
    expect((await ask(["collections"], asReader)).out).toMatch(/^logs-1\tyes\t0\t2\tno\tno\t0\t\d+\t\n$/);
    const forbidden = await ask(["collections", "delete", "logs-1", "--yes"], asReader);
    expect([forbidden.code, forbidden.err]).toEqual([1, expect.stringContaining("needs the role admin")]);
    expect((await ask(["collections", "show", "other"], asReader)).err).toContain("has no access to");

    const [listed] = JSON.parse((await ask(["keys", "--json"])).out);
    expect(listed).toMatchObject({ name: "log reader", role: "read", collections: ["a", "logs-*"] });
    expect(listed.expires_at - listed.created_at).toBeGreaterThan(29 * 86_400);
    const table = (await ask(["keys", "list"])).out.trimEnd().split("\t");
    expect(table.slice(0, 3)).toEqual([listed.key_id, "log reader", "read"]);
    expect(table.join()).not.toContain(key);

    expect((await ask(["keys", "revoke", listed.key_id])).out).toBe(`Revoked ${listed.key_id}.\n`);
    expect((await ask(["collections"], asReader)).code).toBe(1);
    expect((await ask(["keys", "revoke", listed.key_id])).err).toContain("no API key with this id");
    const audit = JSON.parse((await ask(["audit", "--limit", "4", "--json"])).out);
    expect(
      audit.entries.map(({ operation, phase }: Record<string, string>) => `${operation} ${phase}`),
    ).toEqual(["revokeKey failed", "revokeKey begun", "revokeKey done", "revokeKey begun"]);
    const lines = (await ask(["audit", "--limit", "1"])).out;
    expect(lines).toContain(
      `admin-key\trevokeKey\tfailed: key_not_found\tkey_id=${listed.key_id}\t127.0.0.1\t`,
    );
  });

  it("creates a key for the records that match, which imports, searches, counts and exports them", async () => {
    expect((await ask(["collections", "create", "notes", "--text", "--store-raw-text"])).code).toBe(0);
    expect((await ask(["index", "create", "notes", "text"])).code).toBe(0);
    const line = (id: string, owner: string) => JSON.stringify({ id, text: "bees", metadata: { owner } });
    writeFileSync(join(folder, "own.jsonl"), `${line("a", "me")}\n`);
    writeFileSync(join(folder, "other.jsonl"), `${line("b", "they")}\n`);
    expect((await ask(["import", "notes", "other.jsonl"])).code).toBe(0);

    const made = await ask(["keys", "create", "mine", "--role", "write", "--where", "owner = 'me'"]);
    expect(made.code, made.err).toBe(0);
    expect(made.err).toContain('role write, all collections, where owner = "me", expires');
    const asOwner = { QUIVER_API_KEY: made.out.trim() };
    expect((await ask(["keys", "list"])).out).toContain('\twhere owner = "me"\n');
    expect((await ask(["import", "notes", "own.jsonl"], asOwner)).code).toBe(0);
    expect((await ask(["count", "notes"], asOwner)).out).toBe("1\n");
    expect((await ask(["count", "notes"])).out).toBe("2\n");
    expect((await ask(["search", "notes", "--text", "bee", "--json"], asOwner)).out).toContain('"id":"a"');
    expect((await ask(["export", "notes"], asOwner)).out).toMatch(/^\{"id":"a".*\}\n$/);
    expect((await ask(["get", "notes", "b"], asOwner)).err).toContain("no vector 'b'");
    expect((await ask(["versions", "notes"], asOwner)).err).toContain("filter of the key");
    const both = await ask(["keys", "create", "x", "--role", "read", "--where", "a = 1", "--filter", "{}"]);
    expect([both.code, both.err]).toEqual([2, expect.stringContaining("give one of them")]);
  });

  it("rejects wrong usage before it sends a request", async () => {
    const { code, err } = await ask(["keys", "create", "k"]);
    expect([code, err]).toEqual([2, expect.stringContaining("--role")]);
    const other = await ask(["keys", "create", "k", "--role", "owner"]);
    expect([other.code, other.err]).toEqual([2, expect.stringContaining("read, write, admin")]);
  });
});

it("an untrusted certificate is reported with advice, and the request is not retried", async () => {
  const { code, err } = await ask(["collections"], { NODE_EXTRA_CA_CERTS: undefined });
  expect(code).toBe(1);
  expect(err).toContain("DEPTH_ZERO_SELF_SIGNED_CERT");
  expect(err).toContain("NODE_EXTRA_CA_CERTS");
});
