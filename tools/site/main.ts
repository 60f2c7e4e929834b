// npm run docs                 builds the site of the documents into site/
// npm run docs -- --serve      builds it and serves it on 127.0.0.1
// npm run docs -- --check      builds it without writing site/, and compiles what builds it; the step `site` of `npm run check`

import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { installOnce } from "../install-once.ts";

const { out, base, serve, port, check } = parseArgs({
  options: {
    out: { type: "string", default: "site" },
    /** The path under which the site will be found, with a slash at both ends. */
    base: { type: "string", default: "/" },
    serve: { type: "boolean", default: false },
    port: { type: "string", default: "4173" },
    check: { type: "boolean", default: false },
  },
}).values;

installOnce(import.meta.dirname, "the generators of the site");
const { buildSite, compileTools, publishSite } = await import("./build.ts");
const errors = await buildSite(base);
if (check) errors.push(...(await compileTools()));
for (const error of errors) console.error(error);
if (errors.length > 0) process.exitCode = 1;
else if (!check) {
  const folder = resolve(out);
  publishSite(folder);
  console.log(`the site is in ${folder}`);
  if (serve) {
    const { serveSite } = await import("./serve.ts");
    const { address } = await serveSite(folder, Number(port), base);
    console.log(`serving ${address}; Ctrl-C ends it`);
  }
}
