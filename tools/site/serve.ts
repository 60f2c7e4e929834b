// How is the built site looked at?

import { existsSync, readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { extname, join, normalize } from "node:path";

const types: Readonly<Record<string, string>> = {
  ".css": "text/css; charset=utf-8",
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".json": "application/json",
  ".md": "text/markdown; charset=utf-8",
  ".png": "image/png",
  ".svg": "image/svg+xml",
  ".txt": "text/plain; charset=utf-8",
  ".woff2": "font/woff2",
};

/** Serves a folder on 127.0.0.1 until the process ends. @param port 0 for any free one */
export async function serveSite(
  folder: string,
  port: number,
  base: string,
): Promise<{ address: string; close: () => void }> {
  const server = createServer((request, response) => {
    const path = decoded(request.url ?? "/");
    const inside = path?.startsWith(base) ? normalize(`/${path.slice(base.length)}`) : undefined;
    const found = inside === undefined ? undefined : fileAt(folder, inside);
    const file = found ?? join(folder, "404.html");
    response.writeHead(found === undefined ? 404 : 200, {
      "content-type": types[extname(file)] ?? "application/octet-stream",
    });
    response.end(request.method === "HEAD" ? undefined : readFileSync(file));
  });
  await new Promise<void>((done, fail) => server.once("error", fail).listen(port, "127.0.0.1", done));
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}${base}`;
  return { address, close: () => server.close().closeAllConnections() };
}

/** The path of a request; undefined for one that is not well-formed. */
function decoded(url: string): string | undefined {
  try {
    return decodeURIComponent(url.replace(/[?#].*$/, ""));
  } catch (error) {
    if (error instanceof URIError) return undefined;
    throw error;
  }
}

/** @param path absolute within the site, without steps upwards */
function fileAt(folder: string, path: string): string | undefined {
  const candidates = [join(folder, path), join(folder, path, "index.html"), join(folder, `${path}.html`)];
  return candidates.find((file) => existsSync(file) && statSync(file).isFile());
}
