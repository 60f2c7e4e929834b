// HTTPS: what a start needs, and what happens when the certificate changes under a running server.
//
// The self-signed certificates were created only for these tests.

import {
  copyFileSync,
  mkdtempSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { request } from "node:https";
import { connect as connectPlain } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect, type TLSSocket } from "node:tls";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ConfigError, type ServerConfig } from "../src/config.ts";
import type { RunningServer } from "../src/running-server.ts";
import { startServer } from "../src/server.ts";

const from = (name: string) => join(import.meta.dirname, "certificates", name);
const adminKey = "test-admin-key";

let folder: string;
let cert: string;
let key: string;
let server: RunningServer | undefined;
let log: string[];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "quiver-tls-"));
  cert = join(folder, "cert.pem");
  key = join(folder, "key.pem");
  put("first");
  log = [];
  server = undefined;
});
afterEach(async () => {
  await server?.close();
  rmSync(folder, { recursive: true, force: true });
});

function put(name: "first" | "second"): void {
  copyFileSync(from(`${name}-cert.pem`), cert);
  copyFileSync(from(`${name}-key.pem`), key);
}

async function start(config: Partial<ServerConfig> = {}): Promise<RunningServer> {
  const logger = pino({ level: "trace" }, { write: (line: string) => void log.push(line) });
  const files = { tlsCert: cert, tlsKey: key };
  server = await startServer({
    dataDir: join(folder, "data"),
    port: 0,
    adminKey,
    logger,
    ...files,
    ...config,
  });
  return server;
}

/** A connection and the name in its certificate. */
async function handshake(): Promise<{ socket: TLSSocket; owner: string }> {
  const socket = connect({ port: server?.port, host: "127.0.0.1", rejectUnauthorized: false });
  socket.on("error", () => {});
  await new Promise((resolve, reject) => socket.once("secureConnect", resolve).once("error", reject));
  return { socket, owner: socket.getPeerX509Certificate()?.subject ?? "" };
}
async function owner(): Promise<string> {
  const { socket, owner } = await handshake();
  socket.destroy();
  return owner;
}

/** GET of a path, with the key. */
function get(path: string): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    const sent = request(
      {
        port: server?.port,
        path,
        host: "127.0.0.1",
        rejectUnauthorized: false,
        headers: { authorization: `Bearer ${adminKey}` },
      },
      (response) => {
        let body = "";
        response.setEncoding("utf8").on("data", (text) => {
          body += text;
        });
        response.once("end", () => resolve({ status: response.statusCode ?? 0, body }));
      },
    );
    sent.once("error", reject).end();
  });
}

describe("a start", () => {
  test("[A15] with a certificate the server accepts only HTTPS", async () => {
    const { url, port } = await start();
    expect(url).toBe(`https://127.0.0.1:${port}`);
    expect(await get("/vectordb/collections")).toEqual({ status: 200, body: '{"collections":[]}' });
    await expect(fetch(`http://127.0.0.1:${port}/health/live`)).rejects.toThrow();
    // Clients reject an untrusted certificate.
    await expect(fetch(`${url}/health/live`)).rejects.toMatchObject({
      cause: { code: "DEPTH_ZERO_SELF_SIGNED_CERT" },
    });
    const old = connect({
      port,
      host: "127.0.0.1",
      rejectUnauthorized: false,
      maxVersion: "TLSv1.1",
      minVersion: "TLSv1",
    });
    await expect(
      new Promise((resolve, reject) => old.once("secureConnect", resolve).once("error", reject)),
    ).rejects.toThrow();
  });

  test.each([
    ["tlsCert", "cannot be read (ENOENT)", () => unlinkSync(cert)],
    ["tlsKey", "cannot be read (ENOENT)", () => unlinkSync(key)],
    ["tlsCert", "is not a certificate in PEM format", () => writeFileSync(cert, "certificate")],
    ["tlsKey", "is not a private key without a passphrase", () => writeFileSync(key, "secret words")],
    [
      "tlsKey",
      "is not a private key without a passphrase",
      () => copyFileSync(from("encrypted-key.pem"), key),
    ],
    ["tlsKey", "is not the key of the certificate", () => copyFileSync(from("second-key.pem"), key)],
  ])("[A15] a %s that %s prevents it, before anything is created", async (option, words, spoil) => {
    spoil();
    const refused = await start().catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(ConfigError);
    expect((refused as ConfigError).option).toBe(option);
    expect((refused as ConfigError).message).toContain(words);
    expect((refused as ConfigError).message).not.toContain("secret words");
    expect(() => renameSync(join(folder, "data"), join(folder, "moved"))).toThrow("ENOENT");
  });

  test("[A15] one of the two files alone is rejected", async () => {
    for (const missing of ["tlsCert", "tlsKey"] as const)
      await expect(start({ [missing]: undefined })).rejects.toThrow(`without ${missing}`);
  });

  test("[A15] an expired or not yet valid certificate is used, with a warning", async () => {
    await start({ clock: () => Date.UTC(2200, 1) });
    expect(log.join("")).toContain("the certificate is not valid today");
  });
});

describe("a change", () => {
  const patience = { timeout: 30_000, interval: 200 };

  test("[A15] new connections get the new certificate, old ones continue", async () => {
    await start();
    const { socket, owner: first } = await handshake();
    expect(first).toBe("CN=quiver test first");
    put("second");
    await expect.poll(owner, patience).toBe("CN=quiver test second");
    const answered = new Promise<string>((resolve) =>
      socket.once("data", (bytes) => resolve(bytes.toString())),
    );
    socket.write("GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(await answered).toContain("200 OK");
    socket.destroy();
    expect((await get("/vectordb/collections")).status).toBe(200);
  });

  test("[A15] a mismatched or missing pair changes nothing until it is complete", async () => {
    await start();
    copyFileSync(from("second-cert.pem"), cert);
    await expect.poll(() => log.join(""), patience).toContain("the new certificate cannot be used");
    expect(await owner()).toBe("CN=quiver test first");
    unlinkSync(cert);
    await expect.poll(() => log.join(""), patience).toContain("the certificate cannot be read any more");
    expect(await owner()).toBe("CN=quiver test first");
    put("second");
    await expect.poll(owner, patience).toBe("CN=quiver test second");
    expect(log.join("")).not.toContain("PRIVATE KEY");
  });

  test("[A15] a changed symbolic link is detected, too", async () => {
    for (const [path, kind] of [
      [cert, "cert"],
      [key, "key"],
    ]) {
      unlinkSync(path);
      symlinkSync(from(`first-${kind}.pem`), path);
    }
    await start();
    for (const [path, kind] of [
      [cert, "cert"],
      [key, "key"],
    ]) {
      symlinkSync(from(`second-${kind}.pem`), `${path}.new`);
      renameSync(`${path}.new`, path);
    }
    await expect.poll(owner, patience).toBe("CN=quiver test second");
  });
});

describe("a stop", () => {
  test("[H18] closes unused connections before and after their handshake", async () => {
    // A request in progress would have had an hour.
    const { port } = await start({ closeTimeoutMs: 3_600_000 });
    const beforeHandshake = connectPlain({ port, host: "127.0.0.1" });
    await new Promise((resolve) => beforeHandshake.once("connect", resolve));
    const { socket } = await handshake();
    const ended = [beforeHandshake, socket].map((each) => {
      each.on("error", () => {});
      each.resume();
      return new Promise((resolve) => each.once("close", resolve));
    });
    await server?.close();
    await Promise.all(ended);
  });
});
