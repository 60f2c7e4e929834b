// How is the console built?
//
// Vite makes a page of it and what it loads, with a hash of the content in each name. The script of the API reference lies beside it: its
// package has it as a string in a module, which a server would hold in memory. Every file is compressed here, once, so that the server need
// not do it. The set-up of tools/launch.mjs runs this when a source has changed.

import { globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import scalar from "@scalar/fastify-api-reference";
import Fastify from "fastify";
import { build } from "vite";

/** All files of the console together, compressed, as a browser loads them. */
const bytesMax = 200_000;

const root = import.meta.dirname;
const dist = join(root, "dist");

rmSync(dist, { recursive: true, force: true });
const jsx = { oxc: { jsx: { runtime: "automatic", importSource: "preact" } } };
await build({
  configFile: false,
  root,
  base: "/",
  logLevel: "warn",
  ...jsx,
  worker: { format: "es" },
  build: {
    outDir: dist,
    assetsDir: "console",
    target: "es2022",
    cssTarget: ["chrome123", "firefox120", "safari17.5"],
    // The policy of the page allows no data: addresses for scripts, and a separate file is cached.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
});

/** @returns bytes in gzip. @param quality of brotli, at most 11: that takes 6 s for the 4.4 MB of the reference, 6 takes 0.13 s for an eighth more */
function compress(path, quality) {
  const content = readFileSync(path);
  const params = {
    [constants.BROTLI_PARAM_QUALITY]: quality,
    [constants.BROTLI_PARAM_SIZE_HINT]: content.length,
  };
  writeFileSync(`${path}.br`, brotliCompressSync(content, { params }));
  const gzipped = gzipSync(content, { level: 9 });
  writeFileSync(`${path}.gz`, gzipped);
  return gzipped.length;
}

let bytes = 0;
for (const name of globSync("**/*.{html,js,css,svg}", { cwd: dist })) bytes += compress(join(dist, name), 11);
if (bytes > bytesMax)
  throw new Error(`The console has ${bytes} bytes, compressed by gzip; at most ${bytesMax} are allowed.`);

const app = Fastify();
await app.register(scalar, { routePrefix: "/docs", configuration: { url: "/openapi.json" } });
const { body, statusCode } = await app.inject("/docs/js/scalar.js");
if (statusCode !== 200)
  throw new Error(`The package of the API reference gives its script with ${statusCode}.`);
mkdirSync(join(dist, "reference"));
const script = join(dist, "reference", "scalar.js");
writeFileSync(script, body);
compress(script, 6);
