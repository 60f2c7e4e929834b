// How is the console built?
//
// Vite makes a page of it and what it loads, with a hash of the content in each name. Every file is compressed here, once and as well as
// possible, so that the server need not do it. The set-up of tools/launch.mjs runs this when a source has changed.

import { globSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { build } from "vite";

/** All files together, compressed, as a browser loads them. */
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

let bytes = 0;
for (const name of globSync("**/*.{html,js,css,svg}", { cwd: dist })) {
  const path = join(dist, name);
  const content = readFileSync(path);
  const brotli = {
    params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: content.length },
  };
  writeFileSync(`${path}.br`, brotliCompressSync(content, brotli));
  writeFileSync(`${path}.gz`, gzipSync(content, { level: 9 }));
  bytes += statSync(`${path}.gz`).size;
}
if (bytes > bytesMax)
  throw new Error(`The console has ${bytes} bytes, compressed by gzip; at most ${bytesMax} are allowed.`);
