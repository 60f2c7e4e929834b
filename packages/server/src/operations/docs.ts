// How is the API reference served without any other server?
//
// Scalar's page and its script come from the installed package. The content security policy guarantees that nothing else is loaded: the
// browser blocks every address but this server's.

import type { FastifyInstance } from "fastify";
import { openapiPaths } from "./openapi.ts";

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
  await app.register(scalar, {
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
}
