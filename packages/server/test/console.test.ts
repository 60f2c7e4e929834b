import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { buffer } from "node:stream/consumers";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { expectError, startTestServer, type TestServer } from "./running.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startTestServer();
});
afterAll(() => server.end());

/** As a browser asks for an address that its user has entered. */
const browser = {
  key: null,
  headers: { accept: "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8", "content-type": undefined },
};
const anonymous = { key: null };

/** The paths of the files that the page names. */
async function filesOfPage(): Promise<string[]> {
  const page = await server.ask("/", browser);
  return [...page.text.matchAll(/(?:src|href)="(\/console\/[^"]+)"/g)].map(([, path]) => path);
}

/** An answer as it is on the wire: fetch would decompress it. */
async function rawAnswer(path: string, accepted: string) {
  const sent = request(`${server.url}${path}`, { headers: { "accept-encoding": accepted } }).end();
  const [answer] = (await once(sent, "response")) as [IncomingMessage];
  return { headers: answer.headers, body: await buffer(answer) };
}

describe("the console", () => {
  test("[U1] is a page at / that needs no key and is asked for anew", async () => {
    const page = await server.ask("/", browser);
    expect(page.status).toBe(200);
    expect(page.headers.get("content-type")).toBe("text/html; charset=utf-8");
    expect(page.headers.get("cache-control")).toBe("no-cache");
    expect(page.text).toContain("<title>Quiver</title>");
  });

  test("[U1] has files with a hash in their names, which browsers may keep", async () => {
    const paths = await filesOfPage();
    expect(paths.length).toBeGreaterThanOrEqual(3);
    for (const path of paths) {
      const file = await server.ask(path, anonymous);
      expect([path, file.status]).toEqual([path, 200]);
      expect(path).toMatch(/-[\w-]{8}\.(js|css|svg)$/);
      expect(file.headers.get("cache-control")).toBe("public, max-age=31536000, immutable");
      expect(file.headers.get("content-type")).toMatch(/^(text\/javascript|text\/css|image\/svg\+xml)/);
    }
  });

  test("[U1] is sent as small as the client accepts", async () => {
    const [script] = (await filesOfPage()).filter((path) => path.endsWith(".js"));
    const plain = await rawAnswer(script, "identity");
    expect(plain.headers["content-encoding"]).toBeUndefined();
    const packed = await rawAnswer(script, "gzip, deflate");
    expect(packed.headers["content-encoding"]).toBe("gzip");
    expect(gunzipSync(packed.body).equals(plain.body)).toBe(true);
    const brotli = await rawAnswer(script, "gzip, deflate, br");
    expect(brotli.headers["content-encoding"]).toBe("br");
    expect(brotliDecompressSync(brotli.body).equals(plain.body)).toBe(true);
    expect((await rawAnswer(script, "br;q=0, gzip")).headers["content-encoding"]).toBe("gzip");
    for (const { headers } of [plain, packed, brotli]) expect(headers.vary).toBe("accept-encoding");
  });

  test("[U2] may load nothing from another host, run no inline script, and be in no frame", async () => {
    for (const path of ["/", ...(await filesOfPage())]) {
      const { headers } = await server.ask(path, anonymous);
      const policy = headers.get("content-security-policy") ?? "";
      expect(policy).toContain("default-src 'none'");
      expect(policy).toContain("script-src 'self';");
      expect(policy).toContain("frame-ancestors 'none'");
      expect(policy).not.toContain("unsafe");
      expect(headers.get("x-content-type-options")).toBe("nosniff");
    }
  });

  test("[U1] has no other files than those of its build", async () => {
    for (const name of ["none.js", "..%2Findex.html", "..%2F.stamp", "%2e%2e%2findex.html", "x.js.br"]) {
      expectError(await server.ask(`/console/${name}`, anonymous), 404, "route_not_found");
    }
  });

  test("[U3] is not there when it is switched off", async () => {
    const without = await startTestServer({ console: false });
    try {
      expectError(await without.ask("/"), 404, "route_not_found");
      const [path] = await filesOfPage();
      expectError(await without.ask(path), 404, "route_not_found");
      const page = await without.ask("/", browser);
      expect(page.status).toBe(404);
      expect(page.text).not.toContain('href="/"');
    } finally {
      await without.end();
    }
  });
});

describe("an address that does not exist", () => {
  test("[U4] is a page for a browser, without a key", async () => {
    const page = await server.ask("/nowhere/<script>", browser);
    expect(page.status).toBe(404);
    expect(page.headers.get("content-type")).toBe("text/html; charset=utf-8");
    expect(page.headers.get("content-security-policy")).toContain("default-src 'none'");
    expect(page.text).toContain('<a href="/">');
    expect(page.text).not.toContain("nowhere");
  });

  test("[U4] is JSON for everybody else", async () => {
    expectError(await server.ask("/nowhere"), 404, "route_not_found");
    expectError(await server.ask("/nowhere", anonymous), 401, "unauthorized");
    expectError(
      await server.ask("/nowhere", { headers: { accept: "application/json" } }),
      404,
      "route_not_found",
    );
    const post = { method: "POST", body: {}, headers: { accept: "text/html" } };
    expectError(await server.ask("/nowhere", post), 404, "route_not_found");
  });

  test("[U4] differs from one that exists: a browser gets the error of the API there", async () => {
    expectError(await server.ask("/vectordb/collections", browser), 401, "unauthorized");
    const wrongMethod = { headers: { accept: "text/html" } };
    expectError(await server.ask("/auth/create-session", wrongMethod), 405, "method_not_allowed");
  });
});
