// Authentication: keys, sessions, and what is stored of them.

import { mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Operation, type OperationName, operations } from "@quiverdb/engine/operations/operations";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ConfigError } from "../src/config.ts";
import { startServer } from "../src/server.ts";
import {
  adminKey,
  expectError,
  pathOf,
  rawHead,
  readAnswer,
  record,
  startTestServer,
  type TestServer,
} from "./running.ts";

const hour = 3_600_000;

async function inFreshDirectory(act: (dataDir: string) => Promise<void>): Promise<void> {
  const dataDir = await mkdtemp(join(tmpdir(), "quiver-auth-"));
  try {
    await act(dataDir);
  } finally {
    await rm(dataDir, { recursive: true, force: true });
  }
}

/** Runs a server on the directory and closes it again. */
async function withServer<T>(
  config: Parameters<typeof startTestServer>[0],
  act: (server: TestServer) => Promise<T>,
): Promise<T> {
  const server = await startTestServer(config);
  try {
    return await act(server);
  } finally {
    await server.close();
  }
}

const logIn = (server: TestServer, password = adminKey) =>
  server.ask("/auth/create-session", { body: { username: "admin", password }, key: null });

describe("the gate", () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await startTestServer();
    await server.makeCollection("c");
    await server.call("streamingUpsert", { collection_id: "c" }, { vectors: [record("v")] });
  });
  afterAll(() => server.end());

  const params = {
    collection_id: "c",
    vector_id: "v",
    transaction_id: "t",
    index_type: "dense",
    version_hash: "h",
  };
  const guarded = (Object.entries(operations) as [OperationName, Operation][]).filter(
    ([name]) => name !== "createSession",
  );

  test.each(guarded)("[A1] %s needs a key", async (name, route) => {
    const path = pathOf(name, params);
    const before = await server.fingerprint("c");
    const wrong = ["wrong", `${adminKey}x`, adminKey.slice(1), adminKey.toUpperCase()];
    for (const key of [null, ...wrong]) {
      const answer = await server.ask(path, {
        method: route.method,
        key,
        body: route.body ? { junk: true } : undefined,
      });
      expect(answer.status).toBe(401);
      expect(answer.headers.get("www-authenticate")).toBe("Bearer");
      if (route.method === "HEAD") expect(answer.text).toBe("");
      else expectError(answer, 401, "unauthorized");
    }
    expect(await server.fingerprint("c")).toEqual(before);
  });

  test("[A1] so do metrics, unknown paths, wrong methods and broken paths", async () => {
    for (const path of ["/metrics", "/nowhere", "/docs/nowhere", "/vectordb/collections/%zz", "/vectordb"]) {
      expectError(await server.ask(path, { key: null }), 401, "unauthorized");
    }
    expectError(
      await server.ask("/vectordb/collections", { method: "PATCH", key: null }),
      401,
      "unauthorized",
    );
  });

  test("[A1] health, documentation, the console and login need none", async () => {
    const open = [
      "/",
      "/health/live",
      "/health/ready",
      "/openapi.json",
      "/api-docs/openapi.json",
      "/docs/",
      "/docs/js/scalar.js",
      "/llms.txt",
    ];
    for (const path of open) {
      expect([path, (await server.ask(path, { key: null })).status]).toEqual([path, 200]);
      expect([path, (await server.ask(path, { key: "wrong" })).status]).toEqual([path, 200]);
    }
    expect((await server.ask("/docs", { key: null })).status).toBe(301);
    expect((await logIn(server)).status).toBe(200);
  });

  test("[A2] only the Bearer scheme is accepted, in upper or lower case", async () => {
    const headers = (authorization: string) => ({ key: null, headers: { authorization } });
    const path = "/vectordb/collections";
    for (const good of [`Bearer ${adminKey}`, `bearer ${adminKey}`, `BEARER  ${adminKey}`]) {
      expect((await server.ask(path, headers(good))).status).toBe(200);
    }
    for (const bad of [
      adminKey,
      `Basic ${adminKey}`,
      "Bearer",
      "Bearer ",
      `Bearer${adminKey}`,
      `Bearer ${adminKey} x`,
    ]) {
      expectError(await server.ask(path, headers(bad)), 401, "unauthorized");
    }
  });

  test("[A1] the key is checked before the body is read", async () => {
    const socket = await server.connect();
    socket.write(
      rawHead("POST", pathOf("streamingUpsert", params), { "Content-Length": 1_000_000 }).replace(
        adminKey,
        "wrong",
      ),
    );
    const answer = await readAnswer(socket);
    expect(answer?.status).toBe(401);
    socket.destroy();
  });

  test("[A6] wrong credentials are 400, and a password of the wrong type is not repeated", async () => {
    expectError(await logIn(server, "wrong"), 400, "invalid_credentials");
    expectError(await logIn(server, ""), 400, "invalid_credentials");
    const odd = await server.ask("/auth/create-session", {
      body: { username: "admin", password: 8675309 },
      key: null,
    });
    expect(expectError(odd, 400, "invalid_request").details.path).toBe("password");
    expect(odd.text).not.toContain("8675309");
  });

  test("[A5] a session's token works as a key, everywhere", async () => {
    const { access_token } = (await logIn(server)).json;
    expect((await server.ask("/metrics", { key: access_token })).status).toBe(200);
    const read = await server.ask(pathOf("getVector", params), { key: access_token });
    expect(read.json.id).toBe("v");
    expectError(await server.ask("/metrics", { key: `${access_token}x` }), 401, "unauthorized");
  });

  test("[A9] no secret is in the log or in an answer", async () => {
    const { access_token } = (await logIn(server)).json;
    await server.ask("/metrics", { key: access_token });
    await logIn(server, "a-wrong-password");
    await server.ask("/vectordb/collections", { key: "a-wrong-key" });
    for (const secret of [adminKey, access_token, "a-wrong-password", "a-wrong-key"]) {
      expect(server.logText()).not.toContain(secret);
    }
  });
});

