// How is the API reference served without any other server?
//
// Scalar's script comes from its package, out of which the build of the console takes it (packages/console/build.mjs): the server reads it
// from disk when it is asked for, since loading the package takes 30 MB of memory. The content security policy guarantees that nothing else is
// loaded and run: the browser blocks every address but this server's, and scripts in the page, because the console keeps a key for the same
// origin. So the page is ours: that of the package begins with a script in itself. Page and script are sent compressed, and not again to a
// browser that has them.

import { join } from "node:path";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { consoleFiles } from "./console-files.ts";
import { openapiPaths } from "./openapi.ts";
import { PackedFile, PackedText } from "./packed-text.ts";

export const docsPath = "/docs";

const policy = [
  "default-src 'none'",
  "connect-src 'self'",
  "font-src 'self' data:",
  "form-action 'self'",
  "frame-ancestors 'none'",
  "base-uri 'none'",
  "img-src 'self' data: blob:",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "worker-src 'self' blob:",
].join("; ");

/** What Scalar shows, and what it leaves out: all that would ask another server. */
const configuration = {
  url: openapiPaths[0],
  withDefaultFonts: false,
  telemetry: false,
  agent: { disabled: true, hideAddApi: true },
  mcp: { disabled: true },
  showDeveloperTools: "never",
  hideClientButton: true,
} as const;

/** The script finds the element with the configuration, which is data and is not run. */
const page = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Quiver API</title><link rel="icon" href="data:,"></head>
<body><script id="api-reference" type="application/json" data-configuration='${JSON.stringify(configuration)}'></script>
<script src="js/scalar.js"></script></body></html>
`;

const options = { schema: { hide: true } as object };

export function registerDocs(app: FastifyInstance): void {
  const serve = (path: string, type: string, content: PackedText | PackedFile) =>
    app.get(path, options, async (request: FastifyRequest, reply: FastifyReply) => {
      reply.header("content-security-policy", policy).type(`${type}; charset=utf-8`);
      return reply.send(await content.answer(request, reply));
    });
  app.get(docsPath, options, (_request, reply) => reply.redirect(`${docsPath}/`, 301));
  serve(`${docsPath}/`, "text/html", new PackedText(page));
  const script = new PackedFile(join(consoleFiles, "reference", "scalar.js"));
  serve(`${docsPath}/js/scalar.js`, "text/javascript", script);
}
