// How are the kernels compiled?
//
//   node packages/kernels/build.mjs     writes dist/release.wasm, dist/debug.wasm and the same of the HNSW graph, twice, of postings and of numbers in text
//
// Plain JavaScript for Node.js 20 or newer, called by tools/launch.mjs whenever the sources or the compiler have changed. The compiler runs
// in this process. The modules import a memory of up to 65,536 pages (4 GiB), shared except for numbers in text, and must not have data segments, because each instance
// would write them into the caller's memory; that is checked here.

import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import asc from "assemblyscript/asc";

const here = dirname(fileURLToPath(import.meta.url));
const dist = join(here, "dist");

const common = [
  "--baseDir",
  here,
  "--enable",
  "simd",
  "--enable",
  "threads",
  "--importMemory",
  "--noExportMemory",
  "--initialMemory",
  "1",
  "--maximumMemory",
  "65536",
  "--runtime",
  "stub",
  // A failed assertion is a bare trap: the usual abort would need its file names as data in the memory.
  "--use",
  "abort=",
];

const rows = "assembly/index.ts";
const graph = "assembly/hnsw/index.ts";
const postings = "assembly/postings/index.ts";
const floats = "assembly/floats/index.ts";
const shared = "--sharedMemory";
const relaxed = [graph, shared, "--enable", "relaxed-simd"];
const release = ["-O3", "--noAssert"];
const builds = {
  release: [rows, shared, ...release],
  debug: [rows, shared, "--debug"],
  "hnsw-release": [...relaxed, ...release],
  "hnsw-debug": [...relaxed, "--debug"],
  // For machines without relaxed SIMD: the same results with more instructions.
  "hnsw-plain-release": [graph, shared, ...release],
  "hnsw-plain-debug": [graph, shared, "--debug"],
  "postings-release": [postings, shared, ...release],
  "postings-debug": [postings, shared, "--debug"],
  "floats-release": [floats, ...release],
  "floats-debug": [floats, "--debug"],
};

/** Compiles one build and returns its bytes; throws with the compiler's words. */
async function compile(name, options) {
  let bytes;
  let words = "";
  const { error } = await asc.main([...common, ...options, "--outFile", `${name}.wasm`], {
    stderr: { write: (text) => (words += text) },
    stdout: { write: (text) => (words += text) },
    writeFile: (_path, contents) => {
      bytes = contents;
    },
  });
  if (error !== null || bytes === undefined) throw new Error(`${words}${error?.message ?? ""}`);
  for (const { kind, name: entry } of WebAssembly.Module.imports(new WebAssembly.Module(bytes))) {
    if (kind !== "memory") throw new Error(`the ${name} build imports ${entry}; only the memory is allowed`);
  }
  if (hasSection(bytes, DATA_SECTION)) throw new Error(`the ${name} build has data segments`);
  return bytes;
}

const DATA_SECTION = 11;

/** Whether a WebAssembly binary has a section of this id: after 8 bytes, each section is its id, size and bytes. */
function hasSection(bytes, id) {
  for (let at = 8; at < bytes.length; ) {
    const found = bytes[at++];
    let size = 0;
    for (let shift = 0, byte = 0x80; byte & 0x80; shift += 7) {
      byte = bytes[at++];
      size |= (byte & 0x7f) << shift;
    }
    if (found === id) return true;
    at += size;
  }
  return false;
}

try {
  mkdirSync(dist, { recursive: true });
  const sizes = [];
  for (const [name, options] of Object.entries(builds)) {
    const bytes = await compile(name, options);
    // Renamed into place, so that a process that starts meanwhile reads the old kernels or the new ones.
    const path = join(dist, `${name}.wasm`);
    writeFileSync(`${path}.new`, bytes);
    renameSync(`${path}.new`, path);
    sizes.push(`${name}.wasm ${bytes.length} bytes`);
  }
  console.log(`kernels: ${sizes.join(", ")}`);
} catch (error) {
  console.error(`kernels: ${error instanceof Error ? error.message : error}`);
  process.exitCode = 1;
}
