// How is the console served, and what does a browser get for a page that does not exist?
//
// The console is a page and the files that it loads: scripts, styles and a worker, with a hash of their content in their names. The build has
// compressed them (FILE.br, FILE.gz); a client that takes neither gets the file itself. None of them needs a key: they contain no data, and
// the page asks for the key that its requests need.
//
// The content security policy guarantees that the page loads and asks nothing but this server, and that no other page frames it.

import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { join } from "node:path";
import { QuiverError } from "@quiverdb/protocol/errors";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { ConfigError } from "../config.ts";
import { consoleFiles } from "./console-files.ts";
import { codingFor, endings } from "./packed-text.ts";

const headers = (policy: readonly string[]) => ({
  "content-security-policy": ["default-src 'none'", ...policy].join("; "),
  "cross-origin-opener-policy": "same-origin",
  "referrer-policy": "no-referrer",
});
const noFrames = ["base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"];

const pageHeaders = headers([
  "connect-src 'self'",
  "img-src 'self' data:",
  "script-src 'self'",
  "style-src 'self'",
  "worker-src 'self'",
  ...noFrames,
]);

const types: Readonly<Record<string, string>> = {
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  css: "text/css; charset=utf-8",
  svg: "image/svg+xml",
};

const options = {
  config: { need: { role: "anyone", collections: "nowhere", takesFilter: true } as const },
  schema: { hide: true } as object,
};

/** @throws ConfigError if the console has not been built */
export function registerConsole(app: FastifyInstance): void {
  if (!existsSync(join(consoleFiles, "index.html"))) {
    throw new ConfigError(
      "console",
      "the files of the console are missing. Build them with `node tools/launch.mjs setup`, or start without the console.",
    );
  }
  const send = async (request: FastifyRequest, reply: FastifyReply, name: string, caching: string) => {
    const coding = codingFor(request.headers["accept-encoding"]);
    const content = await contentOf(coding === undefined ? name : name + endings[coding]);
    if (coding !== undefined) reply.header("content-encoding", coding);
    return reply
      .headers(pageHeaders)
      .headers({ "cache-control": caching, vary: "accept-encoding" })
      .type(types[name.slice(name.lastIndexOf(".") + 1)])
      .send(content);
  };
  app.get("/", options, (request, reply) => send(request, reply, "index.html", "no-cache"));
  app.get("/console/:file", options, (request, reply) => {
    const { file } = request.params as { file: string };
    if (!/^[\w-]+\.(js|css|svg)$/.test(file)) throw unknownFile();
    return send(request, reply, join("console", file), "public, max-age=31536000, immutable");
  });
}

const unknownFile = () => new QuiverError("route_not_found", "The console has no file of this name.");

/** @throws route_not_found */
async function contentOf(name: string): Promise<Buffer> {
  try {
    return await readFile(join(consoleFiles, name));
  } catch (error) {
    throw (error as NodeJS.ErrnoException).code === "ENOENT" ? unknownFile() : error;
  }
}

/** Whether a person has opened an address in a browser: programs that call the API do not ask for HTML. */
export const asksForPage = ({ method, headers: { accept } }: IncomingMessage): boolean =>
  method === "GET" && /(^|[\s,])text\/html\b/i.test(accept ?? "");

const style = `:root{color-scheme:light dark}
body{font:16px/1.6 system-ui,sans-serif;margin:15vh auto;max-width:34rem;padding:0 1rem}
h1{font-size:1.4rem}`;
const styleHash = createHash("sha256").update(style).digest("base64");
const unknownPageHeaders = headers([`style-src 'sha256-${styleHash}'`, ...noFrames]);

/** The page for an address that does not exist. @param hasConsole whether there is one to link to */
export function sendUnknownPage(reply: FastifyReply, hasConsole: boolean): FastifyReply {
  const start = hasConsole ? '<li><a href="/">the console</a></li>' : "";
  return reply
    .code(404)
    .headers(unknownPageHeaders)
    .headers({ "cache-control": "no-store", vary: "accept" })
    .type(types.html)
    .send(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Not found - Quiver</title><style>${style}</style></head>
<body><main><h1>There is no page at this address</h1>
<p>This is a Quiver server. It has:</p>
<ul>${start}<li><a href="/docs">the reference of its API</a></li></ul></main></body></html>
`);
}