describe("the generated key", () => {
  test("[A3] the first start generates a key, writes it readable only by its owner, and reports the file", () =>
    inFreshDirectory(async (dataDir) => {
      const file = join(dataDir, "admin-key");
      const key = await withServer({ dataDir, adminKey: undefined }, async (server) => {
        expect(server.adminKeyFile).toBe(file);
        expect((await stat(file)).mode & 0o777).toBe(0o600);
        const text = await readFile(file, "utf8");
        expect(text).toMatch(/^qv_[\w-]{43}\n$/);
        const made = text.trim();
        const lines = server.log.filter((line) => line.file === file);
        expect(lines).toHaveLength(1);
        expect(server.logText()).not.toContain(made);
        expect((await server.ask("/vectordb/collections", { key: made })).status).toBe(200);
        expectError(await server.ask("/vectordb/collections", { key: null }), 401);
        expect(JSON.stringify(server.database.credentials.entries(""))).not.toContain(made);
        return made;
      });
      await withServer({ dataDir, adminKey: undefined }, async (server) => {
        expect(server.adminKeyFile).toBeUndefined();
        expect((await readFile(file, "utf8")).trim()).toBe(key);
        expect((await server.ask("/vectordb/collections", { key })).status).toBe(200);
        expectError(await server.ask("/vectordb/collections", { key: `${key}x` }), 401);
      });
    }));

  test("[A3] a deleted key file locks nobody out, and an interrupted start generates a new key", () =>
    inFreshDirectory(async (dataDir) => {
      const file = join(dataDir, "admin-key");
      const key = await withServer({ dataDir, adminKey: undefined }, async () =>
        (await readFile(file, "utf8")).trim(),
      );
      await rm(file);
      await withServer({ dataDir, adminKey: undefined }, async (server) => {
        expect((await server.ask("/metrics", { key })).status).toBe(200);
        await server.database.credentials.delete("admin-key");
      });
      await withServer({ dataDir, adminKey: undefined }, async (server) => {
        const second = (await readFile(file, "utf8")).trim();
        expect(second).not.toBe(key);
        expect((await server.ask("/metrics", { key: second })).status).toBe(200);
        expectError(await server.ask("/metrics", { key }), 401);
      });
    }));

  test("[A4] a configured key is valid only for that run, and is not stored", () =>
    inFreshDirectory(async (dataDir) => {
      const generated = await withServer({ dataDir, adminKey: undefined }, async () =>
        (await readFile(join(dataDir, "admin-key"), "utf8")).trim(),
      );
      await withServer({ dataDir, adminKey: "configured" }, async (server) => {
        expect((await server.ask("/metrics", { key: "configured" })).status).toBe(200);
        expectError(await server.ask("/metrics", { key: generated }), 401);
        expect(JSON.stringify(server.database.credentials.entries(""))).not.toContain("configured");
      });
      await withServer({ dataDir, adminKey: undefined }, async (server) => {
        expect((await server.ask("/metrics", { key: generated })).status).toBe(200);
        expectError(await server.ask("/metrics", { key: "configured" }), 401);
      });
    }));
});

