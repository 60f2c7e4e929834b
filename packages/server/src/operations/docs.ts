// How is the API reference served without any other server?
//
// Scalar's page and its script come from the installed package. The content security policy guarantees that nothing else is loaded: the
// browser blocks every address but this server's. Page and script are sent compressed, and not again to a browser that has them.

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
  "script-src 'self' 'unsafe-inline'",
  "style-src 'self' 'unsafe-inline'",
  "worker-src 'self' blob:",
].join("; ");

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
        text = new PackedText(payload);
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
      configuration: {
        url: openapiPaths[0],
        pageTitle: "Quiver API",
        withDefaultFonts: false,
        telemetry: false,
        agent: { disabled: true, hideAddApi: true },
        mcp: { disabled: true },
        showDeveloperTools: "never",
        hideClientButton: true,
      },
    });
  });
}
