// How is the API reference served without any other server?
//
// Scalar's script comes from the installed package. The content security policy guarantees that nothing else is loaded and run: the browser
// blocks every address but this server's, and scripts in the page, because the console keeps a key for the same origin. So the page is ours:
// that of the package begins with a script in itself. Page and script are sent compressed, and not again to a browser that has them.

import type { FastifyInstance } from "fastify";
import { openapiPaths } from "./openapi.ts";
import { PackedText } from "./packed-text.ts";

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

export async function registerDocs(app: FastifyInstance): Promise<void> {
  // Loaded only here: serving threads do without, and without its memory.
  const { default: scalar } = await import("@scalar/fastify-api-reference");
  // The hook is for the routes of this plugin alone.
  await app.register(async (docs) => {
    const packed = new Map<string, PackedText>();
    docs.addHook("onSend", async (request, reply, payload) => {
      const { url } = request.routeOptions;
      if (typeof payload !== "string" || reply.statusCode !== 200 || url === undefined) return payload;
      let text = packed.get(url);
      if (text === undefined) {
        text = new PackedText(url === `${docsPath}/` ? page : payload);
        packed.set(url, text);
      }
      return text.answer(request, reply);
    });
    await docs.register(scalar, {
      routePrefix: docsPath,
      hooks: {
        onRequest: (_request, reply, done) => {
          reply.header("content-security-policy", policy);
          done();
        },
      },
      configuration,
    });
  });
}