describe("sessions", () => {
  test("[A5] a session lives for 24 hours after its last use", () =>
    inFreshDirectory(async (dataDir) => {
      let now = Date.now();
      await withServer({ dataDir, clock: () => now }, async (server) => {
        const { access_token, created_at, expires_at } = (await logIn(server)).json;
        expect(created_at).toBe(Math.floor(now / 1000));
        expect(expires_at).toBe(Math.floor((now + 24 * hour) / 1000));
        const status = async () => (await server.ask("/metrics", { key: access_token })).status;
        now += 23 * hour;
        expect(await status()).toBe(200);
        now += 23 * hour;
        expect(await status()).toBe(200);
        now += 24 * hour;
        expect(await status()).toBe(401);
        now -= 24 * hour;
        expect(await status()).toBe(401);
        await expect.poll(() => server.database.credentials.entries("session:")).toEqual([]);
      });
    }));

  test("[A5] it survives restarts, with its last use", () =>
    inFreshDirectory(async (dataDir) => {
      let now = Date.now();
      const clock = () => now;
      const key = await withServer(
        { dataDir, clock },
        async (server) => (await logIn(server)).json.access_token as string,
      );
      now += 20 * hour;
      await withServer({ dataDir, clock }, async (server) => {
        expect((await server.ask("/metrics", { key })).status).toBe(200);
        expect(JSON.stringify(server.database.credentials.entries(""))).not.toContain(key);
      });
      now += 20 * hour;
      await withServer({ dataDir, clock }, async (server) => {
        expect((await server.ask("/metrics", { key })).status).toBe(200);
      });
      now += 25 * hour;
      await withServer({ dataDir, clock }, async (server) => {
        expect((await server.ask("/metrics", { key })).status).toBe(401);
        await expect.poll(() => server.database.credentials.entries("session:")).toEqual([]);
      });
    }));

  test("[A5] the last use is stored at most once a minute", () =>
    inFreshDirectory(async (dataDir) => {
      let now = Date.now();
      await withServer({ dataDir, clock: () => now }, async (server) => {
        const { access_token } = (await logIn(server)).json;
        const stored = () =>
          (server.database.credentials.entries("session:")[0][1] as { lastUsedMs: number }).lastUsedMs;
        const created = now;
        const use = async () =>
          expect((await server.ask("/metrics", { key: access_token })).status).toBe(200);
        now += 59_000;
        await use();
        expect(stored()).toBe(created);
        now += 2_000;
        await use();
        await expect.poll(stored).toBe(now);
      });
    }));

  test("[A8] a session ends with the admin key that created it", () =>
    inFreshDirectory(async (dataDir) => {
      const key = await withServer(
        { dataDir, adminKey: "old" },
        async (server) => (await logIn(server, "old")).json.access_token as string,
      );
      await withServer({ dataDir, adminKey: "new" }, async (server) => {
        expect((await server.ask("/metrics", { key })).status).toBe(401);
      });
      await withServer({ dataDir, adminKey: "old" }, async (server) => {
        expect((await server.ask("/metrics", { key })).status).toBe(401);
      });
    }));
});

describe("without authentication", () => {
  test("[A7] --no-auth is rejected on any address that other machines can reach", () =>
    inFreshDirectory(async (dataDir) => {
      const started = startServer({ dataDir, port: 0, host: "0.0.0.0", noAuth: true, logLevel: "silent" });
      await expect(started).rejects.toThrow(ConfigError);
      await expect(started).rejects.toThrow(/loopback/);
    }));

  test("[A7] on a loopback address everyone may do everything, and login works", () =>
    inFreshDirectory((dataDir) =>
      withServer({ dataDir, adminKey: undefined, noAuth: true }, async (server) => {
        expect(server.adminKeyFile).toBeUndefined();
        expect((await server.ask("/vectordb/collections", { key: null })).status).toBe(200);
        const { access_token } = (await logIn(server, "anything")).json;
        expect((await server.ask("/vectordb/collections", { key: access_token })).status).toBe(200);
        expect(server.database.credentials.entries("").map(([name]) => name)).toEqual(["cursor-secret"]);
      }),
    ));

  test("[A7] without a key, no page in a browser gets in by its own host name or by a request without a CORS preflight", () =>
    inFreshDirectory((dataDir) =>
      withServer(
        { dataDir, adminKey: undefined, noAuth: true, corsOrigins: ["https://console.example.org"] },
        async (server) => {
          const status = async (headers: Record<string, string>) => {
            const socket = await server.connect();
            const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
            socket.write(`GET /vectordb/collections HTTP/1.1\r\n${lines.join("")}\r\n`);
            const answer = await readAnswer(socket);
            socket.destroy();
            return answer?.status;
          };
          const local = `127.0.0.1:${server.port}`;
          for (const Host of [local, "localhost", "[::1]:8443", "127.0.0.1", "LOCALHOST:80"])
            expect([Host, await status({ Host })]).toEqual([Host, 200]);
          expect(await status({})).toBe(200);
          for (const Host of [
            "evil.example.org",
            "evil.example.org:8443",
            "127.0.0.1.example.org",
            "10.0.0.1",
          ])
            expect([Host, await status({ Host })]).toEqual([Host, 401]);
          expect(await status({ Host: local, Origin: `http://${local}` })).toBe(200);
          expect(await status({ Host: local, Origin: "https://console.example.org" })).toBe(200);
          for (const Origin of ["https://evil.example.org", "null", "http://127.0.0.1:1"])
            expect([Origin, await status({ Host: local, Origin })]).toEqual([Origin, 401]);
        },
      ),
    ));
});
