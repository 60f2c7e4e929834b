// How is the command compiled into one file a thread?
//
//   node packages/cli/build.mjs     writes dist: main.js, a file for each thread that it starts, the kernels, the console, licences.txt
//
// A thread of Node.js holds the text and the tables of every module that it has loaded. Loaded one by one, those of a server with two serving
// threads are 3,500 modules, and half of its memory at rest (docs/decisions/memory.md). A file for each thread has only what that
// thread uses; of the others no thread knows. What only some commands need is in files beside main.js, loaded with these commands.
//
// Lines and names of functions stay, so that a stack trace can be read. Comments and all characters beyond ASCII go: with one such character,
// V8 holds the whole text in two bytes a character.
//
// Plain JavaScript for Node.js 24, called by tools/launch.mjs whenever a source has changed; tools/pack publishes what it writes.

import {
  copyFileSync,
  cpSync,
  globSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { rolldown } from "rolldown";

const root = join(import.meta.dirname, "..");
const dist = join(import.meta.dirname, "dist");
/** Replaces `dist` when it is complete: a server that runs may still start a thread from there. */
const made = join(import.meta.dirname, "dist-new");

/** Packages that stay outside: one has a binary, the others are loaded in rare cases, and together are as large as the rest. */
const isOutside = (name, importer) =>
  /^(node:|lmdb$|pino-pretty$)/.test(name) ||
  // The metrics need only the interface of OpenTelemetry, which every thread loads with them.
  (name.startsWith("@opentelemetry/") && !importer?.includes("prom-client"));

/** Modules that find files beside themselves, as they are in `dist`. */
const replacements = {
  "engine/src/process/kernel-builds.ts": `import { readFileSync } from "node:fs";
export const kernelBytes = (build) => readFileSync(new URL(\`kernels/\${build}.wasm\`, import.meta.url));`,
  "server/src/operations/console-files.ts": `import { join } from "node:path";
export const consoleFiles = join(import.meta.dirname, "console");`,
};

const replaced = new Set();
const ownFiles = {
  name: "own files",
  load(id) {
    const module = id.slice(root.length + 1).replaceAll("\\", "/");
    if (Object.hasOwn(replacements, module)) replaced.add(module);
    return replacements[module];
  },
  transform(code, id) {
    if (!id.startsWith(root)) return undefined;
    const pointed = code.replaceAll(/new URL\("\.\/([\w-]+)\.ts", import\.meta\.url\)/g, (_, name) => {
      threads.set(name, join(dirname(id), `${name}.ts`));
      return `new URL("./${name}.js", import.meta.url)`;
    });
    return pointed === code ? undefined : pointed;
  },
};

const escaped = (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;

/** Program -> its first module. Grows while they are compiled, by the threads that they start. */
const threads = new Map([["main", join(import.meta.dirname, "src", "main.ts")]]);
/** Directories of the packages that are in the files. */
const packages = new Set();

rmSync(made, { recursive: true, force: true });
mkdirSync(made);
// A map that grows is iterated to its end.
for (const [name, input] of threads) {
  const bundle = await rolldown({
    input,
    platform: "node",
    external: isOutside,
    plugins: [ownFiles],
    logLevel: "silent",
  });
  const { output } = await bundle.generate({
    format: "esm",
    comments: false,
    minify: {
      compress: true,
      mangle: { toplevel: false, keepNames: true },
      codegen: { removeWhitespace: false },
    },
    entryFileNames: `${name}.js`,
    chunkFileNames: `${name}-[name]-[hash].js`,
  });
  for (const { fileName, code, moduleIds } of output) {
    writeFileSync(join(made, fileName), code.replaceAll(/[\u0080-\uffff]/g, escaped));
    for (const id of moduleIds) {
      const [folder] = /^.*[/\\]node_modules[/\\](@[^/\\]+[/\\])?[^/\\]+/.exec(id) ?? [];
      if (folder !== undefined) packages.add(folder);
    }
  }
  await bundle.close();
}

for (const module of Object.keys(replacements))
  if (!replaced.has(module)) throw new Error(`no program has the module ${module}, which is replaced`);

/** The licences of the packages ask that they are told of wherever the packages are. */
const licences = [...packages].toSorted().map((folder) => {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const texts = readdirSync(folder)
    .filter((file) => /^(licen[cs]e|notice|copying)/i.test(file))
    .toSorted();
  const parts = texts.map((file) => readFileSync(join(folder, file), "utf8").trim());
  return [`${name} ${version} (${license})`, ...parts].join("\n\n");
});
writeFileSync(join(made, "licences.txt"), `${licences.join(`\n\n${"-".repeat(78)}\n\n`)}\n`);

mkdirSync(join(made, "kernels"));
for (const file of globSync(join(root, "kernels", "dist", "*release.wasm")))
  copyFileSync(file, join(made, "kernels", basename(file)));
const filter = (path) => !path.endsWith(".stamp");
cpSync(join(root, "console", "dist"), join(made, "console"), { recursive: true, filter });

rmSync(dist, { recursive: true, force: true });
renameSync(made, dist);
