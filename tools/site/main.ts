// How is the site of the documents made? By `npm run docs`; `--check` is the step `site` of `npm run check`.

import { resolve } from "node:path";
import { compileTools } from "../compile-tools.ts";
import { installOnce } from "../install-once.ts";
import { misuse, readOptions } from "../options.ts";

const usage = `npm run docs                  builds the site of the documents into site/
npm run docs -- --serve       builds it and serves it on 127.0.0.1
npm run docs -- --check       builds it without writing site/, and compiles what builds it

  --out DIR     the folder that is written; default site
  --base PATH   the path of the site on its host, with a slash at both ends; default /
  --port PORT   of --serve; default 4173, 0 for any free one`;

const { out, base, serve, port, check } = readOptions(usage, {
  out: { type: "string", default: "site" },
  base: { type: "string", default: "/" },
  serve: { type: "boolean", default: false },
  port: { type: "string", default: "4173" },
  check: { type: "boolean", default: false },
});
if (!/^\/(.*\/)?$/.test(base)) misuse(`--base is ${base}; expected a slash at both ends.`, usage);
if (!/^\d+$/.test(port) || Number(port) > 65_535)
  misuse(`--port is ${port}; expected a port from 0 to 65535.`, usage);

installOnce(import.meta.dirname, "the generators of the site");
const { buildSite, publishSite } = await import("./build.ts");
const errors = await buildSite(base);
if (check) errors.push(...(await compileTools(import.meta.dirname)));
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
