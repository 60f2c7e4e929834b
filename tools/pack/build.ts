// How are the published packages made of the workspace?
//
//   sources --tsc--> .cache/pack/compiled --places, rewrite, flatten--> .cache/pack/packages/NAME --npm pack--> DIR/NAME-VERSION.tgz
//
// A package has what its entry loads and nothing else: JavaScript with source maps, declarations that its entry needs, the kernels as bytes in
// a module, the built console, its README and the licence. The command is what `npm start` runs, too (packages/cli/build.mjs).

import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, posix, resolve } from "node:path";
import { Flattener } from "./flatten.ts";
import { kernelsModule } from "./kernels.ts";
import { manifestOf } from "./manifest.ts";
import {
  compiledFile,
  entries,
  folders,
  type PackageName,
  Places,
  packageNames,
  reachable,
} from "./places.ts";
import { allowUndefined, rewriteImports, rewriteUrls, threadsOf } from "./rewrite.ts";

const root = resolve(import.meta.dirname, "../..");
const cache = join(root, ".cache", "pack");
const compiled = join(cache, "compiled");
/** `npm publish --workspaces` publishes what is here. */
export const staged = join(cache, "packages");

/** The programs of packages that have a command. */
const commands: Readonly<Partial<Record<PackageName, string>>> = {
  "@quiverdb/mcp": "mcp/main",
};
/** The modules that the packages begin with. */
const roots = [...Object.values(entries), ...Object.values(commands)];

/** Where the console is in `@quiverdb/database`. */
const consoleFolder = "dist/console";

/** Writes the modules and declarations of each published package, a folder for each. */
export async function stage(): Promise<string> {
  compile();
  const modules = loadedModules();
  const places = new Places(protocolOfClient());
  rmSync(staged, { recursive: true, force: true });
  for (const module of modules) await writeModule(module, places);
  await writeDeclarations(places);
  return staged;
}

/** Writes a tarball of each published package. @returns their paths */
export async function pack(out: string): Promise<string[]> {
  await stage();
  copyBuilt(join("console", "dist"), join("@quiverdb", "database", consoleFolder));
  copyBuilt(join("cli", "dist"), join("quiverdb", "dist"));
  for (const name of packageNames) {
    const folder = join(staged, name);
    writeFileSync(
      join(folder, "package.json"),
      `${JSON.stringify(manifestOf(name, root, sourcesOf(folder)), null, 2)}\n`,
    );
    cpSync(join(root, "packages", folders[name], "README.md"), join(folder, "README.md"));
    cpSync(join(root, "LICENSE"), join(folder, "LICENSE"));
  }
  writeFileSync(join(staged, "package.json"), JSON.stringify({ private: true, workspaces: packageNames }));
  mkdirSync(out, { recursive: true });
  const args = ["pack", "--workspaces", "--json", "--pack-destination", resolve(out)];
  const packed = execFileSync("npm", args, { cwd: staged, encoding: "utf8" });
  return (JSON.parse(packed) as { filename: string }[]).map(({ filename }) => join(resolve(out), filename));
}

/** Copies what the set-up has built: the page that the server serves, and the command, with all that it loads but what has a binary. */
function copyBuilt(folder: string, to: string): void {
  const built = join(root, "packages", folder);
  if (!existsSync(join(built, ".stamp")))
    throw new Error(`${folder} has not been built. Run \`node tools/launch.mjs setup\` and start again.`);
  const filter = (path: string) => !path.endsWith(".stamp");
  cpSync(built, join(staged, to), { recursive: true, filter });
}

function compile(): void {
  rmSync(compiled, { recursive: true, force: true });
  const tsc = join(root, "node_modules", "typescript", "bin", "tsc");
  execFileSync(process.execPath, [tsc, "-p", join(import.meta.dirname, "tsconfig.json")], {
    stdio: "inherit",
  });
}

const sourceOf = (module: string) => join(root, "packages", module.replace("/", "/src/").concat(".ts"));
const textOf = (module: string, extension: ".js" | ".d.ts") =>
  readFileSync(compiledFile(compiled, module, extension), "utf8");

/** Everything that the packages load, threads included. */
function loadedModules(): Set<string> {
  let modules = reachable(compiled, roots);
  for (;;) {
    const threads = [...modules].flatMap((module) => threadsOf(textOf(module, ".js"), module));
    const found = reachable(compiled, [...modules, ...threads]);
    if (found.size === modules.size) return found;
    modules = found;
  }
}

/** The modules of the protocol that are loaded without the engine, by the client or by a package that depends on it. */
function protocolOfClient(): Set<string> {
  const needsEngine = /^(database|server|cluster|engine|kernels)\//;
  const enters = (module: string) => !needsEngine.test(module);
  const loaded = reachable(compiled, roots, ".js", enters);
  return new Set([...loaded].filter((module) => module.startsWith("protocol/")));
}

function write(places: Places, module: string, extension: string, text: string): void {
  const path = join(staged, places.packageOf(module), places.pathOf(module) + extension);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}

async function writeModule(module: string, places: Places): Promise<void> {
  if (module === "engine/process/kernel-builds") {
    write(places, module, ".js", kernelsModule(join(root, "packages", "kernels", "dist")));
    return;
  }
  if (module === "server/operations/console-files") {
    const from = posix.dirname(places.pathOf(module));
    const text = `import { join } from "node:path";
export const consoleFiles = join(import.meta.dirname, ${JSON.stringify(posix.relative(from, consoleFolder))});
`;
    write(places, module, ".js", text);
    return;
  }
  const text = rewriteImports(textOf(module, ".js"), module, places);
  write(places, module, ".js", rewriteUrls(text, module, places));
  const map = JSON.parse(readFileSync(`${compiledFile(compiled, module, ".js")}.map`, "utf8"));
  // A path of the workspace would name a file that the package does not have; the source itself is in the map.
  write(places, module, ".js.map", JSON.stringify({ ...map, sourceRoot: "", sources: [`${module}.ts`] }));
}

/** The declarations that the entries need. */
async function writeDeclarations(places: Places): Promise<void> {
  const ofClient = reachable(compiled, ["client/client"], ".d.ts");
  const shapes = [...ofClient].filter((module) => module.startsWith("protocol/shapes/"));
  const flattener = new Flattener(shapes.map(sourceOf));
  // The client has its own declarations of the protocol, also of modules that it does not load.
  const inClient = new Places(ofClient);
  for (const module of ofClient) {
    const isShape = module.startsWith("protocol/shapes/");
    const text = isShape ? await flattener.shapes(sourceOf(module)) : textOf(module, ".d.ts");
    write(inClient, module, ".d.ts", allowUndefined(rewriteImports(text, module, inClient)));
  }
  for (const module of reachable(compiled, Object.values(entries), ".d.ts")) {
    if (inClient.packageOf(module) === "@quiverdb/client") continue;
    write(places, module, ".d.ts", allowUndefined(rewriteImports(textOf(module, ".d.ts"), module, places)));
  }
}

/** All JavaScript of a package, for its dependencies. */
function sourcesOf(folder: string): string[] {
  if (!existsSync(join(folder, "dist"))) return [];
  return (
    readdirSync(join(folder, "dist"), { recursive: true, encoding: "utf8" })
      // The console is bundled: it imports nothing.
      .filter((path) => /\.(js|d\.ts)$/.test(path) && !path.startsWith("console/"))
      .map((path) => readFileSync(join(folder, "dist", path), "utf8"))
  );
}
